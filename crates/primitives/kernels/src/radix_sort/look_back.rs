//! The sums of digits' counts: within a tile, and over the tiles before (decoupled look-back).

use super::RADIX;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Order, Scope, Shared, Simt, WARP, Word};

/// Elements among which one launch may look back: the sums of their counts fit the 30 bits that a
/// state has for them. More elements take several launches per pass.
pub const MAX_PORTION: u64 = (1 << 30) - 1;

/// A state's value; the bits above say what it is.
const VALUE: u32 = MAX_PORTION as u32;
/// How many elements of the tile have the digit.
const OWN: u32 = 1 << 30;
/// How many of the tile and of all before it have the digit.
const SUM: u32 = 2 << 30;

/// The states of a pass: `[tiles][RADIX]`, one word each for tile and digit, flag and value in one, so
/// that nothing needs ordering but the word itself.
///
/// At the end of a pass all states are sums. The next pass, with the other `parity`, reads the old sums as states not
/// yet written. So states need clearing once per sort, not once per pass.
#[derive(Clone, Copy)]
pub(super) struct States {
    pub(super) words: GlobalMut<u32>,
    /// The pass, modulo 2.
    pub(super) parity: u32,
}

impl States {
    #[inline(always)]
    fn index(tile: u32, digit: u32) -> u64 {
        u64::from(tile) * u64::from(RADIX) + u64::from(digit)
    }

    /// Per thread. Publishes how many elements of `tile` have `digit`; for a portion's first tile this is already the
    /// sum.
    ///
    /// # Safety
    /// The words are a pass's states, accessed through this type only.
    #[inline(always)]
    pub(super) unsafe fn publish_own<S: Simt>(self, simt: S, tile: u32, first_tile: u32, digit: u32, count: u32) {
        let flag = if tile == first_tile { SUM } else { OWN };
        // SAFETY: the caller's promise.
        unsafe { self.publish(simt, tile, digit, flag | count) };
    }

    /// # Safety
    /// As [`States::publish_own`].
    #[inline(always)]
    unsafe fn publish<S: Simt>(self, simt: S, tile: u32, digit: u32, state: u32) {
        let word = state ^ self.parity << 31;
        // SAFETY: the caller's promise.
        unsafe { simt.atomic_store(self.words, Self::index(tile, digit), word, Order::Relaxed, Scope::Device) };
    }

    /// Per thread. How many elements before `tile`, from `first_tile` on, have `digit`; publishes the
    /// sum that includes the tile's own `count`.
    ///
    /// # Safety
    /// As [`States::publish_own`]; the tiles before belong to blocks that have started.
    #[inline(always)]
    pub(super) unsafe fn look_back<S: Simt>(self, simt: S, tile: u32, first_tile: u32, digit: u32, count: u32) -> u32 {
        // One state at a time: loading several at once was slower, since most tiles find the sum in the first one.
        let mut before = 0;
        // The tiles from here on, up to the caller's, are in the sum.
        let mut reached = tile;
        let mut done = tile == first_tile;
        while !done {
            let index = Self::index(reached - 1, digit);
            // SAFETY: the caller's promise.
            let word = unsafe { simt.atomic_load(self.words, index, Order::Relaxed, Scope::Device) };
            let state = word ^ self.parity << 31;
            if state >> 30 == 0 {
                simt.spin_hint();
            } else {
                before += state & VALUE;
                reached -= 1;
                done = state & SUM != 0;
            }
        }
        if tile != first_tile {
            // SAFETY: the caller's promise.
            unsafe { self.publish(simt, tile, digit, SUM | (before + count)) };
        }
        before
    }
}

/// Per thread. How many elements before a tile have a digit, of which the tile has `count`: from what a pass in one launch has left.
///
/// # Safety
/// The words are the pass's states, which nobody writes any more.
#[inline(always)]
pub(super) unsafe fn sum_before<S: Simt>(simt: S, states: Global<u32>, tile: u32, digit: u32, count: u32) -> u32 {
    // SAFETY: the caller's promise.
    let sum = unsafe { simt.load(states, States::index(tile, digit), Hint::ReadOnly) };
    (sum & VALUE) - count
}

/// The first warps of a block, one thread per digit, all lanes. The sum of the values of the warp's
/// threads up to and including the caller's; leaves the warp's sum in `sums`, one element per warp.
///
/// # Safety
/// `sums` is not otherwise accessed since the last barrier.
#[inline(always)]
pub(super) unsafe fn digit_scan<S: Simt, T: Word>(simt: S, sums: Shared<T>, value: T) -> T {
    let lane = simt.lane();
    let mut inclusive = value;
    for delta in [1, 2, 4, 8, 16] {
        let below = simt.shuffle_up(FULL_MASK, inclusive, delta);
        if lane >= delta {
            inclusive = inclusive.wrapping_add(below);
        }
    }
    if lane == WARP - 1 {
        // SAFETY: one element per warp, nobody else's until the next barrier.
        unsafe { simt.shared_store(sums, simt.warp(), inclusive) };
    }
    inclusive
}

/// Per thread. The sum of the values of all warps before the caller's.
///
/// # Safety
/// [`digit_scan`] has left the sums there, and a barrier came between.
#[inline(always)]
pub(super) unsafe fn digits_before<S: Simt, T: Word>(simt: S, sums: Shared<T>) -> T {
    let mut before = T::MIN;
    for warp in 0..RADIX / WARP {
        // SAFETY: the caller's promise.
        let sum = unsafe { simt.shared_load(sums, warp) };
        if warp < simt.warp() {
            before = before.wrapping_add(sum);
        }
    }
    before
}
