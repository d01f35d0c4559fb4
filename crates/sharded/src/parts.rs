//! Shards of any kind, and their borders.

use crate::group::{Group, sum};
use crate::query::{Shard, Shards};
use crate::route::Route;
use crate::router::are_in_reach;
use lanetree_frame::error::same_device;
use lanetree_frame::fixed::Side;
use lanetree_frame::parallel::*;
use lanetree_frame::room::make_room;
use lanetree_frame::{AnyKey, Device, DeviceKind, Error, Launches, Matches, Result, Stream, UpdateReport, Word};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// The contents of one shard of a [`Sharded`](crate::Sharded), or of a set or multi-map in shards.
#[derive(Clone, Debug)]
pub struct ShardStats<K> {
    /// The device that it is on.
    pub device: Device,
    /// The smallest key that it may hold. All its keys are below the next shard's `from`.
    pub from: K,
    /// Its pairs, or keys.
    pub pairs: u64,
    /// Bytes of the device's memory that it takes.
    pub bytes: u64,
    /// Whether it and the other shards are in reach of each other: at most eight, on devices whose kernels use each other's memory
    /// ([`Device::reaches`]). Then look-ups, ranks and neighbours of LaneTrees and their sets, in batches on this device, go straight to
    /// the shards' memory and back; otherwise by copies.
    pub is_direct: bool,
}

/// Shards of any kind, each with the keys of one interval.
pub(crate) struct Parts<K, I> {
    pub(crate) group: Group<I>,
    /// The smallest key that each shard but the first may hold.
    pub(crate) splitters: Vec<K>,
    /// For each shard the number of pairs in the shards before it, and then of all: after the last complete change.
    pub(crate) before: Vec<u64>,
    methods: Methods<I>,
}

/// Methods that every kind of shard has.
pub(crate) struct Methods<I> {
    pub(crate) name: &'static str,
    pub(crate) device: fn(&I) -> &Device,
    /// Pairs, or keys.
    pub(crate) len: fn(&I) -> u64,
    pub(crate) bytes: fn(&I) -> u64,
}

impl<K: AnyKey, I: Send + Sync> Parts<K, I> {
    pub(crate) fn new(group: Group<I>, splitters: Vec<K>, methods: Methods<I>) -> Self {
        let mut parts = Self { group, splitters, before: Vec::new(), methods };
        parts.count();
        parts
    }

    /// Updates the numbers of pairs.
    pub(crate) fn count(&mut self) {
        let mut before = 0;
        let through = self.group.known().iter().map(|shard| {
            before += (self.methods.len)(shard);
            before
        });
        self.before = core::iter::once(0).chain(through).collect();
    }

    pub(crate) fn stats(&self) -> Vec<ShardStats<K>> {
        let shards = self.group.known();
        let of = self.methods.device;
        let is_direct = |home: &I| are_in_reach(of(home), shards.iter().map(of), shards.len());
        let stats = |(shard, index): (usize, &I)| ShardStats {
            device: (self.methods.device)(index).clone(),
            from: if shard == 0 { K::MIN } else { self.splitters[shard - 1] },
            pairs: self.before[shard + 1] - self.before[shard],
            bytes: (self.methods.bytes)(index),
            is_direct: is_direct(index),
        };
        shards.iter().enumerate().map(stats).collect()
    }

    /// Bytes of the memory of all devices.
    pub(crate) fn bytes(&self) -> u64 {
        self.group.known().iter().map(self.methods.bytes).sum()
    }

    /// The shards, if kernels can answer: all on devices of one kind that runs kernels, and all with launches.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn shards<'s, V: Word>(
        &'s self,
        has_values: bool,
        launches: impl Fn(&'s I) -> Option<&'s dyn Launches<K, V>>,
    ) -> Result<Option<Shards<'s, K, V>>> {
        let (shards, device) = (self.group.get()?, self.methods.device);
        let kind = device(&shards[0]).kind();
        if kind == DeviceKind::Host || shards.iter().any(|shard| device(shard).kind() != kind) {
            return Ok(None);
        }
        let shard = |index| Some(Shard { device: device(index), launches: launches(index)? });
        let all: Option<Vec<_>> = shards.iter().map(shard).collect();
        let (splitters, before) = (&self.splitters[..], &self.before[..shards.len()]);
        Ok(all.map(|all| Shards { all, splitters, before, fallbacks: Vec::new(), has_values }))
    }

    /// Checks that a shard is on the stream's device; and, if that runs kernels, that kernels can answer.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Runtime`] for another device; [`Error::OptionValue`].
    pub(crate) fn check_stream(&self, stream: &Stream, can_launch: bool) -> Result<()> {
        let (shards, device) = (self.group.get()?, stream.device());
        let own: Vec<&Device> = shards.iter().map(self.methods.device).collect();
        if !own.contains(&device) {
            same_device(own[0], device, "the stream")?;
        }
        if device.kind() == DeviceKind::Host || can_launch {
            return Ok(());
        }
        let names: Vec<String> = own.iter().map(|device| device.to_string()).collect();
        let value = format!("{} on {}", self.methods.name, names.join(", "));
        let allowed = "an index over keys of a fixed size, with all shards on GPUs or all on emulated devices";
        Err(Error::OptionValue { what: "the shards of a batch in device form", value, allowed })
    }

    /// The pairs of all shards.
    pub(crate) fn len(&self) -> u64 {
        self.before[self.before.len() - 1]
    }

    /// Moves pairs between neighbours until no shard has more than 1.5 times the mean. Returns the number of pairs moved. `even_out`
    /// builds two shards from two and returns them with the new splitter; or none if they can't be more even.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); those of `even_out`: its two shards are unchanged.
    pub(crate) fn rebalance(&mut self, even_out: impl Fn(&[I]) -> Result<Option<(Vec<I>, K)>>) -> Result<u64> {
        self.group.get()?;
        let mut moved = 0;
        loop {
            let sizes: Vec<u64> = self.before.windows(2).map(|shard| shard[1] - shard[0]).collect();
            let largest = sizes.iter().max().map_or(0, |&most| u128::from(most));
            // More than 3/2 of the mean.
            if largest * 2 * sizes.len() as u128 <= u128::from(self.len()) * 3 {
                return Ok(moved);
            }
            // Evening out the most different neighbours terminates: the sum of the squares of the sizes falls.
            let difference = |&left: &usize| sizes[left].abs_diff(sizes[left + 1]);
            let Some(left) = (0..sizes.len() - 1).max_by_key(difference).filter(|left| difference(left) > 1) else {
                return Ok(moved);
            };
            let Some((built, splitter)) = even_out(&self.group.get()?[left..=left + 1])? else { return Ok(moved) };
            for (old, new) in self.group.get_mut()?[left..=left + 1].iter_mut().zip(built) {
                *old = new;
            }
            self.splitters[left] = splitter;
            self.count();
            moved += sizes[left].abs_diff(self.before[left + 1] - self.before[left]);
        }
    }

    /// How a batch of keys is partitioned among the shards.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Runtime`] if main memory has no room.
    pub(crate) fn route(&self, keys: &[K]) -> Result<Route> {
        self.group.get()?;
        Route::new(&self.splitters, keys.len(), |at| keys[at])
    }

    /// The results of a function for each shard's keys, in the order of the keys.
    pub(crate) fn answer<T: Copy + Send + Sync>(
        &self,
        keys: &[K],
        call: impl Fn(&I, &[K]) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<T>> {
        self.answer_in(keys, |shard, keys| call(&self.group.known()[shard], keys))
    }

    /// [`Parts::answer`], of a function that takes the shard's number.
    fn answer_in<T: Copy + Send + Sync>(
        &self,
        keys: &[K],
        call: impl Fn(usize, &[K]) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<T>> {
        let route = self.route(keys)?;
        let parts = route.split(keys)?;
        let answers = self.group.ask(|shard, _| match &parts[shard][..] {
            [] => Ok(Vec::new()),
            part => call(shard, part),
        })?;
        route.merge(answers)
    }

    /// The ranks of keys, from their ranks in each shard.
    pub(crate) fn rank(&self, keys: &[K], rank: impl Fn(&I, &[K]) -> Result<Vec<u64>> + Sync) -> Result<Vec<u64>> {
        self.answer_in(keys, |shard, keys| {
            let mut ranks = rank(&self.group.known()[shard], keys)?;
            ranks.par_iter_mut().for_each(|rank| *rank += self.before[shard]);
            Ok(ranks)
        })
    }

    /// The predecessors ([`Side::Upper`]) or successors of keys. If a shard has none, it is in the nearest shard that has pairs.
    pub(crate) fn neighbor<T: Copy + Send + Sync>(
        &self,
        side: Side,
        keys: &[K],
        neighbor: impl Fn(&I, &[K]) -> Result<Vec<Option<T>>> + Sync,
    ) -> Result<Vec<Option<T>>> {
        let shards = self.group.get()?;
        let has_pairs = |&shard: &usize| self.before[shard] < self.before[shard + 1];
        self.answer_in(keys, |shard, keys| {
            let mut found = neighbor(&shards[shard], keys)?;
            if found.par_iter().any(Option::is_none) {
                let (nearest, key) = match side {
                    Side::Upper => ((0..shard).rev().find(has_pairs), K::MAX),
                    Side::Lower => ((shard + 1..shards.len()).find(has_pairs), K::MIN),
                };
                let fallback = match nearest {
                    Some(nearest) => neighbor(&shards[nearest], &[key])?[0],
                    None => None,
                };
                found.par_iter_mut().for_each(|pair| *pair = pair.or(fallback));
            }
            Ok(found)
        })
    }

    /// Which of `probes` are present, and the rank of each that is, over all shards.
    pub(crate) fn join(&self, probes: &[K], join: impl Fn(&I, &[K]) -> Result<Matches> + Sync) -> Result<Matches> {
        let rows = self.answer_in(probes, |shard, keys| {
            let matches = join(&self.group.known()[shard], keys)?;
            let row = |&row: &u64| self.before[shard] + row;
            let row = |probe: usize| matches.of(probe).first().map_or(Matches::NO_ROW, row);
            (0..keys.len()).into_par_iter().map(row).try_collect()
        })?;
        Matches::of_rows(&rows)
    }

    /// The pairs or keys of all shards, in order.
    pub(crate) fn all<T: Copy + Send + Sync>(&self, all: impl Fn(&I) -> Result<Vec<T>> + Sync) -> Result<Vec<T>> {
        let parts = self.group.ask(|_, index| all(index))?;
        Route::of_parts(parts.iter().map(Vec::len).collect()).merge(parts)
    }

    /// Applies a change to each shard with keys in it. If it is in several shards, `remember` first takes what `undo` needs.
    ///
    /// # Errors
    /// As [`Group::change`]; those of `remember`.
    pub(crate) fn change<U: Send + Sync>(
        &mut self,
        keys: &[Cow<'_, [K]>],
        remember: impl Fn(&I, &[K]) -> Result<U> + Sync,
        apply: impl Fn(usize, &mut I) -> Result<UpdateReport> + Sync,
        undo: impl Fn(&mut I, &[K], &U) -> Result<()> + Sync,
    ) -> Result<UpdateReport> {
        // A change in one shard is all or nothing by itself.
        let is_alone = keys.iter().filter(|keys| !keys.is_empty()).count() < 2;
        let before = self.group.ask(|shard, index| match is_alone || keys[shard].is_empty() {
            true => Ok(None),
            false => remember(index, &keys[shard]).map(Some),
        })?;
        let apply = |shard: usize, index: &mut I| match keys[shard].is_empty() {
            true => Ok(UpdateReport::default()),
            false => apply(shard, index),
        };
        let undo = |shard: usize, index: &mut I| match &before[shard] {
            Some(before) => undo(index, &keys[shard], before),
            None => Ok(()),
        };
        let reports = self.group.change(apply, undo)?;
        self.count();
        Ok(sum(&reports))
    }
}

/// The keys and values of adjacent shards.
///
/// # Errors
/// Those of `pairs`; [`Error::Runtime`] if main memory has no room.
pub(crate) fn columns<K: AnyKey, V: Word, I>(
    shards: &[I],
    pairs: impl Fn(&I) -> Result<Vec<(K, V)>>,
) -> Result<(Vec<K>, Vec<V>)> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for shard in shards {
        let (more_keys, more_values): (Vec<K>, Vec<V>) = pairs(shard)?.into_par_iter().try_unzip()?;
        make_room(&mut keys, more_keys.len())?;
        make_room(&mut values, more_values.len())?;
        keys.extend_from_slice(&more_keys);
        values.extend_from_slice(&more_values);
    }
    Ok((keys, values))
}

/// The first and the last pair of each shard that has any.
type AllEnds<T> = Vec<Option<[T; 2]>>;

/// Each shard's first and last pair, kept until the next change.
pub(crate) struct Ends<T>(Mutex<Option<Arc<AllEnds<T>>>>);

impl<T> Default for Ends<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Copy> Ends<T> {
    /// Drops them, after a change.
    pub(crate) fn forget(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// For each shard the pair that a query finds if the shard has none: the last pair of the nearest shard before it that has any
    /// ([`Side::Upper`]), or the first pair of the nearest after it.
    ///
    /// # Errors
    /// Those of `ask`, which is called the first time after a change.
    pub(crate) fn fallbacks(&self, side: Side, ask: impl FnOnce() -> Result<AllEnds<T>>) -> Result<Vec<Option<T>>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ends = match known {
            Some(ends) => ends,
            None => {
                let ends = Arc::new(ask()?);
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(ends.clone());
                ends
            }
        };
        let mut nearest = None;
        let mut pass = |ends: &Option<[T; 2]>, end: usize| {
            let found = nearest;
            nearest = ends.map(|ends| ends[end]).or(nearest);
            found
        };
        Ok(match side {
            Side::Upper => ends.iter().map(|ends| pass(ends, 1)).collect(),
            Side::Lower => {
                let mut all: Vec<_> = ends.iter().rev().map(|ends| pass(ends, 0)).collect();
                all.reverse();
                all
            }
        })
    }
}

/// The methods that all kinds of shards have; and, of those that are no [`OrderedIndex`](lanetree_frame::OrderedIndex), more.
macro_rules! shard_methods {
    (impl[$($generics:tt)*] $Type:ty, $Key:ty, $Shard:ty) => {
        impl<$($generics)*> $Type {
            /// Each shard's index, in the order of their keys.
            ///
            /// # Errors
            /// [`Error::Lost`].
            pub fn shards(&self) -> Result<&[$Shard]> {
                self.parts.group.get()
            }

            /// The contents of each shard, in the order of their keys.
            pub fn stats(&self) -> Vec<ShardStats<$Key>> {
                self.parts.stats()
            }
        }
    };
    (impl[$($generics:tt)*] $Type:ty, $Key:ty, $Shard:ty, sizes) => {
        $crate::parts::shard_methods!(impl[$($generics)*] $Type, $Key, $Shard);

        impl<$($generics)*> $Type {
            /// The number of keys, or of pairs; if it is lost, the number before.
            pub fn len(&self) -> u64 {
                self.parts.len()
            }

            /// Whether it has none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether a failed change left the contents unknown: then every call that returns a result returns [`Error::Lost`].
            pub fn is_lost(&self) -> bool {
                self.parts.group.is_lost()
            }

            /// Its bytes in the memory of all devices.
            pub fn bytes(&self) -> u64 {
                self.parts.bytes()
            }
        }
    };
}
pub(crate) use shard_methods;
