//! Point look-ups.

use crate::search::{ArrayRef, IN_FLIGHT, places, store_hits};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Get`].
    pub struct GetArgs<K, V> {
        /// The array.
        pub array: ArrayRef<K, V>,
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the value of each query's key, or `miss`.
        pub values: GlobalMut<V>,
        /// Out: `[ceil(count / 32)]`, the hit mask: bit `i % 32` of word `i / 32` is set if query `i` was found; null
        /// if not wanted.
        pub hits: GlobalMut<u32>,
        /// The value written to `values` for a key that is not present.
        pub miss: V,
    }
}

/// Looks up a batch of keys: [`IN_FLIGHT`] per thread; any block of whole warps.
#[derive(Debug)]
pub struct Get<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Get<K, V> {
    type Args = GetArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (array, places) = (&args.array, places(simt));
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
