//! Batches of changes: planned on the host, applied on the device, and then on the host.

use super::Hybrid;
use super::split::parts;
use crate::update::{NetBatch, of_ops, paired};
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_frame::{NetChange, Op, Result, UpdatePath, UpdateReport};
use lanetree_layout::Word;

impl<V: Word> Hybrid<V> {
    /// Applies a batch of operations, with the effect of one after another in the batch's order: those on short keys to
    /// the device's tree, and then those on long ones to the host's.
    ///
    /// # Errors
    /// As [`Cuart::apply`](crate::Cuart::apply): unless it is [`Error::Lost`](lanetree_frame::Error::Lost), both trees are as they
    /// were.
    pub fn apply<K: AsRef<[u8]>>(&mut self, ops: &[Op<K, V>]) -> Result<UpdateReport> {
        let (keys, change) = of_ops(ops)?;
        self.change((&keys).into(), change)
    }

    /// Inserts pairs; if a key is present, its value is replaced. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Hybrid::apply`], and [`Error::LengthMismatch`](lanetree_frame::Error::LengthMismatch).
    pub fn insert_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<UpdateReport> {
        let keys = paired(keys.into(), values)?;
        self.change(keys, |index| NetChange::Put(values[index]))
    }

    /// Replaces the values of the keys that are present. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Hybrid::apply`], and [`Error::LengthMismatch`](lanetree_frame::Error::LengthMismatch).
    pub fn update_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<UpdateReport> {
        let keys = paired(keys.into(), values)?;
        self.change(keys, |index| NetChange::PutIfPresent(values[index]))
    }

    /// Removes the keys in `keys` that are present, with their values. Returns when it is done.
    ///
    /// # Errors
    /// As [`Hybrid::apply`].
    pub fn remove_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>) -> Result<UpdateReport> {
        self.change(keys.into(), |_| NetChange::Remove)
    }

    /// WrittenElements both trees, each by its part of the batch. Not at the same time: the device's part may fail, and then
    /// half of the batch must not be applied.
    fn change(&mut self, keys: ByteKeys<'_>, change: impl Fn(usize) -> NetChange<V> + Sync) -> Result<UpdateReport> {
        self.check()?;
        self.host.options.check_keys(keys, |index| matches!(change(index), NetChange::Put(_)))?;
        let [short, long] = parts(keys, self.max)?;
        let batch = NetBatch::new(long.keys(), |index| change(long.place(index)))?;
        let planned = if long.is_empty() { None } else { Some(self.host.plan_in_memory(&batch)?) };
        let mut report = UpdateReport::default();
        if !short.is_empty() {
            report = self.device.apply_each(short.keys(), |index| change(short.place(index)), None)?;
        }
        if let Some(planned) = planned {
            report = sum(report, self.host.carry_out_in_memory(&batch, planned, None)?);
        }
        Ok(report)
    }
}

/// The combined outcome of both trees for a batch.
fn sum(one: UpdateReport, other: UpdateReport) -> UpdateReport {
    UpdateReport { path: the_farther(one.path, other.path), ..one.plus(&other) }
}

/// The outcome that says more, of the two trees' outcomes for a batch.
fn the_farther(one: UpdatePath, other: UpdatePath) -> UpdatePath {
    if [one, other].contains(&UpdatePath::Rebuilt) {
        UpdatePath::Rebuilt
    } else if one == UpdatePath::Unchanged {
        other
    } else {
        one
    }
}
