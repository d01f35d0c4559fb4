//! The rebuild of a tree with a batch of changes, in one pass over its pairs.
//!
//! The pairs after the batch are cut into parts, as a build cuts them, and nearly every part becomes one node. Ranks and the sums over the
//! operations say where each old node's pairs go among all pairs after the batch ([`Starts`]), so no key is read to know which old
//! nodes have a block's pairs ([`Spans`]). A block takes some parts: it brings the pairs of the old nodes, and those of the operations, to their
//! positions in shared memory, and each warp cuts, plans and writes one part from there ([`Rebuild`]). Pairs in the middle of a block's
//! parts are read once; an old node between two blocks' parts is read by both.
//!
//! A node has the number of its part, and its buckets are the next that nobody has. The few parts that are no node by the first
//! plan are put aside, as pairs in global memory, and go the way of a build's other parts
//! ([`CountOthers`](crate::CountOthers), [`WriteOthers`](crate::WriteOthers)). They may become more than one node, so then all nodes get
//! their final numbers ([`SizeOthers`], [`AssignOthers`], [`Relocate`](super::Relocate)). Buckets never move.

use super::Changes;
use super::fates::{Fates, NodePart, Pairs};
use super::nodes::{Staged, rest_bytes};
use crate::build::{NodesArgs, Target, boundary, buckets_of, write_node};
use crate::layout::bucket_slots;
use crate::node::{From, Plan, Source, note_formats, plan_bitmap};
use crate::parts::{BUCKET_BITS, TARGET_WORDS};
use crate::plan_memory::PlanMemory;
use crate::search::TreeRef;
use crate::stretch::Filling;
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Order, Scope, Simt, WARP, kernel_args,
};

kernel_args! {
    /// Arguments of [`Starts`].
    pub struct StartsArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// Out: how many pairs there are after the batch before each node of the lowest level, and in all. A tree without nodes counts as one
        /// node without pairs: `[leaf_nodes.max(1) + 1]`.
        pub starts: GlobalMut<u64>,
        /// Out: the first operation of each node, or of those after it, and how many there are: as many elements.
        pub operations: GlobalMut<u64>,
    }
}

/// Finds out where the pairs of each node of the lowest level begin after the batch: a thread for each, and one for the end.
#[derive(Debug)]
pub struct Starts<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Starts<K, V> {
    type Args = StartsArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes, node) = (&args.tree, &args.changes, simt.global_index());
        let nodes = u64::from(tree.leaf_nodes);
        if node > nodes.max(1) {
            return;
        }
        // SAFETY: a node of the tree, or the end; the operations are sorted.
        unsafe {
            let first = changes.of_node(simt, node as u32);
            let rank = tree.rank_of::<S, V>(simt, node.min(nodes) as u32);
            simt.store(args.starts, node, rank.wrapping_add(changes.growth(simt, first)), Hint::Default);
            simt.store(args.operations, node, first, Hint::Default);
        }
    }
}

/// Warps of a block of [`Rebuild`], and most parts of one.
pub const REBUILD_WARPS: u32 = 8;

/// Most pairs that a block of [`Rebuild`] brings together.
pub const fn rebuild_pairs<K: KeyWord, V: Value>() -> u32 {
    // Eight parts of random keys, filled to 0.75, and what their boundaries may be off.
    if bucket_slots::<K, V>() == 4 { 1280 } else { 2336 }
}

kernel_args! {
    /// Where [`Rebuild`] puts parts aside.
    pub struct OtherParts<K, V> {
        /// The keys of their pairs, in the caller's form: `[most_pairs]`.
        pub keys: GlobalMut<K>,
        /// Their values.
        pub values: GlobalMut<V>,
        /// Room for pairs. Where there are more, they are counted alone.
        pub most_pairs: u64,
        /// The first of these pairs in each part, of which the first is known to be 0, and how many there are: `[parts + 1]`.
        pub cuts: GlobalMut<u64>,
        /// Their numbers among all parts: `[parts]`.
        pub parts: GlobalMut<u32>,
        /// The rank of the first pair of each: `[parts]`.
        pub ranks: GlobalMut<u64>,
    }
}

kernel_args! {
    /// Arguments of [`Rebuild`].
    pub struct RebuildArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// From [`Starts`].
        pub starts: Global<u64>,
        /// From [`Starts`].
        pub operations: Global<u64>,
        /// From [`Spans`], and out of it: for each block the node that has its first pair, the node behind the one that has its last pair, the
        /// first operation that is not before its first pair, and the first behind its last pair: `[4 * blocks]`.
        pub spans: GlobalMut<u64>,
        /// Pairs after the batch, at least one.
        pub len: u64,
        /// Pairs of a part, at least four times `reach`.
        pub part: u64,
        /// How many parts have one more.
        pub longer: u64,
        /// Parts of a block, at most [`REBUILD_WARPS`]: so many that their pairs and `2 * reach + 2` more are no more than
        /// [`rebuild_pairs`].
        pub own_parts: u32,
        /// How far off the boundary of a part may be, at most [`MOST_REACH`](crate::MOST_REACH).
        pub reach: u32,
        /// How many parts there are, how buckets are filled, and where nodes go. Out: in `others` the numbers from 0 on, as many
        /// as there are other parts.
        pub out: NodesArgs<K, V>,
        /// In and out, from zeros: `[REBUILT_WORDS]`. The buckets of all nodes; the number of other parts << [`BUCKET_BITS`], and their
        /// pairs.
        pub counts: GlobalMut<u64>,
        /// Room for buckets. Where there are more, they are counted alone.
        pub most_buckets: u64,
        /// Out: the other parts.
        pub others: OtherParts<K, V>,
        /// Out: `[parts]`, 1 << [`BUCKET_BITS`] for each part that is a node, and 0 for others.
        pub sizes: GlobalMut<u64>,
    }
}

/// Words of [`RebuildArgs::counts`].
pub const REBUILT_WORDS: u32 = 2;
/// The word that counts buckets.
const BUCKETS: u64 = 0;
/// The word that counts other parts.
const OTHERS: u64 = 1;

impl<K: KeyWord, V: Value> RebuildArgs<K, V> {
    /// Where a part is to begin, if all boundaries are at equal distances.
    #[inline(always)]
    fn wanted(&self, part: u64) -> u64 {
        part * self.part + if part < self.longer { part } else { self.longer }
    }

    /// The pairs that a block brings together: those of its parts, with those among which the boundaries are, and the one before.
    #[inline(always)]
    fn window(&self, block: u64) -> (u64, u64) {
        let (first, reach) = (block * u64::from(self.own_parts), u64::from(self.reach));
        let end = (first + u64::from(self.own_parts)).min(self.out.parts);
        let from = if first > 0 { self.wanted(first) - reach - 1 } else { 0 };
        let to = if end < self.out.parts { self.wanted(end) + reach + 1 } else { self.len };
        (from, to)
    }

    /// Per thread. How many pairs there are after the batch before that of an operation, wrapping. It ascends with the operations.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    unsafe fn position_of<S: Simt>(&self, simt: S, at: u64) -> u64 {
        let (tree, changes) = (&self.tree, &self.changes);
        // SAFETY: the caller's.
        unsafe {
            let rank = tree.rank_of::<S, V>(simt, changes.node(simt, at));
            let before = rank + u64::from(changes.located(simt, at).before());
            before.wrapping_add(changes.growth(simt, at))
        }
    }
}

/// Finds the nodes and the operations that the pairs of each block of [`Rebuild`] are of: a thread per block.
#[derive(Debug)]
pub struct Spans<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Spans<K, V> {
    type Args = RebuildArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let block = simt.global_index();
        if block * u64::from(args.own_parts) >= args.out.parts {
            return;
        }
        let (from, to) = args.window(block);
        let nodes = u64::from(args.tree.leaf_nodes).max(1);
        // SAFETY: nodes of the tree, and their operations.
        unsafe {
            let starts_before = |node: u64, pair: u64| simt.load(args.starts, node, Hint::ReadOnly) < pair;
            let operation = |node: u64| simt.load(args.operations, node, Hint::ReadOnly);
            let is_before = |at: u64, pair: u64| args.position_of(simt, at) < pair;
            let first = first_that_not(0, nodes, |node| starts_before(node + 1, from + 1));
            let end = first_that_not(first + 1, nodes, |node| starts_before(node, to));
            let at = first_that_not(operation(first), operation(first + 1), |at| is_before(at, from));
            let end_at = first_that_not(operation(end - 1), operation(end), |at| is_before(at, to));
            for (word, found) in (4 * block..).zip([first, end, at, end_at]) {
                simt.store(args.spans, word, found, Hint::Default);
            }
        }
    }
}

/// The first number from `from` on that does not hold, or `to`: those that hold come before the others.
#[inline(always)]
fn first_that_not(mut from: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from.midpoint(to);
        if holds(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

/// Writes the nodes of a tree after a batch, with their records and buckets: blocks of [`REBUILD_WARPS`] warps, each for the next
/// `own_parts` parts.
#[derive(Debug)]
pub struct Rebuild<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Rebuild<K, V> {
    const STAGED_BYTES: u32 = Staged::<K, V>::bytes(rebuild_pairs::<K, V>());
}

impl<K: KeyWord, V: Value> Kernel for Rebuild<K, V> {
    type Args = RebuildArgs<K, V>;
    const STATIC_SHARED: u32 = Self::STAGED_BYTES + REBUILD_WARPS * rest_bytes::<K, V>();
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        Some(LaunchBounds { threads: REBUILD_WARPS * WARP, blocks: if K::BITS == 32 && V::IS_SOME { 4 } else { 3 } });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let block = u64::from(simt.block_index());
        let first_part = block * u64::from(args.own_parts);
        let end_part = (first_part + u64::from(args.own_parts)).min(args.out.parts);
        let (from, to) = args.window(block);
        let staged = Staged::<K, V>::at(0, rebuild_pairs::<K, V>(), true);
        let scratch = Self::STAGED_BYTES + simt.warp() * rest_bytes::<K, V>();
        // SAFETY: nodes of the tree and their operations; the pairs have room in shared memory, each a position of its own.
        unsafe {
            collect(simt, args, block, (from, to), staged, Fates::at::<K, V>(scratch));
            simt.barrier();
            let part = first_part + u64::from(simt.warp());
            // The same for all lanes, here and below, and the compiler knows it.
            if !simt.any(FULL_MASK, part < end_part) {
                return;
            }
            // All boundaries are among the pairs that were brought together.
            let key = |at: u64| Source::<K, V>::key(staged, simt, (at - from) as u32);
            let begin = |part: u64| {
                if simt.any(FULL_MASK, 0 < part && part < args.out.parts) {
                    return boundary(simt, (args.wanted(part), args.reach, args.len), |at| (key(at - 1), key(at)));
                }
                if part == 0 { 0 } else { args.len }
            };
            let (start, end) = (begin(part), begin(part + 1));
            let own = (From { source: staged, from: (start - from) as u32 }, (end - start) as u32);
            write_part(simt, args, (part, start), own, scratch);
        }
    }
}

/// Block collective. Brings the pairs that there are after the batch, from the one with the rank `from` to the one before `to`, to shared
/// memory. The block meets before they are read.
///
/// # Safety
/// As for [`Rebuild`]; each warp has fates of its own.
#[inline(always)]
unsafe fn collect<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    args: &RebuildArgs<K, V>,
    block: u64,
    (from, to): (u64, u64),
    staged: Staged<K, V>,
    fates: Fates,
) {
    let (tree, changes) = (&args.tree, &args.changes);
    let len = (to - from) as u32;
    // SAFETY: nodes of the tree and their operations; there is room for these pairs.
    unsafe {
        let operation = |node: u32| simt.load(args.operations, u64::from(node), Hint::ReadOnly) as u32;
        // Fewer nodes and operations than there are numbers of 32 bits, of which registers have room for more.
        let span = |word: u64| simt.load(args.spans.as_const(), 4 * block + word, Hint::ReadOnly) as u32;
        let (first, end, first_at, end_at) = (span(0), span(1), span(2), span(3));
        let mut own_at = first_at + simt.thread_index();
        while own_at < end_at {
            let at = u64::from(own_at);
            // Relative to all pairs, as the growth is that of all operations.
            if let Some(position) = changes.position_of_own(simt, at, 0) {
                let rank = tree.rank_of::<S, V>(simt, changes.node(simt, at));
                let own = rank.wrapping_add(position).wrapping_sub(from);
                if own < u64::from(len) {
                    let key = changes.key(simt, at, tree.flip);
                    staged.put(simt, own as u32, key, Some(changes.value(simt, at)));
                }
            }
            own_at += simt.block_dim();
        }
        // A tree without nodes has no more.
        let end = end.min(tree.leaf_nodes);
        let mut number = first + simt.warp();
        // The same for all lanes, and the compiler knows it.
        while simt.any(FULL_MASK, number < end) {
            let (mut from_at, mut to_at, mut pairs) = (operation(number), operation(number + 1), Pairs::ALL);
            // Other blocks have the rest of a node's operations, which may be very many, and of its pairs. One before ours says which pairs
            // are before it, and may remove the first that is not.
            if simt.any(FULL_MASK, from_at < first_at) {
                from_at = first_at - 1;
                pairs = pairs.from(changes.located(simt, u64::from(from_at)).before());
            }
            if simt.any(FULL_MASK, end_at < to_at) {
                to_at = end_at;
                pairs = pairs.before(changes.located(simt, u64::from(end_at)).before());
            }
            // Relative to the block's first pair, wrapping; a node has fewer pairs than there are numbers of 32 bits.
            let rank = tree.rank_of::<S, V>(simt, number);
            let start = rank.wrapping_add(changes.growth(simt, u64::from(from_at))).wrapping_sub(from) as u32;
            let part = NodePart { number, operations: (u64::from(from_at), u64::from(to_at)), pairs };
            changes.for_each_kept(simt, tree, part, fates, |position, key, value| {
                let own = start.wrapping_add(position);
                if own < len {
                    staged.put(simt, own, key, Some(value));
                }
            });
            // The next node has the same fates.
            simt.sync_warp(FULL_MASK);
            number += REBUILD_WARPS;
        }
    }
}

/// Warp collective (all lanes). Writes a part as a node, or puts it aside; its pairs are those of the source, of which the first has the rank
/// `start`.
///
/// # Safety
/// As for [`Rebuild`]; the warp has memory of its own from `scratch` on.
#[inline(always)]
unsafe fn write_part<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(
    simt: S,
    args: &RebuildArgs<K, V>,
    (part, start): (u64, u64),
    (source, len): (T, u32),
    scratch: u32,
) {
    let (lane, out) = (simt.lane(), &args.out);
    let memory = PlanMemory::at(scratch, bucket_slots::<K, V>());
    // SAFETY: the part's pairs, its elements, and the buckets or the room that it is given.
    unsafe {
        let plan = plan_bitmap(simt, source, len, Filling::new(out.filling), memory, |_, _| {});
        // The same for all lanes, and the compiler knows it.
        let is_node = simt.any(FULL_MASK, simt.opaque(u32::from(plan.is_some())) != 0);
        let plan = plan.unwrap_or(Plan::NONE);
        let (word, count, size) = match is_node {
            true => (BUCKETS, u64::from(buckets_of(out, plan)), 1 << BUCKET_BITS),
            false => (OTHERS, 1 << BUCKET_BITS | u64::from(len), 0),
        };
        let mut before = 0;
        if lane == 0 {
            before = simt.atomic_add(args.counts, word, count, Order::Relaxed, Scope::Device);
            simt.store(args.sizes, part, size, Hint::Default);
        }
        let before = simt.shuffle(FULL_MASK, before, 0);
        let low = (1 << BUCKET_BITS) - 1;
        if simt.any(FULL_MASK, simt.opaque(u32::from(is_node)) != 0) {
            if before + count <= args.most_buckets {
                let target = Target { number: part as u32, bucket: before as u32, rank: start };
                write_node(simt, out, (source, len), plan, target, memory);
                if lane == 0 {
                    note_formats(simt, out.formats, plan.quantiser.format() as u32);
                }
            }
        } else {
            let (index, first) = (before >> BUCKET_BITS, before & low);
            let others = &args.others;
            if first + u64::from(len) <= others.most_pairs {
                if lane == 0 {
                    simt.store(others.cuts, index + 1, first + u64::from(len), Hint::Default);
                    simt.store(others.parts, index, part as u32, Hint::Default);
                    simt.store(others.ranks, index, start, Hint::Default);
                    simt.store(out.others, index, index as u32, Hint::Default);
                }
                let mut at = lane;
                while at < len {
                    let to = first + u64::from(at);
                    simt.store(others.keys, to, source.key(simt, at).xor(out.flip), Hint::Default);
                    values::store(simt, others.values, to, source.value(simt, at), Hint::Default);
                    at += WARP;
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`SizeOthers`].
    pub struct SizeOthersArgs {
        /// From [`CountOthers`](crate::CountOthers): `[count]`.
        pub counts: Global<u64>,
        /// [`OtherParts::parts`].
        pub parts: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: as [`RebuildArgs::sizes`], with the nodes of these parts << [`BUCKET_BITS`], and their buckets.
        pub sizes: GlobalMut<u64>,
    }
}

/// Notes how many nodes and buckets other parts are, among all parts: a thread for each.
#[derive(Debug)]
pub struct SizeOthers;

impl Kernel for SizeOthers {
    type Args = SizeOthersArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let at = simt.global_index();
        if at >= args.count {
            return;
        }
        // SAFETY: one of the parts.
        unsafe {
            let part = u64::from(simt.load(args.parts, at, Hint::ReadOnly));
            simt.store(args.sizes, part, simt.load(args.counts, at, Hint::ReadOnly), Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`AssignOthers`].
    pub struct AssignOthersArgs {
        /// From [`SizeOthers`]: `[parts]`.
        pub sizes: Global<u64>,
        /// Their sums before each part.
        pub before: Global<u64>,
        /// Parts.
        pub parts: u64,
        /// [`OtherParts::parts`].
        pub others: Global<u32>,
        /// [`OtherParts::ranks`].
        pub ranks: Global<u64>,
        /// How many other parts.
        pub count: u64,
        /// The first of their buckets.
        pub first_bucket: u64,
        /// Out: `[parts]`, the final number of the node that a part is; [`u32::MAX`] for other parts.
        pub moves: GlobalMut<u32>,
        /// Out: as [`NodesArgs::targets`], of other parts: `[count]`.
        pub targets: GlobalMut<u64>,
    }
}

/// Finds out where nodes go if other parts are not one node each: a thread per part, of which the first ones also take an other part.
#[derive(Debug)]
pub struct AssignOthers;

impl Kernel for AssignOthers {
    type Args = AssignOthersArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let part = simt.global_index();
        if part >= args.parts {
            return;
        }
        let low = (1 << BUCKET_BITS) - 1;
        // SAFETY: a part; and one of the others.
        unsafe {
            let is_node = simt.load(args.sizes, part, Hint::ReadOnly) & low == 0;
            let number = (simt.load(args.before, part, Hint::ReadOnly) >> BUCKET_BITS) as u32;
            simt.store(args.moves, part, if is_node { number } else { u32::MAX }, Hint::Default);
            if part < args.count {
                let other = u64::from(simt.load(args.others, part, Hint::ReadOnly));
                let start = simt.load(args.before, other, Hint::ReadOnly) + args.first_bucket;
                let rank = simt.load(args.ranks, part, Hint::ReadOnly);
                let to = part * u64::from(TARGET_WORDS);
                simt.store(args.targets, to, start, Hint::Default);
                simt.store(args.targets, to + 1, rank, Hint::Default);
            }
        }
    }
}
