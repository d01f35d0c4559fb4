//! Leaves that changes have left free, in a CuART tree that goes to other devices.

use lanetree::cuart::LongKeys;
use lanetree::{ByteKeysBuf, Cuart, Device, Mirrored};
use std::sync::Arc;

fn packed(keys: &[&str]) -> ByteKeysBuf {
    keys.iter().collect()
}

/// A leaf on a tree's free list has a size of its own, and a device takes none from there.
#[test]
fn a_device_makes_room_for_a_long_key_beside_those_that_are_free() {
    let device = Device::emulated();
    let long = |byte: u8| vec![byte; 40];
    let keys: ByteKeysBuf = [long(1), long(2)].iter().collect();
    let mut host = Cuart::build(&Device::host(), &keys, &[1_u32, 2]).unwrap();
    host.remove_many(&[long(1)].iter().collect::<ByteKeysBuf>()).unwrap();
    let mut tree = host.to_device(&device).unwrap();
    tree.insert_many(&[long(3)].iter().collect::<ByteKeysBuf>(), &[3]).unwrap();
    let keys: ByteKeysBuf = [long(1), long(2), long(3)].iter().collect();
    assert_eq!(tree.get_many(&keys).unwrap(), [None, Some(2), Some(3)]);
}

/// What the host has taken from its free list is not free on the device either.
#[test]
fn the_device_of_a_mirrored_pair_knows_what_is_free() {
    let mut host = Cuart::build(&Device::host(), &packed(&["a", "b"]), &[1_u32, 2]).unwrap();
    host.remove_many(&packed(&["b"])).unwrap();
    let mut mirrored = Mirrored::new(host, &Device::emulated()).unwrap();
    mirrored.insert_many((&packed(&["c"])).into(), &[3]).unwrap();
    assert_eq!(mirrored.host_index().stats().leaves, mirrored.device_index().stats().leaves);
    let mut tree = Arc::into_inner(mirrored.into_indexes().1).unwrap();
    tree.insert_many(&packed(&["d"]), &[4]).unwrap();
    assert_eq!(tree.get_many(&packed(&["a", "b", "c", "d"])).unwrap(), [Some(1), None, Some(3), Some(4)]);
    assert_eq!(tree.len(), 3);
}

/// A tree whose long keys go to main memory gets leaves on the device all the same where a device inserts them.
#[test]
fn free_leaves_on_the_device_are_no_free_leaves_in_main_memory() {
    let long = |byte: u8, len: usize| -> ByteKeysBuf { [vec![byte; len]].iter().collect() };
    let builder = Cuart::builder().long_keys(LongKeys::HostLeaves);
    let mut tree = builder.build(&Device::emulated(), &packed(&["a"]), &[1_u32]).unwrap();
    tree.insert_many(&long(1, 40), &[2]).unwrap();
    let mut tree = tree.to_device(&Device::host()).unwrap();
    tree.remove_many(&long(1, 40)).unwrap();
    // 40 bytes take four units.
    for (byte, len) in [(2, 40), (3, 40), (4, 40)] {
        tree.insert_many(&long(byte, len), &[u32::from(byte)]).unwrap();
    }
    tree.remove_many(&long(3, 40)).unwrap();
    tree.insert_many(&long(5, 40), &[5]).unwrap();
    assert_eq!(tree.len(), 4);
    for (byte, found) in [(1, None), (2, Some(2)), (3, None), (4, Some(4)), (5, Some(5))] {
        assert_eq!(tree.get_many(&long(byte, 40)).unwrap(), [found]);
    }
}
