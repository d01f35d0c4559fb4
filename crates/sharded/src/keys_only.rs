//! Sets, as the router sees them.

use lanetree_frame::fixed::{FixedIndex, NeighborOutputs, NeighborSearch, Side, first_pairs_of};
use lanetree_frame::{AnyKey, Launches, Result, Stream};
use lanetree_lane_tree::LaneTree;
use lanetree_simt::{Global, GlobalMut, Near};

/// A set for the router, which knows maps: the values are not there, and nobody asks for them.
pub(crate) struct KeysOnly<'a, K: AnyKey>(pub(crate) &'a LaneTree<K, ()>);

// SAFETY: that of `FixedIndex`. The router asks for no values.
unsafe impl<K: AnyKey> Launches<K, u32> for KeysOnly<'_, K> {
    unsafe fn get(
        &self,
        stream: &Stream,
        is_sorted: bool,
        queries: Global<u8>,
        count: usize,
        _: GlobalMut<u32>,
        hits: GlobalMut<u32>,
        _: u32,
    ) -> Result<()> {
        let order = if is_sorted { LaneTree::<K, ()>::tuning_for_sorted() } else { Default::default() };
        // SAFETY: the caller's contract.
        unsafe { self.0.launch_get(stream, &order, queries.cast(), count, GlobalMut::null(), hits, ()) }
    }

    unsafe fn rank(
        &self,
        stream: &Stream,
        queries: Global<u8>,
        count: usize,
        ranks: GlobalMut<u64>,
        upper: bool,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.0.launch_rank(stream, queries.cast(), count, ranks, side(upper)) }
    }

    unsafe fn neighbor(
        &self,
        stream: &Stream,
        queries: Global<u8>,
        count: usize,
        (keys, _, hits): (GlobalMut<u8>, GlobalMut<u32>, GlobalMut<u32>),
        _: u32,
        upper: bool,
    ) -> Result<()> {
        let outputs = NeighborOutputs { keys: keys.cast(), values: GlobalMut::null(), hits };
        let search = NeighborSearch { side: side(upper), near: Near::ANY };
        // SAFETY: the caller's contract.
        unsafe { self.0.launch_neighbor(stream, queries.cast(), count, outputs, (), search) }
    }
    unsafe fn locate(
        &self,
        stream: &Stream,
        count: usize,
        (starts, ends): (Global<u8>, Global<u8>),
        limits: Global<u64>,
        limit: u64,
        found: (GlobalMut<u64>, GlobalMut<u64>),
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.0.launch_locate(stream, count, (starts.cast(), ends.cast()), limits, limit, found) }
    }

    unsafe fn gather(
        &self,
        stream: &Stream,
        rows: (Global<u64>, Global<u64>),
        count: usize,
        pairs: usize,
        (keys, _): (GlobalMut<u8>, GlobalMut<u32>),
    ) -> Result<()> {
        let out = (keys.cast(), GlobalMut::null());
        // SAFETY: the caller's contract.
        unsafe { self.0.launch_gather(stream, &first_pairs_of(rows, count, pairs), pairs, out) }
    }
}

fn side(upper: bool) -> Side {
    if upper { Side::Upper } else { Side::Lower }
}
