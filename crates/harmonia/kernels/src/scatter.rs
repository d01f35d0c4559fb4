//! Puts the results of sorted queries back into the original order of the queries.

use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, Word, instance, kernel_args};

kernel_args! {
    /// Arguments of [`Scatter`].
    pub struct ScatterArgs<V> {
        /// Results, in the order of the sorted queries: `[count]`.
        pub values: Global<V>,
        /// Their hit mask, as in [`GetArgs`](crate::GetArgs); null if not wanted.
        pub hits: Global<u32>,
        /// The original position of each query: `[count]`, each position once.
        pub positions: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the results in the order of the queries.
        pub out: GlobalMut<V>,
        /// In and out: the hit mask in the order of the queries; set bits are added.
        pub out_found: GlobalMut<u32>,
    }
}

/// Queries of a thread, a block's threads apart.
pub const SCATTERED: usize = 4;

/// Puts results into the order of the queries. One thread per [`SCATTERED`] queries; any block.
#[derive(Debug)]
pub struct Scatter<V>(PhantomData<V>);

impl<V: Word> Kernel for Scatter<V> {
    type Args = ScatterArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let block = u64::from(simt.block_dim());
        let first = u64::from(simt.block_index()) * block * SCATTERED as u64 + u64::from(simt.thread_index());
        let at = |j: usize| first + j as u64 * block;
        let results: [(V, u32); SCATTERED] = core::array::from_fn(|j| {
            let index = if at(j) < args.count { at(j) } else { args.count - 1 };
            // SAFETY: `index` is a query.
            unsafe {
                (simt.load(args.values, index, Hint::Streaming), simt.load(args.positions, index, Hint::Streaming))
            }
        });
        for (j, (value, position)) in results.into_iter().enumerate() {
            if at(j) < args.count {
                // SAFETY: `at(j)` and the position are queries; bits of the hit mask are only added.
                unsafe {
                    simt.store(args.out, u64::from(position), value, Hint::Default);
                    if !args.hits.is_null() {
                        let word = simt.load(args.hits, at(j) / 32, Hint::ReadOnly);
                        if word >> (at(j) % 32) & 1 == 1 {
                            let to = u64::from(position / 32);
                            let bit = 1_u32 << (position % 32);
                            simt.atomic_or(args.out_found, to, bit, Order::Relaxed, Scope::Device);
                        }
                    }
                }
            }
        }
    }
}

instance!(harmonia_scatter__u32, harmonia_scatter, Scatter<u32>);
instance!(harmonia_scatter__u64, harmonia_scatter, Scatter<u64>);
