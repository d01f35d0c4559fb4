//! What the tests of both ways of updating compare a tree with.

use super::{Op, UpdateReport};
use lanetree_layout::{Key, Word};
use std::collections::{BTreeMap, BTreeSet};

/// The key of an ordered word's low bits.
pub(super) fn key<K: Key>(word: u64) -> K {
    K::decode(K::Bits::truncate(word))
}

/// Applies a batch to the model, and returns what the tree should report.
pub(super) fn apply_to_model<K: Key, V: Word>(model: &mut BTreeMap<K, V>, ops: &[Op<K, V>]) -> UpdateReport {
    let mut report = UpdateReport::default();
    let before = model.clone();
    for op in ops {
        match *op {
            Op::Insert(key, value) => drop(model.insert(key, value)),
            Op::Update(key, value) => drop(model.get_mut(&key).map(|old| *old = value)),
            Op::Remove(key) => drop(model.remove(&key)),
        }
    }
    let keys: BTreeSet<K> = ops.iter().map(Op::key).collect();
    for key in &keys {
        match (before.contains_key(key), model.contains_key(key)) {
            (false, true) => report.inserted += 1,
            (true, true) => report.replaced += 1,
            (true, false) => report.removed += 1,
            (false, false) => report.unmatched += 1,
        }
    }
    report
}
