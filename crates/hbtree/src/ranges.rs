//! Ranges, in host form.

use crate::HbTree;
use crate::structure::{Leaves, Structure};
use core::mem::take;
use lanetree_frame::ranges::RangeBatch;
use lanetree_frame::{Error, KeyRange, Ranges, Result};
use lanetree_layout::{Key, Word};
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Ranges that are answered at a time: their pairs are gathered by bucket, and put in order afterwards.
const WINDOW: usize = 1 << 20;

/// Most pairs of a part whose memory is kept for later batches, and most such parts.
const KEPT_PAIRS: usize = 1 << 18;
const KEPT_PARTS: usize = 512;

/// The pairs of ranges that follow one another in a batch.
#[derive(Debug, Default)]
pub(crate) struct Part<K, V> {
    /// The first range's place in the window.
    first: usize,
    /// Where each range's pairs end.
    ends: Vec<u64>,
    keys: Vec<K>,
    values: Vec<V>,
}

/// The parts of earlier batches, whose memory is used again.
pub(crate) type Parts<K, V> = Mutex<Vec<Part<K, V>>>;

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
        if starts.len() != ends.len() {
            return Err(Error::BoundLengths { starts: starts.len(), ends: ends.len() });
        }
        *out = self.ranges(Bounds { starts, ends, limits: &[] }, results)?;
        Ok(())
    }

    /// How many pairs each range has, [`HbTree::range_many`] without copying them.
    ///
    /// # Errors
    /// As [`HbTree::range_many`].
    pub fn count_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Vec<u64>> {
        let RangeBatch { starts, ends, limits } = RangeBatch::new(ranges)?;
        let (starts, mut counts) = (self.lower_bound_many(&starts)?, self.upper_bound_many(&ends)?);
        for (i, (count, start)) in counts.iter_mut().zip(starts).enumerate() {
            *count = count.saturating_sub(start).min(limits.get(i).copied().unwrap_or(u64::MAX));
        }
        Ok(counts)
    }

    /// Finds ranges, into the memory of other results.
    fn ranges(&self, bounds: Bounds<'_, K>, mut out: Ranges<K, V>) -> Result<Ranges<K, V>> {
        let Bounds { starts, ends, limits } = bounds;
        out.offsets.clear();
        out.keys.clear();
        out.values.clear();
        out.offsets.reserve(starts.len() + 1);
        out.offsets.push(0);
        for (window, starts) in starts.chunks(WINDOW).enumerate() {
            let before = window * WINDOW;
            let parts: Mutex<Vec<Part<K, V>>> = Mutex::default();
            self.answer_with(starts, |first, count, find| {
                let mut part =
                    self.spare_parts.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
                part.first = first;
                part.ends.reserve(count);
                find(&mut |i, place| {
                    let at = before + first + i;
                    let limit = limits.get(at).copied().unwrap_or(u64::MAX);
                    // A range without keys starts above its end.
                    if starts[first + i] <= ends[at] {
                        self.parts.leaves.collect(place, ends[at].encode(), limit, &mut part.keys, &mut part.values);
                    }
                    part.ends.push(part.keys.len() as u64);
                });
                parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
            })?;
            let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
            append(&mut parts, &mut out);
            self.keep(parts);
        }
        Ok(out)
    }

    /// Keeps the memory of parts for later batches, as far as these need it.
    fn keep(&self, mut parts: Vec<Part<K, V>>) {
        parts.retain(|part| part.keys.capacity() <= KEPT_PAIRS);
        for part in &mut parts {
            part.ends.clear();
            part.keys.clear();
            part.values.clear();
        }
        let mut spare = self.spare_parts.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT_PARTS.saturating_sub(spare.len());
        spare.extend(parts.into_iter().take(room));
    }
}

/// Appends the parts of a window to the results, in order.
fn append<K: Key, V: Word>(parts: &mut [Part<K, V>], out: &mut Ranges<K, V>) {
    parts.sort_unstable_by_key(|part| part.first);
    let total: usize = parts.iter().map(|part| part.keys.len()).sum();
    let mut before = out.keys.len() as u64;
    for part in &*parts {
        out.offsets.extend(part.ends.iter().map(|end| before + end));
        before += part.keys.len() as u64;
    }
    append_each(parts, total, &mut out.keys, |part| &part.keys);
    append_each(parts, total, &mut out.values, |part| &part.values);
}

/// Appends an array of each part, `total` elements in all, in parallel.
fn append_each<P: Sync, T: Copy + Send + Sync>(
    parts: &[P],
    total: usize,
    out: &mut Vec<T>,
    array: impl Fn(&P) -> &[T] + Sync,
) {
    out.reserve(total);
    let len = out.len();
    let mut rest = &mut out.spare_capacity_mut()[..total];
    let mut tasks = Vec::with_capacity(parts.len());
    for part in parts {
        let own;
        (own, rest) = rest.split_at_mut(array(part).len());
        tasks.push((own, part));
    }
    tasks.into_par_iter().for_each(|(own, part)| {
        own.write_copy_of_slice(array(part));
    });
    // SAFETY: the parts' elements, `total` in all, have been written after those that were there.
    unsafe { out.set_len(len + total) };
}
