//! Builds.

use crate::contents::Contents;
use crate::{MOST_PAIRS, MOST_VALUES, MultiMap};
use lanetree_frame::error::same_device;
use lanetree_frame::fixed::pairs::{check_ascending, check_lengths};
use lanetree_frame::{Buffer, Device, Error, Nulls, Result, Stream, Validity};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_primitives::{RadixSortScratch, radix_sort_pairs};

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// Builds a map over pairs in any order. Values of equal keys are in the order of the input.
    ///
    /// The pairs are copied to the device and sorted there, which takes the memory of the pairs three times. Then, beside the map,
    /// it is a key and 8 bytes for each pair, and 16 bytes for each distinct key.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::TooManyValues`] for a key with more than [`MOST_VALUES`];
    /// [`Error::TooManyElements`] for more than [`MOST_PAIRS`] pairs; [`Error::Runtime`] if the device has no room.
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::build_limited(device, keys, values, MOST_VALUES)
    }

    pub(crate) fn build_limited(device: &Device, keys: &[K], values: &[V], most: u64) -> Result<Self> {
        check_lengths(keys, values)?;
        check_len(keys.len())?;
        let (stream, len) = (device.stream()?, keys.len());
        let (keys, values) = sorted(&stream, (&device.upload(keys)?, &device.upload(values)?), len)?;
        let contents = Contents::of_sorted(&stream, keys, len, values, most)?;
        Ok(Self { device: device.clone(), contents, most })
    }

    /// Builds a map over the pairs whose key is not null, in any order: all pairs of a key are kept. Otherwise like
    /// [`MultiMap::build`].
    ///
    /// # Errors
    /// As [`MultiMap::build`]; [`Error::OutputLength`] for a bitmap that is not of as many keys; [`Error::NullKey`] for a null key
    /// that is to be refused.
    pub fn build_valid(
        device: &Device,
        keys: &[K],
        values: &[V],
        validity: Validity<'_>,
        nulls: Nulls,
    ) -> Result<Self> {
        check_lengths(keys, values)?;
        validity.check(keys.len())?;
        match (validity.nulls().next(), nulls) {
            (None, _) => Self::build(device, keys, values),
            (Some(index), Nulls::Refuse) => Err(Error::NullKey { index }),
            (Some(_), Nulls::Skip) => Self::build(device, &validity.select(keys)?, &validity.select(values)?),
        }
    }

    /// Builds a map over pairs in ascending order of their keys. Values of equal keys are in the order of the input.
    ///
    /// # Errors
    /// As [`MultiMap::build`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        check_lengths(keys, values)?;
        check_ascending(keys)?;
        check_len(keys.len())?;
        let stream = device.stream()?;
        let (sorted, values) = (device.upload(keys)?, device.upload(values)?);
        let contents = Contents::of_sorted(&stream, sorted, keys.len(), values, MOST_VALUES)?;
        Ok(Self { device: device.clone(), contents, most: MOST_VALUES })
    }

    /// Builds a map over the first `len` pairs of two buffers, in any order; otherwise like [`MultiMap::build`]. Returns when
    /// the map is complete, whose memory, and later what its calls in host form take, comes from the stream's device.
    ///
    /// # Errors
    /// As [`MultiMap::build`]; [`Error::OutputLength`] for buffers that are too small; [`Error::Runtime`] for buffers of
    /// another device than the stream's.
    pub fn build_on(stream: &Stream, keys: &Buffer<K>, values: &Buffer<V>, len: usize) -> Result<Self> {
        for (what, actual, device) in
            [("the keys' buffer", keys.len(), keys.device()), ("the values' buffer", values.len(), values.device())]
        {
            if actual < len {
                return Err(Error::OutputLength { what, expected: len, actual });
            }
            same_device(stream.device(), device, what)?;
        }
        check_len(len)?;
        let (keys, values) = sorted(stream, (keys, values), len)?;
        let contents = Contents::of_sorted(stream, keys, len, values, MOST_VALUES)?;
        Ok(Self { device: stream.device().clone(), contents, most: MOST_VALUES })
    }
}

/// The first `len` pairs in ascending order of their keys, and of equal keys in their own order: in the stream's order.
pub(crate) fn sorted<K: AnyKey, V: Word>(
    stream: &Stream,
    pairs: (&Buffer<K>, &Buffer<V>),
    len: usize,
) -> Result<(Buffer<K>, Buffer<V>)> {
    let device = stream.device();
    let (mut keys, mut values) = (device.alloc(len)?, device.alloc(len)?);
    let mut scratch = RadixSortScratch::for_pairs(device, len)?;
    radix_sort_pairs(stream, pairs, len, 0..K::Bits::BITS, (&mut keys, &mut values), &mut scratch)?;
    Ok((keys, values))
}

/// # Errors
/// [`Error::TooManyElements`].
pub(crate) fn check_len(len: usize) -> Result<()> {
    if len as u64 > MOST_PAIRS { Err(Error::TooManyElements { elements: len }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_keys_are_left_out_or_refused_and_all_other_pairs_kept() {
        let (keys, values) = ([7_u64, 5, 7, 0, 7], [1_u32, 2, 3, 4, 5]);
        let bits = [0b1_0110];
        for device in [Device::host(), Device::emulated()] {
            let build =
                |nulls| MultiMap::build_valid(&device, &keys, &values, Validity::new(&bits, 0, 5).unwrap(), nulls);
            assert_eq!(build(Nulls::Skip).unwrap().pairs().unwrap(), [(5, 2), (7, 3), (7, 5)]);
            assert!(matches!(build(Nulls::Refuse), Err(Error::NullKey { index: 0 })));
            let all = Validity::new(&[u8::MAX], 0, 5).unwrap();
            let map = MultiMap::build_valid(&device, &keys, &values, all, Nulls::Refuse).unwrap();
            assert_eq!(map.pairs().unwrap(), [(0, 4), (5, 2), (7, 1), (7, 3), (7, 5)]);
            let short = Validity::new(&bits, 0, 4).unwrap();
            let refused = MultiMap::build_valid(&device, &keys, &values, short, Nulls::Skip);
            assert!(matches!(refused, Err(Error::OutputLength { .. })));
        }
    }

    #[test]
    fn a_key_with_too_many_values_is_named() {
        for device in [Device::host(), Device::emulated()] {
            let build = |keys: &[i32]| MultiMap::build_limited(&device, keys, &vec![1_u32; keys.len()], 3);
            let text = "the key -7 would have 4 values: a key of a multi-map has at most 3; split it into several";
            assert_eq!(build(&[-7, 9, -7, 9, 9, -7, 9, 9, -7]).unwrap_err().to_string(), text);
            let mut map = build(&[-7, 9, -7, 9, 9, -7]).unwrap();
            // Too many only together, and in the batch alone.
            assert_eq!(map.insert_many(&[5, -7], &[1, 1]).unwrap_err().to_string(), text);
            let error = map.insert_many(&[6; 5], &[1; 5]).unwrap_err().to_string();
            assert_eq!(error, text.replace("-7", "6").replace("4 values", "5 values"));
            assert_eq!(map.count_many(&[-7, 9, 5, 6]).unwrap(), [3, 3, 0, 0]);
            map.insert_many(&[5, 6, 6], &[1, 2, 3]).unwrap();
            assert_eq!(map.count_many(&[-7, 9, 5, 6]).unwrap(), [3, 3, 1, 2]);
        }
    }
}
