//! One pass: moves every element to its position by one digit.

use super::look_back::{States, digit_scan, digits_before};
use super::{DIGIT_BITS, Digit, Extract, RADIX};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Order, Scope, Shared, Simt, WARP, Word,
    kernel_args, unroll,
};

/// Elements that a thread writes at a time: their loads from shared memory overlap.
const ROWS: usize = 4;

kernel_args! {
    /// Arguments of [`Onesweep`].
    pub struct OnesweepArgs<K, V> {
        /// `[len]`.
        pub keys: Global<K>,
        /// Out: `[len]`, not the same memory.
        pub keys_out: GlobalMut<K>,
        /// `[len]`; null if the values are the elements' positions. Not read by a sort of keys alone.
        pub values: Global<V>,
        /// Out: `[len]`, not the same memory. Not written by a sort of keys alone.
        pub values_out: GlobalMut<V>,
        /// Elements, of all launches of the pass.
        pub len: u64,
        /// `[RADIX]`: where the elements of this launch with each digit begin.
        pub offsets: Global<u64>,
        /// Out: `[RADIX]`, where the elements of the next launch with each digit begin; null if this is the last.
        pub next_offsets: GlobalMut<u64>,
        /// `[tiles][RADIX]` for the tiles of all launches; cleared before the first pass.
        pub states: GlobalMut<u32>,
        /// In and out: one word, the first tile of the launch before it.
        pub ticket: GlobalMut<u32>,
        /// The first tile of the launch, which has a block for each of at most
        /// [`MAX_PORTION`](super::MAX_PORTION) elements.
        pub first_tile: u32,
        /// The pass, modulo 2.
        pub parity: u32,
        /// The digit.
        pub digit: Digit,
        /// Exclusive-or mask between a key and the word by which it is ordered.
        pub flip: K,
    }
}

/// Moves the elements of a tile to where a digit of theirs says, stably. One block of `WARPS` warps per
/// tile of `ITEMS` elements per thread, `BLOCKS` of them on a multiprocessor.
///
/// The elements lie in the block's threads warp by warp, and in a warp row by row: element `i` of lane
/// `l` is element `32 * i + l` of its warp's. Ranked in that order they keep it.
#[derive(Debug)]
pub struct Onesweep<K, V, const PAIRS: bool, const WARPS: usize, const ITEMS: usize, const BLOCKS: u32>(
    PhantomData<(K, V)>,
);

impl<K: KeyWord, V: Word, const PAIRS: bool, const WARPS: usize, const ITEMS: usize, const BLOCKS: u32>
    Onesweep<K, V, PAIRS, WARPS, ITEMS, BLOCKS>
{
    /// Threads of a block.
    pub const THREADS: u32 = WARPS as u32 * WARP;
    /// Elements of a block.
    pub const TILE: u32 = Self::THREADS * ITEMS as u32;

    /// For each warp and digit: the number of elements, and later the position in the tile of the next one.
    const COUNTERS: Shared<u32> = Shared::at(0, WARPS as u32 * RADIX);
    /// The sorted tile, once the counters are used up.
    const KEYS: Shared<K> = Shared::at(0, Self::TILE);
    /// Its values, once the keys are written.
    const VALUES: Shared<V> = Shared::at(0, if PAIRS { Self::TILE } else { 0 });
    /// For each digit: the number to add to a position in the tile to get the position in the output.
    const BASES: Shared<u64> = Shared::at(max(Self::COUNTERS.end(), max(Self::KEYS.end(), Self::VALUES.end())), RADIX);
    const WARP_SUMS: Shared<u32> = Shared::at(Self::BASES.end(), RADIX / WARP);
    const TILE_NUMBER: Shared<u32> = Shared::at(Self::WARP_SUMS.end(), 1);
    const SHIFT: Shared<u32> = Shared::at(Self::TILE_NUMBER.end(), 1);

    /// Block collective. Takes a tile for the block, and zeroes the counters.
    ///
    /// # Safety
    /// The ticket is the launch's; shared memory is not yet used.
    #[inline(always)]
    unsafe fn begin<S: Simt>(simt: S, ticket: GlobalMut<u32>, shift: u32) {
        if simt.thread_index() == 0 {
            // SAFETY: the caller's promise; the word is this thread's until the barrier.
            unsafe {
                let tile = simt.atomic_add(ticket, 0, 1, Order::Relaxed, Scope::Device);
                simt.shared_store(Self::TILE_NUMBER, 0, tile);
                simt.shared_store(Self::SHIFT, 0, shift);
            }
        }
        for i in 0..RADIX / WARP {
            // SAFETY: a counter of the thread's warp; each lane has its own until the barrier.
            unsafe { simt.shared_store(Self::COUNTERS, simt.warp() * RADIX + i * WARP + simt.lane(), 0) };
        }
        simt.barrier();
    }

    /// Per thread. The block's tile. Read from shared memory: to the compiler each call returns a new value, so nothing
    /// that depends on it stays in registers from one call to the next.
    ///
    /// # Safety
    /// After [`Self::begin`].
    #[inline(always)]
    unsafe fn tile<S: Simt>(simt: S, len: u64) -> Tile {
        // SAFETY: written before a barrier.
        let number = unsafe { simt.shared_load(Self::TILE_NUMBER, 0) };
        Tile::new(number, Self::TILE, len)
    }

    /// Per thread. The thread's elements of a tile; `fill` for elements past the end.
    ///
    /// # Safety
    /// The tile's elements lie in `from`.
    #[inline(always)]
    pub(super) unsafe fn load<S: Simt, T: KeyWord>(simt: S, from: Global<T>, tile: &Tile, fill: T) -> [T; ITEMS] {
        // Everything that depends on the thread goes into the pointer, so each element has a constant offset and needs
        // no register.
        let own = Self::own(simt);
        let from = from.byte_add((tile.first + u64::from(own)) * T::BYTES as u64);
        let mut elements = [fill; ITEMS];
        // Through L1, though read only once: with `EvictFirst` or `Streaming` the pass takes 6 % longer.
        if tile.is_whole {
            unroll!(ITEMS, i => {
                // SAFETY: the tile is full.
                elements[i] = unsafe { simt.load(from, (i as u32 * WARP).into(), Hint::Default) };
            });
        } else {
            let left = tile.valid.saturating_sub(own);
            unroll!(ITEMS, i => {
                if i as u32 * WARP < left {
                    // SAFETY: the element is there.
                    elements[i] = unsafe { simt.load(from, (i as u32 * WARP).into(), Hint::Default) };
                }
            });
        }
        elements
    }

    /// The thread's first element in a tile; the others follow at a warp's distance.
    #[inline(always)]
    fn own<S: Simt>(simt: S) -> u32 {
        simt.warp() * WARP * ITEMS as u32 + simt.lane()
    }

    /// Per thread. Moves every `THREADS`th element of the tile, from the thread's own on, to its place in the
    /// output; `left` says how many elements there are from there on, `digit` gives an element's digit.
    ///
    /// # Safety
    /// The tile's elements and bases are in shared memory since a barrier, and the output has room.
    #[inline(always)]
    unsafe fn write<S: Simt, T: KeyWord>(
        simt: S,
        tile: Shared<T>,
        out: GlobalMut<T>,
        left: u32,
        mut digit: impl FnMut(usize, T) -> u32,
    ) {
        let thread = simt.thread_index();
        unroll!(ITEMS.div_ceil(ROWS), group => {
            let rows = group * ROWS..ITEMS.min((group + 1) * ROWS);
            let (mut elements, mut to) = ([T::MIN; ROWS], [0; ROWS]);
            for i in rows.clone() {
                // SAFETY: the caller's promise.
                elements[i % ROWS] = unsafe { simt.shared_load(tile, thread + i as u32 * Self::THREADS) };
            }
            for i in rows.clone() {
                // SAFETY: the caller's promise; a digit is below `RADIX`.
                to[i % ROWS] = unsafe { simt.shared_load(Self::BASES, digit(i, elements[i % ROWS])) };
            }
            for i in rows {
                let row = i as u32 * Self::THREADS;
                if row < left {
                    let to = to[i % ROWS].wrapping_add(thread.into()).wrapping_add(row.into());
                    // SAFETY: the places of a digit's elements are its run in the output.
                    unsafe { simt.store(out, to, elements[i % ROWS], Hint::Default) };
                }
            }
        });
    }

    /// Warp collective (all lanes). The place of an element in its tile: the next one of the warp for the
    /// digit.
    ///
    /// # Safety
    /// The warp's counters hold its next places.
    #[inline(always)]
    pub(super) unsafe fn rank<S: Simt>(simt: S, counters: Shared<u32>, digit: u32) -> u32 {
        let peers = simt.match_low_bits(FULL_MASK, digit, DIGIT_BITS);
        let below = (peers & simt.lanes_below()).count_ones();
        // SAFETY: a counter of the warp, which the collectives keep from changing while it is read.
        unsafe {
            let next = simt.shared_load(counters, digit);
            simt.sync_warp(FULL_MASK);
            if below == 0 {
                simt.shared_store(counters, digit, next + peers.count_ones());
            }
            simt.sync_warp(FULL_MASK);
            next + below
        }
    }
}

/// A block's part of the input.
pub(super) struct Tile {
    pub(super) number: u32,
    /// Its first element.
    pub(super) first: u64,
    /// Its elements.
    pub(super) valid: u32,
    /// Whether there are as many as there can be.
    is_whole: bool,
}

impl Tile {
    /// One of tiles of `tile` elements, of `len` in all.
    #[inline(always)]
    pub(super) fn new(number: u32, tile: u32, len: u64) -> Self {
        let first = u64::from(number) * u64::from(tile);
        let is_whole = len - first >= u64::from(tile);
        Self { number, first, is_whole, valid: if is_whole { tile } else { (len - first) as u32 } }
    }
}

const fn max(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}

impl<K: KeyWord, V: Word, const PAIRS: bool, const WARPS: usize, const ITEMS: usize, const BLOCKS: u32> Kernel
    for Onesweep<K, V, PAIRS, WARPS, ITEMS, BLOCKS>
{
    type Args = OnesweepArgs<K, V>;
    const STATIC_SHARED: u32 = Self::SHIFT.end();
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: Self::THREADS, blocks: BLOCKS });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        const { assert!(WARPS as u32 * WARP >= RADIX, "each digit needs a thread") };
        let digit = Extract::new(args.digit, args.flip);
        let (thread, warp) = (simt.thread_index(), simt.warp());
        // SAFETY: the first thing that the block does.
        let tile = unsafe {
            Self::begin(simt, args.ticket, digit.shift);
            Self::tile(simt, args.len)
        };
        // An element past the end has the highest digit, and comes after all others.
        // SAFETY: the tile is one of the keys'.
        let keys = unsafe { Self::load(simt, args.keys, &tile, K::MAX.xor(args.flip)) };

        let counters = Shared::<u32>::at(Self::COUNTERS.byte_offset(warp * RADIX), RADIX);
        // The counts are computed before the ranks, although the ranks would give them, so that later tiles get them
        // sooner.
        unroll!(ITEMS, i => {
            // SAFETY: zeroed before the barrier.
            unsafe { simt.shared_atomic_add(counters, digit.of(keys[i]), 1) };
        });
        simt.barrier();

        let states = States { words: args.states, parity: args.parity };
        let has_digit = warp < RADIX / WARP;
        // Of the thread's digit: the elements of the warps before each.
        let mut warps_before = [0; WARPS];
        let (mut count, mut start) = (0, 0);
        if has_digit {
            unroll!(WARPS, w => {
                warps_before[w] = count;
                // SAFETY: counted before the barrier.
                count += unsafe { simt.shared_load(Self::COUNTERS, w as u32 * RADIX + thread) };
            });
            // SAFETY: the states are the pass's. The sums are not used before.
            unsafe {
                states.publish_own(simt, tile.number, args.first_tile, thread, count);
                start = digit_scan(simt, Self::WARP_SUMS, count) - count;
            }
        }
        simt.barrier();
        // Otherwise the compiler writes the barrier in both branches.
        let has_digit = simt.opaque(warp) < RADIX / WARP;
        if has_digit {
            // SAFETY: a barrier came after the scan.
            start += unsafe { digits_before(simt, Self::WARP_SUMS) };
            unroll!(WARPS, w => {
                let next = start + warps_before[w];
                // SAFETY: the digit's counters are this thread's between the barriers.
                unsafe { simt.shared_store(Self::COUNTERS, w as u32 * RADIX + thread, next) };
            });
        }
        simt.barrier();

        // The compiler would keep the digits, or the counters' addresses, of all elements in registers from the counts
        // to the ranks, and there are not enough registers. It does not know that this shift is the same.
        // SAFETY: written before the first barrier.
        let digit = Extract { shift: unsafe { simt.shared_load(Self::SHIFT, 0) }, ..digit };
        let mut places = [0; ITEMS];
        unroll!(ITEMS, i => {
            // SAFETY: the counters hold places since the barrier.
            places[i] = unsafe { Self::rank(simt, counters, digit.of(keys[i])) };
        });
        simt.barrier();
        unroll!(ITEMS, i => {
            // SAFETY: places differ, and the counters are used up since the barrier.
            unsafe { simt.shared_store(Self::KEYS, places[i], keys[i]) };
        });

        // SAFETY: after the beginning.
        let tile = unsafe { Self::tile(simt, args.len) };
        // In flight while the block looks back.
        let mut values = [V::MIN; ITEMS];
        if PAIRS && args.values.is_null() {
            unroll!(ITEMS, i => {
                values[i] = V::truncate(tile.first + u64::from(Self::own(simt)) + i as u64 * u64::from(WARP));
            });
        } else if PAIRS {
            // SAFETY: the tile is one of the values'.
            values = unsafe { Self::load(simt, args.values, &tile, V::MIN) };
        }

        if has_digit {
            // SAFETY: the states are the pass's, and lower tickets were taken before this block's; each
            // thread has its own base.
            unsafe {
                let before = states.look_back(simt, tile.number, args.first_tile, thread, count);
                let offset = simt.load(args.offsets, u64::from(thread), Hint::ReadOnly) + u64::from(before);
                simt.shared_store(Self::BASES, thread, offset.wrapping_sub(u64::from(start)));
                if !args.next_offsets.is_null() && tile.number - args.first_tile == simt.grid_dim() - 1 {
                    simt.store(args.next_offsets, u64::from(thread), offset + u64::from(count), Hint::Default);
                }
            }
        }
        simt.barrier();

        let left = tile.valid.saturating_sub(thread);
        let mut digits = [0; ITEMS];
        // SAFETY: places cover the tile, and a barrier came after the stores.
        unsafe {
            Self::write(simt, Self::KEYS, args.keys_out, left, |i, key| {
                digits[i] = digit.of(key);
                digits[i]
            });
        }
        if PAIRS {
            simt.barrier();
            unroll!(ITEMS, i => {
                // SAFETY: places differ, and the keys are read since the barrier.
                unsafe { simt.shared_store(Self::VALUES, places[i], values[i]) };
            });
            simt.barrier();
            // The same value, but LLVM does not know it: otherwise it would keep all comparisons from the keys to the
            // values.
            let left = if tile.is_whole { Self::TILE } else { left };
            // SAFETY: as for the keys.
            unsafe { Self::write(simt, Self::VALUES, args.values_out, left, |i, _| digits[i]) };
        }
    }
}
