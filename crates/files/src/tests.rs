pub(crate) mod crash;
mod damage;
mod golden;
mod log;
mod replace;

use crate::format::{Header, MAGIC, Writer};
use crate::{Error, FromFile, Load, Save, read_pairs, types_of, write_pairs};
use lanetree_frame::{Device, F64};
use lanetree_lane_tree::{LaneSet, LaneTree};
use lanetree_multimap::MultiMap;
use lanetree_sorted::SortedArray;
use std::fs;

#[test]
fn what_one_index_saves_another_one_loads() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = (folder.path().join("index"), Device::host());
    // More than a MiB of keys: several pieces, and several windows of the index.
    for len in [0, 1, 1000, 150_000, 600_000] {
        let keys: Vec<i64> = (0..len).map(|i| 3 * i - 1000).collect();
        let values: Vec<u32> = (0..len as u32).collect();
        let tree = LaneTree::build(&host, &keys, &values).unwrap();
        tree.save(&path).unwrap();
        let loaded = LaneTree::<i64, u32>::builder().fill(0.7).load(&host, &path).unwrap();
        assert_eq!(loaded.pairs().unwrap(), tree.pairs().unwrap());
        let sorted = SortedArray::<i64, u32>::builder().load(&host, &path).unwrap();
        assert_eq!(sorted.pairs().unwrap(), tree.pairs().unwrap());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    let other = LaneTree::<u64, u32>::builder().load(&host, &path);
    assert!(matches!(other, Err(Error::Types { keys, values }) if keys == "i64" && values == "u32"));
}

#[test]
fn pairs_are_written_as_an_index_saves_them() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = (folder.path().join("pairs"), Device::host());
    let (keys, values) = ([F64::new(-1.5), F64::new(0.0), F64::new(7.0)], [1_u32, 2, 3]);
    write_pairs(&path, &keys, &values).unwrap();
    assert_eq!(types_of(&path).unwrap(), ["f64", "u32"]);
    let written = fs::read(&path).unwrap();
    let loaded = LaneTree::<F64, u32>::builder().load(&host, &path).unwrap();
    loaded.save(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), written);
    assert_eq!(read_pairs::<F64, u32>(&path).unwrap(), (keys.to_vec(), values.to_vec()));

    let refused = |keys: &[u64], values: &[u32]| write_pairs(&path, keys, values).unwrap_err().to_string();
    assert!(refused(&[1, 3, 2], &[0; 3]).contains("keys[2] = 2 is below keys[1] = 3"));
    assert!(refused(&[1, 1], &[0; 2]).contains("keys[1] = 1 equals keys[0]"));
    assert!(refused(&[1, 2], &[0; 1]).contains("2 keys but 1 values"));
    assert_eq!(fs::read(&path).unwrap(), written, "the path has the old file");
    fs::write(&path, b"short").unwrap();
    assert!(matches!(types_of(&path), Err(Error::Damaged { .. })));
}

#[test]
fn sets_are_saved_and_loaded_without_values() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = (folder.path().join("set"), Device::host());
    for len in [0, 1, 5000] {
        let keys: Vec<u128> = (0..len).map(|i| i << 70 | 3).collect();
        let set = LaneSet::build(&host, &keys).unwrap();
        set.save(&path).unwrap();
        let bytes = (len as u64 * 16).next_multiple_of(4096) + 4096 + if len > 0 { 4 } else { 0 };
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
        assert_eq!(LaneSet::<u128>::load(&host, &path).unwrap().keys().unwrap(), keys);
        let loaded = LaneSet::<u128>::builder().fill(0.6).load(&host, &path).unwrap();
        assert_eq!(loaded.keys().unwrap(), keys);
        assert_eq!(types_of(&path).unwrap(), ["u128", "()"]);
    }
    assert!(matches!(LaneTree::<u128, u32>::builder().load(&host, &path), Err(Error::Types { .. })));
    assert!(matches!(LaneSet::<u64>::load(&host, &path), Err(Error::Types { .. })));
}

#[test]
fn multi_maps_are_saved_and_loaded_with_the_order_of_values() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = (folder.path().join("map"), Device::host());
    for len in [0, 1, 200_000] {
        let keys: Vec<i64> = (0..len).map(|i| i * i % 1009 - 500).collect();
        let values: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let map = MultiMap::build(&host, &keys, &values).unwrap();
        map.save(&path).unwrap();
        let loaded = MultiMap::<i64, u32>::load(&host, &path).unwrap();
        assert!(loaded.iter().map(Result::unwrap).eq(map.iter().map(Result::unwrap)));
        assert_eq!((loaded.len(), loaded.keys_len()), (map.len(), map.keys_len()));
        assert_eq!(types_of(&path).unwrap(), ["i64", "u32"]);
        assert!(matches!(LaneTree::<i64, u32>::builder().load(&host, &path), Err(Error::Several)));
        assert!(matches!(read_pairs::<i64, u32>(&path), Err(Error::Several)));
    }
    // An index's file is one of a multi-map with one value per key.
    write_pairs(&path, &[1_i64, 2], &[10_u32, 20]).unwrap();
    let map = MultiMap::<i64, u32>::load(&host, &path).unwrap();
    assert!(map.iter().map(Result::unwrap).eq([(1, 10), (2, 20)]));
}

#[test]
fn parts_of_any_lengths_give_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(name));
    let keys: Vec<u64> = (0..400_000).map(|i| 5 * i).collect();
    let values: Vec<u32> = (0..400_000_u32).rev().collect();
    write_pairs(&whole, &keys, &values).unwrap();
    // About a piece of keys, of values, and others.
    for part in [131_072, 131_071, 131_073, 262_144, 262_145, 70_001, 399_999] {
        let header = Header::of::<u64, u32>(MAGIC, 0, keys.len() as u64).unwrap();
        let mut file = Writer::begin(&parts, header).unwrap();
        for (keys, values) in keys.chunks(part).zip(values.chunks(part)) {
            file.push(bytemuck::cast_slice(keys), bytemuck::cast_slice(values)).unwrap();
        }
        file.finish().unwrap();
        assert!(fs::read(&parts).unwrap() == fs::read(&whole).unwrap(), "parts of {part} pairs");
    }
}

#[test]
fn what_a_device_saves_the_host_saves_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let [of_host, of_device] = ["host", "device"].map(|name| folder.path().join(name));
    let (host, device) = (Device::host(), Device::emulated());
    let keys: Vec<i32> = (0..3000).map(|i| i * i - 50_000).collect();
    let values: Vec<u64> = keys.iter().map(|&key| key.unsigned_abs().into()).collect();
    write_pairs(&of_host, &keys, &values).unwrap();
    let tree = LaneTree::<i32, u64>::builder().load(&device, &of_host).unwrap();
    tree.save(&of_device).unwrap();
    assert!(fs::read(&of_device).unwrap() == fs::read(&of_host).unwrap());
    let sorted = SortedArray::<i32, u64>::builder().load(&device, &of_device).unwrap();
    assert_eq!(sorted.get_many(&[-50_000, -49_998]).unwrap(), [Some(50_000), None]);

    LaneSet::build(&host, &keys).unwrap().save(&of_host).unwrap();
    let set = LaneSet::<i32>::load(&device, &of_host).unwrap();
    set.save(&of_device).unwrap();
    assert!(fs::read(&of_device).unwrap() == fs::read(&of_host).unwrap());

    let keys: Vec<i32> = keys.iter().map(|key| key % 100).collect();
    MultiMap::build(&host, &keys, &values).unwrap().save(&of_host).unwrap();
    MultiMap::<i32, u64>::load(&device, &of_host).unwrap().save(&of_device).unwrap();
    assert!(fs::read(&of_device).unwrap() == fs::read(&of_host).unwrap());
}
