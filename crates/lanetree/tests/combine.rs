//! Joins, and new indexes from two: over many rows of pairs, across kinds of indexes, and what is refused.

use lanetree::{
    Cubpt, Device, DeviceMatches, Error, Harmonia, JoinScratch, LaneTree, OrderedIndex, Pool, SortedArray, runtime,
};
use std::collections::BTreeMap;

const DEVICES: [fn() -> Device; 2] = [Device::host, Device::emulated];

/// Pairs in ascending order, with gaps of many widths; every part has some keys of the others.
fn pairs(part: u64) -> BTreeMap<i64, u32> {
    let mut state = part + 1;
    let mut key = -40_000_i64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        key += 1 + (state >> 60) as i64;
        (key, (state >> 33) as u32)
    };
    (0..5000).map(|_| next()).collect()
}

fn split(map: &BTreeMap<i64, u32>) -> (Vec<i64>, Vec<u32>) {
    map.iter().map(|(&key, &value)| (key, value)).unzip()
}

macro_rules! combines {
    ($test:ident, $index:ident, $other:ident, |$keys:ident, $values:ident, $device:ident| $build:expr) => {
        #[test]
        fn $test() {
            for device in DEVICES.map(|device| device()) {
                let (first, second) = (pairs(0), pairs(1));
                let ($keys, $values) = split(&first);
                let $device = &device;
                let index: $index<i64, u32> = $build.unwrap();
                let (keys, values) = split(&second);
                let other = $other::builder().build_sorted(&device, &keys, &values).unwrap();

                let mut union = first.clone();
                union.extend(second.clone());
                let common = |key: &i64| second.contains_key(key);
                let intersection: BTreeMap<i64, u32> =
                    first.clone().into_iter().filter(|pair| common(&pair.0)).collect();
                let difference: BTreeMap<i64, u32> =
                    first.clone().into_iter().filter(|pair| !common(&pair.0)).collect();
                assert!(intersection.len() > 200 && difference.len() > 200, "both are of some size");
                let same = |index: $index<i64, u32>, expected: &BTreeMap<i64, u32>| {
                    assert!(OrderedIndex::pairs(&index).unwrap().into_iter().eq(expected.clone()), "{index:?}");
                };
                same(index.union(&other).unwrap(), &union);
                same(index.union_sorted(&keys, &values).unwrap(), &union);
                same(index.intersection(&other).unwrap(), &intersection);
                same(index.difference(&other).unwrap(), &difference);
                same(index.difference_sorted(&keys).unwrap(), &difference);
                // Neither has changed.
                same(index, &first);
                assert!(OrderedIndex::pairs(&other).unwrap().into_iter().eq(second));
            }
        }
    };
}
combines!(lane_trees_are_combined, LaneTree, LaneTree, |keys, values, device| {
    LaneTree::builder().fill(0.6).table_nodes(2).build_sorted(device, &keys, &values)
});
combines!(a_lane_tree_is_combined_with_a_b_tree, LaneTree, Harmonia, |keys, values, device| {
    LaneTree::builder().build_sorted(device, &keys, &values)
});
combines!(b_trees_are_combined, Harmonia, Cubpt, |keys, values, device| {
    Harmonia::builder().fill(0.7).build_sorted(device, &keys, &values)
});
combines!(b_trees_with_references_are_combined, Cubpt, SortedArray, |keys, values, device| {
    Cubpt::builder().order(8).build_sorted(device, &keys, &values)
});
combines!(sorted_arrays_are_combined, SortedArray, LaneTree, |keys, values, device| {
    SortedArray::builder().build_sorted(device, &keys, &values)
});

/// Lines and nodes without pairs lie between the others.
#[test]
fn a_tree_of_which_most_was_removed_is_combined() {
    for device in DEVICES.map(|device| device()) {
        let mut map = pairs(2);
        let (keys, values) = split(&map);
        let mut tree = LaneTree::builder().fill(0.7).build_sorted(&device, &keys, &values).unwrap();
        tree.remove_many(&keys[700..4100]).unwrap();
        map.retain(|key, _| keys[700..4100].binary_search(key).is_err());
        let more = pairs(3);
        let (more_keys, more_values) = split(&more);
        let union = tree.union_sorted(&more_keys, &more_values).unwrap();
        map.extend(more);
        assert!(union.pairs().unwrap().into_iter().eq(map), "on {device}");
    }
}

#[test]
fn the_new_index_has_the_options_and_the_memory_of_the_first() {
    let pool = Pool::new(&Device::emulated());
    let device = pool.device();
    let (keys, values) = split(&pairs(0));
    let loose = LaneTree::builder().fill(0.3).build_sorted(&device, &keys, &values).unwrap();
    let full = LaneTree::builder().build_sorted(&device, &keys, &values).unwrap();
    let before = pool.stats();
    let same = loose.union(&full).unwrap();
    assert_eq!(same.bytes(), loose.bytes(), "as loose as the first");
    assert!(full.bytes() < loose.bytes() / 2);
    drop(same);
    assert_eq!(pool.stats().in_use, before.in_use, "the pool has all of it back");
}

#[test]
fn what_cannot_be_combined_is_an_error_that_names_it() {
    for device in DEVICES {
        let index = LaneTree::build(&device(), &[1_u64, 2], &[1_u32, 2]).unwrap();
        let elsewhere = LaneTree::build(&Device::emulated(), &[1_u64, 2], &[1_u32, 2]).unwrap();
        let is_wrong_device = |error: Error| matches!(error, Error::Runtime(runtime::Error::WrongDevice { .. }));
        assert!(is_wrong_device(index.union(&elsewhere).unwrap_err()));
        assert!(is_wrong_device(index.intersection(&elsewhere).unwrap_err()));
        assert!(is_wrong_device(index.difference(&elsewhere).unwrap_err()));
        let error = index.union_sorted(&[4, 3], &[0, 0]).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index: 1, .. }), "{error}");
        let error = index.union_sorted(&[3, 4], &[0]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { keys: 2, values: 1 }), "{error}");
        let error = index.difference_sorted(&[4, 3]).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index: 1, .. }), "{error}");
        // Of equal keys, the last one's value.
        let union = index.union_sorted(&[2, 2, 5], &[7, 8, 9]).unwrap();
        assert_eq!(union.pairs().unwrap(), [(1, 1), (2, 8), (5, 9)]);
    }
}

#[test]
fn joins_of_many_probes_agree_in_both_forms() {
    let map = pairs(4);
    let (keys, values) = split(&map);
    for (device, count) in DEVICES.map(|device| device()).into_iter().zip([200_000_i64, 40_000]) {
        let index = LaneTree::builder().build_sorted(&device, &keys, &values).unwrap();
        let probes: Vec<i64> = (0..count).map(|i| i * 7919 % 50_000 - 41_000).collect();
        let row = |probe: &i64| keys.binary_search(probe).ok().map(|row| row as u64);
        let expected: Vec<(u64, u64)> =
            (0..).zip(&probes).filter_map(|(i, probe)| row(probe).map(|row| (i, row))).collect();
        let matches = index.join_many(&probes).unwrap();
        assert!(matches.iter().eq(expected.iter().copied()), "in host form on {device}");

        let stream = device.stream().unwrap();
        let on_device = device.upload(&probes).unwrap();
        let mut scratch = JoinScratch::new(&device, probes.len()).unwrap();
        let mut out = DeviceMatches::new(&device, probes.len()).unwrap();
        index.on(&stream).join(&on_device, &mut scratch, &mut out).unwrap();
        let count = out.count.to_vec().unwrap()[0] as usize;
        let found = out.probes.to_vec().unwrap().into_iter().zip(out.rows.to_vec().unwrap());
        assert!(found.take(count).eq(expected), "in device form on {device}");

        let mut small = DeviceMatches::new(&device, 3).unwrap();
        let error = index.on(&stream).join(&on_device, &mut scratch, &mut small).unwrap_err();
        assert!(matches!(error, Error::OutputLength { actual: 3, .. }), "{error}");
        let mut scratch = JoinScratch::new(&device, 3).unwrap();
        let error = index.on(&stream).join(&on_device, &mut scratch, &mut out).unwrap_err();
        assert!(matches!(error, Error::OutputLength { actual: 3, .. }), "{error}");
    }
}
