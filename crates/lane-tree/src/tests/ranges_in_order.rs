//! Ranges in the order of their keys, in device form: they are copied from windows where they are near one another.

use super::distributions;
use crate::LaneTree;
use lanetree_frame::fixed::{DeviceRanges, OnStream, RangeScratch};
use lanetree_frame::{BatchOrder, Buffer, Device, Stream};
use lanetree_layout::{AnyKey, KeyWord, Value};

/// Offsets, and the pairs that there is room for, of a batch that is sorted by what it says.
fn in_order<K: AnyKey, V: Value>(
    tree: &LaneTree<K, V>,
    stream: &Stream,
    (starts, ends): (&Buffer<K>, &Buffer<K>),
    (limits, capacity): (Option<&Buffer<u64>>, usize),
    order: BatchOrder,
) -> (Vec<u64>, Vec<K>, Vec<V>) {
    let device = starts.device();
    let mut scratch = RangeScratch::new(device, starts.len()).unwrap();
    let mut out = DeviceRanges::new(device, starts.len(), capacity).unwrap();
    let on = || OnStream::new(tree, stream).order(order).limits(limits);
    on().range(starts, ends, &mut scratch, &mut out).unwrap();
    let offsets = out.offsets.to_vec().unwrap();
    let found = (offsets[starts.len()] as usize).min(capacity);
    let mut values = DeviceRanges::without_keys(device, starts.len(), capacity).unwrap();
    on().range(starts, ends, &mut scratch, &mut values).unwrap();
    let written = out.values.to_vec().unwrap()[..found].to_vec();
    assert!(values.values.to_vec().unwrap()[..found] == written, "without keys");
    (offsets, out.keys.to_vec().unwrap()[..found].to_vec(), written)
}

/// Ranges from one key on to another some pairs later, as many as there are keys, in the keys' order: short ones, and some that are empty,
/// reversed, or so long that they are copied in parts.
fn bounds<K: AnyKey>(keys: &[K], count: usize) -> (Vec<K>, Vec<K>) {
    let at = |i: usize| i * keys.len() / count;
    let pair = |i: usize| match i % 97 {
        13 => (keys[at(i)], keys[at(i).saturating_sub(3)]),
        29 if i < count / 2 => (keys[at(i)], keys[(at(i) + 5000).min(keys.len() - 1)]),
        31 => (K::decode(keys[at(i)].encode().wrapping_add(K::Bits::truncate(1))), keys[at(i)]),
        short => (keys[at(i)], keys[(at(i) + short % 11).min(keys.len() - 1)]),
    };
    (0..count).map(pair).unzip()
}

fn check_in_order<K: AnyKey, V: Value>(device: &Device, (keys, values): (&[K], &[V]), count: usize, what: &str) {
    let tree = LaneTree::build(device, keys, values).unwrap();
    let stream = device.stream().unwrap();
    let (starts, ends) = bounds(keys, count);
    let mixed = |bounds: &[K]| (0..count).map(|i| bounds[i * 7919 % count]).collect::<Vec<_>>();
    let limits = device.upload(&(0..count as u64).map(|i| i % 6).collect::<Vec<_>>()).unwrap();
    for (starts, ends, order) in [(starts.clone(), ends.clone(), "sorted"), (mixed(&starts), mixed(&ends), "mixed")] {
        let (starts, ends) = (device.upload(&starts).unwrap(), device.upload(&ends).unwrap());
        let all = in_order(&tree, &stream, (&starts, &ends), (None, 0), BatchOrder::default()).0[count] as usize;
        for (limits, capacity) in [(None, all), (None, all / 2 + 1), (Some(&limits), all)] {
            let ask = |order| in_order(&tree, &stream, (&starts, &ends), (limits, capacity), order);
            let expected = ask(BatchOrder::default());
            assert!(ask(BatchOrder::Sorted) == expected, "{what}, {order}, room for {capacity} of {all}");
        }
    }
}

#[test]
fn ranges_in_order_are_those_of_any_order() {
    let device = Device::emulated();
    let count = 6000;
    for (name, keys) in distributions() {
        let values: Vec<u64> = (0..keys.len() as u64).map(|i| i * 3).collect();
        check_in_order(&device, (&keys, &values), count, name);
    }
    let keys: Vec<u32> = (0..9000).map(|i| i * 401).collect();
    check_in_order(&device, (&keys, &vec![7_u32; keys.len()]), count, "u32/u32");
    let keys: Vec<i128> = (0..9000).map(|i| (i - 4500) << 70 | i).collect();
    check_in_order(&device, (&keys, &(0..9000_u32).collect::<Vec<_>>()), count, "i128/u32");
    check_in_order(&device, (&keys, &vec![(); keys.len()]), count, "a set");
}
