//! A tree that takes any batches answers as std's `BTreeMap` does, and keeps its invariants.

use super::super::model::key;
use super::super::{Op, UpdatePath, UpdateReport};
use super::{Limits, apply_within};
use crate::Harmonia;
use lanetree_frame::{Device, Error, Key, Word, apply_to_map};
use lanetree_frame::{NetChange, fold};
use lanetree_kernels_harmonia::layout::FANOUTS;
use proptest::prelude::*;
use proptest::sample::select;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Pools of 1, 2 and 8 threads, whatever the machine has.
fn pool(which: usize) -> &'static ThreadPool {
    static POOLS: OnceLock<[ThreadPool; 3]> = OnceLock::new();
    let pools = POOLS.get_or_init(|| [1, 2, 8].map(|n| ThreadPoolBuilder::new().num_threads(n).build().unwrap()));
    &pools[which]
}

/// How a batch is carried out.
#[derive(Clone, Copy, Debug)]
struct Way {
    limits: Limits,
    pool: usize,
    /// Deals the changes in a random order of this seed, rather than in the order of their keys.
    shuffle: Option<u64>,
}

fn way() -> impl Strategy<Value = Way> {
    let limits = (select(vec![1, 3, 16, 1024]), select(vec![1, 2, 7, 1024]));
    let shuffle = prop_oneof![Just(None), any::<u64>().prop_map(Some)];
    (limits, 0..3_usize, shuffle).prop_map(|((changes, leaves), pool, shuffle)| Way {
        limits: Limits { changes, leaves, nodes: u32::MAX },
        pool,
        shuffle,
    })
}

/// The kinds of one batch's operations: which of three for each draw of 0 to 9.
const MIXES: [[u8; 10]; 5] = [
    [0, 0, 0, 0, 1, 1, 1, 2, 2, 2],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2],
    [2, 2, 2, 2, 2, 2, 2, 2, 0, 1],
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
];

fn operation<K: Key, V: Word>(kind: u8, word: u64, value: u64) -> Op<K, V> {
    match kind {
        0 => Op::Insert(key(word), V::truncate(value)),
        1 => Op::Update(key(word), V::truncate(value)),
        _ => Op::Remove(key(word)),
    }
}

/// Words of a batch's keys, by pattern: anywhere among a few, anywhere at all, ascending, in one leaf,
/// one key, both ends of the key space.
fn words() -> impl Strategy<Value = Vec<u64>> {
    let edges = vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 31, 1 << 63, (1 << 31) - 1, (1 << 63) - 1];
    prop_oneof![
        6 => prop::collection::vec(0..3000_u64, 0..300),
        2 => prop::collection::vec(any::<u64>(), 0..300),
        2 => (0..100_000_u64, 1..400_u64).prop_map(|(first, count)| (first..first + count).collect()),
        2 => (0..3000_u64).prop_flat_map(|first| prop::collection::vec(first..first + 40, 0..200)),
        1 => (0..3000_u64, 1..100_usize).prop_map(|(word, count)| vec![word; count]),
        1 => prop::collection::vec(select(edges), 0..30),
    ]
}

#[derive(Clone, Debug)]
enum RunningBatch {
    Mixed(Vec<u64>, usize, u64),
    RemoveAll,
    Empty,
}

fn batch() -> impl Strategy<Value = (RunningBatch, Way)> {
    let kind = prop_oneof![
        12 => (words(), 0..MIXES.len(), any::<u64>()).prop_map(|(words, mix, seed)| RunningBatch::Mixed(words, mix, seed)),
        1 => Just(RunningBatch::RemoveAll),
        1 => Just(RunningBatch::Empty),
    ];
    (kind, way())
}

fn ops<K: Key, V: Word>(batch: &RunningBatch, model: &BTreeMap<K, V>) -> Vec<Op<K, V>> {
    match batch {
        RunningBatch::Mixed(words, mix, seed) => {
            let mut rng = StdRng::seed_from_u64(*seed);
            let mut op = |&word| operation(MIXES[*mix][rng.random_range(0..10)], word, rng.random());
            words.iter().map(&mut op).collect()
        }
        RunningBatch::RemoveAll => model.keys().map(|&key| Op::Remove(key)).collect(),
        RunningBatch::Empty => Vec::new(),
    }
}

fn run<K: Key, V: Word>(tree: &mut Harmonia<K, V>, ops: &[Op<K, V>], way: Way) -> lanetree_frame::Result<UpdateReport> {
    let mut changes: Vec<(K::Bits, NetChange<V>)> = fold(ops.len(), |i| ops[i]).unwrap();
    if let Some(seed) = way.shuffle {
        changes.shuffle(&mut StdRng::seed_from_u64(seed));
    }
    pool(way.pool).install(|| Ok(apply_within(tree, &changes, way.limits)?.report))
}

fn agrees<K: Key, V: Word>(tree: &Harmonia<K, V>, model: &BTreeMap<K, V>, touched: &[K]) {
    tree.check_structure();
    assert_eq!(tree.len(), model.len() as u64);
    let all: Vec<_> = tree.iter().map(Result::unwrap).collect();
    assert!(all.iter().copied().eq(model.iter().map(|(&key, &value)| (key, value))), "iteration differs");
    let mut queries: Vec<K> = touched.iter().chain(model.keys()).take(400).copied().collect();
    queries.extend([K::MIN, K::MAX]);
    let values: Vec<_> = queries.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(tree.get_many(&queries).unwrap(), values);
    let sorted: Vec<K> = model.keys().copied().collect();
    let ranks: Vec<_> = queries.iter().map(|query| sorted.partition_point(|key| key < query) as u64).collect();
    assert_eq!(tree.lower_bound_many(&queries).unwrap(), ranks);
    let ranges: Vec<_> = queries.windows(2).map(|pair| pair[0].min(pair[1])..=pair[0].max(pair[1])).take(20).collect();
    let found = tree.range_many(ranges.iter().cloned()).unwrap();
    for (range, (keys, values)) in ranges.iter().zip(found.iter()) {
        let pairs = keys.iter().copied().zip(values.iter().copied());
        assert!(pairs.eq(model.range(range.clone()).map(|(&key, &value)| (key, value))), "{range:?}");
    }
}

fn follows_the_model<K: Key, V: Word>((fanout, fill): (u32, f64), initial: &[u64], batches: &[(RunningBatch, Way)]) {
    let mut model: BTreeMap<K, V> = initial.iter().map(|&word| (key(word), V::truncate(word ^ 0x5555))).collect();
    let (keys, values): (Vec<K>, Vec<V>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
    let builder = Harmonia::builder().fanout(fanout).fill(fill);
    let mut tree = builder.build_sorted(&Device::host(), &keys, &values).unwrap();
    tree.check_structure();
    for (batch, way) in batches {
        let ops = ops(batch, &model);
        let expected = apply_to_map(&mut model, &ops);
        let report = run(&mut tree, &ops, *way).unwrap();
        assert_eq!(UpdateReport { path: report.path, ..expected }, report);
        let changed = report.inserted + report.replaced + report.removed > 0;
        assert_eq!(report.path != UpdatePath::Unchanged, changed, "{report:?}");
        let touched: Vec<K> = ops.iter().map(|op| *op.key()).collect();
        agrees(&tree, &model, &touched);
    }
}

fn options() -> impl Strategy<Value = (u32, f64)> {
    (select(&FANOUTS[..]), select(vec![1.0, 0.7, 0.5, 0.001]))
}

fn initial() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        1 => Just(Vec::new()),
        1 => prop::collection::vec(0..3000_u64, 1..5),
        6 => prop::collection::vec(0..3000_u64, 1..1500),
    ]
}

fn batches() -> impl Strategy<Value = Vec<(RunningBatch, Way)>> {
    prop::collection::vec(batch(), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn u64_keys_follow_the_model(options in options(), initial in initial(), batches in batches()) {
        follows_the_model::<u64, u64>(options, &initial, &batches);
    }

    #[test]
    fn i32_keys_follow_the_model(options in options(), initial in initial(), batches in batches()) {
        follows_the_model::<i32, u64>(options, &initial, &batches);
    }

    #[test]
    fn u32_keys_follow_the_model(options in options(), initial in initial(), batches in batches()) {
        follows_the_model::<u32, u32>(options, &initial, &batches);
    }

    #[test]
    fn i64_keys_follow_the_model(options in options(), initial in initial(), batches in batches()) {
        follows_the_model::<i64, u32>(options, &initial, &batches);
    }

    #[test]
    fn a_batch_that_fails_leaves_every_byte_as_it_was(
        options in options(), initial in initial(), before in batches(), batch in (words(), 0..2_usize, any::<u64>()),
        way in way(),
    ) {
        let mut model: BTreeMap<u64, u64> = initial.iter().map(|&word| (word, word)).collect();
        let (keys, values): (Vec<u64>, Vec<u64>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
        let builder = Harmonia::builder().fanout(options.0).fill(options.1);
        let mut tree = builder.build_sorted(&Device::host(), &keys, &values).unwrap();
        for (batch, way) in &before {
            let ops = ops(batch, &model);
            apply_to_map(&mut model, &ops);
            run(&mut tree, &ops, *way).unwrap();
        }
        let bytes = |tree: &Harmonia<u64, u64>| {
            let ranks = tree.ranks.as_ref().map(|ranks| ranks.to_vec().unwrap());
            (tree.leaves.to_vec().unwrap(), tree.inner.to_vec().unwrap(), ranks, tree.shape)
        };
        let expected = bytes(&tree);
        let ops = ops(&RunningBatch::Mixed(batch.0, batch.1, batch.2), &model);
        let nodes = (tree.shape.inner + tree.shape.leaves).saturating_sub(1);
        let way = Way { limits: Limits { nodes, ..way.limits }, ..way };
        match run(&mut tree, &ops, way) {
            Err(Error::TooManyPairs { .. }) => prop_assert!(bytes(&tree) == expected),
            Err(error) => prop_assert!(false, "{}", error),
            Ok(report) => {
                // In place, or with merges that made the tree smaller.
                apply_to_map(&mut model, &ops);
                prop_assert!(report.path != UpdatePath::Rebuilt);
                agrees(&tree, &model, &[]);
            }
        }
    }
}

#[test]
fn many_threads_meet_at_the_same_leaves() {
    for which in 0..3 {
        for fanout in [8, 32, 128] {
            let mut rng = StdRng::seed_from_u64(u64::from(fanout));
            let initial: Vec<u64> = (0..20_000).map(|_| rng.random_range(0..1 << 18)).collect();
            let mut model: BTreeMap<u64, u32> = initial.iter().map(|&word| (word, word as u32)).collect();
            let (keys, values): (Vec<u64>, Vec<u32>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
            let builder = Harmonia::builder().fanout(fanout).fill(0.8);
            let mut tree = builder.build_sorted(&Device::host(), &keys, &values).unwrap();
            for round in 0..4 {
                let limits = Limits { changes: 8, leaves: 64, nodes: u32::MAX };
                let way = Way { limits, pool: which, shuffle: (round % 2 == 0).then_some(round) };
                let mix = MIXES[round as usize % 4];
                let mut op = |i| {
                    let word = rng.random_range(0..if i % 2 == 0 { 1 << 18 } else { 1 << 13 });
                    operation(mix[rng.random_range(0..10)], word, rng.random())
                };
                let ops: Vec<Op<u64, u32>> = (0..30_000).map(&mut op).collect();
                apply_to_map(&mut model, &ops);
                run(&mut tree, &ops, way).unwrap();
                agrees(&tree, &model, &[]);
            }
        }
    }
}

#[test]
fn all_of_a_batch_in_one_leaf_takes_no_quadratic_time() {
    let mut tree = Harmonia::builder().fanout(8).build(&Device::host(), &[0_u64, u64::MAX], &[0_u64, 1]).unwrap();
    let keys: Vec<u64> = (1..=200_000).collect();
    for which in 0..3 {
        let report = pool(which).install(|| tree.insert_many(&keys, &keys)).unwrap();
        assert_eq!((report.inserted, report.path), (200_000, UpdatePath::Moved));
        tree.check_structure();
        assert!(tree.stats().fill > 0.99, "{:?}", tree.stats());
        let report = pool(which).install(|| tree.remove_many(&keys)).unwrap();
        assert_eq!((report.removed, tree.len()), (200_000, 2));
        tree.check_structure();
    }
}

#[test]
fn leaves_that_run_low_are_merged() {
    for fanout in FANOUTS {
        let keys: Vec<u64> = (0..50_000).collect();
        let mut tree = Harmonia::builder().fanout(fanout).build_sorted(&Device::host(), &keys, &keys).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let mut gone = keys.clone();
        gone.shuffle(&mut rng);
        for part in gone[..45_000].chunks(5000) {
            assert_eq!(tree.remove_many(part).unwrap().removed, 5000);
            tree.check_structure();
        }
        // Half full or more, but for those whose neighbours have no room for them.
        assert!(tree.stats().fill > 0.5, "fanout {fanout}: {:?}", tree.stats());
        // As flat as a new tree of what is left in leaves that are half full; at the beginning it had more levels.
        let left = &keys[..5000];
        let fresh = Harmonia::<u64, u64>::builder().fanout(fanout).fill(0.5);
        let fresh = fresh.build_sorted(&Device::host(), left, left).unwrap();
        assert!(tree.stats().levels <= fresh.stats().levels, "{:?}, new {:?}", tree.stats(), fresh.stats());
        assert_eq!(tree.remove_many(&gone).unwrap().removed, 5000);
        tree.check_structure();
        assert!(tree.is_empty() && tree.stats().bytes() == 0);
    }
}

#[test]
fn a_thousand_small_batches_keep_the_memory_bounded() {
    let mut rng = StdRng::seed_from_u64(7);
    for (fanout, fill) in [(8, 1.0), (16, 0.7), (64, 0.7)] {
        let mut model: BTreeMap<u64, u64> = (0..10_000).map(|i| (i * 10, i)).collect();
        let (keys, values): (Vec<u64>, Vec<u64>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
        let builder = Harmonia::builder().fanout(fanout).fill(fill);
        let mut tree = builder.build_sorted(&Device::host(), &keys, &values).unwrap();
        for _ in 0..1000 {
            let mut op = |_| operation(MIXES[0][rng.random_range(0..10)], rng.random_range(0..100_000), rng.random());
            let ops: Vec<Op<u64, u64>> = (0..60).map(&mut op).collect();
            apply_to_map(&mut model, &ops);
            tree.apply(&ops).unwrap();
            let stats = tree.stats();
            assert!(stats.bytes_per_key < 16.0 * 2.4, "{stats:?}");
        }
        agrees(&tree, &model, &[]);
    }
}

#[test]
fn in_place_batches_leave_the_key_region_where_it_is() {
    let keys: Vec<u64> = (0..10_000).map(|i| i * 4).collect();
    let mut tree = Harmonia::builder().fanout(16).fill(0.6).build_sorted(&Device::host(), &keys, &keys).unwrap();
    let address = |tree: &Harmonia<u64, u64>| tree.leaves.as_slice().unwrap().as_ptr().addr();
    let start = address(&tree);
    assert_eq!(tree.update_many(&keys, &vec![7; keys.len()]).unwrap().path, UpdatePath::InPlace);
    assert!(tree.ranks.is_none(), "no leaf has changed its length");
    let some: Vec<u64> = keys.iter().step_by(11).map(|key| key + 1).collect();
    assert_eq!(tree.insert_many(&some, &some).unwrap().path, UpdatePath::InPlace);
    assert_eq!(tree.remove_many(&some[3..]).unwrap().path, UpdatePath::InPlace);
    assert_eq!(tree.remove_many(&some[3..]).unwrap().path, UpdatePath::Unchanged);
    assert_eq!(address(&tree), start);
    assert!(tree.ranks.is_some());
    tree.check_structure();
}
