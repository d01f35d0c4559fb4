//! Batches in buckets, and the pipelines that they go through.

use super::Sample;
use core::mem::take;
use lanetree_frame::parallel::*;
use lanetree_frame::{Result, Stream};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The memory and the stream of a bucket in flight.
pub(crate) trait Slot: Send {
    /// What its work is put into.
    fn stream(&self) -> &Stream;

    /// Bytes of device memory and of pinned memory.
    fn bytes(&self) -> usize;
}

/// The slots of finished batches, kept for the next ones.
pub(crate) struct Slots<S> {
    idle: Mutex<Vec<Vec<S>>>,
}

impl<S> Default for Slots<S> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<S: Slot> Slots<S> {
    /// Bytes of device memory and of pinned memory.
    pub(crate) fn bytes(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().map(Slot::bytes).sum()
    }

    /// Slots for a pipeline.
    fn take(&self) -> Taken<'_, S> {
        let slots = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        Taken { from: self, slots, done: false }
    }
}

/// The slots of a pipeline. They are returned idle, even after an error or a panic.
struct Taken<'a, S: Slot> {
    from: &'a Slots<S>,
    slots: Vec<S>,
    /// Whether all buckets have been waited for.
    done: bool,
}

impl<S: Slot> Drop for Taken<'_, S> {
    fn drop(&mut self) {
        let slots = take(&mut self.slots);
        if !self.done {
            // Buckets in flight no longer have an owner.
            slots.iter().for_each(|slot| drop(slot.stream().synchronize()));
        }
        self.from.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
    }
}

/// What is done with the buckets of a batch: `T` is the result of a query.
pub(crate) trait Work<K, T>: Sync {
    type Slot: Slot;

    /// A new slot.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where there is no memory.
    fn slot(&self) -> Result<Self::Slot>;

    /// Puts a bucket on its way, into the slot's stream: with all threads if it `is_shared`, otherwise with this one.
    /// `first` is the first query's place in the batch.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    fn begin(&self, slot: &mut Self::Slot, first: usize, keys: &[K], is_shared: bool) -> Result<()>;

    /// Finishes a bucket when the stream has done its work, as [`Work::begin`].
    fn finish(&self, slot: &Self::Slot, first: usize, keys: &[K], out: &mut [T], is_shared: bool);
}

/// What is left of a batch; pipelines take buckets from its front.
pub(super) struct Queue<'a, K, T> {
    rest: Mutex<Rest<'a, K, T>>,
    /// Nanoseconds that all pipelines together have waited for the device.
    waited: AtomicU64,
}

struct Rest<'a, K, T> {
    first: usize,
    keys: &'a [K],
    out: &'a mut [T],
}

/// A bucket: its first query's place in the batch, its queries, and where their results go.
pub(super) type Bucket<'a, K, T> = (usize, &'a [K], &'a mut [T]);

impl<'a, K, T> Queue<'a, K, T> {
    /// A whole batch.
    pub(super) fn new(keys: &'a [K], out: &'a mut [T]) -> Self {
        Self::of(Rest { first: 0, keys, out })
    }

    fn of(rest: Rest<'a, K, T>) -> Self {
        Self { rest: Mutex::new(rest), waited: AtomicU64::new(0) }
    }

    fn rest(&self) -> MutexGuard<'_, Rest<'a, K, T>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next queries: as many as `most` says, given how many are left.
    pub(super) fn take(&self, most: impl FnOnce(usize) -> usize) -> Option<Bucket<'a, K, T>> {
        let mut rest = self.rest();
        let count = most(rest.keys.len()).min(rest.keys.len());
        if count == 0 {
            return None;
        }
        let ((keys, more_keys), first) = (rest.keys.split_at(count), rest.first);
        let (out, more_out) = take(&mut rest.out).split_at_mut(count);
        *rest = Rest { first: first + count, keys: more_keys, out: more_out };
        Some((first, keys, out))
    }
}

/// The shape of a batch's way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Most queries of a bucket.
    pub(super) bucket: usize,
    /// Buckets of a pipeline that the device has while the CPU finishes another.
    pub(super) ahead: usize,
    /// Pipelines side by side.
    pub(super) pipelines: usize,
}

impl Shape {
    /// Sends what is left of a batch through, and has each bucket finished.
    ///
    /// # Errors
    /// The errors of the work.
    pub(super) fn run<K: Sync, T: Send, W: Work<K, T>>(
        self,
        slots: &Slots<W::Slot>,
        queue: &Queue<'_, K, T>,
        work: &W,
    ) -> Result<()> {
        let (is_shared, bucket) = (self.pipelines == 1, self.bucket);
        let next = || queue.take(|left| left.min(bucket));
        let pipeline = || pipeline(slots, self.ahead, queue, next, work, is_shared);
        if is_shared {
            return pipeline();
        }
        (0..self.pipelines).into_par_iter().map(|_| pipeline()).reduce(|| Ok(()), Result::and)
    }

    /// Sends the next queries through as a batch of their own, and times them; says how many they were.
    ///
    /// # Errors
    /// The errors of the work.
    pub(super) fn sample<K: Sync, T: Send, W: Work<K, T>>(
        self,
        slots: &Slots<W::Slot>,
        queue: &Queue<'_, K, T>,
        most: usize,
        work: &W,
    ) -> Result<Option<(usize, Sample)>> {
        let Some((first, keys, out)) = queue.take(|left| left.min(most)) else { return Ok(None) };
        let (count, started) = (keys.len(), Instant::now());
        let part = Queue::of(Rest { first, keys, out });
        self.run(slots, &part, work)?;
        let per_query = |nanoseconds: u128| nanoseconds as f64 / count as f64;
        let waiting = per_query(part.waited.into_inner().into()) / self.pipelines as f64;
        Ok(Some((count, Sample { all: per_query(started.elapsed().as_nanos()), waiting })))
    }
}

/// One pipeline: takes buckets of the queue while `next` gives any.
///
/// # Errors
/// The errors of the work.
pub(super) fn pipeline<'a, K: Sync, T: Send, W: Work<K, T>>(
    slots: &Slots<W::Slot>,
    ahead: usize,
    queue: &Queue<'a, K, T>,
    next: impl Fn() -> Option<Bucket<'a, K, T>>,
    work: &W,
    is_shared: bool,
) -> Result<()> {
    let mut taken = slots.take();
    let mut on_their_way =
        OnTheirWay { buckets: VecDeque::with_capacity(ahead + 1), free: (0..=ahead).rev().collect() };
    let mut go = || loop {
        on_their_way.fill(ahead.max(1), &mut taken.slots, &next, work, is_shared)?;
        let Some((slot, (first, keys, out))) = on_their_way.buckets.pop_front() else { return Ok(()) };
        let waiting = Instant::now();
        taken.slots[slot].stream().synchronize()?;
        queue.waited.fetch_add(waiting.elapsed().as_nanos() as u64, Ordering::Relaxed);
        // The device goes on before the CPU does.
        on_their_way.fill(ahead, &mut taken.slots, &next, work, is_shared)?;
        work.finish(&taken.slots[slot], first, keys, out, is_shared);
        on_their_way.free.push(slot);
    };
    let outcome = go();
    taken.done = outcome.is_ok();
    if outcome.is_err() {
        // The other pipelines need not go on.
        queue.rest().keys = &[];
    }
    outcome
}

/// The buckets of a pipeline that the device has, and the slots that nobody has.
struct OnTheirWay<'a, K, T> {
    buckets: VecDeque<(usize, Bucket<'a, K, T>)>,
    free: Vec<usize>,
}

impl<'a, K: Sync, T: Send> OnTheirWay<'a, K, T> {
    /// Gives the device buckets until it has some number, as far as there are any, and slots for them.
    fn fill<W: Work<K, T>>(
        &mut self,
        number: usize,
        slots: &mut Vec<W::Slot>,
        next: impl Fn() -> Option<Bucket<'a, K, T>>,
        work: &W,
        is_shared: bool,
    ) -> Result<()> {
        while self.buckets.len() < number
            && let Some(&slot) = self.free.last()
            && let Some(bucket) = next()
        {
            if slot == slots.len() {
                slots.push(work.slot()?);
            }
            work.begin(&mut slots[slot], bucket.0, bucket.1, is_shared)?;
            self.buckets.push_back((slot, bucket));
            self.free.pop();
        }
        Ok(())
    }
}
