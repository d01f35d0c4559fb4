//! Sizes.

use super::Cubpt;
use lanetree_layout::{Key, Word};

/// The size of a tree, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Levels of nodes above the leaves.
    pub height: u32,
    /// Leaves.
    pub leaves: u64,
    /// Nodes above them.
    pub inner_nodes: u64,
    /// Bytes of the nodes of all levels, with those that are free, and what is reserved for more.
    pub node_bytes: u64,
    /// Bytes of the leaves' order and ranks.
    pub order_bytes: u64,
    /// Bytes of the lists of free nodes and of leaves that are too small.
    pub list_bytes: u64,
}

impl Stats {
    /// Bytes of device memory that the tree takes.
    pub fn bytes(&self) -> u64 {
        self.node_bytes + self.order_bytes + self.list_bytes
    }
}

impl<K: Key, V: Word> Cubpt<K, V> {
    /// The size of the tree; of a lost one, what it was.
    pub fn stats(&self) -> Stats {
        let tree = self.tree.known();
        Stats {
            len: tree.len,
            height: tree.height,
            leaves: tree.levels.first().copied().unwrap_or(0),
            inner_nodes: tree.levels.iter().skip(1).sum(),
            node_bytes: tree.storage.bytes(),
            order_bytes: tree.order.bytes(),
            list_bytes: (tree.free.bytes() + tree.small.bytes()) as u64,
        }
    }
}
