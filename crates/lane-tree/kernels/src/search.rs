//! The tree as kernels see it, and the descent.
//!
//! Each lane has a query. At every level four lanes read a node together, 16 bytes each, for each of their four queries in
//! turn: so a node is one access to a cache line, and four of them are on their way at a time. The lane whose query it is
//! gets the node's head and hands out its quantised key; all four count the separators in their 16 bytes.

mod memory;
mod top;

pub use top::TABLE_BYTES;
pub(crate) use top::{Above, Top, load_top};

use crate::layout::{
    ANY_FORMAT, FORMAT_BITS, Format, MOST_CHUNK_SLOTS, MOST_PLANES, Quantiser, Record, UNUSED_HALF,
    begun_in_bitmap as in_bitmap, begun_in_guarded, chunk_slots, guarded, has_keys_alone, node_at, pairs_of,
};
use crate::quads::{OfQuad, QUAD, byte_of, own, sum_bytes};
use crate::values::SharedValues;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Global, Hint, KeyWord, Simt, kernel_args, unroll};

kernel_args! {
    /// A tree on the device: passed to kernels by value.
    pub struct TreeRef<K> {
        /// The buckets; a node's buckets are consecutive, in the order of their keys:
        /// [`words_of_buckets`](crate::layout::words_of_buckets) for `bucket_count`.
        pub buckets: Global<u64>,
        /// The nodes, level by level from the lowest: [`NODE_WORDS`] each.
        pub nodes: Global<u32>,
        /// A record for each node of the lowest level: [`record_words`] each.
        pub records: Global<u64>,
        /// The bucket after the last one of each node of the lowest level.
        pub ends: Global<u32>,
        /// The first key of each node above the lowest level.
        pub firsts: Global<K>,
        /// The first key of each node of the highest level: `[top_count]`.
        pub top: Global<K>,
        /// The prefix of each of these.
        pub prefixes: Global<u32>,
        /// For each of [`TABLE_ENTRIES`] buckets of prefixes the first and the last node of the highest level in which their keys
        /// may be, 16 bits each.
        pub table: Global<u32>,
        /// Pairs.
        pub len: u64,
        /// Buckets, with those that no node has.
        pub bucket_count: u32,
        /// Nodes of the lowest level.
        pub leaf_nodes: u32,
        /// Nodes of the highest level.
        pub top_count: u32,
        /// The number of the first of them.
        pub top_first: u32,
        /// [`Prefixes::shift`].
        pub prefix_shift: u32,
        /// A prefix's bucket is the prefix, shifted to the right by this.
        pub table_shift: u32,
        /// Levels of nodes; 0 for a tree without pairs.
        pub height: u32,
        /// The formats that nodes of each level have, [`FORMAT_BITS`] a level.
        pub formats: u32,
        /// [`Prefixes::origin`].
        pub origin: K,
        /// [`Prefixes::split`].
        pub split: K,
        /// [`Prefixes::gap`].
        pub gap: K,
        /// Exclusive-or mask between the caller's keys and ordered words.
        pub flip: K,
    }
}

/// The children of four nodes for four words: their numbers are sums of these.
pub(crate) struct Children {
    /// The first child of each.
    firsts: OfQuad<u32>,
    /// How many children come before the one for the word: a byte each.
    pub(crate) before: u32,
    /// Whether look-ups, which do not ask how far the lane's own word is from others, come to the same bucket.
    is_plain: bool,
}

impl Children {
    /// Their numbers.
    #[inline(always)]
    pub(crate) fn numbers(&self) -> OfQuad<u32> {
        core::array::from_fn(|round| self.firsts[round] + byte_of(self.before, round as u32))
    }
}

/// The end of a descent.
pub(crate) struct Descent {
    /// The nodes of the lowest level for the words of four lanes, in all of these lanes.
    pub(crate) nodes: OfQuad<u32>,
    /// Their children for these words: buckets.
    pub(crate) children: Children,
    /// Whether look-ups come to the same node.
    pub(crate) is_plain: bool,
}

/// Where a descent begins: for words of four lanes, in all of these lanes.
#[derive(Clone, Copy)]
pub(crate) struct Start<K> {
    /// Nodes.
    pub(crate) numbers: OfQuad<u32>,
    /// Their level; 0 is the lowest.
    pub(crate) level: u32,
    /// If it is the highest level, about the first key of the lane's own node: see [`TreeRef::top`].
    pub(crate) rough: K,
}

/// Where a query ends: in a bucket, after some of its pairs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Position {
    pub(crate) bucket: u32,
    /// Buckets of the node before it.
    pub(crate) of_node: u32,
    /// Pairs of the bucket before it.
    pub(crate) slot: u32,
    /// Pairs of the bucket.
    pub(crate) len: u32,
    /// Pairs of the node before it.
    pub(crate) before: u32,
    /// Pairs of the tree before it.
    pub(crate) rank: u64,
    /// Whether look-ups, which do not ask how far a word is from others, surely come to the same bucket, and whether the word is at
    /// least the first one of the node's record.
    pub(crate) is_plain: bool,
}

/// The separators that a word passes, in a quarter of a node. The last two words of the last quarter are none.
#[inline(always)]
fn begun_in_exact<K: KeyWord>([a, b, c, d]: [u32; 4], within: u32, word: K) -> u32 {
    let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let passes = |low: u32, high: u32| u32::from(K::truncate(wide(low, high)) < word);
    let (most, rest) = match K::BITS {
        128 => (0, u32::from(K::from_parts([wide(a, b), wide(c, d)]) < word)),
        64 => (passes(a, b), passes(c, d)),
        _ => (passes(a, 0) + passes(b, 0), passes(c, 0) + passes(d, 0)),
    };
    most + if within == QUAD - 1 { 0 } else { rest }
}

/// As [`begun_in_exact`], for the separators that begin at or before a [`guarded`] quantised key; 0 for a quantised key of 0,
/// whatever the words are.
#[inline(always)]
fn begun_in_halves([a, b, c, d]: [u32; 4], within: u32, quantised: u32) -> u32 {
    let unused = UNUSED_HALF | UNUSED_HALF << 16;
    let (c, d) = if within == QUAD - 1 { (unused, unused) } else { (c, d) };
    begun_in_guarded([a, b, c, d], quantised)
}

/// As [`begun_in_exact`], for the children that begin at or before a quantised key; 0 for [`NO_CELL`], whatever the words are. No
/// quantised key reaches the words that are no separators.
#[inline(always)]
fn begun_in_bitmap([a, b, c, d]: [u32; 4], within: u32, quantised: u32) -> u32 {
    let cells = quantised.wrapping_add(1) as i32 - (within * 128) as i32;
    in_bitmap(a, cells) + in_bitmap(b, cells - 32) + in_bitmap(c, cells - 64) + in_bitmap(d, cells - 96)
}

/// The quantised key of a word whose node is no bitmap.
const NO_CELL: u32 = u32::MAX;

impl<K: KeyWord> TreeRef<K> {
    /// Per thread. The ordered word of the query at a position; the smallest word past the last query.
    ///
    /// # Safety
    /// There are `count` queries.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simt>(&self, simt: S, queries: Global<K>, at: u64, count: u64) -> K {
        // SAFETY: the caller's.
        if at < count { unsafe { self.load_raw(simt, queries, at, count) }.xor(self.flip) } else { K::MIN }
    }

    /// Per thread. The query at a position, as the caller has it, for use in a later round: whoever orders it at once waits for the
    /// load. Any word past the last query.
    ///
    /// # Safety
    /// As [`TreeRef::load`].
    #[inline(always)]
    pub(crate) unsafe fn load_raw<S: Simt>(&self, simt: S, queries: Global<K>, at: u64, count: u64) -> K {
        // SAFETY: the position of a query.
        if at < count { unsafe { simt.load(queries, at, Hint::Streaming) } } else { K::MIN }
    }

    /// Warp collective (all lanes). The children of the four nodes for the words of four lanes, in all of these lanes. `ORDERED`
    /// for words that need not be in the tree: then `first` gives a key that is at most the first key of the lane's own node.
    ///
    /// # Safety
    /// Nodes of the tree, of the formats.
    #[inline(always)]
    pub(crate) unsafe fn children<S: Simt, const ORDERED: bool>(
        &self,
        simt: S,
        numbers: OfQuad<u32>,
        word: K,
        first: impl FnOnce(Quantiser) -> K,
        formats: u32,
    ) -> Children {
        let (within, leader) = (simt.lane() % QUAD, simt.lane() / QUAD * QUAD);
        let chunks: OfQuad<[u32; 4]> = core::array::from_fn(|round| {
            let at = node_at(numbers[round]) + u64::from(within * 4);
            // SAFETY: a quarter of a node.
            unsafe { simt.load_vector(self.nodes, at, Hint::ReadOnly) }
        });
        let firsts: OfQuad<u32> =
            core::array::from_fn(|round| simt.shuffle(FULL_MASK, chunks[round][2], leader + QUAD - 1));
        let mut quantiser = 0;
        unroll!(QUAD as usize, round => {
            let of_round = simt.shuffle(FULL_MASK, chunks[round][3], leader + QUAD - 1);
            if within == round as u32 {
                quantiser = of_round;
            }
        });
        let quantiser = Quantiser(quantiser);
        let format = quantiser.format();
        let (mut quantised, mut is_plain) = (0, true);
        if ORDERED {
            quantised = quantiser.quantise_any(word, first(quantiser));
            // Exact nodes compare whole keys, and have no quantised keys.
            is_plain = quantised == quantiser.quantise(word) || quantiser == Quantiser::EXACT;
        }
        // The same for all lanes: whether some node has this format. Most levels have one format.
        let formats = formats & ANY_FORMAT;
        let has = |of: Format| {
            formats & of as u32 != 0 && (formats == of as u32 || simt.any(FULL_MASK, format as u32 == of as u32))
        };
        // Something for each of the four words: a byte each. A word passes nothing by the formats that its node does not have.
        let mut begun = 0;
        if has(Format::Bitmap) {
            let quantised = if ORDERED { quantised } else { quantiser.cell(word) };
            let quantised = if format == Format::Bitmap { quantised } else { NO_CELL };
            unroll!(QUAD as usize, round => {
                let quantised = simt.shuffle(FULL_MASK, quantised, leader + round as u32);
                begun |= begun_in_bitmap(chunks[round], within, quantised) << (8 * round);
            });
        }
        if has(Format::Halves) {
            let quantised = if ORDERED { quantised } else { quantiser.half(word) };
            let quantised = if format == Format::Halves { guarded(quantised) } else { 0 };
            unroll!(QUAD as usize, round => {
                let quantised = simt.shuffle(FULL_MASK, quantised, leader + round as u32);
                begun |= begun_in_halves(chunks[round], within, quantised) << (8 * round);
            });
        }
        if has(Format::Exact) {
            let are_exact = simt.ballot(FULL_MASK, format == Format::Exact) >> leader;
            unroll!(QUAD as usize, round => {
                let word = simt.shuffle(FULL_MASK, word, leader + round as u32);
                let count = begun_in_exact(chunks[round], within, word);
                begun |= if are_exact >> round & 1 != 0 { count << (8 * round) } else { 0 };
            });
        }
        Children { firsts, before: sum_bytes(simt, begun), is_plain }
    }

    /// Warp collective (all lanes). Where a descent for each lane's word begins at the top.
    ///
    /// # Safety
    /// The tree is valid and has pairs; its table is there.
    #[inline(always)]
    pub(crate) unsafe fn start<S: Simt>(&self, simt: S, top: impl Above, word: K) -> Start<K> {
        let leader = simt.lane() / QUAD * QUAD;
        // SAFETY: the same contract.
        let (number, rough) = unsafe { self.top(simt, top, word) };
        let numbers = core::array::from_fn(|round| simt.shuffle(FULL_MASK, number, leader + round as u32));
        Start { numbers, level: self.height - 1, rough }
    }

    /// Warp collective (all lanes). The buckets of the words of four lanes, in all of these lanes. One loop for all levels, as the
    /// code of a level is long. `ORDERED` for words that need not be in the tree: then `first_of` is called at the lowest level
    /// with the number of the lane's own node, to give a key that is at most the node's first key.
    ///
    /// # Safety
    /// The tree is valid and has pairs; the words are in the nodes of the start, or in those after them.
    #[inline(always)]
    pub(crate) unsafe fn descend<S: Simt, const ORDERED: bool>(
        &self,
        simt: S,
        start: Start<K>,
        word: K,
        mut first_of: impl FnMut(u32) -> K,
    ) -> Descent {
        // About the first key of the lane's own node: at the highest level, and at the lowest.
        let Start { mut numbers, mut level, rough: mut known } = start;
        let mut is_plain = true;
        // SAFETY: nodes of the tree, level by level.
        unsafe {
            if K::BITS == 32 && !ORDERED {
                // A copy for the lowest level, as look-ups of these are bound by instructions: see `docs/lab/28-buckets-anywhere.md`.
                while level > 0 {
                    let formats = self.formats >> (FORMAT_BITS * level);
                    numbers = self.children::<S, ORDERED>(simt, numbers, word, |_| known, formats).numbers();
                    level -= 1;
                }
                let children = self.children::<S, ORDERED>(simt, numbers, word, |_| known, self.formats);
                return Descent { nodes: numbers, children, is_plain };
            }
            loop {
                let formats = self.formats >> (FORMAT_BITS * level);
                let (is_highest, is_lowest) = (level + 1 == self.height, level == 0);
                if ORDERED && is_lowest {
                    // Before the node: these loads overlap.
                    known = first_of(own(simt, numbers));
                }
                let first = |quantiser: Quantiser| {
                    // A rough key is as good, and without an access to memory.
                    if is_lowest || is_highest && quantiser.takes_rough::<K>(self.prefix_shift) {
                        return known;
                    }
                    let own = u64::from(own(simt, numbers) - self.leaf_nodes);
                    simt.load(self.firsts, own, Hint::ReadOnly)
                };
                let children = self.children::<S, ORDERED>(simt, numbers, word, first, formats);
                // Opaque, so that the lowest level does not become a copy of the others.
                if simt.opaque(level) == 0 {
                    return Descent { nodes: numbers, children, is_plain };
                }
                numbers = children.numbers();
                is_plain &= children.is_plain;
                level -= 1;
            }
        }
    }

    /// Warp collective (all lanes). The buckets of the words of four lanes, in all of these lanes. A word may be absent only if
    /// nothing but its absence is to be seen.
    ///
    /// # Safety
    /// As [`TreeRef::start`].
    #[inline(always)]
    unsafe fn buckets<S: Simt>(&self, simt: S, top: Top, word: K) -> OfQuad<u32> {
        // SAFETY: the same contract.
        unsafe { self.descend::<S, false>(simt, self.start(simt, top, word), word, |_| K::MIN).children.numbers() }
    }

    /// Warp collective (all lanes). The nodes of the lowest level, and their buckets, of the words of four lanes, which may be
    /// absent; and the lane's own node.
    ///
    /// # Safety
    /// As [`TreeRef::start`].
    #[inline(always)]
    pub(crate) unsafe fn descend_any<S: Simt, V: Value>(&self, simt: S, top: impl Above, word: K) -> (Descent, u32) {
        let mut node = 0;
        // SAFETY: the same contract.
        unsafe {
            let start = self.start(simt, top, word);
            let descent = self.descend::<S, true>(simt, start, word, |number| {
                node = number;
                self.first_of::<S, V>(simt, number)
            });
            (descent, node)
        }
    }

    /// Warp collective (all lanes). The bucket of each lane's word, which may be absent.
    ///
    /// # Safety
    /// As [`TreeRef::start`].
    #[inline(always)]
    pub(crate) unsafe fn bucket_of_any<S: Simt, V: Value>(&self, simt: S, top: impl Above, word: K) -> u32 {
        // SAFETY: the same contract.
        own(simt, unsafe { self.descend_any::<S, V>(simt, top, word) }.0.children.numbers())
    }

    /// Warp collective (all lanes). The value of each lane's word and that it is there, or `miss`. The lane that finds a key
    /// hands its value over in `found`.
    ///
    /// # Safety
    /// The tree is valid; its table is in shared memory; `found` has an element for each thread of the block, unless buckets have
    /// keys alone.
    #[inline(always)]
    pub(crate) unsafe fn look_up<S: Simt, V: Value>(
        &self,
        simt: S,
        top: Top,
        found: SharedValues<V>,
        word: K,
        miss: V,
    ) -> (V, bool) {
        let (within, leader) = (simt.lane() % QUAD, simt.lane() / QUAD * QUAD);
        let first = simt.thread_index() / QUAD * QUAD;
        let (mut value, mut is_hit) = (miss, false);
        // SAFETY: each lane has an element of `found`, which no lane of another four writes.
        unsafe {
            // The same for all lanes.
            if self.height > 0 && has_keys_alone::<K, V>() {
                let buckets = self.buckets(simt, top, word);
                let chunks = self.chunks::<S, V>(simt, buckets);
                let mut slot = 0;
                unroll!(QUAD as usize, round => {
                    let word = simt.shuffle(FULL_MASK, word, leader + round as u32);
                    let mut is_equal = false;
                    for (key, _) in pairs_of::<K, V>(chunks[round]) {
                        is_equal |= key == word;
                    }
                    let lanes = simt.ballot(FULL_MASK, is_equal) >> leader & 15;
                    if within == round as u32 {
                        // Free slots repeat the pair before them.
                        (is_hit, slot) = (lanes != 0, lanes.trailing_zeros());
                    }
                });
                if is_hit {
                    // Each lane its own, all at once.
                    value = self.value(simt, own(simt, buckets), slot, miss);
                }
                is_hit = simt.opaque(u32::from(is_hit)) != 0;
            } else if self.height > 0 {
                let buckets = self.buckets(simt, top, word);
                let chunks = self.chunks::<S, V>(simt, buckets);
                unroll!(QUAD as usize, round => {
                    let word = simt.shuffle(FULL_MASK, word, leader + round as u32);
                    let [(key, mut own), second, ..] = pairs_of::<K, V>(chunks[round]);
                    let is_second = chunk_slots::<K, V>() == 2 && second.0 == word;
                    own = if is_second { second.1 } else { own };
                    // See `Simt::opaque`: what is branched by is not to reach the ballot.
                    let is_equal = simt.opaque(u32::from(key == word) | u32::from(is_second)) != 0;
                    // Free slots repeat the pair before them.
                    let lanes = simt.ballot(FULL_MASK, is_equal) >> leader & 15;
                    if is_equal && lanes & ((1 << within) - 1) == 0 {
                        found.store(simt, first + round as u32, own);
                    }
                    if within == round as u32 {
                        is_hit = lanes != 0;
                    }
                });
                simt.sync_warp(FULL_MASK);
                // Nobody has written for a lane that misses. It writes nothing itself: two lanes' writes of one element would be
                // in no order.
                if is_hit {
                    value = found.load(simt, simt.thread_index());
                }
                simt.sync_warp(FULL_MASK);
            }
        }
        (value, is_hit)
    }

    /// Warp collective (all lanes). The position of each lane's word: after the keys below it or, with `upper`, not above it. `also`
    /// is called with the number of the lane's node of the lowest level: what it loads overlaps with the search. `late` says whether
    /// the node's record is loaded after the descent but for its first key: that takes fewer registers.
    ///
    /// # Safety
    /// As [`TreeRef::descend`].
    #[inline(always)]
    pub(crate) unsafe fn find<S: Simt, V: Value>(
        &self,
        simt: S,
        start: Start<K>,
        word: K,
        (upper, late): (bool, bool),
        mut also: impl FnMut(u32),
    ) -> Position {
        let (within, leader) = (simt.lane() % QUAD, simt.lane() / QUAD * QUAD);
        let mut record = Record { first: K::MIN, rank: 0, planes: [0; MOST_PLANES] };
        let mut node = 0;
        // SAFETY: the same contract.
        unsafe {
            let Descent { children, is_plain, .. } = self.descend::<S, true>(simt, start, word, |number| {
                also(number);
                node = number;
                if late {
                    return self.first_of::<S, V>(simt, number);
                }
                record = self.record::<S, V>(simt, number);
                record.first
            });
            if late {
                record = self.record::<S, V>(simt, node);
            }
            let buckets = children.numbers();
            let (bucket, of_node) = (own(simt, buckets), byte_of(children.before, within));
            let chunks = self.chunks::<S, V>(simt, buckets);
            // Keys not above the word are those below the next one; all are, if there is none.
            let bound = if upper { word.wrapping_add(K::truncate(1)) } else { word };
            let mut below = 0;
            unroll!(QUAD as usize, round => {
                let bound = simt.shuffle(FULL_MASK, bound, leader + round as u32);
                let pairs = pairs_of::<K, V>(chunks[round]);
                let mut lanes = 0;
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if (slot as u32) < chunk_slots::<K, V>() {
                        lanes += (simt.ballot(FULL_MASK, pairs[slot].0 < bound) >> leader & 15).count_ones();
                    }
                });
                if within == round as u32 {
                    below = lanes;
                }
            });
            let len = record.len(of_node);
            // Free slots repeat the last pair.
            let slot = if upper && word == K::MAX { len } else { below.min(len) };
            let before = record.before::<V>(of_node) + slot;
            let is_plain = is_plain && children.is_plain && record.first <= word;
            let rank = record.rank + u64::from(before);
            Position { bucket, of_node, slot, len, before, rank, is_plain }
        }
    }
}
