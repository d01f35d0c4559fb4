//! Host batches that the devices partition: each device takes a part of the batch over its own bus, sends the queries to their shards,
//! and brings the results back the same way. The CPU copies pieces of batches in ordinary memory into pinned memory and their results
//! out of it, with the threads that a batch of one index has. It partitions short batches itself.

use crate::on_shards::InShards;
use crate::query::Shards;
use crate::router::Hints;
use crate::sharded::Sharded;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{Query, Side};
use lanetree_frame::parallel::*;
use lanetree_frame::staging::{Addresses, Piece, PinnedBatch, Results, Route};
use lanetree_frame::uninit::{Uninit, Written, made};
use lanetree_frame::{AnyKey, KeyWord, NeighborsOf, OrderedIndex, PinnedBuffer, Result};
use lanetree_simt::{GetBatch, Global, Near, NeighborBatch, RankBatch};

/// Threads that send each device's part of a pinned batch. While one waits for the sizes of its piece's buckets, the bus has the
/// pieces of the others.
const PINNED_THREADS: usize = 3;

/// Pieces of host batches: in staging memory.
const STAGED: Hints = Hints { is_sorted: false, is_staged: true, is_in_reach: true };

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// # Errors
    /// As [`OrderedIndex::get_many`].
    pub(crate) fn get_routed(&self, keys: &[K]) -> Result<Vec<Option<I::Value>>> {
        let Some(shards) = self.staged_shards(keys)? else { return self.parts.answer(keys, I::get_many) };
        let results = Results::new([I::Value::BYTES, 0], 1);
        let query = |queries, count, out: &Addresses| {
            let (values, hits, miss) = (out.arrays[0].cast(), out.hits, I::Value::MIN);
            Query::Get(GetBatch { queries, count, values, hits, miss })
        };
        self.stage(&shards, keys, results, query, |piece, out| piece.found(out, |value: I::Value| value))
    }

    /// The ranks of keys.
    ///
    /// # Errors
    /// As [`OrderedIndex::lower_bound_many`].
    pub(crate) fn rank_many(&self, side: Side, keys: &[K]) -> Result<Vec<u64>> {
        let Some(shards) = self.staged_shards(keys)? else {
            return match side {
                Side::Lower => self.parts.rank(keys, I::lower_bound_many),
                Side::Upper => self.parts.rank(keys, I::upper_bound_many),
            };
        };
        let query = |queries, count, out: &Addresses| {
            Query::Rank(RankBatch { queries, count, ranks: out.arrays[0].cast(), upper: side as u32 })
        };
        let results = Results::new([8, 0], 0);
        self.stage(&shards, keys, results, query, |piece, out| out.copy(piece.array(0)))
    }

    /// The predecessors ([`Side::Upper`]) or successors of keys.
    ///
    /// # Errors
    /// As [`OrderedIndex::predecessor_many`].
    pub(crate) fn neighbor_many(&self, side: Side, keys: &[K]) -> Result<NeighborsOf<Self>> {
        let Some(mut shards) = self.staged_shards(keys)? else {
            return match side {
                Side::Lower => self.parts.neighbor(side, keys, I::successor_many),
                Side::Upper => self.parts.neighbor(side, keys, I::predecessor_many),
            };
        };
        shards.fallbacks = self.fallbacks(side)?;
        let query = |queries, count, out: &Addresses| {
            let ([values, keys], hits) = (out.arrays, out.hits);
            let (keys, values, predecessor, miss) = (keys.cast(), values.cast(), side as u32, I::Value::MIN);
            Query::Neighbor(NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near: Near::ANY })
        };
        let results = Results::new([I::Value::BYTES, K::Bits::BYTES], 1);
        self.stage(&shards, keys, results, query, |piece, out| {
            piece.found_both(out, |value: I::Value, key: K| (key, value))
        })
    }

    /// The shards, if the devices are to partition these keys.
    fn staged_shards(&self, keys: &[K]) -> Result<Option<Shards<'_, K, I::Value>>> {
        Ok(InShards::shards(self)?.filter(|_| keys.len() >= self.min_staged))
    }

    fn stage<'k, T: Copy + Send + Sync>(
        &self,
        shards: &Shards<'_, K, I::Value>,
        keys: &'k [K],
        results: Results,
        query: impl Fn(Global<K::Bits>, u64, &Addresses) -> Query<K::Bits, I::Value> + Sync,
        collect: impl for<'p> Fn(&Piece<'_, &'k [K]>, Uninit<'p, T>) -> Written<'p> + Sync,
    ) -> Result<Vec<T>> {
        let length = keys.len().div_ceil(self.staging.0.len()).max(1);
        made(keys.len(), |mut out| {
            let parts = keys.chunks(length).zip(&self.staging.0);
            let parts: Vec<_> = parts.map(|(keys, of_device)| (keys, of_device, out.take_first(keys.len()))).collect();
            let sent = parts.into_par_iter().map(|(keys, of_device, out)| {
                let route = Route {
                    device: &of_device.device,
                    results,
                    reads_once: false,
                    launch: &|stream, keys: &[K], input, out| {
                        let query = query(input.cast(), keys.len() as u64, &out);
                        // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                        unsafe { self.routers.router.run(shards, stream, STAGED, &query) }
                    },
                    collect: &collect,
                };
                of_device.staging.send(keys, out, &route)
            });
            sent.reduce(|| Ok(Written::default()), |a, b| Ok(a?.and(b?)))
        })
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
        let Some(shards) = InShards::shards(self)? else {
            let found = self.get_many(keys)?;
            PinnedBatch { queries: keys, width: 1, values, hits, finds_keys: false }.fill(found, miss);
            return Ok(());
        };
        // Waits for earlier work on the results, and for writes of the keys.
        let count = keys[..].len();
        let _ = (values.first_mut(), hits.as_mut().map(|hits| hits.first_mut().is_some()));
        let (all, values, hits) = (&self.staging.0, &*values, hits.as_deref());
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
                let (queries, count) = (piece.queries.cast(), piece.count as u64);
                let query = Query::Get(GetBatch { queries, count, values: piece.values, hits: piece.hits, miss });
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.routers.router.run(&shards, stream, STAGED, &query) }
            })
        })
    }
}
