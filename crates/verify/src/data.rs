//! What trees are built of and asked for: distributions of keys, batches of queries. All of it follows
//! from a seed.

use crate::kernels;
use lanetree::{AnyKey, Key, KeyWord, Word};
use lanetree_baselines::oracle::Oracle;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution as _, Zipf};
use std::sync::OnceLock;

/// How the keys of a tree's input lie in the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Distribution {
    /// Anywhere, each as likely.
    Uniform,
    /// One after another, ascending.
    Sequential,
    /// Runs of neighbours, far from each other.
    Clustered,
    /// Gaps between neighbours follow Zipf's law: most are tiny, a few huge.
    ZipfGaps,
    /// One key, again and again.
    AllEqual,
    /// Both ends of the key space, its middle, and between them anything.
    Extremes,
    /// Each key about four times, with another value each time.
    Duplicates,
    /// Real ones: where the lines of the shipped PTX begin, in bytes, one module after another.
    Lines,
}

impl Distribution {
    pub(crate) const ALL: [Self; 8] = [
        Self::Uniform,
        Self::Extremes,
        Self::Sequential,
        Self::Duplicates,
        Self::Clustered,
        Self::ZipfGaps,
        Self::AllEqual,
        Self::Lines,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Sequential => "sequential",
            Self::Clustered => "clustered",
            Self::ZipfGaps => "zipf-gaps",
            Self::AllEqual => "all-equal",
            Self::Extremes => "extremes",
            Self::Duplicates => "duplicates",
            Self::Lines => "lines",
        }
    }

    /// The keys of `len` pairs, in the order in which the input has them.
    pub(crate) fn keys<K: AnyKey>(self, len: usize, rng: &mut StdRng) -> Vec<K> {
        // With 128 bits the upper half decides the order; the lower one differs wherever that does.
        let lower = |word: u64| if K::Bits::BITS == 128 { word.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { word };
        let from_word = |word: u64| K::decode(K::Bits::from_parts([lower(word), word]));
        let greatest = K::Bits::MAX.parts()[0];
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
            Self::Sequential => {
                let first = rng.next_u64() >> (64 - K::Bits::BITS.min(64)) >> 1;
                (0..len as u64).map(|i| from_word(first + i)).collect()
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
            Self::Lines => {
                let (starts, bytes) = line_starts();
                let first = rng.random_range(0..starts.len());
                // Beyond the last line, the text once more.
                (first..first + len)
                    .map(|i| from_word(starts[i % starts.len()] + (i / starts.len()) as u64 * bytes))
                    .collect()
            }
            Self::ZipfGaps => {
                let space = greatest / (len as u64 + 1);
                let gaps = Zipf::new((space as f64).clamp(1.0, 1e15), 1.1).expect("both are in Zipf's domain");
                let mut key = 0_u64;
                let ascending = (0..len).map(|_| {
                    key = key.saturating_add(gaps.sample(rng) as u64).min(greatest);
                    from_word(key)
                });
                ascending.collect()
            }
        }
    }
}

/// Where each line of the PTX begins, and how many bytes there are.
fn line_starts() -> &'static (Vec<u64>, u64) {
    static STARTS: OnceLock<(Vec<u64>, u64)> = OnceLock::new();
    STARTS.get_or_init(|| {
        let (mut starts, mut bytes) = (Vec::new(), 0);
        for line in kernels::lines() {
            starts.push(bytes);
            bytes += line.len() as u64;
        }
        (starts, bytes)
    })
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

/// The key at a distance from another, around the ends of the key space.
fn beside<K: Key>(key: K, distance: i64) -> K {
    K::decode(key.encode().wrapping_add(K::Bits::truncate(distance as u64)))
}

/// Values that tell pairs apart.
pub(crate) fn values<V: Word>(len: usize, rng: &mut StdRng) -> Vec<V> {
    (0..len).map(|_| V::truncate(rng.next_u64())).collect()
}

/// What a batch of queries is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Batch {
    Empty,
    One,
    Hits,
    Misses,
    Mixed,
    Zipf,
    Extremes,
    Larger,
    Sorted,
    Reverse,
}

impl Batch {
    pub(crate) const ALL: [Self; 10] = [
        Self::Mixed,
        Self::Hits,
        Self::Misses,
        Self::Extremes,
        Self::One,
        Self::Larger,
        Self::Sorted,
        Self::Reverse,
        Self::Zipf,
        Self::Empty,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::One => "one",
            Self::Hits => "hits",
            Self::Misses => "misses",
            Self::Mixed => "mixed",
            Self::Zipf => "zipf",
            Self::Extremes => "extremes",
            Self::Larger => "larger",
            Self::Sorted => "sorted",
            Self::Reverse => "reverse",
        }
    }

    /// The queries: about `len` of them, and for [`Batch::Larger`] more than the tree has keys, up to
    /// four times `len`.
    pub(crate) fn queries<K: Key, V: Word>(self, oracle: &Oracle<K, V>, len: usize, rng: &mut StdRng) -> Vec<K> {
        let pairs = oracle.pairs();
        let hit = |rng: &mut StdRng| match pairs.len() {
            0 => random(rng),
            n => pairs[rng.random_range(0..n)].0,
        };
        let mixed = |rng: &mut StdRng, len: usize| -> Vec<K> {
            (0..len).map(|_| if rng.random() { hit(rng) } else { miss(oracle, rng) }).collect()
        };
        match self {
            Self::Empty => Vec::new(),
            Self::One => mixed(rng, 1),
            Self::Hits => (0..len).map(|_| hit(rng)).collect(),
            Self::Misses => (0..len).map(|_| miss(oracle, rng)).collect(),
            Self::Mixed => mixed(rng, len),
            Self::Larger => mixed(rng, (2 * pairs.len() + 3).min(4 * len)),
            Self::Zipf if pairs.is_empty() => mixed(rng, len),
            Self::Zipf => {
                let ranks = Zipf::new(pairs.len() as f64, 1.2).expect("both are in Zipf's domain");
                (0..len).map(|_| pairs[(ranks.sample(rng) as usize - 1).min(pairs.len() - 1)].0).collect()
            }
            Self::Extremes => {
                let mut queries = extremes::<K>().to_vec();
                for &(key, _) in pairs.first().iter().chain(&pairs.last()) {
                    queries.extend([beside(*key, -1), *key, beside(*key, 1)]);
                }
                queries
            }
            Self::Sorted | Self::Reverse => {
                let mut queries = mixed(rng, len);
                queries.sort_unstable();
                if self == Self::Reverse {
                    queries.reverse();
                }
                queries
            }
        }
    }
}

fn random<K: Key>(rng: &mut StdRng) -> K {
    K::decode(K::Bits::truncate(rng.next_u64()))
}

/// A key that is not there: next to one that is, or anywhere. If there is none to be found, one that is.
fn miss<K: Key, V: Word>(oracle: &Oracle<K, V>, rng: &mut StdRng) -> K {
    let pairs = oracle.pairs();
    let mut key = random(rng);
    for attempt in 0..8 {
        if !pairs.is_empty() && attempt % 2 == 0 && rng.random() {
            let distance = if rng.random() { 1 } else { -1 };
            key = beside(pairs[rng.random_range(0..pairs.len())].0, distance);
        }
        if oracle.get(key).is_none() {
            break;
        }
        key = random(rng);
    }
    key
}

/// What a batch of ranges is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RangeBatch {
    Empty,
    /// Of 0 to 20 pairs.
    Short,
    /// One key, there or not.
    Points,
    /// Short ones, long ones, all of the tree, and reversed ones.
    Mixed,
}

impl RangeBatch {
    pub(crate) const ALL: [Self; 4] = [Self::Short, Self::Mixed, Self::Points, Self::Empty];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Short => "short",
            Self::Points => "points",
            Self::Mixed => "mixed",
        }
    }

    /// First and last keys, both inclusive; `longest` bounds the pairs of a range.
    pub(crate) fn bounds<K: Key, V: Word>(
        self,
        oracle: &Oracle<K, V>,
        len: usize,
        longest: usize,
        rng: &mut StdRng,
    ) -> (Vec<K>, Vec<K>) {
        let pairs = oracle.pairs();
        // The key so many pairs after a start, or one next to it.
        let after = |start: K, count: usize, rng: &mut StdRng| match pairs.get(oracle.lower_bound(start) + count) {
            Some(&(key, _)) if key.encode() > K::Bits::MIN && rng.random() => start.max(beside(key, -1)),
            Some(&(key, _)) => key,
            None => K::MAX,
        };
        let one = |i: usize, rng: &mut StdRng| {
            let start = Batch::One.queries(oracle, 1, rng)[0];
            match (self, i % 8) {
                (Self::Points, _) => (start, start),
                (Self::Mixed, 1) => (start, after(start, rng.random_range(0..=longest), rng)),
                (Self::Mixed, 3) if pairs.len() <= longest => (K::MIN, K::MAX),
                (Self::Mixed, 5) => (K::MAX, start),
                (Self::Mixed, 7) => (after(start, 3, rng).max(start), beside(start.max(beside(K::MIN, 1)), -1)),
                (_, _) => (start, after(start, rng.random_range(0..=20), rng)),
            }
        };
        match self {
            Self::Empty => (Vec::new(), Vec::new()),
            _ => (0..len).map(|i| one(i, rng)).unzip(),
        }
    }
}

/// The generator of a case: the run's seed and the case's name decide it.
pub(crate) fn rng(seed: u64, name: &str) -> StdRng {
    StdRng::seed_from_u64(derived_seed(seed, name))
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
    use super::*;

    fn keys_of_every_distribution<K: Key>() {
        for distribution in Distribution::ALL {
            for len in [0, 1, 2, 100, 5000] {
                let keys: Vec<K> = distribution.keys(len, &mut rng(7, "keys"));
                assert_eq!(keys.len(), len, "{distribution:?}");
                assert_eq!(keys, distribution.keys(len, &mut rng(7, "keys")), "{distribution:?}");
            }
        }
        let keys: Vec<K> = Distribution::Extremes.keys(100, &mut rng(7, "keys"));
        assert!(keys.contains(&K::MIN) && keys.contains(&K::MAX));
        let mut distinct = Distribution::Duplicates.keys::<K>(1000, &mut rng(7, "keys"));
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
    fn batches_are_what_they_are_called() {
        let keys: Vec<i32> = Distribution::Clustered.keys(500, &mut rng(1, "keys"));
        let oracle = Oracle::new(&keys, &values::<u32>(500, &mut rng(1, "values")));
        let batch = |batch: Batch| batch.queries(&oracle, 300, &mut rng(1, batch.name()));
        assert!(batch(Batch::Empty).is_empty());
        assert!(batch(Batch::Hits).iter().all(|&key| oracle.get(key).is_some()));
        assert!(batch(Batch::Misses).iter().all(|&key| oracle.get(key).is_none()));
        assert!(batch(Batch::Larger).len() > oracle.pairs().len());
        assert!(batch(Batch::Sorted).is_sorted() && batch(Batch::Reverse).is_sorted_by(|a, b| a >= b));
        assert!(batch(Batch::Extremes).contains(&i32::MIN) && batch(Batch::Extremes).contains(&i32::MAX));
        let hits = batch(Batch::Mixed).iter().filter(|&&key| oracle.get(key).is_some()).count();
        assert!((100..200).contains(&hits), "{hits}");
        let (starts, ends) = RangeBatch::Mixed.bounds(&oracle, 200, 50, &mut rng(1, "ranges"));
        assert!(starts.iter().zip(&ends).all(|(&start, &end)| oracle.range(start..=end, u64::MAX).len() <= 51));
        let (starts, ends) = RangeBatch::Mixed.bounds(&oracle, 200, 1000, &mut rng(1, "ranges"));
        assert!(starts.iter().zip(&ends).any(|(start, end)| start > end), "some are reversed");
        assert!(starts.iter().zip(&ends).any(|(&start, &end)| (start, end) == (i32::MIN, i32::MAX)));
    }

    #[test]
    fn seeds_depend_on_the_run_and_the_name() {
        assert_eq!(derived_seed(1, "a"), derived_seed(1, "a"));
        assert_ne!(derived_seed(1, "a"), derived_seed(2, "a"));
        assert_ne!(derived_seed(1, "a"), derived_seed(1, "b"));
    }
}
