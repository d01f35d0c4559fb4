//! Batches of byte strings that own their memory.

use super::{ByteKeys, Offsets};
use core::fmt;
use lanetree_layout::cuart::FixedKey;
use rayon::prelude::*;

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
    /// One more than there are strings, from 0 on.
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
    /// No strings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The strings of keys of a fixed width, in whose order the strings are: integers of any sign, arrays of
    /// bytes. In parallel.
    pub fn encode<K: FixedKey>(keys: &[K]) -> Self {
        let mut bytes = vec![0; keys.len() * K::WIDTH];
        if K::WIDTH > 0 {
            let strings = bytes.par_chunks_exact_mut(K::WIDTH).with_min_len(1 << 12);
            strings.zip(keys).for_each(|(string, key)| key.write(string));
        }
        Self { bytes, ends: Ends::Fixed { width: K::WIDTH, len: keys.len() } }
    }

    /// The strings of bytes and the offsets where each begins and the last one ends, which ascend from 0 to the
    /// number of bytes.
    pub(crate) fn from_parts(bytes: Vec<u8>, offsets: Vec<u64>) -> Self {
        debug_assert!(offsets.is_sorted() && offsets.last() == Some(&(bytes.len() as u64)));
        Self { bytes, ends: Ends::Offsets(offsets) }
    }

    /// The strings `keys[i]` for each `i` of `picks`, in parallel.
    pub(crate) fn pick(keys: ByteKeys<'_>, picks: &[usize]) -> Self {
        const TASK: usize = 1 << 12;
        if let Offsets::Fixed { width, .. } = keys.offsets() {
            let mut bytes = vec![0; picks.len() * width];
            if width > 0 {
                let strings = bytes.par_chunks_exact_mut(width).with_min_len(TASK);
                strings.zip(picks).for_each(|(string, &pick)| string.copy_from_slice(keys.at(pick)));
            }
            return Self { bytes, ends: Ends::Fixed { width, len: picks.len() } };
        }
        let mut offsets = Vec::with_capacity(picks.len() + 1);
        offsets.push(0);
        let mut end = 0;
        offsets.extend(picks.iter().map(|&pick| {
            end += keys.at(pick).len() as u64;
            end
        }));
        let mut bytes = vec![0; end as usize];
        let mut tasks = Vec::with_capacity(picks.len().div_ceil(TASK));
        let mut rest = &mut bytes[..];
        for (task, picks) in picks.chunks(TASK).enumerate() {
            let len = offsets[task * TASK + picks.len()] - offsets[task * TASK];
            let part;
            (part, rest) = rest.split_at_mut(len as usize);
            tasks.push((picks, part));
        }
        tasks.into_par_iter().for_each(|(picks, mut part)| {
            for &pick in picks {
                let key = keys.at(pick);
                let string;
                (string, part) = part.split_at_mut(key.len());
                string.copy_from_slice(key);
            }
        });
        Self { bytes, ends: Ends::Offsets(offsets) }
    }

    /// A copy of the strings in the order of their bytes at `depth` (0 where they have none), otherwise in
    /// theirs; and for each the index that it had. There must be fewer than 2^32.
    pub(crate) fn part(keys: ByteKeys<'_>, depth: usize) -> (Self, Vec<u32>) {
        match keys.offsets() {
            Offsets::Fixed { width: 8, .. } if depth < 8 => part_fixed::<8>(keys.bytes(), depth),
            Offsets::Fixed { width: 16, .. } if depth < 16 => part_fixed::<16>(keys.bytes(), depth),
            Offsets::Fixed { width: 32, .. } if depth < 32 => part_fixed::<32>(keys.bytes(), depth),
            _ => Self::part_any(keys, depth),
        }
    }

    fn part_any(keys: ByteKeys<'_>, depth: usize) -> (Self, Vec<u32>) {
        let byte = |key: &[u8]| usize::from(key.get(depth).copied().unwrap_or(0));
        // First how many strings and bytes each part has, then where the next of it goes.
        let mut places = [(0, 0); 256];
        for key in keys.iter() {
            let place = &mut places[byte(key)];
            *place = (place.0 + 1, place.1 + key.len());
        }
        let mut before = (0, 0);
        for place in &mut places {
            (*place, before) = (before, (before.0 + place.0, before.1 + place.1));
        }
        let (mut order, mut bytes) = (vec![0; keys.len()], vec![0; before.1]);
        let fixed = matches!(keys.offsets(), Offsets::Fixed { .. });
        let mut offsets = vec![0; if fixed { 0 } else { keys.len() + 1 }];
        for (index, key) in (0..).zip(keys.iter()) {
            let place = &mut places[byte(key)];
            let end = place.1 + key.len();
            order[place.0] = index;
            bytes[place.1..end].copy_from_slice(key);
            if !fixed {
                offsets[place.0 + 1] = end as u64;
            }
            *place = (place.0 + 1, end);
        }
        let ends = match keys.offsets() {
            Offsets::Fixed { width, len } => Ends::Fixed { width, len },
            Offsets::U32(_) | Offsets::U64(_) => Ends::Offsets(offsets),
        };
        (Self { bytes, ends }, order)
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

    /// Appends all strings of another batch.
    pub(crate) fn append(&mut self, other: &Self) {
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

    /// One string; `None` behind the last.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        ByteKeys::from(self).get(index)
    }

    /// All strings in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        ByteKeys::from(self).iter()
    }
}

/// [`ByteKeysBuf::part`] for keys of a width that the compiler knows: no calls to copy them, a third of the
/// time.
fn part_fixed<const W: usize>(bytes: &[u8], depth: usize) -> (ByteKeysBuf, Vec<u32>) {
    let (keys, _) = bytes.as_chunks::<W>();
    let mut places = [0_usize; 256];
    for key in keys {
        places[usize::from(key[depth])] += 1;
    }
    let mut before = 0;
    for place in &mut places {
        (*place, before) = (before, before + *place);
    }
    let (mut order, mut parted) = (vec![0; keys.len()], vec![[0; W]; keys.len()]);
    for (index, key) in (0..).zip(keys) {
        let place = &mut places[usize::from(key[depth])];
        (order[*place], parted[*place]) = (index, *key);
        *place += 1;
    }
    (ByteKeysBuf { bytes: parted.into_flattened(), ends: Ends::Fixed { width: W, len: keys.len() } }, order)
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
    fn parts_are_in_the_order_of_one_byte() {
        let words: ByteKeysBuf = ["xb", "xa", "x", "xbb", "xaa", ""].into_iter().collect();
        let (parted, order) = ByteKeysBuf::part((&words).into(), 1);
        assert!(parted.iter().eq([&b"x"[..], b"", b"xa", b"xaa", b"xb", b"xbb"]));
        assert_eq!(order, [2, 5, 1, 4, 0, 3]);
        let numbers: Vec<u64> = (0..1000).map(|i| i * 7919 % 1000).collect();
        for depth in [6, 7, 8] {
            let numbers = ByteKeysBuf::encode(&numbers);
            let strings: ByteKeysBuf = numbers.iter().collect();
            let parts = [&numbers, &strings].map(|keys| ByteKeysBuf::part(keys.into(), depth));
            assert!(parts[0] == parts[1], "however they are packed");
            assert!(parts[0].0.iter().is_sorted_by_key(|key| key.get(depth).copied()));
        }
    }

    #[test]
    fn picks_keep_their_order() {
        let picks: Vec<usize> = (0..10_000).map(|i| i * 7 % 3).collect();
        for keys in [["a", "bb", ""].into_iter().collect(), ByteKeysBuf::encode(&[7_u64, 8, 9])] {
            let picked = ByteKeysBuf::pick((&keys).into(), &picks);
            assert!(picked.iter().eq(picks.iter().map(|&pick| keys.get(pick).unwrap())));
        }
    }
}
