//! Large buckets, ordered by leaf: beyond the paper.
//!
//! The device descends all queries of a bucket, and sorts them by leaf. Then the CPU reads its leaves in ascending order,
//! which is faster than at random, and the device can read some, too: across the bus it is fast in ascending order only,
//! since at random nearly every read misses its address translation. So the CPU takes the first leaves of each bucket, and
//! the device the rest.

use super::{CopyOf, Route, share_of};
use crate::device::{Descending, DeviceLines, DeviceSearch};
use crate::structure::{InnerOnDevice, Leaves, Parts, Place, Structure};
use core::cell::UnsafeCell;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_hbtree::{FinishArgs, calls};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{RadixSortScratch, radix_argsort};
use lanetree_runtime::{Buffer, PinnedBuffer};
use lanetree_simt::Global;
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Queries that a thread finishes at a time.
const TASK: usize = 1 << 12;

/// Bits of the leaves' numbers that buckets are sorted by: the leaves with equal bits fit into a few pages.
const SORTED_BITS: u32 = 16;

/// A bucket's memory on both sides.
struct Slot<K: Key, V: Word, C: InnerOnDevice<K>> {
    stream: Stream,
    queries: PinnedBuffer<K>,
    /// In ascending order, with the place of each leaf's query in the bucket.
    leaves: PinnedBuffer<u32>,
    places: PinnedBuffer<u32>,
    /// Of the queries whose leaves the device reads.
    values: PinnedBuffer<V>,
    hits: PinnedBuffer<u32>,
    on_device: OnDevice<K, V, C>,
}

/// A bucket's memory on the device.
struct OnDevice<K: Key, V: Word, C: InnerOnDevice<K>> {
    queries: Buffer<K>,
    leaves: Buffer<u32>,
    sorted_leaves: Buffer<u32>,
    places: Buffer<u32>,
    values: Buffer<V>,
    hits: Buffer<u32>,
    sort: RadixSortScratch<u32, u32>,
    scratch: C::Scratch,
}

impl<K: Key, V: Word, C: InnerOnDevice<K>> Slot<K, V, C> {
    fn new(device: &Device, queries: usize) -> Result<Self> {
        let words = queries.div_ceil(32);
        Ok(Self {
            stream: device.stream()?,
            queries: device.pinned(queries)?,
            leaves: device.pinned(queries)?,
            places: device.pinned(queries)?,
            values: device.pinned(queries)?,
            hits: device.pinned(words)?,
            on_device: OnDevice {
                queries: device.alloc(queries)?,
                leaves: device.alloc(queries)?,
                sorted_leaves: device.alloc(queries)?,
                places: device.alloc(queries)?,
                values: device.alloc(queries)?,
                hits: device.alloc(words)?,
                sort: RadixSortScratch::for_pairs(device, queries)?,
                scratch: C::scratch(device, queries)?,
            },
        })
    }

    /// Bytes on both sides.
    fn bytes(&self) -> usize {
        let OnDevice { queries, leaves, sorted_leaves, places, values, hits, sort, scratch } = &self.on_device;
        let numbers = leaves.bytes() + sorted_leaves.bytes() + places.bytes() + hits.bytes();
        let device = queries.bytes() + numbers + values.bytes() + sort.bytes() + C::scratch_bytes(scratch);
        let pinned_numbers = (self.leaves.len() + self.places.len() + self.hits.len()) * size_of::<u32>();
        device + pinned_numbers + self.queries.len() * size_of::<K>() + self.values.len() * size_of::<V>()
    }
}

/// The slots of finished batches, kept for the next ones.
pub(crate) struct WideSlots<K: Key, V: Word, C: InnerOnDevice<K>> {
    idle: Mutex<Vec<Vec<Slot<K, V, C>>>>,
}

impl<K: Key, V: Word, C: InnerOnDevice<K>> Default for WideSlots<K, V, C> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<K: Key, V: Word, C: InnerOnDevice<K>> WideSlots<K, V, C> {
    /// Bytes of device memory and of pinned memory.
    pub(crate) fn bytes(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().map(Slot::bytes).sum()
    }
}

/// How queries of one kind are answered.
pub(crate) struct Answers<P, D> {
    /// By their places.
    pub(crate) by_place: P,
    /// By what the device has found in the leaves that it reads; `None` if it cannot read any for these queries.
    pub(crate) by_value: Option<D>,
}

/// Results that several threads write, each in places of its own.
struct Scattered<'a, T>(&'a [UnsafeCell<T>]);

// SAFETY: `write`'s contract keeps threads apart.
unsafe impl<T: Send> Sync for Scattered<'_, T> {}

impl<'a, T> Scattered<'a, T> {
    fn new(out: &'a mut [T]) -> Self {
        // SAFETY: a cell has the representation of what is in it, and the slice is borrowed mutably.
        Self(unsafe { &*((&raw mut *out) as *const [UnsafeCell<T>]) })
    }

    /// Replaces a result.
    ///
    /// # Safety
    /// No other thread writes this place.
    unsafe fn write(&self, place: usize, value: T) {
        // SAFETY: nobody else accesses it: the caller's contract.
        unsafe { *self.0[place].get() = value };
    }
}

impl<K: Key, L: Structure> Route<'_, K, L> {
    /// Sends a batch through both, ordered by leaf within each bucket.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(crate) fn send_ascending<V: Word, T, P, D>(
        &self,
        parts: &Parts<K, V, L>,
        slots: &WideSlots<K, V, CopyOf<K, L>>,
        keys: &[K],
        out: &mut [T],
        answers: &Answers<P, D>,
        alone: &(dyn Fn(K) -> T + Sync),
    ) -> Result<()>
    where
        T: Send,
        P: Fn(Place) -> T + Sync,
        D: Fn(Option<V>) -> T + Sync,
    {
        let bucket = self.options.pipeline.bucket.min(keys.len()).max(1);
        let ahead = self.options.pipeline.strategy.ahead();
        let mut taken = Taken { from: slots, slots: slots.take(), done: false };
        // They were made for buckets of another size.
        taken.slots.retain(|slot| slot.leaves.len() >= bucket);
        while taken.slots.len() <= ahead {
            taken.slots.push(Slot::new(self.device, bucket)?);
        }
        let share =
            if answers.by_value.is_some() && parts.leaves_pinned() { self.options.pipeline.device_leaves } else { 0.0 };
        let mut rest = keys.chunks(bucket).zip(out.chunks_mut(bucket));
        let mut on_their_way = VecDeque::with_capacity(ahead + 1);
        let mut free: Vec<usize> = (0..=ahead).collect();
        loop {
            while on_their_way.len() < ahead.max(1)
                && let Some(slot) = free.pop()
            {
                let Some((keys, out)) = rest.next() else {
                    free.push(slot);
                    break;
                };
                self.begin_ascending(parts, &mut taken.slots[slot], keys, share)?;
                on_their_way.push_back((slot, keys, out));
            }
            let Some((slot, keys, out)) = on_their_way.pop_front() else { break };
            taken.slots[slot].stream.synchronize()?;
            // The device goes on before the CPU does.
            if ahead > 0
                && let Some(next) = free.pop()
            {
                match rest.next() {
                    Some((keys, out)) => {
                        self.begin_ascending(parts, &mut taken.slots[next], keys, share)?;
                        on_their_way.push_back((next, keys, out));
                    }
                    None => free.push(next),
                }
            }
            self.finish_ascending(parts, &taken.slots[slot], keys, out, share, answers, alone);
            free.push(slot);
        }
        taken.done = true;
        Ok(())
    }

    /// Puts a bucket on its way.
    fn begin_ascending<V: Word>(
        &self,
        parts: &Parts<K, V, L>,
        slot: &mut Slot<K, V, CopyOf<K, L>>,
        keys: &[K],
        share: f64,
    ) -> Result<()> {
        let count = keys.len();
        copy(keys, &mut slot.queries[..count]);
        let Slot { stream, queries, leaves, places, values, hits, on_device } = slot;
        on_device.queries.upload_async(stream, 0, queries, 0..count)?;
        let batch = Descending {
            queries: on_device.queries.read_on(stream)?.cast(),
            nodes: Global::null(),
            from: 0,
            count,
            leaves: on_device.leaves.write_on(stream)?,
        };
        // SAFETY: the buffers have room for the bucket, and the addresses are for this stream.
        unsafe { self.copy.launch(stream, DeviceSearch::Ballot, &mut on_device.scratch, batch)? };
        let width = u64::BITS - parts.leaves.count().leading_zeros();
        let bits = width.saturating_sub(SORTED_BITS)..width;
        let sorted = (&mut on_device.sorted_leaves, &mut on_device.places);
        radix_argsort(stream, &on_device.leaves, count, bits, sorted, &mut on_device.sort)?;
        let of_device = share_of(count, share);
        let of_cpu = count - of_device;
        on_device.sorted_leaves.download_async(stream, 0..of_cpu, leaves, 0)?;
        on_device.places.download_async(stream, 0..count, places, 0)?;
        if of_device == 0 {
            return Ok(());
        }
        let Some(DeviceLines { lines, group }) = parts.leaves.lines_on(stream)? else { return Ok(()) };
        let first = (of_cpu * size_of::<u32>()) as u64;
        let args = FinishArgs {
            lines,
            leaves: on_device.sorted_leaves.read_on(stream)?.byte_add(first),
            places: on_device.places.read_on(stream)?.byte_add(first),
            queries: on_device.queries.read_on(stream)?.cast::<K::Bits>(),
            count: of_device as u64,
            flip: K::FLIP,
            group,
            values: on_device.values.write_on(stream)?,
            hits: on_device.hits.write_on(stream)?,
            miss: V::MIN,
        };
        // SAFETY: leaves of the tree, which is borrowed and pinned, and places in the bucket, which the sort has written;
        // the outputs have room for the bucket.
        unsafe { launch::over(stream, of_device as u64, 1, THREADS)?.run(calls::finish(&args))? };
        on_device.values.download_async(stream, 0..of_device, values, 0)?;
        on_device.hits.download_async(stream, 0..of_device.div_ceil(32), hits, 0).map_err(Into::into)
    }

    /// Answers a bucket's queries.
    #[expect(clippy::too_many_arguments, reason = "a bucket, and what is done with it")]
    fn finish_ascending<V: Word, T, P, D>(
        &self,
        parts: &Parts<K, V, L>,
        slot: &Slot<K, V, CopyOf<K, L>>,
        keys: &[K],
        out: &mut [T],
        share: f64,
        answers: &Answers<P, D>,
        alone: &(dyn Fn(K) -> T + Sync),
    ) where
        T: Send,
        P: Fn(Place) -> T + Sync,
        D: Fn(Option<V>) -> T + Sync,
    {
        let of_device = share_of(keys.len(), share);
        let of_cpu = keys.len() - of_device;
        let (leaves, places) = (&slot.leaves[..of_cpu], &slot.places[..keys.len()]);
        let (own, others) = places.split_at(of_cpu);
        let out = &Scattered::new(out);
        let ahead = self.options.in_flight;
        let search = || {
            leaves.par_chunks(TASK).zip(own.par_chunks(TASK)).for_each(|(leaves, places)| {
                for (leaves, places) in leaves.chunks(CHUNK).zip(places.chunks(CHUNK)) {
                    let mut words = [K::Bits::MIN; CHUNK];
                    words.iter_mut().zip(places).for_each(|(word, &place)| *word = keys[place as usize].encode());
                    parts.leaves.find(&words[..leaves.len()], leaves, ahead, |i, place| {
                        // SAFETY: the sort has permuted the places, so that each is here once.
                        unsafe { out.write(places[i] as usize, (answers.by_place)(place)) };
                    });
                }
            });
        };
        let Some(by_value) = answers.by_value.as_ref().filter(|_| of_device > 0) else { return search() };
        let (values, hits) = (&slot.values[..of_device], &slot.hits[..of_device.div_ceil(32)]);
        let place = || {
            others.par_chunks(TASK).zip(values.par_chunks(TASK)).enumerate().for_each(|(task, (places, values))| {
                for (i, (&place, &value)) in places.iter().zip(values).enumerate() {
                    let at = task * TASK + i;
                    let is_hit = hits[at / 32] >> (at % 32) & 1 == 1;
                    let key = keys[place as usize];
                    // The device cannot tell the largest word from an empty slot.
                    let answer = match !is_hit && key.encode() == K::Bits::MAX {
                        true => alone(key),
                        false => by_value(is_hit.then_some(value)),
                    };
                    // SAFETY: as above.
                    unsafe { out.write(place as usize, answer) };
                }
            });
        };
        rayon::join(search, place);
    }
}

/// Queries whose leaves are searched together.
const CHUNK: usize = 256;

/// Copies in parallel.
fn copy<K: Key>(from: &[K], to: &mut [K]) {
    const PART: usize = 1 << 16;
    from.par_chunks(PART).zip(to.par_chunks_mut(PART)).for_each(|(from, to)| to.copy_from_slice(from));
}

impl<K: Key, V: Word, C: InnerOnDevice<K>> WideSlots<K, V, C> {
    fn take(&self) -> Vec<Slot<K, V, C>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
}

/// The slots of a batch. They are returned idle, even after an error or a panic.
struct Taken<'a, K: Key, V: Word, C: InnerOnDevice<K>> {
    from: &'a WideSlots<K, V, C>,
    slots: Vec<Slot<K, V, C>>,
    /// Whether all buckets have been waited for.
    done: bool,
}

impl<K: Key, V: Word, C: InnerOnDevice<K>> Drop for Taken<'_, K, V, C> {
    fn drop(&mut self) {
        let slots = core::mem::take(&mut self.slots);
        if !self.done {
            // Buckets in flight no longer have an owner.
            slots.iter().for_each(|slot| drop(slot.stream.synchronize()));
        }
        self.from.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
    }
}
