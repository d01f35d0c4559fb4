//! An index of intervals answers as a look at every interval does: on the host and with its kernels emulated, in host form and in
//! device form, and whatever fails meanwhile.

use core::fmt::Debug;
use lanetree::intervals::{DeviceRows, Scratch};
use lanetree::runtime::Failure;
use lanetree::{AnyKey, Composite, Device, Error, F64, IntervalIndex, KeyWord, Pool, Word};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

/// Intervals with a row each.
#[derive(Clone, Debug)]
struct Model<K, V> {
    starts: Vec<K>,
    ends: Vec<K>,
    rows: Vec<V>,
}

impl<K: AnyKey, V: Word> Model<K, V> {
    fn new(intervals: impl IntoIterator<Item = (K, K)>) -> Self {
        let (starts, ends): (Vec<K>, Vec<K>) = intervals.into_iter().unzip();
        let rows = (0..starts.len() as u64).map(|i| V::truncate(i * 7 + 3)).collect();
        Self { starts, ends, rows }
    }

    fn build(&self, device: &Device) -> IntervalIndex<K, V> {
        IntervalIndex::build_with_rows(device, &self.starts, &self.ends, &self.rows).unwrap()
    }

    /// The rows of all intervals that contain a point, the most specific one first.
    fn around(&self, point: K) -> Vec<V> {
        let contains = |&i: &usize| self.starts[i] <= point && point <= self.ends[i];
        let mut found: Vec<usize> = (0..self.starts.len()).filter(contains).collect();
        found.sort_by_key(|&i| (core::cmp::Reverse(self.starts[i]), self.ends[i], i));
        found.into_iter().map(|i| self.rows[i]).collect()
    }

    /// The rows of all intervals that have a point in common with a range, in the same order.
    fn overlapping(&self, low: K, high: K) -> Vec<V> {
        let overlaps = |&i: &usize| low <= high && self.starts[i] <= high && low <= self.ends[i];
        let mut found: Vec<usize> = (0..self.starts.len()).filter(overlaps).collect();
        found.sort_by_key(|&i| (core::cmp::Reverse(self.starts[i]), self.ends[i], i));
        found.into_iter().map(|i| self.rows[i]).collect()
    }

    /// Bounds, what is next to them, and the ends of the type.
    fn points(&self) -> Vec<K> {
        let one = K::Bits::truncate(1);
        let bounds = self.starts.iter().chain(&self.ends).map(|bound| bound.encode());
        let near = bounds.flat_map(|word| [word, word.wrapping_add(one), word.wrapping_sub(one)]);
        near.map(K::decode).chain([K::MIN, K::MAX]).collect()
    }

    fn compare(&self, points: &[K]) {
        let expected: Vec<Vec<V>> = points.iter().map(|&point| self.around(point)).collect();
        for device in devices() {
            let index = self.build(&device);
            assert_eq!(index.len(), self.starts.len() as u64);
            let found = index.stab_many(points).unwrap();
            assert_eq!(found.offsets.len(), points.len() + 1);
            for (i, expected) in expected.iter().enumerate() {
                assert_eq!(found.of(i), expected, "around {} in {self:?} on {device}", points[i]);
            }
            let pairs = expected.iter().zip(0..).flat_map(|(rows, i)| rows.iter().map(move |&row| (i, row)));
            assert!(found.iter().eq(pairs));
            let counts: Vec<u64> = expected.iter().map(|rows| rows.len() as u64).collect();
            assert_eq!(index.count_many(points).unwrap(), counts, "{device}");
            let most_specific: Vec<Option<V>> = expected.iter().map(|rows| rows.first().copied()).collect();
            assert_eq!(index.most_specific_many(points).unwrap(), most_specific, "{device}");
            in_device_form(&index, points, &expected);
            self.compare_overlaps(&index, points);
        }
    }

    /// Ranges between some of the points, half of them reversed, and ranges of one point.
    fn compare_overlaps(&self, index: &IntervalIndex<K, V>, points: &[K]) {
        let others = || points.iter().skip(points.len() / 3).chain(points).step_by(7);
        let (lows, highs): (Vec<K>, Vec<K>) = points.iter().zip(others()).chain(points.iter().zip(points)).unzip();
        let expected: Vec<Vec<V>> = lows.iter().zip(&highs).map(|(&low, &high)| self.overlapping(low, high)).collect();
        let found = index.overlap_many(&lows, &highs).unwrap();
        for (i, expected) in expected.iter().enumerate() {
            assert_eq!(
                found.of(i),
                expected,
                "overlapping {} to {} in {self:?} on {}",
                lows[i],
                highs[i],
                index.device()
            );
        }
        let counts = expected.iter().map(|rows| rows.len() as u64);
        assert!(counts.eq(index.count_overlaps_many(&lows, &highs).unwrap()));
    }
}

/// Asks twice with the same scratch memory, and with room for fewer rows than there are.
fn in_device_form<K: AnyKey, V: Word>(index: &IntervalIndex<K, V>, points: &[K], expected: &[Vec<V>]) {
    let (device, count) = (index.device(), points.len());
    let (stream, queries) = (device.stream().unwrap(), device.upload(points).unwrap());
    let mut scratch = Scratch::new(device, count + 5).unwrap();
    let all: Vec<V> = expected.iter().flatten().copied().collect();
    for capacity in [all.len() + 3, all.len() / 2, 0] {
        let poison = vec![V::truncate(0xdead_beef); capacity];
        let mut out = DeviceRows::new(device, count, 0).unwrap();
        out.rows = device.upload(&poison).unwrap();
        index.on(&stream).stab(&queries, &mut scratch, &mut out).unwrap();
        assert_eq!(out.offsets.to_vec().unwrap()[count], all.len() as u64);
        let written = capacity.min(all.len());
        let rows = out.rows.to_vec().unwrap();
        assert_eq!(rows[..written], all[..written]);
        assert_eq!(rows[written..], poison[written..], "past the rows");

        let mut rows = device.alloc(count).unwrap();
        let mut hits = device.alloc(count.div_ceil(32)).unwrap();
        let miss = V::truncate(9);
        index.on(&stream).hits(&mut hits).miss(miss).most_specific(&queries, &mut rows, &mut scratch).unwrap();
        let first = expected.iter().map(|rows| rows.first().copied().unwrap_or(miss));
        assert!(first.eq(rows.to_vec().unwrap()));
        let hits = hits.to_vec().unwrap();
        for i in 0..count.next_multiple_of(32) {
            let expected = expected.get(i).is_some_and(|rows| !rows.is_empty());
            assert_eq!(hits[i / 32] >> (i % 32) & 1 != 0, expected, "point {i}");
        }
    }
}

/// Any bounds, out of `space` values; seldom the ends of the type.
fn bounds<K: AnyKey>(rng: &mut StdRng, space: u64) -> (K, K) {
    let mut word = || match rng.random_range(0..30) {
        0 => K::Bits::MAX,
        1 => K::Bits::MIN,
        2 => K::Bits::MAX.wrapping_sub(K::Bits::truncate(rng.random_range(0..4))),
        _ => K::Bits::truncate(rng.random_range(0..space)),
    };
    let (a, b) = (word(), word());
    (K::decode(a.min(b)), K::decode(a.max(b)))
}

/// Intervals within intervals: each part is cut at random into parts, some of which are left out.
fn nested<K: AnyKey>(rng: &mut StdRng, first: u64, last: u64, depth: u32, all: &mut Vec<(K, K)>) {
    let key = |word| K::decode(K::Bits::truncate(word));
    for _ in 0..rng.random_range(1..=2) {
        all.push((key(first), key(last)));
    }
    let mut from = first;
    while depth > 0 && from < last {
        let to = rng.random_range(from..=last);
        if rng.random_bool(0.7) {
            nested(rng, from, to, depth - 1, all);
        }
        from = to + 1;
    }
}

fn random<K: AnyKey, V: Word>(seed: u64) {
    let rng = &mut StdRng::seed_from_u64(seed);
    for (len, space) in [(1, 5), (2, 3), (15, 10), (16, 100), (17, 100), (60, 8), (300, 400), (290, 1 << 20)] {
        let model = Model::<K, V>::new((0..len).map(|_| bounds(rng, space)));
        model.compare(&model.points());
    }
    let mut intervals = Vec::new();
    nested(rng, 10, 2000, 5, &mut intervals);
    intervals.truncate(500);
    // Not in the order in which they were made.
    for i in (1..intervals.len()).rev() {
        intervals.swap(i, rng.random_range(0..=i));
    }
    let model = Model::<K, V>::new(intervals);
    model.compare(&model.points());
}

#[test]
fn intervals_of_u32_with_narrow_rows() {
    random::<u32, u32>(1);
}

#[test]
fn intervals_of_u64_with_wide_rows() {
    random::<u64, u64>(2);
}

#[test]
fn intervals_of_i32_with_wide_rows() {
    random::<i32, u64>(3);
}

#[test]
fn intervals_of_i64_with_narrow_rows() {
    random::<i64, u32>(4);
}

#[test]
fn intervals_of_floats() {
    random::<F64, u32>(5);
}

#[test]
fn intervals_of_addresses_of_16_bytes() {
    random::<u128, u32>(6);
    random::<i128, u64>(7);
}

#[test]
fn intervals_within_groups() {
    random::<Composite<u32, u32>, u32>(8);
    let key = |group: u32, at: i32| Composite::new(group, at);
    let model = Model::<_, u32>::new([(key(1, -5), key(1, 9)), (key(2, 0), key(2, 3)), (key(1, 0), key(1, 1))]);
    model.compare(&model.points());
}

#[test]
fn no_intervals_contain_nothing() {
    let model = Model::<u64, u32>::new([]);
    model.compare(&[0, 5, u64::MAX]);
    model.compare(&[]);
    for device in devices() {
        let index = model.build(&device);
        assert!(index.is_empty() && index.stab_many(&[1]).unwrap().of(0).is_empty());
    }
}

#[test]
fn intervals_that_touch_or_are_one_point_or_everything() {
    let intervals = [(5, 9), (9, 9), (10, 10), (9, 10), (5, 9), (u32::MIN, u32::MAX), (u32::MAX, u32::MAX), (0, 0)];
    let model = Model::<u32, u32>::new(intervals);
    model.compare(&model.points());
}

/// Chains of links that are longer than a search follows, with several levels of maxima above.
#[test]
fn deep_nests_are_searched_through_the_maxima() {
    for depth in [7_u32, 8, 9, 10, 16, 17, 257, 700] {
        // A point past the middle of a nest is past every interval but the outer ones.
        let nest = (0..depth).map(|i| (i, 4 * depth - i));
        let model = Model::<u32, u32>::new(nest);
        let points: Vec<u32> = (2 * depth..=4 * depth + 1).step_by(3).chain(0..depth).collect();
        model.compare(&points);
        // One around everything, with many short ones within: they are neighbours, and one link away.
        let flat = (0..depth).map(|i| (10 * i + 1, 10 * i + 5)).chain([(0, 10 * depth)]);
        Model::<u32, u32>::new(flat).compare(&(0..10 * depth).step_by(7).collect::<Vec<_>>());
        // Staircases, in which each interval overlaps many and contains none.
        let stairs = (0..depth).map(|i| (i, i + 20));
        Model::<u32, u32>::new(stairs).compare(&(0..depth + 22).step_by(5).collect::<Vec<_>>());
    }
}

#[test]
fn rows_are_numbers_without_rows() {
    for device in devices() {
        let index = IntervalIndex::build(&device, &[5_u64, 1], &[6, 9]).unwrap();
        assert_eq!(index.stab_many(&[5]).unwrap().of(0), [0, 1]);
        let (stream, starts, ends) = (device.stream().unwrap(), [7_i32, -3, 100], [7_i32, 7, 3]);
        let (starts, ends) = (device.upload(&starts).unwrap(), device.upload(&ends).unwrap());
        // The first two only: the third is reversed.
        let index = IntervalIndex::<i32, u64>::build_on(&stream, &starts, &ends, None, 2).unwrap();
        assert_eq!(index.most_specific_many(&[7, 0, 8]).unwrap(), [Some(0), Some(1), None]);
        assert_eq!(starts.to_vec().unwrap(), [7, -3, 100]);
    }
}

#[test]
fn many_points_are_split_over_the_threads() {
    let model = Model::<u32, u32>::new((0..2000).map(|i| (i * 3, i * 3 + i % 50)));
    let points: Vec<u32> = (0..40_000).map(|i| i % 6100).collect();
    let index = model.build(&Device::host());
    let (all, counts) = (index.stab_many(&points).unwrap(), index.count_many(&points).unwrap());
    let most_specific = index.most_specific_many(&points).unwrap();
    for (i, &point) in points.iter().enumerate().step_by(37) {
        let expected = model.around(point);
        assert_eq!(all.of(i), expected, "point {point}");
        assert_eq!((counts[i], most_specific[i]), (expected.len() as u64, expected.first().copied()));
    }
}

fn message<T: Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_named() {
    for device in devices() {
        let text = "2 starts but 1 ends: give one of each per range";
        assert_eq!(message(IntervalIndex::build(&device, &[1_u32, 2], &[3])), text);
        let text = "range 2 starts at -1 and ends at -2, before its start: swap the bounds, or leave it out";
        assert_eq!(message(IntervalIndex::build(&device, &[1, -7, -1, 5], &[1, 9, -2, 4])), text);
        let text = "`rows` holds 3 elements, but exactly 1 is needed";
        assert_eq!(message(IntervalIndex::build_with_rows(&device, &[1_u32], &[3], &[1_u32, 2, 3])), text);

        let index = IntervalIndex::build(&device, &[1_u64, 2], &[3, 4]).unwrap();
        let (stream, points) = (device.stream().unwrap(), device.upload(&[1_u64; 40]).unwrap());
        let mut scratch = Scratch::new(&device, 40).unwrap();
        let (mut rows, mut hits) = (device.alloc(40).unwrap(), device.alloc(1).unwrap());
        let on = || index.on(&stream);
        let text = "the hit mask's buffer holds 1 element, but 2 are needed; allocate at least 2";
        assert_eq!(message(on().hits(&mut hits).miss(0).most_specific(&points, &mut rows, &mut scratch)), text);
        let text = "the scratch memory holds 3 elements, but 40 are needed; allocate at least 40";
        let mut short = Scratch::new(&device, 3).unwrap();
        assert_eq!(message(on().miss(0).most_specific(&points, &mut rows, &mut short)), text);
        let mut counts = device.alloc(39).unwrap();
        let text = "the counts' buffer holds 39 elements, but 40 are needed; allocate at least 40";
        assert_eq!(message(on().count(&points, &mut counts, &mut scratch)), text);
        let mut out = DeviceRows::new(&device, 39, 5).unwrap();
        let text = "the offsets' buffer holds 40 elements, but 41 are needed; allocate at least 41";
        assert_eq!(message(on().stab(&points, &mut scratch, &mut out)), text);
        let fewer = device.upload(&[1_u64; 39]).unwrap();
        let text = "40 starts but 39 ends: give one of each per range";
        assert_eq!(message(on().count_overlaps(&points, &fewer, &mut device.alloc(40).unwrap(), &mut scratch)), text);
        assert_eq!(message(index.overlap_many(&[1, 2], &[1])), text.replace("40", "2").replace("39", "1"));
        let other = if device == Device::host() { Device::emulated() } else { Device::host() };
        let elsewhere = other.upload(&[1_u64; 40]).unwrap();
        let error = message(on().miss(0).most_specific(&elsewhere, &mut rows, &mut scratch));
        assert!(error.contains("the points' buffer"), "{error}");
        let error = message(IntervalIndex::<u64, u32>::build_on(&stream, &points, &elsewhere, None, 40));
        assert!(error.contains("the ends' buffer"), "{error}");
        let text = "the starts' buffer holds 40 elements, but 41 are needed; allocate at least 41";
        assert_eq!(message(IntervalIndex::<u64, u32>::build_on(&stream, &points, &points, None, 41)), text);
    }
}

/// A query of an index.
type Query = fn(&IntervalIndex<i64>) -> Result<(), Error>;

#[test]
fn builds_and_queries_say_that_they_failed() {
    let starts: Vec<i64> = (0..300).map(|i| i % 40).collect();
    let ends: Vec<i64> = (0..300).map(|i| i % 40 + i % 7).collect();
    let built = Failure::at_every_point(
        |device| (device.clone(), None),
        |(device, index)| IntervalIndex::build(device, &starts, &ends).map(|built| *index = Some(built)),
        |(_, index), error| assert!(index.is_none() && matches!(error, Error::Runtime(_)), "{error}"),
    );
    assert!(built.len() > 40, "{}", built.len());
    let queries: [Query; 5] = [
        |index| index.most_specific_many(&[1, 2, 3]).map(drop),
        |index| index.stab_many(&[1, 2, 3]).map(drop),
        |index| index.count_many(&[1, 2, 3]).map(drop),
        |index| index.overlap_many(&[1, 2, 3], &[4, 9, 0]).map(drop),
        |index| index.count_overlaps_many(&[1, 2, 3], &[4, 9, 0]).map(drop),
    ];
    for query in queries {
        let failed = Failure::at_every_point(
            |device| IntervalIndex::build(device, &starts, &ends).unwrap(),
            |index| query(index),
            |index, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                query(index).unwrap();
            },
        );
        assert!(failed.len() > 3, "{}", failed.len());
    }
}

#[test]
fn an_index_on_a_pool_takes_the_bytes_that_it_says() {
    let pool = Pool::new(&Device::emulated());
    let starts: Vec<u64> = (0..20_000).map(|i| i / 3).collect();
    let ends: Vec<u64> = starts.iter().map(|start| start + 10).collect();
    let index = IntervalIndex::build(&pool.device(), &starts, &ends).unwrap();
    // Blocks of a pool are up to a quarter larger than what is in them.
    let in_use = pool.stats().in_use as u64;
    assert!((index.bytes()..index.bytes() * 5 / 4 + 8192).contains(&in_use), "{in_use} bytes for {}", index.bytes());
}

/// Enough that a build looks at a sample of the bounds, and sorts by some of their bits first: those of random bounds are enough,
/// those of bounds in clusters are not.
#[test]
fn many_intervals_are_in_order_however_their_bounds_are_spread() {
    let mut rng = StdRng::seed_from_u64(11);
    let len = 20_000_usize;
    let random: Vec<(u64, u64)> = (0..len).map(|_| (rng.random(), rng.random())).collect();
    let clusters = random.iter().map(|&(a, b)| ((a >> 58) << 40 | a & 0xff, (b >> 58) << 40 | b & 0xffff)).collect();
    // Of equal starts and of equal ends there are very many, in bits that are not telling.
    let crowded = random.iter().map(|&(a, b)| if a % 3 == 0 { (5, b % 7 + 9) } else { (a, b) }).collect();
    for bounds in [random, clusters, crowded] {
        let (starts, ends): (Vec<u64>, Vec<u64>) = bounds.iter().map(|&(a, b)| (a.min(b), a.max(b))).unzip();
        let mut order: Vec<usize> = (0..len).collect();
        order.sort_by_key(|&i| (core::cmp::Reverse(starts[i]), ends[i], i));
        for device in devices() {
            let index = IntervalIndex::build(&device, &starts, &ends).unwrap();
            let (found_starts, found_ends, rows) = index.intervals().unwrap();
            assert!(rows.iter().map(|&row| row as usize).eq(order.iter().copied()), "on {device}");
            assert!(found_starts.iter().eq(order.iter().map(|&i| &starts[i])), "on {device}");
            assert!(found_ends.iter().eq(order.iter().map(|&i| &ends[i])), "on {device}");
            let points: Vec<u64> = starts.iter().chain(&ends).step_by(401).copied().collect();
            let count = |point: u64| (0..len).filter(|&i| starts[i] <= point && point <= ends[i]).count() as u64;
            assert!(
                index.count_many(&points).unwrap().into_iter().eq(points.iter().map(|&point| count(point))),
                "{device}"
            );
        }
    }
}
