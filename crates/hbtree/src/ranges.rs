//! Ranges, in host form.

use crate::HbTree;
use crate::assembly::{Assembly, PART, Part};
use crate::line::slots;
use crate::structure::{Leaves, Place, Structure};
use core::mem::{replace, take};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::check_bounds;
use lanetree_frame::ranges::RangeBatch;
use lanetree_frame::room::push;
use lanetree_frame::{KeyRange, Ranges, Result};
use lanetree_layout::{Key, Word};

/// Ranges whose places are known, and whose later lines are on their way, before the first of them is collected.
const AHEAD: usize = 16;

/// Most lines of a range that are prefetched before it is collected; the CPU's own prefetcher fetches the lines of
/// longer ranges.
const MOST_LINES: usize = 16;

/// Ranges between inclusive bounds; without limits if there are none.
#[derive(Clone, Copy)]
struct Bounds<'a, K> {
    starts: &'a [K],
    ends: &'a [K],
    limits: &'a [u64],
}

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// The pairs of each range, in ascending order of their keys. Takes range expressions (`3..7`, `..=7`, pairs of
    /// [`Bound`](core::ops::Bound)s) or [`KeyRange`]s, which can have a limit.
    ///
    /// The device finds the leaf where each range begins; the CPU reads on from there.
    ///
    /// # Errors
    /// As [`HbTree::get_many`], and [`Error::ReversedRange`] for a range whose end is below its start.
    pub fn range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Ranges<K, V>> {
        let mut out = Ranges::default();
        self.range_many_into(ranges, &mut out)?;
        Ok(out)
    }

    /// [`HbTree::range_many`] in place of other results, whose memory is reused. What these are does not matter: any of their
    /// fields may have been taken or changed. After an error there are no results, neither old ones nor new ones.
    ///
    /// # Errors
    /// As [`HbTree::range_many`].
    pub fn range_many_into(
        &self,
        ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>,
        out: &mut Ranges<K, V>,
    ) -> Result<()> {
        let results = take(out);
        let RangeBatch { starts, ends, limits } = RangeBatch::new(ranges)?;
        *out = self.ranges(Bounds { starts: &starts, ends: &ends, limits: &limits }, results)?;
        Ok(())
    }

    /// [`HbTree::range_many_into`] of the ranges from `starts[i]` to `ends[i]`, both inclusive. A range whose end is below its
    /// start is empty.
    ///
    /// # Errors
    /// As [`HbTree::range_many`]; [`Error::BoundLengths`] unless there are as many ends as starts.
    pub fn range_between_many_into(&self, starts: &[K], ends: &[K], out: &mut Ranges<K, V>) -> Result<()> {
        let results = take(out);
        check_bounds(starts.len(), ends.len())?;
        *out = self.ranges(Bounds { starts, ends, limits: &[] }, results)?;
        Ok(())
    }

    /// How many pairs each range has, [`HbTree::range_many`] without copying them.
    ///
    /// # Errors
    /// As [`HbTree::range_many`].
    pub fn count_range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Vec<u64>> {
        let RangeBatch { starts, ends, limits } = RangeBatch::new(ranges)?;
        let (starts, mut counts) = (self.lower_bound_many(&starts)?, self.upper_bound_many(&ends)?);
        for (i, (count, start)) in counts.iter_mut().zip(starts).enumerate() {
            *count = count.saturating_sub(start).min(limits.get(i).copied().unwrap_or(u64::MAX));
        }
        Ok(counts)
    }

    /// Finds ranges, into the memory of other results.
    fn ranges(&self, bounds: Bounds<'_, K>, results: Ranges<K, V>) -> Result<Ranges<K, V>> {
        let assembly = Assembly::new(bounds.starts.len(), &self.spare, results)?;
        self.answer_with(bounds.starts, self.spare.bucket(), |first, count, find| {
            let (leaves, part) = (&self.parts.leaves, assembly.part(first));
            let mut parts = Parts { leaves, bounds, assembly: &assembly, part, lines: 1 };
            let mut places = [None; AHEAD];
            find(&mut |i, place| {
                parts.prefetch(place);
                if let Some(before) = places[i % AHEAD].replace(place) {
                    parts.collect(first + i - AHEAD, before);
                }
            });
            for i in count.saturating_sub(AHEAD)..count {
                parts.collect(first + i, places[i % AHEAD].expect("there is a place for each range"));
            }
            parts.finish();
        })?;
        assembly.finish()
    }
}

/// The pairs of ranges that follow one another, in parts.
struct Parts<'a, K, V, L> {
    leaves: &'a L,
    bounds: Bounds<'a, K>,
    assembly: &'a Assembly<'a, K, V>,
    part: Part<K, V>,
    /// Lines after the first one that a range has, on average.
    lines: usize,
}

impl<K: Key, V: Word, L: Leaves<K, V>> Parts<'_, K, V, L> {
    /// Brings the lines after a place into the caches, as many as a range has on average.
    #[inline(always)]
    fn prefetch(&mut self, place: Place) {
        let Part { ends, keys, .. } = &self.part;
        // A division takes longer than the rest.
        if ends.len() % AHEAD == 1 {
            self.lines = (keys.len() / (ends.len() * slots::<K::Bits, V>()) + 1).min(MOST_LINES);
        }
        self.leaves.prefetch_after(place, self.lines);
    }

    /// Appends the pairs of the next range of the batch, which is number `i`.
    fn collect(&mut self, i: usize, place: Place) {
        let Self { leaves, bounds: Bounds { starts, ends, limits }, part, assembly, .. } = self;
        if assembly.has_failed() {
            return;
        }
        // A range without keys starts above its end.
        if starts[i] <= ends[i] {
            let limit = limits.get(i).copied().unwrap_or(u64::MAX);
            let collected = leaves.collect(place, ends[i].encode(), limit, &mut part.keys, &mut part.values);
            if let Err(error) = collected {
                return assembly.fail(error);
            }
        }
        if let Err(error) = push(&mut part.ends, part.keys.len()) {
            return assembly.fail(error);
        }
        if part.keys.len() >= PART {
            let next = self.assembly.part(i + 1);
            self.assembly.add(replace(&mut self.part, next));
        }
    }

    fn finish(self) {
        if !self.part.ends.is_empty() && !self.assembly.has_failed() {
            self.assembly.add(self.part);
        }
    }
}
