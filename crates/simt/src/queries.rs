//! What kernels are asked of an index over keys of a fixed size: a batch of queries of each kind, and where its results go.
//! An index's kernel takes [`QueryArgs`]: what it needs to know of the index, and a batch.

use crate::{GatherRows, Global, GlobalMut, Near, kernel_args};
use core::ops::Deref;

kernel_args! {
    /// Arguments of a query's kernel. The batch's fields are theirs, too.
    pub struct QueryArgs<T, Q> {
        /// What kernels need to know of the index.
        pub tree: T,
        /// The batch.
        pub batch: Q,
    }
}

impl<T, Q> Deref for QueryArgs<T, Q> {
    type Target = Q;

    #[inline(always)]
    fn deref(&self) -> &Q {
        &self.batch
    }
}

kernel_args! {
    /// Point look-ups.
    pub struct GetBatch<K, V> {
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the value of each query's key, or `miss`.
        pub values: GlobalMut<V>,
        /// Out: `[ceil(count / 32)]`, the hit mask: bit `i % 32` of word `i / 32` is set if query `i` was found; null
        /// if not wanted.
        pub hits: GlobalMut<u32>,
        /// The value written to `values` for a key that is not present.
        pub miss: V,
    }
}

kernel_args! {
    /// Ranks.
    pub struct RankBatch<K> {
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the number of keys below each query.
        pub ranks: GlobalMut<u64>,
        /// 1 to count keys that equal the query, too; otherwise 0.
        pub upper: u32,
    }
}

kernel_args! {
    /// Predecessors or successors.
    pub struct NeighborBatch<K, V> {
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the neighbour's key, in the caller's form; any key if there is none.
        pub keys: GlobalMut<K>,
        /// Out: `[count]`, its value, or `miss`.
        pub values: GlobalMut<V>,
        /// Out: the hit mask, as in [`GetBatch`]; null if not wanted.
        pub hits: GlobalMut<u32>,
        /// 1 for the predecessor, the last key at or below the query; 0 for the successor, the first key at or above it.
        pub predecessor: u32,
        /// The value written to `values` if there is no neighbour.
        pub miss: V,
        /// Which neighbours count.
        pub near: Near<K>,
    }
}

kernel_args! {
    /// The bounds of ranges: where each begins, and how many pairs it has.
    pub struct LocateBatch<K> {
        /// First keys of the ranges: `[count]`.
        pub starts: Global<K>,
        /// Last keys: `[count]`. A range whose end lies before its start is empty.
        pub ends: Global<K>,
        /// Most pairs of each range: `[count]`; null for `limit` everywhere.
        pub limits: Global<u64>,
        /// How many ranges.
        pub count: u64,
        /// Most pairs of a range.
        pub limit: u64,
        /// Out: `[count]`, the cursor of each range's first pair: what it is made of is the index's own. Null if only the counts
        /// are wanted.
        pub cursors: GlobalMut<u64>,
        /// Out: `[count]`, the pairs of each range.
        pub counts: GlobalMut<u64>,
    }
}

kernel_args! {
    /// Copying the pairs of ranges that were located.
    pub struct GatherBatch<K, V> {
        /// The ranges; their cursors are from [`LocateBatch::cursors`].
        pub rows: GatherRows,
        /// Out: `[rows.end - rows.first]`, the keys of the window, in order; null if not wanted.
        pub keys: GlobalMut<K>,
        /// Out: their values.
        pub values: GlobalMut<V>,
    }
}

kernel_args! {
    /// Copying all pairs.
    pub struct AllPairs<K, V> {
        /// Out: the keys of all pairs, in order.
        pub keys: GlobalMut<K>,
        /// Out: their values.
        pub values: GlobalMut<V>,
    }
}

kernel_args! {
    /// Scans: the first pairs from each key on.
    pub struct ScanBatch<K, V> {
        /// Where scans begin: `[count]`.
        pub starts: Global<K>,
        /// How many there are.
        pub count: u64,
        /// Most pairs of each, of 32 bits.
        pub limit: u64,
        /// Out: `[count * limit]`, the keys of the first pairs from `starts[i]` on, from `keys[i * limit]` on.
        pub keys: GlobalMut<K>,
        /// Out: `[count * limit]`, their values.
        pub values: GlobalMut<V>,
        /// Out: `[count]`, how many pairs there are.
        pub counts: GlobalMut<u32>,
    }
}
