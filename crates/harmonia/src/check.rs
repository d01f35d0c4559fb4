//! Checks of the invariants of every tree.

use super::Harmonia;
use core::ops::Range;
use lanetree_frame::fixed::FixedIndex;
use lanetree_kernels_harmonia::layout::leaf_bytes;
use lanetree_layout::{Key, KeyWord, Word};

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Checks everything that queries rely on, for a tree that the CPU can reach: keys against the separators above them, counts,
    /// ranks, and what stands in slots without a pair.
    ///
    /// # Panics
    /// For the first rule that is broken; for a tree on a GPU.
    #[doc(hidden)]
    pub fn check_structure(&self) {
        let shape = &self.shape;
        let (fanout, inner_nodes, leaves) = (shape.fanout as usize, shape.inner as usize, shape.leaves as usize);
        let inner = self.inner.as_slice().unwrap();
        let prefix_sum = self.prefix_sum.as_slice().unwrap();
        assert!(inner.len() >= inner_nodes * fanout);
        assert!(prefix_sum.len() >= inner_nodes);
        assert!(self.leaves.bytes() as u64 >= shape.leaves as u64 * leaf_bytes::<K::Bits, V>(shape.fanout));
        let (height, level_nodes) = (shape.height as usize, &shape.level_nodes);
        assert_eq!(level_nodes[..height].iter().sum::<u32>(), shape.inner);
        assert!(level_nodes[height..].iter().all(|&nodes| nodes == 0), "levels below the last one");
        match height {
            0 => assert!(leaves <= 1, "{leaves} leaves without a root"),
            _ => assert!(level_nodes[0] == 1 && leaves > 1, "a root above {leaves} leaves"),
        }

        let mut keys = self.validate_leaves();
        // Smallest and largest key under each node, from the last inner level up.
        let mut level_end = inner_nodes;
        let mut children_end = inner_nodes + leaves;
        for level in (0..height).rev() {
            let nodes = level_end - level_nodes[level] as usize..level_end;
            let mut above = Vec::new();
            let mut child = nodes.end;
            for node in nodes.clone() {
                let slots = &inner[node * fanout..][..fanout];
                assert_eq!(prefix_sum[node] as usize, child, "first child of node {node}");
                assert_eq!(slots[fanout - 1], K::Bits::truncate(child as u64), "spare slot of node {node}");
                let end = if node + 1 < nodes.end { prefix_sum[node + 1] as usize } else { children_end };
                assert!(child < end && end - child <= fanout, "node {node} has children {child}..{end}");
                let under = &keys[child - nodes.end..end - nodes.end];
                for (i, &separator) in slots[..fanout - 1].iter().enumerate() {
                    match under.get(i..i + 2) {
                        Some(two) => {
                            assert!(two[0].end <= separator && separator < two[1].start, "separator {i} of {node}");
                        }
                        None => assert_eq!(separator, K::Bits::MAX, "unused separator {i} of node {node}"),
                    }
                }
                above.push(under[0].start..under[under.len() - 1].end);
                child = end;
            }
            assert_eq!(child, children_end, "children of level {level}");
            (keys, children_end, level_end) = (above, nodes.end, nodes.start);
        }
    }

    /// Checks the leaves and their ranks. The result has their first and last keys (inclusive).
    fn validate_leaves(&self) -> Vec<Range<K::Bits>> {
        let shape = &self.shape;
        let view = self.view().unwrap();
        if let Some(ranks) = &self.ranks {
            assert_eq!(ranks.len(), shape.leaves as usize + 1);
        }
        let mut bounds: Vec<Range<K::Bits>> = Vec::new();
        let mut len = 0;
        for leaf in 0..shape.leaves {
            let ranks = view.leaf_ranks(leaf);
            assert_eq!(ranks.start, len, "rank of leaf {leaf}");
            let count = ranks.end.checked_sub(ranks.start).unwrap() as usize;
            assert!((1..=shape.fanout as usize).contains(&count), "leaf {leaf} has {count} pairs");
            len = ranks.end;
            let (keys, values) = (view.leaf_keys(leaf), view.leaf_values(leaf));
            assert!(keys[..count].is_sorted_by(|a, b| a < b), "keys of leaf {leaf}");
            assert!(keys[count..].iter().all(|&key| key == keys[count - 1]), "key padding of leaf {leaf}");
            assert!(values[count..].iter().all(|&value| value == values[count - 1]), "value padding of leaf {leaf}");
            if let Some(before) = bounds.last() {
                assert!(before.end < keys[0], "leaf {leaf} begins before the one before ends");
            }
            bounds.push(keys[0]..keys[count - 1]);
        }
        assert_eq!(len, shape.len, "pairs in the leaves");
        bounds
    }
}
