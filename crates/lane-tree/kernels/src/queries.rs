//! The queries that end at a bucket, one per lane: look-ups, ranks and neighbours.

use crate::layout::{MOST_CHUNK_SLOTS, bucket_slots, chunk_slots, has_keys_alone, pairs_of};
use crate::quads::{QUAD, byte_of, own, sum_bytes};
use crate::search::{Above, TABLE_BYTES, TreeRef, load_top};
use crate::values::{self, SharedValues};
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, GetBatch, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, NearArrays, NeighborBatch, QueryArgs,
    RankBatch, Shared, Simt, Verdict, WARP, kernel_args, unroll,
};

/// Most threads of a block of look-ups: one block fills a multiprocessor, so there is one copy of the table. Keys of 128 bits take more
/// registers.
pub const fn query_threads<K: KeyWord>() -> u32 {
    if K::BITS == 128 { 896 } else { 1024 }
}

/// Most threads of a block of ordered queries, which take more registers.
pub const fn ordered_threads<K: KeyWord>() -> u32 {
    if K::BITS == 128 { 768 } else { 896 }
}

/// What the compiler may assume of ordered queries.
pub(crate) const fn ordered_bounds<K: KeyWord>() -> Option<LaunchBounds> {
    Some(LaunchBounds { threads: ordered_threads::<K>(), blocks: 1 })
}

/// The tiles of queries that a warp has, all lanes at once, each lane with a query; the grid may be smaller than the batch. No function
/// takes what is done with each: the compiler does not inline it if it is very large.
pub(crate) struct Tiles<'a, K> {
    tree: &'a TreeRef<K>,
    queries: Global<K>,
    count: u64,
    /// The position of the lane's query.
    pub(crate) at: u64,
    /// The lane's query, as the caller has it.
    raw: K,
}

impl<'a, K: KeyWord> Tiles<'a, K> {
    /// Block collective. Copies the table to shared memory.
    ///
    /// # Safety
    /// As [`load_top`]; there are `count` queries.
    #[inline(always)]
    pub(crate) unsafe fn new<S: Simt>(simt: S, tree: &'a TreeRef<K>, queries: Global<K>, count: u64) -> Self {
        let at = simt.global_index();
        // SAFETY: the caller's contract.
        unsafe {
            // Before the table: both take as long as memory does.
            let raw = tree.load_raw(simt, queries, at, count);
            load_top(simt, tree);
            Self { tree, queries, count, at, raw }
        }
    }

    /// Per thread, with all lanes of its warp alike. The word of the lane's query, unless there are no more tiles. That of the next
    /// tile is loaded meanwhile.
    ///
    /// # Safety
    /// As [`Tiles::new`].
    #[inline(always)]
    pub(crate) unsafe fn word<S: Simt>(&mut self, simt: S) -> Option<K> {
        // The same for all lanes of a warp.
        if self.at - u64::from(simt.lane()) >= self.count {
            return None;
        }
        let word = self.raw.xor(self.tree.flip);
        // SAFETY: the caller's contract.
        self.raw = unsafe { self.tree.load_raw(simt, self.queries, self.at + Self::stride(simt), self.count) };
        Some(word)
    }

    /// Goes to the next tile.
    #[inline(always)]
    pub(crate) fn advance<S: Simt>(&mut self, simt: S) {
        self.at += Self::stride(simt);
    }

    #[inline(always)]
    fn stride<S: Simt>(simt: S) -> u64 {
        u64::from(simt.grid_dim()) * u64::from(simt.block_dim())
    }
}

/// Warp collective (all lanes). Writes the hit mask of the queries from the warp's first on, unless it is null. There are no
/// hits past the last query.
///
/// # Safety
/// There are `count` queries, and a word for each 32 of them.
#[inline(always)]
pub(crate) unsafe fn store_hits<S: Simt>(simt: S, hits: GlobalMut<u32>, at: u64, is_hit: bool, count: u64) {
    if hits.is_null() {
        return;
    }
    let word = simt.ballot(FULL_MASK, is_hit);
    // The callers have branched by this before the ballot.
    let at = simt.opaque(at);
    if simt.lane() == 0 && at < count {
        // SAFETY: one word per 32 queries.
        unsafe { simt.store(hits, at / u64::from(WARP), word, Hint::Streaming) };
    }
}

/// A kernel of queries that can be told how many there are.
pub trait Counts: Kernel {
    /// [`Kernel::run`], of the first `count` queries.
    ///
    /// # Safety
    /// As [`Kernel::run`]; there are as many queries, and room for their results.
    unsafe fn answer<S: Simt>(simt: S, args: &Self::Args, count: u64);
}

kernel_args! {
    /// Arguments of [`Counted`].
    pub struct CountedArgs<A> {
        /// Those of the queries. Their number is the most that there may be.
        pub most: A,
        /// How many there are: `[1]`. It may be in another device's memory.
        pub count: Global<u32>,
    }
}

/// Queries of which the device has the number: launched as the kernel `Q`, for the most that there may be.
#[derive(Debug)]
pub struct Counted<Q>(PhantomData<Q>);

impl<Q: Counts> Kernel for Counted<Q> {
    type Args = CountedArgs<Q::Args>;
    const STATIC_SHARED: u32 = Q::STATIC_SHARED;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Q::LAUNCH_BOUNDS;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the caller's contract.
        unsafe {
            let count = u64::from(simt.load(args.count, 0, Hint::ReadOnly));
            // A block without queries needs no table.
            if u64::from(simt.block_index()) * u64::from(simt.block_dim()) < count {
                Q::answer(simt, &args.most, count);
            }
        }
    }
}

/// Arguments of [`Get`].
pub type GetArgs<K, V> = QueryArgs<TreeRef<K>, GetBatch<K, V>>;

/// The byte offset of what look-ups need after the table: a value per thread, and neighbours a pair.
pub(crate) const fn found_at(top_count: u32) -> u32 {
    (TABLE_BYTES + top_count * 4).next_multiple_of(16)
}

/// Bytes of shared memory that a thread needs in which others put the value that they find.
pub const fn found_bytes<K: KeyWord, V: Value>() -> u32 {
    if has_keys_alone::<K, V>() { 0 } else { V::BYTES as u32 }
}

/// Bytes of shared memory that a thread needs in which others put the pair that they find.
pub const fn found_pair_bytes<K: KeyWord, V: Value>() -> u32 {
    if has_keys_alone::<K, V>() { 0 } else { (K::BYTES + V::BYTES) as u32 }
}

/// Bytes of shared memory, beyond [`Kernel::STATIC_SHARED`], for the table and `bytes` per thread: look-ups need the
/// bytes of a value, neighbours the bytes of a pair, all others none.
pub const fn query_shared(top_count: u32, threads: u32, bytes: u32) -> u32 {
    found_at(top_count) - TABLE_BYTES + threads * bytes
}

/// Looks up a batch of keys: one per lane; any grid of blocks of whole warps, with shared memory for the table.
#[derive(Debug)]
pub struct Get<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Get<K, V> {
    type Args = GetArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: query_threads::<K>(), blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { Self::answer(simt, args, args.count) };
    }
}

impl<K: KeyWord, V: Value> Counts for Get<K, V> {
    #[inline(always)]
    unsafe fn answer<S: Simt>(simt: S, args: &Self::Args, count: u64) {
        let tree = &args.tree;
        let top = tree.first_top();
        let found = SharedValues::at(found_at(tree.top_count), simt.block_dim());
        // SAFETY: there are as many queries, and the tree is valid; each lane has an element of `found`.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.queries, count);
            while let Some(word) = tiles.word(simt) {
                let at = tiles.at;
                let (value, mut is_hit) = tree.look_up(simt, top, found, word, args.miss);
                is_hit &= at < count;
                if at < count {
                    values::store(simt, args.values, at, value, Hint::Streaming);
                }
                store_hits(simt, args.hits, at, is_hit, count);
                tiles.advance(simt);
            }
        }
    }
}

/// Arguments of [`Rank`].
pub type RankArgs<K> = QueryArgs<TreeRef<K>, RankBatch<K>>;

/// Arguments of [`Rank`], [`Counted`].
pub type RankCountedArgs<K> = CountedArgs<RankArgs<K>>;

/// Ranks a batch of keys; launched as [`Get`], in blocks of at most [`ordered_threads`].
#[derive(Debug)]
pub struct Rank<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Rank<K, V> {
    type Args = RankArgs<K>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = ordered_bounds::<K>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { Self::answer(simt, args, args.count) };
    }
}

impl<K: KeyWord, V: Value> Counts for Rank<K, V> {
    #[inline(always)]
    unsafe fn answer<S: Simt>(simt: S, args: &Self::Args, count: u64) {
        let tree = &args.tree;
        // SAFETY: there are as many queries, and the tree is valid.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.queries, count);
            while let Some(word) = tiles.word(simt) {
                let at = tiles.at;
                let mut rank = 0;
                if tree.height > 0 {
                    let start = tree.start(simt, tree.first_top(), word);
                    rank = tree.find::<S, V>(simt, start, word, (args.upper != 0, false), |_| ()).rank;
                }
                if at < count {
                    simt.store(args.ranks, at, rank, Hint::Streaming);
                }
                tiles.advance(simt);
            }
        }
    }
}

/// Arguments of [`Neighbor`].
pub type NeighborArgs<K, V> = QueryArgs<TreeRef<K>, NeighborBatch<K, V>>;

/// Finds the predecessors or successors of a batch of keys; launched as [`Get`], in blocks of at most [`ordered_threads`].
#[derive(Debug)]
pub struct Neighbor<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Neighbor<K, V> {
    type Args = NeighborArgs<K, V>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = ordered_bounds::<K>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { Self::answer(simt, args, args.count) };
    }
}

impl<K: KeyWord, V: Value> Counts for Neighbor<K, V> {
    #[inline(always)]
    unsafe fn answer<S: Simt>(simt: S, args: &Self::Args, count: u64) {
        let tree = &args.tree;
        let (predecessor, top) = (args.predecessor != 0, tree.first_top());
        // What the lane that finds a neighbour hands over to the lane that asked.
        let of_warp = WARP * (K::BYTES + V::BYTES) as u32;
        let found = Staged::<K, V>::at(found_at(tree.top_count) + simt.warp() * of_warp);
        // SAFETY: there are as many queries, and the tree is valid; each lane has an element of `found`.
        unsafe {
            let mut tiles = Tiles::new(simt, tree, args.queries, count);
            while let Some(word) = tiles.word(simt) {
                let at = tiles.at;
                let mut neighbor = None;
                if tree.height > 0 {
                    neighbor = tree.neighbor(simt, top, args.near.sought(word, predecessor), predecessor, found);
                }
                let mut verdict = Verdict::Missed;
                if at < count {
                    let arrays = NearArrays { queries: args.queries, keys: args.keys, hits: args.hits };
                    verdict = args.near.judge(simt, at, tree.flip, arrays, neighbor.map(|pair| pair.0));
                    let mut value = args.miss;
                    if let (Some((key, of_key)), Verdict::Found) = (neighbor, verdict) {
                        simt.store(args.keys, at, key.xor(tree.flip), Hint::Streaming);
                        value = of_key;
                    }
                    if verdict != Verdict::Kept {
                        values::store(simt, args.values, at, value, Hint::Streaming);
                    }
                }
                store_hits(simt, args.hits, at, verdict.is_hit(), count);
                tiles.advance(simt);
            }
        }
    }
}

/// A pair for each lane of a warp, in shared memory.
pub(crate) struct Staged<K, V: Value> {
    keys: Shared<K>,
    values: SharedValues<V>,
}

impl<K, V: Value> Clone for Staged<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V: Value> Copy for Staged<K, V> {}

impl<K: KeyWord, V: Value> Staged<K, V> {
    /// From a byte offset on, a multiple of 16.
    #[inline(always)]
    pub(crate) fn at(offset: u32) -> Self {
        // If buckets have keys alone, no pair is handed over.
        let lanes = if has_keys_alone::<K, V>() { 0 } else { WARP };
        let values = SharedValues::at(offset, lanes);
        Self { values, keys: Shared::at(values.end(), lanes) }
    }
}

impl<K: KeyWord> TreeRef<K> {
    /// Warp collective (all lanes). The pair next to each lane's word: the last one whose key is not above it, or the first one
    /// whose key is not below.
    ///
    /// # Safety
    /// As [`TreeRef::descend`]; `found` is the warp's own.
    #[inline(always)]
    pub(crate) unsafe fn neighbor<S: Simt, V: Value>(
        &self,
        simt: S,
        top: impl Above,
        word: K,
        predecessor: bool,
        found: Staged<K, V>,
    ) -> Option<(K, V)> {
        let (within, leader) = (simt.lane() % QUAD, simt.lane() / QUAD * QUAD);
        let (own_position, first_position) = (simt.lane(), leader);
        let (slots, in_bucket) = (chunk_slots::<K, V>(), bucket_slots::<K, V>());
        // SAFETY: nodes, buckets and slots of the tree.
        unsafe {
            let (descent, node) = self.descend_any::<S, V>(simt, top, word);
            let buckets = descent.children.numbers();
            let bucket = own(simt, buckets);
            let is_first_bucket = byte_of(descent.children.before, within) == 0;
            let chunks = self.chunks::<S, V>(simt, buckets);
            let (mut is_found, mut own_slot) = (false, 0);
            let is_before = |key, word| (key < word) | (predecessor & (key == word));
            // How many of each bucket's keys, a byte for each bucket. All are compared before the lanes exchange anything: with a
            // ballot for each bucket, its load waits for the one before.
            let mut before = 0;
            unroll!(QUAD as usize, round => {
                let word = simt.shuffle(FULL_MASK, word, leader + round as u32);
                let pairs = pairs_of::<K, V>(chunks[round]);
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < slots {
                        before += u32::from(is_before(pairs[slot].0, word)) << (8 * round);
                    }
                });
            });
            let before = sum_bytes(simt, before);
            unroll!(QUAD as usize, round => {
                let pairs = pairs_of::<K, V>(chunks[round]);
                // Free slots repeat the last pair, so it does not matter that they are counted.
                let below = byte_of(before, round as u32);
                let slot = if predecessor { below.wrapping_sub(1) } else { below };
                if !has_keys_alone::<K, V>() && slot / slots == within && slot < in_bucket {
                    let (key, value) = if slot % slots == 0 { pairs[0] } else { pairs[1] };
                    simt.shared_store(found.keys, first_position + round as u32, key);
                    found.values.store(simt, first_position + round as u32, value);
                }
                if within == round as u32 {
                    (is_found, own_slot) = (slot < in_bucket, slot);
                }
            });
            simt.sync_warp(FULL_MASK);
            let mut neighbor = None;
            if is_found && has_keys_alone::<K, V>() {
                neighbor = Some(self.pair(simt, bucket, own_slot));
            } else if is_found {
                neighbor = Some((simt.shared_load(found.keys, own_position), found.values.load(simt, own_position)));
            } else if predecessor {
                // The last slot of the bucket before has its last pair, whether or not it is free.
                let mut end = bucket;
                if is_first_bucket {
                    end = if node > 0 { self.end_bucket(simt, node - 1) } else { 0 };
                }
                if end > 0 {
                    neighbor = Some(self.pair(simt, end - 1, in_bucket - 1));
                }
            } else {
                // A bucket that is free repeats the pair before, and what follows of its node is free, too.
                // The last one of all is loaded in its place, where there is no other: both loads overlap.
                let next = self.walk(simt, node, bucket + 1);
                let at = if next.bucket < self.bucket_count { next.bucket } else { bucket };
                let pair = self.pair::<S, V>(simt, at, 0);
                if next.bucket < next.end && pair.0 >= word {
                    neighbor = Some(pair);
                } else {
                    let next = self.next_node(simt, next);
                    if next.bucket < next.end {
                        neighbor = Some(self.pair(simt, next.bucket, 0));
                    }
                }
            }
            simt.sync_warp(FULL_MASK);
            neighbor
        }
    }
}
