//! Bulk build on the device: leaves from sorted keys ([`leaves`]), nodes from leaves in the order of ranks.
//!
//! *Boundary* `i` lies between the keys of ranks `i` and `i + 1`; its depth is how many bytes they begin with
//! alike ([`boundaries`]). Keys in a row whose boundaries are deeper than those on both sides are a node, as
//! deep as the shallowest of its boundaries; those of that very depth part its children, so a node's children
//! are one more than these, and one fewer if the first one is no more than the key that ends at the node. The
//! first of them leads the node: there is none as shallow before it without a shallower one between
//! ([`intervals`]).
//!
//! Boundaries sorted by depth, stably, have those of every node in a row, in their order: so a node is a run
//! in that sequence, its children's numbers are places in the run, and nothing walks from child to child,
//! wherever in the tree they are. Runs are numbered, sized and given their places in the buffers of their
//! kinds ([`number`]), filled, a group of lanes for each ([`fill`]), and linked from the root table ([`table`]).
//!
//! The nodes of a kind are so in the order of their depths, and of their keys where that is the same: what all
//! look-ups pass lies together.

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

/// Where the kernels leave what the host must know: words of [`NodesArgs::findings`].
pub mod findings {
    /// The largest depth of a boundary.
    pub const DEEPEST: u64 = 0;
    /// Nodes.
    pub const NODES: u64 = 1;
    /// Beginnings of 2 bytes that keys have; behind it, those of 3.
    pub const BEGINNINGS: u64 = 2;
    /// Nodes of each kind, from the smallest.
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
        /// `[boundaries]`: the leader of the node that begins right behind the boundary, if one does.
        pub right: GlobalMut<u32>,
        /// `[boundaries]`: of a boundary that leads a node, the leader of its first child, if that is a node.
        pub left: GlobalMut<u32>,
        /// `[boundaries]`: depths in ascending order.
        pub depths: GlobalMut<u32>,
        /// `[boundaries]`: the boundaries in that order.
        pub sorted: GlobalMut<u32>,
        /// A count for each block that numbers something, and for each kind that it does.
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

/// Block collective, of [`THREADS`] threads. In how many threads before the caller's `class` is the same, and
/// in how many of the block it is the caller's index; `CLASSES` classes, a thread of another counts nowhere.
/// The second result is for the first `CLASSES` threads.
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
