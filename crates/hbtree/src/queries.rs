//! Every query, in host form.

use crate::HbTree;
use crate::hybrid::Route;
use crate::native::TASK;
use crate::structure::{Inner, Leaves, Parts, Place, Structure};
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};
use lanetree_frame::parallel::*;
use lanetree_frame::room::zeroed;
use lanetree_frame::{Error, Result};
use lanetree_layout::{Key, Word};
use lanetree_runtime::PinnedBuffer;

/// For each query the pair next to it, if there is one.
pub type Neighbors<K, V> = Vec<Option<(K, V)>>;

/// Every query in host form. A call returns when its results are complete.
impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// The value of one key; `None` if it is absent. Look up many with [`HbTree::get_many`].
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        let mut out = [None];
        self.get_many_into(slice::from_ref(key), &mut out)?;
        Ok(out[0])
    }

    /// Whether one key is present. Ask for many with [`HbTree::contains_many`].
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn contains(&self, key: &K) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Whether each of `keys` is present, in the order of `keys`. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut out = vec![false; keys.len()];
        self.answer(
            (keys, None),
            &mut out,
            |_, place: Place| place.is_hit,
            Some(|_, value: Option<V>| value.is_some()),
        )?;
        Ok(out)
    }

    /// The pair with the smallest key; `None` if there are no pairs.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn first(&self) -> Result<Option<(K, V)>> {
        Ok(self.successor_many(&[K::MIN])?[0])
    }

    /// The pair with the largest key; `None` if there are no pairs.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        Ok(self.predecessor_many(&[K::MAX])?[0])
    }

    /// The value of each key, in the order of `keys`; `None` for a key that is absent. Keys may repeat, in any order.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room for the batch, or from its driver.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut out = filled(None, keys.len())?;
        self.get_many_into(keys, &mut out)?;
        Ok(out)
    }

    /// [`HbTree::get_many`] into a slice of as many elements as there are keys.
    ///
    /// # Errors
    /// As [`HbTree::get_many`], and [`Error::OutputLength`].
    pub fn get_many_into(&self, keys: &[K], out: &mut [Option<V>]) -> Result<()> {
        let value = |_, place: Place| place.is_hit.then(|| self.parts.leaves.value(place));
        self.answer((keys, None), out, value, Some(|_, value| value))
    }

    /// The value of each key, or `miss` for one that is not there, into a slice: half as much to write as
    /// [`HbTree::get_many_into`] has.
    ///
    /// # Errors
    /// As [`HbTree::get_many_into`].
    pub fn get_many_or(&self, keys: &[K], miss: V, out: &mut [V]) -> Result<()> {
        let value = |_, place: Place| if place.is_hit { self.parts.leaves.value(place) } else { miss };
        self.answer((keys, None), out, value, Some(|_, value: Option<V>| value.unwrap_or(miss)))
    }

    /// The number of keys below each of `keys`: the rank that the key has, or would have if inserted.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        let mut out = zeroed(keys.len())?;
        self.parts.leaves.prepare_ranks()?;
        self.answer_on_host(keys, &mut out, |place| self.parts.leaves.rank(place))?;
        Ok(out)
    }

    /// How many of the tree's keys are at or below each of `keys`, in the order of `keys`. Returns when the results are
    /// complete.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        let mut out = zeroed(keys.len())?;
        self.parts.leaves.prepare_ranks()?;
        self.answer_on_host(keys, &mut out, |place| self.parts.leaves.rank(place) + u64::from(place.is_hit))?;
        Ok(out)
    }

    /// The last pair whose key is at or below each of `keys`: the key itself if it is present.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn predecessor_many(&self, keys: &[K]) -> Result<Neighbors<K, V>> {
        let leaves = &self.parts.leaves;
        self.neighbor_many(keys, |place| if place.is_hit { leaves.pair_at(place) } else { leaves.pair_before(place) })
    }

    /// The first pair whose key is at or above each of `keys`: the key itself if it is present.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn successor_many(&self, keys: &[K]) -> Result<Neighbors<K, V>> {
        self.neighbor_many(keys, |place| self.parts.leaves.pair_at(place))
    }

    fn neighbor_many(
        &self,
        keys: &[K],
        pair: impl Fn(Place) -> Option<(K::Bits, V)> + Sync,
    ) -> Result<Neighbors<K, V>> {
        let mut out = filled(None, keys.len())?;
        self.answer_on_host(keys, &mut out, |place| pair(place).map(|(word, value)| (K::decode(word), value)))?;
        Ok(out)
    }

    /// Answers each query by its place, which takes the CPU.
    fn answer_on_host<T: Send>(&self, keys: &[K], out: &mut [T], by_place: impl Fn(Place) -> T + Sync) -> Result<()> {
        self.answer((keys, None), out, |_, place| by_place(place), None::<fn(usize, Option<V>) -> T>)
    }

    /// Answers each query, given its number, by its place in the tree, or by what a device finds in its leaf. `pinned` are the
    /// queries, if they lie in pinned memory.
    pub(crate) fn answer<T: Send>(
        &self,
        (keys, pinned): (&[K], Option<&PinnedBuffer<K>>),
        out: &mut [T],
        by_place: impl Fn(usize, Place) -> T + Sync,
        by_value: Option<impl Fn(usize, Option<V>) -> T + Sync>,
    ) -> Result<()> {
        if keys.len() != out.len() {
            return Err(Error::OutputLength { what: "the output", expected: keys.len(), actual: out.len() });
        }
        let Some(route) = self.route() else {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).enumerate().for_each(|(task, (keys, out))| {
                self.find(keys, |i, place| out[i] = by_place(task * TASK + i, place));
            });
            return Ok(());
        };
        let route = Route { pinned, ..route };
        let finish = |first, keys: &[K], leaves: &[u32], out: &mut [T]| {
            self.find_in(leaves, keys, |i, place| out[i] = by_place(first + i, place));
        };
        match by_value {
            Some(by_value) if self.parts.leaves_pinned() && self.parts.options.pipeline.device_bucket > 0 => {
                let on_cpu = |at, key| {
                    let mut answer = None;
                    self.find(&[key], |_, place| answer = Some(by_place(at, place)));
                    answer.expect("one query has one answer")
                };
                let alone = route.alone(&self.parts, &by_value, &on_cpu, &self.pace);
                route.send_beside(&self.slots, keys, out, &finish, (&alone, &self.wide_slots, &self.pace))
            }
            _ => route.send(&self.slots, keys, out, &finish),
        }
    }

    /// Has runs of queries answered, about in their order, at most `most` in a run. `answer` gets the first one's place in the
    /// batch, how many they are, and what calls a function with each query's number in the run and its place in the tree.
    pub(crate) fn answer_with(
        &self,
        keys: &[K],
        most: usize,
        answer: impl Fn(usize, usize, &mut dyn FnMut(&mut dyn FnMut(usize, Place))) + Sync,
    ) -> Result<()> {
        let Some(route) = self.route() else {
            // A thread that is free takes the next ones, so that what is found first comes first.
            let most = most.min(TASK);
            let next = AtomicUsize::new(0);
            (0..threads().min(keys.len().div_ceil(most))).into_par_iter().for_each(|_| {
                // A number only: the threads hand one another nothing by it.
                let take = || Some(next.fetch_add(most, Ordering::Relaxed)).filter(|&first| first < keys.len());
                while let Some(first) = take() {
                    let keys = &keys[first..keys.len().min(first + most)];
                    answer(first, keys.len(), &mut |each| self.find(keys, each));
                }
            });
            return Ok(());
        };
        let mut options = *route.options;
        options.pipeline.bucket = options.pipeline.bucket.min(most);
        let route = Route { options: &options, ..route };
        // There is nothing to write per query.
        let nothing = &mut vec![(); keys.len()];
        route.send(&self.slots, keys, nothing, &|first, keys, leaves, _| {
            answer(first, keys.len(), &mut |each| self.find_in(leaves, keys, each));
        })
    }

    /// The way through the device, if there is one, and it has something to do.
    pub(crate) fn route(&self) -> Option<Route<'_, K, L>> {
        let Parts { device, options, inner, copy, .. } = &self.parts;
        let copy = copy.as_ref()?;
        let has_levels = inner.height() > options.pipeline.split.depth;
        has_levels.then_some(Route { device, inner, copy, options, discovery: &self.discovery, pinned: None })
    }
}
