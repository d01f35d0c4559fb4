//! The descents, and the queries that end at a leaf: look-ups, ranks and neighbours.
//!
//! Queries in any order: [`GROUP`] lanes read a node for one of them, so that a node costs one or two accesses to a cache line,
//! and each lane has a query of its own that its group works off in turn. Queries in ascending order: a thread per query,
//! which searches a node by halving, as in the paper (stage "search" of section 3.2.2); neighbours read the same lines.

use crate::layout::{Head, NONE, NodeRef, Nodes};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, GetBatch, Global, GlobalMut, Hint, Kernel, NearArrays, NeighborBatch, QueryArgs, RankBatch, Simt,
    Verdict, WARP, Word, kernel_args,
};

kernel_args! {
    /// A tree on the device: passed to kernels by value.
    pub struct TreeRef<K> {
        /// Its nodes.
        pub nodes: Nodes,
        /// The leaves in the order of their keys: `[leaf_count]`.
        pub leaves: Global<u32>,
        /// The rank of each leaf's first pair, and past the last one the number of pairs: `[leaf_count + 1]`.
        pub ranks: Global<u64>,
        /// The position of each leaf in that order, by its number.
        pub positions: Global<u32>,
        /// How many leaves.
        pub leaf_count: u64,
        /// The root's number.
        pub root: u32,
        /// Levels above the leaves.
        pub height: u32,
        /// Exclusive-or mask between the caller's keys and ordered words.
        pub flip: K,
    }
}

/// Lanes that read a node together; they have as many queries, which they work off side by side. With eight, look-ups would take
/// twice the instructions, and wait for these; alone, each would touch twice as many cache lines.
const GROUP: u32 = 4;

/// Something for each query of a group.
type OfGroup<T> = [T; GROUP as usize];

/// A leaf, and how many of its keys are below a query.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) number: u32,
    pub(crate) slot: u32,
}

/// Per thread. How many of the node's keys are below the word, by halving.
///
/// # Safety
/// The node is a tree's.
#[inline(always)]
pub(crate) unsafe fn rank_in<S: Simt, K: Word>(simt: S, keys: Global<K>, order: u32, word: K) -> u32 {
    let (mut base, mut left) = (0, order);
    while left > 0 {
        let half = left / 2;
        // SAFETY: `base + left <= order`.
        let is_below = unsafe { simt.load(keys, u64::from(base + half), Hint::ReadOnly) } < word;
        (base, left) = if is_below { (base + half + 1, left - half - 1) } else { (base, half) };
    }
    base
}

/// Warp collective (all lanes). How many of each node's keys are below its word: each group for its own nodes. In every round
/// the lanes of a group compare keys at equal distances.
///
/// # Safety
/// The nodes are a tree's.
#[inline(always)]
unsafe fn ranks_in_groups<S: Simt, K: Word>(
    simt: S,
    nodes: OfGroup<NodeRef>,
    order: u32,
    words: OfGroup<K>,
) -> OfGroup<u32> {
    let (within, first) = (simt.lane() % GROUP, simt.lane() / GROUP * GROUP);
    let mut base = [0_u32; GROUP as usize];
    let mut left = order;
    while left > 0 {
        // Keys with as many between any two of them, before the first and after the last.
        let stride = left / (GROUP + 1) + 1;
        let is_below: OfGroup<bool> = core::array::from_fn(|j| {
            let index = base[j] + (within + 1) * stride - 1;
            // SAFETY: below the order.
            index < order && unsafe { simt.load(nodes[j].keys::<K>(), u64::from(index), Hint::ReadOnly) } < words[j]
        });
        for j in 0..GROUP as usize {
            let group = simt.ballot(FULL_MASK, is_below[j]) >> first & ((1 << GROUP) - 1);
            base[j] += group.count_ones() * stride;
        }
        left = stride - 1;
    }
    base
}

impl<K: Word> TreeRef<K> {
    /// Per thread. The ordered word of the query at a place; the smallest word past the last query.
    ///
    /// # Safety
    /// There are `count` queries.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simt>(&self, simt: S, queries: Global<K>, at: u64, count: u64) -> K {
        // SAFETY: the place of a query.
        if at < count { unsafe { simt.load(queries, at, Hint::Streaming) }.xor(self.flip) } else { K::MIN }
    }

    /// Per thread. The number of the leaf to which a word belongs: for words in ascending order.
    ///
    /// # Safety
    /// The tree is valid.
    #[inline(always)]
    pub(crate) unsafe fn descend<S: Simt>(&self, simt: S, word: K) -> u32 {
        let (mut number, mut level, order) = (self.root, self.height, self.nodes.node.order);
        while level > 0 {
            // SAFETY: nodes of the tree. A query beyond all keys goes to the last child, which unused slots have, too.
            unsafe {
                let node = self.nodes.at(simt, number);
                let slot = rank_in(simt, node.keys::<K>(), order, word).min(order - 1);
                number = simt.load(node.children(), u64::from(slot), Hint::ReadOnly);
            }
            level -= 1;
        }
        number
    }

    /// Warp collective (all lanes). The place of each lane's word: of the first key that is not below it.
    ///
    /// # Safety
    /// As [`TreeRef::descend`].
    #[inline(always)]
    pub(crate) unsafe fn find<S: Simt>(&self, simt: S, word: K) -> Place {
        let (lane, order) = (simt.lane(), self.nodes.node.order);
        let first = lane / GROUP * GROUP;
        let words: OfGroup<K> = core::array::from_fn(|j| simt.shuffle(FULL_MASK, word, first + j as u32));
        let mut numbers = [self.root; GROUP as usize];
        let mut level = self.height;
        let mut place = Place { number: self.root, slot: 0 };
        // SAFETY: nodes of the tree. A query beyond all keys goes to the last child, which unused slots have, too.
        unsafe {
            while level > 0 {
                let nodes = numbers.map(|number| self.nodes.at(simt, number));
                let slots = ranks_in_groups(simt, nodes, order, words).map(|slot| slot.min(order - 1));
                numbers = core::array::from_fn(|j| simt.load(nodes[j].children(), u64::from(slots[j]), Hint::ReadOnly));
                level -= 1;
            }
            let leaves = numbers.map(|number| self.nodes.at(simt, number));
            let slots = ranks_in_groups(simt, leaves, order, words);
            for j in 0..GROUP {
                if lane == first + j {
                    place = Place { number: numbers[j as usize], slot: slots[j as usize] };
                }
            }
        }
        place
    }

    /// Per thread. Whether the key at a place is the word.
    ///
    /// # Safety
    /// The place is that of the word.
    #[inline(always)]
    pub(crate) unsafe fn is_hit<S: Simt>(&self, simt: S, Place { number, slot }: Place, word: K) -> bool {
        // SAFETY: a slot below the order; the head of a leaf.
        unsafe {
            let leaf = self.nodes.at(simt, number);
            slot < self.nodes.node.order
                && simt.load(leaf.keys::<K>(), u64::from(slot), Hint::ReadOnly) == word
                // An unused slot holds the largest word, too.
                && (word != K::MAX || slot < leaf.head(simt, Head::Count))
        }
    }

    /// Warp collective (all lanes). The number of pairs whose keys are below each lane's word or, with `upper`, not above it.
    ///
    /// # Safety
    /// As [`TreeRef::descend`].
    #[inline(always)]
    pub(crate) unsafe fn rank<S: Simt>(&self, simt: S, word: K, upper: bool) -> u64 {
        // SAFETY: the same contract.
        unsafe {
            let place = self.find(simt, word);
            let extra = upper && self.is_hit(simt, place, word);
            self.rank_of(simt, place) + u64::from(extra)
        }
    }

    /// Per thread. The number of pairs before a place.
    ///
    /// # Safety
    /// A place in a leaf of the tree.
    #[inline(always)]
    unsafe fn rank_of<S: Simt>(&self, simt: S, Place { number, slot }: Place) -> u64 {
        // SAFETY: each leaf has a position.
        unsafe {
            let position = simt.load(self.positions, u64::from(number), Hint::ReadOnly);
            simt.load(self.ranks, u64::from(position), Hint::ReadOnly) + u64::from(slot)
        }
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

/// Arguments of [`Get`].
pub type GetArgs<K, V> = QueryArgs<TreeRef<K>, GetBatch<K, V>>;

/// Looks up a batch of keys: one per lane; any block of whole warps.
#[derive(Debug)]
pub struct Get<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Get<K, V> {
    type Args = GetArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, at) = (&args.tree, simt.global_index());
        let mut is_hit = false;
        // SAFETY: there are as many queries, and the tree is valid.
        unsafe {
            let word = tree.load(simt, args.queries, at, args.count);
            let place = tree.find(simt, word);
            if at < args.count {
                let mut value = args.miss;
                if tree.is_hit(simt, place, word) {
                    let leaf = tree.nodes.at(simt, place.number);
                    value = simt.load(leaf.values::<V>(), u64::from(place.slot), Hint::ReadOnly);
                    is_hit = true;
                }
                simt.store(args.values, at, value, Hint::Streaming);
            }
            store_hits(simt, args.hits, at, is_hit, args.count);
        }
    }
}

/// Arguments of [`Rank`].
pub type RankArgs<K> = QueryArgs<TreeRef<K>, RankBatch<K>>;

/// Ranks a batch of keys: one per lane; any block of whole warps.
#[derive(Debug)]
pub struct Rank<K>(PhantomData<K>);

impl<K: Word> Kernel for Rank<K> {
    type Args = RankArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let at = simt.global_index();
        // SAFETY: there are as many queries, and the tree is valid.
        unsafe {
            let word = args.tree.load(simt, args.queries, at, args.count);
            let rank = args.tree.rank(simt, word, args.upper != 0);
            if at < args.count {
                simt.store(args.ranks, at, rank, Hint::Streaming);
            }
        }
    }
}

/// Arguments of [`Neighbor`].
pub type NeighborArgs<K, V> = QueryArgs<TreeRef<K>, NeighborBatch<K, V>>;

/// Finds the predecessors or successors of a batch of keys: one per lane; any block of whole warps.
#[derive(Debug)]
pub struct Neighbor<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Neighbor<K, V> {
    type Args = NeighborArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, at) = (&args.tree, simt.global_index());
        let predecessor = args.predecessor != 0;
        let mut verdict = Verdict::Missed;
        // SAFETY: there are as many queries, and the tree is valid.
        unsafe {
            let word = args.near.sought(tree.load(simt, args.queries, at, args.count), predecessor);
            let place = tree.find(simt, word);
            if at < args.count {
                let found = tree.neighbor(simt, place, word, predecessor).map(|Place { number, slot }| {
                    let (leaf, slot) = (tree.nodes.at(simt, number), u64::from(slot));
                    (simt.load(leaf.keys::<K>(), slot, Hint::ReadOnly), leaf, slot)
                });
                let arrays = NearArrays { queries: args.queries, keys: args.keys, hits: args.hits };
                verdict = args.near.judge(simt, at, tree.flip, arrays, found.map(|(key, ..)| key));
                let mut value = args.miss;
                if let (Some((key, leaf, slot)), Verdict::Found) = (found, verdict) {
                    simt.store(args.keys, at, key.xor(tree.flip), Hint::Streaming);
                    value = simt.load(leaf.values::<V>(), slot, Hint::ReadOnly);
                }
                if verdict != Verdict::Kept {
                    simt.store(args.values, at, value, Hint::Streaming);
                }
            }
            store_hits(simt, args.hits, at, verdict.is_hit(), args.count);
        }
    }
}

impl<K: Word> TreeRef<K> {
    /// Per thread. The pair next to a place that is the word's, if there is one: the last one at or below the word, or the
    /// first one at or above it.
    ///
    /// # Safety
    /// As [`TreeRef::is_hit`].
    #[inline(always)]
    unsafe fn neighbor<S: Simt>(&self, simt: S, place: Place, word: K, predecessor: bool) -> Option<Place> {
        // SAFETY: heads of leaves, and of the next and previous leaves.
        unsafe {
            let Place { number, slot } = place;
            // Leaves may be without pairs, any number in a row: beyond the next one, ranks tell where there are some.
            if !predecessor {
                let nodes = self.nodes;
                if slot < nodes.at(simt, number).head(simt, Head::Count) {
                    return Some(place);
                }
                let next = nodes.at(simt, number).head(simt, Head::Next);
                if next == NONE {
                    return None;
                }
                if nodes.at(simt, next).head(simt, Head::Count) > 0 {
                    return Some(Place { number: next, slot: 0 });
                }
                let position = u64::from(simt.load(self.positions, u64::from(next), Hint::ReadOnly));
                let rank = simt.load(self.ranks, position, Hint::ReadOnly);
                let position = self.position_of(simt, rank, position);
                let number = simt.load(self.leaves, position, Hint::ReadOnly);
                return (nodes.at(simt, number).head(simt, Head::Count) > 0).then_some(Place { number, slot: 0 });
            }
            if self.is_hit(simt, place, word) {
                return Some(place);
            }
            if slot > 0 {
                return Some(Place { slot: slot - 1, ..place });
            }
            // The leaf before it that has pairs.
            let position = u64::from(simt.load(self.positions, u64::from(number), Hint::ReadOnly));
            let rank = simt.load(self.ranks, position, Hint::ReadOnly);
            if rank == 0 {
                return None;
            }
            let number = simt.load(self.leaves, self.position_of(simt, rank - 1, 0), Hint::ReadOnly);
            Some(Place { number, slot: self.nodes.at(simt, number).head(simt, Head::Count) - 1 })
        }
    }

    /// Per thread. The position of the leaf that has the pair of a rank, which is not before the leaf at `from`; past all pairs, the
    /// last leaf's.
    ///
    /// # Safety
    /// The tree is valid, and has a leaf at `from`.
    #[inline(always)]
    pub(crate) unsafe fn position_of<S: Simt>(&self, simt: S, rank: u64, from: u64) -> u64 {
        // The last leaf whose first rank is not above: leaves without pairs come before the one that has the pair.
        let (mut position, mut left) = (from, self.leaf_count - from);
        while left > 1 {
            let half = left / 2;
            // SAFETY: a rank for each leaf.
            if unsafe { simt.load(self.ranks, position + half, Hint::ReadOnly) } <= rank {
                position += half;
            }
            left -= half;
        }
        position
    }
}
