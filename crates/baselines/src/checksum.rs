//! Checksums over the outputs of a batch.

use core::fmt;
use lanetree_base::parallel::*;
use lanetree_layout::Word;

/// What a benchmark keeps of an output: enough to compare runs, backends and machines by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// Of all elements, wrapping.
    pub sum: u64,
    /// Of each element times twice its index plus one, wrapping: it knows the order.
    pub weighted: u64,
    /// The elements that equal the sentinel for a miss.
    pub misses: u64,
}

/// As records have it.
///
/// ```
/// let checksum = lanetree_baselines::Checksum { sum: 1, weighted: u64::MAX, misses: 3 };
/// assert_eq!(checksum.to_string(), "0000000000000001-ffffffffffffffff-3");
/// ```
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}-{}", self.sum, self.weighted, self.misses)
    }
}

impl Checksum {
    /// Of `values`, the first of which has index `first`. Runs on rayon's threads.
    ///
    /// ```
    /// use lanetree_baselines::Checksum;
    ///
    /// let whole = Checksum::of(&[3_u32, 9, 4], 9, 0);
    /// assert_eq!(whole, Checksum { sum: 16, weighted: 3 + 3 * 9 + 5 * 4, misses: 1 });
    /// assert_eq!(whole, Checksum::of(&[3_u32], 9, 0).and(Checksum::of(&[9_u32, 4], 9, 1)));
    /// ```
    pub fn of<W: Word>(values: &[W], miss: W, first: u64) -> Self {
        const PIECE: usize = 1 << 14;
        let pieces = values.par_chunks(PIECE).enumerate();
        let sums = pieces.map(|(piece, values)| {
            let first = first + (piece * PIECE) as u64;
            values.iter().enumerate().fold(Self::default(), |sums, (i, &value)| {
                let weight = 2 * (first + i as u64) + 1;
                sums.and(Self {
                    sum: value.widen(),
                    weighted: value.widen().wrapping_mul(weight),
                    misses: u64::from(value == miss),
                })
            })
        });
        sums.reduce(Self::default, Self::and)
    }

    /// The checksum of both parts together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum.wrapping_add(other.sum),
            weighted: self.weighted.wrapping_add(other.weighted),
            misses: self.misses + other.misses,
        }
    }
}
