//! Range queries, in two kernels with a prefix sum between them: [`Locate`] finds where each range begins and how many
//! pairs it has, [`Gather`] copies the pairs along the lines.

use crate::layout::{FIRST_CHILD, LINE_WORDS, NODE_WORDS, chunk_slots, line_slots, pairs_of};
use crate::queries::Tiles;
use crate::search::{OfQuad, QUAD, TABLE_BYTES, TreeRef, own};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Simt, WARP, Word, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Locate`].
    pub struct LocateArgs<K> {
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
        /// Out: `[count]`, the cursor of each range's first pair: a slot's number. Null if only the counts are wanted.
        pub cursors: GlobalMut<u64>,
        /// Out: `[count]`, the pairs of each range.
        pub counts: GlobalMut<u64>,
    }
}

/// Lines that are read together from the one on in which a range begins, and how often: most ranges end there.
const AHEAD: u32 = 4;
const READS: u32 = 2;
/// Tiles of a warp that are not tried in this way after one whose ranges do not.
const PAUSE: u32 = 15;

/// Most threads of a block of [`Locate`], which has many lines on their way.
pub const LOCATE_THREADS: u32 = 640;

/// Locates a batch of ranges; launched as [`Rank`](crate::Rank), in blocks of at most [`LOCATE_THREADS`]. Most ranges are short: their ends are looked for in the lines after
/// their beginnings. Others are found by their ends' ranks.
#[derive(Debug)]
pub struct Locate<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Locate<K, V> {
    type Args = LocateArgs<K>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: LOCATE_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let mut pause = 0;
        // SAFETY: there are as many ranges, and the tree is valid.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.starts, args.count);
            while let Some(start) = tiles.word(simt, tree) {
                let index = tiles.at;
                let (mut cursor, mut pairs) = (0, 0);
                if tree.height > 0 {
                    let end = tree.load(simt, args.ends, index, args.count);
                    let mut is_short = false;
                    if pause == 0 {
                        let (numbers, _) = tree.descend::<S, true>(simt, start);
                        let ahead = tree.ahead::<S, V>(simt, numbers, start, end);
                        (cursor, pairs) = (ahead.cursor, u64::from(ahead.pairs));
                        is_short = simt.all(FULL_MASK, ahead.is_all);
                        pause = if is_short { 0 } else { PAUSE };
                    } else {
                        pause -= 1;
                    }
                    if !is_short {
                        // The end first, then the start: not unrolled, as the descent is long.
                        let (mut after, mut side) = (0, 2_u32);
                        while side > 0 {
                            let is_end = simt.opaque(side) == 2;
                            let at = tree.find::<S, V>(simt, if is_end { end } else { start }, is_end);
                            after = if is_end { at.rank } else { after };
                            pairs = after.saturating_sub(at.rank);
                            cursor = u64::from(at.line) * u64::from(line_slots::<K, V>()) + u64::from(at.slot);
                            side -= 1;
                        }
                    }
                }
                if simt.opaque(index) < args.count {
                    let mut limit = args.limit;
                    if !args.limits.is_null() {
                        limit = limit.min(simt.load(args.limits, index, Hint::Streaming));
                    }
                    if !args.cursors.is_null() {
                        simt.store(args.cursors, index, cursor, Hint::Default);
                    }
                    simt.store(args.counts, index, pairs.min(limit), Hint::Default);
                }
                tiles.advance(simt);
            }
        }
    }
}

/// What is known of a range once some lines are read.
struct Ahead {
    /// A slot's number: no pair of the range is before it.
    cursor: u64,
    /// Pairs of the range in the lines that were read.
    pairs: u32,
    /// Whether that is all of them.
    is_all: bool,
}

impl<K: Word> TreeRef<K> {
    /// Warp collective (all lanes). Reads the lines from those on in which the ranges of four lanes begin, each with its first and its
    /// last key.
    ///
    /// # Safety
    /// As [`TreeRef::descend`]; the ranges begin in these nodes.
    #[inline(always)]
    unsafe fn ahead<S: Simt, V: Word>(&self, simt: S, numbers: OfQuad<u32>, start: K, end: K) -> Ahead {
        let (within, leader) = (simt.lane() % QUAD, simt.lane() / QUAD * QUAD);
        let (slots, mine) = (chunk_slots::<K, V>(), 8 * within);
        // SAFETY: nodes, and lines of the tree.
        unsafe {
            let first = self.first_of(simt, own(simt, numbers));
            let mut lines = self.children::<S, true>(simt, numbers, start, first, self.formats).numbers();
            let cursor = u64::from(own(simt, lines)) * u64::from(line_slots::<K, V>());
            // A byte for each of the four ranges: slots of the first line below it, pairs in it, slots above it, and whether it goes on.
            let (mut below, mut pairs, mut above) = (0, 0, 0);
            let mut goes_on = u32::MAX;
            // The last keys of the lines before.
            let mut lasts = [K::MIN; QUAD as usize];
            let mut read = 0;
            while read < READS && simt.any(FULL_MASK, goes_on != 0) {
                unroll!(QUAD as usize, round => {
                    let source = leader + round as u32;
                    let (start, end) = (simt.shuffle(FULL_MASK, start, source), simt.shuffle(FULL_MASK, end, source));
                    let mut keys = [[K::MIN; 2]; AHEAD as usize];
                    unroll!(AHEAD as usize, i => {
                        let line = lines[round] + i as u32;
                        let at = u64::from(line) * u64::from(LINE_WORDS) + u64::from(within * 2);
                        if line < self.line_count && goes_on >> (8 * round) & 0xff != 0 {
                            keys[i] = if slots == 2 {
                                pairs_of::<K, V>(simt.load_vector(self.lines, at, Hint::NoAllocate)).map(|pair| pair.0)
                            } else {
                                [K::truncate(simt.load(self.lines, at, Hint::NoAllocate)); 2]
                            };
                        }
                    });
                    unroll!(AHEAD as usize, i => {
                        // Past the last line they are the smallest, and so count for nothing.
                        let [key, last] = keys[i];
                        let is_first = read == 0 && i == 0;
                        // The key before: that of the last lane is of the line before.
                        let of_line_before = if i == 0 { lasts[round] } else { keys[i.saturating_sub(1)][1] };
                        let handed = if within == QUAD - 1 { of_line_before } else { last };
                        let before = simt.shuffle(FULL_MASK, handed, leader + (within + QUAD - 1) % QUAD);
                        // Free slots repeat what is before them.
                        let is_new = (key > before) | (is_first & (within == 0));
                        let is_in = |key: K| (key >= start) & (key <= end);
                        let mut own_pairs = u32::from(is_new & is_in(key));
                        let (mut own_above, mut own_below) = (u32::from(key > end), u32::from(key < start));
                        if slots == 2 {
                            own_pairs += u32::from((last > key) & is_in(last));
                            own_above += u32::from(last > end);
                            own_below += u32::from(last < start);
                        }
                        if goes_on >> (8 * round) & 0xff != 0 {
                            pairs += own_pairs << (8 * round);
                            above |= u32::from(own_above > 0) << (8 * round);
                            below += if is_first { own_below << (8 * round) } else { 0 };
                        }
                    });
                    lasts[round] = keys[AHEAD as usize - 1][1];
                    lines[round] += AHEAD;
                    above |= u32::from(lines[round] >= self.line_count || end < start) << (8 * round);
                });
                above |= simt.shuffle_xor(FULL_MASK, above, 1);
                above |= simt.shuffle_xor(FULL_MASK, above, 2);
                goes_on = above ^ 0x0101_0101;
                read += 1;
            }
            // Of the quad: a byte stays a byte.
            let all = |bytes: u32| {
                let bytes = bytes + simt.shuffle_xor(FULL_MASK, bytes, 1);
                (bytes + simt.shuffle_xor(FULL_MASK, bytes, 2)) >> mine & 0xff
            };
            Ahead { cursor: cursor + u64::from(all(below)), pairs: all(pairs), is_all: goes_on >> mine & 0xff == 0 }
        }
    }
}

kernel_args! {
    /// Arguments of [`Gather`].
    pub struct GatherArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Where each range begins: `[count]`, from [`LocateArgs::cursors`].
        pub cursors: Global<u64>,
        /// Where its pairs go: `[count + 1]`, the exclusive prefix sums of the counts and their total.
        pub offsets: Global<u64>,
        /// How many ranges.
        pub count: u64,
        /// Out: `[capacity]`, the keys of all ranges, in order.
        pub keys: GlobalMut<K>,
        /// Out: `[capacity]`, their values.
        pub values: GlobalMut<V>,
        /// Pairs for which there is room; pairs past it are not written.
        pub capacity: u64,
    }
}

/// The lanes per range with which [`Gather`] is compiled: for short ranges and for others.
pub const GATHER_WIDTHS: [u32; 2] = [8, 32];

/// Copies the pairs of a batch of ranges: `G` lanes per range read 16 bytes each; any block of whole warps.
#[derive(Debug)]
pub struct Gather<K, V, const G: u32>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const G: u32> Kernel for Gather<K, V, G> {
    type Args = GatherArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let index = simt.global_index() / u64::from(G);
        let (within, leader) = (simt.lane() % G, simt.lane() / G * G);
        let lanes = if G == WARP { FULL_MASK } else { ((1 << G) - 1) << leader };
        let slots = u64::from(chunk_slots::<K, V>());
        // SAFETY: `index` is a range; its pairs are in the tree, whose cursors and counts these are; offsets below the
        // capacity lie inside the outputs.
        unsafe {
            let (mut cursor, mut at, mut end) = (0, 0, 0);
            if index < args.count {
                cursor = simt.load(args.cursors, index, Hint::ReadOnly);
                at = simt.load(args.offsets, index, Hint::ReadOnly);
                end = simt.load(args.offsets, index + 1, Hint::ReadOnly).min(args.capacity);
            }
            // The chunk of the first slot, of which the slots before it are not wanted.
            let mut chunk = cursor / slots;
            let mut skip = cursor % slots;
            let last_chunk = u64::from(tree.line_count) * u64::from(LINE_WORDS / 2) - u64::from(tree.line_count > 0);
            // The key before the chunk, if it is not the first: the line of the cursor may be free.
            let mut before = K::MIN;
            let mut has_before = false;
            if at < end && chunk > 0 && skip == 0 {
                let pairs = pairs_of::<K, V>(simt.load_vector(tree.lines, chunk * 2 - 2, Hint::NoAllocate));
                (before, has_before) = (if slots == 2 { pairs[1].0 } else { pairs[0].0 }, true);
            }
            let load = |chunk: u64, chunks: u32| {
                let own = chunk + u64::from(within);
                let is_wanted = within < chunks && own <= last_chunk;
                if is_wanted { simt.load_vector(tree.lines, own * 2, Hint::NoAllocate) } else { [0; 2] }
            };
            // Chunks to be read for so many slots, with some more, as a few are free; and those of a round.
            let chunks_of = |wanted: u64| (wanted + wanted / 4 + slots).div_ceil(slots);
            let of_round = |chunks: u64| if chunks < u64::from(G) { chunks as u32 } else { G };
            let mut left = if at < end { chunks_of(end - at + skip) } else { 0 };
            let mut now = of_round(left);
            let mut words = load(chunk, now);
            while simt.any(FULL_MASK, at < end) {
                // Those of the next round overlap with these.
                left -= u64::from(now);
                let next = of_round(left);
                let ahead = load(chunk + u64::from(now), next);
                let is_own = within < now && chunk + u64::from(within) <= last_chunk;
                let pairs = pairs_of::<K, V>(words);
                let last = pairs[slots as usize - 1].0;
                let beside = simt.shuffle_up(FULL_MASK, last, 1);
                let (beside, has_beside) = if within == 0 { (before, has_before) } else { (beside, true) };
                // Free slots repeat what is before them.
                let is_new = is_own && (!has_beside || pairs[0].0 > beside);
                let mut new = [is_new, false];
                if slots == 2 {
                    new[1] = is_own && pairs[1].0 > pairs[0].0;
                }
                if within == 0 && skip > 0 {
                    new[0] = false;
                }
                let masks = new.map(|new| simt.ballot(FULL_MASK, new) & lanes);
                let below = simt.lanes_below();
                let place = (masks[0] & below).count_ones() + (masks[1] & below).count_ones();
                for (i, &(key, value)) in pairs.iter().enumerate() {
                    let to = at + u64::from(place) + if i == 1 { u64::from(new[0]) } else { 0 };
                    if new[i] && to < end {
                        simt.store(args.keys, to, key.xor(tree.flip), Hint::Streaming);
                        simt.store(args.values, to, value, Hint::Streaming);
                    }
                }
                at += u64::from(masks[0].count_ones() + masks[1].count_ones());
                before = simt.shuffle(FULL_MASK, last, leader + if now > 0 { now - 1 } else { 0 });
                has_before = true;
                chunk += u64::from(now);
                skip = 0;
                (words, now) = (ahead, next);
                if at < end && next == 0 {
                    // More slots were free.
                    left = chunks_of(end - at);
                    now = of_round(left);
                    words = load(chunk, now);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Advance`].
    pub struct AdvanceArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// A cursor, from [`LocateArgs::cursors`].
        pub cursor: u64,
        /// Pairs that there are after it.
        pub pairs: u64,
        /// Out: `[1]`, the cursor that many pairs further on.
        pub advanced: GlobalMut<u64>,
    }
}

/// Moves a cursor forward: one thread.
#[derive(Debug)]
pub struct Advance<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Advance<K, V> {
    type Args = AdvanceArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        if simt.global_index() > 0 {
            return;
        }
        let tree = &args.tree;
        let slots = u64::from(line_slots::<K, V>());
        // SAFETY: nodes and records of the tree.
        unsafe {
            let first_line = |number: u32| {
                let at = u64::from(number) * u64::from(NODE_WORDS) + u64::from(FIRST_CHILD);
                u64::from(simt.load(tree.nodes, at, Hint::ReadOnly))
            };
            let (line, slot) = (args.cursor / slots, args.cursor % slots);
            let node = last_node(tree.leaf_nodes, |number| first_line(number) <= line);
            let record = tree.record(simt, node);
            let within = (line - first_line(node)) as u32;
            let len = u64::from(record.len(within));
            let slot = if slot < len { slot } else { len };
            let rank = record.rank + u64::from(record.before(within)) + slot + args.pairs;
            let node = last_node(tree.leaf_nodes, |number| tree.record(simt, number).rank <= rank);
            let (record, mut within) = (tree.record(simt, node), 0);
            let mut left = (rank - record.rank) as u32;
            // Past the last pair there may be no further line.
            while left >= record.len(within) && first_line(node) + u64::from(within) + 1 < u64::from(tree.line_count) {
                left -= record.len(within);
                within += 1;
            }
            let cursor = (first_line(node) + u64::from(within)) * slots + u64::from(left);
            simt.store(args.advanced, 0, cursor, Hint::Default);
        }
    }
}

/// Per thread. The last of `count` nodes for which something holds that holds for the first one.
#[inline(always)]
fn last_node(count: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut base, mut left) = (0, count);
    while left > 1 {
        let half = left / 2;
        base += if holds(base + half) { half } else { 0 };
        left -= half;
    }
    base
}
