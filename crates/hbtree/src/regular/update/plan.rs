//! The plan of splits and merges, level by level from the leaves to the root. The tree is only read.
//!
//! On every level the same happens to the children of a node: neighbours of which one overflows or is too small are a *run*,
//! and what they hold is rewritten, evenly, in the fewest nodes. That changes the children of their parent, which may
//! overflow in turn.

use super::group::Group;
use super::kept;
use crate::regular::nodes::{Columns, Entry, Pairs, fanout};
use crate::regular::pool::{NONE, Taken, Taking};
use crate::regular::{BigLeaves, Regular, RegularInner};
use crate::structure::Parts;
use core::ops::Range;
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::{Error, Result};
use lanetree_layout::{Key, Word};
use std::collections::BTreeMap;

/// Big leaves that are neighbours and are rewritten together.
#[derive(Debug)]
pub(super) struct Run<B, V> {
    /// In the order of their keys.
    pub(super) members: Vec<u32>,
    /// The changes of each, by the place of its group.
    groups: Vec<Option<usize>>,
    /// How many pairs they have afterwards.
    total: usize,
    /// What takes their place. None if no pairs are left.
    pub(super) pieces: Vec<u32>,
    pairs: Columns<B, V>,
}

impl<B: Word, V: Word> Run<B, V> {
    /// The pairs of a piece.
    pub(super) fn piece(&self, piece: usize) -> Pairs<'_, B, V> {
        self.pairs.part(part(piece, self.pieces.len(), self.pairs.keys.len()))
    }
}

/// A node above the last level that is written.
#[derive(Debug)]
pub(super) struct Upper<B> {
    pub(super) entries: Vec<Entry<B>>,
    /// Whether its children are nodes of the last level.
    pub(super) is_above_leaves: bool,
}

/// What changes in the tree, apart from the big leaves that keep their place.
#[derive(Debug)]
pub(super) struct Plan<B, V> {
    pub(super) runs: Vec<Run<B, V>>,
    /// Whether a group's big leaf is in a run, by its place; without runs there are none.
    pub(super) is_in_run: Vec<bool>,
    /// By their numbers.
    pub(super) upper: BTreeMap<u32, Upper<B>>,
    /// Nodes of a level above the last one, and what takes their place.
    pub(super) splices: Vec<(Vec<u32>, Vec<u32>)>,
    /// Numbers of big leaves, and of nodes above the last level.
    pub(super) last_numbers: Taken,
    pub(super) upper_numbers: Taken,
    pub(super) root: u32,
    pub(super) height: u32,
}

/// Part `i` of `parts` equally large parts of `len` elements.
fn part(i: usize, parts: usize, len: usize) -> Range<usize> {
    let bound = |i: usize| (i as u64 * len as u64 / parts as u64) as usize;
    bound(i)..bound(i + 1)
}

/// The number of nodes for `len` elements: one if they fit, else with room for more if a build leaves room.
fn pieces(len: usize, capacity: usize, full: usize) -> usize {
    if len <= capacity { usize::from(len > 0) } else { len.div_ceil(full.max(capacity / 2)).max(2) }
}

/// Neighbours that are laid out together, among children with these sizes, some of which are to be. Those that are too small
/// take their next sibling with them, or else the one before.
fn runs(children: &[(usize, bool)], least: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < children.len() {
        if !children[at].1 {
            at += 1;
            continue;
        }
        let (mut start, mut end, mut total) = (at, at + 1, children[at].0);
        // An empty one needs no other.
        let is_small = |total| 0 < total && total < least;
        while is_small(total) && end < children.len() {
            total += children[end].0;
            end += 1;
        }
        while is_small(total) && start > 0 {
            match runs.pop_if(|run| run.end == start) {
                Some(run) => {
                    total += children[run.clone()].iter().map(|child| child.0).sum::<usize>();
                    start = run.start;
                }
                None => {
                    start -= 1;
                    total += children[start].0;
                }
            }
        }
        runs.push(start..end);
        at = end;
    }
    runs
}

impl<B: Word, V: Word> Plan<B, V> {
    pub(super) fn new<K: Key<Bits = B>>(tree: &Parts<K, V, Regular>, groups: &[Group<'_, B, V>]) -> Result<Self> {
        let (leaves, inner) = (&tree.leaves, &tree.inner);
        let mut last = Taking::from(&leaves.pool);
        let mut levels = Levels {
            inner,
            full: crate::regular::inner::full::<B>(tree.options.fill),
            numbers: Taking::from(&inner.pool),
            upper: BTreeMap::new(),
            splices: Vec::new(),
        };
        let (mut all_runs, parents) = leaf_runs(tree, groups, &mut last)?;
        let mut changed = Vec::new();
        for (parent, mut list, runs) in parents {
            let old = list.clone();
            // From the end, so that places of runs stay right.
            for (range, run) in runs.into_iter().rev() {
                let (bound, run): (B, &Run<B, V>) = (list[range.end - 1].0, &all_runs[run]);
                let entry = |(i, &number): (usize, &u32)| {
                    let piece = run.piece(i);
                    (if i + 1 < run.pieces.len() { piece.keys[piece.keys.len() - 1] } else { bound }, number)
                };
                let entries: Vec<Entry<B>> = run.pieces.iter().enumerate().map(entry).collect();
                list.splice(range, entries);
            }
            if list != old {
                changed.push((parent, list));
            }
        }
        for level in (1..inner.height).rev() {
            changed = levels.lift(changed, level + 1 == inner.height);
        }
        let (mut root, mut height) = (inner.root, inner.height);
        if let Some((_, top)) = changed.pop() {
            (root, height) = levels.above(top, height).unwrap_or_else(|| {
                // No pairs are left: the tree has one big leaf.
                let number = last.take_back();
                all_runs.push(Run {
                    members: Vec::new(),
                    groups: Vec::new(),
                    total: 0,
                    pieces: vec![number],
                    pairs: Columns::with_capacity(0),
                });
                (number, 1)
            });
        }
        (root, height) = levels.without_only_children(root, height);
        let mut is_in_run = filled(false, if all_runs.is_empty() { 0 } else { groups.len() })?;
        all_runs.iter().flat_map(|run| run.groups.iter().flatten()).for_each(|&group| is_in_run[group] = true);
        let Levels { numbers, upper, splices, .. } = levels;
        let (last_numbers, upper_numbers) = (last.finish(), numbers.finish());
        Ok(Self { runs: all_runs, is_in_run, upper, splices, last_numbers, upper_numbers, root, height })
    }
}

/// A node, its children, and the places of runs among these.
type Above<B> = (u32, Vec<Entry<B>>, Vec<(Range<usize>, usize)>);

/// Runs, and the nodes above them.
type LeafRuns<B, V> = (Vec<Run<B, V>>, Vec<Above<B>>);

/// The runs of big leaves.
fn leaf_runs<K: Key, V: Word>(
    tree: &Parts<K, V, Regular>,
    groups: &[Group<'_, K::Bits, V>],
    numbers: &mut Taking<'_>,
) -> Result<LeafRuns<K::Bits, V>> {
    let (leaves, inner) = (&tree.leaves, &tree.inner);
    let capacity = BigLeaves::<K::Bits, V>::CAPACITY;
    let full = (capacity as f64 * tree.options.fill) as usize;
    let parent = |group: &Group<'_, K::Bits, V>| inner.parents[group.number as usize];
    let (mut all, mut above, mut seen) = (Vec::new(), Vec::new(), 0);
    // Few are, so that not all groups have to be looked at by this thread.
    let deferred = kept(groups.len(), |at| groups[at].is_deferred.then_some(at))?;
    for at in deferred {
        if at < seen {
            continue;
        }
        // All groups under the same parent.
        let own = parent(&groups[at]);
        let base = groups[..at].iter().rposition(|group| parent(group) != own).map_or(0, |before| before + 1);
        let end = groups[at..].iter().position(|group| parent(group) != own).map_or(groups.len(), |count| at + count);
        let same = &groups[base..end];
        seen = end;
        let parent = parent(&same[0]);
        let list = inner.children_of(parent);
        let mut at = 0;
        let children: Vec<(Option<usize>, (usize, bool))> = list
            .iter()
            .map(|&(_, child)| match same.get(at) {
                Some(group) if group.number == child => {
                    at += 1;
                    (Some(base + at - 1), (group.after, group.is_deferred))
                }
                _ => (None, (leaves.info(child).size as usize, false)),
            })
            .collect();
        let sizes: Vec<_> = children.iter().map(|child| child.1).collect();
        let mut own = Vec::new();
        for range in runs(&sizes, capacity / 4) {
            let members: Vec<u32> = list[range.clone()].iter().map(|entry| entry.1).collect();
            let groups = children[range.clone()].iter().map(|child| child.0).collect();
            let total = sizes[range.clone()].iter().map(|size| size.0).sum();
            let pieces = numbers.replace(members.iter().copied(), pieces(total, capacity, full));
            own.push((range, all.len()));
            all.push(Run { members, groups, total, pieces, pairs: Columns::with_capacity(0) });
        }
        above.push((parent, list, own));
    }
    all.par_iter_mut().try_for_each(|run: &mut Run<K::Bits, V>| {
        // Allocated by the thread that writes it.
        run.pairs = Columns { keys: with_room(run.total)?, values: with_room(run.total)? };
        for (&member, group) in run.members.iter().zip(&run.groups) {
            let leaf = leaves.leaf(member);
            match group {
                Some(group) => groups[*group].merge(leaf, 0, &mut run.pairs),
                None => BigLeaves::<K::Bits, V>::read(leaf, 0..leaves.info(member).size as usize, &mut run.pairs),
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok((all, above))
}

impl<B: Word> RegularInner<B> {
    /// The children of a node; the root alone if there is no node.
    fn children_of(&self, parent: u32) -> Vec<Entry<B>> {
        if parent == NONE { vec![(B::MAX, self.root)] } else { self.entries(parent) }
    }
}

/// Nodes of a level with other children, in the order of their keys.
type Changed<B> = Vec<(u32, Vec<Entry<B>>)>;

/// The plan of the levels above the last one.
struct Levels<'a, B> {
    inner: &'a RegularInner<B>,
    /// Children of a node that a build fills.
    full: usize,
    numbers: Taking<'a>,
    upper: BTreeMap<u32, Upper<B>>,
    splices: Vec<(Vec<u32>, Vec<u32>)>,
}

impl<B: Word> Levels<'_, B> {
    /// Plans the nodes of a level whose children have changed, and returns the changed nodes of the level above. Above
    /// the root's level it is a single node without a number.
    fn lift(&mut self, mut changed: Changed<B>, is_above_leaves: bool) -> Changed<B> {
        let inner = self.inner;
        let parent = |node: u32| inner.facts[node as usize].parent;
        let mut above = Vec::new();
        for same in changed.chunk_by_mut(|a, b| parent(a.0) == parent(b.0)) {
            let parent = parent(same[0].0);
            let list = inner.children_of(parent);
            let mut own = same.iter_mut().peekable();
            let mut children: Vec<Option<Vec<Entry<B>>>> = list
                .iter()
                .map(|&(_, child)| own.next_if(|own| own.0 == child).map(|own| core::mem::take(&mut own.1)))
                .collect();
            let size = |(entry, child): (&Entry<B>, &Option<Vec<Entry<B>>>)| {
                let old = inner.facts[entry.1 as usize].size as usize;
                let Some(size) = child.as_ref().map(Vec::len) else { return (old, false) };
                let is_small = size == 0 || parent != NONE && size < fanout::<B>() / 4 && size < old;
                (size, size > fanout::<B>() || is_small)
            };
            let sizes: Vec<_> = list.iter().zip(&children).map(size).collect();
            let mut new_list = list.clone();
            for range in runs(&sizes, fanout::<B>() / 4).into_iter().rev() {
                let mut entries = Vec::new();
                for (&(bound, child), own) in list[range.clone()].iter().zip(&mut children[range.clone()]) {
                    let mut own = own.take().unwrap_or_else(|| inner.entries(child));
                    // A node does not have the bound of its last child: it is its own, in its parent.
                    own.last_mut().into_iter().for_each(|last| last.0 = bound);
                    entries.extend(own);
                }
                let members: Vec<u32> = list[range.clone()].iter().map(|entry| entry.1).collect();
                let count = pieces(entries.len(), fanout::<B>(), self.full);
                let numbers = self.numbers.replace(members.iter().copied(), count);
                new_list.splice(range, self.write(&numbers, &entries, is_above_leaves));
                self.splices.push((members, numbers));
            }
            for (&(_, child), own) in list.iter().zip(children) {
                if let Some(entries) = own {
                    self.upper.insert(child, Upper { entries, is_above_leaves });
                }
            }
            if new_list != list {
                above.push((parent, new_list));
            }
        }
        above
    }

    /// Plans nodes that share these children evenly, and returns their entries.
    fn write(&mut self, numbers: &[u32], entries: &[Entry<B>], is_above_leaves: bool) -> Vec<Entry<B>> {
        let write = |(i, &number): (usize, &u32)| {
            let own = entries[part(i, numbers.len(), entries.len())].to_vec();
            let bound = own[own.len() - 1].0;
            self.upper.insert(number, Upper { entries: own, is_above_leaves });
            (bound, number)
        };
        numbers.iter().enumerate().map(write).collect()
    }

    /// Plans levels above these nodes, which take the place of the root. Returns the root and the height, unless there are
    /// no nodes.
    fn above(&mut self, mut top: Vec<Entry<B>>, mut height: u32) -> Option<(u32, u32)> {
        while top.len() > 1 {
            let numbers = self.numbers.replace([], pieces(top.len(), fanout::<B>(), self.full));
            top = self.write(&numbers, &top, height == 1);
            self.splices.push((Vec::new(), numbers));
            height += 1;
        }
        top.first().map(|top| (top.1, height))
    }

    /// Takes the root's only child in its place.
    fn without_only_children(&mut self, mut root: u32, mut height: u32) -> (u32, u32) {
        while height > 1 {
            let child = match self.upper.get(&root) {
                Some(Upper { entries, .. }) if entries.len() == 1 => entries[0].1,
                None if self.inner.facts[root as usize].size == 1 => self.inner.entries(root)[0].1,
                _ => break,
            };
            self.upper.remove(&root);
            self.numbers.free(root);
            (root, height) = (child, height - 1);
        }
        (root, height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_neighbours_of_which_one_overflows_or_is_too_small() {
        let runs = |sizes: &[(usize, bool)]| -> Vec<(usize, usize)> {
            runs(sizes, 10).into_iter().map(|run| (run.start, run.end)).collect()
        };
        assert_eq!(runs(&[(20, false), (5, false)]), []);
        assert_eq!(runs(&[(20, false), (5, true), (30, false)]), [(1, 3)]);
        assert_eq!(runs(&[(20, false), (0, true), (99, true)]), [(1, 2), (2, 3)]);
        assert_eq!(runs(&[(20, false), (5, true)]), [(0, 2)]);
        assert_eq!(runs(&[(2, true), (3, false), (4, true), (5, true)]), [(0, 4)]);
        assert_eq!(runs(&[(99, true), (20, false), (1, true)]), [(0, 1), (1, 3)]);
        assert_eq!(runs(&[(99, true), (1, true)]), [(0, 2)]);
        assert_eq!(runs(&[(1, true)]), [(0, 1)]);
    }

    #[test]
    fn what_overflows_is_split_evenly_with_room_to_spare_if_a_build_leaves_some() {
        assert_eq!([0, 1, 100].map(|len| pieces(len, 100, 100)), [0, 1, 1]);
        assert_eq!([101, 200, 201].map(|len| pieces(len, 100, 100)), [2, 2, 3]);
        assert_eq!([101, 200].map(|len| pieces(len, 100, 1)), [3, 4]);
        assert_eq!([part(0, 3, 10), part(1, 3, 10), part(2, 3, 10)], [0..3, 3..6, 6..10]);
    }
}
