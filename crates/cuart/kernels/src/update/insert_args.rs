//! The arguments of inserts, which all of their steps share.

use super::TreeMut;
use super::supply::Supply;
use lanetree_simt::{Global, GlobalMut, KeysRef, kernel_args};

kernel_args! {
    /// Arguments of [`Insert`](super::Insert).
    pub struct InsertArgs {
        /// The tree, without leaves in main memory; its buffers have room for what is taken.
        pub tree: TreeMut,
        /// The root's link, and a word for its lock: `[2]`, the second one zero.
        pub root: GlobalMut<u64>,
        /// The keys of the batch.
        pub queries: KeysRef,
        /// The keys to insert, by their indexes in the batch: `[count]`; null for all from the first on.
        pub picks: Global<u32>,
        /// How many.
        pub count: u64,
        /// Where nodes and leaves come from.
        pub supply: Supply,
    }
}
