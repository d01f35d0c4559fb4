//! Short ranges in one kernel: [`Collect`] finds where each begins, reads the lines from there on once, puts the pairs side by side
//! in shared memory, and copies them to where they belong, as it learns from the tiles before its own how many pairs come first
//! (decoupled look-back).

use crate::layout::{MOST_CHUNK_SLOTS, chunk_slots, line_slots, pairs_of};
use crate::queries::found_at;
use crate::range::{CHUNKS, copy};
use crate::search::{TABLE_BYTES, TreeRef, load_top, own};
use crate::values::{self, SharedValues};
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::lookback::{self, Compacted};
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, WARP, kernel_args, unroll,
};

/// Ranges of a tile, each of which has a warp.
pub const COLLECT_TILE: u64 = WARP as u64;

/// Most threads of a block: of more, the pairs leave too little of a multiprocessor's fast memory to nodes.
pub const COLLECT_THREADS: u32 = 640;

/// Lanes that read a range's lines together, 16 bytes each: four lines, or two if these have eight pairs or more.
const fn team_lanes<K: KeyWord, V: Value>() -> u32 {
    if chunk_slots::<K, V>() == 1 { 16 } else { 8 }
}

/// Slots that they read.
const fn window<K: KeyWord, V: Value>() -> u32 {
    team_lanes::<K, V>() * chunk_slots::<K, V>()
}

/// Pairs of a range that are surely among these if lines are full: longer ones are better located first, and copied then.
pub const fn collect_pairs<K: KeyWord, V: Value>() -> u64 {
    (window::<K, V>() - line_slots::<K, V>() + 1) as u64
}

/// Bytes of shared memory that a thread needs for the pairs of its range.
pub const fn collect_bytes<K: KeyWord, V: Value>() -> u32 {
    window::<K, V>() * (K::BYTES + V::BYTES) as u32
}

/// Rounds whose loads are on their way together.
const ROUNDS: usize = 4;

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

/// Collects the pairs of a batch of ranges. Any grid of blocks of at most [`COLLECT_THREADS`], of whole warps, with shared memory for
/// the table and [`collect_bytes`] for each thread.
#[derive(Debug)]
pub struct Collect<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Collect<K, V> {
    type Args = CollectArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: COLLECT_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let lane = u64::from(simt.lane());
        let pairs = Pairs::<K, V>::of_warp(simt, tree.top_count);
        // SAFETY: the tree is valid, there are as many ranges, each with room for its offset; the state has a word for each tile.
        unsafe {
            load_top(simt, tree);
            loop {
                let tile = lookback::next_tile_of_warp(simt, args.state);
                let index = tile * COLLECT_TILE + lane;
                // The same for all lanes.
                if tile * COLLECT_TILE >= args.count {
                    return;
                }
                let is_range = index < args.count;
                let start = tree.load(simt, args.starts, index, args.count);
                let end = tree.load(simt, args.ends, index, args.count);
                let mut limit = if is_range { args.limit } else { 0 };
                if is_range && !args.limits.is_null() {
                    limit = limit.min(simt.load(args.limits, index, Hint::Streaming));
                }
                if start > end || tree.height == 0 {
                    limit = 0;
                }
                let mut found = Found::default();
                if tree.height > 0 {
                    let (numbers, _) = tree.descend::<S, true>(simt, start);
                    let first = tree.first_of::<S, V>(simt, own(simt, numbers));
                    let lines = tree.children::<S, true>(simt, numbers, start, first, tree.formats).numbers();
                    found = pairs.read(simt, tree, own(simt, lines), (start, end), limit);
                }
                let mut count = u64::from(found.count);
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
                let (before, total) = sum(simt, count);
                let of_tile = Compacted::<0> { kept: total, open: 0 };
                if lane == 0 {
                    lookback::publish(simt, args.state, tile, of_tile);
                }
                let at = lookback::look_back(simt, args.state, tile, of_tile).kept + before;
                if is_range {
                    simt.store(args.offsets, index, at, Hint::Streaming);
                    if index + 1 == args.count {
                        simt.store(args.offsets, args.count, at + count, Hint::Default);
                    }
                }
                if is_any_long {
                    // Some are longer than what was read of them.
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
                    pairs.write(simt, args, at, found.in_team);
                }
            }
        }
    }
}

/// Lanes that copy a long range.
const LONG_LANES: u32 = 8;

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

/// What a lane knows after the lines were read.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Pairs of its range that were read, up to its limit.
    count: u32,
    /// Whether there may be more after what was read.
    goes_on: bool,
    /// Pairs of the ranges of all lanes that read together.
    in_team: u32,
}

/// The pairs of a warp's ranges, in shared memory: those of the ranges of lanes that read together are side by side, the first ones at
/// the place of [`window`] times the first lane.
struct Pairs<K, V: Value> {
    keys: Shared<K>,
    values: SharedValues<V>,
}

impl<K: KeyWord, V: Value> Pairs<K, V> {
    #[inline(always)]
    fn of_warp<S: Simt>(simt: S, top_count: u32) -> Self {
        let of_warp = simt.thread_index() / WARP * WARP * collect_bytes::<K, V>();
        let keys = Shared::at(found_at(top_count) + of_warp, WARP * window::<K, V>());
        Self { keys, values: SharedValues::at(keys.end(), WARP * window::<K, V>()) }
    }

    /// Warp collective (all lanes). Reads the lines from each lane's on, and keeps the pairs of its range, from the first key to the
    /// last one, at most `limit`.
    ///
    /// # Safety
    /// Lines of the tree.
    #[inline(always)]
    unsafe fn read<S: Simt>(&self, simt: S, tree: &TreeRef<K>, line: u32, (start, end): (K, K), limit: u64) -> Found {
        let (lanes, slots) = (team_lanes::<K, V>(), chunk_slots::<K, V>());
        let within = simt.lane() % lanes;
        let leader = simt.lane() - within;
        let team = ((1 << lanes) - 1) << leader;
        let last_chunk = u64::from(tree.line_count) * CHUNKS;
        let limit = if limit < u64::from(window::<K, V>()) { limit as u32 } else { window::<K, V>() };
        let load = |round: u32| {
            let of = leader + round % lanes;
            let chunk = u64::from(simt.shuffle(FULL_MASK, line, of)) * CHUNKS + u64::from(within);
            let is_there = simt.shuffle(FULL_MASK, limit, of) > 0 && chunk < last_chunk;
            // SAFETY: a chunk of the tree.
            (is_there, if is_there { unsafe { tree.chunk::<S, V>(simt, chunk) } } else { [0; 2] })
        };
        let mut found = Found::default();
        let mut first = 0;
        while first < lanes {
            let loaded: [_; ROUNDS] = core::array::from_fn(|i| load(first + i as u32));
            unroll!(ROUNDS, i => {
                let round = first + i as u32;
                let of = leader + round;
                let (is_there, chunk) = loaded[i];
                let (start, end) = (simt.shuffle(FULL_MASK, start, of), simt.shuffle(FULL_MASK, end, of));
                let limit = simt.shuffle(FULL_MASK, limit, of);
                let of_line = simt.shuffle(FULL_MASK, line, of);
                let pairs = pairs_of::<K, V>(chunk);
                let last = pairs[MOST_CHUNK_SLOTS - 1].0;
                let left = simt.shuffle_up(FULL_MASK, last, 1);
                let (mut count, mut place) = (0, 0);
                let mut is_in = [false; MOST_CHUNK_SLOTS];
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots {
                        let key = pairs[slot].0;
                        let before = if slot == 0 { left } else { pairs[slot.saturating_sub(1)].0 };
                        // Free slots repeat what is before them; those of the first line the pair before the range.
                        let is_new = (slot == 0 && within == 0) | (key > before);
                        is_in[slot] = is_there & is_new & (key >= start) & (key <= end);
                        let mask = simt.ballot(FULL_MASK, is_in[slot]) & team;
                        place += (mask & simt.lanes_below()).count_ones();
                        count += mask.count_ones();
                    }
                });
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots {
                        if is_in[slot] && place < limit {
                            let (key, value) = pairs[slot];
                            let to = leader * window::<K, V>() + found.in_team + place;
                            // SAFETY: a team has room for so many, and a pair's place is its own.
                            unsafe {
                                let line = of_line + within / CHUNKS as u32;
                                let value = tree.value(simt, line, within % CHUNKS as u32 * slots + slot as u32, value);
                                simt.shared_store(self.keys, to, key);
                                self.values.store(simt, to, value);
                            }
                        }
                        place += u32::from(is_in[slot]);
                    }
                });
                // If the last lane has read nothing, there is nothing more.
                let goes_on = simt.ballot(FULL_MASK, is_there & (last < end)) >> (leader + lanes - 1) & 1 != 0;
                let kept = if count < limit { count } else { limit };
                if within == round {
                    (found.count, found.goes_on) = (kept, goes_on);
                }
                found.in_team += kept;
            });
            first += ROUNDS as u32;
        }
        found
    }

    /// Warp collective (all lanes). Copies the pairs to the places from each lane's own on, of which the first one of each team
    /// counts.
    ///
    /// # Safety
    /// The outputs have room for as many as the capacity says.
    #[inline(always)]
    unsafe fn write<S: Simt>(&self, simt: S, args: &CollectArgs<K, V>, at: u64, in_team: u32) {
        simt.sync_warp(FULL_MASK);
        let mut leader = 0;
        while leader < WARP {
            let (at, count) = (simt.shuffle(FULL_MASK, at, leader), simt.shuffle(FULL_MASK, in_team, leader));
            let mut i = simt.lane();
            while i < count && at + u64::from(i) < args.capacity {
                let (from, to) = (leader * window::<K, V>() + i, at + u64::from(i));
                // SAFETY: a pair that was kept, and a place of the outputs.
                unsafe {
                    let key = simt.shared_load(self.keys, from);
                    simt.store(args.keys, to, key.xor(args.tree.flip), Hint::Streaming);
                    values::store(simt, args.values, to, self.values.load(simt, from), Hint::Streaming);
                }
                i += WARP;
            }
            leader += team_lanes::<K, V>();
        }
        simt.sync_warp(FULL_MASK);
    }
}
