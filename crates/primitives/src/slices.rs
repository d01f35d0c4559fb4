//! Inputs and outputs that are slices of larger arrays: they begin at any element, and not where vectors of 16 bytes do.

use super::test_data::{rng, words};
use super::*;
use lanetree_base::{Buffer, Device};
use lanetree_layout::{Key, KeyWord, Word};

/// More than a tile, and than a block of the histogram has.
const LEN: usize = 20_001;

/// An array, and a buffer over all its elements but the first, which is dropped before it.
fn slice<T: bytemuck::Pod>(device: &Device, elements: &[T]) -> (Buffer<T>, Buffer<T>) {
    let array: Vec<T> = core::iter::once(T::zeroed()).chain(elements.iter().copied()).collect();
    let array = device.upload(&array).unwrap();
    let start = core::ptr::with_exposed_provenance_mut(array.addresses().start + size_of::<T>());
    // SAFETY: elements of the array, which callers drop after the slice (variables are dropped in reverse) and do not use.
    let slice = unsafe { device.buffer_from_raw(start, elements.len()) }.unwrap();
    (array, slice)
}

fn slices<K: Key, V: Word>() {
    for device in [Device::host(), Device::emulated()] {
        let stream = device.stream().unwrap();
        let (one, two) = (words(LEN, &mut rng(1)), words(LEN, &mut rng(2)));
        let keys: Vec<K> = one.iter().map(|&word| K::decode(K::Bits::truncate(u64::from(word % 7000)))).collect();
        let values: Vec<V> = two.iter().map(|&word| V::truncate(word.into())).collect();
        let (_keys, keys_in) = slice(&device, &keys);
        let (_values, values_in) = slice(&device, &values);
        let (_keys_out, mut keys_out) = slice(&device, &[K::default(); LEN]);
        let (_values_out, mut values_out) = slice(&device, &[V::default(); LEN]);
        let (_count, mut count) = slice(&device, &[0_u64]);

        let mut order: Vec<usize> = (0..LEN).collect();
        order.sort_by_key(|&i| keys[i]);
        let mut scratch = RadixSortScratch::for_pairs(&device, LEN).unwrap();
        let bits = 0..K::Bits::BITS;
        let outputs = (&mut keys_out, &mut values_out);
        radix_sort(&stream, (&keys_in, &values_in), LEN, bits, outputs, &mut scratch).unwrap();
        let (sorted, positions) = (keys_out.to_vec().unwrap(), values_out.to_vec().unwrap());
        assert!(sorted.iter().eq(order.iter().map(|&i| &keys[i])), "keys on {device}");
        assert!(positions.iter().eq(order.iter().map(|&i| &values[i])), "values on {device}");

        let (_sorted, sorted_in) = slice(&device, &sorted);
        let mut scratch = RunScratch::new(&device, LEN).unwrap();
        let input = Keys { keys: &sorted_in, count: LEN.into() };
        unique_keys(&stream, input, KeysMut { keys: &mut keys_out, count: &mut count }, &mut scratch).unwrap();
        let mut unique = sorted.clone();
        unique.dedup();
        assert_eq!(count.to_vec().unwrap(), [unique.len() as u64], "{device}");
        assert!(keys_out.to_vec().unwrap()[..unique.len()] == unique, "runs on {device}");

        let (_flags, flags) = slice(&device, &two[..LEN.div_ceil(32)]);
        let mut scratch = SelectScratch::new(&device, LEN).unwrap();
        let input = Pairs { keys: &keys_in, values: &values_in, count: LEN.into() };
        let output = PairsMut { keys: &mut keys_out, values: &mut values_out, count: &mut count };
        select(&stream, input, &flags, output, &mut scratch).unwrap();
        let selected: Vec<usize> = (0..LEN).filter(|i| two[i / 32] >> (i % 32) & 1 != 0).collect();
        assert_eq!(count.to_vec().unwrap(), [selected.len() as u64], "{device}");
        let (found, with) = (keys_out.to_vec().unwrap(), values_out.to_vec().unwrap());
        assert!(
            found.iter().zip(&with).zip(&selected).all(|((key, value), &i)| (*key, *value) == (keys[i], values[i]))
        );

        let (_offsets, mut offsets) = slice(&device, &vec![0_u64; LEN + 1]);
        let mut scratch = ScanScratch::new(&device, LEN).unwrap();
        exclusive_scan(&stream, &values_in, LEN, &mut offsets, &mut scratch).unwrap();
        let sums = values.iter().scan(0_u64, |sum, value| {
            *sum = sum.wrapping_add(value.widen());
            Some(*sum)
        });
        assert!(offsets.to_vec().unwrap().into_iter().eq(core::iter::once(0).chain(sums)), "sums on {device}");
        inclusive_max_scan(&stream, &values_in, LEN, &mut values_out, &mut scratch).unwrap();
        let maxima = values.iter().scan(V::MIN, |largest, &value| {
            *largest = value.max(*largest);
            Some(*largest)
        });
        assert!(values_out.to_vec().unwrap().into_iter().eq(maxima), "maxima on {device}");
    }
}

#[test]
fn every_operation_takes_slices_of_arrays() {
    slices::<u32, u32>();
    slices::<u64, u64>();
}
