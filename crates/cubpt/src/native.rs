//! The tree as the CPU sees it, in main memory.

use crate::node::NodeView;
use crate::tree::Tree;
use core::marker::PhantomData;
use lanetree_frame::fixed;
use lanetree_kernels_cubpt::layout::{Head, NONE};
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

/// A leaf, and a slot of it.
type Place<'a> = (NodeView<'a>, usize);

impl<'a, K: Key, V: Word> View<'a, K, V> {
    /// `None` where the CPU does not reach the tree.
    pub(crate) fn new(tree: &'a Tree) -> Option<Self> {
        tree.storage.words(tree.root)?;
        Some(Self { tree, words: PhantomData })
    }

    fn node(&self, number: u32) -> NodeView<'a> {
        NodeView::new(self.tree.storage.words(number).expect("the CPU reaches the tree"), self.tree.storage.node())
    }

    /// The first slot whose key is not below the word, in the leaf to which the word belongs.
    fn find(&self, word: K::Bits) -> Place<'a> {
        let mut node = self.node(self.tree.root);
        for _ in 0..self.tree.height {
            let slot = node.keys::<K::Bits>().partition_point(|&key| key < word);
            node = self.node(node.ptrs::<u32>()[slot.min(node.count() - 1)]);
        }
        (node, node.keys::<K::Bits>().partition_point(|&key| key < word))
    }

    fn is_hit((leaf, slot): Place<'_>, word: K::Bits) -> bool {
        slot < leaf.count() && leaf.keys::<K::Bits>()[slot] == word
    }

    fn pair((leaf, slot): Place<'_>) -> (K, V) {
        (K::decode(leaf.keys()[slot]), leaf.ptrs()[slot])
    }

    fn neighbor(&self, place: Place<'a>, word: K::Bits, predecessor: bool) -> Option<(K, V)> {
        let (leaf, slot) = place;
        let beside = |word| Some(leaf.head(word)).filter(|&other| other != NONE).map(|other| self.node(other));
        if predecessor && !Self::is_hit(place, word) {
            if slot > 0 {
                return Some(Self::pair((leaf, slot - 1)));
            }
            return beside(Head::Previous).map(|leaf| Self::pair((leaf, leaf.count() - 1)));
        }
        if slot < leaf.count() {
            return Some(Self::pair(place));
        }
        beside(Head::Next).map(|leaf| Self::pair((leaf, 0)))
    }
}

impl<K: Key, V: Word> fixed::View<K, V> for View<'_, K, V> {
    fn get(&self, queries: &[K], mut each: impl FnMut(usize, Option<V>)) {
        for (i, query) in queries.iter().enumerate() {
            let word = query.encode();
            let place = self.find(word);
            each(i, Self::is_hit(place, word).then(|| place.0.ptrs()[place.1]));
        }
    }

    fn rank(&self, queries: &[K], upper: bool, mut each: impl FnMut(usize, u64)) {
        for (i, query) in queries.iter().enumerate() {
            let word = query.encode();
            let place = self.find(word);
            each(i, place.0.rank() + place.1 as u64 + u64::from(upper && Self::is_hit(place, word)));
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
