//! Folded kinds against a model.

use super::{OPERATION_FINDINGS, OperationSort};
use lanetree_base::{Batch, Device, Error, NetChange, Op, fold};

/// Sorts and folds, and returns the last operation of each key.
fn folded(sort: &mut OperationSort<i64>, ops: &[Op<i64, u32>]) -> Result<Vec<(i64, u32, u32)>, Error> {
    let device = sort.device().clone();
    let stream = device.stream()?;
    let keys = device.upload(&ops.iter().map(|op| *op.key()).collect::<Vec<_>>())?;
    let kinds = device.upload(&ops.iter().map(Op::kind).collect::<Vec<_>>())?;
    let mut found = vec![0; OPERATION_FINDINGS];
    for _ in 0..2 {
        let mut findings = device.alloc_zeroed(OPERATION_FINDINGS)?;
        sort.sort(&stream, Batch::keys_of_kinds(&keys, &kinds), &mut findings, 0)?;
        stream.synchronize()?;
        findings.copy_to(&mut found)?;
        if sort.check(&found)? {
            break;
        }
    }
    let (sorted, order) = (sort.sorted().to_vec()?, sort.order().to_vec()?);
    let kinds = sort.folded().expect("the batch has kinds").to_vec()?;
    let all = (0..ops.len()).map(|i| (sorted[i], kinds[i], order[i]));
    Ok(all.filter(|operation| operation.1 != 3).collect())
}

#[test]
fn the_last_operation_of_a_key_does_what_all_do_together() {
    let device = Device::emulated();
    let mut sort = OperationSort::new(&device, 3000).unwrap();
    let mut state = 7_u64;
    for keys in [3, 40, 1 << 40] {
        for count in [1, 33, 3000] {
            let ops: Vec<Op<i64, u32>> = (0..count)
                .map(|i| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let key = (state >> 16) as i64 % keys - keys / 2;
                    match (state >> 8) % 3 {
                        0 => Op::Insert(key, i),
                        1 => Op::Update(key, i),
                        _ => Op::Remove(key),
                    }
                })
                .collect();
            let actual = folded(&mut sort, &ops).unwrap();
            let expected = fold(ops.len(), |i| ops[i]).unwrap();
            assert_eq!(actual.len(), expected.len());
            for ((key, kind, place), (word, change)) in actual.into_iter().zip(expected) {
                assert_eq!(lanetree_layout::AnyKey::encode(key), word);
                let value = match ops[place as usize] {
                    Op::Insert(_, value) | Op::Update(_, value) => Some(value),
                    Op::Remove(_) => None,
                };
                match change {
                    NetChange::Put(expected) => assert_eq!((kind, value), (0, Some(expected))),
                    NetChange::PutIfPresent(expected) => assert_eq!((kind, value), (1, Some(expected))),
                    NetChange::Remove => assert_eq!(kind, 2),
                }
            }
        }
    }
}

#[test]
fn a_batch_that_came_to_no_end_says_nothing_of_the_next() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut sort = OperationSort::<i64>::new(&device, 3000).unwrap();
    // Sorted by a few bits, which are not enough; the device fails before they are sorted once more.
    let keys = device.upload(&(0..2000_i64).rev().collect::<Vec<_>>()).unwrap();
    let values = device.upload(&vec![0_u32; 2000]).unwrap();
    sort.begin_batch(&device, &stream, Batch::inserts(&keys, &values)).unwrap();
    let mut findings = device.alloc_zeroed(OPERATION_FINDINGS).unwrap();
    sort.sort(&stream, Batch::insert_keys(&keys), &mut findings, 0).unwrap();
    assert!(!sort.check(&findings.to_vec().unwrap()).unwrap());
    // Keys that differ elsewhere, and in another order there.
    let ops: Vec<Op<i64, u32>> = (0..500).map(|i| Op::Insert((i64::from(i) * 37 % 500) << 40, i)).collect();
    let keys = device.upload(&ops.iter().map(|op| *op.key()).collect::<Vec<_>>()).unwrap();
    sort.begin_batch(&device, &stream, Batch::inserts(&keys, &values)).unwrap();
    let actual = folded(&mut sort, &ops).unwrap();
    assert!(actual.into_iter().map(|operation| operation.0).eq((0..500).map(|i| i << 40)));
}
