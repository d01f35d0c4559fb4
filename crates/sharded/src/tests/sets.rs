//! Sets, against std's.

use super::{Map, below, column, devices_for_tests, each_failure, mask, predecessor, successor, tens, through, within};
use crate::ShardedSet;
use lanetree::runtime::Failure;
use lanetree::{DeviceRanges, Error, LaneSet, Op, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn keys_of(model: &Map) -> Vec<u64> {
    model.keys().copied().collect()
}

/// Compares every query of a set with those of a map of the same keys.
fn compare_set(set: &ShardedSet<u64>, model: &Map, keys: &[u64]) -> Result<()> {
    let neighbor = |upper: bool, key: u64| if upper { predecessor(model, key) } else { successor(model, key) };
    let neighbor = |upper: bool, key: u64| neighbor(upper, key).map(|pair| pair.0);
    assert_eq!((set.len(), set.keys()?), (model.len() as u64, keys_of(model)));
    assert!(set.contains_many(keys)?.into_iter().eq(keys.iter().map(|key| model.contains_key(key))));
    assert!(set.lower_bound_many(keys)?.into_iter().eq(keys.iter().map(|&key| below(model, key))));
    assert!(set.predecessor_many(keys)?.into_iter().eq(keys.iter().map(|&key| neighbor(true, key))));
    assert!(set.successor_many(keys)?.into_iter().eq(keys.iter().map(|&key| neighbor(false, key))));

    let device = &set.stats()[keys.len() % set.stats().len()].device;
    let stream = device.stream()?;
    let (queries, count) = (device.upload(keys)?, keys.len());
    // Sorted is a hint, whatever the order is.
    for is_sorted in [false, true] {
        let on = || if is_sorted { set.on(&stream).sorted() } else { set.on(&stream) };
        let (mut hits, mut ranks) = (device.alloc(count.div_ceil(32))?, device.alloc(count)?);
        on().contains(&queries, &mut hits)?;
        assert_eq!(hits.to_vec()?, mask(keys, |key| model.contains_key(&key)));
        on().upper_bound(&queries, &mut ranks)?;
        assert!(ranks.to_vec()?.into_iter().eq(keys.iter().map(|&key| through(model, key))));
        for upper in [false, true] {
            let mut found = device.alloc_zeroed(count)?;
            match upper {
                true => on().hits(&mut hits).predecessor(&queries, &mut found)?,
                false => on().hits(&mut hits).successor(&queries, &mut found)?,
            }
            assert_eq!(hits.to_vec()?, mask(keys, |key| neighbor(upper, key).is_some()));
            let found = found.to_vec()?;
            assert!(keys.iter().zip(found).all(|(&key, found)| neighbor(upper, key).is_none_or(|key| key == found)));
        }
    }
    let unused = set.on(&stream).limit(1).predecessor(&queries, &mut device.alloc(count)?);
    assert!(matches!(unused, Err(Error::UnusedOption { option: "limit", call: "predecessor" })), "{unused:?}");
    let some = &keys[..count.min(20)];
    let (starts, ends) = (device.upload(some)?, column(device, some, |key| key.saturating_add(9000))?);
    let row = |key: u64, end: u64, limit: u64| within(model, key, end, limit).into_iter().map(|pair| pair.0);
    for limit in [3, u64::MAX] {
        let row = |&key: &u64| row(key, key.saturating_add(9000), limit).collect::<Vec<_>>();
        let rows: Vec<_> = some.iter().map(row).collect();
        let all = rows.concat();
        let mut out =
            DeviceRanges { offsets: device.alloc(21)?, keys: device.alloc(all.len())?, values: device.alloc(0)? };
        set.on(&stream).limit(limit).range(&starts, &ends, &mut out)?;
        assert_eq!((out.keys.to_vec()?, out.offsets.to_vec()?[some.len()]), (all.clone(), all.len() as u64));
        let mut counts = device.alloc::<u64>(some.len())?;
        set.on(&stream).limit(limit).count_range(&starts, &ends, &mut counts)?;
        assert!(counts.to_vec()?.into_iter().eq(rows.iter().map(|row| row.len() as u64)));
    }
    let (mut scanned, mut lens) = (device.alloc_zeroed(some.len() * 2)?, device.alloc::<u32>(some.len())?);
    set.on(&stream).scan(&starts, 2, &mut scanned, &mut lens)?;
    let next = |&key: &u64| row(key, u64::MAX, 2).collect::<Vec<_>>();
    for (i, (row, len)) in some.iter().map(next).zip(lens.to_vec()?).enumerate() {
        assert_eq!((&scanned.to_vec()?[2 * i..][..row.len()], len as usize), (&row[..], row.len()));
    }
    Ok(())
}

#[test]
fn sets_in_shards_do_what_a_set_does() -> Result<()> {
    let mut random = StdRng::seed_from_u64(44);
    for devices in devices_for_tests() {
        let mut model: Map = (0..300).map(|_| (random.random_range(0..3000) * 7, 0)).collect();
        let mut set = ShardedSet::build(&devices, LaneSet::builder().fill(0.7), &keys_of(&model))?;
        // Pieces of one block, so that slots are used again.
        let routing = &mut set.routers.router.routing;
        (routing.piece, routing.slots) = (2048, 2);
        let mut keys: Vec<u64> = (0..2048 + 77).map(|_| random.random_range(0..21_010)).collect();
        keys.extend([0, u64::MAX]);
        compare_set(&set, &model, &keys)?;
        let new: Vec<u64> = (0..40).map(|_| random.random_range(20_000..22_000)).collect();
        let before = model.len();
        model.extend(new.iter().map(|&key| (key, 0)));
        assert_eq!(set.insert_many(&new)?.inserted, (model.len() - before) as u64);
        let ops: Vec<Op<u64, ()>> = keys[..60]
            .iter()
            .map(|&key| if key % 2 == 0 { Op::Remove(key / 7 * 7) } else { Op::Insert(key, ()) })
            .collect();
        for op in &ops {
            match *op {
                Op::Remove(key) => _ = model.remove(&key),
                op => _ = model.insert(*op.key(), 0),
            }
        }
        set.apply(&ops)?;
        set.rebalance()?;
        keys.sort_unstable();
        compare_set(&set, &model, &keys)?;
        let all = keys_of(&model);
        assert_eq!(set.remove_many(&all)?.removed, all.len() as u64);
        compare_set(&set, &Map::new(), &[0, 7, u64::MAX])?;
    }
    Ok(())
}

#[test]
fn a_shard_of_a_set_that_fails_takes_the_others_back() -> Result<()> {
    let model = tens(60);
    let ops: Vec<Op<u64, ()>> = (0..60).flat_map(|i| [Op::Insert(i * 10 + 1, ()), Op::Remove(i * 20)]).collect();
    let (mut taken_back, mut lost) = (0, 0);
    each_failure(3, &[Failure::Launch], |devices, fault| {
        let mut set = ShardedSet::build(devices, LaneSet::builder().fill(0.5), &keys_of(&model))?;
        match fault.during(|| set.apply(&ops)) {
            Ok(_) => Ok(()),
            Err(Error::Lost { .. }) => {
                lost += 1;
                assert!(set.is_lost() && matches!(set.contains_many(&[]), Err(Error::Lost { .. })));
                Ok(())
            }
            Err(_) => {
                taken_back += 1;
                assert!(!set.is_lost());
                compare_set(&set, &model, &[0, 1, 5, 100])
            }
        }
    })?;
    assert!(taken_back > 0 && lost > 0, "{taken_back} and {lost}");
    Ok(())
}
