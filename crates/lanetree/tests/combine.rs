//! Joins, and new indexes from two: over many rows of pairs, across kinds of indexes, and what is refused.

use lanetree::{
    CombineScratch, Cubpt, Device, DeviceMatches, Error, Harmonia, JoinScratch, LaneTree, OrderedIndex, Pool, Sorted,
    SortedArray, runtime,
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
                same(index.union(Sorted::pairs(&keys, &values)).unwrap(), &union);
                same(index.intersection(&other).unwrap(), &intersection);
                same(index.intersection(Sorted::keys(&keys)).unwrap(), &intersection);
                same(index.difference(&other).unwrap(), &difference);
                same(index.difference(Sorted::keys(&keys)).unwrap(), &difference);

                // In device form; all but the first with scratch memory that others have used.
                let (stream, mut scratch) = (device.stream().unwrap(), CombineScratch::new(&device).unwrap());
                let batch = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                let (pairs, len) = ((&batch.0, &batch.1), keys.len());
                let scratch = &mut scratch;
                same(index.intersection_on(&stream, &other, scratch).unwrap(), &intersection);
                same(index.union_on(&stream, &other, scratch).unwrap(), &union);
                same(index.difference_on(&stream, &other, scratch).unwrap(), &difference);
                same(index.union_on(&stream, Sorted::pairs_on(pairs.0, pairs.1, len), scratch).unwrap(), &union);
                same(index.intersection_on(&stream, Sorted::keys_on(&batch.0, len), scratch).unwrap(), &intersection);
                same(index.difference_on(&stream, Sorted::keys_on(&batch.0, len), scratch).unwrap(), &difference);
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
    Cubpt::builder().fanout(8).build_sorted(device, &keys, &values)
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
        let union = tree.union(Sorted::pairs(&more_keys, &more_values)).unwrap();
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

/// With the smaller index first, and with the larger first: either may be copied, and looked up in the other.
#[test]
fn indexes_of_different_sizes_are_intersected_with_the_values_of_the_first() {
    for device in DEVICES.map(|device| device()) {
        let few: Vec<u64> = (0..400).map(|i| 35 * i).collect();
        let many: Vec<u64> = (0..3000).map(|i| 5 * i).collect();
        let build = |keys: &[u64], first: u32| {
            let values: Vec<u32> = (first..).take(keys.len()).collect();
            LaneTree::builder().fill(0.8).build_sorted(&device, keys, &values).unwrap()
        };
        let (small, large) = (build(&few, 0), build(&many, 1 << 20));
        let is_in = |keys: &[u64], key: u64| keys.binary_search(&key).is_ok();
        let expected = small.pairs().unwrap().into_iter().filter(|pair| is_in(&many, pair.0));
        assert!(small.intersection(&large).unwrap().pairs().unwrap().into_iter().eq(expected), "on {device}");
        let expected = large.pairs().unwrap().into_iter().filter(|pair| is_in(&few, pair.0));
        assert!(large.intersection(&small).unwrap().pairs().unwrap().into_iter().eq(expected), "on {device}");
        // Few keys are looked up in the larger index; many are merged with the smaller one's.
        let expected = large.pairs().unwrap().into_iter().filter(|pair| !is_in(&few, pair.0));
        assert!(large.difference(&small).unwrap().pairs().unwrap().into_iter().eq(expected), "on {device}");
        let expected = small.pairs().unwrap().into_iter().filter(|pair| !is_in(&many, pair.0));
        assert!(small.difference(&large).unwrap().pairs().unwrap().into_iter().eq(expected), "on {device}");
    }
}

#[test]
fn an_empty_side_is_combined() {
    for device in DEVICES.map(|device| device()) {
        let empty = LaneTree::<u64, u32>::build(&device, &[], &[]).unwrap();
        let some = LaneTree::build(&device, &[3_u64, 7], &[30_u32, 70]).unwrap();
        let (all, stream) = ([(3, 30), (7, 70)], device.stream().unwrap());
        let mut scratch = CombineScratch::new(&device).unwrap();
        let nothing = device.upload(&[]).unwrap();
        assert_eq!(empty.union_on(&stream, &some, &mut scratch).unwrap().pairs().unwrap(), all);
        assert_eq!(some.union_on(&stream, &empty, &mut scratch).unwrap().pairs().unwrap(), all);
        assert_eq!(some.difference_on(&stream, &empty, &mut scratch).unwrap().pairs().unwrap(), all);
        assert_eq!(
            some.difference_on(&stream, Sorted::keys_on(&nothing, 0), &mut scratch).unwrap().pairs().unwrap(),
            all
        );
        assert!(empty.difference_on(&stream, &some, &mut scratch).unwrap().is_empty());
        assert!(some.intersection_on(&stream, &empty, &mut scratch).unwrap().is_empty());
        assert!(empty.intersection_on(&stream, &some, &mut scratch).unwrap().is_empty());
        assert!(some.intersection(Sorted::keys(&[])).unwrap().is_empty());
        assert!(empty.difference(&empty).unwrap().is_empty());
    }
}

#[test]
fn the_pairs_of_an_index_are_copied_on_a_stream() {
    for device in DEVICES.map(|device| device()) {
        let map = pairs(5);
        let (keys, values) = split(&map);
        let stream = device.stream().unwrap();
        let tree = LaneTree::builder().fill(0.5).build_sorted(&device, &keys, &values).unwrap();
        let other = Cubpt::builder().build_sorted(&device, &keys, &values).unwrap();
        let len = keys.len();
        let mut out = (device.upload(&vec![7_i64; len + 2]).unwrap(), device.upload(&vec![9_u32; len + 1]).unwrap());
        tree.on(&stream).pairs(&mut out.0, &mut out.1).unwrap();
        assert!(out.0.to_vec().unwrap().into_iter().eq(keys.iter().copied().chain([7, 7])), "on {device}");
        assert!(out.1.to_vec().unwrap().into_iter().eq(values.iter().copied().chain([9])), "on {device}");
        let mut out = (device.alloc(len).unwrap(), device.alloc(len).unwrap());
        other.on(&stream).pairs(&mut out.0, &mut out.1).unwrap();
        assert!(out.0.to_vec().unwrap() == keys && out.1.to_vec().unwrap() == values, "on {device}");
        let mut short = device.alloc(len - 1).unwrap();
        let error = tree.on(&stream).pairs(&mut out.0, &mut short).unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected: 5000, actual: 4999, .. }), "{error}");
    }
}

/// The memory that is taken in addition to both indexes, and what the scratch memory keeps.
#[test]
fn memory_is_taken_as_documented() {
    let pool = Pool::new(&Device::emulated());
    let (device, stream) = (pool.device(), pool.device().stream().unwrap());
    let keys: Vec<u64> = (0..20_000).collect();
    let odd: Vec<u64> = keys.iter().map(|key| 2 * key + 1).collect();
    let first = LaneTree::builder().build_sorted(&device, &keys, &keys).unwrap();
    let other = LaneTree::builder().build_sorted(&device, &odd, &odd).unwrap();
    let pairs = 16 * (keys.len() + odd.len());
    let peak = |work: &mut dyn FnMut()| {
        pool.restart_peak();
        let before = pool.stats().peak;
        work();
        pool.stats().peak - before
    };
    let mut union = None;
    let taken = peak(&mut || union = Some(first.union(&other).unwrap()));
    let tree = union.unwrap().bytes() as usize;
    // Twice the pairs before the tree is built, or the pairs once and the tree.
    assert!(taken < 2 * pairs.max(tree) + pairs / 8, "{taken} bytes for {pairs} of pairs, and a tree of {tree}");

    let mut scratch = CombineScratch::new(&device).unwrap();
    drop(first.union_on(&stream, &other, &mut scratch).unwrap());
    let kept = scratch.bytes();
    assert!((2 * pairs..2 * pairs + pairs / 8).contains(&kept), "{kept}");
    let taken = peak(&mut || drop(first.union_on(&stream, &other, &mut scratch).unwrap()));
    assert!(taken < tree + pairs / 4, "{taken} bytes in addition to the scratch memory, for a tree of {tree}");
    assert_eq!(scratch.bytes(), kept, "none was added");
}

#[test]
fn what_cannot_be_combined_is_an_error_that_names_it() {
    for device in DEVICES.map(|device| device()) {
        let index = LaneTree::build(&device, &[1_u64, 2], &[1_u32, 2]).unwrap();
        let elsewhere = LaneTree::build(&Device::emulated(), &[1_u64, 2], &[1_u32, 2]).unwrap();
        let is_wrong_device = |error: Error| matches!(error, Error::Runtime(runtime::Error::WrongDevice { .. }));
        assert!(is_wrong_device(index.union(&elsewhere).unwrap_err()));
        assert!(is_wrong_device(index.intersection(&elsewhere).unwrap_err()));
        assert!(is_wrong_device(index.difference(&elsewhere).unwrap_err()));
        let error = index.union(Sorted::pairs(&[4, 3], &[0, 0])).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index: 1, .. }), "{error}");
        let error = index.union(Sorted::pairs(&[3, 4], &[0])).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { keys: 2, values: 1 }), "{error}");
        let error = index.difference(Sorted::keys(&[4, 3])).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index: 1, .. }), "{error}");
        let error = index.intersection(Sorted::keys(&[2, 4, 3])).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index: 2, .. }), "{error}");
        // Of equal keys, the last one's value.
        let union = index.union(Sorted::pairs(&[2, 2, 5], &[7, 8, 9])).unwrap();
        assert_eq!(union.pairs().unwrap(), [(1, 1), (2, 8), (5, 9)]);
        let intersection = index.intersection(Sorted::keys(&[0, 2, 2, 2, 5])).unwrap();
        assert_eq!(intersection.pairs().unwrap(), [(2, 2)]);
        let difference = index.difference(Sorted::keys(&[0, 2, 2, 2, 5])).unwrap();
        assert_eq!(difference.pairs().unwrap(), [(1, 1)]);

        // In device form.
        let (stream, mut scratch) = (device.stream().unwrap(), CombineScratch::new(&device).unwrap());
        let (keys, values) = (device.upload(&[4_u64, 3]).unwrap(), device.upload(&[0_u32]).unwrap());
        let error = index.union_on(&stream, Sorted::pairs_on(&keys, &values, 2), &mut scratch).unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected: 2, actual: 1, .. }), "{error}");
        let error = index.difference_on(&stream, Sorted::keys_on(&keys, 2), &mut scratch).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index: 1, .. }), "{error}");
        let error = index.difference_on(&stream, Sorted::keys_on(&keys, 3), &mut scratch).unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected: 3, actual: 2, .. }), "{error}");
        let error = index.intersection_on(&stream, Sorted::keys_on(&keys, 2), &mut scratch).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index: 1, .. }), "{error}");
        // Batches of another device, whole and in part.
        let elsewhere_on = [Device::host(), Device::emulated()];
        for there in elsewhere_on.iter().filter(|there| **there != device) {
            let foreign = (there.upload(&[3_u64, 4]).unwrap(), there.upload(&[0_u32, 0]).unwrap());
            let own = (device.upload(&[3_u64, 4]).unwrap(), device.upload(&[0_u32, 0]).unwrap());
            for batch in [(&foreign.0, &foreign.1), (&foreign.0, &own.1), (&own.0, &foreign.1)] {
                assert!(is_wrong_device(
                    index.union_on(&stream, Sorted::pairs_on(batch.0, batch.1, 2), &mut scratch).unwrap_err()
                ));
            }
            assert!(is_wrong_device(
                index.intersection_on(&stream, Sorted::keys_on(&foreign.0, 2), &mut scratch).unwrap_err()
            ));
            assert!(is_wrong_device(
                index.difference_on(&stream, Sorted::keys_on(&foreign.0, 2), &mut scratch).unwrap_err()
            ));
        }
        // Only the first is of the batch.
        let difference = index.difference_on(&stream, Sorted::keys_on(&keys, 1), &mut scratch).unwrap();
        assert_eq!(difference.pairs().unwrap(), [(1, 1), (2, 2)]);
        let other_stream = Device::emulated().stream().unwrap();
        assert!(is_wrong_device(index.union_on(&other_stream, &index, &mut scratch).unwrap_err()));
        let mut other_scratch = CombineScratch::new(&Device::emulated()).unwrap();
        assert!(is_wrong_device(index.union_on(&stream, &index, &mut other_scratch).unwrap_err()));
        assert!(is_wrong_device(index.difference_on(&stream, &elsewhere, &mut scratch).unwrap_err()));
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
        let mut again = index.join_many(&probes[..count as usize / 2]).unwrap();
        index.join_many_into(&probes, &mut again).unwrap();
        assert_eq!(again, matches, "over other matches");

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
