//! Queries in device form.

mod aggregate;
mod joins;
mod range_joins;
mod scratch;

pub use aggregate::AggregateScratch;
pub use joins::{DeviceJoin, JoinScratch};
pub use range_joins::RangeJoinScratch;
use scratch::EndScratch;
pub use scratch::{RangeScratch, Scratch};

use crate::contents::Contents;
use crate::gather::{KeysOf, KeysOfScans, RowsOf, gather_pairs, scan_pairs};
use crate::places::{Ends, Which, count_values, one_value, slice, slice_mut, spans};
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::{check_bounds, check_buffer, same_device};
use lanetree_frame::fixed::{self, Bounds, DeviceRanges, QueryOptions, Side, Uses};
use lanetree_frame::parallel::*;
use lanetree_frame::{BatchOrder, Buffer, Device, Result, Stream};
use lanetree_kernels_multimap::layout::{COUNT_BITS, begin, place};
use lanetree_lane_tree::LaneTree;
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{Expanded, Spans, expand};

/// Of rows only their offsets.
pub(crate) fn offsets_only<V>(offsets: &mut Buffer<u64>) -> Expanded<'_, V> {
    Expanded { offsets: Some(offsets), count: None, values: None, numbers: None }
}

/// Of rows only their values.
pub(crate) fn values_only<V>(values: &mut Buffer<V>) -> Expanded<'_, V> {
    Expanded { offsets: None, count: None, values: Some(values), numbers: None }
}

/// The values of a batch of keys on the device, as [`ValueRows`](crate::ValueRows) on the host.
#[derive(Debug)]
pub struct DeviceRows<V> {
    /// Out: one more than there are keys; the last one is the number of values found, even if that exceeds the capacity.
    pub offsets: Buffer<u64>,
    /// Out: the values. Its length is the capacity: values beyond it are not written.
    pub values: Buffer<V>,
}

impl<V: Word> DeviceRows<V> {
    /// Room for `keys` keys with `capacity` values in all.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, keys: usize, capacity: usize) -> Result<Self> {
        Ok(Self { offsets: device.alloc(keys.saturating_add(1))?, values: device.alloc(capacity)? })
    }
}

/// A map's queries on a stream: buffers in and out, in the stream's order. A call allocates nothing, synchronises nothing, and
/// may return before its work is done.
///
/// ```
/// use lanetree::multimap::{DeviceRows, Scratch};
/// use lanetree::{Device, MultiMap};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let map = MultiMap::build(&device, &[7_u32, 5, 7], &[1_u64, 2, 3])?;
/// let (stream, queries) = (device.stream()?, device.upload(&[5, 6, 7])?);
/// let (mut scratch, mut rows) = (Scratch::new(&device, 3)?, DeviceRows::new(&device, 3, 10)?);
/// map.on(&stream).get_all(&queries, &mut scratch, &mut rows)?;
/// assert_eq!(rows.offsets.to_vec()?, [0, 1, 1, 3]);
/// assert_eq!(rows.values.to_vec()?[..3], [2, 1, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OnStream<'a, K: AnyKey, V: Word> {
    contents: &'a Contents<K, V>,
    stream: &'a Stream,
    order: BatchOrder,
    options: QueryOptions<'a, V>,
}

lanetree_frame::query_options! {
    impl['a, K: AnyKey, V: Word] OnStream<'a, K, V>, |view| view.options => hits, miss(V), limit, limits, joins
}

impl<'a, K: AnyKey, V: Word> OnStream<'a, K, V> {
    pub(crate) fn new(contents: &'a Contents<K, V>, stream: &'a Stream) -> Self {
        Self { contents, stream, order: BatchOrder::default(), options: QueryOptions::default() }
    }

    /// Declares the order of the queries: a hint, which changes no answer.
    #[must_use]
    pub fn order(self, order: BatchOrder) -> Self {
        Self { order, ..self }
    }

    /// The queries' way to their keys.
    fn keys(&self) -> fixed::OnStream<'a, LaneTree<K, u64>> {
        self.contents.keys.on(self.stream).order(self.order)
    }

    /// Finds all values of each of `queries`: the values of `queries[i]` go to `out.values` from `out.offsets[i]` to
    /// `out.offsets[i + 1]`, in the order in which they were inserted. Two steps, one after another on the stream:
    /// look-up, copy.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a buffer that is too small (but not for too small a capacity: that shows in the last
    /// offset), [`Error::BatchTooLarge`]; [`Error::UnusedOption`]; [`Error::Runtime`] for buffers of another device, and from the launches.
    pub fn get_all(&self, queries: &Buffer<K>, scratch: &mut Scratch, out: &mut DeviceRows<V>) -> Result<()> {
        self.options.check("get_all", Uses::Nothing)?;
        let (count, DeviceRows { offsets, values }) = (queries.len(), out);
        self.check("the offsets' buffer", count + 1, offsets)?;
        self.check("the values' buffer", 0, values)?;
        self.places(queries, scratch)?;
        self.copy_places(count, scratch, Expanded { values: Some(values), ..offsets_only(offsets) })
    }

    /// Copies the values of the first `count` places, or counts them.
    pub(crate) fn copy_places<N: Word>(
        &self,
        count: usize,
        scratch: &mut Scratch,
        out: Expanded<'_, V, N>,
    ) -> Result<()> {
        let spans = Spans { begins: &scratch.places, shift: COUNT_BITS, lengths: None, count };
        expand(self.stream, spans, self.contents.spanned(self.options.miss()), out, &mut scratch.expand)
    }

    /// Copies the values of the first `count` ranges, or counts them.
    pub(crate) fn copy_spans<N: Word>(
        &self,
        count: usize,
        scratch: &mut RangeScratch<K>,
        mut out: Expanded<'_, V, N>,
    ) -> Result<()> {
        if self.contents.is_by_rank()
            && let Some(values) = out.values.take()
        {
            self.copy_by_rank(count, scratch, None, slice_mut(values))?;
        }
        let spans = Spans { begins: &scratch.begins, shift: 0, lengths: Some(&scratch.counts), count };
        expand(self.stream, spans, self.contents.spanned(self.options.miss()), out, &mut scratch.expand)
    }

    /// Counts the values of each of `queries` into `counts[i]`; an absent key has 0.
    ///
    /// # Errors
    /// As [`OnStream::get_all`].
    pub fn count(&self, queries: &Buffer<K>, counts: &mut Buffer<u64>, scratch: &mut Scratch) -> Result<()> {
        self.options.check("count", Uses::Nothing)?;
        self.check("the counts' buffer", queries.len(), counts)?;
        self.places(queries, scratch)?;
        count_values(self.stream, &scratch.places, queries.len(), counts)
    }

    /// Finds the value of each of `queries` that was inserted first: `values[i]` becomes it, or [`miss`](Self::miss) if there is
    /// no such key. Uses [`hits`](Self::hits).
    ///
    /// # Errors
    /// As [`OnStream::get_all`].
    pub fn first(mut self, queries: &Buffer<K>, values: &mut Buffer<V>, scratch: &mut Scratch) -> Result<()> {
        self.options.check("first", Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        self.one(queries, (values, hits), miss, Which::First, scratch)
    }

    /// Finds the value of each of `queries` that was inserted last. Otherwise like [`OnStream::first`].
    ///
    /// # Errors
    /// As [`OnStream::get_all`].
    pub fn last(mut self, queries: &Buffer<K>, values: &mut Buffer<V>, scratch: &mut Scratch) -> Result<()> {
        self.options.check("last", Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        self.one(queries, (values, hits), miss, Which::Last, scratch)
    }

    pub(crate) fn one(
        &self,
        queries: &Buffer<K>,
        (values, hits): (&mut Buffer<V>, Option<&mut Buffer<u32>>),
        miss: V,
        which: Which,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let count = queries.len();
        self.check("the values' buffer", count, values)?;
        if let Some(hits) = &hits {
            self.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        }
        self.places(queries, scratch)?;
        one_value(self.stream, &scratch.places, count, (self.contents.spanned(miss), which), (values, hits))
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of pairs whose keys are below `queries[i]` (`bisect_left`). Scratch memory for
    /// as many ranges is enough.
    ///
    /// # Errors
    /// As [`OnStream::get_all`]; [`Error::NotCompact`] after inserts in place on a device: see
    /// [`MultiMap::restore_order`](crate::MultiMap::restore_order).
    pub fn lower_bound(
        &self,
        queries: &Buffer<K>,
        ranks: &mut Buffer<u64>,
        scratch: &mut RangeScratch<K>,
    ) -> Result<()> {
        self.options.check("lower_bound", Uses::Nothing)?;
        self.contents.check_order("lower_bound")?;
        let count = queries.len();
        self.check_ranks(count, ranks, scratch)?;
        // Past the last key: past the last value.
        let end = place(self.contents.len, 0);
        let RangeScratch { ends: EndScratch { firsts, neighbors, .. }, counts, .. } = scratch;
        self.end_places(Side::Lower, (queries, count), (neighbors, firsts), end)?;
        spans(self.stream, Ends::of(firsts, firsts, count), Some(ranks), counts)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of pairs whose keys are at or below `queries[i]` (`bisect_right`). Otherwise
    /// like [`OnStream::lower_bound`].
    ///
    /// # Errors
    /// As [`OnStream::lower_bound`].
    pub fn upper_bound(
        &self,
        queries: &Buffer<K>,
        ranks: &mut Buffer<u64>,
        scratch: &mut RangeScratch<K>,
    ) -> Result<()> {
        self.options.check("upper_bound", Uses::Nothing)?;
        self.contents.check_order("upper_bound")?;
        let count = queries.len();
        self.check_ranks(count, ranks, scratch)?;
        let EndScratch { firsts, lasts, neighbors } = &mut scratch.ends;
        self.end_places(Side::Upper, (queries, count), (neighbors, lasts), 0)?;
        // From the first value of all to the last one of that key.
        firsts.fill_zero(self.stream)?;
        spans(self.stream, Ends::of(firsts, lasts, count), None, ranks)
    }

    fn check_ranks(&self, count: usize, ranks: &Buffer<u64>, scratch: &RangeScratch<K>) -> Result<()> {
        self.check("the ranks' buffer", count, ranks)?;
        self.check("the scratch memory", count, &scratch.ends.firsts)
    }

    /// Finds the last pair whose key is at or below each of `queries`: its key goes to `keys[i]` and its value to
    /// `values[i]`; if there is none, `values[i]` becomes [`miss`](Self::miss). Uses [`hits`](Self::hits).
    ///
    /// # Errors
    /// As [`OnStream::get_all`].
    pub fn predecessor(
        mut self,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.options.check("predecessor", Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        self.neighbor(queries, Side::Upper, (keys, values, hits), miss, scratch)
    }

    /// Finds the first pair whose key is at or above each of `queries`. Otherwise like [`OnStream::predecessor`].
    ///
    /// # Errors
    /// As [`OnStream::get_all`].
    pub fn successor(
        mut self,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.options.check("successor", Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        self.neighbor(queries, Side::Lower, (keys, values, hits), miss, scratch)
    }

    pub(crate) fn neighbor(
        &self,
        queries: &Buffer<K>,
        side: Side,
        (keys, values, hits): (&mut Buffer<K>, &mut Buffer<V>, Option<&mut Buffer<u32>>),
        miss: V,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let count = queries.len();
        self.check("the values' buffer", count, values)?;
        self.check("the scratch memory", count, &scratch.places)?;
        let (index, places) = (self.keys().hits(hits).miss(0), &mut scratch.places);
        let which = match side {
            Side::Upper => index.predecessor(queries, keys, places).map(|()| Which::Last)?,
            Side::Lower => index.successor(queries, keys, places).map(|()| Which::First)?,
        };
        one_value(self.stream, &scratch.places, count, (self.contents.spanned(miss), which), (values, None))
    }

    /// Finds the pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive. A range whose end is below its start is
    /// empty. The scratch memory is for at least as many pairs as `out` has room for keys. Uses [`limit`](Self::limit) and
    /// [`limits`](Self::limits).
    ///
    /// # Errors
    /// As [`OnStream::lower_bound`].
    pub fn range(
        &self,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        scratch: &mut RangeScratch<K>,
        out: &mut DeviceRanges<K, V>,
    ) -> Result<()> {
        self.options.check("range", Uses::Limits)?;
        let bounds = self.bounds(starts, ends)?;
        self.locate_ranges(bounds, scratch, &mut out.offsets)?;
        self.copy_ranges(bounds, scratch, out)
    }

    /// Finds where the values of ranges are, and their offsets.
    pub(crate) fn locate_ranges(
        &self,
        bounds: Bounds<'_, K>,
        scratch: &mut RangeScratch<K>,
        offsets: &mut Buffer<u64>,
    ) -> Result<()> {
        let count = bounds.count;
        self.contents.check_order("range")?;
        self.check("the offsets' buffer", count + 1, offsets)?;
        let RangeScratch { ends, begins, counts, .. } = scratch;
        let found = self.ends(bounds, ends)?;
        self.check("the scratch memory", count, counts)?;
        spans(self.stream, found, Some(begins), counts)?;
        self.copy_spans(count, scratch, offsets_only(offsets))
    }

    /// Copies the pairs of ranges that were located.
    pub(crate) fn copy_ranges(
        &self,
        Bounds { count, starts, ends, limits, limit }: Bounds<'_, K>,
        scratch: &mut RangeScratch<K>,
        out: &mut DeviceRanges<K, V>,
    ) -> Result<()> {
        let capacity = out.keys.len();
        self.check("the keys' buffer", 0, &out.keys)?;
        self.check("the values' buffer", capacity, &out.values)?;
        if capacity == 0 {
            return self.copy_spans(count, scratch, values_only(&mut out.values));
        }
        self.check("the scratch memory", capacity, &scratch.keys.keys)?;
        if self.contents.is_by_rank() {
            let values = &mut slice_mut(&mut out.values)[..capacity];
            return self.copy_by_rank(count, scratch, Some(slice_mut(&mut out.keys)), values);
        }
        let rows = RowsOf { begins: &scratch.begins, shift: 0, offsets: &out.offsets, rows: count };
        // A key has at least one pair, so the limits and the capacity are enough for keys, too.
        let keys = &mut scratch.keys;
        self.keys().limits(limits).limit(limit).range(starts, ends, &mut scratch.key_scratch, keys)?;
        let keys = KeysOf { offsets: &keys.offsets, keys: &keys.keys, places: &keys.values };
        gather_pairs(self.stream, &self.contents.values, rows, keys, (&mut out.keys, &mut out.values))
    }

    /// Counts the pairs of ranges, as [`OnStream::range`] would find them, into `counts[i]`.
    ///
    /// # Errors
    /// As [`OnStream::range`].
    pub fn count_range(
        &self,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        counts: &mut Buffer<u64>,
        scratch: &mut RangeScratch<K>,
    ) -> Result<()> {
        self.options.check("count_range", Uses::Limits)?;
        self.contents.check_order("count_range")?;
        self.check("the counts' buffer", starts.len(), counts)?;
        let found = self.ends(self.bounds(starts, ends)?, &mut scratch.ends)?;
        spans(self.stream, found, None, counts)
    }

    /// Copies the first pairs whose keys are at or above each of `starts`, at most `limit` of each and in ascending
    /// order of their keys. The pairs of `starts[i]` are written from `keys[i * limit]` and `values[i * limit]` on, and
    /// `counts[i]` becomes their number. Elements past these are not touched. The scratch memory is for `limit` pairs
    /// of each.
    ///
    /// ```
    /// use lanetree::multimap::RangeScratch;
    /// use lanetree::{Device, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let map = MultiMap::build(&device, &[7_u32, 5, 7], &[1_u64, 2, 3])?;
    /// let (stream, starts) = (device.stream()?, device.upload(&[6, 0, 8])?);
    /// let (mut keys, mut values) = (device.alloc_zeroed(6)?, device.alloc_zeroed(6)?);
    /// let (mut counts, mut scratch) = (device.alloc(3)?, RangeScratch::new(&device, 3, 6)?);
    /// map.on(&stream).scan(&starts, 2, &mut keys, &mut values, &mut counts, &mut scratch)?;
    /// assert_eq!((keys.to_vec()?, values.to_vec()?), (vec![7, 7, 5, 7, 0, 0], vec![1, 3, 2, 1, 0, 0]));
    /// assert_eq!(counts.to_vec()?, [2, 2, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnStream::lower_bound`].
    pub fn scan(
        &self,
        starts: &Buffer<K>,
        limit: u32,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        counts: &mut Buffer<u32>,
        scratch: &mut RangeScratch<K>,
    ) -> Result<()> {
        self.options.check("scan", Uses::Nothing)?;
        self.contents.check_order("scan")?;
        let count = starts.len();
        let pairs = count.saturating_mul(limit as usize);
        self.check("the keys' buffer", pairs, keys)?;
        self.check("the values' buffer", pairs, values)?;
        self.check("the counts' buffer", count, counts)?;
        self.check("the scratch memory", count, &scratch.key_counts)?;
        self.check("the scratch memory", pairs, &scratch.keys.keys)?;
        if self.contents.is_by_rank() && limit > 0 {
            let RangeScratch { ends: EndScratch { firsts, neighbors, .. }, .. } = scratch;
            self.end_places(Side::Lower, (starts, count), (neighbors, firsts), 0)?;
            let (limit, firsts) = (limit as usize, &slice(firsts)[..count]);
            let outputs = slice_mut(keys)[..pairs].par_chunks_mut(limit);
            let outputs = outputs.zip(slice_mut(values)[..pairs].par_chunks_mut(limit)).zip(firsts);
            outputs.zip(&mut slice_mut(counts)[..count]).for_each(|(((keys, values), &first), pairs)| {
                *pairs = self.contents.copy_from_rank(begin(first), keys, values) as u32;
            });
            return Ok(());
        }
        // A key has at least one pair, so the limit is enough for keys, too.
        let RangeScratch { keys: found, key_counts, .. } = scratch;
        self.keys().scan(starts, limit, &mut found.keys, &mut found.values, key_counts)?;
        if limit == 0 {
            return Ok(counts.fill_zero_range(self.stream, 0..count)?);
        }
        let found = KeysOfScans { keys: &found.keys, places: &found.values, counts: key_counts, scans: count, limit };
        scan_pairs(self.stream, &self.contents.values, found, (keys, values, counts))
    }

    /// Finds the place of each query.
    fn places(&self, queries: &Buffer<K>, scratch: &mut Scratch) -> Result<()> {
        self.check("the scratch memory", queries.len(), &scratch.places)?;
        self.keys().miss(0).get(queries, &mut scratch.places)
    }

    /// Ranges with the limits that were named.
    fn bounds<'b>(&'b self, starts: &'b Buffer<K>, ends: &'b Buffer<K>) -> Result<Bounds<'b, K>> {
        check_bounds(starts.len(), ends.len())?;
        let QueryOptions { limits, limit, .. } = self.options;
        Ok(Bounds { count: starts.len(), starts, ends, limits, limit })
    }

    /// Finds the places of the first and last key of each range.
    fn ends<'b>(
        &self,
        Bounds { count, starts, ends, limits, limit }: Bounds<'b, K>,
        EndScratch { firsts, lasts, neighbors }: &'b mut EndScratch<K>,
    ) -> Result<Ends<'b>> {
        if let Some(limits) = limits {
            self.check("the limits' buffer", count, limits)?;
        }
        self.check("the scratch memory", count, firsts)?;
        self.end_places(Side::Lower, (starts, count), (neighbors, firsts), u64::MAX)?;
        self.end_places(Side::Upper, (ends, count), (neighbors, lasts), 0)?;
        Ok(Ends { firsts, lasts, limits, limit, count })
    }

    /// Finds the places of the first keys at or above the first `count` queries, or of the last ones at or below them, or `miss`; or, on
    /// the host, the ranks there.
    fn end_places(
        &self,
        side: Side,
        (queries, count): (&Buffer<K>, usize),
        (neighbors, places): (&mut Buffer<K>, &mut Buffer<u64>),
        miss: u64,
    ) -> Result<()> {
        if self.contents.is_by_rank() {
            self.check("the queries' buffer", count, queries)?;
            self.check("the scratch memory", count, places)?;
            return self.contents.rank_places(queries, count, side, places);
        }
        self.keys().miss(miss).neighbors_of_first(count, side, queries, neighbors, places)
    }

    /// On the host, after changes in place: copies the values, and the keys if these are wanted, of the first `count` ranges.
    fn copy_by_rank(
        &self,
        count: usize,
        scratch: &RangeScratch<K>,
        keys: Option<&mut [K]>,
        values: &mut [V],
    ) -> Result<()> {
        let rows = (&slice(&scratch.begins)[..count], &slice(&scratch.counts)[..count]);
        self.contents.copy_rows(rows, self.options.miss(), keys, values)
    }

    /// Checks a buffer's length and device, and the stream's device.
    fn check<T: bytemuck::Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        let device = self.contents.keys.device();
        check_buffer(device, what, expected, buffer)?;
        same_device(device, self.stream.device(), "the stream")
    }
}
