//! Batches of every kind that split and merge nodes; after each, the whole tree is checked.

use crate::{Cubpt, Mapping, UpdateScratch};
use lanetree_frame::{Device, DeviceKind, Error, Op, UpdatePath, apply_to_map};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers without order.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}

fn build<K: Key, V: Word>(device: &Device, order: u32, fill: f64, pairs: &BTreeMap<K, V>) -> Cubpt<K, V> {
    build_by(Mapping::default(), device, order, fill, pairs)
}

fn build_by<K: Key, V: Word>(
    mapping: Mapping,
    device: &Device,
    order: u32,
    fill: f64,
    pairs: &BTreeMap<K, V>,
) -> Cubpt<K, V> {
    let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
    let tree = Cubpt::builder().fanout(order).fill(fill).mapping(mapping).build_sorted(device, &keys, &values).unwrap();
    check(&tree, pairs);
    tree
}

/// Whether the tree keeps its rules, and has these pairs.
fn check<K: Key, V: Word>(index: &Cubpt<K, V>, expected: &BTreeMap<K, V>) {
    assert_eq!(index.len(), expected.len() as u64);
    assert!(index.check_structure().into_iter().eq(expected.iter().map(|(&key, &value)| (key, value))));
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
    // Every other tree is the paper's.
    let mapping = if start.is_multiple_of(40) { Mapping::PerKey } else { Mapping::PerNode };
    let mut tree = build_by(mapping, device, order, fill, &map);
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
fn trees_by_either_mapping_are_alike() {
    for order in [8, 24, 512] {
        let map: BTreeMap<u64, u64> = (0..3000).map(|i| (i * 100, i)).collect();
        let mut trees = [Mapping::PerNode, Mapping::PerKey]
            .map(|mapping| (build_by(mapping, &Device::emulated(), order, 1.0, &map), map.clone()));
        let ops: Vec<_> =
            (0..1500).map(|i| if i % 5 == 0 { Op::Remove(i * 200) } else { Op::Insert(i * 7 + 1, i) }).collect();
        for (tree, map) in &mut trees {
            apply(tree, map, &ops);
        }
        let [levels, others] = trees.map(|(tree, _)| tree.tree.known().levels.clone());
        assert_eq!(levels, others, "order {order}");
    }
}

#[test]
fn random_batches_split_and_merge() {
    let device = Device::emulated();
    grows_and_shrinks::<u64, u64>(&device, 16, 1.0, 400, 40);
    grows_and_shrinks::<u64, u64>(&device, 8, 1.0, 3000, 40);
    grows_and_shrinks::<i32, u64>(&device, 8, 0.5, 20, 60);
    grows_and_shrinks::<u32, u32>(&device, 24, 0.7, 1000, 80);
    let host = Device::host();
    grows_and_shrinks::<u64, u32>(&host, 16, 1.0, 1000, 80);
    grows_and_shrinks::<u64, u64>(&host, 8, 1.0, 3000, 40);
    grows_and_shrinks::<i32, u64>(&host, 8, 0.5, 20, 60);
    grows_and_shrinks::<u32, u32>(&host, 24, 0.7, 20_000, 400);
    grows_and_shrinks::<u64, u64>(&host, 512, 1.0, 20_000, 400);
}

#[test]
fn skewed_ascending_and_clustered_batches_split_and_merge() {
    [Device::emulated(), Device::host()].iter().for_each(skewed_ascending_and_clustered);
}

fn skewed_ascending_and_clustered(device: &Device) {
    let is_host = device.kind() == DeviceKind::Host;
    let mut map = BTreeMap::new();
    let mut tree = build::<u64, u64>(device, 8, 1.0, &map);
    // Appended, in batches of every size: several levels at once.
    for size in [1_u64, 8, 9, 70, 3000, 4, 1, 1000] {
        let first = map.len() as u64;
        let ops: Vec<_> = (first..first + size).map(|key| Op::Insert(key << 20, key)).collect();
        let path = match is_host {
            // It is rebuilt by more than it has.
            true if size >= first => UpdatePath::Rebuilt,
            true if size == 1 => UpdatePath::InPlace,
            _ => UpdatePath::Moved,
        };
        assert_eq!(apply(&mut tree, &mut map, &ops), path, "{size} after {first}");
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
    if is_host {
        return;
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
fn whole_nodes_are_removed_and_keys_inserted_where_they_were() {
    for (device, seed) in
        (0..24_u64).map(|seed| ([Device::emulated(), Device::host()][seed as usize % 2].clone(), seed / 2))
    {
        let mut state = seed;
        let mut map: BTreeMap<u64, u32> = (0..433).map(|i| (i * 10, 0)).collect();
        let mut tree = build(&device, 8, [0.8, 0.5, 1.0][seed as usize % 3], &map);
        for _ in 0..40 {
            let (first, len) = (random(&mut state) % 433, random(&mut state) % 60 + 1);
            // Merges come before the batch after the one that has removed.
            let hole: Vec<_> = (first..first + len).map(|i| Op::Remove(i * 10)).collect();
            apply(&mut tree, &mut map, &hole);
            let near: Vec<_> = (0..random(&mut state) % 3 + 1)
                .map(|_| Op::Insert((first + random(&mut state) % len) * 10 + random(&mut state) % 10, 1))
                .collect();
            apply(&mut tree, &mut map, &near);
            if map.len() < 150 {
                apply(&mut tree, &mut map, &(0..433).map(|i| Op::Insert(i * 10, 2)).collect::<Vec<_>>());
            }
        }
    }
}

/// Leaves without pairs stay until the next batch.
#[test]
fn neighbours_and_ranges_pass_leaves_without_pairs() {
    for device in [Device::emulated(), Device::host()] {
        let map: BTreeMap<u64, u32> = (0..3000_u32).map(|i| (u64::from(i) * 10, i)).collect();
        // A hole in the middle, then one at an end, too.
        for holes in [&[(500, 2500_u64)][..], &[(0, 700), (1200, 1300), (2000, 3000)], &[(0, 3000)]] {
            let mut tree = build(&device, 8, 0.8, &map);
            let removed: Vec<Op<u64, u32>> =
                holes.iter().flat_map(|&(first, end)| first..end).map(|i| Op::Remove(i * 10)).collect();
            tree.apply(&removed).unwrap();
            let mut left = map.clone();
            left.retain(|&key, _| !removed.iter().any(|op| *op.key() == key));
            let queries: Vec<u64> = (0..30_100).step_by(37).collect();
            let before = queries.iter().map(|&key| left.range(..=key).next_back().map(|(&key, &value)| (key, value)));
            assert!(tree.predecessor_many(&queries).unwrap().into_iter().eq(before));
            let after = queries.iter().map(|&key| left.range(key..).next().map(|(&key, &value)| (key, value)));
            assert!(tree.successor_many(&queries).unwrap().into_iter().eq(after));
            let found = tree.range_many(queries.iter().map(|&key| key..key + 9000)).unwrap();
            for (i, &key) in queries.iter().enumerate() {
                let pairs = found.get(i).0.iter().zip(found.get(i).1);
                assert!(pairs.eq(left.range(key..key + 9000)), "from {key} on, on {device}");
            }
            assert!(tree.pairs().unwrap().into_iter().eq(left));
        }
    }
}

#[test]
fn a_key_beyond_the_last_separator_of_a_node_is_found_after_the_node_has_merged() {
    let mut map: BTreeMap<u64, u32> = (0..433).map(|i| (i * 10, 0)).collect();
    let mut tree = build(&Device::emulated(), 8, 0.8, &map);
    let removed = |keys: std::ops::RangeInclusive<u64>| keys.filter(|&i| i != 251).map(|i| Op::Remove(i * 10));
    apply(&mut tree, &mut map, &removed(228..=317).collect::<Vec<_>>());
    apply(&mut tree, &mut map, &[Op::Insert(3035, 0)]);
    apply(&mut tree, &mut map, &removed(216..=221).collect::<Vec<_>>());
    apply(&mut tree, &mut map, &[Op::Insert(4255, 0)]);
    assert_eq!(tree.get_many(&[3035]).unwrap(), [Some(0)]);
    assert_eq!(tree.predecessor_many(&[2515]).unwrap(), [Some((2510, 0))]);
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
        let error = Cubpt::<u64, u64>::builder().fanout(order).build(&Device::host(), &[1], &[1]).unwrap_err();
        let expected = format!("a fanout of {order} is not possible: choose a multiple of 8 from 8 to 512");
        assert_eq!(error.to_string(), expected);
    }
    for fill in [0.0, -1.0, 1.1, f64::NAN] {
        let error = Cubpt::<u64, u64>::builder().fill(fill).build(&Device::host(), &[1], &[1]).unwrap_err();
        assert!(matches!(error, Error::Fill { .. }), "{error}");
    }
}
