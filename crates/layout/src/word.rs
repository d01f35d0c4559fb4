//! Machine words of a kernel, and the key and value types based on them.

use crate::KernelArgs;
use bytemuck::Pod;
use core::fmt::{Debug, Display};
use core::hash::Hash;

/// A 32- or 64-bit unsigned word: what kernels compare, move and store.
///
/// Sealed: implemented for [`u32`] and [`u64`] only, since every kernel is compiled for these two.
pub trait Word: Pod + KernelArgs + Ord + Eq + Hash + Debug + Display + Default + sealed::Sealed {
    /// Bits of the word: 32 or 64.
    const BITS: u32;
    /// Bytes of the word: 4 or 8.
    const BYTES: usize;
    /// The smallest word.
    const MIN: Self;
    /// The largest word, which pads the unused separators of inner nodes.
    const MAX: Self;
    /// `"u32"` or `"u64"`: the word's part of a kernel's symbol.
    const NAME: &'static str;
    /// Words in 16 bytes, the widest access of one lane: 4 or 2.
    const PER_VECTOR: usize;
    /// 16 bytes of words.
    type Vector: Pod + Copy + AsRef<[Self]> + Default;

    /// The word's low 32 bits.
    fn low(self) -> u32;
    /// The word's high 32 bits; 0 for [`u32`].
    fn high(self) -> u32;
    /// The word with these halves; `high` is ignored by [`u32`].
    fn from_halves(low: u32, high: u32) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// `self + other`, wrapping around.
    fn wrapping_add(self, other: Self) -> Self;
    /// Zero-extends to 64 bits.
    fn widen(self) -> u64;
    /// The low bits of a 64-bit word.
    fn truncate(wide: u64) -> Self;
}

impl Word for u32 {
    const BITS: u32 = 32;
    const BYTES: usize = 4;
    const MIN: Self = 0;
    const MAX: Self = u32::MAX;
    const NAME: &'static str = "u32";
    const PER_VECTOR: usize = 4;
    type Vector = [u32; 4];

    #[inline(always)]
    fn low(self) -> u32 {
        self
    }
    #[inline(always)]
    fn high(self) -> u32 {
        0
    }
    #[inline(always)]
    fn from_halves(low: u32, _high: u32) -> Self {
        low
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn wrapping_add(self, other: Self) -> Self {
        u32::wrapping_add(self, other)
    }
    #[inline(always)]
    fn widen(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn truncate(wide: u64) -> Self {
        wide as u32
    }
}

impl Word for u64 {
    const BITS: u32 = 64;
    const BYTES: usize = 8;
    const MIN: Self = 0;
    const MAX: Self = u64::MAX;
    const NAME: &'static str = "u64";
    const PER_VECTOR: usize = 2;
    type Vector = [u64; 2];

    #[inline(always)]
    fn low(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn high(self) -> u32 {
        (self >> 32) as u32
    }
    #[inline(always)]
    fn from_halves(low: u32, high: u32) -> Self {
        u64::from(low) | u64::from(high) << 32
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn wrapping_add(self, other: Self) -> Self {
        u64::wrapping_add(self, other)
    }
    #[inline(always)]
    fn widen(self) -> u64 {
        self
    }
    #[inline(always)]
    fn truncate(wide: u64) -> Self {
        wide
    }
}

/// A key type of the indexes: [`u32`], [`u64`], [`i32`], [`i64`], or a float in total order, [`F32`](crate::F32) or
/// [`F64`](crate::F64).
///
/// Kernels handle only unsigned words. A signed key is mapped to one by flipping its sign bit, which preserves the
/// order; the kernel does this when it loads a query and undoes it when it stores a key, so arrays of signed keys are
/// used in place, without a pass over them.
pub trait Key: Pod + Copy + Ord + Hash + Debug + Display + Default + Send + Sync + sealed::Sealed + 'static {
    /// The word that kernels see.
    type Bits: Word;
    /// Exclusive-or mask between the key's own bits and its order-preserving word.
    const FLIP: Self::Bits;
    /// The smallest key.
    const MIN: Self;
    /// The largest key.
    const MAX: Self;
    /// `"u32"`, `"u64"`, `"i32"`, `"i64"`, `"f32"` or `"f64"`.
    const NAME: &'static str;

    /// The order-preserving word: `a < b` exactly if `a.encode() < b.encode()`.
    fn encode(self) -> Self::Bits;
    /// The inverse of [`Key::encode`].
    fn decode(bits: Self::Bits) -> Self;
}

macro_rules! key {
    ($key:ident, $bits:ident, $flip:expr) => {
        impl Key for $key {
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

pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_is_preserved<K: Key>(ascending: &[K]) {
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
    }

    #[test]
    fn halves_make_the_word_again() {
        assert_eq!(u64::from_halves(0x89ab_cdef, 0x0123_4567), 0x0123_4567_89ab_cdef);
        let word = 0x0123_4567_89ab_cdef_u64;
        assert_eq!(u64::from_halves(word.low(), word.high()), word);
        assert_eq!(u32::from_halves(7, 99), 7);
    }
}
