//! Nodes that are split: their pairs are copied, and go the way of a build, whose parts lie in these nodes.

use super::buckets::is_marked;
use super::fates::{Fates, NodePart, Pairs};
use super::{Changes, first_of_node};
use crate::parts::{BUCKET_BITS, SPLIT_WORDS, SplitNodes, SplitWord, TARGET_WORDS};
use crate::search::TreeRef;
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Simt, WARP, kernel_args};

kernel_args! {
    /// Arguments of [`MovePairs`].
    pub struct MovePairsArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that are split.
        pub split: SplitNodes,
        /// Out: the keys of all their pairs after the batch, ascending, in the caller's form.
        pub keys: GlobalMut<K>,
        /// Out: their values.
        pub values: GlobalMut<V>,
    }
}

/// Warps of a block of [`MovePairs`].
pub const MOVE_WARPS: u32 = 8;

/// Operations of a window: a warp of its own moves its pairs, if all are of one node.
const WINDOW: u64 = 1 << 10;

/// Warps of [`MovePairs`] for so many nodes and operations.
pub const fn move_warps(nodes: u64, operations: u64) -> u64 {
    nodes + operations / WINDOW
}

/// Copies the pairs that there are after the batch in the nodes that are split: [`move_warps`], in blocks of [`MOVE_WARPS`] at most.
#[derive(Debug)]
pub struct MovePairs<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for MovePairs<K, V> {
    type Args = MovePairsArgs<K, V>;
    const STATIC_SHARED: u32 = MOVE_WARPS * Fates::bytes::<K, V>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes, split) = (&args.tree, &args.changes, &args.split);
        let index = simt.global_index() / u64::from(WARP);
        // SAFETY: a node of the tree and its operations, or a window of operations; there is room for all pairs after the batch.
        unsafe {
            if index >= split.count {
                move_window(simt, args, (index - split.count) * WINDOW);
                return;
            }
            let number = split.get(simt, index, SplitWord::Node) as u32;
            let first = split.get(simt, index, SplitWord::Pairs);
            let (from, to) = changes.span_by_warp(simt, number);
            let growth_before = changes.growth(simt, from);
            let fates = Fates::at::<K, V>(simt.warp() * Fates::bytes::<K, V>());
            let part = NodePart { number, operations: (from, to), pairs: Pairs::ALL };
            changes.for_each_kept(simt, tree, part, fates, |position, key, value| {
                let to = first + u64::from(position);
                simt.store(args.keys, to, key.xor(tree.flip), Hint::Streaming);
                values::store(simt, args.values, to, value, Hint::Streaming);
            });
            // Windows of its own are others' work.
            let (windows, windows_end) = (from.next_multiple_of(WINDOW), to / WINDOW * WINDOW);
            let skipped = windows_end.saturating_sub(windows);
            let mut at = from + u64::from(simt.lane());
            while at < to {
                if skipped > 0 && windows <= at && at < windows_end {
                    // A multiple of the warp.
                    at += skipped;
                } else {
                    move_own(simt, args, at, (first, growth_before));
                    at += u64::from(WARP);
                }
            }
        }
    }
}

/// Warp collective (all lanes). Writes the pairs that a window's operations insert or give values, if all of them are of one of the
/// nodes.
///
/// # Safety
/// As for [`MovePairs`].
#[inline(always)]
unsafe fn move_window<S: Simt, K: KeyWord, V: Value>(simt: S, args: &MovePairsArgs<K, V>, start: u64) {
    let (changes, split) = (&args.changes, &args.split);
    if start + WINDOW > changes.count {
        return;
    }
    // SAFETY: operations, and their node; the caller's.
    unsafe {
        let number = changes.node(simt, start);
        if changes.node(simt, start + WINDOW - 1) != number {
            return;
        }
        let index = split.upto(simt, SplitWord::Node, u64::from(number));
        if index == 0 || split.get(simt, index - 1, SplitWord::Node) != u64::from(number) {
            return;
        }
        let from = split.get(simt, index - 1, SplitWord::From);
        let first = (split.get(simt, index - 1, SplitWord::Pairs), changes.growth(simt, from));
        let mut own = u64::from(simt.lane());
        while own < WINDOW {
            move_own(simt, args, start + own, first);
            own += u64::from(WARP);
        }
    }
}

/// Per thread. Writes the pair that an operation inserts or gives a value, of a node whose first pair goes to `first`; less the growth before
/// its operations.
///
/// # Safety
/// As for [`MovePairs`].
#[inline(always)]
unsafe fn move_own<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    args: &MovePairsArgs<K, V>,
    at: u64,
    (first, growth_before): (u64, u64),
) {
    let changes = &args.changes;
    // SAFETY: the caller's.
    unsafe {
        if let Some(position) = changes.position_of_own(simt, at, growth_before) {
            let to = first.wrapping_add(position);
            simt.store(args.keys, to, simt.load(changes.keys, at, Hint::ReadOnly), Hint::Streaming);
            values::store(simt, args.values, to, changes.value(simt, at), Hint::Streaming);
        }
    }
}

kernel_args! {
    /// Arguments of [`SizeSplit`].
    pub struct SizeSplitArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// A bit for each node of the lowest level: whether it is split.
        pub found: Global<u32>,
        /// Out: for each node that is split 1 << [`BUCKET_BITS`], and its pairs after the batch; 0 for others: `[leaf_nodes]`.
        pub pairs: GlobalMut<u64>,
        /// Out: for each node that is split the parts in which it is << [`BUCKET_BITS`], and its buckets; 0 for others:
        /// `[leaf_nodes]`.
        pub parts: GlobalMut<u64>,
        /// Pairs of a part, at least 1.
        pub part: u64,
    }
}

/// Finds out how many pairs split nodes have after the batch, and in how many parts they go: a thread for each node of the lowest
/// level.
#[derive(Debug)]
pub struct SizeSplit<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for SizeSplit<K, V> {
    type Args = SizeSplitArgs<K, V>;

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
                own_pairs = 1 << BUCKET_BITS | pairs;
                own_parts = parts << BUCKET_BITS | u64::from(tree.buckets_of(simt, node).1);
            }
            simt.store(args.pairs, at, own_pairs, Hint::Default);
            simt.store(args.parts, at, own_parts, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`ListSplit`].
    pub struct ListSplitArgs {
        /// A bit for each node of the lowest level: whether it is split.
        pub found: Global<u32>,
        /// From [`SizeSplit`]: the sums of its pairs before each node, and the total: `[leaf_nodes + 1]`.
        pub pairs_before: Global<u64>,
        /// Sums of its parts, likewise.
        pub parts_before: Global<u64>,
        /// Nodes of the lowest level.
        pub leaf_nodes: u64,
        /// The nodes of the batch's operations, ascending: `[count]`.
        pub nodes: Global<u32>,
        /// How many operations.
        pub count: u64,
        /// Out: as [`SplitNodes::words`].
        pub words: GlobalMut<u64>,
    }
}

/// Lists the nodes that are split: a thread for each node of the lowest level, and one for the end.
#[derive(Debug)]
pub struct ListSplit;

impl Kernel for ListSplit {
    type Args = ListSplitArgs;

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
            let low = (1 << BUCKET_BITS) - 1;
            let at = pairs >> BUCKET_BITS;
            let store = |word: SplitWord, value: u64| {
                simt.store(args.words, at * u64::from(SPLIT_WORDS) + word as u64, value, Hint::Default);
            };
            store(SplitWord::Node, node);
            store(SplitWord::From, from);
            store(SplitWord::Pairs, pairs & low);
            store(SplitWord::Parts, parts >> BUCKET_BITS);
            store(SplitWord::Buckets, parts & low);
        }
    }
}

kernel_args! {
    /// Arguments of [`AssignParts`].
    pub struct AssignPartsArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that are split.
        pub split: SplitNodes,
        /// Nodes << [`BUCKET_BITS`] and buckets of the parts before each, and the total: `[parts + 1]`.
        pub before: Global<u64>,
        /// The first of the copied pairs in each part, and the number of pairs: `[parts + 1]`.
        pub cuts: Global<u64>,
        /// Parts.
        pub parts: u64,
        /// The first of all parts' buckets.
        pub first_bucket: u64,
        /// Out: `[parts]`, [`TARGET_WORDS`] each: the number of the part's first node << [`BUCKET_BITS`] and its first bucket; the
        /// rank of its first pair.
        pub targets: GlobalMut<u64>,
    }
}

/// Finds out where the nodes of parts go: a thread per part. Before [`Ranks`](super::Ranks).
#[derive(Debug)]
pub struct AssignParts<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for AssignParts<K, V> {
    type Args = AssignPartsArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (part, split) = (simt.global_index(), &args.split);
        if part >= args.parts {
            return;
        }
        // SAFETY: a part, and the node that has it.
        unsafe {
            // Nodes without parts come before the one that has the part.
            let index = split.upto(simt, SplitWord::Parts, part) - 1;
            let number = split.get(simt, index, SplitWord::Node);
            let before = simt.load(args.before, part, Hint::ReadOnly);
            let bucket = args.first_bucket + (before & ((1 << BUCKET_BITS) - 1));
            let rank = args.tree.rank_of::<S, V>(simt, number as u32) + simt.load(args.cuts, part, Hint::ReadOnly)
                - split.get(simt, index, SplitWord::Pairs);
            let growth = args.changes.growth(simt, split.get(simt, index, SplitWord::From));
            let to = part * u64::from(TARGET_WORDS);
            let start = (number - index + (before >> BUCKET_BITS)) << BUCKET_BITS | bucket;
            simt.store(args.targets, to, start, Hint::Default);
            simt.store(args.targets, to + 1, rank.wrapping_add(growth), Hint::Default);
        }
    }
}
