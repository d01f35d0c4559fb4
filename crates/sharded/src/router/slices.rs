//! Sorted batches: the shards' parts are adjacent, so their results are where the batch's are to be. Parts of shards on the batch's
//! device are looked up in place; others are copied to their devices, and their results back.

use super::{DeviceScratch, InFlight};
use crate::back::{Finish, KEYS, Outputs, tiles};
use crate::query::{Bucket, after};
use crate::slots::{BucketResults, RemoteSlot, Shape, read, reserve, write};
use core::ops::Range;
use lanetree_frame::fixed::Query;
use lanetree_frame::{AnyKey, Device, KeyWord, Result, Stream, Word};
use lanetree_kernels_sharded::{Amends, SettleArgs, calls, hit_words};
use lanetree_simt::{GetBatch, Global, GlobalMut, NeighborBatch, RankBatch};

/// A slice of a shard's part of a batch.
struct Slice {
    shard: usize,
    range: Range<usize>,
    /// Its hit mask among all shards'; null if nobody wants it.
    hits: GlobalMut<u32>,
}

/// A batch whose results are in place.
struct InPlace<'a> {
    stream: &'a Stream,
    count: usize,
    shards: usize,
    cuts: Global<u64>,
    hits: Global<u32>,
}

impl Finish for InPlace<'_> {
    unsafe fn column<W: KeyWord>(&self, column: usize, amends: Amends<W>, out: Outputs<W>) -> Result<()> {
        if amends.plus.is_null() && column != KEYS && self.hits.is_null() {
            return Ok(());
        }
        let &Self { stream, count, shards, cuts, hits } = self;
        let args = SettleArgs {
            count: count as u64,
            cuts,
            hits,
            amends,
            out: out.results,
            out_hits: out.hits,
            shards: shards as u32,
            clears_misses: u32::from(column == KEYS),
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(stream, count)?.run(calls::settle(&args)) }?)
    }
}

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    /// Answers a sorted batch that was cut: earlier work of the caller's stream is done.
    ///
    /// # Safety
    /// As [`Router::run`](super::Router::run); the cuts ascend from 0 to the number of queries.
    pub(super) unsafe fn run_slices(&mut self, batch: &InFlight<'_, K, V>, cuts: &[usize]) -> Result<()> {
        let (shards, slots) = (batch.shards.all.len(), batch.slots);
        let mut hits = GlobalMut::null();
        // After what used the masks before.
        let has_masks = self.home.event()?;
        if batch.shape.has_hits {
            reserve(&mut self.hits, hit_words(batch.count as u64, shards as u32) as usize)?;
            hits = self.hits.write_on_from_peers(batch.stream)?;
        }
        has_masks.record(batch.stream)?;
        let slices = |shard: usize, len: usize| {
            (cuts[shard]..cuts[shard + 1]).step_by(len).enumerate().map(move |(number, first)| {
                let words = hit_words(cuts[shard] as u64, shard as u32) as usize + (first - cuts[shard]) / 32;
                let range = first..cuts[shard + 1].min(first + len);
                (number, Slice { shard, range, hits: after(hits, words) })
            })
        };
        let (local, remote): (Vec<usize>, Vec<usize>) = (0..shards).partition(|&shard| batch.numbers[shard] == 0);
        // The first slice of each device goes first.
        let mut remote: Vec<(usize, Slice)> = remote.into_iter().flat_map(|shard| slices(shard, batch.piece)).collect();
        remote.sort_by_key(|&(number, _)| number);
        self.reserve_slots(slots)?;
        // In one stream: copies in several would share the link, all end late, and results could not come back meanwhile.
        self.stream.wait(&has_masks)?;
        let mut used = vec![vec![false; batch.devices.len()]; slots];
        for (number, slice) in &remote {
            let (slot, device) = (number % slots, batch.numbers[slice.shard]);
            used[slot][device] = true;
            let slot = &mut self.slots[slot];
            slot.reserve_remote(device, &batch.devices[device], slice.range.len(), K::Bits::BYTES, batch.shape)?;
            if let Some(remote) = &mut slot.remote_slots[device] {
                // SAFETY: the caller's contract; the slice's part of the results is nobody else's.
                unsafe { look_up_remote(batch, slice, &self.home, &self.stream, remote)? };
            }
        }
        // Values that nobody wants take memory, so for a piece at a time.
        let len = if batch.shards.wants_all(batch.query) { batch.count } else { batch.piece };
        for (_, slice) in local.into_iter().flat_map(|shard| slices(shard, len)) {
            // SAFETY: the caller's contract.
            unsafe { look_up_local(batch, &slice, &mut self.slots[0].local)? };
        }
        let outputs = [elements(batch.query, 0), elements(batch.query, KEYS), hits.cast()];
        for (slot, used) in self.slots.iter().zip(&used) {
            let remote =
                slot.remote_slots.iter().zip(used).filter_map(|(remote, used)| remote.as_ref().filter(|_| *used));
            for remote in remote {
                for output in outputs.iter().filter(|output| !output.is_null()) {
                    // SAFETY: the results are in memory of the stream's device.
                    unsafe { batch.stream.wait_for_copies(&remote.stream, *output)? };
                }
            }
        }
        // SAFETY: streams of one device.
        unsafe { batch.stream.wait_for_copies(&self.stream, GlobalMut::<u8>::null())? };
        let (stream, count) = (batch.stream, batch.count);
        let cuts = self.cuts.read_on(stream)?;
        let in_place = InPlace { stream, count, shards, cuts, hits: hits.as_const() };
        // SAFETY: the caller's contract; the results are in place.
        unsafe { self.finish(batch, &(0..count), &in_place) }
    }
}

/// The batch's output for a column of results, as bytes; null if there is none.
fn elements<B, V>(query: &Query<B, V>, column: usize) -> GlobalMut<u8> {
    match (query, column) {
        (Query::Get(GetBatch { values, .. }) | Query::Neighbor(NeighborBatch { values, .. }), 0) => values.cast(),
        (Query::Rank(RankBatch { ranks, .. }), 0) => ranks.cast(),
        (Query::Neighbor(NeighborBatch { keys, .. }), KEYS) => keys.cast(),
        _ => GlobalMut::null(),
    }
}

/// Looks up a slice on another device. `send` is a stream of the batch's device, for the queries' copy.
///
/// # Safety
/// As [`Router::run`](super::Router::run).
unsafe fn look_up_remote<K: AnyKey, V: Word>(
    batch: &InFlight<'_, K, V>,
    slice: &Slice,
    home: &Device,
    send: &Stream,
    remote: &mut RemoteSlot,
) -> Result<()> {
    let (stream, first, count, key) = (&remote.stream, slice.range.start, slice.range.len(), K::Bits::BYTES);
    let queries = batch.queries.byte_add((first * key) as u64);
    // SAFETY: the queries of the slice, and its elements of the results, which nothing else writes.
    unsafe {
        remote.keys.copy_from_address(stream, queries.cast(), count * key, send)?;
        let queries = read(&remote.keys, stream, 0)?;
        let bucket = Bucket { queries, count, results: &mut remote.results, first: 0 };
        let query = bucket.query(batch.query, batch.shape, stream)?;
        batch.shards.all[slice.shard].launches.launch(stream, true, &query)?;
        for (number, (column, bytes)) in remote.results.columns.iter().zip(batch.shape.columns).enumerate() {
            let to = elements(batch.query, number);
            if !to.is_null() {
                column.copy_to_address(stream, count * bytes, after(to, first * bytes), home)?;
            }
        }
        if !slice.hits.is_null() {
            remote.results.hits.copy_to_address(stream, 4 * count.div_ceil(32), slice.hits.cast(), home)?;
        }
    }
    Ok(())
}

/// Looks up a slice on the batch's device, in the caller's stream.
///
/// # Safety
/// As [`Router::run`](super::Router::run).
unsafe fn look_up_local<K: AnyKey, V: Word>(
    batch: &InFlight<'_, K, V>,
    slice: &Slice,
    unwanted: &mut BucketResults,
) -> Result<()> {
    let (stream, first, hits) = (batch.stream, slice.range.start, slice.hits);
    let (queries, count) = (batch.queries.byte_add((first * K::Bits::BYTES) as u64), slice.range.len() as u64);
    let query = match *batch.query {
        Query::Get(get) => {
            let mut values = after(get.values, first);
            if values.is_null() && batch.shards.has_values {
                // Look-ups write values even if nobody wants them.
                unwanted.reserve(slice.range.len(), Shape { has_hits: false, ..batch.shape })?;
                values = write(&mut unwanted.columns[0], stream, 0)?;
            }
            Query::Get(GetBatch { queries, count, values, hits, ..get })
        }
        Query::Rank(rank) => Query::Rank(RankBatch { queries, count, ranks: after(rank.ranks, first), ..rank }),
        Query::Neighbor(near) => {
            let (keys, values) = (after(near.keys, first), after(near.values, first));
            Query::Neighbor(NeighborBatch { queries, count, keys, values, hits, ..near })
        }
        Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => return Ok(()),
    };
    // SAFETY: the caller's contract.
    unsafe { batch.shards.all[slice.shard].launches.launch(stream, true, &query) }
}
