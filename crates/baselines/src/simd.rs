//! Node search of the static trees: one trait, [`Vector`], is the only place that names instructions.

use lanetree_layout::Word;
#[cfg(target_arch = "x86_64")]
use lanetree_runtime::{Avx2, Avx512};
use lanetree_runtime::{Line, SimdTask};

/// Work that is compiled once per instruction set. `run`, and all that it calls with `simd`, is `#[inline(always)]`:
/// only then do the instructions become part of the one function that enables them.
pub(crate) trait Task {
    fn run<S: Vector>(self, simd: S);
}

/// A task, as what the instructions are chosen for.
pub(crate) struct Searching<T>(pub(crate) T);

impl<T: Task> SimdTask for Searching<T> {
    type Out = ();

    #[inline(always)]
    fn portable(self) {
        self.0.run(Portable);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx2(self, simd: Avx2) {
        self.0.run(simd);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx512(self, simd: Avx512) {
        self.0.run(simd);
    }
}

/// A machine's way to search a cache line. Words are sign-flipped (see [`crate::lines::flip`]) and compared as signed
/// ones, since AVX2 has no unsigned comparison.
pub(crate) trait Vector: Copy {
    /// How many words of a line are below `word`.
    fn rank<W: Word>(self, line: &Line, word: W) -> usize;

    /// The child that `word` leads to in a cache-line block of [FAST](crate::fast), whose layout is described there: the
    /// number of the block's keys below `word`, if the keys are in order.
    fn child<W: Word>(self, line: &Line, word: W) -> usize;

    /// Bit `i` is set exactly if word `i` of the line's first half equals `word`.
    fn hits<W: Word>(self, line: &Line, word: W) -> u32;
}

/// The baseline; a compiler may vectorise it.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Vector for Portable {
    #[inline(always)]
    fn rank<W: Word>(self, line: &Line, word: W) -> usize {
        if W::BITS == 32 {
            let word = word.low() as i32;
            line.array::<i32, 16>().iter().map(|&other| usize::from(other < word)).sum()
        } else {
            let word = word.widen() as i64;
            line.array::<i64, 8>().iter().map(|&other| usize::from(other < word)).sum()
        }
    }

    #[inline(always)]
    fn child<W: Word>(self, line: &Line, word: W) -> usize {
        if W::BITS == 32 {
            let (words, word) = (line.array::<i32, 16>(), word.low() as i32);
            // A block of three: its root, then the root's left and right child.
            let block = |first: usize| {
                let right = usize::from(words[first] < word);
                2 * right + usize::from(words[first + 1 + right] < word)
            };
            let top = block(0);
            4 * top + block(3 + 3 * top)
        } else {
            let (words, word) = (line.array::<i64, 8>(), word.widen() as i64);
            let right = usize::from(words[0] < word);
            let top = 2 * right + usize::from(words[1 + right] < word);
            2 * top + usize::from(words[3 + top] < word)
        }
    }

    #[inline(always)]
    fn hits<W: Word>(self, line: &Line, word: W) -> u32 {
        let bit = |(at, equal): (usize, bool)| u32::from(equal) << at;
        if W::BITS == 32 {
            let (words, word) = (line.array::<i32, 16>(), word.low() as i32);
            words[..8].iter().map(|&other| other == word).enumerate().map(bit).sum()
        } else {
            let (words, word) = (line.array::<i64, 8>(), word.widen() as i64);
            words[..4].iter().map(|&other| other == word).enumerate().map(bit).sum()
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Avx2, Avx512, Line, Vector, Word};
    use core::arch::x86_64::*;

    impl Vector for Avx2 {
        #[inline(always)]
        fn rank<W: Word>(self, line: &Line, word: W) -> usize {
            // SAFETY: `self` proves that the machine has AVX2; the two loads are the line's two halves, and a line is
            // aligned to 64 bytes.
            unsafe {
                let halves = line.as_ptr().cast::<__m256i>();
                let (low, high) = (_mm256_load_si256(halves), _mm256_load_si256(halves.add(1)));
                if W::BITS == 32 {
                    let word = _mm256_set1_epi32(word.low() as i32);
                    let below = _mm256_packs_epi32(_mm256_cmpgt_epi32(word, low), _mm256_cmpgt_epi32(word, high));
                    (_mm256_movemask_epi8(below).count_ones() / 2) as usize
                } else {
                    let word = _mm256_set1_epi64x(word.widen() as i64);
                    // A pack of 32-bit halves, which are both 0 or both -1: four mask bits per word.
                    let below = _mm256_packs_epi32(_mm256_cmpgt_epi64(word, low), _mm256_cmpgt_epi64(word, high));
                    (_mm256_movemask_epi8(below).count_ones() / 4) as usize
                }
            }
        }

        #[inline(always)]
        fn child<W: Word>(self, line: &Line, word: W) -> usize {
            // How many of a SIMD block's three keys are below the query; the fourth word is outside the block. FAST's
            // paper looks this number up by the mask, since processors had no POPCNT yet, which is 5 % faster.
            let below = |mask: i32| (mask & 0b111).count_ones() as usize;
            // SAFETY: `self` proves that the machine has AVX2. `below` is at most 3, so a load of 16 bytes starts at
            // word 0, 3, 6, 9 or 12 of 16; the load of 32 bytes at word 0 of 8, which is aligned.
            unsafe {
                if W::BITS == 32 {
                    let word = _mm_set1_epi32(word.low() as i32);
                    let block = |first: usize| {
                        let keys = _mm_loadu_si128(line.as_ptr().cast::<i32>().add(first).cast());
                        below(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(word, keys))))
                    };
                    let top = block(0);
                    4 * top + block(3 + 3 * top)
                } else {
                    let word = word.widen() as i64;
                    let keys = _mm256_load_si256(line.as_ptr().cast());
                    let greater = _mm256_cmpgt_epi64(_mm256_set1_epi64x(word), keys);
                    let top = below(_mm256_movemask_pd(_mm256_castsi256_pd(greater)));
                    2 * top + usize::from(line.array::<i64, 8>()[3 + top] < word)
                }
            }
        }

        #[inline(always)]
        fn hits<W: Word>(self, line: &Line, word: W) -> u32 {
            // SAFETY: `self` proves that the machine has AVX2; the load is the line's first half, which is aligned.
            unsafe {
                let keys = _mm256_load_si256(line.as_ptr().cast());
                if W::BITS == 32 {
                    let equal = _mm256_cmpeq_epi32(_mm256_set1_epi32(word.low() as i32), keys);
                    _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32
                } else {
                    let equal = _mm256_cmpeq_epi64(_mm256_set1_epi64x(word.widen() as i64), keys);
                    _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32
                }
            }
        }
    }

    impl Vector for Avx512 {
        #[inline(always)]
        fn rank<W: Word>(self, line: &Line, word: W) -> usize {
            // SAFETY: `self` proves that the machine has AVX-512F; the load is the whole line, which is aligned.
            unsafe {
                let keys = _mm512_load_si512(line.as_ptr().cast());
                if W::BITS == 32 {
                    _mm512_cmplt_epi32_mask(keys, _mm512_set1_epi32(word.low() as i32)).count_ones() as usize
                } else {
                    _mm512_cmplt_epi64_mask(keys, _mm512_set1_epi64(word.widen() as i64)).count_ones() as usize
                }
            }
        }

        /// The SIMD block is the whole line. The child's number is how many keys are below the query, whatever their
        /// order; the line's last word, which is no key, is never below one.
        #[inline(always)]
        fn child<W: Word>(self, line: &Line, word: W) -> usize {
            self.rank(line, word)
        }

        #[inline(always)]
        fn hits<W: Word>(self, line: &Line, word: W) -> u32 {
            self.avx2().hits(line, word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_runtime::Simd;

    struct Ranks<'a>(&'a [u64; 8], &'a [u64], &'a mut Vec<(usize, u32)>);

    impl Task for Ranks<'_> {
        #[inline(always)]
        fn run<S: Vector>(self, simd: S) {
            let mut line = Line::ONES;
            line.words_mut().copy_from_slice(self.0);
            for &word in self.1 {
                self.2.push((simd.rank(&line, word), simd.hits(&line, word)));
                self.2.push((simd.rank(&line, word as u32), simd.hits(&line, word as u32)));
            }
        }
    }

    #[test]
    fn every_available_instruction_set_ranks_alike() {
        let words = [i64::MIN, -7, -1, 0, 1, 1 << 32, i64::MAX - 1, i64::MAX].map(|word| word as u64);
        let queries: Vec<u64> = words.iter().flat_map(|&word| [word, word.wrapping_sub(1), word ^ 1 << 31]).collect();
        let mut expected = Vec::new();
        Simd::Portable.run(Searching(Ranks(&words, &queries, &mut expected)));
        assert_eq!(expected[0], (0, 1), "the smallest word is below none and equals the first");
        assert_eq!(expected[2 * 3 * 3].0, 3, "three words are below 0");
        for simd in Simd::ALL {
            let mut ranks = Vec::new();
            simd.run(Searching(Ranks(&words, &queries, &mut ranks)));
            assert_eq!(ranks, expected, "{simd:?}");
        }
    }
}
