//! What an index should answer.

use crate::Counts;
use core::ops::{Bound, RangeBounds};
use lanetree::Op;
use std::collections::{BTreeMap, BTreeSet};

/// Pairs, as std has them.
#[derive(Clone, Debug, Default)]
pub struct Model<K>(pub BTreeMap<K, u64>);

/// A range and the most pairs of it.
pub type Range<K> = (Bound<K>, Bound<K>, Option<u64>);

impl<K: Ord + Clone> Model<K> {
    /// Applies operations one after another; what a batch of them should report.
    pub fn apply(&mut self, ops: &[Op<K, u64>]) -> Counts {
        let before: BTreeSet<K> = ops.iter().map(|op| of(op).clone()).filter(|key| self.0.contains_key(key)).collect();
        for op in ops {
            match op {
                Op::Insert(key, value) => drop(self.0.insert(key.clone(), *value)),
                Op::Update(key, value) => drop(self.0.get_mut(key).map(|old| *old = *value)),
                Op::Remove(key) => drop(self.0.remove(key)),
            }
        }
        let [mut inserted, mut replaced, mut removed, mut unmatched] = [0; 4];
        for key in ops.iter().map(of).collect::<BTreeSet<_>>() {
            let count = match (before.contains(key), self.0.contains_key(key)) {
                (false, true) => &mut inserted,
                (true, true) => &mut replaced,
                (true, false) => &mut removed,
                (false, false) => &mut unmatched,
            };
            *count += 1;
        }
        Counts {
            inserted: Some(inserted),
            replaced: Some(replaced),
            removed: Some(removed),
            unmatched: Some(unmatched),
        }
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

fn of<K>(op: &Op<K, u64>) -> &K {
    match op {
        Op::Insert(key, _) | Op::Update(key, _) | Op::Remove(key) => key,
    }
}

fn owned<K: Clone>((key, &value): (&K, &u64)) -> (K, u64) {
    (key.clone(), value)
}
