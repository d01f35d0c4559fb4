//! Aggregates of ranges over shards, against a map.

use super::{
    Index, Map, column, devices_for_tests, each_failure, emulated, ranges, sharded, synchronize, tens, within,
};
use lanetree::runtime::Failure;
use lanetree::{Aggregate, Device, DeviceAggregates, Error, Number, Result, Stream};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const ALL: [Aggregate; 5] = [Aggregate::Sum, Aggregate::Min, Aggregate::Max, Aggregate::First, Aggregate::Last];

fn expected(aggregate: Aggregate, numbers: &[i64]) -> Option<i64> {
    match aggregate {
        Aggregate::Sum => (!numbers.is_empty()).then(|| numbers.iter().sum()),
        Aggregate::Min => numbers.iter().copied().min(),
        Aggregate::Max => numbers.iter().copied().max(),
        Aggregate::First => numbers.first().copied(),
        Aggregate::Last => numbers.last().copied(),
    }
}

fn found<T: bytemuck::Pod>(out: &DeviceAggregates<T>, count: usize) -> Result<Vec<Option<T>>> {
    let (values, hits) = (out.values.to_vec()?, out.hits.to_vec()?);
    assert!(out.overflowed.to_vec()?.iter().all(|&bits| bits == 0), "no sum overflows");
    Ok((0..count).map(|i| (hits[i / 32] >> (i % 32) & 1 != 0).then_some(values[i])).collect())
}

/// Compares aggregates of an index whose values are small whole numbers: sums are exact in any order.
fn compare<A: Number<Word = u64>>(
    index: &Index,
    stream: &Stream,
    map: &Map,
    ranges: &[(u64, u64, u64)],
    number: fn(u64) -> i64,
    wide: fn(i64) -> A::Wide,
) -> Result<()> {
    let (device, count) = (stream.device(), ranges.len());
    let (starts, ends) = (column(device, ranges, |range| range.0)?, column(device, ranges, |range| range.1)?);
    let limits = column(device, ranges, |range| range.2)?;
    let wanted = |aggregate: Aggregate, limit: Option<u64>| {
        let of = |range: &(u64, u64, u64)| {
            let pairs = within(map, range.0, range.1, limit.unwrap_or(range.2));
            expected(aggregate, &pairs.iter().map(|pair| number(pair.1)).collect::<Vec<_>>()).map(wide)
        };
        ranges.iter().map(of).collect::<Vec<_>>()
    };
    // The emulator takes long for the launches of many shards.
    for &aggregate in if index.stats().len() > 5 { &ALL[4..] } else { &ALL } {
        for limit in [None, Some(2)] {
            let mut out = DeviceAggregates::<A::Wide>::new(device, count)?;
            let on = match limit {
                Some(limit) => index.on(stream).limit(limit),
                None => index.on(stream).limits(&limits),
            };
            on.aggregate::<A>(aggregate, &starts, &ends, &mut out)?;
            assert_eq!(found(&out, count)?, wanted(aggregate, limit), "{aggregate:?}, at most {limit:?}");
        }
        let (starts, ends): (Vec<_>, Vec<_>) = ranges.iter().map(|range| (range.0, range.1)).unzip();
        assert_eq!(index.aggregate_many::<A>(aggregate, &starts, &ends)?, wanted(aggregate, Some(u64::MAX)));
    }
    Ok(())
}

fn small(i: u64) -> i64 {
    (i * 7919 % 257) as i64 - 128
}

#[test]
fn aggregates_over_shards_are_those_of_a_map() -> Result<()> {
    let mut random = StdRng::seed_from_u64(71);
    for devices in devices_for_tests() {
        let keys: Vec<u64> = (0..500).map(|_| random.random_range(0..3000) * 7).collect();
        let maps: [Map; 3] = [|i| i % 1000, |i| small(i) as u64, |i| (small(i) as f64).to_bits()]
            .map(|value: fn(u64) -> u64| keys.iter().map(|&key| (key, value(key))).collect());
        let indexes = [sharded(&devices, &maps[0])?, sharded(&devices, &maps[1])?, sharded(&devices, &maps[2])?];
        let mut on = |at: usize, count| Ok::<_, Error>((devices[at].stream()?, ranges(&mut random, 21_500, count)));
        let (stream, ranges) = on(0, 33)?;
        compare::<u64>(&indexes[0], &stream, &maps[0], &ranges, |word| word as i64, |number| number as u64)?;
        compare::<u64>(&indexes[0], &stream, &maps[0], &[], |word| word as i64, |number| number as u64)?;
        let (stream, ranges) = on(devices.len() - 1, 40)?;
        compare::<i64>(&indexes[1], &stream, &maps[1], &ranges, |word| word as i64, |number| number)?;
        let ((stream, ranges), number) = (on(0, 20)?, |word| f64::from_bits(word) as i64);
        compare::<f64>(&indexes[2], &stream, &maps[2], &ranges, number, |number| number as f64)?;
    }
    Ok(())
}

/// Ranges of several parts in each shard, and shards without pairs.
#[test]
fn aggregates_of_long_ranges_and_of_few_pairs() -> Result<()> {
    let (devices, mut random) = (emulated(3), StdRng::seed_from_u64(72));
    for pairs in [0, 1, 3, 9000] {
        let map: Map = (0..pairs).map(|i| (i * 3, small(i) as u64)).collect();
        let index = sharded(&devices, &map)?;
        let ranges = ranges(&mut random, pairs * 3 + 9, 9);
        compare::<i64>(&index, &devices[1].stream()?, &map, &ranges, |word| word as i64, |number| number)?;
    }
    Ok(())
}

#[test]
fn sums_over_shards_are_exact_and_say_when_they_overflow() -> Result<()> {
    for devices in [emulated(2), vec![Device::host(); 2]] {
        // The first shard's sum has more than 64 bits, but not that of both.
        let words = [i64::MAX, 1, -1, 0].map(|number| number as u64);
        let index = sharded(&devices, &(1..).zip(words).collect())?;
        assert!(index.stats().iter().all(|shard| shard.pairs == 2), "{:?}", index.stats());
        assert_eq!(index.aggregate_many::<i64>(Aggregate::Sum, &[1], &[4])?, [Some(i64::MAX)]);
        let error = index.aggregate_many::<i64>(Aggregate::Sum, &[3, 1, 2], &[4, 2, 1]).expect_err("a sum of 2^63");
        assert!(matches!(error, Error::SumOverflow { range: 1 }), "{error}");
        let (here, stream) = (&devices[0], devices[0].stream()?);
        let (starts, ends) = (here.upload(&[1_u64, 2, 4])?, here.upload(&[4_u64, 3, 3])?);
        let mut out = DeviceAggregates::new(here, 3)?;
        index.on(&stream).aggregate::<u64>(Aggregate::Sum, &starts, &ends, &mut out)?;
        assert_eq!(out.values.to_vec()?, [i64::MAX as u64, 0, 0]);
        assert_eq!((out.hits.to_vec()?, out.overflowed.to_vec()?), (vec![0b011], vec![0b011]));
    }
    Ok(())
}

#[test]
fn aggregates_on_devices_have_errors_that_name_the_value() -> Result<()> {
    let devices = emulated(2);
    let index = sharded(&devices, &tens(60))?;
    let (here, stream) = (&devices[0], devices[0].stream()?);
    let (two, one) = (here.upload(&[1_u64, 2])?, here.upload(&[1_u64])?);
    let mut out = DeviceAggregates::new(here, 1)?;
    let done = index.on(&stream).aggregate::<u64>(Aggregate::Sum, &two, &one, &mut out);
    assert!(matches!(done, Err(Error::BoundLengths { .. })), "{done:?}");
    let done = index.aggregate_many::<u64>(Aggregate::Sum, &[1, 2], &[1]);
    assert!(matches!(done, Err(Error::BoundLengths { .. })), "{done:?}");
    let error = index.on(&stream).aggregate::<u64>(Aggregate::Sum, &two, &two, &mut out).expect_err("too short");
    assert!(error.to_string().contains("the results' buffer"), "{error}");
    let done = index.on(&stream).miss(1).aggregate::<u64>(Aggregate::Sum, &one, &one, &mut out);
    assert!(matches!(done, Err(Error::UnusedOption { option: "miss", call: "aggregate" })), "{done:?}");
    Ok(())
}

#[test]
fn aggregates_on_devices_that_fail_say_so() -> Result<()> {
    let (map, mut random) = (tens(60), StdRng::seed_from_u64(73));
    let ranges = ranges(&mut random, 600, 20);
    let sum = |range: &(u64, u64, u64)| within(&map, range.0, range.1, range.2).iter().map(|pair| pair.1).sum();
    let sums: Vec<u64> = ranges.iter().map(sum).collect();
    let failures = each_failure(3, &Failure::KINDS, |devices, fault| {
        let (index, here, stream) = (sharded(devices, &map)?, &devices[0], devices[0].stream()?);
        let (starts, ends) = (column(here, &ranges, |range| range.0)?, column(here, &ranges, |range| range.1)?);
        let limits = column(here, &ranges, |range| range.2)?;
        let ask = || {
            let mut out = DeviceAggregates::new(here, ranges.len())?;
            index.on(&stream).limits(&limits).aggregate::<u64>(Aggregate::Sum, &starts, &ends, &mut out)?;
            synchronize(devices)?;
            Ok(out.values.to_vec()?)
        };
        fault.then_answers(ask, &sums)
    })?;
    assert!(failures > 20, "{failures} failures");
    Ok(())
}
