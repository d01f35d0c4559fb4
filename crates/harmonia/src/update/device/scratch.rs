//! The memory that batches of updates on a device work in.

use crate::build::Regions;
use crate::launch;
use lanetree_frame::Result;
use lanetree_frame::fixed::bits;
use lanetree_kernels_harmonia::calls;
use lanetree_kernels_harmonia::update::{Changes, CompactArgs, MarkEffectsArgs};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{OperationSort, ScanScratch, exclusive_scan};
use lanetree_runtime::{Buffer, Device, DeviceKind, PinnedBuffer, Stream};
use lanetree_simt::Global;

/// Scratch memory of batches of updates on a device, for batches up to a size and trees of any size. It takes about 60
/// bytes per operation with 8-byte keys and values. Once a tree has been rebuilt, it takes 60 bytes more, and keeps the
/// memory that the tree had before. It also remembers by which bits of their keys the last batches could be sorted.
#[derive(Debug)]
pub struct UpdateScratch<K: Key, V: Word> {
    pub(super) device: Device,
    pub(super) sort: OperationSort<K>,
    pub(super) effects: Buffer<u32>,
    pub(super) leaves: Buffer<u32>,
    pub(super) parents: Buffer<u32>,
    pub(super) findings: Buffer<u64>,
    /// The same, on the host.
    pub(super) found: PinnedBuffer<u64>,
    pub(super) leaf_heads: Buffer<u64>,
    pub(super) node_heads: Buffer<u64>,
    compact: Option<Compacted<K::Bits, V>>,
    /// Scratch memory of scans over leaves, and for how many leaves.
    pub(super) leaf_scan: Option<(ScanScratch, usize)>,
    pub(super) spare: Option<Regions<K::Bits, V>>,
}

/// The operations with an effect, and the memory to compact them.
#[derive(Debug)]
pub(super) struct Compacted<K, V> {
    flags: Buffer<u32>,
    offsets: Buffer<u64>,
    scan: ScanScratch,
    keys: Buffer<K>,
    values: Buffer<V>,
    effects: Buffer<u32>,
    leaves: Buffer<u32>,
    parents: Buffer<u32>,
    nets: Buffer<u64>,
    /// The prefix sums of `nets`.
    sums: Buffer<u64>,
}

impl<K: Key, V: Word> UpdateScratch<K, V> {
    /// Memory on `device` for batches of up to `operations` operations, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_frame::Error::Runtime) if the device has no room; [`TooManyOperations`](lanetree_frame::Error::TooManyOperations).
    pub fn new(device: &Device, operations: usize) -> Result<Self> {
        let sort = OperationSort::new(device, operations)?;
        // Batches on the host need no scratch memory.
        let n = if device.kind() == DeviceKind::Host { 0 } else { operations };
        Ok(Self {
            device: device.clone(),
            sort,
            effects: device.alloc(n)?,
            leaves: device.alloc(n)?,
            parents: device.alloc(n)?,
            findings: device.alloc(super::FINDINGS)?,
            found: device.pinned(super::FINDINGS)?,
            leaf_heads: device.alloc(n)?,
            node_heads: device.alloc(n)?,
            compact: None,
            leaf_scan: None,
            spare: None,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let words = [&self.effects, &self.leaves, &self.parents];
        let heads = self.leaf_heads.bytes() + self.node_heads.bytes();
        words.into_iter().map(Buffer::bytes).sum::<usize>()
            + heads
            + self.sort.bytes()
            + self.findings.bytes()
            + self.compact.as_ref().map_or(0, Compacted::bytes)
            + self.leaf_scan.as_ref().map_or(0, |(scratch, _)| scratch.bytes())
            + self.spare.as_ref().map_or(0, Regions::bytes)
    }

    /// The memory for the operations with an effect.
    pub(super) fn alloc_compact(&mut self) -> Result<()> {
        if self.compact.is_none() {
            self.compact = Some(Compacted::new(&self.device, self.sort.operations())?);
        }
        Ok(())
    }

    /// All operations of a batch, located.
    pub(super) fn located(&self, stream: &Stream, values: &Buffer<V>, count: usize) -> Result<Changes<K::Bits, V>> {
        Ok(Changes {
            keys: bits::<K>(stream, self.sort.sorted())?,
            values: values.read_on(stream)?,
            order: self.sort.order().read_on(stream)?,
            effects: self.effects.read_on(stream)?,
            leaves: self.leaves.read_on(stream)?,
            parents: self.parents.read_on(stream)?,
            count: count as u64,
            flip: K::FLIP,
        })
    }

    /// Compacts the `changes` operations of a batch that have an effect.
    pub(super) fn compact(
        &mut self,
        stream: &Stream,
        values: &Buffer<V>,
        count: usize,
        changes: usize,
    ) -> Result<Changes<K::Bits, V>> {
        self.alloc_compact()?;
        let located = self.located(stream, values, count)?;
        let compact = self.compact.as_mut().expect("allocated above");
        let launch = || launch::over(stream, count as u64, 1);
        let args =
            MarkEffectsArgs { effects: located.effects, flags: compact.flags.write_on(stream)?, count: located.count };
        // SAFETY: the scratch memory has room for that many operations; every pointer is for this stream.
        unsafe { launch()?.run(calls::mark_effects(&args))? };
        exclusive_scan(stream, &compact.flags, count, &mut compact.offsets, &mut compact.scan)?;
        let args = CompactArgs {
            keys: located.keys,
            order: located.order,
            values: located.values,
            count: located.count,
            offsets: compact.offsets.read_on(stream)?,
            effects: located.effects,
            leaves: located.leaves,
            parents: located.parents,
            out_keys: compact.keys.write_on(stream)?,
            out_values: compact.values.write_on(stream)?,
            out_effects: compact.effects.write_on(stream)?,
            out_leaves: compact.leaves.write_on(stream)?,
            out_parents: compact.parents.write_on(stream)?,
            out_nets: compact.nets.write_on(stream)?,
            flip: located.flip,
        };
        // SAFETY: as above; the offsets are the prefix sums of the flags.
        unsafe { launch()?.run(calls::compact::<K::Bits, V>(&args))? };
        compact.changes(stream, changes)
    }

    /// How many inserts and removals precede each of the compacted changes.
    pub(super) fn net_sums(&mut self, stream: &Stream, changes: usize) -> Result<Global<u64>> {
        let compact = self.compact.as_mut().expect("only for changes that are next to each other");
        exclusive_scan(stream, &compact.nets, changes, &mut compact.sums, &mut compact.scan)?;
        Ok(compact.sums.read_on(stream)?)
    }
}

impl<K: Word, V: Word> Compacted<K, V> {
    fn new(device: &Device, n: usize) -> Result<Self> {
        Ok(Self {
            flags: device.alloc(n)?,
            offsets: device.alloc(n + 1)?,
            scan: ScanScratch::new(device, n)?,
            keys: device.alloc(n)?,
            values: device.alloc(n)?,
            effects: device.alloc(n)?,
            leaves: device.alloc(n)?,
            parents: device.alloc(n)?,
            nets: device.alloc(n)?,
            sums: device.alloc(n + 1)?,
        })
    }

    fn bytes(&self) -> usize {
        let words = [&self.flags, &self.effects, &self.leaves, &self.parents].map(Buffer::bytes);
        let sums = [&self.offsets, &self.nets, &self.sums].map(Buffer::bytes);
        words.iter().chain(&sums).sum::<usize>() + self.keys.bytes() + self.values.bytes() + self.scan.bytes()
    }

    fn changes(&self, stream: &Stream, count: usize) -> Result<Changes<K, V>> {
        Ok(Changes {
            keys: self.keys.read_on(stream)?,
            values: self.values.read_on(stream)?,
            order: Global::null(),
            effects: self.effects.read_on(stream)?,
            leaves: self.leaves.read_on(stream)?,
            parents: self.parents.read_on(stream)?,
            count: count as u64,
            flip: K::MIN,
        })
    }
}
