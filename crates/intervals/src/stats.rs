//! Sizes.

use crate::IntervalIndex;
use lanetree_layout::{AnyKey, Word};

/// The size of an index of intervals, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Intervals.
    pub len: u64,
    /// Distinct starts.
    pub starts: u64,
    /// Distinct ends.
    pub ends: u64,
    /// Bytes of the trees of starts and ends.
    pub tree_bytes: u64,
    /// Bytes of the intervals' ends, links and rows.
    pub interval_bytes: u64,
}

impl Stats {
    /// Bytes of device memory that the index takes.
    pub fn bytes(&self) -> u64 {
        self.tree_bytes + self.interval_bytes
    }
}

impl<K: AnyKey, V: Word> IntervalIndex<K, V> {
    /// The size of the index.
    pub fn stats(&self) -> Stats {
        let intervals = &self.intervals;
        Stats {
            len: self.len(),
            starts: self.started.len(),
            ends: self.ended.len(),
            tree_bytes: self.started.bytes() + self.ended.bytes(),
            interval_bytes: (intervals.ends.bytes() + intervals.links.bytes() + intervals.rows.bytes()) as u64,
        }
    }

    /// Bytes of the device's memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.stats().bytes()
    }

    /// Bytes of main memory that it takes, in addition to its device memory: 0, since the whole index is on its device.
    pub fn host_bytes(&self) -> u64 {
        0
    }

    /// Always `false`: its contents do not change.
    pub fn is_lost(&self) -> bool {
        false
    }
}
