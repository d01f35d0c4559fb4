//! Keys that are byte strings.

use crate::model::Range;
use lanetree::{ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, Word};

/// Bytes that the strings of a family have in common: on both sides of the lengths of every leaf, and of what a node
/// holds of its path.
const COMMON: [usize; 8] = [0, 1, 3, 7, 12, 14, 31, 40];

/// The string of a number: neighbours share long beginnings, and some are prefixes of others.
pub(super) fn string(number: u16) -> Vec<u8> {
    let (family, low) = (number >> 8 & 7, (number % 256) as u8);
    let mut string = vec![b'a' + family as u8 % 2; COMMON[usize::from(family)]];
    match low {
        0 => {}
        // Zero bytes among them.
        1..=31 => string.push(low - 1),
        _ => string.extend([low / 16, low % 16]),
    }
    if number >> 11 & 7 == 7 {
        // Longer ones, below those before.
        string.extend([7; 9]);
    }
    string
}

pub(super) fn packed<'k>(keys: impl IntoIterator<Item = &'k Vec<u8>>) -> ByteKeysBuf {
    keys.into_iter().collect()
}

pub(super) fn byte_range((start, end, limit): &Range<Vec<u8>>) -> ByteRange<'_> {
    ByteRange::new(start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice)).limit(limit.unwrap_or(u64::MAX))
}

pub(super) fn pairs<V: Word>((keys, values): (ByteKeys<'_>, &[V])) -> Vec<(Vec<u8>, u64)> {
    keys.iter().map(<[u8]>::to_vec).zip(values.iter().map(|value| value.widen())).collect()
}

pub(super) fn all_pairs<V: Word>(found: &ByteRanges<V>) -> Vec<Vec<(Vec<u8>, u64)>> {
    found.iter().map(pairs).collect()
}

pub(super) fn neighbors<V: Word>(found: Vec<Option<(Vec<u8>, V)>>) -> Vec<Option<(Vec<u8>, u64)>> {
    found.into_iter().map(|pair| pair.map(|(key, value)| (key, value.widen()))).collect()
}

pub(super) fn values<V: Word>(found: Vec<Option<V>>) -> Vec<Option<u64>> {
    found.into_iter().map(|value| value.map(Word::widen)).collect()
}
