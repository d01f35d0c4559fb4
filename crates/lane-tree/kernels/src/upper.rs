//! The levels above the lowest, and the table above them.

use crate::layout::{
    HALVES_CHILDREN, NODE_WORDS, Prefixes, Quantiser, TABLE_ENTRIES, covered, exact_children, node_at,
};
use crate::node::{node_word, note_formats};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Shared, Simt, WARP, kernel_args, unroll};

/// Warps of a block of [`CountUpper`] or [`WriteUpper`].
pub const UPPER_WARPS: u32 = 4;

kernel_args! {
    /// Arguments of [`CountUpper`] and [`WriteUpper`].
    pub struct UpperArgs<K> {
        /// The first key of each child, as ordered words: `[children]`.
        pub firsts: Global<K>,
        /// The last key of each child.
        pub lasts: Global<K>,
        /// Children, which are the nodes of the level below.
        pub children: u64,
        /// The number of the first of them.
        pub first_child: u32,
        /// The number of the first node of this level.
        pub first_number: u32,
        /// Children of a part: [`HALVES_CHILDREN`], or the number of an exact node, if all are to be exact.
        pub part: u32,
        /// 0, so that there is no padding.
        pub reserved: u32,
        /// Out, of [`CountUpper`]: the nodes of each part.
        pub counts: GlobalMut<u32>,
        /// Of [`WriteUpper`]: the sums of the counts before each part; null if each part is one node.
        pub before: Global<u64>,
        /// Out, of [`WriteUpper`]: all nodes, by their numbers.
        pub nodes: GlobalMut<u32>,
        /// Out, of [`WriteUpper`]: the first key of each node of the level.
        pub own_firsts: GlobalMut<K>,
        /// Out, of [`WriteUpper`]: the last key of each node of the level.
        pub own_lasts: GlobalMut<K>,
        /// Out, of [`WriteUpper`]: the formats of all nodes of the level.
        pub formats: GlobalMut<u32>,
    }
}

/// Counts the nodes of each part of a level's children: a warp per part; blocks of [`UPPER_WARPS`] warps.
#[derive(Debug)]
pub struct CountUpper<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for CountUpper<K> {
    type Args = UpperArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { split(simt, args, false) };
    }
}

/// Writes the nodes of each part: launched as [`CountUpper`].
#[derive(Debug)]
pub struct WriteUpper<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for WriteUpper<K> {
    type Args = UpperArgs<K>;
    const STATIC_SHARED: u32 = UPPER_WARPS * NODE_WORDS * 4;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { split(simt, args, true) };
    }
}

/// Warp collective (all lanes). Splits a part of the children: one node if 15 bits tell them apart, else two, else exact
/// nodes for those that they do not.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn split<S: Simt, K: KeyWord>(simt: S, args: &UpperArgs<K>, writes: bool) {
    let part = simt.global_index() / u64::from(WARP);
    let begin = part * u64::from(args.part);
    if begin >= args.children {
        return;
    }
    let lane = simt.lane();
    let left = args.children - begin;
    let len = if left < u64::from(args.part) { left as u32 } else { args.part };
    let at = begin + u64::from(if lane < len { lane } else { len - 1 });
    // SAFETY: children of the part, and the one after it.
    let (first, last, after) = unsafe {
        let next = begin + u64::from(len);
        let has_next = next < args.children;
        let next = if has_next { next } else { next - 1 };
        (
            simt.load(args.firsts, at, Hint::ReadOnly),
            simt.load(args.lasts, at, Hint::ReadOnly),
            has_next.then_some(simt.load(args.firsts, next, Hint::ReadOnly)),
        )
    };
    let mut number = 0;
    if writes {
        number = part as u32;
        if !args.before.is_null() {
            // SAFETY: there is a sum for each part.
            number = unsafe { simt.load(args.before, part, Hint::ReadOnly) } as u32;
        }
    }
    let first_number = number;
    let exact = exact_children::<K>();
    let mut start = 0;
    // The children of the next node, if they can be told apart.
    let mut own = len;
    while start < len {
        let end = start + own;
        let quantiser = {
            let from = simt.shuffle(FULL_MASK, first, start);
            let to = simt.shuffle(FULL_MASK, last, end - 1);
            let following = simt.shuffle(FULL_MASK, first, if end < len { end } else { 0 });
            let next = if end < len { Some(following) } else { after };
            Quantiser::halves(from, covered(from, to, next))
        };
        let before = quantiser.quantise(simt.shuffle_up(FULL_MASK, last, 1));
        let tells = lane <= start || lane >= end || before < quantiser.quantise(first);
        let is_told = simt.all(FULL_MASK, tells) && own > exact && args.part == HALVES_CHILDREN;
        let quantiser = if is_told { quantiser } else { Quantiser::EXACT };
        if !is_told {
            if own == len && args.part == HALVES_CHILDREN && len > exact {
                // Once more, with half of them.
                own = len.div_ceil(2);
                if own < len && own > exact {
                    continue;
                }
            }
            own = if own < exact { own } else { exact };
        }
        if writes {
            let node = Shared::<u32>::at(simt.warp() * NODE_WORDS * 4, NODE_WORDS);
            let child = args.first_child + begin as u32 + start;
            // SAFETY: nodes of the level; children of the part, whose quantised keys differ.
            unsafe {
                let first_of = |child: u32| simt.load(args.firsts, begin + u64::from(start + child), Hint::ReadOnly);
                let word = node_word(simt, quantiser, child, own, first_of, node);
                if lane < NODE_WORDS {
                    let to = node_at(args.first_number + number) + u64::from(lane);
                    simt.store(args.nodes, to, word, Hint::Default);
                }
                let (from, to) =
                    (simt.shuffle(FULL_MASK, first, start), simt.shuffle(FULL_MASK, last, start + own - 1));
                if lane == 0 {
                    simt.store(args.own_firsts, u64::from(number), from, Hint::Default);
                    simt.store(args.own_lasts, u64::from(number), to, Hint::Default);
                    note_formats(simt, args.formats, quantiser.format() as u32);
                }
            }
        }
        number += 1;
        start += own;
        own = len - start;
    }
    if !writes && lane == 0 {
        // SAFETY: one element per part.
        unsafe { simt.store(args.counts, part, number - first_number, Hint::Default) };
    }
}

kernel_args! {
    /// Arguments of [`Table`].
    pub struct TableArgs<K> {
        /// First keys of nodes, in ascending order: `[count]`, at least one.
        pub firsts: Global<K>,
        /// How many.
        pub count: u32,
        /// 0, so that there is no padding.
        pub reserved: u32,
        /// [`Prefixes::split`].
        pub split: K,
        /// [`Prefixes::gap`].
        pub gap: K,
        /// Formats that were noted: `[2]`.
        pub formats: Global<u32>,
        /// Out: `[TABLE_ENTRIES]`.
        pub table: GlobalMut<u32>,
        /// Out: `[count]`, the prefixes of the first keys.
        pub prefixes: GlobalMut<u32>,
        /// Out: `[SUMMARY_WORDS]`, the [parts](KeyWord::parts) of the first and of the last of these keys, the formats, and how many
        /// [samples](crowded_samples) there are.
        pub summary: GlobalMut<u64>,
    }
}

/// Words of [`TableArgs::summary`].
pub const SUMMARY_WORDS: u32 = 6;

/// Nodes that are looked at to learn whether prefixes tell nodes apart.
const SAMPLES: u32 = 16;

/// The number of [crowded samples](crowded_samples) from which on prefixes without a gap may do better, since nodes
/// with the same prefix are told apart by dependent accesses to memory.
pub const CROWDED_SAMPLES: u32 = 4;

/// How many of a sample of `count` nodes have the same prefix as the next node.
#[inline(always)]
pub fn crowded_samples(count: u32, prefix_of: impl Fn(u32) -> u32) -> u32 {
    let mut crowded = 0;
    if count > SAMPLES {
        unroll!(SAMPLES as usize, index => {
            let node = (index as u64 * u64::from(count - 1) / u64::from(SAMPLES)) as u32;
            crowded += u32::from(prefix_of(node) == prefix_of(node + 1));
        });
    }
    crowded
}

/// Makes the table above nodes: a thread for each bucket and for each node.
#[derive(Debug)]
pub struct Table<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Table<K> {
    type Args = TableArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        // SAFETY: nodes, and the bucket's and the node's element.
        unsafe {
            let key = |node: u64| simt.load(args.firsts, node, Hint::ReadOnly);
            let (origin, last) = (key(0), key(u64::from(args.count) - 1));
            let (prefixes, table_shift) = Prefixes::new(origin, last, args.split, args.gap);
            let prefix_of = |node: u64| prefixes.of(key(node));
            if index == 0 {
                let format = |at: u64| u64::from(simt.load(args.formats, at, Hint::Default));
                let ([a, b], [c, d]) = (origin.parts(), last.parts());
                let crowded = crowded_samples(args.count, |node| prefix_of(u64::from(node)));
                let words = [a, b, c, d, format(0) | format(1) << 32, u64::from(crowded)];
                unroll!(SUMMARY_WORDS as usize, word => {
                    simt.store(args.summary, word as u64, words[word], Hint::Default);
                });
            }
            if index < u64::from(args.count) {
                simt.store(args.prefixes, index, prefix_of(index), Hint::Default);
            }
            if index < u64::from(TABLE_ENTRIES) {
                // The last node whose prefix is not above.
                let upto = |prefix: u64| {
                    let (mut base, mut left) = (0, args.count);
                    while left > 1 {
                        let half = left / 2;
                        base += if u64::from(prefix_of(u64::from(base + half))) <= prefix { half } else { 0 };
                        left -= half;
                    }
                    base
                };
                let start = index << table_shift;
                let bounds = upto(start) | upto(start + ((1 << table_shift) - 1)) << 16;
                simt.store(args.table, index, bounds, Hint::Default);
            }
        }
    }
}
