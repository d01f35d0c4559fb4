//! Nodes that are split: their pairs are copied, and go the way of a build, whose parts lie in these nodes.

use super::lines::is_marked;
use super::{Changes, Effect, first_of_node};
use crate::parts::{DIVIDED_WORDS, Divided, DividedWord, LINE_BITS, TARGET_WORDS};
use crate::search::TreeRef;
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Shared, Simt, WARP, kernel_args};

kernel_args! {
    /// Arguments of [`MovePairs`] and [`MoveInserts`].
    pub struct DivideArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that are split, or all.
        pub divided: Divided,
        /// Out: the keys of all their pairs after the batch, ascending, in the caller's form.
        pub keys: GlobalMut<K>,
        /// Out: their values.
        pub values: GlobalMut<V>,
    }
}

/// Most operations of a node that are searched in shared memory.
const STAGED: u32 = 64;

/// Operations of a node, in shared memory.
#[derive(Clone, Copy)]
struct StagedChanges<K> {
    keys: Shared<K>,
    /// The effect of each in two bits, below by how much the node grows up to it, signed.
    words: Shared<u32>,
}

impl<K: KeyWord> StagedChanges<K> {
    /// Bytes of a warp's.
    const BYTES: u32 = STAGED * (K::BYTES as u32 + 4);

    /// The memory of warp `warp`.
    #[inline(always)]
    fn at(warp: u32) -> Self {
        let keys = Shared::at(warp * Self::BYTES, STAGED);
        Self { keys, words: Shared::at(keys.end(), STAGED) }
    }

    /// Warp collective (all lanes). Puts a node's operations there; the warp is to meet before they are read.
    ///
    /// # Safety
    /// They are operations, no more than there is room for.
    #[inline(always)]
    unsafe fn put<S: Simt, V: Value>(self, simt: S, changes: &Changes<K, V>, flip: K, (from, to): (u64, u64)) {
        let mut own = simt.lane();
        // SAFETY: operations.
        unsafe {
            let growth_before = changes.growth(simt, from);
            while u64::from(own) < to - from {
                let at = from + u64::from(own);
                let growth = changes.growth(simt, at + 1).wrapping_sub(growth_before) as u32;
                simt.shared_store(self.keys, own, changes.key(simt, at, flip));
                simt.shared_store(self.words, own, growth << 2 | changes.place(simt, at).effect() as u32);
                own += WARP;
            }
        }
    }

    /// Per thread. As [`Changes::fate`], and by how much the node grows up to there; of `count` operations.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    unsafe fn fate<S: Simt>(self, simt: S, key: K, count: u32) -> (u32, Effect, u64) {
        let (mut after, mut left) = (0, count);
        // SAFETY: below the count.
        unsafe {
            while left > 0 {
                let half = left / 2;
                let is_upto = simt.shared_load(self.keys, after + half) <= key;
                (after, left) = if is_upto { (after + half + 1, left - half - 1) } else { (after, half) };
            }
            if after == 0 {
                return (0, Effect::None, 0);
            }
            let word = simt.shared_load(self.words, after - 1);
            let is_own = simt.shared_load(self.keys, after - 1) == key;
            let effect = if is_own { Effect::from_word(word & 3) } else { Effect::None };
            (after, effect, (word as i32 >> 2) as u64)
        }
    }
}

/// Warps of a block of [`MovePairs`].
pub const MOVE_WARPS: u32 = 8;

/// Copies the pairs that stay in the nodes that are split, or in all: a warp per node, in blocks of [`MOVE_WARPS`] at most.
#[derive(Debug)]
pub struct MovePairs<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for MovePairs<K, V> {
    type Args = DivideArgs<K, V>;
    const STATIC_SHARED: u32 = MOVE_WARPS * StagedChanges::<K>::BYTES;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes, divided) = (&args.tree, &args.changes, &args.divided);
        let index = simt.global_index() / u64::from(WARP);
        let count = if divided.count > 0 { divided.count } else { u64::from(tree.leaf_nodes) };
        if index >= count {
            return;
        }
        // SAFETY: a node of the tree and its operations; there is room for all pairs after the batch.
        unsafe {
            let (number, from, first);
            if divided.count > 0 {
                number = divided.get(simt, index, DividedWord::Node) as u32;
                from = divided.get(simt, index, DividedWord::From);
                first = divided.get(simt, index, DividedWord::Pairs).wrapping_sub(changes.growth(simt, from));
            } else {
                number = index as u32;
                from = changes.of_node_by_warp(simt, number);
                first = tree.rank_of::<S, V>(simt, number);
            }
            let to = changes.of_node_by_warp(simt, number + 1);
            let len = tree.rank_of::<S, V>(simt, number + 1) - tree.rank_of::<S, V>(simt, number);
            let growth_before = changes.growth(simt, from);
            let staged = StagedChanges::<K>::at(simt.warp());
            if to - from <= u64::from(STAGED) {
                staged.put(simt, changes, tree.flip, (from, to));
            }
            simt.sync_warp(FULL_MASK);
            tree.for_each_pair(simt, tree.lines_of(simt, number), len as u32, |place, key, value: V| {
                let (after, effect, growth);
                if to - from <= u64::from(STAGED) {
                    let (own, of_own, growth_upto) = staged.fate(simt, key, (to - from) as u32);
                    (after, effect) = (from + u64::from(own), of_own);
                    growth = growth_before.wrapping_add(growth_upto);
                } else {
                    (after, effect) = changes.fate(simt, key, tree.flip, from, to);
                    growth = changes.growth(simt, after);
                }
                if effect == Effect::Remove {
                    return;
                }
                let value = if effect == Effect::Replace { changes.value(simt, after - 1) } else { value };
                let to = first.wrapping_add(u64::from(place)).wrapping_add(growth);
                simt.store(args.keys, to, key.xor(tree.flip), Hint::Streaming);
                values::store(simt, args.values, to, value, Hint::Streaming);
            });
        }
    }
}

/// Writes the pairs that a batch inserts into the nodes that are split: a thread per operation.
#[derive(Debug)]
pub struct MoveInserts<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for MoveInserts<K, V> {
    type Args = DivideArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (changes, divided) = (&args.changes, &args.divided);
        let at = simt.global_index();
        if at >= changes.count {
            return;
        }
        // SAFETY: an operation, and its node; there is room for all pairs after the batch.
        unsafe {
            let place = changes.place(simt, at);
            if place.effect() != Effect::Insert {
                return;
            }
            let (mut first, node) = (0, changes.node(simt, at));
            if divided.count > 0 {
                let node = u64::from(node);
                let index = divided.upto(simt, DividedWord::Node, node);
                if index == 0 || divided.get(simt, index - 1, DividedWord::Node) != node {
                    return;
                }
                let from = divided.get(simt, index - 1, DividedWord::From);
                first = divided.get(simt, index - 1, DividedWord::Pairs).wrapping_sub(changes.growth(simt, from));
            } else if args.tree.leaf_nodes > 0 {
                first = args.tree.rank_of::<S, V>(simt, node);
            }
            let to = first.wrapping_add(u64::from(place.before())).wrapping_add(changes.growth(simt, at));
            simt.store(args.keys, to, simt.load(changes.keys, at, Hint::ReadOnly), Hint::Streaming);
            values::store(simt, args.values, to, changes.value(simt, at), Hint::Streaming);
        }
    }
}

kernel_args! {
    /// Arguments of [`SizeDivided`].
    pub struct SizeDividedArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// A bit for each node of the lowest level: whether it is split.
        pub found: Global<u32>,
        /// Out: for each node that is split 1 << [`LINE_BITS`], and its pairs after the batch; 0 for others: `[leaf_nodes]`.
        pub pairs: GlobalMut<u64>,
        /// Out: for each node that is split the parts in which it is << [`LINE_BITS`], and its buckets; 0 for others:
        /// `[leaf_nodes]`.
        pub parts: GlobalMut<u64>,
        /// Pairs of a part, at least 1.
        pub part: u64,
    }
}

/// Finds out how many pairs split nodes have after the batch, and in how many parts they go: a thread for each node of the lowest
/// level.
#[derive(Debug)]
pub struct SizeDivided<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for SizeDivided<K, V> {
    type Args = SizeDividedArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, at) = (&args.tree, simt.global_index());
        if at >= u64::from(tree.leaf_nodes) {
            return;
        }
        let node = at as u32;
        // SAFETY: a node of the tree and its operations; an element of each output.
        unsafe {
            let (mut own_pairs, mut own_parts) = (0, 0);
            if is_marked(simt, args.found, node) {
                let rank = |node: u32| {
                    let growth = args.changes.growth(simt, args.changes.of_node(simt, node));
                    tree.rank_of::<S, V>(simt, node).wrapping_add(growth)
                };
                let pairs = rank(node + 1).wrapping_sub(rank(node));
                // As many parts as a build has for `pairs` pairs.
                let parts = pairs / args.part.max(1);
                let parts = if parts == 0 && pairs > 0 { 1 } else { parts };
                own_pairs = 1 << LINE_BITS | pairs;
                own_parts = parts << LINE_BITS | u64::from(tree.lines_of(simt, node).1);
            }
            simt.store(args.pairs, at, own_pairs, Hint::Default);
            simt.store(args.parts, at, own_parts, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`ListDivided`].
    pub struct ListDividedArgs {
        /// A bit for each node of the lowest level: whether it is split.
        pub found: Global<u32>,
        /// From [`SizeDivided`]: the sums of its pairs before each node, and the total: `[leaf_nodes + 1]`.
        pub pairs_before: Global<u64>,
        /// Sums of its parts, likewise.
        pub parts_before: Global<u64>,
        /// Nodes of the lowest level.
        pub leaf_nodes: u64,
        /// The nodes of the batch's operations, ascending: `[count]`.
        pub nodes: Global<u32>,
        /// How many operations.
        pub count: u64,
        /// Out: as [`Divided::words`].
        pub words: GlobalMut<u64>,
    }
}

/// Lists the nodes that are split: a thread for each node of the lowest level, and one for the end.
#[derive(Debug)]
pub struct ListDivided;

impl Kernel for ListDivided {
    type Args = ListDividedArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let node = simt.global_index();
        if node > args.leaf_nodes {
            return;
        }
        // SAFETY: nodes of the tree, and the end; there is room for those that are split, and the end.
        unsafe {
            let mut from = 0;
            if node < args.leaf_nodes {
                if !is_marked(simt, args.found, node as u32) {
                    return;
                }
                from = first_of_node(simt, args.nodes, args.count, node as u32);
            }
            let pairs = simt.load(args.pairs_before, node, Hint::ReadOnly);
            let parts = simt.load(args.parts_before, node, Hint::ReadOnly);
            let low = (1 << LINE_BITS) - 1;
            let at = pairs >> LINE_BITS;
            let store = |word: DividedWord, value: u64| {
                simt.store(args.words, at * u64::from(DIVIDED_WORDS) + word as u64, value, Hint::Default);
            };
            store(DividedWord::Node, node);
            store(DividedWord::From, from);
            store(DividedWord::Pairs, pairs & low);
            store(DividedWord::Parts, parts >> LINE_BITS);
            store(DividedWord::Lines, parts & low);
        }
    }
}

kernel_args! {
    /// Arguments of [`PlaceParts`].
    pub struct PlacePartsArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that are split.
        pub divided: Divided,
        /// Nodes << [`LINE_BITS`] and buckets of the parts before each, and the total: `[parts + 1]`.
        pub before: Global<u64>,
        /// The first of the copied pairs in each part, and the number of pairs: `[parts + 1]`.
        pub cuts: Global<u64>,
        /// Parts.
        pub parts: u64,
        /// The first of all parts' buckets.
        pub first_line: u64,
        /// Out: `[parts]`, [`TARGET_WORDS`] each: the number of the part's first node << [`LINE_BITS`] and its first bucket; the
        /// rank of its first pair.
        pub targets: GlobalMut<u64>,
    }
}

/// Finds out where the nodes of parts go: a thread per part. Before [`Ranks`](super::Ranks).
#[derive(Debug)]
pub struct PlaceParts<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for PlaceParts<K, V> {
    type Args = PlacePartsArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (part, divided) = (simt.global_index(), &args.divided);
        if part >= args.parts {
            return;
        }
        // SAFETY: a part, and the node that has it.
        unsafe {
            // Nodes without parts come before the one that has the part.
            let index = divided.upto(simt, DividedWord::Parts, part) - 1;
            let number = divided.get(simt, index, DividedWord::Node);
            let before = simt.load(args.before, part, Hint::ReadOnly);
            let line = args.first_line + (before & ((1 << LINE_BITS) - 1));
            let rank = args.tree.rank_of::<S, V>(simt, number as u32) + simt.load(args.cuts, part, Hint::ReadOnly)
                - divided.get(simt, index, DividedWord::Pairs);
            let growth = args.changes.growth(simt, divided.get(simt, index, DividedWord::From));
            let to = part * u64::from(TARGET_WORDS);
            let start = (number - index + (before >> LINE_BITS)) << LINE_BITS | line;
            simt.store(args.targets, to, start, Hint::Default);
            simt.store(args.targets, to + 1, rank.wrapping_add(growth), Hint::Default);
        }
    }
}
