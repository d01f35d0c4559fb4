//! Sorted batches: where each shard's part begins.

use crate::search::MOST_SHARDS;
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Shared, Simt, kernel_args};

kernel_args! {
    /// Arguments of [`Cut`].
    pub struct CutArgs<K> {
        /// `[count]`, in the caller's form, ascending.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// The ordered words of the splitters: `[splits]`.
        pub splitters: Global<K>,
        /// Out: `[splits]`, how many queries come before each, ascending whatever the queries' order is.
        pub cuts: GlobalMut<u64>,
        /// How many splitters: fewer than [`MOST_SHARDS`].
        pub splits: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// Exclusive-or mask between a key and its ordered word.
        pub flip: K,
    }
}

/// Cuts a sorted batch at the splitters, by binary search. One block of [`MOST_SHARDS`] threads.
#[derive(Debug)]
pub struct Cut<K>(PhantomData<K>);

/// Each splitter's cut.
const CUTS: Shared<u64> = Shared::at(0, MOST_SHARDS);

impl<K: KeyWord> Kernel for Cut<K> {
    type Args = CutArgs<K>;
    const STATIC_SHARED: u32 = CUTS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let thread = simt.thread_index();
        // SAFETY: a splitter and its element, which is the thread's until the barrier; queries below their number.
        unsafe {
            if thread < args.splits {
                let splitter = simt.load(args.splitters, u64::from(thread), Hint::ReadOnly);
                let (mut low, mut high) = (0, args.count);
                while low < high {
                    let middle = low + (high - low) / 2;
                    let word = simt.load(args.queries, middle, Hint::ReadOnly).xor(args.flip);
                    if word < splitter { low = middle + 1 } else { high = middle }
                }
                simt.shared_store(CUTS, thread, low);
            }
            simt.barrier();
            if simt.opaque(thread) < args.splits {
                // Cuts of queries that are not sorted need not ascend.
                let (mut most, mut splitter) = (0, 0);
                while splitter <= thread {
                    most = simt.shared_load(CUTS, splitter).max(most);
                    splitter += 1;
                }
                simt.store(args.cuts, u64::from(thread), most, Hint::Default);
            }
        }
    }
}
