//! The pairs nearest to each query. One of each in a round: which of the two candidates is taken, and what is searched for next. Or, on
//! one side, the last or the first pairs of a range, of which the last ones are turned around.

use crate::rows::{AT_ONCE, ROWS_BOUNDS, ROWS_SHARED, STEP, WarpOutputs};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Near, Simt, Word, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`TakeNearest`]. Keys are in the caller's form.
    pub struct TakeNearestArgs<K, V> {
        /// The queries, whose distances from the candidates are compared: `[count]`; null if there is one side only.
        pub queries: Global<K>,
        /// How many queries.
        pub count: u64,
        /// In and out: `[count]`, what the next search for a candidate below looks for.
        pub below: GlobalMut<K>,
        /// In and out: `[count]`, the pairs below that are left; null without that side.
        pub left_below: GlobalMut<u64>,
        /// The candidates below: `[count]`, of which those without a pair left are anything.
        pub keys_below: Global<K>,
        /// Their values; null if pairs have none.
        pub values_below: Global<V>,
        /// As `below`, on the other side.
        pub above: GlobalMut<K>,
        /// As `left_below`, on the other side.
        pub left_above: GlobalMut<u64>,
        /// As `keys_below`, on the other side.
        pub keys_above: Global<K>,
        /// As `values_below`, on the other side.
        pub values_above: Global<V>,
        /// Where each query's pairs go: `[count]`.
        pub offsets: Global<u64>,
        /// Out: `[capacity]`; null if keys are not wanted.
        pub keys: GlobalMut<K>,
        /// Out: `[capacity]`; null if pairs have no values.
        pub values: GlobalMut<V>,
        /// Pairs for which there is room.
        pub capacity: u64,
        /// The number of the round, from 0.
        pub round: u64,
        /// 1: of two candidates that are equally near, the one above is taken.
        pub ties_above: u64,
        /// What the caller's form is xored with.
        pub flip: K,
    }
}

/// Per thread. Whether the candidate below is taken, and not the one above. The CPU's own path uses it, too.
#[inline(always)]
pub fn takes_below<K: KeyWord>(query: K, below: K, above: K, ties_above: bool) -> bool {
    let flags = if ties_above { Near::<K>::TIES_TO_SECOND } else { 0 };
    Near { flags, ..Near::ANY }.keeps(query, below, above)
}

/// Per thread. The word next to a key that was taken, from which on its side goes on. If there is none, no pair is left there.
#[inline(always)]
pub fn beyond<K: KeyWord>(key: K, is_below: bool) -> K {
    let one = K::truncate(1);
    if is_below { key.wrapping_sub(one) } else { key.wrapping_add(one) }
}

/// Takes the nearer candidate of each query that has one, as its pair of this round. One thread per query; any block.
#[derive(Debug)]
pub struct TakeNearest<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word> Kernel for TakeNearest<K, V> {
    type Args = TakeNearestArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a query, with an element in every array that there is; a pair is written if there is room for it.
        unsafe {
            let load = |keys: Global<K>| simt.load(keys, index, Hint::Default).xor(args.flip);
            let left = |left: GlobalMut<u64>| {
                if left.is_null() { 0 } else { simt.load(left.as_const(), index, Hint::Default) }
            };
            let (left_below, left_above) = (left(args.left_below), left(args.left_above));
            if left_below == 0 && left_above == 0 {
                return;
            }
            let mut is_below = left_below > 0;
            let mut key = load(if is_below { args.keys_below } else { args.keys_above });
            if is_below && left_above > 0 {
                let above = load(args.keys_above);
                is_below = takes_below(load(args.queries), key, above, args.ties_above != 0);
                key = if is_below { key } else { above };
            }
            let at = simt.load(args.offsets, index, Hint::Default).saturating_add(args.round);
            if at < args.capacity {
                if !args.keys.is_null() {
                    simt.store(args.keys, at, key.xor(args.flip), Hint::Default);
                }
                if !args.values.is_null() {
                    let values = if is_below { args.values_below } else { args.values_above };
                    simt.store(args.values, at, simt.load(values, index, Hint::Default), Hint::Default);
                }
            }
            let next = beyond(key, is_below).xor(args.flip);
            simt.store(if is_below { args.below } else { args.above }, index, next, Hint::Default);
            let (left, count) = if is_below { (args.left_below, left_below) } else { (args.left_above, left_above) };
            simt.store(left, index, count - 1, Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`AddCounts`].
    pub struct AddCountsArgs {
        /// Counts: `[count]`.
        pub first: Global<u64>,
        /// Other counts: `[count]`; null for zeros.
        pub second: Global<u64>,
        /// How many.
        pub count: u64,
        /// The largest sum.
        pub most: u64,
        /// Out: `[count]`, the sums.
        pub sums: GlobalMut<u64>,
    }
}

/// Adds counts, up to a largest sum. One thread per count; any block.
#[derive(Debug)]
pub struct AddCounts;

impl Kernel for AddCounts {
    type Args = AddCountsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a count.
            unsafe {
                let mut sum = simt.load(args.first, index, Hint::Streaming);
                if !args.second.is_null() {
                    sum = sum.saturating_add(simt.load(args.second, index, Hint::Streaming));
                }
                simt.store(args.sums, index, sum.min(args.most), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`KeepLast`].
    pub struct KeepLastArgs {
        /// In and out: `[count]`, the pairs of each range; becomes how many of them are before those that are kept.
        pub skips: GlobalMut<u64>,
        /// Where the pairs of each range go that are kept: `[count + 1]`, ascending from 0.
        pub offsets: Global<u64>,
        /// How many ranges.
        pub count: u64,
        /// Pairs for which there is room.
        pub capacity: u64,
    }
}

/// Finds how many pairs of each range are before its last ones: these are as many as its offsets say, of which none are where there
/// is no room. One thread per range; any block.
#[derive(Debug)]
pub struct KeepLast;

impl Kernel for KeepLast {
    type Args = KeepLastArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a range.
            unsafe {
                let offset = |range| simt.load(args.offsets, range, Hint::ReadOnly).min(args.capacity);
                let kept = offset(index + 1).saturating_sub(offset(index));
                let pairs = simt.load(args.skips.as_const(), index, Hint::Default);
                simt.store(args.skips, index, pairs.saturating_sub(kept), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`ReverseRows`].
    pub struct ReverseRowsArgs<W> {
        /// Where each row is: `[count + 1]`, ascending from 0.
        pub offsets: Global<u64>,
        /// How many rows, at least one.
        pub count: u64,
        /// Elements that there are; a row ends here at the latest.
        pub capacity: u64,
        /// In and out: `[capacity]`.
        pub column: GlobalMut<W>,
    }
}

/// Reverses the order of the elements of each row, in place: [`OUTPUTS`](crate::rows::OUTPUTS) elements per warp; any block of whole
/// warps.
#[derive(Debug)]
pub struct ReverseRows<W>(PhantomData<W>);

impl<W: KeyWord> Kernel for ReverseRows<W> {
    type Args = ReverseRowsArgs<W>;
    const STATIC_SHARED: u32 = ROWS_SHARED;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(ROWS_BOUNDS);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: rows and offsets are as many as the arguments say, and elements are below the capacity. Of two elements that change
        // places, the thread of the first one moves both.
        unsafe {
            let total = simt.load(args.offsets, args.count, Hint::ReadOnly).min(args.capacity);
            let Some(outputs) = WarpOutputs::new(simt, args.offsets, args.count, total) else { return };
            outputs.each(simt, |at, places| {
                unroll!(AT_ONCE, step => {
                    unroll!(2, i => {
                        let (at, place) = (at + STEP * step as u64 + i as u64, places[step][i]);
                        if outputs.has(at) {
                            let end = simt.load(args.offsets, place.row + 1, Hint::ReadOnly).min(args.capacity);
                            let other = end - 1 - place.within;
                            if at < other {
                                let first = simt.load(args.column.as_const(), at, Hint::Default);
                                let second = simt.load(args.column.as_const(), other, Hint::Default);
                                simt.store(args.column, at, second, Hint::Default);
                                simt.store(args.column, other, first, Hint::Default);
                            }
                        }
                    });
                });
            });
        }
    }
}
