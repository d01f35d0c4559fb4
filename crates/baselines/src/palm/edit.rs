//! What is to change in one node, and how it is changed: the same way in leaves and in inner nodes.

use crate::palm::arena::{Arena, NodeMut, Pocket};
use bytemuck::Pod;
use core::hint::select_unpredictable;
use lanetree_layout::Word;

/// Pairs that a node gets and loses.
pub(super) struct Edits<W, P> {
    /// New pairs in the order of their keys.
    inserts: Vec<New>,
    /// Pairs to be removed, in order, by their numbers.
    removed: Vec<u32>,
    /// The pairs of a node that is being split.
    old: Vec<(W, P)>,
}

/// A new pair. It is named and not copied, since a batch may have millions for one leaf.
struct New {
    /// The number of the old pair that it is put before.
    before: u32,
    /// What the caller knows the pair by.
    name: u32,
}

impl<W, P> Default for Edits<W, P> {
    fn default() -> Self {
        Self { inserts: Vec::new(), removed: Vec::new(), old: Vec::new() }
    }
}

impl<W: Word, P: Pod> Edits<W, P> {
    /// Puts the pair of this name before the old pair of this number; pairs that were put there earlier come first.
    #[inline(always)]
    pub(super) fn insert(&mut self, before: usize, name: usize) {
        self.inserts.push(New { before: before as u32, name: name as u32 });
    }

    /// Removes the old pair of this number.
    #[inline(always)]
    pub(super) fn remove(&mut self, number: usize) {
        self.removed.push(number as u32);
    }

    /// Carries out the edits, which are then forgotten, and returns the pairs that `node` keeps. What the node has no room
    /// for goes to new nodes, of which `split` gets the first key and the number, in order. Pairs are spread evenly. `pair`
    /// tells what a name stands for.
    ///
    /// # Safety
    /// As of [`Arena::node_mut`].
    pub(super) unsafe fn apply(
        &mut self,
        arena: &Arena<W, P>,
        pocket: &mut Pocket<'_, W, P>,
        node: u32,
        pair: impl Fn(usize) -> (W, P),
        split: impl FnMut(W, u32),
    ) -> usize {
        // SAFETY: by this function's contract.
        let mut node = unsafe { arena.node_mut(node) };
        if !self.removed.is_empty() {
            self.close_gaps(&mut node);
        }
        let total = *node.len as usize + self.inserts.len();
        if total <= arena.order() {
            self.open_gaps(&mut node, pair);
            *node.len = total as u32;
        } else {
            self.split(arena, pocket, &mut node, pair, split);
        }
        self.inserts.clear();
        *node.len as usize
    }

    /// Removes pairs, and numbers those that are left anew.
    fn close_gaps(&mut self, node: &mut NodeMut<'_, W, P>) {
        let len = *node.len as usize;
        let mut kept = self.removed[0] as usize;
        for (i, &gap) in self.removed.iter().enumerate() {
            let pairs = gap as usize + 1..self.removed.get(i + 1).map_or(len, |&next| next as usize);
            node.keys.copy_within(pairs.clone(), kept);
            node.slots.copy_within(pairs.clone(), kept);
            kept += pairs.len();
        }
        *node.len = kept as u32;
        let mut gaps = 0;
        for new in &mut self.inserts {
            while self.removed.get(gaps).is_some_and(|&gap| gap < new.before) {
                gaps += 1;
            }
            new.before -= gaps as u32;
        }
        self.removed.clear();
    }

    /// Moves pairs apart, from the last one on, so that none is overwritten before it has moved.
    fn open_gaps(&self, node: &mut NodeMut<'_, W, P>, pair: impl Fn(usize) -> (W, P)) {
        let mut end = *node.len as usize;
        for (i, new) in self.inserts.iter().enumerate().rev() {
            let before = new.before as usize;
            node.keys.copy_within(before..end, before + i + 1);
            node.slots.copy_within(before..end, before + i + 1);
            (node.keys[before + i], node.slots[before + i]) = pair(new.name as usize);
            end = before;
        }
    }

    /// Spreads the pairs, more than fit, over the node and new ones.
    fn split(
        &mut self,
        arena: &Arena<W, P>,
        pocket: &mut Pocket<'_, W, P>,
        node: &mut NodeMut<'_, W, P>,
        pair: impl Fn(usize) -> (W, P),
        mut split: impl FnMut(W, u32),
    ) {
        let len = *node.len as usize;
        self.old.clear();
        self.old.extend(node.keys[..len].iter().copied().zip(node.slots[..len].iter().copied()));
        let total = len + self.inserts.len();
        // What is read past the last old pair and past the last new one, and not used.
        self.old.push((W::MIN, P::zeroed()));
        self.inserts.push(New { before: u32::MAX, name: 0 });
        let (mut old, mut new) = (0, 0);
        // No branch, since a processor can't predict which of the two comes next. At order 16, a batch that splits most
        // leaves spends a quarter less time on them.
        let mut next = || {
            let New { before, name } = self.inserts[new];
            let is_new = before as usize == old;
            let (new_pair, old_pair) = (pair(name as usize), self.old[old]);
            new += usize::from(is_new);
            old += usize::from(!is_new);
            select_unpredictable(is_new, new_pair, old_pair)
        };
        let mut fill = |node: &mut NodeMut<'_, W, P>, len: usize| {
            *node.len = len as u32;
            for (key, slot) in node.keys[..len].iter_mut().zip(&mut node.slots[..len]) {
                (*key, *slot) = next();
            }
        };
        let pieces = total.div_ceil(arena.order());
        let (short, longer) = (total / pieces, total % pieces);
        fill(node, short + usize::from(longer > 0));
        for piece in 1..pieces {
            let number = pocket.take();
            // SAFETY: the node was just taken, so nobody else knows it.
            let mut node = unsafe { arena.node_mut(number) };
            fill(&mut node, short + usize::from(piece < longer));
            split(node.keys[0], number);
        }
    }
}
