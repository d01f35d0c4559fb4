//! Joins and the like in device form: what they refuse, and devices that fail, each of several. What they find: `lanetree_suite`.

use super::{each_failure, emulated, synchronize};
use crate::Sharded;
use lanetree::runtime::Failure;
use lanetree::{
    AsOf, Buffer, Closed, Device, DeviceMatches, DeviceRangeMatches, DeviceRanges, Error, F64, Join, JoinKind,
    JoinScratch, LaneTree, RangeJoinScratch, Result, Validity,
};
use lanetree_frame::AnyKey;
use lanetree_frame::fixed::{RangeScratch, RowsOfProbes, Side, Steps};

type Index<K> = Sharded<LaneTree<K, u64>>;
type One<K> = LaneTree<K, u64>;

/// The same pairs in shards and in one index.
fn both<K: AnyKey>(devices: &[Device], mut keys: Vec<K>) -> Result<(Index<K>, One<K>)> {
    keys.sort_unstable();
    keys.dedup();
    let values: Vec<u64> = (0..keys.len() as u64).map(|i| i ^ 0x5a).collect();
    let one = LaneTree::build(&Device::host(), &keys, &values)?;
    Ok((Sharded::build(devices, LaneTree::builder(), &keys, &values)?, one))
}

/// Nulls of every fifth probe, from a bit on.
fn nulls(device: &Device, count: usize) -> Result<(Buffer<u32>, Vec<u8>, usize)> {
    let from = 3;
    let mut bits = vec![0_u32; (from + count).div_ceil(32) + 1];
    (0..count).filter(|i| i % 5 != 2).for_each(|i| bits[(from + i) / 32] |= 1 << ((from + i) % 32));
    Ok((device.upload(&bits)?, bits.iter().flat_map(|word| word.to_le_bytes()).collect(), from))
}

/// Steps that joins are made of are public to the other crates: each checks its buffers itself.
#[test]
fn steps_check_their_buffers() -> Result<()> {
    fn check<S: Steps<Key = u64, Value = u64>>(on: &S) -> Result<()> {
        let device = on.stream().device().clone();
        let (two, mut one, mut words) = (device.upload(&[1_u64, 2])?, device.alloc(1)?, device.alloc(2)?);
        let (mut hits, mut no_hits) = (device.alloc(1)?, device.alloc(0)?);
        let short = |done: Result<()>| assert!(matches!(done, Err(Error::OutputLength { .. })), "{done:?}");
        short(on.find_first(3, &two, &mut hits, &mut words, true));
        short(on.find_first(2, &two, &mut no_hits, &mut words, true));
        short(on.find_first(2, &two, &mut hits, &mut one, true));
        short(on.count_first(3, (&two, &two), 9, &mut words));
        short(on.count_first(2, (&two, &two), 9, &mut one));
        let mut other = device.alloc(2)?;
        short(on.neighbors_first(3, Side::Lower, &two, &mut words, &mut other));
        short(on.neighbors_first(2, Side::Lower, &two, &mut one, &mut other));
        short(on.neighbors_first(2, Side::Lower, &two, &mut words, &mut one));
        let mut ranges = RangeScratch::new(&device, 2)?;
        let mut out = DeviceRanges::new(&device, 2, 4)?;
        short(on.range_first(3, (&two, &two), &mut ranges, &mut out));
        out.values = device.alloc(3)?;
        short(on.range_first(2, (&two, &two), &mut ranges, &mut out));
        let mut first = RangeScratch::new(&device, 1)?;
        let mut rows = |count: usize, hits: &mut Buffer<u32>, out: &mut DeviceRanges<u64, u64>| {
            let all = (&two, &two);
            let rows = RowsOfProbes { valid: None, is_left: true, hits, ranges: &mut ranges, all, first: &mut first };
            short(on.rows_first(count, (&two, &two), rows, out));
        };
        rows(2, &mut hits, &mut out);
        out.values = device.alloc(4)?;
        rows(3, &mut hits, &mut out);
        rows(2, &mut no_hits, &mut out);
        Ok(())
    }
    for devices in [vec![Device::emulated(), Device::emulated()], vec![Device::host(); 2]] {
        let (index, _) = both(&devices, (0..60_u64).collect())?;
        let one = LaneTree::build(&devices[0], &[1_u64, 2], &[3_u64, 4])?;
        let stream = devices[0].stream()?;
        check(&index.on(&stream))?;
        check(&one.on(&stream))?;
    }
    Ok(())
}

#[test]
fn joins_on_devices_have_errors_that_name_the_value() -> Result<()> {
    let devices = emulated(2);
    let (index, _) = both(&devices, (0..60_u64).collect())?;
    let (here, stream) = (&devices[0], devices[0].stream()?);
    let (two, one, there) = (here.upload(&[1_u64, 2])?, here.upload(&[1_u64])?, devices[1].upload(&[1_u64, 2])?);
    let text = |result: Result<()>| result.expect_err("an error").to_string();
    let (mut keys, mut values, mut hits) = (here.alloc(2)?, here.alloc(2)?, here.alloc(1)?);
    let how = AsOf::backward();
    assert!(text(index.on(&stream).asof(&there, &how, &mut keys, &mut values, &mut hits)).contains("buffer"));
    let mut short = here.alloc(1)?;
    let error = text(index.on(&stream).asof(&two, &how, &mut keys, &mut short, &mut hits));
    assert!(error.contains("the values' buffer"), "{error}");
    assert!(text(index.on(&stream).limit(1).asof(&two, &how, &mut keys, &mut values, &mut hits)).contains("limit"));
    let (mut scratch, mut out) = (JoinScratch::new(here, 1)?, DeviceMatches::new(here, 2)?);
    assert!(text(index.on(&stream).join(&two, &mut scratch, &mut out)).contains("the scratch memory"));
    let mut scratch = JoinScratch::new(here, 2)?;
    let elsewhere = Device::emulated().stream()?;
    assert!(text(index.on(&elsewhere).join(&two, &mut scratch, &mut out)).contains("the stream"));
    let mut scratch = RangeJoinScratch::new(here, 2)?;
    let mut out = DeviceRangeMatches::new(here, 2, 2)?;
    let done = index.on(&stream).range_join(&two, &one, Closed::Both, &mut scratch, &mut out);
    assert!(matches!(done, Err(Error::BoundLengths { .. })), "{done:?}");
    let (index, _) = both(&devices, vec![F64::from(1.0)])?;
    let queries = here.upload(&[F64::from(2.0)])?;
    let (mut keys, how) = (here.alloc(1)?, AsOf::nearest());
    assert!(text(index.on(&stream).asof(&queries, &how, &mut keys, &mut values, &mut hits)).contains("floats"));
    Ok(())
}

#[test]
fn joins_on_devices_that_fail_say_so() -> Result<()> {
    let asked: Vec<u64> = (0..20).map(|i| i * 31).collect();
    let (how, kind) = (AsOf::nearest().strict(true), JoinKind::Left);
    let failures = each_failure(3, &Failure::KINDS, |devices, fault| {
        let (index, one) = both(devices, (0..60).map(|i| i * 10).collect())?;
        let (here, stream) = (&devices[0], devices[0].stream()?);
        let (valid, bytes, from) = nulls(here, asked.len())?;
        let rows =
            one.band_join_as_many(&asked, 25, &Join::new(kind).valid(Validity::new(&bytes, from, asked.len())?))?;
        let near = one.asof_many(&asked, &how)?.into_iter().map(|pair| pair.map_or(u64::MAX, |pair| pair.1)).collect();
        let (queries, len) = (here.upload(&asked)?, rows.rows.len());
        let mut scratch = RangeJoinScratch::new(here, asked.len())?;
        let ask = || {
            let mut out = DeviceRangeMatches::new(here, asked.len(), len)?;
            index.on(&stream).kind(kind).valid(&valid, from).band_join(&queries, 25, &mut scratch, &mut out)?;
            let (mut keys, mut values) = (here.alloc(asked.len())?, here.alloc(asked.len())?);
            index.on(&stream).asof(&queries, &how, &mut keys, &mut values, &mut here.alloc(1)?)?;
            synchronize(devices)?;
            Ok((out.pairs.offsets.to_vec()?, out.pairs.values.to_vec()?, values.to_vec()?))
        };
        fault.then_answers(ask, &(rows.offsets, rows.rows, near))
    })?;
    assert!(failures > 20, "{failures} failures");
    Ok(())
}
