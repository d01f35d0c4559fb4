//! Host batches on a device.
//!
//! Several threads process a large batch piece by piece, each through its own slots; a slot has pinned (page-locked)
//! memory, a stream and device memory. While the bus carries some pieces to the device it carries others back, and the
//! threads copy more into and out of pinned memory; no thread waits for another. A small batch is a single piece. If it
//! is so small that the transfer is mostly latency, the kernel reads and writes host memory directly.

mod pieces;
mod pinned;
mod pool;
mod slot;
mod upload;

pub use pieces::{Addresses, Piece, Queries, Results, is_set};
pub use pinned::{PINNED_SLOTS, PinnedBatch, PinnedPiece, PinnedStaging};
pub use pool::{PieceSlot, SLOTS, SlotPool, TakenSlots, Work};

use crate::Result;
use crate::parallel::*;
use crate::uninit::{Uninit, Written};
use core::fmt;
use lanetree_runtime::{Device, DeviceKind, Stream};
use lanetree_simt::Global;
use pieces::{Rest, Taken};
use slot::Slot;
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
    slots: SlotPool<Slot>,
    /// How long pieces are: as was measured to be fastest, except in tests.
    pub lengths: Lengths,
    /// Devices that take parts of a batch at the same time, of which this one is for one: they share the threads.
    pub sharers: usize,
}

impl Default for Staging {
    fn default() -> Self {
        let lengths = Lengths { short: SHORT_PIECE, long: PIECE, bytes: PIECE_BYTES };
        Self { slots: SlotPool::default(), lengths, sharers: 1 }
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
    /// Whether the kernel reads each query about once, so that it can read a few of them directly across the bus.
    pub reads_once: bool,
    /// Launches the kernel of a piece.
    pub launch: &'a LaunchPiece<'a, Q>,
    /// Writes a piece's results to its part of the output.
    pub collect: &'a (dyn for<'o> Fn(&Piece<'_, Q>, Uninit<'o, T>) -> Written<'o> + Sync),
}

impl Staging {
    /// Bytes of device memory and of pinned memory of finished batches.
    pub fn bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Sends queries through the device, and writes their results to `out`, one element per query. The route's
    /// functions are called from several threads.
    ///
    /// # Errors
    /// Of the device, and of the route's functions.
    pub fn send<'o, Q: Queries, T: Send>(
        &self,
        queries: Q,
        out: Uninit<'o, T>,
        route: &Route<'_, Q, T>,
    ) -> Result<Written<'o>> {
        let lengths = self.lengths;
        let parts = queries.count().div_ceil(lengths.short).max(queries.bytes().div_ceil(lengths.bytes));
        let threads = (threads() / self.sharers.max(1)).min(parts).max(1);
        let rest = Mutex::new(Rest { queries, out, first: 0, short: if threads > 1 { threads } else { 0 } });
        let rest = || rest.lock().unwrap_or_else(PoisonError::into_inner);
        let work = Work {
            take: &|| rest().take(threads, lengths),
            new: &|| Slot::new(route.device),
            begin: &|slot, taken| route.begin(slot, taken.queries),
            give_up: &|| rest().give_up(),
        };
        work.run(threads, &self.slots, |slot, Taken { queries, first, out }| {
            let bytes = bytemuck::cast_slice(&slot.staged_output);
            Ok((route.collect)(&Piece::new(first, queries, bytes, route.results), out))
        })
    }
}

impl<Q: Queries, T> Route<'_, Q, T> {
    /// Puts a piece on its way.
    fn begin(&self, slot: &mut Slot, queries: Q) -> Result<()> {
        let (count, bytes) = (queries.count(), queries.staged_bytes());
        let end = self.results.end(count);
        slot.reserve(self.device, bytes, end, count * self.results.scratch)?;
        queries.write(&mut bytemuck::cast_slice_mut(&mut slot.staged_input)[..bytes]);
        let few = count <= ACROSS_THE_BUS && bytes <= BYTES_ACROSS_THE_BUS;
        let across = self.device.kind() == DeviceKind::Cuda && self.reads_once && few;
        let words = |bytes: usize| 0..bytes.div_ceil(8);
        if !across {
            slot.input.upload_async(&slot.stream, 0, &slot.staged_input, words(bytes))?;
        }
        let (input, output) = slot.addresses(across)?;
        let mut addresses = self.results.addresses(output, count);
        if self.results.scratch > 0 {
            addresses.scratch = slot.scratch.write_on(&slot.stream)?.cast();
        }
        (self.launch)(&slot.stream, queries, input, addresses)?;
        if !across {
            slot.output.download_async(&slot.stream, words(end), &mut slot.staged_output, 0)?;
        }
        Ok(())
    }
}
