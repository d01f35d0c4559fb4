//! Batches that are answered piece by piece of the key space: for an index whose nodes do not fit into the device's L2 cache.

use super::{BitsOf, FixedIndex, OnStream, Query};
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it")]
use lanetree_base::Error;
use lanetree_base::Result;
use lanetree_base::error::check_buffer;
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::{Moved, RadixSortScratch, Restored};
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};
use lanetree_simt::{GetBatch, Global, GlobalMut, NeighborBatch, RankBatch};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Scratch memory with which an index answers large batches in random order piece by piece of the key space:
/// [`OnStream::in_pieces`]. For each query two keys, eight bytes and a few bits. It can be used again and be
/// shared: batches take their turns, those of several streams too.
///
/// ```
/// use lanetree::{Device, LaneTree, PieceScratch};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let index = LaneTree::build(&device, &[10_u64, 20, 30], &[1_u64, 2, 3])?;
/// let (stream, queries) = (device.stream()?, device.upload(&[20_u64, 25])?);
/// let (scratch, mut values) = (PieceScratch::new(&device, 2)?, device.alloc(2)?);
/// index.on(&stream).in_pieces(&scratch).miss(0).get(&queries, &mut values)?;
/// assert_eq!(values.to_vec()?, [2, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PieceScratch<K: AnyKey>(Mutex<Memory<K>>);

/// The lock is held while the launches of a batch are put into its stream.
#[derive(Debug)]
struct Memory<K: AnyKey> {
    sort: RadixSortScratch<K>,
    queries: Buffer<K>,
    /// Values or ranks.
    results: Buffer<u64>,
    keys: Buffer<K>,
    hits: Buffer<u32>,
}

impl<K: AnyKey> PieceScratch<K> {
    /// Memory on `device` for batches of up to `len` queries, allocated now. On the host, which needs none, it is empty.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) if the device has no room;
    /// [`Error::TooManyElements`](lanetree_base::Error::TooManyElements).
    pub fn new(device: &Device, len: usize) -> Result<Self> {
        let room = if device.kind() == DeviceKind::Host { 0 } else { len };
        Ok(Self(Mutex::new(Memory {
            sort: RadixSortScratch::for_one_pass(device, room)?,
            queries: device.alloc(room)?,
            results: device.alloc(room)?,
            keys: device.alloc(room)?,
            hits: device.alloc(room.div_ceil(32))?,
        })))
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let memory = self.memory();
        let own = memory.queries.bytes() + memory.results.bytes() + memory.keys.bytes() + memory.hits.bytes();
        own + memory.sort.bytes()
    }

    fn memory(&self) -> MutexGuard<'_, Memory<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the results of moved queries are.
#[derive(Clone, Copy)]
struct Sorted<B> {
    queries: Global<B>,
    results: GlobalMut<u64>,
    keys: GlobalMut<B>,
    hits: GlobalMut<u32>,
}

impl<B: Copy> Sorted<B> {
    /// The same query of the moved keys; the outputs that it has not, this has not.
    fn instead<V>(&self, query: Query<B, V>) -> Query<B, V> {
        let Self { queries, results, keys, hits } = *self;
        let hits_for = |wanted: GlobalMut<u32>| if wanted.is_null() { wanted } else { hits };
        match query {
            Query::Get(batch) => {
                Query::Get(GetBatch { queries, values: results.cast(), hits: hits_for(batch.hits), ..batch })
            }
            Query::Rank(batch) => Query::Rank(RankBatch { queries, ranks: results, ..batch }),
            Query::Neighbor(batch) => {
                let hits = hits_for(batch.hits);
                Query::Neighbor(NeighborBatch { queries, keys, values: results.cast(), hits, ..batch })
            }
            other => other,
        }
    }
}

/// From the order of moved keys back to where a query has its results.
fn back<T>(sorted: GlobalMut<T>, out: GlobalMut<T>) -> Restored<T> {
    if out.is_null() { Restored::NONE } else { Restored { sorted: sorted.as_const(), out } }
}

impl<'a, I: FixedIndex> OnStream<'a, I> {
    /// Lets look-ups, ranks and neighbours of a large batch in random order be answered piece by piece of the key space: the queries
    /// are moved into the order of the eight highest bits in which the index's keys differ, and the results moved back. That pays where
    /// the index's nodes do not fit into the GPU's L2 cache; elsewhere, on the host, and by an index that gains nothing from it, `scratch`
    /// is not used. Keys of which nearly all agree in these bits gain nothing, and the batch takes longer. No answer depends on it.
    ///
    /// # Errors
    /// Of the queries, in addition: [`Error::OutputLength`] for scratch memory of fewer queries.
    #[must_use]
    pub fn in_pieces(self, scratch: impl Into<Option<&'a PieceScratch<I::Key>>>) -> Self {
        Self { pieces: scratch.into(), ..self }
    }

    /// Launches queries of the same batch one after another, the second with the outputs of the first: look-ups, ranks or neighbours.
    ///
    /// # Safety
    /// As [`FixedIndex::launch`].
    pub(super) unsafe fn launch_each(
        &self,
        (count, keys): (usize, Global<BitsOf<I>>),
        queries: impl IntoIterator<Item = Query<BitsOf<I>, I::Value>>,
    ) -> Result<()> {
        let mut queries = queries.into_iter();
        let Some(scratch) = self.pieces else {
            // SAFETY: the caller's contract.
            return queries.try_for_each(|query| unsafe { self.launch(&query) });
        };
        let mut scratch = scratch.memory();
        check_buffer(self.index.device(), "the scratch memory for pieces", count, &scratch.queries)?;
        let Some(bits) = self.index.pieces(self.tuning(), count as u64) else {
            // SAFETY: the caller's contract.
            return queries.try_for_each(|query| unsafe { self.launch(&query) });
        };
        // SAFETY: the caller's contract; there is room, and no other batch uses it.
        unsafe {
            let (moved, sorted) = scratch.moved(self.stream, keys, count, bits)?;
            let mut last = None;
            for query in queries {
                self.launch(&sorted.instead(query))?;
                last = Some(query);
            }
            last.map_or(Ok(()), |query| scratch.restore(self.stream, &moved, &sorted, &query))
        }
    }
}

impl<K: AnyKey> Memory<K> {
    /// Moves the keys of a batch.
    ///
    /// # Safety
    /// There are as many keys, and room for as many; the stream may read them.
    unsafe fn moved(
        &mut self,
        stream: &Stream,
        keys: Global<K::Bits>,
        count: usize,
        bits: Range<u32>,
    ) -> Result<(Moved<K>, Sorted<K::Bits>)> {
        let sorted: GlobalMut<K::Bits> = self.queries.write_on(stream)?.cast();
        // SAFETY: the caller's contract.
        let moved = unsafe { self.sort.move_keys(stream, keys, count, bits, sorted)? };
        let (results, hits) = (self.results.write_on(stream)?, self.hits.write_on(stream)?);
        let keys = self.keys.write_on(stream)?.cast();
        Ok((moved, Sorted { queries: sorted.as_const(), results, keys, hits }))
    }

    /// Moves the results of a query back.
    ///
    /// # Safety
    /// These keys were moved last, and the query answered; its outputs are for the stream.
    unsafe fn restore<V: Value>(
        &mut self,
        stream: &Stream,
        moved: &Moved<K>,
        sorted: &Sorted<K::Bits>,
        query: &Query<K::Bits, V>,
    ) -> Result<()> {
        let values_back = |values: GlobalMut<V>| match V::IS_SOME {
            true => back(sorted.results.cast::<V::Word>(), values.cast()),
            false => Restored::NONE,
        };
        // SAFETY: the caller's contract.
        unsafe {
            match query {
                Query::Get(GetBatch { values, hits, .. }) => {
                    let hits = back(sorted.hits, *hits);
                    self.sort.restore(stream, moved, values_back(*values), Restored::NONE, hits)
                }
                Query::Rank(RankBatch { ranks, .. }) => {
                    let ranks = back(sorted.results, *ranks);
                    self.sort.restore(stream, moved, ranks, Restored::NONE, Restored::NONE)
                }
                Query::Neighbor(NeighborBatch { keys, values, hits, .. }) => {
                    let (keys, hits) = (back(sorted.keys, *keys), back(sorted.hits, *hits));
                    self.sort.restore(stream, moved, values_back(*values), keys, hits)
                }
                Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => Ok(()),
            }
        }
    }
}
