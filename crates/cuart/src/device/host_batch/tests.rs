//! Batches in small pieces, on the emulator against the host.

use crate::Cuart;
use crate::{LongKeys, RootTable};
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, Offsets};
use lanetree_frame::staging::{Lengths, PINNED_SLOTS, SLOTS};
use lanetree_frame::{Device, Error, Mirrored, PinnedBuffer};
use lanetree_runtime::Failure;

/// As many as make every number of pieces, and of queries of the last one, with these lengths.
const COUNTS: [usize; 11] = [0, 1, 31, 32, 33, 63, 64, 65, 96, 257, 500];
const LENGTHS: Lengths = Lengths { short: 32, long: 64, bytes: 512 };

/// The lengths of the keys of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    Width(usize),
    Short,
    Long(LongKeys),
}

const KEYS: [Keys; 8] = [
    Keys::Width(0),
    Keys::Width(3),
    Keys::Width(8),
    Keys::Width(16),
    Keys::Width(41),
    Keys::Short,
    Keys::Long(LongKeys::DeviceLeaves),
    Keys::Long(LongKeys::HostLeaves),
];

/// The bytes of a string by its number: a prefix of the longer strings.
fn string(keys: Keys, i: usize) -> Vec<u8> {
    let len = match keys {
        Keys::Width(width) => width,
        Keys::Short => i % 30,
        // One of 700 bytes is longer than a piece.
        Keys::Long(_) => [0, 7, 700, 20, 40, 33, 32, 90][i % 8],
    };
    let digits = i.to_string();
    digits.bytes().cycle().take(len).collect()
}

fn queries(keys: Keys, count: usize, from: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| string(keys, (i * 7 + from) % 900)).collect()
}

/// Strings with offsets that do not begin at 0.
struct Packed {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
}

impl Packed {
    fn new(strings: &[Vec<u8>]) -> Self {
        let (mut bytes, mut offsets) = (b"before".to_vec(), vec![6]);
        for string in strings {
            bytes.extend(string);
            offsets.push(bytes.len() as u64);
        }
        bytes.extend(b"beyond");
        Self { bytes, offsets }
    }

    /// Calls with strings of every kind of offsets that they may have.
    fn each(&self, keys: Keys, call: impl Fn(ByteKeys<'_>, &str)) {
        let narrow: Vec<u32> = self.offsets.iter().map(|&offset| offset as u32).collect();
        call(ByteKeys::new(&self.offsets[..], &self.bytes).unwrap(), "u64");
        call(ByteKeys::new(&narrow[..], &self.bytes).unwrap(), "u32");
        if let Keys::Width(width) = keys {
            let offsets = Offsets::Fixed { width, len: narrow.len() - 1 };
            let bytes = &self.bytes[6..self.bytes.len() - 6];
            call(ByteKeys::new(offsets, bytes).unwrap(), "fixed");
        }
    }
}

/// The same tree on the host and on a device, small pieces there.
fn trees(device: &Device, keys: Keys) -> [Cuart<u64>; 2] {
    let strings: ByteKeysBuf = (0..900).step_by(2).map(|i| string(keys, i)).collect();
    let values: Vec<u64> = (0..strings.len() as u64).collect();
    let long = if let Keys::Long(long) = keys { long } else { LongKeys::DeviceLeaves };
    let builder = Cuart::builder().long_keys(long).root_table(RootTable::TwoBytes);
    let host = builder.build(&Device::host(), &strings, &values).unwrap();
    let mut tree = host.to_device(device).unwrap();
    tree.batches.staging.lengths = LENGTHS;
    tree.batches.pinned.piece = 64;
    [host, tree]
}

/// Runs in a pool of one thread, which takes all pieces.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

#[test]
fn batches_of_many_pieces_answer_as_the_host_does() {
    let device = Device::emulated();
    for keys in KEYS {
        let [host, tree] = trees(&device, keys);
        assert_eq!(tree.staging_bytes(), 0);
        let threads = lanetree_runtime::threads();
        // Input of 512 bytes; and 64 values, two arrays of bits, whole lines.
        let most = threads * SLOTS * 2 * (512 + 1024);
        for (round, count) in COUNTS.into_iter().chain([500]).enumerate() {
            Packed::new(&queries(keys, count, round)).each(keys, |queries, kind| {
                let expected = host.get_many(queries).unwrap();
                assert_eq!(tree.get_many(queries).unwrap(), expected, "{keys:?}, {kind}, {count}");
                let found = expected.iter().flatten().count();
                assert!(count < 31 || found > 0 && (keys == Keys::Width(0) || found < count), "{keys:?}: {found}");
            });
            assert!(tree.staging_bytes() <= most, "{keys:?}: {} bytes", tree.staging_bytes());
        }
        // Lanes that a query longer than a piece has made larger are not kept: of long keys, all may have been.
        assert!(tree.staging_bytes() > 0 || matches!(keys, Keys::Long(_)), "{keys:?}");
        let [_, on_host] = trees(&Device::host(), keys);
        assert_eq!((on_host.get_many(&ByteKeysBuf::new()).unwrap(), on_host.staging_bytes()), (vec![], 0));
    }
}

#[test]
fn long_keys_can_be_sent_as_empty_ones() {
    let device = Device::emulated();
    for keys in [Keys::Width(0), Keys::Width(8), Keys::Short] {
        let [host, tree] = trees(&device, keys);
        for (round, count) in COUNTS.into_iter().enumerate() {
            let strings: Vec<Vec<u8>> = (0..count)
                .map(|i| match (i * i + round) % 5 {
                    0 | 1 => string(Keys::Long(LongKeys::DeviceLeaves), i),
                    _ => string(keys, (i * 7 + round) % 900),
                })
                .collect();
            Packed::new(&strings).each(Keys::Short, |queries, kind| {
                let mut out = vec![Some(1 << 40); count];
                tree.get_short_across(queries, 30, &mut out).unwrap();
                let expected = host.get_many(queries).unwrap();
                for (i, expected) in expected.into_iter().enumerate().filter(|&(i, _)| queries.at(i).len() <= 30) {
                    assert_eq!(out[i], expected, "{keys:?}, {kind}, {count}: {:?}", queries.at(i));
                }
            });
        }
        // Though some of them are longer than a piece, no lane has become larger.
        assert!(tree.staging_bytes() > 0, "{keys:?}");
    }
}

#[test]
fn later_batches_allocate_nothing() {
    let device = Device::emulated();
    for keys in [Keys::Width(8), Keys::Short, Keys::Long(LongKeys::HostLeaves)] {
        let [host, mut tree] = trees(&device, keys);
        tree.batches.staging.lengths = Lengths { bytes: 1 << 12, ..LENGTHS };
        alone(|| {
            for round in 0..4 {
                let packed = Packed::new(&queries(keys, 500, round));
                let queries = ByteKeys::new(&packed.offsets[..], &packed.bytes).unwrap();
                if round == 2 {
                    device.inject(Some(Failure::Allocation(0)));
                }
                assert_eq!(tree.get_many(queries).unwrap(), host.get_many(queries).unwrap());
            }
        });
        assert_eq!(device.inject(None), Some(Failure::Allocation(0)), "nothing was allocated");
    }
}

#[test]
fn memory_stays_when_a_tree_is_built_or_sent_again() {
    let device = Device::emulated();
    let [host, mut tree] = trees(&device, Keys::Short);
    let some: ByteKeysBuf = queries(Keys::Short, 9, 0).iter().collect();
    tree.get_many(&some).unwrap();
    let bytes = tree.staging_bytes();
    tree.remove_many(&some).unwrap();
    assert!(!tree.is_compact());
    tree.compact().unwrap();
    assert!(tree.staging_bytes() >= bytes);
    assert_eq!(tree.get_many(&some).unwrap(), [None; 9]);

    let mut mirrored = Mirrored::new(host, &device).unwrap();
    mirrored.device_index().get_many(&some).unwrap();
    mirrored.remove_many((&some).into()).unwrap();
    mirrored.restore_order().unwrap();
    let copy = mirrored.device_index();
    assert!(copy.staging_bytes() > 0);
    assert_eq!(copy.get_many(&some).unwrap(), [None; 9]);
}

#[test]
fn threads_send_batches_at_the_same_time() {
    let device = Device::emulated();
    let [host, tree] = trees(&device, Keys::Long(LongKeys::HostLeaves));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (host, tree) = (&host, &tree);
            scope.spawn(move || {
                for round in 0..4 {
                    let keys = [Keys::Long(LongKeys::HostLeaves), Keys::Width(40), Keys::Short][(thread + round) % 3];
                    Packed::new(&queries(keys, 200 + thread, round)).each(keys, |queries, kind| {
                        assert_eq!(tree.get_many(queries).unwrap(), host.get_many(queries).unwrap(), "{kind}");
                    });
                }
            });
        }
    });
}

#[test]
fn a_query_that_is_too_long_for_a_key_is_not_there() {
    let device = Device::emulated();
    let tree = Cuart::build(&device, &ByteKeysBuf::from_iter([[0_u8; 5]]), &[7_u32]).unwrap();
    // Never touched, so they have no memory.
    let bytes = vec![0_u8; (1 << 32) + 15];
    let offsets = [0, 5, (1_u64 << 32) + 10, (1 << 32) + 15];
    let queries = ByteKeys::new(&offsets[..], &bytes).unwrap();
    assert_eq!(tree.get_many(queries).unwrap(), [Some(7), None, Some(7)]);
    let queries = ByteKeys::fixed((1 << 32) + 5, &bytes[..(1 << 32) + 5]).unwrap();
    assert_eq!(tree.get_many(queries).unwrap(), [None]);
    assert!(tree.staging_bytes() < 1 << 12, "{}", tree.staging_bytes());
}

#[test]
fn a_tree_answers_after_the_device_has_failed() {
    for keys in [Keys::Width(8), Keys::Long(LongKeys::HostLeaves)] {
        let packed = Packed::new(&queries(keys, 200, 3));
        let queries = ByteKeys::new(&packed.offsets[..], &packed.bytes).unwrap();
        let expected = trees(&Device::emulated(), keys)[0].get_many(queries).unwrap();
        let set_up = |device: &Device| {
            let [_, tree] = trees(device, keys);
            let bytes = if keys == Keys::Width(8) { &packed.bytes[6..packed.bytes.len() - 6] } else { &[] };
            let buffers = pinned(&tree, bytes, 200);
            (tree, buffers)
        };
        let work = |(tree, (pinned, values, bits)): &mut (Cuart<u64>, _)| {
            assert_eq!(tree.get_many(queries)?, expected);
            if keys == Keys::Width(8) {
                tree.get_many_pinned(8, pinned, 9, values, Some(bits)).map(drop)
            } else {
                Ok(())
            }
        };
        let failed = Failure::at_every_point(set_up, work, |state, _: &Error| work(state).unwrap());
        assert!(failed.len() > 8, "{failed:?}");
    }
}

fn pinned(tree: &Cuart<u64>, bytes: &[u8], count: usize) -> (PinnedBuffer<u8>, PinnedBuffer<u64>, PinnedBuffer<u32>) {
    let mut keys = tree.device().pinned(bytes.len()).unwrap();
    keys.copy_from_slice(bytes);
    (keys, tree.device().pinned(count).unwrap(), tree.device().pinned(count.div_ceil(32)).unwrap())
}

#[test]
fn batches_between_page_locked_buffers() {
    let device = Device::emulated();
    for keys in [Keys::Width(3), Keys::Width(8), Keys::Width(41)] {
        let Keys::Width(width) = keys else { continue };
        let pair = trees(&device, keys);
        for (round, count) in COUNTS.into_iter().enumerate() {
            let bytes = queries(keys, count, round).concat();
            let expected = pair[0].get_many(ByteKeys::fixed(width, &bytes).unwrap()).unwrap();
            for tree in &pair {
                let (keys, mut values, mut bits) = pinned(tree, &bytes, count);
                tree.get_many_pinned(width, &keys, 77, &mut values, Some(&mut bits)).unwrap();
                assert!(values.iter().zip(&expected).all(|(&value, hit)| value == hit.unwrap_or(77)));
                let bit = |i: usize| bits[i / 32] >> (i % 32) & 1 == 1;
                assert!(expected.iter().enumerate().all(|(i, hit)| bit(i) == hit.is_some()));
                values.fill(0);
                tree.get_many_pinned(width, &keys, 78, &mut values, None).unwrap();
                assert!(values.iter().zip(&expected).all(|(&value, hit)| value == hit.unwrap_or(78)));
            }
        }
        let lane = (64 * width).next_power_of_two() + 64 * 8 + 8;
        assert!((1..=PINNED_SLOTS * lane).contains(&pair[1].staging_bytes()), "{}", pair[1].staging_bytes());
        // Of other widths, in turn.
        let tree = &pair[1];
        for width in [1, 60, 5, 60, 1] {
            let (keys, mut values, _) = pinned(tree, &vec![b'1'; 300 * width], 300);
            tree.get_many_pinned(width, &keys, 5, &mut values, None).unwrap();
            assert_eq!(values[..], [5; 300]);
        }
    }
}

#[test]
fn wrong_page_locked_buffers_are_named() {
    for device in [Device::host(), Device::emulated()] {
        let [_, tree] = trees(&device, Keys::Long(LongKeys::HostLeaves));
        let (keys, mut values, _) = pinned(&tree, &[0; 12], 2);
        let error = |width: usize, values: &mut PinnedBuffer<u64>| {
            tree.get_many_pinned(width, &keys, 0, values, None).map_err(|error| error.to_string())
        };
        assert_eq!(
            error(0, &mut values).unwrap_err(),
            "12 bytes are not keys of 0 bytes: give whole keys, of 1 to 2^32 - 1 bytes each"
        );
        assert_eq!(
            error(8, &mut values).unwrap_err(),
            "12 bytes are not keys of 8 bytes: give whole keys, of 1 to 2^32 - 1 bytes each"
        );
        assert_eq!(
            error(4, &mut values).unwrap_err(),
            "the values' buffer holds 2 elements, but 3 are needed; allocate at least 3"
        );
        let result = error(6, &mut values);
        assert_eq!(result.is_ok(), device.kind() == lanetree_frame::DeviceKind::Host);
        assert!(result.err().is_none_or(|error| error.starts_with("Cuart::get_many_pinned: the tree has")));
    }
}
