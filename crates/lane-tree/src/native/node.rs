//! How many children of a node begin at or before a key, by the instructions that the CPU has.

#[cfg(target_arch = "x86_64")]
use lanetree_kernels_lane_tree::layout::HALVES_CHILDREN;
use lanetree_kernels_lane_tree::layout::{
    CELLS, FIRST_CHILD, Format, QUANTISER, Quantiser, SEPARATORS, UNUSED_HALF, begun_in_halves,
};
use lanetree_layout::KeyWord;
#[cfg(target_arch = "x86_64")]
use lanetree_runtime::{Avx2, Avx512};
use lanetree_runtime::{Compare, Line, Portable};

/// The counts of the three formats. The methods are inlined into code that was compiled for their instructions.
pub(super) trait Count: Compare {
    /// The cells with a child that are not after a cell.
    #[inline(always)]
    fn in_bitmap(self, node: &Line, cell: u32) -> u32 {
        /// From each of its first positions on, whole words that are counted, then none.
        const WHOLE: [u64; 2 * WORDS] = {
            let mut masks = [0; 2 * WORDS];
            let mut word = 0;
            while word < WORDS {
                masks[word] = u64::MAX;
                word += 1;
            }
            masks
        };
        const WORDS: usize = CELLS as usize / 64;
        let words = &node.array::<u64, 8>();
        let (last, bit) = ((cell / 64) as usize, cell % 64);
        let mut count = (words[last] & u64::MAX >> (63 - bit)).count_ones();
        // The last word is never a whole one.
        for (word, whole) in words.iter().zip(&WHOLE[WORDS - last..]).take(WORDS - 1) {
            count += (word & whole).count_ones();
        }
        count
    }

    /// The separators that are not above a quantised key.
    fn in_halves(self, node: &Line, quantised: u32) -> u32;

    /// The separators below a word.
    #[inline(always)]
    fn in_exact<K: KeyWord>(self, node: &Line, word: K) -> u32 {
        (self.below(node.words::<K>(), word) & ((1 << (SEPARATORS * 32 / K::BITS)) - 1)).count_ones()
    }

    /// The node's child for a word: its number, and the number of children before it. `first` is at most the first key
    /// of the node; without it the word is in the node, or nothing but its absence is to be seen.
    #[inline(always)]
    fn child<K: KeyWord>(self, node: &Line, word: K, first: Option<K>) -> (u32, u32) {
        let words = node.array::<u32, 16>();
        let quantiser = Quantiser(words[QUANTISER as usize]);
        let quantised = |of_own: u32| first.map_or(of_own, |first| quantiser.quantise_any(word, first));
        let begun = match quantiser.format() {
            Format::Bitmap => self.in_bitmap(node, quantised(quantiser.cell(word))),
            Format::Halves => self.in_halves(node, quantised(quantiser.half(word))),
            Format::Exact => self.in_exact(node, word),
        };
        (words[FIRST_CHILD as usize] + begun, begun)
    }
}

impl Count for Portable {
    #[inline(always)]
    fn in_halves(self, node: &Line, quantised: u32) -> u32 {
        let mut words = *node.array::<u32, 16>();
        // The last two words are not separators.
        words[SEPARATORS as usize..].fill(UNUSED_HALF | UNUSED_HALF << 16);
        words.as_chunks::<4>().0.iter().map(|&four| begun_in_halves(four, quantised)).sum()
    }
}

/// Bits of the separators in a mask of 32 halves.
#[cfg(target_arch = "x86_64")]
const HALVES: u32 = (1 << (HALVES_CHILDREN - 1)) - 1;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Avx2, Avx512, Count, HALVES, Line};
    use core::arch::x86_64::*;

    impl Count for Avx2 {
        #[inline(always)]
        fn in_halves(self, node: &Line, quantised: u32) -> u32 {
            // SAFETY: both halves of an aligned bucket; `self` proves that the CPU has the instructions.
            unsafe {
                let at = node.as_ptr().cast::<__m256i>();
                let quantised = _mm256_set1_epi16(quantised as i16);
                // Separators have 15 bits.
                let above = |at| _mm256_cmpgt_epi16(_mm256_load_si256(at), quantised);
                // Packed by 16 bytes: the halves of 0 to 7, 16 to 23, 8 to 15, 24 to 31.
                let above = _mm256_movemask_epi8(_mm256_packs_epi16(above(at), above(at.add(1)))) as u32;
                (!above & 0x0fff_ffff).count_ones()
            }
        }
    }

    impl Count for Avx512 {
        #[inline(always)]
        fn in_halves(self, node: &Line, quantised: u32) -> u32 {
            // SAFETY: an aligned bucket; `self` proves that the CPU has the instructions.
            let begun = unsafe {
                _mm512_cmple_epu16_mask(_mm512_load_si512(node.as_ptr().cast()), _mm512_set1_epi16(quantised as i16))
            };
            (begun & HALVES).count_ones()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_runtime::{Simd, SimdTask};

    /// The counts of all formats: the words of a node, the same with separators of 15 bits, a quantised key, a word.
    struct Counts<'a, K>([&'a Line; 2], u32, K);

    impl<K: KeyWord> Counts<'_, K> {
        #[inline(always)]
        fn all(self, simd: impl Count) -> [u32; 3] {
            let Self([node, halves], quantised, word) = self;
            [simd.in_bitmap(node, quantised % CELLS), simd.in_halves(halves, quantised), simd.in_exact(node, word)]
        }
    }

    impl<K: KeyWord> SimdTask for Counts<'_, K> {
        type Out = [u32; 3];

        #[inline(always)]
        fn portable(self) -> [u32; 3] {
            self.all(Portable)
        }

        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn avx2(self, simd: Avx2) -> [u32; 3] {
            self.all(simd)
        }

        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn avx512(self, simd: Avx512) -> [u32; 3] {
            self.all(simd)
        }
    }

    fn counts<K: KeyWord>() {
        for (seed, mask) in [u32::MAX, 0x00ff_00ff, 0x0001_0000].into_iter().enumerate() {
            let mut node = Line::ONES;
            for (i, word) in node.words_mut::<u32>().iter_mut().enumerate() {
                *word = ((seed * 16 + i + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).low() & mask;
            }
            let mut halves = node;
            halves.words_mut::<u32>().iter_mut().for_each(|word| *word &= 0x7fff_7fff);
            let used = SEPARATORS as usize;
            let cells = |cell: u32| node.words::<u32>()[(cell / 32) as usize] >> (cell % 32) & 1;
            let keys = &node.words::<K>()[..used * 4 / K::BYTES];
            for (i, quantised) in (0..CELLS).chain((0..UNUSED_HALF).step_by(7)).enumerate() {
                let word = keys[i % keys.len()].wrapping_add(K::truncate(i as u64 % 3)).wrapping_add(K::MAX);
                let expected = [
                    (0..=quantised % CELLS).map(cells).sum(),
                    halves.words::<u16>()[..2 * used].iter().filter(|&&half| u32::from(half) <= quantised).count()
                        as u32,
                    keys.iter().filter(|&&key| key < word).count() as u32,
                ];
                for simd in Simd::ALL {
                    let counts = simd.run(Counts([&node, &halves], quantised, word));
                    assert_eq!(counts, expected, "{simd:?}: {quantised}, {word} in {node:?}");
                }
            }
        }
    }

    #[test]
    fn all_instructions_count_alike() {
        counts::<u32>();
        counts::<u64>();
    }
}
