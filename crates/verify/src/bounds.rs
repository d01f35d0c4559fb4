//! Batches of ranges: bounds and limits.

use super::cases::Limit;
use core::ops::Bound;
use lanetree::{Buffer, Device, Key, Result};

/// A batch of ranges, here and on the device, with a limit for each that may or may not be used.
pub(crate) struct Bounds<K> {
    pub(crate) starts: Vec<K>,
    pub(crate) ends: Vec<K>,
    /// That of each range, if limits are used.
    pub(crate) limits: Vec<u64>,
    pub(crate) start_buffer: Buffer<K>,
    pub(crate) end_buffer: Buffer<K>,
    limit_buffer: Buffer<u64>,
}

impl<K: Key> Bounds<K> {
    pub(crate) fn new(device: &Device, starts: Vec<K>, ends: Vec<K>) -> Result<Self> {
        let limits: Vec<u64> = (0..starts.len()).map(|i| [3, u64::MAX, 0, 1, 40, 9][i % 6]).collect();
        Ok(Self {
            start_buffer: device.upload(&starts)?,
            end_buffer: device.upload(&ends)?,
            limit_buffer: device.upload(&limits)?,
            starts,
            ends,
            limits,
        })
    }

    /// The limits' buffer, if one is to be passed, and the limit for all.
    pub(crate) fn limits(&self, limit: Limit) -> (Option<&Buffer<u64>>, u64) {
        match limit {
            Limit::None => (None, u64::MAX),
            Limit::Of(limit) => (None, limit),
            Limit::Each => (Some(&self.limit_buffer), u64::MAX),
            Limit::EachAnd(limit) => (Some(&self.limit_buffer), limit),
        }
    }

    /// The limit of one range.
    pub(crate) fn limit(&self, limit: Limit, range: usize) -> u64 {
        match limit {
            Limit::None => u64::MAX,
            Limit::Of(limit) => limit,
            Limit::Each => self.limits[range],
            Limit::EachAnd(limit) => self.limits[range].min(limit),
        }
    }
}

/// Two bounds of the kind whose turn it is. They are in order: those of the host form must be.
pub(crate) fn bound_pair<K: Key>(turn: usize, start: K, end: K) -> (Bound<K>, Bound<K>) {
    let (start, end) = (start.min(end), start.max(end));
    match turn % 7 {
        0 | 1 => (Bound::Included(start), Bound::Included(end)),
        2 => (Bound::Excluded(start), Bound::Included(end)),
        3 => (Bound::Included(start), Bound::Excluded(end)),
        4 => (Bound::Excluded(start), Bound::Excluded(end)),
        5 => (Bound::Unbounded, Bound::Excluded(end)),
        _ => (Bound::Excluded(start), Bound::Unbounded),
    }
}
