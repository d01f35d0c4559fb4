//! A CuART tree that a device has left half-written answers no call.

use crate::common::cuart_lost as lost;

use lanetree::cuart::{Hybrid, LongKeys};
use lanetree::runtime::Failure;
use lanetree::{ByteKeysBuf, Cuart, Device, Error, Mirrored, Op};
use lost::{assert_hybrid_lost, assert_lost, is_lost};

fn packed(keys: &[&str]) -> ByteKeysBuf {
    keys.iter().collect()
}

/// Lets the device fail as it removes a key.
fn lose(tree: &mut Cuart<u32>) {
    let device = tree.device().clone();
    device.inject(Some(Failure::Kernel(0)));
    let error = tree.remove_many(&packed(&["a"])).unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    device.inject(None);
}

#[test]
fn a_lost_tree_answers_no_call() {
    let device = Device::emulated();
    let long = "long".repeat(20);
    for (keys, compact) in [(&["a", "b"][..], true), (&["a", "b", &long], true), (&["a", "b", "cd"], false)] {
        let mut tree = Cuart::build(&device, &packed(keys), &vec![1; keys.len()]).unwrap();
        if !compact {
            tree.insert_many(&packed(&["d"]), &[4]).unwrap();
        }
        lose(&mut tree);
        assert_lost(&mut tree);
    }
}

#[test]
fn a_lost_tree_that_had_leaves_in_main_memory_before_answers_no_call() {
    let builder = Cuart::builder().long_keys(LongKeys::HostLeaves);
    let mut tree = builder.build(&Device::emulated(), &packed(&["a"]), &[1]).unwrap();
    tree.insert_many(&packed(&[&"long".repeat(20)]), &[2]).unwrap();
    lose(&mut tree);
    assert_lost(&mut tree);
}

#[test]
fn a_lost_pair_of_trees_answers_no_call() {
    let device = Device::emulated();
    let long = "long".repeat(20);
    let mut pair = Hybrid::build(&device, &packed(&["a", "b", &long]), &[1_u32, 2, 3]).unwrap();
    device.inject(Some(Failure::Kernel(0)));
    assert!(is_lost(pair.remove_many(&packed(&["a", &long]))));
    device.inject(None);
    // Nor has the host its half of the batch.
    assert_eq!(pair.host_tree().get_many(&packed(&[&long])).unwrap(), [Some(3)]);
    assert_hybrid_lost(&mut pair);
}

#[test]
fn a_mirrored_copy_that_is_not_whole_is_lost_until_it_is_sent_again() {
    let tree = Cuart::build(&Device::host(), &packed(&["a", "b"]), &[1_u32, 2]).unwrap();
    let device = Device::emulated();
    let mut pair = Mirrored::new(tree, &device).unwrap();
    device.inject(Some(Failure::Transfer(1)));
    pair.apply(&[Op::Insert(b"c".to_vec(), 3), Op::Remove(b"a".to_vec())]).unwrap_err();
    device.inject(None);
    assert!(!pair.is_in_sync() && pair.device_index().is_lost());
    assert_eq!(pair.host_index().get_many(&packed(&["a", "b", "c"])).unwrap(), [None, Some(2), Some(3)]);
    pair.synchronize().unwrap();
    let copy = pair.device_index();
    assert!(!copy.is_lost());
    assert_eq!(copy.get_many(&packed(&["a", "b", "c"])).unwrap(), [None, Some(2), Some(3)]);
}
