//! Ranges and prefixes: the pairs of both trees, merged.

use super::{Hybrid, concurrently};
use crate::range::{RangesPart, joined, prefix_sides, sides};
use lanetree_frame::Result;
use lanetree_frame::byte_keys::{ByteKeys, ByteRange, ByteRanges, Sides};
use lanetree_frame::parallel::*;
use lanetree_frame::room::push;
use lanetree_layout::Word;

impl<V: Word> Hybrid<V> {
    /// The pairs of each range, in ascending order of their keys. Ranges as in
    /// [`Cuart::span_many`](crate::Cuart::span_many).
    ///
    /// # Errors
    /// As [`Cuart::range_many`](crate::Cuart::range_many); on a device [`NotCompact`](lanetree_frame::Error::NotCompact) where
    /// short keys were inserted or removed.
    pub fn range_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<ByteRanges<V>> {
        self.collect_many(&sides(ranges)?)
    }

    /// The pairs whose keys begin with each prefix, in ascending order of keys.
    ///
    /// # Errors
    /// As [`Hybrid::range_many`].
    pub fn prefix_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<ByteRanges<V>> {
        self.collect_many(&prefix_sides(prefixes.into())?)
    }

    /// The number of pairs of each range, in the order of the ranges, without copying pairs. Returns when the results
    /// are complete.
    ///
    /// # Errors
    /// As [`Hybrid::range_many`].
    pub fn count_range_many<'k>(&self, ranges: impl IntoIterator<Item = impl Into<ByteRange<'k>>>) -> Result<Vec<u64>> {
        self.counts(&sides(ranges)?)
    }

    /// The number of keys that begin with each prefix, in the order of the prefixes. Returns when the results are
    /// complete.
    ///
    /// # Errors
    /// As [`Hybrid::range_many`].
    pub fn prefix_count_many<'k>(&self, prefixes: impl Into<ByteKeys<'k>>) -> Result<Vec<u64>> {
        self.counts(&prefix_sides(prefixes.into())?)
    }

    fn counts(&self, ranges: &[Sides<'_>]) -> Result<Vec<u64>> {
        let sums = self.sums(|tree| tree.counts(ranges))?;
        // Each tree alone may have as many pairs as the range's limit.
        sums.into_par_iter().zip(ranges.par_iter()).map(|(sum, range)| sum.min(range.limit)).try_collect()
    }

    fn collect_many(&self, ranges: &[Sides<'_>]) -> Result<ByteRanges<V>> {
        let (device, host) = self.trees()?;
        let (short, long) = concurrently(|| device.collect_many(ranges), || host.collect_many(ranges));
        let (short, long) = (short?, long?);
        if long.values.is_empty() {
            return Ok(short);
        }
        if short.values.is_empty() {
            return Ok(long);
        }
        joined(ranges, |first, ranges, part| {
            for (range, sides) in (first..).zip(ranges) {
                merge(short.get(range), long.get(range), sides.limit, part)?;
            }
            Ok(())
        })
    }
}

/// Appends the first pairs of two ascending sequences that have no key in common.
fn merge<V: Word>(
    short: (ByteKeys<'_>, &[V]),
    long: (ByteKeys<'_>, &[V]),
    limit: u64,
    (ends, keys, values): &mut RangesPart<V>,
) -> Result<()> {
    let all = short.1.len() + long.1.len();
    let mut short = short.0.iter().zip(short.1).peekable();
    let mut long = long.0.iter().zip(long.1).peekable();
    for _ in 0..usize::try_from(limit).map_or(all, |limit| all.min(limit)) {
        let next = match (short.peek(), long.peek()) {
            (Some(short_pair), Some(long_pair)) if short_pair.0 > long_pair.0 => long.next(),
            (None, _) => long.next(),
            _ => short.next(),
        };
        if let Some((key, &value)) = next {
            keys.try_push(key)?;
            push(values, value)?;
        }
    }
    push(ends, values.len() as u64)
}
