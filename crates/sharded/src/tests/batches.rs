//! Look-ups, ranks and neighbours of batches on devices, and of host batches that devices or the CPU partition: against a map.

use super::{
    Index, Map, below, column, compare_keys, devices_for_tests, each_failure, emulated, mask, on, predecessor, sharded,
    successor, synchronize, tens, through,
};
use crate::Sharded;
use lanetree::runtime::Failure;
use lanetree::{Device, LaneTree, OrderedIndex, Result};
use lanetree_frame::{AnyKey, Word};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Compares every query in device form with a map's, with the batch on the device of a shard.
fn compare_on_devices(index: &Index, shard: usize, map: &Map, keys: &[u64], is_sorted: bool) -> Result<()> {
    const MISS: u64 = 0x1234;
    let device = &index.stats()[shard].device;
    // A stream for each query, and the results read when all have been asked for.
    let streams = (0..6).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
    let on = |query: usize| on(index, &streams[query], is_sorted);
    let queries = device.upload(keys)?;
    let (count, bits) = (keys.len(), keys.len().div_ceil(32));
    let words = || device.upload(&vec![7_u64; count + 1]);
    let masks = || device.upload(&vec![7_u32; bits + 1]);
    let (mut values, mut value_hits, mut hits) = (words()?, masks()?, masks()?);
    on(0).hits(&mut value_hits).miss(MISS).get(&queries, &mut values)?;
    on(1).contains(&queries, &mut hits)?;
    let (mut lower, mut upper) = (words()?, words()?);
    on(2).lower_bound(&queries, &mut lower)?;
    on(3).upper_bound(&queries, &mut upper)?;
    let (mut before, mut before_values, mut before_hits) = (words()?, words()?, masks()?);
    on(4).hits(&mut before_hits).miss(MISS).predecessor(&queries, &mut before, &mut before_values)?;
    let (mut after, mut after_values) = (words()?, words()?);
    on(5).miss(MISS).successor(&queries, &mut after, &mut after_values)?;
    drop(queries);

    let what = format!("{count} queries on the device of shard {shard}, sorted: {is_sorted}");
    // The element past the last result is as it was.
    let mask = |is_hit: &dyn Fn(u64) -> bool| mask(keys, is_hit).into_iter().chain([7]).collect::<Vec<_>>();
    let all = |of: &dyn Fn(u64) -> u64| keys.iter().map(|&key| of(key)).chain([7]).collect::<Vec<_>>();
    let value = |pair: Option<(u64, u64)>| pair.map_or(MISS, |pair| pair.1);
    let (last, first) = (|key| predecessor(map, key), |key| successor(map, key));
    assert_eq!(values.to_vec()?, all(&|key| map.get(&key).copied().unwrap_or(MISS)), "{what}");
    assert_eq!(value_hits.to_vec()?, mask(&|key| map.contains_key(&key)), "{what}");
    assert_eq!(hits.to_vec()?, mask(&|key| map.contains_key(&key)), "{what}");
    assert_eq!(lower.to_vec()?, all(&|key| below(map, key)), "{what}");
    assert_eq!(upper.to_vec()?, all(&|key| through(map, key)), "{what}");
    assert_eq!(before_values.to_vec()?, all(&|key| value(last(key))), "{what}");
    assert_eq!(before_hits.to_vec()?, mask(&|key| last(key).is_some()), "{what}");
    assert_eq!(after_values.to_vec()?, all(&|key| value(first(key))), "{what}");
    let (before, after) = (before.to_vec()?, after.to_vec()?);
    for (i, &key) in keys.iter().enumerate() {
        assert!(last(key).is_none_or(|pair| pair.0 == before[i]), "{what}: predecessor of {key}");
        assert!(first(key).is_none_or(|pair| pair.0 == after[i]), "{what}: successor of {key}");
    }
    Ok(())
}

/// Batches of several pieces, in every order.
fn batches(random: &mut StdRng, map: &Map, splitters: &[u64]) -> Vec<Vec<u64>> {
    let most = map.last_key_value().map_or(100, |(key, _)| key + 10);
    let any: Vec<u64> = (0..2 * 2048 + 77).map(|_| random.random_range(0..most)).collect();
    let one_shard =
        any.iter().take(2100).map(|key| key % splitters.first().map_or(50, |first| (*first).max(1))).collect();
    let borders = splitters.iter().flat_map(|&key| [key, key.saturating_sub(1), key.saturating_add(1)]);
    vec![any, one_shard, borders.chain([0, u64::MAX]).collect(), vec![7], Vec::new()]
}

#[test]
fn batches_on_devices_are_answered_by_all_of_them() -> Result<()> {
    let mut random = StdRng::seed_from_u64(42);
    for devices in devices_for_tests() {
        let map: Map = (0..500).map(|_| (random.random_range(0..3000) * 7, random.random())).collect();
        let mut index = sharded(&devices, &map)?;
        let splitters = index.parts.splitters.clone();
        for (number, mut keys) in batches(&mut random, &map, &splitters).into_iter().enumerate() {
            let shard = random.random_range(0..devices.len());
            // Pieces of one or two blocks, so that slots are used again.
            index.set_pieces(if number % 2 == 0 { 4096 } else { 2048 }, 2);
            compare_on_devices(&index, shard, &map, &keys, false)?;
            // A hint that is wrong changes no answer.
            compare_on_devices(&index, shard, &map, &keys, true)?;
            keys.sort_unstable();
            compare_on_devices(&index, shard, &map, &keys, true)?;
        }
    }
    Ok(())
}

#[test]
fn host_batches_are_partitioned_by_the_cpu_or_the_devices() -> Result<()> {
    let mut random = StdRng::seed_from_u64(43);
    for devices in devices_for_tests() {
        let map: Map = (0..500).map(|_| (random.random_range(0..3000) * 7, random.random())).collect();
        let mut index = sharded(&devices, &map)?;
        index.set_pieces(2048, 2);
        let splitters = index.parts.splitters.clone();
        for mut keys in batches(&mut random, &map, &splitters) {
            for (is_sorted, min_staged) in [(false, usize::MAX), (false, 1), (true, usize::MAX), (true, 1)] {
                index.min_staged = min_staged;
                if is_sorted {
                    keys.sort_unstable();
                }
                compare_keys(&index, &map, &keys)?;
                let device = &devices[0];
                let (mut from, mut to) = (device.pinned(keys.len())?, device.pinned(keys.len())?);
                let mut hits = device.pinned::<u32>(keys.len().div_ceil(32))?;
                from.copy_from_slice(&keys);
                index.get_many_pinned(&from, 3, &mut to, Some(&mut hits))?;
                assert!(to.iter().copied().eq(keys.iter().map(|key| map.get(key).copied().unwrap_or(3))));
                assert_eq!(hits[..], mask(&keys, |key| map.contains_key(&key)));
            }
        }
    }
    Ok(())
}

/// A sorted batch is cut into slices, which only a batch that ascends may be.
#[test]
fn a_hint_that_is_wrong_changes_no_value() -> Result<()> {
    let (devices, map) = (emulated(3), tens(60));
    let mut index = sharded(&devices, &map)?;
    index.set_pieces(2048, 2);
    let stream = devices[1].stream()?;
    let mut random = StdRng::seed_from_u64(44);
    let any: Vec<u64> = (0..5000).map(|_| random.random_range(0..700)).collect();
    let mut one_descends: Vec<u64> = any.clone();
    one_descends.sort_unstable();
    one_descends[4999] = 0;
    for keys in [any, one_descends, vec![600, 0]] {
        let mut values = devices[1].alloc(keys.len())?;
        index.on(&stream).sorted().get(&devices[1].upload(&keys)?, &mut values)?;
        let expected = keys.iter().map(|key| map.get(key).copied().unwrap_or(u64::MAX));
        assert!(values.to_vec()?.into_iter().eq(expected));
    }
    Ok(())
}

#[test]
fn batches_on_devices_have_errors_that_name_the_value() -> Result<()> {
    let (first, second) = (Device::emulated(), Device::emulated());
    let map = tens(60);
    let index = sharded(&[first.clone(), second.clone()], &map)?;
    let stream = first.stream()?;
    let (here, there) = (first.upload(&[1_u64, 2])?, second.upload(&[1_u64, 2])?);
    let (mut two, mut one) = (first.alloc(2)?, first.alloc(1)?);
    let text = |result: Result<()>| result.expect_err("an error").to_string();
    let error = text(index.on(&stream).miss(0).get(&there, &mut two));
    assert!(error.contains("the queries' buffer"), "{error}");
    let error = text(index.on(&stream).miss(0).get(&here, &mut one));
    assert!(error.contains("the values' buffer"), "{error}");
    let other = Device::emulated();
    let error = text(index.on(&other.stream()?).miss(0).get(&here, &mut two));
    assert!(error.contains("the stream"), "{error}");
    let mixed = sharded(&[first.clone(), Device::host()], &map)?;
    let error = text(mixed.on(&stream).miss(0).get(&here, &mut two));
    assert!(error.contains("lanetree on") && error.contains("host"), "{error}");
    assert_eq!(mixed.get_many(&[10, 590, 5])?, [Some(1), Some(59), None]);
    Ok(())
}

/// Batches of both ways at once, each on a device of its own and several on one; results are dropped before copies are done, and
/// queries written over.
#[test]
fn batches_on_several_devices_at_once_do_not_mix() -> Result<()> {
    let devices: Vec<_> = (7..10).map(Device::emulated_with_seed).collect();
    let map: Map = (0..900).map(|i| (i * 11, !i)).collect();
    for slots in [1, 2, 3] {
        let mut index = sharded(&devices, &map)?;
        index.set_pieces(2048, slots);
        let ask = |thread: usize| -> Result<()> {
            let mut random = StdRng::seed_from_u64(thread as u64);
            let device = &devices[thread % 3];
            let (stream, mut queries) = (device.stream()?, device.alloc(9000)?);
            for round in 0..2 {
                let mut keys: Vec<u64> = (0..9000).map(|_| random.random_range(0..10_000)).collect();
                let is_sorted = (thread + round).is_multiple_of(2);
                if is_sorted {
                    keys.sort_unstable();
                }
                // Work of the caller's stream that comes before the batch.
                let source = device.upload(&keys)?;
                queries.copy_from_buffer(&stream, 0, &source, 0..9000)?;
                let on = || on(&index, &stream, is_sorted);
                let (mut dropped, mut values) = (device.alloc(9000)?, device.alloc(9000)?);
                on().miss(1).get(&queries, &mut dropped)?;
                drop(dropped);
                on().miss(2).get(&queries, &mut values)?;
                // Comes after all that reads them.
                queries.fill_zero(&stream)?;
                let expected = keys.iter().map(|key| map.get(key).copied().unwrap_or(2));
                assert!(values.to_vec()?.into_iter().eq(expected), "thread {thread}, round {round}, {slots} slots");
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let ask = &ask;
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || ask(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
    }
    Ok(())
}

/// A batch whose queries are all of one shard, in pieces, on each device and in both orders: a bucket takes a whole piece.
#[test]
fn a_shard_may_have_all_queries() -> Result<()> {
    let devices: Vec<_> = (3..6).map(Device::emulated_with_seed).collect();
    let map = tens(300);
    let mut index = sharded(&devices, &map)?;
    index.set_pieces(2048, 2);
    let splitters = index.parts.splitters.clone();
    for shard in 0..3 {
        let first = if shard == 0 { 0 } else { splitters[shard - 1] };
        let last = splitters.get(shard).map_or(3100, |key| key - 1);
        let keys: Vec<u64> = (0..4 * 2048 + 5).map(|i| first + i * (last - first) / (4 * 2048 + 4)).collect();
        for home in 0..3 {
            compare_on_devices(&index, home, &map, &keys, true)?;
            let backwards: Vec<u64> = keys.iter().rev().copied().collect();
            compare_on_devices(&index, home, &map, &backwards, false)?;
        }
    }
    Ok(())
}

/// Elements that are not as wide as the words in which they are copied, in numbers that don't fill them.
fn narrow_and_wide<K: AnyKey, V: Word>(key: fn(u64) -> K, value: fn(u64) -> V) -> Result<()>
where
    LaneTree<K, V>: OrderedIndex<Domain = K, Value = V>,
{
    let devices: Vec<_> = (11..14).map(Device::emulated_with_seed).collect();
    let (keys, values): (Vec<K>, Vec<V>) = (0..700).map(|i| (key(i * 3), value(i))).unzip();
    let mut index = Sharded::build(&devices, LaneTree::builder(), &keys, &values)?;
    index.set_pieces(2048, 2);
    let mut random = StdRng::seed_from_u64(46);
    for count in [1, 33, 2049, 5 * 2048 + 1] {
        let mut numbers: Vec<u64> = (0..count).map(|_| random.random_range(0..2100)).collect();
        for is_sorted in [false, true] {
            if is_sorted {
                numbers.sort_unstable();
            }
            let stream = devices[1].stream()?;
            let queries = column(&devices[1], &numbers, |&i| key(i))?;
            let (mut plain, mut found) = (devices[1].upload(&vec![value(9); count + 1])?, devices[1].alloc(count)?);
            let mut hits = devices[1].alloc(count.div_ceil(32))?;
            let on = || on(&index, &stream, is_sorted);
            on().miss(value(7000)).get(&queries, &mut plain)?;
            on().miss(value(8000)).hits(&mut hits).get(&queries, &mut found)?;
            let (plain, found, hits) = (plain.to_vec()?, found.to_vec()?, hits.to_vec()?);
            assert!(plain[count] == value(9), "past the last result");
            for (i, &number) in numbers.iter().enumerate() {
                let is_hit = number % 3 == 0;
                let expected = |miss| if is_hit { value(number / 3) } else { value(miss) };
                assert!(plain[i] == expected(7000) && found[i] == expected(8000), "{number}, sorted: {is_sorted}");
                assert_eq!(hits[i / 32] >> (i % 32) & 1 == 1, is_hit, "{number}, sorted: {is_sorted}");
            }
        }
    }
    Ok(())
}

#[test]
fn keys_and_values_may_be_narrow_and_wide() -> Result<()> {
    narrow_and_wide::<u32, u32>(|i| i as u32, |i| i as u32)?;
    narrow_and_wide::<u32, u64>(|i| i as u32, |i| i)?;
    narrow_and_wide::<i64, u32>(|i| i as i64 - 1000, |i| i as u32)?;
    narrow_and_wide::<u128, u64>(|i| u128::from(i) << 70 | 5, |i| i)
}

/// Sorted batches that are copied as they are, and pieces that other devices look up.
#[test]
fn values_on_devices_that_fail_say_so() -> Result<()> {
    let map = tens(60);
    let mut keys: Vec<u64> = (0..5000).map(|i| i * 7 % 700).collect();
    for is_sorted in [false, true] {
        if is_sorted {
            keys.sort_unstable();
        }
        let expected: Vec<u64> = keys.iter().map(|key| map.get(key).copied().unwrap_or(9)).collect();
        let failures = each_failure(3, &Failure::KINDS, |devices, fault| {
            let mut index = sharded(devices, &map)?;
            index.set_pieces(2048, 1);
            let (stream, queries) = (devices[0].stream()?, devices[0].upload(&keys)?);
            let ask = || {
                let mut values = devices[0].alloc(keys.len())?;
                on(&index, &stream, is_sorted).miss(9).get(&queries, &mut values)?;
                synchronize(devices)?;
                Ok(values.to_vec()?)
            };
            fault.then_answers(ask, &expected)
        })?;
        assert!(failures > 20, "{failures} failures");
    }
    Ok(())
}

#[test]
fn a_batch_on_devices_that_fails_says_so() -> Result<()> {
    let map = tens(60);
    let mut keys: Vec<u64> = (0..2500).map(|i| i * 7 % 700).collect();
    for is_sorted in [false, true] {
        if is_sorted {
            keys.sort_unstable();
        }
        let expected: Vec<u64> = keys.iter().map(|&key| predecessor(&map, key).map_or(9, |pair| pair.1)).collect();
        each_failure(2, &Failure::KINDS, |devices, fault| {
            let mut index = sharded(devices, &map)?;
            index.set_pieces(2048, 2);
            let (stream, queries) = (devices[0].stream()?, devices[0].upload(&keys)?);
            let (mut found, mut values) = (devices[0].alloc(keys.len())?, devices[0].alloc(keys.len())?);
            let mut ask = || {
                on(&index, &stream, is_sorted).miss(9).predecessor(&queries, &mut found, &mut values)?;
                synchronize(devices)
            };
            let _ = fault.during(&mut ask);
            ask()?;
            assert_eq!(values.to_vec()?, expected, "after {}", fault.name);
            Ok(())
        })?;
    }
    Ok(())
}

/// A batch in ordinary memory that the devices partition.
#[test]
fn a_staged_host_batch_that_fails_says_so() -> Result<()> {
    let map = tens(60);
    let keys: Vec<u64> = (0..2500).map(|i| i * 7 % 700).collect();
    let expected: Vec<_> = keys.iter().map(|key| map.get(key).copied()).collect();
    let failures = each_failure(3, &Failure::KINDS, |devices, fault| {
        let mut index = sharded(devices, &map)?;
        index.set_pieces(2048, 1);
        index.min_staged = 1;
        fault.then_answers(|| index.get_many(&keys), &expected)
    })?;
    assert!(failures > 20, "{failures} failures");
    Ok(())
}
