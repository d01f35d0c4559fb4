//! What a caller leaves in a buffer for a kernel is clipped before it is an index. The emulator faults an access
//! outside the buffers.

use core::ops::Range;
use lanetree::BatchOrder;
use lanetree::cuart::{DeviceByteRanges, GatherScratch, LongKeys};
use lanetree::{Buffer, ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceRanges, Harmonia, RangeScratch, Word};

/// Keys of several lengths if `mixed`, whose ranks are stored; otherwise of 8 bytes, whose ranks are places.
fn keys(numbers: Range<u64>, mixed: bool) -> ByteKeysBuf {
    let key = |i: u64| {
        let end = if mixed { &[b'x'; 40][..(i % 5 * 10) as usize] } else { &[] };
        [&i.to_be_bytes()[..], end].concat()
    };
    numbers.map(key).collect()
}

fn tree(device: &Device, len: u64, mixed: bool) -> Cuart<u64> {
    let keys = keys(0..len, mixed);
    let values: Vec<u64> = (0..len).map(|i| 10 + i).collect();
    Cuart::builder().long_keys(LongKeys::DeviceLeaves).build(device, &keys, &values).unwrap()
}

/// The values of spans, and the offsets that tell whose they are; room for 16 pairs.
fn gather<V: Word>(tree: &Cuart<V>, spans: &mut Buffer<u64>) -> (Vec<u64>, Vec<V>) {
    let (device, count) = (tree.device(), spans.len() / 2);
    let stream = device.stream().unwrap();
    let mut scratch = GatherScratch::new(device, count, 16).unwrap();
    let mut out = DeviceByteRanges::new(tree, count, 16, 16 * 56).unwrap();
    tree.on(&stream).gather(spans, count, &mut scratch, &mut out).unwrap();
    stream.synchronize().unwrap();
    let offsets = out.offsets.to_vec().unwrap();
    let mut values = out.values.to_vec().unwrap();
    values.truncate(offsets[count] as usize);
    (offsets, values)
}

#[test]
fn a_span_outside_the_tree_is_clipped_to_it() {
    let device = Device::emulated();
    for mixed in [false, true] {
        let tree = tree(&device, 4, mixed);
        let given = [1000, 1010, 2, 1010, 3, 1, u64::MAX, 0, 0, u64::MAX, u64::MAX, u64::MAX, 1, 3];
        let mut spans = device.upload(&given).unwrap();
        let (offsets, values) = gather(&tree, &mut spans);
        assert_eq!(offsets, [0, 0, 2, 2, 2, 6, 6, 8], "mixed: {mixed}");
        assert_eq!(values, [12, 13, 10, 11, 12, 13, 11, 12]);
        let left = spans.to_vec().unwrap();
        assert_eq!(left, [4, 4, 2, 4, 3, 3, 4, 4, 0, 4, 4, 4, 1, 3], "the spans say what was gathered");
    }
}

#[test]
fn a_span_of_another_tree_is_clipped() {
    let device = Device::emulated();
    for mixed in [false, true] {
        let (large, small) = (tree(&device, 300, mixed), tree(&device, 3, mixed));
        let stream = device.stream().unwrap();
        let [starts, ends] = [1, 299].map(|key| DeviceKeys::upload(&device, &keys(key..key + 1, false)).unwrap());
        let mut spans = device.alloc(2).unwrap();
        large.on(&stream).span(&starts, &ends, &mut spans).unwrap();
        stream.synchronize().unwrap();
        assert!(spans.to_vec().unwrap()[1] >= 299);
        assert_eq!(gather(&small, &mut spans), (vec![0, 2], vec![11, 12]), "mixed: {mixed}");
    }
}

#[test]
fn a_span_kept_across_a_compaction_is_clipped() {
    let device = Device::emulated();
    for mixed in [false, true] {
        let mut tree = tree(&device, 100, mixed);
        let mut spans = device.upload(&[90_u64, 100]).unwrap();
        assert_eq!(gather(&tree, &mut spans).1, (100..110).collect::<Vec<u64>>());
        tree.remove_many(&keys(5..100, mixed)).unwrap();
        tree.compact().unwrap();
        assert_eq!(gather(&tree, &mut spans), (vec![0, 0], vec![]), "mixed: {mixed}");
    }
}

/// Harmonia has no spans to hand in: what a batch of ranges finds is what it gathers, whatever lies in the buffers.
#[test]
fn ranges_are_those_of_the_tree_whatever_the_buffers_hold() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let build = |len: u64| {
        let keys: Vec<u64> = (0..len).collect();
        Harmonia::builder().build(&device, &keys, &keys).unwrap()
    };
    let (large, small) = (build(5000), build(4));
    let starts = device.upload(&[0_u64, 1000, 3, 2]).unwrap();
    let ends = device.upload(&[u64::MAX, 1010, 1, 3]).unwrap();
    let limits = device.upload(&[u64::MAX, u64::MAX, u64::MAX, 1]).unwrap();
    let mut scratch = RangeScratch::new(&device, 4).unwrap();
    let mut out = DeviceRanges::new(&device, 4, 6000).unwrap();
    out.offsets = device.upload(&[u64::MAX; 5]).unwrap();
    // The scratch memory and results of one tree are there for the next.
    for (tree, offsets) in [(&large, [0, 5000, 5011, 5011, 5012]), (&small, [0, 4, 4, 4, 5])] {
        tree.on(&stream).limits(&limits).range(&starts, &ends, &mut scratch, &mut out).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(out.offsets.to_vec().unwrap(), offsets);
        let pairs = offsets[4] as usize;
        assert_eq!(out.keys.to_vec().unwrap()[..pairs], out.values.to_vec().unwrap()[..pairs]);
        assert_eq!(out.keys.to_vec().unwrap()[pairs - 1], 2);
    }
}

/// That sorted batches are faster is for those who sort them; the others get the same.
#[test]
fn queries_that_are_said_to_be_sorted_need_not_be() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let keys: Vec<u64> = (0..100).map(|key| 2 * key).collect();
    let tree = Harmonia::builder().build(&device, &keys, &keys).unwrap();
    let queries: Vec<u64> = (0..5000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 60)).collect();
    let mut values = device.alloc(queries.len()).unwrap();
    let queries_on_device = device.upload(&queries).unwrap();
    let on = tree.on(&stream).order(BatchOrder::Sorted);
    on.get(&queries_on_device, &mut values).unwrap();
    stream.synchronize().unwrap();
    let expected = queries.iter().map(|&key| if key < 200 && key % 2 == 0 { key } else { u64::MAX });
    assert!(values.to_vec().unwrap().into_iter().eq(expected));
}
