//! [`Sharded`]: one index over several devices.

use crate::group::{Group, Undo, check_devices, keys_of, sum, undo};
use crate::host_staging::{DIVIDED_THERE, HostStaging};
use crate::parts::{Ends, Parts, ShardStats};
use crate::question::{Shard, Shards};
use crate::range_router::RangeRouter;
use crate::route::Route;
use crate::router::Router;
use crate::scratch::ScratchPool;
use crate::splitters;
use core::fmt;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::fixed::{FixedIndex, Iter, Neighbors};
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::{
    AnyKey, Device, DeviceKind, Error, HostBatch, IndexBuilder, KeyOf, OrderedIndex, Result, UpdateReport, Word,
};
use std::borrow::Cow;
use std::sync::Arc;

/// One index over several devices: each has the pairs of one interval of the keys, in an index of its own.
///
/// A batch is split by its keys, and the results are put back in the batch's order. Of a batch on a device ([`Sharded::on`]) the
/// device does both; a batch in pinned memory ([`Sharded::get_many_pinned`]) goes in a part over each device's own bus, and each device
/// does so with its part. The CPU splits other host batches of shards on GPUs. Batches of changes are all or nothing over all shards.
/// Memory grows with the number of cards; `docs/guide/several-gpus.md` of the repository says what batches take.
///
/// In host form it has the calls of [`OrderedIndex`] (import the trait; ranges are a slice of [`KeyRange`](lanetree_frame::KeyRange)s),
/// [`asof_many`](Self::asof_many), [`get_many_pinned`](Self::get_many_pinned) and [`iter`](Self::iter), which goes forwards only. In
/// device form ([`on`](Self::on)) it has what [`OnDevices`](crate::OnDevices) has: the last pairs of ranges and the `k` nearest pairs,
/// too. For a single key make a batch of one.
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
    parts: Parts<KeyOf<I>, I>,
    rebuild: Arc<dyn Rebuild<I>>,
    router: Router<I::Domain, I::Value>,
    ranges: RangeRouter<I::Domain>,
    scratch: ScratchPool<I::Domain, I::Value>,
    staging: HostStaging<I::Domain, I::Value>,
    ends: Ends<(KeyOf<I>, I::Value)>,
    /// The fewest queries of a host batch that the devices divide: the constant, but in tests.
    pub(crate) divided_there: usize,
}

/// A builder, whatever its type is.
pub(crate) trait Rebuild<I: OrderedIndex>: Send + Sync {
    fn build(&self, device: &Device, keys: &[KeyOf<I>], values: &[I::Value]) -> Result<I>;
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>, B: IndexBuilder<Index = I>> Rebuild<I> for B {
    fn build(&self, device: &Device, keys: &[K], values: &[I::Value]) -> Result<I> {
        IndexBuilder::build(self, device, keys, values)
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// Builds an index over pairs in any order, with one shard on each of `devices`, 1 to 64; a device may be there more than once.
    /// Of equal keys, the last one's value is kept. The shards' borders are chosen from a sample of the keys, such that they are
    /// about as large as each other. Without keys, the shards divide the key space evenly. Pairs that main memory has no room for are
    /// built in pieces: [`Sharded::from_pieces`].
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
        check_devices(devices)?;
        let splitters = splitters::choose(keys, devices.len())?;
        let route = Route::new(&splitters, keys.len(), |at| keys[at])?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        let group =
            Group::build(devices, |shard, device| IndexBuilder::build(&builder, device, &keys[shard], &values[shard]))?;
        Ok(Self::of(group, splitters, Arc::new(builder), devices))
    }

    /// Of shards that were built on these devices.
    pub(crate) fn of(group: Group<I>, splitters: Vec<K>, rebuild: Arc<dyn Rebuild<I>>, devices: &[Device]) -> Self {
        let (router, staging) = (Router::default(), HostStaging::new(devices));
        let parts = Parts::new(group, splitters, I::len);
        let (ranges, scratch, ends) = (RangeRouter::default(), ScratchPool::default(), Ends::default());
        Self { parts, rebuild, router, ranges, scratch, staging, ends, divided_there: DIVIDED_THERE }
    }

    /// Each shard's index, in the order of their keys.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn shards(&self) -> Result<&[I]> {
        self.parts.group.get()
    }

    /// What each shard has, in the order of their keys.
    pub fn stats(&self) -> Vec<ShardStats<K>> {
        self.parts.stats(|index| (index.device(), index.bytes()))
    }

    /// Moves pairs between neighbours until no shard has more than half as many again as the mean; how many pairs have moved.
    /// Changes that are not spread as the pairs were make it useful; it is called by nobody else.
    ///
    /// Two shards at a time are rebuilt from their pairs, which pass through the host. The new ones are built before the old
    /// ones are freed, so their devices need memory for both.
    ///
    /// # Errors
    /// Those of the index's build: these two shards are as they were, and the index has all its pairs. [`Error::Lost`].
    pub fn rebalance(&mut self) -> Result<u64> {
        self.ends.forget();
        let rebuild = &*self.rebuild;
        self.parts.rebalance(I::len, |old| {
            let len = old.iter().map(|index| index.len() as usize).sum();
            let (mut keys, mut values) = (with_room(len)?, with_room(len)?);
            for index in old {
                let (more_keys, more_values) = index.pairs()?.into_par_iter().try_unzip()?;
                keys.extend_from_slice(&more_keys);
                values.extend_from_slice(&more_values);
            }
            let middle = keys.len() / 2;
            let new = [0..middle, middle..keys.len()].into_iter().collect::<Vec<_>>();
            let build = |(shard, pairs): (usize, core::ops::Range<usize>)| {
                rebuild.build(old[shard].device(), &keys[pairs.clone()], &values[pairs])
            };
            Ok(Some((new.into_par_iter().enumerate().try_map_collect(build)?, keys[middle])))
        })
    }

    /// Shards made of this index's and others, such that none has keys of another interval, on the same devices.
    pub(crate) fn made_of(&self, shards: Vec<I>) -> Self {
        let devices: Vec<Device> = shards.iter().map(|shard| shard.device().clone()).collect();
        Self::of(Group::of(shards), self.parts.splitters.clone(), self.rebuild.clone(), &devices)
    }

    pub(crate) fn parts(&self) -> &Parts<K, I> {
        &self.parts
    }

    pub(crate) fn group(&self) -> &Group<I> {
        &self.parts.group
    }

    pub(crate) fn group_mut(&mut self) -> &mut Group<I> {
        &mut self.parts.group
    }

    /// Notes how many pairs there are.
    pub(crate) fn count(&mut self) {
        self.ends.forget();
        self.parts.count(I::len);
    }

    /// The shards, if batches can be routed on their devices: all of one kind, which runs kernels, and with launches.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn routed(&self) -> Result<Option<Shards<'_, K, I::Value>>> {
        let shards = self.parts.group.get()?;
        let kind = shards[0].device().kind();
        if kind == DeviceKind::Host || shards.iter().any(|shard| shard.device().kind() != kind) {
            return Ok(None);
        }
        Ok(shards.iter().map(|shard| Some(Shard { device: shard.device(), launches: shard.launches()? })).collect())
    }

    /// The error of a batch in device form where [`Sharded::routed`] says that there is none.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn not_routed(&self) -> Result<Error> {
        let names: Vec<String> = self.parts.group.get()?.iter().map(|shard| shard.device().to_string()).collect();
        let value = format!("{} on {}", I::NAME, names.join(", "));
        let allowed = "an index over keys of a fixed size, on one GPU or on emulated devices";
        Ok(Error::OptionValue { what: "the shards of a batch in device form", value, allowed })
    }

    pub(crate) fn splitters(&self) -> &[K] {
        &self.parts.splitters
    }

    pub(crate) fn before(&self) -> &[u64] {
        &self.parts.before
    }

    pub(crate) fn router(&self) -> &Router<K, I::Value> {
        &self.router
    }

    pub(crate) fn ranges(&self) -> &RangeRouter<K> {
        &self.ranges
    }

    pub(crate) fn scratch(&self) -> &ScratchPool<K, I::Value> {
        &self.scratch
    }

    pub(crate) fn host_staging(&self) -> &HostStaging<K, I::Value> {
        &self.staging
    }

    /// The fewest queries of a batch in ordinary memory that the devices divide, not the CPU, for measurements.
    #[doc(hidden)]
    pub fn divided_there_mut(&mut self) -> &mut usize {
        &mut self.divided_there
    }

    /// The most queries of a piece (a multiple of 2048), and the pieces in flight.
    #[cfg(test)]
    pub(crate) fn set_pieces(&mut self, piece: usize, slots: usize) {
        self.router.routing = crate::router::Routing { piece, slots };
    }

    /// For each shard the pair that a query finds where the shard itself has none: of the nearest shard before it (`upper`), or
    /// after it, that has any.
    ///
    /// # Errors
    /// Those of look-ups, which it makes the first time after a change.
    pub(crate) fn fallbacks(&self, upper: bool) -> Result<Neighbors<K, I::Value>> {
        let of = |_, shard: &I| match shard.is_empty() {
            true => Ok(None),
            false => {
                let (first, last) = (shard.successor_many(&[K::MIN])?[0], shard.predecessor_many(&[K::MAX])?[0]);
                Ok(first.zip(last).map(|(first, last)| [first, last]))
            }
        };
        self.ends.fallbacks(upper, || self.parts.group.ask(of))
    }

    /// Gives each shard its part of a batch.
    pub(crate) fn change(&mut self, parts: &[HostBatch<'_, I>]) -> Result<UpdateReport> {
        let shards = self.parts.group.get()?;
        let keys = parts.iter().map(keys_of).collect::<Result<Vec<_>>>()?;
        // A change in one shard is all or nothing by itself.
        let is_alone = keys.iter().filter(|keys| !keys.is_empty()).count() < 2;
        let undo =
            shards.par_iter().zip(&keys).try_map_collect(|(shard, keys): (&I, &Cow<'_, [K]>)| match is_alone {
                true => Ok(Undo::Ops(Vec::new())),
                false => undo(shard, keys),
            })?;
        let reports = self.parts.group.apply(parts, |shard| undo[shard].ops(&keys[shard]))?;
        self.count();
        Ok(sum(&reports))
    }

    /// A change of a column of keys and one of values.
    pub(crate) fn change_pairs(
        &mut self,
        keys: &[K],
        values: &[I::Value],
        batch: impl for<'a> Fn(&'a [K], &'a [I::Value]) -> HostBatch<'a, I>,
    ) -> Result<UpdateReport> {
        self.parts.group.get()?;
        check_lengths(keys, values)?;
        let route = Route::new(&self.parts.splitters, keys.len(), |at| keys[at])?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        self.change(&keys.iter().zip(&values).map(|(keys, values)| batch(keys, values)).collect::<Vec<_>>())
    }
}

impl<I: FixedIndex<Value: Word>> Sharded<I> {
    /// Iterates over all pairs in ascending order of their keys. Pairs come from the devices in large blocks; if that fails, the
    /// item is an error and the iteration ends.
    pub fn iter(&self) -> impl Iterator<Item = Result<(I::Key, I::Value)>> {
        let (shards, error) = match self.parts.group.get() {
            Ok(shards) => (shards, None),
            Err(error) => (&[][..], Some(Err(error))),
        };
        let mut failed = false;
        let pairs = error.into_iter().chain(shards.iter().flat_map(Iter::new));
        pairs.take_while(move |pair| !core::mem::replace(&mut failed, pair.is_err()))
    }
}

impl<I: OrderedIndex<Domain: AnyKey>> fmt::Debug for Sharded<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.parts.before.last().unwrap_or(&0);
        write!(f, "Sharded[{} of {}, {pairs} pairs]", self.parts.splitters.len() + 1, I::NAME)
    }
}
