//! Aggregates of ranges on a device, answered by shards on several: each shard aggregates its pairs on its device, and the batch's
//! device merges the accumulators, shard by shard.

use super::memory::OfShard;
use super::{Bounds, DeviceScratch, InFlight, RangeRouter};
use crate::query::Shards;
use crate::slots::reserve;
use lanetree_frame::aggregate_steps::finish;
use lanetree_frame::fixed::{DeviceAggregates, LocatedRanges, Query};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{AnyKey, Result, Stream, Word};
use lanetree_kernels_sharded::{MergeArgs, calls};
use lanetree_runtime::PeerPart;
use lanetree_simt::{AggregateBatch, Fold, Global};

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
            let merge = MergeArgs {
                counts: found.counts.read_on(stream)?,
                parts: Global::null(),
                sums: found.keys.read_on(stream)?,
                before,
                count: count as u64,
                merged: self.merged.0.sums.write_on(stream)?,
                fold,
            };
            // SAFETY: each range with pairs in the shard has an accumulator there; with pairs before, in `merged`, too.
            unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::merge(&merge))? };
        }
        // No range has parts any more.
        self.merged.0.parts.fill_zero(stream)?;
        // SAFETY: each range that has pairs has an accumulator.
        unsafe { finish::<V, T>(stream, count, fold, &self.sums, &self.merged.0, out) }
    }

    /// Aggregates a shard's ranges on its device; an accumulator for each arrives on the batch's device, as a column of keys would.
    fn aggregate_shard<V: Word>(&mut self, batch: &InFlight<'_, K, V>, shard: usize, fold: Fold) -> Result<()> {
        let (number, count) = (batch.numbers[shard], batch.bounds.count);
        let of_device = &mut self.devices[number];
        let stream = if number == 0 { batch.stream } else { &of_device.stream };
        of_device.accumulators.reserve(count)?;
        let (memory, scan) = (&mut of_device.accumulators.0, &mut of_device.scan);
        let OfShard { on_shard, copied, cursors, .. } = &mut self.shards[shard];
        let launches = batch.shards.all[shard].launches;
        let located = LocatedRanges { cursors, counts: &on_shard.counts, count };
        // SAFETY: cursors and counts are of this shard, which is borrowed; the memory is for that many ranges, and for the parts that
        // they have at most.
        let parts = located.accumulate(stream, fold, memory, scan, |batch| unsafe {
            launches.launch(stream, false, &Query::Aggregate(batch))
        })?;
        reserve(&mut on_shard.keys, 2 * count)?;
        let AggregateBatch { counts, parts, sums, count: ranges, .. } = parts;
        let (sums, before, merged) = (sums.as_const(), Global::null(), on_shard.keys.write_on(stream)?);
        let merge = MergeArgs { counts, parts, sums, before, count: ranges, merged, fold };
        // SAFETY: each range or part has its accumulator.
        unsafe { launch::over(stream, ranges, 1, THREADS)?.run(calls::merge(&merge))? };
        if number != 0 {
            reserve(&mut copied.keys, 2 * count)?;
            let part = PeerPart { from: &on_shard.keys, range: 0..2 * count, stream, at: 0 };
            copied.keys.copy_from_peers(&of_device.receives, &[part])?;
        }
        Ok(())
    }
}
