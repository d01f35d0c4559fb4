//! Shards and their borders, whatever the shards are.

use crate::group::Group;
use crate::route::Route;
use lanetree_frame::parallel::*;
use lanetree_frame::{AnyKey, Device, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// What a shard of a [`Sharded`](crate::Sharded) has, or of a set or a multi-map in shards.
#[derive(Clone, Debug)]
pub struct ShardStats<K> {
    /// The device that it is on.
    pub device: Device,
    /// The smallest key that it may hold; the next shard's is past its largest.
    pub from: K,
    /// Its pairs, or keys.
    pub pairs: u64,
    /// Bytes of the device's memory that it takes.
    pub bytes: u64,
}

/// Shards of any kind, each with the keys of one interval.
pub(crate) struct Parts<K, I> {
    pub(crate) group: Group<I>,
    /// The smallest key that each shard but the first may hold.
    pub(crate) splitters: Vec<K>,
    /// For each shard the pairs of those before it, and then of all: after the last change that took place.
    pub(crate) before: Vec<u64>,
}

impl<K: AnyKey, I: Send + Sync> Parts<K, I> {
    /// Of shards with so many pairs.
    pub(crate) fn new(group: Group<I>, splitters: Vec<K>, len: impl Fn(&I) -> u64) -> Self {
        let mut parts = Self { group, splitters, before: Vec::new() };
        parts.count(len);
        parts
    }

    /// Notes how many pairs there are.
    pub(crate) fn count(&mut self, len: impl Fn(&I) -> u64) {
        let mut before = 0;
        let through = self.group.known().iter().map(|shard| {
            before += len(shard);
            before
        });
        self.before = core::iter::once(0).chain(through).collect();
    }

    /// What each shard has, which says where it is and how many bytes it takes.
    pub(crate) fn stats<'i>(&'i self, of: impl Fn(&'i I) -> (&'i Device, u64)) -> Vec<ShardStats<K>> {
        let stats = |(shard, index): (usize, &'i I)| {
            let (device, bytes) = of(index);
            let from = if shard == 0 { K::MIN } else { self.splitters[shard - 1] };
            ShardStats { device: device.clone(), from, pairs: self.before[shard + 1] - self.before[shard], bytes }
        };
        self.group.known().iter().enumerate().map(stats).collect()
    }

    /// The pairs of all shards.
    pub(crate) fn len(&self) -> u64 {
        self.before[self.before.len() - 1]
    }

    /// Moves pairs between neighbours until no shard has more than half as many again as the mean; how many have moved. `even_out`
    /// builds two shards in place of two, and says where the second one begins; or that they can't be more alike.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); those of `even_out`: these two shards are as they were.
    pub(crate) fn rebalance(
        &mut self,
        len: impl Fn(&I) -> u64,
        even_out: impl Fn(&[I]) -> Result<Option<(Vec<I>, K)>>,
    ) -> Result<u64> {
        self.group.get()?;
        let mut moved = 0;
        loop {
            let sizes: Vec<u64> = self.before.windows(2).map(|shard| shard[1] - shard[0]).collect();
            let largest = sizes.iter().max().map_or(0, |&most| u128::from(most));
            // More than 3/2 of the mean.
            if largest * 2 * sizes.len() as u128 <= u128::from(self.len()) * 3 {
                return Ok(moved);
            }
            // Evening out the most different neighbours comes to an end: the sum of the squares of the sizes falls.
            let difference = |&left: &usize| sizes[left].abs_diff(sizes[left + 1]);
            let Some(left) = (0..sizes.len() - 1).max_by_key(difference).filter(|left| difference(left) > 1) else {
                return Ok(moved);
            };
            let Some((built, splitter)) = even_out(&self.group.get()?[left..=left + 1])? else { return Ok(moved) };
            for (old, new) in self.group.get_mut()?[left..=left + 1].iter_mut().zip(built) {
                *old = new;
            }
            self.splitters[left] = splitter;
            self.count(&len);
            moved += sizes[left].abs_diff(self.before[left + 1] - self.before[left]);
        }
    }

    /// The answers of a function for each shard's keys, in the order of the keys.
    pub(crate) fn answer<T: Copy + Send + Sync>(
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
    pub(crate) fn rank(&self, keys: &[K], rank: impl Fn(&I, &[K]) -> Result<Vec<u64>> + Sync) -> Result<Vec<u64>> {
        self.answer(keys, |shard, shards, keys| {
            let mut ranks = rank(&shards[shard], keys)?;
            ranks.par_iter_mut().for_each(|rank| *rank += self.before[shard]);
            Ok(ranks)
        })
    }

    /// The neighbours of keys: those that a shard does not have are the pair of the nearest shard that has any.
    pub(crate) fn neighbor<T: Copy + Send + Sync>(
        &self,
        keys: &[K],
        neighbor: impl Fn(&I, &[K]) -> Result<Vec<Option<T>>> + Sync,
        fallbacks: impl Fn(&[I], usize) -> Result<Option<T>> + Sync,
    ) -> Result<Vec<Option<T>>> {
        self.answer(keys, |shard, shards, keys| {
            let mut found = neighbor(&shards[shard], keys)?;
            if found.par_iter().any(Option::is_none) {
                let fallbacks = fallbacks(shards, shard)?;
                found.par_iter_mut().for_each(|pair| *pair = pair.or(fallbacks));
            }
            Ok(found)
        })
    }
}

/// The first and the last of each shard, of the shards that have any.
type AllEnds<T> = Vec<Option<[T; 2]>>;

/// Each shard's first pair (or key) and its last, once they were asked for after the last change.
pub(crate) struct Ends<T>(Mutex<Option<Arc<AllEnds<T>>>>);

impl<T> Default for Ends<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Copy> Ends<T> {
    /// Those are not known any more.
    pub(crate) fn forget(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// For each shard what a query finds where the shard itself has nothing: the last one of the nearest shard before it that has
    /// any (`upper`), or the first one of the nearest after it.
    ///
    /// # Errors
    /// Those of `ask`, which is called the first time after a change.
    pub(crate) fn fallbacks(&self, upper: bool, ask: impl FnOnce() -> Result<AllEnds<T>>) -> Result<Vec<Option<T>>> {
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
        Ok(match upper {
            true => ends.iter().map(|ends| pass(ends, 1)).collect(),
            false => {
                let mut all: Vec<_> = ends.iter().rev().map(|ends| pass(ends, 0)).collect();
                all.reverse();
                all
            }
        })
    }
}
