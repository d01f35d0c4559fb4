//! Host batches of ranges on a device.
//!
//! A batch is split into chunks, and a chunk into pieces, each with its own memory and stream (a slot). Several threads locate a
//! chunk's pieces and count their pairs. Then there is room made for all of them; threads gather them in *windows*, copy these back
//! and write them where they belong, while the next chunk is located and the one after it is taken from the caller. A small batch is
//! gathered at once, into memory that is usually large enough, without waiting for its counts.

mod output;
pub(super) mod slots;
mod source;

pub use slots::RangeStaging;

use super::range::{copy_rows, locate_rows, rows_of};
use super::{FixedIndex, PART, Query};
use lanetree_base::parallel::*;
use lanetree_base::room::{make_room, make_room_expecting, out_of_memory, zeroed};
use lanetree_base::staging::{ACROSS_THE_BUS, PieceSlot, TakenSlots, Work};
use lanetree_base::uninit::{Uninit, Written, append, append_both};
use lanetree_base::{BatchOrder, Ranges, Result};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::exclusive_scan;
use lanetree_runtime::DeviceKind;
use lanetree_simt::{GatherBatch, GatherRows, Global, GlobalMut, LocateBatch};
use output::reserve_pairs;
use slots::{Gathering, Locating};
use source::Bounds;
pub(super) use source::{Between, Each, Source};
use std::sync::{Mutex, PoisonError};

/// How a batch is divided.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Ranges of a piece, at most.
    pub piece: usize,
    /// Pieces of a chunk, at most.
    pub pieces: usize,
    /// Pairs of a window, at most, and at least a part's.
    pub window: usize,
    /// Pairs of a part of a longer range, a power of two.
    pub part: u64,
    /// Ranges of a small batch.
    pub small: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { piece: 1 << 17, pieces: 16, window: 1 << 17, part: PART, small: ACROSS_THE_BUS }
    }
}

/// The fewest ranges that are a piece's, if others have more.
const FEW: usize = 1 << 13;

/// The fewest pairs that a small batch has room for: per range, and in all.
const SMALL_PAIRS: [usize; 2] = [16, 1 << 10];

/// The ranges that were located last, in their slots.
pub(in crate::fixed) struct Chunk<'a, K: AnyKey> {
    slots: TakenSlots<'a, Locating<K>>,
    /// How many slots have a piece.
    pieces: usize,
}

impl<K: AnyKey> Chunk<'_, K> {
    fn pieces(&self) -> &[Locating<K>] {
        &self.slots[..self.pieces]
    }

    fn ranges(&self) -> usize {
        self.pieces().iter().map(|piece| piece.count).sum()
    }

    /// All pairs of the ranges, and of those before them.
    fn pairs(&self, before: u64) -> Result<u64> {
        let all = self.pieces().iter().try_fold(before, |all, piece| all.checked_add(piece.pairs()));
        all.ok_or_else(|| out_of_memory(u128::MAX))
    }

    /// Appends an element for each range: `element` makes it of where the range's pairs begin and end among its piece's, and of the
    /// pairs before the piece.
    fn each_range(&self, out: &mut Vec<u64>, before: u64, element: impl Fn(&[u64], u64) -> u64 + Sync) -> Result<()> {
        append(out, self.ranges(), |mut out| {
            let mut before = before;
            let pieces = self.pieces().iter().map(|piece| {
                let own = (piece.located(), before, out.take_first(piece.count));
                before += piece.pairs();
                own
            });
            let pieces: Vec<_> = pieces.collect();
            let written = pieces.into_par_iter().map(|(offsets, before, out)| {
                let mut pairs = offsets.windows(2);
                out.fill(|_| element(pairs.next().expect("one more offset than ranges"), before))
            });
            Ok(written.reduce(Written::default, Written::and))
        })
    }
}

/// Some pairs of a piece, and where they go.
pub(in crate::fixed) struct Window<'p, 'w, K, V> {
    piece: &'p Locating<K>,
    first: u64,
    end: u64,
    part: u64,
    /// Of no keys, if they are not wanted.
    keys: Uninit<'w, K>,
    values: Uninit<'w, V>,
}

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
        reserve_pairs(out, total, total, true)?;
        // Existing elements need not be zeroed: they are overwritten.
        out.keys.resize(total as usize, bytemuck::Zeroable::zeroed());
        out.values.resize(total as usize, bytemuck::Zeroable::zeroed());
        copy_rows(tree, &cursors, &out.offsets, &mut out.keys, &mut out.values);
        Ok(())
    }

    /// Pairs of ranges in the order of the ranges. Without keys if they are not wanted.
    fn range_in_pieces<'b, S: Source<'b, Self::Key>>(
        &self,
        source: &mut S,
        wants_keys: bool,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        self.check_not_lost()?;
        let staging = &self.staging().ranges;
        let Sizes { piece, pieces, small, .. } = staging.sizes;
        let most = (piece * pieces / S::SHORTER).max(small).max(1);
        out.offsets.clear();
        out.keys.clear();
        out.values.clear();
        let mut chunk = Chunk { slots: staging.locating.take(), pieces: 0 };
        let mut bounds = source.take(most, None)?;
        make_room_expecting(&mut out.offsets, bounds.len() + 1, source.left())?;
        out.offsets.push(0);
        if bounds.len() <= small {
            if self.range_at_once(&mut chunk, &bounds, wants_keys, out)? {
                chunk.slots.give_back_idle();
                source.keep(bounds);
                return Ok(());
            }
        } else {
            self.locate(&mut chunk, &bounds)?;
        }
        let mut other = Chunk { slots: staging.locating.take(), pieces: 0 };
        bounds = source.take(most, Some(bounds))?;
        let mut spare = None;
        loop {
            self.make_room(&chunk, bounds.len().saturating_add(source.left()), wants_keys, out)?;
            if bounds.len() == 0 {
                self.gather(&chunk, wants_keys, out)?;
                break;
            }
            let mut after = None;
            let both = || join(|| self.gather(&chunk, wants_keys, out), || self.locate(&mut other, &bounds));
            let (gathered, located) = beside(both, || after = Some(source.take(most, spare.take())));
            gathered.and(located)?;
            spare = Some(core::mem::replace(&mut bounds, after.expect("the next ranges were taken")?));
            core::mem::swap(&mut chunk, &mut other);
        }
        chunk.slots.give_back_idle();
        other.slots.give_back_idle();
        source.keep(bounds);
        spare.into_iter().for_each(|used| source.keep(used));
        Ok(())
    }

    /// How many pairs each range has.
    fn count_in_pieces<'b, S: Source<'b, Self::Key>>(&self, source: &mut S) -> Result<Vec<u64>> {
        self.check_not_lost()?;
        let staging = &self.staging().ranges;
        let most = (staging.sizes.piece * staging.sizes.pieces / S::SHORTER).max(1);
        let mut chunk = Chunk { slots: staging.locating.take(), pieces: 0 };
        let (mut counts, mut bounds) = (Vec::new(), source.take(most, None)?);
        while bounds.len() > 0 {
            self.locate(&mut chunk, &bounds)?;
            make_room_expecting(&mut counts, bounds.len(), source.left())?;
            chunk.each_range(&mut counts, 0, |pair, _| pair[1] - pair[0])?;
            bounds = source.take(most, Some(bounds))?;
        }
        chunk.slots.give_back_idle();
        source.keep(bounds);
        Ok(counts)
    }

    /// Locates ranges, in a chunk's slots, and waits for all of them.
    fn locate(&self, chunk: &mut Chunk<'_, Self::Key>, bounds: &Bounds<'_, Self::Key>) -> Result<()> {
        let Sizes { piece, .. } = self.staging().ranges.sizes;
        let (starts, ends, limits) = bounds.parts();
        let piece = starts.len().div_ceil(threads()).max(FEW).min(piece);
        chunk.pieces = starts.len().div_ceil(piece);
        chunk.slots.reserve(chunk.pieces, || Locating::new(self.device()))?;
        let pieces = chunk.slots[..chunk.pieces].par_iter_mut().enumerate();
        pieces.try_for_each(|(at, slot)| {
            let own = at * piece..starts.len().min((at + 1) * piece);
            let limits = if limits.is_empty() { limits } else { &limits[own.clone()] };
            slot.fill(self.device(), (&starts[own.clone()], &ends[own], limits))?;
            self.locate_piece(slot, !limits.is_empty(), false)?;
            slot.synchronize()?;
            slot.longest = slot.located().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
            Ok(())
        })
    }

    /// Queues a piece's search: its cursors stay on the device, its offsets go to main memory.
    fn locate_piece(&self, slot: &mut Locating<Self::Key>, limited: bool, is_small: bool) -> Result<()> {
        let (count, stream) = (slot.count, &slot.stream);
        let tuning = Self::in_order(Self::Tuning::default(), BatchOrder::of_sample(&slot.staged_starts[..count]));
        // Pinned memory has the same address on a GPU.
        let across = is_small && self.device().kind() == DeviceKind::Cuda;
        let mut limits = Global::null();
        let (starts, ends) = if across {
            if limited {
                limits = slot.staged_limits.read_on(stream)?;
            }
            (slot.staged_starts.read_on(stream)?.cast(), slot.staged_ends.read_on(stream)?.cast())
        } else {
            slot.starts.upload_async(stream, 0, &slot.staged_starts, 0..count)?;
            slot.ends.upload_async(stream, 0, &slot.staged_ends, 0..count)?;
            if limited {
                slot.limits.upload_async(stream, 0, &slot.staged_limits, 0..count)?;
                limits = slot.limits.read_on(stream)?;
            }
            (slot.starts.read_on(stream)?.cast(), slot.ends.read_on(stream)?.cast())
        };
        let (cursors, counts) = (slot.scratch.cursors.write_on(stream)?, slot.scratch.counts.write_on(stream)?);
        let batch = LocateBatch { starts, ends, limits, count: count as u64, limit: u64::MAX, cursors, counts };
        // SAFETY: the slot's memory has room for that many ranges; the pointers are for its stream.
        unsafe { self.launch(stream, &tuning, &Query::Locate(batch))? };
        let scratch = &mut slot.scratch;
        exclusive_scan(stream, &scratch.counts, count, &mut slot.offsets, &mut scratch.scan)?;
        Ok(slot.offsets.download_async(stream, 0..count + 1, &mut slot.staged_offsets, 0)?)
    }

    /// Locates and gathers a small batch in one stream, and waits for both. Whether that was all: pairs that had no room are gathered
    /// the usual way.
    fn range_at_once(
        &self,
        chunk: &mut Chunk<'_, Self::Key>,
        bounds: &Bounds<'_, Self::Key>,
        wants_keys: bool,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<bool> {
        let (count, parts) = (bounds.len(), bounds.parts());
        if count == 0 {
            return Ok(true);
        }
        chunk.pieces = 1;
        chunk.slots.reserve(1, || Locating::new(self.device()))?;
        let slot = &mut chunk.slots[0];
        slot.fill(self.device(), parts)?;
        self.locate_piece(slot, !parts.2.is_empty(), true)?;
        let sizes = self.staging().ranges.sizes;
        let mut gathering = self.staging().ranges.gathering.take();
        gathering.reserve(1, || Gathering::new(self.device()))?;
        let to = &mut gathering[0];
        let [each, all] = SMALL_PAIRS;
        let room = (each * count).max(all).min(sizes.window);
        to.reserve(self.device(), if wants_keys { room } else { 0 }, room)?;
        let across = self.device().kind() == DeviceKind::Cuda;
        let stream = &slot.stream;
        let mut keys = GlobalMut::null();
        if wants_keys {
            keys = if across { to.staged_keys.write_on(stream)?.cast() } else { to.keys.write_on(stream)?.cast() };
        }
        let values = if across { to.staged_values.write_on(stream)? } else { to.values.write_on(stream)? };
        // So few ranges have the device to themselves, and long ones get wider groups.
        let expected = if count < SMALL_PAIRS[1] { count * 256 } else { count };
        let (cursors, offsets) = (slot.scratch.cursors.read_on(stream)?, slot.offsets.read_on(stream)?);
        let rows = rows_of((cursors, offsets), count, 0..room as u64, sizes.part);
        // SAFETY: the rows are of this tree, and as many as they say; there is room for so many pairs; the pointers are for the
        // stream.
        unsafe {
            let query = Query::gather(GatherBatch { rows, keys, values }, expected);
            self.launch(stream, &Self::Tuning::default(), &query)?;
        }
        slot.synchronize()?;
        // SAFETY: the staged memory is used in the other slot's own stream, which is idle between windows, and in this
        // one, which has been waited for.
        unsafe { to.forget_staged() };
        slot.longest = slot.located().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let pairs = slot.pairs();
        if pairs > room as u64 {
            gathering.give_back_idle();
            return Ok(false);
        }
        reserve_pairs(out, pairs, pairs, wants_keys)?;
        out.offsets.extend_from_slice(&slot.located()[1..]);
        let wanted = 0..pairs as usize;
        let of_keys = if wants_keys { wanted.clone() } else { 0..0 };
        if !across && pairs > 0 {
            to.download(of_keys.clone(), wanted.clone())?;
            to.synchronize()?;
        }
        out.keys.extend_from_slice(&to.staged_keys[of_keys]);
        out.values.extend_from_slice(&to.staged_values[wanted]);
        gathering.give_back_idle();
        Ok(true)
    }

    /// Makes room for a chunk's results. `left`: the ranges after it, about.
    fn make_room(
        &self,
        chunk: &Chunk<'_, Self::Key>,
        left: usize,
        wants_keys: bool,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        make_room_expecting(&mut out.offsets, chunk.ranges(), left)?;
        let known = out.offsets.len() - 1 + chunk.ranges();
        let counted = chunk.pairs(out.values.len() as u64)?;
        // Assumes that the remaining ranges have as many pairs each as those before, within reason.
        let expected = counted as f64 * (known.saturating_add(left) as f64 / known.max(1) as f64).min(64.0);
        reserve_pairs(out, counted, expected as u64, wants_keys)
    }

    /// Appends the pairs of a located chunk, for which there is room.
    fn gather(
        &self,
        chunk: &Chunk<'_, Self::Key>,
        wants_keys: bool,
        out: &mut Ranges<Self::Key, Self::Value>,
    ) -> Result<()> {
        let staging = &self.staging().ranges;
        let before = out.values.len() as u64;
        let pairs = (chunk.pairs(before)? - before) as usize;
        let (offsets, keys, values) = (&mut out.offsets, &mut out.keys, &mut out.values);
        let gather = || {
            append_both((keys, if wants_keys { pairs } else { 0 }), (values, pairs), |keys, values| {
                let windows = windows(chunk.pieces(), staging.sizes, keys, values);
                let threads = threads().min(windows.len());
                let windows = Mutex::new(windows.into_iter());
                let windows = || windows.lock().unwrap_or_else(PoisonError::into_inner);
                let work = Work {
                    take: &|| windows().next(),
                    new: &|| Gathering::new(self.device()),
                    begin: &|to, window| self.gather_window(to, window),
                    give_up: &|| windows().by_ref().for_each(drop),
                };
                work.run(threads, &staging.gathering, |from, window| {
                    let (keys, values) = (window.keys.len(), window.values.len());
                    let keys = window.keys.copy(&from.staged_keys[..keys]);
                    Ok(keys.and(window.values.copy(&from.staged_values[..values])))
                })
            })
        };
        let (gathered, counted) = join(gather, || chunk.each_range(offsets, before, |pair, before| before + pair[1]));
        gathered.and(counted)
    }

    /// Queues the pairs of a window.
    fn gather_window(
        &self,
        to: &mut Gathering<Self::Key, Self::Value>,
        window: &Window<'_, '_, Self::Key, Self::Value>,
    ) -> Result<()> {
        let &Window { piece, first, end, part, .. } = window;
        let (offsets, pairs, wants_keys) = (piece.located(), window.values.len(), !window.keys.is_empty());
        to.reserve(self.device(), window.keys.len(), pairs)?;
        // The rows that have pairs in the window, of which the first may begin before it.
        let from = offsets.partition_point(|&offset| offset <= first) - 1;
        let rows = offsets.partition_point(|&offset| offset < end) - from;
        let cursors = piece.scratch.cursors.read_on(&to.stream)?.byte_add(8 * from as u64);
        let row_offsets = piece.offsets.read_on(&to.stream)?.byte_add(8 * from as u64);
        let rows = rows_of((cursors, row_offsets), rows, first..end, part);
        let keys = if wants_keys { to.keys.write_on(&to.stream)?.cast() } else { GlobalMut::null() };
        let values = to.values.write_on(&to.stream)?;
        let query = Query::gather(GatherBatch { rows, keys, values }, pairs);
        // SAFETY: the rows are of this tree, and as many as they say; the slot has room for the window; the
        // pointers are for the stream.
        unsafe { self.launch(&to.stream, &Self::Tuning::default(), &query)? };
        to.download(0..window.keys.len(), 0..pairs)
    }
}

impl<I: FixedIndex> Pieces for I {}

/// All windows of pieces.
fn windows<'p, 'w, K: AnyKey, V: Value>(
    pieces: &'p [Locating<K>],
    sizes: Sizes,
    mut keys: Uninit<'w, K>,
    mut values: Uninit<'w, V>,
) -> Vec<Window<'p, 'w, K, V>> {
    let (wants_keys, mut all) = (!keys.is_empty(), Vec::new());
    for piece in pieces {
        let part = if piece.longest > sizes.part { sizes.part } else { GatherRows::WHOLE };
        let mut first = 0;
        while first < piece.pairs() {
            let end = window_end(piece.located(), first, sizes.window as u64, part);
            let pairs = (end - first) as usize;
            let keys = keys.take_first(if wants_keys { pairs } else { 0 });
            all.push(Window { piece, first, end, part, keys, values: values.take_first(pairs) });
            first = end;
        }
    }
    all
}

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
