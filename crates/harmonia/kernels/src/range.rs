//! Range queries, in two kernels with a prefix sum between them: [`Range`] finds where each range
//! begins and how many pairs it has, [`Gather`] copies the pairs.

use crate::layout::{leaf_offset, leaf_values_offset};
use crate::tree::{Side, TreeRef, launch_bounds, locate, search_word, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{
    AggregateBatch, FULL_MASK, GatherBatch, Hint, Kernel, KeyWord, LaunchBounds, LocateBatch, QueryArgs, Simt, WARP,
    Word,
};

/// Arguments of [`Range`].
pub type RangeArgs<K> = QueryArgs<TreeRef<K>, LocateBatch<K>>;

/// Ranges of a warp's tile: its lower lanes look for their starts, the upper ones for their ends, at
/// the same time, so that the end of a short range finds its leaf in the cache.
const RANGES: u32 = WARP / 2;

/// Locates a batch of ranges. One warp per 16 ranges; any block of whole warps.
#[derive(Debug)]
pub struct Range<K, V, const SLOT: bool, const F: u32, const G: u32, const Q: usize>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const SLOT: bool, const F: u32, const G: u32, const Q: usize> Kernel
    for Range<K, V, SLOT, F, G, Q>
{
    type Args = RangeArgs<K>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = launch_bounds::<K>(F, Q);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let tile = tile_start(simt, RANGES);
        if tile >= args.count {
            return;
        }
        let lane = simt.lane();
        let index = tile + u64::from(lane % RANGES);
        // Keys that equal a bound are in the range.
        let (from, side) = if lane < RANGES { (args.starts, Side::Lower) } else { (args.ends, Side::Upper) };
        let mut word = Some(K::MIN);
        if index < args.count {
            // SAFETY: `index` is a range.
            let bound = unsafe { simt.load(from, index, Hint::Streaming) };
            word = search_word(bound.xor(tree.flip), side);
        }
        let (mut rank, mut cursor) = (0, 0);
        if tree.leaf_count > 0 {
            // SAFETY: the tree is valid and not empty.
            let (leaf, count) = unsafe { locate::<S, K, V, SLOT, F, G, Q>(simt, tree, word.unwrap_or(K::MAX)) };
            // SAFETY: the leaf is one of the tree's.
            let (first, next) = unsafe { tree.leaf_ranks(simt, leaf) };
            rank = first + u64::from(count);
            rank = if rank < next { rank } else { next };
            // After a leaf's last pair, copying continues with the next leaf's first pair.
            cursor = u64::from_halves((rank - first) as u32, leaf);
            rank = if word.is_some() { rank } else { tree.len };
        }
        let end = simt.shuffle(FULL_MASK, rank, lane % RANGES + RANGES);
        if lane < RANGES && index < args.count {
            let mut limit = args.limit;
            if !args.limits.is_null() {
                // SAFETY: `index` is a range.
                limit = limit.min(unsafe { simt.load(args.limits, index, Hint::Streaming) });
            }
            // SAFETY: `index` is a range.
            unsafe {
                simt.store(args.counts, index, end.saturating_sub(rank).min(limit), Hint::Default);
                if !args.cursors.is_null() {
                    simt.store(args.cursors, index, cursor, Hint::Default);
                }
            }
        }
    }
}

/// Arguments of [`Gather`].
pub type GatherArgs<K, V> = QueryArgs<TreeRef<K>, GatherBatch<K, V>>;

/// Copies the pairs of a batch of ranges: `G` lanes per group of [`GatherRows`](lanetree_simt::GatherRows); any block of whole warps.
#[derive(Debug)]
pub struct Gather<K, V, const F: u32, const G: u32>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const F: u32, const G: u32> Kernel for Gather<K, V, F, G> {
    type Args = GatherArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        // SAFETY: the rows' pairs are in the tree, whose cursors and counts these are, and the outputs have the window.
        unsafe {
            let part = args.rows.of_group(simt, simt.global_index() / u64::from(G));
            walk::<S, K, G>(simt, tree, (part.cursor, part.skip), (part.at, part.end), |at, leaf, slot| {
                let key_at = tree.leaves.byte_add(leaf_offset::<K, V>(F, leaf)).cast::<K>();
                let value_at = tree.leaves.byte_add(leaf_values_offset::<K, V>(F, leaf)).cast::<V>();
                let key = simt.load(key_at, u64::from(slot), Hint::ReadOnly).xor(tree.flip);
                let value = simt.load(value_at, u64::from(slot), Hint::ReadOnly);
                if !args.keys.is_null() {
                    simt.store(args.keys, at, key, Hint::Streaming);
                }
                simt.store(args.values, at, value, Hint::Streaming);
            });
        }
    }
}

/// Per thread, with `G` lanes per range, which agree on it. Calls `each` for the lane's share of the pairs that follow a cursor and the
/// pairs to skip, with the pair's place among those from `at` to `end`, its leaf and its slot; for none if these are equal.
///
/// # Safety
/// The tree has `end - at` pairs there.
#[inline(always)]
unsafe fn walk<S: Simt, K: Word, const G: u32>(
    simt: S,
    tree: &TreeRef<K>,
    (cursor, skip): (u64, u64),
    (begin, end): (u64, u64),
    mut each: impl FnMut(u64, u32, u32),
) {
    // SAFETY: the caller's contract.
    unsafe {
        let (mut leaf, mut slot) = (cursor.high(), cursor.low());
        if skip > 0 {
            (leaf, slot) = tree.advance(simt, leaf, slot, skip);
        }
        slot += simt.lane() % G;
        let mut at = begin + u64::from(simt.lane() % G);
        let leaf_len = |leaf: u32| {
            if tree.ranks.is_null() {
                return tree.per_leaf;
            }
            let (first, next) = tree.leaf_ranks(simt, leaf);
            (next - first) as u32
        };
        let mut len = if at < end { leaf_len(leaf) } else { 0 };
        while at < end {
            while slot >= len {
                slot -= len;
                leaf += 1;
                len = leaf_len(leaf);
            }
            each(at, leaf, slot);
            slot += G;
            at += u64::from(G);
        }
    }
}

/// Arguments of [`Aggregate`].
pub type AggregateArgs<K> = QueryArgs<TreeRef<K>, AggregateBatch>;

/// Aggregates the values of a batch of ranges: `G` lanes per range or part; any block of whole warps.
#[derive(Debug)]
pub struct Aggregate<K, V, const F: u32, const G: u32>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const F: u32, const G: u32> Kernel for Aggregate<K, V, F, G> {
    type Args = AggregateArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the ranges' pairs are in the tree, whose cursors and counts these are.
        unsafe {
            args.run::<S, G>(simt, |part| {
                let mut sum = args.fold.start();
                walk::<S, K, G>(simt, &args.tree, (part.cursor, part.skip), (0, part.len), |_, leaf, slot| {
                    let value_at = args.tree.leaves.byte_add(leaf_values_offset::<K, V>(F, leaf)).cast::<V>();
                    let value = simt.load(value_at, u64::from(slot), Hint::ReadOnly);
                    sum = args.fold.combine(sum, args.fold.of(value));
                });
                sum
            });
        }
    }
}
