//! Every bad input is an error that names what was wrong, and leaves everything as it was.

use lanetree::harmonia::{GroupWidth, LookUpTuning};
use lanetree::primitives::{
    BuildScratch, MergeScratch, OperationSort, RadixSortScratch, RunScratch, ScanScratch, SelectScratch, exclusive_scan,
};
use lanetree::{
    ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceKind, DeviceMatches, DeviceRangeMatches, DeviceRanges, Error,
    Harmonia, IntervalIndex, JoinScratch, LaneSet, LaneTree, MultiMap, RangeJoinScratch, RangeScratch, Sharded, Stream,
    cuart, cubpt, harmonia, intervals, lane_tree, multimap, runtime,
};

const DEVICES: [fn() -> Device; 2] = [Device::host, Device::emulated];

/// A tree of 1000 pairs, keys three apart, and a stream of its device.
fn tree(device: &Device) -> (Harmonia<u64, u32>, Stream) {
    let keys: Vec<u64> = (0..1000).map(|i| i * 3).collect();
    let values: Vec<u32> = (0..1000).collect();
    (Harmonia::builder().fanout(16).build_sorted(device, &keys, &values).unwrap(), device.stream().unwrap())
}

fn message<T>(result: lanetree::Result<T>) -> String {
    result.err().expect("this is an error").to_string()
}

fn is_out_of_memory<T>(result: lanetree::Result<T>) -> bool {
    matches!(result, Err(Error::Runtime(runtime::Error::OutOfMemory { .. })))
}

fn is_wrong_device<T>(result: lanetree::Result<T>) -> bool {
    matches!(result, Err(Error::Runtime(runtime::Error::WrongDevice { .. })))
}

#[test]
fn unsorted_input_to_the_sorted_builder_is_named() {
    for device in DEVICES {
        let result = Harmonia::builder().build_sorted(&device(), &[-5_i32, 3, 2, 9, 1], &[0_u32; 5]);
        assert_eq!(
            message(result),
            "keys[2] = 2 is below keys[1] = 3: sort the pairs, or use the build that sorts them"
        );
    }
}

#[test]
fn lengths_that_differ_are_named() {
    for device in DEVICES {
        let expected = "3 keys but 2 values: give one value per key";
        assert_eq!(message(Harmonia::build(&device(), &[1_u32, 2, 3], &[1_u32, 2])), expected);
        assert_eq!(message(Harmonia::builder().build_sorted(&device(), &[1_u32, 2, 3], &[1_u64, 2])), expected);
    }
}

#[test]
fn fills_and_fanouts_without_sense_are_named() {
    let (device, keys) = (Device::host(), [1_u64, 2, 3]);
    for fill in [0.0, -0.5, 1.01, f64::NAN, f64::INFINITY] {
        let result = Harmonia::builder().fill(fill).build(&device, &keys, &keys);
        assert_eq!(
            message(result),
            format!(
                "a fill of {fill} is not possible: choose the part of each leaf's slots to fill, above 0 and at most 1"
            )
        );
    }
    for fanout in [0, 1, 4, 12, 256, u32::MAX] {
        let result = Harmonia::builder().fanout(fanout).build_sorted(&device, &keys, &keys);
        assert_eq!(
            message(result),
            format!("there are no kernels for a fanout of {fanout}: choose one of [8, 16, 32, 64, 128]")
        );
    }
}

#[test]
fn more_nodes_than_can_be_numbered_are_refused() {
    // What would need them does not fit into main memory; the geometry says so by itself.
    let error = Error::TooManyPairs { pairs: 1 << 40, fanout: 8, fill: 1.0 };
    assert_eq!(
        error.to_string(),
        "1099511627776 pairs at a fanout of 8 and a fill of 1 need more than 2^32 - 1 nodes: use a larger fanout or fill"
    );
}

#[test]
fn a_group_width_without_a_kernel_is_named() {
    for device in DEVICES {
        let device = device();
        let (tree, stream) = tree(&device);
        let queries = device.upload(&[1_u64]).unwrap();
        let mut values = device.alloc(1).unwrap();
        for lanes in [0, 3, 32, 64] {
            let result = tree.on(&stream).group(GroupWidth::Lanes(lanes)).miss(0).get(&queries, &mut values);
            let expected = format!(
                "there are no kernels for {lanes} lanes per query at a fanout of 16: choose one of [1, 2, 4, 8, 16]"
            );
            assert_eq!(message(result), expected);
        }
    }
}

#[test]
fn a_reversed_range_is_named_and_nothing_is_searched() {
    for device in DEVICES {
        let (tree, _) = tree(&device());
        #[expect(clippy::reversed_empty_ranges, reason = "the point of the test")]
        let ranges = || [0..=9_u64, 20..=9];
        assert_eq!(
            message(tree.range_many(ranges())),
            "range 1 starts at 20 and ends at 9, before its start: swap the bounds, or leave it out"
        );
        assert_eq!(
            message(tree.count_range_many(ranges())),
            "range 1 starts at 20 and ends at 9, before its start: swap the bounds, or leave it out"
        );
    }
}

#[test]
fn outputs_that_are_too_short_are_named_and_not_touched() {
    for device in DEVICES {
        let device = device();
        let (tree, stream) = tree(&device);
        let on = || tree.on(&stream);
        let queries = device.upload(&[0_u64; 33]).unwrap();
        let poison = |len: usize| device.upload(&vec![77_u64; len]).unwrap();
        let mut few = device.upload(&[77_u32; 32]).unwrap();
        let mut enough = device.upload(&[77_u32; 33]).unwrap();
        let mut one_word = device.upload(&[77_u32]).unwrap();
        let mut keys = poison(33);

        let result = on().miss(0).get(&queries, &mut few);
        assert_eq!(message(result), "the values' buffer holds 32 elements, but 33 are needed; allocate at least 33");
        let result = on().hits(&mut one_word).miss(0).get(&queries, &mut enough);
        assert_eq!(message(result), "the hit mask's buffer holds 1 element, but 2 are needed; allocate at least 2");
        let result = on().lower_bound(&queries, &mut poison(32));
        assert_eq!(message(result), "the ranks' buffer holds 32 elements, but 33 are needed; allocate at least 33");
        let result = on().miss(0).predecessor(&queries, &mut poison(32), &mut enough);
        assert_eq!(message(result), "the keys' buffer holds 32 elements, but 33 are needed; allocate at least 33");
        let result = on().miss(0).successor(&queries, &mut keys, &mut few);
        assert_eq!(message(result), "the values' buffer holds 32 elements, but 33 are needed; allocate at least 33");
        for untouched in [few, enough, one_word] {
            assert!(untouched.to_vec().unwrap().iter().all(|&value| value == 77));
        }
        assert!(keys.to_vec().unwrap().iter().all(|&key| key == 77));

        let mut out = [None; 3];
        let result = tree.get_many_into(&[1, 2], &mut out);
        assert_eq!(message(result), "the output holds 3 elements, but exactly 2 are needed");
    }
}

#[test]
fn buffers_of_ranges_that_are_too_short_are_named() {
    for device in DEVICES {
        let device = device();
        let (tree, stream) = tree(&device);
        let on = || tree.on(&stream);
        let bounds = |len| device.upload(&vec![0_u64; len]).unwrap();
        let scratch = |ranges| RangeScratch::new(&device, ranges).unwrap();
        let out = |ranges, capacity| DeviceRanges::<u64, u32>::new(&device, ranges, capacity).unwrap();
        let (two, three) = (bounds(2), bounds(3));

        for (starts, ends) in [(&three, &two), (&two, &three)] {
            let result = on().limit(9).range(starts, ends, &mut scratch(3), &mut out(3, 8));
            let lengths = format!("{} starts but {} ends: ", starts.len(), ends.len());
            assert!(message(result).starts_with(&lengths), "{lengths}");
            assert!(message(on().count_range(starts, ends, &mut bounds(3))).starts_with(&lengths), "{lengths}");
        }
        let result = on().limits(&two).limit(9).range(&three, &three, &mut scratch(3), &mut out(3, 8));
        assert_eq!(message(result), "the limits' buffer holds 2 elements, but 3 are needed; allocate at least 3");
        let result = on().limit(9).range(&three, &three, &mut scratch(2), &mut out(3, 8));
        assert!(message(result).contains(" holds 2 elements, but 3 are needed"));
        let result = on().limit(9).range(&three, &three, &mut scratch(3), &mut out(2, 8));
        assert_eq!(message(result), "the offsets' buffer holds 3 elements, but 4 are needed; allocate at least 4");
        let mut short = out(3, 8);
        short.values = device.alloc(7).unwrap();
        let result = on().limit(9).range(&three, &three, &mut scratch(3), &mut short);
        assert_eq!(message(result), "the values' buffer holds 7 elements, but 8 are needed; allocate at least 8");
        let result = on().limit(9).count_range(&three, &three, &mut bounds(2));
        assert_eq!(message(result), "the counts' buffer holds 2 elements, but 3 are needed; allocate at least 3");
    }
}

#[test]
fn a_batch_beyond_all_memory_is_refused() {
    for device in DEVICES {
        let device = device();
        assert!(is_out_of_memory(RangeScratch::new(&device, 1 << 60)));
        assert!(is_out_of_memory(RangeScratch::new(&device, usize::MAX)));
        assert!(is_out_of_memory(DeviceRanges::<u64, u64>::new(&device, 10, 1 << 60)));
        assert!(is_out_of_memory(DeviceRanges::<u64, u64>::new(&device, usize::MAX, 10)));
        assert!(is_out_of_memory(ScanScratch::new(&device, usize::MAX)));
        assert!(matches!(device.alloc::<u64>(1 << 60), Err(runtime::Error::OutOfMemory { .. })));
    }
}

/// Some say that the device has no room, others that the number is too large.
#[test]
fn scratch_memory_for_any_number_is_made_or_refused() {
    for device in DEVICES {
        let device = &device();
        // On the host some of it is empty.
        let refused = |is_error: bool| assert!(is_error || device.kind() == DeviceKind::Host);
        for many in [usize::MAX, usize::MAX - 31, 1 << 62, 1 << 60] {
            assert!(is_out_of_memory(JoinScratch::new(device, many)));
            assert!(is_out_of_memory(DeviceMatches::new(device, many)));
            assert!(is_out_of_memory(SelectScratch::new(device, many)));
            assert!(is_out_of_memory(RunScratch::new(device, many)));
            assert!(is_out_of_memory(MergeScratch::new(device, many)));
            refused(BuildScratch::<u64, u64>::for_unsorted(device, many).is_err());
            refused(RadixSortScratch::<u64, u64>::for_pairs(device, many).is_err());
            refused(OperationSort::<u64>::new(device, many).is_err());
            refused(cubpt::UpdateScratch::<u64>::new(device, many).is_err());
            refused(harmonia::UpdateScratch::<u64, u32>::new(device, many).is_err());
            refused(harmonia::PsaScratch::<u64, u32>::new(device, many).is_err());
            refused(lane_tree::UpdateScratch::<u64>::new(device, many).is_err());
            refused(cuart::GatherScratch::new(device, many, 10).is_err());
            refused(cuart::GatherScratch::new(device, 10, many).is_err());
            refused(intervals::Scratch::<u64>::new(device, many).is_err());
            refused(intervals::DeviceRows::<u32>::new(device, 10, many).is_err());
            refused(RangeJoinScratch::<u64>::new(device, many).is_err());
            refused(DeviceRangeMatches::<u64, u32>::new(device, 10, many).is_err());
            refused(multimap::Scratch::new(device, many).is_err());
            refused(multimap::RangeScratch::<u64>::new(device, many, 10).is_err());
            refused(multimap::RangeScratch::<u64>::new(device, 10, many).is_err());
        }
    }
}

#[test]
fn results_beyond_all_memory_are_refused_and_the_tree_goes_on() {
    // 2^40 pairs of 16 bytes: more than any machine's main memory.
    let keys: Vec<u64> = (0..1 << 20).collect();
    let tree = Harmonia::builder().build_sorted(&Device::host(), &keys, &keys).unwrap();
    let result = tree.range_many((0..1 << 20).map(|_| ..));
    assert!(matches!(result, Err(Error::TooManyRows { rows, .. }) if rows == 1 << 40));
    assert_eq!(tree.get_many(&[5, 1 << 20]).unwrap(), [Some(5), None]);
    assert_eq!(tree.range_many([5..=6]).unwrap().keys, [5, 6]);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_gpu_that_is_asked_for_and_missing_is_an_error() {
    let error = Device::cuda(0).unwrap_err();
    assert!(matches!(error, runtime::Error::CudaNotCompiled), "{error}");
    assert!(error.to_string().contains("--features cuda"), "{error}");
    assert_eq!(Device::best(), Device::host());
}

#[test]
fn buffers_and_streams_of_another_device_are_refused() {
    let (here, there) = (Device::emulated(), Device::emulated());
    for (here, there) in [(&here, &there), (&Device::host(), &there), (&here, &Device::host())] {
        let (tree, stream) = tree(here);
        let on = || tree.on(&stream);
        let (queries, foreign) = (here.upload(&[1_u64]).unwrap(), there.upload(&[1_u64]).unwrap());
        let (mut values, mut foreign_values) = (here.alloc(1).unwrap(), there.alloc(1).unwrap());
        assert!(is_wrong_device(on().miss(0).get(&foreign, &mut values)));
        assert!(is_wrong_device(on().miss(0).get(&queries, &mut foreign_values)));
        assert!(is_wrong_device(on().hits(&mut there.alloc(1).unwrap()).miss(0).get(&queries, &mut values)));
        assert!(is_wrong_device(on().upper_bound(&queries, &mut there.alloc(1).unwrap())));
        assert!(is_wrong_device(on().miss(0).successor(&queries, &mut there.alloc(1).unwrap(), &mut values)));

        let elsewhere = there.stream().unwrap();
        assert!(is_wrong_device(tree.on(&elsewhere).miss(0).get(&queries, &mut values)));

        let mut scratch = RangeScratch::new(here, 1).unwrap();
        let mut out = DeviceRanges::new(here, 1, 4).unwrap();
        assert!(is_wrong_device(on().limit(9).range(&queries, &foreign, &mut scratch, &mut out)));
        out.keys = there.alloc(4).unwrap();
        assert!(is_wrong_device(on().limit(9).range(&queries, &queries, &mut scratch, &mut out)));
        let mut out = DeviceRanges::new(here, 1, 4).unwrap();
        let mut scratch = RangeScratch::new(there, 1).unwrap();
        assert!(is_wrong_device(on().limit(9).range(&queries, &queries, &mut scratch, &mut out)));

        let mut scratch = ScanScratch::new(here, 1).unwrap();
        let mut offsets = here.alloc(2).unwrap();
        let counts = there.upload(&[1_u64]).unwrap();
        assert!(is_wrong_device(exclusive_scan(&stream, &counts, 1, &mut offsets, &mut scratch)));
    }
}

#[test]
fn a_scan_of_more_counts_than_there_are_is_refused() {
    for device in DEVICES {
        let device = device();
        let stream = device.stream().unwrap();
        let (counts, mut offsets) = (device.upload(&[1_u64; 3]).unwrap(), device.alloc(4).unwrap());
        let mut scratch = ScanScratch::new(&device, 3).unwrap();
        let result = exclusive_scan(&stream, &counts, usize::MAX, &mut offsets, &mut scratch);
        assert!(message(result).starts_with("the counts' buffer holds 3 elements, but "));
    }
}

#[test]
fn a_stored_value_that_equals_the_miss_is_found_all_the_same() {
    for device in DEVICES {
        let device = device();
        let (tree, stream) = tree(&device);
        // Key 21 has the value 7, and 22 is not there.
        let queries = device.upload(&[21_u64, 22, 24]).unwrap();
        let (mut values, mut found) = (device.alloc(3).unwrap(), device.alloc(1).unwrap());
        tree.on(&stream).hits(&mut found).miss(7).get(&queries, &mut values).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((values.to_vec().unwrap(), found.to_vec().unwrap()), (vec![7, 7, 8], vec![0b101]));

        let mut keys = device.alloc(3).unwrap();
        let beyond = device.upload(&[22_u64, 21, 5000]).unwrap();
        tree.on(&stream).hits(&mut found).miss(7).successor(&beyond, &mut keys, &mut values).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((values.to_vec().unwrap(), found.to_vec().unwrap()), (vec![8, 7, 7], vec![0b011]));
        assert_eq!(tree.get_many(&[0, 1]).unwrap(), [Some(0), None], "0 is what the host form uses for a miss");
    }
}

#[test]
fn updates_that_do_not_suit_the_tree_are_refused_by_name() {
    let (mut tree, _) = tree(&Device::host());
    assert_eq!(message(tree.update_many(&[1, 2], &[1])), "2 keys but 1 values: give one value per key");
    assert_eq!(tree.len(), 1000);
}

#[test]
fn what_is_named_before_a_query_that_does_not_use_it_is_refused() -> lanetree::Result<()> {
    for device in [Device::host(), Device::emulated()] {
        let unused = |result: lanetree::Result<()>, option: &str, call: &str| {
            let text = format!("{option}() was called before {call}(), which does not use it: leave it out");
            assert_eq!(message(result), text, "{device}");
        };
        let (stream, keys) = (device.stream()?, device.upload(&[10_u64, 20])?);
        let (mut found, mut values, mut hits) = (device.alloc(2)?, device.alloc(2)?, device.upload(&[7_u32])?);
        let (mut ranks, limits) = (device.upload(&[7_u64; 2])?, device.upload(&[1_u64; 2])?);

        let tree = LaneTree::build(&device, &[10_u64, 20], &[1_u32, 2])?;
        unused(tree.on(&stream).hits(&mut hits).lower_bound(&keys, &mut ranks), "hits", "lower_bound");
        unused(tree.on(&stream).limit(1).upper_bound(&keys, &mut ranks), "limit", "upper_bound");
        unused(tree.on(&stream).limits(&limits).get(&keys, &mut values), "limits", "get");
        unused(tree.on(&stream).limit(1).successor(&keys, &mut found, &mut values), "limit", "successor");
        unused(tree.on(&stream).hits(&mut hits).count_range(&keys, &keys, &mut ranks), "hits", "count_range");
        unused(tree.on(&stream).limit(1).pairs(&mut found, &mut values), "limit", "pairs");
        // What is said of one query is of one, whatever the index.
        unused(tree.on(&stream).miss(0).lower_bound(&keys, &mut ranks), "miss", "lower_bound");
        unused(tree.on(&stream).miss(0).count_range(&keys, &keys, &mut ranks), "miss", "count_range");
        unused(tree.on(&stream).miss(0).pairs(&mut found, &mut values), "miss", "pairs");
        let (mut join, mut matches) = (JoinScratch::new(&device, 2)?, DeviceMatches::new(&device, 2)?);
        unused(tree.on(&stream).miss(0).join(&keys, &mut join, &mut matches), "miss", "join");
        let harmonia = Harmonia::build(&device, &[10_u64, 20], &[1_u32, 2])?;
        unused(harmonia.on(&stream).miss(0).upper_bound(&keys, &mut ranks), "miss", "upper_bound");
        unused(harmonia.on(&stream).hits(&mut hits).lower_bound(&keys, &mut ranks), "hits", "lower_bound");
        let set = LaneSet::build(&device, &[10_u64, 20])?;
        let mut other = device.alloc(1)?;
        unused(set.on(&stream).hits(&mut other).contains(&keys, &mut hits), "hits", "contains");
        let map = MultiMap::build(&device, &[10_u64, 20], &[1_u32, 2])?;
        let mut scratch = multimap::Scratch::new(&device, 2)?;
        unused(map.on(&stream).hits(&mut hits).count(&keys, &mut ranks, &mut scratch), "hits", "count");
        unused(map.on(&stream).miss(0).count(&keys, &mut ranks, &mut scratch), "miss", "count");
        let (mut rows, mut around) = (multimap::DeviceRows::new(&device, 2, 2)?, intervals::Scratch::new(&device, 2)?);
        unused(map.on(&stream).miss(0).get_all(&keys, &mut scratch, &mut rows), "miss", "get_all");
        let of_intervals = IntervalIndex::build(&device, &[10_u64, 20], &[15, 25])?;
        unused(of_intervals.on(&stream).miss(0).count(&keys, &mut ranks, &mut around), "miss", "count");
        let shards = Sharded::build(std::slice::from_ref(&device), LaneTree::builder(), &[10_u64, 20], &[1_u32, 2])?;
        unused(shards.on(&stream).miss(0).lower_bound(&keys, &mut ranks), "miss", "lower_bound");
        unused(shards.on(&stream).miss(0).contains(&keys, &mut hits), "miss", "contains");
        let strings: ByteKeysBuf = ["a", "b"].into_iter().collect();
        let (tree, queries) = (Cuart::build(&device, &strings, &[1_u32, 2])?, DeviceKeys::upload(&device, &strings)?);
        unused(tree.on(&stream).limit(1).get(&queries, &mut values), "limit", "get");
        unused(tree.on(&stream).miss(0).lower_bound(&queries, &mut ranks), "miss", "lower_bound");

        stream.synchronize()?;
        assert_eq!((hits.to_vec()?, ranks.to_vec()?), (vec![7], vec![7; 2]), "nothing was done");
        set.on(&stream).hits(None).limit(u64::MAX).lower_bound(&keys, &mut ranks)?;
        assert_eq!(ranks.to_vec()?, [0, 1]);
    }
    Ok(())
}
