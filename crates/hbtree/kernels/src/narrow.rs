//! Ranks among the leaves' separators as the numbers of leaves.

use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, instance, kernel_args};

kernel_args! {
    /// Arguments of [`Narrow`].
    pub struct NarrowArgs {
        /// Ranks: `[count]`.
        pub ranks: Global<u64>,
        /// How many.
        pub count: u64,
        /// The last leaf: ranks above it become it.
        pub last: u32,
        /// Out: `[count]`.
        pub leaves: GlobalMut<u32>,
    }
}

/// Turns ranks into numbers of leaves. One thread per rank; any block.
#[derive(Debug)]
pub struct Narrow;

impl Kernel for Narrow {
    type Args = NarrowArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is the place of a rank.
            unsafe {
                let rank = simt.load(args.ranks, index, Hint::Streaming);
                let leaf = if rank < u64::from(args.last) { rank as u32 } else { args.last };
                simt.store(args.leaves, index, leaf, Hint::Streaming);
            }
        }
    }
}

instance!(hbtree_u32__narrow, hbtree_u32, Narrow);
