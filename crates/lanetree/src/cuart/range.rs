//! Range and prefix queries: spans of ranks, and what they hold.

use super::Cuart;
use super::native::View;
use crate::Result;
use crate::byte_keys::{ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, Side, Sides};
use core::ops::Range;
use lanetree_layout::Word;
use rayon::prelude::*;

/// Ranges of one task.
const TASK: usize = 1 << 10;

impl<V: Word> Cuart<V> {
    /// The span of ranks that each range is, in ascending order of keys: how many keys lie below its first
    /// pair, and below what follows its last. Takes range expressions (`"a".."b"`, `..=end`, pairs of
    /// [`Bound`](core::ops::Bound)s) or [`ByteRange`]s, which can have a limit. [`Cuart::pair`] has the pair
    /// of a rank.
    ///
    /// # Errors
    /// [`ReversedRange`](crate::Error::ReversedRange) for a range whose end is below its start.
    pub fn span_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<Range<u64>>> {
        let ranges: Vec<Sides<'k>> =
            ranges.into_iter().enumerate().map(|(index, range)| range.into().sides(index)).collect::<Result<_>>()?;
        let tree = self.view();
        Ok(ranges.into_par_iter().with_min_len(TASK).map(|range| span(&tree, &range)).collect())
    }

    /// The span of ranks of the keys that begin with each prefix, itself among them.
    ///
    /// # Errors
    /// None on the host.
    pub fn prefix_span_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<Vec<Range<u64>>> {
        let (tree, prefixes) = (self.view(), prefixes.into());
        let span = |prefix: usize| {
            let prefix = prefixes.at(prefix);
            tree.rank(prefix, Side::Lower)..tree.rank(prefix, Side::Prefix)
        };
        Ok((0..prefixes.len()).into_par_iter().with_min_len(TASK).map(span).collect())
    }

    /// The pairs of each range, in ascending order of their keys. Ranges as in [`Cuart::span_many`].
    ///
    /// # Errors
    /// As [`Cuart::span_many`].
    pub fn range_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<ByteRanges<V>> {
        Ok(self.gather_many(&self.span_many(ranges)?))
    }

    /// The pairs whose keys begin with each prefix, in ascending order of keys.
    ///
    /// # Errors
    /// As [`Cuart::prefix_span_many`].
    pub fn prefix_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<ByteRanges<V>> {
        Ok(self.gather_many(&self.prefix_span_many(prefixes)?))
    }

    /// How many pairs each range has.
    ///
    /// # Errors
    /// As [`Cuart::span_many`].
    pub fn count_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<u64>> {
        Ok(self.span_many(ranges)?.into_iter().map(|span| span.end - span.start).collect())
    }

    /// How many keys begin with each prefix.
    ///
    /// # Errors
    /// As [`Cuart::prefix_span_many`].
    pub fn prefix_count_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        Ok(self.prefix_span_many(prefixes)?.into_iter().map(|span| span.end - span.start).collect())
    }

    /// Copies the pairs of spans.
    fn gather_many(&self, spans: &[Range<u64>]) -> ByteRanges<V> {
        let tree = self.view();
        let parts: Vec<(ByteKeysBuf, Vec<V>)> = spans
            .par_chunks(TASK)
            .map(|spans| {
                let (mut keys, mut values) = (ByteKeysBuf::new(), Vec::new());
                for leaf in spans.iter().cloned().flatten().map(|rank| tree.leaf_at(rank)) {
                    keys.push(leaf.key);
                    values.push(V::truncate(leaf.value));
                }
                (keys, values)
            })
            .collect();
        let mut out = ByteRanges { offsets: vec![0], keys: ByteKeysBuf::new(), values: Vec::new() };
        let mut end = 0;
        out.offsets.extend(spans.iter().map(|span| {
            end += span.end - span.start;
            end
        }));
        for (keys, values) in parts {
            out.keys.append(&keys);
            out.values.extend(values);
        }
        out
    }
}

fn span(tree: &View<'_>, range: &Sides<'_>) -> Range<u64> {
    let start = range.start.map_or(0, |(key, side)| tree.rank(key, side));
    let end = range.end.map_or(tree.regions.len, |(key, side)| tree.rank(key, side));
    // Both bounds exclusive and equal: the end is in front of the start.
    let end = end.max(start);
    start..end.min(start.saturating_add(range.limit))
}
