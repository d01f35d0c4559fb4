//! Keys that need no memory: each follows from its rank. So a tree can be nearly as large as the machine's memory.

use crate::bench::data::{BenchWord, Permutation, mix, value_of};
use core::marker::PhantomData;
use core::ops::Range;
use lanetree::{AnyKey, KeyWord};
use lanetree_base::parallel::*;

/// Keys in ascending order, a power of two of them: the key of a rank is anywhere in the rank's part of the key space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys<W> {
    size: u32,
    seed: u64,
    words: PhantomData<W>,
}

impl<W: BenchWord> Keys<W> {
    /// 2^`size` keys, at most 2^31.
    pub(crate) fn new(size: u32, seed: u64) -> Self {
        assert!(size < 32, "keys of 32 bits must differ");
        Self { size, seed, words: PhantomData }
    }

    /// Of their number, the power of two.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn len(&self) -> usize {
        1 << self.size
    }

    /// The name of their type.
    pub(crate) fn name(&self) -> &'static str {
        <W as AnyKey>::NAME
    }

    /// `n = 2^24, u64 keys`.
    pub(crate) fn describe(&self) -> String {
        format!("n = 2^{}, {} keys", self.size, self.name())
    }

    /// The key of a rank.
    #[inline]
    pub(crate) fn key(&self, rank: usize) -> W {
        // A single key would have all bits at random; one fewer does as well.
        let low = <W as KeyWord>::BITS - self.size.max(1);
        W::truncate((rank as u64) << low | mix(self.seed ^ rank as u64) >> (64 - low))
    }

    /// The keys of some ranks and their values, into vectors that are used again.
    pub(crate) fn pairs_into(&self, ranks: Range<usize>, keys: &mut Vec<W>, values: &mut Vec<W>) {
        ranks.into_par_iter().map(|rank| self.key(rank)).collect_into_vec(keys);
        keys.par_iter().map(|&key| value_of(key)).collect_into_vec(values);
    }

    /// Which ranks a round of queries asks for: a random permutation of all, from where the round before it ended.
    pub(crate) fn shuffled(&self, seed: u64) -> impl Fn(u64, usize, usize) -> usize + Copy + Sync + use<W> {
        let permutation = Permutation::new(self.len(), mix(self.seed ^ seed));
        let last = self.len() - 1;
        move |round, count, i| permutation.image((round as usize).wrapping_mul(count).wrapping_add(i) & last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ascend<W: BenchWord>() {
        for size in [0, 1, 5, 13] {
            let keys = Keys::<W>::new(size, 3);
            let (mut all, mut values) = (Vec::new(), Vec::new());
            keys.pairs_into(0..keys.len(), &mut all, &mut values);
            assert!(all.is_sorted_by(|a, b| a < b) && all.len() == 1 << size);
            assert!(all.iter().zip(&values).all(|(&key, &value)| value == value_of(key)));
        }
        // The last keys of the largest set, which has no room to spare in 32 bits.
        let keys = Keys::<W>::new(31, 3);
        assert!((keys.len() - 1000..keys.len()).map(|rank| keys.key(rank)).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn keys_ascend_with_their_ranks() {
        ascend::<u32>();
        ascend::<u64>();
    }

    #[test]
    fn rounds_ask_for_every_rank_once_and_then_again() {
        let keys = Keys::<u64>::new(8, 1);
        let rank = keys.shuffled(2);
        let ask = |rounds: Range<u64>| {
            let mut ranks: Vec<usize> = rounds.flat_map(|round| (0..64).map(move |i| rank(round, 64, i))).collect();
            ranks.sort_unstable();
            ranks
        };
        assert!(ask(0..4).into_iter().eq(0..256));
        assert_eq!(ask(0..1), ask(4..5));
        assert_ne!(ask(0..1), ask(1..2));
    }
}
