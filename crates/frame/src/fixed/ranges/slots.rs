//! The staging memory of host batches of ranges.

use super::super::range::RangeScratch;
use super::Sizes;
use core::ops::Range;
use lanetree_base::Result;
use lanetree_base::ranges::RangeBatch;
use lanetree_base::staging::{PieceSlot, SlotPool};
use lanetree_layout::{AnyKey, Value};
use lanetree_runtime::{Buffer, Device, PinnedBuffer, Stream};
use std::sync::{Mutex, PoisonError};

/// The slots of batches of ranges, kept for the next ones.
pub struct RangeStaging<K, V> {
    pub(in crate::fixed) locating: SlotPool<Locating<K>>,
    pub(in crate::fixed) gathering: SlotPool<Gathering<K, V>>,
    /// What is made of a caller's ranges, in main memory.
    pub(in crate::fixed) made: Mutex<Vec<RangeBatch<K>>>,
    /// As measured, but in tests.
    pub sizes: Sizes,
}

impl<K, V> Default for RangeStaging<K, V> {
    fn default() -> Self {
        Self {
            locating: SlotPool::default(),
            gathering: SlotPool::default(),
            made: Mutex::default(),
            sizes: Sizes::default(),
        }
    }
}

impl<K: AnyKey, V: Value> RangeStaging<K, V> {
    /// Bytes of device memory and of main memory of finished batches.
    pub fn bytes(&self) -> usize {
        let made =
            self.made.lock().unwrap_or_else(PoisonError::into_inner).iter().map(RangeBatch::bytes).sum::<usize>();
        made + self.locating.bytes() + self.gathering.bytes()
    }
}

/// Where a piece's ranges are located.
pub(in crate::fixed) struct Locating<K> {
    pub(in crate::fixed) stream: Stream,
    pub(in crate::fixed) starts: Buffer<K>,
    pub(in crate::fixed) ends: Buffer<K>,
    /// Empty until a range has one.
    pub(in crate::fixed) limits: Buffer<u64>,
    pub(in crate::fixed) scratch: RangeScratch,
    pub(in crate::fixed) offsets: Buffer<u64>,
    pub(in crate::fixed) staged_starts: PinnedBuffer<K>,
    pub(in crate::fixed) staged_ends: PinnedBuffer<K>,
    pub(in crate::fixed) staged_limits: PinnedBuffer<u64>,
    pub(in crate::fixed) staged_offsets: PinnedBuffer<u64>,
    /// The piece's ranges.
    pub(in crate::fixed) count: usize,
    /// Pairs of the longest one.
    pub(in crate::fixed) longest: u64,
}

impl<K: AnyKey> Locating<K> {
    pub(in crate::fixed) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            starts: device.alloc(0)?,
            ends: device.alloc(0)?,
            limits: device.alloc(0)?,
            scratch: RangeScratch::new(device, 0)?,
            offsets: device.alloc(0)?,
            staged_starts: device.pinned(0)?,
            staged_ends: device.pinned(0)?,
            staged_limits: device.pinned(0)?,
            staged_offsets: device.pinned(0)?,
            count: 0,
            longest: 0,
        })
    }

    /// Takes a piece's bounds. Memory grows in powers of two, and never shrinks.
    pub(in crate::fixed) fn fill(
        &mut self,
        device: &Device,
        (starts, ends, limits): (&[K], &[K], &[u64]),
    ) -> Result<()> {
        self.count = starts.len();
        let room = self.count.next_power_of_two();
        if self.staged_offsets.len() <= self.count {
            self.starts = device.alloc(room)?;
            self.ends = device.alloc(room)?;
            self.scratch = RangeScratch::new(device, room)?;
            self.offsets = device.alloc(room + 1)?;
            self.staged_starts = device.pinned(room)?;
            self.staged_ends = device.pinned(room)?;
            // The last one to grow stands for all of them.
            self.staged_offsets = device.pinned(room + 1)?;
        }
        if self.staged_limits.len() < limits.len() {
            self.limits = device.alloc(room)?;
            self.staged_limits = device.pinned(room)?;
        }
        self.staged_starts[..self.count].copy_from_slice(starts);
        self.staged_ends[..self.count].copy_from_slice(ends);
        self.staged_limits[..limits.len()].copy_from_slice(limits);
        Ok(())
    }

    /// Where each range's pairs begin among the piece's, once the piece is located, and where the last one's end.
    pub(in crate::fixed) fn located(&self) -> &[u64] {
        &self.staged_offsets[..=self.count]
    }

    /// The piece's pairs.
    pub(in crate::fixed) fn pairs(&self) -> u64 {
        self.staged_offsets[self.count]
    }
}

impl<K: AnyKey> PieceSlot for Locating<K> {
    fn synchronize(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        // SAFETY: the staging memory is used only in the slot's stream, which has been waited for.
        unsafe {
            self.staged_starts.forget_uses();
            self.staged_ends.forget_uses();
            self.staged_limits.forget_uses();
            self.staged_offsets.forget_uses();
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let bounds = self.starts.bytes() + self.ends.bytes() + self.limits.bytes() + self.offsets.bytes();
        // As much again in main memory.
        2 * bounds + self.scratch.bytes()
    }
}

/// Where the pairs of a window of results are gathered.
pub(in crate::fixed) struct Gathering<K, V> {
    pub(in crate::fixed) stream: Stream,
    pub(in crate::fixed) keys: Buffer<K>,
    pub(in crate::fixed) values: Buffer<V>,
    pub(in crate::fixed) staged_keys: PinnedBuffer<K>,
    pub(in crate::fixed) staged_values: PinnedBuffer<V>,
}

impl<K: AnyKey, V: Value> Gathering<K, V> {
    pub(in crate::fixed) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            keys: device.alloc(0)?,
            values: device.alloc(0)?,
            staged_keys: device.pinned(0)?,
            staged_values: device.pinned(0)?,
        })
    }

    /// Makes room for pairs, or for values alone. Memory grows in powers of two, and never shrinks.
    pub(in crate::fixed) fn reserve(&mut self, device: &Device, keys: usize, values: usize) -> Result<()> {
        if self.staged_keys.len() < keys {
            self.keys = device.alloc(keys.next_power_of_two())?;
            self.staged_keys = device.pinned(keys.next_power_of_two())?;
        }
        if self.staged_values.len() < values {
            self.values = device.alloc(values.next_power_of_two())?;
            self.staged_values = device.pinned(values.next_power_of_two())?;
        }
        Ok(())
    }

    /// Queues the copy back of some pairs after the kernel that gathers them.
    pub(in crate::fixed) fn download(&mut self, keys: Range<usize>, values: Range<usize>) -> Result<()> {
        if !keys.is_empty() {
            self.keys.download_async(&self.stream, keys, &mut self.staged_keys, 0)?;
        }
        Ok(self.values.download_async(&self.stream, values, &mut self.staged_values, 0)?)
    }

    /// Forgets what uses the staged memory.
    ///
    /// # Safety
    /// All of it is done.
    pub(in crate::fixed) unsafe fn forget_staged(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            self.staged_keys.forget_uses();
            self.staged_values.forget_uses();
        }
    }
}

impl<K: AnyKey, V: Value> PieceSlot for Gathering<K, V> {
    fn synchronize(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        // SAFETY: the staged memory is used in this stream, which has been waited for, and in the stream of a small
        // batch's slot, which is waited for before anything else is done.
        unsafe { self.forget_staged() };
        Ok(())
    }

    fn bytes(&self) -> usize {
        2 * (self.keys.bytes() + self.values.bytes())
    }
}
