//! Builds.

use crate::IntervalIndex;
use crate::steps::{InOrder, arrange, check, make_links, mark, raise, turn};
use lanetree_frame::error::{check_bounds, check_buffer};
use lanetree_frame::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_intervals::layout::{MOST, words};
use lanetree_lane_tree::{BuildScratch, LaneTree};
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{
    RadixSortScratch, ScanScratch, inclusive_max_scan, radix_argsort, radix_sort, sort_by_likely_bits,
};

impl<K: AnyKey> IntervalIndex<K> {
    /// Builds an index over the intervals from `starts[i]` to `ends[i]`, both inclusive, in any order. The row of an interval is
    /// its number `i`.
    ///
    /// Intervals are copied to the device and sorted there. Meanwhile the build takes about four times the memory of
    /// the starts and ends, in addition to the index.
    ///
    /// ```
    /// use lanetree::{Device, IntervalIndex};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let index = IntervalIndex::build(&Device::host(), &[10_u32, 20], &[40, 25])?;
    /// assert_eq!(index.most_specific_many(&[22, 30, 41])?, [Some(1), Some(0), None]);
    /// let error = IntervalIndex::build(&Device::host(), &[1_u32, 9], &[2, 8]).unwrap_err();
    /// assert!(error.to_string().starts_with("range 1 starts at 9 and ends at 8"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::BoundLengths`] unless there are as many ends as starts; [`Error::ReversedRange`] with the first interval whose end
    /// is below its start; [`Error::TooManyElements`] for more than 2^32 - 1 intervals; [`Error::Runtime`] if the device has no
    /// room, or from its driver.
    pub fn build(device: &Device, starts: &[K], ends: &[K]) -> Result<Self> {
        Self::of_slices(device, (starts, ends), None)
    }
}

impl<K: AnyKey, V: Word> IntervalIndex<K, V> {
    /// Builds an index over the intervals from `starts[i]` to `ends[i]`, both inclusive, in any order, whose rows are
    /// `rows[i]`: any numbers, which may repeat. Queries give these instead of the intervals' numbers. Otherwise like
    /// [`IntervalIndex::build`].
    ///
    /// # Errors
    /// As [`IntervalIndex::build`]; [`Error::OutputLength`] unless there is one row per interval.
    pub fn build_with_rows(device: &Device, starts: &[K], ends: &[K], rows: &[V]) -> Result<Self> {
        if rows.len() != starts.len() {
            return Err(Error::OutputLength { what: "`rows`", expected: starts.len(), actual: rows.len() });
        }
        Self::of_slices(device, (starts, ends), Some(rows))
    }

    fn of_slices(device: &Device, (starts, ends): (&[K], &[K]), rows: Option<&[V]>) -> Result<Self> {
        check_bounds(starts.len(), ends.len())?;
        let stream = device.stream()?;
        let rows = rows.map(|rows| device.upload(rows)).transpose()?;
        let intervals = (&device.upload(starts)?, &device.upload(ends)?);
        Self::build_on(&stream, intervals.0, intervals.1, rows.as_ref(), starts.len())
    }

    /// As [`IntervalIndex::build`], over the first `len` intervals of buffers, with their rows if given. Returns when the index is
    /// complete. Its memory, and later what its calls in host form take, comes from the stream's device.
    ///
    /// # Errors
    /// As [`IntervalIndex::build`]; [`Error::OutputLength`] for buffers that are too small; [`Error::Runtime`] for buffers of
    /// another device than the stream's.
    pub fn build_on(
        stream: &Stream,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        rows: Option<&Buffer<V>>,
        len: usize,
    ) -> Result<Self> {
        check_buffer(stream.device(), "the starts' buffer", len, starts)?;
        check_buffer(stream.device(), "the ends' buffer", len, ends)?;
        if let Some(rows) = rows {
            check_buffer(stream.device(), "the rows' buffer", len, rows)?;
        }
        if len as u64 > MOST {
            return Err(Error::TooManyElements { elements: len });
        }
        let device = stream.device();
        check_order(stream, (starts, ends), len)?;

        // By ends, which is the order for counting.
        let mut order = device.alloc(len)?;
        let ended = {
            let mut sorted = device.alloc(len)?;
            let mut scratch = RadixSortScratch::for_pairs(device, len)?;
            sort_by_likely_bits(stream, ends, len, (&mut sorted, &mut order), |bits, (sorted, order)| {
                radix_argsort(stream, ends, len, bits, sorted, order, &mut scratch)
            })?;
            drop(scratch);
            ended_below(stream, &sorted, len)?
        };
        // Then stably by starts, so that intervals with the same start descend by end.
        let (mut sorted, mut positions) = (device.alloc(len)?, device.alloc(len)?);
        {
            let (mut turned, mut turned_order) = (device.alloc(len)?, device.alloc(len)?);
            turn(stream, (starts, &order), len, (&mut turned, &mut turned_order))?;
            let mut scratch = RadixSortScratch::for_pairs(device, len)?;
            sort_by_likely_bits(stream, &turned, len, (&mut sorted, &mut order), |bits, sorted| {
                radix_sort(stream, (&turned, &turned_order), len, bits, sorted, &mut scratch)
            })?;
        }
        let mut intervals = InOrder {
            ends: device.alloc(words(len as u64) as usize)?,
            links: device.alloc(len)?,
            rows: device.alloc(len)?,
        };
        let out = (&mut intervals.ends, &mut intervals.rows);
        arrange(stream, (ends, rows), (&order, len), out, &mut positions)?;
        raise(stream, &mut intervals.ends, len)?;
        make_links(stream, &intervals.ends, len, &mut intervals.links)?;
        // Of equal starts, the last one's position.
        let started = sorted_tree(stream, (&sorted, &positions), len)?;
        stream.synchronize()?;
        Ok(Self { device: device.clone(), started, ended, intervals })
    }
}

/// # Errors
/// [`Error::ReversedRange`].
fn check_order<K: AnyKey>(stream: &Stream, (starts, ends): (&Buffer<K>, &Buffer<K>), len: usize) -> Result<()> {
    let mut reversed = stream.device().upload(&[u64::MAX])?;
    check(stream, (starts, ends), len, &mut reversed)?;
    let mut first = [0];
    reversed.copy_to(&mut first)?;
    let index = usize::try_from(first[0]).unwrap_or(usize::MAX);
    if index >= len {
        return Ok(());
    }
    let (mut start, mut end) = ([K::MIN], [K::MIN]);
    starts.copy_range_to(index, &mut start)?;
    ends.copy_range_to(index, &mut end)?;
    Err(Error::ReversedRange { index, start: start[0].to_string(), end: end[0].to_string() })
}

/// The distinct ones of sorted ends, each with the number of ends below it. Complete on return.
fn ended_below<K: AnyKey>(stream: &Stream, sorted: &Buffer<K>, len: usize) -> Result<LaneTree<K, u32>> {
    let device = stream.device();
    let (mut marks, mut below) = (device.alloc(len)?, device.alloc(len)?);
    mark(stream, sorted, len, &mut marks)?;
    inclusive_max_scan(stream, &marks, len, &mut below, &mut ScanScratch::new(device, len)?)?;
    sorted_tree(stream, (sorted, &below), len)
}

/// The distinct ones of sorted keys, each with the last of its values.
fn sorted_tree<K: AnyKey>(stream: &Stream, pairs: (&Buffer<K>, &Buffer<u32>), len: usize) -> Result<LaneTree<K, u32>> {
    LaneTree::builder().build_sorted_on(stream, pairs.0, pairs.1, len, &mut BuildScratch::for_sorted(stream.device())?)
}
