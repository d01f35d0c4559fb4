//! Batches of changes.

use super::LaneTree;
use crate::build::build;
use lanetree_frame::fixed::{FixedIndex, SortedPairs};
use lanetree_frame::{Op, Result, UpdatePath, UpdateReport, fold};
use lanetree_layout::{Key, Word};

impl<K: Key, V: Word> LaneTree<K, V> {
    /// Applies operations: all updates end here. The tree is replaced once the new one is complete, so it is as it was, or as
    /// it is to be.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.parts.check()?;
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        let old = self.sorted_pairs()?;
        let (pairs, report) = SortedPairs::merge((&old.keys, &old.values), &fold(count, op))?;
        if report.path != UpdatePath::Unchanged {
            self.parts.replace(build::<K, V>(&self.device, &pairs, self.options)?);
        }
        Ok(report)
    }

    /// All pairs, in main memory.
    pub(super) fn sorted_pairs(&self) -> Result<SortedPairs<K::Bits, V>> {
        let len = self.parts.get()?.shape.len as usize;
        if len == 0 {
            return Ok(SortedPairs::default());
        }
        if let Some(view) = self.native() {
            let (mut keys, mut values) = (vec![K::decode(K::Bits::MIN); len], vec![V::MIN; len]);
            lanetree_frame::fixed::View::copy(&view, 0, &mut keys, &mut values);
            return Ok(SortedPairs { keys: keys.into_iter().map(Key::encode).collect(), values });
        }
        // One range from the first slot on.
        let stream = self.device.stream()?;
        let (cursors, offsets) = (self.device.upload(&[0_u64])?, self.device.upload(&[0, len as u64])?);
        let (mut keys, mut values) = (self.device.alloc::<K::Bits>(len)?, self.device.alloc::<V>(len)?);
        // SAFETY: the first slot is a cursor, and there is room for all pairs.
        unsafe {
            let pairs = (keys.write_on(&stream)?, values.write_on(&stream)?);
            self.launch_gather(&stream, 1, len, (cursors.read_on(&stream)?, offsets.read_on(&stream)?), pairs, len)?;
        }
        let keys = keys.to_vec()?.into_iter().map(|key| key.xor(K::FLIP)).collect();
        Ok(SortedPairs { keys, values: values.to_vec()? })
    }
}
