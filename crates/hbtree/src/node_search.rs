//! The search of a node: how many of a line's separators are below a query (section 4.2, figure 3).

use crate::line::Line;
use core::fmt;
use lanetree_layout::Word;
#[cfg(target_arch = "x86_64")]
use lanetree_runtime::{Avx2, Avx512};
use lanetree_runtime::{Simd, SimdTask};

/// How the CPU searches a node. All find the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum NodeSearch {
    /// One separator after another, up to the first one that is not below the query: the paper's baseline.
    Sequential,
    /// All separators, without branches, by the vector instructions that the whole program was compiled for (SSE2 or
    /// NEON, unless it was told otherwise).
    Portable,
    /// All separators, in two halves of 32 bytes, by AVX2 (snippet 1).
    Linear,
    /// First those that part the line into equal runs, then one run, 16 bytes at a time, by AVX2 (snippet 2).
    Hierarchical,
    /// All separators at once, by AVX-512.
    Avx512,
}

impl NodeSearch {
    /// Every way, whether this CPU has it or not.
    pub const ALL: [Self; 5] = [Self::Sequential, Self::Portable, Self::Linear, Self::Hierarchical, Self::Avx512];

    /// The fastest search with the instructions that this CPU has.
    pub fn best() -> Self {
        [Self::Avx512, Self::Linear].into_iter().find(|way| way.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this CPU has it.
    pub fn is_available(self) -> bool {
        self.instructions().is_available()
    }

    /// What it takes.
    fn instructions(self) -> Simd {
        match self {
            Self::Sequential | Self::Portable => Simd::Portable,
            Self::Linear | Self::Hierarchical => Simd::Avx2,
            Self::Avx512 => Simd::Avx512,
        }
    }

    /// Calls `task` with this way, compiled for the instructions that it takes. With [`NodeSearch::Portable`], where this
    /// CPU has not got them.
    #[inline]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Out {
        self.instructions().run(Searching { way: self, task })
    }
}

/// A task with a way to search nodes.
struct Searching<T> {
    way: NodeSearch,
    task: T,
}

impl<T: Task> SimdTask for Searching<T> {
    type Out = T::Out;

    #[inline(always)]
    fn portable(self) -> T::Out {
        if self.way == NodeSearch::Sequential { self.task.run(Sequential) } else { self.task.run(Portable) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx2(self, simd: Avx2) -> T::Out {
        match self.way {
            NodeSearch::Hierarchical => self.task.run(x86::Hierarchical(simd)),
            _ => self.task.run(x86::Linear(simd)),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx512(self, simd: Avx512) -> T::Out {
        self.task.run(simd)
    }
}

impl fmt::Display for NodeSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequential => "sequential",
            Self::Portable => "portable",
            Self::Linear => "linear (AVX2)",
            Self::Hierarchical => "hierarchical (AVX2)",
            Self::Avx512 => "AVX-512",
        })
    }
}

/// A way to search a node. Its methods are inlined into code that was compiled for its instructions.
pub(crate) trait Below: Copy {
    /// How many separators of a line are below a word. They ascend.
    fn below<B: Word>(self, line: &Line, word: B) -> u32;
}

/// What is done with a way to search nodes.
pub(crate) trait Task {
    type Out;

    /// To be inlined: `#[inline(always)]`.
    fn run<S: Below>(self, search: S) -> Self::Out;
}

#[derive(Clone, Copy)]
struct Sequential;

impl Below for Sequential {
    #[inline(always)]
    fn below<B: Word>(self, line: &Line, word: B) -> u32 {
        let separators = line.words::<B>();
        separators.iter().position(|&separator| word <= separator).unwrap_or(separators.len()) as u32
    }
}

#[derive(Clone, Copy)]
struct Portable;

impl Below for Portable {
    #[inline(always)]
    fn below<B: Word>(self, line: &Line, word: B) -> u32 {
        line.words::<B>().iter().map(|&separator| u32::from(separator < word)).sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Below;
    use crate::line::Line;
    use core::arch::x86_64::*;
    use lanetree_layout::Word;
    use lanetree_runtime::{Avx2, Avx512, Compare};

    #[derive(Clone, Copy)]
    pub(super) struct Linear(pub(super) Avx2);

    #[derive(Clone, Copy)]
    pub(super) struct Hierarchical(pub(super) Avx2);

    impl Below for Linear {
        #[inline(always)]
        fn below<B: Word>(self, line: &Line, word: B) -> u32 {
            self.0.below(line.words::<B>(), word).count_ones()
        }
    }

    impl Below for Hierarchical {
        #[inline(always)]
        fn below<B: Word>(self, line: &Line, word: B) -> u32 {
            // SAFETY: words of the line; `self` proves that the CPU has the instructions.
            unsafe {
                if B::BITS == 64 {
                    let separators = line.words::<B>();
                    let sign = _mm_set1_epi64x(i64::MIN);
                    let query = _mm_xor_si128(_mm_set1_epi64x(word.widen() as i64), sign);
                    let below = |separators| {
                        let is_below = _mm_cmpgt_epi64(query, _mm_xor_si128(separators, sign));
                        (_mm_movemask_pd(_mm_castsi128_pd(is_below)) as u32).count_ones()
                    };
                    // Two boundaries part eight separators into runs of two.
                    let boundary = |i: usize| separators[i].widen() as i64;
                    let first = 3 * below(_mm_set_epi64x(boundary(5), boundary(2)));
                    let run = (&raw const *line).cast::<u64>().add(first as usize).cast::<__m128i>();
                    first + below(_mm_loadu_si128(run))
                } else {
                    let separators = line.words::<B>();
                    let sign = _mm_set1_epi32(i32::MIN);
                    let query = _mm_xor_si128(_mm_set1_epi32(word.low() as i32), sign);
                    let below = |separators| {
                        let is_below = _mm_cmpgt_epi32(query, _mm_xor_si128(separators, sign));
                        (_mm_movemask_ps(_mm_castsi128_ps(is_below)) as u32).count_ones()
                    };
                    // Three boundaries part sixteen separators into runs of four. The fourth lane holds the largest word,
                    // which is below no query.
                    let boundary = |i: usize| separators[i].low() as i32;
                    let first = 4 * below(_mm_set_epi32(-1, boundary(11), boundary(7), boundary(3)));
                    let run = (&raw const *line).cast::<u32>().add(first as usize).cast::<__m128i>();
                    first + below(_mm_load_si128(run))
                }
            }
        }
    }

    impl Below for Avx512 {
        #[inline(always)]
        fn below<B: Word>(self, line: &Line, word: B) -> u32 {
            Compare::below(self, line.words::<B>(), word).count_ones()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count<'a, B>(&'a Line, B);

    impl<B: Word> Task for Count<'_, B> {
        type Out = u32;

        #[inline(always)]
        fn run<S: Below>(self, search: S) -> u32 {
            search.below(self.0, self.1)
        }
    }

    fn finds<B: Word>() {
        let words = 64 / B::BYTES;
        // Below, at and above every separator; both ends of the words; and the middle, where a signed comparison fails.
        for first in [0, 1, (B::MAX.widen() >> 1) - 20, B::MAX.widen() - 10 * words as u64] {
            for used in 0..=words {
                let mut line = Line::ONES;
                for (i, separator) in line.words_mut::<B>()[..used].iter_mut().enumerate() {
                    *separator = B::truncate(first + 10 * i as u64);
                }
                let near = |&word: &B| [word.wrapping_add(B::MAX), word, word.wrapping_add(B::truncate(1))];
                let separators = line.words::<B>();
                let queries = separators.iter().flat_map(near).chain([B::MIN, B::MAX]);
                for word in queries {
                    let expected = separators.iter().filter(|&&separator| separator < word).count() as u32;
                    for way in NodeSearch::ALL {
                        assert_eq!(way.run(Count(&line, word)), expected, "{way}: {word} in {separators:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_way_finds_the_same() {
        finds::<u32>();
        finds::<u64>();
        assert!(NodeSearch::best().is_available());
    }
}
