//! A batch of queries through both: the device descends the inner levels, the CPU searches the leaves (section 5.4).
//!
//! A batch is split into buckets. A pipeline has some of them under way at a time; several threads have a pipeline each,
//! and none waits for another. With a single pipeline, all threads search the leaves of a bucket together, as in the
//! paper.

mod ascending;
mod slot;

pub(crate) use ascending::{Answers, WideSlots};

use crate::build::Options;
use crate::device::DeviceSearch;
use crate::structure::{Inner, InnerOnDevice, SlotsOf, Structure};
use lanetree_frame::{Device, Result};
use lanetree_layout::{Key, Word};
use rayon::prelude::*;
use slot::Slot;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How buckets follow one another (section 5.4, figures 5 and 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// Each bucket after the one before.
    Sequential,
    /// The device has the next bucket while the CPU searches leaves.
    Pipelined,
    /// The device has the next two: their transfers overlap with its work.
    #[default]
    DoubleBuffered,
    /// The device has the next three (section 5.5).
    TripleBuffered,
}

impl Strategy {
    /// Buckets that the device has while the CPU searches the leaves of another.
    fn ahead(self) -> usize {
        match self {
            Self::Sequential => 0,
            Self::Pipelined => 1,
            Self::DoubleBuffered => 2,
            Self::TripleBuffered => 3,
        }
    }
}

/// How much of the descent is the CPU's (section 5.5): the levels above `depth` for all queries, and for a share of
/// them one level more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// Levels that the CPU descends: the paper's D.
    pub depth: u32,
    /// The share of queries, from 0 to 1, for which it descends another one: 1 - R in the paper.
    pub share: f64,
}

/// How a hybrid tree answers batches.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pipeline {
    /// Queries of a bucket: the paper's M.
    pub bucket: usize,
    /// How buckets follow one another.
    pub strategy: Strategy,
    /// Pipelines side by side; 0: three for each four threads of the rayon pool.
    pub pipelines: usize,
    /// How the device searches nodes.
    pub device_search: DeviceSearch,
    /// What of the descent is the CPU's.
    pub split: Split,
    /// The order in which a bucket's leaves are read.
    pub leaf_order: LeafOrder,
    /// The share of leaves, from 0 to 1, that the device reads across the bus, in look-ups with [`LeafOrder::Ascending`]. The
    /// leaves must be pinned: [`Builder::pinning`](crate::Builder::pinning).
    pub device_leaves: f64,
}

/// The order in which a bucket's leaves are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeafOrder {
    /// That of the queries: the paper's.
    #[default]
    Given,
    /// Ascending: the device sorts each bucket by leaf. A single pipeline, for buckets of 2^20 queries or more; the device
    /// has the descent as a whole.
    Ascending,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            bucket: 1 << 14,
            strategy: Strategy::default(),
            pipelines: 0,
            device_search: DeviceSearch::default(),
            split: Split::default(),
            leaf_order: LeafOrder::default(),
            device_leaves: 0.0,
        }
    }
}

/// Queries that a thread finishes at a time, where all threads have a bucket together.
const TASK: usize = 1 << 10;

/// Finishes queries whose leaves are known: their first one's place in the batch, they, their leaves, and where the
/// results go.
pub(crate) type Finish<'a, K, T> = dyn Fn(usize, &[K], &[u32], &mut [T]) + Sync + 'a;

/// The slots of finished batches, kept for the next ones.
pub(crate) struct Slots<K: Key, C: InnerOnDevice<K>> {
    idle: Mutex<Vec<Vec<Slot<K, C>>>>,
}

impl<K: Key, C: InnerOnDevice<K>> Default for Slots<K, C> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<K: Key, C: InnerOnDevice<K>> Slots<K, C> {
    /// Bytes of device memory and of pinned memory.
    pub(crate) fn bytes(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().map(Slot::bytes).sum()
    }
}

/// The part of a bucket that is a share of it.
fn share_of(count: usize, share: f64) -> usize {
    ((count as f64 * share) as usize).min(count)
}

/// A copy of inner levels on a device.
pub(crate) type CopyOf<K, L> = <<L as Structure>::Inner<K> as Inner<K>>::OnDevice;

/// What a batch goes through.
pub(crate) struct Route<'a, K: Key, L: Structure> {
    pub(crate) device: &'a Device,
    pub(crate) slots: &'a SlotsOf<K, L>,
    pub(crate) inner: &'a L::Inner<K>,
    pub(crate) copy: &'a CopyOf<K, L>,
    pub(crate) options: &'a Options,
}

/// What is left of a batch.
struct Rest<'a, K, T> {
    first: usize,
    keys: &'a [K],
    out: &'a mut [T],
}

/// A bucket: its first query's place in the batch, its queries, and where their results go.
type Bucket<'a, K, T> = (usize, &'a [K], &'a mut [T]);

impl<'a, K, T> Rest<'a, K, T> {
    fn take(&mut self, bucket: usize) -> Option<Bucket<'a, K, T>> {
        if self.keys.is_empty() {
            return None;
        }
        let count = bucket.min(self.keys.len());
        let ((keys, more_keys), first) = (self.keys.split_at(count), self.first);
        let (out, more_out) = core::mem::take(&mut self.out).split_at_mut(count);
        (self.keys, self.out, self.first) = (more_keys, more_out, first + count);
        Some((first, keys, out))
    }
}

impl<K: Key, L: Structure> Route<'_, K, L> {
    /// Sends a batch through both, and has each bucket finished.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(crate) fn send<T: Send>(&self, keys: &[K], out: &mut [T], finish: &Finish<'_, K, T>) -> Result<()> {
        let bucket = self.options.pipeline.bucket;
        let threads = rayon::current_num_threads();
        let pipelines =
            if self.options.pipeline.pipelines > 0 { self.options.pipeline.pipelines } else { threads - threads / 4 };
        // A batch of few buckets is shared by all threads.
        let pipelines = if keys.len().div_ceil(bucket) < 2 * pipelines { 1 } else { pipelines };
        let rest = Mutex::new(Rest { first: 0, keys, out });
        let take = || rest.lock().unwrap_or_else(PoisonError::into_inner).take(bucket);
        let work = || {
            let mut taken = self.take_slots();
            let outcome = self.work_off(&mut taken.slots, take, finish, pipelines == 1);
            taken.done = outcome.is_ok();
            if outcome.is_err() {
                // The other threads need not go on.
                rest.lock().unwrap_or_else(PoisonError::into_inner).keys = &[];
            }
            outcome
        };
        if pipelines == 1 {
            return work();
        }
        (0..pipelines).into_par_iter().with_max_len(1).map(|_| work()).reduce(|| Ok(()), Result::and)
    }

    fn take_slots(&self) -> TakenSlots<'_, K, CopyOf<K, L>> {
        let slots = self.slots.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        TakenSlots { from: self.slots, slots, done: false }
    }

    /// The work of one pipeline: takes buckets while there are any.
    fn work_off<'b, T: Send + 'b>(
        &self,
        slots: &mut Vec<Slot<K, CopyOf<K, L>>>,
        take: impl Fn() -> Option<Bucket<'b, K, T>>,
        finish: &Finish<'_, K, T>,
        is_shared: bool,
    ) -> Result<()>
    where
        K: 'b,
    {
        let ahead = self.options.pipeline.strategy.ahead();
        while slots.len() <= ahead {
            slots.push(Slot::new(self.device)?);
        }
        let mut on_their_way = VecDeque::with_capacity(ahead + 1);
        let mut free: Vec<usize> = (0..=ahead).collect();
        loop {
            while on_their_way.len() < ahead.max(1)
                && let Some(slot) = free.pop()
                && let Some((first, keys, out)) = take()
            {
                self.begin(&mut slots[slot], keys)?;
                on_their_way.push_back((slot, first, keys, out));
            }
            let Some((slot, first, keys, out)) = on_their_way.pop_front() else { return Ok(()) };
            slots[slot].stream.synchronize()?;
            // The device goes on before the CPU does.
            if ahead > 0
                && let Some(next) = free.pop()
                && let Some((first, keys, out)) = take()
            {
                self.begin(&mut slots[next], keys)?;
                on_their_way.push_back((next, first, keys, out));
            }
            let leaves = &slots[slot].leaves[..keys.len()];
            if is_shared {
                let tasks = keys.par_chunks(TASK).zip(leaves.par_chunks(TASK)).zip(out.par_chunks_mut(TASK));
                tasks
                    .enumerate()
                    .for_each(|(task, ((keys, leaves), out))| finish(first + task * TASK, keys, leaves, out));
            } else {
                finish(first, keys, leaves, out);
            }
            free.push(slot);
        }
    }

    /// Puts a bucket on its way.
    fn begin(&self, slot: &mut Slot<K, CopyOf<K, L>>, keys: &[K]) -> Result<()> {
        let Split { depth, share } = self.options.pipeline.split;
        let deeper = share_of(keys.len(), share);
        let with_nodes = depth > 0 || deeper > 0;
        slot.reserve(keys.len(), with_nodes)?;
        slot.queries[..keys.len()].copy_from_slice(keys);
        let parts = [(depth, keys.len() - deeper), (depth + 1, deeper)];
        if with_nodes {
            let mut first = 0;
            for (levels, count) in parts {
                let part = first..first + count;
                self.descend(levels, &keys[part.clone()], &mut slot.nodes[part]);
                first += count;
            }
        }
        slot.launch(self.copy, self.options.pipeline.device_search, &parts)
    }

    /// The CPU's part of the descent.
    fn descend(&self, levels: u32, keys: &[K], nodes: &mut [u32]) {
        const CHUNK: usize = 256;
        for (keys, nodes) in keys.chunks(CHUNK).zip(nodes.chunks_mut(CHUNK)) {
            let mut words = [K::Bits::MIN; CHUNK];
            words.iter_mut().zip(keys).for_each(|(word, key)| *word = key.encode());
            nodes.fill(0);
            self.inner.descend(self.options.descent(), &words[..keys.len()], 0..levels, nodes);
        }
    }
}

/// The slots of a pipeline. They are returned idle, even after an error or a panic.
struct TakenSlots<'a, K: Key, C: InnerOnDevice<K>> {
    from: &'a Slots<K, C>,
    slots: Vec<Slot<K, C>>,
    /// Whether all buckets have been waited for.
    done: bool,
}

impl<K: Key, C: InnerOnDevice<K>> Drop for TakenSlots<'_, K, C> {
    fn drop(&mut self) {
        let slots = core::mem::take(&mut self.slots);
        if !self.done {
            // Buckets in flight no longer have an owner.
            slots.iter().for_each(|slot| drop(slot.stream.synchronize()));
        }
        self.from.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
    }
}
