//! Range and prefix queries: spans of ranks, and their pairs.

use super::Cuart;
use super::native::View;
use super::parts::Parts;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, Side, Sides};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{check_free, collected, push, with_room};
use lanetree_kernels_cuart::layout::LeafRef;
use lanetree_layout::Word;
use lanetree_runtime::DeviceKind;

/// Ranges of one task.
pub(super) const TASK: usize = 1 << 10;

impl<V: Word> Cuart<V> {
    /// The span of ranks of each range: the number of keys below its first pair, and the number of keys up to and
    /// including its last. Takes range expressions (`"a".."b"`, `..=end`, pairs of [`Bound`](core::ops::Bound)s) or
    /// [`ByteRange`]s, which can have a limit. [`Cuart::pair`] returns the pair of a rank.
    ///
    /// # Errors
    /// [`Error::ReversedRange`] for a range whose end is below its start; [`Error::NotCompact`] if keys were inserted
    /// or removed. On a device also [`Error::LeavesInMainMemory`] for a tree that has some, [`Error::KeyTooLong`] for a
    /// bound of 2^32 bytes or more, [`Error::Lost`], [`Error::Runtime`].
    pub fn span_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<Range<u64>>> {
        let tree = self.parts()?;
        let ranges = sides(ranges)?;
        tree.needs_ranks("a span")?;
        self.spans(tree, &ranges)
    }

    /// The span of ranks of the keys that begin with each prefix, itself among them.
    ///
    /// # Errors
    /// As [`Cuart::span_many`], but for [`Error::ReversedRange`].
    pub fn prefix_span_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<Vec<Range<u64>>> {
        let tree = self.parts()?;
        tree.needs_ranks("a span")?;
        self.prefix_spans(tree, prefixes.into())
    }

    /// The pairs of each range, in ascending order of their keys. Ranges as in [`Cuart::span_many`].
    ///
    /// # Errors
    /// On the host only [`Error::ReversedRange`], and [`Error::Runtime`] if main memory has no room for the results. On
    /// a device the errors of [`Cuart::span_many`]: a device finds pairs by their ranks, so call [`Cuart::compact`]
    /// after keys were inserted or removed.
    pub fn range_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<ByteRanges<V>> {
        self.collect_many(&sides(ranges)?)
    }

    /// The pairs whose keys begin with each prefix, in ascending order of keys.
    ///
    /// # Errors
    /// As [`Cuart::range_many`], but for [`Error::ReversedRange`].
    pub fn prefix_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<ByteRanges<V>> {
        let (tree, prefixes) = (self.parts()?, prefixes.into());
        if self.device.kind() != DeviceKind::Host {
            return self.gather_across(tree, &self.prefix_spans(tree, prefixes)?);
        }
        self.collect_many(&prefix_sides(prefixes)?)
    }

    /// The number of pairs of each range, in the order of the ranges, without copying pairs. Returns when the results
    /// are complete.
    ///
    /// # Errors
    /// As [`Cuart::range_many`].
    pub fn count_range_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<u64>> {
        self.counts(&sides(ranges)?)
    }

    /// The number of keys that begin with each prefix, in the order of the prefixes. Returns when the results are
    /// complete.
    ///
    /// # Errors
    /// As [`Cuart::prefix_many`].
    pub fn prefix_count_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        let (tree, prefixes) = (self.parts()?, prefixes.into());
        if tree.ordered || self.device.kind() != DeviceKind::Host {
            return lens(self.prefix_spans(tree, prefixes)?);
        }
        self.counts(&prefix_sides(prefixes)?)
    }

    fn spans(&self, tree: &Parts, ranges: &[Sides<'_>]) -> Result<Vec<Range<u64>>> {
        if self.device.kind() != DeviceKind::Host {
            return self.spans_across(tree, ranges);
        }
        let tree = tree.view();
        ranges.par_iter().with_min_len(TASK).map(|range| span(&tree, range)).try_collect()
    }

    fn prefix_spans(&self, tree: &Parts, prefixes: ByteKeys<'_>) -> Result<Vec<Range<u64>>> {
        if self.device.kind() != DeviceKind::Host {
            return self.prefix_spans_across(tree, prefixes);
        }
        let tree = tree.view();
        let span = |prefix: usize| span(&tree, &prefix_as_sides(prefixes.at(prefix)));
        (0..prefixes.len()).into_par_iter().with_min_len(TASK).map(span).try_collect()
    }

    pub(super) fn counts(&self, ranges: &[Sides<'_>]) -> Result<Vec<u64>> {
        let tree = self.parts()?;
        if tree.ordered || self.device.kind() != DeviceKind::Host {
            return lens(self.spans(tree, ranges)?);
        }
        let tree = tree.view();
        ranges.par_iter().map(|&range| tree.walk(range).count() as u64).try_collect()
    }

    pub(super) fn collect_many(&self, ranges: &[Sides<'_>]) -> Result<ByteRanges<V>> {
        let parts = self.parts()?;
        if self.device.kind() != DeviceKind::Host {
            return self.gather_across(parts, &self.spans_across(parts, ranges)?);
        }
        let tree = parts.view();
        if !parts.ordered {
            return gather_many(ranges, |&range| tree.walk(range));
        }
        let spans = self.spans(parts, ranges)?;
        let pairs = spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.end - span.start));
        // The results would be larger than this, for the bytes of the keys.
        check_free(u128::from(pairs) * (size_of::<u64>() + V::BYTES) as u128)?;
        gather_many(&spans, |span| span.clone().map(|rank| tree.leaf_at(rank)))
    }
}

/// Ranges as searches.
pub(super) fn sides<'k>(ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<Sides<'k>>> {
    let mut all = Vec::new();
    for (index, range) in ranges.into_iter().enumerate() {
        push(&mut all, range.into().sides(index)?)?;
    }
    Ok(all)
}

/// Prefixes as searches.
pub(super) fn prefix_sides(prefixes: ByteKeys<'_>) -> Result<Vec<Sides<'_>>> {
    collected(prefixes.iter().map(prefix_as_sides))
}

fn prefix_as_sides(prefix: &[u8]) -> Sides<'_> {
    Sides { start: Some((prefix, Side::Lower)), end: Some((prefix, Side::Prefix)), limit: u64::MAX }
}

fn lens(spans: Vec<Range<u64>>) -> Result<Vec<u64>> {
    spans.into_par_iter().with_min_len(TASK).map(|span| span.end - span.start).try_collect()
}

/// The pairs of some ranges: for each of these, how many there are up to its end; and all keys and values.
pub(super) type RangesPart<V> = (Vec<u64>, ByteKeysBuf, Vec<V>);

/// Copies the pairs of ranges.
fn gather_many<'t, V: Word, R: Sync, L: Iterator<Item = LeafRef<'t>>>(
    ranges: &[R],
    leaves: impl Fn(&R) -> L + Sync,
) -> Result<ByteRanges<V>> {
    joined(ranges, |_, ranges, (ends, keys, values): &mut RangesPart<V>| {
        for range in ranges {
            for leaf in leaves(range) {
                keys.try_push(leaf.key)?;
                push(values, V::truncate(leaf.value))?;
            }
            push(ends, values.len() as u64)?;
        }
        Ok(())
    })
}

/// The pairs of ranges. `append` gets several ranges at a time, with the number of the first of them, and appends their
/// pairs.
///
/// # Errors
/// [`Error::Runtime`] if main memory has no room for them, and the errors of the function.
pub(super) fn joined<V: Word, R: Sync>(
    ranges: &[R],
    append: impl Fn(usize, &[R], &mut RangesPart<V>) -> Result<()> + Sync,
) -> Result<ByteRanges<V>> {
    // After one has failed, others must not take the memory that it has given back.
    let has_failed = AtomicBool::new(false);
    let parts = ranges.par_chunks(TASK).enumerate().map(|(task, ranges)| {
        if has_failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut part = RangesPart::default();
        let appended = append(task * TASK, ranges, &mut part);
        has_failed.fetch_or(appended.is_err(), Ordering::Relaxed);
        appended.map(|()| Some(part))
    });
    let parts = parts.collect().into_iter().collect::<Result<Vec<_>>>()?;
    let parts = || parts.iter().flatten();
    let mut offsets = with_room(ranges.len() + 1)?;
    let mut values = with_room(parts().map(|part| part.2.len()).sum())?;
    offsets.push(0);
    for (ends, _, own) in parts() {
        let before = values.len() as u64;
        offsets.extend(ends.iter().map(|end| before + end));
        values.extend_from_slice(own);
    }
    Ok(ByteRanges { offsets, keys: ByteKeysBuf::concat(parts().map(|part| &part.1))?, values })
}

fn span(tree: &View<'_>, range: &Sides<'_>) -> Range<u64> {
    let start = range.start.map_or(0, |(key, side)| tree.rank(key, side));
    let end = range.end.map_or(tree.regions.len, |(key, side)| tree.rank(key, side));
    // If both bounds are exclusive and equal, the end is before the start.
    let end = end.max(start);
    start..end.min(start.saturating_add(range.limit))
}
