//! Ranks: `lower_bound` and `upper_bound`.

use crate::search::{ArrayRef, IN_FLIGHT, places};
use core::marker::PhantomData;
use lanetree_simt::{Hint, Kernel, QueryArgs, RankBatch, Simt, Word};

/// Arguments of [`Rank`].
pub type RankArgs<K, V> = QueryArgs<ArrayRef<K, V>, RankBatch<K>>;

/// Ranks a batch of keys: [`IN_FLIGHT`] per thread; any block.
#[derive(Debug)]
pub struct Rank<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Rank<K, V> {
    type Args = RankArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let places = places(simt);
        // SAFETY: there are as many queries, and the array is valid.
        let ranks = unsafe {
            let words = args.tree.load(simt, args.queries, places, args.count);
            args.tree.ranks(simt, words, [args.upper != 0; IN_FLIGHT])
        };
        for j in 0..IN_FLIGHT {
            if places[j] < args.count {
                // SAFETY: the place of a query.
                unsafe { simt.store(args.ranks, places[j], ranks[j], Hint::Streaming) };
            }
        }
    }
}
