//! The scratch memory of batches.

use super::new_buckets::NewBuckets;
use crate::bulk::read;
use lanetree_frame::{AnyKey, Buffer, Device, DeviceKind, Result, UpdatePath, UpdateReport};
use lanetree_kernels_lane_tree::MOST_NODE_PLAN_WORDS;
use lanetree_primitives::{OPERATION_FINDINGS, OperationSort, ScanScratch};
use lanetree_runtime::Stream;
use lanetree_simt::{Global, GlobalMut};

/// Words of the findings, from which [`Findings`] are read: the operations' tally.
pub(super) const TALLY: usize = 0;
/// [`Findings::listed`].
pub(super) const LISTED: usize = 5;
/// [`Findings::split`]; then both numbers of [`Findings::new_buckets`].
pub(super) const FOUND: usize = 6;
/// [`Findings::full`].
pub(super) const FULL: usize = 9;
/// The sort's findings begin here.
pub(super) const SORTED_AT: usize = 10;

/// The formats of nodes that were written: its lower half.
const FORMATS: usize = SORTED_AT + OPERATION_FINDINGS;
/// Words beside the nodes' bits.
const NOTED: usize = FORMATS + 1;

/// What kernels note of a batch, from zeros on: words from which [`Findings`] are read, and two bits for each node. In one buffer,
/// since a batch may be so small that each call of the driver counts.
#[derive(Debug)]
pub(super) struct Notes {
    /// [`NOTED`] words; then the nodes' bits of each kind.
    words: Buffer<u64>,
    /// Words of the bits of one kind.
    bit_words: usize,
}

impl Notes {
    /// Makes room for the bits of `nodes` nodes, and zeroes everything in the stream's order.
    pub(super) fn clear(&mut self, device: &Device, stream: &Stream, nodes: usize) -> Result<()> {
        self.bit_words = nodes.div_ceil(64);
        let len = NOTED + 2 * self.bit_words;
        if self.words.len() < len {
            self.words = device.alloc(len.next_power_of_two())?;
        }
        Ok(self.words.fill_zero_range(stream, 0..len)?)
    }

    /// The buffer, for the sort, which writes from [`SORTED_AT`] on.
    pub(super) fn buffer(&mut self) -> &mut Buffer<u64> {
        &mut self.words
    }

    /// The address of a word, which the stream may write.
    pub(super) fn at(&mut self, stream: &Stream, word: usize) -> Result<GlobalMut<u64>> {
        Ok(self.words.write_on(stream)?.byte_add(8 * word as u64))
    }

    /// Whether the batch is not sorted: not 0 then.
    pub(super) fn unsorted(&mut self, stream: &Stream) -> Result<Global<u64>> {
        Ok(self.at(stream, SORTED_AT + 1)?.as_const())
    }

    /// A bit per node: must be rewritten.
    pub(super) fn marks(&mut self, stream: &Stream) -> Result<GlobalMut<u32>> {
        Ok(self.at(stream, NOTED)?.cast())
    }

    /// A bit per node: must be split.
    pub(super) fn must_split(&mut self, stream: &Stream) -> Result<GlobalMut<u32>> {
        Ok(self.at(stream, NOTED + self.bit_words)?.cast())
    }

    /// The formats of nodes that are written.
    pub(super) fn formats(&mut self, stream: &Stream) -> Result<GlobalMut<u32>> {
        Ok(self.at(stream, FORMATS)?.cast())
    }

    /// The formats of nodes that were written. Waits for the stream.
    pub(super) fn read_formats(&self) -> Result<u32> {
        Ok(read(&self.words, FORMATS)? as u32)
    }

    /// The words that are not nodes' bits. Waits for the stream.
    pub(super) fn read(&self) -> Result<[u64; NOTED]> {
        let mut words = [0; NOTED];
        self.words.copy_range_to(0, &mut words)?;
        Ok(words)
    }
}

/// What a batch does to a tree.
#[derive(Clone, Copy)]
pub(super) struct Findings {
    pub(super) inserted: u64,
    pub(super) replaced: u64,
    pub(super) removed: u64,
    pub(super) unmatched: u64,
    /// Keys that are inserted into nodes which the levels above do not reach.
    pub(super) unreached: u64,
    /// Nodes that must be rewritten.
    pub(super) listed: u64,
    /// How many of these must be split.
    pub(super) split: u64,
    /// The buckets that the others get and leave.
    pub(super) new_buckets: NewBuckets,
    /// How many buckets have no room of their own.
    pub(super) full: u64,
}

impl Findings {
    pub(super) fn of(words: &[u64]) -> Self {
        let [inserted, replaced, removed, unmatched, unreached] = core::array::from_fn(|i| words[TALLY + i]);
        let [split, new, old] = core::array::from_fn(|i| words[FOUND + i]);
        let (listed, new_buckets, full) = (words[LISTED], NewBuckets { new, old }, words[FULL]);
        Self { inserted, replaced, removed, unmatched, unreached, listed, split, new_buckets, full }
    }

    /// By how many pairs the tree grows, wrapping.
    pub(super) fn growth(&self) -> u64 {
        self.inserted.wrapping_sub(self.removed)
    }

    pub(super) fn report(&self, path: UpdatePath) -> UpdateReport {
        let &Self { inserted, replaced, removed, unmatched, .. } = self;
        UpdateReport { inserted, replaced, removed, unmatched, path }
    }
}

/// Scratch memory of batches in device form, reusable for the next batch: about 70 bytes per operation with keys of 8 bytes, and 30
/// for each node of the tree's lowest level, but for no more nodes than operations. A batch that splits nodes takes about 32 more for each node of the tree.
#[derive(Debug)]
pub struct UpdateScratch<K: AnyKey> {
    pub(super) sort: OperationSort<K>,
    /// The node of each operation.
    pub(super) nodes: Buffer<u32>,
    /// Its position there, and its effect.
    pub(super) located: Buffer<u32>,
    /// Its bucket.
    pub(super) buckets: Buffer<u32>,
    /// What it adds and removes.
    pub(super) counts: Buffer<u64>,
    /// Their sums.
    pub(super) before: Buffer<u64>,
    /// The first operations of buckets that have no room.
    pub(super) full: Buffer<u32>,
    /// What the bucket of an operation hands to another.
    pub(super) shifts: Buffer<u32>,
    pub(super) notes: Notes,
    pub(super) scan: ScanScratch,
    pub(super) lists: NodeLists,
    pub(super) sizes: NodeSizes,
}

/// What is known of nodes that are to be rewritten.
#[derive(Debug)]
pub(super) struct NodeLists {
    /// Nodes that there is room for.
    len: usize,
    /// Their numbers.
    pub(super) listed: Buffer<u32>,
    /// The first operation of each, and the one after its last.
    pub(super) spans: Buffer<u64>,
    /// The plan of each.
    pub(super) plans: Buffer<u32>,
}

impl NodeLists {
    fn new(device: &Device, len: usize) -> Result<Self> {
        let plans = device.alloc(MOST_NODE_PLAN_WORDS as usize * len)?;
        Ok(Self { len, listed: device.alloc(len)?, spans: device.alloc(2 * len)?, plans })
    }

    /// Makes room for `len` nodes.
    pub(super) fn reserve(&mut self, device: &Device, len: usize) -> Result<()> {
        if self.len < len {
            *self = Self::new(device, len.next_power_of_two())?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.listed.bytes() + self.spans.bytes() + self.plans.bytes()
    }
}

/// The sizes of split nodes, among all of the lowest level.
#[derive(Debug)]
pub(super) struct NodeSizes {
    /// Nodes that there is room for.
    len: usize,
    /// What each adds to the pairs that are split.
    pub(super) pairs: Buffer<u64>,
    /// Their sums.
    pub(super) pairs_before: Buffer<u64>,
    /// What each adds to parts and buckets.
    pub(super) parts: Buffer<u64>,
    /// Their sums.
    pub(super) parts_before: Buffer<u64>,
    pub(super) scan: ScanScratch,
}

impl NodeSizes {
    fn new(device: &Device, len: usize) -> Result<Self> {
        Ok(Self {
            len,
            pairs: device.alloc(len)?,
            pairs_before: device.alloc(len + 1)?,
            parts: device.alloc(len)?,
            parts_before: device.alloc(len + 1)?,
            scan: ScanScratch::new(device, len)?,
        })
    }

    /// Makes room for `len` nodes.
    pub(super) fn reserve(&mut self, device: &Device, len: usize) -> Result<()> {
        if self.len < len {
            // Batches come one after another, and each adds nodes.
            *self = Self::new(device, len + len / 4)?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let sums = self.pairs_before.bytes() + self.parts_before.bytes();
        self.pairs.bytes() + self.parts.bytes() + sums + self.scan.bytes()
    }
}

impl<K: AnyKey> UpdateScratch<K> {
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
            located: device.alloc(n)?,
            buckets: device.alloc(n)?,
            counts: device.alloc(n)?,
            before: device.alloc(n + 1)?,
            full: device.alloc(n)?,
            shifts: device.alloc(n)?,
            notes: Notes { words: device.alloc(NOTED)?, bit_words: 0 },
            // The lists are not longer.
            scan: ScanScratch::new(device, n)?,
            lists: NodeLists::new(device, 0)?,
            sizes: NodeSizes::new(device, 0)?,
        })
    }

    /// The most operations of a batch.
    pub fn operations(&self) -> usize {
        self.sort.operations()
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let words = self.buckets.bytes() + self.full.bytes() + self.nodes.bytes() + self.located.bytes();
        let sums = self.shifts.bytes() + self.counts.bytes() + self.before.bytes();
        let rest = self.notes.words.bytes() + self.scan.bytes();
        self.sort.bytes() + words + sums + rest + self.lists.bytes() + self.sizes.bytes()
    }
}
