//! The tree as the CPU sees it, in main memory.

use crate::node::NodeView;
use crate::tree::Tree;
use core::marker::PhantomData;
use lanetree_frame::fixed;
use lanetree_layout::{Key, Word};

/// A tree in main memory.
pub struct View<'a, K, V> {
    tree: &'a Tree,
    words: PhantomData<(K, V)>,
}

impl<K, V> Clone for View<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for View<'_, K, V> {}

/// A leaf, its position, and a slot of it.
struct Place<'a> {
    leaf: NodeView<'a>,
    position: usize,
    slot: usize,
}

impl<'a, K: Key, V: Word> View<'a, K, V> {
    /// `None` where the CPU does not reach the tree.
    pub(crate) fn new(tree: &'a Tree) -> Option<Self> {
        tree.storage.words(tree.root)?;
        Some(Self { tree, words: PhantomData })
    }

    fn node(&self, number: u32) -> NodeView<'a> {
        NodeView::new(self.tree.storage.words(number).expect(REACHED), self.tree.storage.node())
    }

    /// The first slot whose key is not below the word, in the leaf to which the word belongs.
    fn find(&self, word: K::Bits) -> Place<'a> {
        let mut number = self.tree.root;
        for _ in 0..self.tree.height {
            let node = self.node(number);
            let slot = node.keys::<K::Bits>().partition_point(|&key| key < word);
            number = node.ptrs::<u32>()[slot.min(node.count() - 1)];
        }
        let leaf = self.node(number);
        let slot = leaf.keys::<K::Bits>().partition_point(|&key| key < word);
        let position = self.tree.order.positions.as_slice().expect(REACHED)[number as usize] as usize;
        Place { leaf, position, slot }
    }

    fn is_hit(&Place { leaf, slot, .. }: &Place<'_>, word: K::Bits) -> bool {
        slot < leaf.count() && leaf.keys::<K::Bits>()[slot] == word
    }

    fn rank_of(&self, place: &Place<'_>) -> u64 {
        self.tree.order.ranks.as_slice().expect(REACHED)[place.position] + place.slot as u64
    }

    fn neighbor(&self, place: Place<'a>, word: K::Bits, predecessor: bool) -> Option<(K, V)> {
        let leaves = self.tree.order.leaves.as_slice().expect(REACHED);
        let Place { mut leaf, mut position, mut slot } = place;
        if predecessor && !Self::is_hit(&place, word) {
            // Leaves may be without pairs.
            while slot == 0 {
                position = position.checked_sub(1)?;
                leaf = self.node(leaves[position]);
                slot = leaf.count();
            }
            slot -= 1;
        }
        while slot >= leaf.count() {
            position += 1;
            (leaf, slot) = (self.node(*leaves.get(position)?), 0);
        }
        Some((K::decode(leaf.keys()[slot]), leaf.ptrs()[slot]))
    }
}

/// Why a tree's memory is at hand.
const REACHED: &str = "the CPU reaches the tree";

impl<K: Key, V: Word> fixed::View<K, V> for View<'_, K, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        for (i, query) in queries.iter().enumerate() {
            let word = query.encode();
            let place = self.find(word);
            each(i, Self::is_hit(&place, word).then(|| place.leaf.ptrs()[place.slot]));
        }
    }

    fn rank(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, u64)) {
        for (i, query) in queries.iter().enumerate() {
            let word = query.encode();
            let place = self.find(word);
            each(i, self.rank_of(&place) + u64::from(upper && Self::is_hit(&place, word)));
        }
    }

    fn neighbor(&self, queries: &[K], predecessor: bool, mut each: impl FnMut(usize, Option<(K, V)>)) {
        for (i, query) in queries.iter().enumerate() {
            let word = query.encode();
            each(i, self.neighbor(self.find(word), word, predecessor));
        }
    }

    fn copy(&self, rank: u64, keys: &mut [K], values: &mut [V]) {
        let order = &self.tree.order;
        let (Some(leaves), Some(ranks)) = (order.leaves.as_slice(), order.ranks.as_slice()) else { return };
        let mut position = ranks[..leaves.len()].partition_point(|&first| first <= rank).saturating_sub(1);
        let (mut slot, mut at) = ((rank - ranks[position]) as usize, 0);
        while at < keys.len() {
            let leaf = self.node(leaves[position]);
            let count = (leaf.count() - slot).min(keys.len() - at);
            let own = &leaf.keys::<K::Bits>()[slot..slot + count];
            keys[at..at + count].iter_mut().zip(own).for_each(|(to, &key)| *to = K::decode(key));
            values[at..at + count].copy_from_slice(&leaf.ptrs()[slot..slot + count]);
            (position, slot, at) = (position + 1, 0, at + count);
        }
    }
}
