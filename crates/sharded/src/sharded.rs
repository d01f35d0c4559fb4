//! [`Sharded`]: one index over several devices.

use crate::group::{Group, Undo, apply, keys_of, undo};
use crate::host_staging::{HostStaging, MIN_STAGED};
use crate::on_shards::{InShards, Routers};
use crate::parts::{Ends, Methods, Parts, ShardStats, columns, shard_methods};
use crate::query::Shards;
use crate::splitters;
use core::fmt;
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::fixed::{FixedIndex, Iter, Neighbors, Side};
use lanetree_frame::parallel::*;
use lanetree_frame::{
    AnyKey, Device, HostBatch, IndexBuilder, KeyOf, KeyRange, OrderedIndex, Ranges, Result, Stream, UpdateReport, Word,
};
use std::sync::Arc;

/// One index over several devices: each has the pairs of one interval of the keys, in an index of its own.
///
/// A batch is partitioned by shard, and the results are put into the batch's order. A device does both for a batch in its memory
/// ([`Sharded::on`]). A batch in pinned memory ([`Sharded::get_many_pinned`]) is cut into a part for each device, which travels over
/// that device's bus and is partitioned there. The CPU partitions short host batches. Batches of changes are all or nothing over all
/// shards. Memory grows with the number of cards; `docs/guide/several-gpus.md` of the repository has the speed of batches.
///
/// In host form it has the calls of [`OrderedIndex`] (import the trait; ranges are a slice of [`KeyRange`]s),
/// [`asof_many`](Self::asof_many), [`get_many_pinned`](Self::get_many_pinned) and [`iter`](Self::iter), which goes forwards only. The
/// device form ([`on`](Self::on)) is [`OnDevices`](crate::OnDevices). For a single key make a batch of one.
///
/// It is built from any index over keys of a fixed size ([`IndexBuilder`]), and several shards may be on one device.
///
/// ```
/// use lanetree::{Device, LaneTree, OrderedIndex, Sharded};
///
/// # fn main() -> lanetree::Result<()> {
/// // Of a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
/// let devices = [Device::emulated_with_seed(0), Device::emulated_with_seed(1)];
/// let keys: Vec<u64> = (0..1000).map(|i| i * 7).collect();
/// let values: Vec<u64> = (0..1000).collect();
/// let mut index = Sharded::build(&devices, LaneTree::builder(), &keys, &values)?;
///
/// assert_eq!(index.get_many(&[6993, 14, 15])?, [Some(999), Some(2), None]);
/// assert_eq!(index.lower_bound_many(&[5000])?, [715]);
/// index.insert_many(&[15, 6000], &[1, 2])?;
/// assert_eq!(index.len(), 1002);
/// # Ok(())
/// # }
/// ```
pub struct Sharded<I: OrderedIndex<Domain: AnyKey>> {
    pub(crate) parts: Parts<KeyOf<I>, I>,
    rebuild: Arc<dyn Rebuild<I>>,
    pub(crate) routers: Routers<I::Domain, I::Value>,
    pub(crate) staging: HostStaging<I::Domain, I::Value>,
    pub(crate) ends: Ends<(KeyOf<I>, I::Value)>,
    /// Host batches of at least this length are partitioned by the devices: a constant, but in tests.
    pub(crate) min_staged: usize,
}

/// A builder of any type.
pub(crate) trait Rebuild<I: OrderedIndex>: Send + Sync {
    fn build(&self, device: &Device, keys: &[KeyOf<I>], values: &[I::Value]) -> Result<I>;
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>, B: IndexBuilder<Index = I>> Rebuild<I> for B {
    fn build(&self, device: &Device, keys: &[K], values: &[I::Value]) -> Result<I> {
        IndexBuilder::build(self, device, keys, values)
    }
}

shard_methods!(impl[K: AnyKey, I: OrderedIndex<Domain = K>] Sharded<I>, K, I);

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// Builds an index over pairs in any order, with one shard on each of `devices`, 1 to 64; a device may be named more than once.
    /// Of equal keys, the last one's value is kept. The shards' borders come from a sample of the keys, so that shards are of similar
    /// size. Without keys, the shards share the key space evenly. Pairs that don't fit in main memory are built in pieces:
    /// [`Sharded::from_pieces`].
    ///
    /// # Errors
    /// [`Error::OptionValue`] for no devices, or more than 64; [`Error::LengthMismatch`]; those of the index's build.
    pub fn build(
        devices: &[Device],
        builder: impl IndexBuilder<Index = I> + 'static,
        keys: &[K],
        values: &[I::Value],
    ) -> Result<Self> {
        check_lengths(keys, values)?;
        let (splitters, route) = splitters::partition(devices, keys)?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        let build = |shard: usize, device: &Device| builder.build(device, &keys[shard], &values[shard]);
        let group = Group::build(devices, I::is_lost, build)?;
        Ok(Self::of(group, splitters, Arc::new(builder)))
    }

    /// An index of shards that were built.
    pub(crate) fn of(group: Group<I>, splitters: Vec<K>, rebuild: Arc<dyn Rebuild<I>>) -> Self {
        let methods = Methods { name: I::NAME, device: I::device, len: I::len, bytes: I::bytes };
        let staging = HostStaging::new(group.known().iter().map(I::device));
        let (parts, routers, ends) = (Parts::new(group, splitters, methods), Routers::default(), Ends::default());
        Self { parts, rebuild, routers, staging, ends, min_staged: MIN_STAGED }
    }

    /// Moves pairs between neighbours until no shard has more than 1.5 times the mean. Returns the number of pairs moved. Useful after
    /// changes that made some shards larger than others; no other call does it.
    ///
    /// Two shards at a time are rebuilt from their pairs, which pass through the host. The new ones are built before the old
    /// ones are freed, so their devices need memory for both.
    ///
    /// # Errors
    /// Those of the index's build: these two shards are unchanged, and the index has all its pairs. [`Error::Lost`].
    pub fn rebalance(&mut self) -> Result<u64> {
        self.ends.forget();
        let rebuild = &*self.rebuild;
        self.parts.rebalance(|old| {
            let (keys, values) = columns(old, I::pairs)?;
            let middle = keys.len() / 2;
            let halves = vec![0..middle, middle..keys.len()];
            let build = |(shard, half): (&I, &Range<usize>)| {
                rebuild.build(shard.device(), &keys[half.clone()], &values[half.clone()])
            };
            Ok(Some((old.par_iter().zip(&halves).try_map_collect(build)?, keys[middle])))
        })
    }

    /// An index of other shards on the same devices, which have keys of the same intervals.
    pub(crate) fn made_of(&self, shards: Vec<I>) -> Self {
        Self::of(Group::new(shards, I::is_lost), self.parts.splitters.clone(), self.rebuild.clone())
    }

    /// The fewest queries of a host batch that the devices partition, not the CPU, for measurements.
    #[doc(hidden)]
    pub fn min_staged_mut(&mut self) -> &mut usize {
        &mut self.min_staged
    }

    /// Whether batches go by copies although the devices reach each other's memory, for tests and measurements.
    #[doc(hidden)]
    pub fn by_copies_mut(&mut self) -> &mut bool {
        &mut self.routers.router.routing.by_copies
    }

    /// The most queries of a piece (a multiple of 2048), and the pieces in flight.
    #[cfg(test)]
    pub(crate) fn set_pieces(&mut self, piece: usize, slots: usize) {
        let routing = &mut self.routers.router.routing;
        (routing.piece, routing.slots) = (piece, slots);
    }

    /// Applies each shard's part of a batch.
    pub(crate) fn change(&mut self, parts: &[HostBatch<'_, I>]) -> Result<UpdateReport> {
        self.parts.group.get()?;
        let keys = parts.iter().map(keys_of).collect::<Result<Vec<_>>>()?;
        let apply = |shard: usize, index: &mut I| apply(index, &parts[shard]);
        let take_back = |index: &mut I, keys: &[K], undo: &Undo<K, I::Value>| index.apply(&undo.ops(keys)?).map(drop);
        let report = self.parts.change(&keys, undo, apply, take_back)?;
        self.ends.forget();
        Ok(report)
    }

    /// Applies a batch of keys and values.
    pub(crate) fn change_pairs(
        &mut self,
        keys: &[K],
        values: &[I::Value],
        batch: impl for<'a> Fn(&'a [K], &'a [I::Value]) -> HostBatch<'a, I>,
    ) -> Result<UpdateReport> {
        self.parts.group.get()?;
        check_lengths(keys, values)?;
        let route = self.parts.route(keys)?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        self.change(&keys.iter().zip(&values).map(|(keys, values)| batch(keys, values)).collect::<Vec<_>>())
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> InShards for Sharded<I> {
    type Key = K;
    type Value = I::Value;

    fn routers(&self) -> &Routers<K, I::Value> {
        &self.routers
    }
    fn check_stream(&self, stream: &Stream) -> Result<()> {
        self.parts.check_stream(stream, InShards::shards(self)?.is_some())
    }
    fn shards(&self) -> Result<Option<Shards<'_, K, I::Value>>> {
        self.parts.shards(true, I::launches)
    }
    fn fallbacks(&self, side: Side) -> Result<Neighbors<K, I::Value>> {
        let of = |_, shard: &I| match shard.is_empty() {
            true => Ok(None),
            false => {
                let (first, last) = (shard.successor_many(&[K::MIN])?[0], shard.predecessor_many(&[K::MAX])?[0]);
                Ok(first.zip(last).map(|(first, last)| [first, last]))
            }
        };
        self.ends.fallbacks(side, || self.parts.group.ask(of))
    }
    fn get_on_host(&self, keys: &[K]) -> Result<Vec<Option<I::Value>>> {
        self.get_many(keys)
    }
    fn rank_on_host(&self, side: Side, keys: &[K]) -> Result<Vec<u64>> {
        self.rank_many(side, keys)
    }
    fn neighbor_on_host(&self, side: Side, keys: &[K]) -> Result<Neighbors<K, I::Value>> {
        self.neighbor_many(side, keys)
    }
    fn count_on_host(&self, ranges: &[KeyRange<K>]) -> Result<Vec<u64>> {
        self.count_range_many(ranges)
    }
    fn range_on_host(&self, ranges: &[KeyRange<K>]) -> Result<Ranges<K, I::Value>> {
        self.range_many(ranges)
    }
}

impl<I: FixedIndex<Value: Word>> Sharded<I> {
    /// Iterates over all pairs in ascending order of their keys. Pairs come from the devices in large blocks; if that fails, the
    /// item is an error and the iteration ends.
    pub fn iter(&self) -> impl Iterator<Item = Result<(I::Key, I::Value)>> {
        self.parts.group.iter(Iter::new)
    }
}

impl<I: OrderedIndex<Domain: AnyKey>> fmt::Debug for Sharded<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.parts.before.last().unwrap_or(&0);
        write!(f, "Sharded[{} of {}, {pairs} pairs]", self.parts.splitters.len() + 1, I::NAME)
    }
}
