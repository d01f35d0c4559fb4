//! Bulk build on the device: leaves from sorted keys ([`leaves`]), nodes from leaves in the order of ranks.
//!
//! *Boundary* `i` lies between the keys of ranks `i` and `i + 1`; its depth is the length of their common prefix
//! ([`boundaries`]). A run of keys whose boundaries are deeper than those on both sides of the run is a node. The node
//! is as deep as the shallowest of its boundaries, and the boundaries of exactly that depth separate its children. So a
//! node has one child more than such boundaries, or the same number if the first of these children is just the key that
//! ends at the node. The first such boundary leads the node: before it there is no equally shallow one without a
//! shallower one between ([`intervals`]).
//!
//! If boundaries are sorted stably by depth, the boundaries of each node are adjacent and in order. So a node is a run
//! in that sequence, its children's numbers are positions in the run, and nothing walks from child to child, wherever
//! in the tree they are. Runs are numbered, sized and given positions in the buffers of their node types ([`number`]),
//! filled by one group of lanes each ([`fill`]), and linked from the root table ([`table`]).
//!
//! So nodes of one type are ordered by depth, and by key within a depth: the nodes that all look-ups pass lie together.

pub mod boundaries;
pub mod fill;
mod instances;
pub mod intervals;
mod key;
pub mod leaves;
mod minima;
pub mod number;
pub mod table;

pub use minima::{level_len, minima_len};

use crate::tree::{THREADS, TreeRef};
use lanetree_simt::{FULL_MASK, GlobalMut, Shared, Simt, WARP, kernel_args};

/// What the kernels report to the host: words of [`NodesArgs::findings`].
pub mod findings {
    /// The largest depth of a boundary.
    pub const DEEPEST: u64 = 0;
    /// Nodes.
    pub const NODES: u64 = 1;
    /// Number of distinct 2-byte prefixes of keys; the next word has the number of 3-byte prefixes.
    pub const BEGINNINGS: u64 = 2;
    /// Nodes of each type, from the smallest.
    pub const KINDS: u64 = 4;
    /// The link of the topmost node.
    pub const ROOT: u64 = 8;
    /// How many words.
    pub const LEN: usize = 9;
}

kernel_args! {
    /// Arguments of all kernels that build nodes. What one of them writes, later ones read.
    pub struct NodesArgs {
        /// The leaves, none of them in main memory, with their ranks; at least two.
        pub tree: TreeRef,
        /// Depths of boundaries, and the minima over them: [`minima_len`].
        pub minima: GlobalMut<u32>,
        /// `[ceil(boundaries / 32)]`: a bit for each boundary that leads a node.
        pub leaders: GlobalMut<u32>,
        /// `[boundaries]`: the leader of the node that begins right after the boundary, if one does.
        pub right: GlobalMut<u32>,
        /// `[boundaries]`: of a boundary that leads a node, the leader of its first child, if that is a node.
        pub left: GlobalMut<u32>,
        /// `[boundaries]`: depths in ascending order.
        pub depths: GlobalMut<u32>,
        /// `[boundaries]`: the boundaries in that order.
        pub sorted: GlobalMut<u32>,
        /// One count per numbering block and type.
        pub tile_counts: GlobalMut<u32>,
        /// The sums of those before each, and of all.
        pub tile_offsets: GlobalMut<u64>,
        /// `[nodes + 1]`: where in `sorted` each node's boundaries begin, and their end.
        pub starts: GlobalMut<u32>,
        /// `[boundaries]`: the number of the node that a boundary leads.
        pub numbers: GlobalMut<u32>,
        /// `[nodes]`: links without spans.
        pub links: GlobalMut<u64>,
        /// `[nodes]`: their numbers, by kind and place there.
        pub list: GlobalMut<u32>,
        /// [`findings::LEN`] words, zeroed.
        pub findings: GlobalMut<u64>,
        /// One fewer than there are leaves; below 2^32 - 1.
        pub boundaries: u32,
        /// Nodes.
        pub nodes: u32,
    }
}

const WARPS: u32 = THREADS / WARP;

/// Block collective, of [`THREADS`] threads. The first result is the number of earlier threads with the caller's
/// `class`; the second, for the first `CLASSES` threads, is the number of threads in the block whose class is the
/// caller's index. Threads of a class from `CLASSES` on are not counted.
#[inline(always)]
pub(crate) fn block_rank<S: Simt, const CLASSES: usize>(simt: S, class: usize) -> (u32, u32) {
    let counts: Shared<u32> = Shared::at(0, WARPS * CLASSES as u32);
    let mut own = 0;
    for each in 0..CLASSES {
        let word = simt.ballot(FULL_MASK, class == each);
        own = if class == each { word } else { own };
        if simt.lane() == 0 {
            // SAFETY: a word for each warp and class; the barrier separates it from the loads.
            unsafe { simt.shared_store(counts, each as u32 * WARPS + simt.warp(), word.count_ones()) };
        }
    }
    simt.barrier();
    let (mut before, mut all) = ((own & simt.lanes_below()).count_ones(), 0);
    for warp in 0..WARPS {
        // SAFETY: stored before the barrier, by every warp for every class.
        unsafe {
            if class < CLASSES && warp < simt.warp() {
                before += simt.shared_load(counts, class as u32 * WARPS + warp);
            }
            if simt.thread_index() < CLASSES as u32 {
                all += simt.shared_load(counts, simt.thread_index() * WARPS + warp);
            }
        }
    }
    (before, all)
}

/// Bytes of shared memory of [`block_rank`].
pub(crate) const fn rank_shared(classes: u32) -> u32 {
    4 * WARPS * classes
}
