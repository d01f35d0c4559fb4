//! Updates in one stage: [`UpdateEngine::Sequence`](super::UpdateEngine::Sequence).

use super::batch::UpdateBatch;
use super::over;
use crate::Cuart;
use crate::parts::Parts;
use core::mem::offset_of;
use lanetree_frame::Result;
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::{Leaf8, Leaf16, Leaf32, LinkType};
use lanetree_kernels_cuart::update::{ClearSequenceArgs, LatestArgs};
use lanetree_layout::Word;
use lanetree_runtime::Stream;

impl<V: Word> Cuart<V> {
    /// For tests: the next operation with [`UpdateEngine::Sequence`](super::UpdateEngine::Sequence) gets a number above
    /// `number`, as if there had been that many operations before. So tests reach what happens once in 2^32 operations.
    #[cfg(any(test, feature = "check"))]
    pub fn skip_sequence(&mut self, number: u32) {
        if let Ok(tree) = self.parts.get_mut() {
            tree.updates.sequence = tree.updates.sequence.max(number);
        }
    }
}

/// Whether leaves have room for the numbers of operations above their values, and the tree has no keys that are too
/// long for these kernels.
pub(super) fn has_sequence<V: Word>(tree: &Parts) -> bool {
    V::BITS == 32 && tree.query_words() > 0
}

/// The number of the first of `count` operations, above all earlier numbers.
pub(super) fn next_sequence(tree: &mut Parts, stream: &Stream, count: usize) -> Result<u32> {
    let count = count as u32;
    // Numbers begin at 1: a value that was never updated has 0 above it.
    let first = match tree.updates.sequence.checked_add(1).filter(|first| first.checked_add(count).is_some()) {
        Some(first) => first,
        None => {
            clear_sequence(tree, stream)?;
            1
        }
    };
    tree.updates.sequence = first + (count - 1);
    Ok(first)
}

/// Updates values in one stage.
pub(super) fn write_latest<V: Word>(
    tree: &mut Parts,
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    sequence: u32,
) -> Result<()> {
    let args = LatestArgs {
        tree: tree.tree_mut(stream)?,
        queries: batch.queries,
        values: batch.values.cast(),
        picks: batch.picks,
        count: batch.count as u64,
        sequence,
        padding: 0,
        hits: batch.hits,
    };
    // SAFETY: the tree is valid and without long keys; there are that many queries and values of 32 bits, and a hit
    // mask for them. All numbers in leaves are below the batch's numbers.
    Ok(unsafe { over(stream, batch.count)?.run(calls::latest(tree.query_words(), &args)) }?)
}

/// Restarts the numbers of operations, once in 2^32 operations. Values do not change.
fn clear_sequence(tree: &mut Parts, stream: &Stream) -> Result<()> {
    let leaves = &mut tree.leaves;
    let regions = [
        (leaves.leaf8.buffer.write_on(stream)?.cast(), leaves.leaf8.used, LinkType::Leaf8, offset_of!(Leaf8, value)),
        (
            leaves.leaf16.buffer.write_on(stream)?.cast(),
            leaves.leaf16.used,
            LinkType::Leaf16,
            offset_of!(Leaf16, value),
        ),
        (
            leaves.leaf32.buffer.write_on(stream)?.cast(),
            leaves.leaf32.used,
            LinkType::Leaf32,
            offset_of!(Leaf32, value),
        ),
    ];
    for (leaves, used, kind, value) in regions {
        if used > 0 {
            let (stride, value) = ((kind.stride() / 8) as u32, (value / 8) as u32);
            let args = ClearSequenceArgs { leaves, count: used as u64, stride, value };
            // SAFETY: that many leaves of this kind.
            unsafe { over(stream, used)?.run(calls::clear_sequence(&args))? };
        }
    }
    Ok(())
}
