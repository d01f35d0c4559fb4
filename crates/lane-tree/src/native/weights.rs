//! Weights of pairs, on the host: numbers in the low bits of their values, and their sums before each node. A multi-map's values say how
//! many pairs each key has, so these sums are the ranks of its pairs.
//!
//! A query adds the weights in its node up to its own slot. A batch of changes adds to the sums after the nodes that it touches, as it
//! does to ranks: in steps of whole blocks of nodes beyond its own.

use super::descent::{Batch, Finish, Position};
use super::node::Count;
use super::{View, encoded, slots_before};
use crate::LaneTree;
use crate::parts::{Parts, RANK_BLOCK};
use core::ops::ControlFlow;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::Result;
use lanetree_frame::parallel::*;
use lanetree_frame::room::zeroed;
use lanetree_kernels_lane_tree::layout::last_node;
use lanetree_layout::{AnyKey, KeyWord, Value, Word};
use lanetree_runtime::Simd;

/// Queries, and nodes, that a thread takes at a time: fewer take less time than to wake it.
const TASK: usize = 1 << 10;

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

    /// Of a tree as it is.
    pub(crate) fn of_tree<W: KeyWord, V: Value>(view: &View<'_, W, V>, mask: u64) -> Result<Self> {
        let nodes = (0..view.leaf_nodes()).into_par_iter().with_min_len(TASK);
        let mut before: Vec<u64> = nodes.map(|node| view.weight_of(node, mask)).try_collect()?;
        let mut total = 0;
        before.iter_mut().for_each(|of_node| {
            let own = core::mem::replace(of_node, total);
            total += own;
        });
        Self::of(before, mask, total)
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

impl<W: KeyWord, V: Value> View<'_, W, V> {
    /// The weight of the pairs in the first `buckets` of a node, none of which is free.
    #[inline(always)]
    fn weight_before(&self, node: usize, buckets: u32, mask: u64) -> u64 {
        let (record, first) = (self.record(node), self.buckets_of(node).start);
        (0..buckets).map(|at| sum(&self.slots(first + at as usize).1[..record.len(at) as usize], mask)).sum()
    }

    /// The weight of a node's pairs.
    fn weight_of(&self, node: usize, mask: u64) -> u64 {
        let (record, mut left, mut used) = (self.record(node), self.len_of(node), 0);
        while left > 0 {
            left -= record.len(used) as usize;
            used += 1;
        }
        self.weight_before(node, used, mask)
    }

    /// Calls a function with the pairs from the one on that a weight is in, with how much of the pair's weight is before that, until
    /// it says that it has enough.
    fn each_from(&self, weights: &Weights, weight: u64, mut each: impl FnMut(W, V, u64) -> ControlFlow<()>) {
        if weight >= weights.total {
            return;
        }
        let first = last_node(self.shape.leaf_nodes, |node| weights.before(node as usize) <= weight) as usize;
        let mut skipped = weight - weights.before(first);
        for node in first..self.leaf_nodes() {
            let (record, mut left) = (self.record(node), self.len_of(node));
            for (within, bucket) in self.buckets_of(node).enumerate() {
                // Buckets that are free come last.
                let len = (record.len(within as u32) as usize).min(left);
                left -= len;
                let (keys, values) = self.slots(bucket);
                for (&key, &value) in keys.iter().zip(&values).take(len) {
                    let own = self::weight(value, weights.mask);
                    if skipped >= own {
                        skipped -= own;
                        continue;
                    }
                    if each(key, value, core::mem::take(&mut skipped)).is_break() {
                        return;
                    }
                }
            }
        }
    }
}

impl<W: KeyWord> Parts<W> {
    /// Gives a tree in main memory weights.
    pub(crate) fn weigh<V: Value>(&mut self, mask: u64, simd: Simd) -> Result<()> {
        if let Some(view) = View::<W, V>::new(self, simd) {
            self.weights = Some(Weights::of_tree(&view, mask)?);
        }
        Ok(())
    }
}

/// Finds the weight of all pairs before words.
#[derive(Clone, Copy)]
struct WeightRanks<'a> {
    weights: &'a Weights,
    upper: bool,
}

impl<W: KeyWord, V: Value> Finish<W, V> for WeightRanks<'_> {
    type Out = u64;
    const ORDERED: bool = true;

    #[inline(always)]
    fn finish<S: Count>(self, simd: S, view: &View<'_, W, V>, word: W, position: Position) -> Self::Out {
        let (node, bucket) = (position.node as usize, position.bucket as usize);
        let len = view.record(node).len(position.within);
        // Free slots count no more than the last pair.
        let before = slots_before::<W, V>(simd, &view.buckets[View::<W, V>::position(bucket)], word, self.upper);
        let own = sum(&view.slots(bucket).1[..before.min(len) as usize], self.weights.mask);
        self.weights.before(node) + view.weight_before(node, position.within, self.weights.mask) + own
    }
}

/// For indexes above a tree, on the host.
impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Gives the tree weights, for [`LaneTree::weight_ranks`]: these bits of its values. Batches of changes in host form keep them;
    /// whatever makes another tree of this one makes one without weights.
    ///
    /// # Errors
    /// [`Error::Runtime`] where main memory has no room.
    #[doc(hidden)]
    pub fn weigh(&mut self, mask: u64) -> Result<()> {
        self.parts.get_mut()?.weigh::<V>(mask, self.simd)
    }

    /// The weight of all pairs whose keys are below each of `keys` or, with `upper`, at or below them. Of a tree with weights.
    ///
    /// # Errors
    /// [`Error::Lost`].
    #[doc(hidden)]
    pub fn weight_ranks(&self, keys: &[K], upper: bool, out: &mut [u64]) -> Result<()> {
        let view = View::<K::Bits, V>::new(self.parts.get()?, self.simd).filter(|view| view.shape.len > 0);
        let Some((view, weights)) = view.and_then(|view| Some((view, view.weights?))) else {
            out.fill(0);
            return Ok(());
        };
        keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
            let finish = WeightRanks { weights, upper };
            let mut each = |first: usize, ranks: &[u64]| out[first..first + ranks.len()].copy_from_slice(ranks);
            let (count, words) = (keys.len(), &encoded(keys));
            view.simd.run(Batch { view, count, words, finish, each: &mut each });
        });
        Ok(())
    }

    /// Calls a function with the pairs from the one on that a weight is in, with how much of that pair's weight is before it, until it
    /// says that it has enough. Of a tree with weights.
    #[doc(hidden)]
    pub fn each_from(&self, weight: u64, mut each: impl FnMut(K, V, u64) -> ControlFlow<()>) {
        let view = self.parts.get().ok().and_then(|parts| View::<K::Bits, V>::new(parts, self.simd));
        if let Some((view, weights)) = view.and_then(|view| Some((view, view.weights?))) {
            view.each_from(weights, weight, |word, value, skipped| each(K::decode(word), value, skipped));
        }
    }
}
