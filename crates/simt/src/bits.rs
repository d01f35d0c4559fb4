//! Bit positions in 64-bit words: the only bit counts of other than 32-bit words that device code uses.
//!
//! rust-cuda's code generator miscompiles `trailing_zeros`, `leading_zeros` and `count_ones` of words of 8, 16, 64 and 128
//! bits (upstream issue 401): the results of 64 bits overwrite the memory next to a `u32`. What `core` builds on them is wrong too (`is_power_of_two`,
//! `ilog2`). So kernels count bits only in `u32`s, and call these functions for the rest. Clippy enforces that in
//! device code (`clippy.toml` in this crate's folder and in the folders of layout and of the kernels), and
//! `cargo xtask ptx --codegen nvvm` rejects PTX with such a count.
#![cfg_attr(
    not(feature = "cuda_std"),
    expect(clippy::disallowed_methods, reason = "the one place; rustc's code generator has them right")
)]

/// The position of the lowest set bit; 64 if no bit is set.
#[inline(always)]
pub const fn lowest_one(word: u64) -> u32 {
    #[cfg(not(feature = "cuda_std"))]
    return word.trailing_zeros();
    #[cfg(feature = "cuda_std")]
    by_halves::lowest_one(word)
}

/// The position of the highest set bit of a word that is not 0.
#[inline(always)]
pub const fn highest_one(word: u64) -> u32 {
    debug_assert!(word != 0);
    #[cfg(not(feature = "cuda_std"))]
    return 63 - word.leading_zeros();
    #[cfg(feature = "cuda_std")]
    by_halves::highest_one(word)
}

/// The word shifted to the left; 0 by 32 bits or more. On hardware one instruction, where LLVM would add a comparison and a
/// selection.
#[inline(always)]
pub fn shl_clamped(word: u32, by: u32) -> u32 {
    #[cfg(not(target_os = "cuda"))]
    return word.unbounded_shl(by);
    #[cfg(target_os = "cuda")]
    {
        let shifted: u32;
        // SAFETY: arithmetic.
        unsafe {
            core::arch::asm!(
                "shl.b32 {0}, {1}, {2};",
                out(reg32) shifted, in(reg32) word, in(reg32) by, options(pure, nomem, nostack)
            );
        }
        shifted
    }
}

/// The same with 32-bit counts.
#[cfg(any(feature = "cuda_std", test))]
mod by_halves {
    #[inline(always)]
    pub(super) const fn lowest_one(word: u64) -> u32 {
        let (low, high) = (word as u32, (word >> 32) as u32);
        if low != 0 { low.trailing_zeros() } else { 32 + high.trailing_zeros() }
    }

    #[inline(always)]
    pub(super) const fn highest_one(word: u64) -> u32 {
        let (low, high) = (word as u32, (word >> 32) as u32);
        if high != 0 { 63 - high.leading_zeros() } else { 31 - low.leading_zeros() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_shifted_out() {
        assert_eq!([0, 1, 31, 32, 33, u32::MAX].map(|by| shl_clamped(3, by)), [3, 6, 1 << 31, 0, 0, 0]);
    }

    #[test]
    fn places_of_bits_are_found_whole_and_by_halves() {
        for low in 0..64 {
            for high in low..64 {
                // Between the two, and beyond them on the side that does not count, any bits will do.
                let word = 1 << low | 1 << high;
                let (above, below) = (u64::MAX << low, u64::MAX >> (63 - high));
                for word in [word, above] {
                    assert_eq!([lowest_one(word), by_halves::lowest_one(word)], [low; 2], "{word:#x}");
                }
                for word in [word, below] {
                    assert_eq!([highest_one(word), by_halves::highest_one(word)], [high; 2], "{word:#x}");
                }
            }
        }
        assert_eq!([lowest_one(0), by_halves::lowest_one(0)], [64; 2]);
    }
}
