//! [`ShardedSet`]: a set over several devices.

use crate::group::Group;
use crate::on_shards::{InShards, Routers};
use crate::parts::{Ends, Methods, Parts, ShardStats, shard_methods};
use crate::query::Shards;
use crate::ranges;
use crate::route::Route;
use crate::splitters;
use core::fmt;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{HostForm, Neighbors, Side};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, with_room};
use lanetree_frame::{AnyKey, Device, KeyRange, Launches, Matches, Op, Ranges, Result, Stream, UpdateReport};
use lanetree_lane_tree::{LaneSet, SetBuilder, SetRanges};
use std::borrow::Cow;

/// One set over several devices: what [`Sharded`](crate::Sharded) is for a map. Each device has the keys of one interval, in a
/// [`LaneSet`] of its own. [`ShardedSet::on`] has the device form of look-ups, ranks and neighbours.
///
/// ```
/// use lanetree::{Device, LaneSet, ShardedSet};
///
/// # fn main() -> lanetree::Result<()> {
/// // Of a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
/// let devices = [Device::emulated(), Device::emulated()];
/// let keys: Vec<u64> = (0..1000).map(|i| i * 7).collect();
/// let mut set = ShardedSet::build(&devices, LaneSet::builder(), &keys)?;
///
/// assert_eq!(set.contains_many(&[6993, 15])?, [true, false]);
/// assert_eq!(set.successor_many(&[3499, 6994])?, [Some(3500), None]);
/// assert_eq!(set.insert_many(&[15, 6000])?.inserted, 2);
/// assert_eq!((set.len(), set.range_many([5994..=6001])?.get(0)), (1002, &[5999, 6000, 5999][..2]));
/// # Ok(())
/// # }
/// ```
pub struct ShardedSet<K: AnyKey> {
    pub(crate) parts: Parts<K, LaneSet<K>>,
    builder: SetBuilder<K>,
    /// Its values are words that no kernel reads or writes.
    pub(crate) routers: Routers<K, u32>,
    ends: Ends<(K, u32)>,
}

shard_methods!(impl[K: AnyKey] ShardedSet<K>, K, LaneSet<K>, sizes);

impl<K: AnyKey> ShardedSet<K> {
    /// Builds a set of keys in any order, with one shard on each of `devices`, 1 to 64; a device may be named more than once. Equal
    /// keys count once. The shards' borders are chosen as [`Sharded::build`](crate::Sharded::build) chooses them.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for no devices, or more than 64; those of [`SetBuilder::build`].
    pub fn build(devices: &[Device], builder: SetBuilder<K>, keys: &[K]) -> Result<Self> {
        let (splitters, route) = splitters::partition(devices, keys)?;
        let keys = route.split(keys)?;
        let build = |shard: usize, device: &Device| builder.build(device, &keys[shard]);
        Ok(Self::of(Group::build(devices, LaneSet::is_lost, build)?, splitters, builder))
    }

    fn of(group: Group<LaneSet<K>>, splitters: Vec<K>, builder: SetBuilder<K>) -> Self {
        let methods = Methods { name: "laneset", device: LaneSet::device, len: LaneSet::len, bytes: LaneSet::bytes };
        let parts = Parts::new(group, splitters, methods);
        Self { parts, builder, routers: Routers::default(), ends: Ends::default() }
    }

    /// A set of other shards on the same devices, which have keys of the same intervals.
    pub(crate) fn made_of(&self, shards: Vec<LaneSet<K>>) -> Self {
        Self::of(Group::new(shards, LaneSet::is_lost), self.parts.splitters.clone(), self.builder)
    }

    /// Whether each of `keys` is in the set.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.parts.answer(keys, LaneSet::contains_many)
    }

    /// The number of keys below each of `keys`.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.parts.rank(keys, LaneSet::lower_bound_many)
    }

    /// The number of keys at or below each of `keys`.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.parts.rank(keys, LaneSet::upper_bound_many)
    }

    /// The last key at or below each of `keys`.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn predecessor_many(&self, keys: &[K]) -> Result<Vec<Option<K>>> {
        self.parts.neighbor(Side::Upper, keys, LaneSet::predecessor_many)
    }

    /// The first key at or above each of `keys`.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn successor_many(&self, keys: &[K]) -> Result<Vec<Option<K>>> {
        self.parts.neighbor(Side::Lower, keys, LaneSet::successor_many)
    }

    /// Which of `probes` are in the set, and the rank of each that is, over all shards.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn join_many(&self, probes: &[K]) -> Result<Matches> {
        self.parts.join(probes, LaneSet::join_many)
    }

    /// The keys of each range, in ascending order. Takes what [`LaneSet::range_many`] takes.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`]; [`Error::ReversedRange`] for a range whose end is below its start.
    pub fn range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<SetRanges<K>> {
        let ranges = collected(ranges.into_iter().map(Into::into))?;
        Ok(self.ranges(&ranges)?.into())
    }

    /// The number of keys of each range.
    ///
    /// # Errors
    /// As [`ShardedSet::range_many`].
    pub fn count_range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Vec<u64>> {
        let ranges = collected(ranges.into_iter().map(Into::into))?;
        ranges::count_range_many(&self.parts, &ranges, |set, ranges| set.count_range_many(ranges.iter().copied()))
    }

    /// All keys in ascending order.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn keys(&self) -> Result<Vec<K>> {
        self.parts.all(LaneSet::keys)
    }

    /// Iterates over all keys in ascending order. Keys come from the devices in large blocks; if that fails, the item is an error and
    /// the iteration ends.
    pub fn iter(&self) -> impl Iterator<Item = Result<K>> {
        self.parts.group.iter(LaneSet::iter)
    }

    /// Inserts keys, into all shards or none. The report counts new keys as `inserted` and the others as `replaced`.
    ///
    /// # Errors
    /// As [`LaneSet::insert_many`]: the set is unchanged. [`Error::Lost`] if a shard is lost, or fails again as it undoes its part.
    pub fn insert_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        let keys = self.parts.route(keys)?.split(keys)?;
        self.change(&keys, |shard, set| set.insert_many(&keys[shard]))
    }

    /// Removes the keys that are there, from all shards or none.
    ///
    /// # Errors
    /// As [`ShardedSet::insert_many`].
    pub fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        let keys = self.parts.route(keys)?.split(keys)?;
        self.change(&keys, |shard, set| set.remove_many(&keys[shard]))
    }

    /// Inserts and removes keys, with the effect of one operation after another: `Op::Insert(key, ())`, `Op::Remove(key)`. An
    /// update changes nothing.
    ///
    /// # Errors
    /// As [`ShardedSet::insert_many`].
    pub fn apply(&mut self, ops: &[Op<K, ()>]) -> Result<UpdateReport> {
        self.parts.group.get()?;
        let route = Route::new(&self.parts.splitters, ops.len(), |at| *ops[at].key())?;
        let ops = route.split(ops)?;
        let keys_of = |ops: &Cow<'_, [Op<K, ()>]>| Ok(Cow::Owned(ops.par_iter().map(|op| *op.key()).try_collect()?));
        let keys: Vec<Cow<'_, [K]>> = ops.iter().map(keys_of).collect::<Result<_>>()?;
        self.change(&keys, |shard, set| set.apply(&ops[shard]))
    }

    /// Rebuilds all shards from their own keys, and frees unused memory. Returns the bytes freed.
    ///
    /// # Errors
    /// As [`LaneSet::compact`]: the shards that did not fail are compact.
    pub fn compact(&mut self) -> Result<u64> {
        Ok(self.parts.group.tidy(LaneSet::compact)?.iter().sum())
    }

    /// Moves keys between neighbours until no shard has more than 1.5 times the mean. Returns the number of keys moved. Otherwise as
    /// [`Sharded::rebalance`](crate::Sharded::rebalance).
    ///
    /// # Errors
    /// Those of the build: these two shards are unchanged, and the set has all its keys. [`Error::Lost`].
    pub fn rebalance(&mut self) -> Result<u64> {
        let builder = self.builder;
        self.ends.forget();
        self.parts.rebalance(|old| {
            let mut keys = with_room(old.iter().map(|set| set.len() as usize).sum())?;
            for set in old {
                keys.extend_from_slice(&set.keys()?);
            }
            let middle = keys.len() / 2;
            let halves = vec![&keys[..middle], &keys[middle..]];
            let build = |(set, half): (&LaneSet<K>, &&[K])| builder.build(set.device(), half);
            Ok(Some((old.par_iter().zip(&halves).try_map_collect(build)?, keys[middle])))
        })
    }

    /// Applies each shard's part of a change.
    fn change(
        &mut self,
        keys: &[Cow<'_, [K]>],
        apply: impl Fn(usize, &mut LaneSet<K>) -> Result<UpdateReport> + Sync,
    ) -> Result<UpdateReport> {
        let undo = |set: &mut LaneSet<K>, keys: &[K], were_there: &Vec<bool>| {
            let back = |(&key, was_there): (&K, &bool)| if *was_there { Op::Insert(key, ()) } else { Op::Remove(key) };
            let ops: Vec<Op<K, ()>> = keys.par_iter().zip(were_there).map(back).try_collect()?;
            set.apply(&ops).map(drop)
        };
        let report = self.parts.change(keys, LaneSet::contains_many, apply, undo)?;
        self.ends.forget();
        Ok(report)
    }

    fn ranges(&self, ranges: &[KeyRange<K>]) -> Result<Ranges<K, ()>> {
        ranges::range_many(&self.parts, ranges, |set, ranges| set.as_tree().range_many(ranges.iter().copied()))
    }
}

impl<K: AnyKey> InShards for ShardedSet<K> {
    type Key = K;
    type Value = u32;

    fn routers(&self) -> &Routers<K, u32> {
        &self.routers
    }
    fn check_stream(&self, stream: &Stream) -> Result<()> {
        self.parts.check_stream(stream, InShards::shards(self)?.is_some())
    }
    fn shards(&self) -> Result<Option<Shards<'_, K, u32>>> {
        self.parts.shards(false, |set| Some(set as &dyn Launches<K, u32>))
    }
    fn fallbacks(&self, side: Side) -> Result<Neighbors<K, u32>> {
        let of = |_, set: &LaneSet<K>| Ok(set.first()?.zip(set.last()?).map(|(first, last)| [(first, 0), (last, 0)]));
        self.ends.fallbacks(side, || self.parts.group.ask(of))
    }
    fn get_on_host(&self, keys: &[K]) -> Result<Vec<Option<u32>>> {
        collected(self.contains_many(keys)?.into_iter().map(|found| found.then_some(0)))
    }
    fn rank_on_host(&self, side: Side, keys: &[K]) -> Result<Vec<u64>> {
        if side == Side::Upper { self.upper_bound_many(keys) } else { self.lower_bound_many(keys) }
    }
    fn neighbor_on_host(&self, side: Side, keys: &[K]) -> Result<Neighbors<K, u32>> {
        let found = if side == Side::Upper { self.predecessor_many(keys)? } else { self.successor_many(keys)? };
        collected(found.into_iter().map(|found| Some((found?, 0))))
    }
    fn count_on_host(&self, ranges: &[KeyRange<K>]) -> Result<Vec<u64>> {
        self.count_range_many(ranges.iter().copied())
    }
    fn range_on_host(&self, ranges: &[KeyRange<K>]) -> Result<Ranges<K, u32>> {
        let Ranges { offsets, keys, .. } = self.ranges(ranges)?;
        Ok(Ranges { offsets, keys, values: Vec::new() })
    }
}

impl<K: AnyKey> fmt::Debug for ShardedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardedSet<{}>[{} shards, {} keys]", K::NAME, self.parts.splitters.len() + 1, self.len())
    }
}
