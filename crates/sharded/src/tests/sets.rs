//! Sets, against std's.

use super::devices_for_tests;
use crate::ShardedSet;
use lanetree::runtime::Failure;
use lanetree::{Device, DeviceRanges, Error, LaneSet, Op, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;

fn keys_of(set: &BTreeSet<u64>) -> Vec<u64> {
    set.iter().copied().collect()
}

/// Compares every query of a set with std's.
fn compare_set(set: &ShardedSet<u64>, model: &BTreeSet<u64>, keys: &[u64]) -> Result<()> {
    let before = |&key: &u64| model.range(..=key).next_back().copied();
    let after = |&key: &u64| model.range(key..).next().copied();
    let rank = |&key: &u64| model.range(..key).count() as u64;
    let is_there = |key: &u64| model.contains(key);
    assert_eq!((set.len(), set.keys()?), (model.len() as u64, keys_of(model)));
    assert!(set.contains_many(keys)?.into_iter().eq(keys.iter().map(is_there)));
    assert!(set.lower_bound_many(keys)?.into_iter().eq(keys.iter().map(rank)));
    assert!(set.predecessor_many(keys)?.into_iter().eq(keys.iter().map(before)));
    assert!(set.successor_many(keys)?.into_iter().eq(keys.iter().map(after)));

    let device = &set.stats()[keys.len() % set.stats().len()].device;
    let stream = device.stream()?;
    let (queries, count) = (device.upload(keys)?, keys.len());
    let mask = |of: &dyn Fn(&u64) -> bool| {
        let word = |keys: &[u64]| keys.iter().enumerate().fold(0, |word, (i, key)| word | u32::from(of(key)) << i);
        keys.chunks(32).map(word).collect::<Vec<u32>>()
    };
    // Sorted is a hint, whatever the order is.
    for is_sorted in [false, true] {
        let on = || if is_sorted { set.on(&stream).sorted() } else { set.on(&stream) };
        let (mut hits, mut ranks) = (device.alloc(count.div_ceil(32))?, device.alloc(count)?);
        on().contains(&queries, &mut hits)?;
        assert_eq!(hits.to_vec()?, mask(&is_there));
        on().upper_bound(&queries, &mut ranks)?;
        assert!(ranks.to_vec()?.into_iter().eq(keys.iter().map(|key| rank(key) + u64::from(is_there(key)))));
        for upper in [false, true] {
            let mut found = device.alloc_zeroed(count)?;
            match upper {
                true => on().hits(&mut hits).predecessor(&queries, &mut found)?,
                false => on().hits(&mut hits).successor(&queries, &mut found)?,
            }
            let neighbor = |key: &u64| if upper { before(key) } else { after(key) };
            assert_eq!(hits.to_vec()?, mask(&|key| neighbor(key).is_some()));
            let found = found.to_vec()?;
            assert!(keys.iter().zip(found).all(|(key, found)| neighbor(key).is_none_or(|key| key == found)));
        }
    }
    let unused = set.on(&stream).limit(1).predecessor(&queries, &mut device.alloc(count)?);
    assert!(matches!(unused, Err(Error::UnusedOption { option: "limit", call: "predecessor" })), "{unused:?}");
    let some = &keys[..count.min(20)];
    let starts = device.upload(some)?;
    let ends = device.upload(&some.iter().map(|key| key.saturating_add(9000)).collect::<Vec<_>>())?;
    for limit in [3, u64::MAX] {
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let row = |&key: &u64| model.range(key..=key.saturating_add(9000)).take(most).copied().collect::<Vec<_>>();
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
    let next = |key: &u64| model.range(key..).take(2).copied().collect::<Vec<_>>();
    for (i, (row, len)) in some.iter().map(next).zip(lens.to_vec()?).enumerate() {
        assert_eq!((&scanned.to_vec()?[2 * i..][..row.len()], len as usize), (&row[..], row.len()));
    }
    Ok(())
}

#[test]
fn sets_in_shards_do_what_a_set_does() -> Result<()> {
    let mut random = StdRng::seed_from_u64(44);
    for devices in devices_for_tests() {
        let mut model: BTreeSet<u64> = (0..300).map(|_| random.random_range(0..3000) * 7).collect();
        let mut set = ShardedSet::build(&devices, LaneSet::builder().fill(0.7), &keys_of(&model))?;
        // Pieces of one block, so that slots are used again.
        let routing = &mut set.routers.router.routing;
        (routing.piece, routing.slots) = (2048, 2);
        let mut keys: Vec<u64> = (0..2048 + 77).map(|_| random.random_range(0..21_010)).collect();
        keys.extend([0, u64::MAX]);
        compare_set(&set, &model, &keys)?;
        let new: Vec<u64> = (0..40).map(|_| random.random_range(20_000..22_000)).collect();
        let before = model.len();
        model.extend(&new);
        assert_eq!(set.insert_many(&new)?.inserted, (model.len() - before) as u64);
        let ops: Vec<Op<u64, ()>> = keys[..60]
            .iter()
            .map(|&key| if key % 2 == 0 { Op::Remove(key / 7 * 7) } else { Op::Insert(key, ()) })
            .collect();
        for op in &ops {
            match *op {
                Op::Remove(key) => _ = model.remove(&key),
                op => _ = model.insert(*op.key()),
            }
        }
        set.apply(&ops)?;
        set.rebalance()?;
        keys.sort_unstable();
        compare_set(&set, &model, &keys)?;
        let all = keys_of(&model);
        assert_eq!(set.remove_many(&all)?.removed, all.len() as u64);
        compare_set(&set, &BTreeSet::new(), &[0, 7, u64::MAX])?;
    }
    Ok(())
}

/// A change over all shards, each of which fails at each of its points.
#[test]
fn a_shard_of_a_set_that_fails_takes_the_others_back() -> Result<()> {
    let model: BTreeSet<u64> = (0..60).map(|i| i * 10).collect();
    let ops: Vec<Op<u64, ()>> = (0..60).flat_map(|i| [Op::Insert(i * 10 + 1, ()), Op::Remove(i * 20)]).collect();
    let (mut taken_back, mut lost) = (0, 0);
    for failing in 0..3 {
        for at in 0.. {
            let devices: Vec<_> = (0..3).map(Device::emulated_with_seed).collect();
            let mut set = ShardedSet::build(&devices, LaneSet::builder().fill(0.5), &keys_of(&model))?;
            devices[failing].inject(Some(Failure::Launch(at)));
            let done = set.apply(&ops);
            let has_failed = devices[failing].inject(None).is_none();
            assert_eq!(done.is_err(), has_failed, "launch {at} of device {failing}");
            match done {
                Ok(_) => break,
                Err(Error::Lost { .. }) => {
                    lost += 1;
                    assert!(set.is_lost() && matches!(set.contains_many(&[]), Err(Error::Lost { .. })));
                }
                Err(_) => {
                    taken_back += 1;
                    assert!(!set.is_lost());
                    compare_set(&set, &model, &[0, 1, 5, 100])?;
                }
            }
        }
    }
    assert!(taken_back > 0 && lost > 0, "{taken_back} and {lost}");
    Ok(())
}
