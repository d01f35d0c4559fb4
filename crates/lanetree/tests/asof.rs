//! As-of look-ups against a `BTreeMap`: every direction, strictness, tolerance and rule for ties, in host form and in device form, on
//! every index that has them, by plain and by composite keys.

use core::ops::Bound;
use lanetree::{
    AnyKey, AsOf, Composite, Cubpt, Device, DeviceRanges, Direction, Error, F64, FixedIndex, Harmonia, HostForm, Join,
    JoinKind, JoinRows, LaneSet, LaneTree, NearestScratch, OnStream, Ranges, SortedArray, Ties, Validity, compose_on,
    no_row,
};
use std::collections::BTreeMap;

/// A key with its group, and its place there.
trait Located: AnyKey {
    fn located(self) -> (i128, i128);
}
macro_rules! located {
    ($($key:ty)*) => {$(impl Located for $key {
        fn located(self) -> (i128, i128) {
            (0, self as i128)
        }
    })*};
}
located!(u32 i64 i128);
impl Located for Composite<u32, i32> {
    fn located(self) -> (i128, i128) {
        (self.first().into(), self.second().into())
    }
}
impl Located for Composite<i32, i64> {
    fn located(self) -> (i128, i128) {
        (self.first().into(), self.second().into())
    }
}

fn expected<K: Located>(
    pairs: &BTreeMap<K, u32>,
    key: K,
    how: (Direction, bool, Option<u64>, Ties),
) -> Option<(K, u32)> {
    let (direction, is_strict, tolerance, ties) = how;
    let (group, at) = key.located();
    let counts = |pair: &(K, u32)| {
        let (other, place) = pair.0.located();
        let near = tolerance.is_none_or(|most| place.abs_diff(at) <= u128::from(most));
        other == group && near && !(is_strict && place == at)
    };
    let owned = |(&key, &value): (&K, &u32)| (key, value);
    // The first pair on this side decides: pairs beyond it are farther.
    let below = pairs.range(..=key).rev().map(owned).find(|pair| !is_strict || pair.0 != key).filter(counts);
    let above = pairs.range(key..).map(owned).find(|pair| !is_strict || pair.0 != key).filter(counts);
    match direction {
        Direction::Backward => below,
        Direction::Forward => above,
        Direction::Nearest => match (below, above) {
            (Some(first), Some(second)) => {
                let [first_far, second_far] = [first, second].map(|pair| pair.0.located().1.abs_diff(at));
                assert_ne!(ties, Ties::Both, "one answer");
                let takes_second = second_far < first_far || second_far == first_far && ties == Ties::Forward;
                Some(if takes_second { second } else { first })
            }
            (below, above) => below.or(above),
        },
    }
}

/// The pairs nearest to each query, against those beside it that count, sorted by their distance.
fn k_nearest<I: FixedIndex<Value = u32>>(
    index: &I,
    pairs: &BTreeMap<I::Key, u32>,
    queries: &[I::Key],
    (direction, is_strict, tolerance, ties): (Direction, bool, Option<u64>, Ties),
    how: &AsOf,
) where
    I::Key: Located,
{
    const MOST: usize = 4;
    let near = queries.iter().map(|&query| {
        let (group, at) = query.located();
        // Those beyond are farther than these, of which one may be the query itself.
        let below = pairs.range(..=query).rev().take(MOST + 1);
        let above = pairs.range((Bound::Excluded(query), Bound::Unbounded)).take(MOST + 1);
        let mut near: Vec<(u128, bool, I::Key, u32)> = Vec::new();
        for (&key, &value) in below.chain(above) {
            let (other, place) = key.located();
            let distance = place.abs_diff(at);
            let is_on_side = match direction {
                Direction::Backward => place <= at,
                Direction::Forward => place >= at,
                Direction::Nearest => true,
            };
            if other == group
                && is_on_side
                && tolerance.is_none_or(|most| distance <= u128::from(most))
                && !(is_strict && distance == 0)
            {
                near.push((distance, (place > at) == (ties == Ties::Backward), key, value));
            }
        }
        near.sort();
        near.into_iter().map(|pair| (pair.2, pair.3)).unzip()
    });
    let near: Vec<(Vec<_>, Vec<_>)> = near.collect();
    for k in [0, 1, MOST] {
        let found = HostForm::k_nearest_many(index, queries, k as u64, how).unwrap();
        assert_eq!(found.len(), queries.len());
        for (i, (keys, values)) in near.iter().enumerate() {
            let (wanted, query) = (k.min(keys.len()), queries[i]);
            let device = index.device();
            assert_eq!(found.get(i), (&keys[..wanted], &values[..wanted]), "{k} near {query}, {how:?} on {device}");
        }
        if k > 1 {
            let device = index.device();
            let (stream, buffer) = (device.stream().unwrap(), device.upload(queries).unwrap());
            let mut scratch = NearestScratch::new(device, queries.len()).unwrap();
            in_device_form(device, &found, |out| {
                OnStream::new(index, &stream).k_nearest(&buffer, k as u64, how, &mut scratch, out)
            });
        }
    }
}

/// Rows in device form, where there is room for all of them and where there is not.
fn in_device_form<K: AnyKey>(
    device: &Device,
    wanted: &Ranges<K, u32>,
    mut find: impl FnMut(&mut DeviceRanges<K, u32>) -> lanetree::Result<()>,
) {
    let total = wanted.keys.len();
    for room in [total + 3, total / 2] {
        let mut out = DeviceRanges::new(device, wanted.len(), room).unwrap();
        out.values.copy_from(&vec![77_777; room]).unwrap();
        find(&mut out).unwrap();
        assert_eq!(out.offsets.to_vec().unwrap(), wanted.offsets, "on {device}");
        let (written, values) = (total.min(room), out.values.to_vec().unwrap());
        assert_eq!(values[..written], wanted.values[..written], "on {device}");
        assert!(values[written..].iter().all(|&value| value == 77_777), "on {device}");
        let mut keys = vec![K::decode(<K::Bits as lanetree::KeyWord>::MIN); written];
        out.keys.copy_range_to(0, &mut keys).unwrap();
        assert_eq!(keys, wanted.keys[..written], "on {device}");
    }
}

/// The last pairs of ranges, compared with a `BTreeMap`'s.
fn last_of_ranges<I: FixedIndex<Value = u32>>(index: &I, pairs: &BTreeMap<I::Key, u32>, queries: &[I::Key]) {
    let device = index.device();
    let (starts, ends) = (&queries[..queries.len() - 7], &queries[7..]);
    for k in [0, 1, 5, 40] {
        let found = HostForm::range_last_many(index, starts, ends, k).unwrap();
        for (i, (&start, &end)) in starts.iter().zip(ends).enumerate() {
            let last = pairs.iter().rev().filter(|&(&key, _)| start <= key && key <= end).take(k as usize);
            let (keys, values): (Vec<_>, Vec<_>) = last.map(|(&key, &value)| (key, value)).unzip();
            assert_eq!(found.get(i), (&keys[..], &values[..]), "the last {k} of {start} to {end} on {device}");
        }
        let (stream, bounds) = (device.stream().unwrap(), [starts, ends].map(|keys| device.upload(keys).unwrap()));
        let mut scratch = NearestScratch::new(device, starts.len()).unwrap();
        in_device_form(device, &found, |out| {
            OnStream::new(index, &stream).range_last(&bounds[0], &bounds[1], k, &mut scratch, out)
        });
    }
    assert!(HostForm::range_last_many(index, starts, &ends[1..], 1).is_err());
}

/// Joins of some kind by both of two ties, against look-ups by each, every third probe null.
fn joins<I: FixedIndex<Value = u32>>(
    index: &I,
    pairs: &BTreeMap<I::Key, u32>,
    queries: &[I::Key],
    (direction, is_strict, tolerance): (Direction, bool, Option<u64>),
    how: &AsOf,
) where
    I::Key: Located,
{
    let bits: Vec<u8> = (0..queries.len().div_ceil(8) as u8).map(|i| i.wrapping_mul(89) | 0x12).collect();
    let validity = Validity::new(&bits, 0, queries.len()).unwrap();
    let how = how.ties(Ties::Both);
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti] {
        let mut wanted = JoinRows { offsets: vec![0], rows: Vec::new() };
        for (i, &query) in queries.iter().enumerate() {
            let each = [Ties::Backward, Ties::Forward]
                .map(|ties| expected(pairs, query, (direction, is_strict, tolerance, ties)));
            let mut rows: Vec<u32> = each.into_iter().flatten().map(|pair| pair.1).collect();
            rows.dedup();
            if !validity.is_valid(i) {
                rows.clear();
            }
            let count = kind.rows(rows.len() as u64);
            wanted.offsets.push(wanted.offsets[i] + count);
            if kind.has_rows() {
                rows.resize(count as usize, no_row());
                wanted.rows.extend(rows);
            }
        }
        let found = HostForm::asof_join_many(index, queries, &how, &Join::new(kind).valid(validity)).unwrap();
        assert_eq!(found, wanted, "{kind:?}, {how:?} on {}", index.device());
    }
}

fn check<I: FixedIndex<Value = u32>>(index: &I, pairs: &BTreeMap<I::Key, u32>, queries: &[I::Key])
where
    I::Key: Located,
{
    let device = index.device();
    let stream = device.stream().unwrap();
    let buffer = device.upload(queries).unwrap();
    let mut found = 0;
    last_of_ranges(index, pairs, &queries[..queries.len().min(120)]);
    for direction in [Direction::Backward, Direction::Forward, Direction::Nearest] {
        for is_strict in [false, true] {
            for tolerance in [None, Some(0), Some(3), Some(u64::MAX)] {
                for ties in [Ties::Backward, Ties::Forward] {
                    let mut how = AsOf::new(direction).strict(is_strict).ties(ties);
                    if let Some(most) = tolerance {
                        how = how.tolerance(most);
                    }
                    let wanted: Vec<_> = queries
                        .iter()
                        .map(|&key| expected(pairs, key, (direction, is_strict, tolerance, ties)))
                        .collect();
                    found += wanted.iter().flatten().count();
                    assert_eq!(HostForm::asof_many(index, queries, &how).unwrap(), wanted, "{how:?} on {device}");
                    k_nearest(
                        index,
                        pairs,
                        &queries[..queries.len().min(90)],
                        (direction, is_strict, tolerance, ties),
                        &how,
                    );

                    let (mut keys, mut values) =
                        (device.alloc(queries.len()).unwrap(), device.alloc(queries.len()).unwrap());
                    let mut hits = device.alloc(queries.len().div_ceil(32)).unwrap();
                    let on = OnStream::new(index, &stream);
                    on.miss(77_777).asof(&buffer, &how, &mut keys, &mut values, &mut hits).unwrap();
                    let (keys, values, hits) =
                        (keys.to_vec().unwrap(), values.to_vec().unwrap(), hits.to_vec().unwrap());
                    let rows: Vec<_> = (0..queries.len())
                        .map(|i| (hits[i / 32] >> (i % 32) & 1 != 0).then(|| (keys[i], values[i])))
                        .collect();
                    assert_eq!(rows, wanted, "device form, {how:?} on {device}");
                    let missed = rows.iter().zip(values).filter(|(row, _)| row.is_none());
                    assert!(missed.into_iter().all(|(_, value)| value == 77_777));
                    pinned(index, queries, &how, &wanted);
                    if ties == Ties::Backward {
                        joins(index, pairs, queries, (direction, is_strict, tolerance), &how);
                    }
                }
            }
        }
    }
    assert!(found > 100, "some are found");
}

/// The same from pinned memory to pinned memory, with a hit mask and without.
fn pinned<I: FixedIndex<Value = u32>>(index: &I, queries: &[I::Key], how: &AsOf, wanted: &[Option<(I::Key, u32)>]) {
    let device = index.device();
    let (mut keys, mut values) = (device.pinned(queries.len()).unwrap(), device.pinned(queries.len()).unwrap());
    let mut hits = device.pinned(queries.len().div_ceil(32)).unwrap();
    keys.copy_from_slice(queries);
    let expected: Vec<u32> = wanted.iter().map(|pair| pair.map_or(77_777, |(_, value)| value)).collect();
    index.asof_many_pinned(&keys, how, 77_777, &mut values, Some(&mut hits)).unwrap();
    assert_eq!(values[..], expected, "pinned, {how:?} on {device}");
    let is_hit = |i: usize| hits[i / 32] >> (i % 32) & 1 != 0;
    assert!(wanted.iter().enumerate().all(|(i, pair)| is_hit(i) == pair.is_some()), "hits, {how:?} on {device}");
    values.fill(0);
    index.asof_many_pinned(&keys, how, 77_777, &mut values, None).unwrap();
    assert_eq!(values[..], expected, "pinned without a mask, {how:?} on {device}");
}

macro_rules! by_keys {
    ($($test:ident: $key:ty, $indexes:ident, |$i:ident| $make:expr, $ends:expr;)*) => {$(
        #[test]
        fn $test() {
            let key = |$i: u64| -> $key { $make };
            // Runs of keys at distances of 1 to 8, and wide gaps.
            let pairs: BTreeMap<$key, u32> = (0..700_u64).map(|i| (key(i * i % 4099 + i), i as u32)).collect();
            let (keys, values): (Vec<_>, Vec<_>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
            let queries: Vec<$key> = (0..400_u64).map(|i| key(i * 13 % 5000)).chain($ends).collect();
            for device in [Device::host(), Device::emulated()] {
                $indexes!(check, device, keys, values, pairs, queries);
            }
        }
    )*};
}
macro_rules! all {
    ($check:ident, $device:ident, $keys:ident, $values:ident, $pairs:ident, $queries:ident) => {
        $check(&LaneTree::build(&$device, &$keys, &$values).unwrap(), &$pairs, &$queries);
        $check(&Harmonia::build(&$device, &$keys, &$values).unwrap(), &$pairs, &$queries);
        $check(&Cubpt::build(&$device, &$keys, &$values).unwrap(), &$pairs, &$queries);
        $check(&SortedArray::build(&$device, &$keys, &$values).unwrap(), &$pairs, &$queries);
    };
}
macro_rules! wide {
    ($check:ident, $device:ident, $keys:ident, $values:ident, $pairs:ident, $queries:ident) => {
        $check(&LaneTree::build(&$device, &$keys, &$values).unwrap(), &$pairs, &$queries);
    };
}
by_keys! {
    keys_of_32_bits: u32, all, |i| i as u32, [0, 1, u32::MAX];
    keys_with_a_sign: i64, all, |i| i as i64 - 2000, [i64::MIN, i64::MAX, -1];
    keys_of_128_bits: i128, wide, |i| i128::from(i) - 2000, [i128::MIN, i128::MAX];
    groups_of_64_bits: Composite<u32, i32>, all, |i| Composite::new(i as u32 % 7, (i / 7) as i32 - 300),
        [Composite::MIN, Composite::MAX, Composite::new(6, i32::MAX), Composite::new(7, 0)];
    groups_of_128_bits: Composite<i32, i64>, wide, |i| Composite::new(i as i32 % 7 - 3, (i / 7) as i64 - 300),
        [Composite::new(i32::MIN, i64::MIN), Composite::new(-3, i64::MIN), Composite::new(3, i64::MAX)];
}

#[test]
fn distances_of_floats_are_refused() {
    let number = F64::new;
    let index = LaneTree::build(&Device::host(), &[number(1.0), number(2.0)], &[1_u32, 2]).unwrap();
    assert_eq!(index.asof_many(&[number(1.5)], &AsOf::backward()).unwrap(), [Some((number(1.0), 1))]);
    for how in [AsOf::nearest(), AsOf::backward().tolerance(1)] {
        let error = index.asof_many(&[number(1.5)], &how).unwrap_err();
        assert!(matches!(error, Error::OptionValue { .. }), "{error}");
    }
}

#[test]
fn look_ups_of_both_ties_are_refused() {
    let index = LaneTree::build(&Device::host(), &[1_u32, 3], &[1_u32, 3]).unwrap();
    let error = index.asof_many(&[2], &AsOf::nearest().ties(Ties::Both)).unwrap_err();
    let text = "an as-of look-up of ties(Both) is not possible: choose one of the ties: asof_join_many takes both";
    assert_eq!(error.to_string(), text);
    // On one side there are no ties.
    assert_eq!(index.asof_many(&[2], &AsOf::backward().ties(Ties::Both)).unwrap(), [Some((1, 1))]);
    assert_eq!(index.k_nearest_many(&[2], 2, &AsOf::nearest().ties(Ties::Both)).unwrap().keys, [1, 3]);
    let short = Validity::new(&[1], 0, 1).unwrap();
    assert!(index.asof_join_many(&[2, 3], &AsOf::nearest(), &Join::left().valid(short)).is_err());
}

#[test]
fn an_empty_index_and_an_empty_batch_have_no_neighbours() {
    for device in [Device::host(), Device::emulated()] {
        let index = LaneTree::<u64, u32>::build(&device, &[], &[]).unwrap();
        assert_eq!(index.asof_many(&[1], &AsOf::nearest()).unwrap(), [None]);
        assert_eq!(index.asof_many(&[], &AsOf::nearest()).unwrap(), []);
        assert_eq!(index.k_nearest_many(&[1], 3, &AsOf::nearest()).unwrap().offsets, [0, 0]);
        assert_eq!(index.k_nearest_many(&[], u64::MAX, &AsOf::nearest()).unwrap().offsets, [0]);
        assert_eq!(index.range_last_many(&[1, 2], &[9, 1], u64::MAX).unwrap().offsets, [0, 0, 0]);
    }
}

#[test]
fn composite_keys_are_made_on_the_device() {
    for device in [Device::host(), Device::emulated()] {
        let stream = device.stream().unwrap();
        let (firsts, seconds) = ([3_u32, 1, u32::MAX], [-5_i64, i64::MIN, i64::MAX]);
        let mut keys = device.alloc(3).unwrap();
        let columns = (device.upload(&firsts).unwrap(), device.upload(&seconds).unwrap());
        compose_on(&stream, &columns.0, &columns.1, &mut keys).unwrap();
        let expected: Vec<_> = firsts.into_iter().zip(seconds).map(Composite::from).collect();
        assert_eq!(keys.to_vec().unwrap(), expected);
        let (small, signed) = (device.upload(&[7_i32, -7]).unwrap(), device.upload(&[-1_i32, 1]).unwrap());
        let mut narrow = device.alloc(2).unwrap();
        compose_on(&stream, &small, &signed, &mut narrow).unwrap();
        assert_eq!(narrow.to_vec().unwrap(), [Composite::new(7, -1), Composite::new(-7, 1)]);
        let mut short = device.alloc(1).unwrap();
        assert!(matches!(compose_on(&stream, &small, &signed, &mut short), Err(Error::OutputLength { .. })));
        assert!(matches!(
            compose_on(&stream, &columns.0, &signed, &mut device.alloc(3).unwrap()),
            Err(Error::OutputLength { .. })
        ));
    }
    // A set of composite keys: all of one first key are a range.
    let keys = [(1_u32, 5_u32), (1, 9), (2, 0)].map(Composite::from);
    let set = LaneSet::build(&Device::emulated(), &keys).unwrap();
    assert_eq!(set.range_many([Composite::all_of(1)]).unwrap().get(0), &keys[..2]);
}
