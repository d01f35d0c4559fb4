//! Batches of byte strings that own their memory.

use super::{ByteKeys, Offsets, check_count};
use crate::Result;
use crate::parallel::*;
use crate::room::{collected, make_room, with_room, zeroed};
use core::fmt;
use lanetree_layout::FixedKey;

/// Strings of a task.
const TASK: usize = 1 << 12;

/// Byte strings, packed, and owned; [`ByteKeys`] borrows from it.
///
/// ```
/// use lanetree::{ByteKeys, ByteKeysBuf};
///
/// let words: ByteKeysBuf = ["ox", "", "yak"].into_iter().collect();
/// assert_eq!(ByteKeys::from(&words).get(2), Some(&b"yak"[..]));
///
/// // Numbers become strings of the same order.
/// let numbers = ByteKeysBuf::encode(&[-1_i32, 1]);
/// assert_eq!(numbers.get(0), Some(&[0x7f, 0xff, 0xff, 0xff][..]));
/// assert_eq!(ByteKeys::from(&numbers).decode::<i32>().unwrap(), [-1, 1]);
/// ```
#[derive(Clone, Default)]
pub struct ByteKeysBuf {
    bytes: Vec<u8>,
    ends: Ends,
}

#[derive(Clone)]
enum Ends {
    /// One more offset than there are strings; the first one is 0.
    Offsets(Vec<u64>),
    Fixed {
        width: usize,
        len: usize,
    },
}

impl Default for Ends {
    fn default() -> Self {
        Self::Offsets(vec![0])
    }
}

impl ByteKeysBuf {
    /// An empty batch of strings. Allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The strings of fixed-width keys (signed and unsigned integers, byte arrays), in the order of the keys. Runs in
    /// parallel.
    ///
    /// # Panics
    /// For more than 2^32 - 1 empty arrays.
    pub fn encode<K: FixedKey>(keys: &[K]) -> Self {
        assert!(check_count(K::WIDTH, keys.len()).is_ok(), "{} keys of no bytes", keys.len());
        let mut bytes = vec![0; keys.len() * K::WIDTH];
        if K::WIDTH > 0 {
            let strings = bytes.par_chunks_exact_mut(K::WIDTH).with_min_len(1 << 12);
            strings.zip(keys).for_each(|(string, key)| key.write(string));
        }
        Self { bytes, ends: Ends::Fixed { width: K::WIDTH, len: keys.len() } }
    }

    /// The strings, given all bytes and the offsets where each string begins and the last one ends. The offsets ascend
    /// from 0 to the number of bytes.
    pub fn from_parts(bytes: Vec<u8>, offsets: Vec<u64>) -> Self {
        debug_assert!(offsets.is_sorted() && offsets.last() == Some(&(bytes.len() as u64)));
        Self { bytes, ends: Ends::Offsets(offsets) }
    }

    /// The strings `keys[i]` for each `i` of `picks`, in parallel.
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for them.
    pub fn pick(keys: ByteKeys<'_>, picks: &[usize]) -> Result<Self> {
        if let Offsets::Fixed { width, .. } = keys.offsets() {
            let mut bytes = zeroed(picks.len() * width)?;
            if width > 0 {
                let strings = bytes.par_chunks_exact_mut(width).with_min_len(TASK);
                strings.zip(picks).for_each(|(string, &pick)| string.copy_from_slice(keys.at(pick)));
            }
            return Ok(Self { bytes, ends: Ends::Fixed { width, len: picks.len() } });
        }
        Self::gather(picks.len(), |index| keys.at(picks[index]))
    }

    /// Strings chosen by index, copied in parallel.
    ///
    /// # Errors
    /// As [`ByteKeysBuf::pick`].
    pub fn gather<'k>(len: usize, string: impl Fn(usize) -> &'k [u8] + Sync) -> Result<Self> {
        let mut offsets = with_room(len + 1)?;
        offsets.push(0);
        let mut end = 0;
        offsets.extend((0..len).map(|index| {
            end += string(index).len() as u64;
            end
        }));
        let mut bytes = zeroed(end as usize)?;
        let mut tasks = with_room(len.div_ceil(TASK))?;
        let mut rest = &mut bytes[..];
        for first in (0..len).step_by(TASK) {
            let indexes = first..len.min(first + TASK);
            let part;
            (part, rest) = rest.split_at_mut((offsets[indexes.end] - offsets[first]) as usize);
            tasks.push((indexes, part));
        }
        tasks.into_par_iter().for_each(|(indexes, mut part)| {
            for index in indexes {
                let from = string(index);
                let to;
                (to, part) = part.split_at_mut(from.len());
                to.copy_from_slice(from);
            }
        });
        Ok(Self { bytes, ends: Ends::Offsets(offsets) })
    }

    /// Appends a string.
    pub fn push(&mut self, key: impl AsRef<[u8]>) {
        if let Ends::Fixed { width, len } = self.ends {
            self.ends = Ends::Offsets((0..=len).map(|index| (index * width) as u64).collect());
        }
        self.bytes.extend_from_slice(key.as_ref());
        if let Ends::Offsets(offsets) = &mut self.ends {
            offsets.push(self.bytes.len() as u64);
        }
    }

    /// [`ByteKeysBuf::push`], unless there is no memory.
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room.
    pub fn try_push(&mut self, key: &[u8]) -> Result<()> {
        make_room(&mut self.bytes, key.len())?;
        match &mut self.ends {
            Ends::Offsets(offsets) => make_room(offsets, 1)?,
            Ends::Fixed { width, len } => {
                let (width, len) = (*width, *len);
                self.ends = Ends::Offsets(collected((0..=len + 1).map(|index| (index.min(len) * width) as u64))?);
                if let Ends::Offsets(offsets) = &mut self.ends {
                    offsets.pop();
                }
            }
        }
        self.push(key);
        Ok(())
    }

    /// Copies of all strings of some batches, one batch after another.
    ///
    /// # Errors
    /// As [`ByteKeysBuf::try_push`].
    pub fn concat<'k>(batches: impl Iterator<Item = &'k Self> + Clone) -> Result<Self> {
        let strings = batches.clone().map(Self::len).sum::<usize>();
        let (mut offsets, mut bytes) =
            (with_room(strings + 1)?, with_room(batches.clone().map(|own| own.bytes.len()).sum())?);
        offsets.push(0);
        for own in batches {
            let before = bytes.len() as u64;
            bytes.extend_from_slice(&own.bytes);
            match &own.ends {
                Ends::Offsets(ends) => offsets.extend(ends[1..].iter().map(|end| before + end)),
                Ends::Fixed { width, len } => offsets.extend((1..=*len).map(|end| before + (end * width) as u64)),
            }
        }
        Ok(Self::from_parts(bytes, offsets))
    }

    /// Appends all strings of another batch, in their order.
    pub fn append(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        match (&mut self.ends, &other.ends) {
            (Ends::Offsets(offsets), Ends::Offsets(others)) => {
                let end = self.bytes.len() as u64;
                offsets.extend(others[1..].iter().map(|offset| end + offset));
                self.bytes.extend_from_slice(&other.bytes);
            }
            _ => self.extend(other.iter()),
        }
    }

    /// Strings.
    pub fn len(&self) -> usize {
        ByteKeys::from(self).len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One string; `None` past the last.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        ByteKeys::from(self).get(index)
    }

    /// All strings in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        ByteKeys::from(self).iter()
    }
}

impl<'a> From<&'a ByteKeysBuf> for ByteKeys<'a> {
    fn from(keys: &'a ByteKeysBuf) -> Self {
        let offsets = match &keys.ends {
            Ends::Offsets(offsets) => Offsets::U64(offsets),
            Ends::Fixed { width, len } => Offsets::Fixed { width: *width, len: *len },
        };
        // Valid by construction: no check.
        Self { offsets, bytes: &keys.bytes }
    }
}

impl<K: AsRef<[u8]>> FromIterator<K> for ByteKeysBuf {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut buf = Self::new();
        buf.extend(keys);
        buf
    }
}

impl<K: AsRef<[u8]>> Extend<K> for ByteKeysBuf {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        keys.into_iter().for_each(|key| self.push(key));
    }
}

/// Of the same strings, however they are packed.
impl PartialEq for ByteKeysBuf {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for ByteKeysBuf {}

impl fmt::Debug for ByteKeysBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteKeys::from(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_one_width_take_others_too() {
        let mut keys = ByteKeysBuf::encode(&[*b"ab", *b"cd"]);
        keys.push("e");
        let expected: ByteKeysBuf = ["ab", "cd", "e"].into_iter().collect();
        assert_eq!(keys, expected);
        assert_eq!(format!("{keys:?}"), "ByteKeys[3 of 5 bytes]");
        assert_eq!(ByteKeysBuf::encode(&[[0_u8; 0]; 3]).len(), 3, "keys of no bytes are keys");
        assert!(ByteKeysBuf::new().is_empty());
    }

    #[test]
    fn picks_keep_their_order() {
        let picks: Vec<usize> = (0..10_000).map(|i| i * 7 % 3).collect();
        for keys in [["a", "bb", ""].into_iter().collect(), ByteKeysBuf::encode(&[7_u64, 8, 9])] {
            let picked = ByteKeysBuf::pick((&keys).into(), &picks).unwrap();
            assert!(picked.iter().eq(picks.iter().map(|&pick| keys.get(pick).unwrap())));
        }
    }
}
