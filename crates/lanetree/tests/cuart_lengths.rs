//! Lengths and counts that nobody expects: of keys, of batches, and what iterators say of theirs.

use lanetree::cuart::{ChangeScratch, DeviceByteRanges, GatherScratch, Hybrid, LongKeys, UpdateEngine};
use lanetree::{ByteKeys, ByteKeysBuf, Cuart, Device, DeviceKeys, Error, Offsets, Op};

fn packed(keys: &[&str]) -> ByteKeysBuf {
    keys.iter().collect()
}

#[test]
fn a_key_of_more_than_4_gib_is_not_a_short_one() {
    // Never touched, so it has no memory. Its lower 32 bits say 1 byte.
    const LEN: usize = (1 << 32) + 1;
    let bytes = vec![0_u8; LEN];
    let offsets = [0, LEN as u64];
    for keys in [
        ByteKeys::new(&offsets[..], &bytes).unwrap(),
        ByteKeys::new(Offsets::Fixed { width: LEN, len: 1 }, &bytes).unwrap(),
    ] {
        let too_long = |error: Option<Error>| matches!(error, Some(Error::KeyTooLong { index: 0, len: LEN, .. }));
        for device in [Device::host(), Device::emulated()] {
            let short = packed(&["\0", "a"]);
            let mut tree = Cuart::build(&device, &short, &[1_u32, 2]).unwrap();
            assert_eq!(tree.get_many(keys).unwrap(), [None]);
            assert!(too_long(tree.insert_many(keys, &[7]).err()));
            assert_eq!(tree.update_many(keys, &[7]).unwrap().unmatched, 1);
            assert_eq!(tree.remove_many(keys).unwrap().unmatched, 1);
            assert_eq!(tree.get_many(&short).unwrap(), [Some(1), Some(2)]);
            // All bytes of the key are zeros, so it lies between the two.
            match tree.lower_bound_many(keys) {
                Ok(ranks) => assert_eq!(ranks, [1]),
                Err(error) => assert!(too_long(Some(error))),
            }
            assert!(too_long(DeviceKeys::upload(&device, keys).err()));
        }
    }
}

#[test]
fn strings_of_no_bytes_are_counted_up_to_a_limit() {
    let error = |len| ByteKeys::new(Offsets::Fixed { width: 0, len }, &[]).err();
    assert!(error(u32::MAX as usize).is_none());
    assert!(matches!(error(1 << 32), Some(Error::BatchTooLarge { queries: 0x1_0000_0000 })));
    assert!(matches!(error(usize::MAX), Some(Error::BatchTooLarge { queries: usize::MAX })));
    let device = Device::emulated();
    let error = DeviceKeys::fixed(device.alloc(0).unwrap(), 0, usize::MAX).unwrap_err();
    assert!(matches!(error, Error::BatchTooLarge { queries: usize::MAX }), "{error}");
}

#[test]
fn counts_beyond_every_buffer_are_refused() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let tree = Cuart::build(&device, &packed(&["a", "bc"]), &[1_u32, 2]).unwrap();
    let mut spans = device.alloc_zeroed::<u64>(2).unwrap();
    let mut scratch = GatherScratch::new(&device, 1, 2).unwrap();
    let mut out = DeviceByteRanges::new(&tree, 1, 2, 16).unwrap();
    for count in [2, usize::MAX / 2, usize::MAX / 2 + 1, usize::MAX] {
        let error = tree.on(&stream).gather(&mut spans, count, &mut scratch, &mut out).unwrap_err();
        assert!(matches!(error, Error::OutputLength { .. }), "{error}");
    }
    let empty = DeviceKeys::fixed(device.alloc(0).unwrap(), 0, u32::MAX as usize).unwrap();
    let on = tree.on(&stream);
    assert!(matches!(on.prefix_span(&empty, &mut spans), Err(Error::OutputLength { .. })));
    assert!(matches!(on.limit(1).span(&empty, &empty, &mut spans), Err(Error::OutputLength { .. })));
    assert!(DeviceByteRanges::new(&tree, usize::MAX, usize::MAX, usize::MAX).is_err());
}

#[test]
fn a_device_inserts_no_key_that_the_tree_is_to_refuse() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let builder = Cuart::builder().long_keys(LongKeys::Refuse);
    let long = "x".repeat(33);
    for keys in [packed(&["a", "b", &long, &long]), ByteKeysBuf::encode(&[[b'x'; 33]])] {
        let mut tree = builder.build(&device, &packed(&["a"]), &[1_u32]).unwrap();
        let queries = DeviceKeys::upload(&device, &keys).unwrap();
        let values = device.upload(&vec![7; keys.len()]).unwrap();
        let mut scratch = ChangeScratch::for_inserts(&device, keys.len(), UpdateEngine::Auto).unwrap();
        let error = tree.insert_on(&stream, &queries, &values, &mut scratch).unwrap_err();
        let index = keys.len().min(3) - 1;
        let expected = format!("keys[{index}] has 33 bytes, but the index takes keys of at most 32");
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert_eq!(tree.get_many(&packed(&["a", "b", &long])).unwrap(), [Some(1), None, None]);
        // Neither to update nor to remove such a key is an error.
        tree.update_on(&stream, &queries, &values, None, &mut scratch).unwrap();
        assert_eq!(tree.remove_on(&stream, &queries).unwrap(), keys.len().min(2) as u64 - 1);
        tree.compact().unwrap();
    }
}

/// Says that it has more items than there can be.
struct Boasting<I>(I);

impl<I: Iterator> Iterator for Boasting<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

#[test]
fn what_an_iterator_says_of_its_length_is_not_believed() {
    let keys: ByteKeysBuf = Boasting(["a", "b", "c"].iter()).collect();
    assert_eq!(keys.len(), 3);
    let ranges = || Boasting(["a".."b", "b".."d"].into_iter());
    for device in [Device::host(), Device::emulated()] {
        let tree = Cuart::build(&device, &keys, &[1_u32, 2, 3]).unwrap();
        assert_eq!(tree.span_many(ranges()).unwrap(), [0..1, 1..3]);
        assert_eq!(tree.count_range_many(ranges()).unwrap(), [1, 2]);
        assert_eq!(tree.range_many(ranges()).unwrap().values, [1, 2, 3]);
        let pair = Hybrid::build(&device, &keys, &[1_u32, 2, 3]).unwrap();
        assert_eq!(pair.count_range_many(ranges()).unwrap(), [1, 2]);
        assert_eq!(pair.range_many(ranges()).unwrap().values, [1, 2, 3]);
    }
}

#[test]
fn batches_of_nothing_change_nothing() {
    for device in [Device::host(), Device::emulated()] {
        let mut tree = Cuart::build(&device, &packed(&["a"]), &[1_u32]).unwrap();
        let report = tree.apply::<&str>(&[]).unwrap();
        assert_eq!((report, tree.is_compact()), (Default::default(), true));
        let report = tree.apply(&[Op::Remove("b"), Op::Update("c", 1)]).unwrap();
        assert_eq!((report.unmatched, tree.is_compact()), (2, true));
    }
}
