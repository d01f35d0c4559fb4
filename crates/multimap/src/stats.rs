//! Sizes.

use crate::MultiMap;
use lanetree_layout::{AnyKey, Word};

/// The size of a multi-map, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Bytes of the tree of keys and their places.
    pub key_bytes: u64,
    /// Bytes of the values, with the room for others on a device; on the host that is no memory yet.
    pub value_bytes: u64,
    /// Values for which there is room in place, less what runs of values need that move.
    pub room: u64,
}

impl Stats {
    /// Bytes of device memory that the map takes.
    pub fn bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
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
            // On the host, memory for runs that move is none before it is used.
            value_bytes: contents.used.max(contents.values.len() as u64) * V::BYTES as u64,
            room: contents.positions() - contents.used,
        }
    }

    /// Bytes of the device's memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.stats().bytes()
    }

    /// Bytes of main memory that it takes, in addition to its device memory: 0, since the whole map is on its device.
    pub fn host_bytes(&self) -> u64 {
        0
    }
}
