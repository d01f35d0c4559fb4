//! Batches of changes on the host, in place, as on a device: searched and planned while the tree is only read, with all memory that they
//! take; then written, layer by layer from the leaves.
//!
//! A leaf with room for its changes is rewritten, another one is split. What is split is a change of its parent, up to the root. Leaves
//! that removals make small, or leave without pairs, stay as they are until there are so many that the tree is rebuilt. As on a device, one
//! pass over the lists of leaves tells all of them their new ranks, without touching them.

use crate::Cubpt;
use crate::node::{NodeView, set_head, write_node};
use crate::storage::{NodeWords, too_many};
use crate::tree::{Tree, levels_above, start_of};
use core::ops::Range;
use lanetree_frame::fixed::pairs::walk;
use lanetree_frame::fixed::{SortedPairs, copied};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{make_room, push, with_room};
use lanetree_frame::{Buffer, NetChange, Result, UpdatePath, UpdateReport};
use lanetree_kernels_cubpt::layout::{Head, INNER, LEAF, NONE};
use lanetree_layout::{AnyKey, Key, Word};
use lanetree_runtime::prefetch;

/// Changes that a thread plans at a time.
const TASK: usize = if cfg!(test) { 1 << 4 } else { 1 << 10 };

/// Leaves that are asked for ahead of the one that is written.
const SOON: usize = 4;

/// Words of a cache line.
const LINE: usize = 8;

/// A tree is rebuilt if its leaves have fewer pairs than one in so many slots.
const FEW: u64 = 8;

/// Why a tree's memory is at hand.
const REACHED: &str = "the CPU reaches the tree";

/// A leaf with changes.
struct Leaf {
    number: u32,
    changes: Range<usize>,
    /// By how many pairs, wrapping, it grows.
    growth: u64,
    /// The nodes that it becomes, and, of several, where its pairs are among those of its part.
    pieces: u32,
    pairs: Range<usize>,
}

/// The leaves of a part of a batch.
struct Part<B, V> {
    leaves: Vec<Leaf>,
    report: UpdateReport,
    /// The pairs of leaves that are split.
    pairs: SortedPairs<B, V>,
    /// Room for the pairs of a leaf.
    scratch: SortedPairs<B, V>,
    /// The number of the first new node.
    first_new: u32,
}

/// A node that is split, and its pieces: the bound of each, with its number.
struct Grown {
    number: u32,
    pieces: Range<usize>,
}

/// The nodes of a level that are split, and the pieces of all.
type Split<B> = (Vec<Grown>, Vec<(B, u32)>);

/// An inner node that is written.
struct Inner {
    number: u32,
    children: Range<usize>,
}

/// What becomes of the inner nodes.
struct Plan<B> {
    /// The first new number, and the one after the last.
    new: Range<u64>,
    root: u32,
    levels: Vec<u64>,
    /// From the lowest level upwards.
    inner: Vec<Inner>,
    keys: Vec<B>,
    children: Vec<u32>,
}

impl<B> Plan<B> {
    /// The numbers of `count` new nodes of a level, of which the first is returned.
    fn take(&mut self, level: usize, count: usize) -> u32 {
        let first = self.new.end as u32;
        self.new.end += count as u64;
        self.levels[level] += count as u64;
        first
    }

    /// Writes the elements from `first` on to nodes with these numbers.
    fn write(&mut self, first: usize, numbers: impl ExactSizeIterator<Item = u32>) -> Result<()> {
        let (pieces, len) = (numbers.len() as u64, (self.keys.len() - first) as u64);
        let start = |piece: usize| first + start_of(piece as u64, pieces, len) as usize;
        for (piece, number) in numbers.enumerate() {
            push(&mut self.inner, Inner { number, children: start(piece)..start(piece + 1) })?;
        }
        Ok(())
    }
}

/// Asks for a node of up to 512 bytes, and for the begin of a larger one.
fn prefetch_node(words: &[u64]) {
    words.chunks(LINE).take(8).for_each(|line| prefetch(line.as_ptr().cast()));
}

fn node(tree: &Tree, number: u32) -> NodeView<'_> {
    NodeView::new(tree.storage.words(number).expect(REACHED), tree.storage.node())
}

/// The leaf of a word, and a bound of all words that belong there; `None` if all larger ones do.
fn find<B: Word>(tree: &Tree, word: B) -> (u32, Option<B>) {
    let (mut number, mut bound) = (tree.root, None);
    for _ in 0..tree.height {
        let node = node(tree, number);
        let (keys, last) = (node.keys::<B>(), node.count() - 1);
        let slot = keys[..last].partition_point(|&key| key < word);
        if slot < last {
            bound = Some(keys[slot]);
        }
        number = node.ptrs::<u32>()[slot];
    }
    (number, bound)
}

impl<B: Word, V: Word> Part<B, V> {
    /// Plans the leaves of the changes in a range: those whose first changes are in it.
    fn new(tree: &Tree, changes: &[(B, NetChange<V>)], own: Range<usize>, full: u64) -> Result<Self> {
        let order = tree.storage.node().order as usize;
        let pairs = || SortedPairs { keys: Vec::new(), values: Vec::new() };
        let mut part = Self {
            leaves: Vec::new(),
            report: UpdateReport::default(),
            pairs: pairs(),
            scratch: pairs(),
            first_new: 0,
        };
        (part.scratch.keys, part.scratch.values) = (with_room(order)?, with_room(order)?);
        let end_of = |from: usize, bound: Option<B>| match bound {
            None => changes.len(),
            Some(bound) => {
                let mut end = from + 1;
                while end < changes.len() && changes[end].0 <= bound {
                    end += 1;
                }
                end
            }
        };
        let mut at = own.start;
        if let Some(before) = at.checked_sub(1) {
            at = end_of(before, find(tree, changes[before].0).1);
        }
        while at < own.end {
            let (number, bound) = find(tree, changes[at].0);
            let of_leaf = at..end_of(at, bound);
            at = of_leaf.end;
            // It is there when all leaves are found.
            prefetch_node(tree.storage.words(number).expect(REACHED));
            push(&mut part.leaves, Leaf { number, changes: of_leaf, growth: 0, pieces: 1, pairs: 0..0 })?;
        }
        let (mut failed, Self { leaves, report: all, pairs, .. }) = (Ok(()), &mut part);
        leaves.retain_mut(|own| {
            let (leaf, changes) = (node(tree, own.number), &changes[own.changes.clone()]);
            let keys = &leaf.keys::<B>()[..leaf.count()];
            let report = walk(keys, changes, |_, _| ());
            *all = all.plus(&report);
            own.growth = report.inserted.wrapping_sub(report.removed);
            let len = (keys.len() as u64).wrapping_add(own.growth);
            if len > order as u64 {
                let (first, len) = (pairs.keys.len(), len as usize);
                let room = make_room(&mut pairs.keys, len).and_then(|()| make_room(&mut pairs.values, len));
                match room {
                    Ok(()) => merge(leaf, changes, pairs),
                    Err(error) => failed = Err(error),
                }
                (own.pieces, own.pairs) = ((len as u64).div_ceil(full) as u32, first..pairs.keys.len());
            }
            report.inserted + report.removed + report.replaced > 0
        });
        failed.map(|()| part)
    }

    fn new_nodes(&self) -> u64 {
        self.leaves.iter().map(|leaf| u64::from(leaf.pieces) - 1).sum()
    }

    /// The numbers of a leaf's pieces; `next` is that of the first new one of the leaf, and then of the next leaf's.
    fn numbers(leaf: &Leaf, next: &mut u32) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + use<B, V> {
        let (number, first) = (leaf.number, *next);
        *next += leaf.pieces - 1;
        (0..leaf.pieces).map(move |piece| if piece == 0 { number } else { first + piece - 1 })
    }

    /// Appends the leaves that are split, and the bounds of their pieces.
    fn grown(&self, grown: &mut Vec<Grown>, pieces: &mut Vec<(B, u32)>) -> Result<()> {
        let mut next = self.first_new;
        for leaf in self.leaves.iter().filter(|leaf| leaf.pieces > 1) {
            let first = pieces.len();
            for (piece, number) in Self::numbers(leaf, &mut next).enumerate() {
                let end = start_of(piece as u64 + 1, leaf.pieces.into(), leaf.pairs.len() as u64) as usize;
                push(pieces, (self.pairs.keys[leaf.pairs.start + end - 1], number))?;
            }
            push(grown, Grown { number: leaf.number, pieces: first..pieces.len() })?;
        }
        Ok(())
    }

    /// Writes the leaves.
    ///
    /// # Safety
    /// Nobody else accesses them, nor the new nodes with their numbers.
    unsafe fn write(&mut self, nodes: &NodeWords<'_>, changes: &[(B, NetChange<V>)]) {
        let (node, mut next) = (nodes.node(), self.first_new);
        for (at, leaf) in self.leaves.iter().enumerate() {
            if let Some(soon) = self.leaves.get(at + SOON) {
                // SAFETY: the caller's.
                prefetch_node(unsafe { nodes.words(soon.number) });
            }
            // SAFETY: the caller's.
            let words = unsafe { nodes.words(leaf.number) };
            if leaf.pieces == 1 {
                self.scratch.keys.clear();
                self.scratch.values.clear();
                merge(NodeView::new(words, node), &changes[leaf.changes.clone()], &mut self.scratch);
                write_node(words, node, LEAF, &self.scratch.keys, &self.scratch.values);
                continue;
            }
            let mut after = NodeView::new(words, node).head(Head::Next);
            let start = |piece: u64| start_of(piece, leaf.pieces.into(), leaf.pairs.len() as u64) as usize;
            // The last one first, so that each knows the number of the one after it.
            for (piece, number) in Self::numbers(leaf, &mut next).enumerate().rev() {
                let own = leaf.pairs.start + start(piece as u64)..leaf.pairs.start + start(piece as u64 + 1);
                // SAFETY: the caller's.
                let words = unsafe { nodes.words(number) };
                write_node(words, node, LEAF, &self.pairs.keys[own.clone()], &self.pairs.values[own]);
                set_head(words, node, Head::Next, after);
                after = number;
            }
        }
    }
}

/// Appends the pairs of a leaf, with changes. There is room for them.
fn merge<B: Word, V: Word>(leaf: NodeView<'_>, changes: &[(B, NetChange<V>)], to: &mut SortedPairs<B, V>) {
    let (keys, values) = (leaf.keys::<B>(), leaf.ptrs::<V>());
    walk(&keys[..leaf.count()], changes, |kept, put| {
        to.keys.extend_from_slice(&keys[kept.clone()]);
        to.values.extend_from_slice(&values[kept]);
        if let Some((key, value)) = put {
            to.keys.push(key);
            to.values.push(value);
        }
    });
}

impl<B: Word> Plan<B> {
    /// Plans the nodes above leaves that are split, `more` of which are new.
    fn new<V: Word>(tree: &Tree, parts: &[Part<B, V>], more: u64, full: u64) -> Result<Self> {
        let mut plan = Self {
            new: tree.end..tree.end + more,
            root: tree.root,
            levels: with_room(tree.levels.len() + 8)?,
            inner: Vec::new(),
            keys: Vec::new(),
            children: Vec::new(),
        };
        plan.levels.extend_from_slice(&tree.levels);
        plan.levels[0] += more;
        let (mut grown, mut pieces) = (Vec::new(), Vec::new());
        parts.iter().try_for_each(|part| part.grown(&mut grown, &mut pieces))?;
        for level in 1..=tree.height as usize {
            (grown, pieces) = plan.level(tree, level, (&grown, &pieces), full)?;
        }
        // The root was split: there are levels above it.
        for nodes in levels_above(pieces.len() as u64, full) {
            push(&mut plan.levels, 0)?;
            let (first, level) = (plan.keys.len(), plan.levels.len() - 1);
            for (key, number) in pieces {
                push(&mut plan.keys, key)?;
                push(&mut plan.children, number)?;
            }
            let number = plan.take(level, nodes as usize);
            plan.root = number;
            plan.write(first, number..number + nodes as u32)?;
            pieces = with_room(nodes as usize)?;
            let made = &plan.inner[plan.inner.len() - nodes as usize..];
            pieces.extend(made.iter().map(|made| (plan.keys[made.children.end - 1], made.number)));
        }
        Ok(plan)
    }

    /// Plans the parents of nodes that are split. Returns those that are split themselves.
    fn level(
        &mut self,
        tree: &Tree,
        level: usize,
        (below, pieces): (&[Grown], &[(B, u32)]),
        full: u64,
    ) -> Result<Split<B>> {
        let (mut grown, mut bounds) = (Vec::new(), Vec::new());
        let parent = |grown: &Grown| node(tree, grown.number).head(Head::Parent);
        for siblings in below.chunk_by(|a, b| parent(a) == parent(b)) {
            let number = parent(&siblings[0]);
            let (view, first) = (node(tree, number), self.keys.len());
            let mut siblings = siblings.iter().peekable();
            for (&key, &child) in view.keys::<B>()[..view.count()].iter().zip(view.ptrs::<u32>()) {
                let Some(split) = siblings.next_if(|split| split.number == child) else {
                    push(&mut self.keys, key)?;
                    push(&mut self.children, child)?;
                    continue;
                };
                let own = &pieces[split.pieces.clone()];
                for (i, &(bound, piece)) in own.iter().enumerate() {
                    // The last child's key may be too small.
                    push(&mut self.keys, if i + 1 == own.len() { bound.max(key) } else { bound })?;
                    push(&mut self.children, piece)?;
                }
            }
            let len = (self.keys.len() - first) as u64;
            let count = if len > u64::from(tree.storage.node().order) { len.div_ceil(full) as usize } else { 1 };
            let new = self.take(level, count - 1);
            let number_of = |piece: usize| if piece == 0 { number } else { new + piece as u32 - 1 };
            self.write(first, (0..count).map(number_of))?;
            if count > 1 {
                let start = bounds.len();
                for made in &self.inner[self.inner.len() - count..] {
                    push(&mut bounds, (self.keys[made.children.end - 1], made.number))?;
                }
                push(&mut grown, Grown { number, pieces: start..bounds.len() })?;
            }
        }
        Ok((grown, bounds))
    }

    /// Writes the nodes.
    fn apply(&self, nodes: &NodeWords<'_>, is_higher: bool) {
        let node = nodes.node();
        let set_parent = |child: u32, parent: u32| {
            // SAFETY: this thread has all nodes.
            set_head(unsafe { nodes.words(child) }, node, Head::Parent, parent);
        };
        for Inner { number, children } in &self.inner {
            let (keys, children) = (&self.keys[children.clone()], &self.children[children.clone()]);
            // SAFETY: as above.
            write_node(unsafe { nodes.words(*number) }, node, INNER, keys, children);
            let is_new = |number: u32| u64::from(number) >= self.new.start;
            let moved = children.iter().filter(|&&child| is_new(*number) || is_new(child));
            moved.for_each(|&child| set_parent(child, *number));
        }
        if is_higher {
            set_parent(self.root, NONE);
        }
    }
}

impl<K: Key, V: Word> Cubpt<K, V> {
    /// Applies net changes, in strictly ascending order of their keys, to a tree on the host.
    pub(super) fn change_on_host(&mut self, changes: &[(K::Bits, NetChange<V>)]) -> Result<UpdateReport> {
        let (full, tree) = (self.full(), self.tree.get()?);
        if tree.len <= changes.len() as u64 {
            return self.rebuild_on_host(changes);
        }
        let tasks = (0..changes.len().div_ceil(TASK)).into_par_iter();
        let mut parts = tasks.try_map_collect(|task| {
            Part::new(tree, changes, task * TASK..changes.len().min(task * TASK + TASK), full)
        })?;
        let mut report = parts.iter().fold(UpdateReport::default(), |sum, part| sum.plus(&part.report));
        if report.inserted + report.removed + report.replaced == 0 {
            return Ok(report);
        }
        let len = tree.len + report.inserted - report.removed;
        let mut end = tree.end;
        for part in &mut parts {
            part.first_new = end as u32;
            end += part.new_nodes();
        }
        let leaves = tree.levels[0] + (end - tree.end);
        if report.removed > 0 && len * FEW < leaves * u64::from(self.fanout) {
            return self.rebuild_on_host(changes);
        }
        // Of inner nodes there are fewer than of leaves.
        if end + leaves >= u64::from(u32::MAX) {
            return Err(too_many(len, self.fanout));
        }
        let plan = match end - tree.end {
            0 => None,
            more => Some(Plan::new(tree, &parts, more, full)?),
        };
        let mut lists = None;
        if let Some(plan) = &plan {
            let (device, stream) = (self.device.clone(), self.device.stream()?);
            let list = (device.alloc(leaves as usize)?, device.alloc(leaves as usize + 1)?);
            let tree = self.tree.get_mut()?;
            tree.storage.reserve(plan.new.end)?;
            tree.order.reserve(&stream, &device, tree.storage.room())?;
            lists = Some(list);
        }
        report.path = if plan.is_some() { UpdatePath::Moved } else { UpdatePath::InPlace };
        self.tree.change(|tree| {
            let nodes = &tree.storage.node_words();
            // SAFETY: a leaf is in one part, as are the numbers of the new nodes that it becomes.
            parts.par_iter_mut().for_each(|part| unsafe { part.write(nodes, changes) });
            if let Some(plan) = plan {
                plan.apply(nodes, plan.root != tree.root);
                tree.height = plan.levels.len() as u32 - 1;
                (tree.root, tree.levels, tree.end) = (plan.root, plan.levels, plan.new.end);
            }
            tree.len = len;
            match lists {
                Some(lists) => reorder(tree, &parts, lists),
                None => rank(tree, &parts),
            }
            Ok(report)
        })
    }

    /// Rebuilds a tree on the host from the pairs that there are after a batch.
    fn rebuild_on_host(&mut self, changes: &[(K::Bits, NetChange<V>)]) -> Result<UpdateReport> {
        let (keys, values) = copied(self)?;
        let keys: Vec<K::Bits> = keys.into_par_iter().map(AnyKey::encode).try_collect()?;
        let (pairs, report) = SortedPairs::merge((&keys, &values), changes)?;
        drop((keys, values));
        if report.path != UpdatePath::Unchanged {
            let keys = pairs.keys.into_par_iter().map(K::decode).try_collect()?;
            self.tree.replace(Tree::build(&self.device, (self.fanout, self.fill, self.mapping), &keys, &pairs.values)?);
        }
        Ok(report)
    }
}

/// Tells the leaves after those that have changed their ranks.
fn rank<B, V>(tree: &mut Tree, parts: &[Part<B, V>]) {
    let order = &mut tree.order;
    let (positions, ranks) = (order.positions.as_slice().expect(REACHED), order.ranks.as_mut_slice().expect(REACHED));
    let (mut from, mut growth) = (0, 0_u64);
    for leaf in parts.iter().flat_map(|part| &part.leaves) {
        let to = positions[leaf.number as usize] as usize + 1;
        if growth != 0 {
            ranks[from..to].iter_mut().for_each(|rank| *rank = rank.wrapping_add(growth));
        }
        (from, growth) = (to, growth.wrapping_add(leaf.growth));
    }
    if growth != 0 {
        ranks[from..].iter_mut().for_each(|rank| *rank = rank.wrapping_add(growth));
    }
}

/// Puts leaves that are split, and the others, into new lists, and ranks them.
fn reorder<B: Word, V: Word>(
    tree: &mut Tree,
    parts: &[Part<B, V>],
    (mut leaves, mut ranks): (Buffer<u32>, Buffer<u64>),
) {
    let order = &mut tree.order;
    let (old, old_ranks) = (order.leaves.as_slice().expect(REACHED), order.ranks.as_slice().expect(REACHED));
    let positions = order.positions.as_mut_slice().expect(REACHED);
    let (to, to_ranks) = (leaves.as_mut_slice().expect(REACHED), ranks.as_mut_slice().expect(REACHED));
    let (mut from, mut at, mut growth, mut first_moved) = (0, 0, 0_u64, None);
    for part in parts {
        let mut next = part.first_new;
        for leaf in &part.leaves {
            let end = positions[leaf.number as usize] as usize + 1;
            let len = end - from;
            to[at..at + len].copy_from_slice(&old[from..end]);
            let grown = to_ranks[at..at + len].iter_mut().zip(&old_ranks[from..end]);
            grown.for_each(|(to, rank)| *to = rank.wrapping_add(growth));
            (from, at, growth) = (end, at + len, growth.wrapping_add(leaf.growth));
            let (own, own_rank) = (at - 1, to_ranks[at - 1]);
            for (piece, number) in Part::<B, V>::numbers(leaf, &mut next).enumerate().skip(1) {
                first_moved.get_or_insert(own);
                to[at] = number;
                to_ranks[at] = own_rank + start_of(piece as u64, leaf.pieces.into(), leaf.pairs.len() as u64);
                at += 1;
            }
        }
    }
    to[at..].copy_from_slice(&old[from..]);
    to_ranks[at..].iter_mut().zip(&old_ranks[from..]).for_each(|(to, rank)| *to = rank.wrapping_add(growth));
    let moved = first_moved.unwrap_or(to.len());
    to[moved..].iter().zip(moved as u32..).for_each(|(&leaf, position)| positions[leaf as usize] = position);
    (order.leaves, order.ranks) = (leaves, ranks);
}
