//! Batches in many pieces, windows and parts have the results that a sorted vector has.

use crate::Harmonia;
use core::ops::Bound;
use lanetree_frame::fixed::ranges::Sizes;
use lanetree_frame::staging::SLOTS;
use lanetree_frame::{Device, Error, KeyRange, Op, Pool, Ranges};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Pieces of a few ranges, windows of a few pairs.
const TINY: Sizes = Sizes { piece: 32, pieces: 3, window: 64, part: 8, small: 0 };

/// The most staging memory for batches in pieces and windows of these sizes: of two chunks, and of all threads.
fn most_staged() -> usize {
    let Sizes { piece, pieces, window, .. } = TINY;
    2 * pieces * 100 * piece + lanetree_runtime::threads() * SLOTS * 2 * 12 * window
}

/// Sizes that go every way there is.
const ALL: [Sizes; 5] = [
    TINY,
    Sizes { small: 40, ..TINY },
    Sizes { small: 1 << 14, window: 1 << 12, ..TINY },
    Sizes { pieces: 1, window: 130, part: 128, ..TINY },
    Sizes { piece: 1 << 10, window: 1 << 20, part: 1 << 12, ..TINY },
];

type Spec = (Bound<i64>, Bound<i64>, u64);

/// Pairs whose values tell their keys.
fn pairs(keys: impl Iterator<Item = i64>) -> (Vec<i64>, Vec<u32>) {
    keys.map(|key| (key, key as u32 ^ 0x5a5a)).unzip()
}

/// Ranges of all lengths, empty ones and the whole tree among them.
fn specs(rng: &mut StdRng, count: usize, limited: bool) -> Vec<Spec> {
    let bound = |rng: &mut StdRng, key| match rng.random_range(0..8) {
        0..5 => Bound::Included(key),
        _ => Bound::Excluded(key),
    };
    let spec = |rng: &mut StdRng| {
        let start = rng.random_range(-5200..5200_i64);
        let length = [0, 0, 3, 40, 90, 700][rng.random_range(0..6)];
        let limit = if limited && rng.random_range(0..3) == 0 { rng.random_range(0..50) } else { u64::MAX };
        match rng.random_range(0..40) {
            0 => (Bound::Unbounded, Bound::Unbounded, limit),
            1 => (bound(rng, start), Bound::Unbounded, limit),
            _ => (bound(rng, start), bound(rng, start + length), limit),
        }
    };
    (0..count).map(|_| spec(rng)).collect()
}

fn ranges(specs: &[Spec]) -> impl Iterator<Item = KeyRange<i64>> {
    specs.iter().map(|&(start, end, limit)| KeyRange::new((start, end)).limit(limit))
}

fn expected(keys: &[i64], specs: &[Spec]) -> Ranges<i64, u32> {
    let mut out = Ranges { offsets: vec![0], ..Ranges::default() };
    for &(start, end, limit) in specs {
        let from = match start {
            Bound::Unbounded => 0,
            Bound::Included(start) => keys.partition_point(|&key| key < start),
            Bound::Excluded(start) => keys.partition_point(|&key| key <= start),
        };
        let to = match end {
            Bound::Unbounded => keys.len(),
            Bound::Included(end) => keys.partition_point(|&key| key <= end),
            Bound::Excluded(end) => keys.partition_point(|&key| key < end),
        };
        let row = &keys[from..to.max(from)];
        let row = &row[..row.len().min(limit.min(1 << 40) as usize)];
        let (keys, values) = pairs(row.iter().copied());
        out.keys.extend(keys);
        out.values.extend(values);
        out.offsets.push(out.keys.len() as u64);
    }
    out
}

/// Every size, with and without limits, new results and old ones written over.
fn agrees(tree: &mut Harmonia<i64, u32>, keys: &[i64], seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut out = Ranges::default();
    for (i, sizes) in ALL.into_iter().enumerate() {
        tree.staging.ranges.sizes = sizes;
        for count in [0, 1, 7, 8, 33, 130] {
            let specs = specs(&mut rng, count, i % 2 == 0);
            let expected = expected(keys, &specs);
            // With a hint of their number, and without.
            assert!(tree.range_many(ranges(&specs)).unwrap() == expected, "{sizes:?}, {count}");
            tree.range_many_into(ranges(&specs).filter(|_| true), &mut out).unwrap();
            assert!(out == expected, "{sizes:?}, {count}");
            let lens: Vec<u64> = expected.offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(tree.count_range_many(ranges(&specs)).unwrap(), lens);
        }
        // Both inclusive; where the end is below the start, nothing.
        let starts: Vec<i64> = (0..77).map(|_| rng.random_range(-5200..5200)).collect();
        let ends: Vec<i64> = starts.iter().map(|start| start + rng.random_range(-50..200)).collect();
        let between = starts.iter().zip(&ends);
        let specs: Vec<Spec> =
            between.map(|(&start, &end)| (Bound::Included(start), Bound::Included(end), u64::MAX)).collect();
        tree.range_between_many_into(&starts, &ends, &mut out).unwrap();
        assert!(out == expected(keys, &specs), "{sizes:?}");
        let lens: Vec<u64> = out.offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(tree.count_between_many(&starts, &ends).unwrap(), lens, "{sizes:?}");
        let ranges = starts.iter().zip(&ends).map(|(&start, &end)| KeyRange::new(start..=end).empty_if_reversed());
        assert!(tree.range_many(ranges).unwrap() == out, "{sizes:?}");
    }
}

#[test]
fn batches_of_many_pieces_windows_and_parts_are_whole() {
    for device in [Device::host(), Device::emulated_with_seed(3)] {
        for fanout in [8, 32] {
            let (mut keys, values) = pairs((-500..500).map(|i| i * 10));
            let builder = Harmonia::builder().fanout(fanout).fill(0.6);
            let mut tree = builder.build_sorted(&device, &keys, &values).unwrap();
            agrees(&mut tree, &keys, u64::from(fanout));
            // Leaves of many lengths, whose ranks the cutting needs.
            let ops: Vec<Op<i64, u32>> = (-150..150)
                .map(|i| match i % 3 {
                    0 => Op::Remove(i * 30),
                    _ => Op::Insert(i * 3 + 1, (i * 3 + 1) as u32 ^ 0x5a5a),
                })
                .collect();
            tree.apply(&ops).unwrap();
            for op in ops {
                match op {
                    Op::Remove(key) => keys.retain(|&other| other != key),
                    op => keys.push(*op.key()),
                }
            }
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(tree.len(), keys.len() as u64);
            agrees(&mut tree, &keys, u64::from(fanout) + 1);
        }
    }
}

#[test]
fn an_empty_tree_has_empty_ranges() {
    let mut tree = Harmonia::<i64, u32>::build(&Device::emulated(), &[], &[]).unwrap();
    agrees(&mut tree, &[], 5);
}

#[test]
fn memory_does_not_grow_from_batch_to_batch() {
    let (keys, values) = pairs(0..2000);
    let mut tree = Harmonia::build(&Device::emulated(), &keys, &values).unwrap();
    tree.staging.ranges.sizes = TINY;
    for _ in 0..30 {
        let found = tree.range_many((0..60).map(|i| i * 20..i * 20 + 30 + (i & 3) * 60)).unwrap();
        assert_eq!(found.len(), 60);
        // How many threads take part varies; only the most is fixed.
        assert!((1..=most_staged()).contains(&tree.staging_bytes()), "{} bytes", tree.staging_bytes());
    }
}

#[test]
fn an_error_half_way_leaves_nothing_and_the_tree_goes_on() {
    let (keys, values) = pairs(0..2000);
    for device in [Device::host(), Device::emulated()] {
        let mut tree = Harmonia::build(&device, &keys, &values).unwrap();
        tree.staging.ranges.sizes = TINY;
        let mut out = tree.range_many([3..=8]).unwrap();
        let reversed = (0..100_i64).map(|i| if i == 70 { i..i - 6 } else { i..i + 50 });
        let error = tree.range_many_into(reversed, &mut out).unwrap_err();
        assert!(matches!(error, Error::ReversedRange { index: 70, .. }), "{error}");
        assert_eq!(out, Ranges::default());
        out = tree.range_many([3..=8]).unwrap();
        let error = tree.range_between_many_into(&[1, 2], &[1], &mut out).unwrap_err();
        assert_eq!(error.to_string(), "2 starts but 1 ends: give one of each per range");
        assert_eq!(tree.count_between_many(&[1, 2], &[1]).unwrap_err().to_string(), error.to_string());
        assert_eq!(out, Ranges::default(), "old results would pass for this batch's");
        assert_eq!(tree.range_many([3..=5]).unwrap().keys, [3, 4, 5]);
    }
}

#[test]
fn whatever_a_caller_leaves_in_old_results_the_next_ones_are_right() {
    let (keys, values) = pairs(0..2000);
    let leave: [fn(&mut Ranges<i64, u32>); 7] = [
        |_| {},
        |out| drop(core::mem::take(&mut out.values)),
        |out| drop(core::mem::take(&mut out.keys)),
        |out| drop(core::mem::take(&mut out.offsets)),
        |out| out.values.truncate(3),
        |out| out.keys.extend(0..5000),
        |out| out.offsets.fill(u64::MAX),
    ];
    for device in [Device::host(), Device::emulated()] {
        let mut tree = Harmonia::build(&device, &keys, &values).unwrap();
        for sizes in [Sizes::default(), TINY] {
            tree.staging.ranges.sizes = sizes;
            // Fewer pairs than before, about as many, and more.
            for (leave, len) in leave.into_iter().flat_map(|leave| [1, 40, 300].map(|len| (leave, len))) {
                let (starts, ends) = ([3, 700, 1200], [3 + len, 690, 1200 + len]);
                // The range in the middle is empty.
                let ranges = [starts[0]..starts[0] + len + 1, 5..5, starts[2]..starts[2] + len + 1];
                let expected = tree.range_many(ranges.clone()).unwrap();
                let mut out = tree.range_many([100..=150, 7..=7]).unwrap();
                leave(&mut out);
                tree.range_many_into(ranges, &mut out).unwrap();
                assert_eq!(out, expected);
                leave(&mut out);
                tree.range_between_many_into(&starts, &ends, &mut out).unwrap();
                assert_eq!(out, expected);
            }
        }
    }
}

/// An iterator with any hint of its length.
struct Hinted<I>(I, usize);

impl<I: Iterator> Iterator for Hinted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, None)
    }
}

#[test]
fn a_hint_of_any_length_is_only_a_hint() {
    let (keys, values) = pairs(0..2000);
    for device in [Device::host(), Device::emulated()] {
        let mut tree = Harmonia::build(&device, &keys, &values).unwrap();
        for sizes in [TINY, Sizes { small: 1 << 14, ..TINY }] {
            tree.staging.ranges.sizes = sizes;
            for count in [0, 1, 100] {
                let ranges = || (0..count).map(|i| i * 10..i * 10 + 7);
                let expected = tree.range_many(ranges()).unwrap();
                for hint in [usize::MAX, usize::MAX - 1, 1 << 50, 1 << 20, 3] {
                    assert_eq!(tree.range_many(Hinted(ranges(), hint)).unwrap(), expected, "{hint}");
                    let counts = tree.count_range_many(Hinted(ranges(), hint)).unwrap();
                    assert_eq!(counts, vec![7; count as usize], "{hint}");
                }
            }
        }
    }
}

#[test]
fn a_caller_whose_iterator_panics_gets_no_half_results_and_the_lanes_are_used_again() {
    let (keys, values) = pairs(0..2000);
    for device in [Device::host(), Device::emulated()] {
        let mut tree = Harmonia::build(&device, &keys, &values).unwrap();
        tree.staging.ranges.sizes = TINY;
        let all = || (0..100_i64).map(|i| i * 10..i * 10 + 60);
        let expected = tree.range_many(all()).unwrap();
        for at in [0, 5, 9, 41, 99] {
            let mut out = tree.range_many([3..=8]).unwrap();
            let ranges =
                all().enumerate().inspect(|&(i, _)| assert!(i != at, "the caller's own panic")).map(|pair| pair.1);
            let panicked = catch_unwind(AssertUnwindSafe(|| tree.range_many_into(ranges, &mut out)));
            assert!(panicked.is_err());
            assert_eq!(out, Ranges::default());
            assert_eq!(tree.range_many(all()).unwrap(), expected);
            assert!(tree.staging_bytes() <= most_staged(), "{} bytes", tree.staging_bytes());
        }
    }
}

#[test]
fn memory_follows_the_batch() {
    let (keys, values) = pairs(0..2000);
    let pool = Pool::new(&Device::emulated());
    let tree = Harmonia::build(&pool.device(), &keys, &values).unwrap();
    let (of_tree, mut most) = (pool.bytes_in_use(), 0);
    for count in [1_i64, 3, 40, 1000, 5000] {
        let ranges = || (0..count).map(|i| i % 1900..i % 1900 + 3);
        // With a hint of their number, and without.
        for with_hint in [true, false] {
            let tree = match with_hint {
                true => &tree,
                false => &Harmonia::build(&pool.device(), &keys, &values).unwrap(),
            };
            let before = pool.bytes_in_use();
            for _ in 0..2 {
                match with_hint {
                    true => tree.range_many(ranges()).unwrap(),
                    false => tree.range_many(ranges().filter(|_| true)).unwrap(),
                };
            }
            let taken = pool.bytes_in_use() - before;
            // 48 bytes for a range, 12 for each of 16 pairs, and rounding: 1024 pairs at least, and ten blocks.
            let (ranges, pairs) = (count as usize, (16 * count as usize).max(1024));
            assert!(
                taken <= 2 * (48 * ranges + 12 * pairs) + 10 * 512,
                "{taken} bytes for {count} ranges, hint: {with_hint}"
            );
            most = most.max(taken);
        }
        let allocations = pool.stats().allocations;
        tree.range_many(ranges()).unwrap();
        tree.count_range_many(ranges()).unwrap();
        assert_eq!(pool.stats().allocations, allocations, "the same batch again takes nothing new");
    }
    assert!(most > of_tree);
}

#[test]
fn results_beyond_memory_are_refused_before_they_are_gathered() {
    // The first piece alone would have 2^38 pairs.
    let keys: Vec<u64> = (0..1 << 22).collect();
    let tree = Harmonia::builder().build_sorted(&Device::emulated(), &keys, &keys).unwrap();
    let error = tree.range_many((0..1 << 22).map(|_| ..)).unwrap_err();
    assert!(error.to_string().contains("has no room for"), "{error}");
    assert_eq!(tree.range_many([5..=6]).unwrap().keys, [5, 6]);
}
