//! Files that are not what was saved.

use super::kinds::KINDS;
use crate::{Error, Section, read_pairs, read_strings, write_pairs, write_strings};
use lanetree_frame::ByteKeysBuf;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

thread_local! {
    /// The largest allocation of this thread.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Notes the largest allocation.
struct Noting;

#[global_allocator]
static ALLOCATOR: Noting = Noting;

// SAFETY: the system's, with the same arguments.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // At the end of a thread it is gone.
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: as the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The largest allocation of this thread while something runs.
pub(crate) fn largest_allocation(run: impl FnOnce()) -> usize {
    LARGEST.set(0);
    run();
    LARGEST.get()
}

/// The header's checksum, made right.
fn seal(bytes: &mut [u8]) {
    let checksum = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn every_flipped_byte_is_an_error_that_names_its_section() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        (kind.write_new)(&path);
        let mut bytes = fs::read(&path).unwrap();
        // In place: to write whole files anew takes minutes.
        let file = File::options().write(true).open(&path).unwrap();
        for at in 0..bytes.len() {
            let flipped = bytes[at] ^ 1 << (at % 8);
            file.write_all_at(&[flipped], at as u64).unwrap();
            match (at, (kind.read)(&path).unwrap_err()) {
                (8..12, Error::Unsupported { version, .. }) => assert_ne!(version, 1),
                (_, Error::Damaged { section, offset, expected, found, .. }) => {
                    assert_eq!(section, kind.section_at(at), "{}, byte {at}", kind.name);
                    assert!(
                        offset <= bytes.len() as u64 && expected != found,
                        "byte {at}: {offset} {expected} {found}"
                    );
                }
                (_, error) => panic!("{}, byte {at}: {error}", kind.name),
            }
            file.write_all_at(&[bytes[at]], at as u64).unwrap();
        }
        assert!(fs::read(&path).unwrap() == bytes);
        // Flags that nobody knows, in a header that is whole.
        let flags = bytes[12];
        for (at, flag) in [(15, 0x80), (12, 4)] {
            bytes[at] |= flag;
            seal(&mut bytes);
            fs::write(&path, &bytes).unwrap();
            assert!(matches!((kind.read)(&path), Err(Error::Unsupported { version: 1, .. })), "{}", kind.name);
            bytes[at] ^= flag;
        }
        // Flags that others have.
        for other in [0, 1, 2, 3] {
            bytes[12] = other;
            seal(&mut bytes);
            fs::write(&path, &bytes).unwrap();
            if let Err(error) = (kind.read)(&path) {
                assert!(
                    matches!(error, Error::Unsupported { .. } | Error::Several { .. } | Error::Damaged { .. }),
                    "{error}"
                );
            } else {
                assert!(
                    other == flags || kind.name == "multimap" && other == 0,
                    "{} takes the flags {other}",
                    kind.name
                );
            }
        }
    }
}

#[test]
fn a_file_of_any_other_length_is_an_error() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        (kind.write_new)(&path);
        let whole = fs::metadata(&path).unwrap().len();
        let file = File::options().write(true).open(&path).unwrap();
        for len in [whole + 1, whole + 3].into_iter().chain((0..whole).rev()) {
            file.set_len(len).unwrap();
            let Err(Error::Damaged { section: Section::Header, found, .. }) = (kind.read)(&path) else {
                panic!("{}, {len} bytes", kind.name)
            };
            assert_eq!(found, len.to_string());
        }
    }
}

#[test]
fn ends_of_strings_out_of_order_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strings");
    let words: ByteKeysBuf = ["a", "bcd", "bce"].into_iter().collect();
    write_strings(&path, &words, &[1_u32, 2, 3]).unwrap();
    let whole = fs::read(&path).unwrap();
    let (ends, keys, table) = (4096, 8192, 16384);
    // As a writer with an error would write them: all checksums are right.
    let read = |ends_are: [u64; 3], text: &[u8; 7]| {
        let mut bytes = whole.clone();
        for (at, end) in ends_are.into_iter().enumerate() {
            bytes[ends + 8 * at..][..8].copy_from_slice(&end.to_le_bytes());
        }
        bytes[keys..keys + 7].copy_from_slice(text);
        for (at, section) in [ends..ends + 24, keys..keys + 7].into_iter().enumerate() {
            let checksum = crc32c::crc32c(&bytes[section]);
            bytes[table + 4 * at..][..4].copy_from_slice(&checksum.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[table..]);
        bytes[88..92].copy_from_slice(&checksum.to_le_bytes());
        seal(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        let named = format!(" {path:?}:");
        read_strings::<u32>(&path).map_err(|error| error.to_string().replace(&named, ":"))
    };
    assert_eq!(read([1, 4, 7], b"abcdbce").unwrap().0, words);
    assert!(
        read([4, 1, 7], b"abcdbce")
            .unwrap_err()
            .contains("byte 4104 of the file: where a key ends should be 4 at least")
    );
    assert!(
        read([1, 4, 6], b"abcdbce").unwrap_err().contains("byte 4112 of the file: where the last key ends should be 7")
    );
    assert!(read([1, 4, u64::MAX], b"abcdbce").unwrap_err().contains("where the last key ends"));
    assert!(read([1, 4, 7], b"abcdbcd").unwrap_err().contains("byte 8196 of the file: a key should be above"));
    assert!(read([1, 1, 7], b"abcdbcd").unwrap_err().contains("a key should be above"));
}

#[test]
fn numbers_of_pairs_that_the_file_has_no_bytes_for_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs");
    write_pairs(&path, &[1_u64, 5, 9], &[10_u64, 50, 90]).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    for bit in 0..64 {
        for pairs in [1_u64 << bit, u64::MAX >> bit] {
            if pairs == 3 {
                continue;
            }
            bytes[80..88].copy_from_slice(&pairs.to_le_bytes());
            seal(&mut bytes);
            fs::write(&path, &bytes).unwrap();
            let allocated = largest_allocation(|| {
                let error = read_pairs::<u64, u64>(&path).unwrap_err();
                // Up to 512 keys the file has the same sections, and then keys that no checksum is for.
                assert!(matches!(error, Error::Damaged { .. }), "{pairs}: {error}");
            });
            assert!(allocated <= bytes.len(), "{allocated} bytes for {pairs} pairs");
        }
    }
    let words: ByteKeysBuf = ["a", "bcd", "bce"].into_iter().collect();
    write_strings(&path, &words, &[1_u64, 5, 9]).unwrap();
    let whole = fs::read(&path).unwrap();
    for bit in 0..64 {
        for (number, at) in [(1_u64 << bit, 80), (u64::MAX >> bit, 80), (1 << bit, 156), (u64::MAX >> bit, 156)] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            seal(&mut bytes);
            if bytes == whole {
                continue;
            }
            fs::write(&path, &bytes).unwrap();
            let allocated = largest_allocation(|| {
                let error = read_strings::<u64>(&path).unwrap_err();
                assert!(matches!(error, Error::Damaged { .. }), "{number} at {at}: {error}");
            });
            assert!(allocated <= bytes.len(), "{allocated} bytes for {number} at {at}");
        }
    }
}

#[test]
fn keys_out_of_order_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs");
    // As a writer with an error would write them: all checksums are right.
    let header = crate::format::Header::of::<u64, ()>(crate::format::MAGIC, 0, 4).unwrap();
    for (keys, offset) in [([1_u64, 2, 2, 3], 4096 + 16), ([1, 2, 3, 0], 4096 + 24)] {
        let file = crate::disk::Replacement::begin(&path).unwrap();
        crate::format::write(file, header, [bytemuck::cast_slice(&keys), &[]]).unwrap().commit().unwrap();
        let error = read_pairs::<u64, ()>(&path).unwrap_err();
        assert!(matches!(error, Error::Damaged { section: Section::Keys, offset: at, .. } if at == offset), "{error}");
    }
    let text = format!(
        "the keys, at byte 4120 of the file {path:?}: a key should be above the one before it, 3, but is 0; restore the file \
         from a copy"
    );
    assert_eq!(read_pairs::<u64, ()>(&path).unwrap_err().to_string(), text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(pairs in prop::collection::btree_map(any::<i64>(), any::<u32>(), 0..3000)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs");
        let (keys, values): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
        write_pairs(&path, &keys, &values).unwrap();
        prop_assert_eq!(read_pairs::<i64, u32>(&path).unwrap(), (keys, values));
    }

    #[test]
    fn strings_that_are_written_are_read(
        pairs in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..40), any::<u32>(), 0..1000),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("strings");
        let (keys, values): (Vec<Vec<u8>>, Vec<u32>) = pairs.into_iter().unzip();
        let keys: ByteKeysBuf = keys.into_iter().collect();
        write_strings(&path, &keys, &values).unwrap();
        prop_assert_eq!(read_strings::<u32>(&path).unwrap(), (keys, values));
    }

    #[test]
    fn bytes_changed_anywhere_are_an_error(
        pairs in prop::collection::btree_map(any::<u32>(), any::<u64>(), 1..2000),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..8),
        len in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs");
        let (keys, values): (Vec<u32>, Vec<u64>) = pairs.into_iter().unzip();
        write_pairs(&path, &keys, &values).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let changes: BTreeMap<usize, u8> = changes.into_iter().map(|(at, by)| (at.index(bytes.len()), by)).collect();
        for (&at, by) in &changes {
            bytes[at] ^= by;
        }
        if let Some(len) = len {
            bytes.truncate(len.index(bytes.len()));
        }
        fs::write(&path, &bytes).unwrap();
        let allocated = largest_allocation(|| assert!(read_pairs::<u32, u64>(&path).is_err()));
        prop_assert!(allocated <= bytes.len().max(4096));
    }
}
