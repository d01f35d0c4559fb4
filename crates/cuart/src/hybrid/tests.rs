//! Both trees together against a map, on the host and on the emulator.

use super::Hybrid;
use crate::RootTable;
use core::ops::{Bound, RangeBounds};
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, ByteRange};
use lanetree_frame::{Device, DeviceKind, Error, Op, UpdatePath, apply_to_map};
use lanetree_runtime::Failure;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

type Key = Vec<u8>;
type Model = BTreeMap<Key, u64>;

fn packed<'a>(keys: impl IntoIterator<Item = &'a Key>) -> ByteKeysBuf {
    keys.into_iter().collect()
}

fn build(device: &Device, max: usize, model: &Model) -> Hybrid<u64> {
    let values: Vec<u64> = model.values().copied().collect();
    let builder = Hybrid::builder().max_device_key(max).root_table(RootTable::None);
    builder.build_sorted(device, &packed(model.keys()), &values).unwrap()
}

/// What a batch does to a map: keys inserted, replaced, removed, unmatched.
fn apply_to_model(model: &mut Model, ops: &[Op<Key, u64>]) -> [u64; 4] {
    let report = apply_to_map(model, ops);
    [report.inserted, report.replaced, report.removed, report.unmatched]
}

/// Asks both trees about keys: what needs no ranks.
#[track_caller]
fn check_points(tree: &Hybrid<u64>, model: &Model, queries: &[Key]) {
    let short = model.keys().filter(|key| key.len() <= tree.max_device_key()).count() as u64;
    assert_eq!((tree.len(), tree.is_empty()), (model.len() as u64, model.is_empty()));
    assert_eq!((tree.device_tree().len(), tree.host_tree().len()), (short, model.len() as u64 - short));
    assert_eq!(tree.stats().device.len + tree.stats().host.len, tree.len());
    // Keys of both lengths, and of one alone.
    let is_short = |key: &&Key| key.len() <= tree.max_device_key();
    let all: Vec<&Key> = queries.iter().chain(model.keys()).collect();
    let short: Vec<&Key> = all.iter().copied().filter(is_short).collect();
    let long: Vec<&Key> = all.iter().copied().filter(|key| !is_short(key)).collect();
    for batch in [all, short, long] {
        let found = tree.get_many(&packed(batch.iter().copied())).unwrap();
        assert!(found.iter().eq(batch.iter().map(|key| model.get(*key).copied()).collect::<Vec<_>>().iter()));
    }
}

/// Asks both trees, which are compact, about everything.
#[track_caller]
fn check(tree: &Hybrid<u64>, model: &Model, queries: &[Key]) {
    check_points(tree, model, queries);
    let batch = packed(queries);
    let pair = |pair: Option<(&Key, &u64)>| pair.map(|(key, &value)| (key.clone(), value));
    let each = |answer: &dyn Fn(&Key) -> Option<(Key, u64)>| queries.iter().map(answer).collect::<Vec<_>>();
    let not_above = |key: &Key| pair(model.range(..=key.clone()).next_back());
    assert_eq!(tree.predecessor_many(&batch).unwrap(), each(&not_above));
    let not_below = |key: &Key| pair(model.range(key.clone()..).next());
    assert_eq!(tree.successor_many(&batch).unwrap(), each(&not_below));
    if tree.is_compact() {
        let below = |key: &Key| model.range(..key.clone()).count() as u64;
        assert!(tree.lower_bound_many(&batch).unwrap().into_iter().eq(queries.iter().map(below)));
        let not_above = |key: &Key| model.range(..=key.clone()).count() as u64;
        assert!(tree.upper_bound_many(&batch).unwrap().into_iter().eq(queries.iter().map(not_above)));
    }

    let prefixes: Vec<Key> = queries.iter().flat_map(|key| [key.clone(), key[..key.len() / 2].to_vec()]).collect();
    let hits = tree.prefix_many(&packed(&prefixes)).unwrap();
    let counts = tree.prefix_count_many(&packed(&prefixes)).unwrap();
    assert_eq!((hits.len(), counts.len()), (prefixes.len(), prefixes.len()));
    for ((prefix, (keys, values)), count) in prefixes.iter().zip(hits.iter()).zip(counts) {
        let expected = model.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(prefix));
        assert!(keys.iter().zip(values).eq(expected.map(|(key, value)| (&key[..], value))), "prefix {prefix:?}");
        assert_eq!(count, values.len() as u64);
    }

    let bound = |kind, key| match kind {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    let ranges: Vec<(Bound<&Key>, Bound<&Key>, u64)> = queries
        .iter()
        .zip(queries.iter().skip(1))
        .enumerate()
        .map(|(i, (a, b))| (bound(i % 3, a.min(b)), bound(i / 3 % 3, a.max(b)), [0, 1, 7, u64::MAX][i % 4]))
        .chain([(Bound::Unbounded, Bound::Unbounded, u64::MAX)])
        .collect();
    let asked =
        || ranges.iter().map(|range| ByteRange::new(slice(range.0), slice(range.1)).limit(range.2)).collect::<Vec<_>>();
    let (hits, counts) = (tree.range_many(asked()).unwrap(), tree.count_range_many(asked()).unwrap());
    assert_eq!((hits.len(), counts.len()), (ranges.len(), ranges.len()));
    for ((&(start, end, limit), (keys, values)), count) in ranges.iter().zip(hits.iter()).zip(counts) {
        let inside = model.iter().filter(|(key, _)| (start, end).contains(key));
        let expected = inside.take(usize::try_from(limit).unwrap_or(usize::MAX));
        assert!(keys.iter().zip(values).eq(expected.map(|(key, value)| (&key[..], value))), "{start:?}, {end:?}");
        assert_eq!(count, values.len() as u64, "{start:?}, {end:?}");
    }
}

fn slice(bound: Bound<&Key>) -> Bound<&[u8]> {
    bound.map(Vec::as_slice)
}

/// Ranges of a device's tree need ranks.
fn check_after_changes(tree: &mut Hybrid<u64>, model: &Model, queries: &[Key]) {
    if tree.device().kind() == DeviceKind::Host {
        check(tree, model, queries);
    } else {
        check_points(tree, model, queries);
        if !tree.device_tree().is_compact() {
            assert!(matches!(tree.range_many([..]), Err(Error::NotCompact { .. })));
        }
    }
    tree.compact().unwrap();
    assert!(tree.is_compact());
    check(tree, model, queries);
}

/// Strings of about `max` bytes, made of few different bytes: prefixes of each other, the empty string, strings of
/// exactly that length.
fn key(max: usize) -> impl Strategy<Value = Key> {
    let len = prop_oneof![
        3 => max.saturating_sub(2)..=max + 2,
        1 => 0..=max + 9,
        1 => select(vec![0, max, max + 1, max + 40]),
    ];
    (len, select(vec![0, b'a']), prop::collection::vec(select(vec![0, b'a', b'b', 255]), 0..3)).prop_map(
        |(len, byte, end)| {
            let mut key = vec![byte; len];
            let from = len.saturating_sub(end.len());
            key[from..].iter_mut().zip(end).for_each(|(byte, end)| *byte = end);
            key
        },
    )
}

fn op(max: usize) -> impl Strategy<Value = Op<Key, u64>> {
    (key(max), any::<u64>(), 0..5).prop_map(|(key, value, kind)| match kind {
        0 | 1 => Op::Insert(key, value),
        2 => Op::Update(key, value),
        _ => Op::Remove(key),
    })
}

type Case = (usize, Vec<(Key, u64)>, Vec<Vec<Op<Key, u64>>>, Vec<Key>);

fn case(most: usize) -> impl Strategy<Value = Case> {
    select(vec![1_usize, 5, 8, 16, 31, 32]).prop_flat_map(move |max| {
        let pairs = prop::collection::vec((key(max), any::<u64>()), 0..most);
        let batches = prop::collection::vec(prop::collection::vec(op(max), 0..most), 1..4);
        (Just(max), pairs, batches, prop::collection::vec(key(max), 0..20))
    })
}

/// Builds from pairs in any order, changes by operations and by arrays.
fn run(device: &Device, (max, pairs, batches, queries): Case) {
    let model_of = |pairs: &[(Key, u64)]| pairs.iter().cloned().collect::<Model>();
    let mut model = model_of(&pairs);
    let values: Vec<u64> = pairs.iter().map(|(_, value)| *value).collect();
    let keys = packed(pairs.iter().map(|(key, _)| key));
    let mut tree = Hybrid::builder().max_device_key(max).build(device, &keys, &values).unwrap();
    assert_eq!(tree.max_device_key(), max);
    check(&tree, &model, &queries);
    for (turn, ops) in batches.iter().enumerate() {
        let mut ops = ops.clone();
        let report = if turn % 2 == 0 {
            tree.apply(&ops).unwrap()
        } else {
            // All of one kind.
            let kind = ops.len() % 3;
            for op in &mut ops {
                let (Op::Insert(key, _) | Op::Update(key, _) | Op::Remove(key)) = op.clone();
                let value = key.len() as u64 + 1000;
                *op = match kind {
                    0 => Op::Insert(key, value),
                    1 => Op::Update(key, value),
                    _ => Op::Remove(key),
                };
            }
            let keys: ByteKeysBuf = ops
                .iter()
                .map(|op| {
                    let (Op::Insert(key, _) | Op::Update(key, _) | Op::Remove(key)) = op;
                    key
                })
                .collect();
            let values: Vec<u64> = keys.iter().map(|key| key.len() as u64 + 1000).collect();
            match kind {
                0 => tree.insert_many(&keys, &values).unwrap(),
                1 => tree.update_many(&keys, &values).unwrap(),
                _ => tree.remove_many(&keys).unwrap(),
            }
        };
        let expected = apply_to_model(&mut model, &ops);
        assert_eq!([report.inserted, report.replaced, report.removed, report.unmatched], expected);
        assert_eq!(report.path == UpdatePath::Unchanged, expected[..3] == [0; 3]);
        check_after_changes(&mut tree, &model, &queries);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_batches_have_the_effect_that_they_have_on_a_map(case in case(60)) {
        run(&Device::host(), case);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn any_batches_have_that_effect_on_a_device(case in case(25)) {
        run(&Device::emulated(), case);
    }
}

#[test]
fn keys_of_the_longest_length_are_on_the_device() {
    for device in [Device::host(), Device::emulated()] {
        for max in [1, 8, 9, 32] {
            // Each is a prefix of the next.
            let model: Model = (0..=max + 3).map(|len| (vec![b'x'; len], len as u64)).collect();
            let mut tree = build(&device, max, &model);
            assert_eq!((tree.stats().device.len, tree.stats().host.len), (max as u64 + 1, 3));
            let queries: Vec<Key> =
                [vec![], vec![b'x'; max], vec![b'x'; max + 1], vec![b'w'; max], vec![b'y'; max + 1], vec![b'x'; 99]]
                    .into();
            check(&tree, &model, &queries);
            // Nothing is left on either side, in turn.
            let mut model = model;
            for is_left in [|len: usize, max: usize| len > max, |_, _| false] {
                let gone: Vec<Key> = model.keys().filter(|key| !is_left(key.len(), max)).cloned().collect();
                model.retain(|key, _| is_left(key.len(), max));
                assert_eq!(tree.remove_many(&packed(&gone)).unwrap().removed, gone.len() as u64);
                check_after_changes(&mut tree, &model, &queries);
            }
        }
    }
}

/// Strings of some lengths in any order, each with its number in front.
fn strings(count: usize, lens: &[usize]) -> Vec<Key> {
    let string =
        |i: usize| (i as u64 * 7).to_be_bytes().into_iter().cycle().take(lens[i * 7919 / 8 % lens.len()]).collect();
    (0..count).map(string).collect()
}

#[test]
fn large_batches_are_split_by_several_threads() {
    let cases: [(Device, usize, &[usize]); 5] = [
        (Device::host(), 13_000, &[8, 8, 8, 33, 8, 70]),
        (Device::host(), 9000, &[8, 20, 11, 33, 32]),
        (Device::host(), 9000, &[9, 40]),
        (Device::emulated(), 5000, &[8, 8, 34, 8, 70]),
        (Device::emulated(), 4100, &[8, 9, 33]),
    ];
    for (device, count, lens) in cases {
        let all = strings(count, lens);
        let model: Model = all.iter().step_by(2).zip(1..).map(|(key, value)| (key.clone(), value)).collect();
        let tree = build(&device, 32, &model);
        let mut out = vec![Some(77); count];
        for len in [count, 40, count, count / 2] {
            // With offsets that do not begin at 0.
            let bytes = [&b"before"[..], &all[count - len..].concat(), b"after"].concat();
            let mut offsets = vec![6_u32];
            offsets.extend(all[count - len..].iter().scan(6, |end, key| {
                *end += key.len() as u32;
                Some(*end)
            }));
            let queries = ByteKeys::new(&offsets[..], &bytes).unwrap();
            tree.get_many_into(queries, &mut out[..len]).unwrap();
            for (key, found) in all[count - len..].iter().zip(&out) {
                assert_eq!(*found, model.get(key).copied(), "{key:?}");
            }
        }
    }
}

#[test]
fn batches_of_one_kind_go_to_one_tree() {
    let all = strings(3000, &[8, 40]);
    let model: Model = all.iter().zip(1..).map(|(key, value)| (key.clone(), value)).collect();
    let tree = build(&Device::host(), 32, &model);
    let of = |len: usize| all.iter().filter(move |key| key.len() == len);
    for len in [8, 40] {
        let strings: Vec<u8> = of(len).flatten().copied().collect();
        let fixed = tree.get_many(ByteKeys::fixed(len, &strings).unwrap()).unwrap();
        assert!(fixed.iter().flatten().count() == fixed.len() && !fixed.is_empty());
        assert_eq!(tree.get_many(&packed(of(len))).unwrap(), fixed);
    }
    assert_eq!(tree.get_many(&ByteKeysBuf::new()).unwrap(), []);
}

#[test]
fn the_last_of_equal_keys_wins_in_either_tree() {
    let keys: ByteKeysBuf = ["b", "long, long", "b", "long, long", "a"].into_iter().collect();
    let mut tree = Hybrid::builder().max_device_key(4).build(&Device::host(), &keys, &[1_u32, 2, 3, 4, 5]).unwrap();
    assert_eq!(tree.get_many(&keys).unwrap(), [Some(3), Some(4), Some(3), Some(4), Some(5)]);
    tree.update_many(&keys, &[6, 7, 8, 9, 10]).unwrap();
    assert_eq!(tree.range_many([..]).unwrap().values, [10, 8, 9]);
}

#[test]
fn what_is_wrong_is_named_by_its_place_in_the_batch() {
    let device = Device::emulated();
    let keys: ByteKeysBuf = ["a", "a long key", "b", "a key"].into_iter().collect();
    for bytes in [0, 33, usize::MAX] {
        let error = Hybrid::<u32>::builder().max_device_key(bytes).build(&device, &keys, &[1; 4]).unwrap_err();
        let expected =
            format!("the device cannot take keys of up to {bytes} bytes: choose a maximum from 1 to 32 bytes");
        assert_eq!(error.to_string(), expected);
    }
    let builder = Hybrid::<u32>::builder().max_device_key(5);
    assert!(matches!(builder.build(&device, &keys, &[1; 3]), Err(Error::LengthMismatch { keys: 4, values: 3 })));
    assert!(matches!(builder.build_sorted(&device, &keys, &[1; 4]), Err(Error::NotSorted { index: 3, .. })));
    let mut tree = builder.build(&device, &keys, &[1; 4]).unwrap();
    assert_eq!(format!("{tree:?}").matches("pairs, on").count(), 2, "{tree:?}");
    assert!(matches!(tree.insert_many(&keys, &[1; 5]), Err(Error::LengthMismatch { keys: 4, values: 5 })));
    assert!(matches!(tree.update_many(&keys, &[1; 3]), Err(Error::LengthMismatch { keys: 4, values: 3 })));
    let short = tree.get_many_into(&keys, &mut [None; 3]);
    assert!(matches!(short, Err(Error::OutputLength { expected: 4, actual: 3, .. })));
    let reversed = tree.range_many([&b"a"[..]..&b"b"[..], b"b".."a long key".as_bytes()]);
    assert!(matches!(reversed, Err(Error::ReversedRange { index: 1, .. })));
    assert_eq!(tree.get_many(&keys).unwrap(), [Some(1); 4]);

    // Too long for any tree: never touched, so they have no memory.
    let bytes = vec![0_u8; (1 << 32) + 15];
    let too_long = ByteKeys::new(&[0_u64, 5, 15, (1 << 32) + 15][..], &bytes).unwrap();
    assert!(matches!(tree.insert_many(too_long, &[1; 3]), Err(Error::KeyTooLong { index: 2, .. })));
    assert!(matches!(builder.build(&device, too_long, &[1; 3]), Err(Error::KeyTooLong { index: 2, .. })));
    assert_eq!(tree.len(), 4);
}

#[test]
fn a_device_that_fails_leaves_the_host_as_it_was() {
    let all = strings(40, &[8, 40]);
    let model: Model = all[..20].iter().zip(1..).map(|(key, value)| (key.clone(), value)).collect();
    let long = || packed(all.iter().filter(|key| key.len() > 32));
    let kinds: [fn(u64) -> Failure; 3] = [Failure::Transfer, Failure::Allocation, Failure::Launch];
    for kind in kinds {
        for point in 0.. {
            let device = Device::emulated();
            let mut tree = build(&device, 32, &model);
            let before = tree.get_many(&long()).unwrap();
            device.inject(Some(kind(point)));
            let result = tree.insert_many(&packed(&all), &[99; 40]);
            let came = device.inject(None).is_none();
            assert_eq!(result.is_err(), came, "{result:?}");
            let after = if came { before } else { vec![Some(99); before.len()] };
            if tree.is_lost() {
                // The host's tree is whole, but what it has not taken is the other half of a batch.
                assert!(came && matches!(tree.get_many(&long()), Err(Error::Lost { .. })));
                assert!(matches!(tree.get_many(&packed(&all)), Err(Error::Lost { .. })));
                assert_eq!(tree.host_tree().get_many(&long()).unwrap(), after);
            } else {
                assert_eq!(tree.get_many(&long()).unwrap(), after);
                assert!(tree.get_many(&packed(&all)).is_ok());
            }
            if !came {
                break;
            }
            // A look-up that fails gives its memory back.
            let tree = build(&device, 32, &model);
            device.inject(Some(kind(0)));
            assert!(tree.get_many(&packed(&all)).is_err());
            device.inject(None);
            let expected: Vec<_> = all.iter().map(|key| model.get(key).copied()).collect();
            assert_eq!(tree.get_many(&packed(&all)).unwrap(), expected);
        }
    }
}

#[test]
fn threads_look_up_at_the_same_time() {
    let all = strings(600, &[8, 40, 16]);
    let model: Model = all.iter().step_by(3).zip(1..).map(|(key, value)| (key.clone(), value)).collect();
    let tree = build(&Device::emulated(), 32, &model);
    let expected: Vec<_> = all.iter().map(|key| model.get(key).copied()).collect();
    let look_up = || assert_eq!(tree.get_many(&packed(&all)).unwrap(), expected);
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(look_up)));
    });
    // And from rayon's threads, also where there is one.
    rayon::join(look_up, look_up);
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(look_up);
}
