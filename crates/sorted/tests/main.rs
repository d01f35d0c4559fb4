//! A sorted array answers as std's `BTreeMap` does: on the host and with its kernels emulated, in host form and in device
//! form, and whatever fails meanwhile.

use core::ops::Bound;
use lanetree::runtime::Failure;
use lanetree::{
    Buffer, Device, DeviceRanges, Error, Key, KeyRange, KeyWord, Op, RangeScratch, Result, SortedArray, UpdatePath,
    UpdateReport, Word, apply_to_map,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Model<K, V> = BTreeMap<K, V>;

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

/// Mostly few, so that queries hit and operations meet; both ends of the key space; anything.
fn key<K: Key>(rng: &mut StdRng) -> K {
    let word = match rng.random_range(0..20) {
        0 => u64::MAX,
        1 => u64::MAX / 2,
        2..5 => rng.random(),
        _ => rng.random_range(0..900),
    };
    K::decode(K::Bits::truncate(word))
}

fn model<K: Key, V: Word>(rng: &mut StdRng, pairs: usize) -> Model<K, V> {
    let mut model = Model::new();
    while model.len() < pairs {
        model.insert(key(rng), V::truncate(rng.random()));
    }
    model
}

fn build<K: Key, V: Word>(device: &Device, model: &Model<K, V>) -> SortedArray<K, V> {
    // Not in order.
    let (keys, values): (Vec<K>, Vec<V>) = model.iter().rev().map(|(&key, &value)| (key, value)).unzip();
    SortedArray::build(device, &keys, &values).unwrap()
}

/// Of the model: value, rank on each side, and neighbours of a key.
type Answer<K, V> = (Option<V>, [u64; 2], [Option<(K, V)>; 2]);

fn answer<K: Key, V: Word>(model: &Model<K, V>, key: K) -> Answer<K, V> {
    let ranks = [model.range(..key).count(), model.range(..=key).count()].map(|rank| rank as u64);
    let pair = |(&key, &value): (&K, &V)| (key, value);
    let neighbors = [model.range(..=key).next_back().map(pair), model.range(key..).next().map(pair)];
    (model.get(&key).copied(), ranks, neighbors)
}

/// The pairs of a range whose end may be below its start.
fn row<K: Key, V: Word>(model: &Model<K, V>, start: K, end: K, limit: u64) -> Vec<(K, V)> {
    let all = if start <= end { Some(model.range(start..=end)) } else { None };
    all.into_iter().flatten().map(|(&key, &value)| (key, value)).take(limit as usize).collect()
}

/// Every kind of query, in both forms, of keys next to the index's own and at both ends.
fn assert_answers<K: Key, V: Word>(index: &SortedArray<K, V>, model: &Model<K, V>) {
    let pairs: Vec<(K, V)> = model.iter().map(|(&key, &value)| (key, value)).collect();
    assert_eq!(index.pairs().unwrap(), pairs, "{index:?}");
    assert_eq!((index.len(), index.is_empty()), (model.len() as u64, model.is_empty()));
    let step = (pairs.len() / 200).max(1);
    let near = |key: K| [0, 1, u64::MAX].map(|by| K::decode(key.encode().wrapping_add(K::Bits::truncate(by))));
    let mut queries: Vec<K> = pairs.iter().step_by(step).flat_map(|pair| near(pair.0)).collect();
    queries.extend([K::MIN, K::MAX].into_iter().flat_map(near));
    let answers: Vec<Answer<K, V>> = queries.iter().map(|&key| answer(model, key)).collect();

    assert!(index.get_many(&queries).unwrap().into_iter().eq(answers.iter().map(|it| it.0)));
    assert!(index.lower_bound_many(&queries).unwrap().into_iter().eq(answers.iter().map(|it| it.1[0])));
    assert!(index.upper_bound_many(&queries).unwrap().into_iter().eq(answers.iter().map(|it| it.1[1])));
    assert!(index.predecessor_many(&queries).unwrap().into_iter().eq(answers.iter().map(|it| it.2[0])));
    assert!(index.successor_many(&queries).unwrap().into_iter().eq(answers.iter().map(|it| it.2[1])));
    assert_ranges(index, model, &queries);

    let (device, count) = (index.device(), queries.len());
    let stream = device.stream().unwrap();
    let on = || index.on(&stream);
    let queries = device.upload(&queries).unwrap();
    // A word before that is not zero, and bits past the last query.
    let mut found = device.upload(&vec![u32::MAX; count.div_ceil(32)]).unwrap();
    let (mut keys, mut values) = (device.alloc_zeroed(count).unwrap(), device.alloc_zeroed(count).unwrap());
    let mut ranks = device.alloc_zeroed(count).unwrap();
    let hits = |found: &Buffer<u32>, expected: &dyn Fn(&Answer<K, V>) -> bool| {
        let mut words = vec![0; count.div_ceil(32)];
        answers.iter().enumerate().filter(|(_, it)| expected(it)).for_each(|(i, _)| words[i / 32] |= 1 << (i % 32));
        assert_eq!(found.to_vec().unwrap(), words);
    };
    for miss in [V::MIN, V::MAX] {
        on().hits(&mut found).miss(miss).get(&queries, &mut values).unwrap();
        assert!(values.to_vec().unwrap().into_iter().eq(answers.iter().map(|it| it.0.unwrap_or(miss))));
        hits(&found, &|it| it.0.is_some());
        for side in 0..2 {
            match side {
                0 => on().hits(&mut found).miss(miss).predecessor(&queries, &mut keys, &mut values).unwrap(),
                _ => on().hits(&mut found).miss(miss).successor(&queries, &mut keys, &mut values).unwrap(),
            }
            hits(&found, &|it| it.2[side].is_some());
            let pairs = keys.to_vec().unwrap().into_iter().zip(values.to_vec().unwrap());
            for (pair, expected) in pairs.zip(answers.iter().map(|it| it.2[side])) {
                assert_eq!(pair, expected.unwrap_or((pair.0, miss)));
            }
        }
    }
    on().miss(V::MIN).get(&queries, &mut values).unwrap();
    on().lower_bound(&queries, &mut ranks).unwrap();
    assert!(ranks.to_vec().unwrap().into_iter().eq(answers.iter().map(|it| it.1[0])));
    on().upper_bound(&queries, &mut ranks).unwrap();
    assert!(ranks.to_vec().unwrap().into_iter().eq(answers.iter().map(|it| it.1[1])));
}

/// Ranges between queries, in both forms.
fn assert_ranges<K: Key, V: Word>(index: &SortedArray<K, V>, model: &Model<K, V>, queries: &[K]) {
    let starts: Vec<K> = queries.iter().copied().step_by(2).collect();
    let ends: Vec<K> = queries.iter().copied().rev().step_by(2).collect();
    let limits: Vec<u64> = (0..starts.len() as u64).map(|i| [0, 1, 7, 100, u64::MAX][i as usize % 5]).collect();
    let count = starts.len().min(ends.len());
    let (starts, ends, limits_of) = (&starts[..count], &ends[..count], &limits[..count]);
    let rows = |limit: &dyn Fn(usize) -> u64| -> Vec<Vec<(K, V)>> {
        (0..count).map(|i| row(model, starts[i], ends[i], limit(i))).collect()
    };

    let (all, limited) = (rows(&|_| u64::MAX), rows(&|i| limits_of[i]));
    let mut found = lanetree::Ranges::default();
    index.range_between_many_into(starts, ends, &mut found).unwrap();
    let pairs =
        |(keys, values): (&[K], &[V])| -> Vec<(K, V)> { keys.iter().copied().zip(values.iter().copied()).collect() };
    assert_eq!((0..count).map(|i| pairs(found.get(i))).collect::<Vec<_>>(), all);
    let lens: Vec<u64> = all.iter().map(|row| row.len() as u64).collect();
    assert_eq!(index.count_between_many(starts, ends).unwrap(), lens);
    let forward: Vec<usize> = (0..count).filter(|&i| starts[i] <= ends[i]).collect();
    let ranges = forward.iter().map(|&i| KeyRange::new(starts[i]..=ends[i]).limit(limits_of[i]));
    let found = index.range_many(ranges.clone()).unwrap();
    let counts = index.count_range_many(ranges).unwrap();
    for (j, &i) in forward.iter().enumerate() {
        assert_eq!((pairs(found.get(j)), counts[j]), (limited[i].clone(), limited[i].len() as u64));
    }

    let device = index.device();
    let stream = device.stream().unwrap();
    let on = || index.on(&stream);
    let [starts, ends] = [starts, ends].map(|bounds| device.upload(bounds).unwrap());
    let limits = device.upload(limits_of).unwrap();
    let mut scratch = RangeScratch::new(device, count).unwrap();
    let mut counts = device.alloc_zeroed(count).unwrap();
    let both = rows(&|i| limits_of[i].min(3));
    let cases = [
        (&all, None, u64::MAX),
        (&limited, Some(&limits), u64::MAX),
        (&rows(&|_| 3), None, 3),
        (&both, Some(&limits), 3),
    ];
    for (rows, limits, limit) in cases {
        let flat: Vec<(K, V)> = rows.concat();
        on().limits(limits).limit(limit).count_range(&starts, &ends, &mut counts).unwrap();
        assert!(counts.to_vec().unwrap().into_iter().eq(rows.iter().map(|row| row.len() as u64)));
        // With room for all, and not for the last ones.
        for capacity in [flat.len(), flat.len() / 2] {
            let mut out = DeviceRanges::new(device, count, capacity).unwrap();
            on().limits(limits).limit(limit).range(&starts, &ends, &mut scratch, &mut out).unwrap();
            assert_eq!(out.offsets.to_vec().unwrap()[count], flat.len() as u64);
            let found = (out.keys.to_vec().unwrap(), out.values.to_vec().unwrap());
            assert_eq!(pairs((&found.0, &found.1)), flat[..capacity]);
        }
    }
}

fn queries_of<K: Key, V: Word>() {
    let rng = &mut StdRng::seed_from_u64(7);
    for device in devices() {
        // More than a block's queries at the end.
        for pairs in [0, 1, 2, 3, 17, 64, 65, 350] {
            let model = model::<K, V>(rng, pairs);
            assert_answers(&build(&device, &model), &model);
        }
    }
}

#[test]
fn every_query_is_answered_for_every_kind_of_keys_and_values() {
    queries_of::<u32, u32>();
    queries_of::<i32, u64>();
    queries_of::<u64, u32>();
    queries_of::<i64, u64>();
}

#[test]
fn the_smallest_and_the_largest_key_are_keys_like_others() {
    for device in devices() {
        for keys in [&[i32::MIN][..], &[i32::MAX], &[i32::MIN, i32::MAX], &[i32::MIN, -1, 0, i32::MAX]] {
            let model: Model<i32, u64> = keys.iter().map(|&key| (key, u64::MAX)).collect();
            assert_answers(&build(&device, &model), &model);
        }
    }
}

#[test]
fn ranges_of_every_length_are_copied_and_long_ones_in_parts() {
    for device in devices() {
        let model: Model<i64, u32> = (0..9000).map(|i| (i * 3 - 5000, i as u32)).collect();
        let index = build(&device, &model);
        let start = |i: i64| i * 90 - 4000;
        let ranges = (0..80).map(|i| start(i)..start(i) + i * 3);
        let found = index.range_many(ranges).unwrap();
        for i in 0..80 {
            let (keys, values) = found.get(i);
            let expected = model.range(start(i as i64)..start(i as i64) + i as i64 * 3);
            assert!(keys.iter().zip(values).eq(expected), "{i}");
        }
        let found =
            index.range_many([(Bound::Unbounded, Bound::Unbounded), (Bound::Excluded(0), Bound::Excluded(20_000))]);
        let found = found.unwrap();
        let (keys, values) = found.get(0);
        assert!(keys.iter().zip(values).eq(&model));
        let (keys, values) = found.get(1);
        assert!(keys.iter().zip(values).eq(model.range(1..20_000)));
    }
}

#[test]
fn builds_take_pairs_in_any_order_and_say_what_is_wrong_with_others() {
    for device in devices() {
        let index = SortedArray::build(&device, &[5_u32, -1_i32 as u32, 5, 0, 5], &[1_u64, 2, 3, 4, 5]).unwrap();
        assert_eq!(index.pairs().unwrap(), [(0, 4), (5, 5), (u32::MAX, 2)]);
        let stats = index.stats();
        assert_eq!((stats.len, stats.key_bytes, stats.value_bytes, index.bytes()), (3, 12, 24, 36));
        let builder = SortedArray::<i64, u32>::builder();
        let index = builder.build_sorted(&device, &[-3, -3, 8, 9, 9], &[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(index.pairs().unwrap(), [(-3, 2), (8, 3), (9, 5)]);

        let error = builder.build_sorted(&device, &[-3, 8, 7, 6], &[1, 2, 3, 4]).unwrap_err();
        assert!(
            matches!(&error, Error::NotSorted { index: 2, previous, key } if previous == "8" && key == "7"),
            "{error}"
        );
        let mut index = index;
        for error in [
            builder.build(&device, &[1, 2], &[1]).unwrap_err(),
            builder.build_sorted(&device, &[1, 2], &[1]).unwrap_err(),
            index.insert_many(&[1, 2], &[1]).unwrap_err(),
            index.update_many(&[1, 2], &[1]).unwrap_err(),
        ] {
            assert!(matches!(error, Error::LengthMismatch { keys: 2, values: 1 }), "{error}");
        }
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let error = index.range_many([1..=2, 2..=1]).unwrap_err();
        assert!(matches!(error, Error::ReversedRange { .. }), "{error}");
    }
}

fn ops<K: Key, V: Word>(rng: &mut StdRng, count: usize) -> Vec<Op<K, V>> {
    let op = |_| match rng.random_range(0..4) {
        0 => Op::Remove(key(rng)),
        1 => Op::Update(key(rng), V::truncate(rng.random())),
        _ => Op::Insert(key(rng), V::truncate(rng.random())),
    };
    (0..count).map(op).collect()
}

/// Applies a batch to a model.
fn apply<K: Key, V: Word>(model: &mut Model<K, V>, ops: &[Op<K, V>]) -> UpdateReport {
    let mut report = apply_to_map(model, ops);
    if report.inserted + report.replaced + report.removed > 0 {
        report.path = UpdatePath::Rebuilt;
    }
    report
}

fn changes_of<K: Key, V: Word>() {
    let rng = &mut StdRng::seed_from_u64(11);
    for device in devices() {
        let mut model = model::<K, V>(rng, 40);
        let mut index = build(&device, &model);
        for count in [0, 1, 1, 5, 100, 700, 3] {
            let ops = ops(rng, count);
            assert_eq!(index.apply(&ops).unwrap(), apply(&mut model, &ops));
            assert_answers(&index, &model);
        }
        let keys: Vec<K> = model.keys().copied().collect();
        let ones = vec![V::truncate(1); keys.len()];
        let report = index.update_many(&keys, &ones).unwrap();
        assert_eq!((report.replaced, report.path), (keys.len() as u64, UpdatePath::Rebuilt));
        assert_eq!(index.remove_many(&keys).unwrap().removed, keys.len() as u64);
        assert_answers(&index, &Model::new());
        let report = index.update_many(&keys, &ones).unwrap();
        assert_eq!((report.unmatched, report.path), (keys.len() as u64, UpdatePath::Unchanged));
        assert_eq!(index.insert_many(&keys, &ones).unwrap().inserted, keys.len() as u64);
        assert_answers(&index, &keys.into_iter().zip(ones).collect());
    }
}

#[test]
fn batches_of_changes_have_the_effect_of_one_change_after_another() {
    changes_of::<i32, u32>();
    changes_of::<u64, u64>();
}

#[test]
fn whatever_fails_the_index_is_as_it_was_and_answers() {
    type Index = SortedArray<i32, u64>;
    type Call = fn(&mut Index, &[i32]) -> Result<()>;
    type Change = fn(i32) -> Op<i32, u64>;
    let calls: [(Call, Change); 4] = [
        (|it, keys| it.insert_many(keys, &vec![9; keys.len()]).map(drop), |key| Op::Insert(key, 9)),
        (|it, keys| it.update_many(keys, &vec![9; keys.len()]).map(drop), |key| Op::Update(key, 9)),
        (|it, keys| it.remove_many(keys).map(drop), Op::Remove),
        (
            |it, keys| it.apply(&keys.iter().map(|&key| Op::Insert(key, 8)).collect::<Vec<_>>()).map(drop),
            |key| Op::Insert(key, 8),
        ),
    ];
    let keys: Vec<i32> = (-20..20).map(|i| i * 5).collect();
    for before in [Model::new(), (-10..10).map(|i| (i * 10, i as u64)).collect()] {
        for (call, change) in calls {
            let mut after = before.clone();
            apply(&mut after, &keys.iter().map(|&key| change(key)).collect::<Vec<_>>());
            let failed = Failure::at_every_point(
                |device| build(device, &before),
                |index| call(index, &keys),
                |index, error| {
                    assert!(matches!(error, Error::Runtime(_)), "{error}");
                    assert_answers(index, &before);
                    call(index, &keys).unwrap();
                    assert_answers(index, &after);
                },
            );
            // Both buffers are read, unless they are empty; and both new ones allocated and written, likewise.
            let writes = after != before && !after.is_empty();
            let steps = 2 * usize::from(!before.is_empty()) + 4 * usize::from(writes);
            assert_eq!(failed.len(), steps, "{failed:?}");
        }
    }
}

#[test]
fn a_build_or_a_query_that_fails_says_so_and_the_next_one_answers() {
    let model = model::<i32, u64>(&mut StdRng::seed_from_u64(5), 50);
    let failed = Failure::at_every_point(
        Device::clone,
        |device| {
            let keys: Vec<i32> = model.keys().copied().collect();
            SortedArray::build(device, &keys, &vec![1_u64; keys.len()]).map(drop)
        },
        |device, _| assert_answers(&build(device, &model), &model),
    );
    // A transfer of both columns, and an allocation for each.
    assert_eq!(failed.len(), 3, "{failed:?}");
    type Call = fn(&SortedArray<i32, u64>, &[i32]) -> Result<()>;
    let calls: [Call; 6] = [
        |it, keys| it.get_many(keys).map(drop),
        |it, keys| it.upper_bound_many(keys).map(drop),
        |it, keys| it.predecessor_many(keys).map(drop),
        |it, keys| it.range_many(keys.iter().map(|&key| ..=key)).map(drop),
        |it, keys| it.count_range_many(keys.iter().map(|&key| key..)).map(drop),
        |it, _| it.pairs().map(drop),
    ];
    let keys: Vec<i32> = model.keys().copied().collect();
    for call in calls {
        let failed = Failure::at_every_point(
            |device| build(device, &model),
            |index| call(index, &keys),
            |index, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                assert_answers(index, &model);
            },
        );
        assert!(failed.len() >= 2, "{failed:?}");
    }
}
