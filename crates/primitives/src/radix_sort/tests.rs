use super::*;
use lanetree_kernels_primitives::calls;
use rand::Rng;

/// Keys of one shape.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Random,
    Few,
    Equal,
    Sorted,
    Reversed,
}

fn keys<K: AnyKey>(shape: Shape, len: usize) -> Vec<K> {
    let mut rng = crate::test_data::rng(len);
    let mut keys: Vec<K> = (0..len)
        .map(|_| {
            let parts = [rng.next_u64(), rng.next_u64()].map(|word| match shape {
                Shape::Few => word % 3 * 0x0101_0101_0101_0101,
                Shape::Equal => 0x1234_5678_9abc_def0,
                Shape::Random | Shape::Sorted | Shape::Reversed => word,
            });
            K::decode(K::Bits::from_parts(parts))
        })
        .collect();
    match shape {
        Shape::Sorted => keys.sort(),
        Shape::Reversed => keys.sort_by(|a, b| b.cmp(a)),
        Shape::Random | Shape::Few | Shape::Equal => {}
    }
    keys
}

/// Where each element comes from, by a stable sort of the standard library's.
fn order<K: AnyKey>(keys: &[K], bits: &Range<u32>) -> Vec<usize> {
    let field = |key: K| {
        let [low, high] = key.encode().parts();
        let word = u128::from(high) << 64 | u128::from(low);
        let mask = u128::MAX.checked_shr(u128::BITS - (bits.end - bits.start)).unwrap_or(0);
        word.checked_shr(bits.start).unwrap_or(0) & mask
    };
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|&i| field(keys[i]));
    order
}

/// Elements after the sorted ones, which no sort may touch.
const BEHIND: usize = 3;

/// A buffer of `values` and a few elements more.
fn upload<T: bytemuck::Pod>(device: &Device, values: &[T]) -> Buffer<T> {
    let mut more = values.to_vec();
    more.resize(values.len() + BEHIND, T::zeroed());
    device.upload(&more).unwrap()
}

/// What a buffer holds, without the elements after the sorted ones.
fn sorted<T: bytemuck::Pod>(buffer: &Buffer<T>) -> Vec<T> {
    let mut elements = buffer.to_vec().unwrap();
    for element in elements.split_off(elements.len() - BEHIND) {
        assert!(bytemuck::bytes_of(&element).iter().all(|byte| *byte == 0), "written past the end");
    }
    elements
}

/// Sorts keys alone, pairs, and positions, out of place and in place, and compares all with [`order`].
fn check<K: AnyKey, V: Word>(device: &Device, shape: Shape, len: usize, bits: Range<u32>, portion: u64) {
    let name = format!("{shape:?} {len} {}/{} {bits:?} on {device}", K::NAME, V::NAME);
    let stream = device.stream().unwrap();
    let input: Vec<K> = keys(shape, len);
    let values: Vec<V> = (0..len as u64).map(|i| V::truncate(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let order = order(&input, &bits);
    let expected: Vec<K> = order.iter().map(|&i| input[i]).collect();
    let expected_values: Vec<V> = order.iter().map(|&i| values[i]).collect();
    let positions: Vec<V> = order.iter().map(|&i| V::truncate(i as u64)).collect();

    let mut scratch = RadixSortScratch::<K, V>::for_pairs(device, len).unwrap();
    let (mut keys_in, mut values_in) = (upload(device, &input), upload(device, &values));
    let mut keys_out = upload(device, &vec![K::default(); len]);
    let mut values_out = upload(device, &vec![V::default(); len]);

    let (pairs, output) = ((&keys_in, Values::Given(&values_in)), (&mut keys_out, Some(&mut values_out)));
    sort(&stream, pairs, len, bits.clone(), output, &mut scratch, portion).unwrap();
    assert_eq!(sorted(&keys_out), expected, "keys of pairs, {name}");
    assert_eq!(sorted(&values_out), expected_values, "values, {name}");
    assert_eq!(sorted(&keys_in), input, "the input of {name}");

    // What the sort before has written must not pass for this one's.
    (keys_out, values_out) = (upload(device, &vec![K::default(); len]), upload(device, &vec![V::default(); len]));
    radix_argsort(&stream, &keys_in, len, bits.clone(), &mut keys_out, &mut values_out, &mut scratch).unwrap();
    assert_eq!(sorted(&keys_out), expected, "keys of positions, {name}");
    assert_eq!(sorted(&values_out), positions, "positions, {name}");

    keys_out = upload(device, &vec![K::default(); len]);
    radix_sort(&stream, &keys_in, len, bits.clone(), &mut keys_out, &mut scratch).unwrap();
    assert_eq!(sorted(&keys_out), expected, "keys, {name}");

    radix_sort_in_place(&stream, (&mut keys_in, &mut values_in), len, bits.clone(), &mut scratch).unwrap();
    assert_eq!(sorted(&keys_in), expected, "keys of pairs in place, {name}");
    assert_eq!(sorted(&values_in), expected_values, "values in place, {name}");

    keys_in.copy_range_from(0, &input).unwrap();
    radix_sort_in_place(&stream, &mut keys_in, len, bits, &mut scratch).unwrap();
    assert_eq!(sorted(&keys_in), expected, "keys in place, {name}");
}

const SHAPES: [Shape; 5] = [Shape::Random, Shape::Few, Shape::Equal, Shape::Sorted, Shape::Reversed];

#[test]
fn any_length_and_bits_on_the_host() {
    let host = Device::host();
    for shape in SHAPES {
        for len in [0, 1, 2, 33, 10_000] {
            for bits in [0..0, 0..1, 3..20, 24..32, 0..32, 32..32] {
                check::<u32, u32>(&host, shape, len, bits.clone(), MAX_PORTION);
                check::<i32, u64>(&host, shape, len, bits.clone(), MAX_PORTION);
                check::<i64, u32>(&host, shape, len, bits.clone(), MAX_PORTION);
                check::<u64, u64>(&host, shape, len, bits.start * 2..bits.end * 2, MAX_PORTION);
                check::<u128, u64>(&host, shape, len, bits.start * 4..bits.end * 4, MAX_PORTION);
            }
        }
    }
}

#[test]
fn small_sorts_of_all_words_on_the_emulator() {
    for (seed, len) in [0, 1, 31, 32, 33, 400, 512, 513, 700].into_iter().enumerate() {
        let device = Device::emulated_with_seed(seed as u64);
        check::<u32, u32>(&device, Shape::Random, len, 0..32, MAX_PORTION);
        check::<i32, u64>(&device, Shape::Random, len, 5..32, MAX_PORTION);
        check::<i64, u32>(&device, Shape::Random, len, 40..64, MAX_PORTION);
        check::<i128, u32>(&device, Shape::Random, len, 50..128, MAX_PORTION);
        check::<u64, u64>(&device, Shape::Random, len, 0..10, MAX_PORTION);
    }
}

#[test]
fn tiles_and_their_borders_on_the_emulator() {
    let tile = calls::tile::<u64, u32>(true) as usize;
    for (seed, len) in [tile - 1, tile, tile + 1, 3 * tile + 77].into_iter().enumerate() {
        let device = Device::emulated_with_seed(seed as u64);
        check::<u64, u32>(&device, Shape::Random, len, 53..64, MAX_PORTION);
        check::<i32, u64>(&device, Shape::Few, len, 0..8, MAX_PORTION);
    }
}

#[test]
fn every_shape_of_keys_on_the_emulator() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let device = Device::emulated_with_seed(seed as u64);
        check::<i64, u64>(&device, shape, 9000, 55..64, MAX_PORTION);
        check::<u32, u32>(&device, shape, 9000, 31..32, MAX_PORTION);
    }
}

#[test]
fn odd_ranges_of_bits_on_the_emulator() {
    let device = Device::emulated_with_seed(7);
    // In one launch, and in passes.
    for len in [300, 600] {
        for bits in [0..0, 0..1, 64..64, 17..18, 7..40, 0..64] {
            check::<i64, u32>(&device, Shape::Random, len, bits, MAX_PORTION);
        }
        for bits in [0..0, 32..32, 31..32, 1..30] {
            check::<i32, u32>(&device, Shape::Random, len, bits, MAX_PORTION);
        }
    }
}

/// More elements than the states' values can count take several launches per pass.
#[test]
fn passes_in_several_launches() {
    let tile = calls::tile::<u64, u32>(true);
    let device = Device::emulated_with_seed(3);
    check::<u64, u32>(&device, Shape::Random, 5 * tile as usize + 100, 50..60, 2 * tile + 1);
    check::<u64, u32>(&device, Shape::Few, 3 * tile as usize, 50..58, 1);
}

#[test]
fn scratch_memory_is_used_again() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let mut scratch = RadixSortScratch::<u32>::for_keys(&device, 20_000).unwrap();
    assert!(scratch.bytes() > 80_000);
    for len in [20_000, 100, 9000] {
        let input: Vec<u32> = keys(Shape::Random, len);
        let mut output = device.alloc(len).unwrap();
        radix_sort(&stream, &device.upload(&input).unwrap(), len, 20..29, &mut output, &mut scratch).unwrap();
        let expected: Vec<u32> = order(&input, &(20..29)).into_iter().map(|i| input[i]).collect();
        assert_eq!(output.to_vec().unwrap(), expected, "{len}");
    }
}

#[test]
fn what_cannot_be_sorted_is_refused_with_the_numbers() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let keys = device.upload(&[3_u32, 1, 2]).unwrap();
    let mut out = device.alloc::<u32>(3).unwrap();
    let mut scratch = RadixSortScratch::<u32>::for_keys(&device, 2).unwrap();
    let mut sort = |len, bits| radix_sort(&stream, &keys, len, bits, &mut out, &mut scratch).unwrap_err().to_string();
    assert_eq!(sort(3, 0..33), "bits 0..33 of a key of 32 bits: start at or before the end, and end at 32 or before");
    #[expect(clippy::reversed_empty_ranges, reason = "that is the error")]
    let reversed = sort(3, 9..8);
    assert_eq!(reversed, "bits 9..8 of a key of 32 bits: start at or before the end, and end at 32 or before");
    assert_eq!(sort(4, 0..8), "the keys' buffer holds 3 elements, but 4 are needed; allocate at least 4");
    assert_eq!(
        sort(3, 0..8),
        "the radix sort's scratch memory holds 2 elements, but 3 are needed; allocate at least 3"
    );

    let mut one_pass = RadixSortScratch::<u32>::for_one_pass(&device, 3).unwrap();
    radix_sort(&stream, &keys, 3, 0..8, &mut out, &mut one_pass).unwrap();
    assert_eq!(out.to_vec().unwrap(), [1, 2, 3]);
    let error = radix_sort(&stream, &keys, 3, 0..9, &mut out, &mut one_pass).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the radix sort's spare-key buffer holds 0 elements, but 3 are needed; allocate at least 3"
    );

    let elsewhere = Device::emulated();
    let mut foreign = elsewhere.alloc::<u32>(3).unwrap();
    assert!(radix_sort(&stream, &keys, 3, 0..8, &mut foreign, &mut one_pass).is_err());
}

/// Moves keys by one digit, and values, keys and bits that were made of the moved keys back.
fn check_restored<K: AnyKey, V: Word>(device: &Device, shape: Shape, len: usize, bits: Range<u32>) {
    let name = format!("{shape:?} {len} {}/{} {bits:?}", K::NAME, V::NAME);
    let stream = device.stream().unwrap();
    let input: Vec<K> = keys(shape, len);
    let of = |key: &K| key.encode().parts()[0].wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (keys, mut moved_keys) = (device.upload(&input).unwrap(), device.alloc::<K>(len).unwrap());
    let mut scratch = RadixSortScratch::<K>::for_one_pass(device, len).unwrap();
    let (from, to) = (bits_of(&stream, &keys).unwrap(), bits_of_mut(&stream, &mut moved_keys).unwrap());
    // SAFETY: the buffers are as long.
    let moved = unsafe { scratch.move_keys(&stream, from, len, bits.clone(), to).unwrap() };
    let in_order = moved_keys.to_vec().unwrap();
    assert_eq!(in_order, order(&input, &bits).into_iter().map(|i| input[i]).collect::<Vec<_>>(), "{name}");

    let values = device.upload(&in_order.iter().map(|key| V::truncate(of(key))).collect::<Vec<_>>()).unwrap();
    let mut words = vec![0_u32; len.div_ceil(32)];
    in_order.iter().enumerate().for_each(|(i, key)| words[i / 32] |= ((of(key) >> 40 & 1) as u32) << (i % 32));
    let hits = device.upload(&words).unwrap();
    let mut values_out = upload(device, &vec![V::default(); len]);
    let mut keys_out = upload(device, &vec![K::default(); len]);
    let mut hits_out = upload(device, &vec![u32::MAX; words.len()]);
    let (values_to, keys_to) = (values_out.write_on(&stream).unwrap(), bits_of_mut(&stream, &mut keys_out).unwrap());
    let values = Restored { sorted: values.read_on(&stream).unwrap(), out: values_to };
    let others = Restored { sorted: bits_of(&stream, &moved_keys).unwrap(), out: keys_to };
    let hits = Restored { sorted: hits.read_on(&stream).unwrap(), out: hits_out.write_on(&stream).unwrap() };
    // SAFETY: as above, and the keys are the same.
    unsafe { scratch.restore(&stream, &moved, values, others, hits).unwrap() };
    let expected: Vec<V> = input.iter().map(|key| V::truncate(of(key))).collect();
    assert_eq!(sorted(&values_out), expected, "values, {name}");
    assert_eq!(sorted(&keys_out), input, "keys, {name}");
    let hits = sorted(&hits_out);
    let found = |i: usize| hits[i / 32] >> (i % 32) & 1 == 1;
    assert!(input.iter().enumerate().all(|(i, key)| found(i) == (of(key) >> 40 & 1 == 1)), "bits, {name}");
    assert!((len..32 * words.len()).all(|i| !found(i)), "bits past the end, {name}");
}

#[test]
fn what_was_made_of_moved_keys_goes_back_to_their_order() {
    let tile = calls::tile::<u64, u32>(false) as usize;
    for (seed, len) in [513, tile - 1, tile, tile + 1, 3 * tile + 77].into_iter().enumerate() {
        let device = Device::emulated_with_seed(seed as u64);
        check_restored::<u64, u64>(&device, SHAPES[seed], len, 56..64);
        check_restored::<u64, u32>(&device, Shape::Few, len, 3..5);
    }
    let device = Device::emulated_with_seed(9);
    for shape in SHAPES {
        check_restored::<i64, u64>(&device, shape, 9000, 56..64);
        check_restored::<u32, u32>(&device, shape, 13_000, 24..32);
    }
    check_restored::<i32, u64>(&device, Shape::Random, 25_000, 24..32);
    check_restored::<u128, u32>(&device, Shape::Random, 7000, 120..128);
    check_restored::<i128, u64>(&device, Shape::Random, 7000, 60..68);
}
