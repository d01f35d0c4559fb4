//! Runs: neighbouring nodes that are divided together, and share their lines.
//!
//! A node that is divided often lacks a line or two, while those beside it have some to spare. So it draws them in, until all
//! together have lines enough. A run stays within an aligned block of [`BLOCK_NODES`] nodes, so that a warp can decide about
//! the whole of it, and finds a run again by two words of bits.

use super::{Changes, first_of_node};
use crate::layout::{BITMAP_CHILDREN, line_slots};
use crate::parts::{DIVIDED_WORDS, DividedWord, LINE_BITS};
use crate::search::TreeRef;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Shared, Simt, WARP, highest_one, kernel_args,
    lowest_one, unroll,
};

/// Nodes of a block: two words of bits.
pub const BLOCK_NODES: u32 = 64;

/// Warps of a block of threads of [`PlanRuns`].
pub const RUN_WARPS: u32 = 4;

/// How many bits are set from one of them upwards.
#[inline(always)]
fn set_from(bits: u64, at: u32) -> u32 {
    lowest_one(!(bits >> at))
}

/// How many bits are set directly below one of them.
#[inline(always)]
fn set_below(bits: u64, at: u32) -> u32 {
    if at == 0 {
        return 0;
    }
    // Not 0, unless all bits are set.
    let unset = !(bits << (BLOCK_NODES - at));
    if unset == 0 { BLOCK_NODES } else { BLOCK_NODES - 1 - highest_one(unset) }
}

/// Bits from one of them to before another, which is larger.
#[inline(always)]
fn bits_of(start: u32, end: u32) -> u64 {
    (u64::MAX >> (BLOCK_NODES - (end - start))) << start
}

/// Per thread. The bits of a block.
///
/// # Safety
/// There is such a block.
#[inline(always)]
unsafe fn block_bits<S: Simt>(simt: S, bits: Global<u32>, block: u64) -> u64 {
    // SAFETY: the caller's.
    let [low, high] = [0, 1].map(|word| unsafe { simt.load(bits, 2 * block + word, Hint::ReadOnly) });
    u64::from(high) << 32 | u64::from(low)
}

/// The lines that a node's pairs are likely to take, if all lines of its run are filled. Some will have fewer pairs than slots.
#[inline(always)]
fn lines_for(pairs: u64, slots: u32) -> u32 {
    // 1.1 times as many, in units of 1/256.
    let lines = (pairs * 282).div_ceil(u64::from(256 * slots)) + 1;
    match pairs {
        0 => 0,
        _ if lines < u64::from(MOST_LINES) => lines as u32,
        _ => MOST_LINES,
    }
}

/// As good as any larger number of lines, of which a block's sum takes no more than 31 bits.
const MOST_LINES: u32 = 1 << 24;

kernel_args! {
    /// Arguments of [`PlanRuns`].
    pub struct RunsArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// A bit for each node of the lowest level that must be divided, in whole blocks of [`BLOCK_NODES`].
        pub found: Global<u32>,
        /// Out: likewise for each that is divided.
        pub divided: GlobalMut<u32>,
        /// Out: for each node that is divided 1 << [`LINE_BITS`], and its pairs after the batch; 0 for others: `[leaf_nodes]`.
        pub pairs: GlobalMut<u64>,
        /// Out: for each node that is divided the parts in which it is << [`LINE_BITS`], and its lines; 0 for others:
        /// `[leaf_nodes]`.
        pub parts: GlobalMut<u64>,
        /// Pairs of a part, at least 1.
        pub part: u32,
        /// Lines that there is room for after all others.
        pub spare_lines: u32,
        /// 1 if nodes are drawn in, 0 if only those are divided that must be.
        pub draws: u32,
        /// 0, so that there is no padding.
        pub reserved: u32,
        /// In and out: how many nodes are divided; added to the former value.
        pub divided_count: GlobalMut<u64>,
        /// In and out: how many runs have too few lines, though they have all nodes of their block; added to the former value.
        pub stuck_count: GlobalMut<u64>,
    }
}

/// Decides which nodes are divided: those that must be, and nodes beside where these lack lines. A warp for each block of
/// nodes, in blocks of [`RUN_WARPS`].
#[derive(Debug)]
pub struct PlanRuns<K, V>(PhantomData<(K, V)>);

/// Words of a warp: the lines to spare of the nodes before each of a block, and of all.
const SUMS: u32 = BLOCK_NODES + 1;

impl<K: KeyWord, V: Value> Kernel for PlanRuns<K, V> {
    type Args = RunsArgs<K, V>;
    const STATIC_SHARED: u32 = RUN_WARPS * SUMS * 4;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, lane) = (&args.tree, simt.lane());
        let block = simt.global_index() / u64::from(WARP);
        let first = block * u64::from(BLOCK_NODES);
        if first >= u64::from(tree.leaf_nodes) {
            return;
        }
        let first = first as u32;
        let left = tree.leaf_nodes - first;
        let count = if left < BLOCK_NODES { left } else { BLOCK_NODES };
        let sums = Shared::<u32>::at(simt.warp() * (SUMS * 4), SUMS);
        // SAFETY: nodes of the tree, and their operations; two words of bits for each block.
        unsafe {
            let found = block_bits(simt, args.found, block);
            let (mut divided, mut stuck) = (found, 0);
            // A lane has two nodes.
            let (mut pairs, mut rooms) = ([0; 2], [0; 2]);
            // The same for all lanes.
            if found != 0 {
                let (after, lines) = sizes(simt, args, first, count);
                (pairs, rooms) = (after, lines);
                let mut before = 0;
                let mut with_pairs = 0;
                unroll!(2, half => {
                    let index = lane + half as u32 * WARP;
                    let mut room = if rooms[half] < MOST_LINES { rooms[half] } else { MOST_LINES };
                    let mut needed = lines_for(pairs[half], line_slots::<K, V>());
                    if found >> index & 1 != 0 && pairs[half] > 0 && room <= BITMAP_CHILDREN {
                        // It did not fit in its lines, however few its pairs are.
                        let at_least = room + room / 16 + 1;
                        needed = if needed < at_least { at_least } else { needed };
                    }
                    if first + index + 1 == tree.leaf_nodes {
                        room += if args.spare_lines < MOST_LINES { args.spare_lines } else { MOST_LINES };
                    }
                    // Wrapping, as there may be too few.
                    let mut sum = room.wrapping_sub(needed);
                    let mut step = 1;
                    while step < WARP {
                        let other = simt.shuffle_up(FULL_MASK, sum, step);
                        sum = sum.wrapping_add(if lane >= step { other } else { 0 });
                        step *= 2;
                    }
                    sum = sum.wrapping_add(before);
                    before = simt.shuffle(FULL_MASK, sum, WARP - 1);
                    with_pairs |= u64::from(simt.ballot(FULL_MASK, pairs[half] > 0)) << (half as u32 * WARP);
                    simt.shared_store(sums, index + 1, sum);
                });
                if lane == 0 {
                    simt.shared_store(sums, 0, 0);
                }
                simt.sync_warp(FULL_MASK);
                let spare = |start: u32, end: u32| {
                    simt.shared_load(sums, end).wrapping_sub(simt.shared_load(sums, start)) as i32
                };
                let mut from = 0;
                // All lanes do the same.
                while args.draws != 0 && from < count && divided >> from != 0 {
                    let mut start = from + lowest_one(divided >> from);
                    let mut end = start + set_from(divided, start);
                    while spare(start, end) < 0 || with_pairs & bits_of(start, end) == 0 {
                        if start == 0 && end == count {
                            stuck = 1;
                            break;
                        }
                        // The node beside that has more to spare, and the runs to which it leads.
                        if end < count && (start == 0 || spare(end, end + 1) >= spare(start - 1, start)) {
                            end += 1;
                            end += if end < count { set_from(divided, end) } else { 0 };
                        } else {
                            start -= 1;
                            start -= set_below(divided, start);
                        }
                    }
                    divided |= bits_of(start, end);
                    from = end;
                }
            }
            if lane < 2 {
                simt.store(args.divided, 2 * block + u64::from(lane), (divided >> (lane * 32)) as u32, Hint::Default);
            }
            unroll!(2, half => {
                let index = lane + half as u32 * WARP;
                if index < count {
                    let (mut own_pairs, mut own_parts) = (0, 0);
                    if divided >> index & 1 != 0 {
                        // As many parts as a build has for so many pairs.
                        let parts = pairs[half] / u64::from(args.part.max(1));
                        let parts = if parts == 0 && pairs[half] > 0 { 1 } else { parts };
                        own_pairs = 1 << LINE_BITS | pairs[half];
                        own_parts = parts << LINE_BITS | u64::from(rooms[half]);
                    }
                    let to = u64::from(first + index);
                    simt.store(args.pairs, to, own_pairs, Hint::Default);
                    simt.store(args.parts, to, own_parts, Hint::Default);
                }
            });
            if lane == 0 && divided != 0 {
                let nodes = (divided as u32).count_ones() + ((divided >> 32) as u32).count_ones();
                simt.atomic_add(args.divided_count, 0, u64::from(nodes), Order::Relaxed, Scope::Device);
                if stuck != 0 {
                    simt.atomic_add(args.stuck_count, 0, 1, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

/// Warp collective (all lanes). The pairs after the batch and the lines of the lane's two nodes of a block that has `count`; 0
/// for nodes past these.
///
/// # Safety
/// There are such nodes.
#[inline(always)]
unsafe fn sizes<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    args: &RunsArgs<K, V>,
    first: u32,
    count: u32,
) -> ([u64; 2], [u32; 2]) {
    let (tree, changes, lane) = (&args.tree, &args.changes, simt.lane());
    // The rank of a node after the batch, and its first line; or those of the end.
    let starts = |index: u32| {
        let node = first + if index < count { index } else { count };
        // SAFETY: a node, or the end.
        unsafe {
            let growth = changes.growth(simt, changes.of_node(simt, node));
            let line = if node == tree.leaf_nodes { tree.line_count } else { tree.first_line(simt, node) };
            (tree.rank_of::<S, V>(simt, node).wrapping_add(growth), line)
        }
    };
    let (low, high, end) = (starts(lane), starts(lane + WARP), starts(BLOCK_NODES));
    let next = |own: (u64, u32), (rank, line): (u64, u32)| {
        let beside = (simt.shuffle_down(FULL_MASK, own.0, 1), simt.shuffle_down(FULL_MASK, own.1, 1));
        let (rank, line) = if lane == WARP - 1 { (rank, line) } else { beside };
        (rank.wrapping_sub(own.0), line - own.1)
    };
    let first_high = (simt.shuffle(FULL_MASK, high.0, 0), simt.shuffle(FULL_MASK, high.1, 0));
    let (low, high) = (next(low, first_high), next(high, end));
    ([low.0, high.0], [low.1, high.1])
}

kernel_args! {
    /// Arguments of [`ListDivided`].
    pub struct ListDividedArgs {
        /// A bit for each node that is divided, in whole blocks of [`BLOCK_NODES`].
        pub divided: Global<u32>,
        /// From [`PlanRuns`]: the sums of its pairs before each node, and the total: `[leaf_nodes + 1]`.
        pub pairs_before: Global<u64>,
        /// Sums of its parts, likewise.
        pub parts_before: Global<u64>,
        /// Nodes of the lowest level.
        pub leaf_nodes: u64,
        /// The nodes of the batch's operations, ascending: `[count]`.
        pub nodes: Global<u32>,
        /// How many operations.
        pub count: u64,
        /// In and out: a bit for each node that is not changed line by line: those that are divided are added.
        pub marks: GlobalMut<u32>,
        /// Out: as [`Divided::words`](crate::Divided::words).
        pub words: GlobalMut<u64>,
    }
}

/// Lists the nodes that are divided: a thread for each node of the lowest level, and one for the end.
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
        // SAFETY: nodes of the tree, and the end; there is room for those that are divided, and the end.
        unsafe {
            let (mut below, mut from_here, mut from) = (0, 0, 0);
            if node < args.leaf_nodes {
                let bits = block_bits(simt, args.divided, node / u64::from(BLOCK_NODES));
                let index = (node % u64::from(BLOCK_NODES)) as u32;
                if bits >> index & 1 == 0 {
                    return;
                }
                (below, from_here) = (set_below(bits, index), set_from(bits, index));
                from = first_of_node(simt, args.nodes, args.count, node as u32);
                simt.atomic_or(args.marks, node / 32, 1 << (node % 32), Order::Relaxed, Scope::Device);
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
            store(DividedWord::RunFirst, at - u64::from(below));
            store(DividedWord::RunEnd, at + u64::from(from_here));
        }
    }
}
