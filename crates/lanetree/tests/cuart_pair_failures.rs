//! As `cuart_failures.rs`, of two trees: one that the CPU changes and its copy on a device, and one of which the device has
//! the short keys and the CPU the long ones.

use crate::common::cuart_lost as lost;
use crate::common::cuart_models as models;

use lanetree::cuart::Hybrid;
use lanetree::runtime::Failure;
use lanetree::{ByteKeysBuf, Device, Error, Mirrored, Op, Result, UpdateReport, apply_to_map};
use lost::assert_hybrid_lost;
use models::{Key, Model, Ops, assert_answers, assert_memory_loses_nothing, batches, build, key, long, model, packed};

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

#[test]
fn a_mirrored_pair_whose_compaction_fails_has_the_same_pairs() {
    Failure::at_every_point(
        |device| {
            let ops = [Op::Remove(key(3)), Op::Insert(long(90), 7)];
            let mut after = model(true);
            let mut pair = Mirrored::new(build(&Device::host(), &after), device).unwrap();
            apply_to_map(&mut after, &ops);
            pair.apply(&ops).unwrap();
            (pair, after)
        },
        |(pair, _)| pair.restore_order().map(drop),
        |(pair, after), error| {
            assert!(matches!(error, Error::Runtime(_)) && !pair.is_in_sync(), "{error}");
            assert_answers(pair.host_index(), after);
            pair.restore_order().unwrap();
            assert_answers(pair.device_index(), after);
            assert!(pair.device_index().is_compact());
        },
    );
}

/// Two trees as one, and what they hold.
fn assert_pair_answers(pair: &Hybrid<u32>, model: &Model) {
    assert_eq!(pair.len(), model.len() as u64);
    let expected: Vec<_> = model.values().map(|&value| Some(value)).collect();
    assert_eq!(pair.get_many(&packed(model.keys())).unwrap(), expected);
}

#[test]
fn a_pair_of_trees_that_fails_on_the_device_has_no_half_of_a_batch() {
    for (what, ops) in batches() {
        println!("{what}");
        type Change = fn(&mut Hybrid<u32>, &[Op<Key, u32>]) -> Result<UpdateReport>;
        fn keys(ops: &[Op<Key, u32>]) -> ByteKeysBuf {
            packed(ops.iter().map(|op| match op {
                Op::Insert(key, _) | Op::Update(key, _) | Op::Remove(key) => key,
            }))
        }
        fn as_inserts(ops: &[Op<Key, u32>], op: fn(Key) -> Op<Key, u32>) -> Ops {
            keys(ops).iter().map(|key| op(key.to_vec())).collect()
        }
        let changes: [(Change, Ops); 4] = [
            (|pair, ops| pair.apply(ops), ops.clone()),
            (|pair, ops| pair.insert_many(&keys(ops), &vec![4; ops.len()]), as_inserts(&ops, |key| Op::Insert(key, 4))),
            (|pair, ops| pair.update_many(&keys(ops), &vec![4; ops.len()]), as_inserts(&ops, |key| Op::Update(key, 4))),
            (|pair, ops| pair.remove_many(&keys(ops)), as_inserts(&ops, Op::Remove)),
        ];
        for (change, effect) in changes {
            let failed = Failure::at_every_point(
                |device| {
                    let before = model(true);
                    let mut after = before.clone();
                    apply_to_map(&mut after, &effect);
                    let values: Vec<u32> = before.values().copied().collect();
                    (Hybrid::build(device, &packed(before.keys()), &values).unwrap(), before, after)
                },
                |(pair, ..)| change(pair, &ops).map(drop),
                |(pair, before, after), error| {
                    if matches!(error, Error::Lost { .. }) {
                        // Nor has the host its half.
                        let long: Vec<&Key> = before.keys().filter(|key| key.len() > 32).collect();
                        let expected: Vec<_> = long.iter().map(|key| before.get(*key).copied()).collect();
                        assert_eq!(pair.host_tree().get_many(&packed(long)).unwrap(), expected);
                        return assert_hybrid_lost(pair);
                    }
                    assert!(matches!(error, Error::Runtime(_)), "{error}");
                    assert_pair_answers(pair, before);
                    change(pair, &ops).unwrap();
                    assert_pair_answers(pair, after);
                },
            );
            assert_memory_loses_nothing(&failed);
        }
    }
}

#[test]
fn a_pair_of_trees_whose_compaction_fails_has_the_same_pairs() {
    Failure::at_every_point(
        |device| {
            let mut model = model(true);
            let values: Vec<u32> = model.values().copied().collect();
            let mut pair = Hybrid::build(device, &packed(model.keys()), &values).unwrap();
            let ops = [Op::Remove(key(3)), Op::Remove(long(3))];
            pair.apply(&ops).unwrap();
            apply_to_map(&mut model, &ops);
            (pair, model)
        },
        |(pair, _)| pair.compact().map(drop),
        |(pair, model), error| {
            assert!(matches!(error, Error::Runtime(_)), "{error}");
            assert_pair_answers(pair, model);
            pair.compact().unwrap();
            assert_pair_answers(pair, model);
            assert!(pair.is_compact());
        },
    );
}
