//! Joins of every kind compared with nested loops, in both forms on both devices.

use super::PIECE;
use crate::on_stream::{DeviceJoin, JoinScratch, RangeJoinScratch};
use crate::{MultiMap, Scratch};
use lanetree_frame::{
    BatchOrder, Closed, Device, DeviceKind, Error, Join, JoinKind, JoinRows, UpdatePath, Validity, no_row,
};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_runtime::Failure;

const KINDS: [JoinKind; 4] = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti];

fn mix(i: u64) -> u64 {
    let word = (i ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The rows of a join, by comparing each probe with each pair.
fn expected<K: AnyKey, V: Word>(
    pairs: (&[K], &[V]),
    probes: &[K],
    kind: JoinKind,
    is_valid: impl Fn(usize) -> bool,
) -> (JoinRows<V>, Vec<u64>) {
    let (mut out, mut numbers) = (JoinRows { offsets: vec![0], rows: Vec::new() }, Vec::new());
    for (i, probe) in probes.iter().enumerate() {
        let is_match = |pair: &(&K, &V)| is_valid(i) && pair.0 == probe;
        let mut matches: Vec<V> = pairs.0.iter().zip(pairs.1).filter(is_match).map(|(_, &value)| value).collect();
        let rows = kind.rows(matches.len() as u64);
        if kind == JoinKind::Left && matches.is_empty() {
            matches.push(no_row());
        }
        numbers.extend((0..rows).map(|_| i as u64));
        out.offsets.push(numbers.len() as u64);
        if kind.has_rows() {
            out.rows.extend(matches);
        }
    }
    (out, numbers)
}

/// `len` bits of a mask, from a bit on.
fn words(len: usize, from: usize, bit: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut words = vec![0x5a5a_5a5a; (from + len).div_ceil(32)];
    for i in 0..len {
        let at = from + i;
        words[at / 32] = words[at / 32] & !(1 << (at % 32)) | u32::from(bit(i)) << (at % 32);
    }
    words
}

fn check<K: AnyKey, V: Word>(device: &Device, keys: &[K], probes: &[K], is_valid: Option<&dyn Fn(usize) -> bool>) {
    let values: Vec<V> = (0..keys.len() as u64).map(|i| <V as KeyWord>::truncate(i * 7 + 1)).collect();
    let map = MultiMap::build(device, keys, &values).unwrap();
    let (stream, count) = (device.stream().unwrap(), probes.len());
    let on_device = device.upload(probes).unwrap();
    let all = |_| true;
    let valid: &dyn Fn(usize) -> bool = is_valid.unwrap_or(&all);
    // Larger than needed, and used for all kinds.
    let mut scratch = JoinScratch::new(device, count + 5).unwrap();
    for (kind, from) in KINDS.into_iter().zip([0, 5, 37, 64]) {
        let (rows, numbers) = expected((keys, &values), probes, kind, valid);
        let what = format!("{kind:?} of {count} probes with {} pairs on {device}", keys.len());
        let bitmap = words(count, from, valid);
        let bytes: Vec<u8> = bitmap.iter().flat_map(|word| word.to_le_bytes()).collect();
        let validity = is_valid.map(|_| Validity::new(&bytes, from, count).unwrap());
        let found = map.join_as_many(probes, &Join::new(kind).valid(validity)).unwrap();
        assert_eq!((found.probes().unwrap(), &found), (numbers.clone(), &rows), "{what}, host form");
        assert_eq!(found.len(), numbers.len(), "{what}");

        let bitmap = device.upload(&bitmap).unwrap();
        let on = || {
            // A hint, true or not, changes nothing.
            let order = if kind.has_rows() { BatchOrder::Sorted } else { BatchOrder::Random };
            let on = map.on(&stream).order(order).kind(kind);
            if is_valid.is_some() { on.valid(&bitmap, from) } else { on }
        };
        let total = numbers.len();
        for room in [total + 3, total, total / 2] {
            if !kind.has_rows() && room < count {
                let mut out = DeviceJoin::of_probes(device, room).unwrap();
                let error = on().join(&on_device, &mut scratch, &mut out).unwrap_err();
                assert!(matches!(error, Error::OutputLength { .. }), "{what}: {error}");
                continue;
            }
            let mut out = DeviceJoin::new(device, count, room).unwrap();
            out.probes.copy_from(&vec![u64::MAX - 1; room]).unwrap();
            on().join(&on_device, &mut scratch, &mut out).unwrap();
            assert_eq!(out.count.to_vec().unwrap()[0], total as u64, "{what}");
            let written = total.min(room);
            let found = out.probes.to_vec().unwrap();
            assert_eq!(found[..written], numbers[..written], "{what}, room for {room}");
            assert!(found[written..].iter().all(|&number| number == u64::MAX - 1), "{what}: past the rows");
            if kind.has_rows() {
                assert_eq!(out.offsets.to_vec().unwrap(), rows.offsets, "{what}");
                assert_eq!(out.rows.to_vec().unwrap()[..written], rows.rows[..written], "{what}, room for {room}");
            }
        }
        if !kind.has_rows() {
            let mut out = DeviceJoin::<V>::of_probes(device, count).unwrap();
            on().join(&on_device, &mut scratch, &mut out).unwrap();
            assert_eq!(out.probes.to_vec().unwrap()[..total], numbers, "{what}");
        }
        let hit = |i: usize| (valid(i) && keys.contains(&probes[i])) != (kind == JoinKind::Anti);
        assert_eq!(scratch.hits().to_vec().unwrap()[..count.div_ceil(32)], words_of(count, hit), "{what}");
        if kind == JoinKind::Left {
            // Another row for what has none, and narrow numbers.
            let mut out = DeviceJoin::narrow(device, count, total).unwrap();
            on().miss(V::MIN).join(&on_device, &mut scratch, &mut out).unwrap();
            assert!(out.probes.to_vec().unwrap().into_iter().map(u64::from).eq(numbers.iter().copied()), "{what}");
            let other = |row: &V| if *row == no_row() { V::MIN } else { *row };
            assert_eq!(out.rows.to_vec().unwrap(), rows.rows.iter().map(other).collect::<Vec<V>>(), "{what}");
        }
    }
}

/// Joins by ranges and bands, as nested loops.
fn check_ranges(device: &Device, keys: &[i32], probes: &[(i32, i32)], is_valid: Option<&dyn Fn(usize) -> bool>) {
    let values: Vec<u32> = (0..keys.len() as u32).map(|i| i * 7 + 1).collect();
    let map = MultiMap::build(device, keys, &values).unwrap();
    // In the order of the keys, pairs with equal keys in the order of the input.
    let mut pairs: Vec<(i32, u32)> = keys.iter().copied().zip(values).collect();
    pairs.sort_by_key(|pair| pair.0);
    let (lows, highs): (Vec<i32>, Vec<i32>) = probes.iter().copied().unzip();
    let (stream, count) = (device.stream().unwrap(), probes.len());
    let bounds = (device.upload(&lows).unwrap(), device.upload(&highs).unwrap());
    let all = |_| true;
    let valid: &dyn Fn(usize) -> bool = is_valid.unwrap_or(&all);
    let mut scratch = RangeJoinScratch::new(device, count + 5).unwrap();
    let ways = [Some(Closed::Both), Some(Closed::Left), Some(Closed::Neither), None];
    for (way, (kind, from)) in
        ways.into_iter().flat_map(|way| KINDS.into_iter().zip([0, 5, 37, 64]).map(move |kind| (way, kind)))
    {
        let holds = |i: usize, key: i32| match way {
            Some(Closed::Both) => lows[i] <= key && key <= highs[i],
            Some(Closed::Left) => lows[i] <= key && key < highs[i],
            Some(_) => lows[i] < key && key < highs[i],
            None => key.abs_diff(lows[i]) <= 2,
        };
        let own = |i: usize| -> Vec<u32> {
            pairs.iter().filter(|pair| valid(i) && holds(i, pair.0)).map(|pair| pair.1).collect()
        };
        let (mut rows, mut numbers) = (JoinRows { offsets: vec![0], rows: Vec::new() }, Vec::new());
        for i in 0..count {
            let own = own(i);
            numbers.extend((0..kind.rows(own.len() as u64)).map(|_| i as u64));
            rows.offsets.push(numbers.len() as u64);
            if kind.has_rows() {
                rows.rows.extend(own);
                rows.rows.resize(numbers.len(), no_row());
            }
        }
        let what = format!("{kind:?} of {count} ranges, {way:?}, with {} pairs on {device}", keys.len());
        let bitmap = words(count, from, valid);
        let bytes: Vec<u8> = bitmap.iter().flat_map(|word| word.to_le_bytes()).collect();
        let join = Join::new(kind).valid(is_valid.map(|_| Validity::new(&bytes, from, count).unwrap()));
        let found = match way {
            Some(closed) => map.range_join_many(&lows, &highs, closed, &join),
            None => map.band_join_many(&lows, 2, &join),
        };
        assert_eq!(found.unwrap(), rows, "{what}, host form");

        let bitmap = device.upload(&bitmap).unwrap();
        let total = numbers.len();
        for room in [total + 3, total / 2] {
            let room = if kind.has_rows() { room } else { count };
            let mut out = DeviceJoin::new(device, count, room).unwrap();
            // A hint, true or not, changes nothing.
            let order = if kind.has_rows() { BatchOrder::Sorted } else { BatchOrder::Random };
            let on = map.on(&stream).order(order).kind(kind);
            let on = if is_valid.is_some() { on.valid(&bitmap, from) } else { on };
            match way {
                Some(closed) => on.range_join(&bounds.0, &bounds.1, closed, &mut scratch, &mut out).unwrap(),
                None => on.band_join(&bounds.0, 2, &mut scratch, &mut out).unwrap(),
            }
            let written = total.min(room);
            assert_eq!(out.count.to_vec().unwrap(), [total as u64], "{what}");
            assert_eq!(out.probes.to_vec().unwrap()[..written], numbers[..written], "{what}");
            if kind.has_rows() {
                assert_eq!(out.offsets.to_vec().unwrap(), rows.offsets, "{what}");
                assert_eq!(out.rows.to_vec().unwrap()[..written], rows.rows[..written], "{what}");
            }
        }
        let on = map.on(&stream).kind(kind);
        let on = if is_valid.is_some() { on.valid(&bitmap, from) } else { on };
        let room = if kind.has_rows() { total } else { count };
        let mut out = DeviceJoin::narrow(device, count, room).unwrap();
        match way {
            Some(closed) => on.range_join(&bounds.0, &bounds.1, closed, &mut scratch, &mut out).unwrap(),
            None => on.band_join(&bounds.0, 2, &mut scratch, &mut out).unwrap(),
        }
        let narrow = out.probes.to_vec().unwrap();
        assert!(narrow[..total].iter().map(|&number| u64::from(number)).eq(numbers.iter().copied()), "{what}, narrow");
        let hits = words_of(count, |i| own(i).is_empty() == (kind == JoinKind::Anti));
        assert_eq!(scratch.hits().to_vec().unwrap()[..count.div_ceil(32)], hits, "{what}");
    }
}

#[test]
fn joins_by_ranges_of_every_kind_are_those_of_nested_loops() {
    for device in [Device::host(), Device::emulated()] {
        let keys: Vec<i32> = (0..240).map(|i| (mix(i) % 60 * 3) as i32 - 90).collect();
        let mut probes: Vec<(i32, i32)> = (0..PIECE as u64 + 17)
            .map(|i| ((mix(i ^ 99) % 190) as i32 - 95, (mix(i ^ 77) % 190) as i32 - 95))
            .map(|(low, high)| if high % 3 == 0 { (low, low) } else { (low, high) })
            .collect();
        probes.extend([(i32::MIN, i32::MAX), (i32::MAX, i32::MIN), (i32::MAX, i32::MAX), (i32::MIN, i32::MIN)]);
        check_ranges(&device, &keys, &probes, None);
        check_ranges(&device, &keys, &probes, Some(&|i| i % 5 != 3));
        check_ranges(&device, &[], &probes, Some(&|i| i % 2 == 0));
        check_ranges(&device, &keys, &[], None);
        check_ranges(&device, &[4; 40], &probes, Some(&|_| false));
    }
}

fn words_of(len: usize, bit: impl Fn(usize) -> bool) -> Vec<u32> {
    (0..len.div_ceil(32))
        .map(|word| (word * 32..len.min(word * 32 + 32)).fold(0, |bits, i| bits | u32::from(bit(i)) << (i % 32)))
        .collect()
}

fn cases<K: AnyKey, V: Word>() {
    let key = |word: u64| K::decode(KeyWord::truncate(word));
    for device in [Device::host(), Device::emulated()] {
        // Mean of 4 duplicates, half of the probes present.
        let keys: Vec<K> = (0..240).map(|i| key(mix(i) % 60 * 2)).collect();
        let probes: Vec<K> = (0..2 * PIECE as u64 + 17).map(|i| key(mix(i ^ 99) % 125)).collect();
        check::<K, V>(&device, &keys, &probes, None);
        check::<K, V>(&device, &keys, &probes, Some(&|i| i % 5 != 3));
        // All null, no probes, no pairs, one key of everything.
        check::<K, V>(&device, &keys, &probes, Some(&|_| false));
        check::<K, V>(&device, &keys, &[], Some(&|_| true));
        check::<K, V>(&device, &[], &probes, Some(&|i| i % 2 == 0));
        check::<K, V>(&device, &[], &[], None);
        check::<K, V>(&device, &[key(7); 50], &[key(7); PIECE + 3], Some(&|i| i != 1));
    }
}

#[test]
fn joins_of_every_kind_are_those_of_nested_loops() {
    cases::<u64, u32>();
}

#[test]
fn joins_of_signed_keys_with_long_values() {
    cases::<i32, u64>();
}

#[test]
fn rows_beyond_32_bits_are_counted() {
    let device = Device::host();
    let rows: Vec<u32> = (0..1 << 16).collect();
    let map = MultiMap::build(&device, &vec![5_u64; 1 << 16], &rows).unwrap();
    let (stream, probes) = (device.stream().unwrap(), device.upload(&vec![5_u64; 1 << 16]).unwrap());
    let mut scratch = JoinScratch::new(&device, 1 << 16).unwrap();
    let mut out = DeviceJoin::new(&device, 1 << 16, 3).unwrap();
    for kind in [JoinKind::Inner, JoinKind::Left] {
        map.on(&stream).kind(kind).join(&probes, &mut scratch, &mut out).unwrap();
        assert_eq!(out.count.to_vec().unwrap(), [1 << 32], "rows of one key");
        assert_eq!(out.offsets.to_vec().unwrap()[32768..32770], [1 << 31, (1 << 31) + (1 << 16)]);
        assert_eq!((out.probes.to_vec().unwrap(), out.rows.to_vec().unwrap()), (vec![0; 3], vec![0, 1, 2]));
    }
}

#[test]
fn joins_say_what_is_too_small_and_what_they_do_not_use() {
    for device in [Device::host(), Device::emulated()] {
        let map = MultiMap::build(&device, &[1_u64, 1, 2], &[0_u32, 1, 2]).unwrap();
        let (stream, probes) = (device.stream().unwrap(), device.upload(&[1_u64, 2, 3]).unwrap());
        let mut scratch = JoinScratch::new(&device, 3).unwrap();
        let mut out = DeviceJoin::new(&device, 2, 9).unwrap();
        let error = map.on(&stream).join(&probes, &mut scratch, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "the offsets' buffer holds 3 elements, but 4 are needed; allocate at least 4");
        let mut out = DeviceJoin::new(&device, 3, 9).unwrap();
        let short = &mut JoinScratch::new(&device, 2).unwrap();
        for kind in KINDS {
            let error = map.on(&stream).kind(kind).join(&probes, short, &mut out).unwrap_err();
            assert_eq!(error.to_string(), "the scratch memory holds 2 elements, but 3 are needed; allocate at least 3");
            let valid = device.upload(&[7]).unwrap();
            let error = map.on(&stream).kind(kind).valid(&valid, 30).join(&probes, &mut scratch, &mut out).unwrap_err();
            assert!(matches!(error, Error::OutputLength { what: "the validity bitmap", expected: 2, actual: 1 }));
        }
        let error = map.on(&stream).limit(3).join(&probes, &mut scratch, &mut out).unwrap_err();
        assert!(matches!(error, Error::UnusedOption { option: "limit", call: "join" }), "{error}");
        let mut counts = device.alloc(3).unwrap();
        let mut lookups = Scratch::new(&device, 3).unwrap();
        let error = map.on(&stream).kind(JoinKind::Left).count(&probes, &mut counts, &mut lookups).unwrap_err();
        assert!(matches!(error, Error::UnusedOption { option: "kind", call: "count" }), "{error}");
        let validity = Validity::new(&[3], 0, 2).unwrap();
        let error = map.join_as_many(&[1, 2, 3], &Join::anti().valid(validity)).unwrap_err();
        assert_eq!(error.to_string(), "the validity bitmap holds 2 elements, but 3 are needed; allocate at least 3");
    }
}

#[test]
fn joins_that_fail_say_so_and_leave_the_map_as_it_was() {
    let keys: Vec<u32> = (0..90).map(|i| i / 3 * 2).collect();
    let probes: Vec<u32> = (0..70).collect();
    let bits = [0b1101_1011; 9];
    for kind in KINDS {
        let join = |map: &mut MultiMap<u32, u32>| {
            let validity = Validity::new(&bits, 1, probes.len())?;
            let join = Join::new(kind).valid(validity);
            let by_keys = map.join_as_many(&probes, &join)?;
            let by_ranges = map.range_join_many(&probes, &probes, Closed::Both, &join)?;
            assert_eq!(by_keys, by_ranges);
            let (stream, on_device) = (map.device().stream()?, map.device().upload(&probes)?);
            let mut scratch = JoinScratch::new(map.device(), probes.len())?;
            let mut out = DeviceJoin::new(map.device(), probes.len(), 200)?;
            map.on(&stream).kind(kind).join(&on_device, &mut scratch, &mut out)?;
            out.count.to_vec()?;
            Ok(())
        };
        let failed = Failure::at_every_point(
            |device| MultiMap::build(device, &keys, &keys).unwrap(),
            join,
            |map, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                join(map).unwrap();
            },
        );
        assert!(failed.len() > 20, "{kind:?}: {}", failed.len());
    }
}

#[test]
fn a_map_that_was_changed_in_place_is_joined_by_keys_and_on_a_device_says_that_ranges_need_its_order() {
    for device in [Device::host(), Device::emulated()] {
        let keys: Vec<u64> = (0..3000).map(|i| i / 3).collect();
        let values: Vec<u32> = (0..3000).collect();
        let mut map = MultiMap::builder().room(1.0).build(&device, &keys, &values).unwrap();
        let report = map.insert_many(&[500, 2000], &[9000, 9001]).unwrap();
        assert_eq!(report.path, UpdatePath::InPlace);
        let rows = map.join_as_many(&[500, 1500, 2000], &Join::left()).unwrap();
        let wanted = [(0, 1500), (0, 1501), (0, 1502), (0, 9000), (1, no_row()), (2, 9001)];
        assert!(rows.iter().eq(wanted), "{rows:?}");
        let ranges = |map: &MultiMap<u64, u32>| {
            let joined = map.range_join_many(&[499, 1500, 9], &[500, 1999, 8], Closed::Both, &Join::left());
            joined.map(|rows| rows.iter().collect::<Vec<_>>())
        };
        let values = [1497, 1498, 1499, 1500, 1501, 1502, 9000].into_iter().map(|value| (0, value));
        let wanted: Vec<_> = values.chain([(1, no_row()), (2, no_row())]).collect();
        // On the host they need no order.
        match device.kind() {
            DeviceKind::Host => assert_eq!(ranges(&map).unwrap(), wanted),
            _ => assert!(matches!(
                ranges(&map),
                Err(Error::NotCompact { query: "range_join", restore: "restore_order" })
            )),
        }
        assert!(map.restore_order().unwrap());
        assert_eq!(ranges(&map).unwrap(), wanted);
    }
}

/// A kernel that writes two rows at once must not do so where the caller's memory is not aligned to two rows, nor where
/// there is room for only one of them.
#[test]
fn rows_go_to_memory_that_begins_anywhere() {
    for device in [Device::host(), Device::emulated()] {
        let (keys, values): (Vec<u32>, Vec<u32>) = (0..1400).map(|i| (i / 700, i)).unzip();
        let map = MultiMap::build(&device, &keys, &values).unwrap();
        let (stream, probes) = (device.stream().unwrap(), device.upload(&[1_u32, 5, 0]).unwrap());
        let mut scratch = JoinScratch::new(&device, 3).unwrap();
        let (expected_rows, expected) = expected((&keys, &values), &[1, 5, 0], JoinKind::Left, |_| true);
        for (skipped, room) in [(0, 1401), (1, 1401), (1, 1000), (0, 999), (2, 513)] {
            let (mut rows, mut numbers) = (vec![u128::MAX; 400], vec![u128::MAX; 800]);
            let start = (rows.as_mut_ptr().cast::<u32>().wrapping_add(skipped), numbers.as_mut_ptr().cast::<u64>());
            // SAFETY: the vectors have the elements, and nothing else uses them before the buffers are gone.
            let buffers = unsafe {
                (device.buffer_from_raw(start.0, room), device.buffer_from_raw(start.1.wrapping_add(skipped), room))
            };
            let mut out = DeviceJoin {
                rows: buffers.0.unwrap(),
                probes: buffers.1.unwrap(),
                ..DeviceJoin::new(&device, 3, 0).unwrap()
            };
            map.on(&stream).kind(JoinKind::Left).join(&probes, &mut scratch, &mut out).unwrap();
            assert_eq!(out.count.to_vec().unwrap(), [1401], "{device}");
            let what = format!("{device}, {skipped} skipped, room for {room}");
            assert!(out.rows.to_vec().unwrap() == expected_rows.rows[..room], "{what}");
            assert!(out.probes.to_vec().unwrap() == expected[..room], "{what}");
            drop(out);
            let all: Vec<u32> = rows.iter().flat_map(|word| (0..4).map(move |i| (word >> (32 * i)) as u32)).collect();
            assert!(all[..skipped].iter().chain(&all[skipped + room..]).all(|&word| word == u32::MAX), "{what}");
        }
    }
}
