//! New sets from two.

use super::{LaneSet, none};
use lanetree_frame::fixed::{Combine, CombineScratch};
use lanetree_frame::{Buffer, Result, Stream};
use lanetree_layout::AnyKey;

/// New sets from two on the same device, or from a set and a sorted batch of keys, with this one's options. Neither set changes.
/// What they cost, and the memory that they take, is with [`Combine`].
///
/// ```
/// use lanetree::{CombineScratch, Device, LaneSet};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let (set, other) = (LaneSet::build(&device, &[1_u64, 2, 3])?, LaneSet::build(&device, &[2, 3, 4])?);
/// assert_eq!(set.union(&other)?.keys()?, [1, 2, 3, 4]);
/// assert_eq!(set.intersection(&other)?.keys()?, [2, 3]);
/// assert_eq!(set.difference(&other)?.keys()?, [1]);
/// assert_eq!(set.difference_sorted(&[1, 2])?.keys()?, [3]);
///
/// // With a batch that is on the device, and scratch memory that is reused.
/// let (stream, mut scratch) = (device.stream()?, CombineScratch::new(&device)?);
/// let batch = device.upload(&[3_u64, 5])?;
/// let all = set.union_sorted_on(&stream, &batch, 2, &mut scratch)?;
/// assert_eq!(all.keys()?, [1, 2, 3, 5]);
/// assert_eq!(all.difference_on(&stream, &set, &mut scratch)?.keys()?, [5]);
/// # Ok(())
/// # }
/// ```
impl<K: AnyKey> LaneSet<K> {
    /// The keys of both: [`Combine::union`].
    ///
    /// # Errors
    /// As there.
    pub fn union(&self, other: &Self) -> Result<Self> {
        Ok(Self { tree: self.tree.union(&other.tree)? })
    }

    /// The keys that both have: [`Combine::intersection`].
    ///
    /// # Errors
    /// As there.
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection(&other.tree)? })
    }

    /// The keys that `other` does not have: [`Combine::difference`].
    ///
    /// # Errors
    /// As there.
    pub fn difference(&self, other: &Self) -> Result<Self> {
        Ok(Self { tree: self.tree.difference(&other.tree)? })
    }

    /// [`LaneSet::union`] with a batch of keys in ascending order: [`Combine::union_sorted`].
    ///
    /// # Errors
    /// As there.
    pub fn union_sorted(&self, keys: &[K]) -> Result<Self> {
        Ok(Self { tree: self.tree.union_sorted(keys, &vec![(); keys.len()])? })
    }

    /// [`LaneSet::intersection`] with a batch of keys in ascending order: [`Combine::intersection_sorted`].
    ///
    /// # Errors
    /// As there.
    pub fn intersection_sorted(&self, keys: &[K]) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection_sorted(keys)? })
    }

    /// [`LaneSet::difference`] with a batch of keys in ascending order: [`Combine::difference_sorted`].
    ///
    /// # Errors
    /// As there.
    pub fn difference_sorted(&self, keys: &[K]) -> Result<Self> {
        Ok(Self { tree: self.tree.difference_sorted(keys)? })
    }

    /// [`LaneSet::union`] on a stream, with scratch memory that is reused: [`Combine::union_on`].
    ///
    /// # Errors
    /// As there.
    pub fn union_on(&self, stream: &Stream, other: &Self, scratch: &mut CombineScratch<K, ()>) -> Result<Self> {
        Ok(Self { tree: self.tree.union_on(stream, &other.tree, scratch)? })
    }

    /// [`LaneSet::intersection`] on a stream: [`Combine::intersection_on`].
    ///
    /// # Errors
    /// As there.
    pub fn intersection_on(&self, stream: &Stream, other: &Self, scratch: &mut CombineScratch<K, ()>) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection_on(stream, &other.tree, scratch)? })
    }

    /// [`LaneSet::difference`] on a stream: [`Combine::difference_on`].
    ///
    /// # Errors
    /// As there.
    pub fn difference_on(&self, stream: &Stream, other: &Self, scratch: &mut CombineScratch<K, ()>) -> Result<Self> {
        Ok(Self { tree: self.tree.difference_on(stream, &other.tree, scratch)? })
    }

    /// [`LaneSet::union_sorted`] with the first `len` keys of a buffer: [`Combine::union_sorted_on`].
    ///
    /// # Errors
    /// As there.
    pub fn union_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        len: usize,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.union_sorted_on(stream, (keys, &none(keys)?), len, scratch)? })
    }

    /// [`LaneSet::intersection_sorted`] with the first `len` keys of a buffer: [`Combine::intersection_sorted_on`].
    ///
    /// # Errors
    /// As there.
    pub fn intersection_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        len: usize,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection_sorted_on(stream, keys, len, scratch)? })
    }

    /// [`LaneSet::difference_sorted`] with the first `len` keys of a buffer: [`Combine::difference_sorted_on`].
    ///
    /// # Errors
    /// As there.
    pub fn difference_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        len: usize,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.difference_sorted_on(stream, keys, len, scratch)? })
    }
}
