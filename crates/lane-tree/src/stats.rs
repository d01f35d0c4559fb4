//! Sizes.

use super::LaneTree;
use lanetree_frame::DeviceKind;
use lanetree_kernels_lane_tree::layout::words_of_buckets;
use lanetree_layout::{AnyKey, Value};

/// The size of a tree, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Levels of nodes above the buckets.
    pub height: u32,
    /// Nodes of the lowest level.
    pub leaf_nodes: u64,
    /// Buckets that nodes have.
    pub buckets: u64,
    /// Bytes of the buckets, which hold the pairs; with those that no node has any more, and, on a device, what is reserved for more. On
    /// the host that is no memory yet.
    pub bucket_bytes: u64,
    /// Bytes of the nodes of the lowest level.
    pub node_bytes: u64,
    /// Bytes of the records, by which ordered queries know ranks, and of where buckets end.
    pub record_bytes: u64,
    /// Bytes of the nodes above, what is reserved for them included, and of their first keys.
    pub upper_bytes: u64,
    /// Bytes of the table at the top.
    pub top_bytes: u64,
}

impl Stats {
    /// Bytes of device memory that the tree takes.
    pub fn bytes(&self) -> u64 {
        self.bucket_bytes + self.node_bytes + self.record_bytes + self.upper_bytes + self.top_bytes
    }
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// The size of the tree; of a lost one, what it was.
    pub fn stats(&self) -> Stats {
        let parts = self.parts.known();
        let [bucket_bytes, node_bytes, record_bytes, upper_bytes, top_bytes] = parts.bytes();
        let shape = &parts.shape;
        let bucket_bytes = match self.device.kind() {
            DeviceKind::Host => words_of_buckets::<K::Bits, V>(shape.buckets.into()) * 8,
            _ => bucket_bytes,
        };
        Stats {
            len: shape.len,
            height: shape.height,
            leaf_nodes: u64::from(shape.leaf_nodes),
            buckets: u64::from(shape.buckets - shape.unused),
            bucket_bytes,
            node_bytes,
            record_bytes,
            upper_bytes,
            top_bytes,
        }
    }
}
