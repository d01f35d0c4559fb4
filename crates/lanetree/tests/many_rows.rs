//! Joins with more rows than 31 and 32 bits count: device forms count them and write what there is room for, host forms say how many
//! there are before they allocate memory for them.

use lanetree::intervals::{DeviceRows, Scratch};
use lanetree::multimap::{DeviceJoin, JoinScratch, RangeJoinScratch as RowsScratch};
use lanetree::{
    AsOf, Buffer, Closed, Cubpt, Device, DeviceRangeMatches, DeviceRanges, Error, FixedIndex, Harmonia, IntervalIndex,
    Join, JoinKind, LaneTree, MultiMap, NearestScratch, OnStream, RangeJoinScratch, SortedArray,
};

/// Keys of an index, values of a key, intervals.
const MANY: u64 = 1 << 16;
/// Probes that all of them match: just over 2^32 rows, so that 2^31 is at probe 2^15.
const PROBES: usize = (1 << 16) + 1;
const TOTAL: u64 = MANY * PROBES as u64;
/// Room for the rows of two probes, and some of a third one.
const ROOM: usize = 2 * MANY as usize + 777;

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

fn check_offsets(offsets: &Buffer<u64>, device: &Device) {
    let offsets = offsets.to_vec().unwrap();
    assert!(offsets.iter().zip(0..).all(|(&offset, probe)| offset == probe * MANY), "on {device}");
    assert_eq!((offsets[1 << 15], offsets[PROBES]), (1 << 31, TOTAL), "on {device}");
}

fn check_numbers(probes: &Buffer<u64>, device: &Device) {
    assert!(probes.to_vec().unwrap().into_iter().zip(0..).all(|(probe, row)| probe == row / MANY), "on {device}");
}

fn of_index<I: FixedIndex<Key = u64, Value = u32>>(build: impl Fn(&Device, &[u64], &[u32]) -> lanetree::Result<I>) {
    for device in devices() {
        let keys: Vec<u64> = (0..MANY).map(|i| i * 3).collect();
        let values: Vec<u32> = (0..MANY as u32).collect();
        let (index, stream) = (build(&device, &keys, &values).unwrap(), device.stream().unwrap());
        let (lows, highs) = (device.upload(&[0; PROBES]).unwrap(), device.upload(&[3 * MANY; PROBES]).unwrap());
        let on = || OnStream::new(&index, &stream);

        let mut scratch = RangeJoinScratch::new(&device, PROBES).unwrap();
        for kind in [JoinKind::Inner, JoinKind::Left] {
            for is_band in [false, true] {
                let mut out = DeviceRangeMatches::new(&device, PROBES, ROOM).unwrap();
                match is_band {
                    true => on().kind(kind).band_join(&lows, u64::MAX, &mut scratch, &mut out).unwrap(),
                    false => on().kind(kind).range_join(&lows, &highs, Closed::Both, &mut scratch, &mut out).unwrap(),
                }
                check_offsets(&out.pairs.offsets, &device);
                check_numbers(&out.probes, &device);
                let values = out.pairs.values.to_vec().unwrap();
                assert!(values.into_iter().zip(0..).all(|(value, row)| u64::from(value) == row % MANY), "on {device}");
            }
        }

        let mut scratch = NearestScratch::new(&device, PROBES).unwrap();
        for (is_last, how) in [(true, None), (true, Some(AsOf::backward())), (false, Some(AsOf::forward()))] {
            let mut out = DeviceRanges::new(&device, PROBES, ROOM).unwrap();
            let queries = if is_last { &highs } else { &lows };
            match how {
                None => on().range_last(&lows, &highs, u64::MAX, &mut scratch, &mut out).unwrap(),
                Some(how) => on().k_nearest(queries, u64::MAX, &how, &mut scratch, &mut out).unwrap(),
            }
            check_offsets(&out.offsets, &device);
            let (keys, values) = (out.keys.to_vec().unwrap(), out.values.to_vec().unwrap());
            for (row, (key, value)) in keys.into_iter().zip(values).enumerate() {
                let at = row as u64 % MANY;
                let wanted = if is_last { MANY - 1 - at } else { at };
                assert_eq!((key, u64::from(value)), (3 * wanted, wanted), "row {row} on {device}");
            }
        }
    }
}

#[test]
fn a_lane_tree_counts_them() {
    of_index(LaneTree::build);
}

#[test]
fn harmonia_counts_them() {
    of_index(Harmonia::build);
}

#[test]
fn a_cubpt_counts_them() {
    of_index(Cubpt::build);
}

#[test]
fn a_sorted_array_counts_them() {
    of_index(SortedArray::build);
}

#[test]
fn a_multi_map_counts_them() {
    for device in devices() {
        let values: Vec<u32> = (0..MANY as u32).collect();
        let map = MultiMap::build(&device, &[5_u64; MANY as usize], &values).unwrap();
        let (stream, probes) = (device.stream().unwrap(), device.upload(&[5_u64; PROBES]).unwrap());
        let mut by_keys = JoinScratch::new(&device, PROBES).unwrap();
        let mut by_ranges = RowsScratch::new(&device, PROBES).unwrap();
        for kind in [JoinKind::Inner, JoinKind::Left] {
            for way in 0..3 {
                let mut out = DeviceJoin::new(&device, PROBES, ROOM).unwrap();
                let on = map.on(&stream).kind(kind);
                match way {
                    0 => on.join(&probes, &mut by_keys, &mut out).unwrap(),
                    1 => on.range_join(&probes, &probes, Closed::Both, &mut by_ranges, &mut out).unwrap(),
                    _ => on.band_join(&probes, 9, &mut by_ranges, &mut out).unwrap(),
                }
                assert_eq!(out.count.to_vec().unwrap(), [TOTAL], "on {device}");
                check_offsets(&out.offsets, &device);
                check_numbers(&out.probes, &device);
                let rows = out.rows.to_vec().unwrap();
                assert!(rows.into_iter().zip(0..).all(|(value, row)| u64::from(value) == row % MANY), "on {device}");
            }
        }
    }
}

#[test]
fn an_interval_index_counts_them() {
    for device in devices() {
        let starts: Vec<u32> = (0..MANY as u32).collect();
        let ends: Vec<u32> = starts.iter().map(|start| u32::MAX - start).collect();
        let (index, stream) = (IntervalIndex::build(&device, &starts, &ends).unwrap(), device.stream().unwrap());
        let points = device.upload(&[1 << 20; PROBES]).unwrap();
        let mut scratch = Scratch::new(&device, PROBES).unwrap();
        for is_overlap in [false, true] {
            let mut out = DeviceRows::new(&device, PROBES, ROOM).unwrap();
            match is_overlap {
                true => index.on(&stream).overlap(&points, &points, &mut scratch, &mut out).unwrap(),
                false => index.on(&stream).stab(&points, &mut scratch, &mut out).unwrap(),
            }
            check_offsets(&out.offsets, &device);
            let rows = out.rows.to_vec().unwrap();
            assert!(rows.into_iter().zip(0..).all(|(row, at)| u64::from(row) == MANY - 1 - at % MANY), "on {device}");
        }
    }
}

/// 2^40 rows of 8 bytes and more, which no machine's main memory has room for.
#[test]
fn host_forms_name_them_before_they_allocate() {
    // Fewer probes than keys: a build costs less than all calls with a probe for each key.
    const MANY: usize = 1 << 21;
    const PROBES: usize = 1 << 19;
    fn refused<T>(found: lanetree::Result<T>, bytes: u128) {
        let Err(error) = found else { panic!("{} rows", 1_u64 << 40) };
        assert!(
            matches!(error, Error::TooManyRows { rows, bytes: all, .. } if rows == 1 << 40 && all == bytes << 40),
            "{error}"
        );
        let text = "main memory has no room for 1099511627776 rows, which are ";
        assert!(error.to_string().starts_with(text), "{error}");
    }
    let device = Device::host();
    let values: Vec<u64> = (0..MANY as u64).collect();
    let index = LaneTree::build(&device, &values, &values).unwrap();
    let (all_lows, all_highs) = (vec![0_u64; MANY], vec![u64::MAX; MANY]);
    let (lows, highs) = (&all_lows[..PROBES], &all_highs[..PROBES]);
    for join in [Join::inner(), Join::left()] {
        refused(index.range_join_as_many(lows, highs, Closed::Both, &join), 16);
        refused(index.band_join_as_many(lows, u64::MAX, &join), 16);
    }
    refused(index.range_join_many(lows, highs, Closed::Both), 16);
    // What has a row per probe at most is counted.
    let anti = index.range_join_as_many(lows, highs, Closed::Both, &Join::anti()).unwrap();
    assert_eq!(anti.offsets[PROBES], 0);

    let map = MultiMap::build(&device, &all_lows, &values).unwrap();
    for join in [Join::inner(), Join::left()] {
        refused(map.join_as_many(lows, &join), 8);
        refused(map.range_join_many(lows, highs, Closed::Both, &join), 8);
        refused(map.band_join_many(lows, 9, &join), 8);
    }
    let semi = map.join_as_many(lows, &Join::semi()).unwrap();
    assert_eq!(semi.offsets[PROBES], PROBES as u64);

    let index = IntervalIndex::build_with_rows(&device, &all_lows, &all_highs, &values).unwrap();
    refused(index.stab_many(lows), 8);
    refused(index.overlap_many(lows, highs), 8);
    assert_eq!(index.count_many(&lows[..3]).unwrap(), [MANY as u64; 3]);
}
