//! A set's queries in device form.

use super::none;
use crate::LaneTree;
use lanetree_frame::fixed::{DeviceMatches, DeviceRanges, JoinScratch, OnStream, PieceScratch, RangeScratch, Uses};
use lanetree_frame::{BatchOrder, Buffer, Result, Stream};
use lanetree_layout::{AnyKey, Word};

/// A set's queries on a stream: buffers in and out, in the stream's order. A call allocates nothing, synchronises nothing, and
/// may return before its work is done.
#[derive(Debug)]
pub struct SetOnStream<'a, K: AnyKey>(OnStream<'a, LaneTree<K, ()>>);

lanetree_frame::query_options! {
    impl['a, K: AnyKey] SetOnStream<'a, K>, |view| view.0.options_mut() => hits, limit, limits, joins
}

impl<'a, K: AnyKey> SetOnStream<'a, K> {
    pub(super) fn new(tree: &'a LaneTree<K, ()>, stream: &'a Stream) -> Self {
        Self(OnStream::new(tree, stream))
    }

    /// Declares the order of the queries: a hint, which changes no answer.
    #[must_use]
    pub fn order(self, order: BatchOrder) -> Self {
        Self(self.0.order(order))
    }

    /// As [`OnStream::in_pieces`].
    #[must_use]
    pub fn in_pieces(self, scratch: impl Into<Option<&'a PieceScratch<K>>>) -> Self {
        Self(self.0.in_pieces(scratch))
    }

    /// Looks up `queries`: bit `i % 32` of `hits[i / 32]`, the hit mask, becomes whether key `queries[i]` is in the set.
    ///
    /// `hits` must have at least one element per 32 queries. Elements past these are not touched; bits past the last query in
    /// its word become zero.
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn contains(&self, queries: &Buffer<K>, hits: &mut Buffer<u32>) -> Result<()> {
        self.0.check_options("contains", Uses::Nothing)?;
        let on = OnStream::new(self.0.index(), self.0.stream()).tuned(*self.0.tuning());
        on.hits(hits).get(queries, &mut none(queries)?)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`. `ranks` must have at least one element per
    /// query.
    ///
    /// # Errors
    /// As [`SetOnStream::contains`].
    pub fn lower_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.0.lower_bound(queries, ranks)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys at or below `queries[i]`.
    ///
    /// # Errors
    /// As [`SetOnStream::contains`].
    pub fn upper_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.0.upper_bound(queries, ranks)
    }

    /// Finds the last key at or below each query, which goes to `keys[i]`; if there is none, `keys[i]` is unspecified. Uses
    /// [`hits`](Self::hits).
    ///
    /// # Errors
    /// As [`OnStream::predecessor`].
    pub fn predecessor(self, queries: &Buffer<K>, keys: &mut Buffer<K>) -> Result<()> {
        self.0.predecessor(queries, keys, &mut none(queries)?)
    }

    /// Finds the first key at or above each query; otherwise like [`SetOnStream::predecessor`].
    ///
    /// # Errors
    /// As [`OnStream::successor`].
    pub fn successor(self, queries: &Buffer<K>, keys: &mut Buffer<K>) -> Result<()> {
        self.0.successor(queries, keys, &mut none(queries)?)
    }

    /// The keys of each range from `starts[i]` to `ends[i]`, both inclusive, in compressed rows (CSR). `out` says how many keys it
    /// has room for. Uses [`limit`](Self::limit) and [`limits`](Self::limits). Otherwise like [`OnStream::range`]; the values of the
    /// output take no memory.
    ///
    /// # Errors
    /// As [`OnStream::range`].
    pub fn range(
        &self,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<K, ()>,
    ) -> Result<()> {
        self.0.range(starts, ends, scratch, out)
    }

    /// Copies the first keys at or above each of `starts`, at most `limit` each: the keys of `starts[i]` are written
    /// from `keys[i * limit]` on, and `counts[i]` becomes their number.
    ///
    /// # Errors
    /// As [`OnStream::scan`].
    pub fn scan(&self, starts: &Buffer<K>, limit: u32, keys: &mut Buffer<K>, counts: &mut Buffer<u32>) -> Result<()> {
        let mut values = none(keys)?;
        self.0.scan(starts, limit, keys, &mut values, counts)
    }

    /// Counts the keys of each range, as [`range`](Self::range) would find them, into `counts[i]`.
    ///
    /// # Errors
    /// As [`OnStream::count_range`].
    pub fn count_range(&self, starts: &Buffer<K>, ends: &Buffer<K>, counts: &mut Buffer<u64>) -> Result<()> {
        self.0.count_range(starts, ends, counts)
    }

    /// Copies all keys, in ascending order, to the first elements of `keys`. Elements past them are not changed.
    ///
    /// # Errors
    /// As [`OnStream::pairs`].
    pub fn keys(&self, keys: &mut Buffer<K>) -> Result<()> {
        let mut values = none(keys)?;
        self.0.pairs(keys, &mut values)
    }

    /// Joins `probes` with the set: for each probe that is present its number and the rank of its key.
    ///
    /// # Errors
    /// As [`OnStream::join`].
    pub fn join<N: AnyKey<Bits = N> + Word>(
        &self,
        probes: &Buffer<K>,
        scratch: &mut JoinScratch,
        out: &mut DeviceMatches<N>,
    ) -> Result<()> {
        self.0.join(probes, scratch, out)
    }
}
