//! Joins by ranges and bands, against a look at every pair.

use crate::LaneTree;
use lanetree_frame::fixed::{DeviceRangeMatches, RangeJoinScratch};
use lanetree_frame::{Closed, Device, Error, Join, JoinKind, JoinRows, Result, Stream, Validity, no_row};
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

/// Joins of every kind, with nulls and without.
fn of_every_kind<K: AnyKey>(
    device: &Device,
    tree: &LaneTree<K, u32>,
    keys: &[K],
    (lows, highs, closed): (&[K], &[K], Closed),
    matches: &JoinRows<u32>,
) {
    let (count, stream) = (lows.len(), device.stream().unwrap());
    let bounds = (device.upload(lows).unwrap(), device.upload(highs).unwrap());
    let mut scratch = RangeJoinScratch::new(device, count + 9).unwrap();
    for (kind, from) in [(JoinKind::Inner, 3), (JoinKind::Left, 40), (JoinKind::Semi, 0), (JoinKind::Anti, 31)] {
        for null in [None, Some(3), Some(1)] {
            let is_valid = |i: usize| null.is_none_or(|every| i % every != every - 1);
            let own = |i: usize| if is_valid(i) { matches.of(i) } else { &[] };
            let (mut rows, mut numbers) = (JoinRows { offsets: vec![0], rows: Vec::new() }, Vec::new());
            for i in 0..count {
                numbers.extend((0..kind.rows(own(i).len() as u64)).map(|_| i as u64));
                rows.offsets.push(numbers.len() as u64);
                if kind.has_rows() {
                    rows.rows.extend(own(i));
                    rows.rows.resize(numbers.len(), no_row());
                }
            }
            let mut bits = vec![0_u32; (from + count).div_ceil(32)];
            (0..count).for_each(|i| bits[(from + i) / 32] |= u32::from(is_valid(i)) << ((from + i) % 32));
            let bytes: Vec<u8> = bits.iter().flat_map(|word| word.to_le_bytes()).collect();
            let validity = null.map(|_| Validity::new(&bytes, from, count).unwrap());
            let what = format!("{kind:?}, {closed:?}, null every {null:?}, of {} keys on {device}", keys.len());
            let join = Join::new(kind).valid(validity);
            assert_eq!(tree.range_join_as_many(lows, highs, closed, &join).unwrap(), rows, "{what}");

            let bits = device.upload(&bits).unwrap();
            let total = numbers.len();
            for (room, has_keys) in [(total + 5, true), (total / 2, true), (total / 2, false)] {
                let room = if kind.has_rows() { room } else { count };
                let mut out = match has_keys {
                    true => DeviceRangeMatches::new(device, count, room).unwrap(),
                    false => DeviceRangeMatches::without_keys(device, count, room).unwrap(),
                };
                let on = tree.on(&stream).kind(kind);
                let on = if kind == JoinKind::Left { on.miss(7) } else { on };
                let on = if null.is_some() { on.valid(&bits, from) } else { on };
                on.range_join(&bounds.0, &bounds.1, closed, &mut scratch, &mut out).unwrap();
                let (written, found) = (total.min(room), out.probes.to_vec().unwrap());
                assert_eq!(found[..written], numbers[..written], "{what}");
                if !kind.has_rows() {
                    assert_eq!(out.pairs.offsets.to_vec().unwrap()[0], total as u64, "{what}");
                    continue;
                }
                assert_eq!(out.pairs.offsets.to_vec().unwrap(), rows.offsets, "{what}");
                let (values, pairs) = (out.pairs.values.to_vec().unwrap(), out.pairs.keys.to_vec().unwrap());
                for (i, &row) in rows.rows[..written].iter().enumerate() {
                    let is_right = if row == no_row() {
                        values[i] == 7
                    } else {
                        values[i] == row && (!has_keys || pairs[i] == keys[row as usize])
                    };
                    assert!(is_right, "{what}: row {i} is {} where {row} is expected", values[i]);
                }
            }
            if null.is_some() || kind != JoinKind::Inner {
                let hits = scratch.hits().to_vec().unwrap();
                let hit = |i: usize| own(i).is_empty() == (kind == JoinKind::Anti);
                assert!((0..count).all(|i| (hits[i / 32] >> (i % 32) & 1 != 0) == hit(i)), "{what}");
            }
        }
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
                // The kinds are the same for all bounds.
                if closed == Closed::Left {
                    of_every_kind(&device, &tree, keys, (&lows, &highs, closed), &expected);
                }
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

#[test]
fn left_joins_by_ranges_say_that_they_failed() {
    let keys: Vec<u32> = (0..300).map(|i| i * 3).collect();
    let valid = [0x5555_5555_u32; 10];
    let join = |tree: &mut LaneTree<u32, u32>| {
        let device = tree.device().clone();
        let (stream, bounds, valid) = (device.stream()?, device.upload(&keys)?, device.upload(&valid)?);
        let mut scratch = RangeJoinScratch::new(&device, 300)?;
        let mut out = DeviceRangeMatches::new(&device, 300, 300)?;
        let on = tree.on(&stream).kind(JoinKind::Left).valid(&valid, 0);
        on.range_join(&bounds, &bounds, Closed::Both, &mut scratch, &mut out)?;
        assert_eq!(
            (out.pairs.offsets.to_vec()?[300], out.pairs.values.to_vec()?[..2].to_vec()),
            (300, vec![0, no_row()])
        );
        Ok(())
    };
    let failed = Failure::at_every_point(
        |device| {
            let rows: Vec<u32> = (0..300).collect();
            LaneTree::build(device, &keys, &rows).unwrap()
        },
        join,
        |tree, error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            join(tree).unwrap();
        },
    );
    assert!(failed.len() > 10, "{}", failed.len());
}
