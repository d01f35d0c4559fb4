//! Any tree answers any batch as std's `BTreeMap` does: on the host, and with the kernels emulated.

use core::ops::{Bound, RangeBounds};
use lanetree::harmonia::FANOUTS;
use lanetree::{Device, Harmonia, Key, KeyRange, KeyWord, Word};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

/// One batch of one kind of query.
#[derive(Clone, Debug)]
enum Op<K> {
    Get(Vec<K>),
    LowerBound(Vec<K>),
    UpperBound(Vec<K>),
    Predecessor(Vec<K>),
    Successor(Vec<K>),
    Range(Vec<(Bound<K>, Bound<K>, Option<u64>)>),
}

/// Mostly few, so that queries hit and inputs repeat themselves; both ends of the key space; anything.
fn key<K: Key>() -> impl Strategy<Value = K> {
    let word = prop_oneof![
        12 => 0..400_u64,
        1 => select(vec![0, 1, u64::MAX - 1, u64::MAX, u64::MAX / 2, u64::MAX / 2 + 1]),
        2 => any::<u64>(),
    ];
    word.prop_map(|word| K::decode(K::Bits::truncate(word)))
}

fn range<K: Key>() -> impl Strategy<Value = (Bound<K>, Bound<K>, Option<u64>)> {
    let limit = prop_oneof![3 => Just(None), 1 => (0..20_u64).prop_map(Some)];
    (key::<K>(), key::<K>(), 0..3, 0..3, limit).prop_map(|(a, b, start, end, limit)| {
        let bound = |kind, key| match kind {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        (bound(start, a.min(b)), bound(end, a.max(b)), limit)
    })
}

fn op<K: Key>() -> impl Strategy<Value = Op<K>> {
    let keys = || prop::collection::vec(key::<K>(), 0..70);
    prop_oneof![
        2 => keys().prop_map(Op::Get),
        1 => keys().prop_map(Op::LowerBound),
        1 => keys().prop_map(Op::UpperBound),
        1 => keys().prop_map(Op::Predecessor),
        1 => keys().prop_map(Op::Successor),
        2 => prop::collection::vec(range(), 0..25).prop_map(Op::Range),
    ]
}

fn pairs<K: Key, V: Word>() -> impl Strategy<Value = Vec<(K, V)>> {
    let value = any::<u64>().prop_map(V::truncate);
    prop_oneof![
        1 => prop::collection::vec((key(), value.clone()), 0..4),
        3 => prop::collection::vec((key(), value), 0..600),
    ]
}

fn ops<K: Key>() -> impl Strategy<Value = Vec<Op<K>>> {
    prop::collection::vec(op(), 1..6)
}

/// Runs one batch on a tree and on its model.
fn check<K: Key, V: Word>(tree: &Harmonia<K, V>, model: &BTreeMap<K, V>, op: &Op<K>) -> Result<(), TestCaseError> {
    let pair = |(&key, &value): (&K, &V)| (key, value);
    match op {
        Op::Get(keys) => {
            let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
            prop_assert_eq!(tree.get_many(keys).unwrap(), expected);
        }
        Op::LowerBound(keys) => {
            let expected: Vec<_> = keys.iter().map(|&key| model.range(..key).count() as u64).collect();
            prop_assert_eq!(tree.lower_bound_many(keys).unwrap(), expected);
        }
        Op::UpperBound(keys) => {
            let expected: Vec<_> = keys.iter().map(|&key| model.range(..=key).count() as u64).collect();
            prop_assert_eq!(tree.upper_bound_many(keys).unwrap(), expected);
        }
        Op::Predecessor(keys) => {
            let expected: Vec<_> = keys.iter().map(|&key| model.range(..=key).next_back().map(pair)).collect();
            prop_assert_eq!(tree.predecessor_many(keys).unwrap(), expected);
        }
        Op::Successor(keys) => {
            let expected: Vec<_> = keys.iter().map(|&key| model.range(key..).next().map(pair)).collect();
            prop_assert_eq!(tree.successor_many(keys).unwrap(), expected);
        }
        Op::Range(ranges) => {
            let batch = || {
                ranges.iter().map(|&(start, end, limit)| {
                    let range = KeyRange::new((start, end));
                    limit.map_or(range, |limit| range.limit(limit))
                })
            };
            let found = tree.range_many(batch()).unwrap();
            prop_assert_eq!(found.len(), ranges.len());
            for (&(start, end, limit), (keys, values)) in ranges.iter().zip(found.iter()) {
                // Not `BTreeMap::range`, which panics where both bounds exclude the same key.
                let inside = model.iter().filter(|pair| (start, end).contains(pair.0));
                let expected: Vec<_> = inside.map(pair).take(limit.unwrap_or(u64::MAX) as usize).collect();
                let actual: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
                prop_assert_eq!(actual, expected, "{:?}", (start, end, limit));
            }
            let lens: Vec<_> = found.iter().map(|(keys, _)| keys.len() as u64).collect();
            prop_assert_eq!(tree.count_range_many(batch()).unwrap(), lens);
        }
    }
    Ok(())
}

/// Builds a tree, sorted or not, and runs batches on it.
fn agrees<K: Key, V: Word>(
    device: &Device,
    (fanout, fill, sorted): (u32, f64, bool),
    pairs: &[(K, V)],
    ops: &[Op<K>],
) -> Result<(), TestCaseError> {
    let model: BTreeMap<K, V> = pairs.iter().copied().collect();
    let mut pairs = pairs.to_vec();
    if sorted {
        // Stable: of equal keys, the last one stays the last.
        pairs.sort_by_key(|pair| pair.0);
    }
    let (keys, values): (Vec<K>, Vec<V>) = pairs.into_iter().unzip();
    let builder = Harmonia::<K, V>::builder().fanout(fanout).fill(fill);
    let tree = if sorted {
        builder.build_sorted(device, &keys, &values).unwrap()
    } else {
        builder.build(device, &keys, &values).unwrap()
    };
    prop_assert_eq!(tree.len(), model.len() as u64);
    let all: Vec<_> = tree.iter().map(Result::unwrap).collect();
    prop_assert!(all.iter().copied().eq(model.iter().map(|(&key, &value)| (key, value))), "iteration differs");
    ops.iter().try_for_each(|op| check(&tree, &model, op))
}

/// Options of a tree.
fn options() -> impl Strategy<Value = (u32, f64, bool)> {
    (select(&FANOUTS[..]), select(vec![1.0, 0.7, 0.5, 0.001]), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn unsigned_keys_on_the_host(options in options(), pairs in pairs::<u64, u32>(), ops in ops::<u64>()) {
        agrees(&Device::host(), options, &pairs, &ops)?;
    }

    #[test]
    fn signed_keys_on_the_host(options in options(), pairs in pairs::<i32, u64>(), ops in ops::<i32>()) {
        agrees(&Device::host(), options, &pairs, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn unsigned_keys_emulated(
        seed in 0..100_u64, options in options(), pairs in pairs::<u32, u32>(), ops in ops::<u32>(),
    ) {
        agrees(&Device::emulated_with_seed(seed), options, &pairs, &ops)?;
    }

    #[test]
    fn signed_keys_emulated(
        seed in 0..100_u64, options in options(), pairs in pairs::<i64, u64>(), ops in ops::<i64>(),
    ) {
        agrees(&Device::emulated_with_seed(seed), options, &pairs, &ops)?;
    }
}
