//! The effect of a batch, determined before anything changes.

use super::super::{UpdatePath, UpdateReport};
use super::scratch::UpdateScratch;
use crate::Harmonia;
use crate::launch;
use core::ops::Range;
use lanetree_frame::fixed::bits;
use lanetree_frame::pointers::optional;
use lanetree_frame::{Batch, Result};
use lanetree_kernels_harmonia::calls;
use lanetree_kernels_harmonia::update::{Changes, LocateArgs, PlanArgs, is_by_node};
use lanetree_layout::{Key, Word};
use lanetree_primitives::OPERATION_FINDINGS;
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::{Global, GlobalMut};

/// Inserted, replaced, removed, left alone.
const TALLY: Range<usize> = 0..4;
/// Heads of leaves and of nodes, whether the changes do not fit, and whether that is unknown.
const PLAN: Range<usize> = TALLY.end..TALLY.end + 4;
/// What the sort found.
const ORDER: Range<usize> = PLAN.end..PLAN.end + OPERATION_FINDINGS;
/// Words of a batch's findings.
pub(super) const FINDINGS: usize = ORDER.end;

/// The effect of a batch, as reported to the host.
pub(super) struct Findings<K, V> {
    pub(super) report: UpdateReport,
    /// All operations, or those with an effect.
    pub(super) changes: Changes<K, V>,
    /// Whether these are only those with an effect.
    pub(super) is_compact: bool,
    pub(super) leaf_heads: u64,
    pub(super) node_heads: u64,
    pub(super) fits: bool,
}

impl<K, V> Findings<K, V> {
    /// How many operations have an effect.
    pub(super) fn change_count(&self) -> usize {
        (self.report.inserted + self.report.replaced + self.report.removed) as usize
    }
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Sorts a batch, determines the effect of its operations, and whether the nodes have room. Changes nothing; waits
    /// for the stream.
    pub(super) fn find_changes(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<Findings<K::Bits, V>> {
        let (values, count) = (batch.values, batch.count);
        loop {
            // By few bits first, which is likely to be enough; if it is not, the following kernels do nothing.
            scratch.findings.fill_zero(stream)?;
            scratch.sort.sort(stream, batch, &mut scratch.findings, ORDER.start)?;
            self.locate(stream, values, count, scratch)?;
            download(stream, scratch)?;
            if scratch.sort.check(&scratch.found[ORDER])? {
                break;
            }
        }
        let mut found = self.findings(scratch, scratch.located(stream, values, count)?);
        if scratch.found[PLAN.start + 3] != 0 {
            // A node has more operations than can all have an effect.
            let changes = scratch.compact(stream, values, count, found.change_count())?;
            scratch.findings.fill_zero_range(stream, PLAN)?;
            self.plan(stream, changes, scratch)?;
            download(stream, scratch)?;
            found = self.findings(scratch, changes);
            // Still too many changes: they do not fit.
            (found.is_compact, found.fits) = (true, found.fits && scratch.found[PLAN.start + 3] == 0);
        }
        Ok(found)
    }

    /// Determines the effect of a sorted batch's operations, and whether the nodes have room.
    fn locate(
        &self,
        stream: &Stream,
        values: &Buffer<V>,
        count: usize,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<()> {
        let args = LocateArgs {
            tree: self.tree_ref(stream)?,
            keys: bits::<K>(stream, scratch.sort.sorted())?,
            kinds: optional(scratch.sort.folded(), stream)?,
            count: count as u64,
            effects: scratch.effects.write_on(stream)?,
            leaves: scratch.leaves.write_on(stream)?,
            parents: scratch.parents.write_on(stream)?,
            tally: word(stream, &mut scratch.findings, &TALLY)?,
            unsorted: unsorted(stream, &mut scratch.findings)?,
        };
        let launch = launch::over(stream, count as u64, 1)?;
        // SAFETY: there is room for as many operations; the tree is valid by construction, and borrowed; every pointer is
        // for this stream.
        unsafe { launch.run(calls::locate::<K::Bits, V>(self.shape.fanout, &args))? };
        let located = scratch.located(stream, values, count)?;
        self.plan(stream, located, scratch)
    }

    /// Finds whether the nodes have room for changes.
    fn plan(&self, stream: &Stream, changes: Changes<K::Bits, V>, scratch: &mut UpdateScratch<K, V>) -> Result<()> {
        if self.shape.leaves == 0 {
            return Ok(());
        }
        let args = PlanArgs {
            tree: self.tree_ref(stream)?,
            changes,
            leaf_heads: scratch.leaf_heads.write_on(stream)?,
            node_heads: scratch.node_heads.write_on(stream)?,
            plan: word(stream, &mut scratch.findings, &PLAN)?,
            lens: optional(self.lens.as_ref(), stream)?,
            unsorted: unsorted(stream, &mut scratch.findings)?,
            fanout: self.shape.fanout,
            by_node: u32::from(self.shape.height > 0 && is_by_node(self.shape.fanout)),
        };
        let launch = launch::over(stream, changes.count, 1)?;
        // SAFETY: the changes were found in this tree; every pointer is for this stream.
        Ok(unsafe { launch.run(calls::plan::<K::Bits, V>(&args)) }?)
    }

    /// The findings that were downloaded.
    fn findings(&self, scratch: &UpdateScratch<K, V>, changes: Changes<K::Bits, V>) -> Findings<K::Bits, V> {
        let [inserted, replaced, removed, unmatched] = core::array::from_fn(|i| scratch.found[TALLY.start + i]);
        let [leaf_heads, node_heads, too_much] = core::array::from_fn(|i| scratch.found[PLAN.start + i]);
        let report = UpdateReport { inserted, replaced, removed, unmatched, path: UpdatePath::Unchanged };
        let fits = self.shape.leaves > 0 && too_much == 0;
        Findings { report, changes, is_compact: false, leaf_heads, node_heads, fits }
    }
}

/// Copies the findings to the host; waits for the stream.
fn download<K: Key, V: Word>(stream: &Stream, scratch: &mut UpdateScratch<K, V>) -> Result<()> {
    scratch.findings.download_async(stream, 0..FINDINGS, &mut scratch.found, 0)?;
    stream.synchronize()?;
    // SAFETY: every batch downloads through this function, and has waited for its stream.
    unsafe { scratch.found.forget_uses() };
    Ok(())
}

/// The first word of a part of the findings.
fn word(stream: &Stream, findings: &mut Buffer<u64>, part: &Range<usize>) -> Result<GlobalMut<u64>> {
    Ok(findings.write_on(stream)?.byte_add(part.start as u64 * 8))
}

/// Whether the keys are unsorted.
fn unsorted(stream: &Stream, findings: &mut Buffer<u64>) -> Result<Global<u64>> {
    Ok(word(stream, findings, &(ORDER.start + 1..ORDER.end))?.as_const())
}
