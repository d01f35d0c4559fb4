//! Scratch memory of look-ups, ranges and scans.

#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{self, DeviceRanges};
use lanetree_frame::{Buffer, Device, Result};
use lanetree_layout::AnyKey;
use lanetree_primitives::ExpandScratch;

/// Scratch memory of look-ups in device form: 8 bytes per query, reusable for the next batch.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) places: Buffer<u64>,
    pub(super) expand: ExpandScratch,
}

impl Scratch {
    /// Memory on `device` for batches of up to `queries` queries, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, queries: usize) -> Result<Self> {
        Ok(Self { places: device.alloc(queries)?, expand: ExpandScratch::new(device, queries)? })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.places.bytes() + self.expand.bytes()
    }
}

/// Scratch memory of ranges and scans in device form: 60 bytes and a key per range, and a key and 8 bytes for each pair that is found;
/// reusable for the next batch.
#[derive(Debug)]
pub struct RangeScratch<K: AnyKey> {
    pub(super) ends: EndScratch<K>,
    pub(super) begins: Buffer<u64>,
    pub(super) counts: Buffer<u64>,
    /// How many distinct keys each scan has.
    pub(super) key_counts: Buffer<u32>,
    pub(super) expand: ExpandScratch,
    /// The distinct keys of the ranges, and their places.
    pub(super) keys: DeviceRanges<K, u64>,
    pub(super) key_scratch: fixed::RangeScratch,
}

impl<K: AnyKey> RangeScratch<K> {
    /// Enough for `ranges` ranges with `capacity` pairs in all; 0 pairs are enough to count them.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, ranges: usize, capacity: usize) -> Result<Self> {
        Ok(Self {
            ends: EndScratch::new(device, ranges)?,
            begins: device.alloc(ranges)?,
            counts: device.alloc(ranges)?,
            key_counts: device.alloc(ranges)?,
            expand: ExpandScratch::new(device, ranges)?,
            keys: DeviceRanges::new(device, ranges, capacity)?,
            key_scratch: fixed::RangeScratch::new(device, ranges)?,
        })
    }

    /// Makes room for `capacity` pairs.
    pub(crate) fn reserve(&mut self, device: &Device, ranges: usize, capacity: usize) -> Result<()> {
        if self.keys.keys.len() < capacity {
            self.keys = DeviceRanges::new(device, ranges, capacity)?;
        }
        Ok(())
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let own = [&self.begins, &self.counts, &self.keys.offsets, &self.keys.values];
        own.iter().map(|buffer| buffer.bytes()).sum::<usize>()
            + self.ends.bytes()
            + self.key_counts.bytes()
            + self.keys.keys.bytes()
            + self.expand.bytes()
            + self.key_scratch.bytes()
    }
}

/// Memory to find the first and the last key of each range.
#[derive(Debug)]
pub(crate) struct EndScratch<K: AnyKey> {
    /// The first key's place.
    pub(super) firsts: Buffer<u64>,
    /// The last key's.
    pub(super) lasts: Buffer<u64>,
    pub(super) neighbors: Buffer<K>,
}

impl<K: AnyKey> EndScratch<K> {
    pub(super) fn new(device: &Device, ranges: usize) -> Result<Self> {
        Ok(Self { firsts: device.alloc(ranges)?, lasts: device.alloc(ranges)?, neighbors: device.alloc(ranges)? })
    }

    pub(super) fn bytes(&self) -> usize {
        self.firsts.bytes() + self.lasts.bytes() + self.neighbors.bytes()
    }
}
