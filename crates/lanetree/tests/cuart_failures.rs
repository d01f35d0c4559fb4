//! Whatever fails on the device while a CuART tree is changed, and whenever: the call says so, and afterwards the tree
//! is unchanged, or says that it is lost; what the host or a pool lacks of memory loses nothing.
//!
//! On the emulator: each test runs once for every launch, kernel, transfer and allocation of its work.

use crate::common::cuart_lost as lost;
use crate::common::cuart_models as models;

use crate::common::{Failed, losses};
use core::cell::Cell;
use lanetree::cuart::{ChangeScratch, LongKeys, UpdateEngine};
use lanetree::runtime::Failure;
use lanetree::{
    Buffer, ByteKeysBuf, Cuart, Device, DeviceKeys, Error, Mirrored, Op, Pool, Result, Stream, UpdateReport,
    apply_to_map,
};
use lost::assert_lost;
use models::{
    Key, Model, Ops, assert_answers, assert_memory_loses_nothing, batches, below, build, key, long, model, packed,
};
use std::collections::BTreeMap;

/// A tree to be changed, and what it holds before and after that.
struct Subject {
    tree: Cuart<u32>,
    before: Model,
    after: Model,
}

impl Subject {
    fn new(device: &Device, long_keys: bool, ops: &[Op<Key, u32>]) -> Self {
        let before = model(long_keys);
        let mut after = before.clone();
        apply_to_map(&mut after, ops);
        Self { tree: build(device, &before), before, after }
    }

    /// As [`Subject::new`], of a tree with nodes whose path no leaf tells any more.
    fn bare(device: &Device, ops: &[Op<Key, u32>]) -> Self {
        let mut subject = Self::new(device, false, &[]);
        let gone: Vec<Key> = (0..6).map(below).collect();
        subject.tree.remove_many(&packed(&gone)).unwrap();
        subject.before.retain(|key, _| !gone.contains(key));
        subject.after = subject.before.clone();
        apply_to_map(&mut subject.after, ops);
        subject
    }

    /// The tree is lost, and says so, or as it was, and takes the change; and then another one.
    fn check(&mut self, error: &Error, again: impl Fn(&mut Cuart<u32>) -> Result<()>) {
        if matches!(error, Error::Lost { .. }) {
            return assert_lost(&mut self.tree);
        }
        assert!(matches!(error, Error::Runtime(_)), "{error}");
        assert_answers(&self.tree, &self.before);
        again(&mut self.tree).unwrap();
        assert_answers(&self.tree, &self.after);
        let ops = [Op::Insert(key(1000), 1), Op::Remove(key(1)), Op::Update(key(2), 5), Op::Insert(below(50), 7)];
        self.tree.apply(&ops).unwrap();
        apply_to_map(&mut self.after, &ops);
        assert_answers(&self.tree, &self.after);
    }
}

/// A change in host form, with every failure on its way.
fn host_form(
    set_up: impl Fn(&Device) -> Subject,
    change: impl Fn(&mut Cuart<u32>) -> Result<UpdateReport>,
) -> Vec<Failed> {
    let failed = Failure::at_every_point(
        set_up,
        |subject| change(&mut subject.tree).map(drop),
        |subject, error| subject.check(error, |tree| change(tree).map(drop)),
    );
    let lost = losses(&failed);
    assert!(lost > 0 && lost < failed.len(), "lost {lost} of {} times", failed.len());
    failed
}

#[test]
fn a_host_batch_that_fails_leaves_the_tree_as_it_was_or_lost() {
    for (what, ops) in batches() {
        println!("{what}");
        let long_keys = what.contains("of");
        let failed = host_form(|device| Subject::new(device, long_keys, &ops), |tree| tree.apply(&ops));
        assert_memory_loses_nothing(&failed);
    }
}

#[test]
fn inserts_updates_and_removals_that_fail_leave_the_tree_as_it_was_or_lost() {
    // More than one block: kernels that fail have done a part.
    let keys: Vec<Key> = (20..600).map(key).collect();
    let batch = packed(&keys);
    let of = |op: fn(Key) -> Op<Key, u32>| keys.iter().cloned().map(op).collect::<Ops>();
    let values = vec![7; keys.len()];
    let ops = of(|key| Op::Insert(key, 7));
    let failed = host_form(|device| Subject::new(device, false, &ops), |tree| tree.insert_many(&batch, &values));
    assert_memory_loses_nothing(&failed);
    let ops = of(|key| Op::Update(key, 7));
    let failed = host_form(|device| Subject::new(device, true, &ops), |tree| tree.update_many(&batch, &values));
    assert_memory_loses_nothing(&failed);
    let ops = of(Op::Remove);
    let failed = host_form(|device| Subject::new(device, true, &ops), |tree| tree.remove_many(&batch));
    assert_memory_loses_nothing(&failed);
}

#[test]
fn a_batch_that_builds_the_tree_again_on_its_way_leaves_it_as_it_was_or_lost() {
    let mut ops: Ops = (0..9).map(|i| Op::Insert(below(i), 9)).collect();
    ops.extend([Op::Remove(key(3)), Op::Update(key(4), 1)]);
    host_form(|device| Subject::bare(device, &ops), |tree| tree.apply(&ops));
}

/// A batch in buffers.
struct Batch {
    subject: Subject,
    stream: Stream,
    keys: DeviceKeys,
    values: Buffer<u32>,
    hits: Buffer<u32>,
    scratch: ChangeScratch,
    /// Whether the call has returned, with its work on its way.
    on_its_way: Cell<bool>,
}

impl Batch {
    fn new(subject: Subject, keys: &[Key], engine: UpdateEngine) -> Self {
        let device = subject.tree.device().clone();
        let values: Vec<u32> = (0..keys.len() as u32).map(|i| i + 1000).collect();
        Self {
            subject,
            stream: device.stream().unwrap(),
            keys: DeviceKeys::upload(&device, &packed(keys)).unwrap(),
            values: device.upload(&values).unwrap(),
            hits: device.alloc(keys.len().div_ceil(32)).unwrap(),
            scratch: ChangeScratch::for_inserts(&device, keys.len(), engine).unwrap().pieces_of(100),
            on_its_way: Cell::new(false),
        }
    }

    fn call(&mut self, call: &Call) -> Result<()> {
        self.on_its_way.set(false);
        let Self { subject: Subject { tree, .. }, stream, keys, values, hits, scratch, .. } = self;
        call(tree, stream, keys, values, hits, scratch)?;
        self.on_its_way.set(true);
        Ok(self.stream.synchronize()?)
    }

    fn check(&mut self, error: &Error, call: &Call) {
        if self.on_its_way.get() {
            // A kernel failed after the call had returned, and nothing on the device can be used any longer: it is only
            // here that a test can repair it.
            return assert!(matches!(error, Error::Runtime(_)), "{error}");
        }
        let Self { subject, stream, keys, values, hits, scratch, .. } = self;
        let scratch = core::cell::RefCell::new((hits, scratch));
        subject.check(error, |tree| {
            let (hits, scratch) = &mut *scratch.borrow_mut();
            call(tree, stream, keys, values, hits, scratch)
        });
    }
}

type Call =
    dyn Fn(&mut Cuart<u32>, &Stream, &DeviceKeys, &Buffer<u32>, &mut Buffer<u32>, &mut ChangeScratch) -> Result<()>;

fn device_form(set_up: impl Fn(&Device) -> Subject, keys: &[Key], engine: UpdateEngine, call: &Call) -> Vec<Failed> {
    Failure::at_every_point(
        |device| Batch::new(set_up(device), keys, engine),
        |batch| batch.call(call),
        |batch, error| batch.check(error, call),
    )
}

const ENGINES: [(UpdateEngine, bool); 6] = [
    (UpdateEngine::Auto, false),
    (UpdateEngine::Auto, true),
    (UpdateEngine::HashTable, true),
    (UpdateEngine::Stamps, false),
    (UpdateEngine::Sequence, false),
    (UpdateEngine::Sort, true),
];

/// Keys in a batch several times, of which the last one counts.
fn repeated(keys: impl Iterator<Item = Key>) -> Vec<Key> {
    let keys: Vec<Key> = keys.collect();
    keys.iter().chain(&keys).chain(&keys[..keys.len() / 2]).cloned().collect()
}

fn as_ops(keys: &[Key], op: fn(Key, u32) -> Op<Key, u32>) -> Ops {
    keys.iter().cloned().zip(1000..).map(|(key, value)| op(key, value)).collect()
}

#[test]
fn updates_in_device_form_that_fail_leave_the_tree_as_it_was_or_lost() {
    let keys = repeated((0..150).map(key));
    let ops = as_ops(&keys, Op::Update);
    for (engine, long_keys) in ENGINES {
        let failed = device_form(
            |device| Subject::new(device, long_keys, &ops),
            &keys,
            engine,
            &|tree, stream, keys, values, hits, scratch| tree.update_on(stream, keys, values, Some(hits), scratch),
        );
        assert!(failed.len() > 1, "{engine:?}");
        assert_memory_loses_nothing(&failed);
        // In pieces, the second of which fails when the first has written.
        assert!(engine != UpdateEngine::HashTable || losses(&failed) > 3, "{} losses", losses(&failed));
    }
}

#[test]
fn inserts_in_device_form_that_fail_leave_the_tree_as_it_was_or_lost() {
    for (engine, long_keys) in ENGINES {
        let keys = repeated((10..70).map(key).chain((0..if long_keys { 14 } else { 0 }).map(long)));
        let ops = as_ops(&keys, Op::Insert);
        let failed = device_form(
            |device| Subject::new(device, long_keys, &ops),
            &keys,
            engine,
            &|tree, stream, keys, values, _, scratch| tree.insert_on(stream, keys, values, scratch).map(drop),
        );
        assert!(losses(&failed) > 3, "{engine:?}: {} losses", losses(&failed));
        assert_memory_loses_nothing(&failed);
    }
}

#[test]
fn inserts_in_several_turns_that_fail_leave_the_tree_as_it_was_or_lost() {
    let keys = repeated((0..9).map(below).chain((0..20).map(key)));
    let ops = as_ops(&keys, Op::Insert);
    let failed = device_form(
        |device| Subject::bare(device, &ops),
        &keys,
        UpdateEngine::Auto,
        &|tree, stream, keys, values, _, scratch| tree.insert_on(stream, keys, values, scratch).map(drop),
    );
    assert!(losses(&failed) > 20, "the second turn has as many points: {} losses", losses(&failed));
}

#[test]
fn removals_in_device_form_that_fail_leave_the_tree_as_it_was_or_lost() {
    for long_keys in [false, true] {
        let keys = repeated((0..150).map(key).chain((0..5).map(long)));
        let ops: Ops = keys.iter().cloned().map(Op::Remove).collect();
        let failed = device_form(
            |device| Subject::new(device, long_keys, &ops),
            &keys,
            UpdateEngine::Auto,
            &|tree, stream, keys, _, _, _| tree.remove_on(stream, keys).map(drop),
        );
        assert!(losses(&failed) > 0);
        assert_memory_loses_nothing(&failed);
    }
}

#[test]
fn a_compaction_that_fails_leaves_the_tree_as_it_was() {
    for long_keys in [LongKeys::DeviceLeaves, LongKeys::HostLeaves] {
        let failed = Failure::at_every_point(
            |device| {
                let mut model = model(true);
                let values: Vec<u32> = model.values().copied().collect();
                let builder = Cuart::builder().long_keys(long_keys);
                let mut tree = builder.build(&Device::host(), &packed(model.keys()), &values).unwrap();
                tree.remove_many(&packed([&key(3)])).unwrap();
                model.remove(&key(3));
                (tree.to_device(device).unwrap(), model)
            },
            |(tree, _)| tree.compact().map(drop),
            |(tree, model), error| {
                assert!(matches!(error, Error::Runtime(_)) && !tree.is_compact(), "{error}");
                let answers = |tree: &Cuart<u32>| tree.get_many(&packed(model.keys())).unwrap();
                let expected: Vec<_> = model.values().map(|&value| Some(value)).collect();
                assert_eq!(answers(tree), expected);
                tree.compact().unwrap();
                assert_eq!((answers(tree), tree.is_compact()), (expected, true));
            },
        );
        assert!(failed.len() > 10, "{} failures", failed.len());
    }
}

#[test]
fn a_build_that_fails_leaves_nothing() {
    // By the device, of keys in any order, some of them several times; and by the host.
    let numbers: Vec<u64> = (0..500).map(|i| i * 7919 % 400).collect();
    let values: Vec<u32> = (0..500).collect();
    let expected: BTreeMap<u64, u32> = numbers.iter().copied().zip(values.iter().copied()).collect();
    let check = |tree: &Cuart<u32>| {
        let keys: Vec<u64> = expected.keys().copied().collect();
        let found = tree.get_many(&ByteKeysBuf::encode(&keys)).unwrap();
        assert!(found.into_iter().eq(expected.values().map(|&value| Some(value))));
    };
    let failed = Failure::at_every_point(
        |device| {
            let stream = device.stream().unwrap();
            let keys = DeviceKeys::upload(device, &ByteKeysBuf::encode(&numbers)).unwrap();
            (stream, keys, device.upload(&values).unwrap())
        },
        |(stream, keys, values)| Cuart::builder().build_on(stream, keys, values).map(drop),
        |(stream, keys, values), error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            check(&Cuart::builder().build_on(stream, keys, values).unwrap());
        },
    );
    assert!(failed.len() > 20, "{} failures", failed.len());
    Failure::at_every_point(
        Device::clone,
        |device| Cuart::build(device, &ByteKeysBuf::encode(&numbers), &values).map(drop),
        |device, error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            check(&Cuart::build(device, &ByteKeysBuf::encode(&numbers), &values).unwrap());
        },
    );
}

/// A user's loop, in a pool with little room: some batches find none, and no tree is lost by that.
#[test]
fn batches_that_a_pool_has_no_room_for_leave_the_tree_as_it_was() {
    const LIMIT: usize = 64 << 20;
    let pool = Pool::with_limit(&Device::emulated(), LIMIT);
    let mut model = model(false);
    let mut tree = build(&pool.device(), &model);
    let mut refused = 0;
    for round in 0..60_u32 {
        let ops: Ops = (0..30)
            .map(|i| {
                let key = key(round * 13 + i * 7);
                if (round + i) % 3 == 0 { Op::Remove(key) } else { Op::Insert(key, round) }
            })
            .collect();
        pool.trim();
        let room = if round % 2 == 0 { LIMIT / 4 } else { 512 * round as usize };
        // Blocks are larger than what is in them, by a quarter at most.
        let others: usize = (LIMIT - pool.stats().in_use).saturating_sub(room);
        let mut ballast = Vec::new();
        let mut size = others.next_power_of_two();
        while size >= 512 {
            match pool.device().alloc::<u8>(size) {
                Ok(buffer) if LIMIT - pool.stats().in_use >= room => ballast.push(buffer),
                _ => size /= 2,
            }
        }
        let result = tree.apply(&ops);
        drop(ballast);
        match result {
            Ok(_) => {
                apply_to_map(&mut model, &ops);
            }
            Err(Error::Runtime(_)) => refused += 1,
            Err(error) => panic!("round {round}: {error}"),
        }
        assert_answers(&tree, &model);
    }
    assert!(refused > 5 && refused < 60, "{refused} batches");
}

#[test]
fn a_mirrored_pair_that_fails_on_the_device_has_no_tree_there_until_it_is_sent_again() {
    let mut all = batches().map(|(_, ops)| ops).to_vec();
    // Sent whole.
    all.push((0..5000_u32).map(|i| Op::Insert(i.to_be_bytes().to_vec(), i)).collect());
    for ops in all {
        let failed = Failure::at_every_point(
            |device| {
                let mut after = model(true);
                let tree = build(&Device::host(), &after);
                apply_to_map(&mut after, &ops);
                (Mirrored::new(tree, device).unwrap(), after)
            },
            |(pair, _)| pair.apply(&ops).map(drop),
            |(pair, after), error| {
                assert!(matches!(error, Error::Runtime(_)), "{error}");
                assert!(!pair.is_in_sync(), "{error}");
                assert_answers(pair.host_index(), after);
                pair.synchronize().unwrap();
                assert_answers(pair.device_index(), after);
                // It is a whole tree, also for changes.
                let ops = [Op::Insert(key(1000), 1), Op::Remove(key(1)), Op::Insert(long(90), 7)];
                pair.apply(&ops).unwrap();
                apply_to_map(after, &ops);
                assert_answers(pair.device_index(), after);
            },
        );
        assert!(failed.len() > 2, "{} failures", failed.len());
    }
}
