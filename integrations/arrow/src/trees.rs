//! What an index over arrows needs of a tree.

use crate::error::{Result, filled, room};
use crate::keys::{Keys, Source, Strings};
use arrow_array::Array;
#[cfg(any(feature = "ipc", feature = "parquet"))]
use arrow_array::ArrayRef;
#[cfg(any(feature = "ipc", feature = "parquet"))]
use arrow_schema::DataType;
use core::cmp::Ordering;
use lanetree::{ByteKeys, ByteKeysBuf, Cuart, Device, LaneTree};

/// No row has this number: a miss.
pub(crate) const NO_ROW: u64 = u64::MAX;

/// A tree whose values are row numbers.
pub(crate) trait Tree: Sized {
    /// The keys of an array.
    type Keys;
    /// Keys as the tree takes them.
    type Batch<'a>: Copy;

    /// The keys of an array of a type that this tree is for; of its nulls, any keys.
    fn keys(array: &dyn Array) -> Result<Self::Keys>;
    fn batch(keys: &Self::Keys) -> Result<Self::Batch<'_>>;
    /// Some of the keys.
    fn picked(keys: &Self::Keys, rows: &[u64]) -> Result<Self::Keys>;
    fn compare(keys: Self::Batch<'_>, first: usize, second: usize) -> Ordering;

    /// Of equal keys, the last one's row is kept.
    fn build(device: &Device, keys: Self::Batch<'_>, rows: &[u64]) -> Result<Self>;
    fn device(&self) -> &Device;
    /// How many keys it has.
    fn len(&self) -> u64;
    fn bytes(&self) -> u64;
    /// The row of each key, or [`NO_ROW`].
    fn get(&self, keys: Self::Batch<'_>) -> Result<Vec<u64>>;
    /// How many of the tree's keys are below each key; with `upper`, how many are not above it.
    fn rank(&self, keys: Self::Batch<'_>, upper: bool) -> Result<Vec<u64>>;

    /// Calls a function with all keys in their order, a window at a time.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn each_window(&self, f: impl FnMut(Self::Batch<'_>, &[u64]) -> Result<()>) -> Result<()>;
    /// An array of a type that this tree is for, of some of the keys, by their places.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn array(data_type: &DataType, keys: Self::Batch<'_>, places: &[usize]) -> Result<ArrayRef>;
}

impl<K: Source> Tree for LaneTree<K, u64> {
    type Keys = Keys<K>;
    type Batch<'a> = &'a [K];

    fn keys(array: &dyn Array) -> Result<Keys<K>> {
        K::keys(&array.to_data())
    }
    fn batch(keys: &Keys<K>) -> Result<&[K]> {
        Ok(keys)
    }
    fn picked(keys: &Keys<K>, rows: &[u64]) -> Result<Keys<K>> {
        let mut picked = room(rows.len())?;
        picked.extend(rows.iter().map(|&row| keys[row as usize]));
        Ok(Keys::Own(picked))
    }
    fn compare(keys: &[K], first: usize, second: usize) -> Ordering {
        keys[first].cmp(&keys[second])
    }
    fn build(device: &Device, keys: &[K], rows: &[u64]) -> Result<Self> {
        Ok(Self::build(device, keys, rows)?)
    }
    fn device(&self) -> &Device {
        self.device()
    }
    fn len(&self) -> u64 {
        self.len()
    }
    fn bytes(&self) -> u64 {
        self.bytes()
    }
    fn get(&self, keys: &[K]) -> Result<Vec<u64>> {
        let mut rows = filled(NO_ROW, keys.len())?;
        self.get_many_or(keys, NO_ROW, &mut rows)?;
        Ok(rows)
    }
    fn rank(&self, keys: &[K], upper: bool) -> Result<Vec<u64>> {
        Ok(if upper { self.upper_bound_many(keys)? } else { self.lower_bound_many(keys)? })
    }
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn each_window(&self, f: impl FnMut(&[K], &[u64]) -> Result<()>) -> Result<()> {
        lanetree::bindings::each_window(self, f)
    }
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn array(data_type: &DataType, keys: &[K], places: &[usize]) -> Result<ArrayRef> {
        crate::arrays::array_of_keys(data_type, places.len(), places.iter().map(|place| keys[*place]))
    }
}

impl Tree for Cuart<u64> {
    type Keys = Strings;
    type Batch<'a> = ByteKeys<'a>;

    fn keys(array: &dyn Array) -> Result<Strings> {
        Strings::new(array)
    }
    fn batch(keys: &Strings) -> Result<ByteKeys<'_>> {
        keys.batch()
    }
    fn picked(keys: &Strings, rows: &[u64]) -> Result<Strings> {
        let keys = keys.batch()?;
        Ok(Strings::Own(ByteKeysBuf::gather(rows.len(), |at| keys.at(rows[at] as usize))?))
    }
    fn compare(keys: ByteKeys<'_>, first: usize, second: usize) -> Ordering {
        keys.at(first).cmp(keys.at(second))
    }
    fn build(device: &Device, keys: ByteKeys<'_>, rows: &[u64]) -> Result<Self> {
        Ok(Self::build(device, keys, rows)?)
    }
    fn device(&self) -> &Device {
        self.device()
    }
    fn len(&self) -> u64 {
        self.len()
    }
    fn bytes(&self) -> u64 {
        self.bytes()
    }
    fn get(&self, keys: ByteKeys<'_>) -> Result<Vec<u64>> {
        let found = self.get_many(keys)?;
        let mut rows = room(found.len())?;
        rows.extend(found.into_iter().map(|row| row.unwrap_or(NO_ROW)));
        Ok(rows)
    }
    fn rank(&self, keys: ByteKeys<'_>, upper: bool) -> Result<Vec<u64>> {
        Ok(if upper { self.upper_bound_many(keys)? } else { self.lower_bound_many(keys)? })
    }
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn each_window(&self, f: impl FnMut(ByteKeys<'_>, &[u64]) -> Result<()>) -> Result<()> {
        crate::arrays::each_window_of_strings(self, f)
    }
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn array(data_type: &DataType, keys: ByteKeys<'_>, places: &[usize]) -> Result<ArrayRef> {
        crate::arrays::array_of_strings(data_type, places.iter().map(|place| keys.at(*place)))
    }
}
