//! Point look-ups.

use crate::search::{ArrayRef, IN_FLIGHT, places, store_hits};
use core::marker::PhantomData;
use lanetree_simt::{GetBatch, Hint, Kernel, QueryArgs, Simt, Word};

/// Arguments of [`Get`].
pub type GetArgs<K, V> = QueryArgs<ArrayRef<K, V>, GetBatch<K, V>>;

/// Looks up a batch of keys: [`IN_FLIGHT`] per thread; any block of whole warps.
#[derive(Debug)]
pub struct Get<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Get<K, V> {
    type Args = GetArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (array, places) = (&args.tree, places(simt));
        // SAFETY: there are as many queries, and the array is valid.
        let (words, at) = unsafe {
            let words = array.load(simt, args.queries, places, args.count);
            (words, array.candidates(simt, words, [false; IN_FLIGHT]))
        };
        let mut hits = [false; IN_FLIGHT];
        for j in 0..IN_FLIGHT {
            if places[j] < args.count {
                let mut value = args.miss;
                // SAFETY: a candidate is below the length of an array that is not empty; the place is a query's.
                unsafe {
                    if array.len > 0 && simt.load(array.keys, at[j], Hint::ReadOnly) == words[j] {
                        (value, hits[j]) = (simt.load(array.values, at[j], Hint::ReadOnly), true);
                    }
                    simt.store(args.values, places[j], value, Hint::Streaming);
                }
            }
        }
        // SAFETY: there are as many queries.
        unsafe { store_hits(simt, args.hits, places, hits, args.count) };
    }
}
