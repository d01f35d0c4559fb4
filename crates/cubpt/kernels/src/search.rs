//! The descent, a thread per query, and the queries that end at a leaf: look-ups, ranks and neighbours.
//!
//! In a node a thread searches by halving, as in the paper (stage "search" of section 3.2.2). It has [`IN_FLIGHT`] queries,
//! whose searches take the same steps and wait for memory together.

use crate::layout::{Head, NONE, NodeRef, Nodes};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// A tree on the device: passed to kernels by value.
    pub struct TreeRef<K> {
        /// Its nodes.
        pub nodes: Nodes,
        /// The root's number.
        pub root: u32,
        /// Levels above the leaves.
        pub height: u32,
        /// Exclusive-or mask between the caller's keys and ordered words.
        pub flip: K,
    }
}

/// Queries of a thread.
pub const IN_FLIGHT: usize = 2;

/// Per thread. The places of the thread's queries in the batch, a block's threads apart.
#[inline(always)]
pub(crate) fn places<S: Simt>(simt: S) -> [u64; IN_FLIGHT] {
    let block = u64::from(simt.block_dim());
    let first = u64::from(simt.block_index()) * block * IN_FLIGHT as u64 + u64::from(simt.thread_index());
    core::array::from_fn(|j| first + j as u64 * block)
}

/// A leaf, and how many of its keys come before the bound of a query.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) leaf: NodeRef,
    pub(crate) slot: u32,
}

/// Per thread. How many of the node's keys are below each word or, with `upper`, not above it.
///
/// # Safety
/// The nodes are a tree's.
#[inline(always)]
unsafe fn ranks<S: Simt, K: Word, const Q: usize>(
    simt: S,
    nodes: [NodeRef; Q],
    order: u32,
    words: [K; Q],
    upper: bool,
) -> [u32; Q] {
    let comes_before = |key: K, word: K| (key < word) | (upper & (key == word));
    // The keys that are known to come before the bound.
    let mut base = [0_u32; Q];
    let mut left = order;
    while left > 1 {
        let half = left / 2;
        for j in 0..Q {
            // SAFETY: `base + half <= order`, and `half >= 1`.
            let key = unsafe { simt.load(nodes[j].keys::<K>(), u64::from(base[j] + half - 1), Hint::ReadOnly) };
            base[j] += if comes_before(key, words[j]) { half } else { 0 };
        }
        left -= half;
    }
    core::array::from_fn(|j| {
        // SAFETY: below the order.
        let key = unsafe { simt.load(nodes[j].keys::<K>(), u64::from(base[j]), Hint::ReadOnly) };
        base[j] + u32::from(comes_before(key, words[j]))
    })
}

impl<K: Word> TreeRef<K> {
    /// Per thread. The ordered words of the queries at `places`; the smallest word past the last query.
    ///
    /// # Safety
    /// There are `count` queries.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simt>(
        &self,
        simt: S,
        queries: Global<K>,
        places: [u64; IN_FLIGHT],
        count: u64,
    ) -> [K; IN_FLIGHT] {
        places.map(|at| {
            // SAFETY: the place of a query.
            if at < count { unsafe { simt.load(queries, at, Hint::Streaming) }.xor(self.flip) } else { K::MIN }
        })
    }

    /// Per thread. The number of the leaf to which each word belongs.
    ///
    /// # Safety
    /// The tree is valid.
    #[inline(always)]
    pub(crate) unsafe fn descend<S: Simt, const Q: usize>(&self, simt: S, words: [K; Q]) -> [u32; Q] {
        let mut numbers = [self.root; Q];
        let mut level = self.height;
        while level > 0 {
            let order = self.nodes.node.order;
            // SAFETY: nodes of the tree. A query beyond all keys goes to the last child, which unused slots have, too.
            unsafe {
                let nodes = numbers.map(|number| self.nodes.at(simt, number));
                let slots = ranks(simt, nodes, order, words, false).map(|slot| slot.min(order - 1));
                numbers = core::array::from_fn(|j| simt.load(nodes[j].children(), u64::from(slots[j]), Hint::ReadOnly));
            }
            level -= 1;
        }
        numbers
    }

    /// Per thread. The place of each word: of the first key that is not below it.
    ///
    /// # Safety
    /// As [`TreeRef::descend`].
    #[inline(always)]
    pub(crate) unsafe fn find<S: Simt, const Q: usize>(&self, simt: S, words: [K; Q]) -> [Place; Q] {
        // SAFETY: the same contract.
        unsafe { self.within(simt, self.descend(simt, words), words) }
    }

    /// Per thread. The place of each word in its leaf.
    ///
    /// # Safety
    /// As [`TreeRef::descend`], which has found the leaves.
    #[inline(always)]
    pub(crate) unsafe fn within<S: Simt, const Q: usize>(
        &self,
        simt: S,
        numbers: [u32; Q],
        words: [K; Q],
    ) -> [Place; Q] {
        // SAFETY: the same contract.
        unsafe {
            let leaves = numbers.map(|number| self.nodes.at(simt, number));
            let slots = ranks(simt, leaves, self.nodes.node.order, words, false);
            core::array::from_fn(|j| Place { leaf: leaves[j], slot: slots[j] })
        }
    }

    /// Per thread. Whether the key at a place is the word.
    ///
    /// # Safety
    /// The place is that of the word.
    #[inline(always)]
    pub(crate) unsafe fn is_hit<S: Simt>(&self, simt: S, Place { leaf, slot }: Place, word: K) -> bool {
        // SAFETY: a slot below the order; the head of a leaf.
        unsafe {
            slot < self.nodes.node.order
                && simt.load(leaf.keys::<K>(), u64::from(slot), Hint::ReadOnly) == word
                // An unused slot holds the largest word, too.
                && (word != K::MAX || slot < leaf.head(simt, Head::Count))
        }
    }

    /// Per thread. The number of pairs whose keys are below each word or, with `upper`, not above it.
    ///
    /// # Safety
    /// As [`TreeRef::descend`].
    #[inline(always)]
    pub(crate) unsafe fn rank<S: Simt, const Q: usize>(&self, simt: S, words: [K; Q], upper: [bool; Q]) -> [u64; Q] {
        // SAFETY: the same contract.
        unsafe {
            let places = self.find(simt, words);
            core::array::from_fn(|j| {
                let extra = upper[j] && self.is_hit(simt, places[j], words[j]);
                places[j].leaf.rank(simt) + u64::from(places[j].slot) + u64::from(extra)
            })
        }
    }
}

/// Warp collective (all lanes). Writes the hit mask of the queries at `places`, unless it is null. There are no hits past
/// the last query.
///
/// # Safety
/// There are `count` queries, and a word for each 32 of them.
#[inline(always)]
pub(crate) unsafe fn store_hits<S: Simt>(
    simt: S,
    hits: GlobalMut<u32>,
    places: [u64; IN_FLIGHT],
    is_hit: [bool; IN_FLIGHT],
    count: u64,
) {
    if hits.is_null() {
        return;
    }
    let words = is_hit.map(|hit| simt.ballot(FULL_MASK, hit));
    if simt.lane() == 0 {
        for j in 0..IN_FLIGHT {
            // The callers have branched by this before the ballots.
            let at = simt.opaque(places[j]);
            if at < count {
                // SAFETY: one word per 32 queries.
                unsafe { simt.store(hits, at / u64::from(WARP), words[j], Hint::Streaming) };
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Get`].
    pub struct GetArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the value of each query's key, or `miss`.
        pub values: GlobalMut<V>,
        /// Out: `[ceil(count / 32)]`, the hit mask: bit `i % 32` of word `i / 32` is set if query `i` was found; null
        /// if not wanted.
        pub hits: GlobalMut<u32>,
        /// The value written to `values` for a key that is not present.
        pub miss: V,
    }
}

/// Looks up a batch of keys: [`IN_FLIGHT`] per thread; any block of whole warps.
#[derive(Debug)]
pub struct Get<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Get<K, V> {
    type Args = GetArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, places) = (&args.tree, places(simt));
        // SAFETY: there are as many queries, and the tree is valid.
        let (words, found) = unsafe {
            let words = tree.load(simt, args.queries, places, args.count);
            (words, tree.find(simt, words))
        };
        let mut hits = [false; IN_FLIGHT];
        for j in 0..IN_FLIGHT {
            if places[j] < args.count {
                let mut value = args.miss;
                // SAFETY: the place of the query in the tree, and in the batch.
                unsafe {
                    if tree.is_hit(simt, found[j], words[j]) {
                        let at = u64::from(found[j].slot);
                        (value, hits[j]) = (simt.load(found[j].leaf.values::<V>(), at, Hint::ReadOnly), true);
                    }
                    simt.store(args.values, places[j], value, Hint::Streaming);
                }
            }
        }
        // SAFETY: there are as many queries.
        unsafe { store_hits(simt, args.hits, places, hits, args.count) };
    }
}

kernel_args! {
    /// Arguments of [`Rank`].
    pub struct RankArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the number of keys below each query.
        pub ranks: GlobalMut<u64>,
        /// 1 to count keys that equal the query, too; otherwise 0.
        pub upper: u32,
    }
}

/// Ranks a batch of keys: [`IN_FLIGHT`] per thread; any block.
#[derive(Debug)]
pub struct Rank<K>(PhantomData<K>);

impl<K: Word> Kernel for Rank<K> {
    type Args = RankArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let places = places(simt);
        // SAFETY: there are as many queries, and the tree is valid.
        let ranks = unsafe {
            let words = args.tree.load(simt, args.queries, places, args.count);
            args.tree.rank(simt, words, [args.upper != 0; IN_FLIGHT])
        };
        for j in 0..IN_FLIGHT {
            if places[j] < args.count {
                // SAFETY: the place of a query.
                unsafe { simt.store(args.ranks, places[j], ranks[j], Hint::Streaming) };
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Neighbor`].
    pub struct NeighborArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the neighbour's key; not written if there is none.
        pub keys: GlobalMut<K>,
        /// Out: `[count]`, its value, or `miss`.
        pub values: GlobalMut<V>,
        /// Out: the hit mask, as in [`GetArgs`]; null if not wanted.
        pub hits: GlobalMut<u32>,
        /// 1 for the predecessor, the last key at or below the query; 0 for the successor, the first key at or above it.
        pub predecessor: u32,
        /// The value written to `values` if there is no neighbour.
        pub miss: V,
    }
}

/// Finds the predecessors or successors of a batch of keys: [`IN_FLIGHT`] per thread; any block of whole warps.
#[derive(Debug)]
pub struct Neighbor<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Neighbor<K, V> {
    type Args = NeighborArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, places) = (&args.tree, places(simt));
        // SAFETY: there are as many queries, and the tree is valid.
        let (words, found) = unsafe {
            let words = tree.load(simt, args.queries, places, args.count);
            (words, tree.find(simt, words))
        };
        let mut hits = [false; IN_FLIGHT];
        for j in 0..IN_FLIGHT {
            if places[j] < args.count {
                let mut value = args.miss;
                // SAFETY: the place of the query in the tree, and in the batch.
                unsafe {
                    if let Some(Place { leaf, slot }) = tree.neighbor(simt, found[j], words[j], args.predecessor != 0) {
                        let key = simt.load(leaf.keys::<K>(), u64::from(slot), Hint::ReadOnly).xor(tree.flip);
                        simt.store(args.keys, places[j], key, Hint::Streaming);
                        (value, hits[j]) = (simt.load(leaf.values::<V>(), u64::from(slot), Hint::ReadOnly), true);
                    }
                    simt.store(args.values, places[j], value, Hint::Streaming);
                }
            }
        }
        // SAFETY: there are as many queries.
        unsafe { store_hits(simt, args.hits, places, hits, args.count) };
    }
}

impl<K: Word> TreeRef<K> {
    /// Per thread. The pair next to a place that is the word's, if there is one: the last one at or below the word, or the
    /// first one at or above it. No leaf of a tree with pairs is empty.
    ///
    /// # Safety
    /// As [`TreeRef::is_hit`].
    #[inline(always)]
    unsafe fn neighbor<S: Simt>(&self, simt: S, place: Place, word: K, predecessor: bool) -> Option<Place> {
        let Place { leaf, slot } = place;
        // SAFETY: heads of leaves, and the leaves beside them.
        unsafe {
            if predecessor {
                if self.is_hit(simt, place, word) {
                    return Some(place);
                }
                if slot > 0 {
                    return Some(Place { leaf, slot: slot - 1 });
                }
                let previous = leaf.head(simt, Head::Previous);
                if previous == NONE {
                    return None;
                }
                let leaf = self.nodes.at(simt, previous);
                return Some(Place { leaf, slot: leaf.head(simt, Head::Count) - 1 });
            }
            if slot < leaf.head(simt, Head::Count) {
                return Some(place);
            }
            let next = leaf.head(simt, Head::Next);
            if next == NONE { None } else { Some(Place { leaf: self.nodes.at(simt, next), slot: 0 }) }
        }
    }
}
