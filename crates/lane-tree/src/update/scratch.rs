//! The scratch memory of batches.

use super::new_buckets::NewBuckets;
use lanetree_frame::{AnyKey, Buffer, Device, DeviceKind, Result, UpdatePath, UpdateReport};
use lanetree_kernels_lane_tree::MOST_NODE_PLAN_WORDS;
use lanetree_primitives::{OPERATION_FINDINGS, OperationSort, ScanScratch};

/// Words of the findings, from which [`Findings`] are read: the operations' tally.
pub(super) const TALLY: usize = 0;
/// [`Findings::listed`].
pub(super) const LISTED: usize = 5;
/// [`Findings::split`]; then both numbers of [`Findings::new_buckets`].
pub(super) const FOUND: usize = 6;
/// How many buckets have no room of their own.
pub(super) const FULL: usize = 9;
/// The sort's findings begin here.
pub(super) const SORTED_AT: usize = 10;

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
}

impl Findings {
    pub(super) fn of(words: &[u64]) -> Self {
        let [inserted, replaced, removed, unmatched, unreached] = core::array::from_fn(|i| words[TALLY + i]);
        let [split, new, old] = core::array::from_fn(|i| words[FOUND + i]);
        let (listed, new_buckets) = (words[LISTED], NewBuckets { new, old });
        Self { inserted, replaced, removed, unmatched, unreached, listed, split, new_buckets }
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
    pub(super) findings: Buffer<u64>,
    /// The formats of nodes that were written.
    pub(super) formats: Buffer<u32>,
    pub(super) scan: ScanScratch,
    /// Bit per node: must be rewritten.
    pub(super) marks: Buffer<u32>,
    /// Bit per node: must be split.
    pub(super) must_split: Buffer<u32>,
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
            findings: device.alloc(SORTED_AT + OPERATION_FINDINGS)?,
            formats: device.alloc(1)?,
            // The lists are not longer.
            scan: ScanScratch::new(device, n)?,
            marks: device.alloc(0)?,
            must_split: device.alloc(0)?,
            lists: NodeLists::new(device, 0)?,
            sizes: NodeSizes::new(device, 0)?,
        })
    }

    /// Makes room for a bit of each kind for each of `nodes` nodes.
    pub(super) fn reserve_bits(&mut self, device: &Device, nodes: usize) -> Result<()> {
        let words = nodes.div_ceil(32);
        for bits in [&mut self.marks, &mut self.must_split] {
            if bits.len() < words {
                *bits = device.alloc(words.next_power_of_two())?;
            }
        }
        Ok(())
    }

    /// The most operations of a batch.
    pub fn operations(&self) -> usize {
        self.sort.operations()
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let words = self.buckets.bytes()
            + self.full.bytes()
            + self.nodes.bytes()
            + self.located.bytes()
            + self.marks.bytes()
            + self.must_split.bytes();
        let sums = self.shifts.bytes() + self.counts.bytes() + self.before.bytes();
        let rest = self.formats.bytes() + self.findings.bytes() + self.scan.bytes();
        self.sort.bytes() + words + sums + rest + self.lists.bytes() + self.sizes.bytes()
    }
}
