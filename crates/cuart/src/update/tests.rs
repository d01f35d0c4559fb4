//! Any batches have the effect on a tree that they have on a map.

use super::batch::NetBatch;
use super::edit::Edit;
use super::of_ops;
use crate::Cuart;
use crate::{LongKeys, RootTable};
use core::ops::{Bound, RangeBounds};
use lanetree_frame::NetChange;
use lanetree_frame::{ByteKeysBuf, ByteRange, Device, Error, Op, UpdatePath, UpdateReport, apply_to_map};
use lanetree_runtime::Failure;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet};

type Key = Vec<u8>;
type Model = BTreeMap<Key, u64>;
type Options = (RootTable, LongKeys);

/// Applies a batch to the model, and returns what the tree should report.
fn apply_to_model(model: &mut Model, ops: &[Op<Key, u64>]) -> UpdateReport {
    let mut report = apply_to_map(model, ops);
    if report.inserted + report.replaced + report.removed > 0 {
        report.path = UpdatePath::InPlace;
    }
    report
}

fn build(model: &Model, (table, long_keys): Options) -> Cuart<u64> {
    let keys: ByteKeysBuf = model.keys().collect();
    let values: Vec<u64> = model.values().copied().collect();
    Cuart::builder().root_table(table).long_keys(long_keys).build_sorted(&Device::host(), &keys, &values).unwrap()
}

fn borrowed<'a>(range: &(Bound<&'a Key>, Bound<&'a Key>)) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (range.0.map(Vec::as_slice), range.1.map(Vec::as_slice))
}

/// Asks a tree about some keys, whether it has ranks or not, and about everything.
fn check(tree: &Cuart<u64>, model: &Model, queries: &[Key]) {
    let batch: ByteKeysBuf = queries.iter().collect();
    assert_eq!(tree.len(), model.len() as u64);
    let all = tree.range_many([..]).unwrap();
    let (keys, values) = all.get(0);
    assert!(keys.iter().zip(values).eq(model.iter().map(|(key, value)| (&key[..], value))), "all pairs in order");
    let all: ByteKeysBuf = model.keys().collect();
    assert!(tree.get_many(&all).unwrap().into_iter().eq(model.values().map(|&value| Some(value))), "all are found");

    let each = |answer: &dyn Fn(&Key) -> Option<(Key, u64)>| queries.iter().map(answer).collect::<Vec<_>>();
    let pair = |pair: Option<(&Key, &u64)>| pair.map(|(key, &value)| (key.clone(), value));
    let expected: Vec<_> = queries.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(tree.get_many(&batch).unwrap(), expected);
    let not_above = |key: &Key| pair(model.range(..=key.clone()).next_back());
    assert_eq!(tree.predecessor_many(&batch).unwrap(), each(&not_above));
    let not_below = |key: &Key| pair(model.range(key.clone()..).next());
    assert_eq!(tree.successor_many(&batch).unwrap(), each(&not_below));

    let prefixes: Vec<&[u8]> = queries.iter().flat_map(|key| [&key[..], &key[..key.len() / 2]]).collect();
    let prefixes_buf: ByteKeysBuf = prefixes.iter().collect();
    let hits = tree.prefix_many(&prefixes_buf).unwrap();
    let counts = tree.prefix_count_many(&prefixes_buf).unwrap();
    for ((prefix, (keys, values)), count) in prefixes.iter().zip(hits.iter()).zip(counts) {
        let expected = model.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        assert!(keys.iter().zip(values).eq(expected.map(|(key, value)| (&key[..], value))), "prefix {prefix:?}");
        assert_eq!(count, values.len() as u64);
    }
    let ranges = queries.iter().zip(queries.iter().skip(1)).enumerate().map(|(i, (a, b))| {
        let bound = |kind, key| match kind {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        (bound(i % 3, a.min(b)), bound(i / 3 % 3, a.max(b)))
    });
    let ranges: Vec<_> = ranges.collect();
    let hits = tree.range_many(ranges.iter().map(|range| ByteRange::from(borrowed(range)).limit(50))).unwrap();
    let counts = tree.count_range_many(ranges.iter().map(borrowed)).unwrap();
    for ((range, count), (keys, values)) in ranges.iter().zip(counts).zip(hits.iter()) {
        let inside = |key: &&Key| range.contains(*key);
        assert_eq!(model.keys().filter(inside).count() as u64, count, "range {range:?}");
        let expected = model.iter().filter(|(key, _)| inside(key)).take(50);
        assert!(keys.iter().zip(values).eq(expected.map(|(key, value)| (&key[..], value))), "range {range:?}");
    }
}

/// A tree and its model, which take the same batches.
struct Pair {
    tree: Cuart<u64>,
    model: Model,
    options: Options,
}

impl Pair {
    fn new(model: Model, options: Options) -> Self {
        Self { tree: build(&model, options), model, options }
    }

    #[track_caller]
    fn apply(&mut self, ops: &[Op<Key, u64>]) {
        let was_compact = self.tree.is_compact();
        let expected = apply_to_model(&mut self.model, ops);
        let report = self.tree.apply(ops).unwrap();
        assert_eq!(report, expected);
        assert_eq!(self.tree.is_compact(), was_compact && report.inserted + report.removed == 0);
        self.tree.validate();
    }

    fn check(&self, queries: &[Key]) {
        check(&self.tree, &self.model, queries);
    }

    fn compact(&mut self, queries: &[Key]) {
        self.tree.compact().unwrap();
        assert!(self.tree.is_compact());
        self.tree.validate();
        self.check(queries);
        assert!(self.tree.regions().unwrap() == build(&self.model, self.options).regions().unwrap(), "as built");
    }
}

/// Few different bytes, runs, lengths on both sides of every leaf's: strings that share long beginnings, are
/// prefixes of each other, or differ in the last byte.
fn key() -> impl Strategy<Value = Key> {
    let byte = || prop_oneof![6 => select(vec![0, b'a', b'b', 255]), 1 => any::<u8>()];
    let run = (byte(), select(vec![0_usize, 1, 7, 8, 9, 12, 13, 16, 17, 31, 32, 33, 60]));
    let runs =
        (run, prop::collection::vec(byte(), 0..4)).prop_map(|((byte, len), end)| [vec![byte; len], end].concat());
    // Many children for one node.
    prop_oneof![3 => runs, 1 => (any::<u8>(), 0..3_usize).prop_map(|(byte, len)| [&b"wide"[..], &vec![byte; len]].concat())]
}

fn op() -> impl Strategy<Value = Op<Key, u64>> {
    (key(), any::<u64>(), 0..5).prop_map(|(key, value, kind)| match kind {
        0 | 1 => Op::Insert(key, value),
        2 => Op::Update(key, value),
        _ => Op::Remove(key),
    })
}

fn options() -> impl Strategy<Value = Options> {
    // A table of three bytes is 128 MiB, and built anew for every check: below.
    let table = select(vec![RootTable::None, RootTable::TwoBytes]);
    (table, select(vec![LongKeys::DeviceLeaves, LongKeys::HostLeaves]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_batches_have_the_effect_that_they_have_on_a_map(
        before in prop::collection::btree_map(key(), any::<u64>(), 0..120),
        batches in prop::collection::vec(prop::collection::vec(op(), 0..80), 1..6),
        others in prop::collection::vec(key(), 0..20),
        options in options(),
    ) {
        let mut pair = Pair::new(before, options);
        for ops in &batches {
            pair.apply(ops);
            let touched = ops.iter().take(3).map(|op| {
                let (Op::Insert(key, _) | Op::Update(key, _) | Op::Remove(key)) = op;
                key
            });
            let queries: Vec<Key> = pair.model.keys().step_by(5).chain(touched).chain(&others).cloned().collect();
            pair.check(&queries);
        }
        // All of it goes, and comes again.
        let all = pair.model.clone();
        let remove: Vec<_> = all.keys().cloned().map(Op::Remove).collect();
        pair.apply(&remove);
        pair.check(&others);
        let insert: Vec<_> = all.iter().rev().map(|(key, value)| Op::Insert(key.clone(), *value)).collect();
        pair.apply(&insert);
        pair.check(&others);
        pair.compact(&others);
    }
}

/// Sets of strings that have broken radix trees.
fn adversarial() -> Vec<(&'static str, Vec<Key>)> {
    let text: Key = (0..700_u32).map(|i| ((i * i) >> 3) as u8).collect();
    let runs = |byte: u8| (0..150).flat_map(move |len| [vec![byte; len], [vec![byte; len], vec![!byte]].concat()]);
    vec![
        ("the empty one", vec![vec![]]),
        ("prefixes of one string", (0..text.len()).map(|len| text[..len].to_vec()).collect()),
        ("runs of zeros", runs(0).collect()),
        ("runs of the largest byte", runs(255).collect()),
        ("last byte", (0..=255).map(|byte| [vec![1; 40], vec![byte]].concat()).collect()),
        ("last byte of short ones", (0..=255).map(|byte| vec![7, byte]).collect()),
        ("first bytes", (0..=255).map(|byte| vec![byte, 1, byte]).collect()),
        ("last byte after 4095 and more", {
            let long = |len: usize| (0..3).map(move |byte| [vec![1; len], vec![byte]].concat());
            (4090..4100).flat_map(long).collect()
        }),
        ("few differ early, after long paths", {
            (0..60_u8).map(|byte| [vec![5; 7000], vec![byte / 20], vec![6; 20], vec![byte]].concat()).collect()
        }),
    ]
}

#[test]
fn adversarial_strings_come_and_go() {
    for (what, keys) in adversarial() {
        println!("{what}");
        for table in [RootTable::None, RootTable::TwoBytes] {
            for long_keys in [LongKeys::DeviceLeaves, LongKeys::HostLeaves] {
                // In an order that has nothing to do with theirs, in batches of several sizes.
                let shuffled: Vec<&Key> = (0..keys.len()).map(|i| &keys[i * 641 % keys.len()]).collect();
                let mut queries: Vec<Key> = keys.iter().step_by(keys.len() / 20 + 1).cloned().collect();
                queries.extend([vec![], vec![0], vec![255; 50], vec![1; 4094], vec![5; 6999]]);
                let mut pair = Pair::new(Model::new(), (table, long_keys));
                for (round, keys) in shuffled.chunks(shuffled.len() / 3 + 1).enumerate() {
                    let inserts: Vec<_> = keys.iter().map(|&key| Op::Insert(key.clone(), round as u64)).collect();
                    pair.apply(&inserts);
                    pair.check(&queries);
                }
                for part in [1, 0] {
                    let removals: Vec<_> =
                        shuffled.iter().skip(part).step_by(2).map(|&key| Op::Remove(key.clone())).collect();
                    pair.apply(&removals);
                    pair.check(&queries);
                }
                assert!(pair.model.is_empty() && pair.tree.regions().unwrap().root.is_none());
                let used = pair.tree.stats();
                let inserts: Vec<_> = keys.iter().map(|key| Op::Insert(key.clone(), 9)).collect();
                pair.apply(&inserts);
                pair.check(&queries);
                assert_eq!(pair.tree.stats().leaf_bytes, used.leaf_bytes, "what was given back is used again");
                pair.compact(&queries);
            }
        }
    }
}

#[test]
fn a_hundred_thousand_keys_under_one_node() {
    // Behind a common beginning an N256, which grows from nothing, and under each of its children as many keys.
    let key = |i: u32| [b"beginning".as_slice(), &[(i % 256) as u8], &(i / 256 * 7919).to_le_bytes()].concat();
    let mut tree = Cuart::<u64>::builder().build(&Device::host(), &ByteKeysBuf::new(), &[]).unwrap();
    for batch in 0..4 {
        let keys: ByteKeysBuf = (0..100_000).filter(|i| i / 256 % 4 == batch).map(key).collect();
        let report = tree.insert_many(&keys, &vec![7; keys.len()]).unwrap();
        assert_eq!(report.inserted, keys.len() as u64);
        tree.validate();
    }
    assert_eq!(tree.len(), 100_000);
    assert!(tree.stats().nodes[3] >= 1);
    let prefixes: ByteKeysBuf = (0..=255_u8).map(|i| [b"beginning", &[i][..]].concat()).collect();
    assert_eq!(tree.prefix_count_many(&prefixes).unwrap().iter().sum::<u64>(), 100_000);
    let all: ByteKeysBuf = (0..100_000).map(key).collect();
    assert_eq!(tree.get_many(&all).unwrap(), vec![Some(7); 100_000]);
    let half: ByteKeysBuf = (0..100_000).step_by(2).map(key).collect();
    assert_eq!(tree.remove_many(&half).unwrap().removed, 50_000);
    tree.validate();
    let others: ByteKeysBuf = (1..100_000).step_by(2).map(key).collect();
    assert_eq!(tree.get_many(&half).unwrap(), vec![None; 50_000]);
    assert_eq!(tree.get_many(&others).unwrap(), vec![Some(7); 50_000]);
}

#[test]
fn one_node_grows_through_all_types() {
    for table in [RootTable::None, RootTable::TwoBytes] {
        for path in [&b""[..], b"a", b"ab", b"abc", b"a path that no node holds whole"] {
            let mut pair = Pair::new(Model::new(), (table, LongKeys::DeviceLeaves));
            // One child after another; at times some go in between, and their slots are reused or dropped.
            for i in 0..300_u32 {
                let key = |i: u32| [path, &[(i * 77) as u8]].concat();
                let mut ops = vec![Op::Insert(key(i), u64::from(i))];
                if i % 7 == 3 {
                    ops.push(Op::Remove(key(i - 2)));
                    ops.push(Op::Insert(path.to_vec(), 1));
                }
                if i % 7 == 5 {
                    ops.push(Op::Remove(path.to_vec()));
                }
                pair.apply(&ops);
            }
            pair.check(&[path.to_vec(), [path, &[5]].concat()]);
            assert_eq!(pair.tree.stats().nodes, [0, 0, 0, 1]);
        }
    }
}

#[test]
fn a_table_of_three_bytes_is_kept_right() {
    let mut pair = Pair::new(Model::new(), (RootTable::ThreeBytes, LongKeys::DeviceLeaves));
    let keys: Vec<Key> = adversarial().into_iter().flat_map(|(_, keys)| keys.into_iter().step_by(7)).collect();
    let shuffled: Vec<&Key> = (0..keys.len()).map(|i| &keys[i * 641 % keys.len()]).collect();
    for keys in shuffled.chunks(shuffled.len() / 3 + 1) {
        let inserts: Vec<_> = keys.iter().map(|&key| Op::Insert(key.clone(), 1)).collect();
        pair.apply(&inserts);
        pair.check(&keys[..5].iter().map(|&key| key.clone()).collect::<Vec<_>>());
    }
    let removals: Vec<_> = shuffled.iter().step_by(2).map(|&key| Op::Remove(key.clone())).collect();
    pair.apply(&removals);
    pair.check(&[b"abc".to_vec()]);
    pair.compact(&[b"abc".to_vec()]);
}

#[test]
fn a_batch_of_more_keys_than_there_are_builds_the_tree_again() {
    let key = |i: u64| (i * 7919 % 10_007).to_be_bytes()[5..].to_vec();
    let mut tree = build(&Model::new(), (RootTable::TwoBytes, LongKeys::DeviceLeaves));
    let mut model = Model::new();
    for (range, path) in
        [(0..3, UpdatePath::InPlace), (2..4500, UpdatePath::Rebuilt), (4500..8900, UpdatePath::InPlace)]
    {
        let mut ops: Vec<_> = range.map(|i| Op::Insert(key(i), i)).collect();
        ops.push(Op::Update(key(1), 1000));
        ops.push(Op::Update(key(10_000), 1000));
        let expected = apply_to_model(&mut model, &ops);
        assert_eq!(tree.apply(&ops).unwrap(), UpdateReport { path, ..expected });
        assert_eq!(tree.is_compact(), path == UpdatePath::Rebuilt);
        tree.validate();
        check(&tree, &model, &[key(1), key(2), key(5000)]);
    }
}

/// A tree in an emulated device's memory, which the CPU can reach, and whose allocations can fail.
fn on_failing_device(model: &Model) -> Cuart<u64> {
    let tree = build(model, (RootTable::TwoBytes, LongKeys::DeviceLeaves));
    tree.to_device(&Device::emulated()).unwrap()
}

#[test]
fn a_batch_without_room_changes_nothing() {
    let model: Model = (0..300_u64).map(|i| (i.to_le_bytes().repeat(1 + i as usize % 6), i)).collect();
    let (keys, change) = of_ops(
        &[
            vec![Op::Remove(0_u64.to_le_bytes().to_vec()), Op::Update(6_u64.to_le_bytes().to_vec(), 9)],
            (0..200_u64).map(|i| Op::Insert(vec![i as u8; i as usize % 50], i)).collect(),
        ]
        .concat(),
    )
    .unwrap();
    let batch = NetBatch::new((&keys).into(), &change).unwrap();
    for point in 0.. {
        let mut tree = on_failing_device(&model);
        tree.device.inject(Some(Failure::Allocation(point)));
        let result = tree.apply_in_memory(&batch, None);
        if tree.device.inject(None).is_some() {
            assert!(point > 5 && result.is_ok());
            tree.validate();
            return;
        }
        assert!(matches!(result, Err(Error::Runtime(_))), "{result:?}");
        assert!(tree.is_compact() && tree.len() == 300);
        tree.validate();
        check(&tree, &model, &[vec![], vec![0; 8], vec![1; 30]]);
    }
}

/// Removes keys as a device does: nodes stay, with or without leaves below.
fn remove_leaves_only(tree: &mut Cuart<u64>, model: &mut Model, keys: &[Key]) {
    let keys: BTreeSet<&Key> = keys.iter().collect();
    let packed: ByteKeysBuf = keys.iter().collect();
    let batch = NetBatch::new((&packed).into(), |_| NetChange::<u64>::Remove).unwrap();
    let tree = tree.parts.get_mut().unwrap();
    let work = batch.against(&tree.find_many(batch.keys()).unwrap()).unwrap();
    tree.reserve(&batch, &work, LongKeys::DeviceLeaves).unwrap();
    tree.len -= work.removals.len() as u64;
    tree.ordered = false;
    let (mut edit, mut path) = (Edit::new(tree, LongKeys::DeviceLeaves, None), Vec::new());
    for &(at, _) in &work.removals {
        edit.remove_leaf(batch.keys().at(at), &mut path);
    }
    edit.finish();
    model.retain(|key, _| !keys.contains(key));
}

#[test]
fn nodes_without_leaves_are_passed_by() {
    for (what, keys) in adversarial() {
        println!("{what}");
        let options = (RootTable::TwoBytes, LongKeys::DeviceLeaves);
        let mut pair = Pair::new(keys.iter().cloned().zip(0..).collect(), options);
        let queries: Vec<Key> =
            keys.iter().step_by(keys.len() / 20 + 1).cloned().chain([vec![], vec![5; 6999]]).collect();
        // The upper three quarters, then all; some come again each time.
        for (gone, come) in [(keys.len() / 4, 7), (0, 5), (0, 1)] {
            remove_leaves_only(&mut pair.tree, &mut pair.model, &keys[gone..]);
            pair.check(&queries);
            let ops: Vec<_> = keys.iter().step_by(come).map(|key| Op::Insert(key.clone(), 8)).collect();
            apply_to_model(&mut pair.model, &ops);
            pair.tree.apply(&ops).unwrap();
            pair.check(&queries);
            let ops: Vec<_> = keys.iter().step_by(come * 3).map(|key| Op::Remove(key.clone())).collect();
            apply_to_model(&mut pair.model, &ops);
            pair.tree.apply(&ops).unwrap();
            pair.check(&queries);
        }
        remove_leaves_only(&mut pair.tree, &mut pair.model, &keys);
        // Other keys on the same ways.
        let ops: Vec<_> = keys.iter().map(|key| Op::Insert([&key[..key.len() / 2], b"!"].concat(), 1)).collect();
        apply_to_model(&mut pair.model, &ops);
        pair.tree.apply(&ops).unwrap();
        pair.check(&queries);
        pair.compact(&queries);
    }
}

#[test]
fn of_equal_keys_the_last_one_stays() {
    let keys: ByteKeysBuf = ["b", "a", "b", "c", "a", "d", "c"].into_iter().collect();
    let mut tree =
        Cuart::build(&Device::host(), &["a", "b"].into_iter().collect::<ByteKeysBuf>(), &[1_u32, 2]).unwrap();
    let report = tree.update_many(&keys, &[10, 11, 12, 13, 14, 15, 16]).unwrap();
    assert_eq!((report.replaced, report.unmatched, report.path), (2, 2, UpdatePath::InPlace));
    assert!(tree.is_compact());
    assert_eq!(tree.get_many(&keys).unwrap()[..4], [Some(12), Some(14), Some(12), None]);
    let report = tree.insert_many(&keys, &[20, 21, 22, 23, 24, 25, 26]).unwrap();
    assert_eq!((report.inserted, report.replaced), (2, 2));
    assert_eq!(tree.get_many(&keys).unwrap()[2..], [Some(22), Some(26), Some(24), Some(25), Some(26)]);
    assert_eq!(tree.remove_many(&keys).unwrap().removed, 4);
    assert_eq!(tree.remove_many(&keys).unwrap(), UpdateReport { unmatched: 4, ..UpdateReport::default() });
    assert!(tree.is_empty());
}

#[test]
fn a_batch_that_is_refused_changes_nothing() {
    let words: ByteKeysBuf = ["a", "b"].into_iter().collect();
    let mut tree = Cuart::builder().long_keys(LongKeys::Refuse).build(&Device::host(), &words, &[1_u32, 2]).unwrap();
    let long = "x".repeat(33);
    let error = tree.apply(&[Op::Remove("a"), Op::Insert(&long, 1)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "keys[1] has 33 bytes, but the index takes keys of at most 32: leave it out, or choose other `LongKeys`"
    );
    assert!(matches!(tree.insert_many(&words, &[1]).unwrap_err(), Error::LengthMismatch { keys: 2, values: 1 }));
    assert_eq!(tree.get_many(&words).unwrap(), [Some(1), Some(2)]);
    // Such a key is not there, which is no error.
    assert_eq!(tree.apply(&[Op::Remove(&long), Op::Update(&long, 1)]).unwrap().unmatched, 1);
    tree.validate();
}

#[test]
fn ranks_are_told_by_compact_trees_only() {
    let words: ByteKeysBuf = ["a", "b", "c"].into_iter().collect();
    let mut tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3]).unwrap();
    tree.update_many(&words, &[4, 5, 6]).unwrap();
    assert_eq!(tree.lower_bound_many(&words).unwrap(), [0, 1, 2]);
    tree.remove_many(&["b"].into_iter().collect::<ByteKeysBuf>()).unwrap();
    let error = tree.lower_bound_many(&words).unwrap_err();
    let expected = "a rank is not available, because keys were inserted or removed since the index was built: call `compact` first";
    assert_eq!(error.to_string(), expected);
    assert!(tree.span_many(["a".."b"]).is_err() && tree.prefix_span_many(&words).is_err() && tree.pair(0).is_none());
    tree.compact().unwrap();
    assert_eq!(tree.upper_bound_many(&words).unwrap(), [1, 1, 2]);
    assert_eq!(tree.pair(1), Some((&b"c"[..], 6)));
}
