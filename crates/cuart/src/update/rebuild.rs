//! Large batches: all threads rebuild the tree from its pairs and the batch's.

use super::batch::{NetBatch, Work};
use crate::Builder;
use crate::parts::Parts;
use lanetree_frame::NetChange;
use lanetree_frame::Result;
use lanetree_frame::room::push;
use lanetree_kernels_cuart::layout::Link;
use lanetree_layout::Word;

/// The fewest inserts for a rebuild: a smaller batch never makes a tree without ranks one with ranks.
const MIN_INSERTS: usize = 1 << 12;

impl Parts {
    /// Whether a batch adds more keys than the tree has. Inserting these one after another takes one thread longer than
    /// sorting and building everything.
    pub(super) fn outgrows(&self, work: &Work) -> bool {
        let inserts = work.inserts.len();
        inserts >= MIN_INSERTS && inserts as u64 > self.len && work.removals.is_empty()
    }

    /// The tree rebuilt with a batch that removes nothing, whose keys have these leaves.
    pub(super) fn rebuilt_with<V: Word>(
        &self,
        options: &Builder<V>,
        batch: &NetBatch<'_, V>,
        leaves: &[Link],
    ) -> Result<Self> {
        let (mut keys, mut values) = self.pairs()?;
        for (at, (leaf, change)) in leaves.iter().zip(batch.changes()).enumerate() {
            match *change {
                NetChange::Put(value) => push(&mut values, value)?,
                NetChange::PutIfPresent(value) if !leaf.is_none() => push(&mut values, value)?,
                NetChange::PutIfPresent(_) | NetChange::Remove => continue,
            }
            keys.try_push(batch.keys().at(at))?;
        }
        // Of equal keys the last one's value is kept: the batch's.
        options.build(&self.device, &keys, &values)?.parts.into_inner()
    }
}
