//! Sizes.

use super::SortedArray;
use lanetree_layout::{Key, Word};

/// The size of a sorted array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Bytes of the keys.
    pub key_bytes: u64,
    /// Bytes of the values.
    pub value_bytes: u64,
}

impl Stats {
    /// Bytes of device memory that the array takes.
    pub fn bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
    }
}

impl<K: Key, V: Word> SortedArray<K, V> {
    /// The size of the array.
    pub fn stats(&self) -> Stats {
        let (keys, values) = (&self.keys, &self.values);
        Stats { len: keys.len() as u64, key_bytes: keys.bytes() as u64, value_bytes: values.bytes() as u64 }
    }
}
