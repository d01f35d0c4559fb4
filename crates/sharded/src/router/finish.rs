//! The end of a batch or a piece: its shards' results become those of the whole index, whichever way they have come.

use super::{DeviceScratch, InFlight};
use crate::back::{Finish, KEYS, Outputs};
use crate::query::after;
use core::ops::Range;
use lanetree_frame::fixed::Query;
use lanetree_frame::{AnyKey, Result, Word};
use lanetree_kernels_sharded::Amends;
use lanetree_simt::{GetBatch, GlobalMut, NeighborBatch, RankBatch};

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    /// Finishes some of the batch's queries, which begin at a multiple of 32.
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
                    let out = Outputs { results: after(values, first), hits: after(hits, first / 32) };
                    way.column::<V>(0, Amends::none(), out)
                }
                Query::Rank(RankBatch { ranks, .. }) => {
                    let out = Outputs { results: after(ranks, first), hits: GlobalMut::null() };
                    way.column(0, Amends { plus: self.before.device.read_on(stream)?, ..Amends::none() }, out)
                }
                Query::Neighbor(NeighborBatch { keys, values, hits, .. }) => {
                    let have = |(shard, pair): (usize, &Option<_>)| u64::from(pair.is_some()) << shard;
                    let have_others = batch.shards.fallbacks.iter().enumerate().map(have).sum();
                    let (hits, has_values) = (after(hits, first / 32), batch.shards.has_values);
                    let of_keys = if has_values { GlobalMut::null() } else { hits };
                    let others = self.fallback_keys.device.read_on(stream)?;
                    let out = Outputs { results: after(keys, first), hits: of_keys };
                    way.column::<K::Bits>(KEYS, Amends { others, have_others, ..Amends::none() }, out)?;
                    if !has_values {
                        return Ok(());
                    }
                    let others = self.fallback_values.device.read_on(stream)?;
                    let out = Outputs { results: after(values, first), hits };
                    way.column(0, Amends { others, have_others, ..Amends::none() }, out)
                }
                Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => Ok(()),
            }
        }
    }
}
