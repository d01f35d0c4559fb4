//! Aggregates of ranges: long ranges are divided into parts, values in an array are aggregated, and accumulators become results.
//! Between the first step and the last one an index's own kernel aggregates values that are not in an array.

use core::marker::PhantomData;
use lanetree_simt::{
    AggregateBatch, FULL_MASK, Fold, Global, GlobalMut, Hint, Kernel, Simt, WARP, Word, combine_all, kernel_args,
};

kernel_args! {
    /// Arguments of [`DivideRanges`].
    pub struct DivideRangesArgs {
        /// How many pairs each range has: `[count]`.
        pub counts: Global<u64>,
        /// Their prefix sums: `[count + 1]`.
        pub offsets: Global<u64>,
        /// How many ranges.
        pub count: u64,
        /// Out: `[count]`, the parts of each range; 0 for one that is not longer than a part.
        pub parts: GlobalMut<u64>,
        /// What is computed.
        pub fold: Fold,
    }
}

/// Counts the parts of ranges: a thread per range; any block.
#[derive(Debug)]
pub struct DivideRanges;

impl Kernel for DivideRanges {
    type Args = DivideRangesArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let range = simt.global_index();
        if range >= args.count {
            return;
        }
        // SAFETY: a range.
        unsafe {
            let part = AggregateBatch::part_len(simt.load(args.offsets, args.count, Hint::ReadOnly));
            let len = simt.load(args.counts, range, Hint::Streaming);
            let is_long = len > part && args.fold.op != Fold::LAST;
            simt.store(args.parts, range, if is_long { (len - 1) / part + 1 } else { 0 }, Hint::Streaming);
        }
    }
}

kernel_args! {
    /// Arguments of [`FoldValues`].
    pub struct FoldValuesArgs<V> {
        /// The values of all pairs, in order: a cursor is a value's number.
        pub values: Global<V>,
        /// The ranges.
        pub batch: AggregateBatch,
    }
}

/// Aggregates the values of a batch of ranges: `G` lanes per range or part; any block of whole warps.
#[derive(Debug)]
pub struct FoldValues<V, const G: u32>(PhantomData<V>);

impl<V: Word, const G: u32> Kernel for FoldValues<V, G> {
    type Args = FoldValuesArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, FoldValuesArgs { values, batch }: &Self::Args) {
        // SAFETY: the ranges' values are in the array, of which these are cursors and counts.
        unsafe {
            batch.run::<S, G>(simt, |part| {
                let mut sum = batch.fold.start();
                let mut at = u64::from(simt.lane() % G);
                while at < part.len {
                    let value = simt.load(*values, part.cursor + part.skip + at, Hint::ReadOnly);
                    sum = batch.fold.combine(sum, batch.fold.of(value));
                    at += u64::from(G);
                }
                sum
            });
        }
    }
}

kernel_args! {
    /// Arguments of [`Finish`].
    pub struct FinishArgs {
        /// How many pairs each range has: `[count]`.
        pub counts: Global<u64>,
        /// The prefix sums of the numbers of parts: `[count + 1]`.
        pub parts: Global<u64>,
        /// The accumulators: see [`AggregateBatch::sums`].
        pub sums: Global<u64>,
        /// How many ranges.
        pub count: u64,
        /// Out: `[count]`, the result of each range, 0 for an empty one: an unsigned or signed integer or a float of 64 bits.
        pub values: GlobalMut<u64>,
        /// Out: `[ceil(count / 32)]`, a bit for each range: whether it has pairs.
        pub hits: GlobalMut<u32>,
        /// Out: `[ceil(count / 32)]`, a bit for each range: whether its sum does not fit.
        pub overflowed: GlobalMut<u32>,
        /// What is computed.
        pub fold: Fold,
    }
}

/// Makes results of accumulators: a warp per 32 ranges; any block of whole warps.
#[derive(Debug)]
pub struct Finish<V>(PhantomData<V>);

impl<V: Word> Kernel for Finish<V> {
    type Args = FinishArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (range, lane) = (simt.global_index(), simt.lane());
        let is_range = range < args.count;
        let (mut len, mut first, mut parts) = (0, 0, 0);
        let mut sum = 0;
        // SAFETY: a range, and the parts of the ranges of the warp.
        unsafe {
            if is_range {
                len = simt.load(args.counts, range, Hint::Streaming);
                first = simt.load(args.parts, range, Hint::ReadOnly);
                parts = simt.load(args.parts, range + 1, Hint::ReadOnly) - first;
                if len > 0 && parts == 0 {
                    let word = |at| u128::from(simt.load(args.sums, 2 * range + at, Hint::Streaming));
                    sum = word(0) | word(1) << 64;
                }
            }
            let mut long = simt.ballot(FULL_MASK, parts > 0);
            while long != 0 {
                let owner = long.trailing_zeros();
                let (first, parts) = (simt.shuffle(FULL_MASK, first, owner), simt.shuffle(FULL_MASK, parts, owner));
                let all = combine_all(simt, args.fold, args.sums, args.count + first, parts);
                if lane == owner {
                    sum = all;
                }
                long &= long - 1;
            }
            let (mut value, is_over) = args.fold.result::<V>(sum);
            let (is_hit, is_over) = (simt.opaque(len) > 0, is_over && len > 0);
            let (hits, over) = (simt.ballot(FULL_MASK, is_hit), simt.ballot(FULL_MASK, is_over));
            if !is_hit {
                value = 0;
            }
            if simt.opaque(range) < args.count {
                simt.store(args.values, range, value, Hint::Streaming);
                if lane == 0 {
                    simt.store(args.hits, range / u64::from(WARP), hits, Hint::Streaming);
                    simt.store(args.overflowed, range / u64::from(WARP), over, Hint::Streaming);
                }
            }
        }
    }
}
