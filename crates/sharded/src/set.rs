//! [`ShardedSet`]: a set over several devices.

use crate::group::{Group, check_devices, sum};
use crate::keys_only::KeysOnly;
use crate::parts::{Ends, Parts, ShardStats};
use crate::range_router::RangeRouter;
use crate::ranges;
use crate::route::Route;
use crate::router::Router;
use crate::splitters;
use core::fmt;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::HostForm;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, with_room};
use lanetree_frame::{AnyKey, Device, DeviceKind, KeyRange, Matches, Op, Result, UpdateReport};
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
    parts: Parts<K, LaneSet<K>>,
    builder: SetBuilder<K>,
    /// It carries no values.
    router: Router<K, u32>,
    range_router: RangeRouter<K>,
    ends: Ends<K>,
}

impl<K: AnyKey> ShardedSet<K> {
    /// Builds a set of keys in any order, with one shard on each of `devices`, 1 to 64; a device may be there more than once. Equal
    /// keys count once. The shards' borders are chosen as [`Sharded::build`](crate::Sharded::build) chooses them.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for no devices, or more than 64; those of [`SetBuilder::build`].
    pub fn build(devices: &[Device], builder: SetBuilder<K>, keys: &[K]) -> Result<Self> {
        check_devices(devices)?;
        let splitters = splitters::choose(keys, devices.len())?;
        let route = Route::new(&splitters, keys.len(), |at| keys[at])?;
        let keys = route.split(keys)?;
        Ok(Self::of(Group::build(devices, |shard, device| builder.build(device, &keys[shard]))?, splitters, builder))
    }

    fn of(group: Group<LaneSet<K>>, splitters: Vec<K>, builder: SetBuilder<K>) -> Self {
        let parts = Parts::new(group, splitters, LaneSet::len);
        let (router, range_router) = (Router::default(), RangeRouter::default());
        Self { parts, builder, router, range_router, ends: Ends::default() }
    }

    /// Shards made of this set's and others, such that none has keys of another interval, on the same devices.
    pub(crate) fn made_of(&self, shards: Vec<LaneSet<K>>) -> Self {
        Self::of(Group::of(shards), self.parts.splitters.clone(), self.builder)
    }

    /// Each shard's set, in the order of their keys.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn shards(&self) -> Result<&[LaneSet<K>]> {
        self.parts.group.get()
    }

    /// What each shard has, in the order of their keys.
    pub fn stats(&self) -> Vec<ShardStats<K>> {
        self.parts.stats(|set| (set.device(), set.bytes()))
    }

    /// How many keys it has; if it is lost, how many it had.
    pub fn len(&self) -> u64 {
        self.parts.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a change failed such that the contents are unknown: then every call that returns a result returns [`Error::Lost`].
    pub fn is_lost(&self) -> bool {
        self.parts.group.is_lost()
    }

    /// Bytes that it takes of the memory of all devices.
    pub fn bytes(&self) -> u64 {
        self.parts.group.known().iter().map(LaneSet::bytes).sum()
    }

    /// Whether each of `keys` is in the set.
    ///
    /// # Errors
    /// As [`LaneSet::contains_many`].
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.parts.answer(keys, |shard, shards, keys| shards[shard].contains_many(keys))
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
        self.parts.neighbor(keys, LaneSet::predecessor_many, |shards, shard| {
            shards[..shard].iter().rev().find(|shard| !shard.is_empty()).map_or(Ok(None), LaneSet::last)
        })
    }

    /// The first key at or above each of `keys`.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn successor_many(&self, keys: &[K]) -> Result<Vec<Option<K>>> {
        self.parts.neighbor(keys, LaneSet::successor_many, |shards, shard| {
            shards[shard + 1..].iter().find(|shard| !shard.is_empty()).map_or(Ok(None), LaneSet::first)
        })
    }

    /// Which of `probes` are in the set, and the rank of each that is, over all shards.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`].
    pub fn join_many(&self, probes: &[K]) -> Result<Matches> {
        let rows = self.parts.answer(probes, |shard, shards, keys| {
            let matches = shards[shard].join_many(keys)?;
            let row = |&row: &u64| self.parts.before[shard] + row;
            (0..keys.len())
                .into_par_iter()
                .map(|probe| matches.of(probe).first().map_or(Matches::NO_ROW, row))
                .try_collect()
        })?;
        Matches::of_rows(&rows)
    }

    /// The keys of each range, in ascending order. Takes what [`LaneSet::range_many`] takes.
    ///
    /// # Errors
    /// As [`ShardedSet::contains_many`]; [`Error::ReversedRange`] for a range whose end is below its start.
    pub fn range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<SetRanges<K>> {
        let ranges = collected(ranges.into_iter().map(Into::into))?;
        let range = |set: &LaneSet<K>, ranges: &[KeyRange<K>]| set.as_tree().range_many(ranges.iter().copied());
        Ok(ranges::range_many(&self.parts, &ranges, range)?.into())
    }

    /// How many keys each range has.
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
        let parts = self.parts.group.ask(|_, set| set.keys())?;
        Route::of_parts(parts.iter().map(Vec::len).collect()).merge(parts)
    }

    /// Iterates over all keys in ascending order. Keys come from the devices in large blocks; if that fails, the item is an error and
    /// the iteration ends.
    pub fn iter(&self) -> impl Iterator<Item = Result<K>> {
        let (shards, error) = match self.parts.group.get() {
            Ok(shards) => (shards, None),
            Err(error) => (&[][..], Some(Err(error))),
        };
        let mut failed = false;
        let keys = error.into_iter().chain(shards.iter().flat_map(LaneSet::iter));
        keys.take_while(move |key| !core::mem::replace(&mut failed, key.is_err()))
    }

    /// Inserts keys, into all shards or none. In the report those that are new are `inserted`, and those that were there `replaced`.
    ///
    /// # Errors
    /// As [`LaneSet::insert_many`]: the set is as it was. [`Error::Lost`] where a shard is lost, or fails again as it takes its part
    /// back.
    pub fn insert_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        let keys = self.split(keys)?;
        self.change(&keys, |shard, set| set.insert_many(&keys[shard]))
    }

    /// Removes the keys that are there, from all shards or none.
    ///
    /// # Errors
    /// As [`ShardedSet::insert_many`].
    pub fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        let keys = self.split(keys)?;
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

    /// Rebuilds all shards from their own keys, and gives back memory that removals have left. Returns the bytes freed.
    ///
    /// # Errors
    /// As [`LaneSet::compact`]: the shards that did not fail are compact.
    pub fn compact(&mut self) -> Result<u64> {
        Ok(self.parts.group.tidy(LaneSet::is_lost, LaneSet::compact)?.iter().sum())
    }

    /// Moves keys between neighbours until no shard has more than half as many again as the mean; how many keys have moved.
    /// Otherwise as [`Sharded::rebalance`](crate::Sharded::rebalance).
    ///
    /// # Errors
    /// Those of the build: these two shards are as they were, and the set has all its keys. [`Error::Lost`].
    pub fn rebalance(&mut self) -> Result<u64> {
        let builder = self.builder;
        self.ends.forget();
        self.parts.rebalance(LaneSet::len, |old| {
            let mut keys = with_room(old.iter().map(|set| set.len() as usize).sum())?;
            for set in old {
                keys.extend_from_slice(&set.keys()?);
            }
            let middle = keys.len() / 2;
            let parts = vec![&keys[..middle], &keys[middle..]];
            let build = |(set, part): (&LaneSet<K>, &&[K])| builder.build(set.device(), part);
            Ok(Some((old.par_iter().zip(&parts).try_map_collect(build)?, keys[middle])))
        })
    }

    fn split<'k>(&self, keys: &'k [K]) -> Result<Vec<Cow<'k, [K]>>> {
        self.parts.group.get()?;
        Route::new(&self.parts.splitters, keys.len(), |at| keys[at])?.split(keys)
    }

    /// Has each shard change its keys.
    fn change(
        &mut self,
        keys: &[Cow<'_, [K]>],
        apply: impl Fn(usize, &mut LaneSet<K>) -> Result<UpdateReport> + Sync,
    ) -> Result<UpdateReport> {
        // A change in one shard is all or nothing by itself.
        let is_alone = keys.iter().filter(|keys| !keys.is_empty()).count() < 2;
        let before = self.parts.group.ask(|shard, set| match is_alone || keys[shard].is_empty() {
            true => Ok(Vec::new()),
            false => set.contains_many(&keys[shard]),
        })?;
        let apply = |shard: usize, set: &mut LaneSet<K>| match keys[shard].is_empty() {
            true => Ok(UpdateReport::default()),
            false => apply(shard, set),
        };
        let take_back = |shard: usize, set: &mut LaneSet<K>| {
            let back = |(&key, was_there): (&K, &bool)| if *was_there { Op::Insert(key, ()) } else { Op::Remove(key) };
            let ops: Vec<Op<K, ()>> = keys[shard].par_iter().zip(&before[shard]).map(back).try_collect()?;
            if ops.is_empty() { Ok(()) } else { set.apply(&ops).map(drop) }
        };
        let reports = self.parts.group.change(LaneSet::is_lost, apply, take_back)?;
        self.ends.forget();
        self.parts.count(LaneSet::len);
        Ok(sum(&reports))
    }

    /// The trees, if batches can be routed on their devices: all of one kind, which runs kernels.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn routed(&self) -> Result<Option<Vec<KeysOnly<'_, K>>>> {
        let shards = self.parts.group.get()?;
        let kind = shards[0].device().kind();
        let is_routed = kind != DeviceKind::Host && shards.iter().all(|shard| shard.device().kind() == kind);
        Ok(is_routed.then(|| shards.iter().map(|shard| KeysOnly(shard.as_tree())).collect()))
    }

    pub(crate) fn parts(&self) -> &Parts<K, LaneSet<K>> {
        &self.parts
    }

    pub(crate) fn router(&self) -> &Router<K, u32> {
        &self.router
    }

    pub(crate) fn ranges(&self) -> &RangeRouter<K> {
        &self.range_router
    }

    #[cfg(test)]
    pub(crate) fn router_mut(&mut self) -> &mut Router<K, u32> {
        &mut self.router
    }

    /// For each shard the key that a query finds where the shard itself has none, as [`Ends::fallbacks`]; without a value.
    ///
    /// # Errors
    /// Those of look-ups, which it makes the first time after a change.
    pub(crate) fn fallbacks(&self, upper: bool) -> Result<Vec<Option<(K, u32)>>> {
        let of = |_, set: &LaneSet<K>| Ok(set.first()?.zip(set.last()?).map(|(first, last)| [first, last]));
        let fallbacks = self.ends.fallbacks(upper, || self.parts.group.ask(of))?;
        Ok(fallbacks.into_iter().map(|key| Some((key?, 0))).collect())
    }
}

impl<K: AnyKey> fmt::Debug for ShardedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardedSet<{}>[{} shards, {} keys]", K::NAME, self.parts.splitters.len() + 1, self.len())
    }
}
