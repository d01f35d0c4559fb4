//! Machine words of a kernel, and the key and value types based on them.

use crate::KernelArgs;
use bytemuck::Pod;
use core::fmt::{Debug, Display};
use core::hash::Hash;

/// A word of 32, 64 or 128 bits, unsigned: what kernels move, compare and store. Keys are such words; values, counts and whatever
/// is accessed atomically are the narrower of them, [`Word`].
///
/// Sealed: implemented for [`u32`], [`u64`] and [`u128`] only, since every kernel is compiled for these.
pub trait KeyWord: Pod + KernelArgs + Ord + Eq + Hash + Debug + Display + Default + sealed::Sealed {
    /// Bits of the word: 32, 64 or 128.
    const BITS: u32;
    /// Bytes of the word: 4, 8 or 16.
    const BYTES: usize;
    /// The smallest word.
    const MIN: Self;
    /// The largest word, which pads the unused separators of inner nodes.
    const MAX: Self;
    /// The words of which the lowest 32, 64, 96 and 128 bits are set, and no others; all bits where there are fewer.
    const LOW_ONES: [Self; 4];
    /// `"u32"`, `"u64"` or `"u128"`: the word's part of a kernel's symbol.
    const NAME: &'static str;
    /// Words in 16 bytes, the widest access of one lane: 4, 2 or 1.
    const PER_VECTOR: usize;
    /// 16 bytes of words.
    type Vector: Pod + Copy + AsRef<[Self]> + Default;

    /// The word's low 32 bits.
    fn low(self) -> u32;
    /// The word's low 64 bits, and its high ones; 0 where it has none.
    fn parts(self) -> [u64; 2];
    /// The word with these parts, less the bits that it does not have; the inverse of [`KeyWord::parts`].
    fn from_parts(parts: [u64; 2]) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// `self + other`, wrapping around.
    fn wrapping_add(self, other: Self) -> Self;
    /// `self - other`, wrapping around.
    fn wrapping_sub(self, other: Self) -> Self;
    /// The word shifted to the right, by less than its bits.
    fn shr(self, by: u32) -> Self;
    /// How many of its bits are left without leading zeros; 0 for 0.
    fn significant_bits(self) -> u32;
    /// The low bits of a 64-bit word; it has all of them if it is as wide.
    fn truncate(wide: u64) -> Self;
}

/// A word of 32 or 64 bits.
///
/// Sealed: implemented for [`u32`] and [`u64`] only.
pub trait Word: KeyWord {
    /// The word of a [composite](crate::Composite) key of this word and another one: as wide as both, at most 128 bits.
    type With<B: Word>: KeyWord;
    /// [`Word::With`] of [`u32`] and this word.
    #[doc(hidden)]
    type AfterU32: KeyWord;

    /// The word's high 32 bits; 0 for [`u32`].
    fn high(self) -> u32;
    /// The word with these halves; `high` is ignored by [`u32`].
    fn from_halves(low: u32, high: u32) -> Self;
    /// Zero-extends to 64 bits.
    fn widen(self) -> u64;
}

macro_rules! word {
    ($word:ident, $vector:literal, |$own:ident| $parts:expr, |$given:ident| $from_parts:expr) => {
        impl KeyWord for $word {
            const BITS: u32 = $word::BITS;
            const BYTES: usize = size_of::<$word>();
            const MIN: Self = 0;
            const MAX: Self = $word::MAX;
            const LOW_ONES: [Self; 4] = [u32::MAX as $word, u64::MAX as $word, (u128::MAX >> 32) as $word, $word::MAX];
            const NAME: &'static str = stringify!($word);
            const PER_VECTOR: usize = $vector;
            type Vector = [$word; $vector];

            #[inline(always)]
            fn low(self) -> u32 {
                self as u32
            }
            #[inline(always)]
            fn parts(self) -> [u64; 2] {
                let $own = self;
                $parts
            }
            #[inline(always)]
            fn from_parts($given: [u64; 2]) -> Self {
                $from_parts
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                $word::wrapping_add(self, other)
            }
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                $word::wrapping_sub(self, other)
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                self >> by
            }
            #[inline(always)]
            fn significant_bits(self) -> u32 {
                let [low, high] = self.parts();
                let quarters = [low, low >> 32, high, high >> 32].map(|part| part as u32);
                let mut bits = 0;
                // Those that a narrow word does not have are known to be 0. Kernels count bits in 32-bit words.
                for (i, quarter) in quarters.into_iter().enumerate() {
                    if quarter != 0 {
                        bits = 32 * i as u32 + (32 - quarter.leading_zeros());
                    }
                }
                bits
            }
            #[inline(always)]
            fn truncate(wide: u64) -> Self {
                wide as $word
            }
        }
    };
}
word!(u32, 4, |word| [u64::from(word), 0], |parts| parts[0] as u32);
word!(u64, 2, |word| [word, 0], |parts| parts[0]);
word!(u128, 1, |word| [word as u64, (word >> 64) as u64], |parts| u128::from(parts[1]) << 64 | u128::from(parts[0]));

impl Word for u32 {
    type With<B: Word> = B::AfterU32;
    type AfterU32 = u64;

    #[inline(always)]
    fn high(self) -> u32 {
        0
    }
    #[inline(always)]
    fn from_halves(low: u32, _high: u32) -> Self {
        low
    }
    #[inline(always)]
    fn widen(self) -> u64 {
        u64::from(self)
    }
}

impl Word for u64 {
    type With<B: Word> = u128;
    type AfterU32 = u128;

    #[inline(always)]
    fn high(self) -> u32 {
        (self >> 32) as u32
    }
    #[inline(always)]
    fn from_halves(low: u32, high: u32) -> Self {
        u64::from(low) | u64::from(high) << 32
    }
    #[inline(always)]
    fn widen(self) -> u64 {
        self
    }
}

/// A key type: one of [`Key`], or of 128 bits: [`u128`], [`i128`], 16 bytes in their order as a string,
/// [`Bytes16`](crate::Bytes16), or a [`Composite`](crate::Composite) of two keys.
///
/// Kernels handle only unsigned words. A signed key is mapped to one by flipping its sign bit, which preserves the
/// order; the kernel does this when it loads a query and undoes it when it stores a key, so arrays of signed keys are
/// used in place, without a pass over them.
pub trait AnyKey: Pod + Copy + Ord + Hash + Debug + Display + Default + Send + Sync + sealed::Sealed + 'static {
    /// The word that kernels see.
    type Bits: KeyWord;
    /// Exclusive-or mask between the key's own bits and its order-preserving word.
    const FLIP: Self::Bits;
    /// The smallest key.
    const MIN: Self;
    /// The largest key.
    const MAX: Self;
    /// What the type is called: `"u32"`, `"i128"`, `"f64"`.
    const NAME: &'static str;

    /// The number of low bits in which keys of one group may differ. Of a [composite](crate::Composite) key, the bits
    /// of its second key; of other keys, which are all in one group, all bits.
    const GROUP_BITS: u32 = Self::Bits::BITS;

    /// Whether the difference of two words is the distance of their keys; it is not for floats.
    const HAS_DISTANCE: bool = true;

    /// The order-preserving word: `a < b` exactly if `a.encode() < b.encode()`.
    fn encode(self) -> Self::Bits;
    /// The inverse of [`AnyKey::encode`].
    fn decode(bits: Self::Bits) -> Self;
}

/// A key type of every index, of 32 or 64 bits: [`u32`], [`u64`], [`i32`], [`i64`], a float in total order, [`F32`](crate::F32) or
/// [`F64`](crate::F64), or a [`Composite`](crate::Composite) of two keys of 32 bits.
pub trait Key: AnyKey<Bits: Word> {}

impl<K: AnyKey<Bits: Word>> Key for K {}

macro_rules! key {
    ($key:ident, $bits:ident, $flip:expr) => {
        impl AnyKey for $key {
            type Bits = $bits;
            const FLIP: $bits = $flip;
            const MIN: Self = $key::MIN;
            const MAX: Self = $key::MAX;
            const NAME: &'static str = stringify!($key);

            #[inline(always)]
            fn encode(self) -> $bits {
                self as $bits ^ $flip
            }
            #[inline(always)]
            fn decode(bits: $bits) -> Self {
                (bits ^ $flip) as $key
            }
        }
    };
}

key!(u32, u32, 0);
key!(u64, u64, 0);
key!(i32, u32, 1 << 31);
key!(i64, u64, 1 << 63);
key!(u128, u128, 0);
key!(i128, u128, 1 << 127);

pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
    impl Sealed for u128 {}
    impl Sealed for i128 {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_is_preserved<K: AnyKey>(ascending: &[K]) {
        for pair in ascending.windows(2) {
            assert!(pair[0].encode() < pair[1].encode(), "{} < {}", pair[0], pair[1]);
        }
        for &key in ascending {
            assert_eq!(K::decode(key.encode()), key);
            let own = bytemuck::bytes_of(&key).to_owned();
            let flipped = key.encode().xor(K::FLIP);
            assert_eq!(own, bytemuck::bytes_of(&flipped), "the mask alone converts {key}");
        }
    }

    extern crate std;
    use std::borrow::ToOwned;

    #[test]
    fn encoding_preserves_the_order_of_every_key_type() {
        order_is_preserved(&[0u32, 1, u32::MAX - 1, u32::MAX]);
        order_is_preserved(&[0u64, 1, 1 << 32, u64::MAX]);
        order_is_preserved(&[i32::MIN, -2, -1, 0, 1, i32::MAX]);
        order_is_preserved(&[i64::MIN, -1 << 32, -1, 0, 1, 1 << 32, i64::MAX]);
        order_is_preserved(&[0u128, 1, 1 << 64, u128::MAX]);
        order_is_preserved(&[i128::MIN, -1 << 64, -1, 0, 1, 1 << 64, i128::MAX]);
    }

    #[test]
    fn halves_make_the_word_again() {
        assert_eq!(u64::from_halves(0x89ab_cdef, 0x0123_4567), 0x0123_4567_89ab_cdef);
        let word = 0x0123_4567_89ab_cdef_u64;
        assert_eq!(u64::from_halves(word.low(), word.high()), word);
        assert_eq!(u32::from_halves(7, 99), 7);
    }

    fn parts_make_the_word_again<W: KeyWord>(words: &[W]) {
        for &word in words {
            assert_eq!(W::from_parts(word.parts()), word);
            for (bits, ones) in (32..).step_by(32).zip(W::LOW_ONES) {
                assert_eq!(ones, W::MAX.shr(W::BITS.saturating_sub(bits)), "{bits} bits");
            }
            assert_eq!(word.wrapping_add(W::MAX).wrapping_sub(W::MAX), word);
            assert_eq!(W::truncate(word.parts()[0]).low(), word.low());
            let bits = (0..W::BITS).filter(|&by| word.shr(by) != W::MIN).count();
            assert_eq!(word.significant_bits(), bits as u32, "{word}");
            assert_eq!(word.shr(W::BITS - 1) == W::MIN, word <= W::MAX.shr(1), "{word}");
        }
    }

    #[test]
    fn words_of_every_width_are_their_parts() {
        parts_make_the_word_again(&[0_u32, 1, 1 << 31, u32::MAX]);
        parts_make_the_word_again(&[0_u64, 1, 1 << 32, 1 << 63, u64::MAX]);
        parts_make_the_word_again(&[0_u128, 1, 1 << 64, u128::from(u64::MAX), 1 << 127, u128::MAX]);
        assert_eq!((1_u128 << 64 | 7).parts(), [7, 1]);
    }
}
