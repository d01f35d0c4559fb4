//! What an index should answer.

use crate::Counts;
use core::ops::{Bound, RangeBounds};
use lanetree::{Op, UpdateReport, apply_to_map};
use std::collections::BTreeMap;

/// Pairs, as std has them.
#[derive(Clone, Debug, Default)]
pub struct Model<K>(pub BTreeMap<K, u64>);

/// A range and the most pairs of it.
pub type Range<K> = (Bound<K>, Bound<K>, Option<u64>);

impl<K: Ord + Clone> Model<K> {
    /// Applies operations one after another; what a batch of them should report.
    pub fn apply(&mut self, ops: &[Op<K, u64>]) -> Counts {
        let UpdateReport { inserted, replaced, removed, unmatched, .. } = apply_to_map(&mut self.0, ops);
        let [inserted, replaced, removed, unmatched] = [inserted, replaced, removed, unmatched].map(Some);
        Counts { inserted, replaced, removed, unmatched }
    }

    /// All pairs.
    pub fn pairs(&self) -> Vec<(K, u64)> {
        self.0.iter().map(owned).collect()
    }

    /// The keys below each, or not above.
    pub fn rank(&self, key: &K, upper: bool) -> u64 {
        let end = if upper { Bound::Included(key) } else { Bound::Excluded(key) };
        self.0.range((Bound::Unbounded, end)).count() as u64
    }

    /// The last pair not above, or the first not below.
    pub fn neighbor(&self, key: &K, upper: bool) -> Option<(K, u64)> {
        match upper {
            true => self.0.range(..=key).next_back(),
            false => self.0.range(key..).next(),
        }
        .map(owned)
    }

    /// The first pairs inside of a range.
    pub fn range(&self, (start, end, limit): &Range<K>) -> Vec<(K, u64)> {
        let inside = |pair: &(&K, &u64)| (start.as_ref(), end.as_ref()).contains(pair.0);
        // Not `BTreeMap::range`, which panics where both bounds exclude the same key.
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        self.0.iter().filter(inside).take(most).map(owned).collect()
    }
}

fn owned<K: Clone>((key, &value): (&K, &u64)) -> (K, u64) {
    (key.clone(), value)
}
