//! Batches of updates on the device: sorted there, and brought into the tree there.

use super::{Op, UpdatePath, UpdateReport};
use crate::error::same_device;
use crate::harmonia::Harmonia;
use crate::harmonia::bulk::Regions;
use crate::harmonia::launch;
use crate::harmonia::lookup::bits;
use crate::primitives::{RadixSortScratch, ScanScratch, exclusive_scan, inclusive_max_scan, radix_argsort};
use crate::{Error, Result};
use lanetree_kernels_harmonia::leaf_lanes;
use lanetree_kernels_harmonia::update::{
    ApplyArgs, Changes, CompactArgs, FillLensArgs, Kind, LocateArgs, MOVE_SLOTS, MarkBasesArgs, PlanArgs, RebuildArgs,
    apply_warps, is_by_node,
};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, Device, DeviceKind, PinnedBuffer, Stream};
use lanetree_simt::{Global, GlobalMut, WARP};

/// Most operations of a batch: their numbers have a bit to spare in 32.
const MOST_OPERATIONS: usize = (1 << 31) - 1;

/// Words of what a batch is found to do: inserted, replaced, removed, left alone; heads of leaves and of
/// nodes, and whether the changes do not fit.
const FINDINGS: usize = 7;

/// Scratch memory of batches of updates on a device, for batches up to a size and trees of any: about 100
/// bytes per operation with 8-byte keys and values. Once a tree has been built again it also keeps the
/// memory that the tree had before, for the next time.
#[derive(Debug)]
pub struct UpdateScratch<K: Key, V: Word> {
    device: Device,
    operations: usize,
    sort: RadixSortScratch<K, u32>,
    sorted: Buffer<K>,
    order: Buffer<u32>,
    /// What updates build on: only for batches that have kinds.
    bases: Option<[Buffer<u32>; 2]>,
    flags: Buffer<u32>,
    effects: Buffer<u32>,
    leaves: Buffer<u32>,
    parents: Buffer<u32>,
    offsets: Buffer<u64>,
    findings: Buffer<u64>,
    /// The same, on the host.
    found: PinnedBuffer<u64>,
    changes: ChangeBuffers<K::Bits, V>,
    nets: Buffer<u64>,
    leaf_heads: Buffer<u32>,
    node_heads: Buffer<u32>,
    scan: ScanScratch,
    /// Scratch of scans over leaves, and for how many.
    leaf_scan: Option<(ScanScratch, usize)>,
    spare: Option<Regions<K::Bits, V>>,
}

/// The operations with an effect: what [`Changes`] points to.
#[derive(Debug)]
struct ChangeBuffers<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    effects: Buffer<u32>,
    leaves: Buffer<u32>,
    parents: Buffer<u32>,
    nets: Buffer<u64>,
}

impl<K: Key, V: Word> UpdateScratch<K, V> {
    /// For batches of up to so many operations.
    ///
    /// # Errors
    /// [`Runtime`](Error::Runtime) where the device has no room;
    /// [`TooManyOperations`](Error::TooManyOperations).
    pub fn new(device: &Device, operations: usize) -> Result<Self> {
        if operations > MOST_OPERATIONS {
            return Err(Error::TooManyOperations { operations });
        }
        // The host's batches have their own way.
        let n = if device.kind() == DeviceKind::Host { 0 } else { operations };
        Ok(Self {
            device: device.clone(),
            operations,
            sort: RadixSortScratch::for_pairs(device, n)?,
            sorted: device.alloc(n)?,
            order: device.alloc(n)?,
            bases: None,
            flags: device.alloc(n)?,
            effects: device.alloc(n)?,
            leaves: device.alloc(n)?,
            parents: device.alloc(n)?,
            offsets: device.alloc(n + 1)?,
            findings: device.alloc(FINDINGS)?,
            found: device.pinned(FINDINGS)?,
            changes: ChangeBuffers {
                keys: device.alloc(n)?,
                values: device.alloc(n)?,
                effects: device.alloc(n)?,
                leaves: device.alloc(n)?,
                parents: device.alloc(n)?,
                nets: device.alloc(n)?,
            },
            nets: device.alloc(n + 1)?,
            leaf_heads: device.alloc(n)?,
            node_heads: device.alloc(n)?,
            scan: ScanScratch::new(device, n)?,
            leaf_scan: None,
            spare: None,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let words =
            [&self.order, &self.flags, &self.effects, &self.leaves, &self.parents, &self.leaf_heads, &self.node_heads];
        let changes = &self.changes;
        let change_words = [&changes.effects, &changes.leaves, &changes.parents];
        words.into_iter().chain(change_words).chain(self.bases.iter().flatten()).map(Buffer::bytes).sum::<usize>()
            + [&self.offsets, &self.findings, &self.nets, &changes.nets]
                .map(|buffer| buffer.bytes())
                .iter()
                .sum::<usize>()
            + self.sort.bytes()
            + self.sorted.bytes()
            + changes.keys.bytes()
            + changes.values.bytes()
            + self.scan.bytes()
            + self.leaf_scan.as_ref().map_or(0, |(scratch, _)| scratch.bytes())
            + self.spare.as_ref().map_or(0, Regions::bytes)
    }

    fn changes(&self, count: usize) -> Changes<K::Bits, V> {
        Changes {
            keys: self.changes.keys.global(),
            values: self.changes.values.global(),
            effects: self.changes.effects.global(),
            leaves: self.changes.leaves.global(),
            parents: self.changes.parents.global(),
            // The last offset, which is the total.
            count: self.offsets.global().byte_add(count as u64 * 8),
        }
    }
}

/// What a batch does, as the host learns it.
struct Findings {
    report: UpdateReport,
    leaf_heads: u64,
    node_heads: u64,
    fits: bool,
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Applies a batch whose operations are on the device, the `i`-th with `keys[i]`, `values[i]` (nothing
    /// is read of it for a removal) and, unless all are inserts, `kinds[i]`: 0 to insert, 1 to update, 2 to
    /// remove, as [`Op`]. As many operations as there are keys, with the effect of one after another.
    ///
    /// The batch is sorted and each operation finds its leaf. Where the leaves have room, or those of one
    /// node together (with fanouts up to 16), they are written anew in place; else the tree is built again
    /// from its pairs and the batch's, with the fill that it had. Nothing of the tree goes to the host.
    ///
    /// Waits for all work on the device before it changes anything, so that whoever reads the tree in any
    /// stream reads it as it was before the batch; and returns when all is done, so that nobody reads it
    /// half-way.
    ///
    /// # Errors
    /// [`TooManyOperations`](Error::TooManyOperations), [`OutputLength`](Error::OutputLength) for buffers
    /// or scratch memory that are too small, [`TooManyPairs`](Error::TooManyPairs),
    /// [`Runtime`](Error::Runtime) for buffers of another device or where there is no room:
    /// the tree is as it was. [`Lost`](Error::Lost) where the device failed while leaves were written: the
    /// tree is gone, and says so from then on. [`NoUpdates`](Error::NoUpdates) on the host, whose
    /// batches are slices ([`Harmonia::apply`]).
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        kinds: Option<&Buffer<u32>>,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<UpdateReport> {
        let count = keys.len();
        self.check_batch(stream, count, values, kinds, scratch)?;
        same_device(&self.device, keys.device(), "the keys")?;
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        if kinds.is_some() && scratch.bases.is_none() {
            let n = scratch.operations;
            scratch.bases = Some([scratch.device.alloc(n)?, scratch.device.alloc(n)?]);
        }
        let found = self.find_changes(stream, keys, values, kinds, scratch)?;
        let UpdateReport { inserted, replaced, removed, .. } = found.report;
        let changes = (inserted + replaced + removed) as usize;
        let path = if changes == 0 {
            UpdatePath::Unchanged
        } else if found.fits {
            self.apply_in_place(stream, &found, count, scratch)?;
            UpdatePath::InPlace
        } else {
            self.rebuild(stream, &found, changes, count, scratch)?;
            UpdatePath::Rebuilt
        };
        Ok(UpdateReport { path, ..found.report })
    }

    /// The host form of [`Harmonia::apply_on`].
    pub(super) fn apply_from_host(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V>) -> Result<UpdateReport> {
        let device = self.device.clone();
        let mut scratch = UpdateScratch::new(&device, count)?;
        let (mut keys, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut kinds = Vec::with_capacity(count);
        for op in (0..count).map(op) {
            let (key, value, kind) = match op {
                Op::Insert(key, value) => (key, value, Kind::Insert),
                Op::Update(key, value) => (key, value, Kind::Update),
                Op::Remove(key) => (key, V::MIN, Kind::Remove),
            };
            keys.push(key);
            values.push(value);
            kinds.push(kind as u32);
        }
        let kinds = match kinds.iter().all(|&kind| kind == Kind::Insert as u32) {
            true => None,
            false => Some(device.upload(&kinds)?),
        };
        let (keys, values) = (device.upload(&keys)?, device.upload(&values)?);
        self.apply_on(&device.stream()?, &keys, &values, kinds.as_ref(), &mut scratch)
    }

    fn check_batch(
        &self,
        stream: &Stream,
        count: usize,
        values: &Buffer<V>,
        kinds: Option<&Buffer<u32>>,
        scratch: &UpdateScratch<K, V>,
    ) -> Result<()> {
        if self.device.kind() == DeviceKind::Host {
            return Err(Error::NoUpdates { device: self.device.to_string() });
        }
        self.check_not_lost()?;
        if count > MOST_OPERATIONS {
            return Err(Error::TooManyOperations { operations: count });
        }
        let kinds = kinds.map(|kinds| ("the kinds", kinds.len(), kinds.device()));
        for (what, found, device) in [
            ("the values", values.len(), values.device()),
            ("the scratch memory of updates", scratch.operations, &scratch.device),
            ("the stream", count, stream.device()),
        ]
        .into_iter()
        .chain(kinds)
        {
            if found < count {
                return Err(Error::OutputLength { what, expected: count, found });
            }
            same_device(&self.device, device, what)?;
        }
        Ok(())
    }

    /// Sorts a batch, finds what its operations do, and whether the nodes have room. Changes nothing; waits
    /// for the stream.
    fn find_changes(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        kinds: Option<&Buffer<u32>>,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<Findings> {
        let (count, fanout) = (keys.len(), self.shape.fanout);
        let per_operation = || launch::over(stream, count, 1);
        scratch.findings.fill_zero(stream)?;
        let sorted = (&mut scratch.sorted, &mut scratch.order);
        radix_argsort(stream, keys, count, 0..K::Bits::BITS, sorted, &mut scratch.sort)?;
        let (mut kinds_at, mut bases_at) = (Global::null(), Global::null());
        if let (Some(kinds), Some([marks, bases])) = (kinds, &mut scratch.bases) {
            (kinds_at, bases_at) = (kinds.global(), bases.global());
            let (order, marks_at) = (scratch.order.global(), marks.global_mut());
            let args = MarkBasesArgs { order, kinds: kinds_at, marks: marks_at, count: count as u64 };
            launch::update::mark_bases(&args, per_operation()?)?;
            inclusive_max_scan(stream, marks, count, bases, &mut scratch.scan)?;
        }
        let args = LocateArgs {
            tree: self.tree_ref(),
            keys: bits::<K>(&scratch.sorted),
            order: scratch.order.global(),
            kinds: kinds_at,
            bases: bases_at,
            count: count as u64,
            flags: scratch.flags.global_mut(),
            effects: scratch.effects.global_mut(),
            leaves: scratch.leaves.global_mut(),
            parents: scratch.parents.global_mut(),
            tally: scratch.findings.global_mut(),
        };
        launch::update::locate::<K::Bits, V>(fanout, &args, per_operation()?)?;
        exclusive_scan(stream, &scratch.flags, count, &mut scratch.offsets, &mut scratch.scan)?;
        let args = CompactArgs {
            keys: bits::<K>(&scratch.sorted),
            order: scratch.order.global(),
            values: values.global(),
            count: count as u64,
            offsets: scratch.offsets.global(),
            effects: scratch.effects.global(),
            leaves: scratch.leaves.global(),
            parents: scratch.parents.global(),
            out_keys: scratch.changes.keys.global_mut(),
            out_values: scratch.changes.values.global_mut(),
            out_effects: scratch.changes.effects.global_mut(),
            out_leaves: scratch.changes.leaves.global_mut(),
            out_parents: scratch.changes.parents.global_mut(),
            out_nets: scratch.changes.nets.global_mut(),
            flip: K::FLIP,
        };
        launch::update::compact::<K::Bits, V>(&args, per_operation()?)?;
        if self.shape.leaves > 0 {
            let args = PlanArgs {
                tree: self.tree_ref(),
                changes: scratch.changes(count),
                leaf_heads: scratch.leaf_heads.global_mut(),
                node_heads: scratch.node_heads.global_mut(),
                plan: scratch.findings.global_mut().byte_add(4 * 8),
                fanout,
                by_node: self.by_node(),
            };
            launch::update::plan::<K::Bits, V>(&args, per_operation()?)?;
        }
        // SAFETY: both buffers are the scratch memory's, and the stream is waited for, also after an error: the
        // copy may have been begun.
        let copied = unsafe { scratch.findings.download_async(stream, 0..FINDINGS, &mut scratch.found, 0) };
        stream.synchronize()?;
        copied?;
        let [inserted, replaced, removed, unmatched, leaf_heads, node_heads, too_much] =
            core::array::from_fn(|i| scratch.found[i]);
        let report = UpdateReport { inserted, replaced, removed, unmatched, path: UpdatePath::Unchanged };
        Ok(Findings { report, leaf_heads, node_heads, fits: self.shape.leaves > 0 && too_much == 0 })
    }

    /// Whether changes are planned by the node, as a kernel's argument.
    fn by_node(&self) -> u32 {
        u32::from(self.shape.height > 0 && is_by_node(self.shape.fanout))
    }

    /// Applies changes that fit.
    fn apply_in_place(
        &mut self,
        stream: &Stream,
        found: &Findings,
        count: usize,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<()> {
        let (report, leaves) = (&found.report, self.shape.leaves as usize);
        let moves = report.inserted + report.removed > 0;
        // All memory before the first change.
        let (mut lens, mut ranks) = (None, None);
        if moves {
            if self.lens.is_none() {
                let lens = lens.insert(self.device.alloc(leaves)?);
                let args = FillLensArgs { tree: self.tree_ref(), lens: lens.global_mut() };
                launch::update::fill_lens(&args, launch::over(stream, leaves, 1)?)?;
            }
            if self.ranks.is_none() {
                ranks = Some(self.device.alloc(leaves + 1)?);
            }
            if scratch.leaf_scan.as_ref().is_none_or(|&(_, room)| room < leaves) {
                scratch.leaf_scan = Some((ScanScratch::new(&scratch.device, leaves)?, leaves));
            }
        }
        let args = ApplyArgs {
            tree: self.tree_ref(),
            inner: self.inner.global_mut(),
            leaves: self.leaves.global_mut().cast(),
            lens: lens.as_mut().or(self.lens.as_mut()).filter(|_| moves).map_or(GlobalMut::null(), Buffer::global_mut),
            changes: scratch.changes(count),
            heads: scratch.leaf_heads.global(),
            head_count: found.leaf_heads,
            removals: report.removed,
        };
        let fanout = self.shape.fanout;
        let leaf_launch = launch::over(stream, found.leaf_heads as usize, leaf_lanes(fanout))?;
        let node_launch = launch::over_in_blocks(stream, found.node_heads as usize, WARP, apply_warps(fanout) * WARP)?;
        // Readers in other streams: what they were given to do is done before anything changes.
        self.device.synchronize()?;
        // Complete only now: the kernel that fills them may have failed on its way.
        self.lens = lens.or(self.lens.take());
        self.lost = true;
        if found.leaf_heads > 0 {
            launch::update::apply_leaves::<K::Bits, V>(fanout, &args, leaf_launch)
                .map_err(|error| lost(error.into()))?;
        }
        if found.node_heads > 0 {
            let args = ApplyArgs { heads: scratch.node_heads.global(), head_count: found.node_heads, ..args };
            launch::update::apply_nodes::<K::Bits, V>(fanout, &args, node_launch)
                .map_err(|error| lost(error.into()))?;
        }
        if moves {
            self.ranks = self.ranks.take().or(ranks);
            if let (Some(lens), Some(ranks), Some((scan, _))) = (&self.lens, &mut self.ranks, &mut scratch.leaf_scan) {
                exclusive_scan(stream, lens, leaves, ranks, scan).map_err(lost)?;
            }
        }
        stream.synchronize().map_err(|error| lost(error.into()))?;
        self.shape.len = self.shape.len + report.inserted - report.removed;
        self.lost = false;
        Ok(())
    }

    /// Builds the tree again from its pairs and the changes.
    fn rebuild(
        &mut self,
        stream: &Stream,
        found: &Findings,
        changes: usize,
        count: usize,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<()> {
        let len = self.shape.len + found.report.inserted - found.report.removed;
        let shape = self.shape.with_len(len).ok_or(Error::TooManyPairs {
            pairs: usize::try_from(len).unwrap_or(usize::MAX),
            fanout: self.shape.fanout,
            fill: f64::from(self.shape.per_leaf) / f64::from(self.shape.fanout),
        })?;
        // An eighth more than needed, so that a tree that grows does not come to allocate each time.
        let mut regions = match scratch.spare.take().filter(|spare| spare.has_room(&shape)) {
            Some(regions) => regions,
            None => Regions::new(&self.device, &shape, shape.leaves / 8)?,
        };
        if len > 0 {
            exclusive_scan(stream, &scratch.changes.nets, changes, &mut scratch.nets, &mut scratch.scan)?;
            let args = RebuildArgs {
                tree: self.tree_ref(),
                changes: scratch.changes(count),
                change_count: changes as u64,
                nets: scratch.nets.global(),
                leaves: regions.leaves.global_mut().cast(),
                filling: shape.filling(),
            };
            launch::update::place::<K::Bits, V>(&args, launch::over(stream, changes, 1)?)?;
            if self.shape.leaves > 0 {
                let slots = self.shape.leaves as usize * self.shape.fanout as usize;
                let launch = launch::over(stream, slots.div_ceil(MOVE_SLOTS as usize), WARP)?;
                launch::update::move_pairs::<K::Bits, V>(&args, launch)?;
            }
            regions.fill_inner(stream, &shape)?;
        }
        // Readers in other streams may still read the old regions, which the next batch writes.
        self.device.synchronize()?;
        let Regions { inner, prefix_sum, leaves, .. } = regions;
        let old = (
            core::mem::replace(&mut self.inner, inner),
            core::mem::replace(&mut self.prefix_sum, prefix_sum),
            core::mem::replace(&mut self.leaves, leaves),
        );
        (self.shape, self.ranks, self.lens) = (shape, None, None);
        scratch.spare = Some(Regions::of(old.0, old.1, old.2));
        Ok(())
    }

    /// # Errors
    /// [`Error::Lost`].
    pub(in crate::harmonia) fn check_not_lost(&self) -> Result<()> {
        if self.lost { Err(Error::Lost { reason: "an earlier batch of updates".into() }) } else { Ok(()) }
    }
}

/// The error of a batch that has begun to change the tree.
fn lost(error: Error) -> Error {
    Error::Lost { reason: error.to_string() }
}

#[cfg(test)]
mod tests;
