//! Trees on the emulator against a model.

use super::build::tests::compare;
use super::{ChangeScratch, DeviceByteRanges, GatherScratch, Lanes, UpdateEngine};
use crate::Cuart;
use crate::parts::Parts;
use crate::{Link, LinkType, LongKeys, RootTable};
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, DeviceKeys};
use lanetree_frame::{Device, Result, Word};
use lanetree_runtime::Failure;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Model<V> = BTreeMap<Vec<u8>, V>;

/// Strings of a kind, absent ones too.
fn strings(kind: &str, count: usize, rng: &mut StdRng) -> Vec<Vec<u8>> {
    let mut random = |len: usize| (0..len).map(|_| rng.random::<u8>()).collect::<Vec<u8>>();
    match kind {
        "4" => (0..count).map(|_| random(4)).collect(),
        "8" => (0..count).map(|_| random(8)).collect(),
        "8, dense" => (0..count as u64).map(|i| (i * 3).to_be_bytes().to_vec()).collect(),
        "16" => (0..count).map(|_| random(16)).collect(),
        "32" => (0..count).map(|_| random(32)).collect(),
        "prefixes" => (0..count.min(90)).map(|len| b"lanetree".repeat(12)[..len].to_vec()).collect(),
        "runs" => {
            (0..count).map(|i| [vec![0; i % 23], vec![255; i % 17], vec![(i % 5) as u8; i % 7]].concat()).collect()
        }
        "last byte" => (0..count).map(|i| [&[b'x'; 40][..], &[(i / 256) as u8, i as u8]].concat()).collect(),
        "words" => (0..count).map(|i| (i * i * 7919 + i).to_string().into_bytes()).collect(),
        _ => unreachable!(),
    }
}

const KINDS: [&str; 9] = ["4", "8", "8, dense", "16", "32", "prefixes", "runs", "last byte", "words"];

fn packed<'a>(keys: impl IntoIterator<Item = &'a Vec<u8>>) -> ByteKeysBuf {
    keys.into_iter().collect()
}

/// What the tree says of keys, by the emulated kernel.
fn check<V: Word>(tree: &Cuart<V>, model: &Model<V>, keys: &[Vec<u8>], what: &str) {
    assert_eq!(tree.len(), model.len() as u64, "{what}");
    let found = tree.get_many(&packed(keys)).unwrap();
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found, model.get(key).copied(), "{what}: {key:?}");
    }
}

fn build<V: Word>(device: &Device, model: &Model<V>, table: RootTable) -> Cuart<V> {
    let values: Vec<V> = model.values().copied().collect();
    Cuart::builder().root_table(table).build(device, &packed(model.keys()), &values).unwrap()
}

fn updates<V: Word>(engine: UpdateEngine, kind: &str, table: RootTable) {
    let device = Device::emulated();
    let mut rng = StdRng::seed_from_u64(7);
    let all = strings(kind, 300, &mut rng);
    let mut model: Model<V> = all.iter().step_by(2).zip(0..).map(|(key, i)| (key.clone(), V::truncate(i))).collect();
    let mut tree = build(&device, &model, table);
    let mut scratch = ChangeScratch::for_updates(&device, 500, engine).unwrap();
    let stream = device.stream().unwrap();
    for batch in 1..4 {
        // Few keys, so that most are there several times.
        let keys: Vec<Vec<u8>> = (0..500).map(|_| all[..30 * batch].choose(&mut rng).unwrap().clone()).collect();
        let values: Vec<V> = (0..500).map(|i| V::truncate(i + 1000 * batch as u64)).collect();
        let queries = DeviceKeys::upload(&device, &packed(&keys)).unwrap();
        let mut found = device.alloc(500_usize.div_ceil(32)).unwrap();
        tree.update_on(&stream, &queries, &device.upload(&values).unwrap(), Some(&mut found), &mut scratch).unwrap();
        let found = found.to_vec().unwrap();
        for (i, (key, value)) in keys.iter().zip(values).enumerate() {
            let there = model.get_mut(key).map(|old| *old = value).is_some();
            assert_eq!(found[i / 32] >> (i % 32) & 1 == 1, there, "{engine:?}, {kind}");
        }
        check(&tree, &model, &all, &format!("{engine:?}, {kind}, batch {batch}"));
    }
}

#[test]
fn the_last_update_of_a_key_stays() {
    use UpdateEngine::*;
    for kind in KINDS {
        for engine in [Auto, HashTable, Stamps, Sort] {
            updates::<u32>(engine, kind, RootTable::TwoBytes);
            updates::<u64>(engine, kind, RootTable::None);
        }
    }
    for kind in ["4", "8", "16", "32"] {
        updates::<u32>(Sequence, kind, RootTable::TwoBytes);
    }
}

/// Also a table that is full, of which every slot is another leaf's.
#[test]
fn one_hash_table_serves_a_whole_batch() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let all = strings("16", 256, &mut StdRng::seed_from_u64(5));
    let model: Model<u32> = all.iter().map(|key| (key.clone(), 0)).collect();
    let mut tree = build(&device, &model, RootTable::None);
    for (operations, slots) in [(256, 256), (256, 100 + 156), (700, 1024), (700, 5000)] {
        let scratch = ChangeScratch::for_updates(&device, operations, UpdateEngine::HashTable).unwrap();
        let mut scratch = scratch.one_table(slots).unwrap();
        let keys: Vec<Vec<u8>> = (0..operations).map(|i| all[i * 7 % 256].clone()).collect();
        let values: Vec<u32> = (0..operations).map(|i| (i + slots) as u32).collect();
        let queries = DeviceKeys::upload(&device, &packed(&keys)).unwrap();
        tree.update_on(&stream, &queries, &device.upload(&values).unwrap(), None, &mut scratch).unwrap();
        let last: Model<u32> = keys.into_iter().zip(values).collect();
        check(&tree, &last, &all, &format!("{operations} operations, {slots} slots"));
    }
    let scratch = ChangeScratch::for_updates(&device, 257, UpdateEngine::HashTable).unwrap();
    let error = scratch.one_table(256).unwrap_err();
    assert!(error.to_string().contains("256") && error.to_string().contains("257"), "{error}");
}

#[test]
fn large_batches_are_worked_off_in_the_order_of_their_keys() {
    let device = Device::emulated();
    let mut rng = StdRng::seed_from_u64(3);
    let stream = device.stream().unwrap();
    for kind in ["4", "8, dense", "16", "32"] {
        let all = strings(kind, 300, &mut rng);
        let mut model: Model<u32> = all.iter().step_by(2).map(|key| (key.clone(), 0)).collect();
        let mut tree = build(&device, &model, RootTable::None);
        let mut scratch =
            ChangeScratch::for_updates(&device, 400, UpdateEngine::Auto).unwrap().order_from(100).unwrap();
        for (len, few) in [(400, 300), (99, 20), (100, 1), (400, 7)] {
            let keys: Vec<Vec<u8>> = (0..len).map(|_| all[..few].choose(&mut rng).unwrap().clone()).collect();
            let values: Vec<u32> = (0..len).map(|_| rng.random()).collect();
            let width = all[0].len();
            let strings = keys.concat();
            let queries = DeviceKeys::upload(&device, ByteKeys::fixed(width, &strings).unwrap()).unwrap();
            tree.update_on(&stream, &queries, &device.upload(&values).unwrap(), None, &mut scratch).unwrap();
            for (key, value) in keys.iter().zip(values) {
                model.entry(key.clone()).and_modify(|old| *old = value);
            }
            check(&tree, &model, &all, &format!("{kind}, {len} operations on {few} keys"));
        }
    }
}

#[test]
fn the_numbers_of_operations_begin_anew() {
    let device = Device::emulated();
    let mut rng = StdRng::seed_from_u64(4);
    let stream = device.stream().unwrap();
    for kind in ["4", "16", "words", "runs"] {
        // Leaves of all fixed sizes, and none larger.
        let all: Vec<_> = strings(kind, 200, &mut rng).into_iter().filter(|key| key.len() <= 32).collect();
        let mut model: Model<u32> = all.iter().map(|key| (key.clone(), 0)).collect();
        let mut tree = build(&device, &model, RootTable::TwoBytes);
        let mut scratch = ChangeScratch::for_updates(&device, 200, UpdateEngine::Sequence).unwrap();
        // The last number is that of no operation.
        for skipped in [0, u32::MAX - 201, u32::MAX - 200, 0, u32::MAX, 0] {
            tree.skip_sequence(skipped);
            let keys: Vec<_> = (0..200).map(|_| all.choose(&mut rng).unwrap().clone()).collect();
            let values: Vec<u32> = (0..200).map(|_| rng.random()).collect();
            let queries = DeviceKeys::upload(&device, &packed(&keys)).unwrap();
            tree.update_on(&stream, &queries, &device.upload(&values).unwrap(), None, &mut scratch).unwrap();
            model.extend(keys.into_iter().zip(values));
            check(&tree, &model, &all, &format!("{kind}, {skipped} numbers are gone"));
        }
    }
}

#[test]
fn a_copy_goes_on_with_the_numbers_of_operations() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let keys = ByteKeysBuf::encode(&[7_u32, 8]);
    let queries = DeviceKeys::upload(&device, &keys).unwrap();
    let mut scratch = ChangeScratch::for_updates(&device, 2, UpdateEngine::Sequence).unwrap();
    let mut tree = Cuart::build(&device, &keys, &[0_u32, 0]).unwrap();
    for value in 1..5 {
        tree.update_on(&stream, &queries, &device.upload(&[value; 2]).unwrap(), None, &mut scratch).unwrap();
    }
    let mut copy = tree.to_device(&device).unwrap();
    copy.update_on(&stream, &queries, &device.upload(&[70, 80]).unwrap(), None, &mut scratch).unwrap();
    assert_eq!(copy.get_many(&keys).unwrap(), [Some(70), Some(80)]);
}

#[test]
fn long_keys_are_refused_before_an_engine_that_has_none_changes_the_tree() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut tree = Cuart::build(&device, &ByteKeysBuf::encode(&[7_u32]), &[1_u32]).unwrap();
    let mut scratch = ChangeScratch::for_inserts(&device, 2, UpdateEngine::Sequence).unwrap();
    let keys: ByteKeysBuf = [vec![1], vec![b'x'; 33]].into_iter().collect();
    let queries = DeviceKeys::upload(&device, &keys).unwrap();
    let values = device.upload(&[2, 3]).unwrap();
    let error = tree.insert_on(&stream, &queries, &values, &mut scratch).unwrap_err();
    assert!(error.to_string().contains("more than 32 bytes"), "{error}");
    assert_eq!((tree.len(), tree.get_many(&keys).unwrap()), (1, vec![None, None]));
}

fn updates_and_removals<V: Word>(kind: &str, table: RootTable, seed: u64) {
    let device = Device::emulated_with_seed(seed);
    let mut rng = StdRng::seed_from_u64(seed);
    let stream = device.stream().unwrap();
    let all = strings(kind, 400, &mut rng);
    let mut model: Model<V> = all.iter().step_by(2).map(|key| (key.clone(), V::MIN)).collect();
    let mut tree = build(&device, &model, table);
    let mut inserting = ChangeScratch::for_inserts(&device, 400, UpdateEngine::Auto).unwrap();
    let scratch = ChangeScratch::for_updates(&device, 500, UpdateEngine::HashTable).unwrap();
    let mut scratch = scratch.one_table(500).unwrap();
    for round in 0..4_u64 {
        let keys: Vec<Vec<u8>> = (0..500).map(|_| all.choose(&mut rng).unwrap().clone()).collect();
        let value = |i: u64| if (i + round).is_multiple_of(3) { V::MAX } else { V::truncate(i + 1000 * round) };
        let values: Vec<V> = (0..500).map(value).collect();
        let queries = DeviceKeys::upload(&device, &packed(&keys)).unwrap();
        let values_on = device.upload(&values).unwrap();
        let removed = tree.update_or_remove_on(&stream, &queries, &values_on, V::MAX, &mut scratch).unwrap();
        let last: Model<V> = keys.into_iter().zip(values).collect();
        let before = model.len();
        model.retain(|key, value| {
            *value = last.get(key).copied().unwrap_or(*value);
            *value != V::MAX
        });
        assert_eq!(removed, (before - model.len()) as u64, "{kind}, round {round}");
        check(&tree, &model, &all, &format!("{kind}, seed {seed}, round {round}"));
        // The leaves are used again.
        let some: Vec<Vec<u8>> = all.iter().skip(round as usize).step_by(2).cloned().collect();
        let queries = DeviceKeys::upload(&device, &packed(&some)).unwrap();
        let values: Vec<V> = vec![V::truncate(7); some.len()];
        tree.insert_on(&stream, &queries, &device.upload(&values).unwrap(), &mut inserting).unwrap();
        model.extend(some.into_iter().zip(values));
        check(&tree, &model, &all, &format!("{kind}, seed {seed}, round {round}, inserted again"));
    }
}

#[test]
fn updates_and_removals_in_one_batch_are_those_of_a_map() {
    for (kind, seed) in KINDS.into_iter().zip(1..) {
        updates_and_removals::<u32>(kind, RootTable::TwoBytes, seed);
        updates_and_removals::<u64>(kind, RootTable::None, seed);
    }
}

#[test]
fn removals_among_updates_need_one_hash_table() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let keys = ByteKeysBuf::encode(&[7_u32, 8, 9]);
    let mut tree = Cuart::build(&device, &keys, &[1_u32, 2, 3]).unwrap();
    let (queries, values) = (DeviceKeys::upload(&device, &keys).unwrap(), device.upload(&[0; 3]).unwrap());
    let auto = ChangeScratch::for_updates(&device, 3, UpdateEngine::Auto).unwrap();
    let pieces = ChangeScratch::for_updates(&device, 3, UpdateEngine::HashTable).unwrap().pieces_of(2);
    for (mut scratch, reason) in [(auto, "need UpdateEngine::HashTable"), (pieces, "ChangeScratch::one_table")] {
        let error = tree.update_or_remove_on(&stream, &queries, &values, 0, &mut scratch).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(tree.get_many(&keys).unwrap(), [Some(1), Some(2), Some(3)]);
    }
}

fn changes(kind: &str, table: RootTable, seed: u64) -> Result<()> {
    let device = Device::emulated_with_seed(seed);
    let mut rng = StdRng::seed_from_u64(seed);
    let all = strings(kind, 700, &mut rng);
    let mut model: Model<u32> = all.iter().take(20).zip(0..).map(|(key, i)| (key.clone(), i)).collect();
    let mut tree = build(&device, &model, table);
    let mut scratch = ChangeScratch::for_inserts(&device, 600, UpdateEngine::Auto)?;
    let stream = device.stream()?;
    for round in 0..6_u32 {
        let what = format!("{kind}, {table:?}, seed {seed}, round {round}");
        let keys: Vec<Vec<u8>> =
            (0..100 * (round as usize + 1)).map(|_| all.choose(&mut rng).unwrap().clone()).collect();
        let queries = DeviceKeys::upload(&device, &packed(&keys))?;
        if round % 3 == 2 {
            let removed = tree.remove_on(&stream, &queries)?;
            let before = model.len();
            for key in &keys {
                model.remove(key);
            }
            assert_eq!(removed, (before - model.len()) as u64, "{what}");
        } else {
            let values: Vec<u32> = (0..keys.len() as u32).map(|i| i + 1000 * round).collect();
            let inserted = tree.insert_on(&stream, &queries, &device.upload(&values)?, &mut scratch)?;
            let before = model.len();
            model.extend(keys.iter().cloned().zip(values));
            assert_eq!(inserted, (model.len() - before) as u64, "{what}");
        }
        check(&tree, &model, &all, &what);
    }
    Ok(())
}

#[test]
fn inserts_and_removals_are_those_of_a_map() {
    for kind in KINDS {
        // Schedules of the emulator differ by seed: one of them has shown a table's entry written too late.
        for (table, seed) in [(RootTable::None, 1), (RootTable::TwoBytes, 2), (RootTable::TwoBytes, 3)] {
            changes(kind, table, seed).unwrap();
        }
    }
}

/// A tree after changes, which leave tombstones, free leaves and numbers of operations.
fn changed<V: Word>(device: &Device, kind: &str, table: RootTable, seed: u64) -> Result<(Cuart<V>, Model<V>)> {
    let mut rng = StdRng::seed_from_u64(seed);
    let all = strings(kind, 600, &mut rng);
    let values = |count: usize| (0..count as u64).map(|i| V::truncate((i << 20) | seed));
    let mut model: Model<V> = all[..all.len() / 3].iter().cloned().zip(values(all.len())).collect();
    let mut tree = build(device, &model, table);
    let mut scratch = ChangeScratch::for_inserts(device, 900, UpdateEngine::Auto)?;
    let stream = device.stream()?;
    for _ in 0..2 {
        let keys: Vec<Vec<u8>> = (0..900).map(|_| all.choose(&mut rng).unwrap().clone()).collect();
        let values: Vec<V> = values(900).collect();
        let queries = DeviceKeys::upload(device, &packed(&keys))?;
        tree.insert_on(&stream, &queries, &device.upload(&values)?, &mut scratch)?;
        model.extend(keys.into_iter().zip(values));
        let keys: Vec<Vec<u8>> = (0..300).map(|_| all.choose(&mut rng).unwrap().clone()).collect();
        tree.remove_on(&stream, &DeviceKeys::upload(device, &packed(&keys))?)?;
        model.retain(|key, _| !keys.contains(key));
    }
    check(&tree, &model, &all, kind);
    Ok((tree, model))
}

/// The tree is as one that the host has built of the same pairs.
fn check_as_built<V: Word>(tree: &Cuart<V>, model: &Model<V>, table: RootTable) {
    let fresh = build(&Device::host(), model, table);
    let (host, own) = (fresh.regions().unwrap(), tree.regions().unwrap());
    assert!(tree.is_compact());
    assert_eq!((own.len, own.first), (host.len, host.first));
    assert_eq!((own.leaf8, own.leaf16, own.leaf32), (host.leaf8, host.leaf16, host.leaf32));
    assert_eq!((own.device_leaves, own.ranks8, own.order), (host.device_leaves, host.ranks8, host.order));
    compare(host, own);
    tree.validate();
    assert_eq!(tree.stats(), fresh.stats());
}

fn compacted<V: Word>(kind: &str, table: RootTable, seed: u64) -> Result<()> {
    let device = Device::emulated_with_seed(seed);
    let (mut tree, model) = changed::<V>(&device, kind, table, seed)?;
    assert!(!tree.is_compact());
    tree.compact()?;
    check_as_built(&tree, &model, table);
    assert_eq!(tree.count_range_many([..])?, [model.len() as u64]);
    // It takes changes again.
    let stream = device.stream()?;
    let keys = DeviceKeys::upload(&device, &packed(model.keys()))?;
    let mut scratch = ChangeScratch::for_inserts(&device, model.len(), UpdateEngine::Auto)?;
    let values: Vec<V> = (0..model.len() as u64).map(V::truncate).collect();
    tree.update_on(&stream, &keys, &device.upload(&values)?, None, &mut scratch)?;
    let found = tree.get_many(&packed(model.keys()))?;
    assert!(found.iter().eq(&values.iter().copied().map(Some).collect::<Vec<_>>()));
    assert_eq!(tree.remove_on(&stream, &keys)?, model.len() as u64);
    tree.compact()?;
    check_as_built(&tree, &Model::new(), table);
    assert_eq!(tree.insert_on(&stream, &keys, &device.upload(&values)?, &mut scratch)?, model.len() as u64);
    Ok(())
}

#[test]
fn a_compact_tree_is_as_built() {
    for kind in KINDS {
        compacted::<u32>(kind, RootTable::TwoBytes, 1).unwrap();
        compacted::<u64>(kind, RootTable::None, 2).unwrap();
    }
}

#[test]
fn a_compaction_that_fails_changes_nothing() {
    let mut failures = 0;
    for point in 0..400 {
        let device = Device::emulated();
        let (mut tree, model) = changed::<u32>(&device, "words", RootTable::None, 3).unwrap();
        let kind = if point % 2 == 0 { Failure::Transfer } else { Failure::Allocation };
        device.inject(Some(kind(point / 2)));
        let result = tree.compact();
        let came = device.inject(None).is_none();
        assert_eq!(result.is_err(), came, "{result:?}");
        failures += u32::from(came);
        if came {
            assert!(!tree.is_compact());
            check(&tree, &model, &model.keys().cloned().collect::<Vec<_>>(), "after the failure");
            tree.compact().unwrap();
        }
        check_as_built(&tree, &model, RootTable::None);
        if point % 2 == 1 && !came {
            break;
        }
    }
    assert!(failures > 20);
}

#[test]
fn keys_come_back_to_nodes_whose_path_no_leaf_tells() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    // Below `x` a path of 19 bytes, a node holds the last 12 of them; before it and after it other keys.
    let long = |end: u8| [&[b'x'; 20][..], &[end]].concat();
    let going: Vec<Vec<u8>> = (0..6).map(long).collect();
    let staying: Vec<Vec<u8>> = [&b"a"[..], b"y1", b"y2", &[b'z'; 40]].map(<[u8]>::to_vec).to_vec();
    let mut model: Model<u32> = going.iter().chain(&staying).cloned().zip(0..).collect();
    let mut tree = build(&device, &model, RootTable::TwoBytes);
    let mut scratch = ChangeScratch::for_inserts(&device, 9, UpdateEngine::Auto).unwrap();
    let queries = DeviceKeys::upload(&device, &packed(&going)).unwrap();
    assert_eq!(tree.remove_on(&stream, &queries).unwrap(), 6);
    model.retain(|key, _| key[0] != b'x');
    let back: Vec<Vec<u8>> =
        [vec![], b"y3".to_vec(), long(3), long(9), [&[b'x'; 14][..], b"part"].concat(), long(4)].into();
    let all: Vec<Vec<u8>> = model.keys().chain(&going).chain(&back).cloned().collect();
    check(&tree, &model, &all, "without them");
    let values: Vec<u32> = (100..106).collect();
    let queries = DeviceKeys::upload(&device, &packed(&back)).unwrap();
    let inserted = tree.insert_on(&stream, &queries, &device.upload(&values).unwrap(), &mut scratch).unwrap();
    model.extend(back.into_iter().zip(values));
    assert_eq!(inserted, 6);
    check(&tree, &model, &all, "with some of them and others");
}

#[test]
fn an_empty_tree_takes_inserts() {
    let device = Device::emulated();
    let mut tree = Cuart::<u64>::build(&device, &ByteKeysBuf::new(), &[]).unwrap();
    let keys: Vec<u64> = (0..2000).map(|i| (i << 40) | (i % 7)).collect();
    let queries = DeviceKeys::upload(&device, &ByteKeysBuf::encode(&keys)).unwrap();
    let mut scratch = ChangeScratch::for_inserts(&device, keys.len(), UpdateEngine::Auto).unwrap();
    let stream = device.stream().unwrap();
    let inserted = tree.insert_on(&stream, &queries, &device.upload(&keys).unwrap(), &mut scratch).unwrap();
    assert_eq!((inserted, tree.len()), (2000, 2000));
    // A node of more than 48 children was a smaller one.
    let nodes = tree.stats().nodes;
    assert!(nodes[3] > 0, "{nodes:?}");
    let expected: Vec<_> = keys.iter().map(|&key| Some(key)).collect();
    assert_eq!(tree.get_many(&ByteKeysBuf::encode(&keys)).unwrap(), expected);
    assert_eq!(tree.remove_on(&stream, &queries).unwrap(), 2000);
    assert!(tree.is_empty() && tree.get_many(&ByteKeysBuf::encode(&keys)).unwrap().iter().all(Option::is_none));
    assert_eq!(tree.insert_on(&stream, &queries, &device.upload(&keys).unwrap(), &mut scratch).unwrap(), 2000);
    assert_eq!(tree.get_many(&ByteKeysBuf::encode(&keys)).unwrap(), expected);
}

#[test]
fn paths_that_no_leaf_tells_any_more_are_built_again() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let key = |prefix: u8, last: u8| [&[prefix; 30][..], &[last]].concat();
    let first: Vec<Vec<u8>> = (0..20).map(|i| key(b'a', i)).chain((0..5).map(|i| key(b'b', i))).collect();
    let model: Model<u32> = first.iter().zip(0..).map(|(key, i)| (key.clone(), i)).collect();
    let mut tree = build(&device, &model, RootTable::None);
    // No leaf stays under the node of the first prefix, which has 29 bytes of it to go by.
    let gone = DeviceKeys::upload(&device, &packed(&first[..20])).unwrap();
    assert_eq!(tree.remove_on(&stream, &gone).unwrap(), 20);
    let next: Vec<Vec<u8>> =
        (0..40).map(|i| if i % 2 == 0 { key(b'a', i) } else { [&[b'a'; 9][..], &[i]].concat() }).collect();
    let values: Vec<u32> = (100..140).collect();
    let mut scratch = ChangeScratch::for_inserts(&device, 40, UpdateEngine::Auto).unwrap();
    let queries = DeviceKeys::upload(&device, &packed(&next)).unwrap();
    let inserted = tree.insert_on(&stream, &queries, &device.upload(&values).unwrap(), &mut scratch).unwrap();
    assert_eq!((inserted, tree.len()), (40, 45));
    let expected: Vec<Option<u32>> = values.into_iter().map(Some).collect();
    assert_eq!(tree.get_many(&packed(&next)).unwrap(), expected);
    assert!(tree.get_many(&packed(&first[20..])).unwrap().iter().all(Option::is_some));
}

#[test]
fn ranges_are_those_of_the_host() {
    let device = Device::emulated();
    for (kind, table) in KINDS.into_iter().zip([RootTable::None, RootTable::TwoBytes].into_iter().cycle()) {
        let mut rng = StdRng::seed_from_u64(11);
        let all = strings(kind, 400, &mut rng);
        let model: Model<u64> = all.iter().step_by(2).zip(5..).map(|(key, i)| (key.clone(), i)).collect();
        let (host, tree) = (build(&Device::host(), &model, table), build(&device, &model, table));
        let mut queries = all.clone();
        queries.extend(all.iter().map(|key| key[..key.len() / 2].to_vec()));
        queries.extend([vec![], vec![0], vec![255; 3], b"lanetreelanetreelanf".to_vec(), vec![b'x'; 40]]);
        let packed = packed(&queries);
        assert_eq!(tree.lower_bound_many(&packed).unwrap(), host.lower_bound_many(&packed).unwrap(), "{kind}");
        assert_eq!(tree.upper_bound_many(&packed).unwrap(), host.upper_bound_many(&packed).unwrap(), "{kind}");
        assert_eq!(tree.prefix_span_many(&packed).unwrap(), host.prefix_span_many(&packed).unwrap(), "{kind}");
        assert_eq!(tree.predecessor_many(&packed).unwrap(), host.predecessor_many(&packed).unwrap(), "{kind}");
        assert_eq!(tree.successor_many(&packed).unwrap(), host.successor_many(&packed).unwrap(), "{kind}");
        let ranges = || {
            let pairs = queries.iter().zip(queries.iter().rev());
            let pairs = pairs.map(|(a, b)| if a <= b { &a[..]..&b[..] } else { &b[..]..&a[..] });
            pairs
                .map(lanetree_frame::ByteRange::from)
                .enumerate()
                .map(|(i, range)| range.limit(if i % 3 == 0 { 7 } else { 50 }))
        };
        assert_eq!(tree.range_many(ranges()).unwrap(), host.range_many(ranges()).unwrap(), "{kind}");
        assert_eq!(tree.count_range_many([..]).unwrap(), [model.len() as u64]);
        assert_eq!(tree.prefix_many(&packed).unwrap(), host.prefix_many(&packed).unwrap(), "{kind}");
    }
}

#[test]
fn spans_may_begin_at_any_word() -> Result<()> {
    let device = Device::emulated();
    let model: Model<u32> = strings("32", 200, &mut StdRng::seed_from_u64(34)).into_iter().zip(0..).collect();
    let tree = build(&device, &model, RootTable::None);
    let stream = device.stream()?;
    let array = device.upload(&[0_u64, 3, 9, 190, 300])?;
    let second = core::ptr::with_exposed_provenance_mut(array.addresses().start + 8);
    // SAFETY: elements of the array, which is dropped after the spans and not used.
    let mut spans = unsafe { device.buffer_from_raw::<u64>(second, 4)? };
    let (mut scratch, mut out) = (GatherScratch::new(&device, 2, 16)?, DeviceByteRanges::new(&tree, 2, 16, 1 << 10)?);
    tree.on(&stream).gather(&mut spans, 2, &mut scratch, &mut out)?;
    assert_eq!((spans.to_vec()?, out.offsets.to_vec()?), (vec![3, 9, 190, 200], vec![0, 6, 16]));
    let values: Vec<u32> = model.values().copied().collect();
    assert_eq!(out.values.to_vec()?, [&values[3..9], &values[190..]].concat());
    Ok(())
}

#[test]
fn host_batches_of_changes_are_those_of_the_host() {
    use lanetree_frame::Op;
    let device = Device::emulated();
    for kind in KINDS {
        let mut rng = StdRng::seed_from_u64(13);
        let all = strings(kind, 300, &mut rng);
        let model: Model<u32> = all.iter().step_by(2).zip(5..).map(|(key, i)| (key.clone(), i)).collect();
        let mut host = build(&Device::host(), &model, RootTable::TwoBytes);
        let mut tree = build(&device, &model, RootTable::TwoBytes);
        for round in 0..3 {
            let ops: Vec<Op<&[u8], u32>> = (0..200)
                .map(|i| match (all.choose(&mut rng).unwrap(), rng.random_range(0..3)) {
                    (key, 0) => Op::Insert(&key[..], i),
                    (key, 1) => Op::Update(&key[..], i + 1000),
                    (key, _) => Op::Remove(&key[..]),
                })
                .collect();
            assert_eq!(tree.apply(&ops).unwrap(), host.apply(&ops).unwrap(), "{kind}, round {round}");
            let queries = packed(&all);
            assert_eq!(tree.get_many(&queries).unwrap(), host.get_many(&queries).unwrap(), "{kind}, round {round}");
            if round == 1 {
                assert!(tree.range_many([..]).is_err(), "{kind}: there are no ranks");
                tree.compact().unwrap();
                assert_eq!(tree.range_many([..]).unwrap(), host.range_many([..]).unwrap(), "{kind}");
            }
        }
    }
}

#[test]
fn offsets_on_a_device_are_checked() {
    use lanetree_frame::OffsetBuffer;
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let bytes = || device.upload(&[0_u64; 2]).unwrap();
    let with = |offsets: &[u32]| {
        let offsets = OffsetBuffer::U32(device.upload(offsets).unwrap());
        DeviceKeys::with_offsets(&stream, offsets, bytes()).map(|keys| keys.len())
    };
    assert_eq!(with(&[0, 3, 3, 16]).unwrap(), 3);
    assert_eq!(with(&[0]).unwrap(), 0);
    assert_eq!(
        with(&[0, 9, 4, 17]).unwrap_err().to_string(),
        "offsets[2] = 4 is below offsets[1] = 9: offsets must not descend"
    );
    assert_eq!(
        with(&[0, 17, 18]).unwrap_err().to_string(),
        "offsets[1] = 17 is past the end of the bytes: there are 16, so no offset may be larger"
    );
    assert!(with(&[]).is_err());
    assert!(DeviceKeys::fixed(bytes(), 8, 3).is_err());
    let keys = DeviceKeys::encode(&stream, &device.upload(&[-1_i64, 5]).unwrap()).unwrap();
    assert!(keys.as_keys().unwrap().iter().eq(ByteKeysBuf::encode(&[-1_i64, 5]).iter()));
}

#[test]
fn any_number_of_lanes_finds_the_same() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut rng = StdRng::seed_from_u64(12);
    let mut kinds: Vec<_> = KINDS.map(|kind| (kind, LongKeys::DeviceLeaves)).into();
    kinds.extend([("prefixes", LongKeys::HostLeaves), ("last byte", LongKeys::HostLeaves)]);
    for (kind, long_keys) in kinds {
        let all = strings(kind, 333, &mut rng);
        let model: Model<u64> = all.iter().step_by(2).cloned().zip(1..).collect();
        let values: Vec<u64> = model.values().copied().collect();
        let tree = Cuart::builder().long_keys(long_keys).build(&device, &packed(model.keys()), &values).unwrap();
        let queries = DeviceKeys::upload(&device, &packed(&all)).unwrap();
        for lanes in [Lanes::Auto, Lanes::One, Lanes::Two, Lanes::Four, Lanes::Eight] {
            let mut values = device.upload(&vec![7; all.len()]).unwrap();
            let words = all.len().div_ceil(32);
            let [mut found, mut pending] = [(); 2].map(|()| device.upload(&vec![!0; words]).unwrap());
            let on = tree.on(&stream).with_lanes(lanes);
            on.miss(0).get_pending(&queries, &mut values, &mut found, &mut pending).unwrap();
            let [found, pending] = [found, pending].map(|bits| bits.to_vec().unwrap());
            let bit = |bits: &[u32], i: usize| bits[i / 32] >> (i % 32) & 1 == 1;
            for (i, (key, value)) in all.iter().zip(values.to_vec().unwrap()).enumerate() {
                let expected = model.get(key).copied();
                if bit(&pending, i) {
                    let (leaf, value) = tree.host_leaf(value).unwrap();
                    assert_eq!((leaf == &key[..]).then_some(value), expected, "{lanes:?}, {kind}, {key:?}");
                } else {
                    let actual = (bit(&found, i), value);
                    assert_eq!(actual, (expected.is_some(), expected.unwrap_or(0)), "{lanes:?}, {kind}, {key:?}");
                }
            }
            assert!([found, pending].iter().all(|bits| bits[words - 1] >> (all.len() % 32) == 0), "{lanes:?}, {kind}");
        }
    }
}

#[test]
fn a_corrupt_link_is_found() {
    let device = Device::emulated();
    let mut rng = StdRng::seed_from_u64(8);
    let keys = strings("32", 3000, &mut rng);
    let model: Model<u32> = keys.iter().cloned().zip(0..).collect();
    let queries = packed(&keys);
    type Corrupt = fn(&mut Cuart<u32>);
    fn beyond(link: &mut Link) {
        *link = Link::from_bits(link.bits() + (1 << 40));
    }
    fn parts(tree: &mut Cuart<u32>) -> &mut Parts {
        tree.parts.get_mut().unwrap()
    }
    let places: [(&str, Corrupt); 4] = [
        ("in the table", |tree| {
            let links = parts(tree).table.as_mut_slice().unwrap();
            beyond(links.iter_mut().find(|link| !link.is_none()).unwrap());
        }),
        ("in an N4", |tree| beyond(&mut parts(tree).nodes.n4.buffer.as_mut_slice().unwrap()[0].links[1])),
        ("in an N256", |tree| {
            let links = &mut parts(tree).nodes.n256.buffer.as_mut_slice().unwrap()[0].links;
            beyond(links.iter_mut().find(|link| !link.is_none()).unwrap());
        }),
        // Of a kind that the tree has none of.
        ("of another kind", |tree| {
            let link = &mut parts(tree).nodes.n4.buffer.as_mut_slice().unwrap()[0].links[0];
            *link = Link::new(LinkType::DeviceLeaf, link.span() as usize, link.index() + 1);
        }),
    ];
    for (what, corrupt) in places {
        // Below a table, nobody comes through the root.
        let table = if what == "in an N256" { RootTable::None } else { RootTable::TwoBytes };
        let mut tree = build(&device, &model, table);
        corrupt(&mut tree);
        let error = tree.get_many(&queries).unwrap_err().to_string();
        assert!(error.contains("cuart__get_w4_u32") && error.contains("outside every buffer"), "{what}: {error}");
        assert!(tree.get_many(&ByteKeysBuf::new()).unwrap().is_empty(), "{what}");
    }
}
