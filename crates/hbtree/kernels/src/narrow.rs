//! Leaves from ranks among their largest keys.

use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, instance, kernel_args};

kernel_args! {
    /// Arguments of [`Narrow`].
    pub struct NarrowArgs {
        /// Ranks: `[count]`. Null: the leaves are known.
        pub ranks: Global<u64>,
        /// The leaves, if they are known: `[count]`.
        pub known: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`.
        pub leaves: GlobalMut<u32>,
    }
}

/// Writes the numbers of leaves: ranks among the largest keys of all leaves but the last, or numbers that are known. One
/// thread per rank; any block.
#[derive(Debug)]
pub struct Narrow;

impl Kernel for Narrow {
    type Args = NarrowArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is the place of a rank, or of a leaf.
            unsafe {
                let leaf = if args.ranks.is_null() {
                    simt.load(args.known, index, Hint::Streaming)
                } else {
                    simt.load(args.ranks, index, Hint::Streaming) as u32
                };
                simt.store(args.leaves, index, leaf, Hint::Streaming);
            }
        }
    }
}

instance!(hbtree_u32__narrow, hbtree_u32, Narrow);
