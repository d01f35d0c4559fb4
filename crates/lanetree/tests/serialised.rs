//! Reports, statistics and options as JSON, and back.

use core::fmt::Debug;
use lanetree::{AsOf, Device, HbTree, IntervalIndex, LaneTree, MultiMap, Op, OrderedIndex, Ties, UpdateReport};
use serde_json::{Value, from_value, to_value};

fn same<T: serde::Serialize + serde::de::DeserializeOwned + Debug>(what: T) -> Value {
    let json = to_value(&what).unwrap();
    let back: T = from_value(json.clone()).unwrap();
    assert_eq!(format!("{back:?}"), format!("{what:?}"));
    json
}

#[test]
fn reports_statistics_and_options_are_read_as_they_were_written() {
    let device = Device::host();
    let builder = LaneTree::<u64, u32>::builder().fill(0.7);
    assert_eq!(same(builder)["options"]["fill"], 0.7);
    let mut tree = builder.build(&device, &[1, 2, 3], &[10, 20, 30]).unwrap();
    let report = tree.apply(&[Op::Insert(4, 40), Op::Remove(1)]).unwrap();
    assert_eq!((same(report)["inserted"].as_u64(), same(report)["path"].as_str()), (Some(1), Some("InPlace")));
    assert_eq!(from_value::<UpdateReport>(to_value(report).unwrap()).unwrap(), report);
    assert_eq!(same(tree.stats())["len"], 3);
    same(HbTree::<u64, u64>::build(&device, &[1, 2], &[3, 4]).unwrap().stats());
    same(HbTree::<u64, u64>::builder());
    let map = MultiMap::build(&device, &[1_u32, 1], &[5_u32, 6]).unwrap();
    assert_eq!((same(map.stats())["keys"].as_u64(), map.host_bytes()), (Some(1), 0));
    let intervals = IntervalIndex::<u32>::build(&device, &[1, 2], &[4, 3]).unwrap();
    assert_eq!((same(intervals.stats())["len"].as_u64(), intervals.stats().bytes()), (Some(2), intervals.bytes()));
    same(AsOf::nearest().strict(true).tolerance(7).ties(Ties::Forward));
    assert_eq!(OrderedIndex::host_bytes(&tree), 0);
}

#[test]
fn options_that_no_index_has_are_refused_wherever_they_come_from() {
    let mut json = to_value(LaneTree::<u64, u32>::builder()).unwrap();
    json["options"]["fill"] = 7.into();
    let builder: lanetree::lane_tree::Builder<u64, u32> = from_value(json).unwrap();
    assert!(builder.build(&Device::host(), &[1], &[1]).is_err());
}
