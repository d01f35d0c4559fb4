//! What a tree consists of, in its device's memory.

use crate::weights::{RANK_BLOCK, Weights};
use lanetree_frame::room::zeroed;
use lanetree_frame::{Result, Stream};
use lanetree_kernels_lane_tree::TreeRef;
use lanetree_kernels_lane_tree::layout::{NODE_WORDS, Prefixes};
use lanetree_layout::KeyWord;
use lanetree_runtime::Buffer;

/// Numbers that describe a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape<K> {
    pub(crate) len: u64,
    /// Buckets, with those that no node has any more.
    pub(crate) buckets: u32,
    /// Buckets that no node has any more.
    pub(crate) unused: u32,
    /// Nodes of the lowest level.
    pub(crate) leaf_nodes: u32,
    /// Nodes of the highest level.
    pub(crate) top_count: u32,
    /// The number of the first of them.
    pub(crate) top_first: u32,
    pub(crate) prefixes: Prefixes<K>,
    pub(crate) table_shift: u32,
    pub(crate) height: u32,
    pub(crate) formats: u32,
}

impl<K> Shape<K> {
    /// Where the first keys of the highest level's nodes begin, among all first keys.
    pub(crate) fn top_start(&self) -> usize {
        if self.height > 1 { (self.top_first - self.leaf_nodes) as usize } else { 0 }
    }
}

/// A tree's memory.
#[derive(Debug)]
pub(crate) struct Parts<K> {
    pub(crate) shape: Shape<K>,
    pub(crate) buckets: Buffer<u64>,
    pub(crate) nodes: Buffer<u32>,
    pub(crate) records: Buffer<u64>,
    /// The bucket after the last one of each node of the lowest level.
    pub(crate) ends: Buffer<u32>,
    /// The first keys of the nodes above the lowest level; if there are none, of the nodes of the lowest level. The
    /// keys of the highest level come last.
    pub(crate) firsts: Buffer<K>,
    pub(crate) prefixes: Buffer<u32>,
    pub(crate) table: Buffer<u32>,
    /// On the host: by how much, wrapping, the ranks of each [`RANK_BLOCK`] nodes are more than their records say. So a batch of few
    /// changes does not write the records of all nodes.
    pub(crate) rank_steps: Vec<u64>,
    /// On the host, of a tree that was given any.
    pub(crate) weights: Option<Weights>,
}

/// The same without buckets in main memory, as a build makes it.
#[derive(Debug, Default)]
pub(crate) struct HostParts<K> {
    pub(crate) shape: Shape<K>,
    pub(crate) nodes: Vec<u32>,
    pub(crate) records: Vec<u64>,
    pub(crate) ends: Vec<u32>,
    pub(crate) firsts: Vec<K>,
    pub(crate) prefixes: Vec<u32>,
    pub(crate) table: Vec<u32>,
}

impl<K: KeyWord> HostParts<K> {
    /// Copies them to the device of these buckets.
    pub(crate) fn upload(&self, buckets: Buffer<u64>) -> Result<Parts<K>> {
        let device = buckets.device().clone();
        Ok(Parts {
            shape: self.shape,
            buckets,
            nodes: device.upload(&self.nodes)?,
            records: device.upload(&self.records)?,
            ends: device.upload(&self.ends)?,
            firsts: device.upload(&self.firsts)?,
            prefixes: device.upload(&self.prefixes)?,
            table: device.upload(&self.table)?,
            rank_steps: zeroed((self.shape.leaf_nodes as usize).div_ceil(RANK_BLOCK))?,
            weights: None,
        })
    }
}

impl<K: KeyWord> Parts<K> {
    /// What a kernel in a stream needs to know of the tree.
    pub(crate) fn tree_ref(&self, stream: &Stream, flip: K) -> Result<TreeRef<K>> {
        let Shape { len, buckets, leaf_nodes, top_count, top_first, height, formats, .. } = self.shape;
        let Shape { prefixes: Prefixes { origin, split, gap, shift }, table_shift, .. } = self.shape;
        Ok(TreeRef {
            buckets: self.buckets.read_on(stream)?,
            nodes: self.nodes.read_on(stream)?,
            records: self.records.read_on(stream)?,
            ends: self.ends.read_on(stream)?,
            firsts: self.firsts.read_on(stream)?,
            top: self.firsts.read_on(stream)?.byte_add((self.shape.top_start() * K::BYTES) as u64),
            prefixes: self.prefixes.read_on(stream)?,
            table: self.table.read_on(stream)?,
            len,
            bucket_count: buckets,
            leaf_nodes,
            top_count,
            top_first,
            prefix_shift: shift,
            table_shift,
            height,
            formats,
            origin,
            split,
            gap,
            flip,
        })
    }

    /// Bytes of the buckets, of the lowest nodes, of their records and ends, of the nodes above with their first keys, and of the table.
    pub(crate) fn bytes(&self) -> [u64; 5] {
        let lowest = self.shape.leaf_nodes as usize * (NODE_WORDS as usize * size_of::<u32>());
        let upper = self.nodes.bytes() - lowest + self.firsts.bytes();
        let top = self.prefixes.bytes() + self.table.bytes();
        [self.buckets.bytes(), lowest, self.records.bytes() + self.ends.bytes(), upper, top].map(|bytes| bytes as u64)
    }
}
