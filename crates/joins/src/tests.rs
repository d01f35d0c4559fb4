//! Both joins against the CPU's, on the emulator.

use crate::{Bands, Kept, Rows, Sums, band_sums, semi_join, star_join};
use lanetree::runtime::Card;
use lanetree::{Device, Error, Key, KeyWord, LaneSet, LaneTree, Word};
use std::collections::BTreeMap;

/// Trees: with much room in their lines and levels above the lowest, full, and with some of their lines free.
fn trees<K: Key, V: Word>(device: &Device, keys: &[K]) -> Vec<(LaneTree<K, V>, BTreeMap<K, V>)> {
    let values: Vec<V> = (0..keys.len() as u64).map(|i| V::truncate(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let mut trees = Vec::new();
    for (fill, table) in [(0.4, 2), (1.0, 16384), (0.7, 3)] {
        let mut tree = LaneTree::builder().fill(fill).table_nodes(table).build(device, keys, &values).unwrap();
        let mut map: BTreeMap<K, V> = keys.iter().copied().zip(values.iter().copied()).collect();
        if table == 3 {
            let removed: Vec<K> =
                map.keys().copied().enumerate().filter(|(i, _)| i % 97 > 20).map(|(_, key)| key).collect();
            tree.remove_many(&removed).unwrap();
            map.retain(|key, _| removed.binary_search(key).is_err());
        }
        trees.push((tree, map));
    }
    trees.push((LaneTree::build(device, &[], &[]).unwrap(), BTreeMap::new()));
    trees
}

fn random() -> impl FnMut() -> u64 {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn joins<K: Key, V: Word>(key: impl Fn(u64) -> K::Bits) {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut random = random();
    let keys: Vec<K> = (0..3000).map(|_| K::decode(key(random()))).collect();
    let trees = trees::<K, V>(&device, &keys);
    let (second, second_map) = &trees[2];
    for (tree, map) in &trees {
        let of_map: Vec<K> = map.keys().copied().collect();
        let set = LaneSet::builder().fill(0.8).table_nodes(2).build(&device, &of_map).unwrap();
        for count in [0, 1, 33, 5000] {
            let mut near = || {
                let word = keys[random() as usize % keys.len()].encode();
                K::decode(match random() % 3 {
                    0 => word.wrapping_add(K::Bits::truncate(1)),
                    1 => key(random()),
                    _ => word,
                })
            };
            let mut rows: Vec<(K, u64)> = (0..count).map(|i| (near(), i * 7 % 100)).collect();
            let ends: Vec<K> = (0..count).map(|_| near()).collect();
            if count > 2 {
                (rows[0].0, rows[1].0) = (K::MIN, K::MAX);
            }
            let lows = device.upload(&rows.iter().map(|row| row.0).collect::<Vec<_>>()).unwrap();
            let amounts = device.upload(&rows.iter().map(|row| row.1).collect::<Vec<_>>()).unwrap();

            let mut kept = Kept::new(&device, rows.len()).unwrap();
            for threshold in [0, 90, 99] {
                semi_join(&stream, tree, Rows { keys: &lows, amounts: &amounts }, threshold, &mut kept).unwrap();
                let mut expected: Vec<(K, u64)> = rows.clone();
                expected.retain(|row| row.1 > threshold && map.contains_key(&row.0));
                let sum = expected.iter().fold(0_u64, |sum, row| sum.wrapping_add(map[&row.0].widen()));
                let mut found = kept.to_vec().unwrap();
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "{count} rows above {threshold} in {tree:?}");
                assert_eq!((kept.sum().unwrap(), kept.is_empty().unwrap()), (sum, expected.is_empty()));
                // The same keys without values.
                let rows = Rows { keys: &lows, amounts: &amounts };
                semi_join(&stream, set.as_tree(), rows, threshold, &mut kept).unwrap();
                let mut found = kept.to_vec().unwrap();
                found.sort_unstable();
                assert_eq!((found, kept.sum().unwrap()), (expected, 0), "{count} rows above {threshold} in {set:?}");
            }

            let ends_on_device = device.upload(&ends).unwrap();
            let mut hits = device.alloc(rows.len().div_ceil(32)).unwrap();
            star_join(&stream, [tree, second], [&lows, &ends_on_device], &mut hits).unwrap();
            let joins = |i: usize| map.contains_key(&rows[i].0) && second_map.contains_key(&ends[i]);
            let expected = (0..rows.len().next_multiple_of(32)).map(|i| i < rows.len() && joins(i));
            let found =
                hits.to_vec().unwrap().into_iter().flat_map(|word| (0..32).map(move |bit| word >> bit & 1 != 0));
            assert!(found.eq(expected), "{count} rows in {tree:?} and {second:?}");

            let (mut sums, mut last) = (device.alloc(rows.len()).unwrap(), device.alloc_zeroed(rows.len()).unwrap());
            for limit in [0, 1, 40] {
                let out = Sums { sums: &mut sums, last_keys: &mut last };
                band_sums(&stream, tree, Bands { lows: &lows, ends: &ends_on_device }, limit, out).unwrap();
                let (sums, last) = (sums.to_vec().unwrap(), last.to_vec().unwrap());
                let (mut counts, mut of_set) = (device.alloc(rows.len()).unwrap(), device.upload(&last).unwrap());
                let out = Sums { sums: &mut counts, last_keys: &mut of_set };
                band_sums(&stream, set.as_tree(), Bands { lows: &lows, ends: &ends_on_device }, limit, out).unwrap();
                assert_eq!(of_set.to_vec().unwrap(), last, "of at most {limit} keys of {set:?}");
                let counts = counts.to_vec().unwrap();
                for (i, (&(low, _), &end)) in rows.iter().zip(&ends).enumerate() {
                    let band: Vec<_> = map.range(low..end.max(low)).take(limit as usize).collect();
                    let sum = band.iter().fold(0_u64, |sum, pair| sum.wrapping_add(pair.1.widen()));
                    assert_eq!(counts[i], band.len() as u64, "{low} to {end}, at most {limit} keys of {set:?}");
                    assert_eq!(sums[i], sum, "{low} to {end}, at most {limit} pairs of {tree:?}");
                    if let Some(&(&key, _)) = band.last() {
                        assert_eq!(last[i], key, "{low} to {end}, at most {limit} pairs of {tree:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_with_wide_keys_and_values_are_joined() {
    joins::<u64, u64>(|wide| wide >> 20);
}

#[test]
fn rows_with_signed_keys_are_joined() {
    joins::<i64, u32>(|wide| wide << 7);
}

#[test]
fn rows_with_narrow_keys_and_values_are_joined() {
    joins::<u32, u32>(|wide| (wide >> 44) as u32);
}

#[test]
fn rows_with_narrow_keys_and_wide_values_are_joined() {
    joins::<i32, u64>(|wide| (wide >> 32) as u32);
}

#[test]
fn two_trees_are_joined_on_a_card_whose_blocks_have_no_room_for_two_tables_of_any_size() {
    // On a card as large as there are, these tables would be of many more keys.
    let device = Device::emulated_as(Card { shared_bytes_per_block: 24 << 10, ..Card::SMALLEST });
    let stream = device.stream().unwrap();
    // Keys whose gaps double, so that few of them are in a node: a table of all nodes takes more than half of the memory.
    let keys: Vec<u64> = (0..14_000).map(|i| (i / 40) << 40 | 1 << (i % 40)).collect();
    let tree = LaneTree::<u64, u64>::builder().fill(0.01).build(&device, &keys, &keys).unwrap();
    let rows: Vec<u64> = (0..20_000).map(|i| keys[i * 7 % keys.len()] + (i as u64 & 1)).collect();
    let others: Vec<u64> = rows.iter().rev().copied().collect();
    let (first, second) = (device.upload(&rows).unwrap(), device.upload(&others).unwrap());
    let mut hits = device.alloc(rows.len().div_ceil(32)).unwrap();
    star_join(&stream, [&tree, &tree], [&first, &second], &mut hits).unwrap();
    let is_key = |row: u64| keys.binary_search(&row).is_ok();
    let hits = hits.to_vec().unwrap();
    for (i, (&row, &other)) in rows.iter().zip(&others).enumerate() {
        assert_eq!(hits[i / 32] >> (i % 32) & 1 != 0, is_key(row) && is_key(other), "row {i}");
    }
}

#[test]
fn what_is_too_small_or_elsewhere_is_an_error() {
    let (device, other) = (Device::emulated(), Device::emulated());
    let stream = device.stream().unwrap();
    let tree = LaneTree::<u64, u32>::build(&device, &[1], &[1]).unwrap();
    let (keys, amounts) = (device.upload(&[1_u64, 2]).unwrap(), device.upload(&[1_u64, 2]).unwrap());
    let rows = Rows { keys: &keys, amounts: &amounts };
    let mut small = Kept::new(&device, 1).unwrap();
    let error = semi_join(&stream, &tree, rows, 0, &mut small).unwrap_err();
    assert!(matches!(error, Error::OutputLength { expected: 2, actual: 1, .. }), "{error}");
    let mut kept = Kept::new(&device, 2).unwrap();
    let elsewhere = LaneTree::<u64, u32>::build(&other, &[1], &[1]).unwrap();
    let error = semi_join(&stream, &elsewhere, rows, 0, &mut kept).unwrap_err();
    assert!(matches!(error, Error::Runtime(_)), "{error}");
    let host = Device::host();
    let tree = LaneTree::<u64, u32>::build(&host, &[1], &[1]).unwrap();
    let (keys, amounts) = (host.upload(&[1_u64]).unwrap(), host.upload(&[1_u64]).unwrap());
    let (stream, mut kept) = (host.stream().unwrap(), Kept::new(&host, 1).unwrap());
    let error = semi_join(&stream, &tree, Rows { keys: &keys, amounts: &amounts }, 0, &mut kept).unwrap_err();
    assert!(matches!(error, Error::Runtime(_)), "{error}");
}
