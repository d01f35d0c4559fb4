//! What CuART says about bad input.

use lanetree::cuart::{ChangeScratch, LongKeys, UpdateEngine};
use lanetree::{ByteKeys, ByteKeysBuf, Cuart, Device, DeviceKeys, Error};

fn strings(keys: &[&str]) -> ByteKeysBuf {
    keys.iter().collect()
}

#[track_caller]
fn says<T>(result: Result<T, Error>, message: &str) {
    let error = result.err().expect("an error");
    assert_eq!(error.to_string(), message);
}

#[test]
fn errors_name_what_is_wrong() {
    let host = Device::host();
    says(Cuart::build(&host, &strings(&["a", "b"]), &[1_u32]), "2 keys but 1 values: give one value per key");
    says(
        Cuart::builder().build_sorted(&host, &strings(&["a", "c", "b\0"]), &[1_u32, 2, 3]),
        r#"keys[2] = "b\x00" is below keys[1] = "c": sort the pairs, or use the build that sorts them"#,
    );
    let long = "x".repeat(33);
    says(
        Cuart::builder().long_keys(LongKeys::Refuse).build(&host, &strings(&["a", &long]), &[1_u32, 2]),
        "keys[1] has 33 bytes, but the index takes keys of at most 32: leave it out, or choose other `LongKeys`",
    );
    let tree = Cuart::build(&host, &strings(&["a", "b", "c"]), &[1_u32, 2, 3]).unwrap();
    says(
        tree.range_many(["a".."b", "c".."b"]),
        r#"range 1 starts at "c" and ends at "b", before its start: swap the bounds, or leave it out"#,
    );
    says(tree.get_many_into(&strings(&["a"]), &mut [None; 2]), "the output holds 2 elements, but exactly 1 is needed");
    says(
        ByteKeys::new(&[0_u64, 9][..], b"short"),
        "offsets[1] = 9 is past the end of the bytes: there are 5, so no offset may be larger",
    );
    says(
        ByteKeys::new(&[0_u32, 3, 2][..], b"short"),
        "offsets[2] = 2 is below offsets[1] = 3: offsets must not descend",
    );
}

#[test]
fn calls_that_are_not_for_a_tree_are_named() {
    let host = Cuart::build(&Device::host(), &strings(&["a"]), &[1_u32]).unwrap();
    let (stream, keys) =
        (Device::host().stream().unwrap(), DeviceKeys::upload(&Device::host(), &strings(&["a"])).unwrap());
    let error = host.on(&stream).locate(&keys, &mut Device::host().alloc(1).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "OnStream::locate needs a tree on a device that runs kernels, but this one is on the host: use the host form"
    );

    let device = Device::emulated();
    let long = Cuart::builder().long_keys(LongKeys::HostLeaves).build(&device, &strings(&[&"a".repeat(40)]), &[1_u32]);
    let error = long.unwrap().count_range_many([..]).unwrap_err();
    assert!(matches!(error, Error::LeavesInMainMemory { leaves: 1, .. }), "{error}");

    let mut tree = Cuart::build(&device, &strings(&["a", "b"]), &[1_u64, 2]).unwrap();
    let error = ChangeScratch::for_updates(&device, 1, UpdateEngine::Sequence).and_then(|mut scratch| {
        let (stream, keys) = (device.stream()?, DeviceKeys::upload(&device, &strings(&["a"]))?);
        tree.update_on(&stream, &keys, &device.upload(&[1])?, None, &mut scratch)
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "the update engine Sequence cannot serve this call: values have 64 bits; choose another engine, or `Auto`"
    );
}

#[test]
fn of_equal_keys_the_last_stays() {
    let keys = strings(&["b", "a", "b", "", "a", "b", ""]);
    let tree = Cuart::build(&Device::host(), &keys, &[1_u64, 2, 3, 4, 5, 6, 7]).unwrap();
    assert_eq!(tree.get_many(&strings(&["", "a", "b"])).unwrap(), [Some(7), Some(5), Some(6)]);
    assert_eq!(tree.len(), 3);
    let keys = strings(&["a", "a", "b", "b"]);
    let sorted = Cuart::builder().build_sorted(&Device::host(), &keys, &[1_u64, 2, 3, 4]).unwrap();
    assert_eq!(sorted.get_many(&strings(&["a", "b"])).unwrap(), [Some(2), Some(4)]);
}

#[test]
fn empty_batches_and_trees_are_no_errors() {
    let none = ByteKeysBuf::new();
    let tree = Cuart::<u32>::build(&Device::host(), &none, &[]).unwrap();
    assert!(tree.is_empty() && tree.pair(0).is_none());
    assert_eq!((tree.stats().bytes(), tree.stats().bytes_per_key), (0, 0.0));
    assert_eq!(tree.get_many(&strings(&["", "a"])).unwrap(), [None, None]);
    assert_eq!(tree.get_many(&none).unwrap(), []);
    assert_eq!(tree.upper_bound_many(&strings(&["a"])).unwrap(), [0]);
    assert_eq!(tree.prefix_count_many(&strings(&[""])).unwrap(), [0]);
    assert!(tree.range_many([..]).unwrap().get(0).1.is_empty());
    assert!(tree.prefix_many(&none).unwrap().is_empty());
    assert_eq!(tree.explain(b"a").unwrap().to_string(), "\"a\" from the root\nnot found");
    assert_eq!(format!("{tree:?}"), "Cuart<u32>[0 pairs, on host (2 threads)]".replace('2', &threads()));
}

fn threads() -> String {
    Device::host().properties().unwrap().multiprocessors.to_string()
}
