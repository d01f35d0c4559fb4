//! Whatever fails on the device, and whenever: the call says so, and afterwards an index answers as before it, or says
//! that it is lost; scratch memory can be reused; no memory stays behind.
//!
//! On the emulator, which fails where it is asked to: each test runs once for every launch, transfer and
//! allocation of its work.

use crate::common::losses;
use lanetree::harmonia::{BuildScratch, GetBySorting, PsaScratch, QuerySort, UpdateScratch};
use lanetree::primitives::{
    Pairs, PairsMut, RadixSortScratch, RunScratch, ScanScratch, exclusive_scan, last_by_key, radix_sort,
};
use lanetree::runtime::Failure;
use lanetree::{
    Buffer, Device, DeviceRanges, Error, Harmonia, Mirrored, Op, OpKind, RangeScratch, Result, Stream, UpdatePath,
    UpdateReport,
};
use std::collections::BTreeMap;

type Model = BTreeMap<u32, u32>;

fn is_lost<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Lost { .. }))
}

/// Every call says that the tree is lost.
fn assert_lost(tree: &mut Harmonia<u32, u32>) {
    let device = tree.device().clone();
    let stream = device.stream().unwrap();
    assert!(is_lost(tree.get_many(&[1])) && is_lost(tree.get_many_or(&[1], 0, &mut [0])));
    assert!(is_lost(tree.lower_bound_many(&[1])) && is_lost(tree.upper_bound_many(&[1])));
    assert!(is_lost(tree.predecessor_many(&[1])) && is_lost(tree.successor_many(&[1])));
    assert!(is_lost(tree.range_many([1..=2])) && is_lost(tree.count_range_many([1..=2])));
    assert!(is_lost(tree.iter().next().unwrap()));
    let (queries, mut out) = (device.pinned(1).unwrap(), device.pinned(1).unwrap());
    assert!(is_lost(tree.get_many_pinned(&queries, 0, &mut out, None)));
    let (queries, mut values) = (device.upload(&[1_u32]).unwrap(), device.alloc::<u32>(1).unwrap());
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

/// The tree answers every kind of query as the model does.
fn assert_answers(tree: &Harmonia<u32, u32>, model: &Model) {
    assert_eq!(tree.len(), model.len() as u64);
    let pairs: Vec<(u32, u32)> = tree.iter().map(Result::unwrap).collect();
    assert!(pairs.iter().copied().eq(model.iter().map(|(&key, &value)| (key, value))), "pairs of {tree:?}");
    let queries: Vec<u32> = (0..80).map(|i| i * 37).collect();
    let expected: Vec<Option<u32>> = queries.iter().map(|key| model.get(key).copied()).collect();
    assert_eq!(tree.get_many(&queries).unwrap(), expected);
    let ranks: Vec<u64> = queries.iter().map(|key| model.range(..key).count() as u64).collect();
    assert_eq!(tree.lower_bound_many(&queries).unwrap(), ranks);
    let counted = tree.count_range_many(queries[..40].iter().map(|&key| key..=key + 30)).unwrap();
    assert!(queries.iter().zip(counted).all(|(&key, count)| model.range(key..=key + 30).count() as u64 == count));
}

/// A tree of 300 keys, ten apart, in leaves that have room; `batches` of them have been applied before.
fn tree(device: &Device, batches: usize) -> (Harmonia<u32, u32>, Model) {
    let mut model: Model = (0..300).map(|i| (i * 10, i)).collect();
    let (keys, values): (Vec<u32>, Vec<u32>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
    let mut tree = Harmonia::builder().fanout(8).fill(0.6).build(device, &keys, &values).unwrap();
    for batch in 0..batches as u32 {
        let ops = [Op::Insert(batch * 100 + 3, 7), Op::Remove(batch * 100 + 50)];
        assert_eq!(tree.apply(&ops).unwrap().path, UpdatePath::InPlace);
        apply(&mut model, &ops);
    }
    (tree, model)
}

fn apply(model: &mut Model, ops: &[Op<u32, u32>]) {
    for &op in ops {
        match op {
            Op::Insert(key, value) => {
                model.insert(key, value);
            }
            Op::Update(key, value) => {
                if let Some(old) = model.get_mut(&key) {
                    *old = value;
                }
            }
            Op::Remove(key) => {
                model.remove(&key);
            }
        }
    }
}

/// A tree and a batch in buffers for it.
struct Batch {
    tree: Harmonia<u32, u32>,
    before: Model,
    after: Model,
    stream: Stream,
    keys: Buffer<u32>,
    values: Buffer<u32>,
    kinds: Buffer<OpKind>,
    scratch: UpdateScratch<u32, u32>,
}

impl Batch {
    fn new(device: &Device, batches: usize, ops: &[Op<u32, u32>]) -> Self {
        let (tree, before) = tree(device, batches);
        let mut after = before.clone();
        apply(&mut after, ops);
        let words = |op: &Op<u32, u32>| match *op {
            Op::Insert(key, value) | Op::Update(key, value) => (key, value),
            Op::Remove(key) => (key, 0),
        };
        let (keys, values): (Vec<u32>, Vec<u32>) = ops.iter().map(words).unzip();
        let kinds: Vec<_> = ops.iter().map(Op::kind).collect();
        Self {
            tree,
            before,
            after,
            stream: device.stream().unwrap(),
            keys: device.upload(&keys).unwrap(),
            values: device.upload(&values).unwrap(),
            kinds: device.upload(&kinds).unwrap(),
            scratch: UpdateScratch::new(device, ops.len()).unwrap(),
        }
    }

    fn apply_on(&mut self) -> Result<UpdateReport> {
        let Self { tree, stream, keys, values, kinds, scratch, .. } = self;
        tree.apply_on(stream, lanetree::Batch::of_kinds(keys, values, kinds), scratch)
    }

    /// The tree is lost, and says so, or as it was; then the batch can be applied with the same scratch memory.
    fn check(&mut self, error: &Error) {
        let lost = matches!(error, Error::Lost { .. });
        assert_eq!(is_lost(self.tree.get_many(&[0])), lost, "who is told first is told: {error}");
        if lost {
            return assert_lost(&mut self.tree);
        }
        assert_answers(&self.tree, &self.before);
        self.apply_on().unwrap();
        // And the next one, which builds on what this has left.
        let ops = [Op::Insert(1, 1), Op::Remove(10), Op::Update(2990, 5)];
        self.tree.apply(&ops).unwrap();
        apply(&mut self.after, &ops);
        assert_answers(&self.tree, &self.after);
    }
}

/// Applies a batch that takes a path, with every failure on its way; how often the tree was lost and how often
/// it was not.
fn batches(path: UpdatePath, before: usize, ops: &[Op<u32, u32>]) -> (usize, usize) {
    let taken = Batch::new(&Device::emulated(), before, ops).apply_on().unwrap().path;
    assert_eq!(taken, path);
    let failed = Failure::at_every_point(
        |device| Batch::new(device, before, ops),
        |batch| batch.apply_on().map(drop),
        |batch, error| batch.check(error),
    );
    let lost = losses(&failed);
    (lost, failed.len() - lost)
}

#[test]
fn a_batch_in_place_that_fails_leaves_the_tree_as_it_was_or_lost() {
    let replaced: Vec<Op<u32, u32>> = (0..20).map(|i| Op::Update(i * 140, 9)).collect();
    let moved = [Op::Insert(5, 5), Op::Remove(300), Op::Insert(1234, 6), Op::Update(20, 8), Op::Remove(2000)];
    // Without ranks; with none at first, which the batch makes; and with the ranks of earlier batches.
    for (before, ops) in [(0, &replaced[..]), (0, &moved), (2, &moved)] {
        let (lost, kept) = batches(UpdatePath::InPlace, before, ops);
        assert!(lost >= 2 && kept > 10, "lost {lost} times, kept {kept}");
    }
}

#[test]
fn a_batch_that_builds_the_tree_again_never_loses_it() {
    let many: Vec<Op<u32, u32>> = (0..60).map(|i| Op::Insert(1000 + i, 9)).collect();
    let all: Vec<Op<u32, u32>> = (0..300).map(|i| Op::Remove(i * 10)).collect();
    for (before, ops) in [(2, &many), (0, &all)] {
        let (lost, kept) = batches(UpdatePath::Rebuilt, before, ops);
        assert!(lost == 0 && kept > 10, "lost {lost} times, kept {kept}");
    }
}

#[test]
fn a_host_batch_that_fails_leaves_the_tree_as_it_was_or_lost() {
    let many: Vec<Op<u32, u32>> = (0..60).map(|i| Op::Insert(1000 + i, 9)).collect();
    for ops in [&[Op::Insert(5, 5), Op::Remove(300), Op::Update(20, 8)][..], &many] {
        Failure::at_every_point(
            |device| tree(device, 1),
            |(tree, _)| tree.apply(ops).map(drop),
            |(tree, model), error| {
                if matches!(error, Error::Lost { .. }) {
                    return assert_lost(tree);
                }
                assert_answers(tree, model);
                tree.apply(ops).unwrap();
                let mut after = model.clone();
                apply(&mut after, ops);
                assert_answers(tree, &after);
            },
        );
    }
}

#[test]
fn a_build_that_fails_leaves_nothing_and_its_scratch_memory_usable() {
    // Keys in any order, of which some occur twice.
    let keys: Vec<u32> = (0..500_u32).map(|i| i * 7919 % 400 * 3).collect();
    let values: Vec<u32> = (0..500).collect();
    let model: Model = keys.iter().copied().zip(values.iter().copied()).collect();
    let builder = Harmonia::<u32, u32>::builder();
    Failure::at_every_point(
        |device| {
            let buffers = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            (device.stream().unwrap(), buffers, BuildScratch::for_unsorted(device, 500).unwrap())
        },
        |(stream, buffers, scratch)| builder.build_on(stream, &buffers.0, &buffers.1, 500, scratch).map(drop),
        |(stream, buffers, scratch), error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            let tree = builder.build_on(stream, &buffers.0, &buffers.1, 500, scratch).unwrap();
            assert_answers(&tree, &model);
        },
    );
    // By the CPU: memory, and what is sent.
    Failure::at_every_point(
        Device::clone,
        |device| builder.build(device, &keys, &values).map(drop),
        |device, error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            assert_answers(&builder.build(device, &keys, &values).unwrap(), &model);
        },
    );
}

#[test]
fn look_ups_that_fail_say_so_and_the_next_ones_answer() {
    let queries: Vec<u32> = (0..100).map(|i| i * 31).collect();
    type Call = fn(&Harmonia<u32, u32>, &[u32]) -> Result<()>;
    let calls: [Call; 6] = [
        |tree, queries| tree.get_many(queries).map(drop),
        |tree, queries| tree.get_many_or(queries, 0, &mut [0; 100]),
        |tree, queries| tree.upper_bound_many(queries).map(drop),
        |tree, queries| tree.successor_many(queries).map(drop),
        |tree, queries| tree.range_many(queries.iter().map(|&key| key..=key + 50)).map(drop),
        |tree, queries| tree.count_range_many(queries.iter().map(|&key| key..=key + 50)).map(drop),
    ];
    for call in calls {
        for warm in [false, true] {
            Failure::at_every_point(
                |device| {
                    let (tree, model) = tree(device, 1);
                    if warm {
                        call(&tree, &queries).unwrap();
                    }
                    (tree, model)
                },
                |(tree, _)| call(tree, &queries),
                |(tree, model), error| {
                    assert!(matches!(error, Error::Runtime(_)), "{error}");
                    assert_answers(tree, model);
                },
            );
        }
    }
}

#[test]
fn pinned_look_ups_that_fail_say_so_and_the_next_ones_answer() {
    Failure::at_every_point(
        |device| {
            let (mut queries, values) = (device.pinned::<u32>(50).unwrap(), device.pinned::<u32>(50).unwrap());
            queries.iter_mut().zip(0..).for_each(|(query, i)| *query = i * 10);
            (tree(device, 0), queries, values)
        },
        |((tree, _), queries, values)| tree.get_many_pinned(queries, 0, values, None),
        |((tree, model), queries, values), _| {
            tree.get_many_pinned(queries, 0, values, None).unwrap();
            assert!(values.iter().copied().eq(0..50));
            assert_answers(tree, model);
        },
    );
}

#[test]
fn sorted_look_ups_that_fail_say_so_and_the_next_ones_answer() {
    Failure::at_every_point(
        |device| {
            let queries = device.upload(&(0..300).rev().map(|i| i * 10).collect::<Vec<u32>>()).unwrap();
            let (values, scratch) = (device.alloc::<u32>(300).unwrap(), PsaScratch::new(device, 300).unwrap());
            (tree(device, 0), device.stream().unwrap(), queries, values, scratch)
        },
        |((tree, _), stream, queries, values, scratch)| {
            tree.on(stream).miss(0).get_by_sorting(QuerySort::Full, queries, values, scratch)?;
            Ok(stream.synchronize()?)
        },
        |((tree, _), stream, queries, values, scratch), _: &Error| {
            tree.on(stream).miss(0).get_by_sorting(QuerySort::Full, queries, values, scratch).unwrap();
            stream.synchronize().unwrap();
            assert!(values.to_vec().unwrap().into_iter().eq((0..300).rev()));
        },
    );
}

#[test]
fn primitives_that_fail_say_so_and_their_scratch_memory_stays_usable() {
    const LEN: usize = 6000;
    let keys: Vec<u64> = (0..LEN as u64).map(|i| i * 7919 % 1000).collect();
    let values: Vec<u32> = (0..LEN as u32).collect();
    let mut sorted: Vec<(u64, u32)> = keys.iter().copied().zip(values.iter().copied()).collect();
    sorted.sort_by_key(|pair| pair.0);
    let distinct: BTreeMap<u64, u32> = sorted.iter().copied().collect();

    struct State {
        stream: Stream,
        input: (Buffer<u64>, Buffer<u32>),
        output: (Buffer<u64>, Buffer<u32>),
        distinct: (Buffer<u64>, Buffer<u32>),
        found: Buffer<u64>,
        sums: Buffer<u64>,
        scratch: (RadixSortScratch<u64, u32>, RunScratch, ScanScratch),
    }
    let work = |state: &mut State| {
        let State { stream, input, output, distinct, found, sums, scratch } = state;
        let sorting = (&mut output.0, &mut output.1);
        radix_sort(stream, (&input.0, &input.1), LEN, 0..64, sorting, &mut scratch.0)?;
        let pairs = Pairs { keys: &output.0, values: &output.1, count: LEN.into() };
        let out = PairsMut { keys: &mut distinct.0, values: &mut distinct.1, count: found };
        last_by_key(stream, pairs, out, &mut scratch.1)?;
        exclusive_scan(stream, &output.1, LEN, sums, &mut scratch.2)?;
        Ok(stream.synchronize()?)
    };
    Failure::at_every_point(
        |device| State {
            stream: device.stream().unwrap(),
            input: (device.upload(&keys).unwrap(), device.upload(&values).unwrap()),
            output: (device.alloc(LEN).unwrap(), device.alloc(LEN).unwrap()),
            distinct: (device.alloc(LEN).unwrap(), device.alloc(LEN).unwrap()),
            found: device.alloc(1).unwrap(),
            sums: device.alloc(LEN + 1).unwrap(),
            scratch: (
                RadixSortScratch::for_pairs(device, LEN).unwrap(),
                RunScratch::new(device, LEN).unwrap(),
                ScanScratch::new(device, LEN).unwrap(),
            ),
        },
        work,
        |state, error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            work(state).unwrap();
            let (keys, values) = (state.output.0.to_vec().unwrap(), state.output.1.to_vec().unwrap());
            assert!(keys.into_iter().zip(values).eq(sorted.iter().copied()));
            let found = state.found.to_vec().unwrap()[0] as usize;
            let (keys, values) = (state.distinct.0.to_vec().unwrap(), state.distinct.1.to_vec().unwrap());
            let pairs = keys.into_iter().zip(values).take(found);
            assert!(pairs.eq(distinct.iter().map(|(&key, &value)| (key, value))));
            let total: u64 = sorted.iter().map(|pair| u64::from(pair.1)).sum();
            assert_eq!(state.sums.to_vec().unwrap()[LEN], total);
        },
    );
}

#[test]
fn a_mirrored_pair_that_fails_on_the_device_is_out_of_step_until_it_is_sent_again() {
    let in_place = [Op::Insert(5, 5), Op::Remove(300), Op::Insert(1234, 6), Op::Update(20, 8), Op::Update(2990, 1)];
    let moved: Vec<Op<u32, u32>> = (0..60).map(|i| Op::Insert(1000 + i, 9)).collect();
    let mut failures = 0;
    for (kept, ops) in [(false, &in_place[..]), (true, &in_place), (false, &moved)] {
        let errors = Failure::at_every_point(
            |device| {
                let (tree, model) = tree(&Device::host(), 0);
                let mirrored = Mirrored::new(tree, device).unwrap();
                let version = kept.then(|| mirrored.device_index().clone());
                (mirrored, model, version)
            },
            |(mirrored, _, _)| mirrored.apply(ops).map(drop),
            |(mirrored, model, version), error| {
                assert!(matches!(error, Error::Runtime(_)) && !mirrored.is_in_sync(), "{error}");
                let mut after = model.clone();
                apply(&mut after, ops);
                assert_answers(mirrored.host_index(), &after);
                // The device's tree is the old one, or says that it is none.
                if !is_lost(mirrored.device_index().get_many(&[0])) {
                    assert_answers(mirrored.device_index(), model);
                }
                if let Some(version) = version {
                    assert_answers(version, model);
                }
                mirrored.synchronize().unwrap();
                assert!(mirrored.is_in_sync());
                assert_answers(mirrored.device_index(), &after);
            },
        );
        failures += errors.len();
    }
    assert!(failures > 10, "{failures} failures");
}
