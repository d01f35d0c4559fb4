//! Batches of changes (section 3.2.2).

mod apply;
mod batch;
mod plan;
mod sums;

use crate::Cubpt;
use crate::storage::too_many;
use crate::tree::{Tree, full, levels_above};
use batch::{Changes, Found};
use lanetree_frame::fixed::{FixedIndex, SortedPairs};
use lanetree_frame::{DeviceKind, NetChange, Op, Result, UpdatePath, UpdateReport, fold};
use lanetree_kernels_cubpt::TreeRef;
use lanetree_layout::{Key, Word};
use plan::Plan;

impl<K: Key, V: Word> Cubpt<K, V> {
    /// Applies operations: all updates end here.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.tree.check()?;
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        let changes = fold(count, op);
        if self.device.kind() != DeviceKind::Host {
            return self.change_on_device(&changes);
        }
        let old = self.sorted_pairs()?;
        let (pairs, report) = SortedPairs::merge((&old.keys, &old.values), &changes)?;
        if report.path != UpdatePath::Unchanged {
            self.tree.replace(Tree::build(&self.device, self.order, self.fill, &pairs.keys, &pairs.values)?);
        }
        Ok(report)
    }

    /// Searches, plans and makes room while the tree is only read; then carries the plan out.
    fn change_on_device(&mut self, changes: &[(K::Bits, NetChange<V>)]) -> Result<UpdateReport> {
        let (stream, order, fill) = (self.device.stream()?, self.order, self.fill);
        let tree = self.tree.get()?;
        let changes = Changes::<K, V>::upload(&self.device, changes)?;
        let tree_ref =
            TreeRef { nodes: tree.storage.nodes(&stream)?, root: tree.root, height: tree.height, flip: K::FLIP };
        let found = Found::search(&stream, tree_ref, &changes)?;
        let (inserted, removed, replaced) = (found.inserts.total, found.removals.total, found.replaced);
        let mut report = UpdateReport { inserted, removed, replaced, ..UpdateReport::default() };
        report.unmatched = changes.len() as u64 - inserted - removed - replaced;
        if inserted + removed == 0 {
            if replaced > 0 {
                report.path = UpdatePath::InPlace;
                self.tree.change(|tree| {
                    apply::replace(&stream, &mut tree.storage, &changes, &found)?;
                    Ok(stream.synchronize()?)
                })?;
            }
            return Ok(report);
        }
        let len = tree.len + inserted - removed;
        if len == 0 {
            let empty = Tree::build::<K::Bits, V>(&self.device, order, fill, &[], &[])?;
            self.tree.replace(empty);
            report.path = UpdatePath::Rebuilt;
            return Ok(report);
        }
        let full = full(order, fill).max(u64::from(order).div_ceil(2));
        let tree = self.tree.get_mut()?;
        let plan = Plan::new(&stream, tree, &found, full as u32)?;
        let above: u64 = match plan.layers.last() {
            Some(layer) if plan.root_after.is_some() => levels_above(layer.pieces.total, full).iter().sum(),
            _ => 0,
        };
        let nodes = tree.end + plan.taken() + above;
        if nodes >= u64::from(u32::MAX) {
            return Err(too_many(len, order));
        }
        tree.storage.reserve(nodes)?;
        let work = tree.prepare(&stream, &plan, &changes, &found, full)?;
        stream.synchronize()?;
        report.path = UpdatePath::Moved;
        self.tree.change(|tree| {
            apply::replace(&stream, &mut tree.storage, &changes, &found)?;
            tree.carry_out(&stream, len, work)
        })?;
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
