//! Range queries, in two kernels with a prefix sum between them: [`Locate`] finds where each range begins and how many
//! pairs it has, [`Gather`] copies the pairs along the buckets. [`CopyPairs`] copies all pairs in the same way.

use crate::layout::{BUCKET_WORDS, MOST_CHUNK_SLOTS, chunk_slots, last_node, pairs_of};
use crate::quads::quad;
use crate::queries::{Tiles, ordered_bounds};
use crate::search::{Above, Start, TABLE_BYTES, TreeRef};
use crate::values;
use crate::walk::Walk;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    AggregateBatch, AllPairs, FULL_MASK, GatherBatch, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, LocateBatch,
    QueryArgs, Simt, WARP, Word, unroll,
};

/// Arguments of [`Locate`].
pub type LocateArgs<K> = QueryArgs<TreeRef<K>, LocateBatch<K>>;

/// Locates a batch of ranges; launched as [`Rank`](crate::Rank). Most ranges are short: their ends are looked for in the node where
/// they begin, or in the next one, without another descent.
#[derive(Debug)]
pub struct Locate<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Locate<K, V> {
    type Args = LocateArgs<K>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = ordered_bounds::<K>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let QueryArgs { tree, batch } = args;
        // SAFETY: there are as many ranges, and the tree is valid.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.starts, args.count);
            while let Some(start) = tiles.word(simt) {
                locate_row::<S, K, V>(simt, (tree, tree.first_top()), batch, (tiles.at, start));
                tiles.advance(simt);
            }
        }
    }
}

/// Warp collective (all lanes). Locates the ranges that begin with each lane's word, of which the lane's own has the position `at`; none past
/// the last.
///
/// # Safety
/// The tree is valid and its table is there; the outputs have the ranges' positions.
#[inline(always)]
pub(crate) unsafe fn locate_row<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    (tree, top): (&TreeRef<K>, impl Above),
    batch: &LocateBatch<K>,
    (at, start): (u64, K),
) {
    // SAFETY: the caller's.
    unsafe {
        let store_cursor = |cursor: u64| {
            if !batch.cursors.is_null() && simt.opaque(at) < batch.count {
                simt.store(batch.cursors, at, cursor, Hint::Default);
            }
        };
        let mut pairs = 0;
        if tree.height > 0 {
            // The start, then the end: one loop, as the code of a descent is long.
            let (mut word, mut is_end, mut is_far) = (start, false, true);
            let (mut rank, mut node) = (0, 0);
            // Without, these spill for some architectures.
            let late = K::BITS == 128 || !V::IS_SOME;
            loop {
                let from = if is_far {
                    tree.start(simt, top, word)
                } else {
                    Start { numbers: quad(simt, node), level: 0, rough: K::MIN }
                };
                let position = tree.find::<S, V>(simt, from, word, (is_end, late), |own| node = own);
                if simt.opaque(u32::from(is_end)) != 0 {
                    pairs = position.rank.saturating_sub(rank);
                    break;
                }
                store_cursor(Slot { node, bucket: position.bucket, slot: position.slot }.cursor());
                rank = position.rank;
                (word, is_end) = (tree.load(simt, batch.ends, at, batch.count), true);
                // Whether the end is in a node or after it.
                let is_from = |number: u32| number < tree.leaf_nodes && tree.first_of::<S, V>(simt, number) <= word;
                let is_next = is_from(node + 1);
                // The same for all lanes.
                is_far = simt.any(FULL_MASK, is_next && is_from(node + 2));
                node += u32::from(is_next);
            }
        } else {
            store_cursor(0);
        }
        if simt.opaque(at) < batch.count {
            store_count(simt, batch, at, pairs);
        }
    }
}

/// Per thread. Writes how many pairs a range has, of `pairs` without a limit.
///
/// # Safety
/// There is such a range.
#[inline(always)]
pub(crate) unsafe fn store_count<S: Simt, K: KeyWord>(simt: S, batch: &LocateBatch<K>, at: u64, pairs: u64) {
    let mut limit = batch.limit;
    // SAFETY: the caller's.
    unsafe {
        if !batch.limits.is_null() {
            limit = limit.min(simt.load(batch.limits, at, Hint::Streaming));
        }
        simt.store(batch.counts, at, pairs.min(limit), Hint::Default);
    }
}

/// Arguments of [`Gather`].
pub type GatherArgs<K, V> = QueryArgs<TreeRef<K>, GatherBatch<K, V>>;

/// A slot of a bucket of a node.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub(crate) node: u32,
    pub(crate) bucket: u32,
    /// Slots of the bucket before it; if all are, it is the first one of the next bucket.
    pub(crate) slot: u32,
}

/// Bits of a cursor for the slot, between the bits for the bucket and the bits for the node.
const SLOT_BITS: u32 = 5;

impl Slot {
    /// In a word, which has no more than the low bits of the node's number.
    #[inline(always)]
    pub(crate) fn cursor(self) -> u64 {
        u64::from(self.bucket) | u64::from(self.node << SLOT_BITS | self.slot) << 32
    }

    /// Per thread. The position of a cursor; 0 is the first pair's.
    ///
    /// # Safety
    /// The cursor is the tree's, which has pairs.
    #[inline(always)]
    unsafe fn of<S: Simt, K: KeyWord>(simt: S, tree: &TreeRef<K>, cursor: u64) -> Self {
        let (high, mut bucket) = ((cursor >> 32) as u32, cursor as u32);
        if cursor == 0 {
            // SAFETY: there is a node.
            bucket = unsafe { tree.first_bucket(simt, 0) };
        }
        Self { node: high >> SLOT_BITS, bucket, slot: high & ((1 << SLOT_BITS) - 1) }
    }

    /// Per thread. The buckets of its node from its own on: the number of the node is found out, if a cursor has not all of its
    /// bits.
    ///
    /// # Safety
    /// It is the tree's, from a cursor.
    #[inline(always)]
    unsafe fn walk<S: Simt, K: KeyWord>(self, simt: S, tree: &TreeRef<K>) -> Walk {
        // SAFETY: nodes of the tree, of which one has the bucket.
        unsafe {
            let mut walk = tree.walk(simt, self.node, self.bucket);
            // Nearly always there are no more nodes than those bits tell apart.
            while tree.leaf_nodes > 1 << (32 - SLOT_BITS) && {
                let first = tree.first_bucket(simt, walk.node);
                self.bucket.wrapping_sub(first) >= walk.end.wrapping_sub(first)
            } {
                walk = tree.walk(simt, walk.node + (1 << (32 - SLOT_BITS)), self.bucket);
            }
            walk
        }
    }
}

/// Chunks of 16 bytes of a bucket.
pub(crate) const CHUNKS: u32 = BUCKET_WORDS / 2;

/// The lanes per range with which [`Gather`] is compiled: for short ranges and for others.
pub const GATHER_WIDTHS: [u32; 2] = [8, 32];

/// Copies the pairs of a batch of ranges: `G` lanes per group of [`GatherRows`](lanetree_simt::GatherRows) read 16 bytes each; any block of whole warps.
#[derive(Debug)]
pub struct Gather<K, V, const G: u32>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value, const G: u32> Kernel for Gather<K, V, G> {
    type Args = GatherArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the rows' pairs are in the tree, whose cursors and counts these are, and the outputs have the window.
        unsafe {
            let part = args.rows.of_group(simt, simt.global_index() / u64::from(G));
            let mut cursor = part.cursor;
            if part.skip > 0 {
                cursor = advance::<S, K, V>(simt, &args.tree, cursor, part.skip);
            }
            copy::<S, K, V, G>(simt, &args.tree, cursor, (part.at, part.end), (args.keys, args.values));
        }
    }
}

/// Arguments of [`Aggregate`].
pub type AggregateArgs<K> = QueryArgs<TreeRef<K>, AggregateBatch>;

/// Aggregates the values of a batch of ranges: `G` lanes per range or part read 16 bytes each; any block of whole warps.
#[derive(Debug)]
pub struct Aggregate<K, V, const G: u32>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word, const G: u32> Kernel for Aggregate<K, V, G> {
    type Args = AggregateArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the ranges' pairs are in the tree, whose cursors and counts these are.
        unsafe {
            args.run::<S, G>(simt, |part| {
                let (mut cursor, mut sum) = (part.cursor, args.fold.start());
                if part.skip > 0 {
                    cursor = advance::<S, K, V>(simt, &args.tree, cursor, part.skip);
                }
                walk::<S, K, V, G>(simt, &args.tree, cursor, (0, part.len), |_, _, value| {
                    sum = args.fold.combine(sum, args.fold.of(value));
                });
                sum
            });
        }
    }
}

/// Per thread. The cursor that many pairs further on.
///
/// # Safety
/// A cursor of the tree, which has at least `pairs + 1` pairs from it on.
#[inline(always)]
unsafe fn advance<S: Simt, K: KeyWord, V: Value>(simt: S, tree: &TreeRef<K>, cursor: u64, pairs: u64) -> u64 {
    // SAFETY: nodes and records of the tree.
    unsafe {
        let slot = Slot::of(simt, tree, cursor);
        let node = slot.walk(simt, tree).node;
        let (record, within) = (tree.record::<S, V>(simt, node), slot.bucket - tree.first_bucket(simt, node));
        let len = record.len(within);
        let before = if slot.slot < len { slot.slot } else { len };
        let rank = record.rank + u64::from(record.before::<V>(within) + before) + pairs;
        let node = last_node(tree.leaf_nodes, |number| tree.record::<S, V>(simt, number).rank <= rank);
        let (record, mut bucket) = (tree.record::<S, V>(simt, node), 0);
        let mut slot = (rank - record.rank) as u32;
        // The node has this pair.
        while slot >= record.len(bucket) {
            slot -= record.len(bucket);
            bucket += 1;
        }
        Slot { node, bucket: tree.first_bucket(simt, node) + bucket, slot }.cursor()
    }
}

/// The chunks of a node from one of them on.
#[derive(Clone, Copy)]
struct Chunks {
    node: u32,
    /// How many there are.
    left: u32,
    chunk: u64,
}

impl Chunks {
    const NONE: Self = Self { node: 0, left: 0, chunk: 0 };

    /// Per thread. The buckets of the next node; none after the last.
    ///
    /// # Safety
    /// They are the tree's.
    #[inline(always)]
    unsafe fn next<S: Simt, K: KeyWord>(self, simt: S, tree: &TreeRef<K>) -> Self {
        // SAFETY: the caller's.
        let Walk { node, bucket, end } = unsafe { tree.next_node(simt, Walk { node: self.node, bucket: 0, end: 0 }) };
        Self { node, left: (end - bucket) * CHUNKS, chunk: u64::from(bucket) * u64::from(CHUNKS) }
    }
}

/// Warp collective (all lanes), with `G` lanes per range, which agree on it. Copies the pairs from a cursor on to the positions
/// from `at` to `end` of the outputs; none if these are equal.
///
/// # Safety
/// The tree has `end - at` pairs from the cursor on, and the outputs have the positions from `at` to `end`; keys are not
/// wanted if their output is null.
#[inline(always)]
pub(crate) unsafe fn copy<S: Simt, K: KeyWord, V: Value, const G: u32>(
    simt: S,
    tree: &TreeRef<K>,
    cursor: u64,
    positions: (u64, u64),
    (to_keys, to_values): (GlobalMut<K>, GlobalMut<V>),
) {
    // SAFETY: the caller's.
    unsafe {
        walk::<S, K, V, G>(simt, tree, cursor, positions, |to, key, value| {
            if !to_keys.is_null() {
                simt.store(to_keys, to, key.xor(tree.flip), Hint::Streaming);
            }
            values::store(simt, to_values, to, value, Hint::Streaming);
        });
    }
}

/// Warp collective (all lanes), with `G` lanes per range, which agree on it. Calls `each` for the pairs from a cursor on, in the lane
/// that has it, with the pair's position among those from `at` to `end`; for none if these are equal.
///
/// # Safety
/// The tree has `end - at` pairs from the cursor on.
#[inline(always)]
unsafe fn walk<S: Simt, K: KeyWord, V: Value, const G: u32>(
    simt: S,
    tree: &TreeRef<K>,
    cursor: u64,
    (mut at, end): (u64, u64),
    mut each: impl FnMut(u64, K, V),
) {
    let (within, leader) = (simt.lane() % G, simt.lane() / G * G);
    let lanes = if G == WARP { FULL_MASK } else { ((1 << G) - 1) << leader };
    let slots = chunk_slots::<K, V>();
    // SAFETY: the caller's.
    unsafe {
        // The slots of the first chunk that are not wanted.
        let mut skip = 0;
        let mut chunks = Chunks::NONE;
        // Lanes past the last chunk have that one again, which is nothing new.
        let load = |chunks: Chunks, is_wanted: bool| match is_wanted && chunks.left > 0 {
            true => {
                let own = if within < chunks.left { within } else { chunks.left - 1 };
                tree.chunk::<S, V>(simt, chunks.chunk + u64::from(own))
            }
            false => [0; 2],
        };
        // The key before the first chunk, if that is not its bucket's first: the cursor's slot may be free.
        let (mut before, mut has_before) = (K::MIN, false);
        let mut words = [0; 2];
        if at < end {
            let start = Slot::of(simt, tree, cursor);
            let of_bucket = start.slot / slots;
            skip = start.slot % slots;
            chunks.chunk = u64::from(start.bucket) * u64::from(CHUNKS) + u64::from(of_bucket);
            // Whatever comes after the node's buckets is loaded with them, as where they end is not known yet.
            let own = chunks.chunk + u64::from(within);
            let last_chunk = u64::from(tree.bucket_count) * u64::from(CHUNKS) - 1;
            words = tree.chunk::<S, V>(simt, if own < last_chunk { own } else { last_chunk });
            if of_bucket > 0 && skip == 0 {
                let pairs = pairs_of::<K, V>(tree.chunk::<S, V>(simt, chunks.chunk - 1));
                (before, has_before) = (pairs[MOST_CHUNK_SLOTS - 1].0, true);
            }
            let Walk { node, bucket, end } = start.walk(simt, tree);
            (chunks.node, chunks.left) = (node, (end - bucket) * CHUNKS - of_bucket);
            if chunks.left == 0 {
                chunks = chunks.next(simt, tree);
                words = load(chunks, true);
            } else if within >= chunks.left {
                words = load(chunks, true);
            }
        }
        while simt.any(FULL_MASK, at < end) {
            let here = chunks.chunk + u64::from(within);
            // What surely is not all: the loads of what follows overlap with these. Few lanes are for short ranges, and are to have
            // few registers.
            let has_more = G == WARP && at < end && end - at + u64::from(skip) > u64::from(G * slots);
            chunks.chunk += u64::from(G);
            chunks.left = chunks.left.saturating_sub(G);
            if has_more && chunks.left == 0 {
                chunks = chunks.next(simt, tree);
            }
            let ahead = load(chunks, has_more);
            let pairs = pairs_of::<K, V>(words);
            let last = pairs[MOST_CHUNK_SLOTS - 1].0;
            let left = simt.shuffle_up(FULL_MASK, last, 1);
            let (left, has_left) = if within == 0 { (before, has_before) } else { (left, true) };
            // Free slots repeat what is before them.
            let mut new = [false; MOST_CHUNK_SLOTS];
            let (mut position, mut count) = (0, 0);
            unroll!(MOST_CHUNK_SLOTS, i => {
                if (i as u32) < slots {
                    let is_first = i == 0 && !has_left;
                    let before = if i == 0 { left } else { pairs[i.saturating_sub(1)].0 };
                    let is_skipped = within == 0 && (i as u32) < skip;
                    let is_next = pairs[i].0 > before && (i == 0 || !has_left || pairs[i].0 > left);
                    new[i] = (is_first || is_next) && !is_skipped;
                    let mask = simt.ballot(FULL_MASK, new[i]) & lanes;
                    position += (mask & simt.lanes_below()).count_ones();
                    count += mask.count_ones();
                }
            });
            for (i, &(key, value)) in pairs.iter().enumerate() {
                let to = at + u64::from(position);
                position += u32::from(new[i]);
                if new[i] && to < end {
                    let (bucket, slot) = (here / u64::from(CHUNKS), here % u64::from(CHUNKS));
                    each(to, key, tree.value(simt, bucket as u32, slot as u32, value));
                }
            }
            at += u64::from(count);
            before = simt.shuffle(FULL_MASK, last, leader + G - 1);
            has_before = true;
            skip = 0;
            words = ahead;
            if at < end && !has_more {
                // Slots that are free make one more round.
                if chunks.left == 0 {
                    chunks = chunks.next(simt, tree);
                }
                words = load(chunks, true);
            }
        }
    }
}

/// Arguments of [`CopyPairs`].
pub type CopyPairsArgs<K, V> = QueryArgs<TreeRef<K>, AllPairs<K, V>>;

/// Copies all pairs: a warp per node of the lowest level; any block of whole warps.
#[derive(Debug)]
pub struct CopyPairs<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for CopyPairs<K, V> {
    type Args = CopyPairsArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let node = simt.global_index() / u64::from(WARP);
        if node >= u64::from(tree.leaf_nodes) {
            return;
        }
        let node = node as u32;
        // SAFETY: a node of the tree, and the next one if there is one. Nodes have the pairs from their ranks on, of which the
        // outputs have all.
        unsafe {
            let at = tree.record::<S, V>(simt, node).rank;
            let end = if node + 1 < tree.leaf_nodes { tree.record::<S, V>(simt, node + 1).rank } else { tree.len };
            let cursor = Slot { node, bucket: tree.first_bucket(simt, node), slot: 0 }.cursor();
            copy::<S, K, V, WARP>(simt, tree, cursor, (at, end), (args.keys, args.values));
        }
    }
}
