//! Range queries, in two kernels with a prefix sum between them: [`Locate`] finds where each range begins and how many
//! pairs it has, [`Gather`] copies the pairs along the leaves.

use crate::layout::Head;
use crate::search::{Place, TreeRef};
use core::marker::PhantomData;
use lanetree_simt::{AggregateBatch, GatherBatch, Hint, Kernel, LocateBatch, QueryArgs, Simt, Word};

/// Arguments of [`Locate`].
pub type LocateArgs<K> = QueryArgs<TreeRef<K>, LocateBatch<K>>;

/// Locates a batch of ranges: one per lane; any block of whole warps.
#[derive(Debug)]
pub struct Locate<K>(PhantomData<K>);

impl<K: Word> Kernel for Locate<K> {
    type Args = LocateArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, index) = (&args.tree, simt.global_index());
        // SAFETY: there are as many ranges, and the tree is valid.
        unsafe {
            let [start, end] = [args.starts, args.ends].map(|from| tree.load(simt, from, index, args.count));
            let (start, end) = (tree.rank(simt, start, false), tree.rank(simt, end, true));
            if index >= args.count {
                return;
            }
            let mut limit = args.limit;
            if !args.limits.is_null() {
                limit = limit.min(simt.load(args.limits, index, Hint::Streaming));
            }
            simt.store(args.counts, index, end.saturating_sub(start).min(limit), Hint::Default);
            if !args.cursors.is_null() {
                simt.store(args.cursors, index, start, Hint::Default);
            }
        }
    }
}

/// Arguments of [`Gather`].
pub type GatherArgs<K, V> = QueryArgs<TreeRef<K>, GatherBatch<K, V>>;

/// The lanes per range with which [`Gather`] is compiled: for short ranges and for others.
pub const GATHER_WIDTHS: [u32; 2] = [8, 32];

/// Copies the pairs of a batch of ranges: `G` lanes per group of [`GatherRows`](lanetree_simt::GatherRows); any block of whole warps.
#[derive(Debug)]
pub struct Gather<K, V, const G: u32>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const G: u32> Kernel for Gather<K, V, G> {
    type Args = GatherArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the rows' pairs are in the tree, whose cursors and counts these are, and the outputs have the window.
        unsafe {
            let part = args.rows.of_group(simt, simt.global_index() / u64::from(G));
            let rank = part.cursor + part.skip;
            walk::<S, K, G>(simt, &args.tree, rank, (part.at, part.end), |at, place| copy(simt, args, place, at));
        }
    }
}

/// Per thread, with `G` lanes per range, which agree on it. Calls `each` for the lane's share of the pairs from a rank on, with the
/// pair's place among those from `at` to `end`; for none if these are equal.
///
/// # Safety
/// The tree has `end - at` pairs from the rank on.
#[inline(always)]
unsafe fn walk<S: Simt, K: Word, const G: u32>(
    simt: S,
    tree: &TreeRef<K>,
    rank: u64,
    (begin, end): (u64, u64),
    mut each: impl FnMut(u64, Place),
) {
    let mut at = begin + u64::from(simt.lane() % G);
    if at >= end {
        return;
    }
    // SAFETY: the caller's contract.
    unsafe {
        let own = rank + (at - begin);
        let mut position = tree.position_of(simt, own, 0);
        let mut slot = own - simt.load(tree.ranks, position, Hint::ReadOnly);
        loop {
            let number = simt.load(tree.leaves, position, Hint::ReadOnly);
            let count = u64::from(tree.nodes.at(simt, number).head(simt, Head::Count));
            while slot < count && at < end {
                each(at, Place { number, slot: slot as u32 });
                at += u64::from(G);
                slot += u64::from(G);
            }
            if at >= end {
                return;
            }
            // There are pairs left, so there are leaves with them.
            position += 1;
            slot -= count;
            if count == 0 {
                // Where a batch removed many pairs, there may be any number of leaves without pairs.
                let own = rank + (at - begin);
                position = tree.position_of(simt, own, position);
                slot = own - simt.load(tree.ranks, position, Hint::ReadOnly);
            }
        }
    }
}

/// Per thread. Copies a pair.
///
/// # Safety
/// The place of a pair, and a place in the window.
#[inline(always)]
unsafe fn copy<S: Simt, K: Word, V: Word>(simt: S, args: &GatherArgs<K, V>, Place { number, slot }: Place, at: u64) {
    // SAFETY: the caller's.
    unsafe {
        let leaf = args.tree.nodes.at(simt, number);
        let key = simt.load(leaf.keys::<K>(), u64::from(slot), Hint::ReadOnly).xor(args.tree.flip);
        let value = simt.load(leaf.values::<V>(), u64::from(slot), Hint::ReadOnly);
        if !args.keys.is_null() {
            simt.store(args.keys, at, key, Hint::Streaming);
        }
        simt.store(args.values, at, value, Hint::Streaming);
    }
}

/// Arguments of [`Aggregate`].
pub type AggregateArgs<K> = QueryArgs<TreeRef<K>, AggregateBatch>;

/// Aggregates the values of a batch of ranges: `G` lanes per range or part; any block of whole warps.
#[derive(Debug)]
pub struct Aggregate<K, V, const G: u32>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const G: u32> Kernel for Aggregate<K, V, G> {
    type Args = AggregateArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the ranges' pairs are in the tree, whose cursors and counts these are.
        unsafe {
            args.run::<S, G>(simt, |part| {
                let mut sum = args.fold.start();
                walk::<S, K, G>(simt, &args.tree, part.cursor + part.skip, (0, part.len), |_, place| {
                    let leaf = args.tree.nodes.at(simt, place.number);
                    let value = simt.load(leaf.values::<V>(), u64::from(place.slot), Hint::ReadOnly);
                    sum = args.fold.combine(sum, args.fold.of(value));
                });
                sum
            });
        }
    }
}
