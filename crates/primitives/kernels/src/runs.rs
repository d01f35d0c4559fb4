//! Runs of equal neighbouring keys, each reduced to one element, in a single pass.
//!
//! The last element of a run represents it. A run's result is a difference between its last element and the last
//! element of the previous run: of their positions, or of the prefix sums there. So no segmented scan is needed; a tile
//! passes on how many runs ended in it, and the sum after the last of them.

use crate::Count;
use crate::lookback::{self, Carry, Compacted};
use crate::scan::{ExclusiveSum, segment_scan};
use crate::tile::{self, Kept, Pairs, STEP, THREADS, WARPS, unroll};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, WARP, Word, kernel_args,
};

/// Steps of a warp, depending on whether there are values. The speed depends on how many elements a multiprocessor has
/// in flight; registers limit that.
pub const fn steps(has_values: bool) -> usize {
    if has_values { 4 } else { 6 }
}

/// Elements of a tile, by whether there are values: one block of [`THREADS`].
pub const fn tile_len(has_values: bool) -> u64 {
    tile::len(steps(has_values))
}

/// Words of a tile's carry, the most of all reductions.
pub const CARRY_WORDS: usize = Compacted::<2>::WORDS;

kernel_args! {
    /// Arguments of [`Runs`].
    pub struct RunArgs<K, I, O> {
        /// `[count]`.
        pub keys: Global<K>,
        /// `[count]`; not used by reductions without values.
        pub values: Global<I>,
        /// How many elements.
        pub count: Count,
        /// Scratch: [`state_words`](lookback::state_words) for the blocks of the launch and [`CARRY_WORDS`], zeroed.
        pub state: GlobalMut<u64>,
        /// Out: the key of each run; as many as there are runs.
        pub out_keys: GlobalMut<K>,
        /// Out: the result of each run; not used by [`Unique`].
        pub out_values: GlobalMut<O>,
        /// Out: `[1]`, how many runs.
        pub out_count: GlobalMut<u64>,
    }
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Its key alone.
    Key,
    /// The value of its last element.
    Last,
    /// How many elements it has.
    Length,
    /// The sum of its values, wrapping.
    Sum,
}

/// A [`Aggregate`] with its words.
pub trait Reduction: 'static {
    /// Values of the input.
    type In: Word;
    /// Values of the output.
    type Out: Word;
    /// What is stored of each run's last element until the tile is written.
    type Staged: Word;
    /// What a tile passes on.
    type Carry: Carry + OpenRun;
    /// What a run comes to.
    const KIND: Aggregate;
    /// Whether values are read.
    const HAS_VALUES: bool = matches!(Self::KIND, Aggregate::Last | Aggregate::Sum);
}

/// A carry with an open sum.
pub trait OpenRun {
    /// The carry of a number of runs, and the sum after the last of them.
    fn new(kept: u64, open: u64) -> Self;
    /// Both.
    fn parts(self) -> (u64, u64);
}

impl<const OPEN: usize> OpenRun for Compacted<OPEN> {
    #[inline(always)]
    fn new(kept: u64, open: u64) -> Self {
        Self { kept, open: if OPEN == 0 { 0 } else { open } }
    }
    #[inline(always)]
    fn parts(self) -> (u64, u64) {
        (self.kept, self.open)
    }
}

macro_rules! reduction {
    ($(#[$doc:meta])* $name:ident<$($word:ident)?>, $kind:ident, $in:ty, $out:ty, $staged:ty, $open:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name$(<$word>(PhantomData<$word>))?;
        impl$(<$word: Word>)? Reduction for $name$(<$word>)? {
            type In = $in;
            type Out = $out;
            type Staged = $staged;
            type Carry = Compacted<$open>;
            const KIND: Aggregate = Aggregate::$kind;
        }
    };
}
reduction!(
    /// Runs to their keys.
    Unique<>, Key, u32, u32, u32, 0
);
reduction!(
    /// Runs to their last values.
    Last<V>, Last, V, V, V, 0
);
reduction!(
    /// Runs to their lengths, wrapping.
    Lengths<L>, Length, u32, L, u32, 1
);
reduction!(
    /// Reduces runs to the sums of their values in 64 bits, wrapping.
    Sums<V>, Sum, V, u64, u64, 2
);

const TICKET: Shared<u32> = Shared::at(0, 1);
/// Runs that end in each warp's segment.
const SEGMENTS: Shared<u32> = Shared::at(8, WARPS);
/// The sum after the last run that ends in each warp's segment.
const OPEN: Shared<u64> = Shared::at(SEGMENTS.end(), WARPS);
/// The sum of each warp's segment.
const SUMS: Shared<u64> = Shared::at(OPEN.end(), WARPS);
/// Runs that end before the tile, and the sum after the last of them.
const BEFORE: Shared<u64> = Shared::at(SUMS.end(), 2);
/// Keys of 16 bytes begin at multiples of as many.
const STAGE: u32 = BEFORE.end().next_multiple_of(16);

/// The reduction of runs. One block of [`THREADS`] per tile, and one for no elements.
#[derive(Debug)]
pub struct Runs<K, R, const STEPS: usize>(PhantomData<(K, R)>);

impl<K: KeyWord, R: Reduction, const STEPS: usize> Runs<K, R, STEPS> {
    const SEGMENT: u64 = STEP * STEPS as u64;
    const TILE: u64 = tile::len(STEPS);
    const HAS_OUTPUT: bool = !matches!(R::KIND, Aggregate::Key);
    const IS_DIFFERENCE: bool = matches!(R::KIND, Aggregate::Length | Aggregate::Sum);

    /// Of each run that ends in the tile.
    const KEYS: Shared<K> = Shared::at(STAGE, Self::TILE as u32);
    const STAGED: Shared<R::Staged> =
        Shared::at(Self::KEYS.end(), if Self::HAS_OUTPUT { Self::TILE as u32 } else { 0 });
}

/// Warp collective, by all lanes. Which of the lane's elements end a run.
///
/// # Safety
/// `keys` are the keys of the segment at `first`, of the `count` keys in `from`, as [`tile::load`] gives them.
#[inline(always)]
unsafe fn ends_of_runs<S: Simt, K: KeyWord, const STEPS: usize>(
    simt: S,
    keys: &Pairs<K, STEPS>,
    from: Global<K>,
    first: u64,
    count: u64,
) -> Pairs<bool, STEPS> {
    let lane = simt.lane();
    let mut beyond = K::MIN;
    let after = first + STEP * STEPS as u64;
    if after < count {
        // SAFETY: in front of `count`.
        beyond = unsafe { simt.load(from, after, Hint::ReadOnly) };
    }
    let mut ends = [[false; 2]; STEPS];
    unroll::<STEPS>(|step| {
        let [even, odd] = keys[step];
        let mut next = simt.shuffle_down(FULL_MASK, even, 1);
        let next_step = if step + 1 < STEPS { simt.shuffle(FULL_MASK, keys[step + 1][0], 0) } else { beyond };
        if lane == WARP - 1 {
            next = next_step;
        }
        // If no element follows this one, the run ends with the input.
        let index = first + STEP * step as u64 + u64::from(2 * lane);
        ends[step] = [
            index < count && (index + 1 == count || even != odd),
            index + 1 < count && (index + 2 == count || odd != next),
        ];
    });
    ends
}

/// Warp collective, by all lanes. The sum of the segment's first `end` values, 0 to all of them; `before` are
/// the sums before each lane's first of every step.
#[inline(always)]
fn sum_up_to<S: Simt, I: Word, const STEPS: usize>(
    simt: S,
    values: &Pairs<I, STEPS>,
    before: &[u64; STEPS],
    end: u32,
) -> u64 {
    let mut sum = 0;
    unroll::<STEPS>(|step| {
        // The last element that counts, if it is in this step.
        let last = end.wrapping_sub(1 + STEP as u32 * step as u32);
        if last < STEP as u32 {
            let [even, odd] = values[step].map(I::widen);
            let both = before[step].wrapping_add(even);
            sum = if last.is_multiple_of(2) { both } else { both.wrapping_add(odd) };
        }
    });
    let sum = simt.shuffle(FULL_MASK, sum, end.wrapping_sub(1) % STEP as u32 / 2);
    if end == 0 { 0 } else { sum }
}

/// Per thread, after a barrier. The combined result of the warps' segments.
///
/// # Safety
/// Every warp has stored its runs and the open sum after them.
#[inline(always)]
unsafe fn join_segments<S: Simt, C: Carry + OpenRun>(simt: S) -> C {
    let mut all = C::NONE;
    for warp in 0..WARPS {
        // SAFETY: the caller's.
        let (kept, open) = unsafe { (simt.shared_load(SEGMENTS, warp), simt.shared_load(OPEN, warp)) };
        all = all.then(C::new(u64::from(kept), open));
    }
    all
}

impl<K: KeyWord, R: Reduction, const STEPS: usize> Kernel for Runs<K, R, STEPS> {
    type Args = RunArgs<K, R::In, R::Out>;
    const STATIC_SHARED: u32 = Self::STAGED.end();
    // The most blocks for which ptxas spills no register on any architecture.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds {
        threads: THREADS,
        blocks: match (R::KIND, K::BYTES + R::Out::BYTES) {
            (_, 20..) => 2,
            (Aggregate::Key, 8) => 5,
            (Aggregate::Key, _) | (Aggregate::Last, 8 | 12) => 4,
            (Aggregate::Length | Aggregate::Last, _) => 3,
            (Aggregate::Sum, _) => 2,
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
        // SAFETY: `count` elements.
        let keys: Pairs<K, STEPS> = unsafe { tile::load(simt, args.keys, first, count) };
        let mut values = [[R::In::MIN; 2]; STEPS];
        if R::HAS_VALUES {
            // SAFETY: as the keys.
            values = unsafe { tile::load(simt, args.values, first, count) };
        }
        // SAFETY: the keys were just loaded from there.
        let kept = Kept::new(simt, unsafe { ends_of_runs(simt, &keys, args.keys, first, count) });
        let mut sums = ([0; STEPS], 0);
        if R::KIND == Aggregate::Sum {
            sums = segment_scan::<S, ExclusiveSum<R::In>, STEPS>(simt, &values);
        }
        let in_segment = count.saturating_sub(first).min(Self::SEGMENT);
        let open = match R::KIND {
            Aggregate::Length => in_segment - u64::from(kept.end),
            Aggregate::Sum => sums.1.wrapping_sub(sum_up_to(simt, &values, &sums.0, kept.end)),
            Aggregate::Key | Aggregate::Last => 0,
        };
        if lane == 0 {
            // SAFETY: one element per warp; the barrier separates it from the loads.
            unsafe {
                simt.shared_store(SEGMENTS, simt.warp(), kept.count);
                if Self::IS_DIFFERENCE {
                    simt.shared_store(OPEN, simt.warp(), open);
                }
                if R::KIND == Aggregate::Sum {
                    simt.shared_store(SUMS, simt.warp(), sums.1);
                }
            }
        }
        simt.barrier();
        // SAFETY: stored by every warp before the barrier.
        let (warps_before, runs) = unsafe { tile::sums_before(simt, SEGMENTS) };
        let mut own = R::Carry::new(u64::from(runs), 0);
        if simt.warp() == 0 {
            if Self::IS_DIFFERENCE {
                // SAFETY: as above.
                own = unsafe { join_segments(simt) };
            }
            if lane == 0 {
                // SAFETY: the state is zeroed, the tile the block's.
                unsafe { lookback::publish(simt, args.state, tile, own) };
            }
        }
        let mut sum_before = 0;
        if R::KIND == Aggregate::Sum {
            // SAFETY: as above.
            sum_before = unsafe { tile::sums_before(simt, SUMS) }.0;
        }
        unroll::<STEPS>(|step| {
            let mut sum = sum_before.wrapping_add(sums.0[step]);
            unroll::<2>(|odd| {
                sum = sum.wrapping_add(values[step][odd].widen());
                if kept.flags[step][odd] {
                    let to = warps_before + kept.before(step, odd);
                    let local = in_tile + (STEP as usize * step + odd) as u32 + 2 * lane;
                    let staged = match R::KIND {
                        Aggregate::Length => u64::from(local + 1),
                        Aggregate::Sum => sum,
                        Aggregate::Key | Aggregate::Last => values[step][odd].widen(),
                    };
                    // SAFETY: every run that ends in the tile has a place of its own; the barrier below
                    // separates the stores from the loads.
                    unsafe {
                        simt.shared_store(Self::KEYS, to, keys[step][odd]);
                        if Self::HAS_OUTPUT {
                            simt.shared_store(Self::STAGED, to, R::Staged::truncate(staged));
                        }
                    }
                }
            });
        });
        if simt.warp() == 0 {
            // SAFETY: as above, and it is published.
            let (kept, open) = unsafe { lookback::look_back(simt, args.state, tile, own) }.parts();
            if lane == 0 {
                // SAFETY: read only after the barrier; only the last tile writes the count.
                unsafe {
                    simt.shared_store(BEFORE, 0, kept);
                    simt.shared_store(BEFORE, 1, open);
                    if tile + 1 == tiles {
                        simt.store(args.out_count, 0, kept + u64::from(runs), Hint::Default);
                    }
                }
            }
        }
        simt.barrier();
        // SAFETY: stored before the barrier.
        let (before, open) = unsafe { (simt.shared_load(BEFORE, 0), simt.shared_load(BEFORE, 1)) };
        tile::each_twice::<STEPS>(|round| {
            let from = round as u32 * THREADS + simt.thread_index();
            if from < runs {
                let to = before + u64::from(from);
                // SAFETY: staged before the barrier; each run has a place of its own in the output.
                unsafe {
                    simt.store(args.out_keys, to, simt.shared_load(Self::KEYS, from), Hint::Default);
                    if Self::HAS_OUTPUT {
                        let mut value = simt.shared_load(Self::STAGED, from).widen();
                        if Self::IS_DIFFERENCE {
                            let last = if from > 0 {
                                simt.shared_load(Self::STAGED, from - 1).widen()
                            } else {
                                0_u64.wrapping_sub(open)
                            };
                            value = value.wrapping_sub(last);
                        }
                        simt.store(args.out_values, to, R::Out::truncate(value), Hint::Default);
                    }
                }
            }
        });
    }
}
