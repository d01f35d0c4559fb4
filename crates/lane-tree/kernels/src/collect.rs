//! Short ranges in one kernel: [`Collect`] finds where each begins, reads the lines from there on once, into shared memory, and copies
//! the pairs to where they belong, as it learns from the tiles before its own how many come first (decoupled look-back).
//!
//! Lanes read the lines together, so that a range's are one access; then each lane looks through those of its own range, which
//! takes far fewer instructions than to compare in the lanes that read.

use crate::layout::{MOST_CHUNK_SLOTS, chunk_slots, line_slots, pairs_of};
use crate::queries::found_at;
use crate::range::{CHUNKS, copy};
use crate::search::{TABLE_BYTES, TreeRef, load_top};
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::lookback::{self, Compacted};
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, WARP, kernel_args, unroll,
};

/// The fewest ranges of a tile, each of which has a block.
pub const COLLECT_TILE: u64 = WARP as u64;

/// Most threads of a block.
pub const fn collect_threads<K: KeyWord>() -> u32 {
    if K::BITS == 128 { 512 } else { 640 }
}

/// 16 bytes each that are read of a range's lines, each by a lane: four lines, or two if these have eight pairs or more.
const fn row<K: KeyWord, V: Value>() -> u32 {
    if chunk_slots::<K, V>() == 1 { MOST_ROW as u32 } else { MOST_ROW as u32 / 2 }
}

/// The most of them.
const MOST_ROW: usize = 16;

/// From one row to the next in shared memory, in 16 bytes: one more, so that lanes that each read their own row are not in each
/// other's way.
const fn stride<K: KeyWord, V: Value>() -> u32 {
    row::<K, V>() + 1
}

/// Pairs of a range that are surely read if lines are full: longer ones are better located first, and copied then.
pub const fn collect_pairs<K: KeyWord, V: Value>() -> u64 {
    (row::<K, V>() * chunk_slots::<K, V>() - line_slots::<K, V>() + 1) as u64
}

/// Where rows begin in shared memory.
const fn rows_at(top_count: u32) -> u32 {
    found_at(top_count)
}

/// Bytes of shared memory that a thread needs for its range.
pub const fn collect_bytes<K: KeyWord, V: Value>() -> u32 {
    row_bytes::<K, V>() + BLOCK_BYTES.div_ceil(WARP)
}

/// Bytes of a row in shared memory.
const fn row_bytes<K: KeyWord, V: Value>() -> u32 {
    stride::<K, V>() * 16
}

/// Loads that are on their way together.
const AHEAD: usize = 8;

/// Lanes that copy a long range.
const LONG_LANES: u32 = 8;

kernel_args! {
    /// Arguments of [`Collect`].
    pub struct CollectArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// First keys of the ranges: `[count]`.
        pub starts: Global<K>,
        /// Last keys: `[count]`. A range whose end lies before its start is empty.
        pub ends: Global<K>,
        /// Most pairs of each range: `[count]`; null for `limit` everywhere.
        pub limits: Global<u64>,
        /// How many ranges.
        pub count: u64,
        /// Most pairs of a range.
        pub limit: u64,
        /// Scratch: [`state_words`](lookback::state_words) for tiles of [`COLLECT_TILE`] ranges and carries of one word, zeroed.
        pub state: GlobalMut<u64>,
        /// Out: `[count + 1]`, where each range's pairs begin, and how many there are of all ranges.
        pub offsets: GlobalMut<u64>,
        /// Out: `[capacity]`, the keys of all ranges, in order.
        pub keys: GlobalMut<K>,
        /// Out: `[capacity]`, their values.
        pub values: GlobalMut<V>,
        /// Pairs for which there is room; pairs past it are not written.
        pub capacity: u64,
    }
}

/// Collects the pairs of a batch of ranges. Any grid of blocks of at most [`collect_threads`], of whole warps, with shared memory for
/// the table and [`collect_bytes`] for each thread.
#[derive(Debug)]
pub struct Collect<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Collect<K, V> {
    type Args = CollectArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: collect_threads::<K>(), blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let rows = Rows::<K, V>::of_warp(simt, tree.top_count);
        // SAFETY: the tree is valid, there are as many ranges, each with room for its offset; the state has a word for each tile.
        unsafe {
            load_top(simt, tree);
            let block = Block::at(rows_at(tree.top_count) + simt.block_dim() * row_bytes::<K, V>());
            loop {
                let tile = lookback::next_tile(simt, args.state, block.ticket);
                let first = tile * u64::from(simt.block_dim());
                // The same for the whole block.
                if first >= args.count {
                    return;
                }
                let index = first + u64::from(simt.thread_index());
                let Wanted { start, end, limit } = Wanted::new(simt, args, index);
                let mut found = Found::default();
                if tree.height > 0 {
                    let line = tree.line_of_any::<S, V>(simt, start);
                    rows.read(simt, tree, line, limit > 0);
                    found = rows.look_through(simt, tree, line, (start, end), limit);
                }
                let mut count = u64::from(found.taken.count_ones());
                let is_long = found.goes_on && count < limit;
                let (is_any_long, mut cursor) = (simt.any(FULL_MASK, is_long), 0);
                if is_any_long {
                    let first = tree.find::<S, V>(simt, start, false);
                    cursor = u64::from(first.line) * u64::from(line_slots::<K, V>()) + u64::from(first.slot);
                    let last = tree.find::<S, V>(simt, end, true);
                    if is_long {
                        count = last.rank.saturating_sub(first.rank).min(limit);
                    }
                }
                let at = block.before(simt, args.state, tile, count);
                if index < args.count {
                    simt.store(args.offsets, index, at, Hint::Streaming);
                    if index + 1 == args.count {
                        simt.store(args.offsets, args.count, at + count, Hint::Default);
                    }
                }
                if is_any_long {
                    let end = (at + count).min(args.capacity);
                    let mut first = 0;
                    while first < WARP {
                        let of = first + simt.lane() / LONG_LANES;
                        let places = (simt.shuffle(FULL_MASK, at, of), simt.shuffle(FULL_MASK, end, of));
                        let cursor = simt.shuffle(FULL_MASK, cursor, of);
                        copy::<S, K, V, LONG_LANES>(simt, tree, cursor, places, (args.keys, args.values));
                        first += WARP / LONG_LANES;
                    }
                } else {
                    rows.write(simt, args, at, found);
                }
            }
        }
    }
}

/// A range.
#[derive(Clone, Copy)]
struct Wanted<K> {
    start: K,
    end: K,
    /// Most pairs; 0 for a range that is empty, or none.
    limit: u64,
}

impl<K: KeyWord> Wanted<K> {
    /// Per thread. The range with this number, if there is one.
    ///
    /// # Safety
    /// There are as many as the arguments say.
    #[inline(always)]
    unsafe fn new<S: Simt, V: Value>(simt: S, args: &CollectArgs<K, V>, index: u64) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let start = args.tree.load(simt, args.starts, index, args.count);
            let end = args.tree.load(simt, args.ends, index, args.count);
            let mut limit = if index < args.count { args.limit } else { 0 };
            if index < args.count && !args.limits.is_null() {
                limit = limit.min(simt.load(args.limits, index, Hint::Streaming));
            }
            Self { start, end, limit: if start <= end { limit } else { 0 } }
        }
    }
}

/// Warp collective (all lanes). The sum of the values of the lanes before the caller's, and that of all lanes.
#[inline(always)]
fn sum<S: Simt>(simt: S, value: u64) -> (u64, u64) {
    let mut inclusive = value;
    let mut delta = 1;
    while delta < WARP {
        let earlier = simt.shuffle_up(FULL_MASK, inclusive, delta);
        if simt.lane() >= delta {
            inclusive += earlier;
        }
        delta *= 2;
    }
    (inclusive - value, simt.shuffle(FULL_MASK, inclusive, WARP - 1))
}

/// What a block counts together, in shared memory.
struct Block {
    ticket: Shared<u32>,
    /// The pairs of each warp's ranges.
    of_warps: Shared<u64>,
    /// Those of all tiles before.
    before: Shared<u64>,
}

/// Bytes of [`Block`].
const BLOCK_BYTES: u32 = 16 + WARP * 8;

impl Block {
    #[inline(always)]
    fn at(offset: u32) -> Self {
        let before = Shared::at(offset, 1);
        let of_warps = Shared::at(before.end(), WARP);
        Self { ticket: Shared::at(of_warps.end(), 1), of_warps, before }
    }

    /// Block collective. The sum of the counts of all threads before, in this tile and in those before it.
    ///
    /// # Safety
    /// As [`lookback::publish`].
    #[inline(always)]
    unsafe fn before<S: Simt>(&self, simt: S, state: GlobalMut<u64>, tile: u64, count: u64) -> u64 {
        let (own, total) = sum(simt, count);
        // SAFETY: barriers separate stores from loads; the caller's.
        unsafe {
            if simt.lane() == 0 {
                simt.shared_store(self.of_warps, simt.warp(), total);
            }
            simt.barrier();
            let mut of_warp = 0;
            if simt.lane() < simt.block_dim() / WARP {
                of_warp = simt.shared_load(self.of_warps, simt.lane());
            }
            let (before, total) = sum(simt, of_warp);
            // The same for all lanes.
            if simt.warp() == 0 {
                let of_tile = Compacted::<0> { kept: total, open: 0 };
                if simt.lane() == 0 {
                    lookback::publish(simt, state, tile, of_tile);
                }
                let tiles = lookback::look_back(simt, state, tile, of_tile).kept;
                if simt.lane() == 0 {
                    simt.shared_store(self.before, 0, tiles);
                }
            }
            simt.barrier();
            simt.shared_load(self.before, 0) + simt.shuffle(FULL_MASK, before, simt.warp()) + own
        }
    }
}

/// What a lane has found in what was read for its range.
#[derive(Clone, Copy, Default)]
struct Found {
    /// The line with which that begins.
    line: u32,
    /// A bit for each slot: whether the range has the pair, up to its limit.
    taken: u32,
    /// Whether there may be more pairs after these.
    goes_on: bool,
}

/// What was read for the ranges of a warp, in shared memory: a row for each lane.
struct Rows<K, V> {
    chunks: Shared<u128>,
    pairs: PhantomData<(K, V)>,
}

impl<K: KeyWord, V: Value> Rows<K, V> {
    #[inline(always)]
    fn of_warp<S: Simt>(simt: S, top_count: u32) -> Self {
        let first = simt.thread_index() / WARP * WARP * row_bytes::<K, V>();
        Self { chunks: Shared::at(rows_at(top_count) + first, WARP * stride::<K, V>()), pairs: PhantomData }
    }

    /// Per thread. A part of a lane's row.
    ///
    /// # Safety
    /// It was read.
    #[inline(always)]
    unsafe fn chunk<S: Simt>(&self, simt: S, lane: u32, at: u32) -> [(K, V); MOST_CHUNK_SLOTS] {
        // SAFETY: inside the row.
        let chunk = unsafe { simt.shared_load(self.chunks, lane * stride::<K, V>() + at) };
        pairs_of::<K, V>([chunk as u64, (chunk >> 64) as u64])
    }

    /// Warp collective (all lanes). Reads the lines from each lane's on, unless its range is empty. Past the last line it reads that
    /// again.
    ///
    /// # Safety
    /// Lines of the tree.
    #[inline(always)]
    unsafe fn read<S: Simt>(&self, simt: S, tree: &TreeRef<K>, line: u32, is_some: bool) {
        let row = row::<K, V>();
        let (within, team) = (simt.lane() % row, simt.lane() / row);
        let are_some = simt.ballot(FULL_MASK, is_some);
        let last_chunk = u64::from(tree.line_count) * CHUNKS - 1;
        // Others may still copy what was there.
        simt.sync_warp(FULL_MASK);
        let mut first = 0;
        while first < row {
            let mut chunks = [[0; 2]; AHEAD];
            unroll!(AHEAD, i => {
                let of = team * row + first + i as u32;
                let chunk = u64::from(simt.shuffle(FULL_MASK, line, of)) * CHUNKS + u64::from(within);
                if are_some >> of & 1 != 0 {
                    // SAFETY: a part of a line of the tree.
                    chunks[i] = unsafe { tree.chunk::<S, V>(simt, chunk.min(last_chunk)) };
                }
            });
            unroll!(AHEAD, i => {
                let of = team * row + first + i as u32;
                let chunk = u128::from(chunks[i][0]) | u128::from(chunks[i][1]) << 64;
                // SAFETY: each lane's part of a row.
                unsafe { simt.shared_store(self.chunks, of * stride::<K, V>() + within, chunk) };
            });
            first += AHEAD as u32;
        }
        simt.sync_warp(FULL_MASK);
    }

    /// Per thread. Finds the pairs of the lane's range, from the first key to the last one, at most `limit`, in its row, which begins
    /// with this line.
    ///
    /// # Safety
    /// The row was read, unless the limit is 0.
    #[inline(always)]
    unsafe fn look_through<S: Simt>(
        &self,
        simt: S,
        tree: &TreeRef<K>,
        line: u32,
        (start, end): (K, K),
        limit: u64,
    ) -> Found {
        let slots = chunk_slots::<K, V>();
        let (mut taken, mut before) = (0_u32, K::MIN);
        unroll!(MOST_ROW, at => {
            if (at as u32) < row::<K, V>() {
                // SAFETY: the caller's.
                let pairs = unsafe { self.chunk(simt, simt.lane(), at as u32) };
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots {
                        let key = pairs[slot].0;
                        // Free slots repeat what is before them, those of the first line the pair before the range. What is read
                        // again past the last line does, too, or is below it.
                        let is_new = (at == 0 && slot == 0) | (key > before);
                        taken |= u32::from(is_new & (key >= start) & (key <= end)) << (at as u32 * slots + slot as u32);
                        before = if key > before { key } else { before };
                    }
                });
            }
        });
        // The first ones, up to the limit.
        while u64::from(taken.count_ones()) > limit {
            taken &= !(1 << (31 - taken.leading_zeros()));
        }
        let read = u64::from(line) + u64::from(row::<K, V>()) / CHUNKS;
        let goes_on = before < end && read < u64::from(tree.line_count);
        Found { line, taken: if limit == 0 { 0 } else { taken }, goes_on }
    }

    /// Warp collective (all lanes). Copies the pairs that each lane has found to the places from `at` on.
    ///
    /// # Safety
    /// The outputs have room for as many as the capacity says.
    #[inline(always)]
    unsafe fn write<S: Simt>(&self, simt: S, args: &CollectArgs<K, V>, at: u64, found: Found) {
        let slots = chunk_slots::<K, V>();
        let most = simt.reduce_max(FULL_MASK, found.taken.count_ones());
        // Lanes for each range: the same for all of them.
        let lanes = match most {
            0..=8 => 8,
            9..=16 => 16,
            _ => WARP,
        };
        let first_of_all = found.taken.trailing_zeros();
        let is_row =
            found.taken == 0 || found.taken >> first_of_all & (found.taken >> first_of_all).wrapping_add(1) == 0;
        let are_rows = simt.all(FULL_MASK, is_row);
        let within = simt.lane() % lanes;
        let mut of = simt.lane() / lanes;
        while of < WARP {
            let (taken, to) =
                (simt.shuffle(FULL_MASK, found.taken, of), simt.shuffle(FULL_MASK, at, of) + u64::from(within));
            let line = simt.shuffle(FULL_MASK, found.line, of);
            if within < taken.count_ones() && to < args.capacity {
                let slot = if are_rows { taken.trailing_zeros() + within } else { nth_one(taken, within) };
                // SAFETY: a slot that was read, of the tree; a place of the outputs.
                unsafe {
                    let pairs = self.chunk(simt, of, slot / slots);
                    let (mut key, mut value) = pairs[0];
                    unroll!(MOST_CHUNK_SLOTS, other => {
                        if (other as u32) < slots && slot % slots == other as u32 {
                            (key, value) = pairs[other];
                        }
                    });
                    let in_line = line_slots::<K, V>();
                    let value = args.tree.value(simt, line + slot / in_line, slot % in_line, value);
                    simt.store(args.keys, to, key.xor(args.tree.flip), Hint::Streaming);
                    values::store(simt, args.values, to, value, Hint::Streaming);
                }
            }
            of += WARP / lanes;
        }
    }
}

/// Where the bit is before which so many bits are set, of more.
#[inline(always)]
fn nth_one(bits: u32, before: u32) -> u32 {
    let (mut at, mut left, mut width) = (0, before, 16);
    while width > 0 {
        let low = (bits >> at & ((1 << width) - 1)).count_ones();
        if low <= left {
            (at, left) = (at + width, left - low);
        }
        width /= 2;
    }
    at
}
