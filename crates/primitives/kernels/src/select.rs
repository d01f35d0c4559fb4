//! Compaction by a hit mask, in a single pass: the elements whose bit is set move to the front, in their order,
//! followed by the others or alone.

use crate::Count;
use crate::lookback::{self, Carry, Compacted};
use crate::tile::{self, Kept, Pairs, STEP, THREADS, WARPS, unroll};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Order, Scope, Shared, Simt, WARP, Word,
    kernel_args,
};

/// Steps of a warp for elements of that many bytes. The speed depends on how many elements a multiprocessor has in
/// flight; registers limit that.
pub const fn steps(bytes: usize, partition: bool) -> usize {
    if bytes <= 8 && !partition { 6 } else { 4 }
}

/// Elements of a tile for elements of that many bytes: one block of [`THREADS`].
pub const fn tile_len(bytes: usize, partition: bool) -> u64 {
    tile::len(steps(bytes, partition))
}

/// The smallest of these tiles.
pub const SMALLEST_TILE: u64 = tile_len(16, true);

/// Words of a tile's carry.
pub const CARRY_WORDS: usize = Compacted::<0>::WORDS;

kernel_args! {
    /// Arguments of [`Select`] and [`CountFlags`].
    pub struct SelectArgs<K, V> {
        /// `[count]`; null: the elements' own numbers, from 0 on, if keys have 32 or 64 bits and no others follow.
        pub keys: Global<K>,
        /// `[count]`; not used by a kernel without values.
        pub values: Global<V>,
        /// `[ceil(count / 32)]`: bit `i % 32` of word `i / 32` says whether element `i` is selected; null: all are, and no
        /// others follow.
        pub flags: Global<u32>,
        /// How many elements.
        pub count: Count,
        /// Scratch: [`state_words`](lookback::state_words) for the blocks of the launch and [`CARRY_WORDS`], zeroed.
        pub state: GlobalMut<u64>,
        /// Out: the selected keys, or `[count]` keys if the others follow.
        pub out_keys: GlobalMut<K>,
        /// Out: as the keys; not used by a kernel without values.
        pub out_values: GlobalMut<V>,
        /// Out: `[1]`, how many are selected. If the others follow, [`CountFlags`] has written it before.
        pub out_count: GlobalMut<u64>,
    }
}

const TICKET: Shared<u32> = Shared::at(0, 1);
/// Selected elements of each warp's segment.
const SEGMENTS: Shared<u32> = Shared::at(8, WARPS);
/// Selected elements of the tiles before the block's.
const BEFORE: Shared<u64> = Shared::at(8 + 4 * WARPS, 1);
const STAGE: u32 = BEFORE.end();

/// The compaction: of keys, with values if `VALUES`, the selected ones followed by the others if `PARTITION`. One block
/// of [`THREADS`] per tile, and one for no elements.
#[derive(Debug)]
pub struct Select<K, V, const VALUES: bool, const PARTITION: bool, const STEPS: usize>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word, const VALUES: bool, const PARTITION: bool, const STEPS: usize>
    Select<K, V, VALUES, PARTITION, STEPS>
{
    const SEGMENT: u64 = STEP * STEPS as u64;
    const TILE: u64 = tile::len(STEPS);
    /// The tile's elements as they will lie in the output: selected ones first.
    const KEYS: Shared<K> = Shared::at(STAGE, Self::TILE as u32);
    const VALUES_: Shared<V> = Shared::at(Self::KEYS.end(), if VALUES { Self::TILE as u32 } else { 0 });
}

impl<K: KeyWord, V: Word, const VALUES: bool, const PARTITION: bool, const STEPS: usize> Kernel
    for Select<K, V, VALUES, PARTITION, STEPS>
{
    type Args = SelectArgs<K, V>;
    const STATIC_SHARED: u32 = Self::VALUES_.end();
    // The most blocks for which ptxas spills no register on any architecture.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds {
        threads: THREADS,
        blocks: match (K::BYTES + if VALUES { V::BYTES } else { 0 }, PARTITION) {
            (4, false) => 5,
            (20.., _) => 2,
            (16, false) | (12, true) => 3,
            (16, true) => 2,
            (_, _) => 4,
        },
    });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the state is zeroed, and has a ticket.
        let tile = unsafe { lookback::next_tile(simt, args.state, TICKET) };
        // SAFETY: the count is an input.
        let count = unsafe { args.count.get(simt) };
        let tiles = count.div_ceil(Self::TILE).max(1);
        if tile >= tiles {
            return;
        }
        let lane = simt.lane();
        let in_tile = simt.warp() * Self::SEGMENT as u32;
        let first = tile * Self::TILE + u64::from(in_tile);
        let mut word = u32::MAX;
        if (PARTITION || !args.flags.is_null()) && lane < 2 * STEPS as u32 && first + u64::from(lane * WARP) < count {
            // SAFETY: the word has the bit of an element.
            word = unsafe { simt.load(args.flags, first / u64::from(WARP) + u64::from(lane), Hint::EvictFirst) };
        }
        let keys: Pairs<K, STEPS> = if K::BITS <= 64 && !PARTITION && args.keys.is_null() {
            numbers(first + u64::from(2 * lane))
        } else {
            // SAFETY: `count` elements.
            unsafe { tile::load(simt, args.keys, first, count) }
        };
        let mut values = [[V::MIN; 2]; STEPS];
        if VALUES {
            // SAFETY: as the keys.
            values = unsafe { tile::load(simt, args.values, first, count) };
        }
        let mut flags = [[false; 2]; STEPS];
        unroll::<STEPS>(|step| {
            let bits = simt.shuffle(FULL_MASK, word, 2 * step as u32 + lane / 16) >> (2 * lane % WARP);
            let index = first + STEP * step as u64 + u64::from(2 * lane);
            flags[step] = [bits & 1 != 0 && index < count, bits & 2 != 0 && index + 1 < count];
        });
        let kept = Kept::new(simt, flags);
        if lane == 0 {
            // SAFETY: one element per warp; the barrier separates it from the loads.
            unsafe { simt.shared_store(SEGMENTS, simt.warp(), kept.count) };
        }
        simt.barrier();
        // SAFETY: stored by every warp before the barrier.
        let (warps_before, selected) = unsafe { tile::sums_before(simt, SEGMENTS) };
        let own = Compacted::<0> { kept: u64::from(selected), open: 0 };
        if simt.thread_index() == 0 {
            // SAFETY: the state is zeroed, the tile the block's.
            unsafe { lookback::publish(simt, args.state, tile, own) };
        }
        unroll::<STEPS>(|step| {
            unroll::<2>(|odd| {
                let local = in_tile + (STEP as usize * step + odd) as u32 + 2 * lane;
                let rank = warps_before + kept.before(step, odd);
                let flag = kept.flags[step][odd];
                if flag || (PARTITION && tile * Self::TILE + u64::from(local) < count) {
                    let to = if flag { rank } else { selected + local - rank };
                    // SAFETY: every element of the tile has a place of its own; the barrier below separates
                    // the stores from the loads.
                    unsafe {
                        simt.shared_store(Self::KEYS, to, keys[step][odd]);
                        if VALUES {
                            simt.shared_store(Self::VALUES_, to, values[step][odd]);
                        }
                    }
                }
            });
        });
        if simt.warp() == 0 {
            // SAFETY: as above, and it is published.
            let before = unsafe { lookback::look_back(simt, args.state, tile, own) };
            if lane == 0 {
                // SAFETY: read only after the barrier; only the grid's last tile writes the count.
                unsafe {
                    simt.shared_store(BEFORE, 0, before.kept);
                    if !PARTITION && tile + 1 == tiles {
                        simt.store(args.out_count, 0, before.kept + own.kept, Hint::Default);
                    }
                }
            }
        }
        simt.barrier();
        // SAFETY: stored before the barrier.
        let before = unsafe { simt.shared_load(BEFORE, 0) };
        let (mut len, mut others) = (selected, 0);
        if PARTITION {
            len = (count - tile * Self::TILE).min(Self::TILE) as u32;
            // SAFETY: written before the kernel began.
            others = unsafe { simt.load(args.out_count.as_const(), 0, Hint::Default) } + tile * Self::TILE - before;
        }
        tile::each_twice::<STEPS>(|round| {
            let from = round as u32 * THREADS + simt.thread_index();
            if from < len {
                let to = if !PARTITION || from < selected {
                    before + u64::from(from)
                } else {
                    others + u64::from(from - selected)
                };
                // SAFETY: staged before the barrier; each has a place of its own in the output.
                unsafe {
                    simt.store(args.out_keys, to, simt.shared_load(Self::KEYS, from), Hint::Default);
                    if VALUES {
                        simt.store(args.out_values, to, simt.shared_load(Self::VALUES_, from), Hint::Default);
                    }
                }
            }
        });
    }
}

/// A lane's elements that are their own numbers, `first` being its first one.
#[inline(always)]
fn numbers<K: KeyWord, const STEPS: usize>(first: u64) -> Pairs<K, STEPS> {
    let mut numbers = [[K::MIN; 2]; STEPS];
    unroll::<STEPS>(|step| {
        let number = first + STEP * step as u64;
        numbers[step] = [K::truncate(number), K::truncate(number + 1)];
    });
    numbers
}

/// Words of the hit mask that a thread of [`CountFlags`] counts, if the grid is large enough.
pub const FLAG_WORDS: u64 = 16;

/// Adds the number of set bits to `out_count`. Any number of blocks of [`THREADS`].
#[derive(Debug)]
pub struct CountFlags;

impl Kernel for CountFlags {
    type Args = SelectArgs<u32, u32>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the count is an input.
        let count = unsafe { args.count.get(simt) };
        let words = count.div_ceil(u64::from(WARP));
        let stride = u64::from(simt.grid_dim()) * u64::from(THREADS);
        let mut index = simt.global_index();
        let mut bits = 0;
        while index < words {
            // SAFETY: a word with the bit of an element.
            let mut word = unsafe { simt.load(args.flags, index, Hint::EvictFirst) };
            let used = count - index * u64::from(WARP);
            if used < u64::from(WARP) {
                word &= (1 << used) - 1;
            }
            bits += word.count_ones();
            index += stride;
        }
        // A thread has fewer than 2^26 words even for 2^60 elements, so these sums fit.
        let bits = simt.reduce_add(FULL_MASK, bits);
        if simt.lane() == 0 && bits > 0 {
            // SAFETY: accessed atomically only.
            unsafe { simt.atomic_add(args.out_count, 0, u64::from(bits), Order::Relaxed, Scope::Device) };
        }
    }
}
