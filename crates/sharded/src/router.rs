//! Batches on a device, answered by shards on several.
//!
//! ```text
//!  the batch's device                                     a shard's device
//!  ┌────────────────────┐ 1. a piece to its buckets; the
//!  │ scatter            │    host reads the number of
//!  └──┬──────────────┬──┘    queries of each
//!     ▼              └───────── 2. buckets ──────────► ┌──────────┐
//!  ┌──────────┐                                        │ look-ups │
//!  │ look-ups │                                        └────┬─────┘
//!  └──┬───────┘      ┌───────── 3. results ◄────────────────┘
//!     ▼              ▼
//!  ┌────────────────────┐ 4. results to the batch's order,
//!  │ back               │    in the caller's stream
//!  └────────────────────┘
//! ```
//!
//! [`SLOTS`] pieces are in flight at a time, each with memory and streams of its own ([`slots`](crate::slots)): no piece waits for
//! another one's look-ups or copies.
//!
//! A sorted batch is cut at the shards' borders instead: see [`slices`].

use crate::query::{Shards, queries_of};
use crate::route::MAX_SHARDS;
use crate::scratch_pool::ScratchPool;
use crate::slots::{BUCKET, Shape, Slot, Table, reserve, reserve_pinned};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::Query;
use lanetree_frame::{AnyKey, Buffer, Device, Event, KeyWord, PinnedBuffer, Result, Stream, Word};
use lanetree_kernels_sharded::{CutArgs, MOST_SHARDS, TILE, calls, position};
use lanetree_primitives::check_order;
use lanetree_simt::{Global, LaunchShape};

mod finish;
mod pieces;
mod slices;

/// Pieces in flight at a time.
const SLOTS: usize = 4;

/// Queries of a piece, a multiple of [`TILE`]: long enough that the few dozen calls of the driver for it take less time than it does.
const PIECE: usize = 1 << 22;

/// A batch is not cut into smaller pieces than this for the sake of more slots.
const MIN_PIECE: usize = 1 << 18;

/// Capacity of all buckets of a piece together, in queries.
const CAPACITY: usize = 1 << 24;

const _: () = assert!(MAX_SHARDS == MOST_SHARDS as usize);
const _: () = assert!(PIECE.is_multiple_of(TILE as usize) && TILE.is_multiple_of(32));
const _: () = assert!(CAPACITY + MOST_SHARDS as usize * BUCKET < 1 << position::BITS);

/// How batches are cut into pieces; only tests change it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routing {
    /// The most queries of a piece, a multiple of 2048.
    pub(crate) piece: usize,
    /// Pieces in flight, 1 at least.
    pub(crate) slots: usize,
}

impl Default for Routing {
    fn default() -> Self {
        Self { piece: PIECE, slots: SLOTS }
    }
}

/// Answers batches of look-ups, ranks and neighbours.
pub(crate) struct Router<K: AnyKey, V> {
    pool: ScratchPool<DeviceScratch<K, V>>,
    pub(crate) routing: Routing,
}

impl<K: AnyKey, V> Default for Router<K, V> {
    fn default() -> Self {
        Self { pool: ScratchPool::default(), routing: Routing::default() }
    }
}

/// Properties of a batch that its query doesn't show.
#[derive(Clone, Copy)]
pub(crate) struct Hints {
    pub(crate) is_sorted: bool,
    /// It is a piece of a host batch, in staging memory: other devices can't write its results.
    pub(crate) is_staged: bool,
}

/// Memory and streams of a batch on one device.
struct DeviceScratch<K: AnyKey, V> {
    home: Device,
    cuts: Buffer<u64>,
    staged_cuts: PinnedBuffer<u64>,
    /// Stream for setup work before the first piece, and for copies of slices' queries.
    stream: Stream,
    /// Stream for the check of a sorted batch, which overlaps with its look-ups.
    checks: Stream,
    /// For a batch with the hint `is_sorted`: the first query below its predecessor, and the number of equal neighbours.
    order: Buffer<u64>,
    staged_order: PinnedBuffer<u64>,
    splitters: Table<K::Bits>,
    before: Table<u64>,
    fallback_keys: Table<K::Bits>,
    fallback_values: Table<V>,
    /// `[pieces][shards]`: start of each shard's bucket.
    bucket_starts: Buffer<u32>,
    staged_bucket_starts: PinnedBuffer<u32>,
    /// The shards' hit masks of a sorted batch.
    hits: Buffer<u32>,
    slots: Vec<Slot>,
    /// The slot of the next piece.
    next: usize,
}

/// A batch in flight.
struct InFlight<'a, K: AnyKey, V: Word> {
    shards: &'a Shards<'a, K, V>,
    devices: &'a [Device],
    /// The number of each shard's device.
    numbers: &'a [usize],
    stream: &'a Stream,
    query: &'a Query<K::Bits, V>,
    queries: Global<K::Bits>,
    count: usize,
    shape: Shape,
    hints: Hints,
    /// Recorded when the call began: all earlier work of the caller's stream.
    submitted: Event,
    /// The most queries of a piece.
    piece: usize,
    /// Pieces in flight.
    slots: usize,
}

impl<K: AnyKey, V: Word> Router<K, V> {
    /// Answers a batch. Waits until each piece is partitioned, to know how many queries to copy; the rest may go on after the return,
    /// and later work in `stream` comes after it.
    ///
    /// # Errors
    /// [`Error::Runtime`] from a device, or if one has no room; [`Error::Lost`]; [`Error::BatchTooLarge`].
    ///
    /// # Safety
    /// `stream` may read the queries and write as many results. All shards' devices and the stream's are of one kind, which
    /// launches kernels; the splitters ascend, and there is one fewer than shards.
    pub(crate) unsafe fn run(
        &self,
        shards: &Shards<'_, K, V>,
        stream: &Stream,
        hints: Hints,
        query: &Query<K::Bits, V>,
    ) -> Result<()> {
        let (queries, count) = queries_of(query);
        if count == 0 {
            return Ok(());
        }
        if let [shard] = &shards.all[..]
            && shard.device == stream.device()
            && shards.wants_all(query)
        {
            // SAFETY: the caller's contract.
            return unsafe { shard.launches.launch(stream, hints.is_sorted, query) };
        }
        let home = stream.device();
        let (devices, numbers) = shards.devices(home);
        // A piece for each slot, unless the pieces would be too small.
        let slots = self.routing.slots;
        let share = count.div_ceil(slots).next_multiple_of(TILE as usize);
        let capacity = (CAPACITY / shards.all.len()).next_multiple_of(TILE as usize);
        let piece = if hints.is_staged { count.next_multiple_of(TILE as usize) } else { share.max(MIN_PIECE) };
        let (piece, shape) = (piece.min(self.routing.piece).min(capacity), shards.shape(query));
        let new = || DeviceScratch::new(home);
        self.pool.with(home, new, |scratch| {
            let mut run = |hints: Hints| {
                let submitted = home.event()?;
                submitted.record(stream)?;
                let (devices, numbers) = (&devices[..], &numbers[..]);
                let batch = InFlight {
                    shards,
                    devices,
                    numbers,
                    stream,
                    query,
                    queries,
                    count,
                    shape,
                    hints,
                    submitted,
                    piece,
                    slots,
                };
                // SAFETY: the caller's contract.
                unsafe { scratch.run(&batch) }
            };
            // If the hint was wrong, the wrong shards have answered: run it again without the hint.
            let done = run(hints).and_then(|is_right| match is_right {
                true => Ok(()),
                false => run(Hints { is_sorted: false, ..hints }).map(drop),
            });
            if done.is_err() {
                // Work on the caller's memory comes before the caller's next work. Without an error `stream` waits for it.
                scratch.synchronize();
            }
            done
        })
    }
}

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    fn new(home: &Device) -> Result<Self> {
        Ok(Self {
            home: home.clone(),
            cuts: home.alloc(0)?,
            staged_cuts: home.pinned(0)?,
            stream: home.stream()?,
            checks: home.stream()?,
            order: home.alloc(2)?,
            staged_order: home.pinned(2)?,
            splitters: Table::new(home)?,
            before: Table::new(home)?,
            fallback_keys: Table::new(home)?,
            fallback_values: Table::new(home)?,
            bucket_starts: home.alloc(0)?,
            staged_bucket_starts: home.pinned(0)?,
            hits: home.alloc(0)?,
            slots: Vec::new(),
            next: 0,
        })
    }

    fn synchronize(&self) {
        let _ = self.stream.synchronize();
        let _ = self.checks.synchronize();
        self.slots.iter().for_each(Slot::synchronize);
    }

    /// Makes at least `count` slots.
    fn reserve_slots(&mut self, count: usize) -> Result<()> {
        while self.slots.len() < count {
            self.slots.push(Slot::new(&self.home)?);
        }
        Ok(())
    }

    /// Uploads the tables that a query needs.
    fn set_tables(&mut self, shards: &Shards<'_, K, V>, query: &Query<K::Bits, V>) -> Result<()> {
        self.splitters.set(shards.splitters.iter().map(|key| key.encode()))?;
        match query {
            Query::Rank(_) => self.before.set(shards.before.iter().copied()),
            Query::Neighbor(_) => {
                // BucketResults are in the caller's form.
                let key = |pair: &Option<(K, V)>| pair.map_or(K::Bits::MIN, |(key, _)| key.encode().xor(K::FLIP));
                self.fallback_keys.set(shards.fallbacks.iter().map(key))?;
                self.fallback_values.set(shards.fallbacks.iter().map(|pair| pair.map_or(V::MIN, |(_, value)| value)))
            }
            _ => Ok(()),
        }
    }

    /// Answers a batch. Returns whether the results are right: they are wrong if `is_sorted` was.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn run(&mut self, batch: &InFlight<'_, K, V>) -> Result<bool> {
        self.set_tables(batch.shards, batch.query)?;
        // SAFETY: the caller's contract.
        unsafe {
            if !batch.hints.is_sorted {
                self.run_pieces(batch)?;
                return Ok(true);
            }
            let cuts = self.cut(batch)?;
            self.checks.wait(&batch.submitted)?;
            self.staged_order.copy_from_slice(&[u64::MAX, 0]);
            self.order.upload_async(&self.checks, 0, &self.staged_order, 0..2)?;
            check_order::<K>(&self.checks, batch.queries, batch.count, &mut self.order)?;
            self.order.download_async(&self.checks, 0..1, &mut self.staged_order, 0)?;
            self.run_slices(batch, &cuts)?;
        }
        self.checks.synchronize()?;
        Ok(self.staged_order[0] >= batch.count as u64)
    }

    /// The start of each shard's part of a sorted batch, and the end of the last one.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn cut(&mut self, batch: &InFlight<'_, K, V>) -> Result<Vec<usize>> {
        let (mut cuts, splits) = (vec![0], batch.shards.splitters.len());
        if splits > 0 {
            reserve(&mut self.cuts, splits)?;
            reserve_pinned(&mut self.staged_cuts, splits)?;
            let stream = &self.stream;
            stream.wait(&batch.submitted)?;
            let args = CutArgs {
                queries: batch.queries,
                count: batch.count as u64,
                splitters: self.splitters.device.read_on(stream)?,
                cuts: self.cuts.write_on(stream)?,
                splits: splits as u32,
                padding: 0,
                flip: K::FLIP,
            };
            let shape = LaunchShape { blocks: 1, threads: MOST_SHARDS, dynamic_shared: 0 };
            // SAFETY: the caller's contract.
            unsafe { lanetree_runtime::Launch::new(stream, shape).run(calls::cut(&args))? };
            self.cuts.download_async(stream, 0..splits, &mut self.staged_cuts, 0)?;
            stream.synchronize()?;
            cuts.extend(self.staged_cuts[..splits].iter().map(|&cut| cut as usize));
        }
        cuts.push(batch.count);
        Ok(cuts)
    }
}
