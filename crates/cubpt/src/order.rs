//! The leaves in the order of their keys, and their ranks.

use crate::storage::Storage;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Result, Stream};
use lanetree_kernels_cubpt::{ChildrenArgs, CountsArgs, LinkArgs, calls};
use lanetree_primitives::{ScanScratch, exclusive_scan};
use lanetree_runtime::Buffer;

/// The leaves of a tree in the order of their keys.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) leaves: Buffer<u32>,
    /// The rank of each leaf's first pair, and past the last one how many pairs there are.
    pub(crate) ranks: Buffer<u64>,
}

impl Order {
    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        (self.leaves.bytes() + self.ranks.bytes()) as u64
    }

    /// Finds the leaves of a tree with so many levels above them, level by level, and tells each its neighbours and its rank.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(crate) fn of(stream: &Stream, storage: &mut Storage, root: u32, height: u32) -> Result<Self> {
        let device = stream.device();
        let mut numbers = device.upload(&[root])?;
        for _ in 0..height {
            let offsets = counts(stream, storage, &numbers)?;
            let total = last(&offsets)? as usize;
            let mut children = device.alloc(total)?;
            let args = ChildrenArgs {
                nodes: storage.nodes(stream)?,
                numbers: numbers.read_on(stream)?,
                count: numbers.len() as u64,
                offsets: offsets.read_on(stream)?,
                children: children.write_on(stream)?,
            };
            let threads = args.count * u64::from(storage.node().order);
            // SAFETY: inner nodes of the tree, and a place for each child.
            unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::children(&args)) }?;
            numbers = children;
        }
        let ranks = counts(stream, storage, &numbers)?;
        let args = LinkArgs {
            leaves: numbers.read_on(stream)?,
            ranks: ranks.read_on(stream)?,
            count: numbers.len() as u64,
            nodes: storage.nodes_mut(stream)?,
        };
        // SAFETY: leaves of the tree, each once.
        unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::link(&args)) }?;
        stream.synchronize()?;
        Ok(Self { leaves: numbers, ranks })
    }
}

/// The prefix sums of how many keys nodes have, and their total.
fn counts(stream: &Stream, storage: &Storage, numbers: &Buffer<u32>) -> Result<Buffer<u64>> {
    let (device, count) = (stream.device(), numbers.len());
    let mut counts = device.alloc(count)?;
    let args = CountsArgs {
        nodes: storage.nodes(stream)?,
        numbers: numbers.read_on(stream)?,
        count: count as u64,
        counts: counts.write_on(stream)?,
    };
    // SAFETY: nodes of the tree, and a place for the count of each.
    unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::counts(&args)) }?;
    let mut offsets = device.alloc(count + 1)?;
    exclusive_scan(stream, &counts, count, &mut offsets, &mut ScanScratch::new(device, count)?)?;
    Ok(offsets)
}

/// The last of some prefix sums.
pub(crate) fn last(offsets: &Buffer<u64>) -> Result<u64> {
    let mut last = [0];
    offsets.copy_range_to(offsets.len() - 1, &mut last)?;
    Ok(last[0])
}
