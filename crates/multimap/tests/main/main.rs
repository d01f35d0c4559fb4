//! A multi-map answers as a `BTreeMap` of vectors does: on the host and with its kernels emulated, in host form and in device
//! form, and whatever fails meanwhile.

mod failures;
mod model;

use lanetree::multimap::{DeviceRows, Scratch};
use lanetree::{Aggregate, AnyKey, Bytes16, Closed, Device, F64, Join, KeyWord, MultiMap, UpdatePath, Word};
use model::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

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
