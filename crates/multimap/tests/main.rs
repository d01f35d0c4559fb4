//! A multi-map answers as a `BTreeMap` of vectors does: on the host and with its kernels emulated, in host form and in device
//! form, and whatever fails meanwhile.

use core::fmt::Debug;
use core::ops::Bound;
use core::sync::atomic::{AtomicU64, Ordering};
use lanetree::multimap::{DeviceRows, RangeScratch, Scratch};
use lanetree::runtime::Failure;
use lanetree::{
    Aggregate, AnyKey, Bytes16, Closed, Device, DeviceKind, DeviceRanges, Error, F64, Join, KeyRange, KeyWord,
    MultiMap, Pool, Ranges, UpdatePath, Word,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Model<K, V> = BTreeMap<K, Vec<V>>;

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

/// Few keys, so that they repeat; both ends of the key space; anything.
fn key<K: AnyKey>(rng: &mut StdRng, space: u64) -> K {
    let word = match rng.random_range(0..20) {
        0 => u64::MAX,
        1 => u64::MAX / 2,
        2 => 0,
        3 => rng.random(),
        _ => rng.random_range(0..space),
    };
    // Keys of 128 bits differ in both halves, or hardly in the upper one.
    K::decode(K::Bits::from_parts([word, word.rotate_left(61)]))
}

/// Values of which many are equal.
fn value<V: Word>(rng: &mut StdRng) -> V {
    V::truncate(if rng.random_bool(0.1) { rng.random() } else { rng.random_range(0..6) })
}

fn batch<K: AnyKey, V: Word>(rng: &mut StdRng, len: usize, space: u64) -> (Vec<K>, Vec<V>) {
    (0..len).map(|_| (key::<K>(rng, space), value::<V>(rng))).unzip()
}

fn insert<K: AnyKey, V: Word>(model: &mut Model<K, V>, keys: &[K], values: &[V]) {
    for (&key, &value) in keys.iter().zip(values) {
        model.entry(key).or_default().push(value);
    }
}

/// How many pairs were removed.
fn remove_all<K: AnyKey, V: Word>(model: &mut Model<K, V>, keys: &[K]) -> (u64, u64) {
    let removed: Vec<_> = keys.iter().map(|key| model.remove(key)).collect();
    let unmatched = removed.iter().filter(|removed| removed.is_none()).count() as u64;
    (removed.iter().flatten().map(Vec::len).sum::<usize>() as u64, unmatched)
}

fn remove_pairs<K: AnyKey, V: Word>(model: &mut Model<K, V>, pairs: &[(K, V)]) -> (u64, u64) {
    let mut removed = 0;
    for (key, value) in pairs {
        let Some(values) = model.get_mut(key) else { continue };
        if let Some(at) = values.iter().position(|other| other == value) {
            values.remove(at);
            removed += 1;
        }
        if values.is_empty() {
            model.remove(key);
        }
    }
    (removed, pairs.len() as u64 - removed)
}

fn flat<K: AnyKey, V: Word>(model: &Model<K, V>) -> Vec<(K, V)> {
    model.iter().flat_map(|(&key, values)| values.iter().map(move |&value| (key, value))).collect()
}

/// The pairs of a range whose end may be below its start.
fn row<K: AnyKey, V: Word>(model: &Model<K, V>, start: K, end: K, limit: u64) -> Vec<(K, V)> {
    let all = if start <= end { Some(model.range(start..=end)) } else { None };
    let pairs = all.into_iter().flatten().flat_map(|(&key, values)| values.iter().map(move |&value| (key, value)));
    pairs.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
}

/// Asks everything, in both forms.
fn compare<K: AnyKey, V: Word>(map: &MultiMap<K, V>, model: &Model<K, V>, rng: &mut StdRng, space: u64) {
    let what = format!("{map:?}");
    let pairs = flat(model);
    assert_eq!((map.len(), map.keys_len()), (pairs.len() as u64, model.len() as u64), "{what}");
    assert_eq!(map.is_empty(), pairs.is_empty(), "{what}");
    assert!(map.pairs().unwrap() == pairs, "{what}");

    let queries: Vec<K> = (0..rng.random_range(0..70)).map(|_| key(rng, space)).collect();
    let none = Vec::new();
    let expected: Vec<&Vec<V>> = queries.iter().map(|key| model.get(key).unwrap_or(&none)).collect();
    let rows = map.get_all_many(&queries).unwrap();
    assert_eq!(rows.len(), queries.len());
    assert!(rows.iter().eq(expected.iter().map(|values| &values[..])), "{what}");
    let counts: Vec<u64> = expected.iter().map(|values| values.len() as u64).collect();
    assert_eq!(map.count_many(&queries).unwrap(), counts, "{what}");
    assert!(map.contains_many(&queries).unwrap().into_iter().eq(counts.iter().map(|&count| count > 0)), "{what}");
    let firsts: Vec<Option<V>> = expected.iter().map(|values| values.first().copied()).collect();
    assert_eq!(map.first_many(&queries).unwrap(), firsts, "{what}");
    let lasts: Vec<Option<V>> = expected.iter().map(|values| values.last().copied()).collect();
    assert_eq!(map.last_many(&queries).unwrap(), lasts, "{what}");
    let matches = map.join_many(&queries).unwrap();
    assert!((0..queries.len()).all(|i| matches.of(i) == &expected[i][..]), "{what}");
    assert!(queries.iter().take(3).all(|key| map.contains(key).unwrap() == model.contains_key(key)), "{what}");
    assert_eq!(map.first().unwrap(), pairs.first().copied(), "{what}");
    assert_eq!(map.last().unwrap(), pairs.last().copied(), "{what}");
    if !map.is_ordered() && map.device().kind() != DeviceKind::Host {
        out_of_order(map, &pairs, &queries);
        return;
    }
    ranks_and_neighbors(map, &pairs, &queries);

    let limited = rng.random_bool(0.5);
    let ranges: Vec<(K, K, u64)> = (0..rng.random_range(0..20))
        .map(|_| (key(rng, space), key(rng, space), if limited { rng.random_range(0..40) } else { u64::MAX }))
        .collect();
    let expected: Vec<Vec<(K, V)>> = ranges.iter().map(|&(start, end, limit)| row(model, start, end, limit)).collect();
    in_device_form(map, &queries, (&rows.offsets, &rows.values), &ranges, &expected);
    let ranges: Vec<KeyRange<K>> =
        ranges.iter().map(|&(start, end, limit)| KeyRange::new(start..=end).limit(limit).empty_if_reversed()).collect();
    let found = map.range_many(ranges.clone()).unwrap();
    let mut again = Ranges { offsets: vec![7; 3], keys: Vec::new(), values: vec![V::MAX; 5000] };
    map.range_many_into(ranges.clone(), &mut again).unwrap();
    assert!(again == found, "{what}");
    if let Some(&first) = ranges.first() {
        let pairs: Vec<(K, V)> = map.range(first).unwrap().map(Result::unwrap).collect();
        assert_eq!(pairs, expected[0], "{what}");
    }
    let found_rows =
        found.iter().map(|(keys, values)| keys.iter().copied().zip(values.iter().copied()).collect::<Vec<_>>());
    assert!(found_rows.eq(expected.iter().cloned()), "{what}");
    let counts: Vec<u64> = expected.iter().map(|row| row.len() as u64).collect();
    assert_eq!(map.count_range_many(ranges).unwrap(), counts, "{what}");
    between(map, model, &queries);
    scans(map, &pairs, &queries, rng.random_range(0..40));
}

/// Ranges in two columns, some of them reversed.
fn between<K: AnyKey, V: Word>(map: &MultiMap<K, V>, model: &Model<K, V>, queries: &[K]) {
    let ends: Vec<K> = queries.iter().rev().copied().collect();
    let rows: Vec<Vec<(K, V)>> =
        queries.iter().zip(&ends).map(|(&start, &end)| row(model, start, end, u64::MAX)).collect();
    // As many as fit a test.
    let few =
        rows.iter().scan(0, |sum, row| Some(*sum).filter(|sum| *sum < 3000).inspect(|_| *sum += row.len())).count();
    let mut found = Ranges::default();
    map.range_between_many_into(&queries[..few], &ends[..few], &mut found).unwrap();
    assert!(
        found
            .iter()
            .zip(&rows)
            .all(|((keys, values), row)| { keys.iter().copied().zip(values.iter().copied()).eq(row.iter().copied()) })
    );
    assert_eq!(found.len(), few);
    let counts: Vec<u64> = rows.iter().map(|row| row.len() as u64).collect();
    assert_eq!(map.count_between_many(queries, &ends).unwrap(), counts, "{map:?}");
}

/// The first pairs from keys on, in device form, in outputs that are longer.
fn scans<K: AnyKey, V: Word>(map: &MultiMap<K, V>, pairs: &[(K, V)], starts: &[K], limit: usize) {
    let (device, count) = (map.device(), starts.len());
    let stream = device.stream().unwrap();
    let (marked, uploaded) = ((K::MAX, V::truncate(77)), device.upload(starts).unwrap());
    let mut keys = device.upload(&vec![marked.0; count * limit + 1]).unwrap();
    let mut values = device.upload(&vec![marked.1; count * limit + 1]).unwrap();
    let mut counts = device.upload(&vec![99; count + 1]).unwrap();
    let mut scratch = RangeScratch::new(device, count, count * limit).unwrap();
    map.on(&stream).scan(&uploaded, limit as u32, &mut keys, &mut values, &mut counts, &mut scratch).unwrap();
    let (mut expected, mut expected_counts) = (vec![marked; count * limit + 1], vec![99; count + 1]);
    for (i, start) in starts.iter().enumerate() {
        let first = pairs.partition_point(|pair| pair.0 < *start);
        let found = &pairs[first..pairs.len().min(first + limit)];
        expected[i * limit..i * limit + found.len()].copy_from_slice(found);
        expected_counts[i] = found.len() as u32;
    }
    let found: Vec<(K, V)> = keys.to_vec().unwrap().into_iter().zip(values.to_vec().unwrap()).collect();
    assert!(found == expected, "{map:?}");
    assert_eq!(counts.to_vec().unwrap(), expected_counts, "{map:?}");
}

/// What a map still answers after inserts in place, and what it does not.
fn out_of_order<K: AnyKey, V: Word>(map: &MultiMap<K, V>, pairs: &[(K, V)], queries: &[K]) {
    let what = format!("{map:?}");
    let above = |key: &K| pairs.get(pairs.partition_point(|pair| pair.0 < *key)).copied();
    let below = |key: &K| pairs[..pairs.partition_point(|pair| pair.0 <= *key)].last().copied();
    assert_eq!(map.successor_many(queries).unwrap(), queries.iter().map(above).collect::<Vec<_>>(), "{what}");
    assert_eq!(map.predecessor_many(queries).unwrap(), queries.iter().map(below).collect::<Vec<_>>(), "{what}");
    assert!(matches!(
        map.lower_bound_many(queries),
        Err(Error::NotCompact { query: "lower_bound", restore: "restore_order" })
    ));
    assert!(matches!(
        map.upper_bound_many(queries),
        Err(Error::NotCompact { query: "upper_bound", restore: "restore_order" })
    ));
    let all = [KeyRange::new(..)];
    assert!(matches!(map.range_many(all), Err(Error::NotCompact { query: "range", restore: "restore_order" })));
    assert!(matches!(
        map.count_range_many(all),
        Err(Error::NotCompact { query: "count_range", restore: "restore_order" })
    ));
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    let (starts, mut counts) = (device.upload(&[K::MIN]).unwrap(), device.alloc(1).unwrap());
    let (mut keys, mut values) = (device.alloc(1).unwrap(), device.alloc(1).unwrap());
    let mut scratch = RangeScratch::new(device, 1, 1).unwrap();
    let scanned = map.on(&stream).scan(&starts, 1, &mut keys, &mut values, &mut counts, &mut scratch);
    assert!(matches!(scanned, Err(Error::NotCompact { query: "scan", restore: "restore_order" })));
    // Iteration goes by keys.
    if let Some(&(first, _)) = pairs.get(pairs.len() / 2) {
        let found: Vec<(K, V)> = map.range(KeyRange::new(first..).limit(50)).unwrap().map(Result::unwrap).collect();
        let from = pairs.partition_point(|pair| pair.0 < first);
        assert_eq!(found, pairs[from..pairs.len().min(from + 50)], "{what}");
    }
}

/// Ranks and neighbours, in both forms, of the pairs in order.
fn ranks_and_neighbors<K: AnyKey, V: Word>(map: &MultiMap<K, V>, pairs: &[(K, V)], queries: &[K]) {
    let what = format!("{map:?}");
    let lower = |key: &K| pairs.partition_point(|pair| pair.0 < *key);
    let upper = |key: &K| pairs.partition_point(|pair| pair.0 <= *key);
    let lowers: Vec<u64> = queries.iter().map(|key| lower(key) as u64).collect();
    let uppers: Vec<u64> = queries.iter().map(|key| upper(key) as u64).collect();
    let above: Vec<Option<(K, V)>> = queries.iter().map(|key| pairs.get(lower(key)).copied()).collect();
    let below: Vec<Option<(K, V)>> = queries.iter().map(|key| pairs[..upper(key)].last().copied()).collect();
    assert_eq!(map.lower_bound_many(queries).unwrap(), lowers, "{what}");
    assert_eq!(map.upper_bound_many(queries).unwrap(), uppers, "{what}");
    assert_eq!(map.successor_many(queries).unwrap(), above, "{what}");
    assert_eq!(map.predecessor_many(queries).unwrap(), below, "{what}");

    let (device, count) = (map.device(), queries.len());
    let stream = device.stream().unwrap();
    let (on, uploaded) = (|| map.on(&stream), device.upload(queries).unwrap());
    let (mut scratch, mut ranks) = (RangeScratch::new(device, count + 2, 0).unwrap(), device.alloc(count + 1).unwrap());
    for _ in 0..2 {
        on().upper_bound(&uploaded, &mut ranks, &mut scratch).unwrap();
        assert_eq!(ranks.to_vec().unwrap()[..count], uppers, "{what}");
        on().lower_bound(&uploaded, &mut ranks, &mut scratch).unwrap();
        assert_eq!(ranks.to_vec().unwrap()[..count], lowers, "{what}");
    }
    let (mut keys, mut values) = (device.alloc_zeroed(count).unwrap(), device.alloc(count).unwrap());
    let mut scratch = Scratch::new(device, count).unwrap();
    on().predecessor(&uploaded, &mut keys, &mut values, &mut scratch).unwrap();
    let of =
        |pairs: &[Option<(K, V)>]| -> Vec<V> { pairs.iter().map(|pair| pair.map_or(V::MAX, |pair| pair.1)).collect() };
    assert_eq!(values.to_vec().unwrap(), of(&below), "{what}");
    on().successor(&uploaded, &mut keys, &mut values, &mut scratch).unwrap();
    assert_eq!(values.to_vec().unwrap(), of(&above), "{what}");
}

/// The same queries in device form: once with room for all results, once with too little.
fn in_device_form<K: AnyKey, V: Word>(
    map: &MultiMap<K, V>,
    queries: &[K],
    (offsets, values): (&[u64], &[V]),
    ranges: &[(K, K, u64)],
    expected: &[Vec<(K, V)>],
) {
    let device = map.device();
    let stream = device.stream().unwrap();
    let on = || map.on(&stream);
    let uploaded = device.upload(queries).unwrap();
    let mut scratch = Scratch::new(device, queries.len() + 3).unwrap();
    for capacity in [values.len() + 5, values.len() / 2] {
        let mut out = DeviceRows::new(device, queries.len(), capacity).unwrap();
        on().get_all(&uploaded, &mut scratch, &mut out).unwrap();
        assert_eq!(out.offsets.to_vec().unwrap(), offsets);
        let written = values.len().min(capacity);
        assert!(out.values.to_vec().unwrap()[..written] == values[..written], "{map:?}");
    }
    let (mut counts, mut firsts) = (device.alloc(queries.len()).unwrap(), device.alloc(queries.len()).unwrap());
    on().count(&uploaded, &mut counts, &mut scratch).unwrap();
    on().first(&uploaded, &mut firsts, &mut scratch).unwrap();
    let rows: Vec<&[V]> = offsets.windows(2).map(|row| &values[row[0] as usize..row[1] as usize]).collect();
    assert!(counts.to_vec().unwrap().iter().eq(&rows.iter().map(|row| row.len() as u64).collect::<Vec<_>>()));
    assert!(firsts.to_vec().unwrap().into_iter().eq(rows.iter().map(|row| row.first().copied().unwrap_or(V::MAX))));

    let (starts, ends): (Vec<K>, Vec<K>) = ranges.iter().map(|&(start, end, _)| (start, end)).unzip();
    let limits: Vec<u64> = ranges.iter().map(|range| range.2).collect();
    let [starts, ends] = [starts, ends].map(|bounds| device.upload(&bounds).unwrap());
    let limits = device.upload(&limits).unwrap();
    let expected_pairs: Vec<(K, V)> = expected.iter().flatten().copied().collect();
    let (all, half) = (expected_pairs.len() + 5, expected_pairs.len() / 2);
    for (capacity, has_keys) in [(all, true), (half, true), (all, false), (half, false)] {
        let mut scratch = RangeScratch::new(device, ranges.len(), if has_keys { capacity } else { 0 }).unwrap();
        let mut out = match has_keys {
            true => DeviceRanges::new(device, ranges.len(), capacity).unwrap(),
            false => DeviceRanges::without_keys(device, ranges.len(), capacity).unwrap(),
        };
        on().limits(&limits).limit(33).range(&starts, &ends, &mut scratch, &mut out).unwrap();
        let found = out.offsets.to_vec().unwrap();
        let rows: Vec<Vec<(K, V)>> = expected.iter().map(|row| row.iter().copied().take(33).collect()).collect();
        assert!(found.windows(2).map(|row| row[1] - row[0]).eq(rows.iter().map(|row| row.len() as u64)), "{map:?}");
        let (wanted_keys, wanted): (Vec<K>, Vec<V>) = rows.into_iter().flatten().take(capacity).unzip();
        assert!(!has_keys || out.keys.to_vec().unwrap()[..wanted.len()] == wanted_keys, "{map:?}");
        assert!(out.values.to_vec().unwrap()[..wanted.len()] == wanted, "{map:?}");
        let mut counts = device.alloc(ranges.len()).unwrap();
        on().count_range(&starts, &ends, &mut counts, &mut scratch).unwrap();
        on().limits(&limits).count_range(&starts, &ends, &mut counts, &mut scratch).unwrap();
        assert!(counts.to_vec().unwrap().into_iter().eq(expected.iter().map(|row| row.len() as u64)), "{map:?}");
    }
}

/// Builds, and random batches of changes, with everything asked after each.
fn random<K: AnyKey, V: Word>(seed: u64, rounds: usize) {
    for device in devices() {
        let rng = &mut StdRng::seed_from_u64(seed);
        for space in [1, 40, 3000] {
            let len = rng.random_range(0..2500);
            let (keys, values) = batch::<K, V>(rng, len, space);
            let mut model = Model::new();
            insert(&mut model, &keys, &values);
            let mut map = MultiMap::build(&device, &keys, &values).unwrap();
            compare(&map, &model, rng, space);
            let (keys, values): (Vec<K>, Vec<V>) = flat(&model).into_iter().unzip();
            compare(&MultiMap::build_sorted(&device, &keys, &values).unwrap(), &model, rng, space);
            for round in 0..rounds {
                let len = rng.random_range(0..600);
                let (keys, values) = batch::<K, V>(rng, len, space);
                match round % 3 {
                    0 => {
                        insert(&mut model, &keys, &values);
                        let report = if round % 2 == 0 {
                            map.insert_many(&keys, &values)
                        } else {
                            let stream = device.stream().unwrap();
                            let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                            map.insert_on(&stream, &keys, &values)
                        };
                        assert_eq!(report.unwrap().inserted, len as u64);
                    }
                    1 => {
                        let pairs: Vec<(K, V)> = keys.into_iter().zip(values).collect();
                        let report = map.remove_pairs_many(&pairs).unwrap();
                        assert_eq!((report.removed, report.unmatched), remove_pairs(&mut model, &pairs), "{map:?}");
                    }
                    _ => {
                        let keys = &keys[..len / 40];
                        let report = if round % 2 == 0 {
                            map.remove_all_many(keys).unwrap()
                        } else {
                            let stream = device.stream().unwrap();
                            map.remove_all_on(&stream, &device.upload(keys).unwrap()).unwrap()
                        };
                        assert_eq!((report.removed, report.unmatched), remove_all(&mut model, keys), "{map:?}");
                    }
                }
                compare(&map, &model, rng, space);
            }
        }
    }
}

#[test]
fn maps_of_u32_to_u32() {
    random::<u32, u32>(1, 6);
}

#[test]
fn maps_of_u64_to_u32() {
    random::<u64, u32>(2, 6);
}

#[test]
fn maps_of_i64_to_u64() {
    random::<i64, u64>(3, 6);
}

#[test]
fn maps_of_f64_to_u64() {
    random::<F64, u64>(4, 6);
}

#[test]
fn maps_of_i32_to_u64() {
    random::<i32, u64>(5, 3);
}

/// Batches into maps with room, small enough to stay in place, and large ones; removals between.
fn in_place<K: AnyKey, V: Word>(seed: u64) {
    for device in devices() {
        let rng = &mut StdRng::seed_from_u64(seed);
        for (space, room) in [(1, 2.0), (40, 3.0), (3000, 1.0)] {
            let (keys, values) = batch::<K, V>(rng, 900, space);
            let mut model = Model::new();
            insert(&mut model, &keys, &values);
            let mut map = MultiMap::builder().room(room).fill(0.7).build(&device, &keys, &values).unwrap();
            let mut paths = Vec::new();
            for round in 0..12 {
                let len = rng.random_range(1..if round % 5 == 4 { 900 } else { 40 });
                let (keys, values) = batch::<K, V>(rng, len, space);
                insert(&mut model, &keys, &values);
                let report = map.insert_many(&keys, &values).unwrap();
                assert_eq!(report.inserted, len as u64);
                assert_eq!(map.is_ordered(), report.path == UpdatePath::Rebuilt);
                paths.push(report.path);
                compare(&map, &model, rng, space);
                if round == 3 {
                    compare(&map.try_clone().unwrap(), &model, rng, space);
                    let was_ordered = map.is_ordered();
                    assert_eq!((map.restore_order().unwrap(), map.restore_order().unwrap()), (!was_ordered, false));
                    compare(&map, &model, rng, space);
                }
                if round == 7 {
                    let pairs: Vec<(K, V)> = keys.iter().copied().zip(values).collect();
                    let report = map.remove_pairs_many(&pairs).unwrap();
                    assert_eq!((report.removed, report.unmatched), remove_pairs(&mut model, &pairs), "{map:?}");
                    compare(&map, &model, rng, space);
                }
                if round == 9 {
                    let report = map.remove_all_many(&keys[..1]).unwrap();
                    assert_eq!((report.removed, report.unmatched), remove_all(&mut model, &keys[..1]), "{map:?}");
                    compare(&map, &model, rng, space);
                }
            }
            // A key with nearly all values soon takes what room there is.
            let least = if space == 1 { 3 } else { 6 };
            assert!(paths.iter().filter(|&&path| path == UpdatePath::InPlace).count() >= least, "{space}: {paths:?}");
            // More than there is room for.
            let (many_keys, many_values) = batch::<K, V>(rng, 6000, space);
            insert(&mut model, &many_keys, &many_values);
            assert_eq!(map.insert_many(&many_keys, &many_values).unwrap().path, UpdatePath::Rebuilt);
            compare(&map, &model, rng, space);
            map.clear().unwrap();
            compare(&map, &Model::new(), rng, space);
            map.insert_many(&keys, &values).unwrap();
            map.compact().unwrap();
            assert_eq!(map.len(), 900);
        }
    }
}

#[test]
fn inserts_in_place_of_u32_to_u32() {
    in_place::<u32, u32>(8);
}

#[test]
fn inserts_in_place_of_i64_to_u64() {
    in_place::<i64, u64>(9);
}

#[test]
fn inserts_in_place_of_bytes_to_u32() {
    in_place::<Bytes16, u32>(10);
}

#[test]
fn aggregates_and_joins_of_a_map_that_was_changed_on_the_host_are_those_of_one_in_order() {
    let rng = &mut StdRng::seed_from_u64(11);
    for space in [3, 500, 1 << 40] {
        let (keys, values) = batch::<u64, u64>(rng, 5000, space);
        let values: Vec<u64> = values.iter().map(|value| value % 1000).collect();
        let mut map = MultiMap::build(&Device::host(), &keys, &values).unwrap();
        for _ in 0..4 {
            let (keys, values) = batch::<u64, u64>(rng, 200, space);
            let values: Vec<u64> = values.iter().map(|value| value % 1000).collect();
            map.insert_many(&keys, &values).unwrap();
            map.remove_all_many(&keys[..5]).unwrap();
            let pairs: Vec<(u64, u64)> = keys.iter().copied().zip(values).skip(9).step_by(3).collect();
            map.remove_pairs_many(&pairs).unwrap();
        }
        assert!(!map.is_ordered());
        let starts: Vec<u64> = (0..300).map(|_| key(rng, space)).collect();
        let ends: Vec<u64> = starts.iter().map(|start| start.saturating_add(key::<u64>(rng, space) / 50)).collect();
        let ask = |map: &MultiMap<u64, u64>| {
            let aggregates = [Aggregate::Sum, Aggregate::Min, Aggregate::Max, Aggregate::First, Aggregate::Last];
            let aggregates = aggregates.map(|of| map.aggregate_many::<u64>(of, &starts, &ends).unwrap());
            let joins = [Join::inner(), Join::left(), Join::semi(), Join::anti()];
            let joins = joins.map(|join| {
                let rows = map.range_join_many(&starts, &ends, Closed::Left, &join).unwrap();
                (rows, map.band_join_many(&starts, 2, &join).unwrap(), map.join_as_many(&starts, &join).unwrap())
            });
            (aggregates, joins)
        };
        let changed = ask(&map);
        assert!(map.restore_order().unwrap());
        assert!(changed == ask(&map), "keys below {space}");
    }
}

#[test]
fn maps_of_u128_to_u32() {
    random::<u128, u32>(6, 3);
}

#[test]
fn maps_of_bytes_to_u64() {
    random::<Bytes16, u64>(7, 3);
}

#[test]
fn an_empty_map_answers_and_grows() {
    for device in devices() {
        let mut map = MultiMap::<i64, u32>::build(&device, &[], &[]).unwrap();
        let rng = &mut StdRng::seed_from_u64(7);
        compare(&map, &Model::new(), rng, 10);
        assert_eq!(map.remove_all_many(&[3, 4]).unwrap().unmatched, 2);
        assert_eq!(map.remove_pairs_many(&[(3, 4)]).unwrap().unmatched, 1);
        let mut model = Model::from([(-5, vec![1, 1]), (3, vec![2])]);
        map.insert_many(&[3, -5, -5], &[2, 1, 1]).unwrap();
        compare(&map, &model, rng, 10);
        assert_eq!(map.remove_all_many(&[3, -5]).unwrap().removed, 3);
        model.clear();
        compare(&map, &model, rng, 10);
        map.insert_many(&[9], &[90]).unwrap();
        assert_eq!(map.remove_pairs_many(&[(9, 90), (9, 90), (8, 1)]).unwrap().unmatched, 2);
        compare(&map, &model, rng, 10);
    }
}

#[test]
fn rows_end_where_the_part_of_a_warp_ends_or_beside() {
    for device in devices() {
        for count in [1, 31, 32, 33, 255, 256, 257, 511, 512, 513] {
            let mut model = Model::from([(1_u64, vec![9_u32; 3]), (2, (0..count).collect()), (3, vec![7; 300])]);
            let (keys, values): (Vec<u64>, Vec<u32>) = flat(&model).into_iter().unzip();
            let mut map = MultiMap::build(&device, &keys, &values).unwrap();
            assert_eq!(map.get_all_many(&[2]).unwrap().values, model[&2]);
            assert_eq!(
                map.get_all_many(&[0, 2, 0, 2]).unwrap().offsets[1..],
                [0, 1, 1, 2].map(|i| i * u64::from(count))
            );
            assert_eq!(map.range_many([2..=2]).unwrap().values, model[&2]);
            let last = [(2, count - 1)];
            assert_eq!(map.remove_pairs_many(&last).unwrap().removed, remove_pairs(&mut model, &last).0);
            assert_eq!(map.pairs().unwrap(), flat(&model), "{count} on {device}");
        }
    }
}

#[test]
fn a_query_in_flight_reads_the_map_as_it_was() {
    let device = Device::emulated();
    let mut map = MultiMap::build(&device, &[1_u32, 2, 2, 3], &[10_u32, 20, 21, 30]).unwrap();
    let queries = device.upload(&[2, 3]).unwrap();
    let streams = [(); 8].map(|()| device.stream().unwrap());
    // The emulator's streams run late: when somebody waits for them.
    let in_flight = streams.each_ref().map(|stream| {
        let (mut scratch, mut out) = (Scratch::new(&device, 2).unwrap(), DeviceRows::new(&device, 2, 3).unwrap());
        map.on(stream).get_all(&queries, &mut scratch, &mut out).unwrap();
        out
    });
    map.remove_all_many(&[2]).unwrap();
    map.insert_many(&[3, 2], &[31, 29]).unwrap();
    for out in in_flight {
        assert_eq!(out.offsets.to_vec().unwrap(), [0, 2, 3]);
        assert_eq!(out.values.to_vec().unwrap(), [20, 21, 30]);
    }
    assert_eq!(map.get_all_many(&[2, 3]).unwrap().values, [29, 30, 31]);
}

/// So many values of one key, among others.
fn many(device: &Device, count: usize) {
    let (neighbors, key) = ([3_u64, 7, 11], 7);
    let mut keys = neighbors.to_vec();
    keys.extend(vec![key; count]);
    let mut values: Vec<u32> = vec![30, 70, 110];
    values.extend((0..count as u32).map(|i| i % 1000));
    let mut map = MultiMap::build(device, &keys, &values).unwrap();
    // The memory of the values, and of three keys.
    assert!(map.bytes() < (4 * count + 40_000) as u64, "{:?}", map.stats());
    let mut expected = vec![70];
    expected.extend((0..count as u32).map(|i| i % 1000));
    let found = map.get_all_many(&[key, 11, 8, key]).unwrap();
    assert!((found.get(0), found.get(1), found.get(3)) == (&expected[..], &[110][..], &expected[..]));
    let all = map.range_many([4..=7]).unwrap();
    assert!(all.values == expected && all.keys.iter().all(|&found| found == key));
    // Half of the pairs with a value, among them the first one.
    let often = expected.iter().filter(|&&value| value == 70).count();
    let report = map.remove_pairs_many(&vec![(key, 70); often / 2]).unwrap();
    assert_eq!((report.removed, report.unmatched), (often as u64 / 2, 0));
    let mut left = often / 2;
    expected.retain(|&value| {
        let goes = value == 70 && left > 0;
        left -= usize::from(goes);
        !goes
    });
    assert!(map.get_all_many(&[key]).unwrap().values == expected);
    map.insert_many(&vec![key; 5000], &vec![1; 5000]).unwrap();
    expected.extend([1; 5000]);
    assert!(map.get_all_many(&[key]).unwrap().values == expected);
    assert_eq!(map.remove_all_many(&[key]).unwrap().removed, expected.len() as u64);
    assert_eq!(map.pairs().unwrap(), [(3, 30), (11, 110)]);
}

#[test]
fn a_key_with_2_to_the_20_values_on_the_host() {
    many(&Device::host(), 1 << 20);
}

#[test]
fn a_key_with_2_to_the_20_values_emulated() {
    many(&Device::emulated(), 1 << 20);
}

/// Bytes per pair, of 2^18 pairs with random keys and `values_of_a_key` values each.
fn bytes_per_pair<K: AnyKey, V: Word>(values_of_a_key: usize) -> f64 {
    let rng = &mut StdRng::seed_from_u64(8);
    let len = 1 << 18;
    let distinct: Vec<K> = (0..len / values_of_a_key).map(|_| K::decode(K::Bits::truncate(rng.random()))).collect();
    let keys: Vec<K> = (0..len).map(|i| distinct[i / values_of_a_key]).collect();
    let map = MultiMap::build(&Device::host(), &keys, &vec![V::MIN; len]).unwrap();
    map.bytes() as f64 / map.len() as f64
}

#[test]
fn a_pair_takes_what_the_documentation_says() {
    let near = |actual: f64, said: f64| assert!((actual / said - 1.0).abs() < 0.05, "{actual}, not {said}");
    near(bytes_per_pair::<u32, u32>(1), 21.6);
    near(bytes_per_pair::<u32, u32>(4), 8.42);
    near(bytes_per_pair::<u32, u32>(16), 5.13);
    near(bytes_per_pair::<u64, u64>(1), 25.7);
    near(bytes_per_pair::<u64, u64>(4), 12.4);
    near(bytes_per_pair::<u64, u64>(16), 9.13);
}

#[test]
fn a_build_from_buffers_leaves_them_as_they_are() {
    for device in devices() {
        let (keys, values) = (device.upload(&[4_i32, -1, 4, 9]).unwrap(), device.upload(&[1_u64, 2, 3, 4]).unwrap());
        let stream = device.stream().unwrap();
        let map = MultiMap::build_on(&stream, &keys, &values, 3).unwrap();
        assert_eq!(map.pairs().unwrap(), [(-1, 2), (4, 1), (4, 3)]);
        assert_eq!(keys.to_vec().unwrap(), [4, -1, 4, 9]);
        let error = MultiMap::build_on(&stream, &keys, &values, 5).unwrap_err();
        assert_eq!(error.to_string(), "the keys' buffer holds 4 elements, but 5 are needed; allocate at least 5");
    }
}

fn message<T: Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_named() {
    for device in devices() {
        let mut map = MultiMap::build(&device, &[1_u32, 2], &[10_u32, 20]).unwrap();
        let lengths = "2 keys but 1 values: give one value per key";
        assert_eq!(message(MultiMap::build(&device, &[1_u32, 2], &[10_u32])), lengths);
        assert_eq!(message(MultiMap::build_sorted(&device, &[1_u32, 2], &[10_u32])), lengths);
        assert_eq!(message(map.insert_many(&[1, 2], &[10])), lengths);
        assert_eq!(
            message(MultiMap::build_sorted(&device, &[2_u32, 1], &[10_u32, 20])),
            "keys[1] = 1 is below keys[0] = 2: sort the pairs, or use the build that sorts them"
        );
        let reversed = KeyRange::new((Bound::Included(2), Bound::Included(1)));
        let text = "range 0 starts at 2 and ends at 1, before its start: swap the bounds, or leave it out";
        assert_eq!(message(map.range_many([reversed])), text);
        assert_eq!(message(map.count_range_many([reversed])), text);

        let stream = device.stream().unwrap();
        let batch = (device.upload(&[1_u32, 2]).unwrap(), device.upload(&[10_u32]).unwrap());
        assert_eq!(message(map.insert_on(&stream, &batch.0, &batch.1)), lengths);
        let elsewhere = Device::emulated().upload(&[1_u32, 2]).unwrap();
        assert!(message(map.insert_on(&stream, &batch.0, &elsewhere)).contains("the values' buffer"));
        assert!(message(map.remove_all_on(&stream, &elsewhere)).contains("the keys' buffer"));
        let queries = device.upload(&[1_u32; 4]).unwrap();
        let (mut short, mut scratch) = (Scratch::new(&device, 3).unwrap(), Scratch::new(&device, 4).unwrap());
        let mut rows = DeviceRows::new(&device, 4, 4).unwrap();
        let on = || map.on(&stream);
        let text = "the scratch memory holds 3 elements, but 4 are needed; allocate at least 4";
        assert_eq!(message(on().get_all(&queries, &mut short, &mut rows)), text);
        let mut rows = DeviceRows::new(&device, 3, 4).unwrap();
        let text = "the offsets' buffer holds 4 elements, but 5 are needed; allocate at least 5";
        assert_eq!(message(on().get_all(&queries, &mut scratch, &mut rows)), text);
        let mut out = DeviceRanges::new(&device, 4, 9).unwrap();
        let mut ranges = RangeScratch::new(&device, 4, 8).unwrap();
        let text = "the scratch memory holds 8 elements, but 9 are needed; allocate at least 9";
        assert_eq!(message(on().limit(1).range(&queries, &queries, &mut ranges, &mut out)), text);
        let mut scanned = (device.alloc(8).unwrap(), device.alloc(8).unwrap(), device.alloc(4).unwrap());
        let text = "the scratch memory holds 8 elements, but 12 are needed; allocate at least 12";
        let mut longer = (device.alloc(12).unwrap(), device.alloc(12).unwrap());
        let scan = on().scan(&queries, 3, &mut longer.0, &mut longer.1, &mut scanned.2, &mut ranges);
        assert_eq!(message(scan), text);
        let text = "the keys' buffer holds 8 elements, but 12 are needed; allocate at least 12";
        let scan = on().scan(&queries, 3, &mut scanned.0, &mut scanned.1, &mut scanned.2, &mut ranges);
        assert_eq!(message(scan), text);
        let text = "2 starts but 1 ends: give one of each per range";
        assert_eq!(message(map.count_between_many(&[1, 2], &[3])), text);
        for (room, value) in [(-1.0, "-1"), (f64::NAN, "NaN"), (17.0, "17")] {
            let refused = MultiMap::<u32, u32>::builder().room(room).build(&device, &[1], &[2]);
            assert!(message(refused).contains(value));
        }
        assert!(message(MultiMap::builder().fill(1.5).build(&device, &[1_u32], &[2_u32])).contains("1.5"));
        let (keys, values) = (device.upload(&[2_u32, 1]).unwrap(), device.upload(&[10_u32, 20]).unwrap());
        assert_eq!(
            message(MultiMap::build_sorted_on(&stream, &keys, &values, 2)),
            "keys[1] = 1 is below keys[0] = 2: sort the pairs, or use the build that sorts them"
        );
        assert_eq!(MultiMap::build_sorted_on(&stream, &keys, &values, 1).unwrap().pairs().unwrap(), [(2, 10)]);
        let mut ranks = device.alloc(3).unwrap();
        let text = "the ranks' buffer holds 3 elements, but 4 are needed; allocate at least 4";
        assert_eq!(message(on().lower_bound(&queries, &mut ranks, &mut ranges)), text);
        assert_eq!(message(on().upper_bound(&queries, &mut ranks, &mut ranges)), text);
        let mut found = (device.alloc(4).unwrap(), device.alloc(4).unwrap());
        let text = "the scratch memory holds 3 elements, but 4 are needed; allocate at least 4";
        assert_eq!(message(on().miss(0).predecessor(&queries, &mut found.0, &mut found.1, &mut short)), text);
        assert_eq!(message(on().miss(0).successor(&queries, &mut found.0, &mut found.1, &mut short)), text);
        let fewer = device.upload(&[1_u32; 3]).unwrap();
        let text = "4 starts but 3 ends: give one of each per range";
        assert_eq!(message(on().limit(1).range(&queries, &fewer, &mut ranges, &mut out)), text);
        let other = if device == Device::host() { Device::emulated() } else { Device::host() };
        let elsewhere = other.upload(&[1_u32; 4]).unwrap();
        let mut counts = device.alloc(4).unwrap();
        assert!(matches!(on().count(&elsewhere, &mut counts, &mut scratch), Err(Error::Runtime(_))));
    }
}

/// A change of a map.
type Change = fn(&mut MultiMap<i64, u32>) -> Result<(), Error>;

#[test]
fn a_failed_change_changes_nothing_whatever_fails() {
    let changes: [Change; 3] = [
        |map| map.insert_many(&[5, -2, 9, 5], &[1, 2, 3, 4]).map(drop),
        |map| map.remove_all_many(&[5, 6, 30]).map(drop),
        |map| map.remove_pairs_many(&[(5, 0), (7, 7), (9, 3)]).map(drop),
    ];
    let keys: Vec<i64> = (0..300).map(|i| i % 40).collect();
    let values: Vec<u32> = (0..300).collect();
    let before = {
        let mut model = Model::new();
        insert(&mut model, &keys, &values);
        flat(&model)
    };
    for change in changes {
        let mut after = MultiMap::build(&Device::host(), &keys, &values).unwrap();
        change(&mut after).unwrap();
        let after = after.pairs().unwrap();
        assert_ne!(before, after);
        let failed = Failure::at_every_point(
            |device| MultiMap::build(device, &keys, &values).unwrap(),
            change,
            |map, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                assert_eq!(map.pairs().unwrap(), before, "{error}");
                change(map).unwrap();
                assert_eq!(map.pairs().unwrap(), after);
            },
        );
        assert!(failed.len() > 40, "{}", failed.len());
    }
}

#[test]
fn an_insert_in_place_that_fails_changes_nothing_or_loses_the_map() {
    let keys: Vec<i64> = (0..300).map(|i| i % 40).collect();
    let values: Vec<u32> = (0..300).collect();
    // A key with one value more, which moves; one that is new; and after the first batch some that stay.
    let change: Change = |map| map.insert_many(&[5, -2, 9, 5, 50], &[1, 2, 3, 4, 5]).map(drop);
    let build = |device: &Device| {
        let mut map = MultiMap::builder().room(1.0).fill(0.7).build(device, &keys, &values).unwrap();
        map.insert_many(&[5, 6], &[7, 8]).unwrap();
        map
    };
    let before = build(&Device::host());
    let mut after = build(&Device::host());
    change(&mut after).unwrap();
    let [before, after] = [before, after].map(|map| map.pairs().unwrap());
    let lost = AtomicU64::new(0);
    let failed = Failure::at_every_point(build, change, |map, error| {
        if map.is_lost() {
            lost.fetch_add(1, Ordering::Relaxed);
            assert!(matches!(error, Error::Lost { .. }), "{error}");
            assert!(matches!(map.get_all_many(&[5]), Err(Error::Lost { .. })));
            assert!(matches!(map.pairs(), Err(Error::Lost { .. })));
            assert!(matches!(map.restore_order(), Err(Error::Lost { .. })));
            assert!(matches!(map.clear(), Err(Error::Lost { .. })));
            assert!(matches!(change(map), Err(Error::Lost { .. })));
            return;
        }
        assert!(matches!(error, Error::Runtime(_)), "{error}");
        assert_eq!(map.pairs().unwrap(), before, "{error}");
        change(map).unwrap();
        assert_eq!(map.pairs().unwrap(), after);
    });
    let lost = lost.into_inner();
    assert!(failed.len() > 40 && lost < 20, "{} failed, {lost} lost", failed.len());
    // The last kernel writes the tree. Where not all points are tried, that one is not always among them.
    let mut was_lost = None;
    for kernel in 0.. {
        let device = Device::emulated_with_seed(kernel);
        let mut map = build(&device);
        device.inject(Some(Failure::Kernel(kernel)));
        let result = change(&mut map);
        if device.inject(None).is_some() {
            result.unwrap();
            break;
        }
        was_lost = Some(map.is_lost());
    }
    assert_eq!(was_lost, Some(true));
}

/// A query of a map.
type Query = fn(&MultiMap<i64, u32>) -> Result<(), Error>;

#[test]
fn builds_and_queries_say_that_they_failed() {
    let keys: Vec<i64> = (0..300).map(|i| i % 40).collect();
    let values: Vec<u32> = (0..300).collect();
    let built = Failure::at_every_point(
        |device| (device.clone(), None),
        |(device, map)| MultiMap::build(device, &keys, &values).map(|built| *map = Some(built)),
        |(_, map), error| assert!(map.is_none() && matches!(error, Error::Runtime(_)), "{error}"),
    );
    assert!(built.len() > 30, "{}", built.len());
    let queries: [Query; 16] = [
        |map| map.last_many(&[1, 2, 3]).map(drop),
        |map| map.contains_many(&[1, 2, 3]).map(drop),
        |map| map.count_between_many(&[1, 2], &[3, 3]).map(drop),
        |map| map.range_between_many_into(&[1, 2], &[3, 3], &mut Ranges::default()),
        |map| map.range(3..9)?.try_for_each(|pair| pair.map(drop)),
        |map| map.try_clone().map(drop),
        |map| map.lower_bound_many(&[1, 2, 3]).map(drop),
        |map| map.upper_bound_many(&[1, 2, 3]).map(drop),
        |map| map.predecessor_many(&[1, 2, 3]).map(drop),
        |map| map.successor_many(&[1, 2, 3]).map(drop),
        |map| map.get_all_many(&[1, 2, 3]).map(drop),
        |map| map.count_many(&[1, 2, 3]).map(drop),
        |map| map.first_many(&[1, 2, 3]).map(drop),
        |map| map.range_many([1..=4]).map(drop),
        |map| map.count_range_many([1..=4]).map(drop),
        |map| map.pairs().map(drop),
    ];
    for query in queries {
        let failed = Failure::at_every_point(
            |device| MultiMap::build(device, &keys, &values).unwrap(),
            |map| query(map),
            |map, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                query(map).unwrap();
            },
        );
        assert!(failed.len() > 3, "{}", failed.len());
    }
}

#[test]
fn a_map_on_a_pool_gives_back_what_changes_took() {
    let pool = Pool::new(&Device::emulated());
    let keys: Vec<u32> = (0..20_000).map(|i| i / 3).collect();
    let values = vec![7_u64; keys.len()];
    let mut map = MultiMap::build(&pool.device(), &keys, &values).unwrap();
    map.insert_many(&keys[..100], &values[..100]).unwrap();
    // Blocks of a pool are up to a quarter larger than what is in them.
    let in_use = pool.stats().in_use as u64;
    assert!((map.bytes()..map.bytes() * 5 / 4 + 4096).contains(&in_use), "{in_use} bytes for {:?}", map.stats());
}
