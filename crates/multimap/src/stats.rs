//! Sizes.

use crate::MultiMap;
use lanetree_layout::{AnyKey, Word};

/// The size of a multi-map, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Bytes of the tree of keys and their places.
    pub key_bytes: u64,
    /// Bytes of the values.
    pub value_bytes: u64,
    /// Bytes of the sampled keys, by which changes list all keys: two keys for each 256.
    pub sample_bytes: u64,
}

impl Stats {
    /// Bytes of device memory that the map takes.
    pub fn bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes + self.sample_bytes
    }
}

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// The size of the map.
    pub fn stats(&self) -> Stats {
        let contents = &self.contents;
        Stats {
            len: self.len(),
            keys: self.keys_len(),
            key_bytes: contents.keys.bytes(),
            value_bytes: contents.values.bytes() as u64,
            sample_bytes: (contents.firsts.bytes() + contents.lasts.bytes()) as u64,
        }
    }

    /// Bytes of the device's memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.stats().bytes()
    }
}
