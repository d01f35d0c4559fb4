//! Range queries: locate, prefix sums, copy.

use super::on_stream::{OnStream, bits};
use super::options::{QueryOptions, Uses};
use super::{BitsOf, FixedIndex, PART, Query, SortedRanges, TASK, View};
use core::ops::Range;
use lanetree_base::Result;
use lanetree_base::error::{check_bounds, check_buffer};
use lanetree_base::parallel::*;
use lanetree_base::pointers::{optional, optional_mut};
use lanetree_base::room::{copied, zeroed};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::{ScanScratch, exclusive_scan};
use lanetree_runtime::{Buffer, Device, DeviceKind};
use lanetree_simt::{GatherBatch, GatherRows, Global, GlobalMut, LocateBatch};

/// Pairs of a task of the CPU's that copies.
const COPY: usize = 1 << 15;

/// The average pairs of short ranges, and the length of a part of a range among them.
const SHORT: usize = 128;
const SHORT_PART: u64 = 4 * PART;

/// Scratch memory of a batch of ranges: 16 bytes per range, reusable for the next batch. (A multi-map has a type of its own of this
/// name, `multimap::RangeScratch`.)
#[derive(Debug)]
pub struct RangeScratch {
    pub(super) cursors: Buffer<u64>,
    pub(super) counts: Buffer<u64>,
    pub(super) scan: ScanScratch,
}

impl RangeScratch {
    /// Memory on `device` for batches of up to `ranges` ranges, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, ranges: usize) -> Result<Self> {
        Ok(Self {
            cursors: device.alloc(ranges)?,
            counts: device.alloc(ranges)?,
            scan: ScanScratch::new(device, ranges)?,
        })
    }

    /// Two elements for each range, and the memory of a scan.
    #[doc(hidden)]
    pub fn parts_mut(&mut self) -> (&mut Buffer<u64>, &mut Buffer<u64>, &mut ScanScratch) {
        (&mut self.cursors, &mut self.counts, &mut self.scan)
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.cursors.bytes() + self.counts.bytes() + self.scan.bytes()
    }
}

/// The results of a batch of ranges on the device, as [`Ranges`](lanetree_base::Ranges) on the host.
#[derive(Debug)]
pub struct DeviceRanges<K, V> {
    /// Out: one more than there are ranges; the last one is the number of pairs found, even if that exceeds the
    /// capacity.
    pub offsets: Buffer<u64>,
    /// Out: the keys; empty if they are not wanted of ranges. Its length is the capacity: pairs beyond it are not written.
    pub keys: Buffer<K>,
    /// Out: the values; at least as long as the keys. Without keys, its length is the capacity.
    pub values: Buffer<V>,
}

impl<K: AnyKey, V: Value> DeviceRanges<K, V> {
    /// Room for `ranges` ranges of `capacity` pairs in all: as many as ranges times their limit, or as `count_range` counts. If there
    /// are more, the last offset is above the capacity: ask again with as much room. Elements past the last offset are not written.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, ranges: usize, capacity: usize) -> Result<Self> {
        let offsets = ranges.saturating_add(1);
        Ok(Self { offsets: device.alloc(offsets)?, keys: device.alloc(capacity)?, values: device.alloc(capacity)? })
    }

    /// Room for the values of as many pairs, without their keys, of ranges and of joins by ranges: memory is what limits
    /// these, and keys are most of what they write.
    ///
    /// # Errors
    /// As [`DeviceRanges::new`].
    pub fn without_keys(device: &Device, ranges: usize, capacity: usize) -> Result<Self> {
        let offsets = ranges.saturating_add(1);
        Ok(Self { offsets: device.alloc(offsets)?, keys: device.alloc(0)?, values: device.alloc(capacity)? })
    }

    /// Checks that there are as many values as keys, on a device.
    ///
    /// # Errors
    /// [`OutputLength`](lanetree_base::Error::OutputLength), [`Runtime`](lanetree_base::Error::Runtime).
    #[doc(hidden)]
    pub fn check_pairs(&self, device: &Device) -> Result<()> {
        check_buffer(device, "the keys' buffer", 0, &self.keys)?;
        check_buffer(device, "the values' buffer", self.keys.len(), &self.values)
    }

    /// Pairs for which there is room.
    pub fn capacity(&self) -> usize {
        if self.keys.is_empty() { self.values.len() } else { self.keys.len() }
    }
}

/// The bounds of a batch of ranges on the device.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a, K> {
    /// The number of ranges: the first of the buffers.
    pub count: usize,
    /// Their first keys.
    pub starts: &'a Buffer<K>,
    /// Their last keys.
    pub ends: &'a Buffer<K>,
    /// The most pairs of each.
    pub limits: Option<&'a Buffer<u64>>,
    /// The most pairs of any.
    pub limit: u64,
}

impl<I: FixedIndex> OnStream<'_, I> {
    /// Finds the pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, in ascending order of their keys. A range whose
    /// end is below its start is empty. Uses [`limit`](Self::limit) and [`limits`](Self::limits).
    ///
    /// For `[lo, hi)` of integers, make the column of ends of `hi - 1`. Where `hi` is the smallest key there is no such end, and the
    /// range is empty: make its start the largest key and its end the smallest.
    ///
    /// Three steps, one after another on the stream: locate, prefix sums, copy. Short ranges and longer ones are copied by different
    /// kernels; the capacity of `out` decides which. Ranges of thousands of pairs are copied in parts, side by side.
    ///
    /// ```
    /// use lanetree::{Device, DeviceRanges, LaneTree, RangeScratch};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let index = LaneTree::build(&device, &[10_u64, 20, 30, 60], &[1_u32, 2, 3, 6])?;
    /// let stream = device.stream()?;
    /// let (starts, ends) = (device.upload(&[15_u64, 25])?, device.upload(&[30_u64, 99])?);
    /// // Two ranges, with room for eight pairs.
    /// let (mut scratch, mut out) = (RangeScratch::new(&device, 2)?, DeviceRanges::new(&device, 2, 8)?);
    /// index.on(&stream).range(&starts, &ends, &mut scratch, &mut out)?;
    /// let offsets = out.offsets.to_vec()?;
    /// assert_eq!(offsets, [0, 2, 4]);
    /// assert_eq!(out.keys.to_vec()?[..offsets[2] as usize], [20, 30, 30, 60]);
    /// // The first pair of each.
    /// index.on(&stream).limit(1).range(&starts, &ends, &mut scratch, &mut out)?;
    /// assert_eq!((out.offsets.to_vec()?, &out.values.to_vec()?[..2]), (vec![0, 1, 2], &[2, 3][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OutputLength`](lanetree_base::Error::OutputLength) for a buffer that is too small (but not for too small a capacity: that
    /// shows in the last offset), [`BoundLengths`](lanetree_base::Error::BoundLengths) unless there are as many ends as starts,
    /// [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge);
    /// [`UnusedOption`](lanetree_base::Error::UnusedOption); [`Runtime`](lanetree_base::Error::Runtime).
    pub fn range(
        &self,
        starts: &Buffer<I::Key>,
        ends: &Buffer<I::Key>,
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        self.options.check("range", Uses::Limits)?;
        self.range_of(self.bounds(starts, ends)?, scratch, out)
    }

    /// [`OnStream::range`] of the first `count` ranges, without limits.
    pub(super) fn range_without_limits(
        &self,
        count: usize,
        (starts, ends): (&Buffer<I::Key>, &Buffer<I::Key>),
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        self.range_of(Bounds { count, starts, ends, limits: None, limit: u64::MAX }, scratch, out)
    }

    fn range_of(
        &self,
        bounds: Bounds<'_, I::Key>,
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        let count = bounds.count;
        self.check("the offsets' buffer", count.saturating_add(1), &out.offsets)?;
        out.check_pairs(self.index.device())?;
        self.locate(bounds, scratch)?;
        exclusive_scan(self.stream, &scratch.counts, count, &mut out.offsets, &mut scratch.scan)?;
        if self.gather_sorted(bounds, scratch, out)? {
            return Ok(());
        }
        self.gather(count, scratch, out)
    }

    /// [`OnStream::gather`] of ranges with these bounds, if the index has another way for sorted ones; otherwise does nothing, and
    /// returns false. The counts in the scratch memory may be written over.
    fn gather_sorted(
        &self,
        bounds: Bounds<'_, I::Key>,
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<bool> {
        let (count, capacity) = (bounds.count, out.capacity());
        if count == 0 || capacity == 0 || self.stream.device().kind() == DeviceKind::Host {
            return Ok(false);
        }
        let ranges = SortedRanges {
            starts: bits::<I::Key>(self.stream, bounds.starts)?,
            ends: bits::<I::Key>(self.stream, bounds.ends)?,
            counts: scratch.counts.write_on(self.stream)?,
        };
        let (batch, mean) = (self.gather_batch(count, scratch, None, out)?, (capacity / count) as u64);
        // SAFETY: as in `gather_after`; the ranges were located with these bounds.
        unsafe { self.index.launch_gather_sorted(self.stream, &self.tuning, ranges, batch, mean) }
    }

    /// Counts the pairs of ranges, as [`OnStream::range`] would find them, into `counts[i]`.
    ///
    /// # Errors
    /// As [`OnStream::range`].
    pub fn count_range(&self, starts: &Buffer<I::Key>, ends: &Buffer<I::Key>, counts: &mut Buffer<u64>) -> Result<()> {
        self.options.check("count_range", Uses::Limits)?;
        self.locate_into(self.bounds(starts, ends)?, None, counts)
    }

    pub(super) fn bounds<'b>(
        &'b self,
        starts: &'b Buffer<I::Key>,
        ends: &'b Buffer<I::Key>,
    ) -> Result<Bounds<'b, I::Key>> {
        check_bounds(starts.len(), ends.len())?;
        let QueryOptions { limit, limits, .. } = self.options;
        Ok(Bounds { count: starts.len(), starts, ends, limits, limit })
    }

    /// Counts at most `limit` pairs of each of the first `count` ranges.
    pub(super) fn locate_into_first(
        &self,
        count: usize,
        (starts, ends): (&Buffer<I::Key>, &Buffer<I::Key>),
        limit: u64,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        self.locate_into(Bounds { count, starts, ends, limits: None, limit }, None, counts)
    }

    /// Locates the first `count` ranges, without limits.
    pub(super) fn locate_first(
        &self,
        count: usize,
        (starts, ends): (&Buffer<I::Key>, &Buffer<I::Key>),
        scratch: &mut RangeScratch,
    ) -> Result<()> {
        self.locate(Bounds { count, starts, ends, limits: None, limit: u64::MAX }, scratch)
    }

    pub(super) fn locate(&self, bounds: Bounds<'_, I::Key>, scratch: &mut RangeScratch) -> Result<()> {
        self.locate_into(bounds, Some(&mut scratch.cursors), &mut scratch.counts)
    }

    /// Finds where each range begins, unless that is not wanted, and counts its pairs.
    pub(super) fn locate_into(
        &self,
        bounds: Bounds<'_, I::Key>,
        cursors: Option<&mut Buffer<u64>>,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        let count = bounds.count;
        self.check("the starts' buffer", count, bounds.starts)?;
        self.check("the ends' buffer", count, bounds.ends)?;
        self.check("the counts' buffer", count, counts)?;
        if let Some(limits) = bounds.limits {
            self.check("the limits' buffer", count, limits)?;
        }
        if let Some(cursors) = &cursors {
            self.check("the scratch memory", count, cursors)?;
        }
        if count == 0 {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            self.locate_on_host(bounds, cursors, counts)?;
            return Ok(());
        }
        let limits = optional(bounds.limits, self.stream)?;
        let (cursors, counts) = (optional_mut(cursors, self.stream)?, counts.write_on(self.stream)?);
        let (starts, ends) = (bits::<I::Key>(self.stream, bounds.starts)?, bits::<I::Key>(self.stream, bounds.ends)?);
        let (count, limit) = (count as u64, bounds.limit);
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe { self.launch(&Query::Locate(LocateBatch { starts, ends, limits, count, limit, cursors, counts })) }
    }

    fn locate_on_host(
        &self,
        bounds: Bounds<'_, I::Key>,
        cursors: Option<&mut Buffer<u64>>,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        let count = bounds.count;
        let tree = self.index.view().expect("a tree on the host is in main memory");
        let starts = &bounds.starts.as_slice().expect("a buffer of the host")[..count];
        let ends = &bounds.ends.as_slice().expect("a buffer of the host")[..count];
        let limits = bounds.limits.map(|limits| &limits.as_slice().expect("a buffer of the host")[..count]);
        let counts = &mut counts.as_mut_slice().expect("a buffer of the host")[..count];
        let mut unwanted;
        let cursors = match cursors {
            Some(cursors) => &mut cursors.as_mut_slice().expect("a buffer of the host")[..count],
            None => {
                unwanted = zeroed(count)?;
                &mut unwanted[..]
            }
        };
        locate_rows(tree, (starts, ends), limits, bounds.limit, cursors, counts);
        Ok(())
    }

    /// Copies the pairs of the first `count` ranges, which were located, to where the offsets say.
    pub(super) fn gather(
        &self,
        count: usize,
        scratch: &RangeScratch,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        self.gather_after(count, scratch, None, out)
    }

    /// [`OnStream::gather`] without as many of each range's first pairs as there are `skips`.
    pub(super) fn gather_after(
        &self,
        count: usize,
        scratch: &RangeScratch,
        skips: Option<&Buffer<u64>>,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        let capacity = out.capacity();
        if count == 0 || capacity == 0 {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            let tree = self.index.view().expect("a tree on the host is in main memory");
            let mut cursors = &scratch.cursors.as_slice().expect("a buffer of the host")[..count];
            let mut begins;
            if let Some(skips) = skips {
                begins = copied(cursors)?;
                begins
                    .iter_mut()
                    .zip(skips.as_slice().expect("a buffer of the host"))
                    .for_each(|(rank, skip)| *rank += skip);
                cursors = &begins;
            }
            let offsets = &out.offsets.as_slice().expect("a buffer of the host")[..=count];
            let keys = out.keys.as_mut_slice().expect("a buffer of the host");
            let values = &mut out.values.as_mut_slice().expect("a buffer of the host")[..capacity];
            let mut unwanted;
            let keys = if keys.is_empty() {
                unwanted = zeroed(capacity)?;
                &mut unwanted[..]
            } else {
                keys
            };
            copy_rows(tree, cursors, offsets, keys, values);
            return Ok(());
        }
        let batch = self.gather_batch(count, scratch, skips, out)?;
        // SAFETY: cursors, skips and offsets were written just now for this tree and this number of ranges; the outputs have
        // room for `capacity` pairs; the pointers are for this stream.
        unsafe { self.launch(&Query::gather(batch, capacity)) }
    }

    /// The copying of the pairs of `count` ranges, at least one, as far as there is room.
    fn gather_batch(
        &self,
        count: usize,
        scratch: &RangeScratch,
        skips: Option<&Buffer<u64>>,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<GatherBatch<BitsOf<I>, I::Value>> {
        let (cursors, offsets) = (scratch.cursors.read_on(self.stream)?, out.offsets.read_on(self.stream)?);
        let first_pairs = first_pairs_of((cursors, offsets), count, out.capacity());
        let rows = GatherRows { skips: optional(skips, self.stream)?, ..first_pairs };
        let keys = if out.keys.is_empty() { GlobalMut::null() } else { out.keys.write_on(self.stream)?.cast() };
        Ok(GatherBatch { rows, keys, values: out.values.write_on(self.stream)? })
    }
}

/// Locates ranges on the host, in parallel. Here a cursor is simply the rank of the first pair.
pub(super) fn locate_rows<K: AnyKey, V: Value>(
    index: impl View<K, V>,
    (starts, ends): (&[K], &[K]),
    limits: Option<&[u64]>,
    limit: u64,
    cursors: &mut [u64],
    counts: &mut [u64],
) {
    let tasks = starts.par_chunks(TASK).zip(ends.par_chunks(TASK));
    let outputs = cursors.par_chunks_mut(TASK).zip(counts.par_chunks_mut(TASK));
    tasks.zip(outputs).enumerate().for_each(|(task, ((starts, ends), (cursors, counts)))| {
        index.rank(starts, false, |i, rank| cursors[i] = rank);
        index.rank(ends, true, |i, rank| {
            let own = limits.map_or(u64::MAX, |limits| limits[task * TASK + i]);
            counts[i] = rank.saturating_sub(cursors[i]).min(limit).min(own);
        });
    });
}

/// Copies each row's pairs, as far as there is room, in parallel: each task has as many pairs, whatever rows they are in.
pub(super) fn copy_rows<K: AnyKey, V: Value>(
    index: impl View<K, V>,
    cursors: &[u64],
    offsets: &[u64],
    keys: &mut [K],
    values: &mut [V],
) {
    let used = usize::try_from(offsets[cursors.len()]).unwrap_or(usize::MAX).min(keys.len());
    let tasks = keys[..used].par_chunks_mut(COPY).zip(values[..used].par_chunks_mut(COPY));
    tasks.enumerate().for_each(|(task, (mut keys, mut values))| {
        let mut at = (task * COPY) as u64;
        let mut row = offsets.partition_point(|&offset| offset <= at) - 1;
        while !keys.is_empty() {
            let pairs = usize::try_from(offsets[row + 1] - at).unwrap_or(usize::MAX).min(keys.len());
            let (row_keys, row_values);
            (row_keys, keys) = keys.split_at_mut(pairs);
            (row_values, values) = values.split_at_mut(pairs);
            if pairs > 0 {
                index.copy(cursors[row] + (at - offsets[row]), row_keys, row_values);
            }
            (at, row) = (at + pairs as u64, row + 1);
        }
    });
}

/// The first pairs of rows, `room` in all; there is one row at least.
#[doc(hidden)]
pub fn first_pairs_of(rows: (Global<u64>, Global<u64>), count: usize, room: usize) -> GatherRows {
    // Of short ranges there are few parts, so that their groups take a small part of the time.
    let part = if room / count <= SHORT { SHORT_PART } else { PART };
    rows_of(rows, count, 0..room as u64, part)
}

/// A window of rows, of which those longer than a part are copied by parts.
pub(super) fn rows_of(
    (cursors, offsets): (Global<u64>, Global<u64>),
    count: usize,
    pairs: Range<u64>,
    part: u64,
) -> GatherRows {
    let len = pairs.end - pairs.start;
    // What comes from a row that begins before the window is a part.
    let is_whole = part == GatherRows::WHOLE || pairs.start == 0 && len <= part;
    let (part, parts) = if is_whole { (GatherRows::WHOLE, 0) } else { (part, len.div_ceil(part)) };
    let skips = Global::null();
    GatherRows { cursors, skips, offsets, count: count as u64, first: pairs.start, end: pairs.end, part, parts }
}
