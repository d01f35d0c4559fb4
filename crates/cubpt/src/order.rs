//! The leaves in the order of their keys, and their ranks.

use crate::storage::Storage;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream};
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

/// The memory in which the leaves of a tree are put in order.
pub(crate) struct OrderScratch {
    /// The nodes of each level, the leaves' first, and the sums of their keys.
    levels: Vec<(Buffer<u32>, Buffer<u64>)>,
    counts: Buffer<u32>,
    scan: ScanScratch,
}

impl OrderScratch {
    /// For levels of so many nodes, the leaves' first.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn new(device: &Device, levels: &[u64]) -> Result<Self> {
        let of_level = |&nodes: &u64| Ok((device.alloc(nodes as usize)?, device.alloc(nodes as usize + 1)?));
        let most = levels.iter().copied().max().unwrap_or(0) as usize;
        Ok(Self {
            levels: levels.iter().map(of_level).collect::<Result<_>>()?,
            counts: device.alloc(most)?,
            scan: ScanScratch::new(device, most)?,
        })
    }
}

impl Order {
    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        (self.leaves.bytes() + self.ranks.bytes()) as u64
    }

    /// Finds the leaves of a tree, level by level, and tells each its neighbours and its rank. The memory is for the levels
    /// that the tree has, and maybe more above. Allocates nothing.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(crate) fn of(
        stream: &Stream,
        storage: &mut Storage,
        root: u32,
        height: u32,
        scratch: OrderScratch,
    ) -> Result<Self> {
        let OrderScratch { mut levels, mut counts, mut scan } = scratch;
        levels.truncate(height as usize + 1);
        let (mut numbers, mut sums) = levels.pop().expect("a tree has a level");
        numbers.copy_range_from(0, &[root])?;
        loop {
            let count = numbers.len();
            let args = CountsArgs {
                nodes: storage.nodes(stream)?,
                numbers: numbers.read_on(stream)?,
                count: count as u64,
                counts: counts.write_on(stream)?,
            };
            // SAFETY: nodes of the tree, and a place for the count of each.
            unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::counts(&args)) }?;
            exclusive_scan(stream, &counts, count, &mut sums, &mut scan)?;
            let Some((mut children, next)) = levels.pop() else { break };
            let args = ChildrenArgs {
                nodes: storage.nodes(stream)?,
                numbers: numbers.read_on(stream)?,
                count: count as u64,
                offsets: sums.read_on(stream)?,
                children: children.write_on(stream)?,
            };
            let threads = args.count * u64::from(storage.node().order);
            // SAFETY: inner nodes of the tree, and a place for each child.
            unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::children(&args)) }?;
            (numbers, sums) = (children, next);
        }
        let args = LinkArgs {
            leaves: numbers.read_on(stream)?,
            ranks: sums.read_on(stream)?,
            count: numbers.len() as u64,
            nodes: storage.nodes_mut(stream)?,
        };
        // SAFETY: leaves of the tree, each once.
        unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::link(&args)) }?;
        stream.synchronize()?;
        Ok(Self { leaves: numbers, ranks: sums })
    }
}

/// The last of some prefix sums.
pub(crate) fn last(offsets: &Buffer<u64>) -> Result<u64> {
    let mut last = [0];
    offsets.copy_range_to(offsets.len() - 1, &mut last)?;
    Ok(last[0])
}
