//! The CPU's own path: each thread searches several queries side by side, so that their cache misses overlap.

use lanetree_frame::fixed;
use lanetree_layout::{Key, Word};

/// Queries that a thread searches side by side.
const IN_FLIGHT: usize = 16;

/// An array in main memory.
pub struct View<'a, K: Key, V> {
    pub(super) keys: &'a [K::Bits],
    pub(super) values: &'a [V],
}

impl<K: Key, V> Clone for View<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V> Copy for View<'_, K, V> {}

impl<K: Key, V: Word> View<'_, K, V> {
    /// Calls `each` with the number of keys below each query or, with `upper`, not above it.
    fn ranks(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, usize)) {
        // Without branches, which would be mispredicted half of the time.
        let comes_before = |key: K::Bits, word: K::Bits| (key < word) | (upper & (key == word));
        for (chunk, queries) in queries.chunks(IN_FLIGHT).enumerate() {
            let words: [K::Bits; IN_FLIGHT] = core::array::from_fn(|i| queries[i.min(queries.len() - 1)].encode());
            // The keys that are known to come before the bound.
            let mut base = [0_usize; IN_FLIGHT];
            let mut left = self.keys.len();
            while left > 1 {
                let half = left / 2;
                for (base, &word) in base.iter_mut().zip(&words) {
                    *base += if comes_before(self.keys[*base + half - 1], word) { half } else { 0 };
                }
                left -= half;
            }
            for i in 0..queries.len() {
                let last = self.keys.get(base[i]).is_some_and(|&key| comes_before(key, words[i]));
                each(chunk * IN_FLIGHT + i, base[i] + usize::from(last));
            }
        }
    }

    /// The pair of a rank, if there is one.
    fn pair(&self, rank: usize) -> Option<(K, V)> {
        self.keys.get(rank).map(|&word| (K::decode(word), self.values[rank]))
    }
}

impl<K: Key, V: Word> fixed::View<K, V> for View<'_, K, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        self.ranks(queries, false, |i, rank| {
            let is_hit = self.keys.get(rank) == Some(&queries[i].encode());
            each(i, is_hit.then(|| self.values[rank]));
        });
    }

    fn rank(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, u64)) {
        self.ranks(queries, upper, |i, rank| each(i, rank as u64));
    }

    fn neighbor(&self, queries: &[K], predecessor: bool, mut each: impl FnMut(usize, Option<(K, V)>)) {
        self.ranks(queries, predecessor, |i, rank| {
            // Before the first pair this wraps around, to past the last one.
            each(i, self.pair(rank.wrapping_sub(usize::from(predecessor))));
        });
    }

    fn copy(&self, rank: u64, keys: &mut [K], values: &mut [V]) {
        let rank = rank as usize;
        for (to, &from) in keys.iter_mut().zip(&self.keys[rank..]) {
            *to = K::decode(from);
        }
        values.copy_from_slice(&self.values[rank..rank + values.len()]);
    }
}
