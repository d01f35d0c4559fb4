//! Launches on cards of every size, and the tables that fit there.

use super::validate;
use crate::build::{Builder, layout};
use crate::options::{Options, TABLE_NODES};
use crate::{BuildScratch, LaneSet, LaneTree, shape_for_rows};
use lanetree_frame::fixed::{FixedIndex, SortedPairs};
use lanetree_frame::{BatchOrder, Device, Error, KeyRange, Op, UpdatePath};
use lanetree_runtime::Card;

#[test]
fn a_shape_is_had_for_any_number_of_rows() {
    for device in Card::ALL.map(Device::emulated_as).into_iter().chain([Device::host()]) {
        let stream = device.stream().unwrap();
        let multiprocessors = device.properties().unwrap().multiprocessors;
        for rows in [u64::MAX, u64::MAX - 31, 1 << 63] {
            let shape = shape_for_rows(&stream, rows, 1024, |threads| threads).unwrap();
            assert_eq!((shape.blocks, shape.threads, shape.dynamic_shared), (multiprocessors, 1024, 1024));
        }
        for (rows, blocks, threads) in [(0, 1, 32), (1, 1, 32), (33, 1, 64), (512, 1, 512)] {
            let shape = shape_for_rows(&stream, rows, 1024, |threads| threads).unwrap();
            assert_eq!((shape.blocks, shape.threads), (blocks, threads), "{rows} rows");
        }
    }
}

/// Ascending keys whose gaps double, so that few fit into a node: with one pair in a bucket, 13 of them.
fn crowded(nodes: u64) -> Vec<u64> {
    (0..nodes * 13).map(|i| (i / 40) << 40 | 1 << (i % 40)).collect()
}

/// How full buckets are that have one pair each.
const THIN: f64 = 0.01;

/// Every kernel that has the table in shared memory, with as many queries as fill its blocks.
fn is_queried(tree: &LaneTree<u64, u64>, keys: &[u64]) {
    let step = (keys.len() / 3000).max(1);
    let queries: Vec<u64> = keys.iter().copied().step_by(step).collect();
    let ranks: Vec<u64> = (0..keys.len() as u64).step_by(step).collect();
    assert!(tree.get_many(&queries).unwrap().into_iter().eq(queries.iter().copied().map(Some)));
    assert_eq!(tree.lower_bound_many(&queries).unwrap(), ranks);
    assert!(tree.successor_many(&queries).unwrap().into_iter().eq(queries.iter().map(|&key| Some((key, key)))));
    let rows = tree.range_many(queries.iter().map(|&key| KeyRange::new(key..).limit(2))).unwrap();
    assert!(queries.iter().zip(&ranks).enumerate().all(|(i, (_, &rank))| {
        let to = (rank as usize + 2).min(keys.len());
        rows.get(i).0 == &keys[rank as usize..to]
    }));
    let device = tree.device();
    let (stream, asked) = (device.stream().unwrap(), device.upload(&queries).unwrap());
    let on = tree.on(&stream).order(BatchOrder::Sorted);
    for limit in [4, 40] {
        let len = queries.len() * limit as usize;
        let (mut found, mut values) = (device.alloc(len).unwrap(), device.alloc(len).unwrap());
        let mut counts = device.alloc(queries.len()).unwrap();
        on.scan(&asked, limit, &mut found, &mut values, &mut counts).unwrap();
        let found = found.to_vec().unwrap();
        assert!(queries.iter().eq(found.iter().step_by(limit as usize)));
    }
    // Enough for the kernel of sorted queries.
    let all = device.upload(keys).unwrap();
    let mut found = device.alloc(keys.len()).unwrap();
    on.get(&all, &mut found).unwrap();
    assert_eq!(found.to_vec().unwrap(), keys);
}

#[test]
fn a_tree_whose_table_would_not_fit_is_queried_and_changed_on_the_smallest_card() {
    let device = Device::emulated();
    let keys = crowded(15_000);
    let options = Options { fill: THIN, table_nodes: TABLE_NODES };
    // The layout of a build, which the emulator would take long to make.
    let pairs = SortedPairs { keys: keys.clone(), values: keys.clone() };
    let parts = layout::<u64, u64>(&device, &pairs, options).unwrap();
    // A table of as many and a warp would take more than there is.
    assert!((14_273..=TABLE_NODES).contains(&parts.shape.leaf_nodes), "{:?}", parts.shape);
    let mut tree = Builder::of(options).tree(&device, parts);
    is_queried(&tree, &keys);
    let report = tree.apply_each(2, |i| Op::Insert(u64::MAX - i as u64, 7)).unwrap();
    assert_eq!(report.inserted, 2);
    assert_eq!(tree.get_many(&[u64::MAX, u64::MAX - 1, u64::MAX - 2]).unwrap(), [Some(7), Some(7), None]);
}

#[test]
fn a_tree_that_grows_beyond_its_table_gets_a_level() {
    let device = Device::emulated();
    let (keys, most) = (crowded(5700), 5632);
    let (before, after) = keys.split_at(13 * 5600);
    let options = Options { fill: THIN, table_nodes: TABLE_NODES };
    let pairs = SortedPairs { keys: before.to_vec(), values: before.to_vec() };
    let parts = layout::<u64, u64>(&device, &pairs, options).unwrap();
    assert!(parts.shape.height == 1 && parts.shape.leaf_nodes <= most, "{:?}", parts.shape);
    let mut tree = Builder::of(options).tree(&device, parts);
    let report = tree.apply_each(after.len(), |i| Op::Insert(after[i], after[i])).unwrap();
    assert_eq!((report.inserted, report.path), (after.len() as u64, UpdatePath::Moved));
    let shape = tree.parts.get().unwrap().shape;
    assert!(shape.height == 2 && shape.leaf_nodes > most && shape.top_count <= most, "{shape:?}");
    validate::<u64, u64>(tree.parts.get().unwrap(), "grown");
    is_queried(&tree, &keys);
}

#[test]
fn two_clusters_are_told_apart_by_a_table_without_the_gap_between_them() {
    let dense = |from: u64, len: u64| (from..).step_by(3).take(len as usize);
    for device in [Device::host(), Device::emulated()] {
        for above in [600, 4000] {
            let mut keys: Vec<u64> = dense(0, 8000).chain((0..above).rev().map(|at| u64::MAX - 3 * at)).collect();
            let mut tree = LaneTree::build(&device, &keys, &keys).unwrap();
            for _ in 0..2 {
                let shape = tree.parts.get().unwrap().shape;
                assert!(shape.prefixes.gap > 0 && shape.top_count > 16, "{shape:?}");
                let near = keys.iter().flat_map(|&key| [key.saturating_sub(1), key, key.saturating_add(1)]);
                let words: Vec<u64> = near.chain((0..64).map(|bit| 1 << bit)).step_by(7).collect();
                let ranks: Vec<u64> =
                    words.iter().map(|&word| keys.partition_point(|&key| key < word) as u64).collect();
                let at_or_below =
                    |word| keys.partition_point(|&key| key <= word).checked_sub(1).map(|at| (keys[at], keys[at]));
                assert_eq!(tree.lower_bound_many(&words).unwrap(), ranks);
                let expected: Vec<_> = words.iter().map(|&word| at_or_below(word)).collect();
                assert_eq!(tree.predecessor_many(&words).unwrap(), expected);
                let values = tree.get_many(&words).unwrap();
                assert!(
                    values
                        .iter()
                        .zip(&expected)
                        .zip(&words)
                        .all(|((value, found), word)| { *value == found.map(|pair| pair.0).filter(|key| key == word) })
                );
                // Keys of the gap, so that nodes of both clusters are split.
                let more: Vec<u64> = dense(24_000, 900).chain((0..900).map(|at| u64::MAX - 50_000 + at)).collect();
                tree.insert_many(&more, &more).unwrap();
                keys.extend(more);
                keys.sort_unstable();
                keys.dedup();
            }
        }
    }
}

/// A card on which a table of few nodes is too large.
const TINY: Card = Card { shared_bytes_per_block: 24 << 10, ..Card::SMALLEST };
/// That many fit.
const TINY_TABLE: u32 = 512;

#[test]
fn a_tree_has_a_table_that_fits_whatever_it_comes_from() {
    let device = Device::emulated_as(TINY);
    let stream = device.stream().unwrap();
    let keys = crowded(600);
    let builder = LaneTree::<u64, u64>::builder().fill(THIN);
    let fits = |tree: &LaneTree<u64, u64>, what: &str| {
        let shape = tree.parts.get().unwrap().shape;
        assert!(
            shape.leaf_nodes > TINY_TABLE && shape.top_count <= TINY_TABLE && shape.height == 2,
            "{what}: {shape:?}"
        );
        validate::<u64, u64>(tree.parts.get().unwrap(), what);
        is_queried(tree, &FixedIndex::pairs(tree).unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>());
    };
    let tree = builder.build(&device, &keys, &keys).unwrap();
    fits(&tree, "built");
    let all = device.upload(&keys).unwrap();
    let mut scratch = BuildScratch::for_sorted(&device).unwrap();
    fits(&builder.build_sorted_on(&stream, &all, &all, keys.len(), &mut scratch).unwrap(), "on a stream");
    let owned = (device.upload(&keys).unwrap(), device.upload(&keys).unwrap());
    fits(&builder.build_owned_on(&stream, owned.0, owned.1, keys.len()).unwrap(), "owned");
    // SAFETY: the keys ascend strictly.
    let combined = unsafe { tree.build_like(&stream, (&all, &all), keys.len()) };
    fits(&combined.unwrap(), "combined");
    let set = LaneSet::<u64>::builder().fill(THIN).build(&device, &keys).unwrap();
    assert!(set.contains_many(&keys).unwrap().into_iter().all(|found| found));
    let unchanged = LaneTree::<u64, u64>::builder().fill(THIN).build(&Device::host(), &keys, &keys).unwrap();
    assert_eq!(unchanged.parts.get().unwrap().shape.height, 1, "the host has no limit");
}

#[test]
fn a_block_that_cannot_be_is_an_error_that_names_the_option() {
    let stream = Device::emulated().stream().unwrap();
    let shape = |tables| shape_for_rows(&stream, 1 << 20, 1024, |threads| tables + 16 * threads);
    assert_eq!(shape(40 << 10).unwrap().threads, 1024);
    assert_eq!(shape(60 << 10).unwrap().threads, 256);
    let error = shape(64 << 10).unwrap_err();
    assert!(matches!(error, Error::SharedMemory { threads: 32, needed: 66_048, most: 65_536, .. }), "{error}");
    assert!(error.to_string().ends_with("build the trees with fewer `table_nodes`"), "{error}");
}

#[test]
fn a_tree_has_no_more_levels_than_there_are_formats_of() {
    // With one pair in a bucket, 14 of these keys are in a node; and 4 nodes in one above.
    let keys: Vec<u128> = (0..250_000).map(|i| (i / 100) << 100 | 1 << (i % 100)).collect();
    let device = Device::emulated();
    let options = Options { fill: THIN, table_nodes: 1 };
    let pairs = SortedPairs { keys: keys.clone(), values: vec![7_u64; keys.len()] };
    let parts = layout::<u128, u64>(&device, &pairs, options).unwrap();
    assert!(parts.shape.height == 8 && parts.shape.leaf_nodes > 4_u32.pow(7), "{:?}", parts.shape);
    let mut tree = Builder::<u128, u64>::of(options).tree(&device, parts);
    // So many next to each other that a node is split.
    let more: Vec<u128> = (0..300).map(|i| keys[1090] + 1 + i).collect();
    let report =
        tree.apply_each(more.len() + 1, |i| more.get(i).map_or(Op::Remove(keys[0]), |&key| Op::Insert(key, 8)));
    let report = report.unwrap();
    assert_eq!((report.inserted, report.removed, report.path), (300, 1, UpdatePath::Moved));
    validate::<u128, u64>(tree.parts.get().unwrap(), "levels");
    let found = tree.get_many(&[keys[0], keys[1], more[0], more[299], keys[1091], *keys.last().unwrap()]).unwrap();
    assert_eq!(found, [None, Some(7), Some(8), Some(8), Some(7), Some(7)]);
}
