//! Queries of another integer type than the keys.

use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Clamp`].
    pub struct ClampArgs<Q, K> {
        /// Queries: `[count]`.
        pub queries: Global<Q>,
        /// How many.
        pub count: u64,
        /// The smallest key as a number of 64 bits with a sign, or the smallest of these.
        pub least: u64,
        /// The largest key as a number of 64 bits without a sign, or the largest of these.
        pub most: u64,
        /// 1: queries have a sign.
        pub signed: u64,
        /// Out: `[count]`, the key that is nearest to each query.
        pub keys: GlobalMut<K>,
        /// Out: `[count.div_ceil(32)]`, a bit for each query that is not below all keys.
        pub not_below: GlobalMut<u32>,
        /// Out: as many, a bit for each query that is not above all keys.
        pub not_above: GlobalMut<u32>,
    }
}

/// Makes keys of queries of another integer type. One thread per query; blocks of whole warps.
#[derive(Debug)]
pub struct Clamp<Q, K>(PhantomData<(Q, K)>);

impl<Q: Word, K: KeyWord> Kernel for Clamp<Q, K> {
    type Args = ClampArgs<Q, K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let is_query = index < args.count;
        let (mut is_below, mut is_above) = (false, false);
        if is_query {
            // SAFETY: `index` is a query.
            let query = unsafe { simt.load(args.queries, index, Hint::Streaming) }.widen();
            let is_negative = args.signed != 0 && query >> (Q::BITS - 1) != 0;
            let high = if is_negative && Q::BITS < 64 { u64::MAX << (Q::BITS % 64) } else { 0 };
            let number = query | high;
            is_below = is_negative && (number as i64) < args.least as i64;
            is_above = !is_negative && number > args.most;
            let nearest = if is_below {
                args.least
            } else if is_above {
                args.most
            } else {
                number
            };
            let key = K::from_parts([nearest, if is_negative { u64::MAX * (args.least >> 63) } else { 0 }]);
            // SAFETY: it has a key.
            unsafe { simt.store(args.keys, index, key, Hint::Default) };
        }
        let (not_below, not_above) = (simt.ballot(FULL_MASK, !is_below), simt.ballot(FULL_MASK, !is_above));
        if simt.lane() == 0 && simt.opaque(u32::from(is_query)) != 0 {
            // SAFETY: the warp's first query has a word in each mask.
            unsafe {
                simt.store(args.not_below, index / u64::from(WARP), not_below, Hint::Default);
                simt.store(args.not_above, index / u64::from(WARP), not_above, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`ClampRanks`].
    pub struct ClampRanksArgs {
        /// The masks of [`Clamp`].
        pub not_below: Global<u32>,
        /// The other one.
        pub not_above: Global<u32>,
        /// How many queries there are.
        pub count: u64,
        /// The rank of those above all keys.
        pub len: u64,
        /// In and out: `[count]`.
        pub ranks: GlobalMut<u64>,
    }
}

/// Corrects the ranks of queries that stand for others. One thread per query; any block.
#[derive(Debug)]
pub struct ClampRanks;

impl Kernel for ClampRanks {
    type Args = ClampRanksArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            let (word, bit) = (index / 32, (index % 32) as u32);
            // SAFETY: `index` is a query, which has a bit in each mask and a rank.
            unsafe {
                let is_below = simt.load(args.not_below, word, Hint::ReadOnly) >> bit & 1 == 0;
                let is_above = simt.load(args.not_above, word, Hint::ReadOnly) >> bit & 1 == 0;
                if is_below || is_above {
                    simt.store(args.ranks, index, if is_above { args.len } else { 0 }, Hint::Default);
                }
            }
        }
    }
}
