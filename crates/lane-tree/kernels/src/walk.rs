//! Walks along buckets: from node to node, since the buckets of the next one may be anywhere.

use crate::quads::own;
use crate::search::{Above, TreeRef};
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Hint, KeyWord, Simt};

/// Buckets in the order of their keys: a node's buckets follow one another; the next node's may be anywhere.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    /// A node of the lowest level.
    pub(crate) node: u32,
    /// One of its buckets, or the one after the last.
    pub(crate) bucket: u32,
    /// The bucket after its last.
    pub(crate) end: u32,
}

impl Walk {
    /// Warp collective (all lanes). That of a lane, which may be another for each.
    #[inline(always)]
    pub(crate) fn of_lane<S: Simt>(self, simt: S, lane: u32) -> Self {
        let of = |word| simt.shuffle(FULL_MASK, word, lane);
        Self { node: of(self.node), bucket: of(self.bucket), end: of(self.end) }
    }
}

impl<K: KeyWord> TreeRef<K> {
    /// Per thread. The bucket after the last one of a node of the lowest level.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    pub(crate) unsafe fn end_bucket<S: Simt>(&self, simt: S, number: u32) -> u32 {
        // SAFETY: a node. Updates change where buckets end, so this is no read-only load.
        unsafe { simt.load(self.ends, u64::from(number), Hint::Default) }
    }

    /// No buckets.
    #[inline(always)]
    pub(crate) fn no_buckets(&self) -> Walk {
        Walk { node: self.leaf_nodes, bucket: 0, end: 0 }
    }

    /// Per thread. From a bucket of a node of the lowest level on.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    pub(crate) unsafe fn walk<S: Simt>(&self, simt: S, node: u32, bucket: u32) -> Walk {
        // SAFETY: the caller's.
        Walk { node, bucket, end: unsafe { self.end_bucket(simt, node) } }
    }

    /// Per thread. The buckets of the next node; none after the last.
    ///
    /// # Safety
    /// The tree is valid.
    #[inline(always)]
    pub(crate) unsafe fn next_node<S: Simt>(&self, simt: S, walk: Walk) -> Walk {
        let node = walk.node + 1;
        if node >= self.leaf_nodes {
            return self.no_buckets();
        }
        // SAFETY: a node.
        unsafe { self.walk(simt, node, self.first_bucket(simt, node)) }
    }

    /// Warp collective (all lanes). The buckets from the bucket of each lane's word on. The word may be absent.
    ///
    /// # Safety
    /// As [`TreeRef::start`].
    #[inline(always)]
    pub(crate) unsafe fn walk_of_any<S: Simt, V: Value>(&self, simt: S, top: impl Above, word: K) -> Walk {
        // SAFETY: the same contract; a node of the tree.
        unsafe {
            let (descent, node) = self.descend_any::<S, V>(simt, top, word);
            self.walk(simt, node, own(simt, descent.children.numbers()))
        }
    }
}
