//! Host batches of ranges on a device.
//!
//! A batch is split into pieces. While one piece is located and counted, the pairs of earlier pieces are gathered in
//! *windows*, copied back, and copied to their destination; each piece and each window has its own memory and stream (a
//! slot). A piece's results are usually one window; larger results are several. A small batch is gathered at once, into memory that is usually large
//! enough, without waiting for its counts.

mod output;
pub(super) mod slots;
mod source;

pub use slots::RangeStaging;

use super::range::{copy_rows, locate_rows, rows_of};
use super::{FixedIndex, PART, Query};
use lanetree_base::Ranges;
use lanetree_base::Result;
use lanetree_base::room::{make_room, zeroed};
use lanetree_base::staging::ACROSS_THE_BUS;
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::exclusive_scan;
use lanetree_runtime::DeviceKind;
use lanetree_simt::{GatherBatch, GatherRows, Global, LocateBatch};
pub(super) use output::append_with;
use output::{Output, reserve_pairs};
pub(super) use slots::LOCATING;
use slots::{Gathering, Locating, RangeSlots};
use source::Filled;
pub(super) use source::{Between, Each, Source};

/// How a batch is divided.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Ranges of the first piece, when nothing is known of their lengths yet.
    pub first: usize,
    /// Ranges of a piece, at most.
    pub piece: usize,
    /// Pairs that a piece is to have.
    pub aim: usize,
    /// Pairs of a window, at most, and at least a part's.
    pub window: usize,
    /// Pairs of a part of a longer range, a power of two.
    pub part: u64,
    /// Ranges of a small batch.
    pub small: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        let (first, piece, small) = (1 << 16, 1 << 18, ACROSS_THE_BUS);
        Self { first, piece, aim: 1 << 20, window: 1 << 21, part: PART, small }
    }
}

/// The fewest pairs that a small batch has room for: per range, and in all.
const SMALL_PAIRS: [usize; 2] = [16, 1 << 10];

/// The way of a batch of ranges.
pub(super) trait Pieces: FixedIndex {
    fn range_on_host(
        &self,
        starts: &[Self::Key],
        ends: &[Self::Key],
        limits: Option<&[u64]>,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        self.check_not_lost()?;
        let tree = self.native().expect("a tree on the host is in main memory");
        let (mut cursors, mut counts) = (zeroed(starts.len())?, zeroed(starts.len())?);
        locate_rows(tree, (starts, ends), limits, u64::MAX, &mut cursors, &mut counts);
        out.offsets.clear();
        make_room(&mut out.offsets, starts.len() + 1)?;
        let mut total = 0_u64;
        out.offsets.push(0);
        out.offsets.extend(counts.iter().map(|count| {
            total = total.saturating_add(*count);
            total
        }));
        reserve_pairs(out, total, total)?;
        // Existing elements need not be zeroed: they are overwritten.
        out.keys.resize(total as usize, bytemuck::Zeroable::zeroed());
        out.values.resize(total as usize, bytemuck::Zeroable::zeroed());
        copy_rows(tree, &cursors, &out.offsets, &mut out.keys, &mut out.values);
        Ok(())
    }

    fn range_in_pieces(
        &self,
        source: &mut impl Source<Self::Key>,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        let sizes = self.staging().ranges.sizes;
        let mut taken = self.staging().ranges.take();
        let mut output = Output::new(out);
        let average = |[ranges, pairs]: &[usize; 2]| match ranges {
            0 => sizes.first,
            // At least a tile of the kernel's.
            _ => (sizes.aim.saturating_mul(*ranges) / (*pairs).max(1)).max(16).min(sizes.piece),
        };
        let done = self.in_pieces(source, &mut taken.slots, average, |at_once, slots, piece, left| {
            let counted = match at_once {
                true => self.gather_at_once(slots, piece, left, &mut output)?,
                false => self.gather_piece(slots, piece, left, &mut output)?,
            };
            Ok([output.ranges.offsets.len().max(1) - 1, counted as usize])
        });
        let gathering = &mut taken.slots.gathering;
        let done = done.and_then(|()| gathering.oldest_first().try_for_each(|slot| finish(slot, &mut output)));
        // Nothing is in flight after this.
        drop(taken);
        done?;
        if out.offsets.is_empty() {
            out.offsets.push(0);
        }
        Ok(())
    }

    /// Sends ranges through the slots that locate them. `collect` is called for each piece once the next one is in
    /// flight, with the piece's number and a lower bound of the ranges left; for a small first piece it is called at
    /// once. It returns how many ranges and pairs there have been. From these follows `room`, the number of ranges of
    /// the next piece.
    fn in_pieces(
        &self,
        source: &mut impl Source<Self::Key>,
        slots: &mut RangeSlots<Self::Key, Self::Value>,
        room: impl Fn(&[usize; 2]) -> usize,
        mut collect: impl FnMut(bool, &mut RangeSlots<Self::Key, Self::Value>, usize, usize) -> Result<[usize; 2]>,
    ) -> Result<()> {
        self.check_not_lost()?;
        let Sizes { small, piece: largest, .. } = self.staging().ranges.sizes;
        let (mut before, mut seen) = (None, [0; 2]);
        for piece in 0.. {
            if source.is_done() {
                break;
            }
            let slot = slots.locating(self.device(), piece)?;
            // Enough for all ranges that are left, so that memory does not grow from piece to piece; but at most the
            // largest piece.
            let expected = source.left().min(largest);
            slot.reserve_bounds(self.device(), expected, 0)?;
            let filled = source.fill(slot, self.device(), room(&seen))?;
            slot.reserve_search(self.device(), expected.max(filled.count), filled.limited)?;
            // Later ones follow windows that are in flight.
            let at_once = piece == 0 && filled.count <= small;
            self.locate_piece(slot, &filled, at_once)?;
            if at_once {
                seen = collect(true, slots, piece, source.left())?;
                continue;
            }
            if let Some(before) = before {
                // This piece's ranges are left, too.
                seen = collect(false, slots, before, source.left().saturating_add(filled.count))?;
            }
            before = Some(piece);
        }
        if let Some(before) = before {
            collect(false, slots, before, source.left())?;
        }
        Ok(())
    }

    /// Queues a piece's search: its cursors stay on the device, its offsets go to main memory.
    fn locate_piece(&self, slot: &mut Locating<Self::Key>, filled: &Filled, is_small: bool) -> Result<()> {
        let &Filled { count, limited } = filled;
        slot.busy = Some(count);
        let mut limits = Global::null();
        // Pinned memory has the same address on a GPU.
        let across = is_small && self.device().kind() == DeviceKind::Cuda;
        let (starts, ends) = if across {
            if limited {
                limits = slot.staged_limits.read_on(&slot.stream)?;
            }
            (slot.staged_starts.read_on(&slot.stream)?.cast(), slot.staged_ends.read_on(&slot.stream)?.cast())
        } else {
            slot.starts.upload_async(&slot.stream, 0, &slot.staged_starts, 0..count)?;
            slot.ends.upload_async(&slot.stream, 0, &slot.staged_ends, 0..count)?;
            if limited {
                slot.limits.upload_async(&slot.stream, 0, &slot.staged_limits, 0..count)?;
                limits = slot.limits.read_on(&slot.stream)?;
            }
            (slot.starts.read_on(&slot.stream)?.cast(), slot.ends.read_on(&slot.stream)?.cast())
        };
        let (cursors, counts) =
            (slot.scratch.cursors.write_on(&slot.stream)?, slot.scratch.counts.write_on(&slot.stream)?);
        let batch = LocateBatch { starts, ends, limits, count: count as u64, limit: u64::MAX, cursors, counts };
        // SAFETY: the slot's memory has room for that many ranges; the pointers are for its stream.
        unsafe { self.launch(&slot.stream, &Self::Tuning::default(), &Query::Locate(batch))? };
        let scratch = &mut slot.scratch;
        exclusive_scan(&slot.stream, &scratch.counts, count, &mut slot.offsets, &mut scratch.scan)?;
        Ok(slot.offsets.download_async(&slot.stream, 0..count + 1, &mut slot.staged_offsets, 0)?)
    }

    /// Gathers a small piece in the stream that locates it, and waits for both. Returns the pairs so far. Pairs that
    /// had no room are gathered the usual way.
    fn gather_at_once(
        &self,
        slots: &mut RangeSlots<Self::Key, Self::Value>,
        piece: usize,
        left: usize,
        output: &mut Output<'_, Self::Key, Self::Value>,
    ) -> Result<u64> {
        let slot = &mut slots.locating[piece % LOCATING];
        let count = slot.busy.unwrap_or(0);
        let to = slots.gathering.next(self.device())?;
        let [each, all] = SMALL_PAIRS;
        to.reserve(self.device(), (each * count).max(all).min(self.staging().ranges.sizes.window))?;
        let room = to.staged_keys.len();
        let across = self.device().kind() == DeviceKind::Cuda;
        let (keys, values) = match across {
            true => (to.staged_keys.write_on(&slot.stream)?.cast(), to.staged_values.write_on(&slot.stream)?),
            false => (to.keys.write_on(&slot.stream)?.cast(), to.values.write_on(&slot.stream)?),
        };
        // So few ranges have the device to themselves, and long ones get wider groups.
        let expected = if count < SMALL_PAIRS[1] { count * 256 } else { count };
        let (cursors, offsets) = (slot.scratch.cursors.read_on(&slot.stream)?, slot.offsets.read_on(&slot.stream)?);
        let rows = rows_of((cursors, offsets), count, 0..room as u64, self.staging().ranges.sizes.part);
        // SAFETY: the rows are of this tree, and as many as they say; there is room for `expected` pairs; the pointers
        // are for the stream.
        unsafe {
            let query = Query::gather(GatherBatch { rows, keys, values }, expected);
            self.launch(&slot.stream, &Self::Tuning::default(), &query)?;
        }
        slot.synchronize()?;
        // SAFETY: the staged memory is used in the other slot's own stream, which is idle between windows, and in this
        // one, which has been waited for.
        unsafe { to.forget_staged() };
        if slot.staged_offsets[count] > room as u64 {
            return self.gather_piece(slots, piece, left, output);
        }
        slot.busy = None;
        let (total, _) = output.count(&slot.staged_offsets[..=count], left)?;
        let total = total as usize;
        if across {
            output.append(&to.staged_keys[..total], &to.staged_values[..total]);
        } else {
            to.busy = Some(total);
            to.download(0..total)?;
            finish(to, output)?;
        }
        Ok(output.counted)
    }

    /// Queues the results of a located piece. Returns the pairs so far.
    fn gather_piece(
        &self,
        slots: &mut RangeSlots<Self::Key, Self::Value>,
        piece: usize,
        left: usize,
        output: &mut Output<'_, Self::Key, Self::Value>,
    ) -> Result<u64> {
        let sizes = self.staging().ranges.sizes;
        let RangeSlots { locating, gathering } = slots;
        let slot = &mut locating[piece % LOCATING];
        slot.synchronize()?;
        let count = slot.busy.take().unwrap_or(0);
        let (total, longest) = output.count(&slot.staged_offsets[..=count], left)?;
        if total == 0 {
            return Ok(output.counted);
        }
        let part = if longest > sizes.part { sizes.part } else { GatherRows::WHOLE };
        let mut first = 0;
        while first < total {
            let offsets = &slot.staged_offsets[..=count];
            let end = window_end(offsets, first, sizes.window as u64, part);
            let pairs = (end - first) as usize;
            let to = gathering.next(self.device())?;
            finish(to, output)?;
            to.reserve(self.device(), pairs)?;
            to.busy = Some(pairs);
            // The rows that have pairs in the window, of which the first may begin before it.
            let from = offsets.partition_point(|&offset| offset <= first) - 1;
            let rows = offsets.partition_point(|&offset| offset < end) - from;
            let cursors = slot.scratch.cursors.read_on(&to.stream)?.byte_add(8 * from as u64);
            let row_offsets = slot.offsets.read_on(&to.stream)?.byte_add(8 * from as u64);
            let rows = rows_of((cursors, row_offsets), rows, first..end, part);
            let (keys, values) = (to.keys.write_on(&to.stream)?.cast(), to.values.write_on(&to.stream)?);
            let query = Query::gather(GatherBatch { rows, keys, values }, pairs);
            // SAFETY: the rows are of this tree, and as many as they say; the slot has room for the window; the
            // pointers are for the stream.
            unsafe { self.launch(&to.stream, &Self::Tuning::default(), &query)? };
            if end == total {
                slot.come_after_readers()?;
            }
            to.download(0..pairs)?;
            first = end;
        }
        Ok(output.counted)
    }
}

impl<I: FixedIndex> Pieces for I {}

/// Where a window of at most `most` pairs from `first` on ends: it divides no row of up to a part, and others where a part begins.
fn window_end(offsets: &[u64], first: u64, most: u64, part: u64) -> u64 {
    let end = first + most;
    if end >= offsets[offsets.len() - 1] {
        return offsets[offsets.len() - 1];
    }
    let row = offsets.partition_point(|&offset| offset <= end) - 1;
    let (begin, next) = (offsets[row], offsets[row + 1]);
    if next - begin > part { begin.max(end & !(part - 1)) } else { begin }
}

/// Lets `fill` write new results into the memory of old ones. After an error, or a panic of the caller's iterator,
/// there are no results.
pub(super) fn anew<K, V>(out: &mut Ranges<K, V>, fill: impl FnOnce(&mut Ranges<K, V>) -> Result<()>) -> Result<()>
where
    Ranges<K, V>: Default,
{
    let mut results = core::mem::take(out);
    fill(&mut results)?;
    *out = results;
    Ok(())
}

/// Waits for a slot's window, if it has one, and appends its pairs.
fn finish<K: AnyKey, V: Value>(slot: &mut Gathering<K, V>, output: &mut Output<'_, K, V>) -> Result<()> {
    let Some(pairs) = slot.busy else { return Ok(()) };
    slot.synchronize()?;
    slot.busy = None;
    output.append(&slot.staged_keys[..pairs], &slot.staged_values[..pairs]);
    Ok(())
}
