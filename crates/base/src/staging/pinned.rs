//! Batches between pinned buffers of the caller's: no thread copies anything.

use super::{PieceSlot, SlotPool, TakenSlots};
use crate::{Error, Result};
use bytemuck::Pod;
use core::fmt;
use lanetree_runtime::{Buffer, Device, PinnedBuffer, Stream};
use lanetree_simt::{Global, GlobalMut};

/// Pieces on their way at a time.
pub const PINNED_SLOTS: usize = 4;

/// The most queries of a piece, and the most bytes that they have: at least 32 queries, and a multiple of 32.
const PIECE: usize = 1 << 20;
const PIECE_BYTES: usize = 8 * PIECE;

/// A batch's buffers.
pub struct PinnedBatch<'a, Q, V> {
    /// The queries.
    pub queries: &'a PinnedBuffer<Q>,
    /// Elements of each query.
    pub width: usize,
    /// Out: their values.
    pub values: &'a mut PinnedBuffer<V>,
    /// Out: the hit mask, if it is wanted.
    pub hits: Option<&'a mut PinnedBuffer<u32>>,
    /// Whether a launch needs memory for the keys that it finds, and for the hit mask even if that is not wanted.
    pub finds_keys: bool,
}

/// A piece of a batch, in memory that its stream may use.
pub struct PinnedPiece<Q, V> {
    /// Its queries.
    pub queries: Global<Q>,
    /// How many.
    pub count: usize,
    /// Out: their values.
    pub values: GlobalMut<V>,
    /// Out: the hit mask; null unless it is wanted, or needed.
    pub hits: GlobalMut<u32>,
    /// For the keys that are found; null unless they are needed.
    pub found: GlobalMut<Q>,
}

impl<Q, V: Pod> PinnedBatch<'_, Q, V> {
    fn count(&self) -> usize {
        self.queries.len() / self.width
    }

    /// # Errors
    /// [`Error::OutputLength`] if there is no room for the results.
    pub fn check(&self) -> Result<()> {
        let (count, words) = (self.count(), self.count().div_ceil(32));
        let hit_words = self.hits.as_ref().map_or(words, |hits| hits.len());
        for (what, expected, len) in
            [("the values' buffer", count, self.values.len()), ("the hit mask", words, hit_words)]
        {
            if len < expected {
                return Err(Error::OutputLength { what, expected, actual: len });
            }
        }
        Ok(())
    }

    /// Takes results that the CPU has found.
    pub fn fill(&mut self, found: Vec<Option<V>>, miss: V) {
        let mut bits = self.hits.as_mut().map(|hits| &mut hits[..found.len().div_ceil(32)]);
        for (i, value) in found.into_iter().enumerate() {
            self.values[i] = value.unwrap_or(miss);
            if let Some(bits) = &mut bits {
                let word = &mut bits[i / 32];
                *word = (*word & !(1 << (i % 32))) | u32::from(value.is_some()) << (i % 32);
            }
        }
    }
}

/// The way of a piece.
struct PinnedSlot<Q, V> {
    stream: Stream,
    queries: Buffer<Q>,
    values: Buffer<V>,
    hits: Buffer<u32>,
    /// Keys that were found; empty unless they are needed.
    found: Buffer<Q>,
}

impl<Q: Pod, V: Pod> PinnedSlot<Q, V> {
    fn new(device: &Device) -> Result<Self> {
        let stream = device.stream()?;
        let (queries, found) = (device.alloc(0)?, device.alloc(0)?);
        Ok(Self { stream, queries, values: device.alloc(0)?, hits: device.alloc(0)?, found })
    }

    /// Makes room for a number of elements of queries, and a number of queries, perhaps with the keys that are found. Memory grows
    /// in powers of two up to a piece's, and never shrinks.
    fn reserve(&mut self, device: &Device, elements: usize, queries: usize, finds_keys: bool) -> Result<()> {
        // Kernels read whole words of 8 bytes.
        let elements = elements.next_multiple_of(8);
        if self.queries.len() < elements {
            self.queries = device.alloc(elements.next_power_of_two())?;
        }
        if self.values.len() < queries {
            self.values = device.alloc(queries.next_power_of_two())?;
        }
        if self.hits.len() < queries.div_ceil(32) {
            self.hits = device.alloc(queries.div_ceil(32).next_power_of_two())?;
        }
        if finds_keys && self.found.len() < elements {
            self.found = device.alloc(elements.next_power_of_two())?;
        }
        Ok(())
    }
}

impl<Q: Pod, V: Pod> PieceSlot for PinnedSlot<Q, V> {
    fn synchronize(&mut self) -> Result<()> {
        Ok(self.stream.synchronize()?)
    }

    fn bytes(&self) -> usize {
        self.queries.bytes() + self.values.bytes() + self.hits.bytes() + self.found.bytes()
    }
}

/// The slots of batches, kept for the next ones.
pub struct PinnedStaging<Q, V> {
    slots: SlotPool<PinnedSlot<Q, V>>,
    /// The most queries of a piece: the constant, except in tests.
    pub piece: usize,
}

impl<Q, V> Default for PinnedStaging<Q, V> {
    fn default() -> Self {
        Self { slots: SlotPool::default(), piece: PIECE }
    }
}

impl<Q: Pod, V: Pod> fmt::Debug for PinnedStaging<Q, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedStaging[{} bytes]", self.bytes())
    }
}

/// Launches a piece in a stream.
type LaunchPiece<'a, Q, V> = dyn Fn(&Stream, PinnedPiece<Q, V>) -> Result<()> + 'a;

impl<Q: Pod, V: Pod> PinnedStaging<Q, V> {
    /// Bytes of device memory of finished batches.
    pub fn bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Sends a checked batch through the device, and waits for it.
    pub fn send(&self, device: &Device, batch: PinnedBatch<'_, Q, V>, launch: &LaunchPiece<'_, Q, V>) -> Result<()> {
        let mut slots = self.slots.take();
        let sent = self.send_pieces(device, &mut slots, batch, launch);
        // Everything that was sent is done before the caller gets its buffers back.
        let done = slots.iter_mut().map(PinnedSlot::synchronize).fold(Ok(()), Result::and);
        if done.is_ok() {
            slots.give_back_idle();
        }
        sent.and(done)
    }

    /// Queues all pieces. The streams must be waited for afterwards.
    fn send_pieces(
        &self,
        device: &Device,
        slots: &mut TakenSlots<'_, PinnedSlot<Q, V>>,
        mut batch: PinnedBatch<'_, Q, V>,
        launch: &LaunchPiece<'_, Q, V>,
    ) -> Result<()> {
        let (count, width) = (batch.count(), batch.width);
        let piece = (PIECE_BYTES / (width * size_of::<Q>())).min(self.piece).max(32) / 32 * 32;
        for (i, start) in (0..count).step_by(piece).enumerate() {
            let range = start..count.min(start + piece);
            let next = i % PINNED_SLOTS;
            slots.reserve(next + 1, || PinnedSlot::new(device))?;
            let slot = &mut slots[next];
            slot.reserve(device, range.len() * width, range.len(), batch.finds_keys)?;
            let PinnedSlot { stream, queries, values, hits, found } = slot;
            let elements = range.start * width..range.end * width;
            queries.upload_async(stream, 0, batch.queries, elements)?;
            let needs_hits = batch.hits.is_some() || batch.finds_keys;
            let piece = PinnedPiece {
                queries: queries.read_on(stream)?,
                count: range.len(),
                values: values.write_on(stream)?,
                hits: if needs_hits { hits.write_on(stream)? } else { GlobalMut::null() },
                found: if batch.finds_keys { found.write_on(stream)? } else { GlobalMut::null() },
            };
            launch(stream, piece)?;
            values.download_async(stream, 0..range.len(), batch.values, start)?;
            if let Some(bits) = &mut batch.hits {
                hits.download_async(stream, 0..range.len().div_ceil(32), bits, start / 32)?;
            }
        }
        Ok(())
    }
}
