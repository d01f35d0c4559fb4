//! CUBPT: a B+tree with explicit references, built and changed in bulk on the GPU, a thread per key.
//!
//! Huang, Su and Xi, *CUBPT: Lock-free bulk insertions to B+ tree on GPU architecture*, Computer Modelling & New
//! Technologies 18(10), 2014.

mod build;
mod device;
mod layer;
mod native;
mod order;
mod storage;
#[cfg(test)]
mod tests;
mod tree;
mod update;

pub use build::Builder;
pub use lanetree_frame::fixed::OnStream;
#[doc(hidden)]
pub use lanetree_kernels_cubpt::modules::MODULES;

use core::fmt;
use core::marker::PhantomData;
use lanetree_frame::fixed::Staging;
use lanetree_frame::{Device, Guarded, Result};
use lanetree_layout::{Key, Word};
use tree::Tree;

/// A B+tree of keys `K` with values `V`, on a device.
pub struct Cubpt<K: Key, V: Word> {
    device: Device,
    order: u32,
    fill: f64,
    tree: Guarded<Tree>,
    /// The memory of host batches.
    staging: Staging<K, V>,
    words: PhantomData<(K, V)>,
}

impl<K: Key, V: Word> Cubpt<K, V> {
    /// The builder, which has the options.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// Most keys of a node.
    pub fn order(&self) -> u32 {
        self.order
    }
}

lanetree_frame::inherent_basics! {
    impl<K: Key, V: Word> Cubpt<K, V>
}

lanetree_frame::inherent_forms! {
    /// Every query in host form.
    impl<K: Key, V: Word> Cubpt<K, V>
}

impl<K: Key, V: Word> fmt::Debug for Cubpt<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { order, device, .. } = self;
        write!(f, "Cubpt<{}, {}>[{} pairs, order {order}, on {device}]", K::NAME, V::NAME, self.len())
    }
}
