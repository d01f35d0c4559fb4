//! Memory of batches of ranges, for each device and each shard.

use crate::slots::{Column, reserve, with_spare, words};
use lanetree_frame::aggregate_steps::AggregateMemory;
use lanetree_frame::{AnyKey, Buffer, Device, PinnedBuffer, Result, Stream};
use lanetree_primitives::ScanScratch;

/// Memory and streams for all shards on one device.
pub(super) struct OfDevice<K> {
    pub(super) device: Device,
    pub(super) stream: Stream,
    /// A stream of the batch's device, for copies from this device.
    pub(super) receives: Stream,
    pub(super) starts: Buffer<K>,
    pub(super) ends: Buffer<K>,
    pub(super) limits: Buffer<u64>,
    /// The largest key, repeated: ends of ranges that have none.
    pub(super) max_keys: Buffer<K>,
    pub(super) scan: ScanScratch,
    /// The most ranges that `scan` serves.
    pub(super) scan_capacity: usize,
    pub(super) accumulators: Accumulators,
}

/// Memory for one shard.
pub(super) struct OfShard {
    /// The pairs on the shard's device.
    pub(super) on_shard: Pairs,
    /// The same on the batch's device, if that is another one.
    pub(super) copied: Pairs,
    pub(super) cursors: Buffer<u64>,
    /// On the batch's device: the pairs of each range in the shards before.
    pub(super) before: Buffer<u64>,
    pub(super) staged_total: PinnedBuffer<u64>,
}

/// The pairs of ranges in a shard.
pub(super) struct Pairs {
    pub(super) counts: Buffer<u64>,
    pub(super) offsets: Buffer<u64>,
    pub(super) keys: Column,
    pub(super) values: Column,
}

impl Pairs {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let (counts, offsets) = (device.alloc(0)?, device.alloc(0)?);
        Ok(Self { counts, offsets, keys: device.alloc(0)?, values: device.alloc(0)? })
    }

    pub(super) fn reserve_ranges(&mut self, count: usize, has_offsets: bool) -> Result<()> {
        reserve(&mut self.counts, count)?;
        reserve(&mut self.offsets, if has_offsets { count + 1 } else { 0 })
    }

    pub(super) fn reserve_pairs(&mut self, pairs: usize, [key, value]: [usize; 2]) -> Result<()> {
        reserve(&mut self.keys, words(pairs, key))?;
        reserve(&mut self.values, words(pairs, value))
    }
}

impl OfShard {
    pub(super) fn new(shard: &Device, home: &Device) -> Result<Self> {
        Ok(Self {
            on_shard: Pairs::new(shard)?,
            copied: Pairs::new(home)?,
            cursors: shard.alloc(0)?,
            before: home.alloc(0)?,
            staged_total: shard.pinned(1)?,
        })
    }

    /// The pairs on the batch's device.
    pub(super) fn at_home(&mut self, is_home: bool) -> &mut Pairs {
        if is_home { &mut self.on_shard } else { &mut self.copied }
    }
}

impl<K: AnyKey> OfDevice<K> {
    pub(super) fn new(device: &Device, home: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            stream: device.stream()?,
            receives: home.stream()?,
            starts: device.alloc(0)?,
            ends: device.alloc(0)?,
            limits: device.alloc(0)?,
            max_keys: device.alloc(0)?,
            scan: ScanScratch::new(device, 0)?,
            scan_capacity: 0,
            accumulators: Accumulators::new(device)?,
        })
    }

    pub(super) fn reserve_scan(&mut self, count: usize) -> Result<()> {
        if self.scan_capacity < count {
            self.scan_capacity = 0;
            self.scan = ScanScratch::new(&self.device, with_spare(count))?;
            self.scan_capacity = with_spare(count);
        }
        Ok(())
    }
}

/// Accumulators of ranges, and memory to make them.
pub(super) struct Accumulators(pub(super) AggregateMemory);

impl Accumulators {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let [offsets, counts, parts, sums] = [device.alloc(0)?, device.alloc(0)?, device.alloc(0)?, device.alloc(0)?];
        Ok(Self(AggregateMemory { offsets, counts, parts, sums }))
    }

    pub(super) fn reserve(&mut self, count: usize) -> Result<()> {
        let AggregateMemory { offsets, counts, parts, sums } = &mut self.0;
        reserve(offsets, count + 1)?;
        reserve(counts, count)?;
        reserve(parts, count + 1)?;
        reserve(sums, AggregateMemory::words(count))
    }
}
