//! Ranges of keys, and the results of a batch of them.

use crate::room::make_room;
use crate::{Error, Result};
use core::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use lanetree_layout::{AnyKey, KeyWord};

/// One range query: two bounds, each inclusive, exclusive or absent, and a limit on the number of pairs.
///
/// Any range expression over keys converts into one: `3..7`, `3..=7`, `..`, `(Bound, Bound)`.
///
/// A range whose end is below its start is *reversed*: an error, or an empty range
/// ([`empty_if_reversed`](Self::empty_if_reversed)). `key..key`, and two equal bounds that are both excluded, are empty and not
/// reversed. (`BTreeMap::range` panics for the latter.)
///
/// ```
/// use core::ops::Bound::Excluded;
/// use lanetree::{Device, KeyRange, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let index = LaneTree::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;
/// let ranges = [KeyRange::new(10..10), (Excluded(10), Excluded(10)).into(), KeyRange::new(..).limit(2)];
/// // A limit counts, too.
/// assert_eq!(index.count_range_many(ranges)?, [0, 0, 2]);
/// // The first two pairs, reversed.
/// let keys: lanetree::Result<Vec<u64>> = index.range(ranges[2])?.rev().map(|pair| Ok(pair?.0)).collect();
/// assert_eq!(keys?, [20, 10]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<K> {
    start: Bound<K>,
    end: Bound<K>,
    limit: u64,
}

impl<K: AnyKey> KeyRange<K> {
    /// The keys between two bounds, each of which is included, excluded or absent (`3..=8`, `..5`).
    #[inline(always)]
    pub fn new(bounds: impl RangeBounds<K>) -> Self {
        Self { start: bounds.start_bound().cloned(), end: bounds.end_bound().cloned(), limit: u64::MAX }
    }

    /// The same range, limited to its first `limit` pairs, also where it is counted, or iterated over from its end.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// The same range, but an empty one if its end is below its start, which is an error otherwise: as `BETWEEN` in SQL.
    ///
    /// ```
    /// use lanetree::{Device, KeyRange, LaneTree};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let index = LaneTree::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;
    /// let ranges = [(10, 20), (30, 10)].map(|(start, end)| KeyRange::new(start..=end).empty_if_reversed());
    /// assert_eq!(index.count_range_many(ranges)?, [2, 0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn empty_if_reversed(self) -> Self {
        if self.is_reversed() { Self { start: Bound::Excluded(K::MAX), end: Bound::Unbounded, ..self } } else { self }
    }

    #[inline(always)]
    fn is_reversed(&self) -> bool {
        matches!(
            (self.start, self.end),
            (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) if start > end
        )
    }

    /// The inclusive bounds and the limit of the `index`-th range of a batch; a start above the end if no key can be in
    /// it.
    ///
    /// # Errors
    /// [`Error::ReversedRange`].
    // Always: batches of ranges took twice as long through a call and a result in memory.
    #[inline(always)]
    pub fn resolve(self, index: usize) -> Result<(K, K, u64)> {
        if self.is_reversed() {
            return Err(self.reversed(index));
        }
        let (start, end) = inclusive(&self).unwrap_or((K::MAX, K::MIN));
        Ok((start, end, self.limit))
    }

    #[cold]
    #[inline(never)]
    fn reversed(&self, index: usize) -> Error {
        let key = |bound: Bound<K>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.to_string(),
            Bound::Unbounded => "..".to_owned(),
        };
        Error::ReversedRange { index, start: key(self.start), end: key(self.end) }
    }
}

macro_rules! from_range {
    ($($range:ty),*) => {$(
        impl<K: AnyKey> From<$range> for KeyRange<K> {
            #[inline(always)]
            fn from(bounds: $range) -> Self {
                Self::new(bounds)
            }
        }
    )*};
}
from_range!(Range<K>, RangeInclusive<K>, RangeFrom<K>, RangeTo<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>));

impl<K: AnyKey> From<RangeFull> for KeyRange<K> {
    fn from(bounds: RangeFull) -> Self {
        Self::new(bounds)
    }
}

/// A batch of ranges as kernels take it: inclusive bounds in separate arrays.
#[derive(Default)]
pub struct RangeBatch<K> {
    /// First keys.
    pub starts: Vec<K>,
    /// Last keys.
    pub ends: Vec<K>,
    /// Empty if no range has one.
    pub limits: Vec<u64>,
}

impl<K: AnyKey> RangeBatch<K> {
    /// # Errors
    /// [`Error::ReversedRange`]; [`Error::Runtime`] if main memory has no room for them.
    pub fn new(ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Self> {
        let mut batch = Self::default();
        batch.take(&mut ranges.into_iter(), 0, usize::MAX)?;
        Ok(batch)
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<K>() * (self.starts.capacity() + self.ends.capacity()) + size_of::<u64>() * self.limits.capacity()
    }

    /// Replaces these by at most `most` ranges of an iterator, of which the first one is the `first`-th of the caller's batch.
    ///
    /// # Errors
    /// As [`RangeBatch::new`].
    pub fn take(
        &mut self,
        ranges: &mut impl Iterator<Item = impl Into<KeyRange<K>>>,
        first: usize,
        most: usize,
    ) -> Result<()> {
        /// Ranges between questions for room.
        const BLOCK: usize = 256;
        /// An iterator may claim anything.
        const MOST_HINTED: usize = 1 << 18;
        let Self { starts, ends, limits } = self;
        starts.clear();
        ends.clear();
        limits.clear();
        while starts.len() < most {
            let (before, block) = (starts.len(), BLOCK.min(most - starts.len()));
            // Vectors would be asked for room at each range.
            let (mut own, mut count) = ([(K::MIN, K::MIN); BLOCK], 0);
            for (range, own) in ranges.by_ref().take(block).zip(&mut own) {
                let (start, end, limit) = range.into().resolve(first + before + count)?;
                if limit != u64::MAX || !limits.is_empty() {
                    make_room(limits, before + count + 1 - limits.len())?;
                    limits.resize(before + count, u64::MAX);
                    limits.push(limit);
                }
                *own = (start, end);
                count += 1;
            }
            if count == 0 {
                break;
            }
            // With one allocation, if the iterator says how many there are.
            let room = count + ranges.size_hint().0.min(most - before - count).min(MOST_HINTED);
            make_room(starts, if starts.capacity() == 0 { room } else { count })?;
            make_room(ends, if ends.capacity() == 0 { room } else { count })?;
            starts.extend(own[..count].iter().map(|bounds| bounds.0));
            ends.extend(own[..count].iter().map(|bounds| bounds.1));
        }
        Ok(())
    }
}

/// The first and last key that can be in the range; `None` if no key can.
#[inline(always)]
fn inclusive<K: AnyKey>(range: &KeyRange<K>) -> Option<(K, K)> {
    let one = K::Bits::truncate(1);
    let minus_one = K::Bits::MAX;
    let start = match range.start {
        Bound::Unbounded => K::MIN,
        Bound::Included(key) => key,
        Bound::Excluded(key) if key == K::MAX => return None,
        Bound::Excluded(key) => K::decode(key.encode().wrapping_add(one)),
    };
    let end = match range.end {
        Bound::Unbounded => K::MAX,
        Bound::Included(key) => key,
        Bound::Excluded(key) if key == K::MIN => return None,
        Bound::Excluded(key) => K::decode(key.encode().wrapping_add(minus_one)),
    };
    (start <= end).then_some((start, end))
}

/// The results of a batch of ranges, in compressed sparse row form: the pairs of range *i* are those
/// from `offsets[i]` to `offsets[i + 1]`, in ascending order of their keys: of `k_nearest_many` the nearest first, of `range_last_many`
/// in descending order.
///
/// These are plain vectors; take one to save a copy: `core::mem::take(&mut ranges.values)`. The rest can be passed to
/// `range_many_into` again, whatever it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges<K, V> {
    /// One more than there are ranges, ascending from 0.
    pub offsets: Vec<u64>,
    /// The keys of all ranges.
    pub keys: Vec<K>,
    /// Their values.
    pub values: Vec<V>,
}

impl<K, V> Ranges<K, V> {
    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys and values of one range.
    ///
    /// # Panics
    /// If there is no such range, or its pairs were taken.
    pub fn get(&self, range: usize) -> (&[K], &[V]) {
        let pairs = self.offsets[range] as usize..self.offsets[range + 1] as usize;
        (&self.keys[pairs.clone()], &self.values[pairs])
    }

    /// The keys and values of each range in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[K], &[V])> {
        (0..self.len()).map(|range| self.get(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_become_inclusive_at_both_ends_of_the_key_space() {
        let bounds = |range: KeyRange<i32>| inclusive(&range);
        assert_eq!(bounds((..).into()), Some((i32::MIN, i32::MAX)));
        assert_eq!(bounds((-1..1).into()), Some((-1, 0)));
        assert_eq!(bounds((0..0).into()), None);
        assert_eq!(bounds((..i32::MIN).into()), None);
        assert_eq!(bounds((Bound::Excluded(i32::MAX), Bound::Unbounded).into()), None);
        assert_eq!(bounds((Bound::Excluded(3), Bound::Excluded(4)).into()), None);
        assert_eq!(bounds((i32::MAX..=i32::MAX).into()), Some((i32::MAX, i32::MAX)));
    }

    #[test]
    fn a_reversed_range_is_empty_if_asked_so() -> Result<()> {
        let of = |start, end| KeyRange::<i32>::new((start, end)).empty_if_reversed();
        for start in [Bound::Included(5), Bound::Excluded(5)] {
            for end in [Bound::Included(4), Bound::Excluded(i32::MIN)] {
                let (start, end, limit) = of(start, end).limit(9).resolve(0)?;
                assert!(start > end && limit == 9, "{start} to {end}");
            }
        }
        assert_eq!(of(Bound::Included(5), Bound::Included(5)).resolve(0)?, (5, 5, u64::MAX));
        assert_eq!(of(Bound::Included(5), Bound::Unbounded).resolve(0)?, (5, i32::MAX, u64::MAX));
        assert_eq!(of(Bound::Unbounded, Bound::Excluded(5)).resolve(0)?, (i32::MIN, 4, u64::MAX));
        Ok(())
    }

    #[test]
    fn a_reversed_range_is_named() {
        #[expect(clippy::reversed_empty_ranges, reason = "the point of the test")]
        let error = RangeBatch::<u64>::new([0..4, 9..3]).err().unwrap();
        assert_eq!(
            error.to_string(),
            "range 1 starts at 9 and ends at 3, before its start: swap the bounds, or leave it out"
        );
    }
}
