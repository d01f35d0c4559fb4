//! Ranges of byte strings, and the results of a batch of them.

use super::{ByteKeys, ByteKeysBuf, show};
use crate::{Error, Result};
use core::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One range query over byte strings: two bounds, each inclusive, exclusive or absent, and a limit on the number of
/// pairs.
///
/// Range expressions over references to anything that is bytes convert into one: `"a".."b"`,
/// `&key[..]..=&other[..]`, `..`, pairs of [`Bound`]s.
///
/// ```
/// use core::ops::Bound;
/// use lanetree::{ByteKeysBuf, ByteRange, Cuart, Device};
///
/// # fn main() -> lanetree::Result<()> {
/// let words: ByteKeysBuf = ["ant", "bee", "cat", "cow"].into_iter().collect();
/// let tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3, 4])?;
///
/// // The first two words from "b" on.
/// let range = ByteRange::new(Bound::Included(&b"b"[..]), Bound::Unbounded).limit(2);
/// let hits = tree.range_many([range])?;
/// assert_eq!(hits.get(0).1, [2, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange<'a> {
    start: Bound<&'a [u8]>,
    end: Bound<&'a [u8]>,
    limit: u64,
}

impl<'a> ByteRange<'a> {
    /// The strings between two bounds, each of which is included, excluded or absent, in the order of their bytes.
    pub fn new(start: Bound<&'a [u8]>, end: Bound<&'a [u8]>) -> Self {
        Self { start, end, limit: u64::MAX }
    }

    /// The same range, limited to its first `limit` pairs.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// The same range, but an empty one if its end is below its start, which is an error otherwise: as `BETWEEN` in SQL.
    ///
    /// ```
    /// use lanetree::{ByteKeysBuf, ByteRange, Cuart, Device};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let words: ByteKeysBuf = ["ant", "bee", "cat"].into_iter().collect();
    /// let tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3])?;
    /// let range = ByteRange::from("cat".."bee");
    /// assert!(tree.range_many([range]).is_err());
    /// assert!(tree.range_many([range.empty_if_reversed()])?.get(0).1.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn empty_if_reversed(self) -> Self {
        match (self.start, self.end) {
            (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end))
                if start > end =>
            {
                // No key is below the empty one.
                Self { start: Bound::Unbounded, end: Bound::Excluded(&[]), ..self }
            }
            _ => self,
        }
    }

    /// The searches for the position of this range's first pair and for the one past its last pair, and its limit.
    ///
    /// # Errors
    /// [`Error::ReversedRange`].
    pub fn sides(&self, index: usize) -> Result<Sides<'a>> {
        let (Self { start, end, limit }, key) = (*self, |bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        });
        if let (Some(start), Some(end)) = (key(start), key(end))
            && start > end
        {
            return Err(Error::ReversedRange { index, start: show(start), end: show(end) });
        }
        let start = match start {
            Bound::Included(key) => Some((key, Side::Lower)),
            Bound::Excluded(key) => Some((key, Side::Upper)),
            Bound::Unbounded => None,
        };
        let end = match end {
            Bound::Included(key) => Some((key, Side::Upper)),
            Bound::Excluded(key) => Some((key, Side::Lower)),
            Bound::Unbounded => None,
        };
        Ok(Sides { start, end, limit })
    }
}

/// Which keys a bound counts as below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those below the string.
    Lower,
    /// Those and the string itself.
    Upper,
    /// Keys below the string, the string itself, and all keys that it is a prefix of.
    Prefix,
}

/// A range as two searches; none for an absent bound.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// Where the first pair is; none: at the first of all.
    pub start: Option<(&'a [u8], Side)>,
    /// Where the pairs end; none: after the last of all.
    pub end: Option<(&'a [u8], Side)>,
    /// The most pairs.
    pub limit: u64,
}

macro_rules! from_range {
    ($($range:ident { $($field:ident)* } $start:expr, $end:expr;)*) => {$(
        impl<'a, T: AsRef<[u8]> + ?Sized> From<$range<&'a T>> for ByteRange<'a> {
            fn from($range { $($field),* }: $range<&'a T>) -> Self {
                Self::new($start, $end)
            }
        }
    )*};
}
from_range! {
    Range { start end } Bound::Included(start.as_ref()), Bound::Excluded(end.as_ref());
    RangeFrom { start } Bound::Included(start.as_ref()), Bound::Unbounded;
    RangeTo { end } Bound::Unbounded, Bound::Excluded(end.as_ref());
    RangeToInclusive { end } Bound::Unbounded, Bound::Included(end.as_ref());
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<RangeInclusive<&'a T>> for ByteRange<'a> {
    fn from(range: RangeInclusive<&'a T>) -> Self {
        let (start, end) = range.into_inner();
        Self::new(Bound::Included(start.as_ref()), Bound::Included(end.as_ref()))
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<(Bound<&'a T>, Bound<&'a T>)> for ByteRange<'a> {
    fn from((start, end): (Bound<&'a T>, Bound<&'a T>)) -> Self {
        Self::new(start.map(T::as_ref), end.map(T::as_ref))
    }
}

impl From<RangeFull> for ByteRange<'_> {
    fn from(_: RangeFull) -> Self {
        Self::new(Bound::Unbounded, Bound::Unbounded)
    }
}

/// The results of a batch of ranges of byte strings, in compressed sparse row form: the pairs of range *i*
/// are those from `offsets[i]` to `offsets[i + 1]`, in ascending order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteRanges<V> {
    /// One more than there are ranges, ascending from 0.
    pub offsets: Vec<u64>,
    /// The keys of all ranges.
    pub keys: ByteKeysBuf,
    /// Their values.
    pub values: Vec<V>,
}

impl<V> ByteRanges<V> {
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
    /// If there is no such range.
    pub fn get(&self, range: usize) -> (ByteKeys<'_>, &[V]) {
        let pairs = self.offsets[range] as usize..self.offsets[range + 1] as usize;
        (ByteKeys::from(&self.keys).slice(pairs.clone()), &self.values[pairs])
    }

    /// The keys and values of each range in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ByteKeys<'_>, &[V])> {
        (0..self.len()).map(|range| self.get(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_ranges() {
        let bounds = |range: ByteRange<'static>| (range.start, range.end);
        let (a, b) = (b"a".as_slice(), b"b".as_slice());
        assert_eq!(bounds(("a".."b").into()), (Bound::Included(a), Bound::Excluded(b)));
        assert_eq!(bounds((b"a"..=b"b").into()), (Bound::Included(a), Bound::Included(b)));
        assert_eq!(bounds((a..).into()), (Bound::Included(a), Bound::Unbounded));
        assert_eq!(bounds((..a).into()), (Bound::Unbounded, Bound::Excluded(a)));
        assert_eq!(bounds((..=a).into()), (Bound::Unbounded, Bound::Included(a)));
        assert_eq!(bounds((..).into()), (Bound::Unbounded, Bound::Unbounded));
        assert_eq!(bounds((Bound::Excluded("a"), Bound::Unbounded).into()), (Bound::Excluded(a), Bound::Unbounded));
    }

    #[test]
    fn a_reversed_range_is_named() {
        let error = ByteRange::from("b".."a\0").sides(3).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"range 3 starts at "b" and ends at "a\x00", before its start: swap the bounds, or leave it out"#
        );
    }
}
