//! Builds from slices in main memory that are longer than what goes to a device at once.

use lanetree::{Cubpt, Device, Error, Harmonia, SortedArray};

/// Pairs of several pieces of the staging memory, whose leaves end in the middle of a piece.
const LEN: u64 = (5 << 17) + 777;

fn key(rank: u64) -> i64 {
    rank as i64 * 3 - 1000
}

#[test]
fn builds_from_sorted_slices_of_several_pieces_are_whole() {
    let keys: Vec<i64> = (0..LEN).map(key).collect();
    let values: Vec<u32> = (0..LEN as u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
    let expected: Vec<(i64, u32)> = keys.iter().copied().zip(values.iter().copied()).collect();
    for device in [Device::host(), Device::emulated()] {
        let check = |name: &str, pairs: Vec<(i64, u32)>| assert!(pairs == expected, "{name} on {device}");
        check("sorted", SortedArray::builder().build_sorted(&device, &keys, &values).unwrap().pairs().unwrap());
        check("harmonia", Harmonia::builder().build_sorted(&device, &keys, &values).unwrap().pairs().unwrap());
        check("fuller", Harmonia::builder().fill(0.7).build_sorted(&device, &keys, &values).unwrap().pairs().unwrap());
        check("cubpt", Cubpt::builder().build_sorted(&device, &keys, &values).unwrap().pairs().unwrap());
    }
}

#[test]
fn of_equal_keys_in_sorted_slices_the_last_is_kept_and_others_are_named() {
    let (len, device) = (2 << 15, Device::emulated());
    let mut keys: Vec<i64> = (0..len).map(key).collect();
    let values: Vec<u32> = (0..len as u32).collect();
    keys[40_000] = keys[39_999];
    let expected: Vec<(i64, u32)> = keys
        .iter()
        .copied()
        .zip(values.iter().copied())
        .enumerate()
        .filter(|(i, _)| *i != 39_999)
        .map(|(_, pair)| pair)
        .collect();
    let check = |name: &str, pairs: Vec<(i64, u32)>| assert!(pairs == expected, "{name}");
    check("sorted", SortedArray::builder().build_sorted(&device, &keys, &values).unwrap().pairs().unwrap());
    check("harmonia", Harmonia::builder().build_sorted(&device, &keys, &values).unwrap().pairs().unwrap());
    check("cubpt", Cubpt::builder().build_sorted(&device, &keys, &values).unwrap().pairs().unwrap());
    keys[50_000] -= 7;
    for error in [
        SortedArray::builder().build_sorted(&device, &keys, &values).map(drop),
        Harmonia::builder().build_sorted(&device, &keys, &values).map(drop),
        Cubpt::builder().build_sorted(&device, &keys, &values).map(drop),
    ] {
        assert!(matches!(error, Err(Error::NotSorted { index: 50_000, .. })), "{error:?}");
    }
    assert!(matches!(
        Cubpt::builder().build_sorted(&device, &keys, &values[1..]),
        Err(Error::LengthMismatch { keys: 65_536, values: 65_535 })
    ));
}

#[test]
fn an_iterator_gives_the_same_pairs_wherever_it_moves() {
    fn is_send_and_sync<T: Send + Sync>(_: &T) {}
    let keys: Vec<i64> = (0..LEN).map(key).collect();
    let values: Vec<u32> = (0..LEN as u32).collect();
    for device in [Device::host(), Device::emulated()] {
        let index = SortedArray::builder().build_sorted(&device, &keys, &values).unwrap();
        let mut iter = Box::new(index.iter());
        is_send_and_sync(&*iter);
        for (i, (&key, &value)) in keys.iter().zip(&values).enumerate() {
            if i % 50_000 == 7 {
                assert_eq!(format!("{iter:?}"), format!("Iter[{} pairs left]", keys.len() - i));
                let moved = Box::new(*iter);
                iter = moved;
            }
            assert_eq!(iter.next().unwrap().unwrap(), (key, value));
        }
        assert!(iter.next().is_none() && iter.next().is_none());
    }
}
