//! Aggregates of ranges on a device, answered by shards on several: each shard aggregates its pairs on its device, and the batch's
//! device merges the accumulators, shard by shard.

use super::{Bounds, DeviceScratch, InFlight, OfShard, RangeRouter};
use crate::query::Shards;
use crate::slots::{reserve, with_spare};
use lanetree_frame::aggregate_steps::{AggregateMemory, AggregateOutputs, divide_ranges, finish};
use lanetree_frame::fixed::{DeviceAggregates, Query};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{AnyKey, Buffer, Device, Result, Stream, Word};
use lanetree_kernels_sharded::{MergeArgs, calls};
use lanetree_primitives::exclusive_scan;
use lanetree_runtime::PeerPart;
use lanetree_simt::{AggregateBatch, Fold, Global};

/// Memory of the aggregation of a shard's ranges, and the number of ranges that it serves.
pub(super) struct Memory {
    of: AggregateMemory,
    capacity: usize,
}

impl Memory {
    pub(super) fn new(device: &Device, capacity: usize) -> Result<Self> {
        let (offsets, parts) = (device.alloc(capacity + 1)?, device.alloc(capacity + 1)?);
        let (counts, sums) = (device.alloc(capacity)?, device.alloc(AggregateMemory::words(capacity))?);
        Ok(Self { of: AggregateMemory { offsets, counts, parts, sums }, capacity })
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        if self.capacity < count {
            *self = Self::new(&self.of.counts.device().clone(), with_spare(count))?;
        }
        Ok(())
    }
}

impl<K: AnyKey> RangeRouter<K> {
    /// Aggregates the values of ranges, of which there is one at least. The host waits for nothing.
    ///
    /// # Errors
    /// As [`RangeRouter::run`].
    pub(crate) fn aggregate<V: Word, T: bytemuck::Pod>(
        &self,
        shards: &Shards<'_, K, V>,
        stream: &Stream,
        bounds: Bounds<'_, K>,
        fold: Fold,
        out: &mut DeviceAggregates<T>,
    ) -> Result<()> {
        self.with_scratch(shards, stream, bounds, |scratch, batch| scratch.aggregate(batch, fold, out))
    }
}

impl<K: AnyKey> DeviceScratch<K> {
    fn aggregate<V: Word, T: bytemuck::Pod>(
        &mut self,
        batch: &InFlight<'_, K, V>,
        fold: Fold,
        out: &mut DeviceAggregates<T>,
    ) -> Result<()> {
        let (stream, count) = (batch.stream, batch.bounds.count);
        self.send_bounds(stream, &batch.bounds)?;
        self.locate(batch, true)?;
        reserve(&mut self.sums, count)?;
        self.share(batch, None, None)?;
        self.return_counts(batch)?;
        // Other devices first: they have nothing to do yet.
        for number in (0..self.devices.len()).rev() {
            for shard in (0..batch.numbers.len()).filter(|&shard| batch.numbers[shard] == number) {
                self.aggregate_shard(batch, shard, fold)?;
            }
        }
        self.merged.reserve(count)?;
        for (shard, of_shard) in self.shards.iter_mut().enumerate() {
            let before = if shard == 0 { Global::null() } else { of_shard.before.read_on(stream)? };
            let found = of_shard.at_home(batch.numbers[shard] == 0);
            let from = (&found.counts, Global::null(), &found.keys);
            // SAFETY: each range that has pairs in the shard has an accumulator there, and one of the shards before.
            unsafe { merge(stream, count, fold, from, before, &mut self.merged.of.sums)? };
        }
        // No range has parts any more.
        self.merged.of.parts.fill_zero(stream)?;
        let DeviceAggregates { values, hits, overflowed } = out;
        let out = AggregateOutputs { values, hits, overflowed };
        // SAFETY: each range that has pairs has an accumulator.
        unsafe { finish::<V, T>(stream, count, fold, &self.sums, &self.merged.of, out) }
    }

    /// Aggregates a shard's ranges on its device; an accumulator for each arrives on the batch's device, as a column of keys would.
    fn aggregate_shard<V: Word>(&mut self, batch: &InFlight<'_, K, V>, shard: usize, fold: Fold) -> Result<()> {
        let (number, count) = (batch.numbers[shard], batch.bounds.count);
        let of_device = &mut self.devices[number];
        let stream = if number == 0 { batch.stream } else { &of_device.stream };
        of_device.aggregates.reserve(count)?;
        let (memory, scan) = (&mut of_device.aggregates.of, &mut of_device.scan);
        let OfShard { there, copied, cursors, .. } = &mut self.shards[shard];
        exclusive_scan(stream, &there.counts, count, &mut memory.offsets, scan)?;
        divide_ranges(stream, count, fold, &there.counts, memory)?;
        exclusive_scan(stream, &memory.counts, count, &mut memory.parts, scan)?;
        let whole = AggregateBatch {
            cursors: cursors.read_on(stream)?,
            counts: there.counts.read_on(stream)?,
            offsets: memory.offsets.read_on(stream)?,
            parts: Global::null(),
            count: count as u64,
            sums: memory.sums.write_on(stream)?,
            fold,
        };
        let parts = AggregateBatch { parts: memory.parts.read_on(stream)?, ..whole };
        reserve(&mut there.keys, 2 * count)?;
        let launches = batch.shards.all[shard].launches;
        // SAFETY: cursors and counts are of this shard, which is borrowed; the memory is for that many ranges, and for the parts that
        // they have at most. Each range or part is aggregated before it is merged.
        unsafe {
            launches.launch(stream, false, &Query::Aggregate(whole))?;
            launches.launch(stream, false, &Query::Aggregate(parts))?;
            let from = (&there.counts, parts.parts, &memory.sums);
            merge(stream, count, fold, from, Global::null(), &mut there.keys)?;
        }
        if number != 0 {
            reserve(&mut copied.keys, 2 * count)?;
            let part = PeerPart { from: &there.keys, range: 0..2 * count, stream, at: 0 };
            copied.keys.copy_from_peers(&of_device.receives, &[part])?;
        }
        Ok(())
    }
}

/// Merges a shard's accumulators, of which `from` has the numbers of pairs, the prefix sums of parts, and the words.
///
/// # Safety
/// Each range that has pairs has an accumulator, or one for each of its parts; and in `merged`, if it has pairs `before`.
unsafe fn merge(
    stream: &Stream,
    count: usize,
    fold: Fold,
    (counts, parts, sums): (&Buffer<u64>, Global<u64>, &Buffer<u64>),
    before: Global<u64>,
    merged: &mut Buffer<u64>,
) -> Result<()> {
    let args = MergeArgs {
        counts: counts.read_on(stream)?,
        parts,
        sums: sums.read_on(stream)?,
        before,
        count: count as u64,
        merged: merged.write_on(stream)?,
        fold,
    };
    // SAFETY: the caller's contract; all pointers are for this stream.
    Ok(unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::merge(&args)) }?)
}
