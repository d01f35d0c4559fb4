//! Sets: the trees without values that they are, and their own calls.

use super::batches::{Pair, batches_into, batches_of};
use super::{distributed, distributions, every_distribution, wide_distributions};
use crate::{BuildScratch, LaneSet, UpdateScratch};
use lanetree_frame::fixed::{CombineScratch, DeviceMatches, DeviceRanges, JoinScratch, RangeScratch, Sorted};
use lanetree_frame::{
    AnyKey, Batch, BatchOrder, Bytes16, Device, DeviceKind, Error, F64, KeyRange, Op, OpKind, UpdatePath,
};
use lanetree_runtime::Failure;
use std::collections::BTreeSet;

/// Every other one, from one of the first two on.
fn half<T>(all: Vec<T>, first: usize) -> Vec<T> {
    all.into_iter().skip(first).step_by(2).collect()
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_a_sets_keys() {
    every_distribution::<u64, ()>(half(half(distributed(|wide| wide), 0), 0), 1.0);
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_a_sets_narrow_keys() {
    every_distribution::<i32, ()>(half(distributed(|wide| (wide >> 32) as u32 ^ wide as u32), 1), 0.7);
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_a_sets_keys_of_128_bits() {
    every_distribution::<u128, ()>(half(half(wide_distributions(), 1), 0), 1.0);
}

#[test]
fn batches_have_the_effect_of_one_change_after_another_on_sets() {
    batches_of::<u32, ()>(&[(1.0, 3)], |wide| (wide >> 32) as u32);
}

#[test]
fn batches_come_into_distributions_of_a_set() {
    let all = half(half(distributions(), 1), 0);
    batches_into::<u32, ()>(all.into_iter().map(|(what, keys)| (what, narrow(keys))).collect());
}

fn narrow(keys: Vec<u64>) -> Vec<u32> {
    let keys: BTreeSet<u32> = keys.into_iter().map(|wide| (wide >> 32) as u32 ^ wide as u32).collect();
    keys.into_iter().collect()
}

/// A node of so narrow keys may have 1024 of them.
#[test]
fn the_fullest_nodes_are_changed() {
    let keys: Vec<u32> = (0..8000).map(|i| i * 2).collect();
    let mut both = Pair::<u32, ()>::new(&Device::emulated(), &keys, 0.4, 16384);
    for round in 0..3 {
        let ops: Vec<_> = (0..16_000).filter(|i| i % 8 == 2 * round + 1).map(|key| Op::Insert(key, ())).collect();
        both.apply(&ops, "dense");
    }
}

/// Bytes of a key in a set of random keys, built full.
fn bytes_of_keys<K: AnyKey>(key: impl Fn(u128) -> K) -> f64 {
    let mut word = 1_u128;
    let keys: Vec<K> = (0..1 << 17)
        .map(|_| {
            word = word.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            key(word)
        })
        .collect();
    let stats = LaneSet::build(&Device::host(), &keys).unwrap().stats();
    stats.bytes() as f64 / stats.len as f64
}

#[test]
fn a_set_takes_few_bytes_beside_its_keys() {
    let bytes = [
        bytes_of_keys(|word| (word >> 96) as u32),
        bytes_of_keys(|word| (word >> 64) as u64),
        bytes_of_keys(|word| word),
    ];
    println!("{bytes:?} bytes per key of 32, 64 and 128 bits");
    assert!(bytes[0] < 4.8 && bytes[1] < 9.0 && bytes[2] < 18.5, "{bytes:?} bytes per key of 32, 64 and 128 bits");
}

/// All calls of a set, against std's.
fn every_call<K: AnyKey>(device: &Device, key: impl Fn(u64) -> K) {
    let stream = device.stream().unwrap();
    let keys: Vec<K> = (0..900).map(|i| key((i * 7919) % 1009)).collect();
    let model: BTreeSet<K> = keys.iter().copied().collect();
    let sorted: Vec<K> = model.iter().copied().collect();
    let (builder, unsorted) = (LaneSet::builder().fill(0.8), device.upload(&keys).unwrap());
    let mut scratch = BuildScratch::for_unsorted(device, keys.len()).unwrap();
    let sets = [
        builder.build(device, &keys).unwrap(),
        builder.build_sorted(device, &sorted).unwrap(),
        builder.build_on(&stream, &unsorted, keys.len(), &mut scratch).unwrap(),
        builder.build_sorted_on(&stream, &device.upload(&sorted).unwrap(), sorted.len(), &mut scratch).unwrap(),
        builder.build_owned_on(&stream, unsorted, keys.len()).unwrap(),
    ];
    let queries: Vec<K> = (0..1040).map(&key).collect();
    let below = |query: &K| sorted.partition_point(|key| key < query);
    let upto = |query: &K| sorted.partition_point(|key| key <= query);
    let on_device = device.upload(&queries).unwrap();
    for set in &sets {
        assert_eq!((set.len(), set.is_empty()), (model.len() as u64, false));
        assert!(set.keys().unwrap() == sorted && set.iter().map(Result::unwrap).eq(sorted.iter().copied()));
        let found = set.contains_many(&queries).unwrap();
        assert!(found.iter().copied().eq(queries.iter().map(|query| model.contains(query))));
        let (lower, upper) = (set.lower_bound_many(&queries).unwrap(), set.upper_bound_many(&queries).unwrap());
        assert!(lower.iter().copied().eq(queries.iter().map(|query| below(query) as u64)));
        assert!(upper.iter().copied().eq(queries.iter().map(|query| upto(query) as u64)));
        let (before, after) = (set.predecessor_many(&queries).unwrap(), set.successor_many(&queries).unwrap());
        assert!(before.iter().copied().eq(queries.iter().map(|query| model.range(..=*query).next_back().copied())));
        assert!(after.iter().copied().eq(queries.iter().map(|query| model.range(*query..).next().copied())));
        let from = |query: &K| KeyRange::new(*query..).limit(3);
        let rows = set.range_many(queries.iter().map(from)).unwrap();
        assert_eq!(rows.len(), queries.len());
        assert!(rows.iter().zip(&queries).all(|(row, query)| row.iter().eq(sorted[below(query)..].iter().take(3))));
        let counts = set.count_range_many(queries.iter().map(|query| ..=*query)).unwrap();
        assert_eq!(counts, upper);
        let matches = set.join_many(&queries).unwrap();
        let hits = || (0..queries.len()).filter(|&i| found[i]).map(|i| (i as u64, lower[i]));
        assert!(matches.iter().eq(hits()));
        let mut again = set.join_many(&queries[..9]).unwrap();
        set.join_many_into(&queries, &mut again).unwrap();
        assert_eq!(again, matches);

        // The same in device form.
        let words = queries.len().div_ceil(32);
        let is_set = |mask: &[u32], i: usize| mask[i / 32] >> (i % 32) & 1 != 0;
        for order in [BatchOrder::default(), BatchOrder::Sorted] {
            let mut mask = device.upload(&vec![u32::MAX; words]).unwrap();
            set.on(&stream).order(order).contains(&on_device, &mut mask).unwrap();
            let mask = mask.to_vec().unwrap();
            assert!(found.iter().enumerate().all(|(i, &hit)| is_set(&mask, i) == hit), "{order:?}");
        }
        let (mut ranks, mut next) = (device.alloc(queries.len()).unwrap(), device.alloc(queries.len()).unwrap());
        set.on(&stream).lower_bound(&on_device, &mut ranks).unwrap();
        assert_eq!(ranks.to_vec().unwrap(), lower);
        set.on(&stream).upper_bound(&on_device, &mut ranks).unwrap();
        assert_eq!(ranks.to_vec().unwrap(), upper);
        for (is_before, expected) in [(true, &before), (false, &after)] {
            let mut mask = device.alloc(words).unwrap();
            match is_before {
                true => set.on(&stream).hits(&mut mask).predecessor(&on_device, &mut next).unwrap(),
                false => set.on(&stream).hits(&mut mask).successor(&on_device, &mut next).unwrap(),
            }
            let (next, mask) = (next.to_vec().unwrap(), mask.to_vec().unwrap());
            assert!((0..queries.len()).all(|i| is_set(&mask, i).then_some(next[i]) == expected[i]));
        }
        let ends = device.upload(&vec![K::MAX; queries.len()]).unwrap();
        let mut scratch = RangeScratch::new(device, queries.len()).unwrap();
        let mut out = DeviceRanges::new(device, queries.len(), 3 * queries.len()).unwrap();
        set.on(&stream).limit(3).range(&on_device, &ends, &mut scratch, &mut out).unwrap();
        assert_eq!(out.offsets.to_vec().unwrap(), rows.offsets);
        assert_eq!(out.keys.to_vec().unwrap()[..rows.keys.len()], rows.keys);
        set.on(&stream).count_range(&on_device, &ends, &mut ranks).unwrap();
        assert!(ranks.to_vec().unwrap().iter().zip(&lower).all(|(count, rank)| count + rank == set.len()));
        let mut scratch = JoinScratch::new(device, queries.len()).unwrap();
        let mut out = DeviceMatches::new(device, queries.len()).unwrap();
        set.on(&stream).join(&on_device, &mut scratch, &mut out).unwrap();
        assert_eq!(out.count.to_vec().unwrap(), [matches.len() as u64]);
        assert_eq!(out.rows.to_vec().unwrap()[..matches.len()], matches.rows);
    }
}

#[test]
fn every_call_of_a_set_agrees_with_std() {
    for device in [Device::host(), Device::emulated()] {
        every_call::<u64>(&device, |i| i << 20 | i);
        every_call::<i32>(&device, |i| i as i32 - 500);
        every_call::<F64>(&device, |i| F64::from(i as f64 / 3.0 - 200.0));
        every_call::<Bytes16>(&device, |i| Bytes16::from((u128::from(i) << 60 | 7).to_be_bytes()));
    }
}

#[test]
fn sets_are_changed_in_both_forms() {
    for device in [Device::host(), Device::emulated()] {
        let mut set = LaneSet::build(&device, &[5_i64, -3, 5]).unwrap();
        let mut model = BTreeSet::from([5, -3]);
        let report = set.insert_many(&[7, 5, 7, i64::MIN]).unwrap();
        model.extend([7, i64::MIN]);
        assert_eq!((report.inserted, report.replaced), (2, 1));
        assert_eq!(set.insert_many(&[7, 5]).unwrap().path, UpdatePath::Unchanged);
        assert_eq!(set.keys().unwrap(), Vec::from_iter(model.iter().copied()));
        let report = set.remove_many(&[-3, -4]).unwrap();
        assert_eq!((report.removed, report.unmatched), (1, 1));
        let report = set.apply(&[Op::Remove(5), Op::Insert(6, ()), Op::Insert(5, ()), Op::Update(9, ())]).unwrap();
        assert_eq!((report.inserted, report.replaced, report.unmatched), (1, 1, 1));
        assert_eq!(set.keys().unwrap(), [i64::MIN, 5, 6, 7]);

        let (stream, mut scratch) = (device.stream().unwrap(), UpdateScratch::new(&device, 4).unwrap());
        let (keys, kinds) =
            (device.upload(&[6, 8]).unwrap(), device.upload(&[OpKind::REMOVE, OpKind::INSERT]).unwrap());
        let applied = set.apply_on(&stream, Batch::keys_of_kinds(&keys, &kinds), &mut scratch);
        if device.kind() == DeviceKind::Host {
            assert!(matches!(applied, Err(Error::NoUpdates { .. })), "{applied:?}");
        } else {
            assert_eq!(applied.unwrap().path, UpdatePath::InPlace);
            assert_eq!(set.keys().unwrap(), [i64::MIN, 5, 7, 8]);
        }
        set.remove_many(&set.keys().unwrap()).unwrap();
        assert!(set.is_empty() && set.contains_many(&[5]).unwrap() == [false]);
        assert_eq!(set.successor_many(&[5]).unwrap(), [None]);
    }
}

#[test]
fn sets_are_combined() {
    for device in [Device::host(), Device::emulated()] {
        let keys: [Vec<u32>; 2] = [(0..600).map(|i| 3 * i).collect(), (0..900).map(|i| 2 * i).collect()];
        let [first, second] = keys.clone().map(|keys| LaneSet::build(&device, &keys).unwrap());
        let [a, b] = keys.each_ref().map(|keys| BTreeSet::from_iter(keys.iter().copied()));
        let union = Vec::from_iter(a.union(&b).copied());
        assert_eq!(first.union(&second).unwrap().keys().unwrap(), union);
        assert_eq!(first.union(Sorted::keys(&keys[1])).unwrap().keys().unwrap(), union);
        let common = first.intersection(&second).unwrap();
        assert_eq!(common.keys().unwrap(), Vec::from_iter(a.intersection(&b).copied()));
        let rest = Vec::from_iter(a.difference(&b).copied());
        assert_eq!(first.difference(&second).unwrap().keys().unwrap(), rest);
        assert_eq!(first.difference(Sorted::keys(&keys[1])).unwrap().keys().unwrap(), rest);
        let few: Vec<u32> = (0..40).flat_map(|i| [5 * i; 2]).collect();
        let found = Vec::from_iter((0..40).map(|i| 5 * i).filter(|key| a.contains(key)));
        assert_eq!(first.intersection(Sorted::keys(&few)).unwrap().keys().unwrap(), found);

        // The same on a stream, with scratch memory that is reused.
        let (stream, mut scratch) = (device.stream().unwrap(), CombineScratch::new(&device).unwrap());
        let batch = device.upload(&keys[1]).unwrap();
        for len in [keys[1].len(), 300, 0] {
            let upto = BTreeSet::from_iter(keys[1][..len].iter().copied());
            let second = LaneSet::build(&device, &keys[1][..len]).unwrap();
            for (combined, expected) in [
                (first.union_on(&stream, &second, &mut scratch), &a | &upto),
                (first.union_on(&stream, Sorted::keys_on(&batch, len), &mut scratch), &a | &upto),
                (first.intersection_on(&stream, &second, &mut scratch), &a & &upto),
                (second.intersection_on(&stream, &first, &mut scratch), &a & &upto),
                (first.intersection_on(&stream, Sorted::keys_on(&batch, len), &mut scratch), &a & &upto),
                (first.difference_on(&stream, &second, &mut scratch), &a - &upto),
                (second.difference_on(&stream, &first, &mut scratch), &upto - &a),
                (first.difference_on(&stream, Sorted::keys_on(&batch, len), &mut scratch), &a - &upto),
            ] {
                let combined = combined.unwrap();
                let mut keys = device.alloc(expected.len() + 1).unwrap();
                combined.on(&stream).keys(&mut keys).unwrap();
                assert!(keys.to_vec().unwrap()[..expected.len()].iter().eq(&expected), "{len} keys");
                assert_eq!(combined.len(), expected.len() as u64, "{len} keys");
            }
        }
        // A set so much larger that keys are looked up there.
        let small = LaneSet::build(&device, &few).unwrap();
        let rest = Vec::from_iter((0..40).map(|i| 5 * i).filter(|key| !a.contains(key)));
        assert_eq!(small.difference_on(&stream, &first, &mut scratch).unwrap().keys().unwrap(), rest);
    }
}

#[test]
fn a_sets_batch_takes_place_or_does_not_whatever_fails() {
    let keys: Vec<u64> = (0..2000).map(|i| i << 30).collect();
    let dense: Vec<u64> = (0..600).collect();
    let failed = Failure::at_every_point(
        |device| LaneSet::builder().fill(0.7).build(device, &keys).unwrap(),
        |set| set.insert_many(&dense).map(|report| assert_eq!(report.path, UpdatePath::Moved)),
        |set, error| match set.contains_many(&dense[1..]) {
            Ok(found) => assert!(!found.contains(&true) && set.keys().unwrap() == keys, "{error}"),
            Err(lost) => assert!(matches!(lost, Error::Lost { .. }) && set.is_lost(), "{lost}, after {error}"),
        },
    );
    assert!(failed.len() > 40, "{failed:?}");
}

#[test]
fn a_sets_options_and_order_are_checked() {
    let device = Device::emulated();
    let refused = LaneSet::builder().build_sorted(&device, &[3_u32, 1]).unwrap_err();
    assert!(matches!(refused, Error::NotSorted { index: 1, .. }), "{refused}");
    let refused = LaneSet::<u32>::builder().fill(0.0).build(&device, &[]).unwrap_err();
    assert!(matches!(refused, Error::Fill { .. }), "{refused}");
    let (stream, queries) = (device.stream().unwrap(), device.upload(&[1_u32; 33]).unwrap());
    let set = LaneSet::build(&device, &[1_u32]).unwrap();
    let refused = set.on(&stream).contains(&queries, &mut device.alloc(1).unwrap()).unwrap_err();
    assert!(matches!(refused, Error::OutputLength { expected: 2, actual: 1, .. }), "{refused}");
}
