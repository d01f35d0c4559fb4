//! The memory that batches of changes work in.

use lanetree_frame::{Device, Result, Stream};
use lanetree_layout::Key;
use lanetree_primitives::{OPERATION_FINDINGS, OperationSort};
use lanetree_runtime::{Buffer, PinnedBuffer};

/// Words of findings: inserted, replaced, removed, left alone.
pub(super) const TALLY: usize = 0;
/// How many leaves become too small.
pub(super) const SMALL: usize = 4;
/// How many nodes of a layer have many changes.
pub(super) const MANY: usize = 5;
/// What the sort found.
pub(super) const SORT: usize = 6;
/// Words that kernels write.
const FINDINGS: usize = SORT + OPERATION_FINDINGS;

/// Scratch memory of batches of changes on a device: for batches of up to a number of operations, and trees of any size. It
/// takes about 24 bytes per operation with keys of 8 bytes. What depends on the tree and on the plan, about 60 bytes per
/// operation and 30 per leaf, each batch takes from the device: give a handle with a [pool](lanetree_frame::Pool), or the
/// driver allocates and frees every time, which takes longer than the batch.
#[derive(Debug)]
pub struct UpdateScratch<K: Key> {
    device: Device,
    pub(super) sort: OperationSort<K>,
    pub(super) findings: Buffer<u64>,
    found: PinnedBuffer<u64>,
}

impl<K: Key> UpdateScratch<K> {
    /// Memory on `device` for batches of up to `operations` operations, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_frame::Error::Runtime) if the device has no room;
    /// [`TooManyOperations`](lanetree_frame::Error::TooManyOperations).
    pub fn new(device: &Device, operations: usize) -> Result<Self> {
        let (findings, found) = (device.alloc(FINDINGS)?, device.pinned(FINDINGS + 2)?);
        Ok(Self { device: device.clone(), sort: OperationSort::new(device, operations)?, findings, found })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.sort.bytes() + self.findings.bytes()
    }

    /// Where a batch takes its memory.
    pub(crate) fn device(&self) -> Device {
        self.device.clone()
    }

    /// The findings, how many nodes are touched, and the last of the sums of what they take. Waits for the stream.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn wait(
        &mut self,
        stream: &Stream,
        touched: &Buffer<u64>,
        taken: &Buffer<u64>,
    ) -> Result<([u64; FINDINGS], u64, u64)> {
        let last = taken.len() - 1;
        self.findings.download_async(stream, 0..FINDINGS, &mut self.found, 0)?;
        touched.download_async(stream, 0..1, &mut self.found, FINDINGS)?;
        taken.download_async(stream, last..last + 1, &mut self.found, FINDINGS + 1)?;
        stream.synchronize()?;
        // SAFETY: everything is downloaded here, and the stream was waited for.
        unsafe { self.found.forget_uses() };
        let findings = core::array::from_fn(|i| self.found[i]);
        Ok((findings, self.found[FINDINGS], self.found[FINDINGS + 1]))
    }
}
