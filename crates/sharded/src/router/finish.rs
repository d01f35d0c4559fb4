//! The end of a batch or a piece: its shards' results become the batch's, whichever way they have come.

use super::{DeviceScratch, InFlight};
use crate::query::after;
use core::ops::Range;
use lanetree_frame::fixed::Query;
use lanetree_frame::{AnyKey, KeyWord, Result, Word};
use lanetree_kernels_sharded::Amends;
use lanetree_simt::{GetBatch, Global, GlobalMut, NeighborBatch, RankBatch};

/// A way to put a column of results into the batch's order, in the caller's stream.
pub(crate) trait Finish {
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// The column has results of this type, and the outputs have an element (or a bit) for each query.
    unsafe fn column<W: KeyWord>(
        &self,
        column: usize,
        amends: Amends<W>,
        out: GlobalMut<W>,
        out_hits: GlobalMut<u32>,
    ) -> Result<()>;
}

/// Nothing takes the place of results.
fn as_they_are<W>() -> Amends<W> {
    Amends { plus: Global::null(), others: Global::null(), have_others: 0 }
}

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    /// Puts the results of some of the batch's queries where they belong.
    ///
    /// # Safety
    /// As [`Router::run`](super::Router::run); the queries were looked up, in the way that is to be finished.
    pub(super) unsafe fn finish(
        &self,
        batch: &InFlight<'_, K, V>,
        queries: &Range<usize>,
        way: &impl Finish,
    ) -> Result<()> {
        let (stream, first) = (batch.stream, queries.start);
        // SAFETY: the columns are of these types, by the shape; the caller's contract.
        unsafe {
            match *batch.query {
                Query::Get(GetBatch { values, hits, .. }) => {
                    way.column::<V>(0, as_they_are(), after(values, first), after(hits, first / 32))
                }
                Query::Rank(RankBatch { ranks, .. }) => {
                    let plus = self.before.device.read_on(stream)?;
                    way.column(0, Amends { plus, ..as_they_are() }, after(ranks, first), GlobalMut::null())
                }
                Query::Neighbor(NeighborBatch { keys, values, hits, .. }) => {
                    let have = |(shard, pair): (usize, &Option<_>)| u64::from(pair.is_some()) << shard;
                    let have_others = batch.shards.fallbacks.iter().enumerate().map(have).sum();
                    let (hits, has_values) = (after(hits, first / 32), batch.shards.has_values);
                    let others = self.fallback_keys.device.read_on(stream)?;
                    let amends = Amends { others, have_others, ..as_they_are() };
                    let of_keys = if has_values { GlobalMut::null() } else { hits };
                    way.column(1, amends, after(keys, first), of_keys)?;
                    if !has_values {
                        return Ok(());
                    }
                    let others = self.fallback_values.device.read_on(stream)?;
                    way.column(0, Amends { others, have_others, ..as_they_are() }, after(values, first), hits)
                }
                Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => Ok(()),
            }
        }
    }
}
