//! Runs: neighbouring nodes that are divided together, and share their lines.
//!
//! A node that is divided often lacks a line or two, while those beside it have some to spare. So it draws them in, until all
//! together have lines enough. Such a run stays within an aligned block of [`BLOCK_NODES`] nodes, so that a warp can decide about
//! the whole of it, and finds a run again by two words of bits.
//!
//! Where a whole block has too few lines, it takes those of the smallest window that has enough: 2, 4, 8 or more blocks, beginning
//! at a multiple of as many, as in a sparse table (Itai, Konheim and Rodeh, ICALP 1981). So windows are nested or apart, and which
//! they are can be found out for each block by itself. A window is one run.

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

/// Per thread. The bits of a block, loaded with [`Hint::Default`] if the kernel writes them afterwards.
///
/// # Safety
/// There is such a block.
#[inline(always)]
unsafe fn block_bits<S: Simt>(simt: S, bits: Global<u32>, block: u64, hint: Hint) -> u64 {
    // SAFETY: the caller's.
    let [low, high] = [0, 1].map(|word| unsafe { simt.load(bits, 2 * block + word, hint) });
    u64::from(high) << 32 | u64::from(low)
}

/// The lines that so many pairs are likely to take in one node or more, if all lines of a run are filled. Some will have fewer pairs
/// than slots.
#[inline(always)]
fn lines_for(pairs: u64, nodes: u32, slots: u32) -> u64 {
    // 1.1 times as many, in units of 1/256.
    if pairs > 0 { (pairs * 282).div_ceil(u64::from(256 * slots)) + u64::from(nodes) } else { 0 }
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
        /// Which nodes are drawn in: a [`Draws`].
        pub draws: u32,
        /// Most nodes of a window.
        pub most_nodes: u32,
        /// The windows into which whole blocks are drawn.
        pub windows: Windows,
        /// In and out: how many nodes are divided; added to the former value.
        pub divided_count: GlobalMut<u64>,
        /// In and out: how many blocks are in no window with enough lines, though they need one; added to the former value.
        pub stuck_count: GlobalMut<u64>,
    }
}

/// Which nodes [`PlanRuns`] draws in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Draws {
    /// None: only those are divided that must be.
    Nothing = 0,
    /// Those of the same block; and windows are chosen for blocks that have too few lines.
    FromBlocks = 1,
    /// All of the windows that were chosen; nothing else changes.
    Windows = 2,
}

kernel_args! {
    /// Windows of blocks, as a tree of bits: bit 1 is the window of all blocks, bits `2 * i` and `2 * i + 1` are the halves of
    /// window `i`.
    pub struct Windows {
        /// A bit for each window: whether it is chosen.
        pub bits: GlobalMut<u32>,
        /// How often windows are halved until they are blocks.
        pub levels: u64,
    }
}

impl Windows {
    /// How often windows of so many nodes, at least one, are halved until they are blocks.
    pub const fn levels_of(nodes: u32) -> u32 {
        nodes.div_ceil(BLOCK_NODES).next_power_of_two().ilog2()
    }

    /// Words of bits for so many levels.
    pub const fn words(levels: u32) -> usize {
        (2_usize << levels).div_ceil(32)
    }

    /// Per thread. Chooses the window of 2^level blocks that has a block.
    ///
    /// # Safety
    /// There is such a window.
    #[inline(always)]
    unsafe fn choose<S: Simt>(&self, simt: S, level: u32, block: u64) {
        let bit = 1 << (self.levels as u32 - level) | block >> level;
        // SAFETY: the caller's.
        unsafe { simt.atomic_or(self.bits, bit / 32, 1 << (bit % 32), Order::Relaxed, Scope::Device) };
    }

    /// Per thread. The largest window that is chosen and has a block: the first of its nodes, and the one after the last, of so many
    /// in all.
    ///
    /// # Safety
    /// There is such a block.
    #[inline(always)]
    unsafe fn chosen<S: Simt>(&self, simt: S, block: u64, leaf_nodes: u64) -> Option<(u64, u64)> {
        let mut level = self.levels as u32;
        while level > 0 {
            let bit = 1 << (self.levels as u32 - level) | block >> level;
            // SAFETY: a window.
            if unsafe { simt.load(self.bits.as_const(), bit / 32, Hint::ReadOnly) } >> (bit % 32) & 1 != 0 {
                return Some(nodes_of(level, block, leaf_nodes));
            }
            level -= 1;
        }
        None
    }
}

/// The nodes of the window of 2^level blocks that has a block.
#[inline(always)]
fn nodes_of(level: u32, block: u64, leaf_nodes: u64) -> (u64, u64) {
    let first = (block >> level << level) * u64::from(BLOCK_NODES);
    let end = first + (u64::from(BLOCK_NODES) << level);
    (first, if end < leaf_nodes { end } else { leaf_nodes })
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
            let mut found = block_bits(simt, args.found, block, Hint::ReadOnly);
            let mut before_count = 0;
            if args.draws == Draws::Windows as u32 {
                if args.windows.chosen(simt, block, tree.leaf_nodes.into()).is_none() {
                    return;
                }
                before_count = ones(block_bits(simt, args.divided.as_const(), block, Hint::Default));
                found = bits_of(0, count);
            }
            let (mut divided, mut is_stuck) = (found, false);
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
                    let needed = lines_for(pairs[half], 1, line_slots::<K, V>());
                    let mut needed = if needed < u64::from(MOST_LINES) { needed as u32 } else { MOST_LINES };
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
                while args.draws == Draws::FromBlocks as u32 && from < count && divided >> from != 0 {
                    let mut start = from + lowest_one(divided >> from);
                    let mut end = start + set_from(divided, start);
                    while spare(start, end) < 0 || with_pairs & bits_of(start, end) == 0 {
                        if start == 0 && end == count {
                            is_stuck = true;
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
                let nodes = ones(divided) - before_count;
                simt.atomic_add(args.divided_count, 0, u64::from(nodes), Order::Relaxed, Scope::Device);
            }
            // The same for all lanes.
            if is_stuck {
                // A window for each lane.
                let level = lane + 1;
                let fits = simt.ballot(FULL_MASK, simt.opaque(u32::from(fits(simt, args, level, block))) != 0);
                if lane == 0 && fits != 0 {
                    args.windows.choose(simt, fits.trailing_zeros() + 1, block);
                } else if lane == 0 {
                    simt.atomic_add(args.stuck_count, 0, 1, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

/// The bits that are set.
#[inline(always)]
fn ones(bits: u64) -> u32 {
    (bits as u32).count_ones() + ((bits >> 32) as u32).count_ones()
}

/// Per thread. Whether the window of 2^level blocks that has a block is not too large, and has enough lines.
///
/// # Safety
/// There is such a block.
#[inline(always)]
unsafe fn fits<S: Simt, K: KeyWord, V: Value>(simt: S, args: &RunsArgs<K, V>, level: u32, block: u64) -> bool {
    if u64::from(level) > args.windows.levels {
        return false;
    }
    let leaf_nodes = args.tree.leaf_nodes;
    let (first, end) = nodes_of(level, block, leaf_nodes.into());
    let nodes = (end - first) as u32;
    if nodes > args.most_nodes {
        return false;
    }
    // SAFETY: nodes, or the end.
    let (from, to) = unsafe { (starts(simt, args, first as u32), starts(simt, args, end as u32)) };
    let spare = if end == u64::from(leaf_nodes) { args.spare_lines } else { 0 };
    let (pairs, lines) = (to.0.wrapping_sub(from.0), u64::from(to.1 - from.1) + u64::from(spare));
    pairs > 0 && lines_for(pairs, nodes, line_slots::<K, V>()) <= lines
}

/// Per thread. The rank of a node after the batch, and its first line; or those of the end.
///
/// # Safety
/// There is such a node.
#[inline(always)]
unsafe fn starts<S: Simt, K: KeyWord, V: Value>(simt: S, args: &RunsArgs<K, V>, node: u32) -> (u64, u32) {
    let (tree, changes) = (&args.tree, &args.changes);
    // SAFETY: the caller's.
    unsafe {
        let growth = changes.growth(simt, changes.of_node(simt, node));
        let line = if node == tree.leaf_nodes { tree.line_count } else { tree.first_line(simt, node) };
        (tree.rank_of::<S, V>(simt, node).wrapping_add(growth), line)
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
    let lane = simt.lane();
    // SAFETY: a node, or the end.
    let starts = |index: u32| unsafe { starts(simt, args, first + if index < count { index } else { count }) };
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
        /// Windows, of which all nodes are divided.
        pub windows: Windows,
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
                let block = node / u64::from(BLOCK_NODES);
                let bits = block_bits(simt, args.divided, block, Hint::ReadOnly);
                let index = (node % u64::from(BLOCK_NODES)) as u32;
                if bits >> index & 1 == 0 {
                    return;
                }
                (below, from_here) = match args.windows.chosen(simt, block, args.leaf_nodes) {
                    Some((first, end)) => (node - first, end - node),
                    None => (set_below(bits, index).into(), set_from(bits, index).into()),
                };
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
            store(DividedWord::RunFirst, at - below);
            store(DividedWord::RunEnd, at + from_here);
        }
    }
}
