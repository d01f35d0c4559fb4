//! Queries of another integer type than the keys.

use crate::error::check_bounds;
use crate::room::{push, with_room, zeroed};
use crate::{Error, Result, Validity};
use lanetree_layout::AnyKey;

/// A batch of queries of another integer type than the keys: each of them as a key, or the nearest one where the key type does not
/// reach so far. No query passes through a float.
///
/// What a call answers for the nearest key is then corrected for the queries that it stands for: [`Clamped::ranks`],
/// [`Clamped::predecessors`] and [`Clamped::successors`] do so. In all other calls, such as look-ups and joins, a query
/// that is out of range is answered as a null query is: [`Clamped::in_range`] has a bitmap for them.
/// [`DeviceClamped`](crate::DeviceClamped) is the device form.
///
/// ```
/// use lanetree::{Clamped, Device, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let index = LaneTree::build(&Device::host(), &[0_u32, 20, u32::MAX], &[1_u32, 2, 3])?;
/// let queries = Clamped::<u32>::new(&[-5_i64, 20, 1 << 40])?;
///
/// let mut ranks = index.upper_bound_many(queries.keys())?;
/// queries.ranks(&mut ranks, index.len())?;
/// assert_eq!(ranks, [0, 2, 3]);
///
/// let mut found = index.get_many(queries.keys())?;
/// queries.in_range().mask(&mut found)?;
/// assert_eq!(found, [None, Some(2), None]);
///
/// let mut below = index.predecessor_many(queries.keys())?;
/// queries.predecessors(&mut below)?;
/// assert_eq!(below, [None, Some((20, 2)), Some((u32::MAX, 3))]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Clamped<K> {
    keys: Vec<K>,
    /// A bit for each query: whether it is in the range of the key type.
    in_range: Vec<u8>,
    /// The numbers of the queries below all keys, and of those above all.
    below: Vec<usize>,
    above: Vec<usize>,
}

/// A query as a key, or the end of the key type that it is past.
pub(crate) enum Place<K> {
    In(K),
    Below,
    Above,
}

pub(crate) fn place<K: TryFrom<Q>, Q: Copy + Default + PartialOrd>(query: Q) -> Place<K> {
    match K::try_from(query) {
        Ok(key) => Place::In(key),
        // All integer types have 0.
        Err(_) if query < Q::default() => Place::Below,
        Err(_) => Place::Above,
    }
}

impl<K: AnyKey> Clamped<K> {
    /// Clamps queries of an integer type.
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room for them.
    pub fn new<Q: Copy + Default + PartialOrd>(queries: &[Q]) -> Result<Self>
    where
        K: TryFrom<Q>,
    {
        let (mut keys, mut in_range) = (with_room(queries.len())?, zeroed::<u8>(queries.len().div_ceil(8))?);
        let (mut below, mut above) = (Vec::new(), Vec::new());
        for (index, &query) in queries.iter().enumerate() {
            keys.push(match place(query) {
                Place::In(key) => {
                    in_range[index / 8] |= 1 << (index % 8);
                    key
                }
                Place::Below => {
                    push(&mut below, index)?;
                    K::MIN
                }
                Place::Above => {
                    push(&mut above, index)?;
                    K::MAX
                }
            });
        }
        Ok(Self { keys, in_range, below, above })
    }

    /// The queries as keys.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// Which queries are in the range of the key type; no other one equals a key.
    pub fn in_range(&self) -> Validity<'_> {
        Validity::new(&self.in_range, 0, self.keys.len()).expect("a bit for each query")
    }

    /// Corrects lower or upper bounds, in an index of `len` pairs: 0 for a query below all keys, `len` for one above all.
    ///
    /// # Errors
    /// [`Error::OutputLength`] unless there is one rank per query.
    pub fn ranks(&self, ranks: &mut [u64], len: u64) -> Result<()> {
        self.check(ranks.len())?;
        self.below.iter().for_each(|&index| ranks[index] = 0);
        self.above.iter().for_each(|&index| ranks[index] = len);
        Ok(())
    }

    /// Corrects predecessors: a query below all keys has none.
    ///
    /// # Errors
    /// As [`Clamped::ranks`].
    pub fn predecessors<T>(&self, found: &mut [Option<T>]) -> Result<()> {
        self.check(found.len())?;
        self.below.iter().for_each(|&index| found[index] = None);
        Ok(())
    }

    /// Corrects successors: a query above all keys has none.
    ///
    /// # Errors
    /// As [`Clamped::ranks`].
    pub fn successors<T>(&self, found: &mut [Option<T>]) -> Result<()> {
        self.check(found.len())?;
        self.above.iter().for_each(|&index| found[index] = None);
        Ok(())
    }

    fn check(&self, answers: usize) -> Result<()> {
        if answers == self.keys.len() {
            return Ok(());
        }
        Err(Error::OutputLength { what: "the slice of answers", expected: self.keys.len(), actual: answers })
    }
}

/// Clamps the bounds of ranges, both inclusive, of another integer type than the keys. A range in which no key can be is reversed,
/// which calls that take bounds in two columns answer as an empty one.
///
/// ```
/// use lanetree::{Device, LaneTree, clamp_bounds};
///
/// # fn main() -> lanetree::Result<()> {
/// let index = LaneTree::build(&Device::host(), &[0_u32, 20, u32::MAX], &[1_u32, 2, 3])?;
/// let (starts, ends) = clamp_bounds::<u32, i64>(&[-5, 5, -9], &[20, 1 << 40, -1])?;
/// assert_eq!(index.count_between_many(&starts, &ends)?, [2, 2, 0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::BoundLengths`] unless there is one end per start; [`Error::Runtime`] if main memory has no room for them.
pub fn clamp_bounds<K: AnyKey + TryFrom<Q>, Q: Copy + Default + PartialOrd>(
    starts: &[Q],
    ends: &[Q],
) -> Result<(Vec<K>, Vec<K>)> {
    check_bounds(starts.len(), ends.len())?;
    let (mut lows, mut highs) = (with_room(starts.len())?, with_room(starts.len())?);
    for (&start, &end) in starts.iter().zip(ends) {
        let low = match place(start) {
            Place::In(key) => Some(key),
            Place::Below => Some(K::MIN),
            Place::Above => None,
        };
        let high = match place(end) {
            Place::In(key) => Some(key),
            Place::Below => None,
            Place::Above => Some(K::MAX),
        };
        let (low, high) = low.zip(high).unwrap_or((K::MAX, K::MIN));
        lows.push(low);
        highs.push(high);
    }
    Ok((lows, highs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    /// Ranks, neighbours and presence of queries among keys, against a comparison by numbers of 128 bits.
    fn agrees<K: AnyKey + TryFrom<Q> + Into<i128>, Q: Copy + Default + PartialOrd + Into<i128> + Debug>(
        keys: &[K],
        queries: &[Q],
    ) -> Result<()> {
        let clamped = Clamped::<K>::new(queries)?;
        let rank = |of: &dyn Fn(&K, &K) -> bool| -> Result<Vec<u64>> {
            let mut ranks: Vec<u64> =
                clamped.keys().iter().map(|query| keys.iter().filter(|key| of(key, query)).count() as u64).collect();
            clamped.ranks(&mut ranks, keys.len() as u64)?;
            Ok(ranks)
        };
        let (lower, upper) = (rank(&|key, query| key < query)?, rank(&|key, query| key <= query)?);
        let mut below: Vec<Option<K>> =
            clamped.keys().iter().map(|query| keys.iter().copied().rfind(|key| key <= query)).collect();
        clamped.predecessors(&mut below)?;
        let mut above: Vec<Option<K>> =
            clamped.keys().iter().map(|query| keys.iter().copied().find(|key| key >= query)).collect();
        clamped.successors(&mut above)?;
        let mut present: Vec<Option<()>> =
            clamped.keys().iter().map(|query| keys.contains(query).then_some(())).collect();
        clamped.in_range().mask(&mut present)?;
        for (i, &query) in queries.iter().enumerate() {
            let wide = |key: &K| -> i128 { (*key).into() };
            let query: i128 = query.into();
            assert_eq!(lower[i], keys.iter().filter(|key| wide(key) < query).count() as u64, "{query}");
            assert_eq!(upper[i], keys.iter().filter(|key| wide(key) <= query).count() as u64, "{query}");
            assert_eq!(below[i], keys.iter().copied().rfind(|key| wide(key) <= query), "{query}");
            assert_eq!(above[i], keys.iter().copied().find(|key| wide(key) >= query), "{query}");
            assert_eq!(present[i].is_some(), keys.iter().any(|key| wide(key) == query), "{query}");
        }
        for &start in queries {
            let (lows, highs) = clamp_bounds::<K, Q>(&vec![start; queries.len()], queries)?;
            for ((low, high), &end) in lows.into_iter().zip(highs).zip(queries) {
                let inside = |key: &&K| (start.into()..=end.into()).contains(&(**key).into());
                let found = keys.iter().filter(|key| (low..=high).contains(key)).count();
                assert_eq!(found, keys.iter().filter(inside).count(), "{start:?} to {end:?}");
            }
        }
        let wrong = clamped.ranks(&mut vec![0; queries.len() + 1], 0).unwrap_err();
        assert!(wrong.to_string().starts_with("the slice of answers holds"), "{wrong}");
        Ok(())
    }

    #[test]
    fn queries_of_another_type_are_answered_as_numbers() -> Result<()> {
        let signed = [i64::MIN, -1 << 40, -5, -1, 0, 1, 20, i64::from(u32::MAX), i64::from(u32::MAX) + 1, i64::MAX];
        agrees(&[0_u32, 20, u32::MAX], &signed)?;
        agrees(&[1_u32, 20], &signed)?;
        agrees(&[0_u64, 20, u64::MAX], &signed)?;
        agrees(&[i32::MIN, -5, 20, i32::MAX], &signed)?;
        agrees::<u32, i64>(&[], &signed)?;
        agrees(&[i64::MIN, -5, 20, i64::MAX], &[0_u64, 20, 1 << 63, u64::MAX])?;
        agrees(&[i32::MIN, -5, 20, i32::MAX], &[0_u32, 20, 1 << 31, u32::MAX])
    }
}
