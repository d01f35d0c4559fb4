//! Sets, as the router sees them.

use lanetree_frame::fixed::{FixedIndex, Query};
use lanetree_frame::{AnyKey, BatchOrder, Launches, Result, Stream};
use lanetree_lane_tree::LaneTree;

/// A set for the router, which knows maps: the values are not there, and nobody asks for them.
pub(crate) struct KeysOnly<'a, K: AnyKey>(pub(crate) &'a LaneTree<K, ()>);

// SAFETY: that of `FixedIndex`. The router asks for no values.
unsafe impl<K: AnyKey> Launches<K, u32> for KeysOnly<'_, K> {
    unsafe fn launch(&self, stream: &Stream, is_sorted: bool, query: &Query<K::Bits, u32>) -> Result<()> {
        let order = if is_sorted { BatchOrder::Sorted } else { BatchOrder::default() };
        // SAFETY: the caller's contract.
        unsafe { self.0.launch(stream, &order, &query.without_values()) }
    }
}
