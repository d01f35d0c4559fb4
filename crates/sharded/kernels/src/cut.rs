//! Sorted batches: where each shard's part begins, and its way into the shard's bucket.

use crate::search::{self, MOST_SHARDS};
use crate::{ITEMS, THREADS, TILE, position};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Shared, Simt, kernel_args, unroll};

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

kernel_args! {
    /// Arguments of [`Shift`].
    pub struct ShiftArgs<K> {
        /// `[count]`: those of a piece.
        pub queries: Global<K>,
        /// How many; with the space between buckets fewer than `1 << position::BITS`.
        pub count: u64,
        /// The number of the piece's first query in the batch.
        pub first: u64,
        /// Where each shard's part of the batch but the first begins, ascending: `[shards - 1]`.
        pub cuts: Global<u64>,
        /// `[shards]`: from a shard's position in the piece to that in its bucket, modulo 2^32.
        pub bucket_starts: Global<u32>,
        /// Out: the queries in their buckets, in order.
        pub keys: GlobalMut<K>,
        /// Out: `[count]`, the [position](crate::position) of each query.
        pub positions: GlobalMut<u32>,
        /// How many there are: 1 to [`MOST_SHARDS`].
        pub shards: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

/// Copies the parts of a piece of a sorted batch into their buckets. A block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Shift<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Shift<K> {
    type Args = ShiftArgs<K>;
    const STATIC_SHARED: u32 = CUTS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: there are as many cuts.
        unsafe { search::load(simt, args.cuts, args.shards - 1, CUTS) };
        simt.barrier();
        let first = u64::from(simt.block_index()) * TILE + u64::from(simt.thread_index());
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            if at < args.count {
                // SAFETY: a query, whose shard is one by the cuts, whatever its key is; so its position is in that one's bucket.
                unsafe {
                    let query = simt.load(args.queries, at, Hint::Streaming);
                    let shard = search::shard_of(simt, CUTS, args.shards - 1, args.first + at);
                    let to = simt.load(args.bucket_starts, u64::from(shard), Hint::ReadOnly).wrapping_add(at as u32);
                    simt.store(args.keys, u64::from(to), query, Hint::Default);
                    simt.store(args.positions, at, position::word(shard, to), Hint::Default);
                }
            }
        });
    }
}
