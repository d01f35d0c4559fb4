//! What `failures.rs` does not reach of Harmonia and of the primitives: every other way in which a tree is built or
//! changed, every query in device form, and every other primitive, with a failure at each of its launches, kernels,
//! copies and allocations.

use crate::common::losses;
use lanetree::harmonia::{BuildScratch, UpdateScratch};
use lanetree::primitives::{
    Keys, KeysMut, MergeRule, MergeScratch, Pairs, PairsMut, RadixSortScratch, RunScratch, ScanScratch, SelectScratch,
    inclusive_max_scan, local_sort_pairs, merge, partition, radix_argsort, radix_sort, radix_sort_in_place,
    run_lengths, select, sum_by_key, unique_keys,
};
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
    fn new(device: &Device, fanout: u32, keys: u32, ops: &[Op<u32, u64>]) -> Self {
        let before = model(keys);
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
            tree: tree(device, fanout, &before),
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
        Ok(tree.apply_on(stream, lanetree::Batch { keys, values, kinds: kinds.as_ref() }, scratch)?.path)
    }
}

#[test]
fn batches_that_take_the_other_ways_leave_the_tree_as_it_was_or_lost() {
    let inserts: Vec<Op<u32, u64>> = (0..40).map(|i| Op::Insert(i * 31, 5)).collect();
    let mixed: Vec<Op<u32, u64>> = (0..30)
        .map(|i| match i % 3 {
            0 => Op::Insert(i * 40 + 1, 6),
            1 => Op::Update(i * 40, 7),
            _ => Op::Remove(i * 40),
        })
        .collect();
    let nothing = [Op::Update(1, 1), Op::Remove(2), Op::Update(10_001, 1)];
    let all: Vec<Op<u32, u64>> = (0..200).map(|i| Op::Remove(i * 10)).collect();
    // Into no tree at all; of leaves alone, and wide ones; without an effect; until nothing is left.
    let ways = [
        (8, 0, &inserts[..], UpdatePath::Rebuilt),
        (8, 3, &inserts, UpdatePath::Rebuilt),
        (128, 200, &mixed, UpdatePath::InPlace),
        (64, 20, &mixed, UpdatePath::InPlace),
        (16, 200, &nothing, UpdatePath::Unchanged),
        (32, 200, &all, UpdatePath::Rebuilt),
    ];
    for (fanout, keys, ops, path) in ways {
        let taken = Batch::new(&Device::emulated(), fanout, keys, ops).apply_on().unwrap();
        assert_eq!(taken, path, "fanout {fanout}, {keys} keys");
        let errors = Failure::at_every_point(
            |device| Batch::new(device, fanout, keys, ops),
            |batch| batch.apply_on().map(drop),
            |batch, error| {
                let lost = matches!(error, Error::Lost { .. });
                assert_eq!(is_lost(batch.tree.get_many(&[0])), lost, "{error}");
                if lost {
                    assert!(is_lost(batch.tree.iter().next().transpose()) || batch.tree.is_empty());
                    let later = batch.apply_on().unwrap_err();
                    assert_eq!(later.to_string(), error.to_string(), "with the same reason, said once");
                    return;
                }
                assert_answers(&batch.tree, &batch.before);
                batch.apply_on().unwrap();
                assert_answers(&batch.tree, &batch.after);
            },
        );
        let lost = losses(&errors);
        assert_eq!(lost > 0, path == UpdatePath::InPlace, "only what is written in place can be lost");
        assert!(errors.len() - lost > 5, "{} errors", errors.len());
    }
}

#[test]
fn every_call_for_changes_from_main_memory_leaves_the_tree_as_it_was_or_lost() {
    let keys: Vec<u32> = (0..25).map(|i| i * 45).collect();
    let values: Vec<u64> = (0..25).collect();
    type Call = fn(&mut Tree, &[u32], &[u64]) -> Result<()>;
    type Change = fn(u32, u64) -> Op<u32, u64>;
    let calls: [(Call, Change); 3] = [
        (|tree, keys, values| tree.insert_many(keys, values).map(drop), Op::Insert),
        (|tree, keys, values| tree.update_many(keys, values).map(drop), Op::Update),
        (|tree, keys, _| tree.remove_many(keys).map(drop), |key, _| Op::Remove(key)),
    ];
    for (call, change) in calls {
        let before = model(150);
        let ops: Vec<_> = keys.iter().zip(&values).map(|(&key, &value)| change(key, value)).collect();
        let mut after = before.clone();
        apply_to_map(&mut after, &ops);
        let errors = Failure::at_every_point(
            |device| tree(device, 8, &before),
            |tree| call(tree, &keys, &values),
            |tree, error| {
                if matches!(error, Error::Lost { .. }) {
                    assert!(is_lost(tree.get_many(&[0])) && is_lost(call(tree, &keys, &values)));
                    return;
                }
                assert_answers(tree, &before);
                call(tree, &keys, &values).unwrap();
                assert_answers(tree, &after);
            },
        );
        assert!(errors.len() > 10, "{} errors", errors.len());
    }
}

#[test]
fn builds_from_sorted_pairs_that_fail_leave_nothing() {
    // With keys that occur twice, and without.
    for step in [1, 2] {
        let keys: Vec<u32> = (0..300).map(|i| i / step * step * 7).collect();
        let values: Vec<u64> = (0..300).collect();
        let model: Model = keys.iter().copied().zip(values.iter().copied()).collect();
        let builder = Harmonia::<u32, u64>::builder().fanout(16);
        Failure::at_every_point(
            Device::clone,
            |device| builder.build_sorted(device, &keys, &values).map(drop),
            |device, error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                assert_answers(&builder.build_sorted(device, &keys, &values).unwrap(), &model);
            },
        );
        let errors = Failure::at_every_point(
            |device| {
                let buffers = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                (device.stream().unwrap(), buffers, BuildScratch::for_sorted(device).unwrap())
            },
            |(stream, buffers, scratch)| {
                builder.build_sorted_on(stream, &buffers.0, &buffers.1, 300, scratch).map(drop)
            },
            |(stream, buffers, scratch), error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                let tree = builder.build_sorted_on(stream, &buffers.0, &buffers.1, 300, scratch).unwrap();
                assert_answers(&tree, &model);
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
    let ways: [(Call, &[u32], Change); 5] = [
        (insert, &few, |key| Op::Insert(key, 9)),
        (insert, &many, |key| Op::Insert(key, 9)),
        (update, &few, |key| Op::Update(key, 9)),
        (remove, &few, Op::Remove),
        (remove, &all, Op::Remove),
    ];
    for (call, keys, change) in ways {
        let mut after = before.clone();
        apply_to_map(&mut after, &keys.iter().map(|&key| change(key)).collect::<Vec<_>>());
        let pair = |device: &Device| Mirrored::new(tree(&Device::host(), 8, &before), device).unwrap();
        Failure::at_every_point(
            pair,
            |pair| call(pair, keys),
            |pair, error| {
                assert!(matches!(error, Error::Runtime(_)) && !pair.is_in_sync(), "{error}");
                assert_answers(pair.host_index(), &after);
                if !is_lost(pair.device_index().get_many(&[0])) {
                    assert_answers(pair.device_index(), &before);
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

/// Buffers of queries in device form.
struct Queries {
    tree: Tree,
    stream: Stream,
    queries: Buffer<u32>,
    keys: Buffer<u32>,
    values: Buffer<u64>,
    ranks: Buffer<u64>,
    hits: Buffer<u32>,
    scratch: RangeScratch,
    ranges: DeviceRanges<u32, u64>,
}

#[test]
fn queries_in_device_form_that_fail_say_so_and_the_next_ones_answer() {
    const LEN: usize = 70;
    type Call = fn(&mut Queries) -> Result<()>;
    let calls: [Call; 7] = [
        |it| it.tree.on(&it.stream).hits(&mut it.hits).miss(0).get(&it.queries, &mut it.values),
        |it| it.tree.on(&it.stream).lower_bound(&it.queries, &mut it.ranks),
        |it| it.tree.on(&it.stream).upper_bound(&it.queries, &mut it.ranks),
        |it| {
            let on = it.tree.on(&it.stream);
            on.hits(&mut it.hits).miss(0).predecessor(&it.queries, &mut it.keys, &mut it.values)
        },
        |it| it.tree.on(&it.stream).hits(&mut it.hits).miss(0).successor(&it.queries, &mut it.keys, &mut it.values),
        |it| {
            let on = it.tree.on(&it.stream);
            on.limit(9).range(&it.queries, &it.queries, &mut it.scratch, &mut it.ranges)
        },
        |it| it.tree.on(&it.stream).limit(9).count_range(&it.queries, &it.queries, &mut it.ranks),
    ];
    let model = model(200);
    let queries: Vec<u32> = (0..LEN as u32).map(|i| i * 25).collect();
    for call in calls {
        let work = |it: &mut Queries| {
            call(it)?;
            Ok(it.stream.synchronize()?)
        };
        let all = |it: &Queries| {
            (
                (it.keys.to_vec().unwrap(), it.values.to_vec().unwrap(), it.ranks.to_vec().unwrap()),
                (it.hits.to_vec().unwrap(), it.ranges.offsets.to_vec().unwrap(), it.ranges.keys.to_vec().unwrap()),
            )
        };
        let set_up = |device: &Device| Queries {
            tree: tree(device, 16, &model),
            stream: device.stream().unwrap(),
            queries: device.upload(&queries).unwrap(),
            keys: device.alloc_zeroed(LEN).unwrap(),
            values: device.alloc_zeroed(LEN).unwrap(),
            ranks: device.alloc_zeroed(LEN).unwrap(),
            hits: device.alloc_zeroed(LEN.div_ceil(32)).unwrap(),
            scratch: RangeScratch::new(device, LEN).unwrap(),
            ranges: DeviceRanges {
                offsets: device.alloc_zeroed(LEN + 1).unwrap(),
                keys: device.alloc_zeroed(50).unwrap(),
                values: device.alloc_zeroed(50).unwrap(),
            },
        };
        let mut whole = set_up(&Device::emulated());
        let before = all(&whole);
        work(&mut whole).unwrap();
        let expected = all(&whole);
        assert_ne!(before, expected, "the call has written something");
        let errors = Failure::at_every_point(set_up, work, |it, error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            work(it).unwrap();
            assert_eq!(all(it), expected);
            assert_answers(&it.tree, &model);
        });
        assert!(errors.len() >= 2, "a launch that is refused, and a kernel that fails");
    }
}

/// What primitives work on: two sorted sequences and one in any order.
struct Work {
    stream: Stream,
    keys: Buffer<u64>,
    values: Buffer<u32>,
    sorted: Buffer<u64>,
    flags: Buffer<u32>,
    out_keys: Buffer<u64>,
    out_values: Buffer<u32>,
    sums: Buffer<u64>,
    count: Buffer<u64>,
    sort: RadixSortScratch<u64, u32>,
    runs: RunScratch,
    scan: ScanScratch,
    select: SelectScratch,
    merge: MergeScratch,
}

const LEN: usize = 5000;

impl Work {
    fn new(device: &Device) -> Self {
        let keys: Vec<u64> = (0..LEN as u64).map(|i| i * 7919 % 1000).collect();
        let values: Vec<u32> = (0..LEN as u32).map(|i| i % 77).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        Self {
            stream: device.stream().unwrap(),
            keys: device.upload(&keys).unwrap(),
            values: device.upload(&values).unwrap(),
            sorted: device.upload(&sorted).unwrap(),
            flags: device.upload(&vec![0x0f0f_3c5a; LEN.div_ceil(32)]).unwrap(),
            out_keys: device.alloc_zeroed(2 * LEN).unwrap(),
            out_values: device.alloc_zeroed(2 * LEN).unwrap(),
            sums: device.alloc_zeroed(2 * LEN).unwrap(),
            count: device.alloc_zeroed(4).unwrap(),
            sort: RadixSortScratch::for_pairs(device, LEN).unwrap(),
            runs: RunScratch::new(device, LEN).unwrap(),
            scan: ScanScratch::new(device, LEN).unwrap(),
            select: SelectScratch::new(device, LEN).unwrap(),
            merge: MergeScratch::new(device, 2 * LEN).unwrap(),
        }
    }

    fn results(&self) -> (Vec<u64>, Vec<u32>, Vec<u64>, u64) {
        let count = self.count.to_vec().unwrap()[0];
        (self.out_keys.to_vec().unwrap(), self.out_values.to_vec().unwrap(), self.sums.to_vec().unwrap(), count)
    }
}

#[test]
fn each_other_primitive_that_fails_says_so_and_its_scratch_memory_stays_usable() {
    type Call = fn(&mut Work) -> Result<()>;
    let calls: [(&str, Call); 14] = [
        ("radix_sort_keys", |it| radix_sort(&it.stream, &it.keys, LEN, 0..64, &mut it.out_keys, &mut it.sort)),
        ("radix_argsort", |it| {
            radix_argsort(&it.stream, &it.keys, LEN, 0..64, &mut it.out_keys, &mut it.out_values, &mut it.sort)
        }),
        ("radix_sort_keys_in_place", |it| {
            it.out_keys.copy_from_buffer(&it.stream, 0, &it.keys, 0..LEN)?;
            radix_sort_in_place(&it.stream, &mut it.out_keys, LEN, 0..20, &mut it.sort)
        }),
        ("radix_sort_pairs_in_place", |it| {
            it.out_keys.copy_from_buffer(&it.stream, 0, &it.keys, 0..LEN)?;
            it.out_values.copy_from_buffer(&it.stream, 0, &it.values, 0..LEN)?;
            let pairs = (&mut it.out_keys, &mut it.out_values);
            radix_sort_in_place(&it.stream, pairs, LEN, 0..20, &mut it.sort)
        }),
        ("local_sort_pairs", |it| {
            it.out_keys.copy_from_buffer(&it.stream, 0, &it.keys, 0..LEN)?;
            it.out_values.copy_from_buffer(&it.stream, 0, &it.values, 0..LEN)?;
            local_sort_pairs(&it.stream, &mut it.out_keys, &mut it.out_values, LEN, 0, &mut it.count)
        }),
        ("inclusive_max_scan", |it| inclusive_max_scan(&it.stream, &it.keys, LEN, &mut it.sums, &mut it.scan)),
        ("unique_keys", |it| {
            let input = Keys { keys: &it.sorted, count: LEN.into() };
            unique_keys(&it.stream, input, KeysMut { keys: &mut it.out_keys, count: &mut it.count }, &mut it.runs)
        }),
        ("run_lengths", |it| {
            let input = Keys { keys: &it.sorted, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.sums, count: &mut it.count };
            run_lengths(&it.stream, input, out, &mut it.runs)
        }),
        ("sum_by_key", |it| {
            let input = Pairs { keys: &it.sorted, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.sums, count: &mut it.count };
            sum_by_key(&it.stream, input, out, &mut it.runs)
        }),
        ("select", |it| {
            let input = Keys { keys: &it.keys, count: LEN.into() };
            let out = KeysMut { keys: &mut it.out_keys, count: &mut it.count };
            select(&it.stream, input, &it.flags, out, &mut it.select)?;
            let input = Pairs { keys: &it.keys, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.out_values, count: &mut it.count };
            select(&it.stream, input, &it.flags, out, &mut it.select)
        }),
        ("partition", |it| {
            let input = Keys { keys: &it.keys, count: LEN.into() };
            let out = KeysMut { keys: &mut it.out_keys, count: &mut it.count };
            partition(&it.stream, input, &it.flags, out, &mut it.select)?;
            let input = Pairs { keys: &it.keys, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.out_values, count: &mut it.count };
            partition(&it.stream, input, &it.flags, out, &mut it.select)
        }),
        ("merge_keys", |it| {
            let input = Keys { keys: &it.sorted, count: LEN.into() };
            let out = KeysMut { keys: &mut it.out_keys, count: &mut it.count };
            merge(&it.stream, MergeRule::KeepBoth, input, input, out, &mut it.merge)
        }),
        ("merge_pairs", |it| {
            let input = Pairs { keys: &it.sorted, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.out_values, count: &mut it.count };
            merge(&it.stream, MergeRule::KeepBoth, input, input, out, &mut it.merge)
        }),
        ("scratch memory", |it| {
            // Its own allocations.
            let device = it.stream.device();
            it.sort = RadixSortScratch::for_pairs(device, LEN)?;
            it.runs = RunScratch::new(device, LEN)?;
            it.scan = ScanScratch::new(device, LEN)?;
            it.select = SelectScratch::new(device, LEN)?;
            it.merge = MergeScratch::new(device, 2 * LEN)?;
            inclusive_max_scan(&it.stream, &it.keys, LEN, &mut it.sums, &mut it.scan)
        }),
    ];
    for (name, call) in calls {
        let work = |it: &mut Work| {
            call(it)?;
            Ok(it.stream.synchronize()?)
        };
        let mut whole = Work::new(&Device::emulated());
        let before = whole.results();
        work(&mut whole).unwrap();
        let expected = whole.results();
        assert!(before != expected, "{name} has written something");
        let errors = Failure::at_every_point(Work::new, work, |it, error| {
            assert!(matches!(error, Error::Runtime(_)), "{name}: {error}");
            work(it).unwrap();
            assert!(it.results() == expected, "{name} after {error}");
        });
        assert!(errors.len() >= 2, "{name}: a launch that is refused, and a kernel that fails");
    }
}
