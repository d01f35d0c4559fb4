//! Spans of values, copied one after the other in a single pass: the rows of a join.
//!
//! A block takes a tile of spans, adds up their lengths, learns by looking back where its rows begin, and writes them. The spans of
//! the tile that are not empty are in shared memory, in their order: where the rows of each begin, and where its values are. A warp
//! has a stretch of the tile's rows and takes 32 of them at a time. The spans that begin among these are among the next 32, so each
//! lane reads where one of these begins. The sum of the bits of those rows tells each lane how many spans have begun up to its row.
//! Nothing is searched for, but the span in which a warp's stretch begins.
//!
//! The block of a tile with many rows writes the first part of them and puts the tile on a list. When there are no more tiles,
//! all blocks take further parts from that list, so one span of 2^28 values takes no longer than many short ones.

use crate::lookback::{self, Compacted, state_words};
use crate::scan::{ExclusiveSum, warp_scan};
use crate::tile::{THREADS, WARPS, sums_before};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Order, Scope, Shared, Simt, WARP, Word, kernel_args,
    last_where, shl_clamped, unroll,
};

/// Blocks that a multiprocessor has at a time, of [`THREADS`]: the most for which ptxas spills no register on any architecture. Two of
/// twice as many threads, with twice the spans, have fewer warps; three spill.
pub const BLOCKS: u32 = 5;

/// Spans of a thread: they are adjacent.
const PER_THREAD: usize = 4;

/// Spans of a tile.
pub const TILE: u64 = THREADS as u64 * PER_THREAD as u64;

/// Rows of a part of a tile: a block writes one before other blocks may take others of the same tile.
pub const PART: u64 = 1 << 17;

/// Bits of the length of a span.
pub const LENGTH_BITS: u32 = 40;

/// Steps of [`WARP`] rows whose values are read together.
const AT_ONCE: usize = 4;

/// Bits of the number of spans in a tile, up to all of them; below them in the sums of a tile.
const SPANS_BITS: u32 = NUMBER_BITS + 1;
/// Bits of a span's number in its tile, and above them of where its values are: below where its rows begin.
const NUMBER_BITS: u32 = 10;
const SOURCE_BITS: u32 = 2;
const START_SHIFT: u32 = NUMBER_BITS + SOURCE_BITS;
const _: () = assert!(TILE == 1 << NUMBER_BITS && LENGTH_BITS + NUMBER_BITS + START_SHIFT <= u64::BITS);

/// Sources of values: the first array, the second one, neither; and of no row.
const FIRST: u64 = 0;
const SECOND: u64 = 1;
const NEITHER: u64 = 2;
const NO_ROW: u64 = 3;

/// Words of the scratch memory before the list: those of the look-back, the number of tiles that have been through the list,
/// and what is on it.
const fn list_at(tiles: u64) -> u64 {
    state_words(tiles, 1).saturating_add(32)
}

/// 64-bit words of scratch memory for `spans` spans, and how many of them are zero before a launch.
pub const fn scratch_words(spans: u64) -> (u64, u64) {
    let tiles = tiles(spans);
    let zeroed = list_at(tiles);
    (zeroed.saturating_add(tiles.saturating_mul(2)), zeroed)
}

/// Tiles of `spans` spans, at least one.
pub const fn tiles(spans: u64) -> u64 {
    if spans == 0 { 1 } else { spans.div_ceil(TILE) }
}

kernel_args! {
    /// Arguments of [`Expand`].
    pub struct ExpandArgs<V> {
        /// Where each span begins, shifted left by `shift`: `[count]`. Positions are in the first array of values, and past it in the
        /// second one.
        pub begins: Global<u64>,
        /// The length of each span, in the bits of `mask`, at most [`LENGTH_BITS`]: `[count]`; may be `begins`.
        pub lengths: Global<u64>,
        /// How many spans.
        pub count: u64,
        /// See `lengths`.
        pub mask: u64,
        /// See `begins`.
        pub shift: u32,
        /// 1: numbers have 32 bits.
        pub is_narrow: u32,
        /// `[values_len]`.
        pub values: Global<V>,
        /// Values of the first array.
        pub values_len: u64,
        /// `[more_len]`.
        pub more: Global<V>,
        /// Values of the second array; may be 0.
        pub more_len: u64,
        /// Rows for which there is room; rows past it are not written.
        pub capacity: u64,
        /// Scratch: [`scratch_words`], the first ones zeroed.
        pub state: GlobalMut<u64>,
        /// Out: `[count + 1]`, where the rows of each span begin, and where all end; null if not wanted.
        pub offsets: GlobalMut<u64>,
        /// Out: `[1]`, how many rows there are, even if that exceeds the capacity; null if not wanted.
        pub total: GlobalMut<u64>,
        /// Out: `[capacity]`, the values; null if not wanted.
        pub out_values: GlobalMut<V>,
        /// Out: `[capacity]`, the number of each value's span; null if not wanted. Words of 32 bits if `is_narrow`.
        pub numbers: GlobalMut<u64>,
        /// The value of rows whose span is in neither array.
        pub miss: V,
    }
}

/// Of each span that is not empty: where its rows begin in the tile, its source, and its number; past these for each lane the end.
const STARTS: Shared<u64> = Shared::at(0, TILE as u32 + WARP);
/// Of each span that is not empty: what to add to a row of the tile to get the element of its value.
const WAYS: Shared<u64> = Shared::at(STARTS.end(), TILE as u32);
/// Rows and spans of each warp.
const SUMS: Shared<u64> = Shared::at(WAYS.end(), WARPS);
/// Where the tile's rows begin.
const FIRST_ROW: Shared<u64> = Shared::at(SUMS.end(), 1);
const TICKET: Shared<u32> = Shared::at(FIRST_ROW.end(), 1);

/// Copies the values of spans one after the other, and writes the number of each value's span. Blocks of [`THREADS`], any number:
/// each takes tiles until there are no more, and then parts of [`PART`] rows, a multiple of a warp.
#[derive(Debug)]
pub struct Expand<V, const PART: u64>(PhantomData<V>);

/// What a block does next.
#[derive(Clone, Copy)]
struct Work {
    tile: u32,
    /// Which part of its rows.
    part: u32,
    /// Where the tile's rows begin; not known yet of the first part.
    first_row: u64,
}

impl<V: Word> ExpandArgs<V> {
    /// Per thread. Puts a tile on the list if it has more parts than the first, which its own block writes.
    ///
    /// # Safety
    /// By one thread of each tile, once.
    #[inline(always)]
    unsafe fn list<S: Simt>(&self, simt: S, tiles: u64, work: Work, parts: u64) {
        let list = list_at(tiles);
        let (listed, passed) = (list - 1, list - 2);
        // SAFETY: entries are as many as tiles; each has a number of its own.
        unsafe {
            if parts > 1 {
                let add = 1 << 32 | (parts - 1);
                let before = simt.atomic_add(self.state, listed, add, Order::Relaxed, Scope::Device);
                let (entry, first_part) = (list + 2 * (before >> 32), before << 32);
                simt.store(self.state, entry, first_part | u64::from(work.tile), Hint::Default);
                simt.store(self.state, entry + 1, work.first_row, Hint::Default);
                simt.atomic_add(self.state, passed, 1, Order::Release, Scope::Device);
            } else {
                simt.atomic_add(self.state, passed, 1, Order::Relaxed, Scope::Device);
            }
        }
    }

    /// Per thread, the same in all threads of a block. The `number`th part of the tiles on the list; none if there are not as many.
    /// Waits until all tiles have been through [`ExpandArgs::list`].
    ///
    /// # Safety
    /// Blocks have taken all tiles.
    #[inline(always)]
    unsafe fn listed<S: Simt>(&self, simt: S, tiles: u64, number: u64) -> Option<Work> {
        let list = list_at(tiles);
        // SAFETY: the words of the list, and entries that were written before their tiles were counted.
        unsafe {
            while simt.atomic_load(self.state, list - 2, Order::Acquire, Scope::Device) < tiles {
                simt.spin_hint();
            }
            let listed = simt.atomic_load(self.state, list - 1, Order::Relaxed, Scope::Device);
            if number >= listed & u64::from(u32::MAX) {
                return None;
            }
            let entry = |entry: u64| simt.load(self.state.as_const(), list + 2 * entry, Hint::Default);
            let last = last_where(0, listed >> 32, |at| entry(at) >> 32 <= number);
            let found = entry(last);
            Some(Work {
                tile: found as u32,
                part: (1 + number - (found >> 32)) as u32,
                first_row: simt.load(self.state.as_const(), list + 2 * last + 1, Hint::Default),
            })
        }
    }

    /// Per thread. The thread's words of a tile, of an array of a word for each span; zeros past the last one.
    ///
    /// # Safety
    /// The array has them.
    #[inline(always)]
    unsafe fn load<S: Simt>(&self, simt: S, from: Global<u64>, first: u64) -> [u64; PER_THREAD] {
        let mut words = [0; PER_THREAD];
        // SAFETY: words before the end.
        unsafe {
            if first + PER_THREAD as u64 <= self.count && from.as_ptr().addr().is_multiple_of(16) {
                unroll!(PER_THREAD / 2, i => {
                    let pair = simt.load_vector(from, first + 2 * i as u64, Hint::EvictFirst);
                    words[2 * i] = pair[0];
                    words[2 * i + 1] = pair[1];
                });
            } else {
                unroll!(PER_THREAD, i => {
                    if first + (i as u64) < self.count {
                        words[i] = simt.load(from, first + i as u64, Hint::EvictFirst);
                    }
                });
            }
        }
        words
    }

    /// Per thread. Writes the offsets of the thread's spans.
    ///
    /// # Safety
    /// There are as many offsets as spans.
    #[inline(always)]
    unsafe fn store_offsets<S: Simt>(&self, simt: S, first: u64, mut at: u64, lengths: [u64; PER_THREAD]) {
        let is_whole = first + PER_THREAD as u64 <= self.count && self.offsets.as_ptr().addr().is_multiple_of(16);
        unroll!(PER_THREAD / 2, i => {
            let (index, pair) = (first + 2 * i as u64, [at, at + lengths[2 * i]]);
            at += lengths[2 * i] + lengths[2 * i + 1];
            // SAFETY: before the end.
            unsafe {
                if is_whole {
                    simt.store_vector(self.offsets, index, pair, Hint::Streaming);
                } else {
                    if index < self.count {
                        simt.store(self.offsets, index, pair[0], Hint::Streaming);
                    }
                    if index + 1 < self.count {
                        simt.store(self.offsets, index + 1, pair[1], Hint::Streaming);
                    }
                }
            }
        });
    }

    /// Where the values of a span are: a source, and the position in it.
    #[inline(always)]
    fn source(&self, position: u64, length: u64) -> (u64, u64) {
        let past = position.wrapping_sub(self.values_len);
        if length <= self.values_len && position <= self.values_len - length {
            (FIRST, position)
        } else if length <= self.more_len && past <= self.more_len - length {
            (SECOND, past)
        } else {
            (NEITHER, 0)
        }
    }

    /// Warp collective (all lanes). Writes the warp's share of a part of a tile that has `spans` spans which are not empty: `rows` rows,
    /// at least one, from `from` on, which may be in front of the tile, and is a multiple of a warp in the output, so that each store is of
    /// whole sectors.
    ///
    /// # Safety
    /// The spans are in shared memory since a barrier.
    #[inline(always)]
    unsafe fn write<S: Simt>(&self, simt: S, work: Work, spans: u32, from: u64, rows: u32) {
        let steps = rows.div_ceil(WARP);
        let (first, end) = (steps * simt.warp() / WARPS * WARP, steps * (simt.warp() + 1) / WARPS * WARP);
        let mut left = (if end < rows { end } else { rows }).saturating_sub(first);
        let mut from = from.wrapping_add(u64::from(first));
        // SAFETY: the caller's.
        let mut begun = unsafe { begun_before(simt, spans, from as i64) };
        while left > 0 {
            let (mut notes, mut found) = ([0; AT_ONCE], [V::MIN; AT_ONCE]);
            // To the compiler this is a new value, so no address of any step stays in registers from one round to the next.
            from = simt.opaque(from);
            let lane = simt.opaque(simt.lane());
            unroll!(AT_ONCE, i => {
                let own = WARP * i as u32 + lane;
                // SAFETY: a span that is not empty, or past these the end.
                let start = unsafe { simt.shared_load(STARTS, begun + lane) } >> START_SHIFT;
                let within = start.wrapping_sub(from).wrapping_sub(u64::from(WARP) * i as u64);
                // Not a shift under a comparison of 64 bits, of which LLVM's code compares only the lower half: see ARCHITECTURE.md.
                let bit = shl_clamped(1, within.min(u64::from(WARP)) as u32);
                let begins = simt.reduce_add(FULL_MASK, bit);
                let up_to_own = begun + (begins & (u32::MAX >> (WARP - 1 - lane))).count_ones();
                begun += begins.count_ones();
                let span = if up_to_own > 0 { up_to_own - 1 } else { 0 };
                // SAFETY: a span that has begun, or the first one, and there is at least one.
                let note = unsafe { simt.shared_load(STARTS, span) } as u32 % (1 << START_SHIFT);
                notes[i] = if up_to_own > 0 && own < left { note } else { (NO_ROW as u32) << NUMBER_BITS };
                if !self.out_values.is_null() {
                    // Without a branch around any, all loads go out together.
                    // SAFETY: as above.
                    let way = unsafe { simt.shared_load(WAYS, span) };
                    let element = way.wrapping_add(from).wrapping_add(u64::from(own));
                    let source = u64::from(notes[i] >> NUMBER_BITS);
                    let array = if source == FIRST { self.values } else { self.more };
                    let (array, element) = if source >= NEITHER { (self.begins.cast(), 0) } else { (array, element) };
                    // SAFETY: a value of a span that is in the array, or the first word of the spans.
                    found[i] = unsafe { simt.load(array, element, Hint::EvictFirst) };
                }
            });
            let to = simt.opaque(work.first_row.wrapping_add(from).wrapping_add(u64::from(lane)));
            unroll!(AT_ONCE, i => {
                let source = u64::from(notes[i] >> NUMBER_BITS);
                if source != NO_ROW {
                    let to = to.wrapping_add(u64::from(WARP) * i as u64);
                    // SAFETY: a row for which there is room.
                    unsafe {
                        if !self.numbers.is_null() {
                            let number = u64::from(work.tile) * TILE + u64::from(notes[i] % (TILE as u32));
                            if self.is_narrow == 0 {
                                simt.store(self.numbers, to, number, Hint::Streaming);
                            } else {
                                simt.store(self.numbers.cast::<u32>(), to, number as u32, Hint::Streaming);
                            }
                        }
                        if !self.out_values.is_null() {
                            let value = if source == NEITHER { self.miss } else { found[i] };
                            simt.store(self.out_values, to, value, Hint::Streaming);
                        }
                    }
                }
            });
            left = left.saturating_sub(WARP * AT_ONCE as u32);
            from = from.wrapping_add(u64::from(WARP) * AT_ONCE as u64);
        }
    }
}

/// Warp collective (all lanes, with the same arguments). How many of the tile's spans begin before a row, which may be in front of the
/// tile if it is the first one that is written: all lanes search.
///
/// # Safety
/// The spans are in shared memory since a barrier.
#[inline(always)]
unsafe fn begun_before<S: Simt>(simt: S, spans: u32, row: i64) -> u32 {
    let (mut base, mut left) = (0, spans);
    while left > 0 {
        let step = left.div_ceil(WARP);
        // The last span of each lane's share.
        let own = (simt.lane() + 1) * step - 1;
        let is_span = own < left;
        // SAFETY: a span.
        let start = unsafe { simt.shared_load(STARTS, base + if is_span { own } else { 0 }) } >> START_SHIFT;
        let has_begun = simt.opaque(u32::from(is_span & ((start as i64) < row))) != 0;
        let begun = simt.ballot(FULL_MASK, has_begun).count_ones() * step;
        base += begun;
        left = if left - begun < step { left - begun } else { step - 1 };
    }
    base
}

impl<V: Word, const PART: u64> Kernel for Expand<V, PART> {
    type Args = ExpandArgs<V>;
    const STATIC_SHARED: u32 = TICKET.end();
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: BLOCKS });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        loop {
            // To the compiler a new value, so nothing that depends on it stays in registers from one tile to the next.
            let tiles = simt.opaque(tiles(args.count));
            // SAFETY: the state is zeroed, and has a ticket. The ticket of the last tile was read before a barrier.
            let ticket = unsafe { lookback::next_tile(simt, args.state, TICKET) };
            let is_first = ticket < tiles;
            let mut work = Work { tile: ticket as u32, part: 0, first_row: 0 };
            if !is_first {
                // SAFETY: tickets are taken in order.
                let Some(listed) = (unsafe { args.listed(simt, tiles, ticket - tiles) }) else { return };
                work = listed;
            }
            let first = u64::from(work.tile) * TILE + u64::from(simt.thread_index()) * PER_THREAD as u64;
            // SAFETY: an array of a word for each span.
            let mut lengths = unsafe { args.load(simt, args.lengths, first) };
            // SAFETY: as above.
            let begins = unsafe { args.load(simt, args.begins, first) };
            let mut sum = 0;
            unroll!(PER_THREAD, i => {
                lengths[i] &= args.mask;
                sum += lengths[i] << SPANS_BITS | u64::from(lengths[i] > 0);
            });
            let (mut before, of_warp) = warp_scan::<S, ExclusiveSum<u64>>(simt, sum);
            if simt.lane() == 0 {
                // SAFETY: an element of the warp's own.
                unsafe { simt.shared_store(SUMS, simt.warp(), of_warp) };
            }
            simt.barrier();
            // SAFETY: stored by each warp before the barrier, and next after another one.
            let (of_warps, all) = unsafe { sums_before(simt, SUMS) };
            before += of_warps;
            let (rows, spans) = (all >> SPANS_BITS, all as u32 & ((1 << SPANS_BITS) - 1));
            let own = Compacted::<0> { kept: rows, open: 0 };
            if is_first && simt.thread_index() == 0 {
                // SAFETY: the state is zeroed, the tile the block's.
                unsafe { lookback::publish(simt, args.state, work.tile.into(), own) };
            }
            let (mut start, mut entry) = (before >> SPANS_BITS, before as u32 & ((1 << SPANS_BITS) - 1));
            unroll!(PER_THREAD, i => {
                if lengths[i] > 0 {
                    let (source, position) = args.source(begins[i] >> args.shift, lengths[i]);
                    let number = u64::from(simt.thread_index()) * PER_THREAD as u64 + i as u64;
                    // SAFETY: there are at most as many spans as the arrays have elements, and each has its own.
                    unsafe {
                        simt.shared_store(STARTS, entry, start << START_SHIFT | source << NUMBER_BITS | number);
                        simt.shared_store(WAYS, entry, position.wrapping_sub(start));
                    }
                }
                start += lengths[i];
                entry += u32::from(lengths[i] > 0);
            });
            if simt.warp() == WARPS - 1 {
                // SAFETY: past all spans.
                unsafe { simt.shared_store(STARTS, spans + simt.lane(), u64::MAX) };
            }
            if is_first && simt.warp() == 0 {
                // SAFETY: as above, and it is published.
                work.first_row = unsafe { lookback::look_back(simt, args.state, work.tile.into(), own) }.kept;
            }
            // Rows that are written, counted from a multiple of a warp in the output.
            let ahead = |first_row: u64| first_row % u64::from(WARP);
            let room = |first_row: u64| args.capacity.saturating_sub(first_row).min(rows);
            if simt.opaque(simt.thread_index()) == 0 {
                // SAFETY: read only after the barrier; the end is the last output.
                unsafe {
                    simt.shared_store(FIRST_ROW, 0, work.first_row);
                    if is_first {
                        args.list(simt, tiles, work, (ahead(work.first_row) + room(work.first_row)).div_ceil(PART));
                        if u64::from(work.tile) + 1 == tiles && !args.total.is_null() {
                            simt.store(args.total, 0, work.first_row + rows, Hint::Default);
                        }
                    }
                }
            }
            simt.barrier();
            // SAFETY: stored before the barrier.
            work.first_row = unsafe { simt.shared_load(FIRST_ROW, 0) };
            // The first thread has branched by this before the barrier: see `Simt::opaque`.
            if simt.opaque(u32::from(is_first)) != 0 && !args.offsets.is_null() {
                // SAFETY: a span has an offset, and so has the end.
                unsafe {
                    args.store_offsets(simt, first, work.first_row + (before >> SPANS_BITS), lengths);
                    if u64::from(work.tile) + 1 == tiles && simt.thread_index() == 0 {
                        simt.store(args.offsets, args.count, work.first_row + rows, Hint::Default);
                    }
                }
            }
            let (begin, ahead, room) = (u64::from(work.part) * PART, ahead(work.first_row), room(work.first_row));
            let left = if room > 0 { ahead + room - begin } else { 0 };
            if left > 0 {
                let rows = if left < PART { left } else { PART };
                // SAFETY: the spans are in shared memory since the barrier.
                unsafe { args.write(simt, work, spans, begin.wrapping_sub(ahead), rows as u32) };
            }
            // The next tile takes the place of this one.
            simt.barrier();
        }
    }
}
