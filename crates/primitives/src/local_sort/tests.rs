use super::*;
use crate::{RadixSortScratch, radix_argsort};
use lanetree_base::Device;
use rand::{Rng, RngExt};

/// Sorts keys by the bits in `bits` and then locally; the order that comes out, and what was found.
fn sort<K: AnyKey>(device: &Device, keys: &[K], bits: Range<u32>) -> (Vec<K>, Vec<u32>, [u64; 2]) {
    let (len, stream) = (keys.len(), device.stream().unwrap());
    let mut scratch = RadixSortScratch::<K, u32>::for_pairs(device, len).unwrap();
    let (mut sorted, mut order) = (device.alloc(len).unwrap(), device.alloc(len).unwrap());
    let mut found = device.alloc_zeroed(2).unwrap();
    let input = device.upload(keys).unwrap();
    let from = bits.start;
    radix_argsort(&stream, &input, len, bits, &mut sorted, &mut order, &mut scratch).unwrap();
    local_sort_pairs(&stream, &mut sorted, &mut order, len, from, &mut found).unwrap();
    stream.synchronize().unwrap();
    let found = found.to_vec().unwrap();
    (sorted.to_vec().unwrap(), order.to_vec().unwrap(), [found[0], found[1]])
}

/// Checks what comes out; whether the pairs were sorted.
fn check<K: AnyKey>(device: &Device, keys: &[K], bits: Range<u32>) -> bool {
    let name = format!("{} keys of {} by {bits:?} on {device}", keys.len(), K::NAME);
    let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
    expected.sort_by_key(|&i| keys[i as usize]);
    let differing = keys.iter().fold(K::Bits::MIN, |bits, key| bits.or(key.encode().xor(keys[0].encode())));
    let (sorted, mut order, found) = sort(device, keys, bits);
    assert_eq!(found[0], differing_bits(differing), "{name}");
    assert!(sorted.iter().zip(&order).all(|(&key, &i)| key == keys[i as usize]), "{name}");
    if found[1] == 0 {
        assert_eq!(order, expected, "{name}");
        return true;
    }
    assert_eq!(found[1], 1, "{name}");
    // The same pairs still, and pairs with equal keys in their original order.
    order.sort_by_key(|&i| keys[i as usize]);
    assert_eq!(order, expected, "{name}");
    false
}

fn words<K: AnyKey>(words: impl IntoIterator<Item = u64>) -> Vec<K> {
    words.into_iter().map(|word| K::decode(K::Bits::truncate(word))).collect()
}

/// Keys of every kind, of one type.
fn every_kind_of_keys<K: AnyKey>(device: &Device) {
    let (mut rng, width) = (crate::test_data::rng(5), K::Bits::BITS);
    let top = width - 8..width;
    for len in [0, 1, 2, 31, 33, 511, 512, 513, 1600, 3000] {
        let random = words::<K>((0..len).map(|_| rng.next_u64()));
        assert!(check(device, &random, top.clone()), "about {} keys in a run", len / 256);
        assert!(check(device, &random, 0..width));
        // Ends of the key space, equal keys, few keys.
        let extremes = words::<K>((0..len).map(|i| [0, u64::MAX, 1, u64::MAX - 1, 1 << (width - 1)][i % 5]));
        check(device, &extremes, top.clone());
        assert!(check(device, &words::<K>((0..len).map(|_| 77)), top.clone()), "equal keys are in order");
        let few = words::<K>((0..len).map(|_| rng.random_range(0..3_u64) << (width - 4)));
        assert!(check(device, &few, top.clone()), "runs of equal keys are in order");
        let ascending = words::<K>(0..len as u64);
        assert!(check(device, &ascending, top.clone()), "in order from the beginning");
        let descending = words::<K>((0..len as u64).rev());
        assert_eq!(check(device, &descending, top.clone()), len <= 32);
        assert!(check(device, &descending, 0..12));
    }
    // Bits above those that were sorted by.
    assert!(!check(device, &words::<K>((0..900).map(|i| (899 - i) << 16)), 8..16));
    // Dense runs at every place of a tile, and its border.
    for run in [2, 31, 32, 33] {
        for shift in [0, 1, 15, 30] {
            let keys =
                words::<K>((0..1200_u64).map(|i| ((i + shift) / run) << (width - 12) | (run - (i + shift) % run)));
            assert_eq!(check(device, &keys, width - 12..width), run <= 32);
        }
    }
}

#[test]
fn every_kind_of_keys_on_the_emulator() {
    let mut device = (0..).map(Device::emulated_with_seed);
    every_kind_of_keys::<u32>(&device.next().unwrap());
    every_kind_of_keys::<i32>(&device.next().unwrap());
    every_kind_of_keys::<u64>(&device.next().unwrap());
    every_kind_of_keys::<i64>(&device.next().unwrap());
}

#[test]
fn keys_of_128_bits_on_every_device() {
    let mut rng = crate::test_data::rng(7);
    for device in [Device::host(), Device::emulated_with_seed(4)] {
        for len in [2, 33, 513, 1600] {
            let random: Vec<i128> =
                (0..len).map(|_| (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) as i128).collect();
            assert!(check(&device, &random, 120..128));
            // In the low half, and across both.
            assert!(check(&device, &(0..len as u128).rev().map(|i| i << 57).collect::<Vec<_>>(), 57..72));
            let descending: Vec<u128> = (0..len as u128).rev().collect();
            assert_eq!(check(&device, &descending, 120..128), len <= 32 || device == Device::host());
        }
        // Bits above those that were sorted by.
        assert!(!check(&device, &(0..900).map(|i| (899 - i) << 80).collect::<Vec<u128>>(), 8..16));
    }
}

#[test]
fn differing_bits_of_128_are_told_by_two() {
    for bit in 0..128 {
        assert_eq!(differing_bits(1_u128 << bit), 1 << (bit / 2));
    }
    let word = 0x8421_0000_1234_0000_0000_c000_0000_0001_u128;
    let expected = (0..128).filter(|bit| word >> bit & 1 != 0).fold(0, |bits, bit| bits | 1 << (bit / 2));
    assert_eq!(differing_bits(word), expected);
    assert_eq!((differing_bits(5_u32), differing_bits(1_u64 << 63)), (5, 1 << 63));
}

#[test]
fn runs_of_any_length_on_the_host() {
    let host = Device::host();
    assert!(check(&host, &words::<i64>((0..900).rev()), 56..64));
    assert!(!check(&host, &words::<u32>((0..900).map(|i| (899 - i) << 16)), 8..16));
}

#[test]
fn values_of_all_widths_move_with_their_keys() {
    let device = Device::emulated_with_seed(9);
    let stream = device.stream().unwrap();
    let mut keys = device.upload(&[-5_i32, -7, -6, 4, 2, 3, 2]).unwrap();
    let mut values = device.upload(&[0_u64, 1, 2, 3, 4, 5, 6]).unwrap();
    let mut found = device.upload(&[1_u64 << 40, 0, 9]).unwrap();
    local_sort_pairs(&stream, &mut keys, &mut values, 7, 31, &mut found).unwrap();
    assert_eq!(keys.to_vec().unwrap(), [-7, -6, -5, 2, 2, 3, 4]);
    assert_eq!(values.to_vec().unwrap(), [1, 2, 0, 4, 6, 5, 3]);
    assert_eq!(found.to_vec().unwrap(), [1 << 40 | u64::from(u32::MAX), 0, 9]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let (mut keys, mut values) = (device.upload(&[1_u32, 2]).unwrap(), device.upload(&[1_u32]).unwrap());
    let mut found = device.alloc_zeroed::<u64>(1).unwrap();
    let mut sort =
        |len, from| local_sort_pairs(&stream, &mut keys, &mut values, len, from, &mut found).unwrap_err().to_string();
    assert_eq!(sort(2, 8), "the values' buffer holds 1 element, but 2 are needed; allocate at least 2");
    assert_eq!(
        sort(1, 8),
        "the buffer of the local sort's findings holds 1 element, but 2 are needed; allocate at least 2"
    );
    assert!(sort(1, 33).starts_with("bits 33..32 of a key of 32 bits: "));
}

#[test]
fn as_many_bits_as_tell_keys_apart() {
    assert_eq!(telling_bits(1, 64), 56..64);
    assert_eq!(telling_bits(1 << 10, 64), 56..64);
    assert_eq!(telling_bits((1 << 10) + 1, 64), 48..64);
    assert_eq!(telling_bits(1 << 16, 64), 48..64);
    assert_eq!(telling_bits(1 << 22, 64), 40..64);
    assert_eq!(telling_bits(1 << 22, 32), 8..32);
    assert_eq!(telling_bits(1 << 30, 20), 0..20);
    assert_eq!(telling_bits(100, 0), 0..0);
}
