//! Batches at every size that splits and merges; after each, the whole tree is checked.

use super::nodes::fanout;
use super::{BigLeaves, Regular};
use crate::HbTree;
use crate::line::slots;
use crate::options::{Pipeline, UpdateMethod};
use crate::request::Request;
use lanetree_frame::{Device, Error, Op, UpdatePath, apply_to_map};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::Failure;
use std::collections::{BTreeMap, BTreeSet};

type Tree<K, V> = HbTree<K, V, Regular>;

const METHODS: [UpdateMethod; 5] = [
    UpdateMethod::Auto,
    UpdateMethod::Asynchronous,
    UpdateMethod::Synchronized,
    UpdateMethod::Queue,
    UpdateMethod::Whole,
];

/// Numbers without order.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}

fn build<K: Key, V: Word>(device: &Device, pairs: &BTreeMap<K, V>, fill: f64) -> Tree<K, V> {
    let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
    let tree = HbTree::builder().regular().fill(fill).build_sorted(device, &keys, &values).unwrap();
    check(&tree, pairs);
    tree
}

/// The structure, and all pairs.
fn check<K: Key, V: Word>(tree: &Tree<K, V>, expected: &BTreeMap<K, V>) {
    tree.check_structure();
    assert_eq!(tree.len(), expected.len() as u64);
    assert!(tree.pairs().unwrap().into_iter().eq(expected.iter().map(|(&key, &value)| (key, value))), "pairs");
}

/// Applies a batch to both, and compares.
fn apply<K: Key, V: Word>(tree: &mut Tree<K, V>, map: &mut BTreeMap<K, V>, ops: &[Op<K, V>]) -> UpdatePath {
    let expected = apply_to_map(map, ops);
    let report = tree.apply(ops).unwrap();
    assert_eq!(
        (report.inserted, report.replaced, report.removed, report.unmatched),
        (expected.inserted, expected.replaced, expected.removed, expected.unmatched)
    );
    check(tree, map);
    report.path
}

/// Queries at keys and between them, against the map.
fn query<K: Key, V: Word>(tree: &Tree<K, V>, map: &BTreeMap<K, V>, keys: &[K]) {
    let gets: Vec<_> = keys.iter().map(|key| map.get(key).copied()).collect();
    assert_eq!(tree.get_many(keys).unwrap(), gets);
    let all: Vec<(K, V)> = map.iter().map(|(&key, &value)| (key, value)).collect();
    let below = |key: &K| all.partition_point(|pair| pair.0 < *key);
    assert_eq!(tree.lower_bound_many(keys).unwrap(), keys.iter().map(|key| below(key) as u64).collect::<Vec<_>>());
    let successors: Vec<_> = keys.iter().map(|key| all.get(below(key)).copied()).collect();
    assert_eq!(tree.successor_many(keys).unwrap(), successors);
    let at_or_below = |key: &K| all.partition_point(|pair| pair.0 <= *key).checked_sub(1).map(|at| all[at]);
    assert_eq!(tree.predecessor_many(keys).unwrap(), keys.iter().map(at_or_below).collect::<Vec<_>>());
    let ranges: Vec<_> = keys.windows(2).map(|pair| pair[0].min(pair[1])..=pair[0].max(pair[1])).collect();
    let found = tree.range_many(ranges.iter().cloned()).unwrap();
    for (i, range) in ranges.iter().enumerate() {
        let (expected_keys, expected_values): (Vec<K>, Vec<V>) =
            map.range(range.clone()).map(|(&k, &v)| (k, v)).unzip();
        assert_eq!(found.get(i), (&expected_keys[..], &expected_values[..]));
    }
}

fn key_of<K: Key>(word: u64) -> K {
    K::decode(K::Bits::truncate(word))
}

/// Rounds of inserts and removals that grow the tree by some levels, and shrink it to nothing.
fn grows_and_shrinks<K: Key, V: Word>(device: &Device, fill: f64, start: usize, batch: usize) {
    let mut state = fill.to_bits() ^ start as u64;
    let key = |state: &mut u64| key_of::<K>(random(state) % 1_000_000 * 4000);
    let first = (0..start).map(|i| (key(&mut state), V::truncate(i as u64))).collect();
    let (mut map, mut heights): (BTreeMap<K, V>, BTreeSet<u32>) = (first, BTreeSet::new());
    let mut tree = build(device, &map, fill);
    for round in 0..24_u64 {
        tree.set_update_method(METHODS[round as usize % METHODS.len()]);
        tree.set_device_updates(round % 2 == 1);
        let size = batch << (round % 4);
        let mut ops: Vec<Op<K, V>> = Vec::new();
        for i in 0..size {
            let (random_key, value) = (key(&mut state), V::truncate(round << 16 | i as u64));
            let present = map.range(random_key..).next().map_or(random_key, |pair| *pair.0);
            ops.push(match (random(&mut state) % 8, round < 12) {
                (0, _) => Op::Update(present, value),
                (1, _) => Op::Update(random_key, value),
                (2, true) | (2..=6, false) => Op::Remove(present),
                (7, false) => Op::Remove(random_key),
                _ => Op::Insert(random_key, value),
            });
        }
        apply(&mut tree, &mut map, &ops);
        heights.insert(tree.stats().height);
        if round % 6 == 5 {
            let keys: Vec<K> = (0..40).map(|_| key(&mut state)).chain([key_of(0), key_of(u64::MAX)]).collect();
            query(&tree, &map, &keys);
        }
    }
    // All but a few, then these.
    let keys: Vec<K> = map.keys().copied().collect();
    let (few, most): (Vec<_>, Vec<_>) = keys.iter().partition(|_| random(&mut state).is_multiple_of(500));
    apply(&mut tree, &mut map, &most.into_iter().map(Op::Remove).collect::<Vec<_>>());
    apply(&mut tree, &mut map, &few.into_iter().map(Op::Remove).collect::<Vec<_>>());
    heights.insert(tree.stats().height);
    assert_eq!((tree.len(), tree.stats().height), (0, 1));
    assert!(heights.len() > 1, "{heights:?}");
    apply(&mut tree, &mut map, &[Op::Insert(key_of(7), V::MAX)]);
    query(&tree, &map, &[key_of(6), key_of(7), key_of(8)]);
}

#[test]
fn random_batches_split_and_merge() {
    let (host, emulated) = (Device::host(), Device::emulated());
    grows_and_shrinks::<u64, u64>(&host, 1.0, 40_000, 500);
    grows_and_shrinks::<u64, u64>(&host, 0.01, 3000, 300);
    grows_and_shrinks::<i32, u64>(&host, 0.5, 30_000, 500);
    grows_and_shrinks::<u32, u32>(&host, 0.002, 3000, 300);
    grows_and_shrinks::<u64, u32>(&host, 0.02, 1000, 300);
    grows_and_shrinks::<u64, u64>(&emulated, 0.01, 2000, 50);
    grows_and_shrinks::<i64, u64>(&emulated, 0.7, 20_000, 50);
    grows_and_shrinks::<u32, u32>(&emulated, 0.002, 2000, 50);
}

#[test]
fn sorted_and_clustered_batches_split_and_merge() {
    let (mut tree, mut map) = (build(&Device::host(), &BTreeMap::new(), 1.0), BTreeMap::new());
    // Appended, in batches of every size: up to a new level above a level.
    for size in [1_u64, 255, 256, 257, 5000, 30_000, 30_000] {
        let first = map.len() as u64;
        let ops: Vec<_> = (first..first + size).map(|key| Op::Insert(key << 20, key)).collect();
        apply(&mut tree, &mut map, &ops);
    }
    assert_eq!(tree.stats().height, 3);
    // All into one big leaf, and away again.
    let within: Vec<u64> = (1..20_000).map(|i| (500 << 20) + i).collect();
    let path = apply(&mut tree, &mut map, &within.iter().map(|&key| Op::Insert(key, 1)).collect::<Vec<_>>());
    assert_eq!(path, UpdatePath::Moved);
    apply(&mut tree, &mut map, &within.iter().map(|&key| Op::Remove(key)).collect::<Vec<_>>());
    // Whole nodes in the middle, at the front and at the end.
    let keys: Vec<u64> = map.keys().copied().collect();
    for range in [20_000..45_000, 0..20_000, 45_000..keys.len() - 1] {
        apply(&mut tree, &mut map, &keys[range].iter().map(|&key| Op::Remove(key)).collect::<Vec<_>>());
    }
    assert_eq!(tree.stats().height, 1);
    // Prepended.
    for size in [1000_u64, 20_000] {
        let first = map.first_key_value().map_or(0, |pair| *pair.0);
        apply(&mut tree, &mut map, &(1..=size).map(|i| Op::Insert(first - i * 64, i)).collect::<Vec<_>>());
    }
    let all: Vec<_> = map.keys().map(|&key| Op::Remove(key)).collect();
    apply(&mut tree, &mut map, &all);
    apply(&mut tree, &mut map, &[Op::Insert(3, 4)]);
}

fn ends<K: Key, V: Word>(device: &Device) {
    let max = key_of::<K>(u64::MAX);
    let keys = [key_of(0), key_of(1), key_of(u64::MAX - 1), max];
    for present in 0..16 {
        let pairs = (0..4).filter(|i| present >> i & 1 == 1).map(|i| (keys[i], V::truncate(i as u64)));
        let mut map: BTreeMap<K, V> = pairs.collect();
        let mut tree = build(device, &map, 1.0);
        query(&tree, &map, &keys);
        for i in 0..4 {
            apply(&mut tree, &mut map, &[Op::Update(keys[i], V::truncate(9)), Op::Remove(keys[3 - i])]);
            query(&tree, &map, &keys);
            apply(&mut tree, &mut map, &[Op::Insert(keys[i], V::truncate(7))]);
            query(&tree, &map, &keys);
        }
    }
    // A full line, a full big leaf and a full node that end with the largest key.
    let capacity = BigLeaves::<K::Bits, V>::CAPACITY as u64;
    let per_line = slots::<K::Bits, V>() as u64;
    for size in [per_line - 1, per_line, capacity - 1, capacity, capacity + 1, capacity * fanout::<K::Bits>() as u64] {
        let mut map: BTreeMap<K, V> = (0..size).map(|i| (key_of(u64::MAX - 3 * i), V::truncate(i))).collect();
        let mut tree = build(device, &map, 1.0);
        let near: Vec<K> = (0..50).map(|i| key_of(u64::MAX - i)).collect();
        query(&tree, &map, &near);
        apply(&mut tree, &mut map, &[Op::Remove(max)]);
        query(&tree, &map, &near);
        apply(&mut tree, &mut map, &[Op::Insert(key_of(u64::MAX - 1), V::MIN), Op::Insert(max, V::MAX)]);
        query(&tree, &map, &near);
    }
}

#[test]
fn the_smallest_and_the_largest_word_are_keys() {
    ends::<u64, u64>(&Device::host());
    ends::<u32, u64>(&Device::host());
    ends::<i32, u32>(&Device::host());
    ends::<u64, u32>(&Device::emulated());
}

#[test]
fn a_batch_that_only_replaces_values_moves_nothing() {
    let mut map: BTreeMap<u64, u64> = (0..5000).map(|i| (i * 3, i)).collect();
    let mut tree = build(&Device::emulated(), &map, 0.5);
    let ops: Vec<_> = (0..9000).map(|i| Op::Update(i, i + 1)).collect();
    assert_eq!(apply(&mut tree, &mut map, &ops), UpdatePath::InPlace);
    assert_eq!(apply(&mut tree, &mut map, &[Op::Update(1, 1), Op::Remove(2)]), UpdatePath::Unchanged);
    assert_eq!(apply(&mut tree, &mut map, &[Op::Insert(1, 1)]), UpdatePath::InPlace);
}

#[test]
fn every_split_of_the_descent_finds_the_same() {
    let map: BTreeMap<u64, u64> = (0..4000).map(|i| (i * 3, i)).collect();
    let mut tree = build(&Device::emulated(), &map, 0.01);
    assert!(tree.stats().height > 4);
    let keys: Vec<u64> = (0..300).map(|i| i * 41).collect();
    for depth in 0..tree.stats().height + 2 {
        for share in [0.0, 0.4, 1.0] {
            for search in [crate::DeviceSearch::Ballot, crate::DeviceSearch::Shared] {
                let mut pipeline = Pipeline { bucket: 77, device_search: search, ..Pipeline::default() };
                (pipeline.split.depth, pipeline.split.share) = (depth, share);
                tree.set_pipeline(pipeline).unwrap();
                query(&tree, &map, &keys);
            }
        }
    }
}

#[test]
fn a_batch_that_fails_leaves_the_tree_as_it_was() {
    // In place; splits with new room on both sides; merges, and everything away.
    type Ops = Vec<Op<u64, u64>>;
    let few: Ops = (0..30).map(|i| Op::Insert(i * 100 + 1, i)).collect();
    let many: Ops = (0..2000).map(|i| Op::Insert(i * 2 + 1, i)).collect();
    let away: Ops = (0..1300).map(|i| Op::Remove(i * 2)).collect();
    let map: BTreeMap<u64, u64> = (0..1500).map(|i| (i * 2, i)).collect();
    let batches = [(&few, 0.5), (&many, 1.0), (&away, 0.02), (&many, 0.02), (&few, 0.02)];
    let ways = [(UpdateMethod::Asynchronous, false), (UpdateMethod::Synchronized, true), (UpdateMethod::Queue, false)];
    // A transfer for each node is many points to fail at.
    let is_tried = |ops: &Ops, method| method != UpdateMethod::Queue || ops.len() < 100;
    for ((ops, fill), (method, on_device)) in batches.into_iter().flat_map(|batch| ways.map(|way| (batch, way))) {
        if !is_tried(ops, method) {
            continue;
        }
        let failed = Failure::at_every_point(
            |device| {
                let mut tree = build(device, &map, fill);
                tree.set_update_method(method);
                tree.set_device_updates(on_device);
                tree
            },
            |tree| tree.apply(ops).map(|report| assert!(report.path != UpdatePath::Unchanged)),
            |tree, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                check(tree, &map);
                query(tree, &map, &[0, 1, 2, 2500, 3000]);
                // The next change sends everything again.
                let mut map = map.clone();
                apply(tree, &mut map, &[Op::Update(4, 5)]);
                assert!(tree.parts.copy.is_some());
                apply(tree, &mut map, ops);
                query(tree, &map, &[0, 1, 2, 2500, 3000]);
            },
        );
        assert!(!failed.is_empty(), "{} operations at a fill of {fill}, {method:?}", ops.len());
    }
}

#[test]
fn a_batch_whose_nodes_cannot_all_be_sent_has_taken_place_on_the_host() {
    let map: BTreeMap<u64, u64> = (0..1500).map(|i| (i * 2, i)).collect();
    for fill in [0.02, 0.5, 1.0] {
        let (device, mut map) = (Device::emulated(), map.clone());
        let mut tree = build(&device, &map, fill);
        tree.set_update_method(UpdateMethod::Whole);
        device.inject(Some(Failure::Transfer(0)));
        let more: Vec<_> = (0..2000).map(|i| Op::Insert(i * 2 + 1, i)).collect();
        apply(&mut tree, &mut map, &more);
        assert!(matches!(tree.stats().on_device, Some(Err(why)) if !why.is_empty()), "{fill}");
        device.inject(None);
        query(&tree, &map, &[0, 1, 2, 2500, 3000]);
        apply(&mut tree, &mut map, &[Op::Update(4, 5)]);
        assert_eq!(tree.stats().on_device, Some(Ok(())));
        query(&tree, &map, &[0, 1, 2, 2500, 3000]);
    }
}

#[test]
fn groups_of_requests_are_sent_as_a_whole_once() {
    use crate::Request;
    let map: BTreeMap<u64, u64> = (0..30_000).map(|i| (i * 7, i)).collect();
    let requests: Vec<Request<u64, u64>> = (0..40_000)
        .map(|i| match i % 3 {
            0 => Request::Get(i * 7),
            1 => Request::Remove(i * 7 % 210_000),
            _ => Request::Insert(i * 5, i),
        })
        .collect();
    let mut trees = [UpdateMethod::Auto, UpdateMethod::Whole, UpdateMethod::Queue].map(|method| {
        let mut tree = build(&Device::emulated(), &map, 0.05);
        tree.set_update_method(method);
        let found = tree.mixed(&requests).unwrap().found;
        (tree, found)
    });
    let expected = trees[0].0.pairs().unwrap();
    let found = trees[0].1.clone();
    for (tree, own) in &mut trees {
        assert_eq!((tree.pairs().unwrap(), &*own), (expected.clone(), &found));
        check(tree, &expected.iter().copied().collect());
        assert!(tree.parts.copy.is_some());
    }
}

#[test]
fn a_tree_whose_device_is_gone_takes_changes_and_has_it_back_when_it_works_again() {
    let map: BTreeMap<u64, u64> = (0..1500).map(|i| (i * 2, i)).collect();
    for fill in [0.5, 1.0] {
        let (device, mut map) = (Device::emulated(), map.clone());
        let mut tree = build(&device, &map, fill);
        assert_eq!(tree.stats().on_device, Some(Ok(())));
        device.inject(Some(Failure::Kernel(0)));
        let more: Vec<_> = (0..2000).map(|i| Op::Insert(i * 2 + 1, i)).collect();
        // The first batch finds out, and another one may not reach a kernel.
        assert!((0..2).any(|_| tree.apply(&more).is_err()), "{fill}");
        for round in 0..3 {
            let ops: Vec<_> = (0..2000).map(|i| Op::Insert(i * 3 + round, i + round)).collect();
            apply(&mut tree, &mut map, &ops);
            query(&tree, &map, &[0, 1, 2, 2500, 3000]);
            assert!(matches!(tree.stats().on_device, Some(Err(why)) if !why.is_empty()));
        }
        device.inject(None);
        apply(&mut tree, &mut map, &[Op::Update(4, 5)]);
        assert!(tree.parts.copy.is_some());
        assert_eq!(tree.stats().on_device, Some(Ok(())));
        query(&tree, &map, &[0, 1, 2, 2500, 3000]);
    }
}

/// Both arrays need not be pinned at a time: see `leaves::grow`.
#[test]
fn leaves_that_cannot_be_pinned_fail_a_batch_only_where_that_is_required() {
    use crate::Pinning;
    let map: BTreeMap<u64, u64> = (0..1500).map(|i| (i * 2, i)).collect();
    let more: Vec<_> = (0..2000).map(|i| Op::Insert(i * 2 + 1, i)).collect();
    let refusals = [Pinning::IfPossible, Pinning::Required].map(|pinning| {
        let mut refusals = 0;
        for allocation in 0.. {
            let (device, mut map) = (Device::emulated(), map.clone());
            let (keys, values): (Vec<u64>, Vec<u64>) = map.clone().into_iter().unzip();
            let builder = HbTree::<u64, u64>::builder().regular().pinning(pinning);
            let mut tree = builder.build_sorted(&device, &keys, &values).unwrap();
            assert_eq!(tree.stats().pinned, Some(Ok(())));
            device.inject(Some(Failure::Allocation(allocation)));
            let result = tree.apply(&more);
            if device.inject(None).is_some() {
                assert!(allocation > 0, "nothing was allocated");
                break;
            }
            match result {
                Err(Error::Runtime(lanetree_runtime::Error::CannotPin { .. })) => refusals += 1,
                Err(error) => assert!(matches!(error, Error::Runtime(_)), "{error}"),
                Ok(_) => map.extend((0..2000).map(|i| (i * 2 + 1, i))),
            }
            assert_eq!(tree.stats().pinned, Some(Ok(())));
            query(&tree, &map, &[0, 1, 2, 2500, 3000]);
        }
        refusals
    });
    assert_eq!(refusals, [0, 1]);
}

#[test]
fn every_method_has_the_same_effect() {
    let map: BTreeMap<u64, u64> = (0..30_000).map(|i| (i * 7, i)).collect();
    // In some thousand big leaves: more than a piece of the queue.
    let mut trees = METHODS.map(|method| {
        let mut tree = build(&Device::emulated(), &map, 0.05);
        tree.set_update_method(method);
        tree.set_device_updates(method == UpdateMethod::Synchronized);
        tree
    });
    let mut state = 5;
    for round in 0..4_u64 {
        let size = [3000, 20_000][round as usize % 2];
        let ops: Vec<_> = (0..size)
            .map(|i| match random(&mut state) % 300_000 {
                key if key % 5 < round => Op::Remove(key),
                key => Op::Insert(key, i),
            })
            .collect();
        let mut maps = METHODS.map(|_| trees[0].pairs().unwrap().into_iter().collect());
        for (tree, map) in trees.iter_mut().zip(&mut maps) {
            apply(tree, map, &ops);
        }
        assert!(maps.iter().all(|map| *map == maps[0]));
    }
}

#[test]
fn a_fill_outside_its_bounds_is_refused() {
    for fill in [0.0, -1.0, 1.1, f64::NAN] {
        let error = HbTree::<u64, u64>::builder().regular().fill(fill).build(&Device::host(), &[1], &[1]).unwrap_err();
        assert!(matches!(error, Error::Fill { .. }), "{error}");
    }
}

/// A request after another, in a map.
fn play(map: &mut BTreeMap<u64, u64>, requests: &[Request<u64, u64>]) -> Vec<Option<u64>> {
    let mut found = Vec::new();
    for request in requests {
        match *request {
            Request::Get(key) => found.push(map.get(&key).copied()),
            Request::Insert(key, value) => drop(map.insert(key, value)),
            Request::Update(key, value) => drop(map.get_mut(&key).map(|old| *old = value)),
            Request::Remove(key) => drop(map.remove(&key)),
        }
    }
    found
}

/// Requests of few keys, so that a group has many of each; `updates` of a hundred change something.
fn requests(count: u64, keys: u64, updates: u64, state: &mut u64) -> Vec<Request<u64, u64>> {
    let request = |i| {
        let (key, kind) = (random(state) % keys, random(state) % 300);
        match (random(state) % 100 < updates, kind % 3) {
            (false, _) => Request::Get(key),
            (true, 0) => Request::Insert(key, i),
            (true, 1) => Request::Update(key, i),
            (true, _) => Request::Remove(key),
        }
    };
    (0..count).map(request).collect()
}

#[test]
fn a_stream_has_the_effect_of_one_request_after_another() {
    let mut state = 3;
    for device in [Device::host(), Device::emulated()] {
        let mut map: BTreeMap<u64, u64> = (0..4000).map(|i| (i * 3, i)).collect();
        let mut tree = build(&device, &map, 0.3);
        assert_eq!(tree.mixed(&[]).unwrap().done, 0);
        for (count, keys, updates) in [(1, 9, 0), (1, 9, 100), (500, 12_000, 0), (3000, 40, 50), (40_000, 12_000, 30)] {
            let stream = requests(count, keys, updates, &mut state);
            let (found, before) = (play(&mut map, &stream), tree.len());
            let mixed = tree.mixed(&stream).unwrap();
            assert!(mixed.found == found && mixed.done == stream.len(), "{count} requests of {keys} keys");
            assert_eq!(before + mixed.report.inserted - mixed.report.removed, tree.len());
            check(&tree, &map);
        }
        // All away, and more than there were.
        let away: Vec<_> = (0..12_000).map(Request::Remove).collect();
        let more: Vec<_> = (0..50_000).map(|key| Request::Insert(key, key)).collect();
        for stream in [away, more] {
            play(&mut map, &stream);
            tree.mixed(&stream).unwrap();
            check(&tree, &map);
        }
    }
}

#[test]
fn a_stream_that_fails_says_what_was_done() {
    let map: BTreeMap<u64, u64> = (0..3000).map(|i| (i * 3, i)).collect();
    // Three groups.
    let stream = requests(40_000, 9000, 20, &mut 8);
    let mut seen = BTreeSet::new();
    let seen_done = std::sync::Mutex::new(&mut seen);
    Failure::at_every_point(
        |device| build(device, &map, 0.5),
        |tree| tree.mixed(&stream).map(drop),
        |tree, interrupted| {
            let done = interrupted.before.done;
            let mut map = map.clone();
            assert_eq!(interrupted.before.found, play(&mut map, &stream[..done]));
            check(tree, &map);
            seen_done.lock().unwrap().insert(done);
            // The rest can be done later.
            let found = play(&mut map, &stream[done..]);
            assert_eq!(tree.mixed(&stream[done..]).unwrap().found, found);
            check(tree, &map);
        },
    );
    assert_eq!(seen, BTreeSet::from([0, 1 << 14, 2 << 14]));
}
