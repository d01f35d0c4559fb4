//! Places: made, counted, read.

use crate::layout::{MOST_VALUES, begin, count, place};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Pack`].
    pub struct PackArgs {
        /// The first value of each key, and how many values there are: `[count + 1]`.
        pub offsets: Global<u64>,
        /// How many keys.
        pub count: u64,
        /// The position of the first value of all.
        pub base: u64,
        /// The most values that a key may have, at most [`MOST_VALUES`].
        pub most: u64,
        /// Out: `[count]`.
        pub places: GlobalMut<u64>,
        /// In and out: `[1]`, lowered to the first key that has more.
        pub too_many: GlobalMut<u64>,
    }
}

/// Makes places of offsets. One thread per key; any block.
#[derive(Debug)]
pub struct Pack;

impl Kernel for Pack {
    type Args = PackArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a key; the finding is accessed atomically only.
        unsafe {
            let first = simt.load(args.offsets, index, Hint::ReadOnly);
            let values = simt.load(args.offsets, index + 1, Hint::ReadOnly) - first;
            simt.store(args.places, index, place(args.base + first, values), Hint::Default);
            if values > args.most {
                simt.atomic_min(args.too_many, 0, index, Order::Relaxed, Scope::Device);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`CountValues`].
    pub struct CountArgs {
        /// `[count]`.
        pub places: Global<u64>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the number of values of each.
        pub counts: GlobalMut<u64>,
    }
}

/// Reads the number of values from places. One thread per place; any block.
#[derive(Debug)]
pub struct CountValues;

impl Kernel for CountValues {
    type Args = CountArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a place.
            unsafe {
                let values = simt.load(args.places, index, Hint::Streaming) & MOST_VALUES;
                simt.store(args.counts, index, values, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Spans`].
    pub struct SpanArgs {
        /// The place of the first key that is not below each range: `[count]`; all ones if there is none.
        pub firsts: Global<u64>,
        /// The place of the last key that is not above it: `[count]`; 0 if there is none.
        pub lasts: Global<u64>,
        /// Most pairs of each range: `[count]`; null for `limit` everywhere.
        pub limits: Global<u64>,
        /// Most pairs of a range.
        pub limit: u64,
        /// How many ranges.
        pub count: u64,
        /// Out: `[count]`, the position of each range's first value; null if not wanted.
        pub begins: GlobalMut<u64>,
        /// Out: `[count]`, the pairs of each range.
        pub counts: GlobalMut<u64>,
    }
}

/// Finds the values of ranges between the places of two keys. One thread per range; any block.
#[derive(Debug)]
pub struct Spans;

impl Kernel for Spans {
    type Args = SpanArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a range.
        unsafe {
            let first = begin(simt.load(args.firsts, index, Hint::Streaming));
            let last = simt.load(args.lasts, index, Hint::Streaming);
            let mut limit = args.limit;
            if !args.limits.is_null() {
                limit = limit.min(simt.load(args.limits, index, Hint::Streaming));
            }
            let pairs = (begin(last) + count(last)).saturating_sub(first).min(limit);
            simt.store(args.counts, index, pairs, Hint::Default);
            if !args.begins.is_null() {
                simt.store(args.begins, index, first, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`First`].
    pub struct FirstArgs<V> {
        /// `[count]`.
        pub places: Global<u64>,
        /// How many.
        pub count: u64,
        /// `[len]`.
        pub values: Global<V>,
        /// Values.
        pub len: u64,
        /// 1: the last values, instead of the first ones.
        pub is_last: u64,
        /// Out: `[count]`, the first value of each place, or `miss`.
        pub out_values: GlobalMut<V>,
        /// Out: bit `i % 32` of word `i / 32` says whether place `i` has a value; null if not wanted.
        pub hits: GlobalMut<u32>,
        /// The value written if there is none.
        pub miss: V,
    }
}

/// Reads the first value of each place, or the last one. One thread per place; any block of whole warps.
#[derive(Debug)]
pub struct First<V>(PhantomData<V>);

impl<V: Word> Kernel for First<V> {
    type Args = FirstArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut hit = false;
        if index < args.count {
            // SAFETY: `index` is a place; the position is checked.
            unsafe {
                let own = simt.load(args.places, index, Hint::Streaming);
                let position = begin(own) + if args.is_last != 0 { count(own).saturating_sub(1) } else { 0 };
                hit = count(own) > 0 && position < args.len;
                let mut value = args.miss;
                if hit {
                    value = simt.load(args.values, position, Hint::ReadOnly);
                }
                simt.store(args.out_values, index, value, Hint::Streaming);
            }
        }
        if !args.hits.is_null() {
            let word = simt.ballot(FULL_MASK, hit);
            let index = simt.opaque(index);
            if simt.lane() == 0 && index < args.count {
                // SAFETY: a word for each 32 places.
                unsafe { simt.store(args.hits, index / u64::from(WARP), word, Hint::Streaming) };
            }
        }
    }
}
