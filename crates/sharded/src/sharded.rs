//! [`Sharded`]: one index over several devices.

use crate::group::{Group, check_devices, keys_of, sum, undo};
use crate::route::Route;
use crate::{ranges, splitters};
use core::fmt;
#[cfg(doc)]
use lanetree_frame::Error;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::fixed::{FixedIndex, Iter};
use lanetree_frame::parallel::*;
use lanetree_frame::{
    AnyKey, Batch, Device, IndexBuilder, KeyOf, KeyRange, Matches, NeighborsOf, Op, OrderedIndex, Ranges, Result,
    UpdateReport, Word,
};
use std::borrow::Cow;

/// One index over several devices: each has the pairs of one interval of the keys, in an index of its own.
///
/// A batch is split by its keys. All shards answer their parts at the same time, each through its device's own bus, and the results
/// are put back in the batch's order. A batch that is sorted is cut, not copied. Batches of changes are all or nothing over all
/// shards. Memory, and the rates of large batches, grow with the number of cards.
///
/// It is built from any index over keys of a fixed size ([`IndexBuilder`]), and several shards may be on one device.
///
/// ```
/// use lanetree::{Device, LaneTree, OrderedIndex, Sharded};
///
/// # fn main() -> lanetree::Result<()> {
/// // Of a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
/// let devices = [Device::emulated(), Device::emulated()];
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
pub struct Sharded<I: OrderedIndex> {
    group: Group<I>,
    /// The smallest key that each shard but the first may hold.
    splitters: Vec<KeyOf<I>>,
    /// For each shard the pairs of those before it, and then of all: after the last change that took place.
    before: Vec<u64>,
    rebuild: Box<dyn Rebuild<I>>,
}

/// A builder, whatever its type is.
trait Rebuild<I: OrderedIndex>: Send + Sync {
    fn build(&self, device: &Device, keys: &[KeyOf<I>], values: &[I::Value]) -> Result<I>;
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>, B: IndexBuilder<Index = I>> Rebuild<I> for B {
    fn build(&self, device: &Device, keys: &[K], values: &[I::Value]) -> Result<I> {
        IndexBuilder::build(self, device, keys, values)
    }
}

/// What a shard of a [`Sharded`] has.
#[derive(Clone, Debug)]
pub struct ShardStats<K> {
    /// The device that it is on.
    pub device: Device,
    /// The smallest key that it may hold; the next shard's is past its largest.
    pub from: K,
    /// Its pairs.
    pub pairs: u64,
    /// Bytes of the device's memory that it takes.
    pub bytes: u64,
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// Builds an index over pairs in any order, with one shard on each of `devices`, 1 to 64; a device may be there more than once.
    /// Of equal keys, the last one's value is kept. The shards' borders are chosen from a sample of the keys, such that they are
    /// about as large as each other. Without keys, the shards divide the key space evenly.
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
        let splitters = splitters::choose(keys, devices.len());
        let route = Route::new(&splitters, keys.len(), |at| keys[at])?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        let group =
            Group::build(devices, |shard, device| IndexBuilder::build(&builder, device, &keys[shard], &values[shard]))?;
        let mut index = Self { group, splitters, before: Vec::new(), rebuild: Box::new(builder) };
        index.count();
        Ok(index)
    }

    /// Each shard's index, in the order of their keys.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn shards(&self) -> Result<&[I]> {
        self.group.get()
    }

    /// What each shard has, in the order of their keys.
    pub fn stats(&self) -> Vec<ShardStats<K>> {
        let stats = |(shard, index): (usize, &I)| ShardStats {
            device: index.device().clone(),
            from: if shard == 0 { K::MIN } else { self.splitters[shard - 1] },
            pairs: self.before[shard + 1] - self.before[shard],
            bytes: index.bytes(),
        };
        self.group.known().iter().enumerate().map(stats).collect()
    }

    /// Moves pairs between neighbours until no shard has more than half as many again as the mean; how many pairs have moved.
    /// Changes that are not spread as the pairs were make it useful; it is called by nobody else.
    ///
    /// Two shards at a time are built anew from their pairs, which pass through the host. The new ones are built before the old
    /// ones are freed, so their devices need memory for both.
    ///
    /// # Errors
    /// Those of the index's build: these two shards are as they were, and the index has all its pairs. [`Error::Lost`].
    pub fn rebalance(&mut self) -> Result<u64> {
        self.group.get()?;
        let mut moved = 0;
        loop {
            let sizes: Vec<u64> = self.before.windows(2).map(|shard| shard[1] - shard[0]).collect();
            let total = self.before[sizes.len()];
            let largest = sizes.iter().max().map_or(0, |&most| u128::from(most));
            // More than 3/2 of the mean.
            if largest * 2 * sizes.len() as u128 <= u128::from(total) * 3 {
                return Ok(moved);
            }
            // Evening out the most different neighbours comes to an end: the sum of the squares of the sizes falls.
            let difference = |&left: &usize| sizes[left].abs_diff(sizes[left + 1]);
            match (0..sizes.len() - 1).max_by_key(difference) {
                Some(left) if difference(&left) > 1 => moved += self.even_out(left)?,
                _ => return Ok(moved),
            }
        }
    }

    /// Gives a shard and the next one the same number of pairs; how many have moved.
    fn even_out(&mut self, left: usize) -> Result<u64> {
        let right = left + 1;
        let old = &self.group.get()?[left..=right];
        let old_size = self.before[right] - self.before[left];
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for index in old {
            let (more_keys, more_values) = index.pairs()?.into_par_iter().try_unzip()?;
            keys.push(more_keys);
            values.push(more_values);
        }
        let (keys, values) = (keys.concat(), values.concat());
        let middle = keys.len() / 2;
        let new = [0..middle, middle..keys.len()].into_iter().collect::<Vec<_>>();
        let build = |(shard, pairs): (usize, core::ops::Range<usize>)| {
            self.rebuild.build(old[shard].device(), &keys[pairs.clone()], &values[pairs])
        };
        let built: Vec<I> = new.into_par_iter().enumerate().try_map_collect(build)?;
        for (old, new) in self.group.get_mut()?[left..=right].iter_mut().zip(built) {
            *old = new;
        }
        self.splitters[left] = keys[middle];
        self.count();
        Ok(old_size.abs_diff(middle as u64))
    }

    /// Notes how many pairs there are.
    fn count(&mut self) {
        let mut before = 0;
        let sizes = self.group.known().iter().map(I::len);
        self.before = core::iter::once(0)
            .chain(sizes.map(|size| {
                before += size;
                before
            }))
            .collect();
    }

    /// The answers of a function for each shard's keys, in the order of the keys.
    fn answer<T: Copy + Send + Sync>(
        &self,
        keys: &[K],
        call: impl Fn(usize, &[I], &[K]) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<T>> {
        let shards = self.group.get()?;
        let route = Route::new(&self.splitters, keys.len(), |at| keys[at])?;
        let parts = route.split(keys)?;
        let answers = self.group.ask(|shard, _| match &parts[shard][..] {
            [] => Ok(Vec::new()),
            part => call(shard, shards, part),
        })?;
        route.merge(answers)
    }

    /// The ranks of keys, from their ranks in each shard.
    fn rank(&self, keys: &[K], rank: impl Fn(&I, &[K]) -> Result<Vec<u64>> + Sync) -> Result<Vec<u64>> {
        self.answer(keys, |shard, shards, keys| {
            let mut ranks = rank(&shards[shard], keys)?;
            ranks.par_iter_mut().for_each(|rank| *rank += self.before[shard]);
            Ok(ranks)
        })
    }

    /// The neighbours of keys: those that a shard does not have are the pair of the nearest shard that has any.
    fn neighbor(
        &self,
        keys: &[K],
        neighbor: impl Fn(&I, &[K]) -> Result<NeighborsOf<I>> + Sync,
        beside: impl Fn(&[I], usize) -> Result<Option<(K, I::Value)>> + Sync,
    ) -> Result<NeighborsOf<I>> {
        self.answer(keys, |shard, shards, keys| {
            let mut found = neighbor(&shards[shard], keys)?;
            if found.par_iter().any(Option::is_none) {
                let beside = beside(shards, shard)?;
                found.par_iter_mut().for_each(|pair| *pair = pair.or(beside));
            }
            Ok(found)
        })
    }

    /// Gives each shard its part of a batch.
    fn change(&mut self, parts: &[Batch<'_, I>]) -> Result<UpdateReport> {
        let shards = self.group.get()?;
        let keys = parts.iter().map(keys_of).collect::<Result<Vec<_>>>()?;
        // A change in one shard is all or nothing by itself.
        let is_alone = keys.iter().filter(|keys| !keys.is_empty()).count() < 2;
        let undo =
            shards.par_iter().zip(&keys).try_map_collect(|(shard, keys): (&I, &Cow<'_, [K]>)| match is_alone {
                true => Ok(Vec::new()),
                false => undo(shard, keys),
            })?;
        let reports = self.group.change(parts, |shard| &undo[shard])?;
        self.count();
        Ok(sum(&reports))
    }

    /// A change of a column of keys and one of values.
    fn change_pairs(
        &mut self,
        keys: &[K],
        values: &[I::Value],
        batch: impl for<'a> Fn(&'a [K], &'a [I::Value]) -> Batch<'a, I>,
    ) -> Result<UpdateReport> {
        self.group.get()?;
        check_lengths(keys, values)?;
        let route = Route::new(&self.splitters, keys.len(), |at| keys[at])?;
        let (keys, values) = (route.split(keys)?, route.split(values)?);
        self.change(&keys.iter().zip(&values).map(|(keys, values)| batch(keys, values)).collect::<Vec<_>>())
    }
}

impl<I: FixedIndex<Value: Word>> Sharded<I> {
    /// Iterates over all pairs in ascending order of their keys. Pairs come from the devices in large blocks; if that fails, the
    /// item is an error and the iteration ends.
    pub fn iter(&self) -> impl Iterator<Item = Result<(I::Key, I::Value)>> {
        let (shards, error) = match self.group.get() {
            Ok(shards) => (shards, None),
            Err(error) => (&[][..], Some(Err(error))),
        };
        let mut failed = false;
        let pairs = error.into_iter().chain(shards.iter().flat_map(Iter::new));
        pairs.take_while(move |pair| !core::mem::replace(&mut failed, pair.is_err()))
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> OrderedIndex for Sharded<I> {
    type Domain = K;
    type Value = I::Value;
    const NAME: &'static str = "sharded";

    /// The device of the shard with the smallest keys.
    fn device(&self) -> &Device {
        self.group.known()[0].device()
    }
    fn len(&self) -> u64 {
        self.before[self.before.len() - 1]
    }
    fn bytes(&self) -> u64 {
        self.group.known().iter().map(I::bytes).sum()
    }
    fn host_bytes(&self) -> u64 {
        self.group.known().iter().map(I::host_bytes).sum()
    }
    fn is_lost(&self) -> bool {
        self.group.is_lost()
    }
    fn get_many(&self, keys: &[K]) -> Result<Vec<Option<I::Value>>> {
        self.answer(keys, |shard, shards, keys| shards[shard].get_many(keys))
    }
    fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank(keys, I::lower_bound_many)
    }
    fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank(keys, I::upper_bound_many)
    }
    fn predecessor_many(&self, keys: &[K]) -> Result<NeighborsOf<Self>> {
        self.neighbor(keys, I::predecessor_many, |shards, shard| {
            match shards[..shard].iter().rev().find(|shard| !shard.is_empty()) {
                Some(shard) => Ok(shard.predecessor_many(&[K::MAX])?[0]),
                None => Ok(None),
            }
        })
    }
    fn successor_many(&self, keys: &[K]) -> Result<NeighborsOf<Self>> {
        self.neighbor(keys, I::successor_many, |shards, shard| {
            match shards[shard + 1..].iter().find(|shard| !shard.is_empty()) {
                Some(shard) => Ok(shard.successor_many(&[K::MIN])?[0]),
                None => Ok(None),
            }
        })
    }
    fn join_many(&self, probes: &[K]) -> Result<Matches> {
        let rows = self.answer(probes, |shard, shards, keys| {
            let matches = shards[shard].join_many(keys)?;
            let row = |&row: &u64| self.before[shard] + row;
            (0..keys.len())
                .into_par_iter()
                .map(|probe| matches.of(probe).first().map_or(Matches::NO_ROW, row))
                .try_collect()
        })?;
        Matches::of_rows(&rows)
    }
    fn range_many(&self, ranges: &[KeyRange<K>]) -> Result<Ranges<K, I::Value>> {
        ranges::range_many(&self.group, &self.splitters, ranges)
    }
    fn count_range_many(&self, ranges: &[KeyRange<K>]) -> Result<Vec<u64>> {
        ranges::count_range_many(&self.group, &self.splitters, ranges)
    }
    fn pairs(&self) -> Result<Vec<(K, I::Value)>> {
        let parts = self.group.ask(|_, index| index.pairs())?;
        let sizes = parts.iter().map(Vec::len).collect();
        Route::of_parts(sizes).merge(parts)
    }
    fn apply(&mut self, ops: &[Op<K, I::Value>]) -> Result<UpdateReport> {
        self.group.get()?;
        let route = Route::new(&self.splitters, ops.len(), |at| *ops[at].key())?;
        let ops = route.split(ops)?;
        self.change(&ops.iter().map(|ops| Batch::Apply(&ops[..])).collect::<Vec<_>>())
    }
    fn insert_many(&mut self, keys: &[K], values: &[I::Value]) -> Result<UpdateReport> {
        self.change_pairs(keys, values, |keys, values| Batch::Insert(keys, values))
    }
    fn update_many(&mut self, keys: &[K], values: &[I::Value]) -> Result<UpdateReport> {
        self.change_pairs(keys, values, |keys, values| Batch::Update(keys, values))
    }
    fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        self.group.get()?;
        let route = Route::new(&self.splitters, keys.len(), |at| keys[at])?;
        let keys = route.split(keys)?;
        self.change(&keys.iter().map(|keys| Batch::Remove(&keys[..])).collect::<Vec<_>>())
    }
    fn restore_order(&mut self) -> Result<bool> {
        Ok(self.group.tidy(I::restore_order)?.contains(&true))
    }
    /// Of all together.
    fn compact(&mut self) -> Result<u64> {
        Ok(self.group.tidy(I::compact)?.iter().sum())
    }
}

impl<I: OrderedIndex> fmt::Debug for Sharded<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.before.last().unwrap_or(&0);
        write!(f, "Sharded[{} of {}, {pairs} pairs]", self.splitters.len() + 1, I::NAME)
    }
}
