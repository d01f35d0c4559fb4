//! Results in the batch's order.

use crate::amends::Amends;
use crate::{ITEMS, THREADS, TILE, position};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Simt, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Back`].
    pub struct BackArgs<W> {
        /// The [position](crate::position) of each query: `[count]`.
        pub positions: Global<u32>,
        /// How many queries the piece has.
        pub count: u64,
        /// The results at the positions below `remote`.
        pub local_results: Global<W>,
        /// The results at the others.
        pub remote_results: Global<W>,
        /// A bit for each position below `remote`: whether there is a result. Null, together with `remote_hits`: there is one for each.
        pub local_hits: Global<u32>,
        /// A bit for each of the others.
        pub remote_hits: Global<u32>,
        /// What becomes of the results.
        pub amends: Amends<W>,
        /// Out: `[count]`, the results; null if they are not wanted.
        pub out: GlobalMut<W>,
        /// Out: `[ceil(count / 32)]`, the hit mask; null if it is not wanted.
        pub out_hits: GlobalMut<u32>,
        /// The first position of `remote_results`, a multiple of 32.
        pub remote: u32,
        /// Not 0: where there is no result, memory has none either, and `out` gets the smallest word.
        pub has_hits_alone: u32,
    }
}

/// Takes the results of a piece's queries from their positions. A block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Back<W>(PhantomData<W>);

impl<W: KeyWord> Kernel for Back<W> {
    type Args = BackArgs<W>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let first = u64::from(simt.block_index()) * TILE + u64::from(simt.thread_index());
        let (mut words, mut results, mut hits) = ([0; ITEMS], [W::MIN; ITEMS], [false; ITEMS]);
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            if at < args.count {
                // SAFETY: a query.
                words[item] = unsafe { simt.load(args.positions, at, Hint::Streaming) };
            }
        });
        unroll!(ITEMS, item => {
            let (shard, at) = (position::shard(words[item]), position::of(words[item]));
            let is_local = at < args.remote;
            if first + item as u64 * u64::from(THREADS) < args.count {
                // SAFETY: a position of a query, which has a result and a bit, and a shard that there is.
                unsafe {
                    let (from, bits, at) = if is_local {
                        (args.local_results, args.local_hits, at)
                    } else {
                        (args.remote_results, args.remote_hits, at - args.remote)
                    };
                    let (is_wanted, of_all) = (!args.out.is_null(), args.has_hits_alone == 0);
                    // Does not wait for the bit.
                    if is_wanted && of_all {
                        results[item] = simt.load(from, u64::from(at), Hint::ReadOnly);
                    }
                    hits[item] =
                        bits.is_null() || simt.load(bits, u64::from(at / 32), Hint::ReadOnly) >> (at % 32) & 1 != 0;
                    if is_wanted && !of_all && hits[item] {
                        results[item] = simt.load(from, u64::from(at), Hint::ReadOnly);
                    }
                    (results[item], hits[item]) = args.amends.apply(simt, shard, results[item], hits[item]);
                }
            }
        });
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            let word = simt.ballot(FULL_MASK, hits[item]);
            if at < args.count {
                // SAFETY: a query; its warp's queries have a word of the mask to themselves.
                unsafe {
                    if !args.out.is_null() {
                        simt.store(args.out, at, results[item], Hint::Streaming);
                    }
                    if !args.out_hits.is_null() && simt.lane() == 0 {
                        simt.store(args.out_hits, at / 32, word, Hint::Streaming);
                    }
                }
            }
        });
    }
}
