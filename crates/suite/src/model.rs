//! What an index should answer.

use crate::{Answer, Combination, Counts, Joining, Near, Numbered, Open, Pairs, Question, Side};
use core::ops::Bound;
use lanetree::{Direction, JoinKind, Matches, Op, Ties, UpdateReport, apply_to_map};
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

impl<K: Numbered> Model<K> {
    /// What an index with these pairs answers; `None` if it refuses to.
    pub fn answer(&self, question: &Question<K>) -> Option<Answer<K>> {
        if question.is_refused() {
            return None;
        }
        Some(match question {
            Question::Get(keys) => Answer::Values(keys.iter().map(|key| self.get(key)).collect()),
            Question::Rank(keys, side) => {
                Answer::Numbers(keys.iter().map(|key| self.rank(key, *side == Side::Upper)).collect())
            }
            Question::Neighbor(keys, side) => {
                Answer::Neighbors(keys.iter().map(|key| self.neighbor(key, *side == Side::Upper)).collect())
            }
            Question::AsOf(keys, near) => {
                Answer::Neighbors(keys.iter().map(|key| self.nearest(key, 1, near).pop()).collect())
            }
            Question::Nearest(keys, k, near) => {
                let k = (*k).min(self.0.len() as u64) as usize;
                Answer::Rows(keys.iter().map(|key| self.nearest(key, k, near)).collect())
            }
            Question::Join(keys, of) => {
                let row = |key| self.get(key).map(|_| self.rank(key, false));
                joined(keys.iter().map(|key| row(key).into_iter().collect()), *of)
            }
            Question::AsOfJoin(keys, near, of) => {
                joined(keys.iter().map(|key| values(&self.nearest_or_both(key, near))), *of)
            }
            Question::RangeJoin(spans, open, of) => {
                joined(spans.iter().map(|span| values(&self.range(&between(span, *open)))), *of)
            }
            Question::BandJoin(keys, distance, of) => {
                joined(keys.iter().map(|key| values(self.band(key, *distance))), *of)
            }
            Question::Range(ranges) => Answer::Rows(ranges.iter().map(|range| self.range(range)).collect()),
            Question::Count(ranges) => {
                Answer::Numbers(ranges.iter().map(|range| self.range(range).len() as u64).collect())
            }
            Question::Last(spans, k) => {
                let last = |span| {
                    let pairs = self.range(&between(span, Open { low: false, high: false }));
                    pairs.into_iter().rev().take(*k as usize).collect()
                };
                Answer::Rows(spans.iter().map(last).collect())
            }
            Question::Aggregate(spans, folding) => {
                let of = |span| folding.of(&values(&self.range(&between(span, Open { low: false, high: false }))));
                Answer::Values(spans.iter().map(of).collect())
            }
            Question::Scan(keys, limit) => {
                let from = |key: &K| (Bound::Included(key.clone()), Bound::Unbounded, Some(u64::from(*limit)));
                Answer::Rows(keys.iter().map(|key| self.range(&from(key))).collect())
            }
            Question::Prefix(prefixes) => {
                let under = |prefix| self.0.iter().filter(|pair| pair.0.begins_with(prefix)).cloned().collect();
                Answer::Rows(prefixes.iter().map(under).collect())
            }
            Question::Combine(how, pairs) => Answer::Pairs(self.combined(*how, pairs)),
        })
    }

    /// The nearest pairs, at most `k`, the nearest one first.
    fn nearest(&self, key: &K, k: usize, near: &Near) -> Pairs<K> {
        let (group, place) = key.located();
        let distance = |pair: &(K, u64)| pair.0.located().1.abs_diff(place);
        let counts = |pair: &&(K, u64)| {
            let is_near = near.tolerance.is_none_or(|most| distance(pair) <= most.into());
            pair.0.located().0 == group && is_near && !(near.is_strict && pair.0 == *key)
        };
        let (below, above) = self.0.split_at(self.rank(key, true) as usize);
        // One of them may be the key itself, which may be the first one on either side.
        let below = below.iter().rev().take(k + 1).filter(counts).cloned();
        let itself = below.clone().next().filter(|pair| pair.0 == *key);
        let above = above.iter().take(k).filter(counts).cloned();
        let mut found: Pairs<K> = match near.direction {
            Direction::Backward => below.collect(),
            Direction::Forward => itself.into_iter().chain(above).collect(),
            Direction::Nearest => {
                let mut both: Pairs<K> = below.chain(above).collect();
                both.sort_by_key(|pair| (distance(pair), (pair.0 > *key) == (near.ties != Ties::Forward)));
                both
            }
        };
        found.truncate(k);
        found
    }

    /// The nearest pair, or both of two at the same distance, the smaller key first.
    fn nearest_or_both(&self, key: &K, near: &Near) -> Pairs<K> {
        let mut found = self.nearest(key, 2, near);
        let place = |pair: &(K, u64)| pair.0.located().1.abs_diff(key.located().1);
        if !near.takes_both() || found.len() == 2 && place(&found[0]) != place(&found[1]) {
            found.truncate(1);
        }
        found
    }

    /// The pairs of a key's group that are at most this far away.
    fn band(&self, key: &K, distance: u64) -> &[(K, u64)] {
        let ((group, place), distance) = (key.located(), u128::from(distance));
        let (low, high) = ((group, place.saturating_sub(distance)), (group, place.saturating_add(distance)));
        let from = self.0.partition_point(|pair| pair.0.located() < low);
        &self.0[from..self.0.partition_point(|pair| pair.0.located() <= high)]
    }

    /// The pairs of this and of another index, whose keys ascend.
    fn combined(&self, how: Combination, other: &[(K, u64)]) -> Pairs<K> {
        let other: BTreeMap<K, u64> = other.iter().cloned().collect();
        let mut pairs: BTreeMap<K, u64> = self.0.iter().cloned().collect();
        match how {
            Combination::Union => pairs.extend(other),
            Combination::Intersection => pairs.retain(|key, _| other.contains_key(key)),
            Combination::Difference => pairs.retain(|key, _| !other.contains_key(key)),
        }
        pairs.into_iter().collect()
    }
}

fn values<K>(pairs: &[(K, u64)]) -> Vec<u64> {
    pairs.iter().map(|pair| pair.1).collect()
}

fn between<K: Clone>((low, high): &(K, K), open: Open) -> Range<K> {
    let bound = |is_open, key: &K| if is_open { Bound::Excluded(key.clone()) } else { Bound::Included(key.clone()) };
    (bound(open.low, low), bound(open.high, high), None)
}

/// The rows of a join, from the matches of each probe.
fn joined<K>(matches: impl Iterator<Item = Vec<u64>>, of: Joining) -> Answer<K> {
    let (mut probes, mut rows) = (Vec::new(), Vec::new());
    for (probe, mut own) in matches.enumerate() {
        if !of.is_valid(probe) {
            own.clear();
        }
        let count = match of.kind {
            JoinKind::Inner => own.len(),
            JoinKind::Left => own.len().max(1),
            JoinKind::Semi => own.len().min(1),
            JoinKind::Anti => usize::from(own.is_empty()),
        };
        probes.extend(core::iter::repeat_n(probe as u64, count));
        match of.kind {
            JoinKind::Inner | JoinKind::Left => {
                own.resize(count, Matches::NO_ROW);
                rows.append(&mut own);
            }
            JoinKind::Semi | JoinKind::Anti => {}
        }
    }
    Answer::Joined { probes, rows }
}
