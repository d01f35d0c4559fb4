//! Joins by ranges in device form: the pairs whose keys are between two bounds of a probe, or near it.

use super::range::{DeviceRanges, RangeScratch};
use super::{FixedIndex, OnStream, Uses};
use lanetree_base::{Closed, JoinBounds, Result, number_matches};
use lanetree_layout::{AnyKey, Value};
use lanetree_runtime::{Buffer, Device};

/// Scratch memory of joins by ranges: 16 bytes and two keys per probe, reusable for the next batch.
#[derive(Debug)]
pub struct RangeJoinScratch<K> {
    lows: Buffer<K>,
    highs: Buffer<K>,
    ranges: RangeScratch,
}

impl<K: AnyKey> RangeJoinScratch<K> {
    /// Enough for `probes` probes.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        Ok(Self {
            lows: device.alloc(probes)?,
            highs: device.alloc(probes)?,
            ranges: RangeScratch::new(device, probes)?,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.lows.bytes() + self.highs.bytes() + self.ranges.bytes()
    }
}

/// The matches of a join by ranges on the device: in two columns, and by probe.
#[derive(Debug)]
pub struct DeviceRangeMatches<K, V> {
    /// Out: for each match its pair, of which the value is a row number, say; those of probe `i` are from `pairs.offsets[i]` to
    /// `pairs.offsets[i + 1]`, in ascending order of their keys.
    pub pairs: DeviceRanges<K, V>,
    /// Out: for each match the number of its probe, in ascending order; matches past its length have none.
    pub probes: Buffer<u64>,
}

impl<K: AnyKey, V: Value> DeviceRangeMatches<K, V> {
    /// Room for `probes` probes with `capacity` matches in all.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize, capacity: usize) -> Result<Self> {
        Ok(Self { pairs: DeviceRanges::new(device, probes, capacity)?, probes: device.alloc(capacity)? })
    }
}

impl<I: FixedIndex> OnStream<'_, I> {
    /// Joins ranges with the index: finds the pairs whose keys are between `lows[i]` and `highs[i]`, and the number of each match's
    /// probe. `closed` says which bounds belong to the ranges; a reversed range is empty. Up to five steps, one after another on the
    /// stream.
    ///
    /// ```
    /// use lanetree::{Closed, Device, DeviceRangeMatches, LaneTree, RangeJoinScratch};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let index = LaneTree::build(&device, &[10_u64, 20, 30], &[0_u32, 1, 2])?;
    /// let (lows, highs) = (device.upload(&[10_u64, 30, 15])?, device.upload(&[30_u64, 10, 20])?);
    /// let stream = device.stream()?;
    /// let mut scratch = RangeJoinScratch::new(&device, 3)?;
    /// let mut out = DeviceRangeMatches::new(&device, 3, 3)?;
    /// index.on(&stream).range_join(&lows, &highs, Closed::Left, &mut scratch, &mut out)?;
    /// assert_eq!(out.pairs.offsets.to_vec()?, [0, 2, 2, 2]);
    /// assert_eq!(out.probes.to_vec()?[..2], [0, 0]);
    /// assert_eq!(out.pairs.values.to_vec()?[..2], [0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnStream::range`]; [`BoundLengths`](lanetree_base::Error::BoundLengths) unless there are as many highs as lows.
    pub fn range_join(
        &self,
        lows: &Buffer<I::Key>,
        highs: &Buffer<I::Key>,
        closed: Closed,
        scratch: &mut RangeJoinScratch<I::Key>,
        out: &mut DeviceRangeMatches<I::Key, I::Value>,
    ) -> Result<()> {
        self.options.check("range_join", Uses::Nothing)?;
        self.join_between((lows, highs), JoinBounds::of_ranges(closed), scratch, out)
    }

    /// Joins probes with all pairs whose keys are at most `distance` away and of the probe's group, which never wraps around at the
    /// ends of the type; otherwise like [`OnStream::range_join`].
    ///
    /// # Errors
    /// As [`OnStream::range_join`]; [`OptionValue`](lanetree_base::Error::OptionValue) for keys that are floats.
    pub fn band_join(
        &self,
        probes: &Buffer<I::Key>,
        distance: u64,
        scratch: &mut RangeJoinScratch<I::Key>,
        out: &mut DeviceRangeMatches<I::Key, I::Value>,
    ) -> Result<()> {
        self.options.check("band_join", Uses::Nothing)?;
        self.join_between((probes, probes), JoinBounds::of_bands(distance)?, scratch, out)
    }

    fn join_between(
        &self,
        (lows, highs): (&Buffer<I::Key>, &Buffer<I::Key>),
        bounds: JoinBounds<I::Key>,
        scratch: &mut RangeJoinScratch<I::Key>,
        out: &mut DeviceRangeMatches<I::Key, I::Value>,
    ) -> Result<()> {
        let count = lows.len();
        // Of all of a longer scratch memory, bounds would be asked for that were never written.
        self.check("the lows' buffer", count, lows)?;
        self.check("the scratch memory", count, &scratch.lows)?;
        let RangeJoinScratch { lows: firsts, highs: lasts, ranges } = scratch;
        bounds.on_stream(self.stream, (lows, highs), (firsts, lasts))?;
        self.range_first(count, (firsts, lasts), ranges, &mut out.pairs)?;
        number_matches(self.stream, &out.pairs.offsets, count, &mut out.probes)
    }
}
