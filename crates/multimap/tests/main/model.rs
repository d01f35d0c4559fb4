//! What a map is compared with, and the comparison.

use lanetree::multimap::{DeviceRows, RangeScratch, Scratch};
use lanetree::{AnyKey, Device, DeviceKind, DeviceRanges, Error, KeyRange, KeyWord, MultiMap, Ranges, Word};
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeMap;

pub(crate) type Model<K, V> = BTreeMap<K, Vec<V>>;

pub(crate) fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

/// Few keys, so that they repeat; both ends of the key space; anything.
pub(crate) fn key<K: AnyKey>(rng: &mut StdRng, space: u64) -> K {
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
pub(crate) fn value<V: Word>(rng: &mut StdRng) -> V {
    V::truncate(if rng.random_bool(0.1) { rng.random() } else { rng.random_range(0..6) })
}

pub(crate) fn batch<K: AnyKey, V: Word>(rng: &mut StdRng, len: usize, space: u64) -> (Vec<K>, Vec<V>) {
    (0..len).map(|_| (key::<K>(rng, space), value::<V>(rng))).unzip()
}

pub(crate) fn insert<K: AnyKey, V: Word>(model: &mut Model<K, V>, keys: &[K], values: &[V]) {
    for (&key, &value) in keys.iter().zip(values) {
        model.entry(key).or_default().push(value);
    }
}

/// How many pairs were removed.
pub(crate) fn remove_all<K: AnyKey, V: Word>(model: &mut Model<K, V>, keys: &[K]) -> (u64, u64) {
    let removed: Vec<_> = keys.iter().map(|key| model.remove(key)).collect();
    let unmatched = removed.iter().filter(|removed| removed.is_none()).count() as u64;
    (removed.iter().flatten().map(Vec::len).sum::<usize>() as u64, unmatched)
}

pub(crate) fn remove_pairs<K: AnyKey, V: Word>(model: &mut Model<K, V>, pairs: &[(K, V)]) -> (u64, u64) {
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

pub(crate) fn flat<K: AnyKey, V: Word>(model: &Model<K, V>) -> Vec<(K, V)> {
    model.iter().flat_map(|(&key, values)| values.iter().map(move |&value| (key, value))).collect()
}

/// The pairs of a range whose end may be below its start.
pub(crate) fn row<K: AnyKey, V: Word>(model: &Model<K, V>, start: K, end: K, limit: u64) -> Vec<(K, V)> {
    let all = if start <= end { Some(model.range(start..=end)) } else { None };
    let pairs = all.into_iter().flatten().flat_map(|(&key, values)| values.iter().map(move |&value| (key, value)));
    pairs.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
}

/// Asks everything, in both forms.
pub(crate) fn compare<K: AnyKey, V: Word>(map: &MultiMap<K, V>, model: &Model<K, V>, rng: &mut StdRng, space: u64) {
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
pub(crate) fn between<K: AnyKey, V: Word>(map: &MultiMap<K, V>, model: &Model<K, V>, queries: &[K]) {
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
pub(crate) fn scans<K: AnyKey, V: Word>(map: &MultiMap<K, V>, pairs: &[(K, V)], starts: &[K], limit: usize) {
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
pub(crate) fn out_of_order<K: AnyKey, V: Word>(map: &MultiMap<K, V>, pairs: &[(K, V)], queries: &[K]) {
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
pub(crate) fn ranks_and_neighbors<K: AnyKey, V: Word>(map: &MultiMap<K, V>, pairs: &[(K, V)], queries: &[K]) {
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
pub(crate) fn in_device_form<K: AnyKey, V: Word>(
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
