//! Batches of updates on the device: sorted and applied there.

mod plan;
mod scratch;

pub use scratch::UpdateScratch;

use super::{Op, UpdatePath, UpdateReport};
use crate::Harmonia;
use crate::build::Regions;
use crate::launch;
use lanetree_frame::pointers::optional_mut;
use lanetree_frame::{Batch, Error, Result};
use lanetree_kernels_harmonia::calls;
use lanetree_kernels_harmonia::leaf_lanes;
use lanetree_kernels_harmonia::update::{ApplyArgs, FillLensArgs, MOVE_SLOTS, RebuildArgs, apply_warps};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{ScanScratch, exclusive_scan};
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::WARP;
use plan::{FINDINGS, Findings};

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Applies a batch of operations in buffers: [`Batch`] says what they consist of. The effect is that of one operation
    /// after another.
    ///
    /// The batch is sorted and each operation finds its leaf. If the leaves have room, or the leaves of one node
    /// together have room (with fanouts up to 16), they are rewritten in place. Otherwise the tree is rebuilt from its
    /// pairs and the batch's, with its original fill. No part of the tree goes to the host.
    ///
    /// Keys with random upper bits are the fastest, since a few of these bits are enough to sort them. The scratch
    /// memory remembers from batch to batch whether they are random.
    ///
    /// Changes wait for all reads of the tree, in any stream, so these read the tree as it was before the batch. The
    /// call returns when everything is done, so that nobody reads a half-changed tree.
    ///
    /// # Errors
    /// [`TooManyOperations`](Error::TooManyOperations), [`OutputLength`](Error::OutputLength) for buffers
    /// or scratch memory that are too small, [`TooManyPairs`](Error::TooManyPairs),
    /// [`UnknownKinds`](Error::UnknownKinds), [`Runtime`](Error::Runtime) for buffers of another device or if there is
    /// no room: the tree is unchanged. [`Lost`](Error::Lost) if the device failed while leaves were written: the tree
    /// is lost, and every later call says so. [`NoUpdates`](Error::NoUpdates) on the host, whose batches are slices
    /// ([`Harmonia::apply`]).
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<UpdateReport> {
        let count = batch.count;
        self.whole.check()?;
        scratch.sort.begin_batch(&self.device, stream, batch)?;
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        let found = self.find_changes(stream, batch, scratch)?;
        let UpdateReport { inserted, replaced, removed, .. } = found.report;
        let path = if inserted + replaced + removed == 0 {
            UpdatePath::Unchanged
        } else if found.fits {
            self.apply_in_place(stream, &found, scratch)?;
            UpdatePath::InPlace
        } else {
            self.rebuild(stream, &found, batch.values, count, scratch)?;
            UpdatePath::Rebuilt
        };
        Ok(UpdateReport { path, ..found.report })
    }

    /// The host form of [`Harmonia::apply_on`].
    pub(super) fn apply_from_host(
        &mut self,
        count: usize,
        op: impl Fn(usize) -> Op<K, V> + Sync,
    ) -> Result<UpdateReport> {
        self.whole.check()?;
        let mut staged = self.changes.stage(&self.device, &self.staging.queries, count, op, UpdateScratch::new)?;
        let report = self.apply_on(&staged.stream, staged.operations.batch(), &mut staged.scratch)?;
        // As large as the tree.
        staged.scratch.spare = None;
        self.changes.keep(staged);
        Ok(report)
    }

    /// Applies changes that fit.
    fn apply_in_place(
        &mut self,
        stream: &Stream,
        found: &Findings<K::Bits, V>,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<()> {
        let (report, leaves) = (&found.report, self.shape.leaves as usize);
        let moves = report.inserted + report.removed > 0;
        // Allocate all memory before the first change.
        let (mut lens, mut ranks) = (None, None);
        if moves {
            if self.lens.is_none() {
                let lens = lens.insert(self.device.alloc(leaves)?);
                let args = FillLensArgs { tree: self.tree_ref(stream)?, lens: lens.write_on(stream)? };
                let launch = launch::over(stream, leaves as u64, 1)?;
                // SAFETY: one length per leaf; the pointers are for this stream.
                unsafe { launch.run(calls::fill_lens(&args))? };
            }
            if self.ranks.is_none() {
                ranks = Some(self.device.alloc(leaves + 1)?);
            }
            if scratch.leaf_scan.as_ref().is_none_or(|&(_, room)| room < leaves) {
                scratch.leaf_scan = Some((ScanScratch::new(&scratch.device, leaves)?, leaves));
            }
        }
        // From here on the stream waits for those that read the tree.
        let args = ApplyArgs {
            tree: self.tree_ref(stream)?,
            inner: self.inner.write_on(stream)?,
            leaves: self.leaves.write_on(stream)?.cast(),
            lens: optional_mut(lens.as_mut().or(self.lens.as_mut()).filter(|_| moves), stream)?,
            changes: found.changes,
            heads: scratch.leaf_heads.read_on(stream)?,
            head_count: found.leaf_heads,
        };
        let node_heads = scratch.node_heads.read_on(stream)?;
        let fanout = self.shape.fanout;
        let leaf_launch = launch::over(stream, found.leaf_heads, leaf_lanes(fanout))?;
        let node_launch = lanetree_frame::launch::over(stream, found.node_heads, WARP, apply_warps(fanout) * WARP)?;
        // Errors of what was launched until now leave the tree unchanged.
        stream.synchronize()?;
        // Complete only now: the kernel that fills them may have failed.
        self.lens = lens.or(self.lens.take());
        self.whole.change(|()| {
            if found.leaf_heads > 0 {
                let call = calls::apply_leaves::<K::Bits, V>(fanout, &args);
                // SAFETY: the changes and heads are those that were found in this tree; every pointer is for this stream.
                unsafe { leaf_launch.run(call)? };
            }
            if found.node_heads > 0 {
                let args = ApplyArgs { heads: node_heads, head_count: found.node_heads, ..args };
                let call = calls::apply_nodes::<K::Bits, V>(fanout, &args);
                // SAFETY: as above.
                unsafe { node_launch.run(call)? };
            }
            if moves {
                self.ranks = self.ranks.take().or(ranks);
                if let (Some(lens), Some(ranks), Some((scan, _))) =
                    (&self.lens, &mut self.ranks, &mut scratch.leaf_scan)
                {
                    exclusive_scan(stream, lens, leaves, ranks, scan)?;
                }
            }
            stream.synchronize()?;
            self.shape.len = self.shape.len + report.inserted - report.removed;
            Ok(())
        })
    }

    /// Rebuilds the tree from its pairs and the changes.
    fn rebuild(
        &mut self,
        stream: &Stream,
        found: &Findings<K::Bits, V>,
        values: &Buffer<V>,
        count: usize,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<()> {
        let len = self.shape.len + found.report.inserted - found.report.removed;
        let shape = self.shape.with_len(len).ok_or(Error::TooManyPairs {
            pairs: usize::try_from(len).unwrap_or(usize::MAX),
            fanout: self.shape.fanout,
            fill: f64::from(self.shape.per_leaf) / f64::from(self.shape.fanout),
        })?;
        // An eighth more than needed, so that a growing tree does not allocate each time.
        let mut regions = match scratch.spare.take().filter(|spare| spare.has_room(&shape)) {
            Some(regions) => regions,
            None => Regions::new(&self.device, &shape, shape.leaves / 8)?,
        };
        if len > 0 {
            let changes = found.change_count();
            let compact = match found.is_compact {
                true => found.changes,
                false => scratch.compact(stream, values, count, changes)?,
            };
            let args = RebuildArgs {
                tree: self.tree_ref(stream)?,
                changes: compact,
                nets: scratch.net_sums(stream, changes)?,
                leaves: regions.leaves.write_on(stream)?.cast(),
                filling: shape.filling(),
            };
            let launch = launch::over(stream, changes as u64, 1)?;
            // SAFETY: the changes are those that were found in this tree, and the regions have room for what becomes of
            // it; every pointer is for this stream.
            unsafe { launch.run(calls::place::<K::Bits, V>(&args))? };
            if self.shape.leaves > 0 {
                let slots = self.shape.leaves as usize * self.shape.fanout as usize;
                let launch = launch::over(stream, slots.div_ceil(MOVE_SLOTS as usize) as u64, WARP)?;
                // SAFETY: as above.
                unsafe { launch.run(calls::move_pairs::<K::Bits, V>(&args))? };
            }
            regions.fill_inner(stream, &shape)?;
        }
        // Other streams may still read the old regions; the next batch, which writes them, waits for these streams.
        stream.synchronize()?;
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
}

#[cfg(test)]
mod tests;
