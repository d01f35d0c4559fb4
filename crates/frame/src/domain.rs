//! The keys of indexes, and batches of them.

use core::cmp::Ordering;
use core::fmt::Debug;
use core::ops::Bound;
use lanetree_base::byte_keys::show;
use lanetree_base::room::with_room;
use lanetree_base::{ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, DeviceKeys, KeyRange, Ranges, Result};
use lanetree_layout::{AnyKey, Word};
use lanetree_runtime::{Buffer, Device};

/// The keys of an index, and the types that hold batches of them. A key type of a fixed size is its own domain;
/// [`ByteString`] is the domain of byte strings of any length.
pub trait Domain: Sized + 'static {
    /// What kernels are given of a key: its word; of a byte string, its bytes.
    type Word;
    /// A key that owns its memory.
    type Key: Ord + Clone + Debug + Send + Sync + 'static;
    /// A batch of keys that owns its memory.
    type Keys: FromIterator<Self::Key>;
    /// A batch of keys in host memory.
    type Batch<'a>: Copy + Debug + Send + Sync;
    /// A range of keys.
    type Range<'a>: Clone;
    /// The pairs of a batch of ranges.
    type Ranges<V: Word>: Rows<Self::Key, V>;
    /// A batch of keys in device memory.
    type Buffer;

    /// A batch of these keys.
    fn batch(keys: &Self::Keys) -> Self::Batch<'_>;

    /// Copies a batch to a device; complete on return.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) where the device has no room; for byte strings also
    /// [`Error::KeyTooLong`](lanetree_base::Error::KeyTooLong).
    fn upload(device: &Device, keys: Self::Batch<'_>) -> Result<Self::Buffer>;

    /// The range between two bounds, of which the first `limit` pairs are wanted.
    fn range<'a>(start: Bound<&'a Self::Key>, end: Bound<&'a Self::Key>, limit: u64) -> Self::Range<'a>;

    /// How many keys a batch has.
    fn len(keys: Self::Batch<'_>) -> usize;

    /// The order of two keys of a batch.
    ///
    /// # Panics
    /// If there are no such keys.
    fn compare(keys: Self::Batch<'_>, first: usize, second: usize) -> Ordering;

    /// A key of a batch, for a message.
    ///
    /// # Panics
    /// If there is no such key.
    fn show(keys: Self::Batch<'_>, index: usize) -> String;

    /// The keys `keys[i]` for each `i` of `picks`.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) if main memory has no room for them.
    ///
    /// # Panics
    /// If there is no such key.
    fn pick(keys: Self::Batch<'_>, picks: &[usize]) -> Result<Self::Keys>;
}

/// The pairs of a batch of ranges, a row for each.
pub trait Rows<K, V> {
    /// How many ranges there are.
    fn rows(&self) -> usize;
    /// The pairs of a range, in ascending order of their keys.
    ///
    /// # Panics
    /// Where there is no such range.
    fn row(&self, range: usize) -> Vec<(K, V)>;
}

impl<K: AnyKey> Domain for K {
    type Word = K::Bits;
    type Key = K;
    type Keys = Vec<K>;
    type Batch<'a> = &'a [K];
    type Range<'a> = KeyRange<K>;
    type Ranges<V: Word> = Ranges<K, V>;
    type Buffer = Buffer<K>;

    fn batch(keys: &Vec<K>) -> &[K] {
        keys
    }
    fn upload(device: &Device, keys: &[K]) -> Result<Buffer<K>> {
        Ok(device.upload(keys)?)
    }
    fn range<'a>(start: Bound<&'a K>, end: Bound<&'a K>, limit: u64) -> KeyRange<K> {
        KeyRange::new((start.cloned(), end.cloned())).limit(limit)
    }
    fn len(keys: &[K]) -> usize {
        keys.len()
    }
    fn compare(keys: &[K], first: usize, second: usize) -> Ordering {
        keys[first].cmp(&keys[second])
    }
    fn show(keys: &[K], index: usize) -> String {
        keys[index].to_string()
    }
    fn pick(keys: &[K], picks: &[usize]) -> Result<Vec<K>> {
        picked(keys, picks)
    }
}

impl<K: AnyKey, V: Word> Rows<K, V> for Ranges<K, V> {
    fn rows(&self) -> usize {
        self.len()
    }
    fn row(&self, range: usize) -> Vec<(K, V)> {
        let (keys, values) = self.get(range);
        keys.iter().copied().zip(values.iter().copied()).collect()
    }
}

/// The domain of byte strings of any length, in lexicographic order.
#[derive(Clone, Copy, Debug)]
pub enum ByteString {}

impl Domain for ByteString {
    type Word = u8;
    type Key = Vec<u8>;
    type Keys = ByteKeysBuf;
    type Batch<'a> = ByteKeys<'a>;
    type Range<'a> = ByteRange<'a>;
    type Ranges<V: Word> = ByteRanges<V>;
    type Buffer = DeviceKeys;

    fn batch(keys: &ByteKeysBuf) -> ByteKeys<'_> {
        keys.into()
    }
    fn upload(device: &Device, keys: ByteKeys<'_>) -> Result<DeviceKeys> {
        DeviceKeys::upload(device, keys)
    }
    fn range<'a>(start: Bound<&'a Vec<u8>>, end: Bound<&'a Vec<u8>>, limit: u64) -> ByteRange<'a> {
        ByteRange::new(start.map(Vec::as_slice), end.map(Vec::as_slice)).limit(limit)
    }
    fn len(keys: ByteKeys<'_>) -> usize {
        keys.len()
    }
    fn compare(keys: ByteKeys<'_>, first: usize, second: usize) -> Ordering {
        keys.at(first).cmp(keys.at(second))
    }
    fn show(keys: ByteKeys<'_>, index: usize) -> String {
        show(keys.at(index))
    }
    fn pick(keys: ByteKeys<'_>, picks: &[usize]) -> Result<ByteKeysBuf> {
        ByteKeysBuf::pick(keys, picks)
    }
}

impl<V: Word> Rows<Vec<u8>, V> for ByteRanges<V> {
    fn rows(&self) -> usize {
        self.len()
    }
    fn row(&self, range: usize) -> Vec<(Vec<u8>, V)> {
        let (keys, values) = self.get(range);
        keys.iter().map(<[u8]>::to_vec).zip(values.iter().copied()).collect()
    }
}

/// The elements of a column in some rows.
pub(crate) fn picked<T: Copy>(column: &[T], picks: &[usize]) -> Result<Vec<T>> {
    let mut picked = with_room(picks.len())?;
    picked.extend(picks.iter().map(|&pick| column[pick]));
    Ok(picked)
}
