//! Operations as calls take them.

use crate::Change;
use crate::lent::Lender;
use lanetree::{AnyKey, Batch, Buffer, Device, Op, OpKind, Result, Word};

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

/// A batch in buffers, behind which there is one operation that is not the batch's.
pub(crate) struct Columns<K, V> {
    count: usize,
    keys: Buffer<K>,
    values: Buffer<V>,
    /// None of inserts.
    kinds: Option<Buffer<OpKind>>,
    _lender: Lender,
}

impl<K: AnyKey, V: Word> Columns<K, V> {
    pub(crate) fn upload(device: &Device, change: Change, ops: &[Op<K, V>]) -> Result<Self> {
        let lender = Lender::new(device);
        let more = ops.first().map(|op| Op::Insert(*op.key(), V::MAX));
        let all = || ops.iter().chain(&more);
        let kinds: Vec<OpKind> = all().map(Op::kind).collect();
        Ok(Self {
            count: ops.len(),
            keys: lender.upload(&all().map(|op| *op.key()).collect::<Vec<_>>())?,
            values: lender.upload(&all().map(value_of).collect::<Vec<_>>())?,
            kinds: if change == Change::Insert { None } else { Some(lender.upload(&kinds)?) },
            _lender: lender,
        })
    }

    pub(crate) fn batch(&self) -> Batch<'_, K, &Buffer<V>> {
        Batch { kinds: self.kinds.as_ref(), ..Batch::inserts(&self.keys, &self.values) }.first(self.count)
    }
}
