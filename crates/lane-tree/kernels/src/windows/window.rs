//! The window of a tile of sorted queries: the pairs that they lie between, in shared memory, without those of free slots.

use super::{GROUP, window_threads};
use crate::layout::{LINE_WORDS, MOST_CHUNK_SLOTS, chunk_slots, pairs_of};
use crate::search::TreeRef;
use crate::values::SharedValues;
use crate::walk::Walk;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Global, Hint, KernelArgs, KeyWord, Shared, Simt, WARP, unroll};

/// What a query is searched by: the number of keys below `key` or, if no key is above it, of all.
#[derive(Clone, Copy, Debug)]
pub struct Bound<K> {
    pub(super) key: K,
    pub(super) is_past_all: bool,
}

impl<K: KeyWord> Bound<K> {
    #[inline(always)]
    pub(super) fn below(key: K) -> Self {
        Self { key, is_past_all: false }
    }

    /// Keys not above this one are those below the next; all are, if there is none.
    #[inline(always)]
    pub(super) fn upto(key: K) -> Self {
        Self { key: key.wrapping_add(K::truncate(1)), is_past_all: key == K::MAX }
    }
}

/// Where a pair is: in which slot of which bucket of which node.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub(super) node: u32,
    pub(super) line: u32,
    pub(super) slot: u32,
}

/// A query, and where it ended in its window.
pub struct Asked<K, V, Q> {
    pub(super) window: Window<K, V, Q>,
    /// The place of the query.
    pub(super) at: u64,
    pub(super) word: K,
    /// The end, of a range.
    pub(super) end: K,
    /// Pairs of the window below its bound.
    pub(super) below: u32,
}

/// A batch of queries that are answered from windows.
pub trait Windowed<K: KeyWord, V: Value>: KernelArgs + Copy {
    /// What a window has of a pair beside its key.
    type Payload: Value;
    /// Whether queries are ranges, which have ends.
    const LOCATES: bool = false;
    /// Bytes of shared memory that [`Windowed::descend`] needs.
    const SCRATCH: u32 = 0;

    /// How many queries there are.
    fn count(&self) -> u64;

    /// The queries.
    fn queries(&self) -> Global<K>;

    /// Per thread. A query, as the caller has it, and the end of a range.
    ///
    /// # Safety
    /// There is such a query.
    #[inline(always)]
    unsafe fn load<S: Simt>(&self, simt: S, at: u64) -> (K, K) {
        // SAFETY: the caller's.
        (unsafe { simt.load(self.queries(), at, Hint::Streaming) }, K::MIN)
    }

    /// What a word is searched by.
    fn bound(&self, word: K) -> Bound<K>;

    /// Per thread. What a window is to have of a pair with this value, unless values are beside the buckets.
    ///
    /// # Safety
    /// The pair is there.
    unsafe fn payload<S: Simt>(simt: S, tree: &TreeRef<K>, place: Place, value: V) -> Self::Payload;

    /// Warp collective (all lanes). Writes the answers of the lanes' queries; none past the last one. Returns false in all lanes if some
    /// are not in the window.
    ///
    /// # Safety
    /// The outputs have places for all queries.
    unsafe fn answer<S: Simt>(&self, simt: S, tree: &TreeRef<K>, asked: Asked<K, V, Self>) -> bool;

    /// Warp collective (all lanes). The same of words that do not end in a window, and of which the lane's own has this place.
    ///
    /// # Safety
    /// As [`Windowed::answer`]; the tree has pairs.
    unsafe fn descend<S: Simt>(&self, simt: S, tree: &TreeRef<K>, query: (u64, K));
}

/// Bytes of a window.
const WINDOW_BYTES: u32 = 48 << 10;

/// Most pairs of a window. After them come keys that are above all.
pub const fn window_pairs<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    WINDOW_BYTES / (K::BYTES + <Q::Payload as Value>::BYTES) as u32 / WARP * WARP - REACH
}

/// A row's search begins where it is known that its queries end less than so many pairs further on.
const REACH: u32 = 64;

/// Bytes of shared memory beyond those that the kernel has by itself.
pub const fn window_shared<K: KeyWord, V: Value, Q: Windowed<K, V>>() -> u32 {
    WINDOW_BYTES + Q::SCRATCH
}

/// Most nodes that a window's pairs are in.
const MOST_NODES: u32 = 512;

/// Chunks that each lane loads at a time.
const AT_ONCE: usize = 4;
/// Chunks of a bucket.
const CHUNKS: u32 = LINE_WORDS / 2;

/// The node and the bucket of each window's first pair.
const NODES: Shared<u32> = Shared::at(0, WARP);
const LINES: Shared<u32> = Shared::at(NODES.end(), WARP);
/// Those of its last one.
const TO_NODES: Shared<u32> = Shared::at(LINES.end(), WARP);
const TO_LINES: Shared<u32> = Shared::at(TO_NODES.end(), WARP);
/// How many pairs it has; 0 if there is no window.
const LENS: Shared<u32> = Shared::at(TO_LINES.end(), WARP);
/// The first one's rank.
const RANKS: Shared<u64> = Shared::at(LENS.end(), WARP);
/// Bytes of shared memory for the edges of a group of tiles, with words of 128 bits.
pub(super) const EDGE_BYTES: u32 = RANKS.end() + 2 * 16 * WARP;

/// The words that end in it: from the first to the last of these.
const fn firsts<K: KeyWord>() -> Shared<K> {
    Shared::at(RANKS.end(), WARP)
}

const fn lasts<K: KeyWord>() -> Shared<K> {
    Shared::at(firsts::<K>().end(), WARP)
}

/// Warp collective (all lanes). Finds what the windows of a group of tiles, from `tile` on, consist of, and puts that in shared memory.
///
/// # Safety
/// As for the kernel; it is the warp that does so.
#[inline(always)]
pub(super) unsafe fn find_edges<S: Simt, K: KeyWord, V: Value, Q: Windowed<K, V>>(
    simt: S,
    (tree, batch): (&TreeRef<K>, &Q),
    (tile, of_tile): (u32, u32),
    reach: u32,
) {
    let (count, lane) = (batch.count(), simt.lane());
    let clipped = |at: u64| if at < count { at } else { count - 1 };
    let at = (u64::from(tile) + u64::from(lane)) * u64::from(of_tile);
    // SAFETY: queries, nodes and buckets of the tree.
    unsafe {
        let first = batch.load(simt, clipped(at)).0.xor(tree.flip);
        let walk = tree.walk_of_any::<S, V>(simt, tree.in_memory(), first);
        let next = simt.shuffle_down(FULL_MASK, first, 1);
        let (mut last, mut to) = (next, walk);
        if Q::LOCATES {
            // The tile's last range may end after the next tile's first one begins.
            let end = batch.load(simt, clipped(at + u64::from(of_tile - 1))).1.xor(tree.flip);
            last = if end < next { next } else { end };
            to = tree.walk_of_any::<S, V>(simt, tree.in_memory(), last);
        } else {
            let reached = tree.reach(simt, walk, reach);
            to.node = simt.shuffle_down(FULL_MASK, reached.node, 1);
            to.line = simt.shuffle_down(FULL_MASK, reached.line, 1);
        }
        let from = tree.first_line(simt, walk.node);
        // The pair before may be a predecessor.
        let line = if walk.line > from { walk.line - 1 } else { walk.line };
        let record = tree.record::<S, V>(simt, walk.node);
        let rank = record.rank + u64::from(record.before::<V>(line - from));
        let len = tree.rank_after::<S, V>(simt, to).wrapping_sub(rank);
        let is_window = to.node.wrapping_sub(walk.node) < MOST_NODES
            && len <= u64::from(window_pairs::<K, V, Q>())
            && first <= next
            && lane < GROUP;
        simt.shared_store(NODES, lane, walk.node);
        simt.shared_store(LINES, lane, line);
        simt.shared_store(TO_NODES, lane, to.node);
        simt.shared_store(TO_LINES, lane, to.line);
        simt.shared_store(LENS, lane, if is_window { len as u32 } else { 0 });
        simt.shared_store(RANKS, lane, rank);
        simt.shared_store(firsts::<K>(), lane, first);
        simt.shared_store(lasts::<K>(), lane, last);
    }
}

impl<K: KeyWord> TreeRef<K> {
    /// Per thread. How many pairs there are up to the end of a bucket.
    ///
    /// # Safety
    /// A bucket of the tree.
    #[inline(always)]
    unsafe fn rank_after<S: Simt, V: Value>(&self, simt: S, walk: Walk) -> u64 {
        // SAFETY: the caller's.
        unsafe {
            let record = self.record::<S, V>(simt, walk.node);
            let lines = walk.line + 1 - self.first_line(simt, walk.node);
            let rank = record.rank + u64::from(record.before::<V>(lines));
            // Of buckets that are free, lengths say nothing.
            let after = if walk.node + 1 < self.leaf_nodes { self.rank::<S, V>(simt, walk.node + 1) } else { self.len };
            if rank < after { rank } else { after }
        }
    }
}

/// The byte offset of what a warp has for handing pairs over: after the window.
#[inline(always)]
pub(super) fn staging_at<S: Simt, K: KeyWord, V: Value>(simt: S) -> u32 {
    EDGE_BYTES + WINDOW_BYTES + simt.warp() * WARP * (K::BYTES + V::BYTES) as u32
}

/// Buckets of a node.
#[derive(Clone, Copy)]
struct Lines {
    node: u32,
    begin: u32,
    end: u32,
}

/// A tile's window. What it consists of stays in shared memory: registers are few.
pub struct Window<K, V, Q> {
    /// The tile, in its group.
    tile: u32,
    query: PhantomData<(K, V, Q)>,
}

impl<K, V, Q> Clone for Window<K, V, Q> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V, Q> Copy for Window<K, V, Q> {}

impl<K: KeyWord, V: Value, Q: Windowed<K, V>> Window<K, V, Q> {
    #[inline(always)]
    pub(super) fn of(tile: u32) -> Self {
        Self { tile, query: PhantomData }
    }

    /// Per thread. How many pairs it has; 0 if there is no window.
    #[inline(always)]
    pub(super) fn len<S: Simt>(&self, simt: S) -> u32 {
        // SAFETY: windows are found before they are used.
        unsafe { simt.shared_load(LENS, self.tile) }
    }

    /// Per thread. The rank of its first pair.
    #[inline(always)]
    pub(super) fn rank<S: Simt>(&self, simt: S) -> u64 {
        // SAFETY: as above.
        unsafe { simt.shared_load(RANKS, self.tile) }
    }

    /// Per thread. Words up to this one end in it.
    #[inline(always)]
    pub(super) fn last<S: Simt>(&self, simt: S) -> K {
        // SAFETY: as above.
        unsafe { simt.shared_load(lasts::<K>(), self.tile) }
    }

    /// Block collective, without a barrier. Copies the pairs to the window: each warp those of other nodes.
    ///
    /// # Safety
    /// As for the kernel.
    #[inline(always)]
    pub(super) unsafe fn stage<S: Simt>(&self, simt: S, tree: &TreeRef<K>) {
        let (len, rank) = (self.len(simt), self.rank(simt));
        // SAFETY: nodes and buckets of the tree; the window has room for its pairs.
        unsafe {
            let (node, line) = (simt.shared_load(NODES, self.tile), simt.shared_load(LINES, self.tile));
            let (to_node, to_line) = (simt.shared_load(TO_NODES, self.tile), simt.shared_load(TO_LINES, self.tile));
            let nodes = if len > 0 { to_node - node + 1 } else { 0 };
            if simt.thread_index() < REACH {
                simt.shared_store(Self::keys(), len + simt.thread_index(), K::MAX);
            }
            let mut group = 0;
            while group < nodes {
                // Where the node of each lane begins and ends, all at once.
                let own = node + (group + simt.lane()).min(nodes - 1);
                let (begin, end) = (tree.first_line(simt, own), tree.end_line(simt, own));
                let begin = if own == node { line } else { begin };
                let end = if own == to_node { to_line + 1 } else { end };
                let at = if own == node { 0 } else { tree.rank::<S, V>(simt, own).wrapping_sub(rank) as u32 };
                let mut of_group = simt.warp();
                while of_group < WARP && group + of_group < nodes {
                    let of = |word| simt.shuffle(FULL_MASK, word, of_group);
                    let lines = Lines { node: of(own), begin: of(begin), end: of(end) };
                    self.fill(simt, tree, lines, of(at));
                    of_group += window_threads::<K, V, Q>() / WARP;
                }
                group += WARP;
            }
        }
    }

    /// Wider elements come first.
    #[inline(always)]
    fn keys() -> Shared<K> {
        let before = if K::BYTES >= <Q::Payload as Value>::BYTES { EDGE_BYTES } else { Self::payloads().end() };
        Shared::at(before, window_pairs::<K, V, Q>() + REACH)
    }

    #[inline(always)]
    fn payloads() -> SharedValues<Q::Payload> {
        let pairs = window_pairs::<K, V, Q>() + REACH;
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
        unsafe { simt.shared_load(Self::keys(), pair) }
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

    /// Warp collective (all lanes). Copies the pairs of buckets of a node to the places from `at` on.
    ///
    /// # Safety
    /// The window has these places, and nobody else writes them.
    #[inline(always)]
    unsafe fn fill<S: Simt>(&self, simt: S, tree: &TreeRef<K>, lines: Lines, mut at: u32) {
        let slots = chunk_slots::<K, V>();
        let chunks = (lines.end - lines.begin) * CHUNKS;
        let first = u64::from(lines.begin) * u64::from(CHUNKS);
        let mut last = K::MIN;
        let mut round = 0;
        // SAFETY: buckets of the tree.
        unsafe {
            while round * WARP < chunks {
                let mut words = [[0; 2]; AT_ONCE];
                unroll!(AT_ONCE, i => {
                    // Past the last chunk, that one again.
                    let chunk = (round + i as u32) * WARP + simt.lane();
                    words[i] = tree.chunk::<S, V>(simt, first + u64::from(chunk.min(chunks - 1)));
                });
                unroll!(AT_ONCE, i => {
                    // The same for all lanes.
                    if (round + i as u32) * WARP < chunks {
                        let chunk = (round + i as u32) * WARP + simt.lane();
                        let pairs = pairs_of::<K, V>(words[i]);
                        let own_last = pairs[MOST_CHUNK_SLOTS - 1].0;
                        let of_left = simt.shuffle_up(FULL_MASK, own_last, 1);
                        let left = if simt.lane() == 0 { last } else { of_left };
                        let mut new = [false; MOST_CHUNK_SLOTS];
                        let (mut place, mut count) = (at, 0);
                        unroll!(MOST_CHUNK_SLOTS, slot => {
                            if (slot as u32) < slots {
                                let before = if slot == 0 { left } else { pairs[slot.saturating_sub(1)].0 };
                                // Free slots repeat what is before them; the first bucket of a node is not free.
                                let is_new = slot == 0 && chunk == 0 || pairs[slot].0 > before;
                                new[slot] = chunk < chunks && is_new;
                                let mask = simt.ballot(FULL_MASK, new[slot]);
                                place += (mask & simt.lanes_below()).count_ones();
                                count += mask.count_ones();
                            }
                        });
                        unroll!(MOST_CHUNK_SLOTS, slot => {
                            if (slot as u32) < slots && new[slot] {
                                let within = chunk % CHUNKS * slots + slot as u32;
                                let from = Place { node: lines.node, line: lines.begin + chunk / CHUNKS, slot: within };
                                simt.shared_store(Self::keys(), place, pairs[slot].0);
                                Self::payloads().store(simt, place, Q::payload(simt, tree, from, pairs[slot].1));
                                place += 1;
                            }
                        });
                        at += count;
                        last = simt.shuffle(FULL_MASK, own_last, WARP - 1);
                    }
                });
                round += AT_ONCE as u32;
            }
        }
    }

    /// Warp collective (all lanes). Whether all lanes' words end in it.
    #[inline(always)]
    pub(super) fn has<S: Simt>(&self, simt: S, word: K) -> bool {
        // SAFETY: windows are found before they are used.
        let first = unsafe { simt.shared_load(firsts::<K>(), self.tile) };
        simt.all(FULL_MASK, self.len(simt) > 0 && word >= first && word <= self.last(simt))
    }

    /// Per thread. Whether the number of keys below a word's bound is from `from` to `from + 63`.
    ///
    /// # Safety
    /// There are as many pairs as `from`.
    #[inline(always)]
    pub(super) unsafe fn is_near<S: Simt>(&self, simt: S, from: u32, word: K, bound: Bound<K>) -> bool {
        let last = from + REACH - 1;
        // SAFETY: pairs of the window, or keys after them.
        unsafe {
            let is_above = match from {
                0 => word >= simt.shared_load(firsts::<K>(), self.tile),
                _ => self.key(simt, from - 1) < bound.key,
            };
            let is_below = match last < self.len(simt) {
                true => self.key(simt, last) >= bound.key,
                false => word <= self.last(simt),
            };
            is_above && is_below && !bound.is_past_all
        }
    }

    /// Per thread. Advances each number to that of the keys below a bound.
    ///
    /// # Safety
    /// They are near.
    #[inline(always)]
    pub(super) unsafe fn advance<S: Simt, const N: usize>(
        &self,
        simt: S,
        below: &mut [u32; N],
        bounds: &[Bound<K>; N],
    ) {
        let mut half = REACH / 2;
        while half > 0 {
            // SAFETY: pairs of the window, or keys after them.
            let probes: [K; N] = core::array::from_fn(|i| unsafe { self.key(simt, below[i] + half - 1) });
            for i in 0..N {
                below[i] += if probes[i] < bounds[i].key { half } else { 0 };
            }
            half /= 2;
        }
    }

    /// Per thread. How many keys are below a bound.
    ///
    /// # Safety
    /// There is a pair.
    #[inline(always)]
    pub(super) unsafe fn below<S: Simt>(&self, simt: S, bound: Bound<K>) -> u32 {
        if bound.is_past_all {
            return self.len(simt);
        }
        // Halving, always inside the window: it leaves one pair, or the one after it.
        let (mut below, mut left) = (0, self.len(simt));
        // SAFETY: pairs of the window.
        unsafe {
            while left > 1 {
                let half = left / 2;
                below += if self.key(simt, below + half - 1) < bound.key { half } else { 0 };
                left -= half;
            }
            below + u32::from(self.key(simt, below) < bound.key)
        }
    }
}
