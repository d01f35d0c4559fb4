//! Joins by ranges and bands, against a look at every pair.

use crate::LaneTree;
use lanetree_frame::fixed::{DeviceRangeMatches, RangeJoinScratch};
use lanetree_frame::{Closed, Device, Error, JoinRows, Result, Stream};
use lanetree_layout::{AnyKey, Composite, F64, KeyWord};
use lanetree_runtime::Failure;

fn random() -> impl FnMut() -> u64 {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// The values of the pairs for which a condition holds, for each probe.
fn expected<K: AnyKey>(keys: &[K], probes: usize, holds: impl Fn(usize, K) -> bool) -> JoinRows<u32> {
    let mut out = JoinRows { offsets: vec![0], rows: Vec::new() };
    for probe in 0..probes {
        out.rows.extend((0..keys.len()).filter(|&row| holds(probe, keys[row])).map(|row| row as u32));
        out.offsets.push(out.rows.len() as u64);
    }
    out
}

/// Joins with scratch memory for more probes, and with room for more matches and for fewer.
fn in_device_form<K: AnyKey>(
    device: &Device,
    keys: &[K],
    expected: &JoinRows<u32>,
    join: impl Fn(&Stream, &mut RangeJoinScratch<K>, &mut DeviceRangeMatches<K, u32>) -> Result<()>,
) {
    let (count, stream) = (expected.offsets.len() - 1, device.stream().unwrap());
    let mut scratch = RangeJoinScratch::new(device, count + 9).unwrap();
    for capacity in [expected.len() + 5, expected.len() / 2] {
        let mut out = DeviceRangeMatches::new(device, count, capacity).unwrap();
        join(&stream, &mut scratch, &mut out).unwrap();
        assert_eq!(out.pairs.offsets.to_vec().unwrap(), expected.offsets);
        let written = capacity.min(expected.len());
        assert_eq!(out.probes.to_vec().unwrap()[..written], expected.probes().unwrap()[..written]);
        assert_eq!(out.pairs.values.to_vec().unwrap()[..written], expected.rows[..written]);
        let of_rows = expected.rows[..written].iter().map(|&row| keys[row as usize]);
        assert!(of_rows.eq(out.pairs.keys.to_vec().unwrap()[..written].iter().copied()));
    }
}

fn joins<K: AnyKey>(key: impl Fn(u64) -> K) {
    let mut random = random();
    let mut any = |bits: u32| match random() % 9 {
        0 => K::MIN,
        1 => K::MAX,
        _ => key(random() >> (64 - bits)),
    };
    let mut keys: Vec<K> = (0..600).map(|_| any(9)).collect();
    keys.sort_unstable();
    keys.dedup();
    for keys in [&keys[..], &keys[..1], &[]] {
        let rows: Vec<u32> = (0..keys.len() as u32).collect();
        let probes: Vec<(K, K)> = (0..300).map(|_| (any(9), any(9))).collect();
        let (lows, highs): (Vec<K>, Vec<K>) = probes.iter().copied().unzip();
        for device in [Device::host(), Device::emulated()] {
            let tree = LaneTree::build(&device, keys, &rows).unwrap();
            type Holds<K> = fn((K, K), K) -> bool;
            let ways: [(Closed, Holds<K>); 4] = [
                (Closed::Both, |(low, high), key| low <= key && key <= high),
                (Closed::Left, |(low, high), key| low <= key && key < high),
                (Closed::Right, |(low, high), key| low < key && key <= high),
                (Closed::Neither, |(low, high), key| low < key && key < high),
            ];
            for (closed, holds) in ways {
                let expected = expected(keys, probes.len(), |i, key| holds(probes[i], key));
                assert_eq!(tree.range_join_many(&lows, &highs, closed).unwrap(), expected, "{closed:?}");
                in_device_form(&device, keys, &expected, |stream, scratch, out| {
                    let (lows, highs) = (device.upload(&lows)?, device.upload(&highs)?);
                    tree.on(stream).range_join(&lows, &highs, closed, scratch, out)
                });
            }
            for distance in [0, 1, 7, 1 << 33, u64::MAX] {
                let found = tree.band_join_many(&lows, distance).unwrap();
                let near = |i: usize, key: K| {
                    let (own, word) = (lows[i].encode(), key.encode());
                    let most = K::Bits::MAX.shr(K::Bits::BITS - K::GROUP_BITS);
                    let away = own.max(word).wrapping_sub(own.min(word));
                    own.xor(word) <= most && away.parts()[1] == 0 && away.parts()[0] <= distance
                };
                let expected = expected(keys, probes.len(), near);
                assert_eq!(found, expected, "at most {distance} away");
                in_device_form(&device, keys, &expected, |stream, scratch, out| {
                    tree.on(stream).band_join(&device.upload(&lows)?, distance, scratch, out)
                });
            }
        }
    }
}

#[test]
fn ranges_and_bands_of_every_integer_are_joined() {
    joins::<u32>(|word| word as u32);
    joins::<i32>(|word| word as i32 - 200);
    joins::<u64>(|word| word);
    joins::<i64>(|word| word as i64 - 200);
    joins::<u128>(|word| u128::from(word) << 62);
}

#[test]
fn bands_stay_within_groups() {
    joins::<Composite<u32, u32>>(|word| Composite::new((word % 5) as u32, (word / 5) as u32));
    joins::<Composite<u32, i64>>(|word| Composite::new((word % 5) as u32, word as i64 - 100));
}

#[test]
fn bands_of_floats_and_unpaired_bounds_are_refused() {
    let device = Device::host();
    let floats = [1.5, 2.5].map(F64::from);
    let tree = LaneTree::build(&device, &floats, &[1_u32, 2]).unwrap();
    assert_eq!(tree.range_join_many(&floats, &floats, Closed::Both).unwrap().rows, [1, 2]);
    let text = "a band of float keys of 3 is not possible: choose keys of integers, or a join by ranges: distances of floats \
                are not measured";
    assert_eq!(tree.band_join_many(&floats, 3).unwrap_err().to_string(), text);
    for closed in [Closed::Both, Closed::Left] {
        let text = "2 starts but 1 ends: give one of each per range";
        assert_eq!(tree.range_join_many(&floats, &floats[..1], closed).unwrap_err().to_string(), text);
        let (lows, highs) = (device.upload(&floats).unwrap(), device.upload(&floats[..1]).unwrap());
        let (mut scratch, mut out) =
            (RangeJoinScratch::new(&device, 2).unwrap(), DeviceRangeMatches::new(&device, 2, 2).unwrap());
        let stream = device.stream().unwrap();
        let error = tree.on(&stream).range_join(&lows, &highs, closed, &mut scratch, &mut out).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn joins_by_ranges_say_that_they_failed() {
    let keys: Vec<u32> = (0..300).map(|i| i * 3).collect();
    let join = |tree: &mut LaneTree<u32, u32>| tree.range_join_many(&keys, &keys, Closed::Right).map(drop);
    let failed = Failure::at_every_point(
        |device| LaneTree::build(device, &keys, &keys).unwrap(),
        join,
        |tree, error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            join(tree).unwrap();
        },
    );
    assert!(failed.len() > 3, "{}", failed.len());
}
