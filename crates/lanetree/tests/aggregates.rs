//! Aggregates of ranges against a `BTreeMap`: each kind, of each number, of ranges of no pairs to thousands, on every index that has
//! them, in host form and in device form.

use lanetree::multimap::AggregateScratch as MultiScratch;
use lanetree::{
    Aggregate, AggregateScratch, AnyKey, Cubpt, Device, DeviceAggregates, DeviceKind, Error, FixedIndex, Harmonia,
    HostForm, LaneTree, MultiMap, Number, OnStream, ShardedMultiMap, SortedArray, Word,
};
use std::collections::BTreeMap;
use std::fmt::Debug;

const ALL: [Aggregate; 5] = [Aggregate::Sum, Aggregate::Min, Aggregate::Max, Aggregate::First, Aggregate::Last];

/// A number, as the oracle sees it.
trait Wide: Number {
    fn of(word: Self::Word) -> Self;
    fn wide(self) -> Self::Wide;
    fn sum(numbers: &[Self]) -> Self::Wide;
    fn below(self, other: Self) -> bool;
}

macro_rules! wide {
    ($($number:ident: $wide:ident, |$word:ident| $of:expr, |$a:ident, $b:ident| $below:expr;)*) => {$(
        impl Wide for $number {
            fn of($word: Self::Word) -> Self {
                $of
            }
            fn wide(self) -> $wide {
                $wide::from(self)
            }
            fn sum(numbers: &[Self]) -> $wide {
                numbers.iter().map(|&number| $wide::from(number)).sum()
            }
            fn below(self, other: Self) -> bool {
                let ($a, $b) = (self, other);
                $below
            }
        }
    )*};
}
wide! {
    u32: u64, |word| word, |a, b| a < b;
    i32: i64, |word| word as i32, |a, b| a < b;
    f32: f64, |word| f32::from_bits(word), |a, b| a.total_cmp(&b).is_lt();
    u64: u64, |word| word, |a, b| a < b;
    i64: i64, |word| word as i64, |a, b| a < b;
    f64: f64, |word| f64::from_bits(word), |a, b| a.total_cmp(&b).is_lt();
}

fn expected<A: Wide>(aggregate: Aggregate, values: &[A::Word]) -> Option<A::Wide> {
    let numbers: Vec<A> = values.iter().map(|&word| A::of(word)).collect();
    let extreme = |is_better: fn(A, A) -> bool| {
        numbers.iter().copied().reduce(|best, number| if is_better(number, best) { number } else { best })
    };
    match aggregate {
        Aggregate::Sum => (!numbers.is_empty()).then(|| A::sum(&numbers)),
        Aggregate::Min => extreme(A::below).map(A::wide),
        Aggregate::Max => extreme(|a, b| b.below(a)).map(A::wide),
        Aggregate::First => numbers.first().copied().map(A::wide),
        Aggregate::Last => numbers.last().copied().map(A::wide),
    }
}

/// Checks an index whose values are `values`, of small whole numbers, so that sums are exact in any order.
fn check<A: Wide<Wide: Debug>, I: FixedIndex<Value = A::Word>>(index: &I, pairs: &BTreeMap<I::Key, A::Word>)
where
    A::Word: Word,
{
    let keys: Vec<I::Key> = pairs.keys().copied().collect();
    let at = |i: usize| keys[i.min(keys.len() - 1)];
    let ends = [(0, usize::MAX), (3, 2), (5, 5), (0, 63), (7, 1040), (100, 2100), (1, 0), (2040, 2100), (1, 2099)];
    let (starts, ends): (Vec<_>, Vec<_>) = ends.iter().cycle().take(40).map(|&(from, to)| (at(from), at(to))).unzip();
    let values = |i: usize| {
        let range = if starts[i] <= ends[i] { Some(pairs.range(starts[i]..=ends[i])) } else { None };
        range.into_iter().flatten().map(|(_, &value)| value).collect::<Vec<_>>()
    };
    let device = FixedIndex::device(index);
    let stream = device.stream().unwrap();
    let (on_starts, on_ends) = (device.upload(&starts).unwrap(), device.upload(&ends).unwrap());
    let mut scratch = AggregateScratch::new(device, starts.len()).unwrap();
    let mut out = DeviceAggregates::<A::Wide>::new(device, starts.len()).unwrap();
    for aggregate in ALL {
        let wanted: Vec<_> = (0..starts.len()).map(|i| expected::<A>(aggregate, &values(i))).collect();
        let found = HostForm::aggregate_many::<A>(index, aggregate, &starts, &ends).unwrap();
        assert_eq!(found, wanted, "{aggregate:?}");
        let limited = |i: usize| expected::<A>(aggregate, &values(i)[..values(i).len().min(6)]);
        for (limit, wanted) in [(u64::MAX, wanted), (6, (0..starts.len()).map(limited).collect())] {
            let on = OnStream::new(index, &stream).limit(limit);
            on.aggregate::<A>(aggregate, &on_starts, &on_ends, &mut scratch, &mut out).unwrap();
            assert_eq!(results::<A>(&out), wanted, "{aggregate:?}, at most {limit}");
        }
    }
}

/// Results in device form, none of which overflows.
fn results<A: Number>(out: &DeviceAggregates<A::Wide>) -> Vec<Option<A::Wide>> {
    let (found, hits) = (out.values.to_vec().unwrap(), out.hits.to_vec().unwrap());
    assert!(out.overflowed.to_vec().unwrap().iter().all(|&bits| bits == 0));
    found.into_iter().enumerate().map(|(i, value)| (hits[i / 32] >> (i % 32) & 1 != 0).then_some(value)).collect()
}

/// Checks a multi-map, and one in shards, whose pairs are these, in order.
fn check_multi_map<A: Wide<Wide: Debug>>(map: &MultiMap<u32, A::Word>, pairs: &[(u32, A::Word)]) {
    let (keys, values): (Vec<u32>, Vec<A::Word>) = pairs.iter().copied().unzip();
    let last = keys.last().copied().unwrap_or(0);
    let bounds = [(0, u32::MAX), (0, 0), (1, 3), (5, 4), (7, last / 2), (last, last), (last + 1, u32::MAX), (3, last)];
    let (starts, ends): (Vec<_>, Vec<_>) = bounds.iter().cycle().take(40).copied().unzip();
    let row = |i: usize| {
        let from = keys.partition_point(|&key| key < starts[i]);
        values.get(from..keys.partition_point(|&key| key <= ends[i])).unwrap_or(&[])
    };
    let (device, count) = (map.device(), starts.len());
    let stream = device.stream().unwrap();
    let (on_starts, on_ends) = (device.upload(&starts).unwrap(), device.upload(&ends).unwrap());
    let limits: Vec<u64> = (0..count as u64).map(|i| i % 9).collect();
    let on_limits = device.upload(&limits).unwrap();
    let mut scratch = MultiScratch::new(device, count).unwrap();
    let mut out = DeviceAggregates::<A::Wide>::new(device, count).unwrap();
    let devices = [device.clone(), Device::host(), device.clone()];
    let sharded = ShardedMultiMap::build(&devices, MultiMap::builder(), &keys, &values).unwrap();
    for aggregate in ALL {
        let wanted: Vec<_> = (0..count).map(|i| expected::<A>(aggregate, row(i))).collect();
        assert_eq!(map.aggregate_many::<A>(aggregate, &starts, &ends).unwrap(), wanted, "{aggregate:?}");
        assert_eq!(sharded.aggregate_many::<A>(aggregate, &starts, &ends).unwrap(), wanted, "{aggregate:?}, in shards");
        let limited = |i: usize| expected::<A>(aggregate, &row(i)[..row(i).len().min(limits[i] as usize)]);
        for (limits, wanted) in [(None, wanted), (Some(&on_limits), (0..count).map(limited).collect())] {
            let on = map.on(&stream).limits(limits);
            on.aggregate::<A>(aggregate, &on_starts, &on_ends, &mut scratch, &mut out).unwrap();
            assert_eq!(results::<A>(&out), wanted, "{aggregate:?}");
        }
    }
}

macro_rules! multi_maps {
    ($($test:ident: $number:ident, |$i:ident| $value:expr;)*) => {$(
        #[test]
        fn $test() {
            // Keys of 0 to thousands of values, so that ranges of one key have parts, too.
            let value = |$i: u32| $value;
            let pairs: Vec<_> = (0..6000).map(|i: u32| (if i < 2500 { 3 } else { i / 3 }, value(i % 257))).collect();
            let (keys, values): (Vec<u32>, Vec<_>) = pairs.iter().copied().unzip();
            for device in [Device::host(), Device::emulated()] {
                check_multi_map::<$number>(&MultiMap::build(&device, &keys, &values).unwrap(), &pairs);
                check_multi_map::<$number>(&MultiMap::build(&device, &[], &[]).unwrap(), &[]);
                check_multi_map::<$number>(&MultiMap::build(&device, &[5], &values[..1]).unwrap(), &[(5, values[0])]);
            }
        }
    )*};
}
multi_maps! {
    signed_numbers_of_a_multi_map: i64, |i| (i64::from(i) - 128) as u64;
    floats_of_a_multi_map: f32, |i| (i as f32 - 128.0).to_bits();
    unsigned_numbers_of_a_multi_map: u32, |i| i;
    large_floats_of_a_multi_map: f64, |i| (f64::from(i) - 128.0).to_bits();
}

#[test]
fn aggregates_of_a_multi_map_need_its_order_on_a_device() {
    for device in [Device::host(), Device::emulated()] {
        let mut map = MultiMap::builder().room(4.0).build(&device, &[1_u32, 2, 3], &[u64::MAX, 1, 5]).unwrap();
        let sum = |map: &MultiMap<u32, u64>| map.aggregate_many::<u64>(Aggregate::Sum, &[2, 3], &[3, 2]);
        assert_eq!(sum(&map).unwrap(), [Some(6), None]);
        map.insert_many(&[2], &[10]).unwrap();
        match (device.kind(), sum(&map)) {
            (DeviceKind::Host, sums) => assert_eq!(sums.unwrap(), [Some(16), None]),
            (_, Err(error)) => assert!(matches!(error, Error::NotCompact { query: "aggregate", .. }), "{error}"),
            (_, Ok(sums)) => panic!("{sums:?}"),
        }
        map.restore_order().unwrap();
        check_multi_map::<i64>(&map, &[(1, u64::MAX), (2, 1), (2, 10), (3, 5)]);

        let error = map.aggregate_many::<u64>(Aggregate::Sum, &[2, 1, 3], &[3, 2, 4]).unwrap_err();
        assert!(matches!(error, Error::SumOverflow { range: 1 }), "{error}");
        let error = map.aggregate_many::<u64>(Aggregate::Min, &[2, 1], &[3]).unwrap_err();
        assert!(matches!(error, Error::BoundLengths { .. }), "{error}");

        let (stream, bounds) = (device.stream().unwrap(), device.upload(&[1_u32, 2]).unwrap());
        let mut out = DeviceAggregates::new(&device, 2).unwrap();
        let mut short = MultiScratch::new(&device, 0).unwrap();
        let error =
            map.on(&stream).aggregate::<u64>(Aggregate::Max, &bounds, &bounds, &mut short, &mut out).unwrap_err();
        assert!(matches!(error, Error::OutputLength { what: "the scratch memory", .. }), "{error}");
        let mut scratch = MultiScratch::new(&device, 2).unwrap();
        let mut hits = device.alloc(1).unwrap();
        let on = map.on(&stream).hits(&mut hits);
        let error = on.aggregate::<u64>(Aggregate::Max, &bounds, &bounds, &mut scratch, &mut out).unwrap_err();
        assert!(matches!(error, Error::UnusedOption { option: "hits", .. }), "{error}");
    }
}

fn pairs<K: AnyKey, V: Copy>(key: impl Fn(u64) -> K, value: impl Fn(i32) -> V) -> BTreeMap<K, V> {
    (0..2100).map(|i| (key(i * 3), value((i * 7919 % 257) as i32 - 128))).collect()
}

macro_rules! tests {
    ($($test:ident: $index:ident, $key:ty, $number:ident, |$i:ident| $value:expr;)*) => {$(
        #[test]
        fn $test() {
            let pairs = pairs(|key| key as $key, |$i| $value);
            let (keys, values): (Vec<$key>, Vec<_>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
            for device in [Device::host(), Device::emulated()] {
                let index = $index::builder().fill(0.7).build(&device, &keys, &values).unwrap();
                check::<$number, _>(&index, &pairs);
            }
        }
    )*};
}
tests! {
    signed_numbers_of_a_lane_tree: LaneTree, u64, i64, |i| i64::from(i) as u64;
    unsigned_numbers_of_a_lane_tree: LaneTree, u32, u32, |i| (i + 128) as u32;
    floats_of_a_lane_tree: LaneTree, i64, f32, |i| (i as f32).to_bits();
    floats_of_harmonia: Harmonia, u64, f64, |i| f64::from(i).to_bits();
    signed_numbers_of_harmonia: Harmonia, u32, i32, |i| i as u32;
    numbers_of_cubpt: Cubpt, u64, u64, |i| (i + 128) as u64;
    signed_numbers_of_cubpt: Cubpt, i32, i32, |i| i as u32;
}

#[test]
fn numbers_of_an_array() {
    let pairs = pairs(|key| key, |i| i64::from(i) as u64);
    let (keys, values): (Vec<u64>, Vec<u64>) = pairs.iter().map(|(&key, &value)| (key, value)).unzip();
    for device in [Device::host(), Device::emulated()] {
        check::<i64, _>(&SortedArray::build(&device, &keys, &values).unwrap(), &pairs);
    }
}

#[test]
fn sums_that_overflow_are_named() {
    let values = [u64::MAX, 1, 5, u64::MAX];
    for device in [Device::host(), Device::emulated()] {
        let index = LaneTree::build(&device, &[1_u64, 2, 3, 4], &values).unwrap();
        let error = index.aggregate_many::<u64>(Aggregate::Sum, &[2, 1, 3], &[3, 2, 4]).unwrap_err();
        assert!(matches!(error, Error::SumOverflow { range: 1 }), "{error}");
        assert_eq!(index.aggregate_many::<i64>(Aggregate::Sum, &[1], &[4]).unwrap(), [Some(4)]);
        assert_eq!(index.aggregate_many::<u64>(Aggregate::Max, &[1], &[2]).unwrap(), [Some(u64::MAX)]);

        let (stream, bounds) = (device.stream().unwrap(), device.upload(&[1_u64, 2, 4]).unwrap());
        let ends = device.upload(&[2_u64, 3, 3]).unwrap();
        let mut scratch = AggregateScratch::new(&device, 3).unwrap();
        let mut out = DeviceAggregates::new(&device, 3).unwrap();
        index.on(&stream).aggregate::<u64>(Aggregate::Sum, &bounds, &ends, &mut scratch, &mut out).unwrap();
        assert_eq!(out.values.to_vec().unwrap(), [0, 6, 0]);
        assert_eq!((out.hits.to_vec().unwrap(), out.overflowed.to_vec().unwrap()), (vec![0b011], vec![0b001]));
    }
}

#[test]
fn an_empty_index_and_an_empty_batch_have_no_aggregates() {
    for device in [Device::host(), Device::emulated()] {
        let index = LaneTree::<u64, u32>::build(&device, &[], &[]).unwrap();
        assert_eq!(index.aggregate_many::<f32>(Aggregate::Sum, &[0], &[u64::MAX]).unwrap(), [None]);
        assert_eq!(index.aggregate_many::<i32>(Aggregate::Last, &[], &[]).unwrap(), []);
        let error = index.aggregate_many::<i32>(Aggregate::Last, &[1, 2], &[1]).unwrap_err();
        assert!(matches!(error, Error::BoundLengths { .. }), "{error}");
    }
}
