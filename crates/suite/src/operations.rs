//! Operations as calls take them.

use lanetree::{Op, Word};

/// The same operation with a value of its width.
pub(crate) fn narrow<K: Clone, V: Word>(op: &Op<K, u64>) -> Op<K, V> {
    match op {
        Op::Insert(key, value) => Op::Insert(key.clone(), V::truncate(*value)),
        Op::Update(key, value) => Op::Update(key.clone(), V::truncate(*value)),
        Op::Remove(key) => Op::Remove(key.clone()),
    }
}

/// An operation's value; of a removal, any value.
pub(crate) fn value_of<K, V: Word>(op: &Op<K, V>) -> V {
    match op {
        Op::Insert(_, value) | Op::Update(_, value) => *value,
        Op::Remove(_) => V::MIN,
    }
}
