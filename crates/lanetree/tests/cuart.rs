//! CuART answers any batch as std's `BTreeMap` does, whatever the strings; and a tree built straight from
//! sorted keys equals one that was mapped, node by node, from an adaptive radix tree.

use core::ops::{Bound, RangeBounds};
use lanetree::cuart::{LongKeys, RootTable};
use lanetree::{ByteKeysBuf, ByteRange, Cuart, Device, Word};
use lanetree_baselines::art::{Art, CuartBuffers, LongLeaves};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

type Model<V> = BTreeMap<Vec<u8>, V>;

/// Few different bytes, runs, lengths on both sides of every leaf's: strings that share long beginnings, are
/// prefixes of each other, or differ in the last byte.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop_oneof![6 => select(vec![0, b'a', b'b', 255]), 1 => any::<u8>()];
    let run = (byte(), select(vec![0_usize, 1, 7, 8, 9, 12, 13, 16, 17, 31, 32, 33, 60]));
    (run, prop::collection::vec(byte(), 0..4)).prop_map(|((byte, len), end)| [vec![byte; len], end].concat())
}

fn options() -> impl Strategy<Value = (RootTable, LongKeys)> {
    // A table of three bytes is 128 MiB: seldom.
    let table = prop_oneof![
        4 => Just(RootTable::None),
        4 => Just(RootTable::TwoBytes),
        1 => Just(RootTable::ThreeBytes),
        1 => Just(RootTable::Auto),
    ];
    (table, select(vec![LongKeys::DeviceLeaves, LongKeys::HostLeaves]))
}

fn build<V: Word>(pairs: &[(Vec<u8>, V)], (table, long_keys): (RootTable, LongKeys)) -> Cuart<V> {
    let keys: ByteKeysBuf = pairs.iter().map(|(key, _)| key).collect();
    let values: Vec<V> = pairs.iter().map(|&(_, value)| value).collect();
    Cuart::builder().root_table(table).long_keys(long_keys).build(&Device::host(), &keys, &values).unwrap()
}

fn bounds<'a>(bounds: &(Bound<&'a Vec<u8>>, Bound<&'a Vec<u8>>)) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (bounds.0.map(Vec::as_slice), bounds.1.map(Vec::as_slice))
}

/// Asks a tree everything about some keys.
fn check<V: Word>(tree: &Cuart<V>, model: &Model<V>, queries: &[Vec<u8>]) {
    let batch: ByteKeysBuf = queries.iter().collect();
    let pair = |pair: Option<(&Vec<u8>, &V)>| pair.map(|(key, &value)| (key.clone(), value));
    let each = |answer: &dyn Fn(&Vec<u8>) -> u64| queries.iter().map(answer).collect::<Vec<_>>();
    assert_eq!(tree.len(), model.len() as u64);

    let expected: Vec<_> = queries.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(tree.get_many(&batch).unwrap(), expected);
    for (key, expected) in queries.iter().zip(expected) {
        assert_eq!(tree.explain(key).unwrap().value, expected, "explained");
    }
    let below = |key: &Vec<u8>| model.range(..key.clone()).count() as u64;
    let not_above = |key: &Vec<u8>| model.range(..=key.clone()).count() as u64;
    assert_eq!(tree.lower_bound_many(&batch).unwrap(), each(&below));
    assert_eq!(tree.upper_bound_many(&batch).unwrap(), each(&not_above));
    let expected: Vec<_> = queries.iter().map(|key| pair(model.range(..=key.clone()).next_back())).collect();
    assert_eq!(tree.predecessor_many(&batch).unwrap(), expected);
    let expected: Vec<_> = queries.iter().map(|key| pair(model.range(key.clone()..).next())).collect();
    assert_eq!(tree.successor_many(&batch).unwrap(), expected);

    // Prefixes: the queries, and what they begin with.
    let prefixes: Vec<&[u8]> = queries.iter().flat_map(|key| [&key[..], &key[..key.len() / 2]]).collect();
    let hits = tree.prefix_many(&prefixes.iter().collect::<ByteKeysBuf>()).unwrap();
    assert_eq!(hits.len(), prefixes.len());
    for (prefix, (keys, values)) in prefixes.iter().zip(hits.iter()) {
        let expected = model.iter().filter(|(key, _)| key.starts_with(prefix));
        assert!(keys.iter().zip(values).eq(expected.map(|(key, value)| (&key[..], value))), "prefix {prefix:?}");
    }

    let ranges = queries.iter().zip(queries.iter().skip(1)).enumerate().map(|(i, (a, b))| {
        let bound = |kind, key| match kind {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        (bound(i % 3, a.min(b)), bound(i / 3 % 3, a.max(b)))
    });
    let ranges: Vec<_> = ranges.collect();
    let hits = tree.range_many(ranges.iter().map(|range| ByteRange::from(bounds(range)).limit(50))).unwrap();
    let counts = tree.count_range_many(ranges.iter().map(bounds)).unwrap();
    for ((range, count), (keys, values)) in ranges.iter().zip(counts).zip(hits.iter()) {
        let inside = |key: &&Vec<u8>| range.contains(*key);
        assert_eq!(model.keys().filter(inside).count() as u64, count);
        let expected = model.iter().filter(|(key, _)| inside(key)).take(50);
        assert!(keys.iter().zip(values).eq(expected.map(|(key, value)| (&key[..], value))), "range {range:?}");
    }
}

/// Both ways to a tree end in the same buffers.
fn equals_mapped(tree: &Cuart<u64>, art: &Art, long_keys: LongKeys) {
    let long = if long_keys == LongKeys::HostLeaves { LongLeaves::Host } else { LongLeaves::Device };
    let mapped = CuartBuffers::map(art, long, tree.stats().table_key_bytes);
    // Not compared by `assert_eq`, which would print them.
    assert!(tree.regions().unwrap() == mapped.regions(), "{} keys", tree.len());
}

fn art(pairs: &[(Vec<u8>, u64)]) -> Art {
    Art::new(pairs.iter().map(|(key, value)| (key, *value)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_answers_as_a_map(
        pairs in prop::collection::vec((key(), any::<u64>()), 0..250),
        others in prop::collection::vec(key(), 0..25),
        options in options(),
    ) {
        let model: Model<u64> = pairs.iter().cloned().collect();
        let queries: Vec<_> = pairs.iter().map(|(key, _)| key.clone()).take(25).chain(others).collect();
        let tree = build(&pairs, options);
        check(&tree, &model, &queries);
        equals_mapped(&tree, &art(&pairs), options.1);
    }

    #[test]
    fn narrow_values_are_cut(pairs in prop::collection::vec((key(), any::<u32>()), 0..50), options in options()) {
        let model: Model<u32> = pairs.iter().cloned().collect();
        let queries: Vec<_> = pairs.iter().map(|(key, _)| key.clone()).collect();
        check(&build(&pairs, options), &model, &queries);
    }
}

/// Sets of strings that have broken radix trees.
fn adversarial() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let text: Vec<u8> = (0..3000_u32).map(|i| ((i * i) >> 3) as u8).collect();
    let runs = |byte: u8| (0..300).flat_map(move |len| [vec![byte; len], [vec![byte; len], vec![!byte]].concat()]);
    vec![
        ("none", vec![]),
        ("one", vec![b"one".to_vec()]),
        ("the empty one", vec![vec![]]),
        ("one long", vec![vec![9; 5000]]),
        ("prefixes of one string", (0..text.len()).map(|len| text[..len].to_vec()).collect()),
        (
            "every other prefix, from the end",
            (0..text.len()).rev().step_by(2).map(|len| text[..len].to_vec()).collect(),
        ),
        ("runs of zeros", runs(0).collect()),
        ("runs of the largest byte", runs(255).collect()),
        ("last byte", (0..=255).map(|byte| [vec![1; 40], vec![byte]].concat()).collect()),
        ("last byte after 4095 and more", {
            let long = |len: usize| (0..3).map(move |byte| [vec![1; len], vec![byte]].concat());
            (4090..4100).flat_map(long).collect()
        }),
        ("few differ early, after long paths", {
            (0..60_u8).map(|byte| [vec![5; 7000], vec![byte / 20], vec![6; 20], vec![byte]].concat()).collect()
        }),
    ]
}

#[test]
fn adversarial_strings() {
    for (what, keys) in adversarial() {
        let pairs: Vec<(Vec<u8>, u64)> = keys.iter().cloned().zip(0..).collect();
        let model: Model<u64> = pairs.iter().cloned().collect();
        let step = keys.len() / 40 + 1;
        let mut queries: Vec<Vec<u8>> = keys.iter().step_by(step).cloned().collect();
        for key in keys.iter().step_by(step * 4 + 1) {
            let mut other = key.clone();
            if let Some(last) = other.last_mut() {
                *last = last.wrapping_add(1);
            }
            queries.push([&key[..], &[0]].concat());
            queries.push(other);
        }
        queries.extend([vec![], vec![0], vec![255; 50]]);
        println!("{what}");
        let art = art(&pairs);
        for table in [RootTable::None, RootTable::TwoBytes] {
            for long_keys in [LongKeys::DeviceLeaves, LongKeys::HostLeaves] {
                let tree = build(&pairs, (table, long_keys));
                check(&tree, &model, &queries);
                equals_mapped(&tree, &art, long_keys);
            }
        }
    }
}

#[test]
fn a_hundred_thousand_keys_under_one_node() {
    // Behind a common beginning an N256, and under each of its children as many keys.
    let pairs: Vec<(Vec<u8>, u64)> = (0..100_000_u32)
        .map(|i| {
            ([b"beginning".as_slice(), &[(i % 256) as u8], &(i / 256 * 7919).to_le_bytes()].concat(), u64::from(i))
        })
        .collect();
    // Each twice, and others.
    let mut queries: ByteKeysBuf = pairs.iter().chain(&pairs).map(|(key, _)| key).collect();
    queries.extend([&b""[..], b"b", b"beginning", b"beginning\0\0\0\0\0\0"]);
    let mut expected: Vec<_> = pairs.iter().chain(&pairs).map(|&(_, value)| Some(value)).collect();
    expected.extend([None; 4]);
    let art = art(&pairs);
    for options in [(RootTable::None, LongKeys::DeviceLeaves), (RootTable::ThreeBytes, LongKeys::Refuse)] {
        let tree = build(&pairs, options);
        assert_eq!(tree.get_many(&queries).unwrap(), expected);
        assert!(tree.stats().nodes[3] >= 1);
        let counts =
            tree.prefix_count_many(&(0..=255_u8).map(|i| [b"beginning", &[i][..]].concat()).collect::<ByteKeysBuf>());
        assert_eq!(counts.unwrap().iter().sum::<u64>(), 100_000);
        equals_mapped(&tree, &art, options.1);
    }
}

#[test]
fn numbers_of_any_kind_are_found_and_in_order() {
    fn check<K: lanetree::FixedKey + core::fmt::Debug>(mut keys: Vec<K>) {
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        let encoded = ByteKeysBuf::encode(&keys);
        let tree = Cuart::build(&Device::host(), &encoded, &values).unwrap();
        assert!(tree.get_many(&encoded).unwrap().into_iter().eq(values.into_iter().map(Some)));
        let all = tree.range_many([..]).unwrap();
        keys.sort_unstable();
        assert_eq!(all.get(0).0.decode::<K>().unwrap(), keys);
        assert_eq!(tree.stats().order_bytes, 0, "keys of one length of up to 32 need no order");
    }
    let words = (0..5000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    check::<u64>(words.clone().collect());
    check::<i64>(words.clone().map(|word| word as i64).collect());
    check::<u32>((0..5000).map(|i: u32| i.wrapping_mul(0x9e37_79b9)).collect());
    check::<i32>((0..5000).map(|i: i32| i.wrapping_mul(0x1e37_79b9)).collect());
    check::<u128>(words.clone().map(|word| u128::from(word) << 31 | 5).collect());
    check::<[u8; 32]>(words.map(|word| [word.to_le_bytes(); 4].concat().try_into().unwrap()).collect());
}

#[test]
fn a_tree_of_tasks_equals_a_mapped_one() {
    // Enough keys for nodes above tasks, of several lengths and some long; more than one task of leaves.
    let pairs: Vec<(Vec<u8>, u64)> = (0..60_000_u64)
        .map(|i| {
            let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut key = word.to_be_bytes().repeat(1 + (word % 5) as usize);
            key.truncate(3 + (word >> 8) as usize % 40);
            (key, i)
        })
        .collect();
    let art = art(&pairs);
    for table in [RootTable::None, RootTable::TwoBytes, RootTable::ThreeBytes] {
        for long_keys in [LongKeys::DeviceLeaves, LongKeys::HostLeaves] {
            equals_mapped(&build(&pairs, (table, long_keys)), &art, long_keys);
        }
    }
    let model: Model<u64> = pairs.iter().cloned().collect();
    let queries: Vec<_> = pairs.iter().step_by(9000).map(|(key, _)| key.clone()).collect();
    check(&build(&pairs, (RootTable::ThreeBytes, LongKeys::HostLeaves)), &model, &queries);
    let tree = build(&pairs, (RootTable::Auto, LongKeys::DeviceLeaves));
    assert_eq!(tree.stats().table_key_bytes, 2, "40000 beginnings of two bytes are worth a table");
}
