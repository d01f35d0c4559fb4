//! Algorithm 1: all threads apply a batch's changes.

use super::super::UpdateReport;
use super::auxiliary::{LeafTable, Run};
use super::leaf::{LeafRegion, Slots};
use super::locks::{Exclusive, TreeLock};
use crate::native::View;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use lanetree_frame::NetChange;
use lanetree_frame::parallel::*;
use lanetree_layout::Word;

/// A batch in progress. The inner nodes do not change meanwhile.
pub(super) struct RunningBatch<'a, W: Word, V: Word> {
    pub(super) changes: &'a [(W, NetChange<V>)],
    /// The inner nodes; no leaves.
    pub(super) inner: View<'a, W, V>,
    pub(super) prefix_sum: &'a [u32],
    pub(super) leaves: LeafRegion<'a, W, V>,
    pub(super) table: LeafTable<'a>,
    pub(super) lock: TreeLock,
    /// Whether a leaf was split, or merged, or has been left empty.
    pub(super) restructured: AtomicBool,
}

/// What a leaf held before it was changed in place.
pub(super) struct Undo<K, V> {
    pub(super) leaf: u32,
    pub(super) key: K,
    pub(super) value: Option<V>,
}

/// What a task has done.
pub(super) struct Done<K, V> {
    pub(super) report: UpdateReport,
    pub(super) in_place: Vec<Undo<K, V>>,
}

/// The leaf where a change's key belongs, and the inner node above it.
#[derive(Clone, Copy)]
struct Place {
    change: usize,
    leaf: u32,
    parent: u32,
}

/// What is left to do for a change.
enum Left {
    Nothing,
    /// All: the leaf has to be split first.
    Split,
    /// Merge the leaf with a neighbour, if that fits.
    Merge,
}

impl<W: Word, V: Word> RunningBatch<'_, W, V> {
    /// Applies all changes, in tasks of a fixed size. A task counts its changes together: the paper counts every update
    /// by itself, but then several threads would mostly contend for the coarse lock. Changes may come in any order of
    /// their keys; ascending order is the fastest, since tasks then share few leaves.
    pub(super) fn run(&self, task_len: usize) -> Vec<Done<W, V>> {
        let tasks = self.changes.par_chunks(task_len).enumerate();
        tasks.map(|(task, changes)| self.task(task * task_len, changes)).collect()
    }

    fn task(&self, first: usize, changes: &[(W, NetChange<V>)]) -> Done<W, V> {
        let mut done = Done { report: UpdateReport::default(), in_place: Vec::new() };
        let (mut splits, mut merges) = (Vec::new(), Vec::new());

        let entered = self.lock.enter();
        let mut held: Option<(u32, _)> = None;
        self.inner.for_each_leaf(
            changes.len(),
            |i| changes[i].0,
            |i, leaf, parent| {
                // Neighbouring changes often go to the same leaf, so its lock is kept between them.
                if held.as_ref().is_none_or(|held| held.0 != leaf) {
                    drop(held.take());
                    held = Some((leaf, self.table.states[leaf as usize].lock.lock()));
                }
                let place = Place { change: first + i, leaf, parent };
                // SAFETY: the leaf's lock is held, and the update is counted.
                let slots = unsafe { self.leaves.slots(leaf) };
                match self.operate(place, slots, &mut done) {
                    Left::Nothing => {}
                    Left::Split => splits.push(place),
                    Left::Merge => merges.push(place),
                }
            },
        );
        drop(held);
        drop(entered);

        if !(splits.is_empty() && merges.is_empty()) {
            let exclusive = self.lock.exclusive();
            for place in splits {
                self.split(&exclusive, place, &mut done);
            }
            for place in merges {
                self.merge(&exclusive, place);
            }
        }
        done
    }

    /// Applies a change to its leaf, or to the leaf's auxiliary node, without splitting or merging. The caller holds
    /// the leaf, or the tree.
    fn operate(&self, place: Place, mut slots: Slots<'_, W, V>, done: &mut Done<W, V>) -> Left {
        let Place { leaf, change: index, .. } = place;
        let state = &self.table.states[leaf as usize];
        let (key, change) = self.changes[index];
        let split = state.is_split();
        let len = self.table.len(leaf);
        let (at, found) = slots.find(len, key);
        let report = &mut done.report;
        let (counter, growth) = match (change, found) {
            (NetChange::Put(_), false) if !split && len == slots.keys.len() => return Left::Split,
            (NetChange::Put(_), false) => (&mut report.inserted, 1),
            (NetChange::Put(_) | NetChange::PutIfPresent(_), true) => (&mut report.replaced, 0),
            (NetChange::Remove, true) => (&mut report.removed, -1),
            (NetChange::PutIfPresent(_) | NetChange::Remove, false) => {
                report.unmatched += 1;
                return Left::Nothing;
            }
        };
        *counter += 1;
        state.grow(growth);
        if split {
            self.table.chain(leaf, index);
        } else {
            done.in_place.push(Undo { leaf, key, value: found.then(|| slots.values[at]) });
            match change {
                NetChange::Put(value) if !found => slots.insert(len, at, key, value),
                NetChange::Put(value) | NetChange::PutIfPresent(value) => slots.replace(len, at, value),
                NetChange::Remove => slots.remove(len, at),
            }
        }
        let low = growth < 0 && self.table.count(leaf) < self.half();
        if low && state.list() { Left::Merge } else { Left::Nothing }
    }

    /// A leaf with fewer pairs than this is merged, if that fits.
    fn half(&self) -> u64 {
        u64::from(self.table.shape.fanout / 2)
    }

    /// Applies an insert to a leaf that was full.
    fn split(&self, _: &Exclusive<'_>, place: Place, done: &mut Done<W, V>) {
        // SAFETY: the tree is the caller's.
        let slots = unsafe { self.leaves.slots(place.leaf) };
        // Other threads may have split the leaf meanwhile, or made room.
        if let Left::Split = self.operate(place, slots, done) {
            self.table.states[place.leaf as usize].split();
            self.restructured.store(true, Relaxed);
            // SAFETY: as above; the other slots are gone.
            let slots = unsafe { self.leaves.slots(place.leaf) };
            self.operate(place, slots, done);
        }
    }

    /// Merges a leaf with enough neighbours under its parent to be half full, if they fit into one node.
    fn merge(&self, _: &Exclusive<'_>, place: Place) {
        let table = &self.table;
        table.states[place.leaf as usize].unlist();
        let mut run = table.run(place.leaf);
        if run.count == 0 {
            // Nothing to be merged: the movement leaves it out.
            self.restructured.store(true, Relaxed);
            return;
        }
        let siblings = self.siblings(place.parent);
        let fits = |run: &Run, other: u64| run.count + other <= u64::from(table.shape.fanout);
        while run.count < self.half() {
            let left = (run.leaves.start > siblings.start).then(|| table.run(run.leaves.start - 1));
            let right = (run.leaves.end < siblings.end).then(|| table.run(run.leaves.end));
            run = match (left, right) {
                (Some(left), _) if fits(&run, left.count) => table.join(left, run),
                (_, Some(right)) if fits(&run, right.count) => table.join(run, right),
                _ => break,
            };
            self.restructured.store(true, Relaxed);
        }
    }

    /// The leaves under an inner node of the last level; the only leaf if there is no such node.
    fn siblings(&self, parent: u32) -> core::ops::Range<u32> {
        let shape = self.table.shape;
        let first_leaf = |node: usize| self.prefix_sum.get(node).map(|&child| child - shape.inner);
        let parent = parent as usize;
        first_leaf(parent).unwrap_or(0)..first_leaf(parent + 1).unwrap_or(shape.leaves)
    }
}
