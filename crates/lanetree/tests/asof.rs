//! What as-of look-ups refuse, and keys of two columns. What they find: `lanetree_suite`.

use lanetree::{AsOf, Composite, Device, Error, Join, LaneSet, LaneTree, Ties, Validity, compose_on};

#[test]
fn look_ups_of_both_ties_are_refused() {
    let index = LaneTree::build(&Device::host(), &[1_u32, 3], &[1_u32, 3]).unwrap();
    let error = index.asof_many(&[2], &AsOf::nearest().ties(Ties::Both)).unwrap_err();
    let text = "an as-of look-up of ties(Both) is not possible: choose one of the ties: asof_join_many takes both";
    assert_eq!(error.to_string(), text);
    // On one side there are no ties.
    assert_eq!(index.asof_many(&[2], &AsOf::backward().ties(Ties::Both)).unwrap(), [Some((1, 1))]);
    assert_eq!(index.k_nearest_many(&[2], 2, &AsOf::nearest().ties(Ties::Both)).unwrap().keys, [1, 3]);
    let short = Validity::new(&[1], 0, 1).unwrap();
    assert!(index.asof_join_many(&[2, 3], &AsOf::nearest(), &Join::left().valid(short)).is_err());
}

#[test]
fn composite_keys_are_made_on_the_device() {
    for device in [Device::host(), Device::emulated()] {
        let stream = device.stream().unwrap();
        let (firsts, seconds) = ([3_u32, 1, u32::MAX], [-5_i64, i64::MIN, i64::MAX]);
        let mut keys = device.alloc(3).unwrap();
        let columns = (device.upload(&firsts).unwrap(), device.upload(&seconds).unwrap());
        compose_on(&stream, &columns.0, &columns.1, &mut keys).unwrap();
        let expected: Vec<_> = firsts.into_iter().zip(seconds).map(Composite::from).collect();
        assert_eq!(keys.to_vec().unwrap(), expected);
        let (small, signed) = (device.upload(&[7_i32, -7]).unwrap(), device.upload(&[-1_i32, 1]).unwrap());
        let mut narrow = device.alloc(2).unwrap();
        compose_on(&stream, &small, &signed, &mut narrow).unwrap();
        assert_eq!(narrow.to_vec().unwrap(), [Composite::new(7, -1), Composite::new(-7, 1)]);
        let mut short = device.alloc(1).unwrap();
        assert!(matches!(compose_on(&stream, &small, &signed, &mut short), Err(Error::OutputLength { .. })));
        assert!(matches!(
            compose_on(&stream, &columns.0, &signed, &mut device.alloc(3).unwrap()),
            Err(Error::OutputLength { .. })
        ));
    }
    // A set of composite keys: all of one first key are a range.
    let keys = [(1_u32, 5_u32), (1, 9), (2, 0)].map(Composite::from);
    let set = LaneSet::build(&Device::emulated(), &keys).unwrap();
    assert_eq!(set.range_many([Composite::all_of(1)]).unwrap().get(0), &keys[..2]);
}
