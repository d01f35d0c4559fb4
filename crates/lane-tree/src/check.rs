//! The rules that a tree keeps, for tests.

use crate::LaneTree;
use crate::parts::Parts;
use crate::weights::RANK_BLOCK;
use lanetree_kernels_lane_tree::layout::{
    BUCKET_WORDS, FIRST_CHILD, Format, NODE_WORDS, QUANTISER, Quantiser, Record, SEPARATORS, bucket_slots, chunk_at,
    pairs_of, record_words, words_of_buckets,
};
use lanetree_layout::{AnyKey, KeyWord, Value};
use std::mem;

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Checks each node and each bucket: that the buckets' keys ascend and their free slots repeat, that each key is in the bucket and
    /// below the nodes to which its quantised key leads, and that lengths and ranks are right.
    ///
    /// # Panics
    /// For the first rule that is broken; for a tree that is lost.
    #[doc(hidden)]
    pub fn check_structure(&self) {
        validate::<K::Bits, V>(self.parts.get().unwrap(), "the structure");
    }
}

/// How many children of a node begin after its first one and at or before a key, whose quantised key this is.
fn begun<K: KeyWord>(node: &[u32], key: K, quantised: u32) -> usize {
    let separators = &node[..SEPARATORS as usize];
    let bits = |quantised: u32| {
        let (whole, last) = (quantised as usize / 32, quantised % 32);
        let ones: u32 = separators[..whole].iter().map(|word| word.count_ones()).sum();
        (ones + (separators[whole] << (31 - last)).count_ones()) as usize
    };
    let halves = |quantised: u32| {
        separators.iter().flat_map(|word| [word & 0xffff, word >> 16]).filter(move |&at| at <= quantised)
    };
    match Quantiser(node[QUANTISER as usize]).format() {
        Format::Bitmap => bits(quantised),
        Format::Halves => halves(quantised).count(),
        Format::Exact => {
            // What is left, if keys have four words each, is no key.
            let keys = separators.chunks_exact(K::BYTES / 4).map(|words| {
                let part = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
                K::from_parts([part(0) | part(1) << 32, part(2) | part(3) << 32])
            });
            keys.filter(|&separator| separator < key).count()
        }
    }
}

/// Checks all that the layout promises.
pub(crate) fn validate<K: KeyWord, V: Value>(parts: &Parts<K>, what: &str) {
    let buckets = parts.buckets.to_vec().unwrap();
    let (nodes, records) = (parts.nodes.to_vec().unwrap(), parts.records.to_vec().unwrap());
    let bucket_ends = parts.ends.to_vec().unwrap();
    let shape = parts.shape;
    let words_of_record = record_words::<K, V>() as usize;
    assert!(buckets.len() as u64 >= words_of_buckets::<K, V>(shape.buckets.into()), "{what}");
    assert_eq!(records.len(), shape.leaf_nodes as usize * words_of_record, "{what}");
    let slots = bucket_slots::<K, V>() as usize;
    let bucket_of = |bucket: usize| -> Vec<K> {
        let chunks = u64::from(BUCKET_WORDS) / 2;
        let chunks =
            (bucket as u64 * chunks..(bucket as u64 + 1) * chunks).map(|chunk| chunk_at::<K, V>(chunk) as usize);
        chunks
            .flat_map(|at| {
                pairs_of::<K, V>([buckets[at], buckets[at + 1]]).map(|pair| pair.0).into_iter().take(slots / 4)
            })
            .collect()
    };
    let mut has_node = vec![false; shape.buckets as usize];
    let mut rank = 0;
    let mut before: Option<K> = None;
    // The first and the last key of each node.
    let mut ends = Vec::new();
    for node in 0..shape.leaf_nodes as usize {
        assert!(rank < shape.len, "{what}: node {node} has no pairs");
        let words = &nodes[node * NODE_WORDS as usize..(node + 1) * NODE_WORDS as usize];
        let record_of =
            |node: usize| Record::<K>::of_slice::<V>(&records[node * words_of_record..(node + 1) * words_of_record]);
        // On a device, records have the whole rank.
        let rank_of = |node: usize| {
            record_of(node).rank.wrapping_add(parts.rank_steps.get(node / RANK_BLOCK).copied().unwrap_or(0))
        };
        let record = record_of(node);
        assert_eq!(rank_of(node), rank, "{what}: node {node}");
        let first = words[FIRST_CHILD as usize] as usize;
        let end = bucket_ends[node] as usize;
        for (bucket, has_node) in has_node.iter_mut().enumerate().take(end).skip(first) {
            assert!(!mem::replace(has_node, true), "{what}: bucket {bucket} has two nodes");
        }
        let quantiser = Quantiser(words[QUANTISER as usize]);
        let next_rank = match node + 1 < shape.leaf_nodes as usize {
            true => rank_of(node + 1),
            false => shape.len,
        };
        for bucket in first..end {
            let keys = bucket_of(bucket);
            // Past the node's last pair, buckets are free.
            let len = if rank == next_rank { 0 } else { record.len((bucket - first) as u32) as usize };
            for (slot, &key) in keys.iter().enumerate() {
                if slot < len {
                    assert!(before.is_none_or(|before| before < key), "{what}: bucket {bucket}, slot {slot}");
                    assert!(key >= record.first, "{what}: bucket {bucket}");
                    for quantised in [quantiser.quantise(key), quantiser.quantise_any(key, record.first)] {
                        assert_eq!(
                            begun(words, key, quantised),
                            bucket - first,
                            "{what}: bucket {bucket}, slot {slot}"
                        );
                    }
                    before = Some(key);
                } else {
                    assert_eq!(Some(key), before, "{what}: bucket {bucket}, slot {slot} is free");
                }
            }
            rank += len as u64;
        }
        assert_eq!(rank, next_rank, "{what}: node {node}");
        ends.push((bucket_of(first)[0], before.expect("the node has pairs")));
    }
    assert_eq!(rank, shape.len, "{what}");
    let unused = has_node.iter().filter(|&&has_node| !has_node).count();
    assert_eq!(unused, shape.unused as usize, "{what}: buckets without a node");
    validate_upper(parts, &nodes, ends, what);
}

/// The nodes above the lowest level, whose nodes have these first and last keys.
fn validate_upper<K: KeyWord>(parts: &Parts<K>, nodes: &[u32], mut ends: Vec<(K, K)>, what: &str) {
    let (shape, firsts) = (parts.shape, parts.firsts.to_vec().unwrap());
    let node = |number: usize| &nodes[number * NODE_WORDS as usize..(number + 1) * NODE_WORDS as usize];
    let first_child = |number: usize| node(number)[FIRST_CHILD as usize] as usize;
    let all = (shape.top_first + shape.top_count) as usize;
    let mut below = 0;
    for level in 1..shape.height {
        let start = below + ends.len();
        // A level ends where the next one begins, whose children are of this one.
        let end = (start..all).find(|&number| first_child(number) >= start).unwrap_or(all);
        let mut level_ends = Vec::new();
        for number in start..end {
            let children = first_child(number) - below..if number + 1 < end {
                first_child(number + 1) - below
            } else {
                ends.len()
            };
            assert!(!children.is_empty(), "{what}: node {number} of level {level} has no children");
            let quantiser = Quantiser(node(number)[QUANTISER as usize]);
            for (child, &(first, last)) in ends[children.clone()].iter().enumerate() {
                for key in [first, last] {
                    let begun = begun(node(number), key, quantiser.quantise(key));
                    assert_eq!(begun, child, "{what}: node {number} of level {level}");
                }
            }
            let (first, last) = (ends[children.start].0, ends[children.end - 1].1);
            let known = firsts[number - shape.leaf_nodes as usize];
            let before = children.start.checked_sub(1).map(|before| ends[before].1);
            // Keys below all that there were go to the first node of each level, which does not hear of them.
            assert!(known <= first || number == start, "{what}: the first key of node {number}");
            assert!(before.is_none_or(|before| before < known), "{what}: the keys before node {number}");
            level_ends.push((first, last));
        }
        (below, ends) = (start, level_ends);
    }
    assert_eq!((below, ends.len()), (shape.top_first as usize, shape.top_count as usize), "{what}: the highest level");
}
