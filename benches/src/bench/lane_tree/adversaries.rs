//! Key sets that are made to defeat an index which tells keys apart by a few of their bits.

use crate::bench::data::{Data, mix};
use lanetree_base::parallel::*;

/// A key set with a defect, of 64-bit keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adversary {
    /// All bits are equal but for the last ones; one key in four is there.
    LastBits,
    /// Half of the keys at each end of the key space, every second one.
    TwoEnds,
    /// The 64 powers of two.
    PowersOfTwo,
    /// All numbers with two or three set bits.
    TwoOrThreeBits,
    /// The numbers with the fewest set bits.
    FewestBits,
    /// Groups of this number of keys; between the bits that tell groups apart and those that tell a group's keys apart,
    /// all are 0.
    Window(usize),
    /// Gaps of 1, 2, 4 and so on, up to 2^39 or as large as there is room for; then from 1 again.
    DoublingGaps,
}

/// Most gaps that double before they begin at 1 again.
const MOST_GAPS: u32 = 40;

impl Adversary {
    /// All of them. Groups of 2^13 keys are many nodes each, groups of 5 about a bucket. Groups of 17 take LaneTree the
    /// most bytes of all up to 300: each needs a fifth bucket for its last key.
    pub(crate) const ALL: [Self; 9] = [
        Self::LastBits,
        Self::TwoEnds,
        Self::PowersOfTwo,
        Self::TwoOrThreeBits,
        Self::FewestBits,
        Self::Window(1 << 13),
        Self::Window(17),
        Self::Window(5),
        Self::DoublingGaps,
    ];

    /// What tables call it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::LastBits => "equal but for the last bits".into(),
            Self::TwoEnds => "two clusters at the ends".into(),
            Self::PowersOfTwo => "powers of two".into(),
            Self::TwoOrThreeBits => "two or three set bits".into(),
            Self::FewestBits => "fewest set bits".into(),
            Self::Window(group) => format!("window of equal bits, groups of {group}"),
            Self::DoublingGaps => "gaps that double".into(),
        }
    }

    /// `len` keys, a power of two; fewer if there are no more.
    pub(crate) fn keys(self, len: usize, seed: u64) -> Data<u64> {
        let any = |at: usize, of: u64| mix(seed ^ at as u64) % of;
        let each = |key: &(dyn Fn(usize) -> u64 + Sync)| (0..len).into_par_iter().map(key).collect();
        let keys = match self {
            Self::LastBits => {
                let last = 4 * len as u64 - 1;
                each(&|at| mix(seed) & !last | (4 * at as u64 + any(at, 4)))
            }
            Self::TwoEnds => each(&|at| match at < len / 2 {
                true => 2 * at as u64 + any(at, 2),
                false => u64::MAX - 2 * (len - 1 - at) as u64 - any(at, 2),
            }),
            Self::PowersOfTwo => with_bits(1..=1, len),
            Self::TwoOrThreeBits => with_bits(2..=3, len),
            Self::FewestBits => with_bits(1..=64, len),
            Self::Window(group) => {
                // One key in eight is there.
                let bits = usize::BITS - (len.div_ceil(group) - 1).leading_zeros();
                each(&|at| {
                    let above = ((at / group) as u64).checked_shl(64 - bits).unwrap_or(0);
                    above | (8 * (at % group) as u64 + any(at, 8))
                })
            }
            Self::DoublingGaps => {
                let cycles = (len / MOST_GAPS as usize).max(1);
                let gaps = MOST_GAPS.min(63 - cycles.ilog2());
                each(&|at| {
                    let (cycle, gap) = (at as u64 / u64::from(gaps), at as u64 % u64::from(gaps));
                    cycle << gaps | 1 << gap
                })
            }
        };
        Data::distinct(keys, self.name())
    }
}

/// The first `len` numbers that have `counts` set bits: by the number of set bits, then ascending.
fn with_bits(counts: core::ops::RangeInclusive<u32>, len: usize) -> Vec<u64> {
    let mut keys = Vec::with_capacity(len);
    for count in counts {
        let mut next = Some(u64::MAX >> (64 - count));
        while let Some(key) = next {
            if keys.len() == len {
                return keys;
            }
            keys.push(key);
            // The next number with the same count: the lowest run of ones gives one bit to the left, the others move down.
            let lowest = key & key.wrapping_neg();
            next = key.checked_add(lowest).map(|moved| moved | (((moved ^ key) >> 2) / lowest));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_its_keys() {
        for adversary in Adversary::ALL {
            let keys = adversary.keys(1 << 16, 7).keys;
            let expected = match adversary {
                Adversary::PowersOfTwo => 64,
                Adversary::TwoOrThreeBits => 64 * 63 / 2 + 64 * 63 * 62 / 6,
                _ => 1 << 16,
            };
            assert_eq!(keys.len(), expected, "{adversary:?}");
            assert!(keys.is_sorted_by(|a, b| a < b), "{adversary:?}");
            let differing = keys.iter().fold(0, |bits, key| bits | key ^ keys[0]);
            match adversary {
                Adversary::LastBits => assert!(differing < 1 << 18),
                Adversary::TwoEnds => assert!(keys[expected / 2 - 1] < 1 << 16 && keys[expected / 2] > !0 - (1 << 16)),
                Adversary::PowersOfTwo => assert!(keys.iter().all(|key| key.is_power_of_two())),
                Adversary::TwoOrThreeBits => assert!(keys.iter().all(|key| [2, 3].contains(&key.count_ones()))),
                // 64 + 2016 + 41664 have fewer.
                Adversary::FewestBits => assert_eq!(keys.iter().map(|key| key.count_ones()).max(), Some(4)),
                Adversary::Window(_) => assert!((16..48).all(|bit| differing >> bit & 1 == 0), "{differing:x}"),
                Adversary::DoublingGaps => {
                    let gaps: Vec<u64> = keys[..40].windows(2).map(|pair| pair[1] - pair[0]).collect();
                    assert!(gaps.iter().enumerate().all(|(i, &gap)| gap == 1 << i), "{gaps:?}");
                }
            }
        }
    }
}
