//! The movement after a batch: leaves go to their new positions, and the levels above are rebuilt.
//!
//! The new position of every node is known in advance, from prefix sums over the numbers of leaves and pairs that each
//! part of the old region turns into. So all parts move at the same time, into a second region; the old one stays
//! unchanged until the new one is complete. The inner levels, one `fanout`-th of the region, are laid out again above
//! the new leaves, as full as the build made them. That costs less than splitting and merging them node by node, and
//! keeps the tree as flat as a new one.

use super::Limits;
use super::auxiliary::{LeafTable, Pairs, Run};
use crate::build::{fill_inner, fill_prefix_sum};
use crate::native::View;
use lanetree_frame::NetChange;
use lanetree_frame::Result;
use lanetree_frame::parallel::*;
use lanetree_kernels_harmonia::layout::{Shape, leaf_bytes};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device};

/// A tree's leaves after all changes of a batch.
pub(super) struct Settled<'a, W: Word, V: Word> {
    /// The tree's: new regions come from its pool, if it has one.
    pub(super) device: &'a Device,
    pub(super) changes: &'a [(W, NetChange<V>)],
    pub(super) view: View<'a, W, V>,
    pub(super) leaves: &'a [u64],
    pub(super) table: LeafTable<'a>,
    pub(super) limits: Limits,
}

/// The regions of a tree after the movement.
pub(super) struct Regions<K> {
    pub(super) shape: Shape,
    pub(super) inner: Buffer<K>,
    pub(super) prefix_sum: Buffer<u32>,
    pub(super) leaves: Buffer<u64>,
    pub(super) ranks: Option<Buffer<u64>>,
}

/// Where a task writes.
struct Part<'a, K> {
    words: &'a mut [u64],
    /// Of each leaf.
    leaf_words: usize,
    ranks: &'a mut [u64],
    last_keys: &'a mut [K],
    /// Pairs before it.
    rank: u64,
}

/// The leaves into which a run is split: none for no pairs, one for as many as fit. More are split evenly,
/// into leaves as full as the build made them, and at least half full.
pub(super) fn leaves_of(shape: &Shape, count: u64) -> u64 {
    let fanout = u64::from(shape.fanout);
    if count <= fanout {
        return u64::from(count > 0);
    }
    count.div_ceil(fanout).max(count / u64::from(shape.per_leaf).max(fanout / 2))
}

impl<W: Word, V: Word> Settled<'_, W, V> {
    /// Moves everything to its new position.
    ///
    /// # Errors
    /// [`TooManyPairs`](lanetree_frame::Error::TooManyPairs), [`Runtime`](lanetree_frame::Error::Runtime) if there is
    /// no room.
    pub(super) fn moved(&self) -> Result<Regions<W>> {
        let tasks = self.table.shape.leaves.div_ceil(self.limits.leaves);
        let sizes: Vec<(u64, u64)> = (0..tasks).into_par_iter().map(|task| self.size(task)).collect();
        let (leaves, len) = sizes.iter().fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        let shape = self.shape(leaves, len)?;

        let host = self.device;
        let mut inner = host.alloc::<W>(shape.inner_slots() as usize)?;
        let mut prefix_sum = host.alloc::<u32>(shape.inner as usize)?;
        let mut moved = host.alloc::<u64>((shape.leaf_region_bytes::<W, V>() / 8) as usize)?;
        let mut last_keys = host.alloc::<W>(shape.leaves as usize)?;
        if leaves == 0 {
            return Ok(Regions { shape, inner, prefix_sum, leaves: moved, ranks: None });
        }
        let mut ranks = host.alloc::<u64>(shape.leaves as usize + 1)?;

        let leaf_words = leaf_bytes::<W, V>(shape.fanout) as usize / 8;
        let mut rest = Part {
            leaf_words,
            words: slice(&mut moved),
            ranks: slice(&mut ranks),
            last_keys: slice(&mut last_keys),
            rank: 0,
        };
        let parts: Vec<_> = sizes.iter().map(|&(leaves, len)| rest.take(leaves as usize, len)).collect();
        rest.ranks[0] = len;
        parts.into_par_iter().zip(0..tasks).for_each(|(part, task)| self.move_leaves(task, part));

        let last_keys = slice(&mut last_keys);
        fill_inner(&shape, slice(&mut inner), &|leaf| last_keys[leaf]);
        fill_prefix_sum(&shape, slice(&mut prefix_sum));
        Ok(Regions { shape, inner, prefix_sum, leaves: moved, ranks: Some(ranks) })
    }

    fn shape(&self, leaves: u64, len: u64) -> Result<Shape> {
        let old = self.table.shape;
        let shape = u32::try_from(leaves).ok().and_then(|leaves| old.with_leaves(len, leaves));
        self.limits.check(old, len, shape)
    }

    /// The runs that begin in a task's leaves.
    fn runs(&self, task: u32) -> impl Iterator<Item = Run> {
        let mut leaf = task * self.limits.leaves;
        let end = self.table.shape.leaves.min(leaf.saturating_add(self.limits.leaves));
        core::iter::from_fn(move || {
            // The previous task handles the rest of a run that began there.
            while leaf < end && self.table.states[leaf as usize].joined() != 0 {
                leaf += 1;
            }
            let run = (leaf < end).then(|| self.table.run(leaf))?;
            leaf = run.leaves.end;
            Some(run)
        })
    }

    /// The leaves and pairs that a task's leaves turn into.
    fn size(&self, task: u32) -> (u64, u64) {
        let sizes = self.runs(task).map(|run| (leaves_of(self.table.shape, run.count), run.count));
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    fn move_leaves(&self, task: u32, mut part: Part<'_, W>) {
        let fanout = self.table.shape.fanout as usize;
        let leaf_words = part.leaf_words;
        let mut pairs = Pairs::default();
        for run in self.runs(task) {
            let leaf = run.leaves.start;
            let alone = run.leaves.len() == 1 && !self.table.states[leaf as usize].is_split();
            if alone && run.count > 0 {
                let out = part.take(1, run.count);
                let start = leaf as usize * leaf_words;
                out.words.copy_from_slice(&self.leaves[start..start + leaf_words]);
                out.ranks[0] = out.rank;
                // Slots after the last pair repeat it.
                out.last_keys[0] = self.view.leaf_keys(leaf)[fanout - 1];
                continue;
            }
            pairs.clear();
            for leaf in run.leaves {
                let len = self.table.len(leaf);
                let own = (&self.view.leaf_keys(leaf)[..len], &self.view.leaf_values(leaf)[..len]);
                pairs.append(&self.table, leaf, self.changes, own);
            }
            let leaves = leaves_of(self.table.shape, run.count) as usize;
            for i in 0..leaves {
                let share = |i: usize| pairs.keys.len() * i / leaves;
                let slots = share(i)..share(i + 1);
                let out = part.take(1, slots.len() as u64);
                write_leaf(out, fanout, &pairs.keys[slots.clone()], &pairs.values[slots]);
            }
        }
    }
}

fn write_leaf<K: Word, V: Word>(out: Part<'_, K>, fanout: usize, keys: &[K], values: &[V]) {
    let (to_keys, to_values) = bytemuck::cast_slice_mut::<u64, u8>(out.words).split_at_mut(fanout * K::BYTES);
    let last = fill(bytemuck::cast_slice_mut(to_keys), keys);
    fill(bytemuck::cast_slice_mut(to_values), values);
    (out.ranks[0], out.last_keys[0]) = (out.rank, last);
}

/// Writes words, and repeats the last one to the end. There is one.
fn fill<T: Word>(slots: &mut [T], words: &[T]) -> T {
    let last = words[words.len() - 1];
    slots[..words.len()].copy_from_slice(words);
    slots[words.len()..].fill(last);
    last
}

impl<'a, K> Part<'a, K> {
    /// Splits off the part of the next `leaves` leaves, which have `pairs` pairs.
    fn take(&mut self, leaves: usize, pairs: u64) -> Part<'a, K> {
        let part = Part {
            leaf_words: self.leaf_words,
            words: self.words.split_off_mut(..leaves * self.leaf_words).expect("the sizes add up"),
            ranks: self.ranks.split_off_mut(..leaves).expect("the sizes add up"),
            last_keys: self.last_keys.split_off_mut(..leaves).expect("the sizes add up"),
            rank: self.rank,
        };
        self.rank += pairs;
        part
    }
}

fn slice<T: Word>(buffer: &mut Buffer<T>) -> &mut [T] {
    buffer.as_mut_slice().expect("the host reaches its own memory")
}
