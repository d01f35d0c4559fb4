//! Results out of their shards' devices' memory, into the batch's order.

use crate::planes::{
    BASES, BEFORE, MOST_DIRECT, MOST_PLANES, ROWS, STARTS, TOTALS, agreeing, lanes_of, place, planes_of, row_of,
    sum_rows, sum_totals,
};
use crate::scatter::Tile;
use crate::{ITEMS, THREADS, TILE};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Shared, Simt, WARP, kernel_args, unroll};

kernel_args! {
    /// What takes the place of results, by shard.
    pub struct Amends<W> {
        /// `[shards]`: what is added to a shard's results; null for nothing.
        pub plus: Global<W>,
        /// `[shards]`: what takes the place of results that a shard does not have; null for nothing.
        pub others: Global<W>,
        /// Which shards have one of `others`: a bit each.
        pub have_others: u64,
    }
}

kernel_args! {
    /// Arguments of [`Expand`].
    pub struct ExpandArgs<W> {
        /// As [`Divide`](crate::Divide) has written them.
        pub planes: Global<u32>,
        /// As [`Divide`](crate::Divide) has written them: `[tiles][MOST_DIRECT]`.
        pub bases: Global<u32>,
        /// How many queries the piece has.
        pub count: u64,
        /// Each shard's results, for each element of its box; null if they are not wanted. Any may be in another device's memory.
        pub results: [Global<W>; MOST_DIRECT as usize],
        /// Each shard's hit mask. Null, of all shards: there is a result for each query.
        pub hits: [Global<u32>; MOST_DIRECT as usize],
        /// What becomes of them.
        pub amends: Amends<W>,
        /// Out: `[count]`, the results; null if they are not wanted.
        pub out: GlobalMut<W>,
        /// Out: `[ceil(count / 32)]`, the hit mask; null if it is not wanted.
        pub out_hits: GlobalMut<u32>,
        /// How many there are: 1 to [`MOST_DIRECT`].
        pub shards: u32,
        /// Not 0: where there is no result, memory has none either, and `out` gets the smallest word.
        pub has_hits_alone: u32,
    }
}

/// Puts the results of a piece that was [divided](crate::Divide) into the batch's order: loads whole runs, and stores whole lines. A
/// block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Expand<W>(PhantomData<W>);

/// The tile's planes.
const PLANES: Shared<u32> = Shared::at(STARTS.end(), MOST_PLANES * ROWS);
/// The words of each shard's hit mask with the tile's bits.
const BITS: Shared<u32> = Shared::at(PLANES.end(), ROWS + 2 * MOST_DIRECT);

/// The results, in the order of their shards.
const fn results<W: KeyWord>() -> Shared<W> {
    Shared::at(BITS.end().next_multiple_of(16), TILE as u32)
}

/// Where a shard's words of the hit mask begin, of a run that begins at `start`: never before the end of the last shard's.
#[inline(always)]
pub(crate) fn bits_of(start: u64, shard: u32) -> u64 {
    start / u64::from(WARP) + u64::from(2 * shard)
}

impl<W: KeyWord> Amends<W> {
    /// Per thread. A shard's result, or what takes its place; and whether there is one.
    ///
    /// # Safety
    /// The arrays have an element for the shard.
    #[inline(always)]
    pub(crate) unsafe fn apply<S: Simt>(&self, simt: S, shard: u32, result: W, is_hit: bool) -> (W, bool) {
        let mut result = result;
        // SAFETY: the caller's contract.
        unsafe {
            if !self.plus.is_null() {
                result = result.wrapping_add(simt.load(self.plus, u64::from(shard), Hint::ReadOnly));
            }
            let has_other = !is_hit && self.have_others >> shard & 1 != 0;
            if has_other {
                result = simt.load(self.others, u64::from(shard), Hint::ReadOnly);
            }
            (result, is_hit | has_other)
        }
    }
}

impl<W: KeyWord> Expand<W> {
    /// Per block. Loads the runs of all shards, and the words of their hit masks.
    ///
    /// # Safety
    /// [`STARTS`] has sums, and a barrier has followed; another follows.
    #[inline(always)]
    unsafe fn load<S: Simt>(simt: S, args: &ExpandArgs<W>) {
        unroll!(MOST_DIRECT as usize, shard => {
            let number = shard as u32;
            if number < args.shards {
                // SAFETY: the shard's run, which has results and bits, and as many elements of shared memory.
                unsafe {
                    let (total, start) = (simt.shared_load(TOTALS, number), simt.shared_load(STARTS, number));
                    let base = simt.shared_load(BASES, number);
                    if !args.out.is_null() {
                        let mut at = simt.thread_index();
                        while at < total {
                            let from = base + at;
                            let is_there = args.has_hits_alone == 0 || {
                                let word = simt.load(args.hits[shard], u64::from(from / WARP), Hint::Default);
                                word >> (from % WARP) & 1 != 0
                            };
                            let mut result = W::MIN;
                            if is_there {
                                result = simt.load(args.results[shard], u64::from(from), Hint::Streaming);
                            }
                            simt.shared_store(results::<W>(), start + at, result);
                            at += THREADS;
                        }
                    }
                    if !args.hits[shard].is_null() {
                        let (first, to) = (base / WARP, bits_of(u64::from(start), number) as u32);
                        let words = if total > 0 { (base % WARP + total).div_ceil(WARP) } else { 0 };
                        let at = simt.thread_index();
                        if at < words {
                            let word = simt.load(args.hits[shard], u64::from(first + at), Hint::Streaming);
                            simt.shared_store(BITS, to + at, word);
                        }
                    }
                }
            }
        });
    }
}

impl<W: KeyWord> Kernel for Expand<W> {
    type Args = ExpandArgs<W>;
    const STATIC_SHARED: u32 = results::<W>().end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let &ExpandArgs { count, shards, .. } = args;
        let (thread, lane, warp) = (simt.thread_index(), simt.lane(), simt.warp());
        let (tile, planes) = (u64::from(simt.block_index()), planes_of(shards));
        // SAFETY: words of the tile; every element of shared memory is one thread's from a barrier to the next.
        unsafe {
            let words = planes * ROWS;
            if thread < words {
                let word = simt.load(args.planes, tile * u64::from(words) + u64::from(thread), Hint::Streaming);
                simt.shared_store(PLANES, thread, word);
            }
            simt.barrier();
            let row = thread % ROWS;
            let mut shard = thread / ROWS;
            while shard < shards {
                let (mut same, mut plane) = (lanes_of(tile, row, count), 0);
                while plane < planes {
                    same &= agreeing(simt.shared_load(PLANES, plane * ROWS + row), shard, plane);
                    plane += 1;
                }
                simt.shared_store(BEFORE, shard * ROWS + row, same.count_ones());
                shard += THREADS / ROWS;
            }
            simt.barrier();
            if warp < shards {
                sum_rows(simt, warp);
                if lane == 0 {
                    let at = tile * u64::from(MOST_DIRECT) + u64::from(warp);
                    simt.shared_store(BASES, warp, simt.load(args.bases, at, Hint::Streaming));
                }
            }
            simt.barrier();
            sum_totals(simt, shards);
            simt.barrier();
            Self::load(simt, args);
            simt.barrier();
        }
        unroll!(ITEMS, item => {
            let (at, row) = (Tile::<W>::at(simt, item), row_of(simt, item));
            let (mut result, mut is_hit) = (W::MIN, false);
            if at < count {
                // SAFETY: loaded before the barrier; each query has a place and a bit.
                unsafe {
                    let (mut same, mut shard, mut plane) = (lanes_of(tile, row, count), 0, 0);
                    while plane < planes {
                        let word = simt.shared_load(PLANES, plane * ROWS + row);
                        let bit = word >> lane & 1;
                        shard |= bit << plane;
                        same &= if bit != 0 { word } else { !word };
                        plane += 1;
                    }
                    let (from, within) = place(simt, shard, row, same);
                    if !args.out.is_null() {
                        result = simt.shared_load(results::<W>(), from);
                    }
                    is_hit = args.hits[0].is_null();
                    if !is_hit {
                        let bit = simt.shared_load(BASES, shard) % WARP + within;
                        let word = bits_of(u64::from(from - within), shard) as u32 + bit / WARP;
                        is_hit = simt.shared_load(BITS, word) >> (bit % WARP) & 1 != 0;
                    }
                    (result, is_hit) = args.amends.apply(simt, shard, result, is_hit);
                }
            }
            let word = simt.ballot(FULL_MASK, is_hit);
            if simt.opaque(at) < count {
                // SAFETY: a query; its warp's queries have a word of the mask to themselves.
                unsafe {
                    if !args.out.is_null() {
                        simt.store(args.out, at, result, Hint::Streaming);
                    }
                    if !args.out_hits.is_null() && lane == 0 {
                        simt.store(args.out_hits, at / u64::from(WARP), word, Hint::Streaming);
                    }
                }
            }
        });
    }
}
