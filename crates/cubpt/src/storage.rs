//! The array of nodes, in segments (section 3.1).

use crate::mapping::Mapping;
use core::marker::PhantomData;
use core::ptr::null_mut;
use lanetree_frame::{Device, Error, Result, Stream};
use lanetree_kernels_cubpt::layout::{MOST_SEGMENTS, Node, Nodes, NodesMut};
use lanetree_runtime::Buffer;
use lanetree_simt::{Global, GlobalMut};

/// Segments that the nodes of a build fill, about; the others are for growth.
const BUILT: u64 = 8;

/// The fewest nodes of a segment, as a power of two.
const LEAST_SHIFT: u32 = 6;

/// Nodes on a device.
#[derive(Debug)]
pub(crate) struct Storage {
    device: Device,
    node: Node,
    mapping: Mapping,
    /// Nodes of a segment, as a power of two.
    shift: u32,
    /// Segments that were allocated together, and where each segment begins: the block, and the word there.
    blocks: Vec<Buffer<u64>>,
    segments: Vec<(usize, usize)>,
    /// Their addresses.
    list: Buffer<u64>,
}

impl Storage {
    /// Storage with room for `nodes` nodes.
    ///
    /// # Errors
    /// As [`Storage::reserve`].
    pub(crate) fn with_room(device: &Device, (node, mapping): (Node, Mapping), nodes: u64) -> Result<Self> {
        let shift = nodes.div_ceil(BUILT).max(1).next_power_of_two().trailing_zeros().max(LEAST_SHIFT);
        let list = device.upload(&[])?;
        let device = device.clone();
        let mut storage = Self { device, node, mapping, shift, blocks: Vec::new(), segments: Vec::new(), list };
        storage.reserve(nodes)?;
        Ok(storage)
    }

    /// Where it is.
    pub(crate) fn device(&self) -> Device {
        self.device.clone()
    }

    /// What a node is like.
    pub(crate) fn node(&self) -> Node {
        self.node
    }

    /// Nodes for which there is room.
    pub(crate) fn room(&self) -> u64 {
        (self.segments.len() as u64) << self.shift
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        (self.list.bytes() + self.blocks.iter().map(Buffer::bytes).sum::<usize>()) as u64
    }

    /// Makes room for `nodes` nodes. The nodes are kept, at their places, also if this fails.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room.
    pub(crate) fn reserve(&mut self, nodes: u64) -> Result<()> {
        let needed = nodes.div_ceil(1 << self.shift) as usize;
        if needed <= self.segments.len() {
            return Ok(());
        }
        if needed > MOST_SEGMENTS {
            return self.widen(nodes);
        }
        let words = (self.node.stride as usize / 8) << self.shift;
        let more = needed - self.segments.len();
        let block = self.device.alloc(words * more)?;
        let start = |block: &Buffer<u64>, at: usize| block.addresses().start as u64 + at as u64 * 8;
        let addresses = self.segments.iter().map(|&(block, at)| start(&self.blocks[block], at));
        let addresses: Vec<u64> = addresses.chain((0..more).map(|i| start(&block, i * words))).collect();
        self.list = self.device.upload(&addresses)?;
        self.segments.extend((0..more).map(|i| (self.blocks.len(), i * words)));
        self.blocks.push(block);
        Ok(())
    }

    /// How threads are mapped to keys.
    pub(crate) fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Moves all nodes to larger segments, where the list has no room for more of these.
    fn widen(&mut self, nodes: u64) -> Result<()> {
        let mut wider = Self::with_room(&self.device, (self.node, self.mapping), nodes.max(2 * self.room()))?;
        let stream = self.device.stream()?;
        let (words, per_wide) = (self.node.stride as usize / 8, 1 << (wider.shift - self.shift));
        for (i, &(block, from)) in self.segments.iter().enumerate() {
            let (wide, start) = wider.segments[i / per_wide];
            let at = start + (i % per_wide) * (words << self.shift);
            let from = from..from + (words << self.shift);
            wider.blocks[wide].copy_from_buffer(&stream, at, &self.blocks[block], from)?;
        }
        stream.synchronize()?;
        *self = wider;
        Ok(())
    }

    /// Nodes of the first block.
    fn together(&self) -> u32 {
        let segments = self.segments.iter().filter(|&&(block, _)| block == 0).count() as u64;
        u32::try_from(segments << self.shift).unwrap_or(u32::MAX)
    }

    /// The nodes for a kernel that reads, launched next on the stream.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a stream of another device.
    pub(crate) fn nodes(&self, stream: &Stream) -> Result<Nodes> {
        let mut segments = [Global::null(); MOST_SEGMENTS];
        for (to, block) in segments.iter_mut().zip(&self.blocks) {
            let start = block.read_on(stream)?;
            // The kernel has the address from the list.
            start.as_ptr().expose_provenance();
            *to = start.cast();
        }
        Ok(Nodes {
            list: self.list.read_on(stream)?,
            segments,
            shift: self.shift,
            together: self.together(),
            node: self.node,
        })
    }

    /// The nodes for a kernel that writes, launched next on the stream.
    ///
    /// # Errors
    /// As [`Storage::nodes`].
    pub(crate) fn nodes_mut(&mut self, stream: &Stream) -> Result<NodesMut> {
        let mut segments = [GlobalMut::null(); MOST_SEGMENTS];
        for (to, block) in segments.iter_mut().zip(&mut self.blocks) {
            let start = block.write_on(stream)?;
            start.as_ptr().expose_provenance();
            *to = start.cast();
        }
        Ok(NodesMut {
            list: self.list.read_on(stream)?,
            segments,
            shift: self.shift,
            together: self.together(),
            node: self.node,
        })
    }

    /// The block of a node, and its first word there.
    fn place(&self, number: u32) -> (usize, usize) {
        let (segment, within) = (number >> self.shift, number & ((1 << self.shift) - 1));
        let (block, at) = self.segments[segment as usize];
        (block, at + within as usize * (self.node.stride as usize / 8))
    }

    /// How many children an inner node has, and the first of them. Waits for writes of the node.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the device.
    pub(crate) fn first_child(&self, number: u32) -> Result<(u32, u32)> {
        let (block, start) = self.place(number);
        let [mut children, mut head] = [[0]; 2];
        self.blocks[block].copy_range_to(start + self.node.ptrs as usize / 8, &mut children)?;
        self.blocks[block].copy_range_to(start + self.node.head as usize / 8, &mut head)?;
        Ok((head[0] as u32, children[0] as u32))
    }

    /// All nodes, in main memory, to be written.
    pub(crate) fn node_words(&mut self) -> NodeWords<'_> {
        let (mut segments, words) = ([null_mut(); MOST_SEGMENTS], (self.node.stride as usize / 8) << self.shift);
        // A block's segments are adjacent, and come one after the other.
        let mut to = segments.iter_mut();
        for block in &mut self.blocks {
            let own = block.as_mut_slice().unwrap_or(&mut []).chunks_exact_mut(words);
            own.zip(&mut to).for_each(|(segment, to)| *to = segment.as_mut_ptr());
        }
        NodeWords { segments, count: self.segments.len(), shift: self.shift, node: self.node, borrow: PhantomData }
    }

    /// The words of a node, if the CPU can reach them.
    pub(crate) fn words(&self, number: u32) -> Option<&[u64]> {
        let (block, start) = self.place(number);
        Some(&self.blocks[block].as_slice()?[start..][..self.node.stride as usize / 8])
    }

    /// The words of a node, to be written, if the CPU can reach them.
    pub(crate) fn words_mut(&mut self, number: u32) -> Option<&mut [u64]> {
        let (block, start) = self.place(number);
        Some(&mut self.blocks[block].as_mut_slice()?[start..][..self.node.stride as usize / 8])
    }
}

/// The nodes in main memory, each for one thread at a time.
pub(crate) struct NodeWords<'a> {
    segments: [*mut u64; MOST_SEGMENTS],
    /// Segments that there are.
    count: usize,
    shift: u32,
    node: Node,
    borrow: PhantomData<&'a mut [u64]>,
}

// SAFETY: the words are borrowed mutably, and only the thread that has a node accesses it.
unsafe impl Sync for NodeWords<'_> {}

impl NodeWords<'_> {
    /// What a node is like.
    pub(crate) fn node(&self) -> Node {
        self.node
    }

    /// The words of a node.
    ///
    /// # Safety
    /// Nobody else accesses the node as long as they are used.
    #[allow(clippy::mut_from_ref, reason = "the caller has the node for itself")]
    pub(crate) unsafe fn words(&self, number: u32) -> &mut [u64] {
        let (segment, within) = ((number >> self.shift) as usize, number & ((1 << self.shift) - 1));
        assert!(segment < self.count, "node {number} of {} segments", self.count);
        let words = self.node.stride as usize / 8;
        // SAFETY: a segment has 2^shift nodes; the caller's.
        unsafe { core::slice::from_raw_parts_mut(self.segments[segment].add(within as usize * words), words) }
    }
}

/// The error of more nodes than there are numbers for.
pub(crate) fn too_many(pairs: u64, order: u32) -> Error {
    Error::TooManyLeaves { pairs, most: u64::from(u32::MAX) * u64::from(order) / 2 }
}
