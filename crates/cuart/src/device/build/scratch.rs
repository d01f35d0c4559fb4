//! The scratch memory of a build of nodes, allocated when it is needed.

use lanetree_frame::Result;
use lanetree_kernels_cuart::TreeRef;
use lanetree_kernels_cuart::build::{NodesArgs, findings, minima_len, number};
use lanetree_primitives::{RadixSortScratch, ScanScratch, exclusive_scan, radix_argsort};
use lanetree_runtime::{Buffer, Device, Stream};

pub(super) use number::KINDS;

/// Bits of a pass of the radix sort.
const PASS: u32 = 8;

/// The buffers of [`NodesArgs`].
pub(super) struct Scratch {
    tree: TreeRef,
    boundaries: u32,
    nodes: u32,
    minima: Buffer<u32>,
    leaders: Buffer<u32>,
    right: Buffer<u32>,
    left: Buffer<u32>,
    depths: Buffer<u32>,
    sorted: Buffer<u32>,
    tile_counts: Buffer<u32>,
    tile_offsets: Buffer<u64>,
    scan: ScanScratch,
    starts: Buffer<u32>,
    numbers: Buffer<u32>,
    links: Buffer<u64>,
    list: Buffer<u32>,
    findings: Buffer<u64>,
}

impl Scratch {
    /// The memory for finding the nodes; none without boundaries.
    pub(super) fn new(device: &Device, tree: &TreeRef, boundaries: u32) -> Result<Self> {
        let len = boundaries as usize;
        let minima = if boundaries == 0 { 0 } else { minima_len(boundaries) as usize };
        Ok(Self {
            tree: *tree,
            boundaries,
            nodes: 0,
            minima: device.alloc(minima)?,
            leaders: device.alloc(len.div_ceil(32))?,
            right: device.alloc(len)?,
            left: device.alloc(len)?,
            depths: device.alloc(0)?,
            sorted: device.alloc(0)?,
            tile_counts: device.alloc(0)?,
            tile_offsets: device.alloc(0)?,
            scan: ScanScratch::new(device, 0)?,
            starts: device.alloc(0)?,
            numbers: device.alloc(0)?,
            links: device.alloc(0)?,
            list: device.alloc(0)?,
            findings: device.alloc_zeroed(findings::LEN)?,
        })
    }

    pub(super) fn boundaries(&self) -> u32 {
        self.boundaries
    }

    /// The arguments, with everything allocated so far, for kernels launched next on the stream.
    pub(super) fn args(&mut self, stream: &Stream) -> Result<NodesArgs> {
        Ok(NodesArgs {
            tree: self.tree,
            minima: self.minima.write_on(stream)?,
            leaders: self.leaders.write_on(stream)?,
            right: self.right.write_on(stream)?,
            left: self.left.write_on(stream)?,
            depths: self.depths.write_on(stream)?,
            sorted: self.sorted.write_on(stream)?,
            tile_counts: self.tile_counts.write_on(stream)?,
            tile_offsets: self.tile_offsets.write_on(stream)?,
            starts: self.starts.write_on(stream)?,
            numbers: self.numbers.write_on(stream)?,
            links: self.links.write_on(stream)?,
            list: self.list.write_on(stream)?,
            findings: self.findings.write_on(stream)?,
            boundaries: self.boundaries,
            nodes: self.nodes,
        })
    }

    /// Waits for the stream, and reads what the kernels have reported.
    pub(super) fn findings(&self, stream: &Stream) -> Result<[u64; findings::LEN]> {
        stream.synchronize()?;
        let mut found = [0; findings::LEN];
        self.findings.copy_to(&mut found)?;
        Ok(found)
    }

    /// Sorts the boundaries by depth; `deepest` is the largest depth.
    pub(super) fn sort(&mut self, stream: &Stream, deepest: u32) -> Result<()> {
        let (device, len) = (stream.device(), self.boundaries as usize);
        let bits = (u32::BITS - deepest.leading_zeros()).max(1);
        self.depths = device.alloc(len)?;
        self.sorted = device.alloc(len)?;
        let mut scratch = if bits <= PASS {
            RadixSortScratch::for_one_pass(device, len)?
        } else {
            RadixSortScratch::for_pairs(device, len)?
        };
        radix_argsort(stream, &self.minima, len, 0..bits, &mut self.depths, &mut self.sorted, &mut scratch)
    }

    /// The memory for placing this many nodes.
    pub(super) fn make_room(&mut self, device: &Device, nodes: u32) -> Result<()> {
        self.nodes = nodes;
        let tiles = super::blocks(self.boundaries).max(KINDS * super::blocks(nodes));
        self.tile_counts = device.alloc(tiles)?;
        self.tile_offsets = device.alloc(tiles + 1)?;
        self.scan = ScanScratch::new(device, tiles)?;
        self.starts = device.alloc(nodes as usize + 1)?;
        self.numbers = device.alloc(self.boundaries as usize)?;
        self.links = device.alloc(nodes as usize)?;
        self.list = device.alloc(nodes as usize)?;
        Ok(())
    }

    /// Sums up that many counts of blocks.
    pub(super) fn sum(&mut self, stream: &Stream, count: usize) -> Result<()> {
        exclusive_scan(stream, &self.tile_counts, count, &mut self.tile_offsets, &mut self.scan)
    }
}
