//! What an index should answer.

use crate::Counts;
use core::ops::Bound;
use lanetree::{Op, UpdateReport, apply_to_map};
use std::collections::BTreeMap;

/// Pairs, whose keys ascend strictly.
#[derive(Clone, Debug, Default)]
pub struct Model<K>(Vec<(K, u64)>);

/// A range and the most pairs of it.
pub type Range<K> = (Bound<K>, Bound<K>, Option<u64>);

impl<K: Ord + Clone> Model<K> {
    /// Of pairs in any order; of equal keys, the last one's value is kept.
    pub fn of(pairs: impl IntoIterator<Item = (K, u64)>) -> Self {
        Self(pairs.into_iter().collect::<BTreeMap<K, u64>>().into_iter().collect())
    }

    /// Applies operations one after another; what a batch of them should report.
    pub fn apply(&mut self, ops: &[Op<K, u64>]) -> Counts {
        let known = |op: &Op<K, u64>| self.get(op.key()).map(|value| (op.key().clone(), value));
        let mut changed: BTreeMap<K, u64> = ops.iter().filter_map(known).collect();
        let before = changed.clone();
        let UpdateReport { inserted, replaced, removed, unmatched, .. } = apply_to_map(&mut changed, ops);
        self.0.retain(|pair| !before.contains_key(&pair.0));
        self.0.extend(changed);
        // Two runs, of which the sort makes one.
        self.0.sort_by(|a, b| a.0.cmp(&b.0));
        let [inserted, replaced, removed, unmatched] = [inserted, replaced, removed, unmatched].map(Some);
        Counts { inserted, replaced, removed, unmatched }
    }

    /// All pairs.
    pub fn pairs(&self) -> &[(K, u64)] {
        &self.0
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<u64> {
        let at = self.0.binary_search_by(|pair| pair.0.cmp(key)).ok()?;
        Some(self.0[at].1)
    }

    /// The keys below each, or not above.
    pub fn rank(&self, key: &K, upper: bool) -> u64 {
        self.0.partition_point(|pair| if upper { pair.0 <= *key } else { pair.0 < *key }) as u64
    }

    /// The last pair not above, or the first not below.
    pub fn neighbor(&self, key: &K, upper: bool) -> Option<(K, u64)> {
        let at = self.rank(key, upper) as usize;
        self.0.get(if upper { at.checked_sub(1)? } else { at }).cloned()
    }

    /// The first pairs inside of a range.
    pub fn range(&self, (start, end, limit): &Range<K>) -> Vec<(K, u64)> {
        let at = |bound: &Bound<K>, upper_if_included, of_none| match bound {
            Bound::Included(key) => self.rank(key, upper_if_included) as usize,
            Bound::Excluded(key) => self.rank(key, !upper_if_included) as usize,
            Bound::Unbounded => of_none,
        };
        let (from, to) = (at(start, false, 0), at(end, true, self.0.len()));
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        self.0[from..to.max(from)].iter().take(most).cloned().collect()
    }
}
