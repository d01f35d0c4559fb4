//! Over the host and the emulator; the suite puts both through its cases, too.

mod aggregates;
mod apply_on;
mod combinations;
mod joins;
mod multi_maps;
mod pieces;
mod ranges_on_devices;
mod sets;

use crate::{OnDevices, Replicated, Sharded};
use core::cell::Cell;
use core::fmt::Debug;
use lanetree::runtime::Failure;
use lanetree::{
    Buffer, Device, Error, KeyRange, LaneTree, Op, OrderedIndex, Result, SortedArray, Stream, UpdateReport,
    apply_to_map,
};
use lanetree_frame::{AnyKey, Word};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Map = BTreeMap<u64, u64>;
type Index = Sharded<LaneTree<u64, u64>>;

fn emulated(count: u64) -> Vec<Device> {
    (0..count).map(Device::emulated_with_seed).collect()
}

fn sharded(devices: &[Device], pairs: &Map) -> Result<Index> {
    let (keys, values): (Vec<_>, Vec<_>) = pairs.iter().unzip();
    Sharded::build(devices, LaneTree::builder(), &keys, &values)
}

/// The keys 0, 10, ... with their numbers as values.
fn tens(count: u64) -> Map {
    (0..count).map(|i| (i * 10, i)).collect()
}

fn pair((&key, &value): (&u64, &u64)) -> (u64, u64) {
    (key, value)
}

fn pairs(map: &Map) -> Vec<(u64, u64)> {
    map.iter().map(pair).collect()
}

fn predecessor(map: &Map, key: u64) -> Option<(u64, u64)> {
    map.range(..=key).next_back().map(pair)
}

fn successor(map: &Map, key: u64) -> Option<(u64, u64)> {
    map.range(key..).next().map(pair)
}

fn below(map: &Map, key: u64) -> u64 {
    map.range(..key).count() as u64
}

fn through(map: &Map, key: u64) -> u64 {
    map.range(..=key).count() as u64
}

/// The pairs of a range, at most `limit`.
fn within(map: &Map, start: u64, end: u64, limit: u64) -> Vec<(u64, u64)> {
    match start <= end {
        true => map.range(start..=end).take(usize::try_from(limit).unwrap_or(usize::MAX)).map(pair).collect(),
        false => Vec::new(),
    }
}

/// Ranges, some of them reversed, empty, of one key, or of all, with a limit of each.
fn ranges(random: &mut StdRng, most: u64, count: usize) -> Vec<(u64, u64, u64)> {
    let range = |i| {
        let (a, b) = (random.random_range(0..most), random.random_range(0..most));
        let limit = [0, 1, 3, 40, u64::MAX][i % 5];
        match i % 7 {
            0 => (a.max(b), a.min(b), limit),
            1 => (0, u64::MAX, limit),
            2 => (a, a, limit),
            3 => (a, u64::MAX, limit),
            _ => (a.min(b), a.saturating_add(random.random_range(0..60)).min(a.max(b)), limit),
        }
    };
    (0..count).map(range).collect()
}

/// A bit for each key.
fn mask(keys: &[u64], is_hit: impl Fn(u64) -> bool) -> Vec<u32> {
    let word = |keys: &[u64]| keys.iter().enumerate().fold(0, |word, (i, &key)| word | u32::from(is_hit(key)) << i);
    keys.chunks(32).map(word).collect()
}

/// A column of rows, on a device.
fn column<R, T: bytemuck::Pod>(device: &Device, rows: &[R], of: impl Fn(&R) -> T) -> Result<Buffer<T>> {
    Ok(device.upload(&rows.iter().map(of).collect::<Vec<_>>())?)
}

fn on<'a, K: AnyKey, V: Word>(
    index: &'a Sharded<LaneTree<K, V>>,
    stream: &'a Stream,
    is_sorted: bool,
) -> OnDevices<'a, LaneTree<K, V>> {
    if is_sorted { index.on(stream).sorted() } else { index.on(stream) }
}

fn counts(report: &UpdateReport) -> [u64; 4] {
    [report.inserted, report.replaced, report.removed, report.unmatched]
}

/// A failure ahead.
struct Fault {
    name: String,
    device: Device,
    failure: Failure,
    has_occurred: Cell<bool>,
}

impl Fault {
    /// Makes a call during which the device fails, unless the call is over before: it returns an error if, and only if, the device
    /// has failed.
    fn during<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.device.inject(Some(self.failure));
        let done = call();
        self.has_occurred.set(self.device.inject(None).is_none());
        assert_eq!(done.is_err(), self.has_occurred.get(), "{}: {:?}", self.name, done.as_ref().err());
        done
    }

    /// Asks during the failure, and again.
    fn then_answers<T: PartialEq + Debug>(&self, mut ask: impl FnMut() -> Result<T>, expected: &T) -> Result<()> {
        let _ = self.during(&mut ask);
        assert_eq!(&ask()?, expected, "after {}", self.name);
        Ok(())
    }
}

/// Tries a case with every failure of each of `count` devices, at each of its points; returns how many there were.
fn each_failure(
    count: u64,
    kinds: &[fn(u64) -> Failure],
    mut case: impl FnMut(&[Device], &Fault) -> Result<()>,
) -> Result<usize> {
    let mut failures = 0;
    for (failing, &kind) in (0..count as usize).flat_map(|device| kinds.iter().map(move |kind| (device, kind))) {
        for failure in Failure::points(kind).map(kind) {
            let (devices, name) = (emulated(count), format!("{failure:?} of device {failing}"));
            let fault = Fault { name, device: devices[failing].clone(), failure, has_occurred: Cell::new(false) };
            case(&devices, &fault)?;
            if !fault.has_occurred.get() {
                break;
            }
            failures += 1;
        }
    }
    Ok(failures)
}

/// Waits for all devices.
fn synchronize(devices: &[Device]) -> Result<()> {
    devices.iter().try_for_each(|device| Ok(device.synchronize()?))
}

/// Compares queries of keys with a map's.
fn compare_keys(index: &impl OrderedIndex<Domain = u64, Value = u64>, map: &Map, keys: &[u64]) -> Result<()> {
    assert!(index.get_many(keys)?.into_iter().eq(keys.iter().map(|key| map.get(key).copied())));
    assert!(index.lower_bound_many(keys)?.into_iter().eq(keys.iter().map(|&key| below(map, key))));
    assert!(index.upper_bound_many(keys)?.into_iter().eq(keys.iter().map(|&key| through(map, key))));
    assert!(index.predecessor_many(keys)?.into_iter().eq(keys.iter().map(|&key| predecessor(map, key))));
    assert!(index.successor_many(keys)?.into_iter().eq(keys.iter().map(|&key| successor(map, key))));
    Ok(())
}

/// Compares every query with a map's.
fn compare(index: &impl OrderedIndex<Domain = u64, Value = u64>, map: &Map, keys: &[u64]) -> Result<()> {
    assert_eq!((index.len(), index.pairs()?), (map.len() as u64, pairs(map)));
    compare_keys(index, map, keys)?;
    let present = keys.iter().enumerate().filter(|(_, key)| map.contains_key(key));
    assert!(index.join_many(keys)?.iter().eq(present.map(|(probe, &key)| (probe as u64, below(map, key)))));
    for limit in [0, 1, 3, 40, u64::MAX] {
        let range = |pair: &[u64]| KeyRange::new(pair[0].min(pair[1])..pair[0].max(pair[1])).limit(limit);
        let ranges: Vec<_> = keys.windows(2).map(range).chain([KeyRange::new(..).limit(limit)]).collect();
        let (found, counts) = (index.range_many(&ranges)?, index.count_range_many(&ranges)?);
        assert_eq!((found.len(), counts.len()), (ranges.len(), ranges.len()));
        for (i, range) in ranges.iter().enumerate() {
            let (start, end, limit) = range.resolve(i)?;
            let expected = within(map, start, end, limit);
            let (keys, values) = found.get(i);
            assert!(keys.iter().copied().zip(values.iter().copied()).eq(expected.iter().copied()), "{range:?}");
            assert_eq!(counts[i], expected.len() as u64, "{range:?}");
        }
    }
    Ok(())
}

#[test]
fn it_does_what_a_map_does() -> Result<()> {
    let mut random = StdRng::seed_from_u64(41);
    for (devices, most) in [(vec![Device::host(); 5], 3000), (vec![Device::host()], 200), (emulated(3), 60)] {
        let key = |random: &mut StdRng| random.random_range(0..3 * most) * 7;
        let mut map: Map = (0..most).map(|_| (key(&mut random), random.random())).collect();
        let mut index = sharded(&devices, &map)?;
        for round in 0..6 {
            let op = |_| match random.random_range(0..4) {
                0 => Op::Remove(key(&mut random)),
                1 => Op::Update(key(&mut random), random.random()),
                _ => Op::Insert(key(&mut random), random.random()),
            };
            let ops: Vec<Op<u64, u64>> = (0..most / 2).map(op).collect();
            let (expected, report) = (apply_to_map(&mut map, &ops), index.apply(&ops)?);
            assert_eq!(counts(&report), counts(&expected));
            let mut keys: Vec<u64> = (0..50).map(|_| key(&mut random) + random.random_range(0..2)).collect();
            keys.extend([0, u64::MAX]);
            if round % 2 == 1 {
                keys.sort_unstable();
            }
            compare(&index, &map, &keys)?;
        }
        assert!(index.iter().collect::<Result<Vec<_>>>()?.into_iter().eq(map.iter().map(pair)));
    }
    Ok(())
}

#[test]
fn shards_may_be_empty() -> Result<()> {
    let common = 0xabcd_0000_0000_0000;
    for keys in [&[][..], &[7], &[0, u64::MAX], &[common, common + 1, common + 2], &[u64::MAX]] {
        for shards in [1, 2, 3, 64] {
            let mut map: Map = keys.iter().map(|&key| (key, !key)).collect();
            let mut index = sharded(&vec![Device::host(); shards], &map)?;
            let asked = [0, 7, 8, common, common + 1, common + 3, u64::MAX];
            compare(&index, &map, &asked)?;
            index.insert_many(&[u64::MAX, 3, common], &[1, 2, 3])?;
            map.extend([(u64::MAX, 1), (3, 2), (common, 3)]);
            compare(&index, &map, &asked)?;
            let all: Vec<u64> = map.keys().copied().collect();
            assert_eq!(index.remove_many(&all)?.removed, all.len() as u64);
            compare(&index, &Map::new(), &asked)?;
        }
    }
    Ok(())
}

#[test]
fn numbers_of_devices_that_are_not_possible_are_errors() {
    for devices in [vec![], vec![Device::host(); 65]] {
        let errors = [
            Sharded::build(&devices, SortedArray::<u64, u64>::builder(), &[1], &[2]).err(),
            Replicated::build(&devices, SortedArray::<u64, u64>::builder(), &[1], &[2]).err(),
        ];
        for error in errors {
            let error = error.expect("no such number").to_string();
            assert!(error.contains("a number of devices") && error.contains("1 to 64"), "{error}");
        }
    }
}

/// Changes over all shards, one of which fails at each of its points, and another as the change is taken back.
#[test]
fn a_shard_that_fails_takes_the_others_back() -> Result<()> {
    let map = tens(60);
    // All of them in place: a shard that is built again is not lost.
    let ops: Vec<Op<u64, u64>> = (0..60).flat_map(|i| [Op::Update(i * 10, i + 1), Op::Remove(i * 20)]).collect();
    let (mut taken_back, mut lost) = (0, 0);
    each_failure(3, &[Failure::Launch], |devices, fault| {
        let mut index = sharded(devices, &map)?;
        match fault.during(|| index.apply(&ops)) {
            Ok(_) => Ok(()),
            Err(Error::Lost { .. }) => {
                lost += 1;
                assert!(index.is_lost() && matches!(index.get_many(&[]), Err(Error::Lost { .. })));
                assert_eq!(index.len(), 60, "as before the change");
                Ok(())
            }
            Err(_) => {
                taken_back += 1;
                assert!(!index.is_lost());
                compare(&index, &map, &[0, 5, 100])?;
                index.apply(&ops).map(drop)
            }
        }
    })?;
    assert!(taken_back > 0 && lost > 0, "{taken_back} and {lost}");
    // The launches of look-ups and of the change in the first shard, and then those that undo it.
    let mut lost = 0;
    for at in 0..60 {
        let devices = emulated(2);
        let mut index = sharded(&devices, &map)?;
        devices[0].inject(Some(Failure::Launch(at)));
        devices[1].inject(Some(Failure::Launch(1)));
        let error = index.apply(&ops).expect_err("the second shard has failed");
        devices.iter().for_each(|device| _ = device.inject(None));
        match error {
            Error::Lost { reason } => lost += usize::from(reason.contains("undone")),
            _ => compare(&index, &map, &[0, 5, 100])?,
        }
    }
    assert!(lost > 0, "no failure while the change is undone");
    Ok(())
}

#[test]
fn a_shard_that_grows_is_evened_out() -> Result<()> {
    let mut map: Map = (0..1000).map(|i| (i, i)).collect();
    let mut index = sharded(&vec![Device::host(); 4], &map)?;
    assert_eq!(index.rebalance()?, 0, "it is as it was built");
    let new: Vec<u64> = (10_000..14_000).collect();
    index.insert_many(&new, &new)?;
    map.extend(new.iter().map(|&key| (key, key)));
    assert!(index.stats()[3].pairs > 4000);
    assert!(index.rebalance()? > 0);
    let stats = index.stats();
    assert!(stats.iter().all(|shard| shard.pairs * 4 * 2 <= 5000 * 3), "{stats:?}");
    assert!(stats.windows(2).all(|two| two[0].from < two[1].from), "{stats:?}");
    assert_eq!(stats.iter().map(|shard| shard.pairs).sum::<u64>(), 5000);
    compare(&index, &map, &[0, 500, 999, 1000, 9999, 12_000, 14_000])
}

#[test]
fn copies_take_every_change() -> Result<()> {
    let devices = [Device::host(), Device::emulated()];
    let mut index = Replicated::build(&devices, LaneTree::<u64, u64>::builder(), &[1, 2, 3], &[10, 20, 30])?;
    index.apply(&[Op::Remove(2), Op::Insert(4, 40)])?;
    let map = Map::from([(1, 10), (3, 30), (4, 40)]);
    for copy in index.copies()? {
        compare(copy, &map, &[0, 1, 2, 3, 4, 5])?;
    }
    compare(&index, &map, &[5, 0, 3])
}

#[test]
fn a_copy_answers_batches_on_its_device() -> Result<()> {
    let devices = emulated(3);
    let mut index = Replicated::build(&devices[..2], LaneTree::<u64, u64>::builder(), &[1, 2, 3], &[10, 20, 30])?;
    index.insert_many(&[4], &[40])?;
    for device in &devices[..2] {
        let (stream, queries, mut found) = (device.stream()?, device.upload(&[4_u64, 5])?, device.alloc(2)?);
        index.on(&stream)?.miss(7).get(&queries, &mut found)?;
        assert_eq!(found.to_vec()?, [40, 7]);
        index.device_form().expect("it has one").lower_bound(&stream, &queries, &mut found)?;
        assert_eq!(found.to_vec()?, [3, 4]);
    }
    let error = index.on(&devices[2].stream()?).expect_err("no copy is there").to_string();
    assert!(error.contains("the stream"), "{error}");
    Ok(())
}

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

fn devices_for_tests() -> Vec<Vec<Device>> {
    let three = emulated(3);
    let among = |order: &[usize]| order.iter().map(|&device| three[device].clone()).collect::<Vec<_>>();
    let many: Vec<usize> = (0..64).map(|shard| shard % 3).collect();
    vec![
        among(&[0, 1, 2]),
        among(&[1, 0, 1, 2, 0]),
        emulated(1),
        vec![emulated(1)[0].clone(); 2],
        among(&many),
        vec![Device::host(); 3],
    ]
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

/// Without a hit mask a sorted batch is cut into slices, which only a batch that ascends may be.
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
    let keys: Vec<u64> = (0..2500).map(|i| i * 7 % 700).collect();
    let expected: Vec<u64> = keys.iter().map(|&key| predecessor(&map, key).map_or(9, |pair| pair.1)).collect();
    each_failure(2, &Failure::KINDS, |devices, fault| {
        let mut index = sharded(devices, &map)?;
        index.set_pieces(2048, 2);
        let (stream, queries) = (devices[0].stream()?, devices[0].upload(&keys)?);
        let (mut found, mut values) = (devices[0].alloc(keys.len())?, devices[0].alloc(keys.len())?);
        let mut ask = || {
            index.on(&stream).miss(9).predecessor(&queries, &mut found, &mut values)?;
            synchronize(devices)
        };
        let _ = fault.during(&mut ask);
        ask()?;
        assert_eq!(values.to_vec()?, expected, "after {}", fault.name);
        Ok(())
    })?;
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
