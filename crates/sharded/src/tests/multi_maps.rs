//! Multi-maps, against a map of vectors.

use super::{each_failure, emulated};
use crate::ShardedMultiMap;
use lanetree::runtime::Failure;
use lanetree::{Device, DeviceKind, KeyRange, MultiMap, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Rows = BTreeMap<u64, Vec<u64>>;

fn pairs_of(rows: &Rows) -> Vec<(u64, u64)> {
    rows.iter().flat_map(|(&key, row)| row.iter().map(move |&value| (key, value))).collect()
}

fn compare_rows(map: &ShardedMultiMap<u64, u64>, rows: &Rows, keys: &[u64]) -> Result<()> {
    let all = pairs_of(rows);
    assert_eq!((map.len(), map.keys_len(), map.pairs()?), (all.len() as u64, rows.len() as u64, all.clone()));
    let row = |key: &u64| rows.get(key).map_or(&[][..], Vec::as_slice);
    assert!(map.get_all_many(keys)?.iter().eq(keys.iter().map(row)));
    assert!(map.join_many(keys)?.rows.into_iter().eq(keys.iter().flat_map(|key| row(key).iter().copied())));
    assert!(map.count_many(keys)?.into_iter().eq(keys.iter().map(|key| row(key).len() as u64)));
    assert!(map.contains_many(keys)?.into_iter().eq(keys.iter().map(|key| rows.contains_key(key))));
    assert!(map.first_many(keys)?.into_iter().eq(keys.iter().map(|key| row(key).first().copied())));
    assert!(map.last_many(keys)?.into_iter().eq(keys.iter().map(|key| row(key).last().copied())));
    let below = |key: &u64| all.partition_point(|pair| pair.0 < *key);
    let through = |key: &u64| all.partition_point(|pair| pair.0 <= *key);
    assert!(map.predecessor_many(keys)?.into_iter().eq(keys.iter().map(|key| all[..through(key)].last().copied())));
    assert!(map.successor_many(keys)?.into_iter().eq(keys.iter().map(|key| all[below(key)..].first().copied())));
    if map.is_ordered() || map.shards()?.iter().all(|shard| shard.device().kind() == DeviceKind::Host) {
        assert!(map.lower_bound_many(keys)?.into_iter().eq(keys.iter().map(|key| below(key) as u64)));
        assert!(map.upper_bound_many(keys)?.into_iter().eq(keys.iter().map(|key| through(key) as u64)));
        for limit in [1, 7, u64::MAX] {
            let range = |pair: &[u64]| KeyRange::new(pair[0].min(pair[1])..=pair[0].max(pair[1])).limit(limit);
            let ranges: Vec<_> = keys.windows(2).map(range).collect();
            let (found, counts) = (map.range_many(ranges.iter().copied())?, map.count_range_many(ranges)?);
            for (i, pair) in keys.windows(2).enumerate() {
                let expected = &all[below(&pair[0].min(pair[1]))..through(&pair[0].max(pair[1]))];
                let expected = &expected[..expected.len().min(limit.min(1 << 40) as usize)];
                let (own, values) = found.get(i);
                assert!(own.iter().copied().zip(values.iter().copied()).eq(expected.iter().copied()));
                assert_eq!(counts[i], expected.len() as u64);
            }
        }
    }
    Ok(())
}

#[test]
fn multi_maps_in_shards_keep_all_values_in_order() -> Result<()> {
    let mut random = StdRng::seed_from_u64(45);
    for (devices, room) in [(emulated(3), 2.0), (vec![Device::host(); 5], 0.0), (vec![Device::emulated(); 2], 0.0)] {
        let mut rows = Rows::new();
        let mut batch = |rows: &mut Rows, most: u64| {
            let pairs: Vec<(u64, u64)> =
                (0..120).map(|_| (random.random_range(0..most) * 3, random.random_range(0..4))).collect();
            pairs.iter().for_each(|&(key, value)| rows.entry(key).or_default().push(value));
            pairs.into_iter().unzip::<u64, u64, Vec<_>, Vec<_>>()
        };
        let (keys, values) = batch(&mut rows, 60);
        let mut map = ShardedMultiMap::build(&devices, MultiMap::builder().room(room).fill(0.7), &keys, &values)?;
        let asked: Vec<u64> = (0..38).map(|i| (37 - i) * 5).chain([0, u64::MAX]).collect();
        compare_rows(&map, &rows, &asked)?;
        let (keys, values) = batch(&mut rows, 90);
        assert_eq!(map.insert_many(&keys, &values)?.inserted, 120);
        compare_rows(&map, &rows, &asked)?;
        map.restore_order()?;
        map.rebalance()?;
        compare_rows(&map, &rows, &asked)?;
        let pairs: Vec<(u64, u64)> = (0..30).map(|i| (i * 9, 1)).collect();
        let mut removed = 0;
        for (key, value) in &pairs {
            let row = rows.entry(*key).or_default();
            if let Some(at) = row.iter().position(|own| own == value) {
                row.remove(at);
                removed += 1;
            }
        }
        rows.retain(|_, row| !row.is_empty());
        assert_eq!(map.remove_pairs_many(&pairs)?.removed, removed);
        compare_rows(&map, &rows, &asked)?;
        let keys: Vec<u64> = (0..60).map(|i| i * 6).collect();
        let removed: usize = keys.iter().filter_map(|key| rows.remove(key)).map(|row| row.len()).sum();
        assert_eq!(map.remove_all_many(&keys)?.removed, removed as u64);
        compare_rows(&map, &rows, &asked)?;
    }
    Ok(())
}

/// One key has most values: no border can separate them.
#[test]
fn a_key_of_a_multi_map_stays_in_one_shard() -> Result<()> {
    let keys: Vec<u64> = (0..100).map(|i| if i < 90 { 50 } else { i }).collect();
    let mut map = ShardedMultiMap::build(&vec![Device::host(); 3], MultiMap::builder(), &keys, &keys)?;
    map.rebalance()?;
    assert_eq!(map.count_many(&[50])?, [90]);
    assert!(map.stats().iter().filter(|shard| shard.pairs >= 90).count() == 1);
    Ok(())
}

#[test]
fn a_shard_of_a_multi_map_that_fails_takes_the_others_back() -> Result<()> {
    let rows: Rows = (0..40).map(|i| (i * 10, (0..=i % 3).map(|value| value % 2).collect())).collect();
    let (keys, values): (Vec<_>, Vec<_>) = pairs_of(&rows).into_iter().unzip();
    let pairs: Vec<(u64, u64)> = (0..60).map(|i| (i * 7, i % 2)).collect();
    let (batch, batch_values): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let mut taken_back = 0;
    for change in 0..3 {
        // Few of the points of a rebuild, which are many.
        taken_back += each_failure(3, &[|at| Failure::Launch(at * 5)], |devices, fault| {
            let mut map = ShardedMultiMap::build(devices, MultiMap::builder(), &keys, &values)?;
            let done = fault.during(|| match change {
                0 => map.insert_many(&batch, &batch_values),
                1 => map.remove_all_many(&batch),
                _ => map.remove_pairs_many(&pairs),
            });
            assert!(!map.is_lost());
            if done.is_ok() { Ok(()) } else { compare_rows(&map, &rows, &[0, 10, 20, 35, 390]) }
        })?;
    }
    assert!(taken_back > 9, "{taken_back}");
    Ok(())
}
