//! Sorted batches, in which the shards' parts are adjacent: each shard reads and writes its part in the memory of the batch's device.

use super::finish::Finish;
use super::{DeviceScratch, InFlight};
use crate::back::tiles;
use crate::query::after;
use crate::slots::{Slot, reserve, write};
use lanetree_frame::fixed::Query;
use lanetree_frame::{AnyKey, KeyWord, Result, Stream, Word};
use lanetree_kernels_sharded::{Amends, SettleArgs, calls, hit_words};
use lanetree_simt::{GetBatch, Global, GlobalMut, NeighborBatch, RankBatch};

/// A batch whose shards have written in place.
struct Settling<'a> {
    stream: &'a Stream,
    count: usize,
    shards: usize,
    cuts: Global<u64>,
    hits: Global<u32>,
}

impl Finish for Settling<'_> {
    unsafe fn column<W: KeyWord>(
        &self,
        _: usize,
        amends: Amends<W>,
        out: GlobalMut<W>,
        out_hits: GlobalMut<u32>,
    ) -> Result<()> {
        if amends.plus.is_null() && amends.have_others == 0 && out_hits.is_null() {
            return Ok(());
        }
        let &Self { stream, count, shards, cuts, hits } = self;
        let (of_batch, shards) = (count as u64, shards as u32);
        let args = SettleArgs { count: of_batch, cuts, hits, amends, out, out_hits, shards, padding: 0 };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(stream, count)?.run(calls::settle(&args)) }?)
    }
}

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    /// Answers a sorted batch that was cut.
    ///
    /// # Safety
    /// As [`Router::run`](super::Router::run); the batch is direct, and in reach.
    pub(super) unsafe fn run_in_place(&mut self, batch: &InFlight<'_, K, V>, cuts: &[usize]) -> Result<()> {
        let shards = batch.shards.all.len();
        let words = hit_words(batch.count as u64, shards as u32) as usize;
        reserve(&mut self.hits, if batch.shape.has_hits { words } else { 0 })?;
        self.reserve_slots(1)?;
        let slot = &mut self.slots[0];
        slot.reserve_inboxes(batch.devices, batch.numbers, 0, K::Bits::BYTES, batch.shape)?;
        // The other devices' streams come after what used the masks before, and the caller's comes after theirs.
        let hits = if batch.shape.has_hits { self.hits.write_on_from_peers(batch.stream)? } else { GlobalMut::null() };
        let mut remote = slot.remote_slots.iter().flatten();
        remote.try_for_each(|remote| remote.stream.run_after(batch.stream))?;
        // Those on other devices first.
        let mut order: Vec<usize> = (0..shards).filter(|&shard| cuts[shard] < cuts[shard + 1]).collect();
        order.sort_by_key(|&shard| batch.numbers[shard] == 0);
        for shard in order {
            let (start, end) = (cuts[shard], cuts[shard + 1]);
            // Where nobody wants the values, there is memory for those of a piece.
            let step = if writes_unwanted(batch) { batch.piece } else { end - start };
            for first in (start..end).step_by(step) {
                let hits = match hits.is_null() {
                    true => hits,
                    false => hits.skip(hit_words(start as u64, shard as u32) + (first - start) as u64 / 32),
                };
                let part = Part { first, len: step.min(end - first), hits };
                // SAFETY: the caller's contract; the part's queries and its elements of the results, which nothing else writes.
                unsafe { search(batch, &mut self.slots[0], shard, part)? };
            }
        }
        let mut remote = self.slots[0].remote_slots.iter().flatten();
        remote.try_for_each(|remote| batch.stream.run_after(&remote.stream))?;
        let settling = Settling {
            stream: batch.stream,
            count: batch.count,
            shards,
            cuts: self.cuts.read_on(batch.stream)?,
            hits: hits.as_const(),
        };
        // SAFETY: the caller's contract; the results are in place.
        unsafe { self.finish(batch, &(0..batch.count), &settling) }
    }
}

/// A shard's part of a batch, or a piece of it.
struct Part {
    first: usize,
    len: usize,
    /// Its mask; null if nobody wants it.
    hits: GlobalMut<u32>,
}

/// Whether look-ups write values that nobody wants.
fn writes_unwanted<K: AnyKey, V: Word>(batch: &InFlight<'_, K, V>) -> bool {
    batch.shards.has_values && matches!(batch.query, Query::Get(get) if get.values.is_null())
}

/// Looks up a shard's part: on the batch's device in the caller's stream.
///
/// # Safety
/// As [`Router::run`](super::Router::run).
unsafe fn search<K: AnyKey, V: Word>(
    batch: &InFlight<'_, K, V>,
    slot: &mut Slot,
    shard: usize,
    Part { first, len, hits }: Part,
) -> Result<()> {
    let Slot { inboxes, remote_slots, .. } = slot;
    let remote = remote_slots.get(batch.numbers[shard]).and_then(Option::as_ref);
    let stream = remote.map_or(batch.stream, |remote| &remote.stream);
    let queries = batch.queries.byte_add((first * K::Bits::BYTES) as u64);
    let count = len as u64;
    let query = match *batch.query {
        Query::Get(get) => {
            let mut values = after(get.values, first);
            if writes_unwanted(batch) {
                inboxes[shard].reserve(len, 0, batch.shape)?;
                values = write(&mut inboxes[shard].results.columns[0], stream, 0)?;
            }
            Query::Get(GetBatch { queries, count, values, hits, ..get })
        }
        Query::Rank(rank) => Query::Rank(RankBatch { queries, count, ranks: after(rank.ranks, first), ..rank }),
        Query::Neighbor(near) => {
            let (keys, values) = (after(near.keys, first), after(near.values, first));
            Query::Neighbor(NeighborBatch { queries, count, keys, values, hits, ..near })
        }
        _ => return Ok(()),
    };
    // SAFETY: the caller's contract.
    unsafe { batch.shards.all[shard].launches.launch(stream, true, &query) }
}
