//! Batches of every kind that split and merge nodes; after each, the whole tree is checked.

use crate::node::NodeView;
use crate::tree::Tree;
use crate::{Cubpt, UpdateScratch};
use lanetree_frame::{Device, Error, Op, UpdatePath, apply_to_map};
use lanetree_kernels_cubpt::layout::{Head, INNER, LEAF, NONE};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers without order.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}

fn build<K: Key, V: Word>(device: &Device, order: u32, fill: f64, pairs: &BTreeMap<K, V>) -> Cubpt<K, V> {
    let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
    let tree = Cubpt::builder().order(order).fill(fill).build_sorted(device, &keys, &values).unwrap();
    check(&tree, pairs);
    tree
}

/// Keys, bounds, counts, parents, links, ranks and free numbers.
fn check<K: Key, V: Word>(index: &Cubpt<K, V>, expected: &BTreeMap<K, V>) {
    let tree: &Tree = index.tree.get().unwrap();
    let node = |number: u32| NodeView::new(tree.storage.words(number).unwrap(), tree.storage.node());
    assert_eq!((index.len(), tree.len), (expected.len() as u64, expected.len() as u64));
    // Nodes of a level with their parents, and what bounds their keys.
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
            assert!(count <= index.order() as usize && (count > 0 || above == 0), "{count} keys in {number}");
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
                assert!(children[count..index.order() as usize].iter().all(|&unused| unused == children[count - 1]));
            }
        }
        if above > 0 {
            level = below;
        }
    }
    let leaves: Vec<u32> = level.iter().map(|leaf| leaf.0).collect();
    assert_eq!(tree.order.leaves.as_slice().unwrap(), leaves);
    let mut pairs = expected.iter();
    let mut rank = 0;
    for (i, &number) in leaves.iter().enumerate() {
        let leaf = node(number);
        let beside = |i: Option<usize>| i.and_then(|i| leaves.get(i)).copied().unwrap_or(NONE);
        assert_eq!(leaf.head(Head::Next), beside(Some(i + 1)), "after leaf {i}");
        assert_eq!(tree.order.ranks.as_slice().unwrap()[i], rank);
        assert_eq!(tree.order.positions.as_slice().unwrap()[number as usize], i as u32);
        rank += leaf.count() as u64;
        for slot in 0..leaf.count() {
            let (key, value) = (K::decode(leaf.keys()[slot]), leaf.ptrs::<V>()[slot]);
            assert_eq!(pairs.next(), Some((&key, &value)), "slot {slot} of leaf {i}");
        }
    }
    assert!(pairs.next().is_none());
    let free: Vec<u32> = tree.free.as_slice().unwrap()[..tree.free_count as usize].to_vec();
    assert!(free.iter().all(|number| seen.insert(*number)), "a number is free twice, or in the tree");
    assert_eq!((seen.len() as u64, seen.last().map(|&last| u64::from(last))), (tree.end, tree.end.checked_sub(1)));
    assert!(tree.end <= tree.storage.room());
}

fn apply<K: Key, V: Word>(tree: &mut Cubpt<K, V>, map: &mut BTreeMap<K, V>, ops: &[Op<K, V>]) -> UpdatePath {
    let expected = apply_to_map(map, ops);
    let report = tree.apply(ops).unwrap();
    assert_eq!(
        (report.inserted, report.replaced, report.removed, report.unmatched),
        (expected.inserted, expected.replaced, expected.removed, expected.unmatched)
    );
    check(tree, map);
    report.path
}

fn key_of<K: Key>(word: u64) -> K {
    K::decode(K::Bits::truncate(word))
}

/// Rounds of inserts and removals that grow the tree by some levels, and shrink it to nothing.
fn grows_and_shrinks<K: Key, V: Word>(device: &Device, order: u32, fill: f64, start: usize, batch: usize) {
    let mut state = fill.to_bits() ^ start as u64 ^ u64::from(order);
    let key = |state: &mut u64| key_of::<K>(random(state) % 100_000 * 4000);
    let mut map = (0..start).map(|i| (key(&mut state), V::truncate(i as u64))).collect();
    let mut tree = build(device, order, fill, &map);
    let mut heights = BTreeSet::from([tree.tree.known().height]);
    for round in 0..20_u64 {
        let size = batch << (round % 4);
        let mut ops: Vec<Op<K, V>> = Vec::new();
        for i in 0..size {
            let (random_key, value) = (key(&mut state), V::truncate(round << 16 | i as u64));
            let present = map.range(random_key..).next().map_or(random_key, |pair| *pair.0);
            ops.push(match (random(&mut state) % 8, round < 10) {
                (0, _) => Op::Update(present, value),
                (1, _) => Op::Update(random_key, value),
                (2, true) | (2..=6, false) => Op::Remove(present),
                (7, false) => Op::Remove(random_key),
                _ => Op::Insert(random_key, value),
            });
        }
        apply(&mut tree, &mut map, &ops);
        heights.insert(tree.tree.known().height);
    }
    // All but a few, then these.
    let keys: Vec<K> = map.keys().copied().collect();
    let (few, most): (Vec<_>, Vec<_>) = keys.iter().partition(|_| random(&mut state).is_multiple_of(200));
    apply(&mut tree, &mut map, &most.into_iter().map(Op::Remove).collect::<Vec<_>>());
    apply(&mut tree, &mut map, &few.into_iter().map(Op::Remove).collect::<Vec<_>>());
    heights.insert(tree.tree.known().height);
    assert!(tree.is_empty() && heights.len() > 1, "{heights:?}");
    apply(&mut tree, &mut map, &[Op::Insert(key_of(7), V::MAX)]);
}

#[test]
fn random_batches_split_and_merge() {
    let device = Device::emulated();
    grows_and_shrinks::<u64, u64>(&device, 8, 1.0, 3000, 40);
    grows_and_shrinks::<i32, u64>(&device, 8, 0.5, 20, 60);
    grows_and_shrinks::<u32, u32>(&device, 24, 0.7, 1000, 80);
    grows_and_shrinks::<u64, u32>(&Device::host(), 16, 1.0, 1000, 80);
}

#[test]
fn skewed_ascending_and_clustered_batches_split_and_merge() {
    let (device, mut map) = (Device::emulated(), BTreeMap::new());
    let mut tree = build::<u64, u64>(&device, 8, 1.0, &map);
    // Appended, in batches of every size: several levels at once.
    for size in [1_u64, 8, 9, 70, 3000] {
        let first = map.len() as u64;
        let ops: Vec<_> = (first..first + size).map(|key| Op::Insert(key << 20, key)).collect();
        assert_eq!(apply(&mut tree, &mut map, &ops), UpdatePath::Moved);
    }
    // All into one leaf, and away again.
    let within: Vec<u64> = (1..2000).map(|i| (500 << 20) + i).collect();
    apply(&mut tree, &mut map, &within.iter().map(|&key| Op::Insert(key, 1)).collect::<Vec<_>>());
    apply(&mut tree, &mut map, &within.iter().map(|&key| Op::Remove(key)).collect::<Vec<_>>());
    // Whole nodes in the middle, at the front and at the end.
    let keys: Vec<u64> = map.keys().copied().collect();
    for range in [1000..2500, 0..1000, 2500..keys.len() - 1] {
        apply(&mut tree, &mut map, &keys[range].iter().map(|&key| Op::Remove(key)).collect::<Vec<_>>());
    }
    // What is too small is merged before the next batch, or when the caller wants it.
    let device = tree.tree.known().storage.device();
    let mut scratch = UpdateScratch::new(&device, 0).unwrap();
    tree.merge_small(&device.stream().unwrap(), &mut scratch).unwrap();
    check(&tree, &map);
    assert_eq!(tree.tree.known().height, 0);
    // Prepended, and numbers that are used again.
    let end = tree.tree.known().end;
    let first = map.first_key_value().map_or(0, |pair| *pair.0);
    apply(&mut tree, &mut map, &(1..=1500).map(|i| Op::Insert(first - i * 64, i)).collect::<Vec<_>>());
    assert_eq!(tree.tree.known().end, end, "there were free numbers");
}

#[test]
fn the_smallest_and_the_largest_word_are_keys() {
    for device in [Device::host(), Device::emulated()] {
        for size in [1_u64, 7, 8, 9, 64, 65] {
            let mut map: BTreeMap<u64, u32> = (0..size).map(|i| (u64::MAX - 3 * i, i as u32)).collect();
            let mut tree = build(&device, 8, 1.0, &map);
            apply(&mut tree, &mut map, &[Op::Remove(u64::MAX), Op::Insert(0, 5)]);
            assert_eq!(tree.get_many(&[0, u64::MAX]).unwrap(), [Some(5), None]);
            apply(&mut tree, &mut map, &[Op::Insert(u64::MAX - 1, 1), Op::Insert(u64::MAX, 2), Op::Remove(0)]);
            assert_eq!(tree.predecessor_many(&[u64::MAX]).unwrap(), [Some((u64::MAX, 2))]);
            assert_eq!(tree.upper_bound_many(&[u64::MAX]).unwrap(), [map.len() as u64]);
        }
    }
}

#[test]
fn a_batch_that_only_replaces_values_moves_nothing() {
    let mut map: BTreeMap<u64, u64> = (0..500).map(|i| (i * 3, i)).collect();
    let mut tree = build(&Device::emulated(), 16, 0.5, &map);
    let ops: Vec<_> = (0..900).map(|i| Op::Update(i, i + 1)).collect();
    assert_eq!(apply(&mut tree, &mut map, &ops), UpdatePath::InPlace);
    assert_eq!(apply(&mut tree, &mut map, &[Op::Update(1, 1), Op::Remove(2)]), UpdatePath::Unchanged);
}

/// Work on a tree that fails at every point in turn: afterwards it has the same pairs, or says that it is lost.
fn fails(
    map: &BTreeMap<u64, u64>,
    set_up: impl Fn(&Device) -> Cubpt<u64, u64>,
    work: impl Fn(&mut Cubpt<u64, u64>) -> Result<(), Error>,
) {
    let failed = Failure::at_every_point(set_up, work, |tree, error| match error {
        Error::Lost { .. } => assert!(matches!(tree.get_many(&[1]), Err(Error::Lost { .. }))),
        _ => check(tree, map),
    });
    assert!(failed.iter().any(|(_, error)| matches!(error, Error::Lost { .. })));
    assert!(failed.iter().any(|(_, error)| !matches!(error, Error::Lost { .. })));
}

#[test]
fn a_batch_that_fails_leaves_the_tree_as_it_was_or_says_that_it_is_lost() {
    let map: BTreeMap<u64, u64> = (0..70).map(|i| (i * 2, i)).collect();
    let ops: Vec<Op<u64, u64>> = (0..140).map(|i| if i % 3 == 0 { Op::Remove(i) } else { Op::Insert(i, i) }).collect();
    fails(&map, |device| build(device, 8, 0.7, &map), |tree| tree.apply(&ops).map(drop));
}

#[test]
fn a_merge_that_fails_leaves_the_tree_as_it_was_or_says_that_it_is_lost() {
    let all: BTreeMap<u64, u64> = (0..140).map(|i| (i, i)).collect();
    let map: BTreeMap<u64, u64> =
        all.iter().filter(|pair| pair.0 % 12 == 0 || *pair.0 < 50).map(|(&k, &v)| (k, v)).collect();
    let gone: Vec<u64> = all.keys().copied().filter(|key| !map.contains_key(key)).collect();
    fails(
        &map,
        |device| {
            let mut tree = build(device, 8, 0.7, &all);
            tree.remove_many(&gone).unwrap();
            check(&tree, &map);
            tree
        },
        // The next batch merges first, and then changes nothing.
        |tree| tree.remove_many(&[1000]).map(drop),
    );
}

#[test]
fn nodes_move_to_larger_segments_when_the_list_is_full() {
    let mut map: BTreeMap<u64, u64> = BTreeMap::from([(0, 0)]);
    let mut tree = build(&Device::emulated(), 8, 1.0, &map);
    // 64 segments of 64 nodes are full with 3500 leaves or so.
    for part in 0..3_u64 {
        apply(&mut tree, &mut map, &(0..16_000).map(|i| Op::Insert(i * 3 + part, i)).collect::<Vec<_>>());
    }
}

#[test]
fn options_that_no_tree_has_are_refused() {
    for order in [0, 4, 7, 12, 520] {
        let error = Cubpt::<u64, u64>::builder().order(order).build(&Device::host(), &[1], &[1]).unwrap_err();
        let expected = format!("an order of {order} is not possible: choose a multiple of 8 from 8 to 512");
        assert_eq!(error.to_string(), expected);
    }
    for fill in [0.0, -1.0, 1.1, f64::NAN] {
        let error = Cubpt::<u64, u64>::builder().fill(fill).build(&Device::host(), &[1], &[1]).unwrap_err();
        assert!(matches!(error, Error::Fill { .. }), "{error}");
    }
}
