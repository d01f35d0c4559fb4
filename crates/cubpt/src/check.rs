//! The rules that a tree keeps, for tests.

use crate::Cubpt;
use crate::node::NodeView;
use crate::tree::Tree;
use lanetree_kernels_cubpt::layout::{Head, INNER, LEAF, NONE};
use lanetree_layout::{Key, KeyWord, Word};
use std::collections::BTreeSet;

impl<K: Key, V: Word> Cubpt<K, V> {
    /// Checks each node of a tree on the host or the emulator: keys against the separators above them on both sides, counts,
    /// parents, links, ranks, and the numbers that are free. Returns the pairs in the order of the leaves.
    ///
    /// # Panics
    /// For the first rule that is broken; for a tree that is lost or on a GPU.
    #[doc(hidden)]
    #[must_use]
    pub fn check_structure(&self) -> Vec<(K, V)> {
        let tree: &Tree = self.tree.get().unwrap();
        let node = |number: u32| NodeView::new(tree.storage.words(number).unwrap(), tree.storage.node());
        // The nodes of a level, with their parents and the separators that bound their keys.
        let mut level = vec![(tree.root, None, K::Bits::MAX)];
        let mut seen = BTreeSet::new();
        for above in (0..=tree.height).rev() {
            let (mut below, mut before) = (Vec::new(), None);
            for &(number, parent, bound) in &level {
                let view = node(number);
                let (count, keys) = (view.count(), view.keys::<K::Bits>());
                assert!(seen.insert(number), "node {number} is twice in the tree");
                assert_eq!(view.head(Head::Kind), if above > 0 { INNER } else { LEAF });
                assert!(parent.is_none_or(|parent| view.head(Head::Parent) == parent), "the parent of {number}");
                assert!(count <= self.fanout() as usize && (count > 0 || above == 0), "{count} keys in {number}");
                assert!(keys[count..].iter().all(|&unused| unused == K::Bits::MAX));
                assert!(keys[..count].is_sorted() && keys[..count].iter().all(|&key| key <= bound));
                assert!(count == 0 || before.is_none_or(|before| before < keys[0]), "keys of {number} are not above");
                before = Some(bound);
                if above > 0 {
                    assert!(above < tree.height || count > 1, "a root with one child");
                    let children = view.ptrs::<u32>();
                    // What goes beyond the last key goes to the last child.
                    let bound_of = |i| if i + 1 < count { keys[i] } else { bound };
                    below.extend((0..count).map(|i| (children[i], Some(number), bound_of(i))));
                    assert!(
                        children[count..self.fanout() as usize].iter().all(|&unused| unused == children[count - 1])
                    );
                }
            }
            if above > 0 {
                level = below;
            }
        }
        let leaves: Vec<u32> = level.iter().map(|leaf| leaf.0).collect();
        assert_eq!(tree.order.leaves.as_slice().unwrap(), leaves);
        let mut pairs = Vec::new();
        for (i, &number) in leaves.iter().enumerate() {
            let leaf = node(number);
            assert_eq!(leaf.head(Head::Next), leaves.get(i + 1).copied().unwrap_or(NONE), "the leaf after leaf {i}");
            assert_eq!(tree.order.ranks.as_slice().unwrap()[i], pairs.len() as u64);
            assert_eq!(tree.order.positions.as_slice().unwrap()[number as usize], i as u32);
            pairs.extend((0..leaf.count()).map(|slot| (K::decode(leaf.keys()[slot]), leaf.ptrs::<V>()[slot])));
        }
        assert_eq!(tree.len, pairs.len() as u64);
        let free: Vec<u32> = tree.free.as_slice().unwrap()[..tree.free_count as usize].to_vec();
        assert!(free.iter().all(|number| seen.insert(*number)), "a number is free twice, or in the tree");
        assert_eq!((seen.len() as u64, seen.last().map(|&last| u64::from(last))), (tree.end, tree.end.checked_sub(1)));
        assert!(tree.end <= tree.storage.room());
        pairs
    }
}
