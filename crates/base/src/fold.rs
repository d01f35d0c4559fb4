//! The net effect of a batch: one change per distinct key.

use crate::parallel::{IntoParallel, Parallel, ParallelSlice, sort_by_first};
use crate::{Op, Result};
use lanetree_layout::{AnyKey, KeyWord, Value};

/// The net effect of all operations of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetChange<V> {
    /// The key has this value afterwards.
    Put(V),
    /// The key has this value afterwards, if it was present before.
    PutIfPresent(V),
    /// The key is not there afterwards.
    Remove,
}

impl<V> NetChange<V> {
    /// This change followed by another one, combined.
    pub fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Put(_), Self::PutIfPresent(value)) => Self::Put(value),
            (Self::Remove, Self::PutIfPresent(_)) => Self::Remove,
            (_, next) => next,
        }
    }
}

impl<K, V> From<Op<K, V>> for NetChange<V> {
    fn from(op: Op<K, V>) -> Self {
        match op {
            Op::Insert(_, value) => Self::Put(value),
            Op::Update(_, value) => Self::PutIfPresent(value),
            Op::Remove(_) => Self::Remove,
        }
    }
}

/// Changes of a task: enough to outweigh its dispatch.
const TASK: usize = 1 << 12;

/// Net changes, in strictly ascending order of their keys.
pub type NetChanges<B, V> = Vec<(B, NetChange<V>)>;

/// The net changes of a batch of `count` operations, in strictly ascending order of their keys.
///
/// # Errors
/// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for them.
pub fn fold<K: AnyKey, V: Value>(
    count: usize,
    op: impl Fn(usize) -> Op<K, V> + Sync,
) -> Result<NetChanges<K::Bits, V>> {
    let change = |i| {
        let op = op(i);
        (op.key().encode(), NetChange::from(op))
    };
    let mut changes = (0..count).into_par_iter().with_min_len(TASK).map(change).try_collect()?;
    // Stable: the operations of a key stay in the batch's order.
    sort_by_first(&mut changes)?;
    combine(changes)
}

/// Combines the changes of each key into one. The changes of a key are next to each other, in the order in which they
/// take effect.
///
/// # Errors
/// As [`fold`].
pub fn combine<B: KeyWord, V: Value>(changes: NetChanges<B, V>) -> Result<NetChanges<B, V>> {
    if changes.par_windows(2).with_min_len(TASK).all(|pair| pair[0].0 < pair[1].0) {
        return Ok(changes);
    }
    let is_first = |&at: &usize| at == 0 || changes[at - 1].0 != changes[at].0;
    let firsts = (0..changes.len()).into_par_iter().with_min_len(TASK).filter_collect(is_first)?;
    let net = |(key, &first): (usize, &usize)| {
        let same = &changes[first..firsts.get(key + 1).copied().unwrap_or(changes.len())];
        let all = same.iter().map(|change| change.1);
        (same[0].0, all.reduce(NetChange::then).expect("a key has a change"))
    };
    firsts.par_iter().with_min_len(TASK).enumerate().map(net).try_collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply_to_map;
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::collections::BTreeMap;

    fn op() -> impl Strategy<Value = Op<i32, u32>> {
        let key = select(vec![i32::MIN, -1, 0, 1, 2, 3, i32::MAX]);
        (key, any::<u32>(), 0..3).prop_map(|(key, value, kind)| match kind {
            0 => Op::Insert(key, value),
            1 => Op::Update(key, value),
            _ => Op::Remove(key),
        })
    }

    proptest! {
        #[test]
        fn net_changes_have_the_effect_of_the_operations(
            before in prop::collection::btree_map(-1..3_i32, any::<u32>(), 0..4),
            ops in prop::collection::vec(op(), 0..60),
        ) {
            let mut expected: BTreeMap<i32, u32> = before.clone();
            apply_to_map(&mut expected, &ops);
            let changes = fold(ops.len(), |i| ops[i]).unwrap();
            prop_assert!(changes.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let mut actual = before;
            for (word, change) in changes {
                let key = i32::decode(word);
                match change {
                    NetChange::Put(value) => drop(actual.insert(key, value)),
                    NetChange::PutIfPresent(value) => drop(actual.get_mut(&key).map(|old| *old = value)),
                    NetChange::Remove => drop(actual.remove(&key)),
                }
            }
            prop_assert_eq!(actual, expected);
        }
    }

    #[test]
    fn large_batches_are_folded_in_the_batch_order() {
        for keys in [1, 3, 1000, 1 << 20] {
            let op = |i: usize| match (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 {
                random if random % 3 == 0 => Op::Remove(random % keys),
                random => Op::Insert(random % keys, i as u32),
            };
            let mut expected = BTreeMap::new();
            // Inserts and removals: the last one of a key counts.
            for i in 0..50_000 {
                expected.insert(*op(i).key(), NetChange::from(op(i)));
            }
            let expected: Vec<_> = expected.into_iter().collect();
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(pool.install(|| fold(50_000, op)).unwrap(), expected);
            }
        }
    }

    #[test]
    fn keys_of_every_distribution_are_sorted() {
        let random = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        let sorts = |what: &str, key: &(dyn Fn(usize) -> u64 + Sync)| {
            let count = (3 << 15) + 5;
            let mut expected = BTreeMap::new();
            expected.extend((0..count).map(|i| (key(i), NetChange::Put(i as u32))));
            let expected: Vec<_> = expected.into_iter().collect();
            assert!(fold(count, |i| Op::Insert(key(i), i as u32)).unwrap() == expected, "{what}");
        };
        sorts("uniform", &random);
        sorts("ascending", &|i| i as u64);
        sorts("descending", &|i| u64::MAX - i as u64);
        sorts("one", &|_| 7);
        sorts("two ends", &|i| if i % 2 == 0 { 0 } else { u64::MAX });
        sorts("most in a bucket", &|i| if i % 100 == 0 { random(i) } else { random(i) >> 40 });
        sorts("few", &|i| random(i) % 1000);
        sorts("with a common prefix", &|i| 77 << 56 | random(i) >> 36);
    }
}
