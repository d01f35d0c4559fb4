//! New sets from two.

use super::LaneSet;
use crate::LaneTree;
use lanetree_frame::fixed::{Combine, CombineScratch, Made, Operand, PairOperand};
use lanetree_frame::{Result, Stream};
use lanetree_layout::AnyKey;

/// New sets from two on the same device, or from a set and a [`Sorted`](lanetree_frame::fixed::Sorted) batch of keys, with this one's
/// options. Neither set changes. What they cost, and the memory that they take, is with [`Combine`].
///
/// ```
/// use lanetree::{CombineScratch, Device, LaneSet, Sorted};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let (set, other) = (LaneSet::build(&device, &[1_u64, 2, 3])?, LaneSet::build(&device, &[2, 3, 4])?);
/// assert_eq!(set.union(&other)?.keys()?, [1, 2, 3, 4]);
/// assert_eq!(set.intersection(&other)?.keys()?, [2, 3]);
/// assert_eq!(set.difference(&other)?.keys()?, [1]);
/// assert_eq!(set.difference(Sorted::keys(&[1, 2]))?.keys()?, [3]);
///
/// // With a batch that is on the device, and scratch memory that is reused.
/// let (stream, mut scratch) = (device.stream()?, CombineScratch::new(&device)?);
/// let batch = device.upload(&[3_u64, 5])?;
/// let all = set.union_on(&stream, Sorted::keys_on(&batch, 2), &mut scratch)?;
/// assert_eq!(all.keys()?, [1, 2, 3, 5]);
/// assert_eq!(all.difference_on(&stream, &set, &mut scratch)?.keys()?, [5]);
/// # Ok(())
/// # }
/// ```
impl<K: AnyKey> LaneSet<K> {
    /// The keys of both sets, or of the set and of a batch.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room, if `other` is on another device, or from the
    /// driver; [`Error::Lost`](lanetree_frame::Error::Lost) if either is lost;
    /// [`Error::TooManyLeaves`](lanetree_frame::Error::TooManyLeaves) for more keys than a set holds. Of a batch:
    /// [`Error::NotSorted`](lanetree_frame::Error::NotSorted) names the first key that is below the one before it;
    /// [`Error::OutputLength`](lanetree_frame::Error::OutputLength) for a buffer of fewer keys than it is long.
    pub fn union(&self, other: impl PairOperand<LaneTree<K, ()>>) -> Result<Self> {
        Ok(Self { tree: self.tree.union(other)? })
    }

    /// The keys of this set that are in `other`, too.
    ///
    /// # Errors
    /// As [`LaneSet::union`].
    pub fn intersection(&self, other: impl Operand<LaneTree<K, ()>>) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection(other)? })
    }

    /// The keys of this set that are not in `other`.
    ///
    /// # Errors
    /// As [`LaneSet::union`].
    pub fn difference(&self, other: impl Operand<LaneTree<K, ()>>) -> Result<Self> {
        Ok(Self { tree: self.tree.difference(other)? })
    }

    /// The [`union`](LaneSet::union), on a stream, with scratch memory that is reused. The new set's memory comes from the
    /// stream's device.
    ///
    /// # Errors
    /// As [`LaneSet::union`]; [`Error::Runtime`](lanetree_frame::Error::Runtime) if the stream or the scratch memory is another
    /// device's.
    pub fn union_on(
        &self,
        stream: &Stream,
        other: impl PairOperand<LaneTree<K, ()>>,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.union_on(stream, other, scratch)? })
    }

    /// The [`intersection`](LaneSet::intersection), on a stream, with scratch memory that is reused.
    ///
    /// # Errors
    /// As [`LaneSet::union_on`].
    pub fn intersection_on(
        &self,
        stream: &Stream,
        other: impl Operand<LaneTree<K, ()>>,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.intersection_on(stream, other, scratch)? })
    }

    /// The [`difference`](LaneSet::difference), on a stream, with scratch memory that is reused.
    ///
    /// # Errors
    /// As [`LaneSet::union_on`].
    pub fn difference_on(
        &self,
        stream: &Stream,
        other: impl Operand<LaneTree<K, ()>>,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Self> {
        Ok(Self { tree: self.tree.difference_on(stream, other, scratch)? })
    }
}

/// A set is combined as its tree of no values.
impl<K: AnyKey> Operand<LaneTree<K, ()>> for &LaneSet<K> {
    fn check(&self, index: &LaneTree<K, ()>) -> Result<()> {
        (&self.tree).check(index)
    }

    fn intersect(
        &self,
        stream: &Stream,
        index: &LaneTree<K, ()>,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Made<LaneTree<K, ()>>> {
        (&self.tree).intersect(stream, index, scratch)
    }

    fn subtract(
        &self,
        stream: &Stream,
        index: &LaneTree<K, ()>,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Made<LaneTree<K, ()>>> {
        (&self.tree).subtract(stream, index, scratch)
    }
}

impl<K: AnyKey> PairOperand<LaneTree<K, ()>> for &LaneSet<K> {
    fn unite(
        &self,
        stream: &Stream,
        index: &LaneTree<K, ()>,
        scratch: &mut CombineScratch<K, ()>,
    ) -> Result<Made<LaneTree<K, ()>>> {
        (&self.tree).unite(stream, index, scratch)
    }
}
