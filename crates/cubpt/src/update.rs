//! Batches of changes.

use crate::Cubpt;
use crate::tree::Tree;
use lanetree_frame::fixed::{FixedIndex, SortedPairs};
use lanetree_frame::{Op, Result, UpdatePath, UpdateReport, fold};
use lanetree_layout::{Key, Word};

impl<K: Key, V: Word> Cubpt<K, V> {
    /// Applies operations: all updates end here.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.tree.check()?;
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        let changes = fold(count, op);
        let old = self.sorted_pairs()?;
        let (pairs, report) = SortedPairs::merge((&old.keys, &old.values), &changes)?;
        if report.path != UpdatePath::Unchanged {
            self.tree.replace(Tree::build(&self.device, self.order, self.fill, &pairs.keys, &pairs.values)?);
        }
        Ok(report)
    }

    /// All pairs, in main memory.
    pub(super) fn sorted_pairs(&self) -> Result<SortedPairs<K::Bits, V>> {
        let tree = self.tree.get()?;
        let (len, leaves) = (tree.len as usize, tree.order.leaves.len());
        if len == 0 {
            return Ok(SortedPairs::default());
        }
        if let Some(view) = self.native() {
            let (mut keys, mut values) = (vec![K::decode(K::Bits::MIN); len], vec![V::MIN; len]);
            lanetree_frame::fixed::View::copy(&view, 0, &mut keys, &mut values);
            return Ok(SortedPairs { keys: keys.into_iter().map(Key::encode).collect(), values });
        }
        // Each leaf is a range.
        let stream = self.device.stream()?;
        let (mut keys, mut values) = (self.device.alloc::<K::Bits>(len)?, self.device.alloc::<V>(len)?);
        let ranks = tree.order.ranks.read_on(&stream)?;
        // SAFETY: ranks are cursors, and the offsets of the leaves' pairs; there is room for all pairs.
        unsafe {
            let pairs = (keys.write_on(&stream)?, values.write_on(&stream)?);
            self.launch_gather(&stream, leaves, len, (ranks, ranks), pairs, len)?;
        }
        let keys = keys.to_vec()?.into_iter().map(|key| key.xor(K::FLIP)).collect();
        Ok(SortedPairs { keys, values: values.to_vec()? })
    }
}
