//! Ranges and scans in device form: short ones and long ones in one batch.

use super::{distributed, distributions, wide_distributions};
use crate::LaneTree;
use lanetree_frame::fixed::ranges::Sizes;
use lanetree_frame::fixed::{DeviceRanges, FixedIndex, OnStream, RangeScratch};
use lanetree_frame::{Device, DeviceKind, Error};
use lanetree_layout::{AnyKey, KeyWord, Value};

/// Lengths of ranges, one after another; in every third warp some are longer.
const LENGTHS: [usize; 8] = [3, 8, 0, 1, 9, 5, 2, 8];
const LONG: [usize; 2] = [40, 300];

/// Checks that a tree with these pairs, in order, answers scans right: from keys all over and from the keys next to
/// them, with limits so that the pairs are in one bucket, in a few, and in many.
fn scans_are_found<K: AnyKey, V: Value>(tree: &LaneTree<K, V>, pairs: &[(K, V)], what: &str) {
    let device = FixedIndex::device(tree);
    let one = K::Bits::truncate(1);
    let around = |key: K| [key.encode().wrapping_sub(one), key.encode(), key.encode().wrapping_add(one)];
    let some = pairs.iter().step_by(pairs.len().div_ceil(100).max(1)).chain(pairs.last());
    let mut starts: Vec<K> = some.flat_map(|pair| around(pair.0)).map(K::decode).collect();
    starts.extend([K::MIN, K::MAX]);
    let (stream, on_device) = (device.stream().unwrap(), device.upload(&starts).unwrap());
    for limit in [0, 1, 8, 33, 200_usize] {
        let room = starts.len() * limit;
        let (mut keys, mut values) = (device.alloc_zeroed(room).unwrap(), device.alloc_zeroed(room).unwrap());
        let mut counts = device.alloc(starts.len()).unwrap();
        let on = OnStream::new(tree, &stream);
        on.scan(&on_device, limit as u32, &mut keys, &mut values, &mut counts).unwrap();
        let (keys, values, counts): (Vec<K>, Vec<V>, _) =
            (keys.to_vec().unwrap(), values.to_vec().unwrap(), counts.to_vec().unwrap());
        for (i, start) in starts.iter().enumerate() {
            let from = pairs.partition_point(|pair| pair.0 < *start);
            let expected = &pairs[from..pairs.len().min(from + limit)];
            assert_eq!(counts[i] as usize, expected.len(), "{what}: {limit} pairs from {start:?} on");
            let at = i * limit..i * limit + expected.len();
            let found = keys[at.clone()].iter().copied().zip(values[at].iter().copied());
            assert!(found.eq(expected.iter().copied()), "{what}: {limit} pairs from {start:?} on");
        }
    }
}

/// Checks that a tree with these pairs, in order, finds short ranges of them all over, and scans.
pub(super) fn ranges_are_found<K: AnyKey, V: Value>(tree: &LaneTree<K, V>, pairs: &[(K, V)], what: &str) {
    let device = FixedIndex::device(tree);
    scans_are_found(tree, pairs, what);
    if device.kind() == DeviceKind::Host || pairs.is_empty() {
        return;
    }
    let step = pairs.len().div_ceil(150);
    let (mut starts, mut ends, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for (i, from) in (0..pairs.len()).step_by(step).enumerate() {
        let is_long = i / 32 % 3 == 1 && i % 16 < LONG.len();
        let len = if is_long { LONG[i % 16] } else { LENGTHS[i % LENGTHS.len()] }.min(pairs.len() - from);
        // Ends are keys, or anything up to the next one.
        let last = pairs[(from + len).saturating_sub(1)].0;
        let next = pairs.get(from + len).map_or(K::MAX, |pair| pair.0);
        let before_next = K::decode(next.encode().wrapping_sub(K::Bits::truncate(1)));
        let end = match (len, i % 2) {
            (0, _) => K::MIN,
            (_, 0) => last,
            _ if next == K::MAX => next,
            _ => before_next,
        };
        starts.push(pairs[from].0);
        ends.push(end);
        lengths.push(if end < pairs[from].0 { 0 } else { len.max(usize::from(len == 0 && from == 0)) });
    }
    // All pairs, and none.
    starts.extend([K::MIN, K::MAX]);
    ends.extend([K::MAX, K::MIN]);
    lengths.extend([pairs.len(), 0]);
    let count = starts.len();
    let all: Vec<usize> = starts.iter().map(|start| pairs.partition_point(|pair| pair.0 < *start)).collect();
    let stream = device.stream().unwrap();
    let on_device = (device.upload(&starts).unwrap(), device.upload(&ends).unwrap());
    let limits: Vec<u64> = (0..count as u64).map(|i| [9, 2, 0, 60][i as usize % 4]).collect();
    let limits_on_device = device.upload(&limits).unwrap();
    for (limit, is_limited) in [(u64::MAX, false), (4, false), (50, true)] {
        let most = |i: usize| if is_limited { limits[i].min(limit) } else { limit };
        let mut offsets = vec![0];
        let mut expected = Vec::new();
        for i in 0..count {
            let len = (lengths[i] as u64).min(most(i)) as usize;
            expected.extend_from_slice(&pairs[all[i]..all[i] + len]);
            offsets.push(expected.len() as u64);
        }
        let room = expected.len().max(1);
        for capacity in [room, room.div_ceil(2)] {
            let mut scratch = RangeScratch::new(device, count).unwrap();
            let mut out = DeviceRanges::new(device, count, capacity).unwrap();
            let limits = is_limited.then_some(&limits_on_device);
            OnStream::new(tree, &stream)
                .limits(limits)
                .limit(limit)
                .range(&on_device.0, &on_device.1, &mut scratch, &mut out)
                .unwrap();
            let context = format!("{what}, at most {limit}, {is_limited}, {capacity} of {}", expected.len());
            assert_eq!(out.offsets.to_vec().unwrap(), offsets, "{context}");
            let found = out.keys.to_vec().unwrap().into_iter().zip(out.values.to_vec().unwrap());
            assert!(found.take(expected.len()).eq(expected.iter().copied().take(capacity)), "{context}");
        }
    }
}

fn of_distributions<K: AnyKey, V: Value>(all: Vec<(&'static str, Vec<K>)>, fill: f64) {
    for (what, mut keys) in all {
        keys.sort_unstable();
        keys.dedup();
        let values: Vec<V> = (0..keys.len() as u64).map(|i| V::of(KeyWord::truncate(i))).collect();
        let tree =
            LaneTree::builder().fill(fill).table_nodes(3).build_sorted(&Device::emulated(), &keys, &values).unwrap();
        let pairs: Vec<(K, V)> = keys.into_iter().zip(values).collect();
        ranges_are_found(&tree, &pairs, what);
    }
}

#[test]
fn ranges_are_found_whatever_the_distribution() {
    of_distributions::<u64, u64>(distributions(), 1.0);
    of_distributions::<u128, u32>(wide_distributions().into_iter().step_by(4).collect(), 0.7);
}

#[test]
fn scans_and_successors_pass_buckets_that_are_free() {
    let keys: Vec<u64> = (0..6000).map(|i| i << 40).collect();
    let values: Vec<u32> = (0..6000).collect();
    for device in [Device::emulated(), Device::host()] {
        let mut tree = LaneTree::builder().table_nodes(3).build_sorted(&device, &keys, &values).unwrap();
        // Of each ten nodes or so, little or nothing is left; and nothing at the end.
        let stays = |i: usize| i < 5000 && (i % 2500 < 300 || i % 500 == 7);
        let removed: Vec<u64> = (0..keys.len()).filter(|&i| !stays(i)).map(|i| keys[i]).collect();
        tree.remove_many(&removed).unwrap();
        let left: Vec<(u64, u32)> = (0..keys.len()).filter(|&i| stays(i)).map(|i| (keys[i], values[i])).collect();
        ranges_are_found(&tree, &left, "after removals");
        let queries: Vec<u64> = keys.iter().step_by(7).map(|key| key + 1).collect();
        let next = |key: &u64| left.get(left.partition_point(|pair| pair.0 < *key)).copied();
        assert!(tree.successor_many(&queries).unwrap().into_iter().eq(queries.iter().map(next)));
    }
}

/// A long range is no slower than many short ones: it is gathered in parts, and all pairs in several windows.
#[test]
fn long_ranges_are_cut_into_windows_and_parts() {
    let keys: Vec<u64> = (0..6000).map(|i| i << 40).collect();
    let values: Vec<u32> = (0..6000).collect();
    let mut tree = LaneTree::builder().table_nodes(3).build_sorted(&Device::emulated(), &keys, &values).unwrap();
    // Buckets of many lengths.
    tree.remove_many(&keys.iter().copied().filter(|key| key >> 40 & 5 == 1).collect::<Vec<_>>()).unwrap();
    let left: Vec<(u64, u32)> = keys.into_iter().zip(values).filter(|pair| pair.1 & 5 != 1).collect();
    for (window, part) in [(8, 8), (100, 32), (1000, 64), (1 << 20, 1024)] {
        tree.staging.ranges.sizes = Sizes { window, part, small: 0, ..Sizes::default() };
        let what = format!("windows of {window} pairs, parts of {part}");
        let ranges = [0..50 << 40, 7 << 40..5990 << 40, 3 << 40..4 << 40, 100 << 40..3000 << 40];
        let found = tree.range_many(ranges.iter().cloned()).unwrap();
        for (i, range) in ranges.into_iter().enumerate() {
            let pairs = found.get(i).0.iter().copied().zip(found.get(i).1.iter().copied());
            assert!(pairs.eq(left.iter().copied().filter(|pair| range.contains(&pair.0))), "{what}: range {i}");
        }
        assert_eq!(tree.pairs().unwrap(), left, "{what}");
        assert!(tree.iter().map(Result::unwrap).eq(left.iter().copied()), "{what}");
    }
}

#[test]
fn scans_say_what_is_too_short() {
    let device = Device::emulated();
    let tree = LaneTree::<u64, u32>::build(&device, &[1, 2], &[3, 4]).unwrap();
    let (stream, starts) = (device.stream().unwrap(), device.upload(&[0_u64; 3]).unwrap());
    let room = |keys, values, counts| {
        let (mut keys, mut values) = (device.alloc(keys).unwrap(), device.alloc(values).unwrap());
        tree.on(&stream).scan(&starts, 4, &mut keys, &mut values, &mut device.alloc(counts).unwrap())
    };
    for (result, wanted) in [(room(11, 12, 3), 12), (room(12, 11, 3), 12), (room(12, 12, 2), 3)] {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected, .. } if expected == wanted), "{error}");
    }
    room(12, 12, 3).unwrap();
}

#[test]
fn ranges_of_narrow_keys_and_sets_are_found() {
    let few = || distributed::<u32>(|wide| (wide >> 32) as u32 ^ wide as u32).into_iter().step_by(3);
    of_distributions::<u32, u32>(few().collect(), 0.7);
    of_distributions::<u32, ()>(few().skip(1).collect(), 1.0);
    of_distributions::<u64, ()>(distributions().into_iter().skip(1).step_by(4).collect(), 0.6);
}
