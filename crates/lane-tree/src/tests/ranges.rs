//! Ranges in device form: short ones and long ones in one batch.

use super::{distributed, distributions, wide_distributions};
use crate::LaneTree;
use lanetree_frame::fixed::{DeviceRanges, FixedIndex, OnStream, RangeScratch};
use lanetree_frame::{Device, DeviceKind};
use lanetree_layout::{AnyKey, KeyWord, Value};

/// Lengths of ranges, one after another; in every third warp some are longer.
const LENGTHS: [usize; 8] = [3, 8, 0, 1, 9, 5, 2, 8];
const LONG: [usize; 2] = [40, 300];

/// Checks that a tree with these pairs, in order, finds short ranges of them all over.
pub(super) fn ranges_are_found<K: AnyKey, V: Value>(tree: &LaneTree<K, V>, pairs: &[(K, V)], what: &str) {
    let device = FixedIndex::device(tree);
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
                .range(&on_device.0, &on_device.1, limits, limit, &mut scratch, &mut out)
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
fn short_ranges_ranges_are_found_whatever_the_distribution() {
    of_distributions::<u64, u64>(distributions(), 1.0);
    of_distributions::<u128, u32>(wide_distributions().into_iter().step_by(4).collect(), 0.7);
}

#[test]
fn short_ranges_of_narrow_keys_and_sets_ranges_are_found() {
    let few = || distributed::<u32>(|wide| (wide >> 32) as u32 ^ wide as u32).into_iter().step_by(3);
    of_distributions::<u32, u32>(few().collect(), 0.7);
    of_distributions::<u32, ()>(few().skip(1).collect(), 1.0);
    of_distributions::<u64, ()>(distributions().into_iter().skip(1).step_by(4).collect(), 0.6);
}
