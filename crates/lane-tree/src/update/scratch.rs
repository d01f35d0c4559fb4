//! The scratch memory of batches.

use lanetree_frame::{Buffer, Device, DeviceKind, Key, Result};
use lanetree_primitives::{OPERATION_FINDINGS, OperationSort, RunScratch, ScanScratch};

/// Words of the findings: how many keys were inserted, replaced, removed, unmatched, and not reached; then how many nodes have
/// no room; then those of the sort.
pub(super) const TALLY: usize = 0;
/// See [`TALLY`].
pub(super) const WITHOUT_ROOM: usize = 5;
/// See [`TALLY`].
pub(super) const SORTED_AT: usize = 6;

/// Scratch memory of batches in device form, reusable for the next batch: about 80 bytes per operation with keys of 8 bytes.
#[derive(Debug)]
pub struct UpdateScratch<K: Key> {
    pub(super) sort: OperationSort<K>,
    /// The node of each operation.
    pub(super) nodes: Buffer<u32>,
    /// Its place there, and its effect.
    pub(super) places: Buffer<u32>,
    /// What it adds and removes.
    pub(super) counts: Buffer<u64>,
    /// Their sums.
    pub(super) before: Buffer<u64>,
    /// The nodes that are touched.
    pub(super) touched: Buffer<u32>,
    /// The operations of each.
    pub(super) lengths: Buffer<u32>,
    pub(super) touched_count: Buffer<u64>,
    pub(super) first_changes: Buffer<u64>,
    /// The pairs and the lines of each.
    pub(super) sizes: Buffer<u32>,
    pub(super) findings: Buffer<u64>,
    pub(super) scan: ScanScratch,
    pub(super) runs: RunScratch,
}

impl<K: Key> UpdateScratch<K> {
    /// For batches of up to that many operations. On the host it is empty.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_frame::Error::Runtime) if the device has no room;
    /// [`TooManyOperations`](lanetree_frame::Error::TooManyOperations).
    pub fn new(device: &Device, operations: usize) -> Result<Self> {
        let sort = OperationSort::new(device, operations)?;
        let n = if device.kind() == DeviceKind::Host { 0 } else { operations };
        Ok(Self {
            sort,
            nodes: device.alloc(n)?,
            places: device.alloc(n)?,
            counts: device.alloc(n)?,
            before: device.alloc(n + 1)?,
            touched: device.alloc(n)?,
            lengths: device.alloc(n)?,
            touched_count: device.alloc(1)?,
            first_changes: device.alloc(n + 1)?,
            sizes: device.alloc(2 * n)?,
            findings: device.alloc(SORTED_AT + OPERATION_FINDINGS)?,
            scan: ScanScratch::new(device, n)?,
            runs: RunScratch::new(device, n)?,
        })
    }

    /// The most operations of a batch.
    pub fn operations(&self) -> usize {
        self.sort.operations()
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let words = self.nodes.bytes() + self.places.bytes() + self.touched.bytes() + self.lengths.bytes();
        let sums = self.counts.bytes() + self.before.bytes() + self.touched_count.bytes() + self.first_changes.bytes();
        let rest = self.sizes.bytes() + self.findings.bytes() + self.scan.bytes() + self.runs.bytes();
        self.sort.bytes() + words + sums + rest
    }
}
