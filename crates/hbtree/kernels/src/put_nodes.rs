//! Nodes that a batch has changed, to their places.

use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`PutNodes`].
    pub struct PutNodesArgs<K> {
        /// Numbers of nodes: `[count]`, no two of them equal.
        pub numbers: Global<u32>,
        /// The nodes, side by side: `[count * words]`, from a 16-byte boundary on.
        pub nodes: Global<K>,
        /// How many.
        pub count: u32,
        /// Words of a node: a multiple of 16 bytes. All nodes together have fewer than 2^32.
        pub words: u32,
        /// Out: an array of such nodes, from a 16-byte boundary on.
        pub array: GlobalMut<K>,
    }
}

/// Copies nodes into an array, each to the place of its number. One thread for 16 bytes; any block.
#[derive(Debug)]
pub struct PutNodes<K>(PhantomData<K>);

impl<K: Word> Kernel for PutNodes<K> {
    type Args = PutNodesArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // Never 0, so that the division needs no check.
        let per_node = (args.words / K::PER_VECTOR as u32).max(1);
        let index = simt.global_index();
        if index < u64::from(args.count) * u64::from(per_node) {
            let (node, within) = (index as u32 / per_node, index as u32 % per_node);
            // SAFETY: the place of a node's number, 16 bytes of this node, and their place in the array.
            unsafe {
                let number = simt.load(args.numbers, u64::from(node), Hint::ReadOnly);
                let words = simt.load_vector(args.nodes, index * K::PER_VECTOR as u64, Hint::NoAllocate);
                let to = u64::from(number) * u64::from(args.words) + u64::from(within) * K::PER_VECTOR as u64;
                simt.store_vector(args.array, to, words, Hint::Default);
            }
        }
    }
}
