//! Batches of changes: the pairs are merged with the batch in main memory, and replaced.

use super::SortedArray;
use lanetree_frame::fixed::SortedPairs;
use lanetree_frame::{DeviceKind, Op, Result, UpdatePath, UpdateReport, fold};
use lanetree_layout::{Key, Word};

impl<K: Key, V: Word> SortedArray<K, V> {
    /// Applies operations: all updates end here. The buffers are replaced once both new ones are complete, by what cannot
    /// fail, so the index is as it was, or as it is to be.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        let changes = fold(count, op)?;
        let (pairs, report) = match (self.device.kind(), self.keys.as_slice(), self.values.as_slice()) {
            (DeviceKind::Host, Some(keys), Some(values)) => SortedPairs::merge((keys, values), &changes)?,
            _ => SortedPairs::merge((&self.keys.to_vec()?, &self.values.to_vec()?), &changes)?,
        };
        if report.path != UpdatePath::Unchanged {
            let (keys, values) = (self.device.upload(&pairs.keys)?, self.device.upload(&pairs.values)?);
            (self.keys, self.values) = (keys, values);
        }
        Ok(report)
    }
}
