//! Host batches of many pieces.

use crate::Harmonia;
use lanetree_frame::Device;
use lanetree_frame::fixed::{HostForm, Query};
use lanetree_frame::staging::{Addresses, Lengths, PINNED_SLOTS, Results, SLOTS};
use lanetree_frame::uninit::{Uninit, replace};
use lanetree_simt::{GetBatch, GlobalMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn batches_of_many_pieces_answer_as_the_host_does() {
    let keys: Vec<i64> = (-300..300).map(|i| i * 5).collect();
    let values: Vec<u32> = (0..600).collect();
    let host = Harmonia::build(&Device::host(), &keys, &values).unwrap();
    let device = Device::emulated();
    let mut tree = Harmonia::build(&device, &keys, &values).unwrap();
    tree.staging.queries.lengths = Lengths { short: 32, long: 64, bytes: 1 << 20 };
    tree.staging.pinned.piece = 64;
    // Lanes of 64 queries of 8 bytes and up to 2048 bytes of results, in device memory and in pinned memory; and those
    // of batches between pinned buffers.
    let most = lanetree_runtime::threads() * SLOTS * 2 * (512 + 2048) + PINNED_SLOTS * 1024;
    for round in 0..60_i64 {
        let count = [0, 1, 63, 64, 65, 500, 257][round as usize % 7];
        let queries: Vec<i64> = (0..count).map(|i| (i * 37 + round) % 1600 - 800).collect();
        assert_eq!(tree.get_many(&queries).unwrap(), host.get_many(&queries).unwrap());
        let (mut found, mut expected) = (vec![7; queries.len()], vec![9; queries.len()]);
        tree.get_many_or(&queries, 77, &mut found).unwrap();
        host.get_many_or(&queries, 77, &mut expected).unwrap();
        assert_eq!(found, expected);
        assert_eq!(tree.upper_bound_many(&queries).unwrap(), host.upper_bound_many(&queries).unwrap());
        assert_eq!(tree.predecessor_many(&queries).unwrap(), host.predecessor_many(&queries).unwrap());
        for tree in [&tree, &host] {
            let mut pinned = tree.device().pinned(queries.len()).unwrap();
            pinned.copy_from_slice(&queries);
            let mut values = tree.device().pinned(queries.len()).unwrap();
            let mut bits = tree.device().pinned(queries.len().div_ceil(32)).unwrap();
            tree.get_many_pinned(&pinned, 77, &mut values, Some(&mut bits)).unwrap();
            assert_eq!(values[..], expected);
            let hits = host.get_many(&queries).unwrap();
            assert!(hits.iter().enumerate().all(|(i, hit)| hit.is_some() == (bits[i / 32] >> (i % 32) & 1 == 1)));
        }
        assert!(tree.staging_bytes() <= most, "memory grows from batch to batch");
    }
    assert!(tree.staging_bytes() > 0);
}

#[test]
fn a_panic_in_the_middle_of_a_batch_leaves_lanes_that_are_used_again() {
    let keys: Vec<u32> = (0..300).map(|i| i * 5).collect();
    let device = Device::emulated();
    let mut tree = Harmonia::build(&device, &keys, &keys).unwrap();
    tree.staging.queries.lengths = Lengths { short: 32, long: 64, bytes: 1 << 20 };
    let queries: Vec<u32> = (0..500).map(|i| i * 3).collect();
    let expected: Vec<Option<u32>> = queries.iter().map(|key| (key % 5 == 0).then_some(*key)).collect();
    tree.get_many(&queries).unwrap();
    // The number of threads and lanes that take part varies; only its maximum is fixed.
    let most = lanetree_runtime::threads() * SLOTS * 2 * (256 + 2048);
    for at in [0, 33, 250, 499] {
        let staged = tree.staging_bytes();
        let mut out = vec![0; 500];
        let ask = |queries, count, out: Addresses| {
            let (values, hits) = (out.arrays[0].cast(), GlobalMut::null());
            [Query::Get(GetBatch { queries, count, values, hits, miss: 7 })]
        };
        let results = Results::new([4, 0], 0);
        let batch = || {
            replace(&mut out, |out: Uninit<'_, u32>| {
                tree.stage(&queries, out, results, ask, |piece, out| {
                    assert!(!piece.queries.contains(&(at * 3)), "in the middle of the batch");
                    out.copy(piece.array(0))
                })
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(batch)).is_err());
        assert!(tree.staging_bytes() >= staged, "no lane is gone");
        assert_eq!(tree.get_many(&queries).unwrap(), expected);
        assert!(tree.staging_bytes() <= most, "{} bytes", tree.staging_bytes());
    }
}

#[test]
fn the_memory_of_page_locked_batches_follows_them() {
    let device = Device::emulated();
    let tree = Harmonia::build(&device, &[5_u64], &[7_u32]).unwrap();
    for (count, queries) in [(1, 8_usize), (3, 8), (5, 8), (9, 16), (100, 128), (17, 128)] {
        let (keys, mut values) = (device.pinned(count).unwrap(), device.pinned(count).unwrap());
        tree.get_many_pinned(&keys, 0, &mut values, None).unwrap();
        let most = queries * (8 + 4) + queries.div_ceil(32) * 4;
        assert!(tree.staging_bytes() <= most, "{} bytes for {count} keys", tree.staging_bytes());
    }
}

#[test]
fn outputs_of_another_length_are_refused() {
    for device in [Device::host(), Device::emulated()] {
        let tree = Harmonia::build(&device, &[1_u32], &[1_u32]).unwrap();
        let error = tree.get_many_or(&[1, 2], 0, &mut [0]).unwrap_err();
        assert_eq!(error.to_string(), "the output holds 1 element, but 2 are needed; allocate at least 2");
        let (keys, mut values) = (device.pinned(3).unwrap(), device.pinned(2).unwrap());
        let error = tree.get_many_pinned(&keys, 0, &mut values, None).unwrap_err();
        assert_eq!(error.to_string(), "the values' buffer holds 2 elements, but 3 are needed; allocate at least 3");
    }
}
