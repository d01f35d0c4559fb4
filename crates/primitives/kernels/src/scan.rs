//! Prefix sums and running maxima in a single pass: each input is read once, each output written once.

use crate::Count;
use crate::lookback::{self, Carry};
use crate::tile::{self, Pairs, STEP, THREADS, WARPS, unroll};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Shared, Simt, WARP, Word, kernel_args,
};

/// Steps of a warp: 16 elements per thread.
const STEPS: usize = 8;
const SEGMENT: u64 = STEP * STEPS as u64;

/// Elements of a tile: one block of [`THREADS`].
pub const TILE: u64 = SEGMENT * WARPS as u64;

/// Words of a tile's carry, the most of all operators.
pub const CARRY_WORDS: usize = 2;

kernel_args! {
    /// Arguments of [`Scan`].
    pub struct ScanArgs<I, O> {
        /// `[count]`.
        pub input: Global<I>,
        /// How many.
        pub count: Count,
        /// Scratch: [`state_words`](lookback::state_words) for the blocks of the launch and [`CARRY_WORDS`], zeroed.
        pub state: GlobalMut<u64>,
        /// Out: `[count]`, and for [`ExclusiveSum`] one more, the total.
        pub output: GlobalMut<O>,
    }
}

/// What is scanned: an associative and commutative operation whose neutral element is 0.
pub trait Operator: Copy + 'static {
    /// The input's words.
    type In: Word;
    /// The output's.
    type Out: Word;
    /// Whether an output includes the input at its position; otherwise there is one more output, the total.
    const INCLUSIVE: bool;
    /// An input by itself.
    fn lift(input: Self::In) -> Self::Out;
    /// Two stretches together.
    fn combine(earlier: Self::Out, later: Self::Out) -> Self::Out;
}

/// `output[i]` is the sum of the inputs before `i`, wrapping, in 64 bits; one output more than inputs.
#[derive(Clone, Copy, Debug)]
pub struct ExclusiveSum<I>(PhantomData<I>);

impl<I: Word> Operator for ExclusiveSum<I> {
    type In = I;
    type Out = u64;
    const INCLUSIVE: bool = false;
    #[inline(always)]
    fn lift(input: I) -> u64 {
        input.widen()
    }
    #[inline(always)]
    fn combine(earlier: u64, later: u64) -> u64 {
        earlier.wrapping_add(later)
    }
}

/// `output[i]` is the largest of the inputs up to and including `i`.
#[derive(Clone, Copy, Debug)]
pub struct InclusiveMax<T>(PhantomData<T>);

impl<T: Word> Operator for InclusiveMax<T> {
    type In = T;
    type Out = T;
    const INCLUSIVE: bool = true;
    #[inline(always)]
    fn lift(input: T) -> T {
        input
    }
    #[inline(always)]
    fn combine(earlier: T, later: T) -> T {
        earlier.max(later)
    }
}

/// The carry of an operator: a word of its output, in halves.
#[derive(Clone, Copy)]
struct Scanned<O: Operator>(O::Out);

impl<O: Operator> Carry for Scanned<O> {
    const WORDS: usize = O::Out::BITS as usize / 32;
    const NONE: Self = Self(O::Out::MIN);
    const OPENS: bool = false;

    #[inline(always)]
    fn join(self, other: Self) -> Self {
        Self(O::combine(self.0, other.0))
    }
    #[inline(always)]
    fn cuts(self) -> bool {
        false
    }
    #[inline(always)]
    fn only(self, counted: bool, _: bool) -> Self {
        if counted { self } else { Self::NONE }
    }
    #[inline(always)]
    fn pack(self) -> [u64; 3] {
        [u64::from(self.0.low()), u64::from(self.0.high()), 0]
    }
    #[inline(always)]
    fn unpack([low, high, _]: [u64; 3]) -> Self {
        Self(O::Out::truncate(low | high << 32))
    }
    #[inline(always)]
    fn map(self, f: impl Fn(u64) -> u64) -> Self {
        Self(O::Out::truncate(f(self.0.widen())))
    }
}

/// Warp collective, by all lanes. The combined `value`s of the lanes before the caller's, and of all lanes.
#[inline(always)]
pub(crate) fn warp_scan<S: Simt, O: Operator>(simt: S, value: O::Out) -> (O::Out, O::Out) {
    let lane = simt.lane();
    let mut inclusive = value;
    let mut delta = 1;
    while delta < WARP {
        let earlier = simt.shuffle_up(FULL_MASK, inclusive, delta);
        if lane >= delta {
            inclusive = O::combine(earlier, inclusive);
        }
        delta *= 2;
    }
    let before = simt.shuffle_up(FULL_MASK, inclusive, 1);
    let total = simt.shuffle(FULL_MASK, inclusive, WARP - 1);
    (if lane == 0 { O::Out::MIN } else { before }, total)
}

/// Warp collective, by all lanes. The combined elements of the segment before each lane's first element of every step,
/// and of the whole segment.
#[inline(always)]
pub(crate) fn segment_scan<S: Simt, O: Operator, const N: usize>(
    simt: S,
    values: &Pairs<O::In, N>,
) -> ([O::Out; N], O::Out) {
    let (mut before, mut carry) = ([O::Out::MIN; N], O::Out::MIN);
    unroll::<N>(|step| {
        let [even, odd] = values[step].map(O::lift);
        let (own, total) = warp_scan::<S, O>(simt, O::combine(even, odd));
        before[step] = O::combine(carry, own);
        carry = O::combine(carry, total);
    });
    (before, carry)
}

const TICKET: Shared<u32> = Shared::at(0, 1);

/// The scan. One block of [`THREADS`] per tile, and one for no inputs.
#[derive(Debug)]
pub struct Scan<O>(PhantomData<O>);

impl<O: Operator> Scan<O> {
    /// What each warp's segment comes to.
    const SEGMENTS: Shared<O::Out> = Shared::at(8, WARPS);
    /// The combined result of the tiles before the block's.
    const BEFORE: Shared<O::Out> = Shared::at(8 + 8 * WARPS, 1);
}

impl<O: Operator> Kernel for Scan<O> {
    type Args = ScanArgs<O::In, O::Out>;
    const STATIC_SHARED: u32 = 16 + 8 * WARPS;
    // The most blocks for which ptxas spills no register on any architecture.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds {
        threads: THREADS,
        blocks: match (O::In::BITS, O::INCLUSIVE) {
            (32, true) => 4,
            (64, false) => 3,
            (_, _) => 2,
        },
    });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the state is zeroed, and has a ticket.
        let tile = unsafe { lookback::next_tile(simt, args.state, TICKET) };
        // SAFETY: the count is an input.
        let count = unsafe { args.count.get(simt) };
        let tiles = count.div_ceil(TILE).max(1);
        if tile >= tiles {
            return;
        }
        let first = tile * TILE + u64::from(simt.warp()) * SEGMENT;
        // SAFETY: `count` inputs.
        let values: Pairs<O::In, STEPS> = unsafe { tile::load(simt, args.input, first, count) };
        // The total first, so that later tiles need not wait for the scan.
        let mut segment = O::Out::MIN;
        unroll::<STEPS>(|step| {
            let [even, odd] = values[step].map(O::lift);
            segment = O::combine(segment, O::combine(even, odd));
        });
        // A warp past the end has nothing to scan.
        let any = simt.ballot(FULL_MASK, first < count) != 0;
        if any {
            let mut lanes = WARP / 2;
            while lanes > 0 {
                segment = O::combine(segment, simt.shuffle_xor(FULL_MASK, segment, lanes));
                lanes /= 2;
            }
        }
        if simt.lane() == 0 {
            // SAFETY: one element per warp; the barrier separates it from the loads.
            unsafe { simt.shared_store(Self::SEGMENTS, simt.warp(), segment) };
        }
        simt.barrier();
        let (mut carry, mut own) = (O::Out::MIN, O::Out::MIN);
        for warp in 0..WARPS {
            // SAFETY: stored by each warp before the barrier.
            let segment = unsafe { simt.shared_load(Self::SEGMENTS, warp) };
            if warp < simt.warp() {
                carry = O::combine(carry, segment);
            }
            own = O::combine(own, segment);
        }
        let own = Scanned::<O>(own);
        if simt.thread_index() == 0 {
            // SAFETY: the state is zeroed, the tile the block's.
            unsafe { lookback::publish(simt, args.state, tile, own) };
        }
        // The outputs, without what is before the segment: they need no more registers than the inputs.
        let before = if any { segment_scan::<S, O, STEPS>(simt, &values).0 } else { [O::Out::MIN; STEPS] };
        let mut outputs = [[O::Out::MIN; 2]; STEPS];
        unroll::<STEPS>(|step| {
            let [even, odd] = values[step].map(O::lift);
            let even = O::combine(before[step], even);
            outputs[step] = if O::INCLUSIVE { [even, O::combine(even, odd)] } else { [before[step], even] };
        });
        if simt.warp() == 0 {
            // SAFETY: as above, and it is published.
            let tiles_before = unsafe { lookback::look_back(simt, args.state, tile, own) };
            if simt.lane() == 0 {
                // SAFETY: read only after the barrier; the total is the last output.
                unsafe {
                    simt.shared_store(Self::BEFORE, 0, tiles_before.0);
                    if !O::INCLUSIVE && tile + 1 == tiles {
                        simt.store(args.output, count, tiles_before.then(own).0, Hint::Default);
                    }
                }
            }
        }
        simt.barrier();
        // SAFETY: stored before the barrier.
        carry = O::combine(unsafe { simt.shared_load(Self::BEFORE, 0) }, carry);
        let whole = first + SEGMENT <= count && tile::is_aligned(args.output.as_const());
        unroll::<STEPS>(|step| {
            let pair = outputs[step].map(|output| O::combine(carry, output));
            let index = first + STEP * step as u64 + 2 * u64::from(simt.lane());
            if whole {
                // SAFETY: the whole segment has outputs, aligned.
                unsafe { tile::store_pair(simt, args.output, index, pair) };
            } else {
                unroll::<2>(|odd| {
                    if index + (odd as u64) < count {
                        // SAFETY: it has an output.
                        unsafe { simt.store(args.output, index + odd as u64, pair[odd], Hint::Default) };
                    }
                });
            }
        });
    }
}
