//! What the stages of a bucket take, and how long a bucket is under way: the paper's cost model (section 5.4).

use super::buckets::{Queue, Slot, Slots, Work};
use super::descent::Descents;
use super::{DescentSlot, Shape};
use crate::HbTree;
use crate::device::Descending;
use crate::structure::{CopyOf, InnerOnDevice, Leaves, Structure};
use core::time::Duration;
use lanetree_frame::parallel::*;
use lanetree_frame::{Error, Result, Stream};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Event;
use lanetree_simt::Global;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Queries that a thread finishes at a time.
const TASK: usize = 1 << 10;

/// What the stages of a bucket have taken, each by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageTimes {
    /// Copying the queries into pinned memory, by one thread. The paper has no such stage.
    pub staging: Duration,
    /// The paper's T1: sending the queries to the device.
    pub upload: Duration,
    /// T2: the descent of all inner levels on the device.
    pub descent: Duration,
    /// T3: fetching the leaves' numbers.
    pub download: Duration,
    /// T4: searching the leaves, by all threads of the rayon pool.
    pub leaves: Duration,
}

impl StageTimes {
    /// What a bucket should take with [`Strategy::Sequential`](crate::Strategy::Sequential): T_S, the sum of all stages.
    pub fn sequential(&self) -> Duration {
        self.staging + self.upload + self.descent + self.download + self.leaves
    }

    /// What a bucket should take with [`Strategy::Pipelined`](crate::Strategy::Pipelined): T_P = T1 + max(T2 + T3, T4), and
    /// the staging.
    pub fn pipelined(&self) -> Duration {
        self.staging + self.upload + (self.descent + self.download).max(self.leaves)
    }

    /// What a bucket should take with [`Strategy::DoubleBuffered`](crate::Strategy::DoubleBuffered): the longest of T1, T2, T3
    /// and T4, the last with the staging. The paper leaves out the transfers, which it takes to be shorter than the rest.
    pub fn double_buffered(&self) -> Duration {
        self.upload.max(self.descent).max(self.download).max(self.staging + self.leaves)
    }
}

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// Measures the stages of a bucket of these queries, on an idle device: transfers and descent by the device's events, the
    /// rest by the CPU's clock. The bucket goes through twice, and the second time counts. The device descends all levels,
    /// whatever the [`Split`](crate::Split) is. `None` if the CPU answers all queries alone.
    ///
    /// # Errors
    /// As [`HbTree::get_many`].
    pub fn stage_times(&self, keys: &[K]) -> Result<Option<StageTimes>> {
        let Some(copy) = self.parts.copy.as_ref().filter(|_| !keys.is_empty()) else { return Ok(None) };
        let mut slot = DescentSlot::<K, CopyOf<K, L>>::new(&self.parts.device)?;
        slot.reserve(keys.len(), false)?;
        let mut out = filled(V::MIN, keys.len())?;
        self.stages(copy, &mut slot, keys, &mut out)?;
        self.stages(copy, &mut slot, keys, &mut out).map(Some)
    }

    /// Looks up keys, and measures how long each bucket is under way while buckets follow one another: from when it enters a
    /// pipeline, staging included, until it is answered, which counts as in the middle of the search of its leaves, as in the
    /// paper. `out` gets the value of each key, the smallest one for a key that is absent. The batch goes through twice, and
    /// the second time counts. The descent is split as [`Pipeline::split`](crate::Pipeline::split) says, whatever the
    /// [`Balance`](crate::Balance) is. `None` if the CPU answers all queries alone; then nothing is looked up.
    ///
    /// # Errors
    /// As [`HbTree::get_many_into`].
    pub fn bucket_latencies(&self, keys: &[K], out: &mut [V]) -> Result<Option<Vec<Duration>>> {
        if keys.len() != out.len() {
            return Err(Error::OutputLength { what: "the output", expected: keys.len(), actual: out.len() });
        }
        let Some(route) = self.route() else { return Ok(None) };
        let finish = |_, keys: &[K], leaves: &[u32], out: &mut [V]| self.values_in(leaves, keys, out);
        let (pipeline, slots) = (&route.options.pipeline, Slots::default());
        let work = Descents { route: &route, split: pipeline.split, finish: &finish };
        let mut timed = Timed { work, latencies: Mutex::default() };
        for _ in 0..2 {
            timed.latencies = Mutex::default();
            Shape::of(pipeline, keys.len()).run(&slots, &Queue::new(keys, out), &timed)?;
        }
        Ok(Some(timed.latencies.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    fn stages(
        &self,
        copy: &CopyOf<K, L>,
        slot: &mut DescentSlot<K, CopyOf<K, L>>,
        keys: &[K],
        out: &mut [V],
    ) -> Result<StageTimes> {
        let (device, pipeline, count) = (&self.parts.device, &self.parts.options.pipeline, keys.len());
        let points: [Event; 4] = [device.event()?, device.event()?, device.event()?, device.event()?];
        let started = Instant::now();
        slot.queries[..count].copy_from_slice(keys);
        let staging = started.elapsed();

        let DescentSlot { stream, queries, leaves, device_queries, device_leaves, scratch, .. } = slot;
        points[0].record(stream)?;
        device_queries.upload_async(stream, 0, queries, 0..count)?;
        points[1].record(stream)?;
        for _ in 0..pipeline.device_times() {
            let batch = Descending {
                queries: device_queries.read_on(stream)?.cast(),
                nodes: Global::null(),
                from: 0,
                count,
                leaves: device_leaves.write_on(stream)?,
            };
            // SAFETY: the buffers have room for the bucket, and the addresses are for this stream.
            unsafe { copy.launch(stream, pipeline.device_search, scratch, batch)? };
        }
        points[2].record(stream)?;
        device_leaves.download_async(stream, 0..count, leaves, 0)?;
        points[3].record(stream)?;
        stream.synchronize()?;
        let between = |i: usize| -> Result<Duration> {
            Ok(Duration::from_secs_f64(f64::from(Event::elapsed_ms(&points[i], &points[i + 1])?) / 1e3))
        };

        let (started, leaves) = (Instant::now(), &leaves[..count]);
        let tasks = keys.par_chunks(TASK).zip(leaves.par_chunks(TASK)).zip(out.par_chunks_mut(TASK));
        tasks.for_each(|((keys, leaves), out)| self.values_in(leaves, keys, out));
        let leaves = started.elapsed();
        Ok(StageTimes { staging, upload: between(0)?, descent: between(1)?, download: between(2)?, leaves })
    }

    /// The values of keys whose leaves are known.
    fn values_in(&self, leaves: &[u32], keys: &[K], out: &mut [V]) {
        let value = |place| self.parts.leaves.value(place);
        self.find_in(leaves, keys, |i, place| out[i] = if place.is_hit { value(place) } else { V::MIN });
    }
}

/// Work that measures how long each bucket is under way.
struct Timed<W> {
    work: W,
    latencies: Mutex<Vec<Duration>>,
}

/// A slot, and when its bucket has entered the pipeline.
struct TimedSlot<S> {
    slot: S,
    entered: Instant,
}

impl<S: Slot> Slot for TimedSlot<S> {
    fn stream(&self) -> &Stream {
        self.slot.stream()
    }

    fn bytes(&self) -> usize {
        self.slot.bytes()
    }
}

impl<K, T, W: Work<K, T>> Work<K, T> for Timed<W> {
    type Slot = TimedSlot<W::Slot>;

    fn slot(&self) -> Result<Self::Slot> {
        Ok(TimedSlot { slot: self.work.slot()?, entered: Instant::now() })
    }

    fn begin(&self, slot: &mut Self::Slot, first: usize, keys: &[K], is_shared: bool) -> Result<()> {
        slot.entered = Instant::now();
        self.work.begin(&mut slot.slot, first, keys, is_shared)
    }

    fn finish(&self, slot: &Self::Slot, first: usize, keys: &[K], out: &mut [T], is_shared: bool) {
        let descended = slot.entered.elapsed();
        self.work.finish(&slot.slot, first, keys, out, is_shared);
        let latency = (descended + slot.entered.elapsed()) / 2;
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(latency);
    }
}
