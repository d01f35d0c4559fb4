//! The tree on the emulator against the standard library's map.

use super::*;
use std::collections::BTreeMap;

/// A sequence of numbers without a pattern that matters.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32 ^ self.0 << 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 20) as usize % bound
    }

    /// Few different bytes at first, so that keys meet, and any at the end.
    fn key(&mut self, width: usize) -> Vec<u8> {
        let free = 1 + self.below(width);
        let mut byte = |i: usize| if i + free < width { [0, b'a', 255][self.below(3)] } else { self.next() as u8 };
        (0..width).map(&mut byte).collect()
    }
}

/// A tree, the map that it should be as, and queries with what the keys are not.
struct Subject<V: Word> {
    stream: Stream,
    device: Device,
    grt: Grt<V>,
    model: BTreeMap<Vec<u8>, u64>,
}

impl<V: Word> Subject<V> {
    fn new(seed: u64, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let device = Device::emulated_with_seed(seed);
        let model: BTreeMap<_, _> = keys.into_iter().zip(7..).collect();
        let grt = Grt::new(&device, &Art::new(model.iter().map(|(key, &value)| (key, value)))).unwrap();
        assert_eq!(grt.len(), model.len());
        Self { stream: device.stream().unwrap(), device, grt, model }
    }

    fn bits(&self, queries: &[Vec<u8>]) -> Vec<u32> {
        let bit = |query: &Vec<u8>| u32::from(self.model.contains_key(query));
        let word = |tile: &[Vec<u8>]| tile.iter().rev().fold(0, |word, query| word << 1 | bit(query));
        queries.chunks(32).map(word).collect()
    }

    fn check(&self, queries: &[Vec<u8>]) {
        let uploaded = KeyBuffers::upload(&self.device, queries).unwrap();
        let mut values = self.device.alloc(queries.len()).unwrap();
        let mut found = self.device.alloc(queries.len().div_ceil(32)).unwrap();
        self.grt.get(&self.stream, uploaded.queries(), &mut values, Some(&mut found), V::MAX).unwrap();
        self.stream.synchronize().unwrap();
        let expected = queries.iter().map(|query| self.model.get(query).map_or(V::MAX, |&value| V::truncate(value)));
        assert_eq!(values.to_vec().unwrap(), expected.collect::<Vec<_>>());
        assert_eq!(found.to_vec().unwrap(), self.bits(queries));
    }

    /// Every key, and others like it: one byte other, less and more.
    fn check_around(&self, limit: usize) {
        let mut queries = vec![Vec::new()];
        let step = self.model.len().div_ceil(limit).max(1);
        for (i, key) in self.model.keys().enumerate().filter(|(i, _)| i % step == 0) {
            queries.push(key.clone());
            queries.push([&key[..], &[0]].concat());
            queries.push([&key[..], &[i as u8]].concat());
            if let Some((&last, rest)) = key.split_last() {
                queries.push(rest.to_vec());
                queries.push([rest, &[last.wrapping_add(1)]].concat());
                let mut other = key.clone();
                other[i % key.len()] ^= 1 << (i % 8);
                queries.push(other);
            }
        }
        self.check(&queries);
    }

    fn update(&mut self, queries: &[Vec<u8>], values: &[u64]) {
        let uploaded = KeyBuffers::upload(&self.device, queries).unwrap();
        let narrow: Vec<V> = values.iter().map(|&value| V::truncate(value)).collect();
        let narrow = self.device.upload(&narrow).unwrap();
        let mut found = self.device.alloc(queries.len().div_ceil(32)).unwrap();
        self.grt.update(&self.stream, uploaded.queries(), &narrow, Some(&mut found)).unwrap();
        self.stream.synchronize().unwrap();
        assert_eq!(found.to_vec().unwrap(), self.bits(queries));
        for (query, &value) in queries.iter().zip(values) {
            self.model.entry(query.clone()).and_modify(|old| *old = value);
        }
    }
}

#[test]
fn keys_of_one_width_are_found() {
    for (seed, width) in (1..).zip([4, 8, 16, 32]) {
        let mut numbers = Numbers(seed);
        for len in [0, 1, 2, 40, 2000] {
            let subject = Subject::<u64>::new(seed, (0..len).map(|_| numbers.key(width)));
            let mut queries: Vec<Vec<u8>> = subject.model.keys().cloned().collect();
            queries.extend((0..333).map(|_| numbers.key(width)));
            subject.check(&queries);
            subject.check_around(200);
        }
    }
}

#[test]
fn narrow_values_are_found() {
    let mut numbers = Numbers(9);
    Subject::<u32>::new(3, (0..500).map(|_| numbers.key(8))).check_around(500);
}

#[test]
fn every_prefix_of_a_string_is_a_key() {
    for byte in [0, b'x', 255] {
        let text = vec![byte; 300];
        Subject::<u64>::new(1, (0..text.len()).map(|len| text[..len].to_vec())).check_around(300);
        // Prefixes of nodes below, at and above what a header holds of them.
        let lens = [0, 1, 9, 19, 30, 42, 60, 100];
        Subject::<u64>::new(1, lens.map(|len| text[..len].to_vec())).check_around(100);
    }
}

/// In the bytes that a node holds of its prefix, the first ones that it does not, and the others.
#[test]
fn a_difference_in_a_long_prefix_is_a_miss() {
    for len in [1, 7, 8, 9, 10, 11, 12, 40] {
        let path = vec![b'p'; len];
        let keys = [b'a', b'b'].map(|last| [&path[..], &[last]].concat());
        let subject = Subject::<u64>::new(2, keys.clone());
        let mut queries = keys.to_vec();
        for at in 0..len {
            queries.extend(keys.clone().map(|mut key| {
                key[at] = b'q';
                key
            }));
            queries.push(keys[0][..at].to_vec());
        }
        subject.check(&queries);
    }
}

#[test]
fn runs_of_zeros_and_ones_are_told_apart() {
    let mut keys = vec![Vec::new()];
    for len in 1..40 {
        keys.extend([vec![0; len], vec![255; len]]);
        keys.push([&vec![0; len][..], &[255]].concat());
        keys.push([&vec![255; len][..], &[0]].concat());
    }
    Subject::<u64>::new(4, keys).check_around(1000);
}

/// From one child to all of them, also at the byte 0, which the zeros after the keys of small nodes equal.
#[test]
fn keys_that_differ_in_their_last_byte_are_told_apart() {
    for count in [1, 2, 4, 5, 16, 17, 48, 49, 255, 256_usize] {
        for first in [0, 1, 256 - count] {
            let last = (first..256.min(first + count)).map(|byte| byte as u8);
            let keys: Vec<Vec<u8>> = last.map(|last| [b"long enough for a prefix: ", &[last][..]].concat()).collect();
            let subject = Subject::<u64>::new(5, keys);
            subject.check(
                &(0..=255).map(|last| [b"long enough for a prefix: ", &[last][..]].concat()).collect::<Vec<_>>(),
            );
            subject.check_around(20);
        }
    }
}

#[test]
fn ten_thousand_keys_lie_under_one_large_node() {
    let mut numbers = Numbers(6);
    let keys = (0..10_000_u32).map(|i| [&[i as u8][..], &numbers.key(7)].concat());
    Subject::<u64>::new(6, keys.collect::<Vec<_>>()).check_around(500);
}

#[test]
fn keys_longer_than_any_leaf_of_cuart_are_found() {
    let mut numbers = Numbers(7);
    let keys: Vec<Vec<u8>> = (0..300).map(|i| numbers.key([33, 40, 41, 64, 257][i % 5])).collect();
    Subject::<u32>::new(7, keys).check_around(300);
    Subject::<u64>::new(7, [Vec::new()]).check_around(1);
}

fn updates_stay<V: Word>(seed: u64) {
    let mut numbers = Numbers(seed);
    let keys = (0..60).map(|i| numbers.key([1, 4, 8, 9, 40][i % 5]));
    let mut subject = Subject::<V>::new(seed, keys.chain([Vec::new()]).collect::<Vec<_>>());
    let known: Vec<Vec<u8>> = subject.model.keys().cloned().collect();
    // One key for all, a few, and all of them with others between; several blocks.
    for (batch, different) in [1, 3, known.len(), 5].into_iter().enumerate() {
        let queries: Vec<Vec<u8>> = (0..900)
            .map(|_| if numbers.below(9) == 0 { numbers.key(6) } else { known[numbers.below(different)].clone() })
            .collect();
        let values: Vec<u64> = (0..900).map(|i| (numbers.next() << 12) | (batch as u64 * 1000 + i)).collect();
        subject.update(&queries, &values);
        subject.check(&known);
    }
}

#[test]
fn the_last_update_of_a_key_stays() {
    for seed in 0..6 {
        updates_stay::<u64>(seed);
    }
    updates_stay::<u32>(6);
}

#[test]
fn updates_of_an_empty_tree_find_nothing() {
    let mut subject = Subject::<u64>::new(1, []);
    subject.update(&[Vec::new(), vec![1]], &[1, 2]);
    subject.check(&[Vec::new(), vec![1]]);
    subject.update(&[], &[]);
    assert_eq!(subject.grt.bytes(), 0);
}

#[test]
fn offsets_may_be_the_callers() {
    let subject = Subject::<u64>::new(1, [b"one".to_vec(), b"three".to_vec()]);
    let bytes = subject.device.upload(&[u64::from_le_bytes(*b"onethree"), u64::MAX]).unwrap();
    let offsets = subject.device.upload(&[0, 3, 8]).unwrap();
    // SAFETY: offsets ascend and end inside the bytes.
    let queries = unsafe { Queries::with_offsets(&bytes, &offsets) }.unwrap();
    let mut values = subject.device.alloc(2).unwrap();
    subject.grt.get(&subject.stream, queries, &mut values, None, 0).unwrap();
    assert_eq!(values.to_vec().unwrap(), [7, 8]);
    let queries = Queries::of_width(&bytes, 3, 5).unwrap();
    let mut values = subject.device.alloc(5).unwrap();
    subject.grt.get(&subject.stream, queries, &mut values, None, 0).unwrap();
    assert_eq!(values.to_vec().unwrap(), [7, 0, 0, 0, 0]);
}

#[test]
fn bad_calls_are_errors() {
    let host = Device::host();
    let mut grt = Grt::<u64>::new(&host, &Art::new([("k", 1)])).unwrap();
    let stream = host.stream().unwrap();
    let keys = KeyBuffers::upload(&host, &["k", "l"]).unwrap();
    let error = grt.get(&stream, keys.queries(), &mut host.alloc(1).unwrap(), None, 0).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 2, actual: 1, .. }), "{error}");
    let mut found = host.alloc(0).unwrap();
    let values = host.alloc(2).unwrap();
    let error = grt.update(&stream, keys.queries(), &values, Some(&mut found)).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 1, actual: 0, .. }), "{error}");
    let error = grt.update(&stream, keys.queries(), &values, None).unwrap_err();
    assert!(matches!(error, Error::NoKernels { .. }), "{error}");
    let other = KeyBuffers::upload(&Device::emulated(), &["k", "l"]).unwrap();
    let error = grt.get(&stream, other.queries(), &mut host.alloc(2).unwrap(), None, 0).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    let words = host.upload(&[0_u64; 2]).unwrap();
    let error = Queries::of_width(&words, 3, 6).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { len: 18, buffer_len: 16, .. }), "{error}");
}

/// Ranges between any two strings, compared with the map's.
fn check_ranges<V: Word>(subject: &Subject<V>, bounds: &[(Vec<u8>, Vec<u8>)], limit: usize) {
    let upload = |keys: Vec<&[u8]>| KeyBuffers::upload(&subject.device, &keys).unwrap();
    let starts = upload(bounds.iter().map(|(start, _)| &start[..]).collect());
    let ends = upload(bounds.iter().map(|(_, end)| &end[..]).collect());
    let mut values = subject.device.alloc(bounds.len() * limit).unwrap();
    let mut lens = subject.device.alloc(bounds.len()).unwrap();
    let queries = (starts.queries(), ends.queries());
    subject.grt.range(&subject.stream, queries.0, queries.1, limit, &mut values, &mut lens).unwrap();
    subject.stream.synchronize().unwrap();
    let lens = lens.to_vec().unwrap();
    for (i, (start, end)) in bounds.iter().enumerate() {
        let inside = subject.model.iter().filter(|(key, _)| (start..=end).contains(key));
        let expected: Vec<V> = inside.map(|(_, &value)| V::truncate(value)).take(limit).collect();
        assert_eq!(lens[i], expected.len() as u64, "{start:?} to {end:?}");
        let mut found = vec![V::MIN; expected.len()];
        values.copy_range_to(i * limit, &mut found).unwrap();
        assert_eq!(found, expected, "{start:?} to {end:?}");
    }
}

#[test]
fn ranges_have_the_pairs_between_their_keys() {
    let mut numbers = Numbers(11);
    for len in [0, 1, 40, 700] {
        let keys = (0..len).map(|i| numbers.key([1, 2, 4, 9, 24][i % 5]));
        let subject = Subject::<u32>::new(11, keys.collect::<Vec<_>>());
        let known: Vec<Vec<u8>> = subject.model.keys().cloned().collect();
        let mut any = |i: usize| match known.get(numbers.below(known.len() + 40)) {
            Some(key) if i.is_multiple_of(3) => key.clone(),
            Some(key) => [&key[..numbers.below(key.len() + 1)], &numbers.key(2)].concat(),
            None => numbers.key(5),
        };
        let bounds: Vec<_> = (0..300).map(|i| (any(i), any(i + 1))).collect();
        check_ranges(&subject, &bounds, 9);
        check_ranges(&subject, &[(Vec::new(), vec![255; 40]), (vec![255; 40], vec![255; 41])], len.max(1));
    }
}

/// A range begins below, in and above a prefix that no header holds whole.
#[test]
fn ranges_begin_in_long_prefixes() {
    let path = [b'm'; 30];
    let keys = [&[][..], b"a", b"ab", b"z"].map(|last| [&path[..], last].concat());
    let subject = Subject::<u64>::new(12, keys.into_iter().chain([b"k".to_vec(), b"zz".to_vec()]).collect::<Vec<_>>());
    let mut bounds = Vec::new();
    for at in 0..=path.len() {
        for byte in [b'a', b'm', b'z'] {
            bounds.push(([&path[..at], &[byte]].concat(), b"zy".to_vec()));
        }
    }
    check_ranges(&subject, &bounds, 6);
}

#[test]
fn keys_compared_by_words_are_found_and_updated() {
    let mut numbers = Numbers(13);
    let keys: Vec<Vec<u8>> = (0..400).map(|i| numbers.key([1, 4, 7, 8, 9, 16, 40][i % 7])).collect();
    let mut subject = Subject::<u32>::new(13, keys.clone());
    subject.grt = subject.grt.comparing(Compare::Words);
    subject.check_around(400);
    subject.update(&keys, &(0..400).collect::<Vec<_>>());
    subject.check(&keys);
}

#[test]
fn a_tree_of_sorted_keys_answers_as_any() {
    let mut numbers = Numbers(14);
    let mut subject = Subject::<u64>::new(14, (0..500).map(|_| numbers.key(8)).collect::<Vec<_>>());
    let keys: Vec<&[u8]> = subject.model.keys().map(|key| &key[..]).collect();
    let values: Vec<u64> = subject.model.values().copied().collect();
    subject.grt = Grt::of_sorted(&subject.device, keys.len(), |i| keys[i], |i| values[i]).unwrap();
    subject.check_around(300);
}

#[test]
fn bad_ranges_are_errors() {
    let device = Device::emulated();
    let (grt, stream) = (Grt::<u32>::new(&device, &Art::new([("k", 1)])).unwrap(), device.stream().unwrap());
    let (one, two) = (KeyBuffers::upload(&device, &["k"]).unwrap(), KeyBuffers::upload(&device, &["a", "b"]).unwrap());
    let (mut values, mut lens) = (device.alloc(5).unwrap(), device.alloc(1).unwrap());
    let error = grt.range(&stream, one.queries(), two.queries(), 1, &mut values, &mut lens).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 1, actual: 2, .. }), "{error}");
    let error = grt.range(&stream, one.queries(), one.queries(), 6, &mut values, &mut lens).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 6, actual: 5, .. }), "{error}");
    let error = grt.range(&stream, two.queries(), two.queries(), 1, &mut values, &mut lens).unwrap_err();
    assert!(matches!(error, Error::LengthMismatch { expected: 2, actual: 1, .. }), "{error}");
}
