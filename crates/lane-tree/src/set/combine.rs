//! New sets from two.

use super::LaneSet;
use lanetree_frame::Result;
use lanetree_frame::fixed::Combine;
use lanetree_layout::AnyKey;

/// New sets from two on the same device, with this one's options. Neither set changes.
///
/// ```
/// use lanetree::{Device, LaneSet};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let (set, other) = (LaneSet::build(&device, &[1_u64, 2, 3])?, LaneSet::build(&device, &[2, 3, 4])?);
/// assert_eq!(set.union(&other)?.keys()?, [1, 2, 3, 4]);
/// assert_eq!(set.intersection(&other)?.keys()?, [2, 3]);
/// assert_eq!(set.difference(&other)?.keys()?, [1]);
/// assert_eq!(set.difference_sorted(&[1, 2])?.keys()?, [3]);
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

    /// [`LaneSet::difference`] with a batch of keys in ascending order: [`Combine::difference_sorted`].
    ///
    /// # Errors
    /// As there.
    pub fn difference_sorted(&self, keys: &[K]) -> Result<Self> {
        Ok(Self { tree: self.tree.difference_sorted(keys)? })
    }
}
