//! The inner levels of the implicit tree, as a kernel sees them.

use lanetree_simt::{Global, kernel_args};

kernel_args! {
    /// Inner levels on the device: passed to kernels by value.
    pub struct ImplicitRef<K> {
        /// Ordered words, a line for each node, the root's level first.
        pub separators: Global<K>,
        /// The number of nodes above each level: `[height]`.
        pub levels: Global<u32>,
        /// Levels.
        pub height: u32,
        /// Children per node.
        pub fanout: u32,
        /// Exclusive-or mask between queries in the caller's form and ordered words.
        pub flip: K,
    }
}
