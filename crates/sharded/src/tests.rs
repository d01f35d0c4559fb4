//! Over the host and the emulator; the suite puts both through its cases, too.

use crate::{Replicated, Sharded};
use core::ops::Bound;
use lanetree::runtime::Failure;
use lanetree::{Device, Error, KeyRange, LaneTree, Op, OrderedIndex, Result, SortedArray, apply_to_map};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Map = BTreeMap<u64, u64>;

fn sharded(devices: &[Device], pairs: &Map) -> Result<Sharded<LaneTree<u64, u64>>> {
    let (keys, values): (Vec<_>, Vec<_>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
    Sharded::build(devices, LaneTree::builder(), &keys, &values)
}

fn pair((&key, &value): (&u64, &u64)) -> (u64, u64) {
    (key, value)
}

/// Compares every query with a map's.
fn compare(index: &impl OrderedIndex<Domain = u64, Value = u64>, map: &Map, keys: &[u64]) -> Result<()> {
    assert_eq!(index.len(), map.len() as u64);
    assert!(index.pairs()?.into_iter().eq(map.iter().map(pair)));
    assert!(index.get_many(keys)?.into_iter().eq(keys.iter().map(|key| map.get(key).copied())));
    let rank = |bound| map.range((Bound::Unbounded, bound)).count() as u64;
    assert!(index.lower_bound_many(keys)?.into_iter().eq(keys.iter().map(|&key| rank(Bound::Excluded(key)))));
    assert!(index.upper_bound_many(keys)?.into_iter().eq(keys.iter().map(|&key| rank(Bound::Included(key)))));
    let before = |&key: &u64| map.range(..=key).next_back().map(pair);
    assert!(index.predecessor_many(keys)?.into_iter().eq(keys.iter().map(before)));
    let after = |&key: &u64| map.range(key..).next().map(pair);
    assert!(index.successor_many(keys)?.into_iter().eq(keys.iter().map(after)));
    let present = keys.iter().enumerate().filter(|(_, key)| map.contains_key(key));
    let rows = present.map(|(probe, &key)| (probe as u64, rank(Bound::Excluded(key))));
    assert!(index.join_many(keys)?.iter().eq(rows));
    for limit in [0, 1, 3, 40, u64::MAX] {
        let range = |pair: &[u64]| KeyRange::new(pair[0].min(pair[1])..pair[0].max(pair[1])).limit(limit);
        let ranges: Vec<_> = keys.windows(2).map(range).chain([KeyRange::new(..).limit(limit)]).collect();
        let (found, counts) = (index.range_many(&ranges)?, index.count_range_many(&ranges)?);
        assert_eq!((found.len(), counts.len()), (ranges.len(), ranges.len()));
        for (i, range) in ranges.iter().enumerate() {
            let (start, end, limit) = range.resolve(i)?;
            let expected: Vec<_> = match start <= end {
                true => map.range(start..=end).take(limit.min(1 << 40) as usize).map(pair).collect(),
                false => Vec::new(),
            };
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
    let three = || (0..3).map(Device::emulated_with_seed).collect::<Vec<_>>();
    for (devices, most) in [(vec![Device::host(); 5], 3000), (vec![Device::host()], 200), (three(), 60)] {
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
            let counts =
                |report: &lanetree::UpdateReport| [report.inserted, report.replaced, report.removed, report.unmatched];
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
    let map: Map = (0..60).map(|i| (i * 10, i)).collect();
    let ops: Vec<Op<u64, u64>> =
        (0..60).flat_map(|i| [Op::Insert(i * 10 + 5, i), Op::Update(i * 10, i + 1), Op::Remove(i * 20)]).collect();
    let (mut taken_back, mut lost) = (0, 0);
    for failing in 0..3 {
        for at in 0.. {
            let devices: Vec<_> = (0..3).map(Device::emulated_with_seed).collect();
            let mut index = sharded(&devices, &map)?;
            devices[failing].inject(Some(Failure::Launch(at)));
            let done = index.apply(&ops);
            let has_failed = devices[failing].inject(None).is_none();
            assert_eq!(done.is_err(), has_failed, "launch {at} of device {failing}");
            match done {
                Ok(_) => break,
                Err(Error::Lost { .. }) => {
                    lost += 1;
                    assert!(index.is_lost() && matches!(index.get_many(&[]), Err(Error::Lost { .. })));
                    assert_eq!(index.len(), 60, "as before the change");
                }
                Err(_) => {
                    taken_back += 1;
                    assert!(!index.is_lost());
                    compare(&index, &map, &[0, 5, 100])?;
                    index.apply(&ops)?;
                }
            }
        }
    }
    assert!(taken_back > 0 && lost > 0, "{taken_back} and {lost}");
    // The launches of look-ups and of the change in the first shard, and then of its way back.
    let mut lost = 0;
    for at in 0..60 {
        let devices: Vec<_> = (0..2).map(Device::emulated_with_seed).collect();
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
    assert!(lost > 0, "no failure of the way back");
    Ok(())
}

#[test]
fn a_shard_that_grows_is_divided() -> Result<()> {
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
