//! Shared memory of a block, and the threads that touched it last.

use super::fault::{FaultKind, SharedAccess};
use crate::{Shared, WARP};
use core::cell::Cell;
use lanetree_layout::KeyWord;

/// The thread that accesses shared memory, and when.
#[derive(Clone, Copy)]
pub(super) struct Accessor {
    /// Index in the block.
    pub(super) thread: u32,
    /// Collectives that its warp has completed.
    pub(super) warp_time: u32,
    /// The value of [`Self::warp_time`] after the last collective in which the thread took part.
    pub(super) synced: u32,
}

/// An access that is remembered.
#[derive(Clone, Copy)]
struct Tag {
    /// [`SharedMemory::epoch`] at the time; 0 for none.
    epoch: u64,
    warp_time: u32,
    thread: u16,
    access: SharedAccess,
}

const NEVER: Tag = Tag { epoch: 0, warp_time: 0, thread: 0, access: SharedAccess::Read };

/// An element: its byte offset, its size, and where its array ends.
#[derive(Clone, Copy)]
struct Place {
    offset: u64,
    bytes: u32,
    end: u64,
}

impl Place {
    #[inline]
    fn of<T: KeyWord>(array: Shared<T>, index: u32) -> Self {
        let (start, bytes) = (u64::from(array.byte_offset(0)), T::BYTES as u64);
        Self {
            offset: start + u64::from(index) * bytes,
            bytes: T::BYTES as u32,
            end: start + u64::from(array.len()) * bytes,
        }
    }
}

/// 4 bytes.
struct SharedWord {
    value: Cell<u32>,
    written: Cell<Tag>,
    read: Cell<Tag>,
}

/// The shared memory of the running block; reused for the next one.
pub(super) struct SharedMemory {
    words: Vec<SharedWord>,
    bytes: u64,
    check_races: bool,
    /// Counts barriers and blocks: accesses of different epochs are ordered, and anything written before `first_epoch`
    /// belongs to an earlier block.
    epoch: Cell<u64>,
    first_epoch: Cell<u64>,
}

impl SharedMemory {
    pub(super) fn new(bytes: u64, check_races: bool) -> Self {
        let word = || SharedWord { value: Cell::new(0), written: Cell::new(NEVER), read: Cell::new(NEVER) };
        Self {
            words: (0..bytes.div_ceil(4)).map(|_| word()).collect(),
            bytes,
            check_races,
            epoch: Cell::new(1),
            first_epoch: Cell::new(1),
        }
    }

    /// Forgets what the last block wrote.
    pub(super) fn next_block(&self) {
        self.next_epoch();
        self.first_epoch.set(self.epoch.get());
    }

    /// All threads have met at a barrier.
    pub(super) fn next_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Reads an element.
    #[inline]
    pub(super) fn load<T: KeyWord>(&self, array: Shared<T>, index: u32, who: Accessor) -> Result<T, FaultKind> {
        let mut quarters = [0; 4];
        self.read(Place::of(array, index), who, &mut quarters[..T::BYTES / 4])?;
        let part = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Ok(T::from_parts([part(quarters[0], quarters[1]), part(quarters[2], quarters[3])]))
    }

    /// Writes an element.
    #[inline]
    pub(super) fn store<T: KeyWord>(
        &self,
        array: Shared<T>,
        index: u32,
        value: T,
        who: Accessor,
    ) -> Result<(), FaultKind> {
        let [low, high] = value.parts();
        let quarters = [low, low >> 32, high, high >> 32].map(|part| part as u32);
        self.write(Place::of(array, index), who, &quarters[..T::BYTES / 4])
    }

    /// Adds to an element; returns its former value. Atomic, since the block's threads take turns.
    pub(super) fn add(&self, array: Shared<u32>, index: u32, value: u32, who: Accessor) -> Result<u32, FaultKind> {
        let word = self.check(Place::of(array, index))?;
        let cell = self.touch(word, SharedAccess::Atomic, who)?;
        Ok(cell.replace(cell.get().wrapping_add(value)))
    }

    fn read(&self, place: Place, who: Accessor, quarters: &mut [u32]) -> Result<(), FaultKind> {
        let first = self.check(place)?;
        for (quarter, word) in quarters.iter_mut().zip(first..) {
            *quarter = self.touch(word, SharedAccess::Read, who)?.get();
        }
        Ok(())
    }

    fn write(&self, place: Place, who: Accessor, quarters: &[u32]) -> Result<(), FaultKind> {
        let first = self.check(place)?;
        for (&quarter, word) in quarters.iter().zip(first..) {
            self.touch(word, SharedAccess::Write, who)?.set(quarter);
        }
        Ok(())
    }

    /// The number of the element's first word.
    #[inline]
    fn check(&self, Place { offset, bytes, end }: Place) -> Result<usize, FaultKind> {
        let end = end.min(self.bytes);
        if offset + u64::from(bytes) > end {
            return Err(FaultKind::SharedOutOfBounds { offset, bytes, end });
        }
        if !offset.is_multiple_of(u64::from(bytes)) {
            return Err(FaultKind::Misaligned { address: offset as usize, bytes });
        }
        Ok((offset / 4) as usize)
    }

    #[inline]
    fn touch(&self, index: usize, access: SharedAccess, who: Accessor) -> Result<&Cell<u32>, FaultKind> {
        let word = &self.words[index];
        let written = word.written.get();
        if access != SharedAccess::Write && written.epoch < self.first_epoch.get() {
            return Err(FaultKind::UninitialisedShared { offset: 4 * index as u32 });
        }
        let race = |tag: Tag| {
            self.check_races
                && !self.ordered(tag, who)
                && !(access == SharedAccess::Atomic && tag.access == SharedAccess::Atomic)
        };
        let read = word.read.get();
        let racing = if race(written) {
            Some(written)
        } else if access != SharedAccess::Read && race(read) {
            Some(read)
        } else {
            None
        };
        if let Some(tag) = racing {
            return Err(FaultKind::SharedRace {
                offset: 4 * index as u32,
                access,
                other: u32::from(tag.thread),
                other_access: tag.access,
            });
        }
        let tag = Tag { epoch: self.epoch.get(), warp_time: who.warp_time, thread: who.thread as u16, access };
        match access {
            SharedAccess::Read => word.read.set(tag),
            SharedAccess::Write | SharedAccess::Atomic => word.written.set(tag),
        }
        Ok(&word.value)
    }

    /// Whether an earlier access may be ordered before one by `who` now. It is not if no barrier came between and the
    /// other thread is in another warp, nor if it is in the same warp and `who` has taken part in no collective since.
    ///
    /// Some races are missed, since only the last reader of each word is remembered, and since any collective with
    /// `who` counts, whatever its lanes. But whatever is reported is a race, unless the threads order themselves
    /// through atomics on global memory.
    #[inline]
    fn ordered(&self, tag: Tag, who: Accessor) -> bool {
        let thread = u32::from(tag.thread);
        tag.epoch < self.epoch.get()
            || thread == who.thread
            || (thread / WARP == who.thread / WARP && who.synced > tag.warp_time)
    }
}
