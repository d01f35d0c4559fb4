//! What joins by ranges and bands refuse. What they find: `lanetree_suite`.

use crate::LaneTree;
use lanetree_frame::fixed::{DeviceRangeMatches, RangeJoinScratch};
use lanetree_frame::{Closed, Device};
use lanetree_layout::F64;

#[test]
fn bands_of_floats_and_unpaired_bounds_are_refused() {
    let device = Device::host();
    let floats = [1.5, 2.5].map(F64::from);
    let tree = LaneTree::build(&device, &floats, &[1_u32, 2]).unwrap();
    assert_eq!(tree.range_join_many(&floats, &floats, Closed::Both).unwrap().rows, [1, 2]);
    let text = "a band of float keys of 3 is not possible: choose keys of integers, or a join by ranges: distances of floats \
                are not measured";
    assert_eq!(tree.band_join_many(&floats, 3).unwrap_err().to_string(), text);
    for closed in [Closed::Both, Closed::Left] {
        let text = "2 starts but 1 ends: give one of each per range";
        assert_eq!(tree.range_join_many(&floats, &floats[..1], closed).unwrap_err().to_string(), text);
        let (lows, highs) = (device.upload(&floats).unwrap(), device.upload(&floats[..1]).unwrap());
        let (mut scratch, mut out) =
            (RangeJoinScratch::new(&device, 2).unwrap(), DeviceRangeMatches::new(&device, 2, 2).unwrap());
        let stream = device.stream().unwrap();
        let error = tree.on(&stream).range_join(&lows, &highs, closed, &mut scratch, &mut out).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
