//! Files of every version, as they were written when it was the newest.

use super::killed::without_children;
use crate::{Durability, FromFile, Load, Log, Save, read_pairs, read_strings, types_of, write_pairs, write_strings};
use lanetree_cuart::Cuart;
use lanetree_frame::{AnyKey, ByteKeysBuf, Bytes16, Device, F32, F64, KeyWord, Op, Value};
use lanetree_hbtree::HbTree;
use lanetree_lane_tree::LaneTree;
use lanetree_multimap::MultiMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The golden file of two types.
fn golden<K: AnyKey, V: Value>() -> PathBuf {
    let values = if V::IS_SOME { V::NAME } else { "none" };
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v1-{}-{values}.lanetree", K::NAME))
}

/// What is in it: keys from all over the type's range.
fn contents<K: AnyKey, V: Value>() -> (Vec<K>, Vec<V>) {
    let mut words = Vec::new();
    for bit in (0..K::Bits::BITS).step_by(5) {
        words.push(K::Bits::from_parts((1_u128 << bit).parts()));
        words.push(K::Bits::MAX.shr(bit));
    }
    words.push(K::Bits::MIN);
    words.sort();
    words.dedup();
    let values = (0..words.len() as u64).map(|i| V::of(V::Word::truncate(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    let values = values.collect();
    (words.into_iter().map(K::decode).collect(), values)
}

/// That of a multi-map, and what is in it.
fn golden_multimap() -> (PathBuf, Vec<i32>, Vec<u64>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-multimap-i32-u64.lanetree");
    (path, vec![-7, -7, -7, 0, 5, 5], vec![3, 1, 3, 9, u64::MAX, 0])
}

/// That of byte strings: empty ones, prefixes of each other, all bytes, and one that is longer than a node.
fn golden_strings() -> (PathBuf, ByteKeysBuf, Vec<u32>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-bytes-u32.lanetree");
    let mut keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte, 255 - byte]).collect();
    keys.extend([vec![], vec![0], vec![7], vec![7, 248, 0], vec![9; 300]]);
    keys.sort();
    let values = (0..keys.len() as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    (path, keys.into_iter().collect(), values)
}

/// The folder of a log, and what writes it.
fn golden_log() -> (PathBuf, impl Fn(&Path)) {
    let write = |folder: &Path| {
        let mut log = Log::create(folder, &[-4_i64, 2, 8], &[10_u32, 20, 30]).unwrap();
        log.append(&[Op::Insert(3, 40), Op::Update(2, 21), Op::Remove(8)], Durability::Synced).unwrap();
        log.append(&[Op::Insert(i64::MIN, 50)], Durability::Unsynced).unwrap();
    };
    (PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-log-i64-u32"), write)
}

/// Calls a function for every key type, with each value type at least thrice.
macro_rules! each_golden {
    ($call:ident) => {
        $call::<u32, u32>();
        $call::<u64, u64>();
        $call::<u128, ()>();
        $call::<i32, u64>();
        $call::<i64, ()>();
        $call::<i128, u32>();
        $call::<F32, ()>();
        $call::<F64, u32>();
        $call::<Bytes16, u64>();
    };
}

/// Once per version: golden files are never written anew.
#[test]
#[ignore = "writes the golden files that are missing"]
fn write_missing_golden_files() {
    fn write<K: AnyKey, V: Value>() {
        let (keys, values) = contents::<K, V>();
        if !golden::<K, V>().exists() {
            write_pairs(golden::<K, V>(), &keys, &values).unwrap();
        }
    }
    each_golden!(write);
    let (path, keys, values) = golden_multimap();
    if !path.exists() {
        MultiMap::build_sorted(&Device::host(), &keys, &values).unwrap().save(path).unwrap();
    }
    let (path, keys, values) = golden_strings();
    if !path.exists() {
        write_strings(path, &keys, &values).unwrap();
    }
    let (folder, write) = golden_log();
    if !folder.exists() {
        write(&folder);
    }
}

#[test]
fn golden_files_are_read_and_written_byte_for_byte() {
    fn check<K: AnyKey, V: Value>() {
        let (path, folder) = (golden::<K, V>(), tempfile::tempdir().unwrap());
        assert_eq!(types_of(&path).unwrap(), [K::NAME, V::NAME]);
        let (keys, values) = contents::<K, V>();
        assert!(read_pairs::<K, V>(&path).unwrap() == (keys.clone(), values.clone()), "{path:?}");

        let built = LaneTree::build(&Device::host(), &keys, &values).unwrap();
        let saved = folder.path().join("saved");
        built.save(&saved).unwrap();
        assert!(fs::read(&saved).unwrap() == fs::read(&path).unwrap(), "{path:?}: today's writer writes other bytes");
    }
    each_golden!(check);

    let (path, folder) = (golden::<i32, u64>(), tempfile::tempdir().unwrap());
    let saved = folder.path().join("saved");
    HbTree::<i32, u64>::builder().regular().load(&Device::host(), &path).unwrap().save(&saved).unwrap();
    assert!(fs::read(&saved).unwrap() == fs::read(&path).unwrap(), "{path:?}: today's writer writes other bytes");

    let (path, keys, values) = golden_strings();
    assert_eq!(types_of(&path).unwrap(), ["bytes", "u32"]);
    assert!(read_strings::<u32>(&path).unwrap() == (keys.clone(), values.clone()));
    Cuart::build(&Device::host(), &keys, &values).unwrap().save(&saved).unwrap();
    assert!(fs::read(&saved).unwrap() == fs::read(&path).unwrap(), "{path:?}: today's writer writes other bytes");

    let ((path, keys, values), folder) = (golden_multimap(), tempfile::tempdir().unwrap());
    let loaded = MultiMap::<i32, u64>::load(&Device::host(), &path).unwrap();
    assert!(loaded.iter().map(Result::unwrap).eq(keys.iter().copied().zip(values.iter().copied())));
    let saved = folder.path().join("saved");
    MultiMap::build(&Device::host(), &keys, &values).unwrap().save(&saved).unwrap();
    assert!(fs::read(&saved).unwrap() == fs::read(&path).unwrap(), "{path:?}: today's writer writes other bytes");
}

#[test]
fn an_index_of_a_golden_file_answers_as_one_of_its_pairs() {
    let host = Device::host();
    let (keys, values) = contents::<F64, u32>();
    let loaded = LaneTree::<F64, u32>::builder().load(&host, golden::<F64, u32>()).unwrap();
    let built = LaneTree::build(&host, &keys, &values).unwrap();
    let probes: Vec<F64> = keys.iter().flat_map(|key| [key.get(), key.get() / 3.0]).map(F64::new).collect();
    assert_eq!(loaded.get_many(&probes).unwrap(), built.get_many(&probes).unwrap());
    assert_eq!(loaded.lower_bound_many(&probes).unwrap(), built.lower_bound_many(&probes).unwrap());
}

#[test]
fn a_golden_log_is_replayed_and_written_byte_for_byte() {
    let _alone = without_children();
    let ((golden, write), folder) = (golden_log(), tempfile::tempdir().unwrap());
    write(folder.path());
    for name in ["0.base", "0.log"] {
        let [today, then] = [folder.path(), &golden].map(|folder| fs::read(folder.join(name)).unwrap());
        assert!(today == then, "{name}: today's writer writes other bytes");
        fs::copy(golden.join(name), folder.path().join(name)).unwrap();
    }
    let opened = Log::<i64, u32>::open(folder.path()).unwrap();
    assert_eq!((opened.keys, opened.values), (vec![i64::MIN, -4, 2, 3], vec![50, 10, 21, 40]));
    assert_eq!((opened.replay.batches, opened.replay.torn), (2, None));
}
