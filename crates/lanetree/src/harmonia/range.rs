//! Range queries: locate, prefix sums, copy.

use super::launch;
use super::lookup::bits;
use super::native::TASK;
use super::{Harmonia, OnStream};
use crate::Result;
use crate::primitives::{ScanScratch, exclusive_scan};
use crate::ranges::{KeyRange, RangeBatch, Ranges};
use lanetree_kernels_harmonia::{self as kernels, GatherArgs, RangeArgs, Side};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, Device, DeviceKind};
use lanetree_simt::{Global, GlobalMut};
use rayon::prelude::*;

/// Scratch memory of a batch of ranges: 16 bytes per range, to be used again by the next batch.
#[derive(Debug)]
pub struct RangeScratch {
    cursors: Buffer<u64>,
    counts: Buffer<u64>,
    scan: ScanScratch,
}

impl RangeScratch {
    /// Enough for `ranges` ranges.
    ///
    /// # Errors
    /// [`Runtime`](crate::Error::Runtime) where the device has no room.
    pub fn new(device: &Device, ranges: usize) -> Result<Self> {
        Ok(Self {
            cursors: device.alloc(ranges)?,
            counts: device.alloc(ranges)?,
            scan: ScanScratch::new(device, ranges)?,
        })
    }
}

/// The results of a batch of ranges on the device, as [`Ranges`] on the host.
#[derive(Debug)]
pub struct DeviceRanges<K, V> {
    /// Out: one more than there are ranges; the last one is the number of pairs found, also where it is
    /// more than there is room for.
    pub offsets: Buffer<u64>,
    /// Out: the keys. Its length is the capacity: pairs beyond it are not written.
    pub keys: Buffer<K>,
    /// Out: the values; at least as many as keys.
    pub values: Buffer<V>,
}

impl<K: Key, V: Word> DeviceRanges<K, V> {
    /// Room for `ranges` ranges of `capacity` pairs in all.
    ///
    /// # Errors
    /// [`Runtime`](crate::Error::Runtime) where the device has no room.
    pub fn new(device: &Device, ranges: usize, capacity: usize) -> Result<Self> {
        let offsets = ranges.saturating_add(1);
        Ok(Self { offsets: device.alloc(offsets)?, keys: device.alloc(capacity)?, values: device.alloc(capacity)? })
    }
}

/// The bounds of a batch of ranges on the device.
#[derive(Clone, Copy)]
struct Bounds<'a, K> {
    starts: &'a Buffer<K>,
    ends: &'a Buffer<K>,
    limits: Option<&'a Buffer<u64>>,
    limit: u64,
}

impl<K: Key, V: Word> OnStream<'_, K, V> {
    /// Finds the pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, at most `limit` of
    /// each, and at most `limits[i]` if given. A range whose end is below its start is empty.
    ///
    /// Three steps, one after another on the stream: locate, prefix sums, copy. Ranges of about 16 pairs
    /// or less and longer ones are copied by different kernels; the capacity of `out` tells which.
    ///
    /// # Errors
    /// [`OutputLength`](crate::Error::OutputLength) for a buffer that is too small (but not for too small a capacity: that
    /// shows in the last offset), [`BatchTooLarge`](crate::Error::BatchTooLarge); [`Runtime`](crate::Error::Runtime).
    pub fn range(
        &self,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        limits: Option<&Buffer<u64>>,
        limit: u64,
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<K, V>,
    ) -> Result<()> {
        let count = starts.len();
        self.check("the offsets' buffer", count + 1, &out.offsets)?;
        self.check("the keys' buffer", 0, &out.keys)?;
        self.check("the values' buffer", out.keys.len(), &out.values)?;
        self.locate(Bounds { starts, ends, limits, limit }, scratch)?;
        exclusive_scan(self.stream, &scratch.counts, count, &mut out.offsets, &mut scratch.scan)?;
        self.gather(count, scratch, out)
    }

    /// Counts the pairs of ranges, as [`OnStream::range`] would find them, into `counts[i]`.
    ///
    /// # Errors
    /// As [`OnStream::range`].
    pub fn count(
        &self,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        limits: Option<&Buffer<u64>>,
        limit: u64,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        self.locate_into(Bounds { starts, ends, limits, limit }, None, counts)
    }

    fn locate(&self, bounds: Bounds<'_, K>, scratch: &mut RangeScratch) -> Result<()> {
        self.locate_into(bounds, Some(&mut scratch.cursors), &mut scratch.counts)
    }

    fn locate_into(
        &self,
        bounds: Bounds<'_, K>,
        cursors: Option<&mut Buffer<u64>>,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        let count = bounds.starts.len();
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
            self.locate_on_host(bounds, cursors, counts);
            return Ok(());
        }
        let args = RangeArgs {
            tree: self.tree.tree_ref(),
            starts: bits::<K>(bounds.starts),
            ends: bits::<K>(bounds.ends),
            limits: bounds.limits.map_or(Global::null(), Buffer::global),
            count: count as u64,
            limit: bounds.limit,
            cursors: cursors.map_or(GlobalMut::null(), Buffer::global_mut),
            counts: counts.global_mut(),
            start_side: Side::Lower as u32,
            end_side: Side::Upper as u32,
        };
        // Two threads per range: one for each bound.
        let launch = launch::over(self.stream, count, 2)?;
        Ok(launch::range::<K::Bits, V>(self.tree.fanout(), &args, launch)?)
    }

    /// On the host a cursor is simply the rank of the first pair.
    fn locate_on_host(&self, bounds: Bounds<'_, K>, cursors: Option<&mut Buffer<u64>>, counts: &mut Buffer<u64>) {
        let count = bounds.starts.len();
        let tree = self.tree.view().expect("a tree on the host is in main memory");
        let starts = &bounds.starts.as_slice().expect("a buffer of the host")[..count];
        let ends = &bounds.ends.as_slice().expect("a buffer of the host")[..count];
        let limits = bounds.limits.map(|limits| &limits.as_slice().expect("a buffer of the host")[..count]);
        let counts = &mut counts.as_mut_slice().expect("a buffer of the host")[..count];
        let mut unwanted = Vec::new();
        let cursors = match cursors {
            Some(cursors) => &mut cursors.as_mut_slice().expect("a buffer of the host")[..count],
            None => {
                unwanted.resize(count, 0);
                &mut unwanted[..]
            }
        };
        let tasks = starts.par_chunks(TASK).zip(ends.par_chunks(TASK));
        let outputs = cursors.par_chunks_mut(TASK).zip(counts.par_chunks_mut(TASK));
        tasks.zip(outputs).enumerate().for_each(|(task, ((starts, ends), (cursors, counts)))| {
            tree.rank(starts, false, |i, rank| cursors[i] = rank);
            tree.rank(ends, true, |i, rank| {
                let own = limits.map_or(u64::MAX, |limits| limits[task * TASK + i]);
                counts[i] = rank.saturating_sub(cursors[i]).min(bounds.limit).min(own);
            });
        });
    }

    fn gather(&self, count: usize, scratch: &RangeScratch, out: &mut DeviceRanges<K, V>) -> Result<()> {
        if count == 0 || out.keys.is_empty() {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            let tree = self.tree.view().expect("a tree on the host is in main memory");
            let cursors = &scratch.cursors.as_slice().expect("a buffer of the host")[..count];
            let offsets = &out.offsets.as_slice().expect("a buffer of the host")[..=count];
            let keys = out.keys.as_mut_slice().expect("a buffer of the host");
            let values = out.values.as_mut_slice().expect("a buffer of the host");
            copy_rows(tree, cursors, offsets, keys, values);
            return Ok(());
        }
        let args = GatherArgs {
            tree: self.tree.tree_ref(),
            cursors: scratch.cursors.global(),
            offsets: out.offsets.global(),
            count: count as u64,
            capacity: out.keys.len() as u64,
            keys: out.keys.global_mut().cast(),
            values: out.values.global_mut(),
        };
        let group = if out.keys.len() / count <= 16 { kernels::GATHER_WIDTHS[0] } else { kernels::GATHER_WIDTHS[1] };
        let launch = launch::over(self.stream, count, group)?;
        Ok(launch::gather::<K::Bits, V>(self.tree.fanout(), group, &args, launch)?)
    }
}

/// Copies each row's pairs, as far as there is room, in parallel.
fn copy_rows<K: Key, V: Word>(
    tree: super::native::View<'_, K, V>,
    cursors: &[u64],
    offsets: &[u64],
    keys: &mut [K],
    values: &mut [V],
) {
    let capacity = keys.len();
    let clipped = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(capacity);
    let (mut keys, mut values) = (keys, values);
    let mut tasks = Vec::with_capacity(cursors.len().div_ceil(TASK));
    for (task, cursors) in cursors.chunks(TASK).enumerate() {
        let offsets = &offsets[task * TASK..=task * TASK + cursors.len()];
        let room = clipped(offsets[cursors.len()]) - clipped(offsets[0]);
        let (task_keys, task_values);
        (task_keys, keys) = keys.split_at_mut(room);
        (task_values, values) = values.split_at_mut(room);
        tasks.push((cursors, offsets, task_keys, task_values));
    }
    tasks.into_par_iter().for_each(|(cursors, offsets, keys, values)| {
        let first = clipped(offsets[0]);
        for (i, &cursor) in cursors.iter().enumerate() {
            let row = clipped(offsets[i]) - first..clipped(offsets[i + 1]) - first;
            tree.copy(cursor, &mut keys[row.clone()], &mut values[row]);
        }
    });
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// The pairs of each range, in ascending order of their keys. Takes range expressions (`3..7`,
    /// `..=7`, pairs of [`Bound`](core::ops::Bound)s) or [`KeyRange`]s, which can have a limit. Returns
    /// when the results are there.
    ///
    /// # Errors
    /// [`ReversedRange`](crate::Error::ReversedRange) for a range whose end is below its start; [`Runtime`](crate::Error::Runtime) where the
    /// device has no room for the batch or its results, or from its driver.
    pub fn range_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Ranges<K, V>> {
        let batch = RangeBatch::new(ranges)?;
        let located = self.locate_many(&batch)?;
        let on = self.on(&located.stream);
        let mut scratch = located.scratch;
        let mut out = DeviceRanges::new(self.device(), batch.len(), 0)?;
        exclusive_scan(&located.stream, &scratch.counts, batch.len(), &mut out.offsets, &mut scratch.scan)?;
        located.stream.synchronize()?;
        let offsets = out.offsets.to_vec()?;
        let total = offsets[batch.len()];
        let capacity = usize::try_from(total).unwrap_or(usize::MAX);
        out.keys = self.device().alloc(capacity)?;
        out.values = self.device().alloc(capacity)?;
        on.gather(batch.len(), &scratch, &mut out)?;
        located.stream.synchronize()?;
        Ok(Ranges { offsets, keys: out.keys.to_vec()?, values: out.values.to_vec()? })
    }

    /// How many pairs each range has, [`Harmonia::range_many`] without copying them.
    ///
    /// # Errors
    /// As [`Harmonia::range_many`].
    pub fn count_many(&self, ranges: impl IntoIterator<Item = impl Into<KeyRange<K>>>) -> Result<Vec<u64>> {
        let located = self.locate_many(&RangeBatch::new(ranges)?)?;
        located.stream.synchronize()?;
        Ok(located.scratch.counts.to_vec()?)
    }

    fn locate_many(&self, batch: &RangeBatch<K>) -> Result<Located> {
        let device = self.device();
        let (starts, ends) = (device.upload(&batch.starts)?, device.upload(&batch.ends)?);
        let limits = if batch.limits.is_empty() { None } else { Some(device.upload(&batch.limits)?) };
        let (stream, mut scratch) = (device.stream()?, RangeScratch::new(device, batch.len())?);
        let bounds = Bounds { starts: &starts, ends: &ends, limits: limits.as_ref(), limit: u64::MAX };
        self.on(&stream).locate(bounds, &mut scratch)?;
        Ok(Located { stream, scratch })
    }
}

/// A host batch of ranges that is located, or on its way to be, on its stream.
struct Located {
    stream: lanetree_runtime::Stream,
    scratch: RangeScratch,
}
