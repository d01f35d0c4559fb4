//! Queries: the most specific interval around a point; all intervals that contain a point or overlap a range, or how
//! many there are.

use crate::layout::NONE;
use crate::search::Intervals;
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Simt, WARP, kernel_args};

kernel_args! {
    /// Arguments of [`MostSpecific`].
    pub struct MostSpecificArgs<K, V> {
        /// The index.
        pub intervals: Intervals<K, V>,
        /// In the caller's form: `[count]`.
        pub points: Global<K>,
        /// The last interval that starts at or below each point: `[count]`.
        pub positions: Global<u32>,
        /// How many points.
        pub count: u64,
        /// Out: `[count]`, the row of the most specific interval, or `miss`.
        pub out_rows: GlobalMut<V>,
        /// Out: bit `i % 32` of word `i / 32` says whether an interval contains point `i`; null if not wanted.
        pub hits: GlobalMut<u32>,
        /// What the caller's form is xored with.
        pub flip: K,
        /// The row written if there is none.
        pub miss: V,
    }
}

/// Finds the most specific interval around each point. One thread per point; any block of whole warps.
#[derive(Debug)]
pub struct MostSpecific<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: KeyWord> Kernel for MostSpecific<K, V> {
    type Args = MostSpecificArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut hit = false;
        if index < args.count {
            // SAFETY: `index` is a point; the search gives a position or none.
            unsafe {
                let word = simt.load(args.points, index, Hint::Streaming).xor(args.flip);
                let from = simt.load(args.positions, index, Hint::Streaming);
                let at = args.intervals.innermost(simt, word, from);
                hit = at != NONE;
                let mut row = args.miss;
                if hit {
                    row = simt.load(args.intervals.rows, u64::from(at), Hint::ReadOnly);
                }
                simt.store(args.out_rows, index, row, Hint::Streaming);
            }
        }
        if !args.hits.is_null() {
            let word = simt.ballot(FULL_MASK, hit);
            let index = simt.opaque(index);
            if simt.lane() == 0 && index < args.count {
                // SAFETY: a word for each 32 points.
                unsafe { simt.store(args.hits, index / u64::from(WARP), word, Hint::Streaming) };
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Count`].
    pub struct CountArgs<K> {
        /// In the caller's form: `[count]`, the lowest point of each probe; null if probes are points.
        pub lows: Global<K>,
        /// In the caller's form: `[count]`, the highest point of each; null if probes are points.
        pub highs: Global<K>,
        /// The last interval that starts at or below each highest point: `[count]`.
        pub positions: Global<u32>,
        /// How many intervals end below each lowest point: `[count]`.
        pub ended: Global<u32>,
        /// How many probes.
        pub count: u64,
        /// Out: `[count]`, the number of intervals that have a point in common with each probe; 0 for a reversed one.
        pub counts: GlobalMut<u64>,
        /// What the caller's form is xored with.
        pub flip: K,
    }
}

/// Counts the intervals that contain or overlap each probe: the intervals that start at or before its end, less the
/// intervals that end before it begins. One thread per probe; any block.
#[derive(Debug)]
pub struct Count<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Count<K> {
    type Args = CountArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a probe.
            unsafe {
                // No position is all ones, of which one more is 0.
                let started = simt.load(args.positions, index, Hint::Streaming).wrapping_add(1);
                let ended = simt.load(args.ended, index, Hint::Streaming);
                let mut found = started.wrapping_sub(ended);
                if !args.lows.is_null() {
                    let low = simt.load(args.lows, index, Hint::Streaming).xor(args.flip);
                    let high = simt.load(args.highs, index, Hint::Streaming).xor(args.flip);
                    found = if high < low { 0 } else { found };
                }
                simt.store(args.counts, index, u64::from(found), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Stab`].
    pub struct StabArgs<K, V> {
        /// The index.
        pub intervals: Intervals<K, V>,
        /// In the caller's form: `[count]`, the lowest point of each probe, which has one or a range of them.
        pub lows: Global<K>,
        /// The last interval that starts at or below each highest point: `[count]`.
        pub positions: Global<u32>,
        /// Where each probe's rows go: `[count + 1]`.
        pub offsets: Global<u64>,
        /// How many probes.
        pub count: u64,
        /// Rows for which there is room; rows past it are not written.
        pub capacity: u64,
        /// Out: `[capacity]`, the rows of the intervals that have a point in common with each probe, the last one first.
        pub out_rows: GlobalMut<V>,
        /// What the caller's form is xored with.
        pub flip: K,
    }
}

/// Finds all intervals that contain or overlap each probe: of the intervals that start at or below its highest point,
/// the ones that end at or above its lowest. One thread per probe; any block.
#[derive(Debug)]
pub struct Stab<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: KeyWord> Kernel for Stab<K, V> {
    type Args = StabArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a probe, with an offset after it; outputs are below the capacity; the search gives a position or
        // none.
        unsafe {
            let mut to = simt.load(args.offsets, index, Hint::ReadOnly);
            let end = simt.load(args.offsets, index + 1, Hint::ReadOnly).min(args.capacity);
            let word = simt.load(args.lows, index, Hint::Streaming).xor(args.flip);
            let mut from = simt.load(args.positions, index, Hint::Streaming);
            while to < end {
                let at = args.intervals.innermost(simt, word, from);
                if at == NONE {
                    return;
                }
                let row = simt.load(args.intervals.rows, u64::from(at), Hint::ReadOnly);
                simt.store(args.out_rows, to, row, Hint::Default);
                // Before the first one there is none.
                from = at.wrapping_sub(1);
                to += 1;
            }
        }
    }
}
