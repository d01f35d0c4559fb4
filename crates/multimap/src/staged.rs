//! Queries in host form that have one result for each key: in pieces through the device, several on their way at a time.

use crate::MultiMap;
use crate::places::{Which, launch_one_value};
use lanetree_frame::fixed::{FixedIndex, HostForm, Query, Searches, Side};
use lanetree_frame::parallel::*;
use lanetree_frame::staging::{Addresses, Piece, Results, Route};
use lanetree_frame::uninit::{Uninit, Written, made};
use lanetree_frame::{BatchOrder, Result, Stream};
use lanetree_kernels_multimap::layout;
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_simt::{GetBatch, Global, GlobalMut, Near, NeighborBatch};

/// Results that a thread converts at a time: fewer take less time than to wake it.
const TASK: usize = 1 << 14;

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// Bytes, including pinned memory, that host batches on a device have allocated and that are kept for the next batches.
    pub fn staging_bytes(&self) -> usize {
        self.staging.bytes() + self.contents.keys.staging_bytes()
    }

    /// How many values each key has; 0 for an absent one.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn count_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        let mut counts = filled(0, keys.len())?;
        self.contents.keys.get_many_or(keys, 0, &mut counts)?;
        counts.par_iter_mut().with_min_len(TASK).for_each(|count| *count = layout::count(*count));
        Ok(counts)
    }

    /// Whether each of `keys` is present, in the order of `keys`. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn contains_many(&self, keys: &[K]) -> Result<Vec<bool>> {
        self.contents.keys.contains_many(keys)
    }

    /// Whether one key is present. On a GPU one key costs a launch and two trips over the bus: ask for many with
    /// [`contains_many`](Self::contains_many).
    ///
    /// # Errors
    /// As [`MultiMap::get_all_many`].
    pub fn contains(&self, key: &K) -> Result<bool> {
        self.contents.keys.contains(key)
    }

    /// The number of pairs below each key, or at or below it.
    pub(crate) fn rank_many(&self, keys: &[K], side: Side) -> Result<Vec<u64>> {
        self.contents.keys.check_not_lost()?;
        self.contents.check_order(if side == Side::Lower { "lower_bound" } else { "upper_bound" })?;
        if self.contents.is_by_rank() {
            let mut ranks = filled(0, keys.len())?;
            self.contents.keys.weight_ranks(keys, side == Side::Upper, &mut ranks)?;
            return Ok(ranks);
        }
        // The first key that is not below a key, or the last one that is not above it.
        let searches = Searches::any(side);
        let places = HostForm::neighbor_many(&self.contents.keys, keys, &searches, |_, place: u64| place)?;
        let rank = |place: Option<u64>| match (place, side) {
            (None, Side::Lower) => self.contents.len,
            (None, Side::Upper) => 0,
            (Some(place), Side::Lower) => layout::begin(place),
            (Some(place), Side::Upper) => layout::begin(place) + layout::count(place),
        };
        places.into_par_iter().with_min_len(TASK).map(rank).try_collect()
    }

    /// The first or the last value of each key, on a device that runs kernels.
    pub(crate) fn one_in_pieces(&self, keys: &[K], which: Which) -> Result<Vec<Option<V>>> {
        let results = Results { scratch: u64::BYTES, ..Results::new([V::BYTES, 0], 1) };
        let launch = |stream: &Stream, queries: Global<K::Bits>, count: usize, out: Addresses| {
            let (places, hits) = (out.scratch.cast::<u64>(), GlobalMut::null());
            let batch = GetBatch { queries, count: count as u64, values: places, hits, miss: 0 };
            // SAFETY: a slot has memory for that many queries, places and results, and its pointers are for the stream.
            unsafe {
                self.contents.keys.launch(stream, &BatchOrder::default(), &Query::Get(batch))?;
                let out = (out.arrays[0].cast(), out.hits);
                launch_one_value(stream, places.as_const(), count, (&self.contents.values, which), out, V::MIN)
            }
        };
        made(keys.len(), |out| {
            self.in_pieces(keys, out, results, launch, |piece, out| piece.found(out, |value: V| value))
        })
    }

    /// The nearest pair on one side of each key, on a device that runs kernels.
    pub(crate) fn neighbors_in_pieces(&self, keys: &[K], side: Side) -> Result<Vec<Option<(K, V)>>> {
        let results = Results { scratch: u64::BYTES, ..Results::new([V::BYTES, K::Bits::BYTES], 1) };
        let which = if side == Side::Upper { Which::Last } else { Which::First };
        let launch = |stream: &Stream, queries: Global<K::Bits>, count: usize, out: Addresses| {
            let places = out.scratch.cast::<u64>();
            let batch = NeighborBatch {
                queries,
                count: count as u64,
                keys: out.arrays[1].cast(),
                values: places,
                hits: out.hits,
                predecessor: side as u32,
                miss: 0,
                near: Near::ANY,
            };
            // SAFETY: as above.
            unsafe {
                self.contents.keys.launch(stream, &BatchOrder::default(), &Query::Neighbor(batch))?;
                let out = (out.arrays[0].cast(), GlobalMut::null());
                launch_one_value(stream, places.as_const(), count, (&self.contents.values, which), out, V::MIN)
            }
        };
        made(keys.len(), |out| {
            self.in_pieces(keys, out, results, launch, |piece, out| {
                piece.found_both(out, |value: V, key: K| (key, value))
            })
        })
    }

    /// Sends keys through the device, each with a place between the kernels of a piece.
    fn in_pieces<'k, 'o, T: Copy + Send>(
        &self,
        keys: &'k [K],
        out: Uninit<'o, T>,
        results: Results,
        launch: impl Fn(&Stream, Global<K::Bits>, usize, Addresses) -> Result<()> + Sync,
        collect: impl for<'p> Fn(&Piece<'_, &'k [K]>, Uninit<'p, T>) -> Written<'p> + Sync,
    ) -> Result<Written<'o>> {
        self.contents.keys.check_not_lost()?;
        let route = Route {
            device: &self.device,
            results,
            reads_once: true,
            launch: &|stream, keys: &[K], input, out| launch(stream, input.cast(), keys.len(), out),
            collect: &collect,
        };
        self.staging.send(keys, out, &route)
    }
}
