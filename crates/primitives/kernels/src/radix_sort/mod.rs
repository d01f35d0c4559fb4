//! A stable least-significant-digit radix sort that reads and writes its input once per digit: Onesweep
//! (Adinets and Merrill, 2022).
//!
//! One launch of [`Histogram`] counts the digits of all passes in a single read of the keys, one of
//! [`Offsets`] turns the counts into the place where each digit's run begins, and one of [`Onesweep`]
//! per digit moves the elements. A block of [`Onesweep`] takes a tile of elements, ranks them by digit, and looks back
//! at the earlier tiles (`look_back`) to learn how many elements with each digit precede its own.
//!
//! Tiles are numbered by tickets, in the order in which blocks start, so a block only waits for blocks that are already
//! running.
//!
//! A few elements are sorted by one launch of [`SmallSort`].
//!
//! What was computed for the keys that one pass has moved goes back to the keys' own order by one launch of [`Restore`].

mod histogram;
mod instances;
mod look_back;
mod offsets;
mod onesweep;
mod restore;
mod small;

pub use histogram::{HISTOGRAM_THREADS, HISTOGRAM_TILE, Histogram, HistogramArgs};
pub use instances::*;
pub use look_back::MAX_PORTION;
pub use offsets::{Offsets, OffsetsArgs};
pub use onesweep::{Onesweep, OnesweepArgs};
pub use restore::{Restore, RestoreArgs};
pub use small::{SMALL_SORT, SmallSort, SmallSortArgs};

use core::ops::Range;
use lanetree_simt::{KeyWord, kernel_args};

/// The most bits of a digit.
pub const DIGIT_BITS: u32 = 8;

/// Values of a digit.
pub const RADIX: u32 = 1 << DIGIT_BITS;

/// The most passes: 128-bit keys, all bits.
pub const MAX_PASSES: usize = 16;

/// The digits of a range of bits: as few as possible, and as even as possible. Narrower digits have longer runs, so 33
/// bits are better split into five digits of 6 or 7 bits than into four of 8 and one of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    begin: u32,
    bits: u32,
}

impl Digits {
    /// The digits of a non-empty range of bits.
    ///
    /// An empty range has one digit of no bits: the pass over it copies.
    pub const fn of(bits: Range<u32>) -> Self {
        match bits.end - bits.start {
            // The begin may be the width of the word, by which no word can be shifted.
            0 => Self { begin: 0, bits: 0 },
            count => Self { begin: bits.start, bits: count },
        }
    }

    /// How many digits, at least one.
    pub const fn passes(self) -> u32 {
        if self.bits == 0 { 1 } else { self.bits.div_ceil(DIGIT_BITS) }
    }

    /// The digit of a pass, the least significant first. Past the last, one of no bits.
    pub const fn digit(self, pass: u32) -> Digit {
        let passes = self.passes();
        if pass >= passes {
            return Digit { shift: 0, bits: 0 };
        }
        let (low, high) = (pass * self.bits / passes, (pass + 1) * self.bits / passes);
        Digit { shift: self.begin + low, bits: high - low }
    }
}

kernel_args! {
    /// Where a digit lies in a word.
    #[derive(Default, PartialEq, Eq)]
    pub struct Digit {
        /// The bits below it.
        pub shift: u32,
        /// Its own, at most [`DIGIT_BITS`].
        pub bits: u32,
    }
}

/// A digit as a thread reads it.
#[derive(Clone, Copy)]
struct Extract {
    shift: u32,
    /// The part of the order mask that lies in the digit.
    flip: u32,
    mask: u32,
}

impl Extract {
    #[inline(always)]
    fn new<K: KeyWord>(digit: Digit, flip: K) -> Self {
        let mask = (1 << digit.bits) - 1;
        Self { shift: digit.shift, flip: shifted(flip, digit.shift), mask }
    }

    /// The digit of a key, in `0..RADIX`.
    #[inline(always)]
    fn of<K: KeyWord>(self, key: K) -> u32 {
        (shifted(key, self.shift) ^ self.flip) & self.mask
    }
}

/// The 32 bits of a word from `shift` on.
#[inline(always)]
fn shifted<K: KeyWord>(word: K, shift: u32) -> u32 {
    let [low, high] = word.parts();
    match K::BITS {
        32 => word.low() >> shift,
        64 => (low >> shift) as u32,
        // A digit may have bits of both halves.
        _ if shift >= 64 => (high >> (shift - 64)) as u32,
        _ if shift > 32 => (low >> shift) as u32 | (high << (64 - shift)) as u32,
        _ => (low >> shift) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_cover_their_range_once() {
        for begin in 0..=128 {
            for end in begin..=128 {
                let digits = Digits::of(begin..end);
                assert_eq!(digits.passes(), (end - begin).div_ceil(8).max(1));
                let mut next = if begin == end { 0 } else { begin };
                for pass in 0..digits.passes() {
                    let digit = digits.digit(pass);
                    assert_eq!(digit.shift, next, "{begin}..{end}");
                    assert!(digit.bits <= DIGIT_BITS);
                    next += digit.bits;
                }
                assert_eq!(next, if begin == end { 0 } else { end });
                assert_eq!(digits.digit(digits.passes()).bits, 0);
            }
        }
    }

    #[test]
    fn signed_words_sort_by_their_flipped_digit() {
        let top = Extract::new(Digit { shift: 24, bits: 8 }, 1_u32 << 31);
        assert_eq!([u32::MAX, 0, 1 << 31, i32::MAX as u32].map(|word| top.of(word)), [127, 128, 0, 255]);
        let top = Extract::new(Digit { shift: 57, bits: 7 }, 1_u64 << 63);
        assert_eq!([u64::MAX, 0, 1 << 63].map(|word| top.of(word)), [63, 64, 0]);
        let top = Extract::new(Digit { shift: 121, bits: 7 }, 1_u128 << 127);
        assert_eq!([u128::MAX, 0, 1 << 127].map(|word| top.of(word)), [63, 64, 0]);
    }

    #[test]
    fn digits_lie_anywhere_in_a_word() {
        let word = 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128;
        for shift in 0..128 {
            assert_eq!(shifted(word, shift) & 0xff, (word >> shift) as u32 & 0xff, "{shift}");
        }
    }
}
