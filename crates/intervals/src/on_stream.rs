//! Queries in device form.

use crate::IntervalIndex;
use crate::steps::count_open;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::{check_bounds, check_buffer, same_device};
use lanetree_frame::fixed::{QueryOptions, Uses};
use lanetree_frame::{Buffer, Device, Result, Stream};
use lanetree_kernels_intervals::layout::NONE;
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{ScanScratch, exclusive_scan};

/// Scratch memory of queries in device form: a key and 16 bytes per point, reusable for the next batch.
#[derive(Debug)]
pub struct Scratch<K> {
    /// What the searches find, which is not wanted.
    keys: Buffer<K>,
    positions: Buffer<u32>,
    ended: Buffer<u32>,
    counts: Buffer<u64>,
    scan: ScanScratch,
}

impl<K: AnyKey> Scratch<K> {
    /// Memory on `device` for batches of up to `points` points, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, points: usize) -> Result<Self> {
        Ok(Self {
            keys: device.alloc(points)?,
            positions: device.alloc(points)?,
            ended: device.alloc(points)?,
            counts: device.alloc(points)?,
            scan: ScanScratch::new(device, points)?,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let Self { keys, positions, ended, counts, scan } = self;
        keys.bytes() + positions.bytes() + ended.bytes() + counts.bytes() + scan.bytes()
    }
}

/// The intervals around a batch of points on the device, as [`JoinRows`](lanetree_frame::JoinRows) on the host.
#[derive(Debug)]
pub struct DeviceRows<V> {
    /// Out: one more than there are points; the last one is the number of intervals found, even if that exceeds the capacity.
    pub offsets: Buffer<u64>,
    /// Out: the rows. Its length is the capacity: rows beyond it are not written.
    pub rows: Buffer<V>,
}

impl<V: Word> DeviceRows<V> {
    /// Room for `points` points with `capacity` intervals in all.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, points: usize, capacity: usize) -> Result<Self> {
        Ok(Self { offsets: device.alloc(points.saturating_add(1))?, rows: device.alloc(capacity)? })
    }
}

/// An index's queries on a stream: buffers in and out, in the stream's order. A call allocates nothing, synchronises nothing, and
/// may return before its work is done.
///
/// ```
/// use lanetree::intervals::{DeviceRows, Scratch};
/// use lanetree::{Device, IntervalIndex};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let index = IntervalIndex::build(&device, &[10_u64, 20], &[40, 25])?;
/// let (stream, points) = (device.stream()?, device.upload(&[5, 20, 40])?);
/// let (mut scratch, mut found) = (Scratch::new(&device, 3)?, device.alloc(3)?);
/// index.on(&stream).most_specific(&points, &mut found, &mut scratch)?;
/// assert_eq!(found.to_vec()?, [u32::MAX, 1, 0]);
///
/// let mut all = DeviceRows::new(&device, 3, 10)?;
/// index.on(&stream).stab(&points, &mut scratch, &mut all)?;
/// assert_eq!(all.offsets.to_vec()?, [0, 0, 2, 3]);
/// assert_eq!(all.rows.to_vec()?[..3], [1, 0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OnStream<'a, K: AnyKey, V: Word> {
    index: &'a IntervalIndex<K, V>,
    stream: &'a Stream,
    options: QueryOptions<'a, V>,
}

lanetree_frame::query_options! {
    impl['a, K: AnyKey, V: Word] OnStream<'a, K, V>, |view| view.options => hits, miss(V)
}

impl<'a, K: AnyKey, V: Word> OnStream<'a, K, V> {
    pub(crate) fn new(index: &'a IntervalIndex<K, V>, stream: &'a Stream) -> Self {
        Self { index, stream, options: QueryOptions::default() }
    }

    /// Finds the most specific interval around each of `points` (see [`IntervalIndex::most_specific_many`]): `rows[i]` becomes its
    /// row, or [`miss`](Self::miss) if none contains the point. Uses [`hits`](Self::hits). Two launches, one after another on the stream.
    ///
    /// `rows` and the scratch memory must have room for at least as many points. Elements past these are not touched.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a buffer that is too small,
    /// [`Error::BatchTooLarge`]; [`Error::UnusedOption`]; [`Error::Runtime`] for
    /// buffers of another device, and from the launches.
    pub fn most_specific(mut self, points: &Buffer<K>, rows: &mut Buffer<V>, scratch: &mut Scratch<K>) -> Result<()> {
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        let count = points.len();
        self.check("the rows' buffer", count, rows)?;
        if let Some(hits) = &hits {
            self.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        }
        self.find_started(points, scratch)?;
        self.index.intervals.most_specific(self.stream, (points, &scratch.positions), (rows, hits), miss)
    }

    /// Counts the intervals that contain each of `points` into `counts[i]`. Three launches.
    ///
    /// # Errors
    /// As [`OnStream::most_specific`].
    pub fn count(&self, points: &Buffer<K>, counts: &mut Buffer<u64>, scratch: &mut Scratch<K>) -> Result<()> {
        self.options.check("count", Uses::Nothing)?;
        self.check("the counts' buffer", points.len(), counts)?;
        self.find_started(points, scratch)?;
        self.find_ended(points, scratch)?;
        count_open::<K>(self.stream, None, (&scratch.positions, &scratch.ended), points.len(), counts)
    }

    /// Counts the intervals that overlap each of the ranges from `lows[i]` to `highs[i]` into `counts[i]`. Three launches.
    ///
    /// # Errors
    /// As [`OnStream::most_specific`]; [`Error::BoundLengths`] unless there are as many highs as lows.
    pub fn count_overlaps(
        &self,
        lows: &Buffer<K>,
        highs: &Buffer<K>,
        counts: &mut Buffer<u64>,
        scratch: &mut Scratch<K>,
    ) -> Result<()> {
        self.options.check("count_overlaps", Uses::Nothing)?;
        self.check("the counts' buffer", lows.len(), counts)?;
        self.find(lows, highs, scratch)?;
        let found = (&scratch.positions, &scratch.ended);
        count_open(self.stream, Some((lows, highs)), found, lows.len(), counts)
    }

    /// Finds all intervals that contain each of `points`: the rows of those around `points[i]` go to `out.rows` from
    /// `out.offsets[i]` to `out.offsets[i + 1]`, in the order of [`IntervalIndex::stab_many`]. Counts, prefix sums, and a launch with
    /// one thread per point, which takes as long as the largest result.
    ///
    /// # Errors
    /// As [`OnStream::most_specific`], but not for too small a capacity: that shows in the last offset.
    pub fn stab(&self, points: &Buffer<K>, scratch: &mut Scratch<K>, out: &mut DeviceRows<V>) -> Result<()> {
        self.options.check("stab", Uses::Nothing)?;
        self.locate(points, None, scratch, &mut out.offsets)?;
        self.copy(points, scratch, out)
    }

    /// Finds all intervals that overlap each of the ranges from `lows[i]` to `highs[i]`, as [`IntervalIndex::overlap_many`] does.
    /// Otherwise like [`OnStream::stab`].
    ///
    /// # Errors
    /// As [`OnStream::stab`]; [`Error::BoundLengths`] unless there are as many highs as lows.
    pub fn overlap(
        &self,
        lows: &Buffer<K>,
        highs: &Buffer<K>,
        scratch: &mut Scratch<K>,
        out: &mut DeviceRows<V>,
    ) -> Result<()> {
        self.options.check("overlap", Uses::Nothing)?;
        self.locate(lows, Some(highs), scratch, &mut out.offsets)?;
        self.copy(lows, scratch, out)
    }

    /// The first steps, up to the offsets; probes are points if they have no `highs`.
    pub(crate) fn locate(
        &self,
        lows: &Buffer<K>,
        highs: Option<&Buffer<K>>,
        scratch: &mut Scratch<K>,
        offsets: &mut Buffer<u64>,
    ) -> Result<()> {
        let count = lows.len();
        self.check("the offsets' buffer", count.saturating_add(1), offsets)?;
        self.find(lows, highs.unwrap_or(lows), scratch)?;
        let Scratch { positions, ended, counts, scan, .. } = scratch;
        count_open(self.stream, highs.map(|highs| (lows, highs)), (positions, ended), count, counts)?;
        exclusive_scan(self.stream, counts, count, offsets, scan)
    }

    /// The last step.
    pub(crate) fn copy(&self, lows: &Buffer<K>, scratch: &Scratch<K>, out: &mut DeviceRows<V>) -> Result<()> {
        self.check("the rows' buffer", 0, &out.rows)?;
        self.index.intervals.stab(self.stream, (lows, &scratch.positions), &out.offsets, &mut out.rows)
    }

    /// Finds the last interval that starts at or below each high, and how many end below each low.
    fn find(&self, lows: &Buffer<K>, highs: &Buffer<K>, scratch: &mut Scratch<K>) -> Result<()> {
        check_bounds(lows.len(), highs.len())?;
        self.find_started(highs, scratch)?;
        self.find_ended(lows, scratch)
    }

    /// Finds the last interval that starts at or below each point.
    fn find_started(&self, points: &Buffer<K>, scratch: &mut Scratch<K>) -> Result<()> {
        self.check("the points' buffer", 0, points)?;
        self.check("the scratch memory", points.len(), &scratch.positions)?;
        let Scratch { keys, positions, .. } = scratch;
        self.index.started.on(self.stream).miss(NONE).predecessor(points, keys, positions)
    }

    /// Finds how many intervals end below each point.
    fn find_ended(&self, points: &Buffer<K>, scratch: &mut Scratch<K>) -> Result<()> {
        self.check("the points' buffer", 0, points)?;
        let (Scratch { keys, ended, .. }, all) = (scratch, self.index.len() as u32);
        self.index.ended.on(self.stream).miss(all).successor(points, keys, ended)
    }

    /// Checks the stream, and a buffer's length and device.
    fn check<T: bytemuck::Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        same_device(self.index.device(), self.stream.device(), "the stream")?;
        check_buffer(self.index.device(), what, expected, buffer)
    }
}
