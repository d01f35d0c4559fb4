//! Batches that are answered in pieces have the results of those that are not.

use super::distributions;
use crate::{LaneSet, LaneTree};
use lanetree_frame::fixed::{AsOf, FixedIndex, OnStream, PieceScratch};
use lanetree_frame::{BatchOrder, Buffer, Device, Error, Stream};
use lanetree_layout::{AnyKey, KeyWord, Value};

/// Values and hits, ranks, predecessors and nearest pairs.
type Results<K, V> = (Vec<V>, Vec<u32>, Vec<u64>, Vec<Option<(K, V)>>, Vec<Option<(K, V)>>);

/// What a tree answers, with scratch memory for pieces or without.
fn results<K: AnyKey, V: Value>(
    tree: &LaneTree<K, V>,
    stream: &Stream,
    queries: &Buffer<K>,
    scratch: Option<&PieceScratch<K>>,
) -> Results<K, V> {
    let (device, count) = (queries.device(), queries.len());
    let (mut values, mut hits) = (device.alloc(count).unwrap(), device.alloc(count.div_ceil(32)).unwrap());
    let on = OnStream::new(tree, stream).in_pieces(scratch);
    on.hits(&mut hits).get(queries, &mut values).unwrap();
    let mut ranks = device.alloc(count).unwrap();
    let on = OnStream::new(tree, stream).in_pieces(scratch);
    on.upper_bound(queries, &mut ranks).unwrap();
    let pairs = |keys: &Buffer<K>, values: &Buffer<V>, hits: &Buffer<u32>| {
        let (keys, values, hits) = (keys.to_vec().unwrap(), values.to_vec().unwrap(), hits.to_vec().unwrap());
        let found = |i: usize| hits[i / 32] >> (i % 32) & 1 == 1;
        (0..count).map(|i| found(i).then(|| (keys[i], values[i]))).collect::<Vec<_>>()
    };
    let (mut keys, mut found) = (device.alloc(count).unwrap(), device.alloc(count).unwrap());
    let mut mask = device.alloc(count.div_ceil(32)).unwrap();
    let on = OnStream::new(tree, stream).in_pieces(scratch);
    on.hits(&mut mask).predecessor(queries, &mut keys, &mut found).unwrap();
    let below = pairs(&keys, &found, &mask);
    let on = OnStream::new(tree, stream).in_pieces(scratch);
    on.asof(queries, &AsOf::nearest(), &mut keys, &mut found, &mut mask).unwrap();
    let nearest = pairs(&keys, &found, &mask);
    (values.to_vec().unwrap(), hits.to_vec().unwrap(), ranks.to_vec().unwrap(), below, nearest)
}

/// Queries all over, keys and what comes after them, in an order that is none.
fn queries<K: AnyKey>(keys: &[K], count: usize) -> Vec<K> {
    let word = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let query = |i| keys[(word(i) >> 20) as usize % keys.len()].encode().wrapping_add(K::Bits::truncate(word(i) >> 63));
    (0..count).map(|i| K::decode(query(i))).collect()
}

/// Checks that a tree answers the same with pieces and without.
fn check<K: AnyKey, V: Value>(device: &Device, pairs: (&[K], &[V]), count: usize, what: &str) {
    let tree = LaneTree::build(device, pairs.0, pairs.1).unwrap();
    let (stream, queries) = (device.stream().unwrap(), device.upload(&queries(pairs.0, count)).unwrap());
    assert!(FixedIndex::pieces(&tree, &BatchOrder::Random, count as u64).is_some(), "{what}");
    // More than is needed, and used again.
    let scratch = PieceScratch::new(device, count + 100).unwrap();
    let expected = results(&tree, &stream, &queries, None);
    for _ in 0..2 {
        assert!(results(&tree, &stream, &queries, Some(&scratch)) == expected, "{what}");
    }
}

#[test]
fn pieces_change_no_answer() {
    for (seed, (what, keys)) in distributions().into_iter().enumerate() {
        let device = Device::emulated_with_seed(seed as u64);
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        check(&device, (&keys, &values), 4000 + seed * 997, what);
    }
    let device = Device::emulated();
    let narrow: Vec<i32> = (-3000..3000).map(|i: i32| i * 600_000 + i * i % 7).collect();
    check(&device, (&narrow, &(0..6000).collect::<Vec<u64>>()), 13_000, "i32");
    let wide: Vec<u128> = (1..3000_u128).map(|i| (i * i) << 90).collect();
    check(&device, (&wide, &(1..3000).collect::<Vec<u64>>()), 4000, "u128");
}

#[test]
fn a_set_in_pieces_has_the_same_keys() {
    let device = Device::emulated_with_seed(5);
    let (keys, stream) = ((0..9000).map(|i| i * 3).collect::<Vec<u64>>(), device.stream().unwrap());
    let set = LaneSet::build(&device, &keys).unwrap();
    let queries: Vec<u64> = (0..9001).map(|i| i * 7919 % 30_000).collect();
    let (on_device, mut hits) = (device.upload(&queries).unwrap(), device.alloc::<u32>(282).unwrap());
    let scratch = PieceScratch::new(&device, queries.len()).unwrap();
    set.on(&stream).in_pieces(&scratch).contains(&on_device, &mut hits).unwrap();
    let hits = hits.to_vec().unwrap();
    for (i, query) in queries.iter().enumerate() {
        assert_eq!(hits[i / 32] >> (i % 32) & 1 == 1, query % 3 == 0 && *query < 27_000, "{query}");
    }
}

#[test]
fn what_gains_nothing_from_pieces_takes_none() {
    let device = Device::emulated();
    let keys: Vec<u64> = (0..20_000).collect();
    let tree = LaneTree::build(&device, &keys, &keys).unwrap();
    let pieces = |order, count| FixedIndex::pieces(&tree, &order, count);
    assert_eq!(pieces(BatchOrder::Random, 1 << 20), Some(7..15));
    assert_eq!((pieces(BatchOrder::Sorted, 1 << 20), pieces(BatchOrder::TopBits(8), 1 << 20)), (None, None));
    // Few queries, and more than a pass moves.
    assert_eq!((pieces(BatchOrder::Random, 500), pieces(BatchOrder::Random, 1 << 40)), (None, None));
    let empty = LaneTree::<u64, u64>::build(&device, &[], &[]).unwrap();
    assert_eq!(FixedIndex::pieces(&empty, &BatchOrder::Random, 1 << 20), None);

    let (stream, queries) = (device.stream().unwrap(), device.upload(&keys[..100]).unwrap());
    let (scratch, mut values) = (PieceScratch::new(&device, 99).unwrap(), device.alloc(100).unwrap());
    let error = tree.on(&stream).in_pieces(&scratch).get(&queries, &mut values).unwrap_err();
    assert!(matches!(error, Error::OutputLength { expected: 100, actual: 99, .. }), "{error}");
    let elsewhere = PieceScratch::new(&Device::emulated(), 100).unwrap();
    assert!(tree.on(&stream).in_pieces(&elsewhere).get(&queries, &mut values).is_err());
}
