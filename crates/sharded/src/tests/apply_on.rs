//! Batches of changes in device form: against a map.

use super::{Index, Map, column, compare, counts, devices_for_tests, each_failure, emulated, pairs, sharded, tens};
use crate::ShardedUpdateScratch;
use lanetree::runtime::Failure;
use lanetree::{
    Batch, Device, DeviceKind, Error, Op, OpKind, OrderedIndex, Result, Stream, UpdateReport, apply_to_map,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Scratch = ShardedUpdateScratch<u64, u64>;

fn apply(index: &mut Index, stream: &Stream, ops: &[Op<u64, u64>], scratch: &mut Scratch) -> Result<UpdateReport> {
    let device = stream.device();
    let value = |op: &Op<u64, u64>| match *op {
        Op::Insert(_, value) | Op::Update(_, value) => value,
        Op::Remove(_) => 0xbad,
    };
    let (keys, values) = (column(device, ops, |op| *op.key())?, column(device, ops, value)?);
    let kinds = column(device, ops, Op::kind)?;
    let is_insert = |op: &Op<u64, u64>| matches!(op, Op::Insert(..));
    let batch = match ops.iter().all(is_insert) {
        true => Batch::inserts(&keys, &values),
        false => Batch::of_kinds(&keys, &values, &kinds),
    };
    index.apply_on(stream, batch, scratch)
}

/// Keys come up several times in a batch: the last operation decides.
#[test]
fn batches_on_devices_change_all_shards() -> Result<()> {
    let mut random = StdRng::seed_from_u64(61);
    for devices in devices_for_tests().into_iter().filter(|devices| devices[0].kind() != DeviceKind::Host) {
        let key = |random: &mut StdRng| random.random_range(0..900) * 7;
        let mut map: Map = (0..300).map(|_| (key(&mut random), random.random())).collect();
        let (mut index, mut scratch) = (sharded(&devices, &map)?, Scratch::default());
        for round in 0..5 {
            let stream = devices[round % devices.len()].stream()?;
            let op = |i: usize| match (round, random.random_range(0..4)) {
                // Of one shard, and of inserts only.
                (3, _) => Op::Update(3, i as u64),
                (1, _) | (_, 0 | 1) => Op::Insert(key(&mut random), random.random()),
                (_, 2) => Op::Update(key(&mut random), random.random()),
                _ => Op::Remove(key(&mut random)),
            };
            let ops: Vec<Op<u64, u64>> = (0..[700, 2500, 1, 40, 0][round]).map(op).collect();
            let (expected, report) = (apply_to_map(&mut map, &ops), apply(&mut index, &stream, &ops, &mut scratch)?);
            assert_eq!(counts(&report), counts(&expected), "round {round} of {} shards", devices.len());
            assert_eq!((index.pairs()?, index.len()), (pairs(&map), map.len() as u64));
        }
        compare(&index, &map, &[0, 7, 3000, 6293, u64::MAX])?;
    }
    Ok(())
}

#[test]
fn changes_on_devices_have_errors_that_name_the_value() -> Result<()> {
    let (devices, map) = (emulated(2), tens(60));
    let (mut index, mut scratch) = (sharded(&devices, &map)?, Scratch::default());
    let (here, stream) = (&devices[0], devices[0].stream()?);
    let keys = here.upload(&[590_u64, 5, 400, 10, 20])?;
    let (values, few, there) = (here.alloc(5)?, here.alloc(2)?, devices[1].alloc(5)?);
    let kinds = here.upload(&[0, 0, 9, 7, 8].map(OpKind::from))?;
    let error = index.apply_on(&stream, Batch::of_kinds(&keys, &values, &kinds), &mut scratch).expect_err("unknown");
    let Error::UnknownKinds { operations, index: first, kind } = error else { panic!("{error}") };
    assert_eq!((operations, first, kind), (3, 2, 9), "of both shards");
    let mut text = |batch| index.apply_on(&stream, batch, &mut scratch).expect_err("an error").to_string();
    assert!(text(Batch::inserts(&keys, &few)).contains("the values' buffer"));
    assert!(text(Batch::inserts(&keys, &there)).contains("the values' buffer"));
    let few_kinds = here.upload(&[OpKind::INSERT])?;
    assert!(text(Batch::of_kinds(&keys, &values, &few_kinds)).contains("the kinds' buffer"));
    let other = Device::emulated().stream()?;
    let error = index.apply_on(&other, Batch::inserts(&keys, &values), &mut scratch).expect_err("no shard there");
    assert!(error.to_string().contains("the stream"), "{error}");
    compare(&index, &map, &[0, 5, 10, 590])?;
    let mut on_host = sharded(&vec![Device::host(); 2], &map)?;
    let host = Device::host().stream()?;
    let (keys, values) = (Device::host().upload(&[1])?, Device::host().upload(&[2])?);
    let done = on_host.apply_on(&host, Batch::inserts(&keys, &values), &mut scratch);
    assert!(matches!(done, Err(Error::NoUpdates { .. })), "{done:?}");
    Ok(())
}

/// After a failure the index has all of the batch or nothing of it, or is lost.
#[test]
fn a_change_on_devices_that_fails_is_taken_back() -> Result<()> {
    let map = tens(60);
    let ops: Vec<Op<u64, u64>> = (0..60).flat_map(|i| [Op::Update(i * 10, i + 1), Op::Remove(i * 20)]).collect();
    let mut changed = map.clone();
    apply_to_map(&mut changed, &ops);
    let (mut taken_back, mut lost) = (0, 0);
    each_failure(3, &Failure::KINDS, |devices, fault| {
        let (mut index, mut scratch) = (sharded(devices, &map)?, Scratch::default());
        let (stream, what) = (devices[0].stream()?, &fault.name);
        match fault.during(|| apply(&mut index, &stream, &ops, &mut scratch)) {
            Ok(_) => compare(&index, &changed, &[0, 5, 100]),
            Err(Error::Lost { .. }) => {
                lost += 1;
                assert!(index.is_lost(), "{what}");
                let again = apply(&mut index, &stream, &ops, &mut scratch);
                assert!(matches!(again, Err(Error::Lost { .. })), "{what}");
                Ok(())
            }
            Err(_) => {
                taken_back += 1;
                assert!(!index.is_lost(), "{what}");
                compare(&index, &map, &[0, 5, 100])?;
                apply(&mut index, &stream, &ops, &mut scratch)?;
                compare(&index, &changed, &[0, 5, 100])
            }
        }
    })?;
    assert!(taken_back > 20 && lost > 0, "{taken_back} and {lost}");
    Ok(())
}

/// Whichever device has no memory, nothing is written on any: no shard may even fail as it undoes its part.
#[test]
fn a_device_without_memory_is_found_before_anything_is_written() -> Result<()> {
    let map = tens(150);
    // The second shard needs memory for its part.
    let ops: Vec<Op<u64, u64>> =
        (0..150).map(|i| Op::Insert(i * 10, i + 1)).chain((501..900).map(|i| Op::Insert(i, i))).collect();
    let mut changed = map.clone();
    apply_to_map(&mut changed, &ops);
    let failures = each_failure(3, &[Failure::Allocation], |devices, fault| {
        let (mut index, mut scratch) = (sharded(devices, &map)?, Scratch::default());
        let stream = devices[0].stream()?;
        match fault.during(|| apply(&mut index, &stream, &ops, &mut scratch)) {
            Ok(_) => compare(&index, &changed, &[0, 5, 501]),
            Err(error) => {
                assert!(!matches!(error, Error::Lost { .. }) && !index.is_lost(), "{}: {error}", fault.name);
                compare(&index, &map, &[0, 5, 501])
            }
        }
    })?;
    assert!(failures > 30, "{failures} allocations");
    Ok(())
}
