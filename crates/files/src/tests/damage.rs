//! Files that are not what was saved.

use crate::{Error, Section, read_pairs, write_pairs};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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

fn section_at(offset: usize) -> Section {
    match offset {
        0..4096 => Section::Header,
        4096..8192 => Section::Keys,
        8192..12288 => Section::Values,
        _ => Section::Table,
    }
}

fn read(path: &Path, bytes: &[u8]) -> Result<(Vec<u64>, Vec<u64>), Error> {
    fs::write(path, bytes).unwrap();
    read_pairs::<u64, u64>(path)
}

#[test]
fn every_flipped_byte_is_an_error_that_names_its_section() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs");
    write_pairs(&path, &[1_u64, 5, 9], &[10_u64, 50, 90]).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let flipped = 1 << (at % 8);
        bytes[at] ^= flipped;
        match (at, read(&path, &bytes).unwrap_err()) {
            (8..12, Error::Unsupported { version, .. }) => assert_ne!(version, 1),
            (_, Error::Damaged { section, offset, expected, found, .. }) => {
                assert_eq!(section, section_at(at), "byte {at}");
                assert!(offset <= bytes.len() as u64 && expected != found, "byte {at}: {offset} {expected} {found}");
            }
            (_, error) => panic!("byte {at}: {error}"),
        }
        bytes[at] ^= flipped;
    }
    // Flags that nobody knows, in a header that is whole.
    bytes[15] = 0x80;
    seal(&mut bytes);
    assert!(matches!(read(&path, &bytes), Err(Error::Unsupported { version: 1, flags: 0x8000_0000 })));
}

#[test]
fn a_file_of_any_other_length_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs");
    write_pairs(&path, &[1_u64, 5, 9], &[10_u64, 50, 90]).unwrap();
    let whole = fs::read(&path).unwrap();
    let longer = whole.len() + 3;
    for len in (0..whole.len()).chain([whole.len() + 1, longer]) {
        let mut bytes = whole.clone();
        bytes.resize(len, 0);
        let Err(Error::Damaged { section: Section::Header, found, .. }) = read(&path, &bytes) else {
            panic!("{len} bytes")
        };
        assert_eq!(found, len.to_string());
    }
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
}

#[test]
fn keys_out_of_order_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs");
    // As a writer with an error would write them: all checksums are right.
    let header = crate::format::Header::of::<u64, ()>(crate::format::MAGIC, 0, 4).unwrap();
    for (keys, offset) in [([1_u64, 2, 2, 3], 4096 + 16), ([1, 2, 3, 0], 4096 + 24)] {
        crate::format::write(&path, header, bytemuck::cast_slice(&keys), &[]).unwrap();
        let error = read_pairs::<u64, ()>(&path).unwrap_err();
        assert!(matches!(error, Error::Damaged { section: Section::Keys, offset: at, .. } if at == offset), "{error}");
    }
    let text = "the keys, at byte 4120 of the file: a key should be above the one before it, 3, but is 0; restore the file \
                from a copy";
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
