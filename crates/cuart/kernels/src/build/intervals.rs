//! Which boundaries lead nodes, and whose children these nodes are.

use super::minima::{Minima, NONE};
use super::{NodesArgs, findings, level_len};
use lanetree_simt::{FULL_MASK, Hint, Kernel, Order, Scope, Simt, WARP};

/// Finds the boundaries that lead nodes, adds their number to the findings, and records each node at the boundary of
/// its parent. Any grid of whole warps (grid-stride loop).
#[derive(Debug)]
pub struct Intervals;

impl NodesArgs {
    /// The depths of boundaries, complete.
    #[inline(always)]
    pub(super) fn depths_of_boundaries(&self) -> Minima {
        Minima { words: self.minima.as_const(), boundaries: self.boundaries }
    }
}

/// The sides of a node: the nearest shallower boundaries on both, or [`NONE`].
#[derive(Clone, Copy)]
pub(super) struct Sides {
    pub(super) before: u32,
    pub(super) after: u32,
}

impl Sides {
    /// Per thread. Whether the node is the first child of the node that the boundary after it leads. If not, it follows
    /// directly after the boundary before it, which belongs to its parent; or it is the topmost node.
    ///
    /// # Safety
    /// The minima are complete.
    #[inline(always)]
    pub(super) unsafe fn is_first<S: Simt>(self, simt: S, minima: Minima) -> bool {
        if self.before == NONE || self.after == NONE {
            return self.after != NONE;
        }
        // SAFETY: both are boundaries.
        unsafe { minima.get(simt, u64::from(self.after)) > minima.get(simt, u64::from(self.before)) }
    }
}

impl Kernel for Intervals {
    type Args = NodesArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let minima = args.depths_of_boundaries();
        let stride = u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
        let all = level_len(args.boundaries, 0);
        let mut index = simt.global_index();
        let mut nodes = 0;
        while index < all {
            let mut leads = false;
            if index < u64::from(args.boundaries) {
                let own = index as u32;
                // SAFETY: a boundary; each node has one place where its leader is recorded.
                unsafe {
                    let depth = minima.get(simt, index);
                    let before = minima.before(simt, own, depth + 1);
                    leads = before == NONE || minima.get(simt, u64::from(before)) < depth;
                    if leads {
                        let sides = Sides { before, after: minima.after(simt, own, depth) };
                        if sides.is_first(simt, minima) {
                            simt.store(args.left, u64::from(sides.after), own, Hint::Default);
                        } else if before != NONE {
                            simt.store(args.right, u64::from(before), own, Hint::Default);
                        }
                    }
                }
            }
            let word = simt.ballot(FULL_MASK, leads);
            nodes += word.count_ones();
            if simt.lane() == 0 && index < u64::from(args.boundaries) {
                // SAFETY: the word of the warp's boundaries.
                unsafe { simt.store(args.leaders, index / u64::from(WARP), word, Hint::Default) };
            }
            index += stride;
        }
        if simt.lane() == 0 {
            // SAFETY: accessed atomically only.
            unsafe { simt.atomic_add(args.findings, findings::NODES, u64::from(nodes), Order::Relaxed, Scope::Device) };
        }
    }
}
