//! Sorted pairs in main memory: what an index is built from, and built again from after a batch of changes.

use core::ops::Range;
use lanetree_base::parallel::*;
use lanetree_base::room::{copied, push, with_room, zeroed};
use lanetree_base::{Error, NetChange, Result, UpdatePath, UpdateReport};
use lanetree_layout::{AnyKey, KeyWord, Value};

/// Keys and values of pairs, apart.
///
/// # Errors
/// [`Error::Runtime`] where main memory has no room.
pub fn columns<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<(Vec<K>, Vec<V>)> {
    let pairs = pairs.into_iter();
    let expected = pairs.size_hint().0;
    let (mut keys, mut values) = (with_room(expected)?, with_room(expected)?);
    for (key, value) in pairs {
        push(&mut keys, key)?;
        push(&mut values, value)?;
    }
    Ok((keys, values))
}

/// Pairs of a part of a merge: enough to outweigh its dispatch.
const TASK: usize = 1 << 14;

/// Pairs in strictly ascending order of their keys, which are ordered words ([`AnyKey::encode`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedPairs<B, V> {
    /// The keys.
    pub keys: Vec<B>,
    /// A value for each.
    pub values: Vec<V>,
}

impl<B: KeyWord, V: Value> SortedPairs<B, V> {
    /// Sorts pairs. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::Runtime`] where main memory has no room.
    pub fn sort<K: AnyKey<Bits = B>>(keys: &[K], values: &[V]) -> Result<Self> {
        Self::of(sorted(keys, values)?)
    }

    /// Takes pairs in ascending order of their keys. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], and [`Error::NotSorted`] with the first key that is below the one before;
    /// [`Error::Runtime`] where main memory has no room.
    pub fn from_sorted<K: AnyKey<Bits = B>>(keys: &[K], values: &[V]) -> Result<Self> {
        check_lengths(keys, values)?;
        if are_distinct(keys)? {
            let keys = keys.par_iter().map(|key| key.encode()).try_collect()?;
            return Ok(Self { keys, values: copied(values)? });
        }
        let mut pairs = encoded(keys, values)?;
        keep_last(&mut pairs);
        Self::of(pairs)
    }

    fn of(pairs: Vec<(B, V)>) -> Result<Self> {
        let (keys, values) = pairs.into_par_iter().try_unzip()?;
        Ok(Self { keys, values })
    }

    /// Merges sorted pairs with the net changes of a batch, which [`fold`](lanetree_base::fold) makes: one per key, in
    /// ascending order of their keys. In the report the path is [`UpdatePath::Rebuilt`], if anything has changed. All
    /// threads take part.
    ///
    /// # Errors
    /// [`Error::Runtime`] where main memory has no room.
    pub fn merge((keys, values): (&[B], &[V]), changes: &[(B, NetChange<V>)]) -> Result<(Self, UpdateReport)> {
        // Parts begin at equal distances in the longer list.
        let begins_at = |part: usize| match keys.len() > changes.len() {
            true => keys.get(part * TASK).copied(),
            false => changes.get(part * TASK).map(|change| change.0),
        };
        let begin = |part: usize| match begins_at(part) {
            _ if part == 0 => (0, 0),
            Some(key) => (keys.partition_point(|&other| other < key), changes.partition_point(|change| change.0 < key)),
            None => (keys.len(), changes.len()),
        };
        let count = keys.len().max(changes.len()).div_ceil(TASK);
        let part = |part: usize| {
            let (start, end) = (begin(part), begin(part + 1));
            let part = Part {
                keys: &keys[start.0..end.0],
                values: &values[start.0..end.0],
                changes: &changes[start.1..end.1],
            };
            (walk(part.keys, part.changes, |_, _| ()), part)
        };
        let parts = (0..count).into_par_iter().map(part).try_collect()?;
        let mut report = parts.iter().fold(UpdateReport::default(), |sum, part| sum.plus(&part.0));
        // A set's key that is there stays as it is.
        if report.inserted + report.removed > 0 || report.replaced > 0 && V::IS_SOME {
            report.path = UpdatePath::Rebuilt;
        }
        let len = keys.len() + report.inserted as usize - report.removed as usize;
        let mut merged = Self { keys: zeroed(len)?, values: zeroed(len)? };
        let (mut keys, mut values) = (&mut merged.keys[..], &mut merged.values[..]);
        let mut outputs = with_room(count)?;
        for (report, part) in parts {
            let len = part.keys.len() + report.inserted as usize - report.removed as usize;
            let ((own_keys, rest_keys), (own_values, rest_values)) = (keys.split_at_mut(len), values.split_at_mut(len));
            outputs.push((part, own_keys, own_values));
            (keys, values) = (rest_keys, rest_values);
        }
        outputs.into_par_iter().for_each(|(part, keys, values)| {
            let mut to = 0;
            walk(part.keys, part.changes, |kept, put| {
                let end = to + kept.len();
                keys[to..end].copy_from_slice(&part.keys[kept.clone()]);
                values[to..end].copy_from_slice(&part.values[kept]);
                to = end;
                if let Some((key, value)) = put {
                    (keys[to], values[to]) = (key, value);
                    to += 1;
                }
            });
        });
        Ok((merged, report))
    }
}

/// The keys and the changes of a part of a merge.
struct Part<'a, B, V> {
    keys: &'a [B],
    values: &'a [V],
    changes: &'a [(B, NetChange<V>)],
}

/// Merges ascending keys with net changes of their batch: calls a function with the places of keys that stay and the pair that comes
/// after them, if one does, in ascending order. Returns what the changes do, without a path.
pub fn walk<B: KeyWord, V: Value>(
    keys: &[B],
    changes: &[(B, NetChange<V>)],
    mut each: impl FnMut(Range<usize>, Option<(B, V)>),
) -> UpdateReport {
    let (mut report, mut from) = (UpdateReport::default(), 0);
    for &(key, change) in changes {
        let at = from + keys[from..].partition_point(|&other| other < key);
        let is_there = keys.get(at) == Some(&key);
        let (count, put) = match change {
            NetChange::Put(value) | NetChange::PutIfPresent(value) if is_there => {
                (&mut report.replaced, Some((key, value)))
            }
            NetChange::Put(value) => (&mut report.inserted, Some((key, value))),
            NetChange::Remove if is_there => (&mut report.removed, None),
            NetChange::Remove | NetChange::PutIfPresent(_) => (&mut report.unmatched, None),
        };
        *count += 1;
        each(from..at, put);
        from = at + usize::from(is_there);
    }
    each(from..keys.len(), None);
    report
}

/// Pairs in strictly ascending order of their encoded keys. Of equal keys, the last one's value is kept.
///
/// # Errors
/// [`Error::LengthMismatch`]; [`Error::Runtime`] where main memory has no room.
pub fn sorted<K: AnyKey, V: Value>(keys: &[K], values: &[V]) -> Result<Vec<(K::Bits, V)>> {
    check_lengths(keys, values)?;
    let mut pairs = encoded(keys, values)?;
    // Stable: of equal keys, the last stays the last.
    sort_by_first(&mut pairs)?;
    keep_last(&mut pairs);
    Ok(pairs)
}

/// Pairs as they come, with their keys encoded.
///
/// # Errors
/// [`Error::Runtime`] where main memory has no room.
pub fn encoded<K: AnyKey, V: Value>(keys: &[K], values: &[V]) -> Result<Vec<(K::Bits, V)>> {
    keys.par_iter().zip(values).map(|(key, &value)| (key.encode(), value)).try_collect()
}

/// Of neighbours with equal keys, keeps the last one.
pub fn keep_last<B: KeyWord, V: Value>(pairs: &mut Vec<(B, V)>) {
    if pairs.par_windows(2).any(|pair| pair[0].0 == pair[1].0) {
        // `dedup_by` keeps the first of equal neighbours, so each later one hands it its value.
        pairs.dedup_by(|later, kept| {
            let is_equal = later.0 == kept.0;
            if is_equal {
                kept.1 = later.1;
            }
            is_equal
        });
    }
}

/// # Errors
/// [`Error::NotSorted`] with the first key that is below the one before.
pub fn check_ascending<K: AnyKey>(keys: &[K]) -> Result<()> {
    let Some(before) = keys.par_windows(2).position_first(|pair| pair[0] > pair[1]) else { return Ok(()) };
    let [previous, key] = [before, before + 1].map(|at| keys[at].to_string());
    Err(Error::NotSorted { index: before + 1, previous, key })
}

/// Whether all of them differ, of keys in ascending order.
///
/// # Errors
/// As [`check_ascending`].
pub fn are_distinct<K: AnyKey>(keys: &[K]) -> Result<bool> {
    if keys.par_windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(true);
    }
    check_ascending(keys).map(|()| false)
}

/// # Errors
/// [`Error::LengthMismatch`].
pub fn check_lengths<K, V>(keys: &[K], values: &[V]) -> Result<()> {
    let (keys, values) = (keys.len(), values.len());
    if keys == values { Ok(()) } else { Err(Error::LengthMismatch { keys, values }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Change = (u64, NetChange<u32>);

    /// Merges, and checks against a map.
    fn check(keys: &[u64], changes: &[Change]) {
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        let mut map: BTreeMap<u64, u32> = keys.iter().copied().zip(values.iter().copied()).collect();
        let mut expected = UpdateReport::default();
        for &(key, change) in changes {
            let count = match (change, map.contains_key(&key)) {
                (NetChange::Put(_) | NetChange::PutIfPresent(_), true) => &mut expected.replaced,
                (NetChange::Put(_), false) => &mut expected.inserted,
                (NetChange::Remove, true) => &mut expected.removed,
                (NetChange::Remove | NetChange::PutIfPresent(_), false) => &mut expected.unmatched,
            };
            *count += 1;
            match change {
                NetChange::Put(value) => _ = map.insert(key, value),
                NetChange::PutIfPresent(value) => _ = map.get_mut(&key).map(|old| *old = value),
                NetChange::Remove => _ = map.remove(&key),
            }
        }
        let (merged, report) = SortedPairs::merge((keys, &values), changes).unwrap();
        let found = (report.inserted, report.replaced, report.removed, report.unmatched);
        assert_eq!(found, (expected.inserted, expected.replaced, expected.removed, expected.unmatched));
        assert!(merged.keys.iter().eq(map.keys()) && merged.values.iter().eq(map.values()));
    }

    #[test]
    fn merges_of_any_lengths_are_as_of_a_map() {
        let change = |i: u64| match i % 5 {
            0 | 1 => NetChange::Put(i as u32),
            2 => NetChange::PutIfPresent(i as u32),
            _ => NetChange::Remove,
        };
        let task = TASK as u64;
        for (len, count) in [0, 1, 7, task, 3 * task + 5]
            .into_iter()
            .flat_map(|len| [0, 1, 9, task - 1, 2 * task, 4 * task + 1].map(|count| (len, count)))
        {
            let keys: Vec<u64> = (0..len).map(|i| 6 * i + 100).collect();
            let span = 6 * len + 200;
            // All over, before the first key of all, after the last, at the first key of a part, and in one place.
            let spread: Vec<Change> = (0..count).map(|i| (i * (span / count.max(1)).max(1), change(i))).collect();
            check(&keys, &spread);
            let dense: Vec<Change> = (0..count).map(|i| (6 * task + i, change(i))).collect();
            check(&keys, &dense);
            let hits: Vec<Change> = (0..count.min(len)).map(|i| (6 * i + 100, change(i))).collect();
            check(&keys, &hits);
        }
    }
}
