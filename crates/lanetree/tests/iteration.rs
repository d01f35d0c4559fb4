//! Pairs in order from both ends, of all keys and of ranges; copies, and indexes that are cleared.

use lanetree::{Cubpt, Device, Error, Harmonia, KeyRange, LaneSet, LaneTree, Result, SortedArray};

/// More than a device's first window from either end, and no multiple of a part.
const LEN: u64 = 21_111;

fn pairs() -> Vec<(u64, u32)> {
    (0..LEN).map(|i| (i * 3, i as u32)).collect()
}

macro_rules! every_index {
    ($test:ident) => {
        for device in [Device::host(), Device::emulated()] {
            $test!(LaneTree, device);
            $test!(Harmonia, device);
            $test!(Cubpt, device);
            $test!(SortedArray, device);
        }
    };
}

#[test]
fn iteration_meets_in_the_middle_from_both_ends() {
    macro_rules! test {
        ($index:ident, $device:expr) => {
            let (index, expected) = ($index::build_pairs(&$device, pairs()).unwrap(), pairs());
            let what = format!("{index:?}");
            let forwards: Vec<_> = index.iter().collect::<Result<_>>().unwrap();
            assert_eq!(forwards, expected, "{what}");
            let backwards: Vec<_> = index.iter().rev().collect::<Result<_>>().unwrap();
            assert!(backwards.iter().rev().eq(&expected), "{what}");
            // Runs of other lengths from each end; the last pairs of one end are in the other's window.
            for (front, back) in [(1, 1), (700, 5), (3, 6000), (5000, 4500)] {
                let (mut iter, mut first, mut last) = (index.iter(), Vec::new(), Vec::new());
                while first.len() + last.len() < expected.len() {
                    let left = expected.len() - first.len() - last.len();
                    assert_eq!(iter.size_hint().1, Some(left), "{what}");
                    first.extend(iter.by_ref().take(front).map(|pair| pair.unwrap()));
                    last.extend(iter.by_ref().rev().take(back).map(|pair| pair.unwrap()));
                }
                assert!(iter.next().is_none() && iter.next_back().is_none(), "{what}");
                assert!(first.iter().chain(last.iter().rev()).eq(&expected), "{what}, {front} and {back}");
            }
        };
    }
    every_index!(test);
}

#[test]
fn ranges_iterate_as_those_of_a_map() {
    let (high, low) = (5, 4);
    macro_rules! test {
        ($index:ident, $device:expr) => {
            let index = $index::build_pairs(&$device, pairs()).unwrap();
            let map: std::collections::BTreeMap<u64, u32> = pairs().into_iter().collect();
            for (start, end) in [(0, u64::MAX), (1, 2), (3, 3), (4000, 49_998), (3071, 3073), (LEN * 3, u64::MAX)] {
                let expected: Vec<_> = map.range(start..=end).map(|(&key, &value)| (key, value)).collect();
                let found: Vec<_> = index.range(start..=end).unwrap().collect::<Result<_>>().unwrap();
                assert_eq!(found, expected, "{index:?} from {start} to {end}");
                let found: Vec<_> = index.range(start..=end).unwrap().rev().collect::<Result<_>>().unwrap();
                assert!(found.iter().rev().eq(&expected), "{index:?} back from {end} to {start}");
            }
            let first = index.range(KeyRange::new(100_u64..).limit(2)).unwrap().rev().map(|pair| pair.unwrap().0);
            assert_eq!(first.collect::<Vec<_>>(), [105, 102], "{index:?}");
            assert!(matches!(index.range(high..=low), Err(Error::ReversedRange { .. })), "{index:?}");
        };
    }
    every_index!(test);
}

#[test]
fn copies_are_indexes_of_their_own_and_cleared_ones_take_pairs_again() {
    macro_rules! test {
        ($index:ident, $device:expr) => {
            let mut index = $index::build_pairs(&$device, pairs()).unwrap();
            let copy = index.try_clone().unwrap();
            index.clear().unwrap();
            assert_eq!((index.len(), index.iter().count(), index.first().unwrap()), (0, 0, None), "{index:?}");
            index.insert_many(&[7], &[70]).unwrap();
            assert_eq!(index.pairs().unwrap(), [(7, 70)], "{index:?}");
            assert!(copy.contains(&6).unwrap() && !copy.contains(&7).unwrap(), "{copy:?}");
            assert_eq!(copy.pairs().unwrap(), pairs(), "{copy:?}");
        };
    }
    every_index!(test);
}

#[test]
fn sets_iterate_backwards_and_over_ranges() {
    for device in [Device::host(), Device::emulated()] {
        let keys: Vec<u64> = (0..LEN).collect();
        let mut set = LaneSet::build(&device, &keys).unwrap();
        let copy = set.try_clone().unwrap();
        assert!(set.iter().rev().map(|key| key.unwrap()).eq(keys.iter().rev().copied()));
        assert!(set.range(10..5000).unwrap().map(|key| key.unwrap()).eq(10..5000));
        set.clear().unwrap();
        assert_eq!((set.len(), copy.len()), (0, LEN));
    }
}
