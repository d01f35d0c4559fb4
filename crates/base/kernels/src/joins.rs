//! Joins: the bounds of probes, the number of each match's probe, and the rows of probes without a match.

use crate::rows::{AT_ONCE, ROWS_BOUNDS, ROWS_SHARED, STEP, WarpOutputs};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Simt, WARP, Word, kernel_args, unroll,
};

/// The low bound does not belong to the range.
pub const OPEN_LOW: u32 = 1;
/// The high bound does not belong to the range.
pub const OPEN_HIGH: u32 = 2;

/// The bounds of a range that is `reach` longer on both sides, as far as the bits of `most` allow, as if both belonged to it. A
/// range that no key is in is reversed. The CPU's own path uses it, too.
#[inline(always)]
pub fn inclusive<K: KeyWord>(low: K, high: K, most: K, reach: K, open: u32) -> (K, K) {
    let one = K::truncate(1);
    let mut first = low.wrapping_sub(low.and(most).min(reach));
    let mut last = high.wrapping_add(most.wrapping_sub(high.and(most)).min(reach));
    if open & OPEN_LOW != 0 && first == K::MAX || open & OPEN_HIGH != 0 && last == K::MIN {
        return (K::MAX, K::MIN);
    }
    if open & OPEN_LOW != 0 {
        first = first.wrapping_add(one);
    }
    if open & OPEN_HIGH != 0 {
        last = last.wrapping_sub(one);
    }
    (first, last)
}

kernel_args! {
    /// Arguments of [`Bounds`].
    pub struct BoundsArgs<K> {
        /// In the caller's form: `[count]`.
        pub lows: Global<K>,
        /// In the caller's form: `[count]`; may be `lows`.
        pub highs: Global<K>,
        /// How many ranges.
        pub count: u64,
        /// Out: `[count]`, in the caller's form.
        pub out_lows: GlobalMut<K>,
        /// Out: `[count]`, in the caller's form.
        pub out_highs: GlobalMut<K>,
        /// [`OPEN_LOW`], [`OPEN_HIGH`].
        pub open: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// How much longer ranges become.
        pub reach: K,
        /// The low bits in which the bounds may change thereby.
        pub most: K,
        /// What the caller's form is xored with.
        pub flip: K,
    }
}

/// Makes [`inclusive`] bounds. One thread per range; any block.
#[derive(Debug)]
pub struct Bounds<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Bounds<K> {
    type Args = BoundsArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a range.
            unsafe {
                let low = simt.load(args.lows, index, Hint::Streaming).xor(args.flip);
                let high = simt.load(args.highs, index, Hint::Streaming).xor(args.flip);
                let (first, last) = inclusive(low, high, args.most, args.reach, args.open);
                simt.store(args.out_lows, index, first.xor(args.flip), Hint::Default);
                simt.store(args.out_highs, index, last.xor(args.flip), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Numbers`].
    pub struct NumbersArgs {
        /// Where each probe's matches are: `[count + 1]`, ascending from 0; otherwise the numbers are unspecified, but those of probes.
        pub offsets: Global<u64>,
        /// How many probes, at least one.
        pub count: u64,
        /// Matches for which there is room.
        pub capacity: u64,
        /// Out: `[capacity]`, the number of each match's probe.
        pub numbers: GlobalMut<u64>,
    }
}

/// Writes the number of each match's probe: [`OUTPUTS`](crate::rows::OUTPUTS) per warp, so one probe with many takes no longer than
/// many with few; any block of whole warps.
#[derive(Debug)]
pub struct Numbers;

impl Kernel for Numbers {
    type Args = NumbersArgs;
    const STATIC_SHARED: u32 = ROWS_SHARED;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(ROWS_BOUNDS);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: probes and offsets are as many as the arguments say; outputs are below the capacity.
        unsafe {
            let total = simt.load(args.offsets, args.count, Hint::ReadOnly).min(args.capacity);
            let Some(outputs) = WarpOutputs::new(simt, args.offsets, args.count, total) else { return };
            outputs.each(simt, |at, places| {
                unroll!(AT_ONCE, step => {
                    let probes = places[step].map(|place| place.row);
                    outputs.store(simt, args.numbers, at + STEP * step as u64, probes, [true; 2]);
                });
            });
        }
    }
}

kernel_args! {
    /// Arguments of [`PutMisses`].
    pub struct PutMissesArgs<V> {
        /// The hit mask of probes: `[count.div_ceil(32)]`.
        pub hits: Global<u32>,
        /// How many probes.
        pub count: u64,
        /// Where the row of each probe is: `[count]`; null if probe `i` has row `i`.
        pub offsets: Global<u64>,
        /// Rows for which there is room.
        pub capacity: u64,
        /// Out: `[capacity]`.
        pub rows: GlobalMut<V>,
        /// What the row of a probe without a match becomes.
        pub miss: V,
    }
}

/// Writes the rows of the probes whose bit is not set. One thread per probe; any block.
#[derive(Debug)]
pub struct PutMisses<V>(PhantomData<V>);

impl<V: Word> Kernel for PutMisses<V> {
    type Args = PutMissesArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a probe, and a row is written if there is room for it.
        unsafe {
            if simt.load(args.hits, index / 32, Hint::ReadOnly) >> (index % 32) & 1 != 0 {
                return;
            }
            let mut row = index;
            if !args.offsets.is_null() {
                row = simt.load(args.offsets, index, Hint::ReadOnly);
            }
            if row < args.capacity {
                simt.store(args.rows, row, args.miss, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Settle`].
    pub struct SettleArgs {
        /// In and out: `[count]`, the matches of each probe.
        pub counts: GlobalMut<u64>,
        /// In and out: `[count]`, where they begin; null unless probes without a match have a row.
        pub cursors: GlobalMut<u64>,
        /// Where any pair is, which such a row is copied from: `[1]`; null if `cursors` is.
        pub any: Global<u64>,
        /// A validity bitmap of the probes; null if no probe is null.
        pub valid: Global<u32>,
        /// Its first bit.
        pub offset: u64,
        /// How many probes.
        pub count: u64,
        /// Out: `[count.div_ceil(32)]`, whether each probe has a match; null if not wanted.
        pub hits: GlobalMut<u32>,
        /// 1: a probe without a match has one row.
        pub is_left: u64,
    }
}

/// Takes the matches from null probes, writes the hit mask, and gives each probe without a match a row if it is to have one. One
/// thread per probe; any block of whole warps.
#[derive(Debug)]
pub struct Settle;

impl Kernel for Settle {
    type Args = SettleArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut hit = false;
        if index < args.count {
            // SAFETY: `index` is a probe.
            unsafe {
                let found = simt.load(args.counts.as_const(), index, Hint::Default);
                let mut valid = true;
                if !args.valid.is_null() {
                    let bit = args.offset + index;
                    valid = simt.load(args.valid, bit / 32, Hint::ReadOnly) >> (bit % 32) & 1 != 0;
                }
                hit = valid && found > 0;
                let rows = if hit { found } else { args.is_left };
                if rows != found {
                    simt.store(args.counts, index, rows, Hint::Default);
                }
                if !hit && !args.cursors.is_null() {
                    simt.store(args.cursors, index, simt.load(args.any, 0, Hint::ReadOnly), Hint::Default);
                }
            }
        }
        if !args.hits.is_null() {
            let word = simt.ballot(FULL_MASK, hit);
            let index = simt.opaque(index);
            if simt.lane() == 0 && index < args.count {
                // SAFETY: a word for each 32 probes.
                unsafe { simt.store(args.hits, index / u64::from(WARP), word, Hint::Streaming) };
            }
        }
    }
}
