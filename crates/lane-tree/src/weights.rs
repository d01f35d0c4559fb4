//! Weights of pairs, on the host: numbers in the low bits of their values, and their sums before each node.

use lanetree_frame::Result;
use lanetree_frame::room::zeroed;
use lanetree_layout::{Value, Word};

/// Nodes of the lowest level for each step of [`Weights`], and of the ranks that [`Parts`](crate::parts::Parts) has: a change writes up to
/// this many records, and as many steps in a tree of 2^18 nodes.
pub(crate) const RANK_BLOCK: usize = 512;

/// The weights of a tree in main memory.
#[derive(Debug)]
pub(crate) struct Weights {
    /// The bits of a value that are its weight.
    pub(crate) mask: u64,
    /// The weight of all pairs before each node of the lowest level, wrapping, less the step of its block.
    before: Vec<u64>,
    /// By how much, wrapping, the weights before each [`RANK_BLOCK`] nodes are more.
    steps: Vec<u64>,
    /// The weight of all pairs.
    pub(crate) total: u64,
}

/// The weight of a value.
pub(crate) fn weight<V: Value>(value: V, mask: u64) -> u64 {
    value.word().widen() & mask
}

/// The weight of values.
pub(crate) fn sum<V: Value>(values: &[V], mask: u64) -> u64 {
    values.iter().map(|&value| weight(value, mask)).sum()
}

impl Weights {
    /// Of nodes with these weights before them, and in all.
    pub(crate) fn of(before: Vec<u64>, mask: u64, total: u64) -> Result<Self> {
        let steps = zeroed(before.len().div_ceil(RANK_BLOCK))?;
        Ok(Self { mask, before, steps, total })
    }

    /// The weight of all pairs before a node of the lowest level.
    #[inline(always)]
    pub(crate) fn before(&self, node: usize) -> u64 {
        self.before[node].wrapping_add(self.steps[node / RANK_BLOCK])
    }

    /// Changes the sums: adds growths, wrapping, to all nodes after certain ones. `growths` ascends by these nodes, and says of each
    /// whether the node that is there is after it, too.
    pub(crate) fn grow(&mut self, growths: impl Iterator<Item = (usize, bool, u64)>) {
        let (mut growths, mut sum) = (growths.peekable(), 0_u64);
        for (block, (step, before)) in self.steps.iter_mut().zip(self.before.chunks_mut(RANK_BLOCK)).enumerate() {
            let (start, at_first) = (block * RANK_BLOCK, sum);
            *step = step.wrapping_add(at_first);
            let is_in_block = |growths: &mut core::iter::Peekable<_>| {
                growths.peek().is_some_and(|&(node, ..): &(usize, bool, u64)| node < start + before.len())
            };
            if !is_in_block(&mut growths) {
                continue;
            }
            for (at, before) in before.iter_mut().enumerate() {
                while let Some((.., growth)) = growths.next_if(|&(node, at_own, _)| node == start + at && at_own) {
                    sum = sum.wrapping_add(growth);
                }
                *before = before.wrapping_add(sum.wrapping_sub(at_first));
                while let Some((.., growth)) = growths.next_if(|&(node, ..)| node == start + at) {
                    sum = sum.wrapping_add(growth);
                }
            }
        }
        self.total = growths.fold(self.total.wrapping_add(sum), |total, (.., growth)| total.wrapping_add(growth));
    }
}
