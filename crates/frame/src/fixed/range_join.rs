//! Joins by ranges in device form: the pairs whose keys are between two bounds of a probe, or near it.

use super::range::{DeviceRanges, RangeScratch};
use super::{FixedIndex, OnStream, RowsOfProbes, Steps, Uses};
use lanetree_base::join_steps::{Settled, check_validity, put_misses, settle, settle_hits};
use lanetree_base::{Closed, JoinBounds, JoinKind, Result, number_matches};
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_primitives as primitives;
use lanetree_primitives::{KeysMut, SelectScratch};
use lanetree_runtime::{Buffer, Device};

/// Scratch memory of joins by ranges: 17 bytes and two keys per probe, reusable for the next batch. (A multi-map has a type of its own
/// of this name, `multimap::RangeJoinScratch`.)
#[derive(Debug)]
pub struct RangeJoinScratch<K> {
    lows: Buffer<K>,
    highs: Buffer<K>,
    ranges: RangeScratch,
    hits: Buffer<u32>,
    select: SelectScratch,
    /// The range of all keys, and where its first pair is.
    all: (Buffer<K>, Buffer<K>),
    first: RangeScratch,
}

impl<K: AnyKey> RangeJoinScratch<K> {
    /// Memory on `device` for joins of up to `probes` probes, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        Ok(Self {
            lows: device.alloc(probes)?,
            highs: device.alloc(probes)?,
            ranges: RangeScratch::new(device, probes)?,
            hits: device.alloc(probes.div_ceil(32))?,
            select: SelectScratch::new(device, probes)?,
            all: (device.upload(&[K::decode(K::Bits::MIN)])?, device.upload(&[K::decode(K::Bits::MAX)])?),
            first: RangeScratch::new(device, 1)?,
        })
    }

    /// The hit mask of the last join's probes: bit `i % 32` of element `i / 32` says whether probe `i` has a match; after an
    /// anti-join, whether it has none. Not of an inner join without nulls.
    pub fn hits(&self) -> &Buffer<u32> {
        &self.hits
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let keys = [&self.lows, &self.highs, &self.all.0, &self.all.1];
        let scratch = self.ranges.bytes() + self.first.bytes() + self.select.bytes();
        keys.iter().map(|buffer| buffer.bytes()).sum::<usize>() + scratch + self.hits.bytes()
    }
}

/// The matches of a join by ranges on the device: in two columns, and by probe.
#[derive(Debug)]
pub struct DeviceRangeMatches<K, V> {
    /// Out: for each match its pair, whose value is, for example, a row number. The pairs of probe `i` are from
    /// `pairs.offsets[i]` to `pairs.offsets[i + 1]`, in ascending order of their keys. In a left join a probe without a
    /// match has one pair, whose key is unspecified and whose value is [`OnStream::miss`]. A semi- or anti-join writes
    /// only the first offset, which becomes the number of rows.
    pub pairs: DeviceRanges<K, V>,
    /// Out: for each match the number of its probe, in ascending order; matches past its length have none. Semi- and anti-joins need
    /// room for every probe.
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

    /// Room for the values of as many matches, without their keys: see [`DeviceRanges::without_keys`].
    ///
    /// # Errors
    /// As [`DeviceRangeMatches::new`].
    pub fn without_keys(device: &Device, probes: usize, capacity: usize) -> Result<Self> {
        Ok(Self { pairs: DeviceRanges::without_keys(device, probes, capacity)?, probes: device.alloc(capacity)? })
    }
}

impl<I: FixedIndex> OnStream<'_, I> {
    /// Joins ranges with the index: finds the pairs whose keys are between `lows[i]` and `highs[i]`, and the number of each match's
    /// probe. `closed` says which bounds belong to the ranges; a reversed range is empty. Up to nine steps, one after another on the
    /// stream. Uses [`kind`](Self::kind), of which [`JoinKind`] says what rows there are, [`valid`](Self::valid), and
    /// [`miss`](Self::miss): the value of a probe without a match in a left join. [`RangeJoinScratch::hits`] says which these are.
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
        range_join(self, (lows, highs), closed, scratch, out)
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
        band_join(self, probes, distance, scratch, out)
    }
}

/// [`OnStream::range_join`].
#[doc(hidden)]
pub fn range_join<S: Steps>(
    on: &S,
    bounds: (&Buffer<S::Key>, &Buffer<S::Key>),
    closed: Closed,
    scratch: &mut RangeJoinScratch<S::Key>,
    out: &mut DeviceRangeMatches<S::Key, S::Value>,
) -> Result<()> {
    on.options().check("range_join", Uses::JoinOfValues)?;
    join_between(on, bounds, JoinBounds::of_ranges(closed), scratch, out)
}

/// [`OnStream::band_join`].
#[doc(hidden)]
pub fn band_join<S: Steps>(
    on: &S,
    probes: &Buffer<S::Key>,
    distance: u64,
    scratch: &mut RangeJoinScratch<S::Key>,
    out: &mut DeviceRangeMatches<S::Key, S::Value>,
) -> Result<()> {
    on.options().check("band_join", Uses::JoinOfValues)?;
    join_between(on, (probes, probes), JoinBounds::of_bands(distance)?, scratch, out)
}

fn join_between<S: Steps>(
    on: &S,
    (lows, highs): (&Buffer<S::Key>, &Buffer<S::Key>),
    bounds: JoinBounds<S::Key>,
    scratch: &mut RangeJoinScratch<S::Key>,
    out: &mut DeviceRangeMatches<S::Key, S::Value>,
) -> Result<()> {
    let (count, stream) = (lows.len(), on.stream());
    let (kind, valid) = (on.options().kind, on.options().valid);
    // Of all of a longer scratch memory, bounds would be asked for that were never written.
    on.check("the lows' buffer", count, lows)?;
    on.check("the scratch memory", count, &scratch.lows)?;
    check_validity(stream, valid, count)?;
    let RangeJoinScratch { lows: firsts, highs: lasts, ranges, hits, select, all, first } = scratch;
    bounds.on_stream(stream, lows, highs, firsts, lasts)?;
    let bounds = (&*firsts, &*lasts);
    if kind == JoinKind::Inner && valid.is_none() {
        on.range_first(count, bounds, ranges, &mut out.pairs)?;
        return number_matches(stream, &out.pairs.offsets, count, &mut out.probes);
    }
    if !kind.has_rows() {
        on.check("the offsets' buffer", 1, &out.pairs.offsets)?;
        on.check("the buffer of the probes' numbers", count, &out.probes)?;
        on.count_first(count, bounds, u64::MAX, &mut ranges.counts)?;
        let settled = Settled { counts: &mut ranges.counts, is_left: false, cursors: None, hits: Some(&mut *hits) };
        settle(stream, valid, count, settled)?;
        settle_hits(stream, None, count, kind == JoinKind::Anti, hits)?;
        let output = KeysMut { keys: &mut out.probes, count: &mut out.pairs.offsets };
        return primitives::select_numbers(stream, count.into(), Some(hits), output, select);
    }
    let is_left = kind == JoinKind::Left;
    let rows = RowsOfProbes { valid, is_left, hits: &mut *hits, ranges, all: (&all.0, &all.1), first };
    on.rows_first(count, bounds, rows, &mut out.pairs)?;
    if is_left {
        let (offsets, miss) = (&out.pairs.offsets, on.options().miss());
        put_misses(stream, hits, count, Some(offsets), &mut out.pairs.values, miss)?;
    }
    number_matches(stream, &out.pairs.offsets, count, &mut out.probes)
}
