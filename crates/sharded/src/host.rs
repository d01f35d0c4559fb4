//! Batches in pinned memory, divided by the devices: each takes a part of the batch over its own bus, sends the queries to their
//! shards, and brings the results back the same way. Batches in ordinary memory are divided by the CPU, which takes 0.6 of the time
//! of two shards on an H100, and a third of it on two: the devices' results would go through too few threads.

use crate::question::{Queries, Question};
use crate::sharded::Sharded;
#[cfg(doc)]
use lanetree_frame::Error;
use lanetree_frame::parallel::*;
use lanetree_frame::staging::PinnedBatch;
use lanetree_frame::{AnyKey, OrderedIndex, PinnedBuffer, Result};

/// Threads that send each device's part of a pinned batch. While one waits for the numbers of queries of its piece's shards, the
/// bus has the pieces of the others.
const PINNED_THREADS: usize = 3;

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
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
        let batch = PinnedBatch { queries: keys, width: 1, values: &mut *values, hits: hits.as_deref_mut() };
        batch.check()?;
        let Some(shards) = self.routed()? else {
            let found = self.get_many(keys)?;
            PinnedBatch { queries: keys, width: 1, values, hits }.fill(found, miss);
            return Ok(());
        };
        // Nobody else uses the results any more, nor writes the keys.
        let count = keys[..].len();
        let _ = (values.first_mut(), hits.as_mut().map(|hits| hits.first_mut().is_some()));
        let (ways, values, hits) = (&self.ways().0, &*values, hits.as_deref());
        let parts = ways.len() * PINNED_THREADS;
        let part = |number: usize| {
            (number * count / parts / 32 * 32)..match number + 1 {
                next if next == parts => count,
                next => next * count / parts / 32 * 32,
            }
        };
        (0..parts).into_par_iter().try_for_each(|number| {
            let (way, range) = (&ways[number / PINNED_THREADS], part(number));
            if range.is_empty() {
                return Ok(());
            }
            // SAFETY: the parts of the results don't overlap, since they begin at multiples of 32; each is gone when this closure
            // has returned, before the caller has the buffers back.
            let (keys, mut values, mut hits) = unsafe {
                let words = range.start / 32..range.end.div_ceil(32);
                let hits = hits.map(|hits| hits.part_for(&way.device, words)).transpose()?;
                (keys.part_for(&way.device, range.clone())?, values.part_for(&way.device, range)?, hits)
            };
            let batch = PinnedBatch { queries: &keys, width: 1, values: &mut values, hits: hits.as_mut() };
            way.pinned.send(&way.device, batch, &|stream, queries, count, values, hits| {
                let queries = Queries { at: queries.cast(), count, is_sorted: false, is_spread: false };
                let question = Question::Get { values, hits, miss };
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.router().run(&shards, self.splitters(), stream, queries, &question) }
            })
        })
    }
}
