//! Binary search over a sorted array, a thread per query: what a programmer without an index writes.

use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, instance, kernel_args};

kernel_args! {
    /// Arguments of [`BinarySearch`].
    pub struct BinarySearchArgs<K, V> {
        /// Strictly ascending: `[len]`.
        pub keys: Global<K>,
        /// `[len]`.
        pub values: Global<V>,
        /// Pairs.
        pub len: u64,
        /// `[count]`.
        pub queries: Global<K>,
        /// Queries.
        pub count: u64,
        /// Out: `[count]`, the value of each query's key, or `miss`.
        pub out: GlobalMut<V>,
        /// The value written to `out` for a key that is not present.
        pub miss: V,
    }
}

/// Queries of a thread, whose searches run side by side.
pub const IN_FLIGHT: usize = 2;

/// Looks up a batch of keys: [`IN_FLIGHT`] per thread, a block's queries `block_dim` apart.
#[derive(Debug)]
pub struct BinarySearch<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for BinarySearch<K, V> {
    type Args = BinarySearchArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let block = u64::from(simt.block_dim());
        let first = u64::from(simt.block_index()) * block * IN_FLIGHT as u64 + u64::from(simt.thread_index());
        let at = |j: usize| first + j as u64 * block;
        let queries: [K; IN_FLIGHT] = core::array::from_fn(|j| {
            // SAFETY: the index is a query.
            if at(j) < args.count { unsafe { simt.load(args.queries, at(j), Hint::Streaming) } } else { K::MIN }
        });
        // Branch-free lower bound: `base` is the number of keys known to be below the query.
        let mut base = [0_u64; IN_FLIGHT];
        let mut left = args.len;
        while left > 1 {
            let half = left / 2;
            for j in 0..IN_FLIGHT {
                // SAFETY: `base + half <= len`, and `half >= 1`.
                let probe = unsafe { simt.load(args.keys, base[j] + half - 1, Hint::ReadOnly) };
                if probe < queries[j] {
                    base[j] += half;
                }
            }
            left -= half;
        }
        for j in 0..IN_FLIGHT {
            if at(j) < args.count {
                let mut value = args.miss;
                // SAFETY: `base < len` where there are any keys; the index is a query.
                unsafe {
                    if args.len > 0 && simt.load(args.keys, base[j], Hint::ReadOnly) == queries[j] {
                        value = simt.load(args.values, base[j], Hint::ReadOnly);
                    }
                    simt.store(args.out, at(j), value, Hint::Streaming);
                }
            }
        }
    }
}

instance!(binary_search__u32_u32, binary_search, BinarySearch<u32, u32>);
instance!(binary_search__u32_u64, binary_search, BinarySearch<u32, u64>);
instance!(binary_search__u64_u32, binary_search, BinarySearch<u64, u32>);
instance!(binary_search__u64_u64, binary_search, BinarySearch<u64, u64>);

/// The call of the search for two words.
#[cfg(not(target_os = "cuda"))]
pub fn search<K: Word, V: Word>(args: &BinarySearchArgs<K, V>) -> lanetree_simt::Call<'_> {
    lanetree_simt::Call::new(lanetree_simt::entry_by_words!(K, V => BinarySearch<K, V>), args)
}
