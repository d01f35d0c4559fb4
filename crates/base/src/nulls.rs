//! Columns with nulls: validity bitmaps as Arrow has them.

use crate::join_steps::{DeviceValidity, settle_hits};
use crate::room::with_room;
use crate::{Error, JoinRows, Matches, Result};
use core::fmt;
use lanetree_layout::{Composite, Key};
use lanetree_runtime::{Buffer, Stream};

/// Which elements of a column are there, and which are null: a validity bitmap as Arrow's, in host memory. Bit `i % 8` of byte
/// `i / 8` belongs to element `i`, counted from an offset; a set bit says that the element is there. What a null's place in the
/// column holds does not matter.
///
/// ```
/// use lanetree::{Device, LaneTree, Validity};
///
/// # fn main() -> lanetree::Result<()> {
/// let index = LaneTree::build(&Device::host(), &[10_u64, 20], &[1_u32, 2])?;
/// // The second probe is null.
/// let validity = Validity::new(&[0b101], 0, 3)?;
/// let mut found = index.get_many(&[10, 20, 20])?;
/// validity.mask(&mut found)?;
/// assert_eq!(found, [Some(1), None, Some(2)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Validity<'a> {
    bits: &'a [u8],
    offset: usize,
    len: usize,
}

impl<'a> Validity<'a> {
    /// The validity of `len` elements, the first of which has the bit `offset`.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a bitmap that ends before the last element's bit.
    pub fn new(bits: &'a [u8], offset: usize, len: usize) -> Result<Self> {
        let expected = offset.saturating_add(len).div_ceil(8);
        if bits.len() < expected {
            return Err(Error::OutputLength { what: "the validity bitmap", expected, actual: bits.len() });
        }
        Ok(Self { bits, offset, len })
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether an element is there.
    ///
    /// # Panics
    /// If the column has no such element, null or not.
    #[inline]
    pub fn is_valid(&self, index: usize) -> bool {
        assert!(index < self.len, "element {index} of {}", self.len);
        let bit = self.offset + index;
        self.bits[bit / 8] >> (bit % 8) & 1 != 0
    }

    /// Whether each of 32 elements is there, from `first` on; what bits past the last one are is not said.
    pub(crate) fn word(&self, first: usize) -> u32 {
        let (bit, mut bytes) = (self.offset + first, [0; 8]);
        let own = &self.bits[bit / 8..];
        let count = own.len().min(5);
        bytes[..count].copy_from_slice(&own[..count]);
        (u64::from_le_bytes(bytes) >> (bit % 8)) as u32
    }

    /// The numbers of the elements that are null, in ascending order.
    pub fn nulls(&self) -> impl Iterator<Item = usize> + use<'a> {
        let own = *self;
        (0..own.len).filter(move |&index| !own.is_valid(index))
    }

    /// The numbers of the elements that are there, in ascending order.
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room for them.
    pub fn valid(&self) -> Result<Vec<usize>> {
        let mut rows = with_room(self.len - self.nulls().count())?;
        rows.extend((0..self.len).filter(|&index| self.is_valid(index)));
        Ok(rows)
    }

    /// The elements of a column that are not null, in their order.
    ///
    /// # Errors
    /// [`Error::OutputLength`] unless the column has one element per bit; [`Error::Runtime`] if main memory has no room for them.
    pub fn select<T: Copy>(&self, column: &[T]) -> Result<Vec<T>> {
        self.check(column.len())?;
        let mut selected = with_room(self.len - self.nulls().count())?;
        selected.extend(column.iter().enumerate().filter(|(index, _)| self.is_valid(*index)).map(|(_, &item)| item));
        Ok(selected)
    }

    /// Answers null for each query that is null: for look-ups, neighbours and as-of look-ups.
    ///
    /// # Errors
    /// [`Error::OutputLength`] unless there is one answer per bit.
    pub fn mask<T>(&self, answers: &mut [Option<T>]) -> Result<()> {
        self.check(answers.len())?;
        self.nulls().for_each(|index| answers[index] = None);
        Ok(())
    }

    /// Drops the matches of probes that are null, in place.
    ///
    /// # Errors
    /// [`Error::OutputLength`] unless there is one probe per bit, and as many matches as the offsets say.
    pub fn mask_matches(&self, matches: &mut Matches) -> Result<()> {
        let Matches { offsets, probes, rows } = matches;
        if probes.len() != rows.len() {
            return Err(Error::OutputLength {
                what: "the matches' probes",
                expected: rows.len(),
                actual: probes.len(),
            });
        }
        self.mask_rows_of(offsets, rows.len(), |from, to| {
            (probes[to], rows[to]) = (probes[from], rows[from]);
        })
        .map(|len| {
            probes.truncate(len);
            rows.truncate(len);
        })
    }

    /// Drops the rows of probes that are null, in place.
    ///
    /// # Errors
    /// As [`Validity::mask_matches`].
    pub fn mask_rows<V: Copy>(&self, matches: &mut JoinRows<V>) -> Result<()> {
        let JoinRows { offsets, rows } = matches;
        let len = self.mask_rows_of(offsets, rows.len(), |from, to| rows[to] = rows[from])?;
        rows.truncate(len);
        Ok(())
    }

    /// Empties the rows of nulls. `put` moves an element to a smaller place, or its own. Returns how many are left.
    fn mask_rows_of(&self, offsets: &mut [u64], elements: usize, mut put: impl FnMut(usize, usize)) -> Result<usize> {
        self.check(offsets.len().saturating_sub(1))?;
        let last = offsets.last().map_or(0, |&last| last as usize);
        if last != elements || !offsets.is_sorted() {
            return Err(Error::OutputLength { what: "the matches", expected: last, actual: elements });
        }
        let (mut start, mut to) = (0, 0);
        for index in 0..self.len {
            let end = offsets[index + 1] as usize;
            if self.is_valid(index) {
                for from in start..end {
                    put(from, to);
                    to += 1;
                }
            }
            start = end;
            offsets[index + 1] = to as u64;
        }
        Ok(to)
    }

    /// Checks that a column of `len` elements has one element per bit of the bitmap.
    ///
    /// # Errors
    /// [`Error::OutputLength`] if not.
    pub fn check(&self, len: usize) -> Result<()> {
        if len == self.len {
            return Ok(());
        }
        Err(Error::OutputLength { what: "the validity bitmap", expected: len, actual: self.len })
    }
}

impl fmt::Debug for Validity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Validity[{} of {} null]", self.nulls().count(), self.len)
    }
}

/// Where null keys are in the order of an index that holds them: `NULLS FIRST` or `NULLS LAST`. They are one key, equal to itself.
///
/// An index that need not hold nulls is built without them ([`Nulls::Skip`]), over keys half as wide.
///
/// ```
/// use lanetree::{Device, LaneTree, NullOrder};
///
/// # fn main() -> lanetree::Result<()> {
/// let keys = [Some(7_u32), None, Some(0)].map(|key| NullOrder::Last.key(key));
/// let index = LaneTree::build(&Device::host(), &keys, &[0_u32, 1, 2])?;
/// assert_eq!(index.lower_bound_many(&keys)?, [1, 2, 0]);
/// let (last, row) = index.last()?.expect("three pairs");
/// assert_eq!((NullOrder::Last.get(last), row), (None, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NullOrder {
    /// Nulls are below all keys.
    First,
    /// Nulls are above all keys.
    Last,
}

impl NullOrder {
    /// The key of an element that may be null: a composite key, in which null is before or after all other keys, as the
    /// order says.
    pub fn key<K: Key>(self, key: Option<K>) -> Composite<u32, K> {
        match key {
            Some(key) => Composite::new((self == Self::First).into(), key),
            None => Composite::new((self == Self::Last).into(), K::MIN),
        }
    }

    /// The inverse of [`NullOrder::key`].
    pub fn get<K: Key>(self, key: Composite<u32, K>) -> Option<K> {
        (key.first() == u32::from(self == Self::First)).then(|| key.second())
    }
}

/// What a build does with rows whose key is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Nulls {
    /// Such a row is an error, which names the first one (the default).
    #[default]
    Refuse,
    /// Such rows are left out, as no look-up finds them. For an index that holds them, [`NullOrder`] makes keys of them.
    Skip,
}

/// What a build does with rows whose key another row has, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Duplicates {
    /// The last row of a key is kept (the default).
    #[default]
    Last,
    /// The first row of a key is kept.
    First,
    /// They are an error, which names the first row whose key an earlier row has. `MultiMap` keeps them all.
    Refuse,
}

/// Clears the bits of null queries in a hit mask: bit `i` of `hits` where bit `offset + i` of the validity bitmap, the
/// lowest bit of each word first, is 0. So all calls that write hit masks report a null query as not found; its value
/// is unspecified. Runs in the stream's order and may return before it is done. Allocates nothing.
///
/// ```
/// use lanetree::{Device, LaneTree, mask_hits};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let index = LaneTree::build(&device, &[10_u64, 20], &[1_u32, 2])?;
/// let (stream, probes) = (device.stream()?, device.upload(&[10_u64, 20, 30])?);
/// let (mut values, mut hits) = (device.alloc(3)?, device.alloc(1)?);
/// index.on(&stream).hits(&mut hits).miss(0).get(&probes, &mut values)?;
/// // The first probe is null; its bit is the third.
/// mask_hits(&stream, &device.upload(&[0b1_1011])?, 2, 3, &mut hits)?;
/// assert_eq!(hits.to_vec()?, [0b010]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::OutputLength`] for a bitmap or a mask of fewer bits; [`Error::BatchTooLarge`]; [`Error::Runtime`] for buffers of another
/// device than the stream's.
pub fn mask_hits(
    stream: &Stream,
    valid: &Buffer<u32>,
    offset: usize,
    count: usize,
    hits: &mut Buffer<u32>,
) -> Result<()> {
    settle_hits(stream, Some(DeviceValidity { bitmap: valid, offset }), count, false, hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_runtime::Device;

    #[test]
    fn a_bitmap_says_which_elements_are_there_from_any_offset() -> Result<()> {
        let bits = [0b1010_0110, 0b0000_0001, 0xff];
        for offset in 0..9 {
            let validity = Validity::new(&bits, offset, 9)?;
            let expected: Vec<usize> =
                (0..9).filter(|i| bits[(offset + i) / 8] >> ((offset + i) % 8) & 1 != 0).collect();
            assert_eq!(validity.valid()?, expected);
            assert_eq!(validity.select(&[0_usize, 1, 2, 3, 4, 5, 6, 7, 8])?, expected);
            assert!(validity.nulls().all(|null| !expected.contains(&null)));
            let mut answers = [Some(7); 9];
            validity.mask(&mut answers)?;
            assert!(answers.iter().enumerate().all(|(i, answer)| answer.is_some() == expected.contains(&i)));
        }
        let error = Validity::new(&bits, 20, 5).unwrap_err();
        assert_eq!(error.to_string(), "the validity bitmap holds 3 elements, but 4 are needed; allocate at least 4");
        let error = Validity::new(&bits, 0, 5)?.mask(&mut [Some(1); 4]).unwrap_err();
        assert_eq!(error.to_string(), "the validity bitmap holds 5 elements, but exactly 4 are needed");
        assert!(Validity::new(&bits, usize::MAX, 2).is_err());
        Ok(())
    }

    #[test]
    fn null_probes_match_nothing() -> Result<()> {
        let validity = Validity::new(&[0b1_0110], 0, 5)?;
        let mut matches = Matches::of_rows(&[7, Matches::NO_ROW, 9, 4, 5])?;
        validity.mask_matches(&mut matches)?;
        assert_eq!(matches, Matches::of_rows(&[Matches::NO_ROW, Matches::NO_ROW, 9, Matches::NO_ROW, 5])?);
        let mut rows = JoinRows { offsets: vec![0, 2, 2, 5, 6, 8], rows: vec![1, 2, 3, 4, 5, 6, 7, 8] };
        validity.mask_rows(&mut rows)?;
        assert_eq!(rows, JoinRows { offsets: vec![0, 0, 0, 3, 3, 5], rows: vec![3, 4, 5, 7, 8] });
        assert!(validity.mask_rows(&mut JoinRows { offsets: vec![0, 1], rows: vec![1] }).is_err(), "other probes");
        assert!(validity.mask_rows(&mut JoinRows::<u32> { offsets: vec![0, 0, 0, 0, 0, 9], rows: vec![] }).is_err());
        assert!(validity.mask_matches(&mut Matches { offsets: vec![0; 6], probes: vec![1], rows: vec![] }).is_err());
        Validity::new(&[], 0, 0)?.mask_rows(&mut JoinRows::<u32>::default())
    }

    #[test]
    fn null_keys_are_at_their_end_of_the_order() {
        for key in [i64::MIN, -1, 0, i64::MAX] {
            assert!(NullOrder::First.key::<i64>(None) < NullOrder::First.key(Some(key)));
            assert!(NullOrder::Last.key::<i64>(None) > NullOrder::Last.key(Some(key)));
            for order in [NullOrder::First, NullOrder::Last] {
                assert_eq!([Some(key), None].map(|key| order.get(order.key(key))), [Some(key), None]);
            }
        }
    }

    #[test]
    fn hits_of_null_queries_are_cleared_on_every_device() -> Result<()> {
        let bits: Vec<u32> = (1..=5_u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let valid = |bit: usize| bits[bit / 32] >> (bit % 32) & 1 != 0;
        for device in [Device::host(), Device::emulated()] {
            let (stream, bitmap) = (device.stream()?, device.upload(&bits)?);
            for (offset, count) in [(0, 0), (0, 1), (0, 32), (0, 160), (5, 27), (5, 28), (31, 2), (33, 127), (64, 96)] {
                // No bits past the last query's.
                let words = usize::div_ceil(count, 32);
                let hit = |i: usize| i < count && i % 7 != 3;
                let word = |hit: &dyn Fn(usize) -> bool, w: usize| {
                    (0..32).fold(0, |word, i| word | u32::from(hit(w * 32 + i)) << i)
                };
                let before: Vec<u32> = (0..words).map(|w| word(&hit, w)).chain([77]).collect();
                let mut hits = device.upload(&before)?;
                mask_hits(&stream, &bitmap, offset, count, &mut hits)?;
                let expected = (0..words).map(|w| word(&|i| hit(i) && valid(offset + i), w)).chain([77]);
                assert!(hits.to_vec()?.into_iter().eq(expected), "{count} bits from {offset} on {device}");
            }
            let error = mask_hits(&stream, &bitmap, 1, 160, &mut device.alloc(5)?).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the validity bitmap holds 5 elements, but 6 are needed; allocate at least 6"
            );
            assert!(mask_hits(&stream, &bitmap, 0, 33, &mut device.alloc(1)?).is_err());
        }
        Ok(())
    }
}
