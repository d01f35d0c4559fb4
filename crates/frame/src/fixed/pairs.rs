//! Sorted pairs in main memory: what an index is built from, and built again from after a batch of changes.

use lanetree_base::parallel::*;
use lanetree_base::room::{copied, with_room};
use lanetree_base::{Error, NetChange, Result, UpdatePath, UpdateReport};
use lanetree_layout::{AnyKey, KeyWord, Value};

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

    /// Merges sorted pairs with the changes of a batch, one per key, in ascending order of their keys: those of
    /// [`fold`](lanetree_base::fold). In the report the path is [`UpdatePath::Rebuilt`], if anything has changed.
    ///
    /// # Errors
    /// [`Error::Runtime`] where main memory has no room.
    pub fn merge((keys, values): (&[B], &[V]), changes: &[(B, NetChange<V>)]) -> Result<(Self, UpdateReport)> {
        let room = keys.len().saturating_add(changes.len());
        let mut merged = Self { keys: with_room(room)?, values: with_room(room)? };
        let mut report = UpdateReport::default();
        let mut from = 0;
        for &(key, change) in changes {
            let at = from + keys[from..].partition_point(|&other| other < key);
            merged.extend(&keys[from..at], &values[from..at]);
            let is_there = keys.get(at) == Some(&key);
            from = at + usize::from(is_there);
            let count = match change {
                NetChange::Put(value) | NetChange::PutIfPresent(value) if is_there => {
                    merged.extend(&[key], &[value]);
                    &mut report.replaced
                }
                NetChange::Put(value) => {
                    merged.extend(&[key], &[value]);
                    &mut report.inserted
                }
                NetChange::Remove if is_there => &mut report.removed,
                NetChange::Remove | NetChange::PutIfPresent(_) => &mut report.unmatched,
            };
            *count += 1;
        }
        merged.extend(&keys[from..], &values[from..]);
        // A set's key that is there stays as it is.
        if report.inserted + report.removed > 0 || report.replaced > 0 && V::IS_SOME {
            report.path = UpdatePath::Rebuilt;
        }
        Ok((merged, report))
    }

    fn extend(&mut self, keys: &[B], values: &[V]) {
        self.keys.extend_from_slice(keys);
        self.values.extend_from_slice(values);
    }
}

/// Pairs in strictly ascending order of their encoded keys. Of equal keys, the last one's value is kept.
///
/// # Errors
/// [`Error::LengthMismatch`]; [`Error::Runtime`] where main memory has no room.
pub fn sorted<K: AnyKey, V: Value>(keys: &[K], values: &[V]) -> Result<Vec<(K::Bits, V)>> {
    check_lengths(keys, values)?;
    let mut pairs = encoded(keys, values)?;
    // Stable: of equal keys, the last stays the last.
    sort_by_word(&mut pairs, |pair| pair.0)?;
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
