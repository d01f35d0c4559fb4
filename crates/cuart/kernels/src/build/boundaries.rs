//! Depths of boundaries, and the minima over them.

use super::key::LeafKey;
use super::{NodesArgs, findings, level_len};
use lanetree_simt::{FULL_MASK, GlobalMut, Hint, Kernel, Order, Scope, Simt, WARP, kernel_args};

/// Writes the depths of boundaries and the first level of minima; writes the largest depth and the numbers of distinct
/// prefixes to the findings. Any grid of whole warps (grid-stride loop).
#[derive(Debug)]
pub struct Boundaries;

impl Kernel for Boundaries {
    type Args = NodesArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let len = level_len(args.boundaries, 0);
        // Also whole blocks of the level above, if there is one.
        let above = len > u64::from(WARP);
        let all = if above { level_len(args.boundaries, 1) * u64::from(WARP) } else { len };
        let stride = u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
        let mut index = simt.global_index();
        let (mut deepest, mut two, mut three) = (0, 0, 0);
        // SAFETY: a boundary lies between two keys; a word of level 0 for each index below its length, and of
        // level 1 for each warp's.
        unsafe {
            if index == 0 {
                let len = LeafKey::at(simt, &args.tree, 0).len;
                (two, three) = (u32::from(len >= 2), u32::from(len >= 3));
            }
            while index < all {
                let mut depth = u32::MAX;
                if index < u64::from(args.boundaries) {
                    let key = LeafKey::at(simt, &args.tree, index as u32 + 1);
                    depth = LeafKey::at(simt, &args.tree, index as u32).common_prefix(simt, key);
                    deepest = if depth > deepest { depth } else { deepest };
                    two += u32::from(key.len >= 2 && depth < 2);
                    three += u32::from(key.len >= 3 && depth < 3);
                }
                if index < len {
                    simt.store(args.minima, index, depth, Hint::Default);
                }
                if above {
                    let minimum = simt.reduce_min(FULL_MASK, depth);
                    if simt.lane() == 0 {
                        simt.store(args.minima, len + index / u64::from(WARP), minimum, Hint::Default);
                    }
                }
                index += stride;
            }
        }
        let deepest = simt.reduce_max(FULL_MASK, deepest);
        let beginnings = [simt.reduce_add(FULL_MASK, two), simt.reduce_add(FULL_MASK, three)];
        if simt.lane() == 0 {
            let (order, scope) = (Order::Relaxed, Scope::Device);
            // SAFETY: accessed atomically only.
            unsafe {
                simt.atomic_max(args.findings, findings::DEEPEST, u64::from(deepest), order, scope);
                simt.atomic_add(args.findings, findings::BEGINNINGS, u64::from(beginnings[0]), order, scope);
                simt.atomic_add(args.findings, findings::BEGINNINGS + 1, u64::from(beginnings[1]), order, scope);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Level`].
    pub struct LevelArgs {
        /// As [`NodesArgs::minima`].
        pub minima: GlobalMut<u32>,
        /// Where the level below begins.
        pub from: u64,
        /// Words of it.
        pub from_len: u64,
        /// Words of the level; the next level begins after them.
        pub len: u64,
    }
}

/// Writes a level of minima, from the second level on: one warp per word.
#[derive(Debug)]
pub struct Level;

impl Kernel for Level {
    type Args = LevelArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut minimum = u32::MAX;
        if index < args.from_len {
            // SAFETY: a word of the level below, which an earlier kernel has written.
            minimum = unsafe { simt.load(args.minima.as_const(), args.from + index, Hint::Default) };
        }
        let minimum = simt.reduce_min(FULL_MASK, minimum);
        let word = index / u64::from(WARP);
        if simt.lane() == 0 && word < args.len {
            // SAFETY: a word of the level.
            unsafe { simt.store(args.minima, args.from + args.from_len + word, minimum, Hint::Default) };
        }
    }
}
