//! The staging memory of host batches of ranges.

use super::super::range::RangeScratch;
use super::Sizes;
use bytemuck::Pod;
use core::ops::Range;
use lanetree_base::Result;
use lanetree_layout::{AnyKey, Value};
use lanetree_runtime::{Buffer, Device, PinnedBuffer, Stream};
use std::sync::{Mutex, PoisonError};

/// Pieces that are located at a time: the next one is located while the results of the previous one are counted.
pub(in crate::fixed) const LOCATING: usize = 2;

/// Windows of results in flight at a time.
pub(in crate::fixed) const GATHERING: usize = 4;

/// Where a piece's ranges are located.
pub(in crate::fixed) struct Locating<K> {
    pub(in crate::fixed) stream: Stream,
    pub(in crate::fixed) starts: Buffer<K>,
    pub(in crate::fixed) ends: Buffer<K>,
    pub(in crate::fixed) limits: Buffer<u64>,
    pub(in crate::fixed) scratch: RangeScratch,
    pub(in crate::fixed) offsets: Buffer<u64>,
    pub(in crate::fixed) staged_starts: PinnedBuffer<K>,
    pub(in crate::fixed) staged_ends: PinnedBuffer<K>,
    /// Empty until a range has one.
    pub(in crate::fixed) staged_limits: PinnedBuffer<u64>,
    pub(in crate::fixed) staged_offsets: PinnedBuffer<u64>,
    /// The ranges that are on their way.
    pub(in crate::fixed) busy: Option<usize>,
}

impl<K: AnyKey> Locating<K> {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            starts: device.alloc(0)?,
            ends: device.alloc(0)?,
            limits: device.alloc(0)?,
            scratch: RangeScratch::new(device, 0)?,
            offsets: device.alloc(0)?,
            staged_starts: device.pinned(0)?,
            staged_ends: device.pinned(0)?,
            staged_limits: device.pinned(0)?,
            staged_offsets: device.pinned(0)?,
            busy: None,
        })
    }

    /// Ranges for which there is room in main memory.
    pub(in crate::fixed) fn room(&self) -> usize {
        // The last one to grow stands for both.
        self.staged_ends.len()
    }

    /// Makes room for bounds in main memory, and keeps the bounds of the first `filled` ranges. Memory grows in powers
    /// of two, and never shrinks.
    pub(in crate::fixed) fn reserve_bounds(&mut self, device: &Device, ranges: usize, filled: usize) -> Result<()> {
        if self.room() < ranges {
            let ranges = ranges.next_power_of_two();
            grow(&mut self.staged_starts, device, ranges, filled)?;
            grow(&mut self.staged_ends, device, ranges, filled)?;
        }
        Ok(())
    }

    /// Makes room for the same number of limits as bounds, and keeps the limits of the first `filled` ranges.
    pub(in crate::fixed) fn reserve_limits(&mut self, device: &Device, filled: usize) -> Result<()> {
        let room = self.room();
        if self.staged_limits.len() < room {
            grow(&mut self.staged_limits, device, room, filled)?;
        }
        Ok(())
    }

    /// Makes room on the device for ranges whose bounds are already in main memory, and for their results.
    pub(in crate::fixed) fn reserve_search(&mut self, device: &Device, ranges: usize, limited: bool) -> Result<()> {
        if self.staged_offsets.len() <= ranges {
            let ranges = ranges.next_power_of_two();
            self.starts = device.alloc(ranges)?;
            self.ends = device.alloc(ranges)?;
            self.scratch = RangeScratch::new(device, ranges)?;
            self.offsets = device.alloc(ranges + 1)?;
            // The last one to grow tells for all of them.
            self.staged_offsets = device.pinned(ranges + 1)?;
        }
        if limited && self.limits.len() < self.starts.len() {
            self.limits = device.alloc(self.starts.len())?;
        }
        Ok(())
    }

    /// Waits for the slot's stream.
    pub(in crate::fixed) fn synchronize(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        // SAFETY: the staging memory is used only in the slot's stream, which has been waited for.
        unsafe {
            self.staged_starts.forget_uses();
            self.staged_ends.forget_uses();
            self.staged_limits.forget_uses();
            self.staged_offsets.forget_uses();
        }
        Ok(())
    }

    /// Makes the slot's next piece wait for earlier work in other streams that reads this piece's rows: for the
    /// gathering, but not for the copies after it.
    pub(in crate::fixed) fn come_after_readers(&mut self) -> Result<()> {
        self.scratch.cursors.write_on(&self.stream)?;
        self.offsets.write_on(&self.stream)?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        let bounds = self.starts.bytes() + self.ends.bytes() + self.limits.bytes() + self.offsets.bytes();
        let staged_bounds = (self.staged_starts.len() + self.staged_ends.len()) * size_of::<K>();
        let staged_words = self.staged_limits.len() + self.staged_offsets.len();
        bounds + self.scratch.bytes() + staged_bounds + staged_words * size_of::<u64>()
    }
}

/// Replaces memory by larger memory that starts with the same first elements.
fn grow<T: Pod>(buffer: &mut PinnedBuffer<T>, device: &Device, len: usize, kept: usize) -> Result<()> {
    let mut larger = device.pinned(len)?;
    larger[..kept].copy_from_slice(&buffer[..kept]);
    *buffer = larger;
    Ok(())
}

/// Where the pairs of a window of results are gathered.
pub(in crate::fixed) struct Gathering<K, V> {
    pub(in crate::fixed) stream: Stream,
    pub(in crate::fixed) keys: Buffer<K>,
    pub(in crate::fixed) values: Buffer<V>,
    pub(in crate::fixed) staged_keys: PinnedBuffer<K>,
    pub(in crate::fixed) staged_values: PinnedBuffer<V>,
    /// The pairs that are on their way.
    pub(in crate::fixed) busy: Option<usize>,
}

impl<K: AnyKey, V: Value> Gathering<K, V> {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            keys: device.alloc(0)?,
            values: device.alloc(0)?,
            staged_keys: device.pinned(0)?,
            staged_values: device.pinned(0)?,
            busy: None,
        })
    }

    /// Makes room for pairs. Memory grows in powers of two, and never shrinks.
    pub(in crate::fixed) fn reserve(&mut self, device: &Device, pairs: usize) -> Result<()> {
        // The last one to grow tells for all of them.
        if self.staged_values.len() < pairs {
            let pairs = pairs.next_power_of_two();
            self.keys = device.alloc(pairs)?;
            self.values = device.alloc(pairs)?;
            self.staged_keys = device.pinned(pairs)?;
            self.staged_values = device.pinned(pairs)?;
        }
        Ok(())
    }

    /// Waits for the slot's stream.
    pub(in crate::fixed) fn synchronize(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        // SAFETY: the staged memory is used in this stream, which has been waited for, and in the stream of a small
        // piece's slot, which is waited for before anything else is done.
        unsafe { self.forget_staged() };
        Ok(())
    }

    /// Forgets what uses the staged memory.
    ///
    /// # Safety
    /// All of it is done.
    pub(in crate::fixed) unsafe fn forget_staged(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            self.staged_keys.forget_uses();
            self.staged_values.forget_uses();
        }
    }

    /// Queues the copy back of the first pairs after the kernel that gathers them.
    pub(in crate::fixed) fn download(&mut self, pairs: Range<usize>) -> Result<()> {
        self.keys.download_async(&self.stream, pairs.clone(), &mut self.staged_keys, 0)?;
        self.values.download_async(&self.stream, pairs, &mut self.staged_values, 0)?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        2 * (self.keys.bytes() + self.values.bytes())
    }
}

/// The slots that gather, in turn.
pub(in crate::fixed) struct Ring<K, V> {
    slots: Vec<Gathering<K, V>>,
    /// The slot of the next window, which is now the slot of the oldest window in flight.
    next: usize,
}

impl<K, V> Default for Ring<K, V> {
    fn default() -> Self {
        Self { slots: Vec::new(), next: 0 }
    }
}

impl<K: AnyKey, V: Value> Ring<K, V> {
    /// The slot for the next window. The oldest window may still be in flight in it.
    pub(in crate::fixed) fn next(&mut self, device: &Device) -> Result<&mut Gathering<K, V>> {
        if self.next == self.slots.len() {
            self.slots.push(Gathering::new(device)?);
        }
        let at = self.next;
        self.next = (self.next + 1) % GATHERING;
        Ok(&mut self.slots[at])
    }

    /// The number of the slot of the window that was `windows` before the next one.
    pub(in crate::fixed) fn before_next(&self, windows: usize) -> usize {
        (self.next + GATHERING - windows) % GATHERING
    }

    /// A slot by its number.
    pub(in crate::fixed) fn slot(&mut self, number: usize) -> &mut Gathering<K, V> {
        &mut self.slots[number]
    }

    /// All slots, the slot of the oldest window first.
    pub(in crate::fixed) fn oldest_first(&mut self) -> impl Iterator<Item = &mut Gathering<K, V>> {
        let oldest = self.next.min(self.slots.len());
        let (newer, older) = self.slots.split_at_mut(oldest);
        older.iter_mut().chain(newer)
    }
}

/// All slots of a batch.
pub(in crate::fixed) struct RangeSlots<K, V> {
    pub(in crate::fixed) locating: Vec<Locating<K>>,
    pub(in crate::fixed) gathering: Ring<K, V>,
}

impl<K, V> Default for RangeSlots<K, V> {
    fn default() -> Self {
        Self { locating: Vec::new(), gathering: Ring::default() }
    }
}

impl<K: AnyKey, V: Value> RangeSlots<K, V> {
    /// The slot that locates the `piece`-th piece.
    pub(in crate::fixed) fn locating(&mut self, device: &Device, piece: usize) -> Result<&mut Locating<K>> {
        let at = piece % LOCATING;
        if at == self.locating.len() {
            self.locating.push(Locating::new(device)?);
        }
        Ok(&mut self.locating[at])
    }

    fn bytes(&self) -> usize {
        let located: usize = self.locating.iter().map(Locating::bytes).sum();
        located + self.gathering.slots.iter().map(Gathering::bytes).sum::<usize>()
    }

    /// Waits for everything in flight, and forgets it.
    fn settle(&mut self) {
        for slot in &mut self.locating {
            if slot.busy.take().is_some() {
                let _ = slot.stream.synchronize();
            }
        }
        for slot in &mut self.gathering.slots {
            if slot.busy.take().is_some() {
                let _ = slot.stream.synchronize();
            }
        }
        self.gathering.next = 0;
    }
}

/// The slots of batches of ranges, kept for the next ones.
pub struct RangeStaging<K, V> {
    idle: Mutex<Vec<RangeSlots<K, V>>>,
    /// As measured, but in tests.
    pub sizes: Sizes,
}

impl<K, V> Default for RangeStaging<K, V> {
    fn default() -> Self {
        Self { idle: Mutex::default(), sizes: Sizes::default() }
    }
}

impl<K: AnyKey, V: Value> RangeStaging<K, V> {
    /// Lanes for a batch.
    pub(in crate::fixed) fn take(&self) -> Taken<'_, K, V> {
        let slots = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        Taken { staging: self, slots }
    }

    /// Bytes of device memory and of pinned memory of finished batches.
    pub fn bytes(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter().map(RangeSlots::bytes).sum()
    }
}

/// The slots of a batch in progress. Even after an error, or a panic of the caller's iterator, nothing is in flight on
/// memory that the next batch uses.
pub(in crate::fixed) struct Taken<'a, K: AnyKey, V: Value> {
    staging: &'a RangeStaging<K, V>,
    pub(in crate::fixed) slots: RangeSlots<K, V>,
}

impl<K: AnyKey, V: Value> Drop for Taken<'_, K, V> {
    fn drop(&mut self) {
        let mut slots = core::mem::take(&mut self.slots);
        slots.settle();
        self.staging.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
    }
}
