//! The window of a tile of sorted queries: the pairs that they lie between, in shared memory, without those of free slots.

use super::{EDGES, GROUP, MOST_HALF, OF_EDGE, WARPS};
use crate::layout::{BUCKET_WORDS, MOST_CHUNK_SLOTS, chunk_slots, pairs_of};
use crate::range::Slot;
use crate::search::TreeRef;
use crate::values::SharedValues;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, KernelArgs, KeyWord, Shared, Simt, WARP, unroll};

/// The word whose pairs below are those not above a key. There is none after the last key: then it is the first key, below which no pair
/// is, and no window says that a query ends there ([`Window::is_in`]).
#[inline(always)]
pub(super) fn upto<K: KeyWord>(key: K) -> K {
    key.wrapping_add(K::truncate(1))
}

/// A query of a tile, and where it ended in the tile's window.
pub struct Asked<K, V, Q> {
    pub(super) window: Window<K, V, Q>,
    /// The position of the tile's first query.
    pub(super) first: u64,
    /// The query's position in the tile, if it is one.
    pub(super) own: u32,
    pub(super) is_query: bool,
    pub(super) word: K,
    /// The end, of a range.
    pub(super) end: K,
    /// Pairs of the window below its bound.
    pub(super) below: u32,
    /// The keys before the bound and after it.
    pub(super) around: (K, K),
}

/// A batch of queries that are answered from windows.
pub trait Windowed<K: KeyWord, V: Value>: KernelArgs + Copy {
    /// What a window has of a pair beside its key.
    type Payload: Value;
    /// Whether queries are ranges, which have ends.
    const LOCATES: bool = false;
    /// Bytes of shared memory that [`Windowed::descend`] needs, for each thread.
    const SCRATCH: u32 = 0;

    /// How many queries there are.
    fn count(&self) -> u64;

    /// The queries.
    fn queries(&self) -> Global<K>;

    /// The ends of ranges.
    #[inline(always)]
    fn ends(&self) -> Global<K> {
        Global::null()
    }

    /// Per thread. A query, as the caller has it, and the end of a range: the one so many after another.
    ///
    /// # Safety
    /// There is such a query.
    #[inline(always)]
    unsafe fn load<S: Simt>(&self, simt: S, first: u64, own: u32) -> (K, K) {
        let load = |keys: Global<K>| {
            // SAFETY: the caller's.
            unsafe { simt.load(keys.skip(first), own.into(), Hint::Streaming) }
        };
        (load(self.queries()), if Self::LOCATES { load(self.ends()) } else { K::MIN })
    }

    /// The word whose pairs below are to be counted for a query's.
    #[inline(always)]
    fn bound(&self, word: K) -> K {
        word
    }

    /// Per thread. What a window is to have of a pair with this value, unless values are beside the buckets.
    ///
    /// # Safety
    /// The pair is there.
    unsafe fn payload<S: Simt>(simt: S, tree: &TreeRef<K>, position: Slot, value: V) -> Self::Payload;

    /// Warp collective (all lanes). Writes the answers of the lanes' queries, which end in the window; none past the last one. Returns
    /// false in all lanes if more than the window would be needed.
    ///
    /// # Safety
    /// The outputs have positions for all queries.
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool;

    /// An output of a number for each query, none of which is the largest, for [`Windowed::mark`].
    #[inline(always)]
    fn numbers(&self) -> GlobalMut<u64> {
        GlobalMut::null()
    }

    /// Warp collective (all lanes). Marks that the queries from one on are not answered, in the place of an output that
    /// [`Windowed::answer`] writes for every query.
    ///
    /// # Safety
    /// There is such a query.
    #[inline(always)]
    unsafe fn mark<S: Simt>(&self, simt: S, at: u64) {
        if simt.lane() == 0 {
            // SAFETY: the caller's.
            unsafe { simt.store(self.numbers(), at, u64::MAX, Hint::Default) };
        }
    }

    /// Per thread. Whether there is a mark, or what looks like one.
    ///
    /// # Safety
    /// There is such a query, and it has been answered or marked.
    #[inline(always)]
    unsafe fn is_marked<S: Simt>(&self, simt: S, at: u64) -> bool {
        // SAFETY: the caller's.
        unsafe { simt.load(self.numbers().as_const(), at, Hint::Default) == u64::MAX }
    }

    /// Warp collective (all lanes). Writes the answers of any words, of which the lane's own has this position; none past the last one.
    ///
    /// # Safety
    /// The outputs have positions for all queries; the tree has pairs; shared memory has [`Windowed::SCRATCH`] bytes.
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, query: (u64, K));
}

/// Most bytes of a window.
const WINDOW_BYTES: u32 = 40 << 10;
/// Most pairs of a window, and of what is after them.
const MOST_PAIRS: u32 = 2560;

/// Positions of a window: one before the pairs, and [`REACH`] after them.
const fn positions<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    let room = WINDOW_BYTES / (K::BYTES + <Q::Payload as Value>::BYTES) as u32 / WARP * WARP;
    if room < MOST_PAIRS { room } else { MOST_PAIRS }
}

/// Most pairs of a window. After them come keys that are above all.
pub const fn window_pairs<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    positions::<K, V, Q>() - REACH - 1
}

/// A search by halving looks at fewer positions than these after the last pair, and at one more.
const REACH: u32 = 2 * MOST_HALF + 1;

/// Bytes of shared memory beyond those that the kernel has by itself.
pub const fn window_shared<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    positions::<K, V, Q>() * (K::BYTES + <Q::Payload as Value>::BYTES) as u32
}

/// A window has fewer nodes, of which those after many removals may have few pairs.
const MOST_NODES: u32 = 256;

/// Chunks that each lane loads at a time.
const AT_ONCE: usize = 4;
/// Chunks of a bucket.
const CHUNKS: u32 = BUCKET_WORDS / 2;
/// Buckets of these chunks. A node has as many, or twice as many.
const BUCKETS_AT_ONCE: u32 = WARP * AT_ONCE as u32 / CHUNKS;

/// The first node of each window, and the last one that has the end of a query.
const FROM: Shared<u32> = Shared::at(0, EDGES);
const TO: Shared<u32> = Shared::at(FROM.end(), EDGES);
/// How many pairs it has; 0 if there is no window.
const LENS: Shared<u32> = Shared::at(TO.end(), EDGES);
/// The first one's rank.
const RANKS: Shared<u64> = Shared::at(LENS.end(), EDGES);
/// Those of the tile that the block has.
const RANK: Shared<u64> = Shared::at(RANKS.end(), 1);
const LEN: Shared<u32> = Shared::at(RANK.end(), 1);
/// At how many pairs below it a query is not known to end: past all of the window, unless there are no more.
const LIMIT: Shared<u32> = Shared::at(LEN.end(), 1);
/// Bytes of shared memory before the pairs of a window.
pub(super) const EDGE_BYTES: u32 = LIMIT.end().next_multiple_of(16);

/// Block collective, without a barrier. Finds the nodes where the windows of a group of tiles, from `tile` on, begin and end.
///
/// # Safety
/// As for the kernel; [`measure`] follows after a barrier.
#[inline(always)]
pub(super) unsafe fn find_nodes<S: Simt, K: KeyWord, V: Value, Q: Windowed<K, V>>(
    simt: S,
    (tree, batch): (&TreeRef<K>, &Q),
    tile: u32,
    of_tile: u32,
) {
    let (edge, is_leader) = (simt.thread_index() / OF_EDGE, simt.lane().is_multiple_of(OF_EDGE));
    let clipped = |at: u64| if at < batch.count() { at } else { batch.count() - 1 };
    let at = (u64::from(tile) + u64::from(edge)) * u64::from(of_tile);
    // SAFETY: queries; each leader has elements of its own.
    unsafe {
        let word = batch.load(simt, clipped(at), 0).0.xor(tree.flip);
        let node = last_below::<S, K, V>(simt, tree, word);
        if is_leader {
            simt.shared_store(FROM, edge, node);
            if !Q::LOCATES && edge > 0 {
                simt.shared_store(TO, edge - 1, node);
            }
        }
        if Q::LOCATES {
            // The tile's last range may end after the next tile's first one begins.
            let end = batch.load(simt, clipped(at + u64::from(of_tile - 1)), 0).1.xor(tree.flip);
            let node = last_below::<S, K, V>(simt, tree, end);
            if is_leader {
                simt.shared_store(TO, edge, node);
            }
        }
    }
}

/// Warp collective (all lanes), with [`OF_EDGE`] lanes for each word. The last node of the lowest level whose first key is below a word, or
/// the first node.
///
/// # Safety
/// The tree has pairs.
#[inline(always)]
unsafe fn last_below<S: Simt, K: KeyWord, V: Value>(simt: S, tree: &TreeRef<K>, word: K) -> u32 {
    let (within, leader) = (simt.lane() % OF_EDGE, simt.lane() / OF_EDGE * OF_EDGE);
    let (mut node, mut left) = (0, tree.leaf_nodes);
    // The same for all lanes.
    while left > 1 {
        let step = left.div_ceil(OF_EDGE + 1);
        let probe = u64::from(node) + u64::from(within + 1) * u64::from(step);
        // SAFETY: a node.
        let is_below = probe < tree.leaf_nodes.into() && unsafe { tree.first_of::<S, V>(simt, probe as u32) } < word;
        let below = simt.ballot(FULL_MASK, is_below) >> leader & ((1 << OF_EDGE) - 1);
        node += below.count_ones() * step;
        left = step;
    }
    node
}

/// Per thread, by one warp. Finds how many pairs the windows of a group of tiles have.
///
/// # Safety
/// Their nodes are found.
#[inline(always)]
pub(super) unsafe fn measure<S: Simt, K: KeyWord, V: Value, Q: Windowed<K, V>>(simt: S, tree: &TreeRef<K>, reach: u32) {
    let own = simt.lane();
    if own == GROUP {
        return;
    }
    // SAFETY: nodes of the tree.
    unsafe {
        let (node, mut to) = (simt.shared_load(FROM, own), simt.shared_load(TO, own));
        if Q::LOCATES {
            to = to.max(simt.shared_load(FROM, own + 1));
        }
        let rank = tree.rank::<S, V>(simt, node);
        let mut after = tree.len;
        if to + 1 < tree.leaf_nodes {
            let next = tree.record::<S, V>(simt, to + 1);
            let all = if to + 2 < tree.leaf_nodes { tree.rank::<S, V>(simt, to + 2) } else { tree.len };
            after = next.rank + u64::from(next.before::<V>(reach));
            // Of buckets that are free, or are no buckets of the node, lengths say nothing.
            after = if after < all { after } else { all };
        }
        let len = after.wrapping_sub(rank);
        let is_window = to.wrapping_sub(node) < MOST_NODES && len <= u64::from(window_pairs::<K, V, Q>());
        simt.shared_store(TO, own, to);
        simt.shared_store(LENS, own, if is_window { len as u32 } else { 0 });
        simt.shared_store(RANKS, own, rank);
    }
}

/// The window of the tile that a block has: all of it is in shared memory, as registers are few.
pub struct Window<K, V, Q> {
    query: PhantomData<(K, V, Q)>,
}

impl<K, V, Q> Clone for Window<K, V, Q> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V, Q> Copy for Window<K, V, Q> {}

impl<K: KeyWord, V: Value, Q: Windowed<K, V>> Window<K, V, Q> {
    /// Per thread. How many pairs it has; 0 if there is no window.
    #[inline(always)]
    pub(super) fn len<S: Simt>(&self, simt: S) -> u32 {
        // SAFETY: stored before the barrier after which there is a window.
        unsafe { simt.shared_load(LEN, 0) }
    }

    /// Per thread. The rank of its first pair.
    #[inline(always)]
    pub(super) fn rank<S: Simt>(&self, simt: S) -> u64 {
        // SAFETY: as above.
        unsafe { simt.shared_load(RANK, 0) }
    }

    /// Per thread. At how many pairs below it a query is not known to end.
    #[inline(always)]
    pub(super) fn limit<S: Simt>(&self, simt: S) -> u32 {
        // SAFETY: as above.
        unsafe { simt.shared_load(LIMIT, 0) }
    }

    /// Per thread. Whether it ends with the last pair of the tree.
    #[inline(always)]
    pub(super) fn has_last<S: Simt>(&self, simt: S) -> bool {
        self.limit(simt) > self.len(simt)
    }

    /// Block collective, without a barrier, which comes next. Copies the pairs of a tile of the group to the window: each warp those of
    /// other nodes.
    ///
    /// # Safety
    /// As for the kernel; the group has been measured, and nobody uses the window before.
    #[inline(always)]
    pub(super) unsafe fn stage<S: Simt>(simt: S, tree: &TreeRef<K>, tile: u32, reach: u32) -> Self {
        // SAFETY: nodes and buckets of the tree; the window has room for its pairs.
        unsafe {
            let (len, rank) = (simt.shared_load(LENS, tile), simt.shared_load(RANKS, tile));
            if simt.thread_index() == 0 {
                simt.shared_store(LEN, 0, len);
                simt.shared_store(RANK, 0, rank);
                simt.shared_store(LIMIT, 0, len + u32::from(rank + u64::from(len) == tree.len));
                // Nothing is before the first pair of all. Of the pair before another one nothing is known, so no query ends there.
                simt.shared_store(Self::keys(), 0, if rank == 0 { K::MIN } else { K::MAX });
            }
            let (mut node, to) = (simt.shared_load(FROM, tile) + simt.warp(), simt.shared_load(TO, tile));
            if len > 0 && simt.thread_index() < REACH {
                simt.shared_store(Self::keys(), len + 1 + simt.thread_index(), K::MAX);
            }
            // The next node has the pairs above the last ones.
            while len > 0 && node <= to + 1 && node < tree.leaf_nodes {
                let (begin, end) = (tree.first_bucket(simt, node), tree.end_bucket(simt, node));
                let buckets = end - begin;
                let buckets = if node > to && reach < buckets { reach } else { buckets };
                Self::fill(simt, tree, tile, (node, begin, buckets));
                node += WARPS;
            }
        }
        Self { query: PhantomData }
    }

    /// The keys, each one position after its pair's. Wider elements come first.
    #[inline(always)]
    fn keys() -> Shared<K> {
        let before = if K::BYTES >= <Q::Payload as Value>::BYTES { EDGE_BYTES } else { Self::payloads().end() };
        Shared::at(before, positions::<K, V, Q>())
    }

    #[inline(always)]
    fn payloads() -> SharedValues<Q::Payload> {
        let pairs = positions::<K, V, Q>();
        let keys = Shared::<K>::at(EDGE_BYTES, pairs);
        SharedValues::at(if K::BYTES >= <Q::Payload as Value>::BYTES { keys.end() } else { EDGE_BYTES }, pairs)
    }

    /// Per thread. The key of a pair.
    ///
    /// # Safety
    /// There is such a pair.
    #[inline(always)]
    pub(super) unsafe fn key<S: Simt>(&self, simt: S, pair: u32) -> K {
        // SAFETY: the caller's.
        unsafe { simt.shared_load(Self::keys(), pair + 1) }
    }

    /// Per thread. What is wanted of a pair beside its key.
    ///
    /// # Safety
    /// There is such a pair.
    #[inline(always)]
    pub(super) unsafe fn payload<S: Simt>(&self, simt: S, pair: u32) -> Q::Payload {
        // SAFETY: the caller's.
        unsafe { Self::payloads().load(simt, pair) }
    }

    /// Warp collective (all lanes). Copies the pairs of the first `buckets` buckets of a node to their positions.
    ///
    /// # Safety
    /// The window has these positions, and nobody else writes them.
    #[inline(always)]
    unsafe fn fill<S: Simt>(simt: S, tree: &TreeRef<K>, tile: u32, (node, begin, buckets): (u32, u32, u32)) {
        let slots = chunk_slots::<K, V>();
        let last = buckets * CHUNKS - 1;
        // SAFETY: buckets of the tree.
        unsafe {
            let record = tree.record::<S, V>(simt, node);
            // Loaded for each node: registers are few.
            let (rank, len) = (simt.shared_load(RANKS, tile), simt.shared_load(LENS, tile));
            let mut at = record.rank.wrapping_sub(rank) as u32;
            // Where the next node begins, or the window ends: free buckets are after that, and what is no bucket of the node.
            let mut until = len;
            if node + 1 < tree.leaf_nodes {
                let next = tree.rank::<S, V>(simt, node + 1).wrapping_sub(rank);
                until = if next < u64::from(len) { next as u32 } else { len };
            }
            // Each lane has the same part of buckets that are side by side.
            let own_bucket = simt.lane() / CHUNKS * AT_ONCE as u32;
            let own_slot = simt.lane() % CHUNKS * slots;
            let mut from = 0;
            while from < buckets {
                let mut words = [[0; 2]; AT_ONCE];
                unroll!(AT_ONCE, i => {
                    // Past the last chunk, that one again.
                    let chunk = (from + own_bucket + i as u32) * CHUNKS + simt.lane() % CHUNKS;
                    words[i] = tree.chunk_after::<S, V>(simt, begin, chunk.min(last));
                });
                let planes = record.half(from > 0);
                let mut before = at + own_slot + planes.before(own_bucket);
                let planes = planes.from(own_bucket);
                unroll!(AT_ONCE, i => {
                    let own = planes.own(i as u32);
                    let pairs = pairs_of::<K, V>(words[i]);
                    unroll!(MOST_CHUNK_SLOTS, other => {
                        let (slot, position) = (own_slot + other as u32, before + other as u32);
                        if (other as u32) < slots && slot < own && position < until {
                            let from = Slot { node, bucket: begin + from + own_bucket + i as u32, slot };
                            simt.shared_store(Self::keys(), position + 1, pairs[other].0);
                            Self::payloads().store(simt, position, Q::payload(simt, tree, from, pairs[other].1));
                        }
                    });
                    before += own;
                });
                at += record.half(from > 0).all();
                from += BUCKETS_AT_ONCE;
            }
        }
    }

    /// Per thread. The keys before and after so many pairs.
    ///
    /// # Safety
    /// There are as many pairs, or fewer by less than [`REACH`].
    #[inline(always)]
    pub(super) unsafe fn around<S: Simt>(&self, simt: S, below: u32) -> (K, K) {
        // SAFETY: positions of the window.
        unsafe { (simt.shared_load(Self::keys(), below), simt.shared_load(Self::keys(), below + 1)) }
    }

    /// Per thread. Whether so many keys, which are between these two, are below a bound, and no more.
    #[inline(always)]
    pub(super) fn is_in<S: Simt>(&self, simt: S, below: u32, around: (K, K), bound: K) -> bool {
        around.0 < bound && around.1 >= bound && below < self.limit(simt)
    }

    /// Per thread. How many keys are below a bound, if these are at least so many, and fewer than twice `half` more.
    ///
    /// # Safety
    /// There are as many pairs.
    #[inline(always)]
    pub(super) unsafe fn advance<S: Simt>(&self, simt: S, mut below: u32, bound: K, half: u32) -> u32 {
        // SAFETY: pairs of the window, or keys after them.
        let mut step = |half: u32| unsafe {
            below += if self.key(simt, below + half - 1) < bound { half } else { 0 };
        };
        if half > 32 {
            step(MOST_HALF);
        }
        if half > 4 {
            step(32);
            step(16);
            step(8);
        }
        step(4);
        step(2);
        step(1);
        below
    }

    /// Per thread. How many keys are below a bound.
    ///
    /// # Safety
    /// There is a pair.
    #[inline(always)]
    pub(super) unsafe fn below<S: Simt>(&self, simt: S, bound: K) -> u32 {
        // Halving, always inside the window: it leaves one pair, or the one after it.
        let (mut below, mut left) = (0, self.len(simt));
        // SAFETY: pairs of the window.
        unsafe {
            while left > 1 {
                let half = left / 2;
                below += if self.key(simt, below + half - 1) < bound { half } else { 0 };
                left -= half;
            }
            below + u32::from(self.key(simt, below) < bound)
        }
    }

    /// Warp collective (all lanes). How many keys are below a bound that all lanes have.
    ///
    /// # Safety
    /// There is a pair.
    #[inline(always)]
    pub(super) unsafe fn below_all<S: Simt>(&self, simt: S, bound: K) -> u32 {
        let (mut below, mut left) = (0, self.len(simt));
        // The same for all lanes.
        while left > 0 {
            let step = left / (WARP + 1) + 1;
            let probe = (simt.lane() + 1) * step - 1;
            // SAFETY: pairs of the window.
            let is_below = probe < left && unsafe { self.key(simt, below + probe) } < bound;
            let found = simt.ballot(FULL_MASK, is_below).count_ones() * step;
            below += found;
            left = (left - found).min(step - 1);
        }
        below
    }
}
