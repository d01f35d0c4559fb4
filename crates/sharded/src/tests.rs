//! Over the host and the emulator; the suite puts both through its cases, too.

mod aggregates;
mod apply_on;
mod batches;
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

fn devices_for_tests() -> Vec<Vec<Device>> {
    let three = emulated(3);
    let among = |order: &[usize]| order.iter().map(|&device| three[device].clone()).collect::<Vec<_>>();
    let many: Vec<usize> = (0..64).map(|shard| shard % 3).collect();
    vec![
        among(&[0, 1, 2]),
        emulated(4),
        among(&[1, 0, 1, 2, 0]),
        emulated(1),
        vec![emulated(1)[0].clone(); 2],
        among(&many),
        vec![Device::host(); 3],
    ]
}
