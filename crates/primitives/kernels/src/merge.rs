//! Two sorted sequences into one, along the merge path (after Green, McColl and Bader, *GPU Merge Path*,
//! 2012): a binary search finds how many of the outputs up to any position come from the first sequence. There is one
//! search per tile in global memory and one per thread in shared memory; then every thread merges the same small number
//! of elements.
//!
//! Threads do not move keys while they merge: they record where in the tile each output comes from. This list is then
//! processed in the order of the output, so that loads of values and all stores are coalesced.

use crate::Count;
use crate::lookback::{self, Carry, Compacted};
use crate::scan::{ExclusiveSum, warp_scan};
use crate::tile::{self, THREADS, WARPS, unroll};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, Word, kernel_args};

/// Outputs of a thread. Odd, so that the threads of a warp, each with consecutive outputs, use different banks; 7 to 15
/// are about equally fast, with as many blocks as registers allow.
const ITEMS: usize = 11;

/// Outputs of a tile: one block of [`THREADS`].
pub const TILE: u64 = ITEMS as u64 * THREADS as u64;

/// [`Merge`] keeps all elements.
pub const KEEP: u8 = 0;
/// [`Merge`] drops the elements of the first sequence whose keys are in the second.
pub const REPLACE: u8 = 1;
/// [`Merge`] drops these, and the second sequence.
pub const SUBTRACT: u8 = 2;

/// Words of a tile's carry.
pub const CARRY_WORDS: usize = Compacted::<0>::WORDS;

kernel_args! {
    /// Arguments of [`Splits`] and [`Merge`].
    pub struct MergeArgs<K, V> {
        /// `[first_count]`, sorted by their flipped words.
        pub first_keys: Global<K>,
        /// `[first_count]`; not used by a kernel without values.
        pub first_values: Global<V>,
        /// Elements of the first sequence.
        pub first_count: Count,
        /// `[second_count]`, sorted by their flipped words.
        pub second_keys: Global<K>,
        /// `[second_count]`; not used by a kernel without values, nor by one that drops the second sequence.
        pub second_values: Global<V>,
        /// Elements of the second sequence.
        pub second_count: Count,
        /// Exclusive-or mask between a key's bits and its order-preserving word.
        pub flip: K,
        /// Scratch: `[tiles + 1]`, how many elements of the first sequence come before each tile.
        pub splits: GlobalMut<u64>,
        /// Scratch, where elements are dropped: [`state_words`](lookback::state_words) for the blocks of the launch and
        /// [`CARRY_WORDS`], zeroed.
        pub state: GlobalMut<u64>,
        /// Out: as many as are left.
        pub out_keys: GlobalMut<K>,
        /// Out: as the keys; not used by a kernel without values.
        pub out_values: GlobalMut<V>,
        /// Out: `[1]`, how many are left.
        pub out_count: GlobalMut<u64>,
    }
}

/// Where the tiles begin in both sequences: one thread per tile, and one for the end. It is in the module of the
/// [`Merge`] with the same parameters, and has its tile.
#[derive(Debug)]
pub struct Splits<K, V, const VALUES: bool>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word, const VALUES: bool> Kernel for Splits<K, V, VALUES> {
    type Args = MergeArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the counts are inputs.
        let (first, second) = unsafe { (args.first_count.get(simt), args.second_count.get(simt)) };
        let total = first + second;
        let tile = simt.global_index();
        if tile > total.div_ceil(TILE) {
            return;
        }
        let diagonal = (tile * TILE).min(total);
        let (mut low, mut high) = (diagonal.saturating_sub(second), diagonal.min(first));
        while low < high {
            let middle = low + (high - low) / 2;
            // SAFETY: `middle < first`; and since it is at least `diagonal - second` and below `diagonal`, the
            // other index is below `second`.
            let (a, b) = unsafe {
                (
                    simt.load(args.first_keys, middle, Hint::ReadOnly),
                    simt.load(args.second_keys, diagonal - 1 - middle, Hint::ReadOnly),
                )
            };
            if a.xor(args.flip) <= b.xor(args.flip) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // SAFETY: one for each tile, and one more.
        unsafe { simt.store(args.splits, tile, low, Hint::Default) };
    }
}

const TICKET: Shared<u32> = Shared::at(0, 1);
/// Kept outputs of each warp's threads.
const KEPT: Shared<u32> = Shared::at(8, WARPS);
/// Kept outputs of the tiles before the block's.
const BEFORE: Shared<u64> = Shared::at(8 + 4 * WARPS, 1);
const STAGE: u32 = BEFORE.end();

/// The merge, after [`Splits`]: the first sequence's elements before the second's of the same key, but for those that the
/// rule drops: [`KEEP`], [`REPLACE`] or [`SUBTRACT`]. One block of [`THREADS`] per tile, and one for no elements.
///
/// Of sequences that are not sorted the result is unspecified, but within the same bounds.
#[derive(Debug)]
pub struct Merge<K, V, const VALUES: bool, const RULE: u8>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word, const VALUES: bool, const RULE: u8> Merge<K, V, VALUES, RULE> {
    /// Whether elements are dropped.
    const DROPS: bool = RULE != KEEP;
    /// The tile's elements of the first sequence, then its elements of the second, as order-preserving words; after a
    /// whole tile also the next element of the second, which may replace the tile's last.
    const KEYS: Shared<K> = Shared::at(STAGE, TILE as u32 + 1);
    /// For each output, its place in `KEYS`.
    const SOURCES: Shared<u32> = Shared::at(Self::KEYS.end(), TILE as u32);
}

/// A tile's part of both sequences.
#[derive(Clone, Copy)]
struct Part {
    /// Where it begins in the first sequence.
    first: u64,
    /// How many are from there.
    from_first: u32,
    /// Where it begins in the second sequence.
    second: u64,
    /// The last index of the second sequence.
    last: u64,
}

impl Part {
    /// Element `local` of the part, of one of two arrays, and its index there.
    #[inline(always)]
    fn locate<T>(&self, local: u32, first: Global<T>, second: Global<T>) -> (Global<T>, u64) {
        if local < self.from_first {
            (first, self.first + u64::from(local))
        } else {
            // The bound matters if the sequences are not sorted: not even then may anything else be read.
            (second, (self.second + u64::from(local - self.from_first)).min(self.last))
        }
    }
}

impl<K: KeyWord, V: Word, const VALUES: bool, const RULE: u8> Merge<K, V, VALUES, RULE> {
    /// The carry of a tile.
    #[inline(always)]
    fn carry(kept: u32) -> Compacted<0> {
        Compacted { kept: u64::from(kept), open: 0 }
    }

    /// Per thread, after the keys are in shared memory. Merges the thread's outputs: their sources, and a bit
    /// for each that is not dropped.
    ///
    /// # Safety
    /// The first `len` of `KEYS` and the one after them are stored.
    #[inline(always)]
    unsafe fn merge<S: Simt>(simt: S, from_first: u32, len: u32, has_next: bool) -> ([u32; ITEMS], u32) {
        // SAFETY: the caller's; every index below is at most `len`.
        let key = |index: u32| unsafe { simt.shared_load(Self::KEYS, index) };
        let diagonal = (simt.thread_index() * ITEMS as u32).min(len);
        let (mut low, mut high) = (diagonal.saturating_sub(len - from_first), diagonal.min(from_first));
        while low < high {
            let middle = (low + high) / 2;
            if key(middle) <= key(from_first + diagonal - 1 - middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (mut first, mut second) = (low, from_first + diagonal - low);
        let (mut first_key, mut second_key) = (key(first), key(second));
        let end = len + u32::from(has_next);
        let (mut sources, mut kept) = ([0; ITEMS], 0);
        unroll::<ITEMS>(|item| {
            let takes_first = first < from_first && (second >= len || first_key <= second_key);
            let is_in_both = Self::DROPS && takes_first && second < end && first_key == second_key;
            let dropped = is_in_both || RULE == SUBTRACT && !takes_first;
            sources[item] = if takes_first { first } else { second };
            kept |= u32::from(!dropped && diagonal + (item as u32) < len) << item;
            let next = if takes_first { first + 1 } else { (second + 1).min(len) };
            let next_key = key(next);
            // Selections: of keys of 128 bits, the compiler would branch between places in memory.
            (first, second) = if takes_first { (next, second) } else { (first, next) };
            first_key = if takes_first { next_key } else { first_key };
            second_key = if takes_first { second_key } else { next_key };
        });
        (sources, kept)
    }
}

impl<K: KeyWord, V: Word, const VALUES: bool, const RULE: u8> Kernel for Merge<K, V, VALUES, RULE> {
    type Args = MergeArgs<K, V>;
    const STATIC_SHARED: u32 = Self::SOURCES.end();
    // The most blocks for which ptxas spills no register on any architecture.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds {
        threads: THREADS,
        blocks: if K::BITS == 128 {
            2
        } else if !VALUES {
            4
        } else if Self::DROPS {
            3
        } else {
            2
        },
    });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let mut tile = u64::from(simt.block_index());
        if Self::DROPS {
            // SAFETY: the state is zeroed, and has a ticket.
            tile = unsafe { lookback::next_tile(simt, args.state, TICKET) };
        }
        // SAFETY: the counts are inputs.
        let (first, second) = unsafe { (args.first_count.get(simt), args.second_count.get(simt)) };
        let total = first + second;
        let tiles = total.div_ceil(TILE);
        let thread = simt.thread_index();
        if tile >= tiles {
            if total == 0 && tile == 0 && thread == 0 {
                // SAFETY: one element.
                unsafe { simt.store(args.out_count, 0, 0, Hint::Default) };
            }
            return;
        }
        let start = tile * TILE;
        let len = (total - start).min(TILE) as u32;
        let splits = args.splits.as_const();
        // SAFETY: one for each tile, and one more.
        let (split, next_split) =
            unsafe { (simt.load(splits, tile, Hint::ReadOnly), simt.load(splits, tile + 1, Hint::ReadOnly)) };
        let from_first = next_split.saturating_sub(split).min(u64::from(len)) as u32;
        let part = Part { first: split, from_first, second: start - split, last: second.saturating_sub(1) };
        let after = part.second + u64::from(len - from_first);
        let has_next = Self::DROPS && len == TILE as u32 && after < second;

        let mut keys = [K::MIN; ITEMS];
        unroll::<ITEMS>(|item| {
            let local = (item as u32 * THREADS + thread).min(len - 1);
            let (array, index) = part.locate(local, args.first_keys, args.second_keys);
            // SAFETY: an element of the sequence.
            keys[item] = unsafe { simt.load(array, index, Hint::ReadOnly) };
        });
        if VALUES {
            // Values are loaded once the order is known; starting the loads here hides their latency.
            let line = thread * (128 / V::BYTES as u32);
            if line < from_first {
                simt.prefetch(args.first_values, part.first + u64::from(line));
            }
            if RULE != SUBTRACT && line < len - from_first {
                simt.prefetch(args.second_values, part.second + u64::from(line));
            }
        }
        unroll::<ITEMS>(|item| {
            // SAFETY: each element once; the barrier separates the stores from the loads.
            unsafe { simt.shared_store(Self::KEYS, item as u32 * THREADS + thread, keys[item].xor(args.flip)) };
        });
        if thread == 0 {
            let mut next = K::MIN;
            if has_next {
                // SAFETY: an element of the second sequence.
                next = unsafe { simt.load(args.second_keys, after, Hint::ReadOnly) }.xor(args.flip);
            }
            // SAFETY: as above.
            unsafe { simt.shared_store(Self::KEYS, TILE as u32, next) };
        }
        simt.barrier();
        // SAFETY: all of `KEYS` is stored.
        let (sources, kept) = unsafe { Self::merge(simt, from_first, len, has_next) };
        let (mut before, mut count) = (start, len);
        if Self::DROPS {
            let own = kept.count_ones();
            let (lanes_before, warp) = warp_scan::<S, ExclusiveSum<u32>>(simt, u64::from(own));
            if simt.lane() == 0 {
                // SAFETY: one element per warp; the barrier separates it from the loads.
                unsafe { simt.shared_store(KEPT, simt.warp(), warp as u32) };
            }
            simt.barrier();
            // SAFETY: stored by every warp before the barrier.
            let (warps_before, kept_in_tile) = unsafe { tile::sums_before(simt, KEPT) };
            count = kept_in_tile;
            if thread == 0 {
                // SAFETY: the state is zeroed, the tile the block's.
                unsafe { lookback::publish(simt, args.state, tile, Self::carry(count)) };
            }
            let mut to = warps_before + lanes_before as u32;
            unroll::<ITEMS>(|item| {
                if kept >> item & 1 != 0 {
                    // SAFETY: each kept output once; the barrier below separates the stores from the loads.
                    unsafe { simt.shared_store(Self::SOURCES, to, sources[item]) };
                    to += 1;
                }
            });
        } else {
            unroll::<ITEMS>(|item| {
                // SAFETY: each output once; the barrier below separates the stores from the loads.
                unsafe { simt.shared_store(Self::SOURCES, thread * ITEMS as u32 + item as u32, sources[item]) };
            });
        }
        simt.barrier();
        let (mut sources, mut values) = ([0; ITEMS], [V::MIN; ITEMS]);
        unroll::<ITEMS>(|item| {
            // If nothing is kept nothing is stored, so any index is fine: the tile's first.
            if !Self::DROPS || count > 0 {
                let output = (item as u32 * THREADS + thread).min(count - 1);
                // SAFETY: the first `count` are stored.
                sources[item] = unsafe { simt.shared_load(Self::SOURCES, output) };
            }
        });
        // The second sequence may have no values where it is dropped. What is kept is of the first.
        if VALUES && (RULE != SUBTRACT || count > 0) {
            unroll::<ITEMS>(|item| {
                let (array, index) = part.locate(sources[item], args.first_values, args.second_values);
                // SAFETY: an element of the sequence.
                values[item] = unsafe { simt.load(array, index, Hint::ReadOnly) };
            });
        }
        if Self::DROPS {
            // After the loads of the values, which are in flight meanwhile.
            if simt.warp() == 0 {
                // SAFETY: the state is zeroed, the tile the block's, and it is published.
                let tiles_before = unsafe { lookback::look_back(simt, args.state, tile, Self::carry(count)) };
                if simt.lane() == 0 {
                    // SAFETY: read only after the barrier.
                    unsafe { simt.shared_store(BEFORE, 0, tiles_before.kept) };
                }
            }
            simt.barrier();
            // SAFETY: stored before the barrier.
            before = unsafe { simt.shared_load(BEFORE, 0) };
        }
        if thread == 0 && tile + 1 == tiles {
            // SAFETY: one element, the last tile's to write.
            unsafe { simt.store(args.out_count, 0, before + u64::from(count), Hint::Default) };
        }
        unroll::<ITEMS>(|item| {
            let local = item as u32 * THREADS + thread;
            if local < count {
                let to = before + u64::from(local);
                // SAFETY: each output has a place of its own; the key was stored before the first barrier.
                unsafe {
                    let key = simt.shared_load(Self::KEYS, sources[item]).xor(args.flip);
                    simt.store(args.out_keys, to, key, Hint::Default);
                    if VALUES {
                        simt.store(args.out_values, to, values[item], Hint::Default);
                    }
                }
            }
        });
    }
}
