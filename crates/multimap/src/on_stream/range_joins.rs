//! Joins by ranges in device form.

use super::{DeviceJoin, EndScratch, OnStream, RangeScratch, offsets_only, values_only};
use crate::places::{Ends, spans};
use core::marker::PhantomData;
use lanetree_frame::fixed::{Side, Uses};
use lanetree_frame::join_steps::{Settled, check_validity, settle, settle_hits};
use lanetree_frame::{Buffer, Closed, Device, JoinBounds, JoinKind, Result};
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{Expanded, KeysMut, SelectScratch, select_numbers};

/// Scratch memory of joins by ranges in device form: 57 bytes and three keys per probe, reusable for the next batch.
#[derive(Debug)]
pub struct RangeJoinScratch<K: AnyKey, V> {
    lows: Buffer<K>,
    highs: Buffer<K>,
    pub(crate) ranges: RangeScratch<K>,
    hits: Buffer<u32>,
    select: SelectScratch,
    /// The position of the row of a probe without a match: past all values.
    nowhere: Buffer<u64>,
    values: PhantomData<V>,
}

impl<K: AnyKey, V: Word> RangeJoinScratch<K, V> {
    /// Enough for `probes` probes. Returns when it is complete.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        Ok(Self {
            lows: device.alloc(probes)?,
            highs: device.alloc(probes)?,
            ranges: RangeScratch::new(device, probes, 0)?,
            hits: device.alloc(probes.div_ceil(32))?,
            select: SelectScratch::new(device, probes)?,
            nowhere: device.upload(&[u64::MAX])?,
            values: PhantomData,
        })
    }

    /// The hit mask of the last join's probes: bit `i % 32` of element `i / 32` says whether probe `i` has a match; after an
    /// anti-join, whether it has none.
    pub fn hits(&self) -> &Buffer<u32> {
        &self.hits
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let own = self.hits.bytes() + self.nowhere.bytes();
        self.ranges.bytes() + self.select.bytes() + self.lows.bytes() + self.highs.bytes() + own
    }
}

impl<K: AnyKey, V: Word> OnStream<'_, K, V> {
    /// Joins ranges with the map: a row for each value of the keys between `lows[i]` and `highs[i]`, in ascending order of the
    /// keys, and of one key in the order in which its values were inserted. `closed` says which bounds belong to the ranges; a reversed
    /// range is empty. Otherwise like [`OnStream::join`], with [`kind`](Self::kind), [`valid`](Self::valid) and [`miss`](Self::miss).
    ///
    /// # Errors
    /// As [`OnStream::get_all`]; [`BoundLengths`](lanetree_frame::Error::BoundLengths) unless there are as many highs as lows;
    /// [`NotCompact`](lanetree_frame::Error::NotCompact) after inserts in place on a device: see
    /// [`MultiMap::restore_order`](crate::MultiMap::restore_order).
    pub fn range_join<N: AnyKey<Bits = N> + Word>(
        &self,
        lows: &Buffer<K>,
        highs: &Buffer<K>,
        closed: Closed,
        scratch: &mut RangeJoinScratch<K, V>,
        out: &mut DeviceJoin<V, N>,
    ) -> Result<()> {
        self.options.check("range_join", Uses::JoinOfValues)?;
        self.join_between((lows, highs), JoinBounds::of_ranges(closed), scratch, out)
    }

    /// Joins probes with all values of the keys that are at most `distance` away. Otherwise like [`OnStream::range_join`].
    ///
    /// # Errors
    /// As [`OnStream::range_join`]; [`OptionValue`](lanetree_frame::Error::OptionValue) for keys that are floats.
    pub fn band_join<N: AnyKey<Bits = N> + Word>(
        &self,
        probes: &Buffer<K>,
        distance: u64,
        scratch: &mut RangeJoinScratch<K, V>,
        out: &mut DeviceJoin<V, N>,
    ) -> Result<()> {
        self.options.check("band_join", Uses::JoinOfValues)?;
        self.join_between((probes, probes), JoinBounds::of_bands(distance)?, scratch, out)
    }

    fn join_between<N: AnyKey<Bits = N> + Word>(
        &self,
        bounds: (&Buffer<K>, &Buffer<K>),
        how: JoinBounds<K>,
        scratch: &mut RangeJoinScratch<K, V>,
        out: &mut DeviceJoin<V, N>,
    ) -> Result<()> {
        let (count, stream, kind) = (bounds.0.len(), self.stream, self.options.kind);
        self.check("the count's buffer", 1, &out.count)?;
        let room = if kind.has_rows() { 0 } else { count };
        self.check("the buffer of the probes' numbers", room, &out.probes)?;
        if !kind.has_rows() {
            self.settle_ranges(bounds, how, scratch)?;
            settle_hits(stream, None, count, kind == JoinKind::Anti, &mut scratch.hits)?;
            let output = KeysMut { keys: &mut out.probes, count: &mut out.count };
            return select_numbers(stream, count.into(), Some(&scratch.hits), output, &mut scratch.select);
        }
        let DeviceJoin { count: total, offsets, probes, rows } = out;
        self.check("the buffer of the rows", probes.len(), rows)?;
        self.check("the offsets' buffer", count.saturating_add(1), offsets)?;
        self.settle_ranges(bounds, how, scratch)?;
        let out = Expanded { offsets: Some(offsets), count: Some(total), values: Some(rows), numbers: Some(probes) };
        self.copy_spans(count, &mut scratch.ranges, out)
    }

    /// Finds where the rows of each probe are, and their offsets.
    pub(crate) fn locate_range_join(
        &self,
        bounds: (&Buffer<K>, &Buffer<K>),
        how: JoinBounds<K>,
        scratch: &mut RangeJoinScratch<K, V>,
        offsets: &mut Buffer<u64>,
    ) -> Result<()> {
        self.settle_ranges(bounds, how, scratch)?;
        self.copy_spans(bounds.0.len(), &mut scratch.ranges, offsets_only(offsets))
    }

    /// Finds the rows of each probe, and which have a match.
    fn settle_ranges(
        &self,
        (lows, highs): (&Buffer<K>, &Buffer<K>),
        how: JoinBounds<K>,
        scratch: &mut RangeJoinScratch<K, V>,
    ) -> Result<()> {
        self.contents.check_order("range_join")?;
        let (count, stream, valid) = (lows.len(), self.stream, self.options.valid);
        self.check("the lows' buffer", count, lows)?;
        self.check("the scratch memory", count, &scratch.lows)?;
        check_validity(stream, valid, count)?;
        let RangeJoinScratch { lows: firsts, highs: lasts, ranges, hits, nowhere, .. } = scratch;
        how.on_stream(stream, lows, highs, &mut *firsts, &mut *lasts)?;
        let RangeScratch { ends: EndScratch { firsts: from, lasts: to, neighbors }, begins, counts, .. } = ranges;
        // Of all of a longer scratch memory, bounds would be asked for that were never written.
        self.end_places(Side::Lower, (&*firsts, count), (&mut *neighbors, &mut *from), u64::MAX)?;
        self.end_places(Side::Upper, (&*lasts, count), (neighbors, &mut *to), 0)?;
        spans(stream, Ends::of(from, to, count), Some(&mut *begins), counts)?;
        let is_left = self.options.kind == JoinKind::Left;
        let cursors = is_left.then_some((begins, &*nowhere));
        settle(stream, valid, count, Settled { counts, is_left, cursors, hits: Some(hits) })
    }

    /// Copies the rows of probes that were located.
    pub(crate) fn copy_range_join(
        &self,
        count: usize,
        scratch: &mut RangeJoinScratch<K, V>,
        rows: &mut Buffer<V>,
    ) -> Result<()> {
        self.copy_spans(count, &mut scratch.ranges, values_only(rows))
    }
}
