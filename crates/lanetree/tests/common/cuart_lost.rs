//! Every call of a CuART tree that is lost says so.

use lanetree::cuart::{ChangeScratch, DeviceByteRanges, GatherScratch, Hybrid, UpdateEngine};
use lanetree::{ByteKeys, ByteKeysBuf, Cuart, Device, DeviceKeys, Error, Op, Result};

pub(crate) fn is_lost<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Lost { .. }))
}

#[allow(dead_code, reason = "not every file of tests needs it")]
pub(crate) fn assert_lost(tree: &mut Cuart<u32>) {
    let (some, none): (ByteKeysBuf, _) = (["a"].iter().collect(), ByteKeysBuf::new());
    assert!(tree.is_lost());
    for keys in [ByteKeys::from(&some), (&none).into()] {
        assert_host_form_is_lost(tree, keys);
        assert_device_form_is_lost(tree, keys);
    }
    let device = tree.device().clone();
    assert!(is_lost(tree.explain(b"a")));
    assert!(is_lost(tree.to_device(&Device::host())) && is_lost(tree.to_device(&device)));
    assert!(is_lost(tree.compact()));
    assert!(tree.regions().is_none() && tree.pair(0).is_none() && tree.host_leaf(0).is_none());
    assert!(!tree.is_compact() && tree.key_width().is_none());
    // Of no meaning for the pairs: what it was, and where.
    let len = tree.len();
    assert_eq!((tree.stats().len, tree.is_empty()), (len, len == 0));
    assert!(format!("{tree:?}").contains("emulated"));
    // The reason is told once.
    let message = tree.get_many(&some).unwrap_err().to_string();
    assert_eq!(message.matches("is lost").count(), 1, "{message}");
}

fn assert_host_form_is_lost(tree: &mut Cuart<u32>, keys: ByteKeys<'_>) {
    let (count, device) = (keys.len(), tree.device().clone());
    let mut out = vec![None; count];
    assert!(is_lost(tree.get_many(keys)) && is_lost(tree.get_many_into(keys, &mut out)));
    let (bytes, mut values) = (device.pinned(count).unwrap(), device.pinned(count).unwrap());
    assert!(is_lost(tree.get_many_pinned(1, &bytes, 0, &mut values, None)));
    assert!(is_lost(tree.lower_bound_many(keys)) && is_lost(tree.upper_bound_many(keys)));
    assert!(is_lost(tree.predecessor_many(keys)) && is_lost(tree.successor_many(keys)));
    let ranges = || keys.iter().map(|key| key..=key);
    assert!(is_lost(tree.span_many(ranges())) && is_lost(tree.prefix_span_many(keys)));
    assert!(is_lost(tree.range_many(ranges())) && is_lost(tree.prefix_many(keys)));
    assert!(is_lost(tree.count_range_many(ranges())) && is_lost(tree.prefix_count_many(keys)));
    let values = vec![1; count];
    assert!(is_lost(tree.insert_many(keys, &values)) && is_lost(tree.update_many(keys, &values)));
    assert!(is_lost(tree.remove_many(keys)));
    let ops: Vec<Op<&[u8], u32>> = keys.iter().map(Op::Remove).collect();
    assert!(is_lost(tree.apply(&ops)));
}

fn assert_device_form_is_lost(tree: &mut Cuart<u32>, keys: ByteKeys<'_>) {
    let (count, device) = (keys.len(), tree.device().clone());
    let stream = device.stream().unwrap();
    let queries = DeviceKeys::upload(&device, keys).unwrap();
    let mut values = device.alloc_zeroed::<u32>(count).unwrap();
    let [mut found, mut pending] = [(); 2].map(|()| device.alloc_zeroed::<u32>(count.div_ceil(32)).unwrap());
    let (mut ranks, mut links) = (device.alloc_zeroed(2 * count).unwrap(), device.alloc_zeroed(count).unwrap());
    let on = || tree.on(&stream);
    assert!(is_lost(on().hits(&mut found).miss(0).get(&queries, &mut values)));
    assert!(is_lost(on().miss(0).get_pending(&queries, &mut values, &mut found, &mut pending)));
    assert!(is_lost(on().locate(&queries, &mut links)));
    assert!(is_lost(on().lower_bound(&queries, &mut ranks)) && is_lost(on().upper_bound(&queries, &mut ranks)));
    assert!(is_lost(on().limit(9).span(&queries, &queries, &mut ranks)));
    assert!(is_lost(on().prefix_span(&queries, &mut ranks)));
    assert!(is_lost(DeviceByteRanges::new(tree, count, 1, 8)));
    // As for another tree.
    let other = Cuart::build(&device, &["a"].iter().collect::<ByteKeysBuf>(), &[1_u32]).unwrap();
    let mut ranges = DeviceByteRanges::new(&other, count, 1, 8).unwrap();
    let mut gathering = GatherScratch::new(&device, count, 1).unwrap();
    assert!(is_lost(on().gather(&mut ranks, count, &mut gathering, &mut ranges)));
    let mut scratch = ChangeScratch::for_inserts(&device, count, UpdateEngine::Auto).unwrap();
    assert!(is_lost(tree.insert_on(&stream, &queries, &values, &mut scratch)));
    assert!(is_lost(tree.update_on(&stream, &queries, &values, None, &mut scratch)));
    assert!(is_lost(tree.remove_on(&stream, &queries)));
}

/// Of short keys, of long ones, of both, and of none.
#[allow(dead_code, reason = "not every file of tests needs it")]
pub(crate) fn assert_hybrid_lost(pair: &mut Hybrid<u32>) {
    assert!(pair.is_lost() && pair.device_tree().is_lost() && !pair.host_tree().is_lost());
    let long = "long".repeat(20);
    for keys in [&["a"][..], &[&long], &["a", &long], &[]] {
        let keys: ByteKeysBuf = keys.iter().collect();
        let mut out = vec![None; keys.len()];
        assert!(is_lost(pair.get_many(&keys)) && is_lost(pair.get_many_into(&keys, &mut out)));
        assert!(is_lost(pair.lower_bound_many(&keys)) && is_lost(pair.upper_bound_many(&keys)));
        assert!(is_lost(pair.predecessor_many(&keys)) && is_lost(pair.successor_many(&keys)));
        let ranges = || keys.iter().map(|key| key..=key);
        assert!(is_lost(pair.range_many(ranges())) && is_lost(pair.prefix_many(&keys)));
        assert!(is_lost(pair.count_range_many(ranges())) && is_lost(pair.prefix_count_many(&keys)));
        let values = vec![1; keys.len()];
        assert!(is_lost(pair.insert_many(&keys, &values)) && is_lost(pair.update_many(&keys, &values)));
        assert!(is_lost(pair.remove_many(&keys)));
        let ops: Vec<Op<&[u8], u32>> = keys.iter().map(Op::Remove).collect();
        assert!(is_lost(pair.apply(&ops)));
    }
    assert!(is_lost(pair.compact()) && !pair.is_compact());
    assert_eq!(pair.stats().device.len + pair.stats().host.len, pair.len());
}
