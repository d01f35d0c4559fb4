//! What one thread does to nodes, whichever way it came by them: [`Worker`].

use crate::palm::arena::Pocket;
use crate::palm::batch::{Entry, Kind};
use crate::palm::edit::Edits;
use crate::palm::nodes::{Nodes, seek};
use crate::palm::path::{Group, NONE, Path, Place};
use core::marker::PhantomData;
use core::ops::AddAssign;
use lanetree_layout::Word;

/// Groups between the leaf that is modified and the one that is prefetched.
const AHEAD: usize = 6;

/// What a node's parent is told of it: that it was split, or that it is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<W> {
    /// The first key of the new node.
    pub(super) separator: W,
    /// A new node, which comes after the child and its earlier changes; or [`NONE`]: the child has no pairs left.
    pub(super) node: u32,
    /// Where the child hangs.
    pub(super) place: Place,
}

/// Keys by what became of them. A key counts once per batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) inserted: usize,
    pub(super) replaced: usize,
    pub(super) removed: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.inserted += other.inserted;
        self.replaced += other.replaced;
        self.removed += other.removed;
    }
}

/// Where searches put what they find: a slice that threads write different elements of.
#[derive(Clone, Copy)]
pub(super) struct Found<'a, V> {
    start: *mut Option<V>,
    len: usize,
    borrowed: PhantomData<&'a mut [Option<V>]>,
}

// SAFETY: all that it allows is `set`, whose caller promises that no two threads write the same element.
unsafe impl<V: Send> Send for Found<'_, V> {}
// SAFETY: as above.
unsafe impl<V: Send> Sync for Found<'_, V> {}

impl<'a, V> Found<'a, V> {
    pub(super) fn new(found: &'a mut [Option<V>]) -> Self {
        Self { start: found.as_mut_ptr(), len: found.len(), borrowed: PhantomData }
    }

    /// # Safety
    /// No two threads set the same element at the same time.
    unsafe fn set(self, number: usize, value: Option<V>) {
        assert!(number < self.len, "every search has a place for its result");
        // SAFETY: within the slice, which is borrowed mutably for `'a`; by this function's contract there is no race.
        unsafe { self.start.add(number).write(value) };
    }
}

/// A thread's scratch memory, unused nodes, and what it has done so far.
pub(super) struct Worker<'a, W: Word, V: Word> {
    nodes: &'a Nodes<W, V>,
    batch: &'a [Entry<W, V>],
    found: Found<'a, V>,
    leaves: Pocket<'a, W, V>,
    inner: Pocket<'a, W, u32>,
    leaf_edits: Edits<W, V>,
    inner_edits: Edits<W, u32>,
    counts: Counts,
    /// For the next level, in the order of the keys.
    changes: Vec<Change<W>>,
}

impl<'a, W: Word, V: Word> Worker<'a, W, V> {
    pub(super) fn new(nodes: &'a Nodes<W, V>, batch: &'a [Entry<W, V>], found: Found<'a, V>) -> Self {
        let (leaves, inner) = (Pocket::new(&nodes.leaves), Pocket::new(&nodes.inner));
        let (leaf_edits, inner_edits) = (Edits::default(), Edits::default());
        let (counts, changes) = (Counts::default(), Vec::new());
        Self { nodes, batch, found, leaves, inner, leaf_edits, inner_edits, counts, changes }
    }

    /// What the parents are to be told since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<Change<W>> {
        core::mem::take(&mut self.changes)
    }

    /// What became of the keys since the last call.
    pub(super) fn take_counts(&mut self) -> Counts {
        core::mem::take(&mut self.counts)
    }

    /// Applies a part of the batch to the leaves of the groups. The last group ends at entry `end`.
    ///
    /// # Safety
    /// No other thread uses one of these leaves, or has one of these entries, until the call returns.
    pub(super) unsafe fn modify_leaves(&mut self, groups: &[Group], end: u32) {
        for (i, group) in groups.iter().enumerate() {
            if let Some(ahead) = groups.get(i + AHEAD) {
                self.nodes.leaves.prefetch(ahead.node);
            }
            let end = groups.get(i + 1).map_or(end, |next| next.start);
            let entries = &self.batch[group.start as usize..end as usize];
            // SAFETY: by this function's contract.
            unsafe { self.modify_leaf(group, entries) };
        }
    }

    /// # Safety
    /// As of [`modify_leaves`](Self::modify_leaves).
    unsafe fn modify_leaf(&mut self, group: &Group, entries: &[Entry<W, V>]) {
        // SAFETY: by this function's contract. The reference is not used below the loop.
        let leaf = unsafe { self.nodes.leaves.node_mut(group.node) };
        let keys = &leaf.keys[..*leaf.len as usize];
        let (mut at, mut next) = (0, 0);
        while let Some(&Entry { key, .. }) = entries.get(next) {
            at = seek(keys, at, |&other| other < key);
            let before = keys.get(at).filter(|&&other| other == key).map(|_| leaf.slots[at]);
            // What the operations on the key leave, one after another; and which of them wrote it.
            let (mut after, mut writer) = (before, None);
            while let Some(entry) = entries.get(next).filter(|entry| entry.key == key) {
                match entry.kind {
                    // SAFETY: the entry is this thread's, and no other entry has its number.
                    Kind::Search => unsafe { self.found.set(entry.number as usize, after) },
                    Kind::Insert => (after, writer) = (Some(entry.value), Some(next)),
                    Kind::Remove => (after, writer) = (None, None),
                }
                next += 1;
            }
            match (before, after, writer) {
                (Some(_), Some(value), Some(_)) => {
                    leaf.slots[at] = value;
                    self.counts.replaced += 1;
                }
                (None, _, Some(writer)) => {
                    self.leaf_edits.insert(at, writer);
                    self.counts.inserted += 1;
                }
                (Some(_), None, _) => {
                    self.leaf_edits.remove(at);
                    self.counts.removed += 1;
                }
                _ => {}
            }
        }
        let Self { nodes, leaves, leaf_edits, changes, .. } = self;
        let pair = |entry: usize| (entries[entry].key, entries[entry].value);
        let split = |separator, node| changes.push(Change { separator, node, place: group.place });
        // SAFETY: by this function's contract.
        let left = unsafe { leaf_edits.apply(&nodes.leaves, leaves, group.node, pair, split) };
        // The root stays, even without pairs.
        if left == 0 && group.place.parent != NONE {
            leaves.put(group.node);
            changes.push(Change { separator: W::MIN, node: NONE, place: group.place });
        }
    }

    /// Applies the changes of the children to inner nodes of a level; level 0 is the root's. All changes of a parent come
    /// together, and the first one's group is one of `path`.
    ///
    /// # Safety
    /// No other thread uses one of these parents until the call returns.
    pub(super) unsafe fn modify_parents<'p>(
        &mut self,
        level: usize,
        changes: &[Change<W>],
        path: impl Fn(u16) -> &'p Path,
    ) {
        for family in changes.chunk_by(|a, b| a.place.parent == b.place.parent) {
            let Place { parent, group, part, .. } = family[0].place;
            let place = path(part).place(level, group);
            // SAFETY: by this function's contract.
            unsafe { self.modify_inner(parent, place, family) };
        }
    }

    /// # Safety
    /// As of [`modify_parents`](Self::modify_parents).
    unsafe fn modify_inner(&mut self, parent: u32, place: Place, family: &[Change<W>]) {
        for (name, change) in family.iter().enumerate() {
            let slot = change.place.slot as usize;
            match change.node {
                NONE => self.inner_edits.remove(slot),
                _ => self.inner_edits.insert(slot + 1, name),
            }
        }
        let Self { nodes, inner, inner_edits, changes, .. } = self;
        let pair = |name: usize| (family[name].separator, family[name].node);
        let split = |separator, node| changes.push(Change { separator, node, place });
        // SAFETY: by this function's contract.
        let left = unsafe { inner_edits.apply(&nodes.inner, inner, parent, pair, split) };
        if left == 0 {
            inner.put(parent);
            changes.push(Change { separator: W::MIN, node: NONE, place });
        }
    }
}
