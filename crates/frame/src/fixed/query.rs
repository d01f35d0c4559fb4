//! What is launched: a batch of queries of any kind, as every index's kernels take it.

use lanetree_simt::{AggregateBatch, GatherBatch, GetBatch, Global, GlobalMut, LocateBatch, NeighborBatch, RankBatch};

/// A batch of at least one query, and where the results go, in memory that the device can reach.
#[derive(Clone, Copy, Debug)]
pub enum Query<B, V> {
    /// Point look-ups.
    Get(GetBatch<B, V>),
    /// Ranks.
    Rank(RankBatch<B>),
    /// Neighbours. If the batch's [`Near`](lanetree_simt::Near) says that this is the second search, the outputs hold what the
    /// first one has found, the hit mask included.
    Neighbor(NeighborBatch<B, V>),
    /// The bounds of ranges.
    Locate(LocateBatch<B>),
    /// Copying a window of the pairs of rows, with about so many pairs in a row.
    Gather(GatherBatch<B, V>, u64),
    /// The values of ranges, aggregated.
    Aggregate(AggregateBatch),
}

/// Ranges that were located, whose keys may be sorted.
#[derive(Clone, Copy, Debug)]
pub struct SortedRanges<B> {
    /// Their first keys.
    pub starts: Global<B>,
    /// Their last keys.
    pub ends: Global<B>,
    /// How many pairs each has; may be written over.
    pub counts: GlobalMut<u64>,
}

impl<B, V> Query<B, V> {
    /// Copying a window of the pairs of rows, at least one, with about `expected` pairs in all.
    pub fn gather(batch: GatherBatch<B, V>, expected: usize) -> Self {
        let mean = expected as u64 / batch.rows.count;
        Self::Gather(batch, mean)
    }

    /// The same of an index without values.
    pub fn without_values(&self) -> Query<B, ()>
    where
        B: Copy,
    {
        match *self {
            Self::Get(GetBatch { queries, count, hits, .. }) => {
                Query::Get(GetBatch { queries, count, values: GlobalMut::null(), hits, miss: () })
            }
            Self::Rank(batch) => Query::Rank(batch),
            Self::Neighbor(NeighborBatch { queries, count, keys, hits, predecessor, near, .. }) => {
                let (values, miss) = (GlobalMut::null(), ());
                Query::Neighbor(NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near })
            }
            Self::Locate(batch) => Query::Locate(batch),
            Self::Gather(GatherBatch { rows, keys, .. }, mean) => {
                Query::Gather(GatherBatch { rows, keys, values: GlobalMut::null() }, mean)
            }
            Self::Aggregate(batch) => Query::Aggregate(batch),
        }
    }
}
