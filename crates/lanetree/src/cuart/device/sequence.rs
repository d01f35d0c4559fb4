//! Updates in one stage: [`UpdateEngine::Sequence`](super::UpdateEngine::Sequence).

use super::engine::Batch;
use super::over;
use crate::Result;
use crate::cuart::Cuart;
use core::mem::offset_of;
use lanetree_kernels_cuart::update::{ClearSequenceArgs, LatestArgs, TreeMut};
use lanetree_launch::cuart::update as launch;
use lanetree_layout::Word;
use lanetree_layout::cuart::{Kind, Leaf8, Leaf16, Leaf32};
use lanetree_runtime::Stream;

impl<V: Word> Cuart<V> {
    /// For tests: lets the next operation with [`UpdateEngine::Sequence`](super::UpdateEngine::Sequence) have a number above `number`, as if there
    /// had been as many before. What a tree does once in 2^32 operations then comes soon.
    #[doc(hidden)]
    pub fn skip_sequence(&mut self, number: u32) {
        self.state.sequence = self.state.sequence.max(number);
    }
}

/// Whether values have room above them for the numbers of operations, and kernels know no longer keys.
pub(super) fn has_sequence<V: Word>(tree: &Cuart<V>) -> bool {
    V::BITS == 32 && tree.query_words() > 0
}

/// Updates values in one stage.
pub(super) fn sequence<V: Word>(tree: &mut Cuart<V>, stream: &Stream, batch: &Batch<'_, V>) -> Result<()> {
    let count = batch.count as u32;
    // Numbers begin at 1: a value that was never updated has 0 above it.
    let sequence = match tree.state.sequence.checked_add(1).filter(|first| first.checked_add(count).is_some()) {
        Some(first) => first,
        None => {
            clear_sequence(tree, stream)?;
            1
        }
    };
    tree.state.sequence = sequence + (count - 1);
    let args = LatestArgs {
        tree: TreeMut::new(tree.tree_ref()),
        queries: batch.keys.keys_ref(),
        values: batch.values.cast(),
        picks: batch.picks,
        count: batch.count as u64,
        sequence,
        padding: 0,
        found: batch.found,
    };
    Ok(launch::latest(tree.query_words(), &args, over(stream, batch.count)?)?)
}

/// Lets the numbers of operations begin anew: once in 2^32 operations.
fn clear_sequence<V: Word>(tree: &mut Cuart<V>, stream: &Stream) -> Result<()> {
    let leaves = &mut tree.leaves;
    let regions = [
        (leaves.leaf8.buffer.global_mut().cast(), leaves.leaf8.used, Kind::Leaf8, offset_of!(Leaf8, value)),
        (leaves.leaf16.buffer.global_mut().cast(), leaves.leaf16.used, Kind::Leaf16, offset_of!(Leaf16, value)),
        (leaves.leaf32.buffer.global_mut().cast(), leaves.leaf32.used, Kind::Leaf32, offset_of!(Leaf32, value)),
    ];
    for (leaves, used, kind, value) in regions {
        if used > 0 {
            let (stride, value) = ((kind.stride() / 8) as u32, (value / 8) as u32);
            let args = ClearSequenceArgs { leaves, count: used as u64, stride, value };
            launch::clear_sequence(&args, over(stream, used)?)?;
        }
    }
    Ok(())
}
