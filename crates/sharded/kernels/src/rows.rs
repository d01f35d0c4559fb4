//! Ranges over several shards: how many pairs of a range each shard has, and where they go.

use crate::{ITEMS, THREADS, TILE};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Shared, Simt, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Share`].
    pub struct ShareArgs {
        /// In: `[count]`, the pairs of each range that a shard has. Out: how many of them are within the range's limit.
        pub counts: GlobalMut<u64>,
        /// Out: `[count]`, the pairs of each range in the shards before; null if they are not wanted.
        pub before: GlobalMut<u64>,
        /// In, but of the first shard: `[count]`, the pairs of each range in the shards before. Out: this one's too.
        pub sums: GlobalMut<u64>,
        /// Out: `[count]`, the same in 32 bits; null if they are not wanted.
        pub narrow: GlobalMut<u32>,
        /// `[count]`, the most pairs of each range; null for no such limits.
        pub limits: Global<u64>,
        /// The most pairs of every range.
        pub limit: u64,
        /// Ranges.
        pub count: u64,
        /// Whether this is the first shard: 0 or 1.
        pub is_first: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

/// Adds a shard to ranges, in the order of the shards. A thread for each range.
#[derive(Debug)]
pub struct Share;

impl Kernel for Share {
    type Args = ShareArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let at = simt.global_index();
        if at >= args.count {
            return;
        }
        // SAFETY: a range, whose elements are this thread's.
        unsafe {
            let mut limit = args.limit;
            if !args.limits.is_null() {
                limit = simt.load(args.limits, at, Hint::ReadOnly).min(limit);
            }
            let before = if args.is_first != 0 { 0 } else { simt.load(args.sums.as_const(), at, Hint::Default) };
            let found = simt.load(args.counts.as_const(), at, Hint::Default);
            // `before` is within the limit.
            let taken = found.min(limit - before);
            simt.store(args.counts, at, taken, Hint::Default);
            if !args.before.is_null() {
                simt.store(args.before, at, before, Hint::Default);
            }
            simt.store(args.sums, at, before + taken, Hint::Default);
            if !args.narrow.is_null() {
                simt.store(args.narrow, at, (before + taken) as u32, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`PutPairs`].
    pub struct PutPairsArgs<W> {
        /// A column of a shard's pairs, range after range: `[pairs]`.
        pub from: Global<W>,
        /// Where each range begins there: `[count + 1]`.
        pub offsets: Global<u64>,
        /// The pairs of each range in the shards before: `[count]`.
        pub before: Global<u64>,
        /// Where each range begins in the output: `[count]`. Null: every `stride` pairs.
        pub starts: Global<u64>,
        /// Used without `starts`.
        pub stride: u64,
        /// Ranges.
        pub count: u64,
        /// Pairs, of which no range begins past the last; 1 at least.
        pub pairs: u64,
        /// Room in the output: what is past it is not written.
        pub room: u64,
        /// Out: the column of all shards' pairs.
        pub out: GlobalMut<W>,
    }
}

/// Puts a shard's pairs where they belong among those of all shards. A block of [`THREADS`] for each tile of pairs.
#[derive(Debug)]
pub struct PutPairs<W>(PhantomData<W>);

/// The ranges of a tile's first pair and of its last.
const ENDS: Shared<u64> = Shared::at(0, 2);

/// Per thread. The last range from `low` on, and before `high`, that begins at or below a pair: one with pairs.
///
/// # Safety
/// `offsets` has the elements from `low` to `high`, of which the first is not above the pair.
#[inline(always)]
unsafe fn range_of<S: Simt>(simt: S, offsets: Global<u64>, (mut low, mut high): (u64, u64), pair: u64) -> u64 {
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        // SAFETY: between the ends.
        let first = unsafe { simt.load(offsets, middle, Hint::ReadOnly) };
        if first <= pair { low = middle } else { high = middle }
    }
    low
}

impl<W: KeyWord> Kernel for PutPairs<W> {
    type Args = PutPairsArgs<W>;
    const STATIC_SHARED: u32 = ENDS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tile, thread) = (u64::from(simt.block_index()) * TILE, simt.thread_index());
        // SAFETY: pairs that there are, each in a range; an element of shared memory is one thread's until the barrier.
        unsafe {
            if thread < 2 {
                let pair = if thread == 0 { tile } else { (tile + TILE).min(args.pairs) - 1 };
                simt.shared_store(ENDS, thread, range_of(simt, args.offsets, (0, args.count), pair));
            }
        }
        simt.barrier();
        // SAFETY: stored before the barrier.
        let ranges = unsafe { (simt.shared_load(ENDS, 0), simt.shared_load(ENDS, 1) + 1) };
        let first = tile + u64::from(thread);
        unroll!(ITEMS, item => {
            let pair = first + item as u64 * u64::from(THREADS);
            if pair < args.pairs {
                // SAFETY: a pair, and the range that it is in; a position below the room.
                unsafe {
                    let range = range_of(simt, args.offsets, ranges, pair);
                    let start = match args.starts.is_null() {
                        true => range * args.stride,
                        false => simt.load(args.starts, range, Hint::ReadOnly),
                    };
                    let before = simt.load(args.before, range, Hint::ReadOnly);
                    let to = start + before + (pair - simt.load(args.offsets, range, Hint::ReadOnly));
                    if to < args.room {
                        simt.store(args.out, to, simt.load(args.from, pair, Hint::Streaming), Hint::Default);
                    }
                }
            }
        });
    }
}
