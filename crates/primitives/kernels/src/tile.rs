//! A block's work on its tile: loads and stores of adjacent pairs, and positions of kept elements.
//!
//! Every warp has a segment of `N` steps of 64 elements; in a step each lane has two neighbours. So loads
//! and stores are one access for two elements, coalesced whatever the width of the words, and a warp-wide
//! scan of a step serves 64 elements.

pub(crate) use lanetree_simt::unroll;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, KeyWord, Shared, Simt, WARP, Word};

/// Threads of a block, in every kernel of this crate.
pub const THREADS: u32 = 256;

pub(crate) const WARPS: u32 = THREADS / WARP;

/// Elements of a warp's step.
pub(crate) const STEP: u64 = 2 * WARP as u64;

/// Calls its argument with 0 to `2 * N - 1`, one after another.
#[inline(always)]
pub(crate) fn each_twice<const N: usize>(mut body: impl FnMut(usize)) {
    unroll::<N>(|index| {
        body(2 * index);
        body(2 * index + 1);
    });
}

/// Elements of a tile whose warps have this many steps.
pub(crate) const fn len(steps: usize) -> u64 {
    STEP * steps as u64 * WARPS as u64
}

/// A warp's elements: `[step][0 or 1]` is element `64 * step + 2 * lane + (0 or 1)` of its segment.
pub(crate) type Pairs<T, const N: usize> = [[T; 2]; N];

/// Whether an array begins on a 16-byte boundary, so that two neighbours are one access. A caller's memory may begin at any
/// element.
#[inline(always)]
pub(crate) fn is_aligned<T>(array: Global<T>) -> bool {
    array.as_ptr().addr().is_multiple_of(16)
}

/// Per thread. Elements `index` and `index + 1`; `index` is even, and the array begins on a 16-byte boundary.
///
/// # Safety
/// As [`Simt::load`], for both.
#[inline(always)]
unsafe fn load_pair<S: Simt, T: KeyWord>(simt: S, from: Global<T>, index: u64) -> [T; 2] {
    // SAFETY: the caller's.
    unsafe {
        match T::BITS {
            32 => {
                let pair = simt.load(from.cast::<u64>(), index / 2, Hint::EvictFirst);
                [T::truncate(pair), T::truncate(pair >> 32)]
            }
            64 => simt.load_vector(from.cast::<u64>(), index, Hint::EvictFirst).map(T::truncate),
            _ => [simt.load(from, index, Hint::EvictFirst), simt.load(from, index + 1, Hint::EvictFirst)],
        }
    }
}

/// Per thread. Writes elements `index` and `index + 1`; `index` is even, and the array begins on a 16-byte
/// boundary.
///
/// # Safety
/// As [`Simt::store`], for both.
#[inline(always)]
pub(crate) unsafe fn store_pair<S: Simt, T: Word>(simt: S, to: GlobalMut<T>, index: u64, pair: [T; 2]) {
    // SAFETY: the caller's.
    unsafe {
        if T::BITS == 32 {
            let pair = pair[0].widen() | pair[1].widen() << 32;
            simt.store(to.cast::<u64>(), index / 2, pair, Hint::Default);
        } else {
            simt.store_vector(to.cast::<u64>(), index, pair.map(T::widen), Hint::Default);
        }
    }
}

/// Per thread. The lane's elements of the segment that begins at `first`, a multiple of [`STEP`]; zeros for
/// those from `count` on.
///
/// # Safety
/// `from` has `count` elements, and nobody writes it while the kernel runs.
#[inline(always)]
pub(crate) unsafe fn load<S: Simt, T: KeyWord, const N: usize>(
    simt: S,
    from: Global<T>,
    first: u64,
    count: u64,
) -> Pairs<T, N> {
    let mut pairs = [[T::MIN; 2]; N];
    let lane = first + 2 * u64::from(simt.lane());
    if first + STEP * N as u64 <= count && is_aligned(from) {
        unroll::<N>(|step| {
            // SAFETY: the whole segment lies before `count`, and `from` is aligned.
            pairs[step] = unsafe { load_pair(simt, from, lane + STEP * step as u64) };
        });
    } else {
        unroll::<N>(|step| {
            unroll::<2>(|odd| {
                let index = lane + STEP * step as u64 + odd as u64;
                if index < count {
                    // SAFETY: in front of `count`.
                    pairs[step][odd] = unsafe { simt.load(from, index, Hint::EvictFirst) };
                }
            });
        });
    }
    pairs
}

/// Which of a warp's elements are kept, and how many of them come before each.
#[derive(Clone, Copy)]
pub(crate) struct Kept<const N: usize> {
    pub(crate) flags: Pairs<bool, N>,
    /// Kept elements of the segment before the lane's first of each step.
    before: [u32; N],
    /// Kept elements of the segment.
    pub(crate) count: u32,
    /// One more than the position of the last of them in the segment; 0 if there is none.
    pub(crate) end: u32,
}

impl<const N: usize> Kept<N> {
    /// Warp collective, by all lanes, with the flags of each lane's elements; [`Self::count`] is the same in
    /// all lanes.
    #[inline(always)]
    pub(crate) fn new<S: Simt>(simt: S, flags: Pairs<bool, N>) -> Self {
        let (mut before, mut count, mut end) = ([0; N], 0, 0);
        let below = simt.lanes_below();
        unroll::<N>(|step| {
            let [even, odd] = flags[step].map(|flag| simt.ballot(FULL_MASK, flag));
            before[step] = count + (even & below).count_ones() + (odd & below).count_ones();
            count += even.count_ones() + odd.count_ones();
            if even | odd != 0 {
                let lane = WARP - 1 - (even | odd).leading_zeros();
                end = STEP as u32 * step as u32 + 2 * lane + (odd >> lane & 1) + 1;
            }
        });
        Self { flags, before, count, end }
    }

    /// Kept elements of the segment before this one of the lane's.
    #[inline(always)]
    pub(crate) fn before(&self, step: usize, odd: usize) -> u32 {
        self.before[step] + if odd == 1 && self.flags[step][0] { 1 } else { 0 }
    }
}

/// Per thread, after a barrier. The sum of the warps before the caller's, and of all warps.
///
/// # Safety
/// Every warp has stored its sum, and none stores it again without a barrier between.
#[inline(always)]
pub(crate) unsafe fn sums_before<S: Simt, T: Word>(simt: S, sums: Shared<T>) -> (T, T) {
    let (mut before, mut total) = (T::MIN, T::MIN);
    for warp in 0..WARPS {
        // SAFETY: the caller's.
        let sum = unsafe { simt.shared_load(sums, warp) };
        if warp < simt.warp() {
            before = before.wrapping_add(sum);
        }
        total = total.wrapping_add(sum);
    }
    (before, total)
}
