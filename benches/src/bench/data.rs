//! Keys, their values, and batches of queries, all of which follow from a seed. Everything is made in
//! parallel and in order: nothing as large as the tree is ever sorted.

use super::row::Row;
use lanetree::{AnyKey, Key, KeyWord, Word};
use lanetree_base::parallel::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Elements that one generator draws.
const STRATUM: usize = 1 << 12;

/// The most keys: a query's origin is a number of 31 bits.
pub(crate) const MAX_LEN: usize = 1 << 30;

/// A word that is both key and value of the trees measured.
pub(crate) trait BenchWord: Key<Bits = Self> + Word {}
impl BenchWord for u32 {}
impl BenchWord for u64 {}

/// Pairs in ascending order of their distinct keys.
pub(crate) struct Data<W> {
    pub(crate) keys: Vec<W>,
    pub(crate) values: Vec<W>,
    /// Where the keys come from.
    pub(crate) source: String,
}

impl<W: BenchWord> Data<W> {
    /// `len` distinct keys, uniform over the key space: each 2^12th part of the keys is drawn from as large
    /// a part of the space, which is how they come out sorted.
    pub(crate) fn uniform(len: usize, seed: u64) -> Self {
        let mut keys = vec![W::default(); len];
        keys.par_chunks_mut(STRATUM).enumerate().for_each(|(stratum, keys)| {
            let bound = |rank: usize| ((rank as u128) << <W as KeyWord>::BITS) / len as u128;
            let first = stratum * STRATUM;
            let (low, high) = (bound(first) as u64, (bound(first + keys.len()) - 1) as u64);
            let mut rng = generator(seed, stratum);
            let mut drawn: Vec<W> = Vec::with_capacity(keys.len());
            // Ends: `len` is at most a quarter of the space.
            while drawn.len() < keys.len() {
                drawn.extend((drawn.len()..keys.len()).map(|_| W::truncate(rng.random_range(low..=high))));
                drawn.sort_unstable();
                drawn.dedup();
            }
            keys.copy_from_slice(&drawn);
        });
        Self::of(keys, "uniform".into())
    }

    /// The distinct ones of some keys.
    pub(crate) fn distinct(mut keys: Vec<W>, source: String) -> Self {
        sort_unstable_by(&mut keys, Ord::cmp);
        keys.dedup();
        Self::of(keys, source)
    }

    fn of(keys: Vec<W>, source: String) -> Self {
        let values = keys.par_iter().map(|&key| value_of(key)).collect();
        Self { keys, values, source }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Says in a row what is looked up in: these pairs.
    pub(crate) fn label(&self, row: Row) -> Row {
        row.over(self.len(), <W as AnyKey>::NAME, <W as AnyKey>::NAME, &*self.source)
    }

    /// A batch of `count` queries in ascending order: each the key of a rank, uniform over the ranks;
    /// or with `misses`, for every second one (by a coin), a key that is not there, between that key and
    /// the next. `None` where there is no such key.
    pub(crate) fn sorted_batch(&self, count: usize, misses: bool, seed: u64) -> Option<Batch<W>> {
        self.sorted_batch_by(count, |rng| misses && rng.random(), seed)
    }

    /// The same, in which no key is there.
    pub(crate) fn sorted_misses(&self, count: usize, seed: u64) -> Option<Batch<W>> {
        self.sorted_batch_by(count, |_| true, seed)
    }

    fn sorted_batch_by(
        &self,
        count: usize,
        is_miss: impl Fn(&mut StdRng) -> bool + Sync,
        seed: u64,
    ) -> Option<Batch<W>> {
        let len = self.len();
        // With fewer ranks than strata, one generator draws all.
        let stratum_len = if len.saturating_mul(STRATUM) >= count { STRATUM } else { count };
        let mut queries = vec![W::default(); count];
        let mut origins = vec![Origin(0); count];
        let strata = queries.par_chunks_mut(stratum_len).zip(origins.par_chunks_mut(stratum_len));
        let found = strata.enumerate().map(|(stratum, (queries, origins))| {
            let rank = |i: usize| (i as u128 * len as u128 / count as u128) as usize;
            let first = stratum * stratum_len;
            let low = rank(first);
            let high = rank(first + queries.len()).max(low + 1);
            let mut rng = generator(seed, stratum);
            let mut drawn = Vec::with_capacity(queries.len());
            for _ in 0..queries.len() {
                drawn.push(self.draw(low..high, is_miss(&mut rng), &mut rng)?);
            }
            drawn.sort_unstable_by_key(|draw| draw.0);
            for ((query, origin), draw) in queries.iter_mut().zip(origins).zip(drawn) {
                (*query, *origin) = draw;
            }
            Some(())
        });
        found.all(|found| found.is_some()).then_some(Batch { queries, origins })
    }

    /// A batch of the keys of these ranks, in their order.
    pub(crate) fn batch_of_ranks(&self, ranks: impl Iterator<Item = usize>) -> Batch<W> {
        let (queries, origins) = ranks.map(|rank| (self.keys[rank], Origin::new(rank, false))).unzip();
        Batch { queries, origins }
    }

    fn draw(&self, ranks: core::ops::Range<usize>, miss: bool, rng: &mut StdRng) -> Option<(W, Origin)> {
        const ATTEMPTS: u32 = 64;
        for _ in 0..ATTEMPTS {
            let rank = rng.random_range(ranks.clone());
            let key = self.keys[rank].widen();
            if !miss {
                return Some((self.keys[rank], Origin::new(rank, false)));
            }
            let last = self.keys.get(rank + 1).map_or(<W as KeyWord>::MAX.widen(), |next| next.widen() - 1);
            if key < last {
                return Some((W::truncate(rng.random_range(key + 1..=last)), Origin::new(rank, true)));
            }
        }
        None
    }
}

/// What stands for "not there" in the outputs.
pub(crate) fn miss<W: BenchWord>() -> W {
    <W as KeyWord>::MAX
}

/// The value of a key: never 0, which is what outputs are filled with, nor [`miss`].
pub(crate) fn value_of<W: BenchWord>(key: W) -> W {
    let word = mix(key.widen()) & (<W as KeyWord>::MAX.widen() >> 1) | 1;
    W::truncate(word)
}

/// Where a query comes from, and so what its answers are: a rank, and whether it is that rank's key or a
/// missing one right after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(u32);

impl Origin {
    fn new(rank: usize, miss: bool) -> Self {
        Self((rank as u32) << 1 | u32::from(miss))
    }
    /// The rank of the last key that is not above the query.
    pub(crate) fn rank(self) -> usize {
        (self.0 >> 1) as usize
    }
    pub(crate) fn is_miss(self) -> bool {
        self.0 & 1 == 1
    }
    /// The number of keys below the query.
    pub(crate) fn lower_bound(self) -> u64 {
        self.rank() as u64 + u64::from(self.is_miss())
    }
}

/// The order of a batch's queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Random,
    /// Sorted by their top 16 bits.
    Top16,
    Sorted,
}

impl Order {
    pub(crate) const ALL: [Self; 3] = [Self::Random, Self::Top16, Self::Sorted];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Top16 => "top 16 bits",
            Self::Sorted => "sorted",
        }
    }
}

/// Queries and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch<W> {
    pub(crate) queries: Vec<W>,
    pub(crate) origins: Vec<Origin>,
}

impl<W: BenchWord> Batch<W> {
    /// What a look-up of query `i` must find.
    pub(crate) fn value(&self, i: usize) -> W {
        if self.origins[i].is_miss() { miss() } else { value_of(self.queries[i]) }
    }

    /// The ranks at which ranges start, the last of them at `last`, such that each range has all its pairs.
    pub(crate) fn first_ranks(&self, last: usize) -> Vec<usize> {
        self.origins.par_iter().map(|origin| origin.rank().min(last)).collect()
    }

    /// A sorted batch in another order. Its length is a power of two.
    pub(crate) fn ordered(&self, order: Order, seed: u64) -> Self {
        match order {
            Order::Sorted => self.clone(),
            Order::Random => {
                let permutation = Permutation::new(self.queries.len(), seed);
                let source = |i: usize| permutation.image(i);
                let indexes = 0..self.queries.len();
                Self {
                    queries: indexes.clone().into_par_iter().map(|i| self.queries[source(i)]).collect(),
                    origins: indexes.into_par_iter().map(|i| self.origins[source(i)]).collect(),
                }
            }
            Order::Top16 => {
                let mut batch = self.clone();
                batch.shuffle_by_top_bits(seed);
                batch
            }
        }
    }

    fn shuffle_by_top_bits(&mut self, seed: u64) {
        let top = |query: W| query.widen() >> (<W as KeyWord>::BITS - 16);
        let ends: Vec<usize> = (0..1_u64 << 16)
            .into_par_iter()
            .map(|bits| self.queries.partition_point(|&query| top(query) <= bits))
            .collect();
        let (mut queries, mut origins, mut start) = (&mut self.queries[..], &mut self.origins[..], 0);
        let mut buckets = Vec::with_capacity(ends.len());
        for end in ends {
            let (bucket_queries, bucket_origins);
            (bucket_queries, queries) = queries.split_at_mut(end - start);
            (bucket_origins, origins) = origins.split_at_mut(end - start);
            buckets.push((bucket_queries, bucket_origins));
            start = end;
        }
        buckets.into_par_iter().enumerate().for_each(|(bucket, (queries, origins))| {
            let mut rng = generator(seed, bucket);
            for i in (1..queries.len()).rev() {
                let other = rng.random_range(0..=i);
                queries.swap(i, other);
                origins.swap(i, other);
            }
        });
    }
}

/// A permutation of `0..len`, `len` a power of two, that needs no memory: multiplications by odd numbers
/// and shifted exclusive ors, each of which is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    mask: u64,
    shift: u32,
    factors: [u64; 3],
}

impl Permutation {
    pub(crate) fn new(len: usize, seed: u64) -> Self {
        debug_assert!(len.is_power_of_two());
        let bits = len.ilog2();
        let factors = core::array::from_fn(|i| mix(seed.wrapping_add(i as u64)) | 1);
        Self { mask: len as u64 - 1, shift: (bits / 2).max(1), factors }
    }

    pub(crate) fn image(&self, i: usize) -> usize {
        let mut x = i as u64;
        for factor in self.factors {
            x = x.wrapping_mul(factor).wrapping_add(factor >> 32) & self.mask;
            x ^= x >> self.shift;
        }
        x as usize
    }
}

/// The generator of a part of something.
pub(crate) fn generator(seed: u64, part: usize) -> StdRng {
    StdRng::seed_from_u64(mix(seed).wrapping_add(part as u64))
}

/// SplitMix64's finaliser.
pub(crate) fn mix(word: u64) -> u64 {
    let mut x = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers_are_right<W: BenchWord>(data: &Data<W>) {
        assert!(data.keys.is_sorted_by(|a, b| a < b));
        for (count, misses) in [(1, true), (1 << 10, false), (1 << 15, true)] {
            let sorted = data.sorted_batch(count, misses, 3).unwrap();
            assert!(sorted.queries.is_sorted());
            for order in Order::ALL {
                let batch = sorted.ordered(order, 4);
                let mut missing = 0;
                for (i, query) in batch.queries.iter().enumerate() {
                    let rank = data.keys.partition_point(|key| key < query);
                    assert_eq!(batch.origins[i].lower_bound(), rank as u64);
                    let hit = data.keys.get(rank) == Some(query);
                    assert_eq!(batch.value(i), if hit { data.values[rank] } else { miss() });
                    assert_eq!(batch.origins[i].rank(), if hit { rank } else { rank - 1 });
                    missing += usize::from(!hit);
                }
                assert!(misses || missing == 0);
                assert!(!misses || count < 1000 || (missing * 2).abs_diff(count) < count / 8, "{missing} of {count}");
                let mut again = batch.queries.clone();
                again.sort_unstable();
                assert_eq!(again, sorted.queries, "{order:?} keeps every query");
                let top = |query: &W| query.widen() >> (<W as KeyWord>::BITS - 16);
                // Few queries, or queries of few keys, may come out sorted by chance.
                if data.len() > 1000 && count > 1 << 12 {
                    assert_eq!(batch.queries.is_sorted(), order == Order::Sorted, "{order:?}");
                }
                assert!(order == Order::Random || batch.queries.is_sorted_by_key(top));
            }
        }
    }

    #[test]
    fn batches_know_their_answers() {
        answers_are_right(&Data::<u64>::uniform(100_000, 1));
        answers_are_right(&Data::<u32>::uniform(100_000, 2));
        answers_are_right(&Data::<u64>::uniform(1, 1));
        answers_are_right(&Data::<u32>::uniform(3, 9));
        answers_are_right(&Data::distinct(vec![1_u64 << 63, 3, 3, 9 << 50, 3, 200], "test".into()));
    }

    #[test]
    fn keys_without_gaps_have_no_misses() {
        let data = Data::distinct((u32::MAX - 999..=u32::MAX).rev().collect(), "test".into());
        assert!(data.sorted_batch(1 << 8, true, 1).is_none());
        assert!(data.sorted_batch(1 << 8, false, 1).is_some());
    }

    #[test]
    fn a_seed_decides_all() {
        let batch = |seed| Data::<u64>::uniform(5000, seed).sorted_batch(64, true, seed).unwrap();
        assert_eq!(batch(1), batch(1));
        assert_ne!(batch(1), batch(2));
    }

    #[test]
    fn permutations_permute() {
        for bits in [0, 1, 2, 5, 12] {
            let permutation = Permutation::new(1 << bits, 77);
            let mut images: Vec<usize> = (0..1 << bits).map(|i| permutation.image(i)).collect();
            images.sort_unstable();
            assert!(images.into_iter().eq(0..1 << bits));
        }
    }
}
