pub(crate) mod crash;
mod damage;
mod golden;
mod replace;

use crate::{Error, Load, Save, read_pairs, types_of, write_pairs};
use lanetree_frame::{Device, F64};
use lanetree_lane_tree::LaneTree;
use lanetree_sorted::SortedArray;
use std::fs;

#[test]
fn what_one_index_saves_another_one_loads() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = (folder.path().join("index"), Device::host());
    // More than a MiB of keys: two pieces.
    for len in [0, 1, 1000, 150_000] {
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
