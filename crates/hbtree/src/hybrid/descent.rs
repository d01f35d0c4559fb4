//! Buckets that the device descends and the CPU finishes: the paper's way (section 5.4).

use super::buckets::{Queue, Slot, Slots, Work, pipeline as pipeline_of};
use super::{Discovery, Pace, Route, Sample, Shape, share_of};
use crate::device::Descending;
use crate::options::{Balance, DeviceSearch, Pipeline, Split, Transfers};
use crate::structure::{CopyOf, Inner, InnerOnDevice, Structure};
use crate::tuning::TUNING;
use core::cell::Cell;
use lanetree_frame::parallel::*;
use lanetree_frame::staging::ACROSS_THE_BUS;
use lanetree_frame::{Device, DeviceKind, Result, Stream};
use lanetree_layout::{Key, KeyWord};
use lanetree_runtime::{Buffer, PinnedBuffer};
use lanetree_simt::Global;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A bucket's memory on both sides. It grows to the largest bucket.
pub(crate) struct DescentSlot<K: Key, C: InnerOnDevice<K>> {
    pub(super) stream: Stream,
    /// On the host.
    pub(super) queries: PinnedBuffer<K>,
    /// The nodes to which the CPU has brought the queries, if it has.
    nodes: PinnedBuffer<u32>,
    pub(super) leaves: PinnedBuffer<u32>,
    /// On the device.
    pub(super) device_queries: Buffer<K>,
    device_nodes: Buffer<u32>,
    pub(super) device_leaves: Buffer<u32>,
    pub(super) scratch: C::Scratch,
}

impl<K: Key, C: InnerOnDevice<K>> DescentSlot<K, C> {
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            queries: device.pinned(0)?,
            nodes: device.pinned(0)?,
            leaves: device.pinned(0)?,
            device_queries: device.alloc(0)?,
            device_nodes: device.alloc(0)?,
            device_leaves: device.alloc(0)?,
            scratch: C::scratch(device, 0)?,
        })
    }

    /// Makes room for a bucket; `with_nodes` if queries start below the root.
    pub(super) fn reserve(&mut self, count: usize, with_nodes: bool) -> Result<()> {
        let device = self.stream.device();
        let room = count.next_power_of_two();
        if self.leaves.len() < count {
            self.queries = device.pinned(room)?;
            self.device_queries = device.alloc(room)?;
            self.device_leaves = device.alloc(room)?;
            self.scratch = C::scratch(device, room)?;
            // Last: it says how much room there is.
            self.leaves = device.pinned(room)?;
        }
        if with_nodes && self.device_nodes.len() < count {
            self.nodes = device.pinned(room)?;
            self.device_nodes = device.alloc(room)?;
        }
        Ok(())
    }

    /// Puts the descent of queries into the stream: of those that the caller has in pinned memory, from a place on, or of the
    /// staged ones. `parts` says how many of them in turn start from which level, from their nodes unless the level is the
    /// root's.
    fn launch(
        &mut self,
        inner: &C,
        pipeline: &Pipeline,
        pinned: Option<(&PinnedBuffer<K>, usize)>,
        parts: &[(u32, usize)],
    ) -> Result<()> {
        let search = pipeline.device_search;
        let Self { stream, queries, nodes, leaves, device_queries, device_nodes, device_leaves, scratch } = self;
        let (queries, at) = pinned.unwrap_or((queries, 0));
        let count = parts.iter().map(|part| part.1).sum();
        let with_nodes = parts.iter().any(|part| part.0 > 0 && part.1 > 0);
        // A few queries are mostly latency: the kernel reads and writes host memory itself.
        let across = pipeline.transfers == Transfers::Auto
            && stream.device().kind() == DeviceKind::Cuda
            && count <= ACROSS_THE_BUS
            && search == DeviceSearch::Ballot;
        let (from, to, start) = if across {
            let start = if with_nodes { nodes.read_on(stream)? } else { Global::null() };
            let from = queries.read_on(stream)?.byte_add((at * size_of::<K>()) as u64);
            (from, leaves.write_on(stream)?, start)
        } else {
            device_queries.upload_async(stream, 0, queries, at..at + count)?;
            let mut start = Global::null();
            if with_nodes {
                device_nodes.upload_async(stream, 0, nodes, 0..count)?;
                start = device_nodes.read_on(stream)?;
            }
            (device_queries.read_on(stream)?, device_leaves.write_on(stream)?, start)
        };
        let mut first = 0;
        for &(level, count) in parts.iter().filter(|part| part.1 > 0) {
            let part = Descending {
                queries: from.cast().byte_add((first * size_of::<K>()) as u64),
                nodes: if level > 0 { start.byte_add((first * size_of::<u32>()) as u64) } else { Global::null() },
                from: level,
                count,
                leaves: to.byte_add((first * size_of::<u32>()) as u64),
            };
            for _ in 0..pipeline.device_times() {
                // SAFETY: the buffers have room for all parts, and the addresses are for this stream.
                unsafe { inner.launch(stream, search, scratch, part)? };
            }
            first += count;
        }
        if !across {
            device_leaves.download_async(stream, 0..count, leaves, 0)?;
        }
        Ok(())
    }
}

impl<K: Key, C: InnerOnDevice<K>> Slot for DescentSlot<K, C> {
    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn bytes(&self) -> usize {
        let pinned = self.queries.len() * size_of::<K>() + (self.nodes.len() + self.leaves.len()) * size_of::<u32>();
        let device = self.device_queries.bytes() + self.device_nodes.bytes() + self.device_leaves.bytes();
        pinned + device + C::scratch_bytes(&self.scratch)
    }
}

/// Queries that a thread finishes at a time, where all threads have a bucket together.
const TASK: usize = 1 << 10;

/// Queries of a task of the CPU alone.
const CPU_TASK: usize = 4096;

/// Finishes queries whose leaves are known: their first one's place in the batch, they, their leaves, and where the
/// results go.
pub(crate) type Finish<'a, K, T> = dyn Fn(usize, &[K], &[u32], &mut [T]) + Sync + 'a;

/// Descents on the device, and what finishes them.
pub(super) struct Descents<'a, K: Key, L: Structure, T> {
    pub(super) route: &'a Route<'a, K, L>,
    pub(super) split: Split,
    pub(super) finish: &'a Finish<'a, K, T>,
}

impl<K: Key, L: Structure> Route<'_, K, L> {
    /// Sends a batch through both, and has each bucket finished.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(crate) fn send<T: Send>(
        &self,
        slots: &Slots<DescentSlot<K, CopyOf<K, L>>>,
        keys: &[K],
        out: &mut [T],
        finish: &Finish<'_, K, T>,
    ) -> Result<()> {
        let (shape, queue) = (Shape::of(&self.options.pipeline, keys.len()), &Queue::new(keys, out));
        let (split, sampled) = self.split(slots, queue, keys.len(), finish)?;
        let started = Instant::now();
        if split.depth >= self.inner.height() {
            self.on_cpu(queue, keys.len(), finish);
        } else {
            shape.run(slots, queue, &Descents { route: self, split, finish })?;
        }
        self.watch(keys.len() - sampled, started.elapsed());
        Ok(())
    }

    /// Answers the next queries, at most that many, on the CPU alone: with all threads, without a pipeline and its memory. How
    /// many they were, and what each has taken.
    fn on_cpu<T: Send>(
        &self,
        queue: &Queue<'_, K, T>,
        most: usize,
        finish: &Finish<'_, K, T>,
    ) -> Option<(usize, Sample)> {
        let (first, keys, out) = queue.take(|left| left.min(most))?;
        let (count, started) = (keys.len(), Instant::now());
        let tasks = keys.par_chunks(CPU_TASK).zip(out.par_chunks_mut(CPU_TASK)).enumerate();
        tasks.for_each(|(task, (keys, out))| {
            let mut leaves = [0; CPU_TASK];
            let leaves = &mut leaves[..keys.len()];
            self.descend(self.inner.height(), keys, leaves, false);
            finish(first + task * CPU_TASK, keys, leaves, out);
        });
        Some((count, Sample { all: started.elapsed().as_nanos() as f64 / count as f64, waiting: 0.0 }))
    }

    /// How the descent is split, found out by samples from the front of the batch if that is due; and how many queries these
    /// had.
    fn split<T: Send>(
        &self,
        slots: &Slots<DescentSlot<K, CopyOf<K, L>>>,
        queue: &Queue<'_, K, T>,
        queries: usize,
        finish: &Finish<'_, K, T>,
    ) -> Result<(Split, usize)> {
        if self.options.pipeline.balance == Balance::Fixed {
            return Ok((self.options.pipeline.split, 0));
        }
        let (mut sampled, size) = (0, self.options.pipeline.sample);
        // The first one pays for memory and for kernels that are loaded: it does not count.
        let mut is_warm = self.discovery().samples() > 0;
        loop {
            let wanted = self.discovery().wanted();
            let Some(split) = wanted.filter(|_| queries - sampled >= 2 * size) else { break };
            let done = if split.depth >= self.inner.height() {
                self.on_cpu(queue, size, finish)
            } else {
                let shape = Shape::of(&self.options.pipeline, size);
                shape.sample(slots, queue, size, &Descents { route: self, split, finish })?
            };
            let Some((count, sample)) = done else { break };
            sampled += count;
            if !is_warm {
                is_warm = true;
                continue;
            }
            self.discovery().sample(sample);
        }
        Ok((self.discovery().best(), sampled))
    }

    /// Notes what the rest of a batch has taken.
    fn watch(&self, queries: usize, time: Duration) {
        if self.options.pipeline.balance == Balance::Live && queries >= self.options.pipeline.sample {
            self.discovery().watch(time.as_secs_f64() * 1e9 / queries as f64);
        }
    }

    fn discovery(&self) -> MutexGuard<'_, Discovery> {
        self.discovery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Route::send`], while the device answers other queries of the batch alone, from leaves that are pinned.
    ///
    /// # Errors
    /// As [`Route::send`].
    pub(crate) fn send_beside<T: Send, W: Work<K, T>>(
        &self,
        slots: &Slots<DescentSlot<K, CopyOf<K, L>>>,
        keys: &[K],
        out: &mut [T],
        finish: &Finish<'_, K, T>,
        (alone, wide_slots, pace): (&W, &Slots<W::Slot>, &Pace),
    ) -> Result<()> {
        let (pipeline, tuning) = (&self.options.pipeline, TUNING.on(self.device)?);
        let first = pace.next(keys.len(), pipeline.device_bucket, tuning);
        if first == 0 {
            pace.batch(0, Duration::ZERO, false);
            return self.send(slots, keys, out, finish);
        }
        let queue = &Queue::new(keys, out);
        let (split, sampled) = self.split(slots, queue, keys.len(), finish)?;
        let mut shape = Shape::of(pipeline, keys.len());
        // One thread is the device's.
        shape.pipelines = shape.pipelines.saturating_sub(1).max(1);
        let of_device = AtomicUsize::new(0);
        let take = |next: &dyn Fn(usize) -> usize| {
            let bucket = queue.take(next)?;
            of_device.fetch_add(bucket.1.len(), Ordering::Relaxed);
            Some(bucket)
        };
        // Before the pipelines begin: they could have answered all by the time that the device's thread does.
        let first = Cell::new(take(&|_| first));
        let next = move || first.take().or_else(|| take(&|left| pace.next(left, pipeline.device_bucket, tuning)));
        let ((outcome, time), alone) = join(
            || {
                let started = Instant::now();
                (shape.run(slots, queue, &Descents { route: self, split, finish }), started.elapsed())
            },
            || pipeline_of(wide_slots, 1, queue, next, alone, false),
        );
        outcome.and(alone)?;
        let of_device = of_device.into_inner();
        let of_pipelines = keys.len() - sampled - of_device;
        pace.batch(of_pipelines, time, of_device > 0);
        self.watch(of_pipelines, time);
        Ok(())
    }

    /// The CPU's part of the descent: with all threads if it `is_shared`, otherwise with this one.
    fn descend(&self, levels: u32, keys: &[K], nodes: &mut [u32], is_shared: bool) {
        let levels = levels.min(self.inner.height());
        match is_shared {
            true => keys.par_chunks(TASK).zip(nodes.par_chunks_mut(TASK)).for_each(|(keys, nodes)| {
                self.descend_here(levels, keys, nodes);
            }),
            false => self.descend_here(levels, keys, nodes),
        }
    }

    fn descend_here(&self, levels: u32, keys: &[K], nodes: &mut [u32]) {
        const CHUNK: usize = 256;
        for (keys, nodes) in keys.chunks(CHUNK).zip(nodes.chunks_mut(CHUNK)) {
            let mut words = [K::Bits::MIN; CHUNK];
            words.iter_mut().zip(keys).for_each(|(word, key)| *word = key.encode());
            for _ in 0..self.options.pipeline.cpu_times() {
                nodes.fill(0);
                self.inner.descend(self.options.descent(), &words[..keys.len()], 0..levels, nodes);
            }
        }
    }
}

impl<K: Key, L: Structure, T: Send> Work<K, T> for Descents<'_, K, L, T> {
    type Slot = DescentSlot<K, CopyOf<K, L>>;

    fn slot(&self) -> Result<Self::Slot> {
        DescentSlot::new(self.route.device)
    }

    fn begin(&self, slot: &mut Self::Slot, first: usize, keys: &[K], is_shared: bool) -> Result<()> {
        let (route, Split { depth, share }) = (self.route, self.split);
        let deeper = share_of(keys.len(), share);
        let with_nodes = depth > 0 || deeper > 0;
        // Samples of other splits should find their memory.
        slot.reserve(keys.len(), with_nodes || route.options.pipeline.balance == Balance::Live)?;
        if depth >= route.inner.height() {
            // The CPU alone.
            route.descend(depth, keys, &mut slot.leaves[..keys.len()], is_shared);
            return Ok(());
        }
        let pinned = route.pinned.map(|pinned| (pinned, first));
        if pinned.is_none() {
            slot.queries[..keys.len()].copy_from_slice(keys);
        }
        let parts = [(depth, keys.len() - deeper), (depth + 1, deeper)];
        if with_nodes {
            let mut first = 0;
            for (levels, count) in parts {
                let part = first..first + count;
                route.descend(levels, &keys[part.clone()], &mut slot.nodes[part], is_shared);
                first += count;
            }
        }
        slot.launch(route.copy, &route.options.pipeline, pinned, &parts)
    }

    fn finish(&self, slot: &Self::Slot, first: usize, keys: &[K], out: &mut [T], is_shared: bool) {
        let leaves = &slot.leaves[..keys.len()];
        if !is_shared {
            (self.finish)(first, keys, leaves, out);
            return;
        }
        let tasks = keys.par_chunks(TASK).zip(leaves.par_chunks(TASK)).zip(out.par_chunks_mut(TASK));
        tasks.enumerate().for_each(|(task, ((keys, leaves), out))| {
            (self.finish)(first + task * TASK, keys, leaves, out);
        });
    }
}
