//! The tree's nodes: leaves, levels of inner nodes, and how many of them; built bottom up by the threads of the current
//! rayon pool.

use crate::palm::arena::{Arena, Node, Pocket};
use crate::palm::batch::Entry;
use bytemuck::Pod;
use lanetree_base::parallel::*;
use lanetree_layout::Word;

/// A B+tree. An empty one is a leaf without pairs; no other node is ever empty.
pub(super) struct Nodes<W, V> {
    pub(super) leaves: Arena<W, V>,
    /// Inner nodes of all levels.
    pub(super) inner: Arena<W, u32>,
    pub(super) root: u32,
    /// Levels of inner nodes.
    pub(super) depth: usize,
    /// Pairs of all leaves.
    pub(super) len: usize,
    /// Pairs that a build puts into a node, on average at most.
    per_node: usize,
}

/// The number of leading items that pass. Those before number `from` do, and an item that does not is followed by none that
/// does. Doubles its steps, since the next key of a sorted batch is often close to the last one.
#[inline(always)]
pub(super) fn seek<T>(items: &[T], from: usize, passes: impl Fn(&T) -> bool) -> usize {
    let (mut known, mut step) = (from, 1);
    while let Some(item) = items.get(known + step - 1)
        && passes(item)
    {
        known += step;
        step *= 2;
    }
    let end = items.len().min(known + step - 1);
    known + items[known..end].partition_point(passes)
}

/// The child of an inner node that has the key, if it is not before child `from`.
#[inline(always)]
pub(super) fn child_of<W: Word>(node: &Node<'_, W, u32>, from: usize, key: W) -> usize {
    seek(node.keys, from + 1, |&separator| separator <= key) - 1
}

impl<W: Word, V: Word> Nodes<W, V> {
    pub(super) fn new(order: usize, fill: f64) -> Self {
        // Two at least, or the layers would not end.
        let per_node = ((order as f64 * fill) as usize).clamp(2, order);
        let (leaves, inner) = (Arena::new(order), Arena::new(order));
        let root = Pocket::new(&leaves).take();
        Self { leaves, inner, root, depth: 0, len: 0, per_node }
    }

    /// Fills an empty tree's leaves with pairs of strictly ascending keys. Returns the leaves with their first keys, for
    /// [`raise`](Self::raise).
    pub(super) fn fill(&mut self, pairs: &[Entry<W, V>]) -> Vec<(W, u32)> {
        self.len = pairs.len();
        if pairs.is_empty() {
            return vec![(W::MIN, self.root)];
        }
        let leaves = layer(&self.leaves, self.per_node, pairs.len(), |i| (pairs[i].key, pairs[i].value));
        Pocket::new(&self.leaves).put(self.root);
        self.root = leaves[0].1;
        leaves
    }

    /// Builds inner levels above nodes of the top level until one node is left, the root. The nodes come with their
    /// first separators; there is at least one.
    pub(super) fn raise(&mut self, mut nodes: Vec<(W, u32)>) {
        while nodes.len() > 1 {
            nodes = layer(&self.inner, self.per_node, nodes.len(), |i| nodes[i]);
            self.depth += 1;
        }
        self.root = nodes[0].1;
    }

    /// Makes the root's only child the root, as long as it has only one.
    pub(super) fn lower(&mut self) {
        while self.depth > 0
            && let [child] = *self.inner.node(self.root).slots
        {
            Pocket::new(&self.inner).put(self.root);
            self.root = child;
            self.depth -= 1;
        }
    }

    /// Makes the tree an empty one, of whose nodes none is in use any more.
    pub(super) fn clear(&mut self) {
        let mut leaves = Pocket::new(&self.leaves);
        (self.root, self.depth) = (leaves.take(), 0);
        // SAFETY: the leaf was just taken, and the tree is borrowed mutably.
        unsafe { *self.leaves.node_mut(self.root).len = 0 };
    }

    /// All leaves in the order of their keys.
    pub(super) fn leaves_in_order(&self) -> Vec<u32> {
        let children = |&node: &u32| self.inner.node(node).slots.iter().copied();
        (0..self.depth).fold(vec![self.root], |level, _| level.iter().flat_map(children).collect())
    }

    /// The leaf that has the key if any has.
    #[inline(always)]
    pub(super) fn leaf_of(&self, key: W) -> u32 {
        (0..self.depth).fold(self.root, |node, _| {
            let node = self.inner.node(node);
            node.slots[child_of(&node, 0, key)]
        })
    }
}

/// Cuts pairs into nodes whose lengths differ by one at most; a thread fills a node. Returns the nodes with their first
/// keys.
fn layer<W: Word, P: Pod + Send + Sync>(
    arena: &Arena<W, P>,
    per_node: usize,
    pairs: usize,
    pair: impl Fn(usize) -> (W, P) + Sync,
) -> Vec<(W, u32)> {
    let count = pairs.div_ceil(per_node);
    let mut pocket = Pocket::new(arena);
    let nodes: Vec<u32> = (0..count).map(|_| pocket.take()).collect();
    let (short, longer) = (pairs / count, pairs % count);
    let fill = |number: usize| {
        let start = number * short + number.min(longer);
        let len = short + usize::from(number < longer);
        // SAFETY: the nodes were just taken, no two calls have the same number, and nobody knows them yet.
        let node = unsafe { arena.node_mut(nodes[number]) };
        *node.len = len as u32;
        for (at, (key, slot)) in node.keys[..len].iter_mut().zip(&mut node.slots[..len]).enumerate() {
            (*key, *slot) = pair(start + at);
        }
        (node.keys[0], nodes[number])
    };
    (0..count).into_par_iter().map(fill).collect()
}
