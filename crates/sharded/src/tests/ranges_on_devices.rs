//! Ranges, scans, and all pairs in device form: against a map.

use super::{
    Index, Map, column, devices_for_tests, each_failure, emulated, on, pairs, ranges, sharded, synchronize, tens,
    within,
};
use lanetree::runtime::Failure;
use lanetree::{Error, Result, Stream};
use lanetree_frame::fixed::DeviceRanges;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Compares ranges, their counts, scans from their starts, and all pairs.
fn compare(index: &Index, stream: &Stream, map: &Map, ranges: &[(u64, u64, u64)], limit: Option<u64>) -> Result<()> {
    let (device, count) = (stream.device(), ranges.len());
    let (starts, ends) = (column(device, ranges, |range| range.0)?, column(device, ranges, |range| range.1)?);
    let limits = column(device, ranges, |range| range.2)?;
    // Ranges in any order may be said to be in order: that is a hint.
    let hinted = || on(index, stream, count % 2 == 1);
    let on = || match limit {
        Some(limit) => hinted().limit(limit),
        None => hinted().limits(&limits),
    };
    let row = |range: &(u64, u64, u64)| within(map, range.0, range.1, limit.unwrap_or(range.2));
    let rows: Vec<_> = ranges.iter().map(row).collect();
    let all: Vec<_> = rows.iter().flatten().copied().collect();
    for room in [all.len() + 3, all.len() / 2, 0] {
        let mut out = DeviceRanges::new(device, count, room)?;
        (out.keys, out.values) = (device.upload(&vec![7; room])?, device.upload(&vec![8; room])?);
        on().range(&starts, &ends, &mut out)?;
        let offsets = (0..=count).map(|range| rows[..range].iter().map(Vec::len).sum::<usize>() as u64);
        assert!(out.offsets.to_vec()?.into_iter().eq(offsets), "offsets of {count} ranges, {limit:?}");
        let wanted = all.iter().copied().chain(std::iter::repeat((7, 8))).take(room);
        assert!(out.keys.to_vec()?.into_iter().zip(out.values.to_vec()?).eq(wanted), "{count} ranges, room {room}");
    }
    let mut values = DeviceRanges::without_keys(device, count, all.len())?;
    on().range(&starts, &ends, &mut values)?;
    assert!(values.values.to_vec()?.into_iter().eq(all.iter().map(|pair| pair.1)));
    let mut counts = device.upload(&vec![9_u64; count + 1])?;
    on().count_range(&starts, &ends, &mut counts)?;
    assert!(counts.to_vec()?.into_iter().eq(rows.iter().map(|row| row.len() as u64).chain([9])));

    for most in [0, 1, 5] {
        let (mut keys, mut values) = (device.upload(&vec![7; count * most])?, device.upload(&vec![8; count * most])?);
        let mut counts = device.alloc::<u32>(count)?;
        hinted().scan(&starts, most as u32, &mut keys, &mut values, &mut counts)?;
        let (keys, values, counts) = (keys.to_vec()?, values.to_vec()?, counts.to_vec()?);
        for (i, range) in ranges.iter().enumerate() {
            let found = within(map, range.0, u64::MAX, most as u64);
            assert_eq!(counts[i] as usize, found.len(), "scan from {}", range.0);
            let row = i * most..(i + 1) * most;
            let wanted = found.into_iter().chain(std::iter::repeat((7, 8))).take(most);
            assert!(keys[row.clone()].iter().copied().zip(values[row].iter().copied()).eq(wanted), "from {}", range.0);
        }
    }
    let (mut keys, mut values) = (device.alloc(map.len())?, device.alloc(map.len())?);
    index.on(stream).pairs(&mut keys, &mut values)?;
    assert!(keys.to_vec()?.into_iter().zip(values.to_vec()?).eq(pairs(map)));
    Ok(())
}

#[test]
fn ranges_on_devices_are_put_together_in_order() -> Result<()> {
    let mut random = StdRng::seed_from_u64(51);
    for devices in devices_for_tests() {
        let map: Map = (0..500).map(|_| (random.random_range(0..3000) * 7, random.random())).collect();
        let index = sharded(&devices, &map)?;
        for at in [0, devices.len() - 1] {
            let stream = devices[at].stream()?;
            for (count, limit) in [(40, None), (33, Some(u64::MAX)), (9, Some(2)), (1, None), (0, Some(5))] {
                let mut ranges = ranges(&mut random, 21_500, count);
                compare(&index, &stream, &map, &ranges, limit)?;
                ranges.sort_unstable();
                compare(&index, &stream, &map, &ranges, limit)?;
            }
        }
    }
    Ok(())
}

#[test]
fn ranges_of_shards_without_pairs_and_long_ones() -> Result<()> {
    let devices = emulated(3);
    let mut random = StdRng::seed_from_u64(52);
    for pairs in [0, 1, 3, 6000] {
        let map: Map = (0..pairs).map(|i| (i * 3, !i)).collect();
        let index = sharded(&devices, &map)?;
        let ranges = ranges(&mut random, pairs * 3 + 9, 8);
        compare(&index, &devices[1].stream()?, &map, &ranges, Some(u64::MAX))?;
    }
    Ok(())
}

#[test]
fn ranges_on_devices_have_errors_that_name_the_value() -> Result<()> {
    let devices = emulated(2);
    let index = sharded(&devices, &tens(60))?;
    let (here, stream) = (&devices[0], devices[0].stream()?);
    let (two, one, there) = (here.upload(&[1_u64, 2])?, here.upload(&[1_u64])?, devices[1].upload(&[1_u64, 2])?);
    let mut out = DeviceRanges::new(here, 2, 10)?;
    let text = |result: Result<()>| result.expect_err("an error").to_string();
    for (starts, ends) in [(&two, &one), (&one, &two)] {
        let done = [
            index.on(&stream).range(starts, ends, &mut out),
            index.on(&stream).count_range(starts, ends, &mut out.offsets),
        ];
        assert!(done.iter().all(|done| matches!(done, Err(Error::BoundLengths { .. }))), "{done:?}");
    }
    assert!(text(index.on(&stream).range(&there, &two, &mut out)).contains("buffer"));
    assert!(text(index.on(&stream).limits(&one).range(&two, &two, &mut out)).contains("the limits' buffer"));
    assert!(text(index.on(&stream).miss(1).range(&two, &two, &mut out)).contains("miss"));
    assert!(text(index.on(&stream).limit(1).get(&two, &mut out.keys)).contains("limit"));
    let mut short = DeviceRanges::new(here, 1, 10)?;
    assert!(text(index.on(&stream).range(&two, &two, &mut short)).contains("the offsets' buffer"));
    let (mut keys, mut counts) = (here.alloc(5)?, here.alloc(2)?);
    assert!(
        text(index.on(&stream).scan(&two, 3, &mut keys, &mut out.values, &mut counts)).contains("the keys' buffer")
    );
    Ok(())
}

#[test]
fn ranges_on_devices_that_fail_say_so() -> Result<()> {
    let map = tens(60);
    let ranges: Vec<(u64, u64, u64)> = (0..20).map(|i| (i * 31, i * 40 + 9, i)).collect();
    let rows: Vec<_> = ranges.iter().map(|range| within(&map, range.0, range.1, range.2)).collect();
    let expected: Vec<u64> = rows.iter().flatten().map(|pair| pair.0).collect();
    let failures = each_failure(3, &Failure::KINDS, |devices, fault| {
        let (index, here, stream) = (sharded(devices, &map)?, &devices[0], devices[0].stream()?);
        let (starts, ends) = (column(here, &ranges, |range| range.0)?, column(here, &ranges, |range| range.1)?);
        let limits = column(here, &ranges, |range| range.2)?;
        let ask = || {
            let mut out = DeviceRanges::new(here, ranges.len(), 2000)?;
            index.on(&stream).limits(&limits).range(&starts, &ends, &mut out)?;
            synchronize(devices)?;
            let len = out.offsets.to_vec()?[ranges.len()] as usize;
            Ok(out.keys.to_vec()?[..len].to_vec())
        };
        fault.then_answers(ask, &expected)
    })?;
    assert!(failures > 20, "{failures} failures");
    Ok(())
}
