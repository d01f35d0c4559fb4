//! The CPU's vector instructions: which there are, code that is compiled for each of them, and comparisons of the words of a line.

use crate::Line;
use lanetree_layout::KeyWord;

/// Vector instructions of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Simd {
    /// No instruction beyond the target's baseline.
    Portable,
    /// AVX2, with BMI1, BMI2 and POPCNT.
    Avx2,
    /// AVX-512F and AVX-512BW, in addition to the instructions of AVX2.
    Avx512,
}

impl Simd {
    /// All of them, narrowest first, whether this CPU has them or not.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Whether this CPU has them.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::new().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The widest vector instructions that this CPU has.
    pub fn detect() -> Self {
        *Self::ALL.iter().rfind(|simd| simd.is_available()).expect("`Portable` is always available")
    }

    /// Calls the task's function for these instructions, compiled for them; the portable one if this CPU lacks them.
    #[inline]
    pub fn run<T: SimdTask>(self, task: T) -> T::Out {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Portable => {}
            Self::Avx2 => {
                if let Some(simd) = Avx2::new() {
                    return simd.run(task);
                }
            }
            Self::Avx512 => {
                if let Some(simd) = Avx512::new() {
                    return simd.run(task);
                }
            }
        }
        task.portable()
    }
}

/// The widest of this CPU.
impl Default for Simd {
    fn default() -> Self {
        Self::detect()
    }
}

/// Work that is compiled once for each of [`Simd`]. Its functions, and all that they call with the proof, are
/// `#[inline(always)]`: only then do the instructions become part of the one function that enables them.
pub trait SimdTask {
    /// What comes out.
    type Out;

    /// For any CPU.
    fn portable(self) -> Self::Out;

    /// For a CPU with AVX2.
    #[cfg(target_arch = "x86_64")]
    fn avx2(self, simd: Avx2) -> Self::Out;

    /// For a CPU with AVX-512.
    #[cfg(target_arch = "x86_64")]
    fn avx512(self, simd: Avx512) -> Self::Out;
}

/// Proof that this CPU has AVX2, BMI1, BMI2 and POPCNT.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    fn new() -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        is_available.then_some(Self(()))
    }

    #[inline]
    fn run<T: SimdTask>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        fn compiled<T: SimdTask>(simd: Avx2, task: T) -> T::Out {
            task.avx2(simd)
        }
        // SAFETY: `self` proves that the CPU has these features.
        unsafe { compiled(self, task) }
    }
}

/// Proof that this CPU has AVX-512F, AVX-512BW and what [`Avx2`] proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx512(Avx2);

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    fn new() -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        if is_available { Avx2::new().map(Self) } else { None }
    }

    /// The proof that AVX2 is available, which AVX-512 implies.
    #[inline(always)]
    pub fn avx2(self) -> Avx2 {
        self.0
    }

    #[inline]
    fn run<T: SimdTask>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2,popcnt")]
        fn compiled<T: SimdTask>(simd: Avx512, task: T) -> T::Out {
            task.avx512(simd)
        }
        // SAFETY: `self` proves that the CPU has these features.
        unsafe { compiled(self, task) }
    }
}

/// Comparisons of the words of 64 bytes with a word, unsigned: bit `i` of the result is for word `i`. The bytes may lie
/// anywhere.
///
/// # Panics
/// For words of more or fewer bytes.
pub trait Compare: Copy {
    /// Which of `words` are less than `word`.
    fn below<W: KeyWord>(self, words: &[W], word: W) -> u32;

    /// Which of `words` are at most `word`.
    fn upto<W: KeyWord>(self, words: &[W], word: W) -> u32;

    /// Which of `words` equal `word`.
    fn equal<W: KeyWord>(self, words: &[W], word: W) -> u32;
}

/// `words` are 64 bytes in all.
#[inline(always)]
fn check<W>(words: &[W]) {
    assert_eq!(size_of_val(words), Line::BYTES);
}

/// The target's baseline; a compiler may vectorise it.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Portable {
    #[inline(always)]
    fn which<W: KeyWord>(words: &[W], is_one: impl Fn(W) -> bool) -> u32 {
        check(words);
        words.iter().enumerate().map(|(i, &word)| u32::from(is_one(word)) << i).sum()
    }
}

impl Compare for Portable {
    #[inline(always)]
    fn below<W: KeyWord>(self, words: &[W], word: W) -> u32 {
        Self::which(words, |other: W| other < word)
    }

    #[inline(always)]
    fn upto<W: KeyWord>(self, words: &[W], word: W) -> u32 {
        Self::which(words, |other: W| other <= word)
    }

    #[inline(always)]
    fn equal<W: KeyWord>(self, words: &[W], word: W) -> u32 {
        Self::which(words, |other: W| other == word)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Avx2, Avx512, Compare, KeyWord, Portable, check};
    use core::arch::x86_64::*;

    impl Avx2 {
        /// The words of 32 bits above which a word is; or, with `SWAPPED`, that are above it.
        #[inline(always)]
        fn order<W: KeyWord, const SWAPPED: bool>(self, words: &[W], word: W) -> u32 {
            check(words);
            let at = words.as_ptr().cast::<__m256i>();
            // SAFETY: both halves of 64 bytes; `self` proves that the CPU has the instructions.
            unsafe {
                let halves = [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))];
                // Comparisons are signed: both sides are moved to the signed range.
                if W::BITS == 64 {
                    let sign = _mm256_set1_epi64x(i64::MIN);
                    let word = _mm256_xor_si256(_mm256_set1_epi64x(word.parts()[0] as i64), sign);
                    let [a, b] = halves.map(|half| match (SWAPPED, _mm256_xor_si256(half, sign)) {
                        (false, half) => _mm256_cmpgt_epi64(word, half),
                        (true, half) => _mm256_cmpgt_epi64(half, word),
                    });
                    bits64([a, b])
                } else {
                    let sign = _mm256_set1_epi32(i32::MIN);
                    let word = _mm256_xor_si256(_mm256_set1_epi32(word.low() as i32), sign);
                    let [a, b] = halves.map(|half| match (SWAPPED, _mm256_xor_si256(half, sign)) {
                        (false, half) => _mm256_cmpgt_epi32(word, half),
                        (true, half) => _mm256_cmpgt_epi32(half, word),
                    });
                    bits32([a, b])
                }
            }
        }
    }

    /// The masks' bits, one for each 64.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn bits64(halves: [__m256i; 2]) -> u32 {
        // SAFETY: the CPU has the instructions.
        let [a, b] = halves.map(|half| unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(half)) } as u32);
        a | b << 4
    }

    /// The masks' bits, one for each 32.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn bits32(halves: [__m256i; 2]) -> u32 {
        // SAFETY: the CPU has the instructions.
        let [a, b] = halves.map(|half| unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(half)) } as u32);
        a | b << 8
    }

    // Words of 128 bits are four to a line, which the CPU compares as fast one by one.
    impl Compare for Avx2 {
        #[inline(always)]
        fn below<W: KeyWord>(self, words: &[W], word: W) -> u32 {
            if W::BITS == 128 {
                return Portable.below(words, word);
            }
            self.order::<W, false>(words, word)
        }

        #[inline(always)]
        fn upto<W: KeyWord>(self, words: &[W], word: W) -> u32 {
            if W::BITS == 128 {
                return Portable.upto(words, word);
            }
            self.order::<W, true>(words, word) ^ ((1 << words.len()) - 1)
        }

        #[inline(always)]
        fn equal<W: KeyWord>(self, words: &[W], word: W) -> u32 {
            if W::BITS == 128 {
                return Portable.equal(words, word);
            }
            check(words);
            let at = words.as_ptr().cast::<__m256i>();
            // SAFETY: both halves of 64 bytes; `self` proves that the CPU has the instructions.
            unsafe {
                let halves = [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))];
                if W::BITS == 64 {
                    let word = _mm256_set1_epi64x(word.parts()[0] as i64);
                    bits64(halves.map(|half| _mm256_cmpeq_epi64(half, word)))
                } else {
                    let word = _mm256_set1_epi32(word.low() as i32);
                    bits32(halves.map(|half| _mm256_cmpeq_epi32(half, word)))
                }
            }
        }
    }

    /// A comparison by AVX-512 of all words at once, by the intrinsics for either width.
    macro_rules! compare512 {
        ($words:expr, $word:expr, $of_64:ident, $of_32:ident) => {{
            check($words);
            // SAFETY: 64 bytes; the proof that the CPU has the instructions is the caller's `self`.
            unsafe {
                let words = _mm512_loadu_si512($words.as_ptr().cast());
                if W::BITS == 64 {
                    u32::from($of_64(words, _mm512_set1_epi64($word.parts()[0] as i64)))
                } else {
                    u32::from($of_32(words, _mm512_set1_epi32($word.low() as i32)))
                }
            }
        }};
    }

    impl Compare for Avx512 {
        #[inline(always)]
        fn below<W: KeyWord>(self, words: &[W], word: W) -> u32 {
            if W::BITS == 128 {
                return Portable.below(words, word);
            }
            compare512!(words, word, _mm512_cmplt_epu64_mask, _mm512_cmplt_epu32_mask)
        }

        #[inline(always)]
        fn upto<W: KeyWord>(self, words: &[W], word: W) -> u32 {
            if W::BITS == 128 {
                return Portable.upto(words, word);
            }
            compare512!(words, word, _mm512_cmple_epu64_mask, _mm512_cmple_epu32_mask)
        }

        #[inline(always)]
        fn equal<W: KeyWord>(self, words: &[W], word: W) -> u32 {
            if W::BITS == 128 {
                return Portable.equal(words, word);
            }
            compare512!(words, word, _mm512_cmpeq_epu64_mask, _mm512_cmpeq_epu32_mask)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Which;

    impl SimdTask for Which {
        type Out = Simd;

        #[inline(always)]
        fn portable(self) -> Simd {
            Simd::Portable
        }

        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn avx2(self, _: Avx2) -> Simd {
            Simd::Avx2
        }

        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn avx512(self, _: Avx512) -> Simd {
            Simd::Avx512
        }
    }

    #[test]
    fn a_task_runs_with_the_instructions_asked_for_if_the_cpu_has_them() {
        for simd in Simd::ALL {
            assert_eq!(simd.run(Which), if simd.is_available() { simd } else { Simd::Portable });
        }
        assert!(Simd::detect().is_available());
    }

    struct Masks<'a, W>(&'a [W], W);

    impl<W: KeyWord> Masks<'_, W> {
        #[inline(always)]
        fn all(self, simd: impl Compare) -> [u32; 3] {
            [simd.below(self.0, self.1), simd.upto(self.0, self.1), simd.equal(self.0, self.1)]
        }
    }

    impl<W: KeyWord> SimdTask for Masks<'_, W> {
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

    fn compares<W: KeyWord>() {
        let mut line = Line::ONES;
        // In no order; both ends, and the middle, where a signed comparison fails.
        let (middle, one) = (W::MAX.shr(1), W::truncate(1));
        let special = [
            middle.wrapping_add(one),
            W::MIN,
            W::MAX,
            W::truncate(7),
            middle,
            W::truncate(8),
            W::MAX.wrapping_sub(one),
            one,
        ];
        for (i, word) in line.words_mut::<W>().iter_mut().enumerate() {
            *word = special[i % 8];
        }
        let words = line.words::<W>();
        let near = |&word: &W| [word.wrapping_add(W::MAX), word, word.wrapping_add(W::truncate(1))];
        for word in words.iter().flat_map(near) {
            let which = |is_one: &dyn Fn(W) -> bool| {
                words.iter().enumerate().filter(|(_, other)| is_one(**other)).map(|(i, _)| 1 << i).sum::<u32>()
            };
            let expected = [which(&|other| other < word), which(&|other| other <= word), which(&|other| other == word)];
            for simd in Simd::ALL {
                assert_eq!(simd.run(Masks(words, word)), expected, "{simd:?}: {word} in {words:?}");
            }
        }
    }

    #[test]
    fn all_instructions_compare_alike() {
        compares::<u32>();
        compares::<u64>();
        compares::<u128>();
    }
}
