//! Batches through the device's kernels, on the emulator, against std's `BTreeMap`.

use super::super::model::key;
use super::super::{Op, UpdatePath, UpdateReport};
use super::UpdateScratch;
use crate::BuildScratch;
use crate::Harmonia;
use lanetree_frame::{Batch, Device, Error, Key, KeyWord, OpKind, Word, apply_to_map};
use lanetree_kernels_harmonia::layout::FANOUTS;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

fn agrees<K: Key, V: Word>(tree: &Harmonia<K, V>, model: &BTreeMap<K, V>, touched: &[K]) {
    tree.check_structure();
    assert_eq!(tree.len(), model.len() as u64);
    let pairs: Vec<(K, V)> = tree.iter().collect::<lanetree_frame::Result<_>>().unwrap();
    assert!(pairs.iter().copied().eq(model.iter().map(|(&key, &value)| (key, value))), "pairs of {tree:?}");
    let mut queries: Vec<K> = touched.iter().copied().take(60).collect();
    queries.extend([K::MIN, K::MAX]);
    let expected: Vec<Option<V>> = queries.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(tree.get_many(&queries).unwrap(), expected);
    let ranks: Vec<u64> = queries.iter().map(|key| model.range(..key).count() as u64).collect();
    assert_eq!(tree.lower_bound_many(&queries).unwrap(), ranks);
    let before: Vec<Option<(K, V)>> =
        queries.iter().map(|key| model.range(..=key).next_back().map(|(&key, &value)| (key, value))).collect();
    assert_eq!(tree.predecessor_many(&queries).unwrap(), before);
    let after: Vec<Option<(K, V)>> =
        queries.iter().map(|key| model.range(key..).next().map(|(&key, &value)| (key, value))).collect();
    assert_eq!(tree.successor_many(&queries).unwrap(), after);
    let found = tree.range_many([(queries[0]..=K::MAX)]).unwrap();
    let expected: (Vec<K>, Vec<V>) = model.range(queries[0]..).map(|(&key, &value)| (key, value)).unzip();
    assert_eq!(found.get(0), (&expected.0[..], &expected.1[..]));
}

/// The keys of one batch.
fn words(rng: &mut StdRng, pattern: usize, size: usize) -> Vec<u64> {
    let first = rng.random_range(0..4000_u64);
    match pattern {
        0 | 1 => (0..size).map(|_| rng.random_range(0..4000)).collect(),
        2 => (0..size).map(|_| rng.random()).collect(),
        3 => (first..first + size as u64).collect(),
        4 => (0..size).map(|_| first + rng.random_range(0..12)).collect(),
        5 => vec![first; size],
        6 => vec![0, u64::MAX, 1, u64::MAX - 1, 1 << 31, 1 << 63, (1 << 31) - 1, u64::from(u32::MAX)],
        _ => Vec::new(),
    }
}

/// A tree that goes through batches of every pattern and mix; the paths that they took.
fn follows_the_model<K: Key, V: Word>(fanout: u32, fill: f64, seed: u64) -> Vec<UpdatePath> {
    let device = Device::emulated_with_seed(seed);
    let mut rng = StdRng::seed_from_u64(seed ^ u64::from(fanout));
    let mut model: BTreeMap<K, V> =
        (0..rng.random_range(0..1500_u64)).map(|i| (key(rng.random_range(0..4000)), V::truncate(i))).collect();
    let (keys, values): (Vec<K>, Vec<V>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
    let mut tree = Harmonia::builder().fanout(fanout).fill(fill).build(&device, &keys, &values).unwrap();
    let stream = device.stream().unwrap();
    let mut scratch = UpdateScratch::new(&device, 400).unwrap();
    let mut paths = Vec::new();
    for batch in 0..9 {
        let size = [3, 40, 200][rng.random_range(0..3)];
        let mix = rng.random_range(0..5);
        let words = words(&mut rng, (batch + seed as usize) % 8, size);
        let mut ops: Vec<Op<K, V>> = words
            .iter()
            .map(|&word| {
                let value = V::truncate(rng.random());
                match (mix, rng.random_range(0..3)) {
                    (0, _) | (1, 0) => Op::Insert(key(word), value),
                    (2, _) | (1, 1) => Op::Remove(key(word)),
                    (3, 0 | 1) => Op::Insert(key(word), value),
                    _ => Op::Update(key(word), value),
                }
            })
            .collect();
        if batch == 7 {
            ops = model.keys().take(400).map(|&key| Op::Remove(key)).collect();
        }
        let expected = apply_to_map(&mut model, &ops);
        let touched: Vec<K> = ops.iter().map(|op| *op.key()).collect();
        let report = if batch % 2 == 0 {
            tree.apply(&ops).unwrap()
        } else {
            let values: Vec<V> = ops
                .iter()
                .map(|op| match *op {
                    Op::Insert(_, value) | Op::Update(_, value) => value,
                    Op::Remove(_) => V::MAX,
                })
                .collect();
            let kinds: Vec<OpKind> = ops.iter().map(Op::kind).collect();
            let (keys, values) = (device.upload(&touched).unwrap(), device.upload(&values).unwrap());
            let kinds = device.upload(&kinds).unwrap();
            tree.apply_on(&stream, Batch::of_kinds(&keys, &values, &kinds), &mut scratch).unwrap()
        };
        assert_eq!(UpdateReport { path: UpdatePath::Unchanged, ..report }, expected, "batch {batch} of seed {seed}");
        paths.push(report.path);
        agrees(&tree, &model, &touched);
    }
    paths
}

#[test]
fn batches_on_the_device_follow_the_model() {
    let mut paths = Vec::new();
    let mut seed = 1;
    for fanout in FANOUTS {
        for fill in [1.0, 0.6] {
            paths.extend(follows_the_model::<u64, u64>(fanout, fill, seed));
            paths.extend(follows_the_model::<i32, u32>(fanout, fill, seed + 1));
            seed += 2;
        }
        paths.extend(follows_the_model::<u32, u64>(fanout, 0.6, seed));
        paths.extend(follows_the_model::<i64, u32>(fanout, 0.6, seed + 1));
        seed += 2;
    }
    for path in [UpdatePath::Unchanged, UpdatePath::InPlace, UpdatePath::Rebuilt] {
        assert!(paths.contains(&path), "no batch took the path {path:?}");
    }
}

/// A tree that goes through batches whose keys few of their bits do not tell apart, all in one scratch memory.
fn follows_the_model_in_any_order<K: Key, V: Word>(fanout: u32) {
    let device = Device::emulated_with_seed(fanout.into());
    let stream = device.stream().unwrap();
    let mut rng = StdRng::seed_from_u64(fanout.into());
    let width = K::Bits::BITS;
    let mut model: BTreeMap<K, V> =
        (0..2000_u64).map(|i| (key(rng.random::<u64>() >> (i % 2 * 40)), V::truncate(i))).collect();
    let (keys, values): (Vec<K>, Vec<V>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
    let mut tree = Harmonia::builder().fanout(fanout).fill(0.6).build(&device, &keys, &values).unwrap();
    let mut scratch = UpdateScratch::new(&device, 2500).unwrap();
    let mut sorted_by = BTreeSet::new();
    for batch in 0..10 {
        let first = rng.random::<u64>();
        let words: Vec<u64> = match batch {
            // One key, thousands of times.
            0 | 7 => vec![first; 2500],
            // Low bits, and a few outliers at the top.
            1 | 2 | 5 => (0..2000_u64)
                .map(|i| if i % 500 == 7 { i << (width - 11) } else { rng.random_range(0..1 << 12) })
                .collect(),
            // As they like to be.
            3 | 8 => (0..2500).map(|_| rng.random()).collect(),
            4 => (0..1500).rev().map(|i| first.wrapping_add(i)).collect(),
            6 => [0, u64::MAX].into_iter().cycle().take(1000).chain(0..30).collect(),
            _ => vec![first, first ^ 1],
        };
        let kinds: Vec<u32> = words.iter().map(|_| if batch == 3 { 0 } else { rng.random_range(0..3) }).collect();
        let keys: Vec<K> = words.into_iter().map(key).collect();
        let values: Vec<V> = keys.iter().map(|_| V::truncate(rng.random())).collect();
        let op = |i: usize| match kinds[i] {
            0 => Op::Insert(keys[i], values[i]),
            1 => Op::Update(keys[i], values[i]),
            _ => Op::Remove(keys[i]),
        };
        let expected = apply_to_map(&mut model, &(0..keys.len()).map(op).collect::<Vec<_>>());
        let buffers = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let kinds =
            (batch != 3).then(|| device.upload(&kinds.iter().copied().map(OpKind::from).collect::<Vec<_>>()).unwrap());
        sorted_by.insert(scratch.sort.bits(keys.len()).len());
        let report = tree
            .apply_on(&stream, Batch { kinds: kinds.as_ref(), ..Batch::inserts(&buffers.0, &buffers.1) }, &mut scratch)
            .unwrap();
        assert_eq!(UpdateReport { path: UpdatePath::Unchanged, ..report }, expected, "batch {batch} of {}", K::NAME);
        agrees(&tree, &model, &keys);
    }
    assert!(sorted_by.len() > 1, "{sorted_by:?} bits of {}", K::NAME);
}

#[test]
fn batches_that_few_bits_do_not_sort_follow_the_model() {
    follows_the_model_in_any_order::<u64, u64>(8);
    follows_the_model_in_any_order::<i64, u32>(16);
    follows_the_model_in_any_order::<u32, u32>(8);
    follows_the_model_in_any_order::<i32, u64>(64);
}

/// Hot keys are no reason to build the tree again.
#[test]
fn a_key_that_is_written_a_thousand_times_is_replaced_in_place() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    for fanout in FANOUTS {
        let keys: Vec<u64> = (0..3000).map(|i| i * 7).collect();
        let mut tree = Harmonia::builder().fanout(fanout).build(&device, &keys, &keys).unwrap();
        let batch: Vec<u64> = (0..1500).map(|i| if i % 3 == 0 { 7 * i } else { 2100 }).collect();
        let values: Vec<u64> = (0..1500).map(|i| i + 90_000).collect();
        let buffers = (device.upload(&batch).unwrap(), device.upload(&values).unwrap());
        let mut scratch = UpdateScratch::new(&device, 1500).unwrap();
        let report = tree.apply_on(&stream, Batch::inserts(&buffers.0, &buffers.1), &mut scratch).unwrap();
        assert_eq!((report.replaced, report.path), (500, UpdatePath::InPlace), "fanout {fanout}");
        assert_eq!(tree.get_many(&[2100, 0, 7, 10_479]).unwrap(), [Some(91_499), Some(90_000), Some(7), Some(91_497)]);
        tree.check_structure();
    }
}

#[test]
fn kinds_that_are_none_are_counted_and_nothing_changes() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut tree = Harmonia::build(&device, &[1_u64, 2, 3], &[1_u64, 2, 3]).unwrap();
    let mut scratch = UpdateScratch::new(&device, 4).unwrap();
    let keys = device.upload(&[9_u64, 1, 8, 2]).unwrap();
    for (kinds, expected) in [
        (
            [0, 4, 2, 3],
            "unknown operation kinds: 2, the first of them kinds[1] = 4; use 0 to insert, 1 to update, 2 to remove",
        ),
        (
            [u32::MAX, 0, 1, 2],
            "unknown operation kinds: 1, the first of them kinds[0] = 4294967295; use 0 to insert, 1 to update, 2 to remove",
        ),
    ] {
        let kinds = device.upload(&kinds.map(OpKind::from)).unwrap();
        let error = tree.apply_on(&stream, Batch::of_kinds(&keys, &keys, &kinds), &mut scratch).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(tree.get_many(&[1, 2, 3, 8, 9]).unwrap(), [Some(1), Some(2), Some(3), None, None]);
    }
    let kinds = device.upload(&[0, 1, 0, 2].map(OpKind::from)).unwrap();
    let report = tree.apply_on(&stream, Batch::of_kinds(&keys, &keys, &kinds), &mut scratch).unwrap();
    assert_eq!((report.inserted, report.replaced, report.removed), (2, 1, 1));
}

#[test]
fn a_batch_that_empties_the_tree_and_one_that_fills_it_again() {
    let device = Device::emulated();
    let mut tree = Harmonia::build(&device, &[5_u64, 0, u64::MAX], &[1_u32, 2, 3]).unwrap();
    assert_eq!(tree.remove_many(&[0, 5, u64::MAX, 7]).unwrap().path, UpdatePath::Rebuilt);
    assert!(tree.is_empty());
    assert_eq!(tree.get_many(&[0, 5]).unwrap(), [None, None]);
    assert_eq!(tree.remove_many(&[1]).unwrap(), UpdateReport { unmatched: 1, ..UpdateReport::default() });
    let report = tree.insert_many(&[9, 9, 0, u64::MAX], &[1, 2, 3, 4]).unwrap();
    assert_eq!((report.inserted, report.path), (3, UpdatePath::Rebuilt));
    assert_eq!(tree.get_many(&[0, 9, u64::MAX]).unwrap(), [Some(3), Some(2), Some(4)]);
    tree.check_structure();
}

#[test]
fn memory_stays_bounded_over_many_batches() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let keys: Vec<u32> = (0..200).map(|i| i * 50).collect();
    let mut tree = Harmonia::builder().fill(0.7).build(&device, &keys, &keys).unwrap();
    let mut scratch = UpdateScratch::new(&device, 8).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let mut most = 0;
    for batch in 0..400 {
        let (keys, kinds): (Vec<u32>, Vec<OpKind>) =
            (0..8).map(|_| (rng.random_range(0..400_u32) * 25, OpKind::from(2 * rng.random_range(0..2_u32)))).unzip();
        let (keys, kinds) = (device.upload(&keys).unwrap(), device.upload(&kinds).unwrap());
        tree.apply_on(&stream, Batch::of_kinds(&keys, &keys, &kinds), &mut scratch).unwrap();
        let bytes = tree.stats().bytes() + scratch.bytes() as u64;
        if batch == 150 {
            most = bytes;
        }
        assert!(batch <= 150 || bytes <= most * 5 / 4, "batch {batch}: {bytes} bytes, and {most} after 150");
    }
    tree.check_structure();
}

#[test]
fn wrong_buffers_are_refused_and_nothing_changes() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut tree = Harmonia::build(&device, &[1_u64, 2], &[1_u64, 2]).unwrap();
    let mut scratch = UpdateScratch::new(&device, 2).unwrap();
    let (three, two) = (device.upload(&[1_u64, 3, 4]).unwrap(), device.upload(&[1_u64, 2]).unwrap());
    let error = tree.apply_on(&stream, Batch::inserts(&three, &two), &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "the values' buffer holds 2 elements, but 3 are needed; allocate at least 3");
    let error = tree.apply_on(&stream, Batch::inserts(&three, &three), &mut scratch).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the scratch memory of updates holds 2 elements, but 3 are needed; allocate at least 3"
    );
    let foreign = Device::emulated().upload(&[9_u64]).unwrap();
    assert!(matches!(tree.apply_on(&stream, Batch::inserts(&foreign, &two), &mut scratch), Err(Error::Runtime(_))));
    let kinds = device.upload(&[OpKind::INSERT]).unwrap();
    let error = tree.apply_on(&stream, Batch::of_kinds(&two, &two, &kinds), &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "the kinds' buffer holds 1 element, but 2 are needed; allocate at least 2");
    assert_eq!(tree.get_many(&[1, 2, 3]).unwrap(), [Some(1), Some(2), None]);
    tree.whole.change(|()| -> lanetree_frame::Result<()> { Err(Error::Lost { reason: "a test".into() }) }).unwrap_err();
    for error in [tree.get_many(&[1]).unwrap_err(), tree.insert_many(&[1], &[1]).unwrap_err()] {
        assert!(matches!(error, Error::Lost { .. }), "{error}");
    }
    assert!(matches!(tree.iter().next(), Some(Err(Error::Lost { .. }))));
}

/// Builds on the device what the host's build gives.
fn builds_alike<K: Key, V: Word>(fanout: u32, fill: f64, words: &[u64]) {
    for device in [Device::host(), Device::emulated_with_seed(fanout.into())] {
        let stream = device.stream().unwrap();
        let builder = Harmonia::<K, V>::builder().fanout(fanout).fill(fill);
        let mut keys: Vec<K> = words.iter().map(|&word| key(word)).collect();
        let values: Vec<V> = (0..words.len() as u64).map(V::truncate).collect();
        let mut scratch = BuildScratch::for_unsorted(&device, keys.len()).unwrap();
        for sorted in [false, true] {
            if sorted {
                keys.sort();
            }
            let expected = builder.build(&Device::host(), &keys, &values).unwrap();
            let buffers = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let tree = if sorted {
                builder.build_sorted_on(&stream, &buffers.0, &buffers.1, keys.len(), &mut scratch).unwrap()
            } else {
                builder.build_on(&stream, &buffers.0, &buffers.1, keys.len(), &mut scratch).unwrap()
            };
            tree.check_structure();
            assert_eq!(tree.shape, expected.shape);
            assert_eq!(tree.inner.to_vec().unwrap(), expected.inner.to_vec().unwrap());
            assert_eq!(tree.prefix_sum.to_vec().unwrap(), expected.prefix_sum.to_vec().unwrap());
            assert_eq!(tree.leaves.to_vec().unwrap(), expected.leaves.to_vec().unwrap());
        }
    }
}

#[test]
fn a_build_on_the_device_gives_the_host_builds_tree() {
    let mut rng = StdRng::seed_from_u64(3);
    for (i, fanout) in FANOUTS.into_iter().enumerate() {
        for len in [0, 1, 8, 9, 700] {
            let distinct: Vec<u64> = (0..len).map(|_| rng.random()).collect();
            let few: Vec<u64> = (0..len).map(|_| rng.random_range(0..100)).collect();
            let fill = [1.0, 0.6, 0.01][(i + len) % 3];
            builds_alike::<u64, u64>(fanout, fill, &distinct);
            builds_alike::<i32, u32>(fanout, fill, &few);
        }
    }
}

#[test]
fn keys_out_of_order_are_named() {
    for device in [Device::host(), Device::emulated()] {
        let stream = device.stream().unwrap();
        let keys = device.upload(&[-5_i64, 3, 2, 9, 1]).unwrap();
        let values = device.upload(&[0_u32; 5]).unwrap();
        let mut scratch = BuildScratch::for_sorted(&device).unwrap();
        let error = Harmonia::builder().build_sorted_on(&stream, &keys, &values, 5, &mut scratch).unwrap_err();
        assert!(error.to_string().starts_with("keys[2] = 2 is below keys[1] = 3"), "{error}");
    }
}
