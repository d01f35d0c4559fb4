//! The options of a map, and its builds.

use crate::contents::{Contents, Counted};
use crate::options::Options;
use crate::{MOST_PAIRS, MultiMap};
use core::borrow::Borrow;
use core::marker::PhantomData;
use lanetree_frame::error::check_buffer;
use lanetree_frame::fixed::pairs::{check_ascending, check_lengths, columns};
use lanetree_frame::{Buffer, Device, DeviceKind, Error, Nulls, Result, Stream, Validity};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_primitives::{BuildScratch, RadixSortScratch, radix_sort};

/// Options of a map, and its builds.
///
/// ```
/// use lanetree::{Device, MultiMap, UpdatePath};
///
/// # fn main() -> lanetree::Result<()> {
/// // Room for half as many values again, which batches insert in place.
/// let builder = MultiMap::builder().room(0.5).fill(0.7);
/// let mut map = builder.build(&Device::emulated(), &[5_u64, 3, 5, 9], &[50_u32, 30, 51, 90])?;
/// assert_eq!(map.insert_many(&[3], &[31])?.path, UpdatePath::InPlace);
/// assert_eq!(map.get_all_many(&[3, 5])?.values, [30, 31, 50, 51]);
/// // Ranks, ranges and scans need the values in the order of the keys.
/// assert!(map.lower_bound_many(&[5]).is_err());
/// map.restore_order()?;
/// assert_eq!(map.lower_bound_many(&[5])?, [2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct Builder<K, V> {
    options: Options<K>,
    words: PhantomData<V>,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { options: Options::default(), words: PhantomData }
    }
}

impl<K: AnyKey, V: Word> Builder<K, V> {
    pub(crate) fn of(options: Options<K>) -> Self {
        Self { options, words: PhantomData }
    }

    /// The part of each bucket of keys that a build fills, in (0, 1]; 1 by default. With 0.7, inserts in place find room for new
    /// keys ([`lane_tree::Builder::fill`](lanetree_lane_tree::Builder::fill)).
    #[must_use]
    pub fn fill(mut self, fill: f64) -> Self {
        self.options.tree = self.options.tree.fill(fill);
        self
    }

    /// Most nodes of the tree of keys that its top table leads to, from 1 to 16384, the default; with more, there is a
    /// level above. Kernels copy the table to shared memory: 8 KiB and 4 bytes per node. See
    /// [`lane_tree::Builder::table_nodes`](lanetree_lane_tree::Builder::table_nodes).
    #[must_use]
    pub fn table_nodes(mut self, nodes: u32) -> Self {
        self.options.tree = self.options.tree.table_nodes(nodes);
        self
    }

    /// Room for values that are inserted in place, as a part of the values that a build has, from 0 to 16; 0 by default. With room,
    /// [`insert_many`](MultiMap::insert_many) changes what a batch touches and no more; the [module](crate) says what that costs. On the host
    /// batches are in place without it: a larger number makes rebuilds rarer.
    #[must_use]
    pub fn room(mut self, room: f64) -> Self {
        self.options.room = room;
        self
    }

    /// Most values of a key.
    #[cfg(test)]
    pub(crate) fn most(mut self, most: u64) -> Self {
        self.options.most = most;
        self
    }

    /// Builds a map over pairs in any order. Values of equal keys are in the order of the input.
    ///
    /// The pairs are copied to the device and sorted there, which takes the memory of the pairs three times. After
    /// that, in addition to the map, a key and 8 bytes per pair, and 16 bytes per distinct key.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::Fill`] and [`Error::OptionValue`] for options that no map has; [`Error::TooManyValues`]
    /// for a key with more than [`MOST_VALUES`](crate::MOST_VALUES); [`Error::TooManyElements`] for more than [`MOST_PAIRS`] pairs;
    /// [`Error::Runtime`] if the device has no room.
    pub fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<MultiMap<K, V>> {
        check_lengths(keys, values)?;
        self.check(keys.len())?;
        self.build_on(&device.stream()?, &device.upload(keys)?, &device.upload(values)?, keys.len())
    }

    /// Builds a map over the pairs whose key is not null, in any order: all pairs of a key are kept. Otherwise like
    /// [`Builder::build`].
    ///
    /// # Errors
    /// As [`Builder::build`]; [`Error::OutputLength`] for a bitmap that is not of as many keys; [`Error::NullKey`] for a null key
    /// that is to be refused.
    pub fn build_valid(
        &self,
        device: &Device,
        keys: &[K],
        values: &[V],
        validity: Validity<'_>,
        nulls: Nulls,
    ) -> Result<MultiMap<K, V>> {
        check_lengths(keys, values)?;
        validity.check(keys.len())?;
        match (validity.nulls().next(), nulls) {
            (None, _) => self.build(device, keys, values),
            (Some(index), Nulls::Refuse) => Err(Error::NullKey { index }),
            (Some(_), Nulls::Skip) => self.build(device, &validity.select(keys)?, &validity.select(values)?),
        }
    }

    /// Builds a map over pairs in ascending order of their keys. Values of equal keys are in the order of the input.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted(&self, device: &Device, keys: &[K], values: &[V]) -> Result<MultiMap<K, V>> {
        check_lengths(keys, values)?;
        check_ascending(keys)?;
        self.check(keys.len())?;
        let mut own = device.alloc(self.options.positions(device, values.len()))?;
        own.copy_range_from(0, values)?;
        self.of_sorted(&device.stream()?, device.upload(keys)?, own, keys.len())
    }

    /// Builds a map over the first `len` pairs of two buffers, in any order; otherwise like [`Builder::build`]. Returns when
    /// the map is complete, whose memory, and later what its calls in host form take, comes from the stream's device.
    ///
    /// # Errors
    /// As [`Builder::build`]; [`Error::OutputLength`] for buffers that are too small; [`Error::Runtime`] for buffers of
    /// another device than the stream's.
    pub fn build_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        len: usize,
    ) -> Result<MultiMap<K, V>> {
        self.check_buffers(stream, (keys, values), len)?;
        let (keys, values) = sorted(stream, (keys, values), len, self.options.positions(stream.device(), len))?;
        self.of_sorted(stream, keys, values, len)
    }

    /// Builds a map over the first `len` pairs of two buffers, in ascending order of their keys; otherwise like
    /// [`Builder::build_on`].
    ///
    /// # Errors
    /// As [`Builder::build_on`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        len: usize,
    ) -> Result<MultiMap<K, V>> {
        self.check_buffers(stream, (keys, values), len)?;
        match keys.as_slice().filter(|_| stream.device().kind() == DeviceKind::Host) {
            Some(keys) => check_ascending(&keys[..len])?,
            None => drop(BuildScratch::<K, V>::for_sorted(stream.device())?.ascending(stream, keys, len)?),
        }
        let mut own = stream.device().alloc(self.options.positions(stream.device(), len))?;
        own.copy_from_buffer(stream, 0, values, 0..len)?;
        self.of_sorted(stream, keys, own, len)
    }

    fn of_sorted(
        &self,
        stream: &Stream,
        keys: impl Borrow<Buffer<K>>,
        values: Buffer<V>,
        len: usize,
    ) -> Result<MultiMap<K, V>> {
        let counted = Counted::runs(stream, keys.borrow(), len)?;
        // Its memory is free for the tree, if it is not the caller's.
        drop(keys);
        let (device, options) = (stream.device().clone(), self.options);
        let contents = Contents::of(stream, &counted, (values, len as u64), &options)?;
        Ok(MultiMap::of(device, contents, options))
    }

    fn check(&self, len: usize) -> Result<()> {
        self.options.check()?;
        check_len(len)
    }

    fn check_buffers(&self, stream: &Stream, (keys, values): (&Buffer<K>, &Buffer<V>), len: usize) -> Result<()> {
        check_buffer(stream.device(), "the keys' buffer", len, keys)?;
        check_buffer(stream.device(), "the values' buffer", len, values)?;
        self.check(len)
    }
}

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// A builder with the default options, to change them before a build.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Builds a map over pairs in any order, with the default options. Values of equal keys are in the order of the input.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// Builds a map over pairs in any order; the values of a key keep their order. Copies keys and values apart first;
    /// otherwise like [`MultiMap::build`].
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_pairs(device: &Device, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let (keys, values) = columns(pairs)?;
        Self::build(device, &keys, &values)
    }

    /// Builds a map over the pairs whose key is not null, with the default options.
    ///
    /// # Errors
    /// As [`Builder::build_valid`].
    pub fn build_valid(
        device: &Device,
        keys: &[K],
        values: &[V],
        validity: Validity<'_>,
        nulls: Nulls,
    ) -> Result<Self> {
        Self::builder().build_valid(device, keys, values, validity, nulls)
    }

    /// Builds a map over pairs in ascending order of their keys, with the default options.
    ///
    /// # Errors
    /// As [`Builder::build_sorted`].
    pub fn build_sorted(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build_sorted(device, keys, values)
    }

    /// Builds a map over the first `len` pairs of two buffers, in any order, with the default options.
    ///
    /// # Errors
    /// As [`Builder::build_on`].
    pub fn build_on(stream: &Stream, keys: &Buffer<K>, values: &Buffer<V>, len: usize) -> Result<Self> {
        Self::builder().build_on(stream, keys, values, len)
    }

    /// Builds a map over the first `len` pairs of two buffers, in ascending order of their keys, with the default options.
    ///
    /// # Errors
    /// As [`Builder::build_sorted_on`].
    pub fn build_sorted_on(stream: &Stream, keys: &Buffer<K>, values: &Buffer<V>, len: usize) -> Result<Self> {
        Self::builder().build_sorted_on(stream, keys, values, len)
    }
}

/// The first `len` pairs in ascending order of their keys, and of equal keys in their own order: in the stream's order. The
/// values' buffer has `positions` elements.
pub(crate) fn sorted<K: AnyKey, V: Word>(
    stream: &Stream,
    pairs: (&Buffer<K>, &Buffer<V>),
    len: usize,
    positions: usize,
) -> Result<(Buffer<K>, Buffer<V>)> {
    let device = stream.device();
    let (mut keys, mut values) = (device.alloc(len)?, device.alloc(positions)?);
    let mut scratch = RadixSortScratch::for_pairs(device, len)?;
    radix_sort(stream, pairs, len, 0..K::Bits::BITS, (&mut keys, &mut values), &mut scratch)?;
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
            let build = |keys: &[i32]| MultiMap::builder().most(3).build(&device, keys, &vec![1_u32; keys.len()]);
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
