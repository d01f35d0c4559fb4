//! Queries that the device answers alone, reading their leaves across the bus: beyond the paper.
//!
//! At random the device reads host memory slowly: nearly every read misses its address translation. In ascending order it
//! is fast. So one thread takes large buckets from the batch while the others take small ones; the device descends its
//! bucket, sorts it by leaf, and searches the leaves in that order. What remains of the batch is shared by who is faster:
//! nobody is given a share in advance, but the size of the large buckets is chosen so that they end with the batch.

use super::buckets::{Slot, Work};
use super::{Pace, Route};
use crate::device::{Descending, DeviceLines};
use crate::options::DeviceSearch;
use crate::structure::{CopyOf, InnerOnDevice, Leaves, Parts, Structure};
use crate::tuning::TUNING;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_hbtree::{FinishArgs, calls};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_primitives::{RadixSortScratch, radix_argsort};
use lanetree_runtime::{Buffer, PinnedBuffer};
use lanetree_simt::Global;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A bucket's memory on both sides. It grows to the largest bucket.
pub(crate) struct WideSlot<K: Key, V: Word, C: InnerOnDevice<K>> {
    stream: Stream,
    queries: PinnedBuffer<K>,
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

impl<K: Key, V: Word, C: InnerOnDevice<K>> WideSlot<K, V, C> {
    fn new(device: &Device, queries: usize) -> Result<Self> {
        let words = queries.div_ceil(32);
        Ok(Self {
            stream: device.stream()?,
            queries: device.pinned(queries)?,
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
}

impl<K: Key, V: Word, C: InnerOnDevice<K>> Slot for WideSlot<K, V, C> {
    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn bytes(&self) -> usize {
        let OnDevice { queries, leaves, sorted_leaves, places, values, hits, sort, scratch } = &self.on_device;
        let numbers = leaves.bytes() + sorted_leaves.bytes() + places.bytes() + hits.bytes();
        let device = queries.bytes() + numbers + values.bytes() + sort.bytes() + C::scratch_bytes(scratch);
        device + self.queries.len() * size_of::<K>() + self.values.len() * size_of::<V>() + self.hits.len() * 4
    }
}

/// Look-ups that the device answers alone.
pub(crate) struct Alone<'a, K: Key, V: Word, L: Structure, A, D> {
    route: &'a Route<'a, K, L>,
    parts: &'a Parts<K, V, L>,
    /// Answers a query, given its place in the batch, by what the device has found.
    by_value: &'a D,
    /// Answers a query on the CPU.
    on_cpu: &'a A,
    clock: Clock<'a>,
}

impl<K: Key, L: Structure> Route<'_, K, L> {
    /// Look-ups that the device answers alone: `by_value` by what it has found, `on_cpu` what it cannot.
    pub(crate) fn alone<'a, V: Word, A, D>(
        &'a self,
        parts: &'a Parts<K, V, L>,
        by_value: &'a D,
        on_cpu: &'a A,
        pace: &'a Pace,
    ) -> Alone<'a, K, V, L, A, D> {
        let clock = Clock { pace, started: Instant::now(), done: AtomicUsize::new(0) };
        Alone { route: self, parts, by_value, on_cpu, clock }
    }
}

/// How fast the device is in a batch.
struct Clock<'a> {
    pace: &'a Pace,
    started: Instant,
    done: AtomicUsize,
}

impl Clock<'_> {
    fn note(&self, queries: usize) {
        let done = self.done.fetch_add(queries, Ordering::Relaxed) + queries;
        self.pace.device(done, self.started.elapsed());
    }
}

impl<K, V, L, T, A, D> Work<K, T> for Alone<'_, K, V, L, A, D>
where
    K: Key,
    V: Word,
    L: Structure,
    A: Fn(usize, K) -> T + Sync,
    D: Fn(usize, Option<V>) -> T + Sync,
{
    type Slot = WideSlot<K, V, CopyOf<K, L>>;

    fn slot(&self) -> Result<Self::Slot> {
        WideSlot::new(self.route.device, 0)
    }

    fn begin(&self, slot: &mut Self::Slot, first: usize, keys: &[K], _: bool) -> Result<()> {
        let (route, leaves, count) = (self.route, &self.parts.leaves, keys.len());
        let tuning = TUNING.on(route.device)?;
        let words = count.div_ceil(32);
        if slot.queries.len() < count {
            *slot = WideSlot::new(route.device, count.next_power_of_two())?;
        }
        if route.pinned.is_none() {
            slot.queries[..count].copy_from_slice(keys);
        }
        let WideSlot { stream, queries, values, hits, on_device } = slot;
        let (queries, at) = route.pinned.map_or((&*queries, 0), |pinned| (pinned, first));
        on_device.queries.upload_async(stream, 0, queries, at..at + count)?;
        let batch = Descending {
            queries: on_device.queries.read_on(stream)?.cast(),
            nodes: Global::null(),
            from: 0,
            count,
            leaves: on_device.leaves.write_on(stream)?,
        };
        // SAFETY: the buffers have room for the bucket, and the addresses are for this stream.
        unsafe { route.copy.launch(stream, DeviceSearch::Ballot, &mut on_device.scratch, batch)? };
        let width = u64::BITS - leaves.count().leading_zeros();
        let bits = width.saturating_sub(tuning.leaf_bits)..width;
        let (sorted, places) = (&mut on_device.sorted_leaves, &mut on_device.places);
        radix_argsort(stream, &on_device.leaves, count, bits, sorted, places, &mut on_device.sort)?;
        on_device.hits.fill_zero_range(stream, 0..words)?;
        let DeviceLines { lines, group } = leaves.lines_on(stream)?;
        let args = FinishArgs {
            lines,
            leaves: on_device.sorted_leaves.read_on(stream)?,
            places: on_device.places.read_on(stream)?,
            queries: on_device.queries.read_on(stream)?.cast::<K::Bits>(),
            count: count as u64,
            flip: K::FLIP,
            group,
            values: on_device.values.write_on(stream)?,
            hits: on_device.hits.write_on(stream)?,
            miss: V::MIN,
        };
        // SAFETY: leaves of the tree, which is borrowed and pinned, and places in the bucket, which the sort has written;
        // the outputs have room for the bucket.
        unsafe {
            launch::over(stream, (count as u64).min(tuning.leaf_readers), 1, THREADS)?.run(calls::finish(&args))?
        };
        on_device.values.download_async(stream, 0..count, values, 0)?;
        on_device.hits.download_async(stream, 0..words, hits, 0)?;
        Ok(())
    }

    fn finish(&self, slot: &Self::Slot, first: usize, keys: &[K], out: &mut [T], _: bool) {
        let (values, hits) = (&slot.values[..keys.len()], &slot.hits[..keys.len().div_ceil(32)]);
        for (i, ((out, &key), &value)) in out.iter_mut().zip(keys).zip(values).enumerate() {
            let is_hit = hits[i / 32] >> (i % 32) & 1 == 1;
            // The device cannot tell the largest word from an empty slot.
            *out = match !is_hit && key.encode() == K::Bits::MAX {
                true => (self.on_cpu)(first + i, key),
                false => (self.by_value)(first + i, is_hit.then_some(value)),
            };
        }
        self.clock.note(keys.len());
    }
}
