//! Weights of pairs, on the host: numbers in the low bits of their values, and their sums before each node. A multi-map's values say how
//! many pairs each key has, so these sums are the ranks of its pairs.
//!
//! A query adds the weights in its node up to its own slot. A batch of changes adds to the sums after the nodes that it touches, as it
//! does to ranks: in steps of whole blocks of nodes beyond its own.

use super::descent::{Batch, Finish, Position};
use super::node::Count;
use super::{View, encoded, slots_before};
use crate::LaneTree;
use crate::parts::Parts;
use crate::weights::{self, Weights, sum};
use core::ops::ControlFlow;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::Result;
use lanetree_frame::parallel::*;
use lanetree_kernels_lane_tree::layout::last_node;
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_runtime::Simd;

/// Queries, and nodes, that a thread takes at a time: fewer take less time than to wake it.
const TASK: usize = 1 << 10;

impl Weights {
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
                    let own = weights::weight(value, weights.mask);
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
