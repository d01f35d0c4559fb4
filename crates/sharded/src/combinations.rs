//! Unions, intersections and differences, shard by shard.

use crate::Sharded;
#[cfg(feature = "lane-tree")]
use crate::ShardedSet;
use crate::parts::Parts;
use core::ops::Bound;
use lanetree_frame::fixed::{Combine, HostForm, Sorted};
use lanetree_frame::parallel::*;
use lanetree_frame::room::make_room;
use lanetree_frame::{AnyKey, Device, KeyRange, OrderedIndex, Result, Word};
#[cfg(feature = "lane-tree")]
use lanetree_lane_tree::LaneSet;

/// Combines each shard of an index with the other index's keys of its interval. If both indexes have the same borders and devices,
/// `by_shard` combines two shards; otherwise `by_part` combines a shard with all of the other index's shards.
///
/// # Errors
/// [`Error::Lost`](lanetree_frame::Error::Lost); those of the functions.
fn combine<K: AnyKey, I: Send + Sync>(
    [parts, others]: [&Parts<K, I>; 2],
    device: impl Fn(&I) -> &Device,
    by_shard: impl Fn(&I, &I) -> Result<I> + Sync,
    by_part: impl Fn(&I, &[I], KeyRange<K>) -> Result<I> + Sync,
) -> Result<Vec<I>> {
    let (splitters, shards, of_other) = (&parts.splitters, parts.group.get()?, others.group.get()?);
    let same_devices = || shards.iter().zip(of_other).all(|(shard, other)| device(shard) == device(other));
    let is_alike = *splitters == others.splitters && same_devices();
    let interval = |number: usize| {
        let from = number.checked_sub(1).map_or(Bound::Unbounded, |before| Bound::Included(splitters[before]));
        let to = splitters.get(number).map_or(Bound::Unbounded, |&next| Bound::Excluded(next));
        KeyRange::new((from, to))
    };
    shards.par_iter().enumerate().try_map_collect(|(number, shard)| match is_alike {
        true => by_shard(shard, &of_other[number]),
        // The interval of a shard between equal borders is empty.
        false => by_part(shard, of_other, interval(number)),
    })
}

impl<K: AnyKey, V: Word, I> Sharded<I>
where
    I: Combine<Key = K, Value = V> + OrderedIndex<Domain = K, Value = V>,
{
    /// The pairs of both indexes, with this one's shards. A key that is in both gets the value of `other`. Returns when it is complete;
    /// neither input changes. If both indexes have the same devices and borders (as after another combination of the same index), each
    /// device combines its shards. Otherwise the other index's pairs pass through main memory, one shard's part at a time per thread.
    ///
    /// ```
    /// use lanetree::{Device, LaneTree, OrderedIndex, Sharded};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let devices = [Device::host(), Device::host()];
    /// let index = Sharded::build(&devices, LaneTree::builder(), &[10_u64, 20], &[1_u32, 2])?;
    /// let other = Sharded::build(&devices[..1], LaneTree::builder(), &[20_u64, 30], &[7_u32, 8])?;
    /// assert_eq!(index.union(&other)?.pairs()?, [(10, 1), (20, 7), (30, 8)]);
    /// assert_eq!(index.intersection(&other)?.pairs()?, [(20, 2)]);
    /// assert_eq!(index.difference(&other)?.pairs()?, [(10, 1)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost) if either is lost; [`Error::Runtime`](lanetree_frame::Error::Runtime) if a device or
    /// main memory has no room, or from a driver; the errors of the index's build for too many pairs.
    pub fn union(&self, other: &Self) -> Result<Self> {
        self.combined(other, |shard, other| shard.union(other), |shard, other| shard.union(other))
    }

    /// The pairs of this index whose keys are in `other`, too, with this index's values. Otherwise like [`Sharded::union`].
    ///
    /// # Errors
    /// As [`Sharded::union`].
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        self.combined(other, |shard, other| shard.intersection(other), |shard, other| shard.intersection(other))
    }

    /// The pairs of this index whose keys are not in `other`. Otherwise like [`Sharded::union`].
    ///
    /// # Errors
    /// As [`Sharded::union`].
    pub fn difference(&self, other: &Self) -> Result<Self> {
        self.combined(other, |shard, other| shard.difference(other), |shard, other| shard.difference(other))
    }

    fn combined(
        &self,
        other: &Self,
        by_shard: impl Fn(&I, &I) -> Result<I> + Sync,
        by_pairs: impl Fn(&I, Sorted<&[K], &[V]>) -> Result<I> + Sync,
    ) -> Result<Self> {
        let shards =
            combine([&self.parts, &other.parts], OrderedIndex::device, by_shard, |shard, others, interval| {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for other in others {
                    let found = HostForm::range_many(other, [interval])?;
                    make_room(&mut keys, found.keys.len())?;
                    make_room(&mut values, found.values.len())?;
                    keys.extend_from_slice(&found.keys);
                    values.extend_from_slice(&found.values);
                }
                by_pairs(shard, Sorted::pairs(&keys, &values))
            })?;
        Ok(self.made_of(shards))
    }
}

#[cfg(feature = "lane-tree")]
impl<K: AnyKey> ShardedSet<K> {
    /// The keys of both sets, with this one's shards; otherwise like [`Sharded::union`].
    ///
    /// ```
    /// use lanetree::{Device, LaneSet, ShardedSet};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let devices = [Device::host(), Device::host()];
    /// let set = ShardedSet::build(&devices, LaneSet::builder(), &[10_u64, 20])?;
    /// let other = ShardedSet::build(&devices, LaneSet::builder(), &[20_u64, 30])?;
    /// assert_eq!(set.union(&other)?.keys()?, [10, 20, 30]);
    /// assert_eq!(set.intersection(&other)?.keys()?, [20]);
    /// assert_eq!(set.difference(&other)?.keys()?, [10]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Sharded::union`].
    pub fn union(&self, other: &Self) -> Result<Self> {
        self.combined(other, |shard, other| shard.union(other), |shard, keys| shard.union(keys))
    }

    /// The keys of this set that are in `other`, too. Otherwise like [`ShardedSet::union`].
    ///
    /// # Errors
    /// As [`Sharded::union`].
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        self.combined(other, |shard, other| shard.intersection(other), |shard, keys| shard.intersection(keys))
    }

    /// The keys of this set that are not in `other`. Otherwise like [`ShardedSet::union`].
    ///
    /// # Errors
    /// As [`Sharded::union`].
    pub fn difference(&self, other: &Self) -> Result<Self> {
        self.combined(other, |shard, other| shard.difference(other), |shard, keys| shard.difference(keys))
    }

    fn combined(
        &self,
        other: &Self,
        by_shard: impl Fn(&LaneSet<K>, &LaneSet<K>) -> Result<LaneSet<K>> + Sync,
        by_keys: impl Fn(&LaneSet<K>, Sorted<&[K]>) -> Result<LaneSet<K>> + Sync,
    ) -> Result<Self> {
        let shards = combine([&self.parts, &other.parts], LaneSet::device, by_shard, |shard, others, interval| {
            let mut keys = Vec::new();
            for other in others {
                let found = other.range_many([interval])?;
                make_room(&mut keys, found.keys.len())?;
                keys.extend_from_slice(&found.keys);
            }
            by_keys(shard, Sorted::keys(&keys))
        })?;
        Ok(self.made_of(shards))
    }
}
