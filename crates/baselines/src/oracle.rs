//! The oracle: a sorted vector of pairs, searched by the standard library. Obviously right, and what
//! every index is checked against.

use core::ops::{Bound, RangeBounds};

/// Sorted pairs with distinct keys.
///
/// ```
/// use lanetree_baselines::oracle::Oracle;
///
/// let oracle = Oracle::new(&[3, 1, 3], &["a", "b", "c"]);
/// assert_eq!(oracle.get(3), Some("c"));
/// assert_eq!(oracle.predecessor(2), Some((1, "b")));
/// assert_eq!(oracle.range(2.., u64::MAX), [(3, "c")]);
/// ```
#[derive(Clone, Debug)]
pub struct Oracle<K, V> {
    pairs: Vec<(K, V)>,
}

impl<K: Ord + Copy, V: Copy> Oracle<K, V> {
    /// The pairs of two slices of the same length; of equal keys, the last one's value is kept.
    pub fn new(keys: &[K], values: &[V]) -> Self {
        let mut pairs: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).collect();
        // Stable: turned around, the last of equal keys comes first, and `dedup` keeps the first.
        pairs.reverse();
        pairs.sort_by_key(|pair| pair.0);
        pairs.dedup_by_key(|pair| pair.0);
        Self { pairs }
    }

    /// All pairs in ascending order of their keys.
    pub fn pairs(&self) -> &[(K, V)] {
        &self.pairs
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<V> {
        self.pairs.binary_search_by_key(&key, |pair| pair.0).ok().map(|rank| self.pairs[rank].1)
    }

    /// The number of keys below `key`.
    pub fn lower_bound(&self, key: K) -> usize {
        self.pairs.partition_point(|pair| pair.0 < key)
    }

    /// The number of keys not above `key`.
    pub fn upper_bound(&self, key: K) -> usize {
        self.pairs.partition_point(|pair| pair.0 <= key)
    }

    /// The last pair whose key is not above `key`.
    pub fn predecessor(&self, key: K) -> Option<(K, V)> {
        self.pairs[..self.upper_bound(key)].last().copied()
    }

    /// The first pair whose key is not below `key`.
    pub fn successor(&self, key: K) -> Option<(K, V)> {
        self.pairs[self.lower_bound(key)..].first().copied()
    }

    /// The pairs between two bounds, at most the first `limit` of them; none if the bounds are reversed.
    pub fn range(&self, bounds: impl RangeBounds<K>, limit: u64) -> &[(K, V)] {
        let start = match bounds.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(&key) => self.lower_bound(key),
            Bound::Excluded(&key) => self.upper_bound(key),
        };
        let end = match bounds.end_bound() {
            Bound::Unbounded => self.pairs.len(),
            Bound::Included(&key) => self.upper_bound(key),
            Bound::Excluded(&key) => self.lower_bound(key),
        };
        let pairs = &self.pairs[start..end.max(start)];
        &pairs[..pairs.len().min(usize::try_from(limit).unwrap_or(usize::MAX))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_btree_map() {
        let keys: Vec<i32> = (0..60).map(|i| (i * 37 % 41) - 20).collect();
        let values: Vec<u32> = (0..60).collect();
        let oracle = Oracle::new(&keys, &values);
        let map: BTreeMap<i32, u32> = keys.iter().copied().zip(values.iter().copied()).collect();
        assert!(map.iter().map(|(&key, &value)| (key, value)).eq(oracle.pairs().iter().copied()));
        for key in -25..25 {
            let pair = |pair: Option<(&i32, &u32)>| pair.map(|(&key, &value)| (key, value));
            assert_eq!(oracle.get(key), map.get(&key).copied());
            assert_eq!(oracle.lower_bound(key), map.range(..key).count());
            assert_eq!(oracle.upper_bound(key), map.range(..=key).count());
            assert_eq!(oracle.predecessor(key), pair(map.range(..=key).next_back()));
            assert_eq!(oracle.successor(key), pair(map.range(key..).next()));
            for end in key..25 {
                let expected: Vec<_> = map.range(key..=end).map(|(&key, &value)| (key, value)).take(7).collect();
                assert_eq!(oracle.range(key..=end, 7), expected);
            }
        }
        #[expect(clippy::reversed_empty_ranges, reason = "the point of the test")]
        let reversed = oracle.range(3..1, 9);
        assert_eq!(reversed, []);
    }

    #[test]
    fn nothing_is_in_an_empty_oracle() {
        let oracle = Oracle::<u64, u64>::new(&[], &[]);
        assert_eq!((oracle.get(1), oracle.lower_bound(1), oracle.upper_bound(1)), (None, 0, 0));
        assert_eq!((oracle.predecessor(u64::MAX), oracle.successor(0)), (None, None));
        assert_eq!(oracle.range(.., 1), []);
    }
}
