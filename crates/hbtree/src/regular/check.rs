//! The rules that a tree keeps, for tests.

use super::nodes::{children, fanout, last_lines, separators};
use super::pool::{NONE, Pool};
use super::{BigLeaves, Regular};
use crate::HbTree;
use crate::line::{Leaf, Line, slots};
use core::sync::atomic::Ordering;
use lanetree_layout::{Key, KeyWord, Word};
use std::collections::BTreeSet;

impl<K: Key, V: Word> HbTree<K, V, Regular> {
    /// Checks separators, the index, sizes, parents, siblings, free numbers, ranks, and the copy on the device.
    ///
    /// # Panics
    /// For the first rule that is broken.
    #[doc(hidden)]
    pub fn check_structure(&self) {
        let (leaves, inner) = (&self.parts.leaves, &self.parts.inner);
        let (per_line, capacity) = (slots::<K::Bits, V>(), BigLeaves::<K::Bits, V>::CAPACITY);
        let index_is_right = |node: &[Line], separators: &[K::Bits]| {
            let words = separators.len() / node[0].words::<K::Bits>().len();
            separators.chunks(words).map(|line| line[words - 1]).eq(node[0].words::<K::Bits>().iter().copied())
        };
        // Nodes of a level, and the largest word that each may have below it.
        let mut level = vec![(inner.root, NONE, K::Bits::MAX)];
        let mut upper_seen = BTreeSet::new();
        for _ in 1..inner.height {
            let mut next = Vec::new();
            for (i, &(node, parent, bound)) in level.iter().enumerate() {
                let (lines, facts) = (inner.upper_node(node), inner.facts[node as usize]);
                assert!(upper_seen.insert(node) && node < inner.pool.end);
                let size = facts.size as usize;
                assert!((1..=fanout::<K::Bits>()).contains(&size));
                let near = |i: usize| level.get(i).map_or(NONE, |near| near.0);
                assert_eq!((facts.parent, facts.previous, facts.next), (parent, near(i.wrapping_sub(1)), near(i + 1)));
                let (separators, children) = (separators::<K::Bits>(lines), children::<K::Bits>(lines));
                assert!(separators[size - 1..].iter().all(|&unused| unused == K::Bits::MAX));
                assert!(
                    separators[..size - 1].iter().all(|&used| used < bound || used == bound && bound == K::Bits::MAX)
                );
                assert!(separators.is_sorted() && index_is_right(lines, separators));
                let bound_of = |child: usize| if child + 1 < size { separators[child] } else { bound };
                next.extend((0..size).map(|child| (children[child].low(), node, bound_of(child))));
            }
            level = next;
        }
        assert!(inner.height == 1 || inner.facts[inner.root as usize].size > 1, "the root has a single child");
        let order: Vec<u32> = level.iter().map(|node| node.0).collect();
        assert_eq!(leaves.in_order().collect::<Vec<_>>(), order);
        // In pieces of one leaf, of a few, and as a whole.
        let before = [1, 3, 1 << 20].map(|stride| leaves.sum_sizes(stride).unwrap());
        let (mut previous, mut rank, mut below) = (NONE, 0, None);
        for &(node, parent, bound) in &level {
            let (leaf, info) = (leaves.leaf(node), leaves.info(node));
            let (size, used) = (info.size as usize, (info.size as usize).div_ceil(per_line));
            assert_eq!((info.previous, inner.parents[node as usize]), (previous, parent));
            assert!(size <= capacity && (size > 0 || self.is_empty()));
            let lines = &inner.last[node as usize * last_lines::<K::Bits>()..][..last_lines::<K::Bits>()];
            let separators = separators::<K::Bits>(lines);
            assert!(index_is_right(lines, separators));
            for (line, &separator) in separators.iter().enumerate() {
                let largest = || leaf[line].keys::<K::Bits, V>()[per_line - 1];
                assert_eq!(separator, if line + 1 < used { largest() } else { K::Bits::MAX });
            }
            if size > 0 {
                let (first, last) =
                    (BigLeaves::<K::Bits, V>::pair(leaf, 0).0, BigLeaves::<K::Bits, V>::pair(leaf, size - 1).0);
                assert!(last <= bound && below.is_none_or(|below| below < first));
                for before in &before {
                    assert_eq!(before[node as usize].load(Ordering::Relaxed), rank);
                }
            }
            let empty = &leaf[size / per_line].keys::<K::Bits, V>()[size % per_line..];
            assert!(size > 0 && size % per_line == 0 || empty.iter().all(|&key| key == K::Bits::MAX));
            (previous, rank, below) = (node, rank + size as u64, Some(bound));
        }
        assert_eq!(rank, self.len());
        let is_whole = |pool: &Pool, taken: &BTreeSet<u32>| {
            let free: BTreeSet<u32> = pool.free.iter().copied().collect();
            assert_eq!(free.len(), pool.free.len());
            assert!(
                free.is_disjoint(taken) && free.len() + taken.len() == pool.end as usize,
                "{pool:?} {}",
                taken.len()
            );
        };
        is_whole(&leaves.pool, &order.iter().copied().collect());
        is_whole(&inner.pool, &upper_seen);
        assert_eq!((inner.last_nodes, inner.last_end), (order.len() as u64, leaves.pool.end));
        assert!(leaves.pool.end as usize <= leaves.room() && leaves.room() <= inner.parents.len());
        // On the device everything that is in use is the same.
        if let Some(copy) = &self.parts.copy {
            copy.check_against(inner, order, upper_seen);
        }
    }
}
