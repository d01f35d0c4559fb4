//! Nodes of a tree that threads of a device change at the same time. The emulator faults what is not atomic.

use lanetree::cuart::{ChangeScratch, RootTable, UpdateEngine};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys, Stream};

fn keys(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> ByteKeysBuf {
    keys.into_iter().collect()
}

fn build(device: &Device, keys: &ByteKeysBuf) -> Cuart<u32> {
    Cuart::builder().root_table(RootTable::None).build(device, keys, &vec![1; keys.len()]).unwrap()
}

fn insert(tree: &mut Cuart<u32>, stream: &Stream, keys: &ByteKeysBuf) {
    let device = tree.device().clone();
    let values = device.upload(&vec![2; keys.len()]).unwrap();
    let mut scratch = ChangeScratch::for_inserts(&device, keys.len(), UpdateEngine::Auto).unwrap();
    let keys = DeviceKeys::upload(&device, keys).unwrap();
    tree.insert_on(stream, &keys, &values, &mut scratch).unwrap();
}

/// The counts of nodes of up to 256 children, each with the number of its children.
fn counts(tree: &Cuart<u32>) -> Vec<(usize, usize)> {
    let nodes = tree.regions().unwrap().n256;
    nodes.iter().map(|it| (it.header.count.into(), it.links.iter().filter(|link| !link.is_none()).count())).collect()
}

#[test]
fn a_node_of_256_counts_its_children_after_removals() {
    for seed in 0..4 {
        let device = Device::emulated_with_seed(seed);
        let stream = device.stream().unwrap();
        // The empty key ends at the node: it is no child.
        let all = keys((0..=255_u8).map(|byte| vec![byte, 7]).chain([vec![]]));
        let mut tree = build(&device, &all);
        assert_eq!(counts(&tree), [(256, 256)]);
        let gone = || (0..100_u8).map(|byte| vec![byte, 7]);
        // Twice each, among others that are not there.
        let removed = keys(gone().chain(gone()).chain([vec![], vec![], vec![200, 8], vec![200]]));
        assert_eq!(tree.remove_on(&stream, &DeviceKeys::upload(&device, &removed).unwrap()).unwrap(), 101);
        assert_eq!(counts(&tree), [(156, 156)], "seed {seed}");
        insert(&mut tree, &stream, &keys((0..30_u8).map(|byte| vec![byte]).chain([vec![]])));
        assert_eq!(counts(&tree), [(186, 186)], "seed {seed}");
    }
}

#[test]
fn children_that_are_added_at_the_same_time_are_read_as_they_are_written() {
    // From 2 children, through every kind of node.
    for seed in 0..4 {
        let device = Device::emulated_with_seed(seed);
        let stream = device.stream().unwrap();
        let mut tree = build(&device, &keys([[3, 0], [200, 0]]));
        let added = keys((0..=255_u8).map(|byte| [byte.wrapping_mul(37), 1]));
        insert(&mut tree, &stream, &added);
        assert!(tree.get_many(&added).unwrap().iter().all(|value| *value == Some(2)), "seed {seed}");
        assert_eq!(tree.len(), 258);
    }
}

#[test]
fn leaves_that_are_cleared_are_compared_in_the_same_words() {
    for seed in 0..4 {
        let device = Device::emulated_with_seed(seed);
        let stream = device.stream().unwrap();
        // Of every size of leaves. All threads are at a leaf that one of them clears, and many compare another key.
        for len in [5, 12, 30, 50] {
            let tree = &mut build(&device, &keys([vec![b'a'; len], vec![b'b'; len]]));
            let others = (0..200).map(|i| [vec![b'a'; len - 1], vec![i as u8]].concat());
            let removed = keys(others.chain((0..200).map(|_| vec![b'a'; len])));
            assert_eq!(tree.remove_on(&stream, &DeviceKeys::upload(&device, &removed).unwrap()).unwrap(), 1);
            assert_eq!(tree.get_many(&keys([vec![b'b'; len]])).unwrap(), [Some(1)], "seed {seed}, {len} bytes");
        }
    }
}
