//! Pairs from a file to a device that the CPU can't reach.

use crate::format::{PIECE, Reader, out_of_order};
use crate::{Buffers, Result};
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::runtime::{Error as RuntimeError, Event};
use lanetree_frame::{AnyKey, Device, Error, PinnedBuffer, Value};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pieces for which there is pinned memory, at most: a driver has been seen to take 0.6 ms to pin one, twice as long as a thread
/// takes to read it.
const MOST: usize = 32;

/// Pinned memory for a piece.
struct Slot {
    memory: PinnedBuffer<u8>,
    /// Recorded after its copy: the memory remembers the stream alone, which has copies of other pieces, too. A stream for each
    /// slot would do without, but then each copy waits for one in another stream, which takes a GPU as long as a small copy.
    is_copied: Event,
}

impl Slot {
    /// Its bytes, once they have been copied.
    fn bytes(&mut self, len: usize) -> Result<&mut [u8], RuntimeError> {
        self.is_copied.synchronize()?;
        // SAFETY: copies are all that is done to the memory, and an event follows each.
        unsafe { self.memory.forget_uses() };
        Ok(&mut self.memory[..len])
    }
}

/// The slots: each is made when it is first needed, while other threads read.
struct Slots<'a> {
    device: &'a Device,
    /// Those that have been used, the one that was used last at the end; and how many more there may be.
    free: Mutex<(VecDeque<Slot>, usize)>,
}

impl Slots<'_> {
    /// Takes one. There are as many as threads that have one at the same time.
    fn take(&self) -> Result<Slot, RuntimeError> {
        let mut free = lock(&self.free);
        if free.1 == 0 {
            return Ok(free.0.pop_front().expect("a slot for each thread"));
        }
        free.1 -= 1;
        drop(free);
        let make = || Ok(Slot { memory: self.device.pinned(PIECE)?, is_copied: self.device.event()? });
        make().inspect_err(|_| lock(&self.free).1 += 1)
    }

    /// Uses one, whose copy may be under way afterwards; after an error it is waited for and dropped.
    fn with<T>(&self, f: impl FnOnce(&mut Slot) -> Result<T>) -> Result<T> {
        let mut slot = self.take().map_err(Error::from)?;
        let result = f(&mut slot);
        if result.is_ok() {
            lock(&self.free).0.push_back(slot);
        } else {
            drop(slot);
            lock(&self.free).1 += 1;
        }
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a piece of keys.
struct Keys<K> {
    /// The first and the last one.
    ends: [K; 2],
    /// Which one does not follow the one before it, if there is one.
    wrong: Option<usize>,
    /// These two.
    pair: [K; 2],
}

impl<K: AnyKey> Keys<K> {
    fn of(keys: &[K], ascend: impl Fn(&[K]) -> bool) -> Self {
        let wrong = keys.windows(2).position(|pair| !ascend(pair)).map(|at| at + 1);
        let pair = wrong.map_or([K::default(); 2], |at| [keys[at - 1], keys[at]]);
        Self { ends: [keys[0], keys[keys.len() - 1]], wrong, pair }
    }
}

/// Reads and checks pairs into a device's buffers, for which there is room: each thread reads pieces, while others are copied.
pub(crate) fn pairs<K: AnyKey, V: Value>(
    reader: &Reader<'_>,
    device: &Device,
    buffers: &mut Buffers<K, V>,
) -> Result<()> {
    const { assert!(PIECE.is_multiple_of(size_of::<K>())) };
    let lens = [0, 1].map(|section| reader.section_len(section));
    let key_pieces = lens[0].div_ceil(PIECE);
    let pieces = key_pieces + lens[1].div_ceil(PIECE);
    // A thread reads into one while another one is copied.
    let count = pieces.min(2 * threads()).clamp(1, MOST);
    let slots = Slots { device, free: Mutex::new((VecDeque::from(with_room(count)?), count)) };
    let stream = device.stream().map_err(Error::from)?;
    let to = Mutex::new(buffers);
    let read = |piece: usize, slot: &mut Slot| -> Result<Option<Keys<K>>> {
        let section = usize::from(piece >= key_pieces);
        let number = piece - section * key_pieces;
        let len = PIECE.min(lens[section] - number * PIECE);
        let bytes = slot.bytes(len).map_err(Error::from)?;
        reader.read_piece(section, number, bytes)?;
        let known = (section == 0).then(|| Keys::of(bytemuck::cast_slice(bytes), |pair: &[K]| reader.ascend(pair)));
        let mut to = lock(&to);
        let (keys, values) = &mut **to;
        if section == 0 {
            let (at, len) = (number * PIECE / size_of::<K>(), len / size_of::<K>());
            keys.upload_bytes_async(&stream, at, &slot.memory, len).map_err(Error::from)?;
        } else {
            let (at, len) = (number * PIECE / V::BYTES, len / V::BYTES);
            values.upload_bytes_async(&stream, at, &slot.memory, len).map_err(Error::from)?;
        }
        slot.is_copied.record(&stream).map_err(Error::from)?;
        Ok(known)
    };
    let read = |piece: usize| slots.with(|slot| read(piece, slot));
    // No more parts than slots, if there are more threads.
    let each_part = if threads() > count { pieces.div_ceil(count) } else { 1 };
    let all = (0..pieces).into_par_iter().with_min_len(each_part).map(read).try_collect()?;
    let mut before = None;
    for (number, keys) in all.into_iter().enumerate() {
        let Some(Keys { ends: [first, last], wrong, pair }) = keys? else { continue };
        let at = number * PIECE / size_of::<K>();
        if let Some(before) = before.filter(|&before| !reader.ascend(&[before, first])) {
            return Err(out_of_order(at, before, first));
        }
        if let Some(wrong) = wrong {
            return Err(out_of_order(at + wrong, pair[0], pair[1]));
        }
        before = Some(last);
    }
    reader.check_windows()?;
    Ok(stream.synchronize().map_err(Error::from)?)
}
