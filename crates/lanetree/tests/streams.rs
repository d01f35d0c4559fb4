//! Calls in device form return before their work is done; whatever other streams, host copies and threads do to the
//! same buffers then comes after it.
//!
//! On the emulator, whose streams run late and in an order that its seed chooses.

use lanetree::harmonia::UpdateScratch;
use lanetree::primitives::{
    Keys, KeysMut, MergeRule, MergeScratch, RadixSortScratch, RunScratch, ScanScratch, exclusive_scan, merge,
    radix_sort, unique_keys,
};
use lanetree::{Batch, ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceRanges, Harmonia, OffsetBuffer, RangeScratch};
use std::sync::RwLock;

/// Each order of the streams is some seed's.
fn devices() -> impl Iterator<Item = Device> {
    (0..12).map(Device::emulated_with_seed)
}

fn keys(seed: u64, count: u64) -> Vec<u64> {
    (0..count).map(|i| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

#[test]
fn keys_that_are_overwritten_during_their_sort_are_sorted_as_they_were() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (first, second) = (keys(1, 3000), keys(7, 3000));
        let mut unsorted = device.upload(&first).unwrap();
        let mut sorted = device.alloc(3000).unwrap();
        let mut scratch = RadixSortScratch::for_keys(&device, 3000).unwrap();
        radix_sort(&stream, &unsorted, 3000, 0..64, &mut sorted, &mut scratch).unwrap();
        unsorted.copy_from(&second).unwrap();
        let mut expected = first;
        expected.sort_unstable();
        assert!(sorted.to_vec().unwrap() == expected);
        // And by another stream.
        radix_sort(&stream, &unsorted, 3000, 0..64, &mut sorted, &mut scratch).unwrap();
        unsorted.fill_zero(&device.stream().unwrap()).unwrap();
        let mut expected = second;
        expected.sort_unstable();
        assert!(sorted.as_slice().unwrap() == expected);
    }
}

#[test]
fn scratch_memory_can_be_used_in_one_stream_after_another() {
    for device in devices() {
        let streams = [device.stream().unwrap(), device.stream().unwrap()];
        let inputs = [keys(1, 2000), keys(2, 2000)];
        let buffers = inputs.each_ref().map(|input| device.upload(input).unwrap());
        let mut outputs = inputs.each_ref().map(|_| device.alloc(2000).unwrap());
        let mut scratch = RadixSortScratch::for_keys(&device, 2000).unwrap();
        for i in 0..2 {
            radix_sort(&streams[i], &buffers[i], 2000, 0..64, &mut outputs[i], &mut scratch).unwrap();
        }
        for (mut input, output) in inputs.into_iter().zip(&outputs) {
            input.sort_unstable();
            assert!(output.to_vec().unwrap() == input);
        }

        // What one stream writes, the other reads, with scratch memory of either.
        let flags = device.upload(&vec![1_u32; 2000]).unwrap();
        let (mut offsets, mut scan) = (device.alloc(2001).unwrap(), ScanScratch::new(&device, 2000).unwrap());
        exclusive_scan(&streams[0], &flags, 2000, &mut offsets, &mut scan).unwrap();
        let (mut distinct, mut count) = (device.alloc(2001).unwrap(), device.alloc(1).unwrap());
        let mut runs = RunScratch::new(&device, 2001).unwrap();
        let out = KeysMut { keys: &mut distinct, count: &mut count };
        unique_keys(&streams[1], Keys { keys: &offsets, count: 2001.into() }, out, &mut runs).unwrap();
        let (mut merged, mut total) = (device.alloc::<u64>(4001).unwrap(), device.alloc(1).unwrap());
        let mut merging = MergeScratch::new(&device, 4001).unwrap();
        merge(
            &streams[0],
            MergeRule::KeepBoth,
            Keys { keys: &outputs[0], count: 2000.into() },
            Keys { keys: &distinct, count: lanetree::primitives::Count::Device { count: &count, at_most: 2001 } },
            KeysMut { keys: &mut merged, count: &mut total },
            &mut merging,
        )
        .unwrap();
        exclusive_scan(&streams[1], &flags, 2000, &mut offsets, &mut scan).unwrap();
        assert_eq!(total.to_vec().unwrap(), [4001]);
        assert!(merged.to_vec().unwrap().is_sorted());
    }
}

#[test]
fn offsets_that_another_stream_writes_are_checked_as_they_will_be() {
    for device in devices() {
        let (writer, reader) = (device.stream().unwrap(), device.stream().unwrap());
        let bytes = device.upload(&[u64::from_le_bytes(*b"carcargo"); 2]).unwrap();
        // The prefix sums of the lengths, on their way when the keys are made of them.
        let lens = device.upload(&[3_u32, 5, 3, 5]).unwrap();
        let (mut offsets, mut scan) = (device.alloc(5).unwrap(), ScanScratch::new(&device, 4).unwrap());
        exclusive_scan(&writer, &lens, 4, &mut offsets, &mut scan).unwrap();
        let keys = DeviceKeys::with_offsets(&reader, OffsetBuffer::U64(offsets), bytes).unwrap();
        let strings: Vec<&[u8]> = keys.as_keys().unwrap().iter().collect();
        assert_eq!(strings, [&b"car"[..], b"cargo", b"car", b"cargo"]);
    }
}

#[test]
fn look_ups_in_flight_see_a_tree_as_it_was_before_a_batch_in_another_stream() {
    for device in devices() {
        let (reader, writer) = (device.stream().unwrap(), device.stream().unwrap());
        let all: Vec<u64> = (0..400).map(|i| i * 3).collect();
        let mut tree = Harmonia::builder().fill(0.7).build_sorted(&device, &all, &all).unwrap();
        let mut radix = Cuart::<u64>::build(&device, &ByteKeysBuf::encode(&all), &all).unwrap();
        let queries = device.upload(&all).unwrap();
        let strings = DeviceKeys::encode(&reader, &queries).unwrap();
        let (mut found, mut radix_found) = (device.alloc(400).unwrap(), device.alloc(400).unwrap());
        let mut ranges = DeviceRanges::new(&device, 400, 400).unwrap();
        let mut scratch = RangeScratch::new(&device, 400).unwrap();
        tree.on(&reader).get(&queries, &mut found).unwrap();
        tree.on(&reader).limit(1).range(&queries, &queries, &mut scratch, &mut ranges).unwrap();
        radix.on(&reader).get(&strings, &mut radix_found).unwrap();

        let ones = device.upload(&vec![1_u64; 400]).unwrap();
        let mut updates = UpdateScratch::new(&device, 400).unwrap();
        tree.apply_on(&writer, Batch::inserts(&queries, &ones), &mut updates).unwrap();
        let report = radix.update_many(&ByteKeysBuf::encode(&all), &vec![1; 400]).unwrap();
        assert_eq!(report.replaced, 400);
        assert!(found.to_vec().unwrap() == all && radix_found.to_vec().unwrap() == all);
        assert!(ranges.values.to_vec().unwrap() == all);
        assert_eq!(tree.get_many(&[3, 4]).unwrap(), [Some(1), None]);

        // And a batch that moves everything.
        tree.on(&reader).get(&queries, &mut found).unwrap();
        let more: Vec<u64> = (0..1000).map(|i| i * 3 + 1).collect();
        tree.insert_many(&more, &more).unwrap();
        assert_eq!(found.to_vec().unwrap(), [1; 400]);
        radix.on(&reader).get(&strings, &mut radix_found).unwrap();
        radix.insert_many(&ByteKeysBuf::encode(&more), &more).unwrap();
        radix.remove_many(&ByteKeysBuf::encode(&all)).unwrap();
        radix.compact().unwrap();
        assert_eq!(radix_found.to_vec().unwrap(), [1; 400]);
    }
}

#[test]
fn queries_and_results_may_be_dropped_overwritten_and_used_elsewhere_at_once() {
    for device in devices() {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let all: Vec<u64> = (0..300).map(|i| i * 2).collect();
        let tree = Harmonia::build(&device, &all, &all).unwrap();
        let mut queries = device.upload(&all).unwrap();
        let mut found = device.alloc(300).unwrap();
        let (mut before, mut ranks) = (device.alloc(300).unwrap(), device.alloc(300).unwrap());
        tree.on(&first).get(&queries, &mut found).unwrap();
        // What was found is looked up, by the other stream; the queries become others meanwhile.
        tree.on(&second).lower_bound(&found, &mut ranks).unwrap();
        queries.copy_from(&vec![1; 300]).unwrap();
        tree.on(&first).miss(0).predecessor(&queries, &mut before, &mut found).unwrap();
        drop(queries);
        drop(tree);
        assert!(ranks.to_vec().unwrap() == (0..300).collect::<Vec<u64>>());
        assert_eq!((before.to_vec().unwrap(), found.to_vec().unwrap()), (vec![0; 300], vec![0; 300]));
    }
}

#[test]
fn threads_read_and_change_a_tree_behind_a_lock_that_they_hold_for_the_calls_only() {
    let device = Device::emulated_with_seed(9);
    let all: Vec<u64> = (0..200).map(|i| i * 2).collect();
    let tree = RwLock::new(Harmonia::builder().fill(0.7).build_sorted(&device, &all, &vec![0_u64; 200]).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                let queries = device.upload(&all).unwrap();
                let mut found = device.alloc(200).unwrap();
                for _ in 0..15 {
                    tree.read().unwrap().on(&stream).get(&queries, &mut found).unwrap();
                    // The lock is free by now, and the look-up may not have begun.
                    let found = found.to_vec().unwrap();
                    assert!(found.iter().all(|&value| value == found[0]), "two versions: {found:?}");
                }
            });
        }
        for version in 1..10 {
            let report = tree.write().unwrap().insert_many(&all, &vec![version; 200]).unwrap();
            assert_eq!(report.replaced, 200);
        }
    });
}
