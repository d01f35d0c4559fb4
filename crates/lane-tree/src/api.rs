//! The tree's methods, but for those that only it has. rustdoc lists a type's methods in the order of their modules: these come
//! first.

use crate::{Builder, LaneTree};
use lanetree_frame::{Device, Result};
use lanetree_layout::{AnyKey, Value};
use lanetree_runtime::Simd;

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// A builder with the default options, to change them before a build.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Builds an index over pairs in any order. Of equal keys, the last one's value is kept. For the first, or an
    /// error: [`IndexBuilder::build_by`](lanetree_frame::IndexBuilder::build_by) with [`BuildRules`](lanetree_frame::BuildRules), whose page has
    /// an example.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// Selects the SIMD instructions for queries on the host. Results are the same with all of them. Default, and fallback where this
    /// CPU lacks them: see [`Simd`].
    pub fn set_simd(&mut self, simd: Simd) {
        self.simd = simd;
    }
}

lanetree_frame::inherent! {
    impl<K: AnyKey, V: Word> LaneTree<K, V>
}
