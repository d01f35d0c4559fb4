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
    /// The keys of both sets.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room, if `other` is on another device, or from the
    /// driver; [`Error::Lost`](lanetree_frame::Error::Lost) if either is lost;
    /// [`Error::TooManyLeaves`](lanetree_frame::Error::TooManyLeaves) for more keys than a set holds.
    pub fn union(&self, other: &Self) -> Result<Self> {
        Ok(Self { tree: self.tree.union(&other.tree)? })
    }

    /// The keys that are in both sets.
    ///
    /// # Errors
    /// As [`LaneSet::union`].
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection(&other.tree)? })
    }

    /// The keys of this set that are not in `other`.
    ///
    /// # Errors
    /// As [`LaneSet::union`].
    pub fn difference(&self, other: &Self) -> Result<Self> {
        Ok(Self { tree: self.tree.difference(&other.tree)? })
    }

    /// The keys of the set and of a batch in ascending order, which may have equal keys.
    ///
    /// # Errors
    /// As [`LaneSet::union`]; [`Error::NotSorted`](lanetree_frame::Error::NotSorted) names the first key that is below the one
    /// before it.
    pub fn union_sorted(&self, keys: &[K]) -> Result<Self> {
        Ok(Self { tree: self.tree.union_sorted(keys, &vec![(); keys.len()])? })
    }

    /// The keys of the set that are in a batch in ascending order.
    ///
    /// # Errors
    /// As [`LaneSet::union_sorted`].
    pub fn intersection_sorted(&self, keys: &[K]) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection_sorted(keys)? })
    }

    /// The keys of the set that are not in a batch in ascending order.
    ///
    /// # Errors
    /// As [`LaneSet::union_sorted`].
    pub fn difference_sorted(&self, keys: &[K]) -> Result<Self> {
        Ok(Self { tree: self.tree.difference_sorted(keys)? })
    }

    /// The [`union`](LaneSet::union), on a stream, with scratch memory that is reused. The new set's memory comes from the
    /// stream's device.
    ///
    /// # Errors
    /// As [`LaneSet::union`]; [`Error::Runtime`](lanetree_frame::Error::Runtime) if the stream or the scratch memory is another
    /// device's.
    pub fn union_on(&self, stream: &Stream, other: &Self, scratch: &mut CombineScratch<K, ()>) -> Result<Self> {
        Ok(Self { tree: self.tree.union_on(stream, &other.tree, scratch)? })
    }

    /// The [`intersection`](LaneSet::intersection), on a stream, with scratch memory that is reused.
    ///
    /// # Errors
    /// As [`LaneSet::union_on`].
    pub fn intersection_on(&self, stream: &Stream, other: &Self, scratch: &mut CombineScratch<K, ()>) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection_on(stream, &other.tree, scratch)? })
    }

    /// The [`difference`](LaneSet::difference), on a stream, with scratch memory that is reused.
    ///
    /// # Errors
    /// As [`LaneSet::union_on`].
    pub fn difference_on(&self, stream: &Stream, other: &Self, scratch: &mut CombineScratch<K, ()>) -> Result<Self> {
        Ok(Self { tree: self.tree.difference_on(stream, &other.tree, scratch)? })
    }

    /// The union with the first `len` keys of a buffer, in ascending order, on a stream.
    ///
    /// # Errors
    /// As [`LaneSet::union_on`]; [`Error::OutputLength`](lanetree_frame::Error::OutputLength) for a buffer of fewer than `len` keys,
    /// [`Error::NotSorted`](lanetree_frame::Error::NotSorted).
    pub fn union_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        len: usize,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.union_sorted_on(stream, keys, &none(keys)?, len, scratch)? })
    }

    /// The intersection with the first `len` keys of a buffer, in ascending order, on a stream.
    ///
    /// # Errors
    /// As [`LaneSet::union_sorted_on`].
    pub fn intersection_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        len: usize,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection_sorted_on(stream, keys, len, scratch)? })
    }

    /// The difference with the first `len` keys of a buffer, in ascending order, on a stream.
    ///
    /// # Errors
    /// As [`LaneSet::union_sorted_on`].
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
