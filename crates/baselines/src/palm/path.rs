//! PALM's stage 1: the descent of a sorted part of a batch to the leaves.

use crate::palm::batch::Entry;
use crate::palm::nodes::{Nodes, child_of, seek};
use core::ops::Range;
use lanetree_layout::Word;

/// Entries that descend together, level by level: their nodes are prefetched a level ahead, and stay in the first-level
/// cache until they are searched.
const TOGETHER: usize = 256;

/// No node: the parent of the root.
pub(super) const NONE: u32 = u32::MAX;

/// Where a node hangs in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The parent, or [`NONE`].
    pub(super) parent: u32,
    /// The number of the parent's group on its level of a path.
    pub(super) group: u32,
    /// The path that has the group.
    pub(super) part: u16,
    /// The child's number in the parent.
    pub(super) slot: u16,
}

/// Consecutive entries that pass the same node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) node: u32,
    /// The first entry. The group ends where the next one of its level starts.
    pub(super) start: u32,
    pub(super) place: Place,
}

/// The nodes that a part of a batch passes, and which entries pass which.
pub(super) struct Path {
    /// The groups of each level in the order of the keys, from the root down.
    levels: Vec<Vec<Group>>,
}

impl Path {
    /// Of the entries of `range`, which are in the order of their keys. Reads inner nodes only.
    pub(super) fn find<W: Word, V: Word>(
        nodes: &Nodes<W, V>,
        batch: &[Entry<W, V>],
        range: Range<usize>,
        part: u16,
    ) -> Self {
        let mut levels = vec![Vec::new(); nodes.depth + 1];
        if range.is_empty() {
            return Self { levels };
        }
        let place = Place { parent: NONE, group: 0, part, slot: 0 };
        levels[0].push(Group { node: nodes.root, start: range.start as u32, place });
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + TOGETHER);
            descend(nodes, batch, start..end, part, &mut levels);
            start = end;
        }
        Self { levels }
    }

    /// The groups of the leaves.
    pub(super) fn leaves(&self) -> &[Group] {
        self.levels.last().expect("a tree has a level")
    }

    /// Where the node of a group hangs; level 0 is the root's.
    pub(super) fn place(&self, level: usize, group: u32) -> Place {
        self.levels[level][group as usize].place
    }
}

/// Appends the groups of `range`. On each level, the last group that is there may be continued.
fn descend<W: Word, V: Word>(
    nodes: &Nodes<W, V>,
    batch: &[Entry<W, V>],
    range: Range<usize>,
    part: u16,
    levels: &mut [Vec<Group>],
) {
    // The first group that has entries of the range.
    let mut first = 0;
    for level in 0..nodes.depth {
        let (above, below) = levels.split_at_mut(level + 1);
        let (groups, below) = (&above[level], &mut below[0]);
        let prefetches = level + 1 < nodes.depth;
        let mut first_below = None;
        for group in first..groups.len() {
            let node = nodes.inner.node(groups[group].node);
            let mut at = range.start.max(groups[group].start as usize);
            let end = groups.get(group + 1).map_or(range.end, |next| next.start as usize);
            let mut slot = 0;
            while at < end {
                slot = child_of(&node, slot, batch[at].key);
                let child = node.slots[slot];
                // Only the first one: from then on, every child is another one than before.
                let continued = first_below.is_none() && below.last().is_some_and(|last: &Group| last.node == child);
                if !continued {
                    if prefetches {
                        nodes.inner.prefetch(child);
                    }
                    let place = Place { parent: groups[group].node, group: group as u32, part, slot: slot as u16 };
                    below.push(Group { node: child, start: at as u32, place });
                }
                first_below.get_or_insert(below.len() - 1);
                at = match node.keys.get(slot + 1) {
                    Some(&next) => seek(&batch[..end], at + 1, |entry| entry.key < next),
                    None => end,
                };
            }
        }
        first = first_below.expect("every entry has a child");
    }
}
