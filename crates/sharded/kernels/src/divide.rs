//! Queries straight into the memory of their shards' devices.

use crate::planes::{
    BASES, BEFORE, MOST_DIRECT, ROWS, RUN, STARTS, TOTALS, agreeing, lanes_of, place, planes_of, row_of, sum_rows,
    sum_totals,
};
use crate::scatter::Tile;
use crate::{ITEMS, THREADS, TILE, search};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Shared, Simt, kernel_args, unroll,
};

kernel_args! {
    /// Arguments of [`Divide`].
    pub struct DivideArgs<K> {
        /// `[count]`, in the caller's form: those of a piece.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// The ordered word of the smallest key of each shard but the first, ascending: `[shards - 1]`.
        pub splitters: Global<K>,
        /// In: `[shards]`, zero. Out: how many elements of its box each shard has.
        pub counts: GlobalMut<u32>,
        /// Out: the [planes](crate::plane_words) of each tile.
        pub planes: GlobalMut<u32>,
        /// Out: `[tiles][MOST_DIRECT]`, where each shard's queries of a tile begin in its box.
        pub bases: GlobalMut<u32>,
        /// Out: each shard's queries, and between a tile's and the next one's copies of the last. Room for all queries, and for
        /// [`RUN`] more of each tile. Any may be in another device's memory.
        pub boxes: [GlobalMut<K>; MOST_DIRECT as usize],
        /// How many there are: 1 to [`MOST_DIRECT`].
        pub shards: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// Exclusive-or mask between a key and its ordered word.
        pub flip: K,
    }
}

/// Divides a piece's queries among the shards: each tile's go to their shards' boxes in whole sectors. A block of [`THREADS`] for each
/// tile.
#[derive(Debug)]
pub struct Divide<K>(PhantomData<K>);

/// The splitters.
const fn borders<K: KeyWord>() -> Shared<K> {
    Shared::at(STARTS.end().next_multiple_of(16), MOST_DIRECT)
}

/// The tile's queries, in the order of their shards.
const fn keys<K: KeyWord>() -> Shared<K> {
    Shared::at(borders::<K>().end(), TILE as u32)
}

impl<K: KeyWord> Kernel for Divide<K> {
    type Args = DivideArgs<K>;
    const STATIC_SHARED: u32 = keys::<K>().end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let &DivideArgs { count, shards, flip, .. } = args;
        let (thread, lane, warp) = (simt.thread_index(), simt.lane(), simt.warp());
        let (tile, planes) = (u64::from(simt.block_index()), planes_of(shards));
        let mut queries = [K::MIN; ITEMS];
        // SAFETY: queries that there are; every element of shared memory is one thread's until the barrier.
        unsafe {
            unroll!(ITEMS, item => {
                let at = Tile::<K>::at(simt, item);
                if at < count {
                    queries[item] = simt.load(args.queries, at, Hint::Streaming);
                }
            });
            search::load(simt, args.splitters, shards - 1, borders::<K>());
            unroll!(2, half => {
                simt.shared_store(BEFORE, half as u32 * THREADS + thread, 0);
            });
        }
        simt.barrier();
        let (mut owners, mut masks) = ([0; ITEMS], [0; ITEMS]);
        unroll!(ITEMS, item => {
            let row = row_of(simt, item);
            let valid = lanes_of(tile, row, count);
            // SAFETY: loaded before the barrier. A shard's counter of a row is written by the first of the row's lanes of that shard.
            unsafe {
                let shard = search::shard_of(simt, borders::<K>(), shards - 1, queries[item].xor(flip));
                let (mut same, mut own, mut plane) = (valid, 0, 0);
                while plane < planes {
                    let word = simt.ballot(FULL_MASK, shard >> plane & 1 != 0);
                    same &= agreeing(word, shard, plane);
                    own = if lane == plane { word } else { own };
                    plane += 1;
                }
                if lane < planes {
                    let at = (tile * u64::from(planes) + u64::from(lane)) * u64::from(ROWS) + u64::from(row);
                    simt.store(args.planes, at, own, Hint::Default);
                }
                if valid >> lane & 1 != 0 && same & simt.lanes_below() == 0 {
                    simt.shared_store(BEFORE, shard * ROWS + row, same.count_ones());
                }
                (owners[item], masks[item]) = (shard, same);
            }
        });
        simt.barrier();
        if warp < shards {
            // SAFETY: counted before the barrier, a shard for each warp; the counts are accessed atomically.
            unsafe {
                let padded = sum_rows(simt, warp).next_multiple_of(RUN);
                if lane == 0 {
                    let base = simt.atomic_add(args.counts, u64::from(warp), padded, Order::Relaxed, Scope::Device);
                    simt.shared_store(BASES, warp, base);
                    simt.store(args.bases, tile * u64::from(MOST_DIRECT) + u64::from(warp), base, Hint::Default);
                }
            }
        }
        simt.barrier();
        // SAFETY: between barriers.
        unsafe { sum_totals(simt, shards) };
        simt.barrier();
        unroll!(ITEMS, item => {
            if Tile::<K>::at(simt, item) < count {
                // SAFETY: sums that a barrier follows; each query has a place of its own.
                unsafe {
                    let (to, _) = place(simt, owners[item], row_of(simt, item), masks[item]);
                    simt.shared_store(keys::<K>(), to, queries[item]);
                }
            }
        });
        simt.barrier();
        unroll!(MOST_DIRECT as usize, shard => {
            let number = shard as u32;
            if number < shards {
                // SAFETY: the shard's run, and as much room in its box, which is this tile's alone.
                unsafe {
                    let (total, start) = (simt.shared_load(TOTALS, number), simt.shared_load(STARTS, number));
                    let (base, padded) = (simt.shared_load(BASES, number), total.next_multiple_of(RUN));
                    let mut at = thread;
                    while at < padded {
                        let key = simt.shared_load(keys::<K>(), start + at.min(total - 1));
                        simt.store(args.boxes[shard], u64::from(base + at), key, Hint::Streaming);
                        at += THREADS;
                    }
                }
            }
        });
    }
}
