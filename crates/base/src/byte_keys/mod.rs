//! Batches of byte strings, packed.

mod buf;
mod device;
mod range;

pub use buf::ByteKeysBuf;
pub use device::{DeviceKeys, DeviceNumber, OffsetBuffer};
pub use range::{ByteRange, ByteRanges};
pub use range::{Side, Sides};

use crate::parallel::*;
use crate::room::with_room;
use crate::{Error, Result};
use core::fmt;
use core::ops::Range;
use lanetree_layout::{FixedKey, MAX_KEY};

/// A batch of byte strings of any length, packed in Arrow's layout: one array with all bytes, and another with the
/// offset where each string begins. String *i* is `bytes[offsets[i]..offsets[i + 1]]`, so there is one more offset than
/// there are strings. Arrow's `Binary` and `Utf8` have 32-bit offsets, `LargeBinary` and `LargeUtf8` 64-bit ones; both
/// are used in place. Strings of one width need no offsets.
///
/// A borrowed view, cheap to copy; [`ByteKeysBuf`] owns its strings.
///
/// ```
/// use lanetree::ByteKeys;
///
/// # fn main() -> lanetree::Result<()> {
/// let keys = ByteKeys::new(&[0_u32, 3, 3, 7][..], b"oneNext")?;
/// assert_eq!(keys.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"Next"]);
/// assert_eq!(ByteKeys::fixed(4, b"fourfive")?.get(1), Some(&b"five"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct ByteKeys<'a> {
    offsets: Offsets<'a>,
    bytes: &'a [u8],
}

/// Where strings begin and end in their bytes.
#[derive(Clone, Copy, Debug)]
pub enum Offsets<'a> {
    /// 32-bit offsets, one more than there are strings.
    U32(&'a [u32]),
    /// 64-bit offsets, one more than there are strings.
    U64(&'a [u64]),
    /// Strings of one width, one after another.
    Fixed {
        /// Bytes of each.
        width: usize,
        /// How many there are.
        len: usize,
    },
}

impl<'a> From<&'a [u32]> for Offsets<'a> {
    fn from(offsets: &'a [u32]) -> Self {
        Self::U32(offsets)
    }
}

impl<'a> From<&'a [u64]> for Offsets<'a> {
    fn from(offsets: &'a [u64]) -> Self {
        Self::U64(offsets)
    }
}

impl<'a> ByteKeys<'a> {
    /// The strings between 32- or 64-bit offsets. The first offset need not be 0, nor the last one the number of bytes;
    /// an empty array of offsets means no strings.
    ///
    /// # Errors
    /// [`Error::OffsetOrder`] for an offset below the one before it, [`Error::OffsetBounds`] for one past the bytes;
    /// [`Error::KeyWidth`] for strings of one width that do not match the number of bytes; [`Error::BatchTooLarge`] for
    /// more than 2^32 - 1 empty strings, which take no memory.
    pub fn new(offsets: impl Into<Offsets<'a>>, bytes: &'a [u8]) -> Result<Self> {
        let offsets = offsets.into();
        match offsets {
            Offsets::U32(offsets) => check(offsets, bytes.len())?,
            Offsets::U64(offsets) => check(offsets, bytes.len())?,
            Offsets::Fixed { width, len } => {
                if width.checked_mul(len) != Some(bytes.len()) {
                    return Err(Error::KeyWidth { width, bytes: bytes.len() });
                }
                check_count(width, len)?;
            }
        }
        Ok(Self { offsets, bytes })
    }

    /// Splits `bytes` into strings of one width.
    ///
    /// # Errors
    /// [`Error::KeyWidth`] for a width of 0, or if the number of bytes is not a multiple of the width.
    pub fn fixed(width: usize, bytes: &'a [u8]) -> Result<Self> {
        let len = bytes.len().checked_div(width).ok_or(Error::KeyWidth { width, bytes: bytes.len() })?;
        Self::new(Offsets::Fixed { width, len }, bytes)
    }

    /// Strings.
    pub fn len(&self) -> usize {
        match self.offsets {
            Offsets::U32(offsets) => offsets.len().saturating_sub(1),
            Offsets::U64(offsets) => offsets.len().saturating_sub(1),
            Offsets::Fixed { len, .. } => len,
        }
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One string; `None` past the last.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// One string.
    ///
    /// # Panics
    /// If there is no such string.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let range = match self.offsets {
            Offsets::U32(offsets) => offsets[index] as usize..offsets[index + 1] as usize,
            Offsets::U64(offsets) => offsets[index] as usize..offsets[index + 1] as usize,
            Offsets::Fixed { width, .. } => index * width..(index + 1) * width,
        };
        &self.bytes[range]
    }

    /// The strings of a range of indexes.
    ///
    /// # Panics
    /// If it ends past the last string.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} strings", self.len());
        match self.offsets {
            Offsets::U32(offsets) if !offsets.is_empty() => {
                Self { offsets: Offsets::U32(&offsets[range.start..=range.end]), ..*self }
            }
            Offsets::U64(offsets) if !offsets.is_empty() => {
                Self { offsets: Offsets::U64(&offsets[range.start..=range.end]), ..*self }
            }
            Offsets::Fixed { width, .. } => {
                let offsets = Offsets::Fixed { width, len: range.len() };
                Self { offsets, bytes: &self.bytes[range.start * width..range.end * width] }
            }
            Offsets::U32(_) | Offsets::U64(_) => *self,
        }
    }

    /// All strings in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let keys = *self;
        (0..keys.len()).map(move |index| keys.at(index))
    }

    /// The offsets, or the width that replaces them.
    pub fn offsets(&self) -> Offsets<'a> {
        self.offsets
    }

    /// The bytes that offsets count in.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Decodes the strings to fixed-width keys: the inverse of [`ByteKeysBuf::encode`].
    ///
    /// # Errors
    /// [`Error::KeyLength`] for a string of another length; [`Error::Runtime`] if main memory has no room for the keys.
    pub fn decode<K: FixedKey>(&self) -> Result<Vec<K>> {
        let decode = |(index, key): (usize, &[u8])| match key.len() {
            len if len == K::WIDTH => Ok(K::read(key)),
            len => Err(Error::KeyLength { index, len, expected: K::WIDTH }),
        };
        let mut keys = with_room(self.len())?;
        for string in self.iter().enumerate() {
            keys.push(decode(string)?);
        }
        Ok(keys)
    }

    /// Checks that no string is longer than a key can be.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`] with the first one that is.
    pub fn check_lengths(&self) -> Result<()> {
        // All strings together rarely have that many bytes.
        if self.bytes.len() <= MAX_KEY || self.length_bounds().is_none_or(|(_, longest)| longest <= MAX_KEY) {
            return Ok(());
        }
        let index = (0..self.len()).find(|&index| self.at(index).len() > MAX_KEY).unwrap_or_default();
        Err(Error::KeyTooLong { index, len: self.at(index).len(), max: MAX_KEY })
    }

    /// The lengths of the shortest and the longest string; `None` without any.
    pub fn length_bounds(&self) -> Option<(usize, usize)> {
        if let Offsets::Fixed { width, len } = self.offsets {
            return (len > 0).then_some((width, width));
        }
        let lens = (0..self.len()).into_par_iter().with_min_len(1 << 14).map(|index| self.at(index).len());
        let bounds = lens.map(|len| (len, len)).reduce(|| (usize::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        (!self.is_empty()).then_some(bounds)
    }
}

/// Checks that strings of one width can be counted: empty ones take no memory, so there could be any number of them.
fn check_count(width: usize, len: usize) -> Result<()> {
    match u32::try_from(len) {
        Err(_) if width == 0 => Err(Error::BatchTooLarge { queries: len }),
        _ => Ok(()),
    }
}

impl fmt::Debug for ByteKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteKeys[{} of {} bytes]", self.len(), self.bytes.len())
    }
}

fn check<O: Copy + Into<u64> + Ord + Sync>(offsets: &[O], bytes: usize) -> Result<()> {
    /// Fewer are read through sooner than other threads have begun, above all if several callers ask for these.
    const PARALLEL: usize = 1 << 17;
    let descends = |pair: &[O]| pair[1] < pair[0];
    let descent = match offsets.len() < PARALLEL {
        true => offsets.windows(2).position(descends),
        false => offsets.par_windows(2).with_min_len(PARALLEL / 4).position_first(descends),
    };
    if let Some(before) = descent {
        let (previous, offset) = (offsets[before].into(), offsets[before + 1].into());
        return Err(Error::OffsetOrder { index: before + 1, previous, offset });
    }
    // Offsets ascend, so bisection finds the first one past the bytes.
    let index = offsets.partition_point(|&offset| offset.into() <= bytes as u64);
    match offsets.get(index) {
        Some(&offset) => Err(Error::OffsetBounds { index, offset: offset.into(), bytes }),
        None => Ok(()),
    }
}

/// A string as messages show it: printable characters as they are; a long string is cut.
pub fn show(key: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = key[..key.len().min(SHOWN)].escape_ascii();
    if key.len() > SHOWN { format!("\"{shown}\"... of {} bytes", key.len()) } else { format!("\"{shown}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_offsets_are_named() {
        let order = ByteKeys::new(&[0_u64, 5, 4, 6][..], b"sixsix").unwrap_err();
        assert_eq!(order.to_string(), "offsets[2] = 4 is below offsets[1] = 5: offsets must not descend");
        let bounds = ByteKeys::new(&[0_u32, 5, 9, 10][..], b"sixsix").unwrap_err();
        assert_eq!(
            bounds.to_string(),
            "offsets[2] = 9 is past the end of the bytes: there are 6, so no offset may be larger"
        );
        assert_eq!(
            ByteKeys::fixed(4, b"sixsix").unwrap_err().to_string(),
            "6 bytes are not keys of 4 bytes: give whole keys, of 1 to 2^32 - 1 bytes each"
        );
        assert!(ByteKeys::fixed(0, b"x").is_err());
        assert!(ByteKeys::new(Offsets::Fixed { width: usize::MAX, len: 2 }, b"x").is_err());
        let short = ByteKeys::fixed(3, b"sixsix").unwrap().decode::<u64>().unwrap_err();
        assert_eq!(short.to_string(), "keys[0] has 3 bytes, but a key of this type has 8");
    }

    #[test]
    fn parts_and_ends_of_batches() {
        let none = ByteKeys::new(&[][..] as &[u32], b"rest").unwrap();
        assert!(none.is_empty() && none.get(0).is_none() && none.slice(0..0).is_empty());
        assert_eq!(none.length_bounds(), None);
        let keys = ByteKeys::new(&[1_u64, 1, 3, 6][..], b"-aabbb-").unwrap();
        assert_eq!((keys.get(0), keys.get(2), keys.get(3)), (Some(&b""[..]), Some(&b"bbb"[..]), None));
        assert_eq!(keys.slice(1..3).iter().collect::<Vec<_>>(), [&b"aa"[..], b"bbb"]);
        assert_eq!(keys.length_bounds(), Some((0, 3)));
        let fixed = ByteKeys::fixed(2, b"aabbcc").unwrap();
        assert_eq!(fixed.slice(1..3).iter().collect::<Vec<_>>(), [b"bb", b"cc"]);
        assert_eq!(format!("{fixed:?}"), "ByteKeys[3 of 6 bytes]");
    }

    #[test]
    fn strings_are_shown_printable_and_short() {
        assert_eq!(show(b"a\0\xff"), r#""a\x00\xff""#);
        assert_eq!(show(&[b'x'; 100]), format!("\"{}\"... of 100 bytes", "x".repeat(40)));
    }
}
