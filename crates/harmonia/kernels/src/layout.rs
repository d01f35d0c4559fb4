//! The Harmonia B+tree (Yan et al., PPoPP 2019, section 3.1): a *key region* of nodes in breadth-first
//! order and a *child region*, the prefix-sum array of first children.
//!
//! ```text
//! level 0            ┌ node 0 ┐                                inner nodes: `Shape::inner`
//! level 1      ┌ 1 ┐   ┌ 2 ┐   ┌ 3 ┐                           numbered breadth first
//! level 2   ┌ 4 ┐┌ 5 ┐ ...              ┌ n ┐                  leaves: the last level
//!
//! inner node of fanout F     one box per 32-byte sector, 8-byte keys, F = 8
//! ┌───────────────────────┬───────────────────────┐
//! │ s0    s1    s2    s3  │ s4    s5    s6    c   │   F - 1 separators, then the first child
//! └───────────────────────┴───────────────────────┘
//!
//! leaf of fanout F           8-byte keys, 8-byte values, F = 8: one 128-byte line
//! ┌───────────────────────┬───────────────────────┬───────────────────────┬───────────────────────┐
//! │ k0    k1    k2    k3  │ k4    k5    k6    k7  │ v0    v1    v2    v3  │ v4    v5    v6    v7  │
//! └───────────────────────┴───────────────────────┴───────────────────────┴───────────────────────┘
//!
//! child region               4 bytes per inner node
//! ┌───┬───┬───┬─ ...
//! │ 1 │ 4 │ 7 │                prefix_sum[i]: the index of node i's first child
//! └───┴───┴───┴─ ...
//! ```
//!
//! * Separator *i* of an inner node is the largest key under child *i*; a query descends to the first
//!   child whose separator is not below it. Slots without a separator hold the largest word, which is
//!   never below any query: so the largest key is a legal key, and a query beyond every key reaches
//!   the last child.
//! * Nodes are padded from the paper's F - 1 keys to F so that they are aligned. An inner node's spare
//!   slot repeats its entry of the prefix-sum array; which of the two a kernel reads is its
//!   [`ChildRegion`].
//! * A leaf uses all F slots. Its records lie next to its keys, in the key region (as in the slide deck's
//!   `struct Node`), so that a look-up with a small F touches one line. The unused slots of a leaf repeat its last
//!   pair, so any slot that matches holds the right value.

use lanetree_layout::Word;
pub use lanetree_layout::btree::{
    ALIGNMENT, FANOUTS, Filling, MAX_HEIGHT, Shape, leaf_bytes, leaf_offset, leaf_values_offset,
};

/// Bytes of an inner node.
#[inline(always)]
pub const fn inner_bytes<K: Word>(fanout: u32) -> u64 {
    fanout as u64 * K::BYTES as u64
}

/// Index, in keys from the start of the inner nodes, of a slot of an inner node.
#[inline(always)]
pub const fn inner_slot(fanout: u32, node: u32, slot: u32) -> u64 {
    node as u64 * fanout as u64 + slot as u64
}

/// Where a descent reads the index of a node's first child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildRegion {
    /// The prefix-sum array, as in the paper: a second gather per level, over 4 bytes per node.
    PrefixSum,
    /// The spare slot of the node itself: in a line that the search has read anyway.
    NodeSlot,
}

/// Bytes of all regions of a tree.
pub fn bytes<K: Word, V: Word>(shape: &Shape) -> u64 {
    u64::from(shape.inner) * (inner_bytes::<K>(shape.fanout) + 4) + shape.leaf_region_bytes::<K, V>()
}
