//! What cases are made of: distributions of keys, and values. All of it follows from a seed.

use lanetree::{AnyKey, KeyWord, Word};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

/// What cases are drawn from: the same on every machine and in every release, and small where it is inlined into what is not
/// optimised.
pub(crate) type Random = Xoshiro256PlusPlus;

/// How the keys of a tree's input lie in the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Distribution {
    /// Anywhere, each as likely.
    Uniform,
    /// Runs of neighbours, far from each other.
    Clustered,
    /// One key, again and again.
    AllEqual,
    /// Both ends of the key space, its middle, and between them anything.
    Extremes,
    /// Each key about four times, with another value each time.
    Duplicates,
}

impl Distribution {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Clustered => "clustered",
            Self::AllEqual => "all-equal",
            Self::Extremes => "extremes",
            Self::Duplicates => "duplicates",
        }
    }

    /// The keys of `len` pairs, in the order in which the input has them.
    pub(crate) fn keys<K: AnyKey>(self, len: usize, rng: &mut Random) -> Vec<K> {
        // With 128 bits the upper half decides the order; the lower one differs wherever that does.
        let lower = |word: u64| if K::Bits::BITS == 128 { word.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { word };
        let from_word = |word: u64| K::decode(K::Bits::from_parts([lower(word), word]));
        let mut any = |_| from_word(rng.next_u64());
        match self {
            Self::Uniform => (0..len).map(any).collect(),
            Self::AllEqual => vec![any(0); len],
            Self::Duplicates => {
                let keys: Vec<K> = (0..len.div_ceil(4)).map(any).collect();
                (0..len).map(|_| keys[rng.random_range(0..keys.len())]).collect()
            }
            Self::Extremes => {
                let mut keys: Vec<K> = (0..len).map(any).collect();
                for (key, extreme) in keys.iter_mut().zip(extremes::<K>()) {
                    *key = extreme;
                }
                keys.rotate_left(len / 2);
                keys
            }
            Self::Clustered => {
                let mut keys = Vec::with_capacity(len);
                while keys.len() < len {
                    let first = rng.next_u64();
                    let run = rng.random_range(1..=64).min(len - keys.len()) as u64;
                    keys.extend((0..run).map(|i| from_word(first.wrapping_add(i))));
                }
                keys
            }
        }
    }
}

/// The keys at which an off-by-one shows, as ordered words: both ends, and both sides of the middle,
/// where a signed key changes its sign.
fn extremes<K: AnyKey>() -> [K; 8] {
    let (bottom, top, middle) = (K::Bits::MIN, K::Bits::MAX, K::Bits::MAX.shr(1));
    [(bottom, 0), (top, 0), (bottom, 1), (top, -1), (middle, 0), (middle, 1), (bottom, 2), (top, -2)].map(
        |(word, by): (_, i64)| {
            let distance = K::Bits::truncate(by.unsigned_abs());
            K::decode(if by < 0 { word.wrapping_sub(distance) } else { word.wrapping_add(distance) })
        },
    )
}

/// Values that tell pairs apart.
pub(crate) fn values<V: Word>(len: usize, rng: &mut Random) -> Vec<V> {
    (0..len).map(|_| V::truncate(rng.next_u64())).collect()
}

/// The generator of a case: the run's seed and the case's name decide it.
pub(crate) fn rng(seed: u64, name: &str) -> Random {
    Random::seed_from_u64(derived_seed(seed, name))
}

/// FNV-1a over the seed and the name: the same on every machine and in every release.
pub(crate) fn derived_seed(seed: u64, name: &str) -> u64 {
    seed.to_le_bytes()
        .iter()
        .chain(name.as_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::Distribution::*;
    use super::*;

    fn keys_of_every_distribution<K: AnyKey>() {
        let all = [Uniform, Clustered, AllEqual, Extremes, Duplicates];
        for distribution in all {
            for len in [0, 1, 2, 100, 5000] {
                let keys: Vec<K> = distribution.keys(len, &mut rng(7, "keys"));
                assert_eq!(keys.len(), len, "{distribution:?}");
                assert_eq!(keys, distribution.keys(len, &mut rng(7, "keys")), "{distribution:?}");
            }
        }
        let keys: Vec<K> = Extremes.keys(100, &mut rng(7, "keys"));
        assert!(keys.contains(&K::MIN) && keys.contains(&K::MAX));
        let mut distinct = Duplicates.keys::<K>(1000, &mut rng(7, "keys"));
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() <= 250);
    }

    #[test]
    fn distributions_have_as_many_keys_as_asked_for_and_repeat_themselves() {
        keys_of_every_distribution::<u32>();
        keys_of_every_distribution::<i32>();
        keys_of_every_distribution::<u64>();
        keys_of_every_distribution::<i64>();
    }

    #[test]
    fn seeds_depend_on_the_run_and_the_name() {
        assert_eq!(derived_seed(1, "a"), derived_seed(1, "a"));
        assert_ne!(derived_seed(1, "a"), derived_seed(2, "a"));
        assert_ne!(derived_seed(1, "a"), derived_seed(1, "b"));
    }
}
