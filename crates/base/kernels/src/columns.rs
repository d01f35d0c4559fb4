//! Columns as other libraries have them: a byte for each bit of a hit mask, floats for their ordered words.

use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`UnpackBits`].
    pub struct UnpackBitsArgs {
        /// A hit mask: `[count.div_ceil(8)]` words of 32 bits hold these bits.
        pub bits: Global<u32>,
        /// Words to write, of four bytes each.
        pub count: u64,
        /// Out: `[count]`.
        pub bytes: GlobalMut<u32>,
    }
}

/// Writes a byte, 0 or 1, for each bit of a hit mask. One thread per 16 bytes; any block.
#[derive(Debug)]
pub struct UnpackBits;

/// Words that one thread writes, in one access: with one word per thread the launch of the threads takes longer than the memory.
pub const WORDS: u64 = <u32 as KeyWord>::PER_VECTOR as u64;

impl Kernel for UnpackBits {
    type Args = UnpackBitsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let first = index * WORDS;
        if first < args.count {
            // SAFETY: `first` is a word of the output; the bits of 16 bytes are half a word of the mask. A vector is written if all
            // of it is inside, and begins at a multiple of 16 bytes, as buffers do.
            unsafe {
                let bits = simt.load(args.bits, index / 2, Hint::ReadOnly) >> (index % 2 * 16);
                // The bits of 0x204081 put bit i at i * 8, among others.
                let word = |i: u64| ((bits >> (i * 4) & 15) * 0x20_4081) & 0x0101_0101;
                if first + WORDS <= args.count {
                    simt.store_vector(args.bytes, first, [word(0), word(1), word(2), word(3)], Hint::Streaming);
                } else {
                    for i in 0..args.count - first {
                        simt.store(args.bytes, first + i, word(i), Hint::Streaming);
                    }
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`OrderFloats`].
    pub struct OrderFloatsArgs<W> {
        /// Numbers, or ordered words: `[count]`.
        pub from: Global<W>,
        /// How many.
        pub count: u64,
        /// 0: words of numbers; 1: numbers of words.
        pub inverse: u32,
        /// 1: words of numbers that are first made canonical.
        pub canonical: u32,
        /// Out: `[count]`; may be `from`.
        pub to: GlobalMut<W>,
    }
}

/// The ordered word of a float's bits, or the bits of a float's word.
#[inline(always)]
pub fn turned<W: Word>(bits: W, inverse: bool) -> W {
    let (bits, sign) = (bits.widen(), 1 << (W::BITS - 1));
    // A number is negative if its sign bit is set, a word if it is not.
    let is_negative = (bits & sign != 0) != inverse;
    W::truncate(bits ^ if is_negative { u64::MAX } else { sign })
}

/// The bits of a float, but 0.0 for -0.0, and the one NaN for every NaN.
#[inline(always)]
pub fn canonical<W: Word>(bits: W) -> W {
    let bits = bits.widen();
    let (sign, infinity) = if W::BITS == 64 { (1 << 63, 0x7ff << 52) } else { (1 << 31, 0xff << 23) };
    let magnitude = bits & !sign;
    let number = if magnitude == 0 { 0 } else { bits };
    // A NaN is above infinity; the one NaN has the highest bit of the fraction.
    W::truncate(if magnitude > infinity { infinity | infinity >> 1 } else { number })
}

/// Makes ordered words of floats, or floats of these, as the keys `F32` and `F64` do. One thread per element; any block.
#[derive(Debug)]
pub struct OrderFloats<W>(PhantomData<W>);

impl<W: Word> Kernel for OrderFloats<W> {
    type Args = OrderFloatsArgs<W>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is an element.
            unsafe {
                let bits = simt.load(args.from, index, Hint::Default);
                let bits = if args.canonical != 0 { canonical(bits) } else { bits };
                simt.store(args.to, index, turned(bits, args.inverse != 0), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`MaskHits`].
    pub struct MaskHitsArgs {
        /// A validity bitmap: bits `offset..offset + count` are there, the lowest bit of a word first; null if all are set.
        pub valid: Global<u32>,
        /// Its first bit.
        pub offset: u64,
        /// How many bits, at least one.
        pub count: u64,
        /// A hit mask. A bit is cleared where the bitmap's bit is 0: `[count.div_ceil(32)]`.
        pub hits: GlobalMut<u32>,
        /// 1: then the complement of these bits.
        pub complement: u64,
    }
}

/// The words of a validity bitmap that the `index`-th 32 bits from `offset` on are in, and the bit of the first one where they
/// begin. The second word is the first one again if all of the `count` bits are in it.
#[inline(always)]
pub fn words_of_bits(index: u64, offset: u64, count: u64) -> (u64, u64, u32) {
    let first = offset + index * 32;
    let last = offset + count.min(index * 32 + 32) - 1;
    (first / 32, last / 32, (first % 32) as u32)
}

/// 32 bits, of which the first is the bit `at` of `low` and the last is in `high`.
#[inline(always)]
pub fn joined_bits(low: u32, high: u32, at: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) >> at) as u32
}

/// The `index`-th word of a mask of `count` bits, of which those that are not valid are cleared; or its complement, in which bits
/// past the last one are zero.
#[inline(always)]
pub fn masked(hits: u32, valid: u32, index: u64, count: u64, complement: bool) -> u32 {
    let hits = hits & valid;
    if !complement {
        return hits;
    }
    let left = count - index * 32;
    !hits & if left < 32 { (1 << left) - 1 } else { u32::MAX }
}

/// Clears the bits of a hit mask where a validity bitmap has none. One thread per word of the mask; any block.
#[derive(Debug)]
pub struct MaskHits;

impl Kernel for MaskHits {
    type Args = MaskHitsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index * 32 < args.count {
            // SAFETY: both words have bits of the bitmap; `index` is a word of the mask.
            unsafe {
                let mut valid = u32::MAX;
                if !args.valid.is_null() {
                    let (low, high, at) = words_of_bits(index, args.offset, args.count);
                    let low = simt.load(args.valid, low, Hint::Default);
                    valid = joined_bits(low, simt.load(args.valid, high, Hint::Default), at);
                }
                let hits = simt.load(args.hits.as_const(), index, Hint::Default);
                let hits = masked(hits, valid, index, args.count, args.complement != 0);
                simt.store(args.hits, index, hits, Hint::Default);
            }
        }
    }
}
