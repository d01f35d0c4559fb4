//! Range and prefix queries: spans of ranks, and their pairs.

use super::Cuart;
use super::native::View;
use super::parts::Parts;
use core::ops::Range;
#[cfg(doc)]
use lanetree_frame::Error;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, Side, Sides};
use lanetree_frame::parallel::*;
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
    /// On the host only [`Error::ReversedRange`]. On a device those of [`Cuart::span_many`]: a device finds pairs by
    /// their ranks, so call [`Cuart::compact`] after keys were inserted or removed.
    pub fn range_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<ByteRanges<V>> {
        self.collect_many(&sides(ranges)?)
    }

    /// The pairs whose keys begin with each prefix, in ascending order of keys.
    ///
    /// # Errors
    /// As [`Cuart::range_many`], but for [`Error::ReversedRange`]: none on the host.
    pub fn prefix_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<ByteRanges<V>> {
        let (tree, prefixes) = (self.parts()?, prefixes.into());
        if self.device.kind() != DeviceKind::Host {
            return self.gather_across(tree, &self.prefix_spans(tree, prefixes)?);
        }
        self.collect_many(&prefix_sides(prefixes))
    }

    /// How many pairs each range has.
    ///
    /// # Errors
    /// As [`Cuart::range_many`].
    pub fn count_range_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<u64>> {
        self.counts(&sides(ranges)?)
    }

    /// How many keys begin with each prefix.
    ///
    /// # Errors
    /// As [`Cuart::prefix_many`].
    pub fn prefix_count_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        let (tree, prefixes) = (self.parts()?, prefixes.into());
        if tree.ordered || self.device.kind() != DeviceKind::Host {
            return Ok(lens(self.prefix_spans(tree, prefixes)?));
        }
        self.counts(&prefix_sides(prefixes))
    }

    fn spans(&self, tree: &Parts, ranges: &[Sides<'_>]) -> Result<Vec<Range<u64>>> {
        if self.device.kind() != DeviceKind::Host {
            return self.spans_across(tree, ranges);
        }
        let tree = tree.view();
        Ok(ranges.par_iter().with_min_len(TASK).map(|range| span(&tree, range)).collect())
    }

    fn prefix_spans(&self, tree: &Parts, prefixes: ByteKeys<'_>) -> Result<Vec<Range<u64>>> {
        if self.device.kind() != DeviceKind::Host {
            return self.prefix_spans_across(tree, prefixes);
        }
        let tree = tree.view();
        let span = |prefix: usize| span(&tree, &prefix_as_sides(prefixes.at(prefix)));
        Ok((0..prefixes.len()).into_par_iter().with_min_len(TASK).map(span).collect())
    }

    pub(super) fn counts(&self, ranges: &[Sides<'_>]) -> Result<Vec<u64>> {
        let tree = self.parts()?;
        if tree.ordered || self.device.kind() != DeviceKind::Host {
            return Ok(lens(self.spans(tree, ranges)?));
        }
        let tree = tree.view();
        Ok(ranges.par_iter().map(|&range| tree.walk(range).count() as u64).collect())
    }

    pub(super) fn collect_many(&self, ranges: &[Sides<'_>]) -> Result<ByteRanges<V>> {
        let parts = self.parts()?;
        if self.device.kind() != DeviceKind::Host {
            return self.gather_across(parts, &self.spans_across(parts, ranges)?);
        }
        let tree = parts.view();
        Ok(if parts.ordered {
            gather_many(&self.spans(parts, ranges)?, |span| span.clone().map(|rank| tree.leaf_at(rank)))
        } else {
            gather_many(ranges, |&range| tree.walk(range))
        })
    }
}

/// Ranges as searches.
pub(super) fn sides<'k>(ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<Sides<'k>>> {
    ranges.into_iter().enumerate().map(|(index, range)| range.into().sides(index)).collect()
}

/// Prefixes as searches.
pub(super) fn prefix_sides(prefixes: ByteKeys<'_>) -> Vec<Sides<'_>> {
    prefixes.iter().map(prefix_as_sides).collect()
}

fn prefix_as_sides(prefix: &[u8]) -> Sides<'_> {
    Sides { start: Some((prefix, Side::Lower)), end: Some((prefix, Side::Prefix)), limit: u64::MAX }
}

fn lens(spans: Vec<Range<u64>>) -> Vec<u64> {
    spans.into_iter().map(|span| span.end - span.start).collect()
}

/// The pairs of some ranges: for each of these, how many there are up to its end; and all keys and values.
pub(super) type RangesPart<V> = (Vec<u64>, ByteKeysBuf, Vec<V>);

/// Copies the pairs of ranges.
fn gather_many<'t, V: Word, R: Sync, L: Iterator<Item = LeafRef<'t>>>(
    ranges: &[R],
    leaves: impl Fn(&R) -> L + Sync,
) -> ByteRanges<V> {
    let parts = ranges
        .par_chunks(TASK)
        .map(|ranges| {
            let (mut ends, mut keys, mut values) = (Vec::with_capacity(ranges.len()), ByteKeysBuf::new(), Vec::new());
            for range in ranges {
                for leaf in leaves(range) {
                    keys.push(leaf.key);
                    values.push(V::truncate(leaf.value));
                }
                ends.push(values.len() as u64);
            }
            (ends, keys, values)
        })
        .collect();
    joined(parts)
}

/// Ranges, one part after another.
pub(super) fn joined<V: Word>(parts: Vec<RangesPart<V>>) -> ByteRanges<V> {
    let mut out = ByteRanges { offsets: vec![0], keys: ByteKeysBuf::new(), values: Vec::new() };
    for (ends, keys, values) in parts {
        let before = out.values.len() as u64;
        out.offsets.extend(ends.into_iter().map(|end| before + end));
        out.keys.append(&keys);
        out.values.extend(values);
    }
    out
}

fn span(tree: &View<'_>, range: &Sides<'_>) -> Range<u64> {
    let start = range.start.map_or(0, |(key, side)| tree.rank(key, side));
    let end = range.end.map_or(tree.regions.len, |(key, side)| tree.rank(key, side));
    // If both bounds are exclusive and equal, the end is before the start.
    let end = end.max(start);
    start..end.min(start.saturating_add(range.limit))
}
