//! Host batches that the devices divide: each takes a part of the batch over its own bus, sends the queries to their shards, and
//! brings the results back the same way. Of batches in ordinary memory the CPU copies each piece into pinned memory and its results
//! out of it, by as many threads as a batch of one index has; it divides short ones itself.

use crate::question::{Queries, Question};
use crate::sharded::Sharded;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::parallel::*;
use lanetree_frame::staging::{Addresses, Piece, PinnedBatch, Results, Route};
use lanetree_frame::{AnyKey, KeyWord, NeighborsOf, OrderedIndex, PinnedBuffer, Result};

/// Threads that send each device's part of a pinned batch. While one waits for the numbers of queries of its piece's shards, the
/// bus has the pieces of the others.
const PINNED_THREADS: usize = 3;

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// The values of a batch in ordinary memory, divided by the devices; `None` if the CPU is to divide it. So below.
    ///
    /// # Errors
    /// Those of [`OrderedIndex::get_many`]; so below.
    pub(crate) fn get_staged(&self, keys: &[K]) -> Result<Option<Vec<Option<I::Value>>>> {
        let results = Results { arrays: [I::Value::BYTES, 0], bits: 1 };
        let question =
            |out: &Addresses| Question::Get { values: out.arrays[0].cast(), hits: out.hits, miss: I::Value::MIN };
        self.stage(keys, None, results, question, |piece, out| {
            let values = piece.array::<I::Value>(0);
            piece.place(out, |i| values[i]);
        })
    }

    pub(crate) fn rank_staged(&self, keys: &[K], upper: bool) -> Result<Option<Vec<u64>>> {
        let (results, all) = (Results { arrays: [8, 0], bits: 0 }, self.before());
        let before = &all[..all.len() - 1];
        let question = |out: &Addresses| Question::Rank { ranks: out.arrays[0].cast(), upper, before };
        self.stage(keys, 0, results, question, |piece, out| out.copy_from_slice(piece.array(0)))
    }

    pub(crate) fn neighbor_staged(&self, keys: &[K], upper: bool) -> Result<Option<NeighborsOf<Self>>> {
        if !self.is_staged(keys)? {
            return Ok(None);
        }
        let results = Results { arrays: [I::Value::BYTES, K::Bits::BYTES], bits: 1 };
        let fallbacks = self.fallbacks(upper)?;
        let question = |out: &Addresses| Question::Neighbor {
            keys: out.arrays[1].cast(),
            values: out.arrays[0].cast(),
            hits: out.hits,
            miss: I::Value::MIN,
            upper,
            fallbacks: &fallbacks,
        };
        self.stage(keys, None, results, question, |piece, out| {
            let (values, keys) = (piece.array::<I::Value>(0), piece.array::<K>(1));
            piece.place(out, |i| (keys[i], values[i]));
        })
    }

    fn is_staged(&self, keys: &[K]) -> Result<bool> {
        Ok(keys.len() >= self.divided_there && self.routed()?.is_some())
    }

    fn stage<'k, 'q, T: Copy + Send + Sync>(
        &self,
        keys: &'k [K],
        none: T,
        results: Results,
        question: impl Fn(&Addresses) -> Question<'q, K, I::Value> + Sync,
        collect: impl Fn(&Piece<'_, &'k [K]>, &mut [T]) + Sync,
    ) -> Result<Option<Vec<T>>> {
        let Some(shards) = self.routed()?.filter(|_| keys.len() >= self.divided_there) else { return Ok(None) };
        let mut found = filled(none, keys.len())?;
        let all = &self.host_staging().0;
        let length = keys.len().div_ceil(all.len()).max(1);
        let parts = keys.par_chunks(length).zip(found.par_chunks_mut(length)).enumerate();
        parts.try_for_each(|(number, (keys, found))| {
            let of_device = &all[number];
            let route = Route {
                device: &of_device.device,
                results,
                scratch: 0,
                reads_once: false,
                launch: &|stream, keys: &[K], input, out| {
                    let queries = Queries { at: input.cast(), count: keys.len(), is_sorted: false, is_spread: false };
                    // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                    unsafe { self.router().run(&shards, self.splitters(), stream, queries, &question(&out)) }
                },
                collect: &collect,
            };
            of_device.staging.send(keys, found, &route)
        })?;
        Ok(Some(found))
    }

    /// The value of each key, or `miss`, from pinned memory to pinned memory: each device's bus carries a part of the batch in both
    /// directions at once, and the CPU copies nothing. Bit `i % 32` of `hits[i / 32]` (the hit mask) says whether key `i` is
    /// present. Returns when the results are complete. The memory may be pinned for any of the devices.
    ///
    /// # Errors
    /// [`Error::OutputLength`]; those of [`OrderedIndex::get_many`].
    pub fn get_many_pinned(
        &self,
        keys: &PinnedBuffer<K>,
        miss: I::Value,
        values: &mut PinnedBuffer<I::Value>,
        mut hits: Option<&mut PinnedBuffer<u32>>,
    ) -> Result<()> {
        let batch =
            PinnedBatch { queries: keys, width: 1, values: &mut *values, hits: hits.as_deref_mut(), finds_keys: false };
        batch.check()?;
        let Some(shards) = self.routed()? else {
            let found = self.get_many(keys)?;
            PinnedBatch { queries: keys, width: 1, values, hits, finds_keys: false }.fill(found, miss);
            return Ok(());
        };
        // Nobody else uses the results any more, nor writes the keys.
        let count = keys[..].len();
        let _ = (values.first_mut(), hits.as_mut().map(|hits| hits.first_mut().is_some()));
        let (all, values, hits) = (&self.host_staging().0, &*values, hits.as_deref());
        let parts = all.len() * PINNED_THREADS;
        let part = |number: usize| {
            (number * count / parts / 32 * 32)..match number + 1 {
                next if next == parts => count,
                next => next * count / parts / 32 * 32,
            }
        };
        (0..parts).into_par_iter().try_for_each(|number| {
            let (of_device, range) = (&all[number / PINNED_THREADS], part(number));
            if range.is_empty() {
                return Ok(());
            }
            // SAFETY: the parts of the results don't overlap, since they begin at multiples of 32; each is gone when this closure
            // has returned, before the caller has the buffers back.
            let (keys, mut values, mut hits) = unsafe {
                let words = range.start / 32..range.end.div_ceil(32);
                let hits = hits.map(|hits| hits.part_for(&of_device.device, words)).transpose()?;
                (keys.part_for(&of_device.device, range.clone())?, values.part_for(&of_device.device, range)?, hits)
            };
            let batch =
                PinnedBatch { queries: &keys, width: 1, values: &mut values, hits: hits.as_mut(), finds_keys: false };
            of_device.pinned.send(&of_device.device, batch, &|stream, piece| {
                let at = piece.queries.cast();
                let queries = Queries { at, count: piece.count, is_sorted: false, is_spread: false };
                let question = Question::Get { values: piece.values, hits: piece.hits, miss };
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.router().run(&shards, self.splitters(), stream, queries, &question) }
            })
        })
    }
}
