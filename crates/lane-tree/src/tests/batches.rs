//! Batches of changes.

use super::ranges::ranges_are_found;
use super::{are_copied, distributions, validate, wide_distributions};
use crate::{LaneTree, UpdateScratch};
use core::ops::Bound;
use lanetree_frame::fixed::{FixedIndex, HostForm, Iter};
use lanetree_frame::{
    Batch, Buffer, Bytes16, Device, Error, KeyRange, Op, Stream, UpdatePath, UpdateReport, apply_to_map,
};
use lanetree_kernels_lane_tree::layout::{FIRST_CHILD, NODE_WORDS, Record, bucket_slots, record_words};
use lanetree_layout::{AnyKey, KeyWord, Value, Word};
use lanetree_runtime::{Failure, Pool};
use std::collections::BTreeMap;

/// A tree and a std map, both changed by the same batches.
pub(super) struct Pair<K: AnyKey, V: Value> {
    pub(super) tree: LaneTree<K, V>,
    pub(super) map: BTreeMap<K, V>,
}

/// The value of a number.
fn value<V: Value>(number: u64) -> V {
    V::of(KeyWord::truncate(number))
}

impl<K: AnyKey, V: Value> Pair<K, V> {
    pub(super) fn new(device: &Device, keys: &[K], fill: f64, table: u32) -> Self {
        let values: Vec<V> = keys.iter().map(|key| value(key.encode().parts()[0] ^ 5)).collect();
        let map = keys.iter().copied().zip(values.iter().copied()).collect();
        let builder = LaneTree::builder().fill(fill).table_nodes(table);
        Self { tree: builder.build(device, keys, &values).unwrap(), map }
    }

    /// Changes both, and compares all that the tree answers.
    pub(super) fn apply(&mut self, ops: &[Op<K, V>], what: &str) -> UpdatePath {
        let path = self.change(ops, what);
        self.compare(ops.len(), what);
        path
    }

    /// Changes both, and compares what the tree says of it, and how its nodes lie.
    pub(super) fn change(&mut self, ops: &[Op<K, V>], what: &str) -> UpdatePath {
        let report = self.tree.apply_each(ops.len(), |i| ops[i]).unwrap();
        let expected = apply_to_map(&mut self.map, ops);
        assert_eq!(UpdateReport { path: report.path, ..expected }, report, "{what}");
        validate::<K::Bits, V>(self.tree.parts.get().unwrap(), what);
        report.path
    }

    /// Compares all pairs, and what is asked about every fifth, from one of the first five on.
    fn compare(&self, first: usize, what: &str) {
        let pairs = self.map.iter().map(|(&key, &value)| (key, value));
        assert!(FixedIndex::pairs(&self.tree).unwrap().into_iter().eq(pairs.clone()), "{what}");
        ranges_are_found(&self.tree, &pairs.clone().collect::<Vec<_>>(), what);
        are_copied(&self.tree, pairs.clone(), what);
        let all: Vec<K> = self.map.keys().copied().collect();
        let of_all = || (first % 5..all.len()).step_by(5);
        let keys: Vec<K> = of_all().map(|i| all[i]).collect();
        let values = self.map.values().skip(first % 5).step_by(5);
        let found = self.tree.get_many(&keys).unwrap();
        assert!(found.into_iter().eq(values.map(|&value| Some(value))), "{what}");
        let ranks = of_all().map(|i| i as u64);
        assert!(self.tree.lower_bound_many(&keys).unwrap().into_iter().eq(ranks), "{what}");
        // From after a key: where a bucket ends, free ones may follow.
        let after = keys.iter().map(|&key| KeyRange::new((Bound::Excluded(key), Bound::Unbounded)).limit(2));
        let rows = self.tree.range_many(after).unwrap();
        for (row, i) in of_all().enumerate() {
            let to = (i + 3).min(all.len());
            assert_eq!(rows.get(row).0, &all[i + 1..to], "{what}: after {}", all[i]);
        }
    }
}

/// How full buckets are, and how many nodes there may be below the table.
const TREES: [(f64, u32); 3] = [(0.6, 16384), (0.7, 2), (1.0, 3)];

pub(super) fn batches_of<K: AnyKey, V: Value>(trees: &[(f64, u32)], key: impl Fn(u64) -> K::Bits) {
    [Device::host(), Device::emulated()].iter().for_each(|device| batches_on::<K, V>(device, trees, &key));
}

pub(super) fn batches_on<K: AnyKey, V: Value>(device: &Device, trees: &[(f64, u32)], key: impl Fn(u64) -> K::Bits) {
    let mut state = 77_u64;
    let mut random = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 29
    };
    for &(fill, table) in trees {
        let keys: Vec<K> = (0..6000).map(|_| K::decode(key(random()))).collect();
        let mut both = Pair::<K, V>::new(device, &keys, fill, table);
        let mut paths = Vec::new();
        for batch in 0..6 {
            let ops: Vec<Op<K, V>> = (0..400)
                .map(|_| {
                    let own = keys[random() as usize % keys.len()];
                    match random() % 8 {
                        0 => Op::Remove(own),
                        1 => Op::Update(own, value(random())),
                        _ => Op::Insert(K::decode(key(random())), value(random())),
                    }
                })
                .collect();
            paths.push(both.apply(&ops, &format!("batch {batch}, fill {fill}")));
        }
        // Buckets with room take the first batches.
        assert!(fill == 1.0 || paths[0] == UpdatePath::InPlace, "{paths:?}");
        // Values only, which is in place whatever the fill; a set has none.
        let ops: Vec<_> = keys.iter().step_by(17).map(|&key| Op::Update(key, value(u64::MAX))).collect();
        let in_place = if V::IS_SOME { UpdatePath::InPlace } else { UpdatePath::Unchanged };
        assert_eq!(both.apply(&ops, "updates"), in_place);
        // Into one node.
        let start = key(1 << 62);
        let ops: Vec<_> =
            (0..700).map(|i| Op::Insert(K::decode(start.wrapping_add(K::Bits::truncate(i))), value(0))).collect();
        assert_eq!(both.apply(&ops, "one node"), UpdatePath::Moved);
        // Past all others, and before.
        let ends = [K::Bits::MIN, K::Bits::MAX].map(|word| Op::Insert(K::decode(word), value(u64::MAX)));
        both.apply(&ends, "both ends");
        let ops: Vec<_> = both.map.keys().copied().step_by(3).map(Op::Remove).collect();
        assert_ne!(both.apply(&ops, "removals"), UpdatePath::Moved);
        let ops: Vec<_> = both.map.keys().copied().map(Op::Remove).collect();
        assert_eq!(both.apply(&ops, "all removed"), UpdatePath::Rebuilt);
        assert_eq!(Iter::new(&both.tree).count(), 0);
        let ops: Vec<_> = keys.iter().map(|&key| Op::Insert(key, value(0))).collect();
        assert_eq!(both.apply(&ops, "into an empty tree"), UpdatePath::Rebuilt);
    }
}

/// Batches of which each rebuilds the tree: all that can become of nodes.
pub(super) fn rebuilds_of<K: AnyKey, V: Value>(key: impl Fn(u64) -> K::Bits) {
    let mut state = 77_u64;
    let mut random = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 29
    };
    for (fill, table) in [(0.7, 16384), (1.0, 5)] {
        // Of about forty nodes.
        let node = (if bucket_slots::<K::Bits, V>() == 4 { 208.0 } else { 400.0 }) * fill;
        let count = (40.0 * node) as usize;
        let mut keys: Vec<K> = (0..count).map(|_| K::decode(key(random()))).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut both = Pair::<K, V>::new(&Device::emulated(), &keys, fill, table);
        let mut inserts = |count: usize| -> Vec<Op<K, V>> {
            (0..count).map(|_| Op::Insert(K::decode(key(random())), value(random()))).collect()
        };
        let mut rebuild = |ops: Vec<Op<K, V>>, what: &str| {
            assert_eq!(both.apply(&ops, &format!("{what}, fill {fill}")), UpdatePath::Rebuilt, "{what}, fill {fill}");
            both.map.keys().copied().collect::<Vec<K>>()
        };
        let all = rebuild(inserts(count / 2), "inserts");
        // Keys of which one is removed, one gets a value, and one is not there; and new ones.
        let mut ops = inserts(count / 2);
        ops.extend(all.iter().enumerate().filter_map(|(i, &key)| match i % 8 {
            0 => Some(Op::Remove(key)),
            1 => Some(Op::Update(key, value(i as u64))),
            2 => Some(Op::Insert(key, value(i as u64))),
            _ => None,
        }));
        ops.extend(inserts(9).into_iter().map(|op| if let Op::Insert(key, _) = op { Op::Remove(key) } else { op }));
        let all = rebuild(ops, "a mixture");
        // Without the first nodes, some in the middle, and the last ones.
        let len = all.len();
        let gone = [0..len / 20, len / 2..len * 5 / 8, len - len / 30..len];
        let removals = gone.into_iter().flat_map(|range| all[range].iter().map(|&key| Op::Remove(key)));
        let mut ops = inserts(count / 2);
        ops.extend(removals);
        let all = rebuild(ops, "without some nodes");
        // More into one node than are summed, and than a block takes; some of these are removed again.
        let start = K::encode(all[all.len() / 2]);
        let near = |i: u64| K::decode(start.wrapping_add(K::Bits::truncate(i * 3 + 1)));
        let mut ops = inserts(count / 2);
        ops.extend((0..6000).map(|i| Op::Insert(near(i), value(i))));
        rebuild(ops, "into one node");
        let mut ops = inserts(count);
        ops.extend(
            (0..6000_u64)
                .map(|i| if i.is_multiple_of(3) { Op::Remove(near(i)) } else { Op::Update(near(i), value(!i)) }),
        );
        let all = rebuild(ops, "out of these nodes");
        // Far fewer than there were: nodes merge.
        let kept = |i: usize| i.is_multiple_of(16);
        let ops = all.iter().enumerate().filter(|(i, _)| !kept(*i)).map(|(_, &key)| Op::Remove(key)).collect();
        rebuild(ops, "fifteen sixteenths removed");
        // One pair is left.
        let mut both = Pair::<K, V>::new(&Device::emulated(), &keys, fill, table);
        let ops: Vec<_> = keys.iter().skip(1).map(|&key| Op::Remove(key)).collect();
        assert_eq!(both.apply(&ops, "nearly all removed"), UpdatePath::Rebuilt);
    }
}

#[test]
fn a_tree_is_rebuilt_whatever_becomes_of_its_nodes() {
    rebuilds_of::<u64, u64>(|wide| wide);
    rebuilds_of::<i32, u32>(|wide| (wide >> 32) as u32);
    rebuilds_of::<i32, u64>(|wide| (wide >> 32) as u32);
    rebuilds_of::<Bytes16, u64>(|wide| u128::from(wide) << 64 | u128::from(wide.wrapping_mul(0x9e37_79b9)));
    rebuilds_of::<u128, u32>(|wide| u128::from(wide) << 32);
}

#[test]
fn a_set_is_rebuilt_whatever_becomes_of_its_nodes() {
    rebuilds_of::<u32, ()>(|wide| (wide >> 32) as u32);
    rebuilds_of::<u64, ()>(|wide| wide);
    rebuilds_of::<u128, ()>(|wide| u128::from(wide) << 64);
}

#[test]
fn a_node_gets_more_changes_than_are_summed_in_shared_memory() {
    let mut both = Pair::<u64, u64>::new(&Device::emulated(), &[1 << 20, 1 << 60, 1 << 61], 0.7, 16384);
    let start = 1 << 59;
    let ops: Vec<_> = (0..150).map(|i| Op::Insert(start + 64 * i, i)).collect();
    both.apply(&ops, "apart");
    let ops: Vec<_> = (0..9000)
        .map(|i| match i % 128 {
            0 => Op::Remove(start + i),
            64 => Op::Update(start + i, i),
            _ => Op::Insert(start + i, i),
        })
        .collect();
    both.apply(&ops, "between");
}

#[test]
fn batches_have_the_effect_of_one_change_after_another_in_place_or_not() {
    batches_of::<u64, u64>(&TREES, |wide| wide);
}

#[test]
fn batches_have_the_same_effect_on_narrow_pairs() {
    batches_of::<i32, u32>(&TREES, |wide| (wide >> 32) as u32);
}

#[test]
fn batches_have_the_same_effect_on_pairs_with_keys_of_128_bits() {
    batches_of::<Bytes16, u64>(&TREES, |wide| u128::from(wide) << 64 | u128::from(wide.wrapping_mul(0x9e37_79b9)));
}

/// Every second key, and then the others in some batches, with removals between: appended, in order or out of it.
pub(super) fn batches_into<K: AnyKey, V: Value>(distributions: Vec<(&'static str, Vec<K>)>) {
    let mix = |key: &K| key.encode().parts().iter().fold(0, |mixed: u64, &part| (mixed ^ part).wrapping_mul(0x9e37));
    let on_both = [Device::host(), Device::emulated()].into_iter();
    for (device, (what, keys)) in on_both.flat_map(|device| distributions.iter().map(move |all| (device.clone(), all)))
    {
        let keys: Vec<K> = keys.iter().copied().step_by(3).collect();
        let (half, others): (Vec<K>, Vec<K>) = keys.iter().copied().partition(|key| mix(key) >> 8 & 1 == 0);
        let mut both = Pair::<K, V>::new(&device, &half, 0.7, 5);
        let batches = 3;
        for batch in 0..batches {
            // One batch after the other is dense in one region.
            let own = others.len() * batch / batches..others.len() * (batch + 1) / batches;
            let inserts = others[own].iter().map(|&key| Op::Insert(key, value(!mix(&key))));
            let removals = half.iter().skip(batch).step_by(7).map(|&key| Op::Remove(key));
            let ops: Vec<_> = inserts.chain(removals).collect();
            both.apply(&ops, &format!("{what}, batch {batch}"));
        }
        let spread: Vec<_> = half.iter().step_by(5).map(|&key| Op::Insert(key, value(7))).collect();
        both.apply(&spread, &format!("{what}, at last"));
    }
}

#[test]
fn batches_come_into_every_distribution() {
    batches_into::<u64, u64>(distributions());
}

#[test]
fn batches_come_into_every_distribution_of_keys_of_128_bits() {
    batches_into::<u128, u64>(wide_distributions());
}

#[test]
fn ascending_batches_are_appended() {
    let device = Device::emulated();
    let keys: Vec<u64> = (0..3000).map(|i| i * i).collect();
    let mut both = Pair::<u64, u32>::new(&device, &keys, 0.8, 3);
    let mut next = 3000 * 3000;
    for batch in 0..4_u64 {
        let ops: Vec<_> = (0..500).map(|i| Op::Insert(next + i * (batch + 1), batch as u32)).collect();
        next += 1000 << (10 * batch);
        assert_eq!(both.apply(&ops, "appended"), UpdatePath::Moved);
    }
}

#[test]
fn batches_go_below_all_keys_and_to_both_ends() {
    let device = Device::emulated();
    let keys: Vec<u64> = (0..2000).map(|i| (1 << 40) + i * i).collect();
    let (first, last) = (keys[0], keys[1999]);
    let mut descending = Pair::<u64, u32>::new(&device, &keys, 0.8, 3);
    let mut alternating = Pair::<u64, u32>::new(&device, &keys, 0.8, 3);
    for batch in 0..3_u64 {
        let below = |i: u64| first - 1 - batch * 400 - i;
        let ops: Vec<_> = (0..400).map(|i| Op::Insert(below(i), batch as u32)).collect();
        assert_ne!(descending.apply(&ops, "descending"), UpdatePath::InPlace);
        let ends = |i| if i % 2 == 0 { below(i) } else { last + 1 + batch * 400 + i };
        let ops: Vec<_> = (0..400).map(|i| Op::Insert(ends(i), batch as u32)).collect();
        assert_ne!(alternating.apply(&ops, "alternating"), UpdatePath::InPlace);
    }
}

#[test]
fn buckets_without_room_hand_pairs_to_those_beside() {
    let device = Device::emulated();
    let keys: Vec<u64> = (1..4000).map(|i| i << 20).collect();
    let mut both = Pair::<u64, u64>::new(&device, &keys, 0.7, 16384);
    let nodes = both.tree.parts.get().unwrap().nodes.to_vec().unwrap();
    // Two into one of twenty buckets, nearly all of which had three.
    let ops: Vec<_> =
        (0..200).flat_map(|i| [1, 2].map(|part| Op::Insert(((i * 20) << 20) + (part << 18), part))).collect();
    assert_eq!(both.apply(&ops, "handed over"), UpdatePath::InPlace);
    assert_ne!(nodes, both.tree.parts.get().unwrap().nodes.to_vec().unwrap());
}

#[test]
fn uniform_batches_find_room() {
    let device = Device::emulated();
    let mut state = 77_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 4
    };
    let keys: Vec<u64> = (0..1 << 18).map(|_| random()).collect();
    let mut tree = LaneTree::<u64, u64>::builder().fill(0.7).table_nodes(20).build(&device, &keys, &keys).unwrap();
    // A tenth in all. With cells that could not be shifted at the right end of a node, some nodes had to be split.
    for size in [10, 12, 13, 13] {
        let new: Vec<u64> = (0..1 << size).map(|_| random()).collect();
        let report = tree.insert_many(&new, &new).unwrap();
        assert_eq!((report.inserted, report.path), (1 << size, UpdatePath::InPlace));
        assert!(tree.get_many(&new).unwrap().into_iter().eq(new.iter().map(|&key| Some(key))));
    }
}

impl<K: AnyKey, V: Word> Pair<K, V> {
    /// Where buckets are.
    fn buckets_at(&self) -> u64 {
        let stream = self.tree.device.stream().unwrap();
        self.tree.parts.get().unwrap().buckets.read_on(&stream).unwrap().as_ptr() as u64
    }

    /// The first bucket of each node of the lowest level.
    fn first_buckets(&self) -> Vec<u32> {
        let parts = self.tree.parts.get().unwrap();
        let nodes = parts.nodes.to_vec().unwrap();
        let words = nodes.chunks(NODE_WORDS as usize).take(parts.shape.leaf_nodes as usize);
        words.map(|words| words[FIRST_CHILD as usize]).collect()
    }

    /// Buckets that no node has.
    fn unused(&self) -> u32 {
        self.tree.parts.get().unwrap().shape.unused
    }

    /// The keys of some nodes of the lowest level.
    fn keys_of(&self, nodes: core::ops::Range<u32>) -> Vec<K> {
        let parts = self.tree.parts.get().unwrap();
        let records = parts.records.to_vec().unwrap();
        let rank = |node: u32| match node == parts.shape.leaf_nodes {
            true => parts.shape.len as usize,
            false => {
                let words = record_words::<K::Bits, V>() as usize;
                Record::<K::Bits>::of_slice::<V>(&records[node as usize * words..][..words]).rank as usize
            }
        };
        let (from, to) = (rank(nodes.start), rank(nodes.end));
        self.map.keys().copied().skip(from).take(to - from).collect()
    }
}

/// A tree of about `nodes` nodes.
fn of_nodes<V: Word>(nodes: u64, fill: f64) -> Pair<u64, V> {
    let pairs = (nodes as f64 * 208.0 * fill) as u64;
    let mut keys: Vec<u64> = (0..pairs).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    keys.sort_unstable();
    let both = Pair::new(&Device::emulated(), &keys, fill, 50);
    let found = both.tree.stats().leaf_nodes;
    assert!((nodes * 7 / 8..nodes * 5 / 4).contains(&found), "{found}");
    both
}

/// A tree of some nodes.
fn of_some_nodes<V: Word>(fill: f64) -> Pair<u64, V> {
    of_nodes(150, fill)
}

/// Keys between neighbouring ones, which are far apart: several between any two.
fn between(keys: &[u64], count: u64) -> impl Iterator<Item = Op<u64, u32>> {
    keys.windows(2).flat_map(move |pair| {
        (1..=count).map(move |i| Op::Insert(pair[0] + (pair[1] - pair[0]) / (count + 1) * i, i as u32))
    })
}

#[test]
fn nodes_that_are_split_get_new_buckets() {
    let mut both = of_some_nodes::<u32>(0.7);
    // As many again into each of some nodes, which have room for a third.
    let mut ops = Vec::new();
    for node in [0, 20, 63, 64] {
        ops.extend(between(&both.keys_of(node..node + 1), 1));
    }
    let (buckets, before) = (both.first_buckets(), both.tree.stats());
    assert_eq!(both.apply(&ops, "as many again"), UpdatePath::Moved);
    let (now, stats) = (both.first_buckets(), both.tree.stats());
    // All other nodes have the buckets that they had.
    let end = (before.buckets) as u32;
    let kept = now.iter().filter(|&&bucket| bucket < end).copied();
    assert!(
        kept.eq(buckets
            .iter()
            .enumerate()
            .filter(|(node, _)| ![0, 20, 63, 64].contains(node))
            .map(|(_, &bucket)| bucket))
    );
    assert!(stats.leaf_nodes >= before.leaf_nodes && stats.buckets > before.buckets, "{stats:?}");
    assert!((4 * 32..4 * 65).contains(&both.unused()), "{}", both.unused());
    // Far more than a node takes.
    let keys = both.keys_of(20..21);
    assert_eq!(both.apply(&between(&keys, 60).collect::<Vec<_>>(), "far more"), UpdatePath::Moved);
    // Keys of the nodes that were just split, and of their neighbours.
    let keys = both.keys_of(18..24);
    assert_eq!(both.apply(&between(&keys, 1).collect::<Vec<_>>(), "after that"), UpdatePath::Moved);
}

/// A few keys into one node of a full tree.
fn few_more(both: &Pair<u64, u32>) -> Vec<Op<u64, u32>> {
    between(&both.keys_of(1..2), 1).step_by(16).collect()
}

#[test]
fn a_node_with_too_few_buckets_gets_more_of_them() {
    let mut both = of_some_nodes::<u32>(1.0);
    let (nodes, buckets) = (both.tree.stats().leaf_nodes, both.first_buckets());
    let ops = few_more(&both);
    assert_eq!(both.apply(&ops, "a few more"), UpdatePath::InPlace);
    assert_eq!(both.tree.stats().leaf_nodes, nodes);
    let others = both.first_buckets().into_iter().zip(&buckets).filter(|(now, before)| now != *before).count();
    assert_eq!((others, both.unused()), (1, buckets[2] - buckets[1]));
    assert!(both.first_buckets()[1] >= buckets[nodes as usize - 1]);
}

#[test]
fn buckets_move_seldom_and_a_tree_with_many_unused_ones_is_rebuilt() {
    let mut both = of_some_nodes::<u32>(0.7);
    let (mut paths, mut moves) = (Vec::new(), 0);
    for batch in 0..60_u32 {
        // A third of the keys between the keys of two nodes.
        let node = batch * 37 % 140;
        let ops: Vec<_> = between(&both.keys_of(node..node + 2), 2).collect();
        let at = both.buckets_at();
        let what = format!("batch {batch}");
        paths.push(both.change(&ops, &what));
        if batch % 10 == 9 {
            both.compare(batch as usize, &what);
        }
        moves += u32::from(both.buckets_at() != at);
        let shape = both.tree.parts.get().unwrap().shape;
        assert!(shape.unused * 4 < shape.buckets, "{shape:?}");
    }
    let rebuilt = paths.iter().filter(|&&path| path == UpdatePath::Rebuilt).count();
    assert!((1..8).contains(&rebuilt) && moves < 20, "{moves} moves, {paths:?}");
}

#[test]
fn nodes_without_pairs_leave_their_buckets() {
    let mut both = of_some_nodes::<u32>(0.7);
    let removals = |keys: Vec<u64>| keys.into_iter().map(Op::Remove).collect::<Vec<_>>();
    // The first, one in the middle, several in a row, and the last.
    let nodes = both.tree.stats().leaf_nodes;
    for of in [0..1, 30..31, 60..67] {
        assert_eq!(both.apply(&removals(both.keys_of(of.clone())), &format!("without {of:?}")), UpdatePath::Moved);
    }
    assert_eq!(both.tree.stats().leaf_nodes, nodes - 9);
    let last = nodes as u32 - 10;
    assert_eq!(both.apply(&removals(both.keys_of(last..last + 1)), "without the last"), UpdatePath::Moved);
    let unused = both.unused();
    assert!((10 * 32..10 * 65).contains(&unused), "{unused}");
    // What was between two neighbouring keys comes back there.
    let keys = both.keys_of(0..12);
    both.apply(&between(&keys, 1).step_by(4).collect::<Vec<_>>(), "back again");
    // Most of them.
    assert_eq!(both.apply(&removals(both.keys_of(3..130)), "without most"), UpdatePath::Rebuilt);
    assert_eq!(both.unused(), 0);
}

#[test]
fn a_full_tree_is_rebuilt_once_and_has_room_then() {
    let mut both = of_some_nodes::<u32>(0.7);
    for batch in 0..3 {
        // A sixteenth each.
        let keys: Vec<u64> = both.map.keys().copied().collect();
        let ops: Vec<_> = between(&keys, 1).skip(batch).step_by(16).collect();
        assert_ne!(both.apply(&ops, &format!("batch {batch}")), UpdatePath::Rebuilt);
    }
    let mut full = of_some_nodes::<u32>(1.0);
    let keys: Vec<u64> = full.map.keys().copied().collect();
    let rebuilt: Vec<bool> = (0..3)
        .map(|batch| {
            let ops: Vec<_> = between(&keys, 7).skip(5 * batch + 1).step_by(7 * 16).collect();
            full.apply(&ops, &format!("full, batch {batch}")) == UpdatePath::Rebuilt
        })
        .collect();
    assert_eq!(rebuilt, [true, false, false]);
}

#[test]
fn appended_keys_take_buckets_at_the_end() {
    let mut both = of_some_nodes::<u32>(0.7);
    let last = *both.map.keys().next_back().unwrap();
    let step = (u64::MAX - last) / 4000;
    let mut next = last;
    let mut append = |both: &mut Pair<u64, u32>, count: u32, what: &str| {
        let ops: Vec<_> = (0..count)
            .map(|i| {
                next += step;
                Op::Insert(next, i)
            })
            .collect();
        let at = both.buckets_at();
        let path = both.apply(&ops, what);
        (path, both.buckets_at() != at)
    };
    let moves: Vec<_> = (0..8).map(|batch| append(&mut both, 60 + batch, &format!("batch {batch}"))).collect();
    // The first one that needs buckets gets memory for an eighth more.
    assert!(moves.iter().filter(|(_, moved)| *moved).count() <= 1, "{moves:?}");
    assert!(moves.iter().all(|&(path, _)| path != UpdatePath::Rebuilt), "{moves:?}");
    assert_eq!(append(&mut both, 1500, "many").0, UpdatePath::Moved);
    let stats = both.tree.stats();
    assert!(stats.bucket_bytes > stats.buckets * 64, "{stats:?}");
}

/// Lets a batch that splits nodes fail at every point.
fn takes_place_or_does_not(fill: f64, path: UpdatePath, ops: impl Fn(&Pair<u64, u32>) -> Vec<Op<u64, u32>>) {
    let keys: Vec<u64> = (0..1600).map(|i| i << 30).collect();
    let failed = Failure::at_every_point(
        |device| {
            let both = Pair::new(device, &keys, fill, 16384);
            let ops = ops(&both);
            (both, ops)
        },
        |(both, ops)| both.tree.apply(ops).map(|report| assert_eq!(report.path, path)),
        |(both, ops), error| match both.tree.get_many(&keys) {
            Ok(found) => {
                assert!(found.into_iter().eq(both.map.values().map(|&value| Some(value))), "{error}");
                both.apply(ops, "again");
            }
            Err(lost) => assert!(matches!(lost, Error::Lost { .. }), "{lost}, after {error}"),
        },
    );
    assert!(failed.len() > 40, "{failed:?}");
}

#[test]
fn a_batch_that_empties_a_node_takes_place_or_does_not_whatever_fails() {
    takes_place_or_does_not(0.7, UpdatePath::Moved, |both| both.keys_of(1..2).into_iter().map(Op::Remove).collect());
}

#[test]
fn a_batch_that_moves_buckets_takes_place_or_does_not_whatever_fails() {
    takes_place_or_does_not(0.7, UpdatePath::Moved, |both| between(&both.keys_of(1..2), 2).collect());
}

#[test]
fn a_batch_that_gives_a_node_more_buckets_takes_place_or_does_not_whatever_fails() {
    takes_place_or_does_not(1.0, UpdatePath::InPlace, few_more);
}

/// A full tree, and a batch of inserts that splits all of its nodes.
fn full_tree_and_batch(device: &Device) -> (Pair<u64, u32>, Vec<Op<u64, u32>>) {
    let keys: Vec<u64> = (1..3000).map(|i| (i << 32) | (i * i)).collect();
    let ops = (1..3000).step_by(2).map(|i| Op::Insert(i << 32 | 1 << 31, i as u32)).collect();
    (Pair::new(device, &keys, 1.0, 16384), ops)
}

#[test]
fn batches_that_split_many_nodes_rebuild_the_tree() {
    let device = Device::emulated();
    let (mut both, ops) = full_tree_and_batch(&device);
    assert_eq!(both.apply(&ops, "many"), UpdatePath::Rebuilt);
    assert_eq!(both.tree.options.fill, 1.0);
    // There is room now.
    let few: Vec<_> = (1..3000).step_by(16).map(|i| Op::Insert(i << 32 | 1 << 30, 7)).collect();
    assert_eq!(both.apply(&few, "few"), UpdatePath::InPlace);
    // With other operations, too.
    let (mut both, mut ops) = full_tree_and_batch(&device);
    ops.extend([Op::Remove(1 << 32 | 1), Op::Update(2 << 32 | 4, 9)]);
    assert_eq!(both.apply(&ops, "with a removal"), UpdatePath::Rebuilt);
}

/// A full tree, and a batch on its device that rebuilds it.
type OnDevice = (Pair<u64, u32>, Stream, Buffer<u64>, Buffer<u32>, UpdateScratch<u64>);

fn full_tree_and_buffers(tree_on: &Device, device: &Device) -> OnDevice {
    let (both, ops) = full_tree_and_batch(tree_on);
    let batch = ops.iter().map(|op| if let Op::Insert(key, value) = *op { (key, value) } else { (0, 0) });
    let (keys, values): (Vec<_>, Vec<_>) = batch.unzip();
    let scratch = UpdateScratch::new(device, keys.len()).unwrap();
    (both, device.stream().unwrap(), device.upload(&keys).unwrap(), device.upload(&values).unwrap(), scratch)
}

#[test]
fn a_tree_that_is_rebuilt_stays_in_its_pool() {
    let device = Device::emulated();
    let pool = Pool::new(&device);
    // The stream is of the device itself.
    let (mut both, stream, keys, values, mut scratch) = full_tree_and_buffers(&pool.device(), &device);
    let report = both.tree.apply_on(&stream, Batch::inserts(&keys, &values), &mut scratch).unwrap();
    assert_eq!(report.path, UpdatePath::Rebuilt);
    let in_use = pool.stats().in_use as u64;
    assert!(in_use >= both.tree.stats().bytes(), "the pool has lent {in_use} bytes");
}

#[test]
fn a_tree_that_could_not_be_rebuilt_is_what_it_was() {
    let failed = Failure::at_every_point(
        |device| full_tree_and_buffers(device, device),
        |(both, stream, keys, values, scratch)| {
            both.tree.apply_on(stream, Batch::inserts(keys, values), scratch).map(|report| {
                assert_eq!(report.path, UpdatePath::Rebuilt);
            })
        },
        |(both, ..), error| {
            let keys: Vec<u64> = both.map.keys().copied().collect();
            let found = both.tree.get_many(&keys).unwrap();
            assert!(found.into_iter().eq(both.map.values().map(|&value| Some(value))), "{error}");
            assert_eq!((both.tree.len(), both.tree.options.fill), (keys.len() as u64, 1.0), "{error}");
        },
    );
    assert!(failed.len() > 40, "{failed:?}");
}
