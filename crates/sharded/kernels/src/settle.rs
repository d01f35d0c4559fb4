//! Sorted batches, whose shards' results are where the batch's are to be.

use crate::amends::Amends;
use crate::search::{self, MOST_SHARDS};
use crate::{ITEMS, THREADS, TILE};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Shared, Simt, WARP, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Settle`].
    pub struct SettleArgs<W> {
        /// How many queries the batch has.
        pub count: u64,
        /// Where each shard's part of the batch but the first begins, ascending: `[shards - 1]`.
        pub cuts: Global<u64>,
        /// Each shard's hit mask, from [`hit_words`] on. Null: there is a result for each query.
        pub hits: Global<u32>,
        /// What becomes of the results.
        pub amends: Amends<W>,
        /// In and out: `[count]`, the results; null if they stay as they are.
        pub out: GlobalMut<W>,
        /// Out: `[ceil(count / 32)]`, the hit mask; null if it is not wanted.
        pub out_hits: GlobalMut<u32>,
        /// How many there are: 1 to [`MOST_SHARDS`].
        pub shards: u32,
        /// Not 0: where there is no result, `out` gets the smallest word.
        pub clears_misses: u32,
    }
}

/// Makes the results of shards those of the whole index, in place. A block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Settle<W>(PhantomData<W>);

/// Each shard's cut.
const CUTS: Shared<u64> = Shared::at(0, MOST_SHARDS);

/// Where the words of a shard's hit mask begin, if its part of the batch begins at `cut`: never before the end of the last shard's.
#[inline(always)]
pub const fn hit_words(cut: u64, shard: u32) -> u64 {
    cut / WARP as u64 + 2 * shard as u64
}

impl<W: KeyWord> Kernel for Settle<W> {
    type Args = SettleArgs<W>;
    const STATIC_SHARED: u32 = CUTS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let &SettleArgs { count, shards, .. } = args;
        // SAFETY: there are as many cuts.
        unsafe { search::load(simt, args.cuts, shards - 1, CUTS) };
        simt.barrier();
        let first = u64::from(simt.block_index()) * TILE + u64::from(simt.thread_index());
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            let mut is_hit = false;
            if at < count {
                // SAFETY: a query, whose result is this thread's; its shard has a bit for it.
                unsafe {
                    let shard = search::shard_of(simt, CUTS, shards - 1, at);
                    let cut = if shard == 0 { 0 } else { simt.shared_load(CUTS, shard - 1) };
                    let bit = at - cut;
                    is_hit = args.hits.is_null() || {
                        let word = hit_words(cut, shard) + bit / u64::from(WARP);
                        simt.load(args.hits, word, Hint::ReadOnly) >> (bit % u64::from(WARP)) & 1 != 0
                    };
                    let is_added = is_hit & !args.amends.plus.is_null() & !args.out.is_null();
                    let result = if is_added { simt.load(args.out.as_const(), at, Hint::Default) } else { W::MIN };
                    let amended = args.amends.apply(simt, shard, result, is_hit);
                    let is_cleared = args.clears_misses != 0 && !amended.1;
                    if !args.out.is_null() && (is_added || amended.1 != is_hit || is_cleared) {
                        simt.store(args.out, at, amended.0, Hint::Default);
                    }
                    is_hit = amended.1;
                }
            }
            let word = simt.ballot(FULL_MASK, is_hit);
            if simt.opaque(at) < count && !args.out_hits.is_null() && simt.lane() == 0 {
                // SAFETY: a query; its warp's queries have a word of the mask to themselves.
                unsafe { simt.store(args.out_hits, at / u64::from(WARP), word, Hint::Streaming) };
            }
        });
    }
}
