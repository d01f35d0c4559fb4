//! Host batches on a device.
//!
//! Several threads process a large batch piece by piece, each through its own slots; a slot has pinned (page-locked)
//! memory, a stream and device memory. While the bus carries some pieces to the device it carries others back, and the
//! threads copy more into and out of pinned memory; no thread waits for another. A small batch is a single piece. If it
//! is so small that the transfer is mostly latency, the kernel reads and writes host memory directly.

mod pieces;
mod pinned;
mod slot;
mod upload;

pub use pieces::{Addresses, Piece, Queries, Results};
pub use pinned::{PINNED_SLOTS, PinnedBatch, PinnedPiece, PinnedStaging};
pub use slot::SLOTS;

use crate::Result;
use crate::parallel::*;
use core::fmt;
use lanetree_runtime::{Device, DeviceKind, Stream};
use lanetree_simt::Global;
use pieces::{Rest, Taken};
use slot::Slot;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The most queries of a piece, a multiple of 32. Large enough to keep the bus busy with few calls to the driver; small
/// enough for the staging memory to stay in the CPU's caches.
const PIECE: usize = 1 << 18;

/// The fewest queries of a piece, except for the last one. The first pieces are short, so that the bus starts early,
/// and so are the last, so that no thread ends long after the others.
const SHORT_PIECE: usize = 1 << 15;

/// The most bytes of a piece's queries, unless a single query has more. Queries of up to 16 bytes have no such bound.
const PIECE_BYTES: usize = 1 << 22;

/// The most queries that a kernel reads directly across the bus, and the most bytes that they have.
pub const ACROSS_THE_BUS: usize = 1 << 14;
const BYTES_ACROSS_THE_BUS: usize = 8 * ACROSS_THE_BUS;

/// Lengths of pieces: the constants, except in tests.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Queries of the first pieces and the last.
    pub short: usize,
    /// Most queries.
    pub long: usize,
    /// Most bytes of queries.
    pub bytes: usize,
}

/// The slots of threads, kept for the next batches.
pub struct Staging {
    idle: Mutex<Vec<Vec<Slot>>>,
    /// How long pieces are: as was measured to be fastest, except in tests.
    pub lengths: Lengths,
    /// Devices that take parts of a batch at the same time, of which this one is for one: they share the threads.
    pub sharers: usize,
}

impl Default for Staging {
    fn default() -> Self {
        let lengths = Lengths { short: SHORT_PIECE, long: PIECE, bytes: PIECE_BYTES };
        Self { idle: Mutex::default(), lengths, sharers: 1 }
    }
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staging[{} bytes]", self.bytes())
    }
}

/// Launches a piece: in a stream, over queries at an address, with addresses for their results. The stream may use
/// these addresses, and their memory has room for the queries and their results.
type LaunchPiece<'a, Q> = dyn Fn(&Stream, Q, Global<u64>, Addresses) -> Result<()> + Sync + 'a;

/// How a batch is sent: what all of its pieces have in common.
pub struct Route<'a, Q, T> {
    /// Where the batch is to go.
    pub device: &'a Device,
    /// What comes back for each query.
    pub results: Results,
    /// Bytes of the device's memory for each query, between a piece's kernels.
    pub scratch: usize,
    /// Whether the kernel reads each query about once, so that it can read a few of them directly across the bus.
    pub reads_once: bool,
    /// Launches the kernel of a piece.
    pub launch: &'a LaunchPiece<'a, Q>,
    /// Puts a piece's results into its part of the output.
    pub collect: &'a (dyn Fn(&Piece<'_, Q>, &mut [T]) + Sync),
}

impl Staging {
    /// Bytes of device memory and of pinned memory of finished batches.
    pub fn bytes(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().map(Slot::bytes).sum()
    }

    fn take(&self) -> TakenSlots<'_> {
        let slots = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        TakenSlots { staging: self, slots, done: false }
    }

    /// Sends queries through the device, and puts their results into `out`, one element per query. The route's
    /// functions are called from several threads.
    pub fn send<Q: Queries, T: Send>(&self, queries: Q, out: &mut [T], route: &Route<'_, Q, T>) -> Result<()> {
        let lengths = self.lengths;
        let parts = queries.count().div_ceil(lengths.short).max(queries.bytes().div_ceil(lengths.bytes));
        let threads = (spare_threads() / self.sharers.max(1)).min(parts).max(1);
        let rest = Mutex::new(Rest { queries, out, short: if threads > 1 { threads } else { 0 } });
        let take = || rest.lock().unwrap_or_else(PoisonError::into_inner).take(threads, lengths);
        let work = || {
            let mut taken = self.take();
            let outcome = work_off(&mut taken.slots, take, route);
            taken.done = outcome.is_ok();
            if outcome.is_err() {
                // The other threads need not go on.
                rest.lock().unwrap_or_else(PoisonError::into_inner).give_up();
            }
            outcome
        };
        if threads == 1 { work() } else { (0..threads).into_par_iter().map(|_| work()).reduce(|| Ok(()), Result::and) }
    }
}

/// Threads for a batch, at least one: a quarter of the CPUs is left to the driver's and the caller's threads.
fn spare_threads() -> usize {
    let cpus = threads();
    cpus - cpus / 4
}

/// The slots of a thread that works on a batch. They are returned idle, even after an error or a panic.
struct TakenSlots<'a> {
    staging: &'a Staging,
    slots: Vec<Slot>,
    /// Whether all pieces have been waited for.
    done: bool,
}

impl Drop for TakenSlots<'_> {
    fn drop(&mut self) {
        let mut slots = core::mem::take(&mut self.slots);
        if !self.done {
            // Pieces still in flight no longer have an owner.
            slots.iter_mut().for_each(|slot| drop(slot.synchronize()));
        }
        // The memory for a single long query is not worth keeping.
        slots.retain(|slot| slot.input.bytes() <= self.staging.lengths.bytes.next_power_of_two());
        self.staging.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
    }
}

/// The work of one thread: takes pieces while there are any, and keeps its slots busy with them.
fn work_off<'a, Q: Queries, T: 'a>(
    slots: &mut Vec<Slot>,
    take: impl Fn() -> Option<Taken<'a, Q, T>>,
    route: &Route<'_, Q, T>,
) -> Result<()> {
    let mut on_their_way = VecDeque::with_capacity(SLOTS);
    let mut next = 0;
    while let Some((queries, out)) = take() {
        if next == slots.len() {
            slots.push(Slot::new(route.device)?);
        }
        if on_their_way.len() == SLOTS
            && let Some((slot, queries, out)) = on_their_way.pop_front()
        {
            route.finish(&mut slots[slot], queries, out)?;
        }
        route.begin(&mut slots[next], queries)?;
        on_their_way.push_back((next, queries, out));
        next = (next + 1) % SLOTS;
    }
    on_their_way.into_iter().try_for_each(|(slot, queries, out)| route.finish(&mut slots[slot], queries, out))
}

impl<Q: Queries, T> Route<'_, Q, T> {
    /// Puts a piece on its way.
    fn begin(&self, slot: &mut Slot, queries: Q) -> Result<()> {
        let (count, bytes) = (queries.count(), queries.staged_bytes());
        let end = self.results.end(count);
        slot.reserve(self.device, bytes, end, count * self.scratch)?;
        queries.write(&mut bytemuck::cast_slice_mut(&mut slot.staged_input)[..bytes]);
        let few = count <= ACROSS_THE_BUS && bytes <= BYTES_ACROSS_THE_BUS;
        let across = self.device.kind() == DeviceKind::Cuda && self.reads_once && few;
        let words = |bytes: usize| 0..bytes.div_ceil(8);
        if !across {
            slot.input.upload_async(&slot.stream, 0, &slot.staged_input, words(bytes))?;
        }
        let (input, output) = slot.addresses(across)?;
        let mut addresses = self.results.addresses(output, count);
        if self.scratch > 0 {
            addresses.scratch = slot.scratch.write_on(&slot.stream)?.cast();
        }
        (self.launch)(&slot.stream, queries, input, addresses)?;
        if !across {
            slot.output.download_async(&slot.stream, words(end), &mut slot.staged_output, 0)?;
        }
        Ok(())
    }

    /// Waits for a slot's piece and hands over its results.
    fn finish(&self, slot: &mut Slot, queries: Q, out: &mut [T]) -> Result<()> {
        slot.synchronize()?;
        (self.collect)(&Piece::new(queries, bytemuck::cast_slice(&slot.staged_output), self.results), out);
        Ok(())
    }
}
