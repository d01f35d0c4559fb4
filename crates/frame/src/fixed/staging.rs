//! Host batches of look-ups on a device: see [`lanetree_base::staging`].

use super::ranges::RangeStaging;
use core::fmt;
use lanetree_base::staging::PinnedStaging;
use lanetree_layout::{AnyKey, Value};

/// Staging memory, kept for the next batches.
pub struct Staging<K, V> {
    /// Of batches of look-ups.
    pub queries: lanetree_base::staging::Staging,
    /// Of pinned batches.
    pub pinned: PinnedStaging<K, V>,
    /// Of batches of ranges.
    pub ranges: RangeStaging<K, V>,
}

impl<K, V> Default for Staging<K, V> {
    fn default() -> Self {
        Self { queries: Default::default(), pinned: PinnedStaging::default(), ranges: RangeStaging::default() }
    }
}

impl<K: AnyKey, V: Value> Staging<K, V> {
    /// Bytes of device memory and of pinned memory of finished batches.
    pub fn bytes(&self) -> usize {
        self.queries.bytes() + self.pinned.bytes() + self.ranges.bytes()
    }
}

impl<K: AnyKey, V: Value> fmt::Debug for Staging<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staging[{} bytes]", self.bytes())
    }
}
