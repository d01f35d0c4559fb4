//! Trees over keys of many distributions: what the layout promises, and every query, on the host and the emulator.

mod batches;
mod cards;
mod host;
mod in_pieces;
mod range_joins;
mod ranges;
mod ranges_in_order;
mod sets;

use crate::check::validate;
use crate::{BuildScratch, LaneTree, Simd};
use lanetree_frame::Error;
use lanetree_frame::fixed::{FixedIndex, HostForm, Iter, OnStream};
use lanetree_frame::{BatchOrder, Device, DeviceKind, KeyRange};
use lanetree_kernels_lane_tree::layout::{bucket_slots, words_of_buckets};
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_runtime::Pool;
use std::collections::BTreeMap;

/// Keys that are hard to tell apart in one way or another, in ascending order; each at least two thousand.
pub(crate) fn distributions() -> Vec<(&'static str, Vec<u64>)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let sorted = |mut keys: Vec<u64>| {
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let mut all = vec![
        ("random", sorted((0..20_000).map(|_| random()).collect())),
        ("dense", (1 << 40..(1 << 40) + 20_000).collect()),
        ("dense around a power of two", ((1 << 63) - 5000..(1 << 63) + 5000).collect()),
        ("steps", (0..20_000).map(|i| i * 1_000_003).collect()),
        (
            "powers of two and next to them",
            sorted((0..64).flat_map(|bit| (0..40).map(move |i| (1_u64 << bit).wrapping_add(i))).collect()),
        ),
        ("two clusters", (0..5000).chain(u64::MAX - 5000..=u64::MAX).collect()),
        ("squares", (0..20_000).map(|i: u64| i * i * i).collect()),
        ("last bits", sorted((0..3000).map(|i| 0xabcd_ef01_2345_0000 + i).collect())),
        (
            "one or two set bits, or three",
            sorted((0..64).flat_map(|a| (0..=a).map(move |b| 1_u64 << a | 1 << b | 1 << (a * b % 64))).collect()),
        ),
        // Groups that are a fraction of a node, and equal bits between what tells groups apart and what tells keys.
        ("window of equal bits", (0..2500).map(|i: u64| (i / 17) << 50 | (i % 17 * 3)).collect()),
        ("gaps that double", (0..2500).map(|i: u64| (i / 40) << 40 | 1 << (i % 40)).collect()),
    ];
    let runs = (0..200).flat_map(|_| {
        let start = random() >> 1;
        start..start + 64
    });
    all.push(("runs of 64", sorted(runs.collect())));
    let mut at = 1_u64;
    let skewed = (0..20_000).map(|_| {
        at = at.saturating_add(1 << (random() % 48));
        at
    });
    all.push(("log-uniform gaps", sorted(skewed.collect())));
    all
}

/// [`distributions`], as words of keys.
fn distributed<B>(word: impl Fn(u64) -> B) -> Vec<(&'static str, Vec<B>)> {
    let words = |keys: Vec<u64>| keys.into_iter().map(&word).collect();
    distributions().into_iter().map(|(what, keys)| (what, words(keys))).collect()
}

/// Keys of 128 bits that are hard to tell apart in one way or another.
fn wide_distributions() -> Vec<(&'static str, Vec<u128>)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let mut wide = move || u128::from(random()) << 64 | u128::from(random());
    let base = 0xabcd_ef01_2345_6789_9876_5432_1000_0000_u128;
    // Bit `b` of a number at bit `stride * b`: windows of 16 bits have few of them.
    let spread = |i: u128, stride: u32| (0..12).map(|bit| (i >> bit & 1) << (stride * bit)).sum::<u128>();
    let mut at = 1_u128;
    let mut all = vec![
        ("random", (0..4000).map(|_| wide()).collect()),
        ("lowest bits", (0..3000).map(|i| base + i).collect()),
        ("highest bits", (0..3000).map(|i| i << 116 | 77).collect()),
        ("across the middle", (0..3000).map(|i| i << 58).collect()),
        ("two clusters", (0..2000).chain(u128::MAX - 2000..=u128::MAX).collect()),
        ("around 2^64", ((1 << 64) - 1500..(1 << 64) + 1500).collect()),
        (
            "powers of two and next to them",
            (0..128).flat_map(|bit| (0..20).map(move |i| (1_u128 << bit).wrapping_add(i))).collect(),
        ),
        ("a bit in every window", (0..4096).map(|i| spread(i, 10)).collect()),
        ("pairs of neighbours", (0..1500).map(|_| wide()).flat_map(|key| [key, key ^ 1]).collect()),
        (
            "log-uniform gaps",
            (0..3000)
                .map(|_| {
                    at = at.saturating_add(1 << (wide() % 112));
                    at
                })
                .collect(),
        ),
        ("equal halves", (0..3000_u128).map(|i| (i / 50) << 100 | (i % 50)).collect()),
    ];
    for (_, keys) in &mut all {
        let keys: &mut Vec<u128> = keys;
        keys.sort_unstable();
        keys.dedup();
    }
    all
}

/// Checks that a tree's pairs, copied on a stream, are these.
fn are_copied<K: AnyKey, V: Value>(tree: &LaneTree<K, V>, pairs: impl Iterator<Item = (K, V)>, what: &str) {
    let (device, len) = (&tree.device, tree.len() as usize);
    let (mut keys, mut values) = (device.alloc(len).unwrap(), device.alloc(len).unwrap());
    OnStream::new(tree, &device.stream().unwrap()).pairs(&mut keys, &mut values).unwrap();
    assert!(keys.to_vec().unwrap().into_iter().zip(values.to_vec().unwrap()).eq(pairs), "{what}");
}

fn every_distribution<K: AnyKey, V: Value>(all: Vec<(&'static str, Vec<K::Bits>)>, fill: f64) {
    for (what, keys) in all {
        let mut keys: Vec<K> = keys.into_iter().map(K::decode).collect();
        keys.sort_unstable();
        keys.dedup();
        let values: Vec<V> = (0..keys.len() as u64).map(|i| V::of(KeyWord::truncate(i))).collect();
        let mut near = Vec::new();
        let step = (keys.len() / 500).max(1);
        for &key in keys.iter().step_by(step) {
            near.extend([0, 1, u64::MAX].map(|by| K::decode(key.encode().wrapping_add(K::Bits::truncate(by)))));
        }
        near.extend([K::MIN, K::MAX]);
        near.extend(
            (0..K::Bits::BITS).map(|bit| K::decode(K::Bits::MAX.shr(bit).wrapping_sub(K::Bits::MAX.shr(bit).shr(1)))),
        );
        // So few nodes in the table that there are levels above the lowest.
        for (device, table) in
            [(Device::host(), 4096), (Device::host(), 3), (Device::emulated(), 4096), (Device::emulated(), 1)]
        {
            // The emulator takes its time: as many keys as make three levels with one node in the table.
            let most = if device.kind() == DeviceKind::Emulated { 8000 } else { usize::MAX };
            let (keys, values) = (&keys[..keys.len().min(most)], &values[..values.len().min(most)]);
            let builder = LaneTree::<K, V>::builder().fill(fill).table_nodes(table);
            let mut tree = builder.build_sorted(&device, keys, values).unwrap();
            validate::<K::Bits, V>(tree.parts.get().unwrap(), what);
            // Kernels search in one way.
            for &simd in if device.kind() == DeviceKind::Host { &Simd::ALL[..] } else { &Simd::ALL[..1] } {
                tree.set_simd(simd);
                let found = tree.get_many(&near).unwrap();
                let (lower, upper) = (tree.lower_bound_many(&near).unwrap(), tree.upper_bound_many(&near).unwrap());
                let before = tree.predecessor_many(&near).unwrap();
                let after = tree.successor_many(&near).unwrap();
                for (i, &query) in near.iter().enumerate() {
                    let below = keys.partition_point(|&key| key < query);
                    let upto = keys.partition_point(|&key| key <= query);
                    let pair = |at: usize| keys.get(at).map(|&key| (key, values[at]));
                    let context = || format!("{what}, {query} on {device:?}, {table}, {simd:?}");
                    assert_eq!(found[i], (below < upto).then(|| values[below]), "{}", context());
                    assert_eq!([lower[i], upper[i]], [below as u64, upto as u64], "{}", context());
                    assert_eq!(before[i], pair(upto.wrapping_sub(1)), "{}", context());
                    assert_eq!(after[i], pair(below), "{}", context());
                }
            }
            let starts = near.iter().copied().take(100);
            let ranges: Vec<KeyRange<K>> = starts.map(|start| KeyRange::new(start..).limit(19)).collect();
            let rows = tree.range_many(ranges.iter().cloned()).unwrap();
            for (i, &start) in near.iter().take(100).enumerate() {
                let from = keys.partition_point(|&key| key < start);
                let to = (from + 19).min(keys.len());
                assert_eq!(rows.get(i), (&keys[from..to], &values[from..to]), "{what}: from {start}");
            }
            assert!(Iter::new(&tree).map(|pair| pair.unwrap().0).eq(keys.iter().copied()), "{what}");
            assert!(
                FixedIndex::pairs(&tree).unwrap().into_iter().eq(keys.iter().copied().zip(values.iter().copied())),
                "{what}"
            );
            are_copied(&tree, keys.iter().copied().zip(values.iter().copied()), what);
            // No distribution may take more than twice the bytes of buckets filled to `fill`; for a set, whose buckets
            // are fewer bytes, nodes weigh more.
            let buckets = keys.len().div_ceil(bucket_slots::<K::Bits, V>() as usize) as u64;
            let filled = (words_of_buckets::<K::Bits, V>(buckets) * 8) as f64 / fill;
            let stats = tree.stats();
            let bytes = stats.bytes() - stats.top_bytes;
            let most = if V::IS_SOME { 2.0 } else { 2.5 };
            // Trees that are not full have memory for more buckets.
            let spare = if fill < 1.0 { filled / 16.0 * most } else { 0.0 };
            assert!((bytes as f64) < most * filled + spare + 200.0, "{what}: {stats:?}, {filled} bytes of pairs");
        }
    }
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_wide_keys() {
    every_distribution::<u64, u64>(distributed(|wide| wide), 1.0);
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_keys_in_buckets_with_room() {
    every_distribution::<i64, u32>(distributed(|wide| wide), 0.6);
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_narrow_keys() {
    every_distribution::<u32, u32>(distributed(|wide| (wide >> 32) as u32 ^ wide as u32), 1.0);
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_narrow_keys_with_wide_values() {
    every_distribution::<u32, u64>(distributed(|wide| (wide >> 16) as u32), 0.8);
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_keys_of_128_bits() {
    every_distribution::<u128, u64>(wide_distributions(), 1.0);
}

#[test]
fn every_query_is_answered_whatever_the_distribution_of_signed_keys_of_128_bits() {
    every_distribution::<i128, u32>(wide_distributions(), 0.7);
}

#[test]
fn batches_of_every_size_are_answered_on_the_host() {
    let keys: Vec<u64> = (0..5000).map(|i| i * 3).collect();
    for table in [1, 3, 4096] {
        let builder = LaneTree::<u64, u64>::builder().table_nodes(table);
        let mut tree = builder.build_sorted(&Device::host(), &keys, &keys).unwrap();
        for (simd, size) in Simd::ALL.into_iter().flat_map(|simd| (0..200).map(move |size| (simd, size))) {
            tree.set_simd(simd);
            let queries: Vec<u64> = (0..size).map(|i| (i * 7919) % 15_100).collect();
            let expected: Vec<_> =
                queries.iter().map(|&query| Some(query).filter(|query| query % 3 == 0 && *query < 15_000)).collect();
            assert_eq!(tree.get_many(&queries).unwrap(), expected, "{simd:?}, {size}");
            let ranks: Vec<u64> = queries.iter().map(|query| query.div_ceil(3).min(5000)).collect();
            assert_eq!(tree.lower_bound_many(&queries).unwrap(), ranks, "{simd:?}, {size}");
        }
    }
}

fn sorted_queries<K: AnyKey>(distributions: Vec<(&'static str, Vec<K>)>) {
    for (what, keys) in distributions {
        let keys: Vec<K> = keys.into_iter().step_by(3).collect();
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        let device = Device::emulated();
        let tree = LaneTree::<K, u32>::builder().table_nodes(3).build_sorted(&device, &keys, &values).unwrap();
        let after = |key: K| K::decode(key.encode().wrapping_add(K::Bits::truncate(1)));
        let mut sorted: Vec<K> = keys.iter().flat_map(|&key| [key, after(key)]).collect();
        sorted.sort_unstable();
        let swapped: Vec<K> = sorted.iter().copied().rev().collect();
        // Far too few for every part to be copied.
        let spread: Vec<K> = sorted.iter().copied().step_by(7).collect();
        for queries in [sorted, swapped, spread] {
            let stream = device.stream().unwrap();
            let (asked, mut found) = (device.upload(&queries).unwrap(), device.alloc_zeroed(queries.len()).unwrap());
            let mut hits = device.alloc_zeroed(queries.len().div_ceil(32)).unwrap();
            let on = tree.on(&stream).order(BatchOrder::Sorted);
            on.hits(&mut hits).get(&asked, &mut found).unwrap();
            let (found, hits) = (found.to_vec().unwrap(), hits.to_vec().unwrap());
            for (i, query) in queries.iter().enumerate() {
                let expected = keys.binary_search(query).ok();
                assert_eq!(found[i], expected.map_or(u32::MAX, |at| values[at]), "{what}: {query}");
                assert_eq!(hits[i / 32] >> (i % 32) & 1 != 0, expected.is_some(), "{what}: {query}");
            }
        }
    }
}

#[test]
fn sorted_queries_are_answered_and_others_that_are_said_to_be() {
    sorted_queries(distributions());
}

#[test]
fn sorted_queries_for_keys_of_128_bits_are_answered() {
    sorted_queries(wide_distributions());
}

/// Of what they are given and what they make together.
#[test]
fn builds_take_little_more_memory_than_pairs_and_tree() {
    let (device, builder, len) = (Device::emulated(), LaneTree::<u64, u64>::builder(), 1_usize << 15);
    let sorted: Vec<u64> = (0..len as u64).map(|i| i * i + i).collect();
    let mut unsorted: Vec<u64> = (0..len as u64).map(|i| sorted[i as usize * 12_345 % len]).collect();
    for what in ["sorted", "unsorted", "some keys twice", "in host memory"] {
        let pool = Pool::new(&device);
        let (pooled, stream) = (pool.device(), pool.device().stream().unwrap());
        if what == "some keys twice" {
            let (start, end) = unsorted.split_at_mut(len / 16);
            start.copy_from_slice(&end[..len / 16]);
        }
        let mut pairs = (pooled.upload(&unsorted).unwrap(), pooled.upload(&unsorted).unwrap());
        let tree = match what {
            "sorted" => {
                pairs = (pooled.upload(&sorted).unwrap(), pooled.upload(&sorted).unwrap());
                pool.restart_peak();
                let mut scratch = BuildScratch::for_sorted(&pooled).unwrap();
                builder.build_sorted_on(&stream, &pairs.0, &pairs.1, len, &mut scratch).unwrap()
            }
            "in host memory" => {
                drop(pairs);
                pool.restart_peak();
                builder.build(&pooled, &unsorted, &unsorted).unwrap()
            }
            _ => {
                pool.restart_peak();
                builder.build_owned_on(&stream, pairs.0, pairs.1, len).unwrap()
            }
        };
        let (peak, given) = (pool.stats().peak as f64, (16 * len) as f64);
        let together = tree.bytes() as f64 + given;
        assert!(peak < 1.3 * together && peak > 0.9 * together, "{what}: {:.2}", peak / together);
        let expected = if what == "sorted" { &sorted } else { &unsorted };
        assert!(tree.get_many(expected).unwrap().into_iter().eq(expected.iter().map(|&key| Some(key))), "{what}");
    }
}

#[test]
fn an_empty_tree_answers_on_the_host() {
    let mut tree = LaneTree::<u64, u64>::build(&Device::host(), &[], &[]).unwrap();
    assert_eq!(tree.get_many(&[1, 2]).unwrap(), [None, None]);
    assert_eq!(tree.lower_bound_many(&[1]).unwrap(), [0]);
    assert_eq!(tree.insert_many(&[2], &[3]).unwrap().inserted, 1);
    assert_eq!(tree.get_many(&[1, 2]).unwrap(), [None, Some(3)]);
}

#[test]
fn few_keys_of_128_bits_and_none_are_found() {
    for device in [Device::host(), Device::emulated()] {
        for keys in [&[][..], &[0], &[u128::MAX], &[0, u128::MAX], &[7, 1 << 64, 1 << 127]] {
            let values: Vec<u64> = (0..keys.len() as u64).collect();
            let mut tree = LaneTree::<u128, u64>::build(&device, keys, &values).unwrap();
            validate::<u128, u64>(tree.parts.get().unwrap(), "few");
            let asked = [0, 1, 7, 1 << 64, (1 << 64) + 7, 1 << 127, u128::MAX - 1, u128::MAX];
            let below: Vec<u64> = asked.iter().map(|query| keys.partition_point(|key| key < query) as u64).collect();
            assert_eq!(tree.lower_bound_many(&asked).unwrap(), below, "{keys:?} on {device}");
            let at = |query: &u128| keys.binary_search(query).ok().map(|at| at as u64);
            let found: Vec<_> = asked.iter().map(at).collect();
            assert_eq!(tree.get_many(&asked).unwrap(), found, "{keys:?} on {device}");
            let pair = |at: usize| keys.get(at).map(|&key| (key, at as u64));
            let after: Vec<_> = below.iter().map(|&at| pair(at as usize)).collect();
            assert_eq!(tree.successor_many(&asked).unwrap(), after, "{keys:?} on {device}");
            let report = tree.insert_many(&[0, 5, u128::MAX], &[9, 9, 9]).unwrap();
            assert_eq!(report.inserted + report.replaced, 3);
            assert_eq!(tree.get_many(&[0, 5, u128::MAX]).unwrap(), [Some(9); 3]);
            let all = keys.iter().copied().chain([0, 5, u128::MAX]);
            tree.remove_many(&all.collect::<Vec<_>>()).unwrap();
            assert_eq!((tree.len(), tree.pairs().unwrap()), (0, Vec::new()));
        }
    }
}

#[test]
fn keys_of_128_bits_are_sorted_and_combined_on_the_device() {
    let device = Device::emulated();
    let (_, words) = wide_distributions().swap_remove(0);
    // In no order, and one in three twice.
    let mut keys: Vec<i128> = words.iter().map(|&word| word as i128).collect();
    keys.sort_unstable_by_key(|&key| key.rotate_left(64));
    keys.extend_from_within(..keys.len() / 3);
    let values: Vec<u32> = (0..keys.len() as u32).collect();
    let map: BTreeMap<i128, u32> = keys.iter().copied().zip(values.iter().copied()).collect();
    let (stream, mut scratch) = (device.stream().unwrap(), BuildScratch::for_unsorted(&device, keys.len()).unwrap());
    let on_device = (&device.upload(&keys).unwrap(), &device.upload(&values).unwrap());
    let tree = LaneTree::builder().build_on(&stream, on_device.0, on_device.1, keys.len(), &mut scratch).unwrap();
    validate::<u128, u32>(tree.parts.get().unwrap(), "sorted on the device");
    assert!(tree.pairs().unwrap().into_iter().eq(map.iter().map(|(&key, &value)| (key, value))));

    let (every_other, others): (Vec<i128>, Vec<i128>) = map.keys().partition(|&&key| key & 1 == 0);
    let other = LaneTree::build(&device, &every_other, &vec![7; every_other.len()]).unwrap();
    let keys_of = |tree: &LaneTree<i128, u32>| tree.pairs().unwrap().into_iter().map(|pair| pair.0).collect::<Vec<_>>();
    assert_eq!(keys_of(&tree.difference(&other).unwrap()), others);
    assert_eq!(keys_of(&tree.intersection(&other).unwrap()), every_other);
    let both = tree.union(&other).unwrap();
    assert_eq!(both.len(), tree.len());
    assert!(both.get_many(&every_other).unwrap().iter().all(|&value| value == Some(7)));
}

#[test]
fn keys_of_128_bits_take_few_bytes_beside_their_pairs() {
    let mut word = 1_u128;
    let keys: Vec<u128> = (0..1 << 16)
        .map(|_| {
            word = word.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            word
        })
        .collect();
    let tree = LaneTree::build(&Device::host(), &keys, &vec![1_u64; keys.len()]).unwrap();
    let narrow = LaneTree::build(&Device::host(), &keys, &vec![1_u32; keys.len()]).unwrap();
    let [wide, narrow] = [tree.stats(), narrow.stats()].map(|stats| stats.bytes() as f64 / stats.len as f64);
    assert!(wide < 26.7 && narrow < 22.4, "{wide} bytes with a value of 64 bits, {narrow} with one of 32");
}

/// As the builder's documentation says.
#[test]
fn as_many_slots_are_filled_as_was_asked_for() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let keys: Vec<u64> = (0..1 << 17).map(|_| random()).collect();
    for (fill, documented) in [(1.0, 0.94), (0.9, 0.81), (0.7, 0.65), (0.5, 0.47)] {
        let stats = LaneTree::builder().fill(fill).build(&Device::host(), &keys, &keys).unwrap().stats();
        let filled = stats.len as f64 / (stats.buckets * u64::from(bucket_slots::<u64, u64>())) as f64;
        assert!((filled - documented).abs() < 0.01, "{filled} of the slots are filled with {fill}");
    }
}

/// A build looks at the order of the keys while it plans nodes, of which each has a warp.
#[test]
fn a_build_from_sorted_pairs_sees_equal_keys_and_descents_wherever_they_are() {
    let device = Device::emulated();
    let (stream, mut scratch) = (device.stream().unwrap(), BuildScratch::for_sorted(&device).unwrap());
    let sorted: Vec<u64> = (1..=1000).map(|key| key << 40).collect();
    let values: Vec<u32> = (0..1000).collect();
    let on_values = device.upload(&values).unwrap();
    let mut build = |keys: &[u64]| {
        let keys = device.upload(keys).unwrap();
        LaneTree::builder().build_sorted_on(&stream, &keys, &on_values, values.len(), &mut scratch)
    };
    for at in (1..1000).step_by(37).chain([1, 31, 32, 33, 255, 256, 257, 998, 999]) {
        let mut keys = sorted.clone();
        keys[at] = keys[at - 1];
        let tree = build(&keys).unwrap();
        let map: BTreeMap<u64, u32> = keys.iter().copied().zip(values.iter().copied()).collect();
        assert_eq!(tree.pairs().unwrap(), map.into_iter().collect::<Vec<_>>(), "equal at {at}");
        keys[at] = keys[at - 1] - 1;
        let error = build(&keys).unwrap_err();
        assert!(matches!(error, Error::NotSorted { index, .. } if index == at), "{error} at {at}");
    }
    // The smallest keys that there are, and no order at all.
    assert_eq!(build(&[0; 1000]).unwrap().pairs().unwrap(), [(0, 999)]);
    let descending: Vec<u64> = sorted.iter().rev().copied().collect();
    assert!(matches!(build(&descending).unwrap_err(), Error::NotSorted { index: 1, .. }));
}
