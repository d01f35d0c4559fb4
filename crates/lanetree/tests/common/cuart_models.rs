//! CuART trees to be changed, and what they hold.

use super::Failed;
use lanetree::cuart::RootTable;
use lanetree::runtime::Failure;
use lanetree::{ByteKeysBuf, Cuart, Device, Error, Op};
use std::collections::BTreeMap;

pub(crate) type Key = Vec<u8>;
pub(crate) type Model = BTreeMap<Key, u32>;
pub(crate) type Ops = Vec<Op<Key, u32>>;

pub(crate) fn packed<'a>(keys: impl IntoIterator<Item = &'a Key>) -> ByteKeysBuf {
    keys.into_iter().collect()
}

/// A key of one of a few lengths, which share beginnings.
pub(crate) fn key(i: u32) -> Key {
    let len = [3, 8, 12, 30][i as usize % 4];
    [&b"key"[..], &i.to_be_bytes().repeat(8)[..len - 3]].concat()
}

pub(crate) fn long(i: u32) -> Key {
    [&[b'x'; 40][..], &i.to_be_bytes()].concat()
}

/// Keys under a path that no node holds whole.
pub(crate) fn below(i: u32) -> Key {
    [&[b'y'; 20][..], &[i as u8]].concat()
}

pub(crate) fn model(long_keys: bool) -> Model {
    let some = (0..40).map(key).chain((0..6).map(below));
    let all = some.chain((0..if long_keys { 10 } else { 0 }).map(long));
    all.zip(0..).collect()
}

pub(crate) fn build(device: &Device, model: &Model) -> Cuart<u32> {
    let values: Vec<u32> = model.values().copied().collect();
    Cuart::builder().root_table(RootTable::TwoBytes).build(device, &packed(model.keys()), &values).unwrap()
}

/// The tree has the model's pairs, and no others.
pub(crate) fn assert_answers(tree: &Cuart<u32>, model: &Model) {
    assert_eq!(tree.len(), model.len() as u64);
    let expected: Vec<_> = model.values().map(|&value| Some(value)).collect();
    assert_eq!(tree.get_many(&packed(model.keys())).unwrap(), expected);
    // By another way: all leaves that hang at the tree.
    let mut copy = tree.to_device(tree.device()).unwrap();
    copy.compact().unwrap();
    let all = copy.range_many([..]).unwrap();
    let (keys, values) = all.get(0);
    assert!(keys.iter().zip(values).eq(model.iter().map(|(key, value)| (&key[..], value))), "pairs of {tree:?}");
    let stats = tree.stats();
    assert_eq!(stats.leaves.iter().sum::<u64>() + stats.device_leaves, tree.len(), "{stats:?}");
}

/// No lack of memory has lost a tree.
pub(crate) fn assert_memory_loses_nothing(failed: &[Failed]) {
    let by_memory =
        |(failure, error): &&Failed| matches!(failure, Failure::Allocation(_)) && matches!(error, Error::Lost { .. });
    assert!(failed.iter().find(by_memory).is_none(), "lost: {:?}", failed.iter().find(by_memory));
}

pub(crate) fn batches() -> [(&'static str, Ops); 5] {
    let put = |key| Op::Insert(key, 99);
    [
        ("small", vec![put(b"c".to_vec()), Op::Remove(key(5))]),
        ("without inserts", vec![Op::Update(key(3), 9), Op::Update(key(700), 9), Op::Remove(key(5))]),
        ("of every kind", {
            let inserts = (35..60).map(|i| put(key(i)));
            let others = (0..20).map(|i| if i % 2 == 0 { Op::Update(key(i), i) } else { Op::Remove(key(i)) });
            inserts.chain(others).chain([put(Key::new())]).collect()
        }),
        ("of nodes that grow", (0..60).map(|i| put(below(i))).chain([Op::Remove(key(7))]).collect()),
        ("of long keys", (5..15).map(|i| put(long(i))).chain([Op::Remove(long(2)), Op::Update(long(3), 7)]).collect()),
    ]
}
