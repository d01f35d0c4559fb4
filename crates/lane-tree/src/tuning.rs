//! Choices that were measured, as data, by the card that they were measured on.

use lanetree_frame::ByCard;

/// What is fastest on a card.
pub(crate) struct Tuning {
    /// Fewest threads of a block of queries, unless the batch has fewer queries: each block copies the table.
    pub(crate) block_threads: u64,
    /// Fewest queries for each node of a batch that is answered in pieces: each piece reads its nodes from memory once.
    pub(crate) piece_queries: u64,
    /// Where a batch would rewrite more than one node of this number, and [a few](FEW_NODES), the tree is rebuilt: that takes a
    /// third longer, but leaves buckets with more room to the batches that follow.
    most_listed: u64,
    /// Likewise, where it would split more than one node of this number.
    most_split: u64,
    /// Where a tree is rebuilt, there is room to put aside one pair in this number, of parts that are no node by the first plan: 1 to 4 in
    /// 100 if keys are random. Where there are more, the pass over all pairs is made once more.
    most_aside: u64,
}

/// There is always room to put so many pairs aside.
const FEW_PAIRS: u64 = 1 << 10;

/// So few nodes are no reason to rebuild a tree.
const FEW_NODES: u64 = 8;

pub(crate) const TUNING: ByCard<Tuning> = ByCard(&[((9, 0), HOPPER)]);

/// NVIDIA H100 and H200, n = 2^26. Small batches by the threads of a block: `docs/performance.md`; the kernels of batches of changes:
/// `docs/lab/30-lines-at-once.md`.
const HOPPER: Tuning = Tuning { block_threads: 512, piece_queries: 4, most_listed: 2, most_split: 5, most_aside: 8 };

impl Tuning {
    /// The most nodes that a batch rewrites, of a tree with `leaf_nodes`.
    pub(crate) const fn most_listed(&self, leaf_nodes: u64) -> u64 {
        leaf_nodes / self.most_listed + FEW_NODES
    }

    /// The most nodes that a batch splits, of a tree with `leaf_nodes`.
    pub(crate) const fn most_split(&self, leaf_nodes: u64) -> u64 {
        leaf_nodes / self.most_split + FEW_NODES
    }

    /// For how many pairs there is room aside when a tree of `pairs` is rebuilt.
    pub(crate) fn most_aside(&self, pairs: u64) -> u64 {
        pairs.min(pairs / self.most_aside + FEW_PAIRS)
    }
}
