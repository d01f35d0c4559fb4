//! Putting queries into their shards' buckets.

use crate::search::{self, MOST_SHARDS};
use crate::{ITEMS, THREADS, TILE, position};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Shared, Simt, kernel_args, unroll,
};

kernel_args! {
    /// Arguments of [`Scatter`].
    pub struct ScatterArgs<K> {
        /// `[count]`, in the caller's form: those of a piece.
        pub queries: Global<K>,
        /// How many; with the space between buckets fewer than `1 << position::BITS`.
        pub count: u64,
        /// The ordered word of the smallest key of each shard but the first, ascending: `[shards - 1]`.
        pub splitters: Global<K>,
        /// In: `[shards]`, where each shard's bucket begins, with room for its queries. Out: where it ends.
        pub next: GlobalMut<u32>,
        /// Out: the queries in their buckets, in any order.
        pub keys: GlobalMut<K>,
        /// Out: `[count]`, the [position](crate::position) of each query.
        pub positions: GlobalMut<u32>,
        /// How many there are: 1 to [`MOST_SHARDS`].
        pub shards: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// Exclusive-or mask between a key and its ordered word.
        pub flip: K,
    }
}

/// Puts a piece's queries into their shards' buckets. A block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Scatter<K>(PhantomData<K>);

/// A block's queries of each shard, and then where they go.
const COUNTERS: Shared<u32> = Shared::at(0, MOST_SHARDS);

/// The splitters.
const fn borders<K: KeyWord>() -> Shared<K> {
    Shared::at(COUNTERS.end(), MOST_SHARDS)
}

/// Per block. How many queries of a shard it has counted.
///
/// # Safety
/// The tile was [counted](Tile::count), and [`Scatter`] has not written over the counts.
#[inline(always)]
pub(crate) unsafe fn block_count<S: Simt>(simt: S, shard: u32) -> u32 {
    // SAFETY: a shard's counter.
    unsafe { simt.shared_load(COUNTERS, shard) }
}

/// A block's tile of a batch.
pub(crate) struct Tile<K> {
    pub(crate) queries: Global<K>,
    pub(crate) count: u64,
    pub(crate) shards: u32,
    pub(crate) flip: K,
}

/// A thread's queries of a tile.
pub(crate) struct Counted<K> {
    queries: [K; ITEMS],
    pub(crate) shards: [u32; ITEMS],
    before: [u32; ITEMS],
}

impl<K: KeyWord> Tile<K> {
    /// The shared memory that counting takes.
    pub(crate) const SHARED: u32 = borders::<K>().end();

    /// Per thread. Where its queries are: a warp's lie side by side.
    #[inline(always)]
    pub(crate) fn at<S: Simt>(simt: S, item: usize) -> u64 {
        let block = u64::from(simt.block_index()) * TILE;
        block + item as u64 * u64::from(THREADS) + u64::from(simt.thread_index())
    }

    /// Per block, with barriers. The thread's queries, and for each its shard, and how many of that shard's queries of the block
    /// come before it; afterwards [`COUNTERS`] has all of the block's, and a barrier has followed. Past the last query the shard
    /// is `shards`.
    ///
    /// # Safety
    /// The queries and splitters are valid.
    #[inline(always)]
    pub(crate) unsafe fn count<S: Simt>(&self, simt: S, splitters: Global<K>) -> Counted<K> {
        let (thread, lane) = (simt.thread_index(), simt.lane());
        let mut queries = [K::MIN; ITEMS];
        // SAFETY: queries that there are. Every element of shared memory is one thread's until the barrier.
        unsafe {
            unroll!(ITEMS, item => {
                let at = Self::at(simt, item);
                if at < self.count {
                    queries[item] = simt.load(self.queries, at, Hint::Streaming);
                }
            });
            if thread < MOST_SHARDS {
                simt.shared_store(COUNTERS, thread, 0);
            }
            search::load(simt, splitters, self.shards - 1, borders::<K>());
        }
        simt.barrier();
        // The numbers of the shards, and one more.
        let bits = 32 - self.shards.leading_zeros();
        let (mut shards, mut before) = ([0; ITEMS], [0; ITEMS]);
        unroll!(ITEMS, item => {
            // SAFETY: loaded before the barrier; a shard has a counter, and the lanes of a mask are of one shard.
            unsafe {
                let word = queries[item].xor(self.flip);
                let own = search::shard_of(simt, borders::<K>(), self.shards - 1, word);
                let shard = simt.opaque(if Self::at(simt, item) < self.count { own } else { self.shards });
                let same = simt.match_low_bits(FULL_MASK, shard, bits);
                let leader = same.trailing_zeros();
                let mut first = 0;
                if lane == leader && shard < self.shards {
                    first = simt.shared_atomic_add(COUNTERS, shard, same.count_ones());
                }
                first = simt.shuffle(FULL_MASK, simt.opaque(first), leader);
                (shards[item], before[item]) = (shard, first + (same & simt.lanes_below()).count_ones());
            }
        });
        simt.barrier();
        Counted { queries, shards, before }
    }
}

impl<K: KeyWord> Kernel for Scatter<K> {
    type Args = ScatterArgs<K>;
    const STATIC_SHARED: u32 = Tile::<K>::SHARED;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let &ScatterArgs { queries, count, shards, flip, .. } = args;
        // SAFETY: the arguments' contract.
        let tile = unsafe { Tile { queries, count, shards, flip }.count(simt, args.splitters) };
        let thread = simt.thread_index();
        if thread < shards {
            // SAFETY: counted before a barrier; from here to the next one the element is this thread's.
            unsafe {
                let size = simt.shared_load(COUNTERS, thread);
                let first = simt.atomic_add(args.next, u64::from(thread), size, Order::Relaxed, Scope::Device);
                simt.shared_store(COUNTERS, thread, first);
            }
        }
        simt.barrier();
        unroll!(ITEMS, item => {
            let (at, own) = (Tile::<K>::at(simt, item), tile.shards[item]);
            if at < count {
                // SAFETY: a query, whose shard has a counter; its bucket has room for all of its shard's.
                unsafe {
                    let to = simt.shared_load(COUNTERS, own) + tile.before[item];
                    simt.store(args.keys, u64::from(to), tile.queries[item], Hint::Default);
                    simt.store(args.positions, at, position::word(own, to), Hint::Default);
                }
            }
        });
    }
}
