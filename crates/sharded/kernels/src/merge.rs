//! Aggregates over several shards: one shard's accumulators into those of the shards before it.

use lanetree_simt::{FULL_MASK, Fold, Global, GlobalMut, Hint, Kernel, Simt, combine_all, kernel_args};

kernel_args! {
    /// Arguments of [`Merge`].
    pub struct MergeArgs {
        /// `[count]`, the number of pairs of each range in the shard.
        pub counts: Global<u64>,
        /// `[count + 1]`, the prefix sums of the numbers of parts; null if no range has parts.
        pub parts: Global<u64>,
        /// The shard's accumulators, as in `AggregateBatch::sums`.
        pub sums: Global<u64>,
        /// `[count]`, the number of pairs of each range in the shards before; null for none.
        pub before: Global<u64>,
        /// The number of ranges.
        pub count: u64,
        /// In, for ranges with pairs in the shards before, and out: `[count]` accumulators, as two words each.
        pub merged: GlobalMut<u64>,
        /// The aggregate.
        pub fold: Fold,
    }
}

/// Merges a shard's accumulators: a warp per 32 ranges; any block of whole warps.
#[derive(Debug)]
pub struct Merge;

impl Kernel for Merge {
    type Args = MergeArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let range = simt.global_index();
        let (mut len, mut first, mut parts, mut before, mut sum) = (0, 0, 0, 0, 0);
        // SAFETY: a range, and the parts of the ranges of the warp; a range's accumulator is one thread's.
        unsafe {
            let load = |sums: Global<u64>, at: u64| {
                u128::from(simt.load(sums, 2 * at, Hint::Default))
                    | u128::from(simt.load(sums, 2 * at + 1, Hint::Default)) << 64
            };
            if range < args.count {
                len = simt.load(args.counts, range, Hint::Streaming);
                if !args.parts.is_null() {
                    first = simt.load(args.parts, range, Hint::ReadOnly);
                    parts = simt.load(args.parts, range + 1, Hint::ReadOnly) - first;
                }
                if !args.before.is_null() {
                    before = simt.load(args.before, range, Hint::Streaming);
                }
                if len > 0 && parts == 0 {
                    sum = load(args.sums, range);
                }
            }
            let mut long = simt.ballot(FULL_MASK, parts > 0);
            while long != 0 {
                let owner = long.trailing_zeros();
                let (first, parts) = (simt.shuffle(FULL_MASK, first, owner), simt.shuffle(FULL_MASK, parts, owner));
                let all = combine_all(simt, args.fold, args.sums, args.count + first, parts);
                if simt.lane() == owner {
                    sum = all;
                }
                long &= long - 1;
            }
            if simt.opaque(len) > 0 {
                // The last shard's value is the last one.
                if before > 0 && args.fold.op != Fold::LAST {
                    sum = args.fold.combine(load(args.merged.as_const(), range), sum);
                }
                simt.store(args.merged, 2 * range, sum as u64, Hint::Default);
                simt.store(args.merged, 2 * range + 1, (sum >> 64) as u64, Hint::Default);
            }
        }
    }
}
