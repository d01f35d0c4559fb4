//! The memory of batches of changes that the device sorts.

use lanetree_frame::{Device, Result, Stream};
use lanetree_layout::Key;
use lanetree_primitives::RadixSortScratch;
use lanetree_runtime::{Buffer, PinnedBuffer};

/// The memory of a batch on both sides. It is kept for the next one.
pub(crate) struct Sorting<K: Key> {
    pub(crate) stream: Stream,
    pub(crate) keys: PinnedBuffer<K>,
    pub(crate) order: PinnedBuffer<u32>,
    pub(crate) leaves: PinnedBuffer<u32>,
    pub(crate) device_keys: Buffer<K>,
    pub(crate) sorted: Buffer<K>,
    pub(crate) device_order: Buffer<u32>,
    pub(crate) device_leaves: Buffer<u32>,
    pub(crate) scratch: RadixSortScratch<K, u32>,
}

impl<K: Key> Sorting<K> {
    /// Memory for `keys` keys.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn new(device: &Device, keys: usize) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            keys: device.pinned(keys)?,
            order: device.pinned(keys)?,
            leaves: device.pinned(keys)?,
            device_keys: device.alloc(keys)?,
            sorted: device.alloc(keys)?,
            device_order: device.alloc(keys)?,
            device_leaves: device.alloc(keys)?,
            scratch: RadixSortScratch::for_pairs(device, keys)?,
        })
    }

    /// Bytes of device memory and of pinned memory.
    pub(crate) fn bytes(&self) -> usize {
        let pinned = self.keys.len() * size_of::<K>() + (self.order.len() + self.leaves.len()) * size_of::<u32>();
        let keys = self.device_keys.bytes() + self.sorted.bytes();
        pinned + keys + self.device_order.bytes() + self.device_leaves.bytes() + self.scratch.bytes()
    }
}
