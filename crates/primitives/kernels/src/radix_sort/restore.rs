//! The way back from a pass: puts what stands in the order of the sorted elements into the order of the input.

use super::onesweep::{Onesweep, Tile};
use super::{Digit, Extract, RADIX};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, WARP, Word, kernel_args, unroll,
};

/// Elements that a thread moves at a time: their loads overlap.
const ROWS: usize = 4;

kernel_args! {
    /// Arguments of [`Restore`].
    pub struct RestoreArgs<K, V> {
        /// `[len]`, the keys as they were before the pass.
        pub keys: Global<K>,
        /// How many.
        pub len: u64,
        /// `[RADIX]`: where the elements with each digit begin.
        pub offsets: Global<u64>,
        /// `[tiles][RADIX]`, as a pass in one launch has left them.
        pub states: Global<u32>,
        /// The digit of that pass.
        pub digit: Digit,
        /// Exclusive-or mask between a key and the word by which it is ordered.
        pub flip: K,
        /// `[len]`, in the order of the sorted elements; null if there are none.
        pub values: Global<V>,
        /// Out: `[len]`, the same in the order of the keys.
        pub values_out: GlobalMut<V>,
        /// `[len]`, others, of keys' width; null if there are none.
        pub others: Global<K>,
        /// Out: the same in the order of the keys.
        pub others_out: GlobalMut<K>,
        /// `[ceil(len / 32)]`, a bit for each of the sorted elements; null if there are none.
        pub bits: Global<u32>,
        /// Out: the same in the order of the keys. Bits past the last one are zero.
        pub bits_out: GlobalMut<u32>,
    }
}

/// Undoes the move of a pass over keys alone, for arrays that were made of the sorted keys. A block of as many warps has a tile of the
/// same length, and ranks its elements again in the same way.
#[derive(Debug)]
pub struct Restore<K, V, const WARPS: usize, const ITEMS: usize, const BLOCKS: u32>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word, const WARPS: usize, const ITEMS: usize, const BLOCKS: u32>
    Restore<K, V, WARPS, ITEMS, BLOCKS>
{
    /// For each warp and digit: the number of elements, and later how many of the tile's elements with the digit come before the next
    /// one.
    const COUNTERS: Shared<u32> = Shared::at(0, WARPS as u32 * RADIX);
    /// For each digit: the place of the tile's first element.
    const BASES: Shared<u32> = Shared::at(Self::COUNTERS.end(), RADIX);
    const SHIFT: Shared<u32> = Shared::at(Self::BASES.end(), 1);

    /// Per thread. Moves the thread's elements of an array to where they came from.
    ///
    /// # Safety
    /// `from` has an element at each place, `to` at each of the tile's from the thread's first on.
    #[inline(always)]
    unsafe fn write<S: Simt, T: KeyWord>(simt: S, from: Global<T>, to: GlobalMut<T>, left: u32, places: &[u32; ITEMS]) {
        unroll!(ITEMS.div_ceil(ROWS), group => {
            let rows = group * ROWS..ITEMS.min((group + 1) * ROWS);
            let mut elements = [T::MIN; ROWS];
            for i in rows.clone() {
                if i as u32 * WARP < left {
                    // Through L1, where other elements of the same line are found.
                    // SAFETY: the caller's promise.
                    elements[i % ROWS] = unsafe { simt.load(from, places[i].into(), Hint::Default) };
                }
            }
            for i in rows {
                let row = i as u32 * WARP;
                if row < left {
                    // SAFETY: the caller's promise.
                    unsafe { simt.store(to, row.into(), elements[i % ROWS], Hint::EvictFirst) };
                }
            }
        });
    }
}

impl<K: KeyWord, V: Word, const WARPS: usize, const ITEMS: usize, const BLOCKS: u32> Kernel
    for Restore<K, V, WARPS, ITEMS, BLOCKS>
{
    type Args = RestoreArgs<K, V>;
    const STATIC_SHARED: u32 = Self::SHIFT.end();
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: WARPS as u32 * WARP, blocks: BLOCKS });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        const { assert!(WARPS as u32 * WARP >= RADIX, "each digit needs a thread") };
        let digit = Extract::new(args.digit, args.flip);
        let (thread, warp) = (simt.thread_index(), simt.warp());
        for i in 0..RADIX / WARP {
            // SAFETY: a counter of the thread's warp; each lane has its own until the barrier.
            unsafe { simt.shared_store(Self::COUNTERS, warp * RADIX + i * WARP + simt.lane(), 0) };
        }
        if thread == 0 {
            // SAFETY: the word is this thread's until the barrier.
            unsafe { simt.shared_store(Self::SHIFT, 0, digit.shift) };
        }
        simt.barrier();

        let tile = Tile::new(simt.block_index(), WARPS as u32 * WARP * ITEMS as u32, args.len);
        // As in the pass: an element past the end has the highest digit, and comes after all others.
        // SAFETY: the tile is one of the keys'.
        let keys = unsafe {
            Onesweep::<K, u32, false, WARPS, ITEMS, BLOCKS>::load(simt, args.keys, &tile, K::MAX.xor(args.flip))
        };
        let counters = Shared::<u32>::at(Self::COUNTERS.byte_offset(warp * RADIX), RADIX);
        unroll!(ITEMS, i => {
            // SAFETY: zeroed before the barrier.
            unsafe { simt.shared_atomic_add(counters, digit.of(keys[i]), 1) };
        });
        simt.barrier();
        if warp < RADIX / WARP {
            let mut count = 0;
            unroll!(WARPS, w => {
                let index = w as u32 * RADIX + thread;
                // SAFETY: counted before the barrier; the digit's counters are this thread's until the next one.
                unsafe {
                    let own = simt.shared_load(Self::COUNTERS, index);
                    simt.shared_store(Self::COUNTERS, index, count);
                    count += own;
                }
            });
            // SAFETY: the pass has left a sum for each tile and digit; each thread has its own base.
            unsafe {
                let before = super::look_back::sum_before(simt, args.states, tile.number, thread, count);
                let offset = simt.load(args.offsets, u64::from(thread), Hint::ReadOnly) as u32;
                simt.shared_store(Self::BASES, thread, offset + before);
            }
        }
        simt.barrier();

        // As in the pass: otherwise the compiler keeps all digits.
        // SAFETY: written before the first barrier.
        let digit = Extract { shift: unsafe { simt.shared_load(Self::SHIFT, 0) }, ..digit };
        let mut places = [0; ITEMS];
        unroll!(ITEMS, i => {
            let own = digit.of(keys[i]);
            // SAFETY: the counters hold places since the barrier, and the bases are there.
            places[i] = unsafe {
                let place = Onesweep::<K, u32, false, WARPS, ITEMS, BLOCKS>::rank(simt, counters, own);
                simt.shared_load(Self::BASES, own) + place
            };
        });

        let first = warp * WARP * ITEMS as u32 + simt.lane();
        let left = tile.valid.saturating_sub(first);
        let at = tile.first + u64::from(first);
        // SAFETY: the places of elements that are there lie among as many; nobody else has the same elements.
        unsafe {
            if !args.values.is_null() {
                let to = args.values_out.byte_add(at * V::BYTES as u64);
                Self::write(simt, args.values, to, left, &places);
            }
            if !args.others.is_null() {
                let to = args.others_out.byte_add(at * K::BYTES as u64);
                Self::write(simt, args.others, to, left, &places);
            }
            if !args.bits.is_null() {
                unroll!(ITEMS, i => {
                    let mut is_set = false;
                    if i as u32 * WARP < left {
                        let word = simt.load(args.bits, (places[i] / 32).into(), Hint::Default);
                        is_set = word >> (places[i] % 32) & 1 != 0;
                    }
                    let word = simt.ballot(FULL_MASK, is_set);
                    if simt.lane() == 0 && i as u32 * WARP < left {
                        simt.store(args.bits_out, at / 32 + i as u64, word, Hint::Default);
                    }
                });
            }
        }
    }
}
