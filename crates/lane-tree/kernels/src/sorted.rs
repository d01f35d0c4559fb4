//! Look-ups of sorted queries: neighbours share buckets, so a warp copies the buckets between two queries to shared memory, once,
//! and searches there. An order that is only claimed costs speed, not answers.

use crate::layout::{
    BUCKET_WORDS, MOST_CHUNK_SLOTS, bucket_slots, chunk_slots, has_keys_alone, has_values_beside, pairs_of,
};
use crate::queries::{GetArgs, found_at, store_hits};
use crate::search::{TABLE_BYTES, TreeRef, load_top};
use crate::values::{self, SharedValues};
use crate::walk::Walk;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, WARP, unroll};

/// Parts of a tile: a bound for each, and one after the last.
const PARTS: u32 = WARP - 1;
/// Most buckets that are copied for a part.
const WINDOW: u32 = 64;
/// Bytes of a warp's window.
const WINDOW_BYTES: u32 = WINDOW * BUCKET_WORDS * 8;
/// Most chunks of a part's buckets that each lane loads while the part before is searched.
const AHEAD: usize = 5;

/// How many of them, if each lane has `own` queries of a part: where many share a bucket, a part has few buckets.
const fn ahead(own: usize) -> usize {
    if own == SORTED_OWN[0] { 3 } else { AHEAD }
}

/// Queries of a part, whose buckets are copied together, if each lane has `own` of them.
const fn part_of(own: usize) -> u32 {
    own as u32 * WARP
}

/// Queries of a warp's tile, if each lane has `own` of a part.
pub const fn sorted_tile(own: usize) -> u32 {
    PARTS * part_of(own)
}

/// The queries per lane with which [`GetSorted`] is compiled: where many queries share a bucket, and where few do.
pub const SORTED_OWN: [usize; 2] = [2, 1];

/// Threads of a block of [`GetSorted`].
pub const SORTED_THREADS: u32 = 640;

/// Looks up a batch of sorted keys, of which each lane has `OWN` at a time. One warp per [`sorted_tile`] queries; any grid of blocks of
/// at most [`SORTED_THREADS`] threads, with shared memory for the table and a window for each warp.
#[derive(Debug)]
pub struct GetSorted<K, V, const OWN: usize>(PhantomData<(K, V)>);

/// Bytes of shared memory per thread that [`GetSorted`] needs in addition to the table.
pub const SORTED_BYTES: u32 = WINDOW_BYTES / WARP;

impl<K: KeyWord, V: Value, const OWN: usize> Kernel for GetSorted<K, V, OWN> {
    type Args = GetArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: SORTED_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let of_part = u64::from(part_of(OWN));
        let warp = simt.block_index() * (simt.block_dim() / WARP) + simt.warp();
        let mut tile = u64::from(warp) * u64::from(sorted_tile(OWN));
        // SAFETY: there are as many queries; the tree is valid and has pairs.
        unsafe {
            load_top(simt, tree);
            while tile < args.count {
                // The first query of each part, and of the part after the last one.
                let index = tile + u64::from(simt.lane()) * of_part;
                let index = if index < args.count { index } else { args.count - 1 };
                let bound = tree.load(simt, args.queries, index, args.count);
                // Of the part that begins in the lane; of the last lane, none.
                let buckets = Buckets::between(simt, tree, tree.walk_of_any::<S, V>(simt, tree.first_top(), bound));
                let span = |part: u32| Span {
                    first: simt.shuffle(FULL_MASK, bound, part),
                    last: simt.shuffle(FULL_MASK, bound, part + 1),
                    buckets: buckets.of_lane(simt, part),
                };
                let start = |part: u32| tile + u64::from(part) * of_part;
                let mut of_next = span(0);
                let mut next = Part::<K, OWN>::load(simt, args, start(0), of_next);
                // The parts that are not sorted, or whose buckets are not in a window.
                let mut others = 0_u32;
                let mut part = 0;
                while part < PARTS && start(part) < args.count {
                    let (now, of_now) = (next.ordered(tree), of_next);
                    let is_near = now.is_near(simt, of_now);
                    if is_near {
                        now.stage(simt, args, of_now);
                    } else {
                        others |= 1 << part;
                    }
                    simt.sync_warp(FULL_MASK);
                    // Its loads are on their way while this part is searched.
                    let after = part + 1;
                    of_next = span(after.min(PARTS - 1));
                    next = match after < PARTS && start(after) < args.count {
                        true => Part::load(simt, args, start(after), of_next),
                        false => Part::NONE,
                    };
                    if is_near {
                        now.search(simt, args, start(part), of_now);
                    }
                    simt.sync_warp(FULL_MASK);
                    part = after;
                }
                while others > 0 {
                    descend::<S, K, V, OWN>(simt, args, start(others.trailing_zeros()));
                    others &= others - 1;
                }
                let warps = simt.grid_dim() * (simt.block_dim() / WARP);
                tile += u64::from(warps) * u64::from(sorted_tile(OWN));
            }
        }
    }
}

/// Most nodes that a window's first bucket may be before its last one's.
const MOST_NODES: u32 = 3;

/// [`Buckets::first`] of buckets that are in one piece.
const ALL: u32 = 0xffff;

/// Buckets in the order of their keys, in two pieces of memory at most.
#[derive(Clone, Copy)]
struct Buckets {
    /// How many, if they are in a window; otherwise 0.
    count: u32,
    /// How many of them are in the first piece, or [`ALL`].
    first: u32,
    /// Where each piece would begin if all of its buckets before it were in it, too.
    from: [u32; 2],
}

impl Buckets {
    /// Warp collective (all lanes). The buckets from the lane's first bucket to the first bucket of the next lane.
    ///
    /// # Safety
    /// Buckets of the tree.
    #[inline(always)]
    unsafe fn between<S: Simt, K: KeyWord>(simt: S, tree: &TreeRef<K>, walk: Walk) -> Self {
        let (to_node, to) = (simt.shuffle_down(FULL_MASK, walk.node, 1), simt.shuffle_down(FULL_MASK, walk.bucket, 1));
        let Walk { mut node, bucket, mut end } = walk;
        let mut buckets = Self { count: 0, first: ALL, from: [bucket, bucket] };
        let mut is_near = to_node.wrapping_sub(node) <= MOST_NODES;
        while is_near && node < to_node {
            // SAFETY: nodes of the tree.
            let next = unsafe { tree.next_node(simt, Walk { node, bucket, end }) };
            if next.bucket != end {
                is_near = buckets.first == ALL;
                buckets.first = end.wrapping_sub(buckets.from[0]);
                buckets.from[1] = next.bucket.wrapping_sub(buckets.first);
            }
            (node, end) = (next.node, next.end);
        }
        let from = if buckets.first == ALL { bucket } else { buckets.from[1] };
        let last = to.wrapping_sub(from);
        buckets.count = if is_near && last < WINDOW { last + 1 } else { 0 };
        buckets
    }

    /// Warp collective (all lanes). The buckets of lane `lane`.
    #[inline(always)]
    fn of_lane<S: Simt>(self, simt: S, lane: u32) -> Self {
        let of = |word| simt.shuffle(FULL_MASK, word, lane);
        let counts = of(simt.opaque(self.count | self.first << 16));
        Self { count: counts & 0xffff, first: counts >> 16, from: self.from.map(of) }
    }

    /// Where one of them is.
    #[inline(always)]
    fn bucket(self, bucket: u32) -> u32 {
        bucket.wrapping_add(if bucket < self.first { self.from[0] } else { self.from[1] })
    }
}

/// What sorted queries lie between.
#[derive(Clone, Copy)]
struct Span<K> {
    /// The first query, and one that is not below the last.
    first: K,
    last: K,
    buckets: Buckets,
}

impl<K> Span<K> {
    /// Its chunks of 16 bytes, if they are in a window.
    #[inline(always)]
    fn chunks(&self) -> u32 {
        self.buckets.count * (BUCKET_WORDS / 2)
    }

    /// The number of one of them, among all of the tree's.
    #[inline(always)]
    fn chunk(&self, chunk: u32) -> u64 {
        const CHUNKS: u32 = BUCKET_WORDS / 2;
        let base = |piece: usize| u64::from(self.buckets.from[piece]) * u64::from(CHUNKS);
        let is_first = chunk < self.buckets.first * CHUNKS;
        let at = if is_first { base(0) } else { base(1) } + u64::from(chunk);
        // Where the second piece would begin may be below the first bucket of all.
        at & ((u64::from(CHUNKS) << 32) - 1)
    }
}

/// A part: its queries, as the caller has them until it is searched, and the first of its buckets' chunks.
#[derive(Clone, Copy)]
struct Part<K, const OWN: usize> {
    own: [K; OWN],
    chunks: [[u64; 2]; AHEAD],
}

/// A warp's window: its pairs' keys and values.
#[inline(always)]
fn window<S: Simt, K: KeyWord, V: Value>(simt: S, tree: &TreeRef<K>) -> (Shared<K>, SharedValues<V>) {
    let at = found_at(tree.top_count) + simt.warp() * WINDOW_BYTES;
    let slots = WINDOW * bucket_slots::<K, V>();
    // Values first, if they are wider.
    if has_keys_alone::<K, V>() {
        // The values, if there are any, stay where they are.
        (Shared::at(at, slots), SharedValues::at(at, 0))
    } else if K::BYTES >= V::BYTES {
        let keys = Shared::<K>::at(at, slots);
        (keys, SharedValues::at(keys.end(), slots))
    } else {
        let values = SharedValues::at(at, slots);
        (Shared::<K>::at(values.end(), slots), values)
    }
}

impl<K: KeyWord, const OWN: usize> Part<K, OWN> {
    /// No queries.
    const NONE: Self = Self { own: [K::MIN; OWN], chunks: [[0; 2]; AHEAD] };

    /// The part that begins with a query.
    ///
    /// # Safety
    /// As for the kernel; there is such a query, and such buckets.
    #[inline(always)]
    unsafe fn load<S: Simt, V: Value>(simt: S, args: &GetArgs<K, V>, start: u64, span: Span<K>) -> Self {
        let mut part = Self::NONE;
        // SAFETY: queries, and chunks of buckets.
        unsafe {
            for j in 0..OWN {
                // Past the last query, the last query is repeated.
                let at = position(simt, start, j);
                let at = if at < args.count { at } else { args.count - 1 };
                part.own[j] = args.tree.load_raw(simt, args.queries, at, args.count);
            }
            for i in 0..ahead(OWN) {
                let chunk = i as u32 * WARP + simt.lane();
                if chunk < span.chunks() {
                    part.chunks[i] = args.tree.chunk::<S, V>(simt, span.chunk(chunk));
                }
            }
        }
        part
    }

    /// The part with its queries' ordered words, which waits for the loads.
    #[inline(always)]
    fn ordered(mut self, tree: &TreeRef<K>) -> Self {
        self.own = self.own.map(|query| query.xor(tree.flip));
        self
    }

    /// Warp collective (all lanes). Whether its queries are sorted, and its buckets in a window.
    #[inline(always)]
    fn is_near<S: Simt>(&self, simt: S, span: Span<K>) -> bool {
        let mut is_between = span.chunks() > 0;
        for key in self.own {
            is_between &= key >= span.first && key <= span.last;
        }
        simt.all(FULL_MASK, is_between)
    }

    /// Warp collective (all lanes). Copies its buckets to the window.
    ///
    /// # Safety
    /// They are in one, which is the warp's own.
    #[inline(always)]
    unsafe fn stage<S: Simt, V: Value>(&self, simt: S, args: &GetArgs<K, V>, span: Span<K>) {
        let (keys, values) = window::<S, K, V>(simt, &args.tree);
        // SAFETY: a warp's own window; buckets of the tree.
        unsafe {
            let put = |chunk: u32, words: [u64; 2]| {
                let pairs = pairs_of::<K, V>(words);
                let to = chunk * chunk_slots::<K, V>();
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < chunk_slots::<K, V>() {
                        simt.shared_store(keys, to + slot as u32, pairs[slot].0);
                        if !has_keys_alone::<K, V>() {
                            values.store(simt, to + slot as u32, pairs[slot].1);
                        }
                    }
                });
            };
            let chunks = span.chunks();
            unroll!(AHEAD, i => {
                let chunk = i as u32 * WARP + simt.lane();
                if i < ahead(OWN) && chunk < chunks {
                    put(chunk, self.chunks[i]);
                }
            });
            let mut chunk = ahead(OWN) as u32 * WARP + simt.lane();
            while chunk < chunks {
                put(chunk, args.tree.chunk::<S, V>(simt, span.chunk(chunk)));
                chunk += WARP;
            }
        }
    }

    /// Warp collective (all lanes). Looks its queries up in the window.
    ///
    /// # Safety
    /// As for the kernel; its buckets are there.
    #[inline(always)]
    unsafe fn search<S: Simt, V: Value>(&self, simt: S, args: &GetArgs<K, V>, start: u64, span: Span<K>) {
        let (keys, values) = window::<S, K, V>(simt, &args.tree);
        // SAFETY: inside the window; queries.
        unsafe {
            // Halving, always inside the window: no branch separates the probes of one step.
            let len = span.chunks() * chunk_slots::<K, V>();
            let mut below = [0_u32; OWN];
            let mut left = len;
            while left > 1 {
                let half = left / 2;
                let probes: [K; OWN] = core::array::from_fn(|j| simt.shared_load(keys, below[j] + half - 1));
                for j in 0..OWN {
                    below[j] += if probes[j] < self.own[j] { half } else { 0 };
                }
                left -= half;
            }
            unroll!(OWN, j => {
                // The halving leaves one slot, or the one after it.
                if simt.shared_load(keys, below[j]) < self.own[j] && below[j] + 1 < len {
                    below[j] += 1;
                }
                let at = position(simt, start, j);
                let is_hit = simt.shared_load(keys, below[j]) == self.own[j] && at < args.count;
                let slots = bucket_slots::<K, V>();
                let value = match is_hit {
                    true if has_values_beside::<K, V>() => {
                        args.tree.value(simt, span.buckets.bucket(below[j] / slots), below[j] % slots, args.miss)
                    }
                    true => values.load(simt, below[j]),
                    false => args.miss,
                };
                if at < args.count {
                    values::store(simt, args.values, at, value, Hint::Streaming);
                }
                store_hits(simt, args.hits, at, is_hit, args.count);
            });
        }
    }
}

/// The position of a lane's query in a part.
#[inline(always)]
fn position<S: Simt>(simt: S, start: u64, j: usize) -> u64 {
    start + j as u64 * u64::from(WARP) + u64::from(simt.lane())
}

/// Warp collective (all lanes). Looks the queries of a part up one by one.
///
/// # Safety
/// As for the kernel.
#[inline(always)]
unsafe fn descend<S: Simt, K: KeyWord, V: Value, const OWN: usize>(simt: S, args: &GetArgs<K, V>, start: u64) {
    let tree = &args.tree;
    let mut round = 0;
    // Not unrolled: the descent is long.
    while round < OWN as u32 {
        let index = start + u64::from(simt.opaque(round) * WARP + simt.lane());
        // SAFETY: queries, and buckets of the tree.
        unsafe {
            let key = tree.load(simt, args.queries, index, args.count);
            let bucket = tree.bucket_of_any::<S, V>(simt, tree.first_top(), key);
            let (mut value, mut is_hit) = (args.miss, false);
            let mut slot = 0;
            while slot < bucket_slots::<K, V>() {
                let (other, of_other) = tree.pair::<S, V>(simt, bucket, slot);
                if other == key {
                    (value, is_hit) = (of_other, index < args.count);
                }
                slot += 1;
            }
            if index < args.count {
                values::store(simt, args.values, index, value, Hint::Streaming);
            }
            store_hits(simt, args.hits, index, is_hit, args.count);
        }
        round += 1;
    }
}
