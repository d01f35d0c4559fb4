//! How large a tree is, and what it is made of.

use super::Harmonia;
#[cfg(feature = "papers")]
use lanetree_kernels_harmonia::layout::{inner_slot, leaf_offset};
#[cfg(feature = "papers")]
use lanetree_layout::KeyWord;
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;

/// The size and shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Slots of a node.
    pub fanout: u32,
    /// Levels, the leaves' included; 0 for an empty tree.
    pub levels: u32,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Leaves.
    pub leaves: u64,
    /// The part of the leaves' slots that hold pairs, in 0..=1.
    pub fill: f64,
    /// Bytes of the inner nodes' keys.
    pub inner_bytes: u64,
    /// Bytes of the prefix-sum child region.
    pub child_bytes: u64,
    /// Bytes of the leaves, keys and values.
    pub leaf_bytes: u64,
    /// Bytes of the leaves' ranks, which a tree has once it was updated.
    pub rank_bytes: u64,
    /// Bytes of the whole tree per pair; 0 for an empty tree.
    pub bytes_per_key: f64,
}

impl Stats {
    /// Bytes of device memory that the tree takes.
    pub fn bytes(&self) -> u64 {
        self.inner_bytes + self.child_bytes + self.leaf_bytes + self.rank_bytes
    }
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// The size and shape of the tree.
    pub fn stats(&self) -> Stats {
        let shape = &self.shape;
        let slots = u64::from(shape.leaves) * u64::from(shape.fanout);
        let ratio = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let mut stats = Stats {
            len: shape.len,
            fanout: shape.fanout,
            levels: shape.height + u32::from(shape.leaves > 0),
            inner_nodes: u64::from(shape.inner),
            leaves: u64::from(shape.leaves),
            fill: ratio(shape.len, slots),
            inner_bytes: self.inner.bytes() as u64,
            child_bytes: self.prefix_sum.bytes() as u64,
            leaf_bytes: self.leaves.bytes() as u64,
            rank_bytes: (self.ranks.as_ref().map_or(0, Buffer::bytes) + self.lens.as_ref().map_or(0, Buffer::bytes))
                as u64,
            bytes_per_key: 0.0,
        };
        stats.bytes_per_key = ratio(stats.bytes(), shape.len);
        stats
    }

    /// For the papers' figures: the device addresses of the nodes of a level in the key region, for tools that look at memory accesses. The root
    /// has level 0, the leaves the last level; `None` for a level that does not exist.
    #[cfg(feature = "papers")]
    pub fn level_addresses(&self, level: u32) -> core::ops::Range<usize> {
        let shape = &self.shape;
        if level < shape.height {
            let base = self.inner.addresses().start;
            let at = |node| base + inner_slot(shape.fanout, node, 0) as usize * K::Bits::BYTES;
            return at(shape.level_first(level))..at(shape.level_first(level + 1));
        }
        let leaves = if level == shape.height { shape.leaves } else { 0 };
        let base = self.leaves.addresses().start;
        base..base + leaf_offset::<K::Bits, V>(shape.fanout, leaves) as usize
    }
}
