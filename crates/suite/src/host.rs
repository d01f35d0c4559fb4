//! Queries in host form, with values widened.

use crate::model::Range;
use crate::{Neighbor, Pairs, Side};
use lanetree::{AnyKey, Domain, KeyOf, KeyRange, Matches, OrderedIndex, RangeOf, RangesOf, Result, Rows, Word};

/// An index's keys.
pub(crate) type DomainOf<I> = <I as OrderedIndex>::Domain;

/// A batch of keys that owns its memory.
pub(crate) type KeysOf<I> = <DomainOf<I> as Domain>::Keys;

pub(crate) fn keys<I: OrderedIndex>(keys: &[KeyOf<I>]) -> KeysOf<I> {
    keys.iter().cloned().collect()
}

pub(crate) fn pairs<I: OrderedIndex>(index: &I) -> Result<Pairs<KeyOf<I>>> {
    Ok(widened(index.pairs()?))
}

pub(crate) fn get<I: OrderedIndex>(index: &I, queries: &[KeyOf<I>]) -> Result<Vec<Option<u64>>> {
    let found = index.get_many(DomainOf::<I>::batch(&keys::<I>(queries)))?;
    Ok(found.into_iter().map(|value| value.map(Word::widen)).collect())
}

pub(crate) fn rank<I: OrderedIndex>(index: &I, queries: &[KeyOf<I>], side: Side) -> Result<Vec<u64>> {
    let keys = keys::<I>(queries);
    match side {
        Side::Lower => index.lower_bound_many(DomainOf::<I>::batch(&keys)),
        Side::Upper => index.upper_bound_many(DomainOf::<I>::batch(&keys)),
    }
}

pub(crate) fn join<I: OrderedIndex>(index: &I, probes: &[KeyOf<I>]) -> Result<Vec<Option<u64>>> {
    let matches = index.join_many(DomainOf::<I>::batch(&keys::<I>(probes)))?;
    Ok(rows_of_probes(&matches, probes.len()))
}

/// The row of each of `probes` probes.
///
/// # Panics
/// If the matches are not what [`Matches`] promises.
pub(crate) fn rows_of_probes(matches: &Matches, probes: usize) -> Vec<Option<u64>> {
    assert_eq!(matches.offsets.len(), probes + 1, "the offsets of {probes} probes");
    let mut rows = vec![None; probes];
    for (probe, row) in matches.iter() {
        assert_eq!(matches.of(probe as usize), [row], "probe {probe}");
        rows[probe as usize] = Some(row);
    }
    assert!(matches.probes.is_sorted(), "{:?}", matches.probes);
    assert_eq!(rows.iter().flatten().count(), matches.len(), "a probe matches once");
    rows
}

pub(crate) fn neighbor<I: OrderedIndex>(
    index: &I,
    queries: &[KeyOf<I>],
    side: Side,
) -> Result<Vec<Neighbor<KeyOf<I>>>> {
    let keys = keys::<I>(queries);
    Ok(wide(match side {
        Side::Upper => index.predecessor_many(DomainOf::<I>::batch(&keys))?,
        Side::Lower => index.successor_many(DomainOf::<I>::batch(&keys))?,
    }))
}

pub(crate) fn range<I: OrderedIndex>(index: &I, ranges: &[Range<KeyOf<I>>]) -> Result<Vec<Pairs<KeyOf<I>>>> {
    let found = index.range_many(&ranges.iter().map(range_of::<I>).collect::<Vec<_>>())?;
    Ok(rows::<I>(&found))
}

pub(crate) fn count<I: OrderedIndex>(index: &I, ranges: &[Range<KeyOf<I>>]) -> Result<Vec<u64>> {
    index.count_range_many(&ranges.iter().map(range_of::<I>).collect::<Vec<_>>())
}

pub(crate) fn rows<I: OrderedIndex>(found: &RangesOf<I>) -> Vec<Pairs<KeyOf<I>>> {
    (0..found.rows()).map(|row| widened(found.row(row))).collect()
}

pub(crate) fn widened<K, V: Word>(pairs: Vec<(K, V)>) -> Pairs<K> {
    pairs.into_iter().map(|(key, value)| (key, value.widen())).collect()
}

pub(crate) fn wide<K, V: Word>(found: Vec<Option<(K, V)>>) -> Vec<Neighbor<K>> {
    found.into_iter().map(|pair| pair.map(|(key, value)| (key, value.widen()))).collect()
}

/// Ranges as an index over keys of a fixed size takes them.
pub(crate) fn ranges_of<K: AnyKey>(ranges: &[Range<K>]) -> impl Iterator<Item = KeyRange<K>> {
    ranges.iter().map(|(start, end, limit)| K::range(start.as_ref(), end.as_ref(), limit.unwrap_or(u64::MAX)))
}

pub(crate) fn range_of<I: OrderedIndex>((start, end, limit): &Range<KeyOf<I>>) -> RangeOf<'_, I> {
    DomainOf::<I>::range(start.as_ref(), end.as_ref(), limit.unwrap_or(u64::MAX))
}
