//! [`ShardedMultiMap`]: a multi-map over several devices.

use crate::aggregate::{aggregated, fold_on_host};
use crate::group::Group;
use crate::parts::{Methods, Parts, ShardStats, columns, shard_methods};
use crate::ranges;
use crate::route::Route;
use crate::splitters;
use core::fmt;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::check_bounds;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::fixed::{Aggregate, Number, Side, aggregates_of};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, with_room};
use lanetree_frame::{AnyKey, Device, JoinRows, KeyRange, Ranges, Result, UpdateReport, Word};
use lanetree_multimap::{Builder, MultiMap, ValueRows};
use std::borrow::Cow;

/// One multi-map over several devices: what [`Sharded`](crate::Sharded) is for a map. Each device has the pairs of one interval of the
/// keys, in a [`MultiMap`] of its own; all values of a key are in one shard. It has the host form; [`ShardedMultiMap::shards`] have
/// their own device form.
///
/// ```
/// use lanetree::{Device, MultiMap, ShardedMultiMap};
///
/// # fn main() -> lanetree::Result<()> {
/// // Of a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
/// let devices = [Device::emulated(), Device::emulated()];
/// let (keys, values) = (&[5_u64, 3, 5, 9, 5], &[50_u32, 30, 51, 90, 50]);
/// let mut map = ShardedMultiMap::build(&devices, MultiMap::builder(), keys, values)?;
///
/// assert_eq!((map.len(), map.keys_len()), (5, 3));
/// let rows = map.get_all_many(&[5, 4, 3])?;
/// assert_eq!((rows.get(0), rows.get(1), rows.get(2)), (&[50, 51, 50][..], &[][..], &[30][..]));
/// map.insert_many(&[9, 3], &[91, 31])?;
/// assert_eq!(map.range_many([3..=9])?.get(0).1, [30, 31, 50, 51, 50, 90, 91]);
/// assert_eq!(map.remove_all_many(&[5, 6])?.removed, 3);
/// # Ok(())
/// # }
/// ```
pub struct ShardedMultiMap<K: AnyKey, V: Word> {
    parts: Parts<K, MultiMap<K, V>>,
    builder: Builder<K, V>,
}

/// The pairs of some keys of a shard before a change.
struct Before<K, V> {
    /// Each once.
    keys: Vec<K>,
    rows: ValueRows<V>,
}

shard_methods!(impl[K: AnyKey, V: Word] ShardedMultiMap<K, V>, K, MultiMap<K, V>, sizes);

impl<K: AnyKey, V: Word> ShardedMultiMap<K, V> {
    /// Builds a map over pairs in any order, with one shard on each of `devices`, 1 to 64; a device may be named more than once.
    /// Values of equal keys are in the order of the input. The shards' borders are chosen as
    /// [`Sharded::build`](crate::Sharded::build) chooses them.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for no devices, or more than 64; those of [`Builder::build`].
    pub fn build(devices: &[Device], builder: Builder<K, V>, keys: &[K], values: &[V]) -> Result<Self> {
        check_lengths(keys, values)?;
        let (splitters, route) = splitters::partition(devices, keys)?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        let build = |shard: usize, device: &Device| builder.build(device, &keys[shard], &values[shard]);
        let group = Group::build(devices, MultiMap::is_lost, build)?;
        let methods =
            Methods { name: "multimap", device: MultiMap::device, len: MultiMap::len, bytes: MultiMap::bytes };
        Ok(Self { parts: Parts::new(group, splitters, methods), builder })
    }

    /// The number of distinct keys.
    pub fn keys_len(&self) -> u64 {
        self.parts.group.known().iter().map(MultiMap::keys_len).sum()
    }

    /// Whether all shards' values are in the order of their keys, as ranks and ranges need them on a device: see [`MultiMap::is_ordered`].
    pub fn is_ordered(&self) -> bool {
        self.parts.group.known().iter().all(MultiMap::is_ordered)
    }

    /// All values of each key, in the order in which they were inserted; an absent key has none.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn get_all_many(&self, keys: &[K]) -> Result<ValueRows<V>> {
        let route = self.parts.route(keys)?;
        let keys = route.split(keys)?;
        let rows = self.parts.group.ask(|shard, map| {
            let rows = map.get_all_many(&keys[shard])?;
            Ok(Ranges { keys: vec![(); rows.values.len()], offsets: rows.offsets, values: rows.values })
        })?;
        let rows = ranges::merge(&route, rows)?;
        Ok(ValueRows { offsets: rows.offsets, values: rows.values })
    }

    /// Joins `probes` with the map: for each probe the values of its key, as [`MultiMap::join_many`].
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn join_many(&self, probes: &[K]) -> Result<JoinRows<V>> {
        let ValueRows { offsets, values } = self.get_all_many(probes)?;
        Ok(JoinRows { offsets, rows: values })
    }

    /// The number of values of each key; 0 for an absent key.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn count_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.parts.answer(keys, MultiMap::count_many)
    }

    /// Whether each key is present.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.parts.answer(keys, MultiMap::contains_many)
    }

    /// The value of each key that was inserted first; `None` for an absent key.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn first_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.parts.answer(keys, MultiMap::first_many)
    }

    /// The value of each key that was inserted last; `None` for an absent key.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn last_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.parts.answer(keys, MultiMap::last_many)
    }

    /// For each of `keys` the number of pairs with a smaller key.
    ///
    /// # Errors
    /// As [`MultiMap::lower_bound_many`], of a shard that is asked.
    pub fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.parts.rank(keys, MultiMap::lower_bound_many)
    }

    /// For each of `keys` the number of pairs with a key that is smaller or equal.
    ///
    /// # Errors
    /// As [`ShardedMultiMap::lower_bound_many`].
    pub fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.parts.rank(keys, MultiMap::upper_bound_many)
    }

    /// For each of `keys` the last pair whose key is smaller or equal, as [`MultiMap::predecessor_many`].
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn predecessor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.parts.neighbor(Side::Upper, keys, MultiMap::predecessor_many)
    }

    /// For each of `keys` the first pair whose key is equal or larger, as [`MultiMap::successor_many`].
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn successor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.parts.neighbor(Side::Lower, keys, MultiMap::successor_many)
    }

    /// The pairs of each range, as [`MultiMap::range_many`].
    ///
    /// # Errors
    /// As [`MultiMap::range_many`], of a shard that is asked.
    pub fn range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Ranges<K, V>> {
        let ranges = collected(ranges.into_iter().map(Into::into))?;
        ranges::range_many(&self.parts, &ranges, |map, ranges| map.range_many(ranges.iter().copied()))
    }

    /// The number of pairs of each range.
    ///
    /// # Errors
    /// As [`ShardedMultiMap::range_many`].
    pub fn count_range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Vec<u64>> {
        let ranges = collected(ranges.into_iter().map(Into::into))?;
        ranges::count_range_many(&self.parts, &ranges, |map, ranges| map.count_range_many(ranges.iter().copied()))
    }

    /// An aggregate of all values of all keys from `starts[i]` to `ends[i]`, both inclusive, as [`MultiMap::aggregate_many`]. The pairs
    /// of some ranges at a time are copied first.
    ///
    /// # Errors
    /// As [`ShardedMultiMap::range_many`]; [`Error::BoundLengths`] unless there are as many ends as starts; [`Error::SumOverflow`] for
    /// a sum that 64 bits do not hold.
    pub fn aggregate_many<A: Number<Word = V>>(
        &self,
        aggregate: Aggregate,
        starts: &[K],
        ends: &[K],
    ) -> Result<Vec<Option<A::Wide>>> {
        check_bounds(starts.len(), ends.len())?;
        let ranges = aggregated(aggregate, starts, ends)?;
        let find = |ranges: &[KeyRange<K>]| self.range_many(ranges.iter().copied());
        aggregates_of(&fold_on_host(aggregate.fold::<A>(), &ranges, find)?)
    }

    /// All pairs in order.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn pairs(&self) -> Result<Vec<(K, V)>> {
        self.parts.all(MultiMap::pairs)
    }

    /// Inserts pairs, into all shards or none: each value goes after those that its key has, and values of equal keys in the order
    /// of the batch.
    ///
    /// A batch of several shards first copies all values of its keys to the host, to undo the change if a shard fails.
    ///
    /// # Errors
    /// As [`MultiMap::insert_many`]: the map is unchanged. [`Error::Lost`] if a shard is lost, or fails again as it undoes its part.
    pub fn insert_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        self.parts.group.get()?;
        check_lengths(keys, values)?;
        let route = self.parts.route(keys)?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        self.change(&keys, |shard, map| map.insert_many(&keys[shard], &values[shard]))
    }

    /// Removes all pairs of each key, from all shards or none, as [`MultiMap::remove_all_many`].
    ///
    /// # Errors
    /// As [`ShardedMultiMap::insert_many`].
    pub fn remove_all_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        let keys = self.parts.route(keys)?.split(keys)?;
        self.change(&keys, |shard, map| map.remove_all_many(&keys[shard]))
    }

    /// Removes one pair for each element of the batch, from all shards or none, as [`MultiMap::remove_pairs_many`].
    ///
    /// # Errors
    /// As [`ShardedMultiMap::insert_many`].
    pub fn remove_pairs_many(&mut self, pairs: &[(K, V)]) -> Result<UpdateReport> {
        self.parts.group.get()?;
        let pairs = Route::new(&self.parts.splitters, pairs.len(), |at| pairs[at].0)?.split(pairs)?;
        let keys_of = |pairs: &Cow<'_, [(K, V)]>| Ok(Cow::Owned(pairs.par_iter().map(|pair| pair.0).try_collect()?));
        let keys: Vec<Cow<'_, [K]>> = pairs.iter().map(keys_of).collect::<Result<_>>()?;
        self.change(&keys, |shard, map| map.remove_pairs_many(&pairs[shard]))
    }

    /// Brings the values of all shards into the order of the keys. Returns whether there was anything to restore.
    ///
    /// # Errors
    /// As [`MultiMap::restore_order`]: the shards that did not fail are in order.
    pub fn restore_order(&mut self) -> Result<bool> {
        Ok(self.parts.group.tidy(MultiMap::restore_order)?.contains(&true))
    }

    /// Rebuilds all shards from their own pairs, in new memory, and so restores the order, too. Returns the bytes freed.
    ///
    /// # Errors
    /// As [`ShardedMultiMap::restore_order`].
    pub fn compact(&mut self) -> Result<u64> {
        Ok(self.parts.group.tidy(MultiMap::compact)?.iter().sum())
    }

    /// Moves pairs between neighbours until no shard has more than 1.5 times the mean, or one key's values prevent it. Returns the
    /// number of pairs moved. Otherwise as [`Sharded::rebalance`](crate::Sharded::rebalance).
    ///
    /// # Errors
    /// Those of the build: these two shards are unchanged, and the map has all its pairs. [`Error::Lost`].
    pub fn rebalance(&mut self) -> Result<u64> {
        let builder = self.builder;
        self.parts.rebalance(|old| {
            let (keys, values) = columns(old, MultiMap::pairs)?;
            let len = keys.len();
            // All values of a key go to one shard.
            let key = keys[len / 2];
            let ends = [keys.partition_point(|other: &K| *other < key), keys.partition_point(|other| *other <= key)];
            let off = |middle: usize| (2 * middle).abs_diff(len);
            let middle = if off(ends[0]) <= off(ends[1]) { ends[0] } else { ends[1] };
            if off(middle) as u64 >= old[0].len().abs_diff(old[1].len()) {
                return Ok(None);
            }
            let halves = vec![0..middle, middle..len];
            let build = |(map, half): (&MultiMap<K, V>, &core::ops::Range<usize>)| {
                builder.build(map.device(), &keys[half.clone()], &values[half.clone()])
            };
            Ok(Some((old.par_iter().zip(&halves).try_map_collect(build)?, keys[middle])))
        })
    }

    /// Applies each shard's part of a change.
    fn change(
        &mut self,
        keys: &[Cow<'_, [K]>],
        apply: impl Fn(usize, &mut MultiMap<K, V>) -> Result<UpdateReport> + Sync,
    ) -> Result<UpdateReport> {
        let remember = |map: &MultiMap<K, V>, keys: &[K]| {
            let mut keys = collected(keys.iter().copied())?;
            keys.sort_unstable();
            keys.dedup();
            Ok(Before { rows: map.get_all_many(&keys)?, keys })
        };
        let undo = |map: &mut MultiMap<K, V>, _: &[K], Before { keys, rows }: &Before<K, V>| {
            map.remove_all_many(keys)?;
            let mut of_values = with_room(rows.values.len())?;
            keys.iter().zip(rows.iter()).for_each(|(&key, row)| of_values.extend(row.iter().map(|_| key)));
            map.insert_many(&of_values, &rows.values).map(drop)
        };
        self.parts.change(keys, remember, apply, undo)
    }
}

impl<K: AnyKey, V: Word> fmt::Debug for ShardedMultiMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shards, pairs, keys) = (self.parts.splitters.len() + 1, self.len(), self.keys_len());
        write!(f, "ShardedMultiMap<{}, {}>[{shards} shards, {pairs} pairs of {keys} keys]", K::NAME, V::NAME)
    }
}
