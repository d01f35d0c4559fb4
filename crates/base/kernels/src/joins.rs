//! Joins by ranges: the bounds of probes, and the number of each match's probe.

use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Simt, WARP, instance, kernel_args};

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

/// Matches of a warp.
pub const MATCHES: u64 = 256;

kernel_args! {
    /// Arguments of [`Numbers`].
    pub struct NumbersArgs {
        /// Where each probe's matches are: `[count + 1]`, ascending from 0.
        pub offsets: Global<u64>,
        /// How many probes, at least one.
        pub count: u64,
        /// Matches for which there is room.
        pub capacity: u64,
        /// Out: `[capacity]`, the number of each match's probe.
        pub numbers: GlobalMut<u64>,
    }
}

/// Writes the number of each match's probe: [`MATCHES`] per warp, so one probe with many takes no longer than many with few; any
/// block of whole warps.
#[derive(Debug)]
pub struct Numbers;

impl Kernel for Numbers {
    type Args = NumbersArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: numbers of probes, and one past them; outputs are below the capacity.
        unsafe {
            let offset = |probe: u64| simt.load(args.offsets, probe, Hint::ReadOnly);
            // The last probe, of some, whose matches do not begin after one.
            let probe_of = |at: u64, mut first: u64, mut left: u64| {
                while left > 1 {
                    let half = left / 2;
                    first += if offset(first + half) <= at { half } else { 0 };
                    left -= half;
                }
                first
            };
            let total = offset(args.count).min(args.capacity);
            let begin = simt.global_index() / u64::from(WARP) * MATCHES;
            if begin >= total {
                return;
            }
            let end = (begin + MATCHES).min(total);
            let first = probe_of(begin, 0, args.count);
            let probes = probe_of(end - 1, first, args.count - first) - first + 1;
            let mut at = begin + u64::from(simt.lane());
            while at < end {
                simt.store(args.numbers, at, probe_of(at, first, probes), Hint::Streaming);
                at += u64::from(WARP);
            }
        }
    }
}

instance!(keys__bounds_u32, keys, Bounds<u32>);
instance!(keys__bounds_u64, keys, Bounds<u64>);
instance!(keys__bounds_u128, keys, Bounds<u128>);
instance!(keys__numbers, keys, Numbers);
