//! Results in the batch's order.

use crate::{ITEMS, THREADS, TILE, place};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Simt, WARP, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`Back`].
    pub struct BackArgs<W> {
        /// The [place](crate::place) of each query: `[count]`; null: the rows' are used.
        pub places: Global<u32>,
        /// The [shards of each row](crate::place); used without `places`, as is `firsts`.
        pub planes: Global<u32>,
        /// The [first places of each row](crate::place).
        pub firsts: Global<u32>,
        /// How many queries the piece has.
        pub count: u64,
        /// The results at the places below `near`.
        pub near_results: Global<W>,
        /// The results at the others.
        pub far_results: Global<W>,
        /// A bit for each place below `near`: whether there is a result. Null, together with `far_hits`: there is one for each.
        pub near_hits: Global<u32>,
        /// A bit for each of the others.
        pub far_hits: Global<u32>,
        /// `[shards]`: what is added to a shard's results; null for nothing.
        pub plus: Global<W>,
        /// `[shards]`: what takes the place of results that a shard does not have; null for nothing.
        pub others: Global<W>,
        /// Out: `[count]`, the results; null if they are not wanted.
        pub out: GlobalMut<W>,
        /// Out: `[ceil(count / 32)]`, the hit mask; null if it is not wanted.
        pub out_hits: GlobalMut<u32>,
        /// Which shards have one of `others`: a bit each, the first 32 and the rest.
        pub have_others: [u32; 2],
        /// The first place of `far_results`, a multiple of 32.
        pub near: u32,
        /// How many there are.
        pub shards: u32,
    }
}

/// Takes the results of a piece's queries from their places. A block of [`THREADS`] for each tile.
#[derive(Debug)]
pub struct Back<W>(PhantomData<W>);

/// Per thread. The places of its queries, of which `first` is the first one's number.
///
/// # Safety
/// As the kernel's.
#[inline(always)]
unsafe fn places<S: Simt, W>(simt: S, args: &BackArgs<W>, first: u64) -> [u32; ITEMS] {
    let mut words = [0; ITEMS];
    if !args.places.is_null() {
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            if at < args.count {
                // SAFETY: a query.
                words[item] = unsafe { simt.load(args.places, at, Hint::Streaming) };
            }
        });
        return words;
    }
    let (lane, below, bits) = (simt.lane(), simt.lanes_below(), place::bits_of(args.shards));
    let mut same = [u32::MAX; ITEMS];
    let mut bit = 0;
    while bit < bits {
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            if at < args.count {
                let row = at / u64::from(WARP);
                // SAFETY: the row of a query.
                let plane = unsafe { simt.load(args.planes, row * u64::from(bits) + u64::from(bit), Hint::ReadOnly) };
                let own = plane >> lane & 1;
                words[item] |= own << bit;
                same[item] &= if own != 0 { plane } else { !plane };
            }
        });
        bit += 1;
    }
    unroll!(ITEMS, item => {
        let at = first + item as u64 * u64::from(THREADS);
        if at < args.count {
            let (row, shard) = (at / u64::from(WARP), words[item]);
            // SAFETY: a shard that has queries of the row. Those past the last query are of no shard, and not below any.
            let first = unsafe { simt.load(args.firsts, row * u64::from(args.shards) + u64::from(shard), Hint::ReadOnly) };
            words[item] = place::word(shard, first + (same[item] & below).count_ones());
        }
    });
    words
}

impl<W: KeyWord> Kernel for Back<W> {
    type Args = BackArgs<W>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let first = u64::from(simt.block_index()) * TILE + u64::from(simt.thread_index());
        // SAFETY: the arguments' contract.
        let words = unsafe { places(simt, args, first) };
        let (mut results, mut hits) = ([W::MIN; ITEMS], [false; ITEMS]);
        unroll!(ITEMS, item => {
            let (shard, at) = (place::shard(words[item]), place::of(words[item]));
            let is_near = at < args.near;
            if first + item as u64 * u64::from(THREADS) < args.count {
                // SAFETY: a place of a query, which has a result and a bit, and a shard that there is.
                unsafe {
                    let (from, bits, at) = if is_near {
                        (args.near_results, args.near_hits, at)
                    } else {
                        (args.far_results, args.far_hits, at - args.near)
                    };
                    if !args.out.is_null() {
                        results[item] = simt.load(from, u64::from(at), Hint::ReadOnly);
                    }
                    hits[item] =
                        bits.is_null() || simt.load(bits, u64::from(at / 32), Hint::ReadOnly) >> (at % 32) & 1 != 0;
                    if !args.plus.is_null() {
                        let plus = simt.load(args.plus, u64::from(shard), Hint::ReadOnly);
                        results[item] = results[item].wrapping_add(plus);
                    }
                    let have = if shard < 32 { args.have_others[0] } else { args.have_others[1] };
                    if !hits[item] && have >> (shard % 32) & 1 != 0 {
                        hits[item] = true;
                        results[item] = simt.load(args.others, u64::from(shard), Hint::ReadOnly);
                    }
                }
            }
        });
        unroll!(ITEMS, item => {
            let at = first + item as u64 * u64::from(THREADS);
            let word = simt.ballot(FULL_MASK, hits[item]);
            if at < args.count {
                // SAFETY: a query; its warp's queries have a word of the mask to themselves.
                unsafe {
                    if !args.out.is_null() {
                        simt.store(args.out, at, results[item], Hint::Streaming);
                    }
                    if !args.out_hits.is_null() && simt.lane() == 0 {
                        simt.store(args.out_hits, at / 32, word, Hint::Streaming);
                    }
                }
            }
        });
    }
}
