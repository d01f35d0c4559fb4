//! What the suite does not say of Harmonia: which path a batch takes on which a device fails, whether the tree is lost by that, and
//! that scratch memory stays usable.

use crate::common::losses;
use lanetree::harmonia::{BuildScratch, GetBySorting, PsaScratch, QuerySort, UpdateScratch};
use lanetree::runtime::Failure;
use lanetree::{
    Buffer, Device, DeviceRanges, Error, Harmonia, Mirrored, Op, OpKind, RangeScratch, Result, Stream, UpdatePath,
    apply_to_map,
};
use std::collections::BTreeMap;

type Model = BTreeMap<u32, u64>;
type Tree = Harmonia<u32, u64>;

fn is_lost<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Lost { .. }))
}

/// Every call says that the tree is lost.
fn assert_lost(tree: &mut Tree) {
    let device = tree.device().clone();
    let stream = device.stream().unwrap();
    assert!(is_lost(tree.get_many(&[1])) && is_lost(tree.get_many_or(&[1], 0, &mut [0])));
    assert!(is_lost(tree.lower_bound_many(&[1])) && is_lost(tree.upper_bound_many(&[1])));
    assert!(is_lost(tree.predecessor_many(&[1])) && is_lost(tree.successor_many(&[1])));
    assert!(is_lost(tree.range_many([1..=2])) && is_lost(tree.count_range_many([1..=2])));
    assert!(is_lost(tree.iter().next().unwrap()));
    let (queries, mut out) = (device.pinned(1).unwrap(), device.pinned(1).unwrap());
    assert!(is_lost(tree.get_many_pinned(&queries, 0, &mut out, None)));
    let (queries, mut values) = (device.upload(&[1_u32]).unwrap(), device.alloc::<u64>(1).unwrap());
    assert!(is_lost(tree.on(&stream).miss(0).get(&queries, &mut values)));
    let mut sorting = PsaScratch::new(&device, 1).unwrap();
    assert!(is_lost(tree.on(&stream).miss(0).get_by_sorting(QuerySort::Full, &queries, &mut values, &mut sorting)));
    assert!(is_lost(tree.measure_psa(&stream, &queries)));
    let (mut ranges, mut out) = (RangeScratch::new(&device, 1).unwrap(), DeviceRanges::new(&device, 1, 1).unwrap());
    assert!(is_lost(tree.on(&stream).limit(9).range(&queries, &queries, &mut ranges, &mut out)));
    assert!(is_lost(tree.apply(&[Op::Remove(1)])));
    let mut scratch = UpdateScratch::new(&device, 1).unwrap();
    assert!(is_lost(tree.apply_on(&stream, lanetree::Batch::inserts(&queries, &values), &mut scratch)));
}

/// The tree has these pairs, and finds them.
fn assert_answers(tree: &Tree, model: &Model) {
    assert_eq!(tree.len(), model.len() as u64);
    let pairs: Vec<(u32, u64)> = tree.iter().map(Result::unwrap).collect();
    assert!(pairs.into_iter().eq(model.iter().map(|(&key, &value)| (key, value))), "pairs of {tree:?}");
    let queries: Vec<u32> = (0..90).map(|i| i * 37).collect();
    let expected: Vec<Option<u64>> = queries.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(tree.get_many(&queries).unwrap(), expected);
    let ranks: Vec<u64> = queries.iter().map(|key| model.range(..=key).count() as u64).collect();
    assert_eq!(tree.upper_bound_many(&queries).unwrap(), ranks);
}

/// Keys ten apart.
fn model(keys: u32) -> Model {
    (0..keys).map(|i| (i * 10, u64::from(i) << 33)).collect()
}

fn tree(device: &Device, fanout: u32, model: &Model) -> Tree {
    let (keys, values): (Vec<u32>, Vec<u64>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
    Harmonia::builder().fanout(fanout).fill(0.6).build(device, &keys, &values).unwrap()
}

/// A tree on a device, and a batch for it in buffers.
struct Batch {
    tree: Tree,
    before: Model,
    after: Model,
    stream: Stream,
    keys: Buffer<u32>,
    values: Buffer<u64>,
    kinds: Option<Buffer<OpKind>>,
    scratch: UpdateScratch<u32, u64>,
}

impl Batch {
    /// Of a tree of some keys, to which other batches have been applied before.
    fn new(device: &Device, fanout: u32, (keys, batches): (u32, u32), ops: &[Op<u32, u64>]) -> Self {
        let mut before = model(keys);
        let mut tree = tree(device, fanout, &before);
        for batch in 0..batches {
            let ops = [Op::Insert(batch * 100 + 3, 7), Op::Remove(batch * 100 + 50)];
            assert_eq!(tree.apply(&ops).unwrap().path, UpdatePath::InPlace);
            apply_to_map(&mut before, &ops);
        }
        let mut after = before.clone();
        apply_to_map(&mut after, ops);
        let words = |op: &Op<u32, u64>| match *op {
            Op::Insert(key, value) | Op::Update(key, value) => (key, value),
            Op::Remove(key) => (key, 0),
        };
        let (keys, values): (Vec<u32>, Vec<u64>) = ops.iter().map(words).unzip();
        let kinds: Vec<_> = ops.iter().map(Op::kind).collect();
        let are_inserts = kinds.iter().all(|&kind| kind == OpKind::INSERT);
        Self {
            tree,
            before,
            after,
            stream: device.stream().unwrap(),
            keys: device.upload(&keys).unwrap(),
            values: device.upload(&values).unwrap(),
            kinds: (!are_inserts).then(|| device.upload(&kinds).unwrap()),
            scratch: UpdateScratch::new(device, ops.len()).unwrap(),
        }
    }

    fn apply_on(&mut self) -> Result<UpdatePath> {
        let Self { tree, stream, keys, values, kinds, scratch, .. } = self;
        Ok(tree
            .apply_on(
                stream,
                lanetree::Batch { kinds: kinds.as_ref(), ..lanetree::Batch::inserts(keys, values) },
                scratch,
            )?
            .path)
    }
}

#[test]
fn batches_leave_the_tree_as_it_was_or_lost_on_every_path() {
    let inserts: Vec<Op<u32, u64>> = (0..40).map(|i| Op::Insert(i * 31, 5)).collect();
    let mixed: Vec<Op<u32, u64>> = (0..30)
        .map(|i| match i % 3 {
            0 => Op::Insert(i * 40 + 1, 6),
            1 => Op::Update(i * 40, 7),
            _ => Op::Remove(i * 40),
        })
        .collect();
    let nothing = [Op::Update(1, 1), Op::Remove(2), Op::Update(10_001, 1)];
    let replaced: Vec<Op<u32, u64>> = (0..20).map(|i| Op::Update(i * 140, 9)).collect();
    let moved = [Op::Insert(5, 5), Op::Remove(300), Op::Insert(1234, 6), Op::Update(20, 8), Op::Remove(2000)];
    let many: Vec<Op<u32, u64>> = (0..60).map(|i| Op::Insert(1000 + i, 9)).collect();
    let all = |keys| -> Vec<Op<u32, u64>> { (0..keys).map(|i| Op::Remove(i * 10)).collect() };
    let (all, most) = (all(300), all(200));
    // Into no tree at all; of leaves alone, and wide ones; without an effect; until nothing is left. Without ranks; with none at
    // first, which the batch makes; and with the ranks of earlier batches.
    let ways = [
        (8, (0, 0), &inserts[..], UpdatePath::Rebuilt),
        (8, (3, 0), &inserts, UpdatePath::Rebuilt),
        (128, (200, 0), &mixed, UpdatePath::InPlace),
        (64, (20, 0), &mixed, UpdatePath::InPlace),
        (16, (200, 0), &nothing, UpdatePath::Unchanged),
        (32, (200, 0), &most, UpdatePath::Rebuilt),
        (8, (300, 0), &replaced, UpdatePath::InPlace),
        (8, (300, 0), &moved, UpdatePath::InPlace),
        (8, (300, 2), &moved, UpdatePath::InPlace),
        (8, (300, 2), &many, UpdatePath::Rebuilt),
        (8, (300, 0), &all, UpdatePath::Rebuilt),
    ];
    for (fanout, tree, ops, path) in ways {
        let taken = Batch::new(&Device::emulated(), fanout, tree, ops).apply_on().unwrap();
        assert_eq!(taken, path, "fanout {fanout}, {tree:?}");
        let errors = Failure::at_every_point(
            |device| Batch::new(device, fanout, tree, ops),
            |batch| batch.apply_on().map(drop),
            |batch, error| {
                let lost = matches!(error, Error::Lost { .. });
                assert_eq!(is_lost(batch.tree.get_many(&[0])), lost, "{error}");
                if lost {
                    assert_lost(&mut batch.tree);
                    let later = batch.apply_on().unwrap_err();
                    assert_eq!(later.to_string(), error.to_string(), "with the same reason, said once");
                    return;
                }
                assert_answers(&batch.tree, &batch.before);
                // With the same scratch memory; and then another batch, which builds on what this has left.
                batch.apply_on().unwrap();
                let ops = [Op::Insert(1, 1), Op::Remove(10), Op::Update(2990, 5)];
                batch.tree.apply(&ops).unwrap();
                apply_to_map(&mut batch.after, &ops);
                assert_answers(&batch.tree, &batch.after);
            },
        );
        let lost = losses(&errors);
        assert_eq!(lost > 0, path == UpdatePath::InPlace, "only what is written in place can be lost");
        assert!(errors.len() - lost > 5, "{} errors", errors.len());
    }
}

#[test]
fn builds_that_fail_leave_their_scratch_memory_usable() {
    // With keys that occur twice, and without; and in any order.
    for (step, is_sorted) in [(1, true), (2, true), (1, false)] {
        let keys: Vec<u32> =
            (0..300).map(|i| if is_sorted { i / step * step * 7 } else { i * 7919 % 240 * 3 }).collect();
        let values: Vec<u64> = (0..300).collect();
        let model: Model = keys.iter().copied().zip(values.iter().copied()).collect();
        let builder = Harmonia::<u32, u64>::builder().fanout(16);
        type State = (Stream, (Buffer<u32>, Buffer<u64>), BuildScratch<u32, u64>);
        let build = |(stream, (keys, values), scratch): &mut State| match is_sorted {
            true => builder.build_sorted_on(stream, keys, values, 300, scratch),
            false => builder.build_on(stream, keys, values, 300, scratch),
        };
        let errors = Failure::at_every_point(
            |device| {
                let buffers = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                let scratch = match is_sorted {
                    true => BuildScratch::for_sorted(device),
                    false => BuildScratch::for_unsorted(device, 300),
                };
                (device.stream().unwrap(), buffers, scratch.unwrap())
            },
            |state| build(state).map(drop),
            |state, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                assert_answers(&build(state).unwrap(), &model);
            },
        );
        assert!(errors.len() > 8, "{} errors", errors.len());
    }
}

#[test]
fn a_mirrored_pair_that_fails_in_any_call_is_sent_again() {
    let before = model(200);
    let few: Vec<u32> = (0..5).map(|i| i * 400).collect();
    let many: Vec<u32> = (0..150).map(|i| 500 + i).collect();
    let all: Vec<u32> = before.keys().copied().collect();
    type Pair = Mirrored<Harmonia<u32, u64>>;
    type Call = fn(&mut Pair, &[u32]) -> Result<()>;
    type Change = fn(u32) -> Op<u32, u64>;
    let insert: Call = |pair, keys| pair.insert_many(keys, &vec![9; keys.len()]).map(drop);
    let update: Call = |pair, keys| pair.update_many(keys, &vec![9; keys.len()]).map(drop);
    let remove: Call = |pair, keys| pair.remove_many(keys).map(drop);
    fn mixed(key: u32) -> Op<u32, u64> {
        match key / 400 % 3 {
            0 => Op::Insert(key + 5, 5),
            1 => Op::Remove(key),
            _ => Op::Update(key, 8),
        }
    }
    let apply: Call = |pair, keys| pair.apply(&keys.iter().copied().map(mixed).collect::<Vec<_>>()).map(drop);
    // And whether somebody keeps a version of the copy.
    let ways: [(Call, &[u32], Change, bool); 7] = [
        (insert, &few, |key| Op::Insert(key, 9), false),
        (insert, &many, |key| Op::Insert(key, 9), false),
        (update, &few, |key| Op::Update(key, 9), false),
        (remove, &few, Op::Remove, false),
        (remove, &all, Op::Remove, false),
        (apply, &few, mixed, false),
        (apply, &few, mixed, true),
    ];
    for (call, keys, change, is_kept) in ways {
        let mut after = before.clone();
        apply_to_map(&mut after, &keys.iter().map(|&key| change(key)).collect::<Vec<_>>());
        let pair = |device: &Device| Mirrored::new(tree(&Device::host(), 8, &before), device).unwrap();
        Failure::at_every_point(
            |device| {
                let pair = pair(device);
                let version = is_kept.then(|| pair.device_index().clone());
                (pair, version)
            },
            |(pair, _)| call(pair, keys),
            |(pair, version), error| {
                assert!(matches!(error, Error::Runtime(_)) && !pair.is_in_sync(), "{error}");
                assert_answers(pair.host_index(), &after);
                if !is_lost(pair.device_index().get_many(&[0])) {
                    assert_answers(pair.device_index(), &before);
                }
                if let Some(version) = version {
                    assert_answers(version, &before);
                }
                // The next batch sends it, too.
                pair.update_many(&[], &[]).unwrap();
                assert!(pair.is_in_sync());
                assert_answers(pair.device_index(), &after);
            },
        );
        // What sends it again may fail, too, and more than once.
        Failure::at_every_point(
            |device| {
                let mut pair = pair(device);
                device.inject(Some(Failure::Transfer(0)));
                let failed = call(&mut pair, keys).is_err();
                device.inject(None);
                // A tree without pairs has nothing to be sent.
                assert_eq!(failed, !after.is_empty());
                pair
            },
            |pair| pair.synchronize().map(drop),
            |pair, error| {
                assert!(matches!(error, Error::Runtime(_)) && !pair.is_in_sync(), "{error}");
                assert_answers(pair.host_index(), &after);
                pair.synchronize().unwrap();
                assert_answers(pair.device_index(), &after);
            },
        );
    }
    // And the first time that it is sent.
    Failure::at_every_point(
        Device::clone,
        |device| Mirrored::new(tree(&Device::host(), 8, &before), device).map(drop),
        |device, error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            assert_answers(Mirrored::new(tree(&Device::host(), 8, &before), device).unwrap().device_index(), &before);
        },
    );
}
