pub(crate) mod crash;
mod damage;
mod golden;
mod killed;
mod kinds;
mod log;
mod replace;

use crate::disk::Replacement;
use crate::format::{Header, MAGIC, Writer};
use crate::{
    Error, FromFile, Load, ReadAt, Save, Section, Summary, read_pairs, read_strings, types_of, write_pairs,
    write_strings,
};
use lanetree_cuart::{Cuart, LongKeys};
use lanetree_frame::{ByteKeysBuf, Device, F64, Op, OrderedIndex};
use lanetree_hbtree::HbTree;
use lanetree_lane_tree::{LaneSet, LaneTree};
use lanetree_multimap::MultiMap;
use lanetree_sorted::SortedArray;
use std::{fs, io};

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
    assert!(matches!(other, Err(Error::Types { keys, values, .. }) if keys == "i64" && values == "u32"));
}

/// A file in memory, whose sections are read at once or by MiB.
struct InMemory(Vec<u8>, bool);

impl ReadAt for InMemory {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.0.get(offset as usize..).and_then(|bytes| bytes.get(..out.len()));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn reads_at_once(&self) -> bool {
        self.1
    }
}

#[test]
fn files_are_loaded_from_any_source_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = (folder.path().join("index"), Device::host());
    let keys: Vec<u64> = (0..300_000).collect();
    LaneTree::build(&host, &keys, &keys).unwrap().save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    for at_once in [false, true] {
        let loaded = LaneTree::<u64, u64>::builder().load_from(&host, &InMemory(bytes.clone(), at_once)).unwrap();
        assert!(loaded.iter().all(|pair| pair.is_ok_and(|(key, value)| key == value)));
        assert_eq!(loaded.len(), 300_000);
        let tree = HbTree::<u64, u64>::builder().load_from(&host, &InMemory(bytes.clone(), at_once)).unwrap();
        assert_eq!(tree.len(), 300_000);
        let mut damaged = InMemory(bytes.clone(), at_once);
        // In the third piece of the keys.
        damaged.0[4096 + (2 << 20) + 7] ^= 1;
        let error = LaneTree::<u64, u64>::builder().load_from(&host, &damaged).unwrap_err();
        let offset_of_piece = 4096 + (2 << 20);
        assert!(
            matches!(error, Error::Damaged { section: Section::Keys, offset, .. } if offset == offset_of_piece),
            "{error}"
        );
    }
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
    // The header alone is read.
    fs::write(&path, &written[..4096]).unwrap();
    let found = Summary::read(&path).unwrap();
    assert_eq!((found.types, found.pairs, &*found.note), (["f64", "u32"].map(str::to_owned), 3, ""));
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
        assert!(matches!(LaneTree::<i64, u32>::builder().load(&host, &path), Err(Error::Several { .. })));
        assert!(matches!(read_pairs::<i64, u32>(&path), Err(Error::Several { .. })));
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
            file.push([bytemuck::cast_slice(keys), bytemuck::cast_slice(values)]).unwrap();
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

#[test]
fn trees_of_byte_strings_are_saved_and_loaded_after_changes_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strings");
    for (device, long_keys) in [
        (Device::host(), LongKeys::DeviceLeaves),
        (Device::emulated(), LongKeys::DeviceLeaves),
        (Device::emulated(), LongKeys::HostLeaves),
    ] {
        for len in [0, 1, 900_u32] {
            let key = |i: u32| format!("{}{}", i * 7919 % 1009, "x".repeat((i % 60) as usize)).into_bytes();
            let keys: ByteKeysBuf = (0..len).map(key).collect();
            let values: Vec<u32> = (0..len).collect();
            let builder = Cuart::<u32>::builder().long_keys(long_keys);
            let mut tree = builder.build(&device, &keys, &values).unwrap();
            let ops: Vec<_> = (0..len.min(40))
                .map(|i| if i % 2 == 0 { Op::Remove(key(i)) } else { Op::Insert(key(i + len), i) })
                .collect();
            for is_changed in [false, true] {
                if is_changed && long_keys == LongKeys::HostLeaves {
                    // A device does not change such a tree.
                    break;
                }
                if is_changed {
                    tree.apply(&ops).unwrap();
                }
                tree.save(&path).unwrap();
                let loaded = builder.load(&device, &path).unwrap();
                let of_host = Cuart::<u32>::load(&Device::host(), &path).unwrap();
                let expected = tree.to_device(&Device::host()).unwrap().pairs().unwrap();
                assert!(expected.is_sorted() && expected.len() as u64 == tree.len());
                assert_eq!(loaded.pairs().unwrap(), expected);
                assert_eq!(of_host.pairs().unwrap(), expected);
                assert_eq!(loaded.get_many(&keys).unwrap(), tree.get_many(&keys).unwrap());
            }
        }
    }
    assert!(
        matches!(Cuart::<u64>::load(&Device::host(), &path), Err(Error::Types { keys, values, .. }) if keys == "bytes" && values == "u32")
    );
    assert!(matches!(read_pairs::<u64, u32>(&path), Err(Error::Types { .. })));
    write_pairs(&path, &[1_u64], &[1_u32]).unwrap();
    assert!(matches!(read_strings::<u32>(&path), Err(Error::Types { keys, .. }) if keys == "u64"));
    let refused = |keys: &[&str], values: &[u32]| {
        write_strings(&path, &keys.iter().collect::<ByteKeysBuf>(), values).unwrap_err().to_string()
    };
    assert!(refused(&["b", "a"], &[0; 2]).contains("keys[1] = "));
    assert!(refused(&["a", "a"], &[0; 2]).contains("equals keys[0]"));
    assert!(refused(&["a"], &[]).contains("1 keys but 0 values"));
}

#[test]
fn many_megabytes_of_strings_are_written_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strings");
    // Parts end within pieces, and one string is longer than a part.
    let keys: ByteKeysBuf = (0..70_000_u32)
        .map(|i| format!("{i:08}{}", "y".repeat(if i == 30_000 { 5 << 20 } else { i as usize % 150 })))
        .collect();
    let values: Vec<u64> = (0..70_000).collect();
    write_strings(&path, &keys, &values).unwrap();
    assert!(read_strings::<u64>(&path).unwrap() == (keys, values));
}

#[test]
fn hb_trees_of_every_structure_are_filled_window_by_window() {
    let folder = tempfile::tempdir().unwrap();
    let (path, again) = (folder.path().join("tree"), folder.path().join("again"));
    // Three windows, the last of which is not whole.
    for len in [0_u32, 1, 5000, (5 << 19) + 3] {
        let keys: Vec<u32> = (0..len).map(|i| 3 * i).collect();
        let values: Vec<u32> = (0..len).rev().collect();
        write_pairs(&path, &keys, &values).unwrap();
        let device = if len > 5000 { Device::host() } else { Device::emulated() };
        let whole = fs::read(&path).unwrap();
        let builder = HbTree::<u32, u32>::builder();
        let implicit = builder.load(&device, &path).unwrap();
        implicit.save(&again).unwrap();
        assert!(fs::read(&again).unwrap() == whole);
        let regular = builder.regular().fill(0.7).load(&device, &path).unwrap();
        regular.save(&again).unwrap();
        assert!(fs::read(&again).unwrap() == whole);
        let probes: Vec<u32> = (0..100).map(|i| i * (len / 40 + 1)).collect();
        let expected: Vec<_> =
            probes.iter().map(|&probe| keys.binary_search(&probe).ok().map(|at| values[at])).collect();
        assert_eq!(implicit.get_many(&probes).unwrap(), expected);
        assert_eq!(regular.get_many(&probes).unwrap(), expected);
        assert_eq!(LaneTree::<u32, u32>::builder().load(&Device::host(), &path).unwrap().len(), u64::from(len));
    }
    // Where windows meet, keys must ascend, too.
    let window = crate::format::WINDOW;
    let mut keys: Vec<u32> = (0..window as u32 + 2).collect();
    keys[window] = window as u32 - 1;
    let header = Header::of::<u32, ()>(MAGIC, 0, keys.len() as u64).unwrap();
    let header32 = Header::of::<u32, u32>(MAGIC, 0, keys.len() as u64).unwrap();
    crate::format::write(Replacement::begin(&path).unwrap(), header, [bytemuck::cast_slice(&keys), &[]])
        .unwrap()
        .commit()
        .unwrap();
    let offset = 4096 + 4 * window as u64;
    assert!(matches!(read_pairs::<u32, ()>(&path), Err(Error::Damaged { offset: at, .. }) if at == offset));
    crate::format::write(
        Replacement::begin(&path).unwrap(),
        header32,
        [bytemuck::cast_slice(&keys), bytemuck::cast_slice(&keys)],
    )
    .unwrap()
    .commit()
    .unwrap();
    let loaded = HbTree::<u32, u32>::builder().load(&Device::host(), &path);
    assert!(matches!(loaded, Err(Error::Damaged { offset: at, .. }) if at == offset));
}

#[test]
fn pairs_reach_a_device_piece_by_piece_and_are_checked() {
    use crate::format::Reader;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let device = Device::emulated();
    // 42 pieces, of which the last ones are not full, and slots that are used again.
    let len = (5 << 20) + 3;
    for len in [0, 1, 4096, len] {
        let keys: Vec<u32> = (0..len).map(|i| 3 * i).collect();
        let values: Vec<u32> = keys.iter().map(|key| !key).collect();
        write_pairs(&path, &keys, &values).unwrap();
        let file = fs::File::open(&path).unwrap();
        let reader = Reader::new::<u32, u32>(&file).unwrap();
        let mut buffers = (device.alloc::<u32>(len as usize).unwrap(), device.alloc::<u32>(len as usize).unwrap());
        crate::upload::pairs(&reader, &device, &mut buffers).unwrap();
        assert!(buffers.0.as_slice().unwrap() == keys && buffers.1.as_slice().unwrap() == values, "{len} pairs");
    }
    // In a file whose checksums are right, a key is not above the one before it: within a piece, and where one begins.
    for wrong in [(2 << 20) + 5, 2 << 20] {
        let mut keys: Vec<u32> = (0..len).collect();
        keys[wrong as usize] = wrong - 1;
        let header = Header::of::<u32, u32>(MAGIC, 0, u64::from(len)).unwrap();
        let mut writer = Writer::begin(&path, header).unwrap();
        writer.push([bytemuck::cast_slice(&keys), bytemuck::cast_slice(&keys)]).unwrap();
        writer.finish().unwrap();
        let file = fs::File::open(&path).unwrap();
        let reader = Reader::new::<u32, u32>(&file).unwrap();
        let mut buffers = (device.alloc::<u32>(len as usize).unwrap(), device.alloc::<u32>(len as usize).unwrap());
        let error = crate::upload::pairs(&reader, &device, &mut buffers).unwrap_err();
        let offset_of_key = 4096 + 4 * u64::from(wrong);
        assert!(
            matches!(error, Error::Damaged { section: Section::Keys, offset, .. } if offset == offset_of_key),
            "{error}"
        );
    } // Errors of more pieces than there are slots.
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].iter_mut().step_by(1 << 20).for_each(|byte| *byte ^= 1);
    fs::write(&path, bytes).unwrap();
    let file = fs::File::open(&path).unwrap();
    let error = Reader::new::<u32, u32>(&file).and_then(|reader| {
        let mut buffers = (device.alloc::<u32>(len as usize).unwrap(), device.alloc::<u32>(len as usize).unwrap());
        crate::upload::pairs(&reader, &device, &mut buffers)
    });
    assert!(matches!(error, Err(Error::Damaged { section: Section::Keys, offset: 4096, .. })), "{error:?}");
}
