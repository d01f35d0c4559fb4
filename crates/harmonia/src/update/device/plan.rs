//! The effect of a batch, determined before anything changes.

use super::super::{UpdatePath, UpdateReport};
use super::scratch::{Bases, UpdateScratch};
use crate::Harmonia;
use crate::launch;
use core::ops::Range;
use lanetree_frame::fixed::bits;
use lanetree_frame::pointers::optional;
use lanetree_frame::{Error, Result};
use lanetree_kernels_harmonia::calls;
use lanetree_kernels_harmonia::update::{Changes, LocateArgs, MarkBasesArgs, PlanArgs, is_by_node};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{LOCAL_SORT_FINDINGS, inclusive_max_scan, local_sort, radix_argsort};
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::{Global, GlobalMut};

/// Inserted, replaced, removed, left alone.
const TALLY: Range<usize> = 0..4;
/// Heads of leaves and of nodes, whether the changes do not fit, and whether that is unknown.
const PLAN: Range<usize> = TALLY.end..TALLY.end + 4;
/// In which bits keys differ, and whether they are unsorted.
const ORDER: Range<usize> = PLAN.end..PLAN.end + LOCAL_SORT_FINDINGS;
/// How many operations have an unknown kind, and the first of them.
const UNKNOWN: Range<usize> = ORDER.end..ORDER.end + 2;
/// Words of a batch's findings.
pub(super) const FINDINGS: usize = UNKNOWN.end;

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
        keys: &Buffer<K>,
        values: &Buffer<V>,
        kinds: Option<&Buffer<u32>>,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<Findings<K::Bits, V>> {
        let count = keys.len();
        if kinds.is_some() {
            scratch.alloc_bases()?;
        }
        scratch.findings.fill_zero(stream)?;
        let range = scratch.sort_range.bits(count);
        sort(stream, keys, range.clone(), scratch)?;
        // By few bits, which is likely to be enough; if it is not, the following kernels do nothing.
        let (order, findings) = ((&mut scratch.sorted, &mut scratch.order), &mut scratch.findings);
        let found = word(stream, findings, &ORDER)?;
        // SAFETY: both have that many elements, and the findings' part is for this stream.
        unsafe { local_sort(stream, order, count, range.start, found)? };
        self.locate(stream, values, kinds, count, scratch)?;
        download(stream, scratch)?;
        let is_sorted = scratch.found[ORDER.start + 1] == 0;
        let again = scratch.sort_range.learn(scratch.found[ORDER.start], is_sorted);
        if !is_sorted {
            scratch.findings.fill_zero(stream)?;
            sort(stream, keys, again, scratch)?;
            self.locate(stream, values, kinds, count, scratch)?;
            download(stream, scratch)?;
        }
        if scratch.found[UNKNOWN.start] > 0 {
            let (operations, first) = (scratch.found[UNKNOWN.start], scratch.found[UNKNOWN.start + 1]);
            return Err(Error::UnknownKinds {
                operations,
                index: u32::MAX as usize - (first >> 32) as usize,
                kind: first as u32,
            });
        }
        let mut found = self.findings(scratch, scratch.located(stream, values, count)?);
        if scratch.found[PLAN.start + 3] != 0 {
            // A node has so many operations that some of them must have no effect.
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
        kinds: Option<&Buffer<u32>>,
        count: usize,
        scratch: &mut UpdateScratch<K, V>,
    ) -> Result<()> {
        let per_operation = || launch::over(stream, count, 1);
        let (mut kinds_at, mut bases_at) = (Global::null(), Global::null());
        if let (Some(kinds), Some(Bases { marks, bases, scan })) = (kinds, &mut scratch.bases) {
            kinds_at = kinds.read_on(stream)?;
            let (order, marks_at) = (scratch.order.read_on(stream)?, marks.write_on(stream)?);
            let unknown = word(stream, &mut scratch.findings, &UNKNOWN)?;
            let args = MarkBasesArgs { order, kinds: kinds_at, marks: marks_at, count: count as u64, unknown };
            // SAFETY: the order was sorted from that many operations, and all else has room for as many; every pointer
            // is for this stream.
            unsafe { per_operation()?.run(calls::mark_bases(&args))? };
            inclusive_max_scan(stream, marks, count, bases, scan)?;
            bases_at = bases.read_on(stream)?;
        }
        let args = LocateArgs {
            tree: self.tree_ref(stream)?,
            keys: bits::<K>(stream, &scratch.sorted)?,
            order: scratch.order.read_on(stream)?,
            kinds: kinds_at,
            bases: bases_at,
            count: count as u64,
            effects: scratch.effects.write_on(stream)?,
            leaves: scratch.leaves.write_on(stream)?,
            parents: scratch.parents.write_on(stream)?,
            tally: word(stream, &mut scratch.findings, &TALLY)?,
            unsorted: unsorted(stream, &mut scratch.findings)?,
        };
        // SAFETY: as above; the tree is valid by construction, and borrowed.
        unsafe { per_operation()?.run(calls::locate::<K::Bits, V>(self.shape.fanout, &args))? };
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
        let launch = launch::over(stream, changes.count as usize, 1)?;
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

/// Sorts a batch by some bits of its keys.
fn sort<K: Key, V: Word>(
    stream: &Stream,
    keys: &Buffer<K>,
    bits: Range<u32>,
    scratch: &mut UpdateScratch<K, V>,
) -> Result<()> {
    let sorted = (&mut scratch.sorted, &mut scratch.order);
    radix_argsort(stream, keys, keys.len(), bits, sorted, &mut scratch.sort)
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
