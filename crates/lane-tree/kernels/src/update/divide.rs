//! Nodes that are divided: their pairs are copied, and go the way of a build, whose parts lie in these nodes.

use super::{Changes, Effect};
use crate::parts::{Divided, DividedWord, LINE_BITS, Spread, TARGET_WORDS};
use crate::search::TreeRef;
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Simt, WARP, kernel_args};

kernel_args! {
    /// Arguments of [`MovePairs`] and [`MoveInserts`].
    pub struct DivideArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that are divided.
        pub divided: Divided,
        /// Out: the keys of all their pairs after the batch, ascending, in the caller's form.
        pub keys: GlobalMut<K>,
        /// Out: their values.
        pub values: GlobalMut<V>,
    }
}

/// Copies the pairs that stay in the nodes that are divided: a warp per node.
#[derive(Debug)]
pub struct MovePairs<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for MovePairs<K, V> {
    type Args = DivideArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes, divided) = (&args.tree, &args.changes, &args.divided);
        let index = simt.global_index() / u64::from(WARP);
        if index >= divided.count {
            return;
        }
        // SAFETY: a node of the tree and its operations; there is room for all pairs after the batch.
        unsafe {
            let number = divided.get(simt, index, DividedWord::Node) as u32;
            let from = divided.get(simt, index, DividedWord::From);
            let to = changes.of_node(simt, number + 1);
            let len = tree.rank_of::<S, V>(simt, number + 1) - tree.rank_of::<S, V>(simt, number);
            let first = divided.get(simt, index, DividedWord::Pairs).wrapping_sub(changes.growth(simt, from));
            tree.for_each_pair(simt, tree.lines_of(simt, number), len as u32, |place, key, value: V| {
                let (after, effect) = changes.fate(simt, key, tree.flip, from, to);
                if effect == Effect::Remove {
                    return;
                }
                let value = if effect == Effect::Replace { changes.value(simt, after - 1) } else { value };
                let to = first.wrapping_add(u64::from(place)).wrapping_add(changes.growth(simt, after));
                simt.store(args.keys, to, key.xor(tree.flip), Hint::Streaming);
                values::store(simt, args.values, to, value, Hint::Streaming);
            });
        }
    }
}

/// Writes the pairs that a batch inserts into the nodes that are divided: a thread per operation.
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
            let mut first = 0;
            if divided.count > 0 {
                let node = u64::from(changes.node(simt, at));
                let index = divided.upto(simt, DividedWord::Node, node);
                if index == 0 || divided.get(simt, index - 1, DividedWord::Node) != node {
                    return;
                }
                let from = divided.get(simt, index - 1, DividedWord::From);
                first = divided.get(simt, index - 1, DividedWord::Pairs).wrapping_sub(changes.growth(simt, from));
            }
            let to = first.wrapping_add(u64::from(place.before())).wrapping_add(changes.growth(simt, at));
            simt.store(args.keys, to, simt.load(changes.keys, at, Hint::ReadOnly), Hint::Streaming);
            values::store(simt, args.values, to, changes.value(simt, at), Hint::Streaming);
        }
    }
}

kernel_args! {
    /// Arguments of [`Fits`].
    pub struct FitsArgs {
        /// The nodes that are divided.
        pub divided: Divided,
        /// Nodes << [`LINE_BITS`] and lines of the parts before each, and the total.
        pub before: Global<u64>,
        /// Nodes of the lowest level.
        pub leaf_nodes: u64,
        /// Lines that there is room for after all others: for the run that has the last node.
        pub spare_lines: u64,
        /// Out: the last of `before`.
        pub total: GlobalMut<u64>,
        /// In and out: how many runs have too few lines for the nodes into which they are divided; added to the former value.
        pub without_lines: GlobalMut<u64>,
        /// In and out: how many lines the run with the last node takes beyond its own; added to the former value.
        pub appended: GlobalMut<u64>,
    }
}

/// Counts the runs of divided nodes that have too few lines: a thread for each node.
#[derive(Debug)]
pub struct Fits;

impl Kernel for Fits {
    type Args = FitsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (at, divided) = (simt.global_index(), &args.divided);
        if at >= divided.count {
            return;
        }
        // SAFETY: a node that is divided, and its run; their parts.
        unsafe {
            if at == 0 {
                let parts = divided.get(simt, divided.count, DividedWord::Parts);
                simt.store(args.total, 0, simt.load(args.before, parts, Hint::ReadOnly), Hint::Default);
            }
            let (run, end) = divided.run_of(simt, at);
            if run != at {
                return;
            }
            let (room, needed) = lines_of_run(simt, divided, args.before, (run, end));
            let has_last = divided.get(simt, end - 1, DividedWord::Node) + 1 == args.leaf_nodes;
            let spare = if has_last { args.spare_lines } else { 0 };
            // A run without pairs has no parts: nobody would fill its lines.
            if needed > room + spare || needed == 0 {
                simt.atomic_add(args.without_lines, 0, 1, Order::Relaxed, Scope::Device);
            } else if needed > room {
                simt.atomic_add(args.appended, 0, needed - room, Order::Relaxed, Scope::Device);
            }
        }
    }
}

/// Per thread. The lines that a run has, and those that its parts need.
///
/// # Safety
/// There is such a run.
#[inline(always)]
unsafe fn lines_of_run<S: Simt>(simt: S, divided: &Divided, before: Global<u64>, (run, end): (u64, u64)) -> (u64, u64) {
    // SAFETY: the caller's.
    unsafe {
        let lines_before = |at: u64| {
            let part = divided.get(simt, at, DividedWord::Parts);
            simt.load(before, part, Hint::ReadOnly) & ((1 << LINE_BITS) - 1)
        };
        let room = divided.get(simt, end, DividedWord::Lines) - divided.get(simt, run, DividedWord::Lines);
        (room, lines_before(end) - lines_before(run))
    }
}

kernel_args! {
    /// Arguments of [`PlaceParts`].
    pub struct PlacePartsArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that are divided.
        pub divided: Divided,
        /// Nodes << [`LINE_BITS`] and lines of the parts before each, and the total: `[parts + 1]`.
        pub before: Global<u64>,
        /// The first of the copied pairs in each part, and the number of pairs: `[parts + 1]`.
        pub cuts: Global<u64>,
        /// Parts.
        pub parts: u64,
        /// 1 if lines move, so that each node has as many as it needs; 0 if they stay where they are, and runs share theirs.
        pub lines_move: u64,
        /// If they move.
        pub spread: Spread,
        /// Out: `[parts]`, [`TARGET_WORDS`] each: the number of the part's first node << [`LINE_BITS`] and its first line; the
        /// line after its last; the rank of its first pair.
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
            let lines = divided.get(simt, index, DividedWord::Lines);
            let before = |part: u64| {
                let before = simt.load(args.before, part, Hint::ReadOnly);
                (before >> LINE_BITS, before & ((1 << LINE_BITS) - 1))
            };
            let (own, after) = (before(part), before(part + 1));
            let first_line = u64::from(args.tree.first_line(simt, number as u32));
            // Where lines move, those of the parts follow one another.
            let base = first_line.wrapping_sub(lines);
            let (mut line, mut end) = (base.wrapping_add(own.1), base.wrapping_add(after.1));
            if args.lines_move != 0 {
                (line, end) = (args.spread.to(line), args.spread.to(end));
            } else {
                let (run, run_end) = divided.run_of(simt, index);
                let (first_part, end_part) =
                    (divided.get(simt, run, DividedWord::Parts), divided.get(simt, run_end, DividedWord::Parts));
                let (room, needed) = lines_of_run(simt, divided, args.before, (run, run_end));
                // Each part has its share of the lines that are left, so that later batches find some everywhere.
                let left = room.saturating_sub(needed);
                let share = |part: u64| left * (part - first_part) / (end_part - first_part).max(1);
                let run_line = first_line - (lines - divided.get(simt, run, DividedWord::Lines));
                let run_base = run_line.wrapping_sub(before(first_part).1);
                line = run_base.wrapping_add(own.1 + share(part));
                end = run_base.wrapping_add(after.1 + share(part + 1));
            }
            let rank = args.tree.rank_of::<S, V>(simt, number as u32) + simt.load(args.cuts, part, Hint::ReadOnly)
                - divided.get(simt, index, DividedWord::Pairs);
            let growth = args.changes.growth(simt, divided.get(simt, index, DividedWord::From));
            let to = part * u64::from(TARGET_WORDS);
            let start = (number - index + own.0) << LINE_BITS | line;
            simt.store(args.targets, to, start, Hint::Default);
            simt.store(args.targets, to + 1, end, Hint::Default);
            simt.store(args.targets, to + 2, rank.wrapping_add(growth), Hint::Default);
        }
    }
}
