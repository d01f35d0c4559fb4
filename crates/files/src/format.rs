//! The format of a file, and its checks.

use crate::{Error, Result};
use bytemuck::Pod;
use core::ops::Range;
use crc32c::crc32c;
use lanetree_frame::room::zeroed;
use lanetree_frame::{AnyKey, Value};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::NamedTempFile;

const MAGIC: [u8; 8] = *b"LANETREE";
const VERSION: u32 = 1;
/// Sections begin at multiples of this, and the header has this length.
const ALIGNMENT: u64 = 4096;
/// Bytes of a checksum.
const PIECE: u64 = 1 << 20;
/// Where the header's parts are.
const KEYS: Range<usize> = 16..48;
const VALUES: Range<usize> = 48..80;
const PAIRS: usize = 80;
const TABLE: usize = 88;
const CHECKSUM: usize = ALIGNMENT as usize - 4;

const HEADER: &str = "the header";

/// What a header says, but for checksums.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    names: [&'static str; 2],
    widths: [u64; 2],
    pairs: u64,
}

/// Where sections begin, and where the file ends.
struct Places {
    keys: Range<u64>,
    values: Range<u64>,
    table: Range<u64>,
}

impl Header {
    /// # Errors
    /// [`Error::Composite`].
    pub(crate) fn of<K: AnyKey, V: Value>(pairs: u64) -> Result<Self> {
        if K::NAME == "composite" {
            return Err(Error::Composite);
        }
        Ok(Self { names: [K::NAME, V::NAME], widths: [size_of::<K>() as u64, V::BYTES as u64], pairs })
    }

    /// `None` for more pairs than a file can have.
    fn places(&self) -> Option<Places> {
        let section = |start: u64, width: u64| Some(start..start.checked_add(width.checked_mul(self.pairs)?)?);
        let aligned = |end: u64| end.checked_next_multiple_of(ALIGNMENT);
        let keys = section(ALIGNMENT, self.widths[0])?;
        let values = section(aligned(keys.end)?, self.widths[1])?;
        let start = aligned(values.end)?;
        let pieces = |section: &Range<u64>| (section.end - section.start).div_ceil(PIECE);
        let table = start..start.checked_add(4 * (pieces(&keys) + pieces(&values)))?;
        Some(Places { keys, values, table })
    }

    fn encode(&self, table: u32) -> [u8; ALIGNMENT as usize] {
        let mut header = [0; ALIGNMENT as usize];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        for (place, name) in [KEYS, VALUES].into_iter().zip(self.names) {
            header[place][..name.len()].copy_from_slice(name.as_bytes());
        }
        header[PAIRS..][..8].copy_from_slice(&self.pairs.to_le_bytes());
        header[TABLE..][..4].copy_from_slice(&table.to_le_bytes());
        let checksum = crc32c(&header[..CHECKSUM]);
        header[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        header
    }
}

/// Elements as bytes; elements of no size have none.
pub(crate) fn bytes_of<T: Pod>(all: &[T]) -> &[u8] {
    if size_of::<T>() == 0 { &[] } else { bytemuck::cast_slice(all) }
}

fn io_error(action: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { action, source }
}

fn damaged(section: &'static str, offset: u64, reason: &'static str) -> Error {
    Error::Damaged { section, offset, reason }
}

/// Writes a file under another name, and renames it.
pub(crate) fn write(path: &Path, header: Header, keys: &[u8], values: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let checksums = [keys, values].into_iter().flat_map(|section| section.chunks(PIECE as usize)).map(crc32c);
    let table: Vec<u8> = checksums.flat_map(u32::to_le_bytes).collect();
    let mut file = NamedTempFile::new_in(folder).map_err(io_error("creating a temporary file beside the path"))?;
    let writing = io_error("writing the file");
    file.write_all(&header.encode(crc32c(&table))).map_err(&writing)?;
    for section in [keys, values] {
        let padding = section.len().next_multiple_of(ALIGNMENT as usize) - section.len();
        file.write_all(section).map_err(&writing)?;
        file.write_all(&[0; ALIGNMENT as usize][..padding]).map_err(&writing)?;
    }
    file.write_all(&table).map_err(&writing)?;
    file.as_file().sync_all().map_err(io_error("syncing the file"))?;
    file.persist(path).map_err(|error| Error::Io { action: "renaming the file", source: error.error })?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error("syncing the folder"))
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]))
}

/// Reads a file's header, and checks all but what it says about pairs.
fn read_header(file: &File, len: u64) -> Result<[u8; ALIGNMENT as usize]> {
    if len < ALIGNMENT {
        return Err(damaged(HEADER, len, "the file ends here"));
    }
    let mut bytes = [0; ALIGNMENT as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io_error("reading the file"))?;
    let word = |at| word_at(&bytes, at);
    if bytes[..8] != MAGIC {
        return Err(damaged(HEADER, 0, "this is no file of an index"));
    }
    // Before the rest, which another version may have in other places.
    if word(8) != VERSION {
        return Err(Error::Unsupported { version: word(8), flags: word(12) });
    }
    if word(CHECKSUM) != crc32c(&bytes[..CHECKSUM]) {
        return Err(damaged(HEADER, CHECKSUM as u64, "its checksum differs"));
    }
    if word(12) != 0 {
        return Err(Error::Unsupported { version: VERSION, flags: word(12) });
    }
    Ok(bytes)
}

/// The names of the types of keys and values in a header.
fn names_in(header: &[u8]) -> [String; 2] {
    [KEYS, VALUES].map(|place| String::from_utf8_lossy(&header[place]).trim_end_matches('\0').to_owned())
}

/// The names of the types of a file's keys and values.
pub(crate) fn read_names(file: &File) -> Result<[String; 2]> {
    let len = file.metadata().map_err(io_error("reading the file"))?.len();
    read_header(file, len).map(|header| names_in(&header))
}

/// Reads and checks a file: its keys ascend strictly.
pub(crate) fn read<K: AnyKey, V: Value>(file: &File) -> Result<(Vec<K>, Vec<V>)> {
    let len = file.metadata().map_err(io_error("reading the file"))?.len();
    let bytes = read_header(file, len)?;
    let word = |at| word_at(&bytes, at);
    let pairs = u64::from(word(PAIRS)) | u64::from(word(PAIRS + 4)) << 32;
    let header = Header::of::<K, V>(pairs)?;
    if header.encode(word(TABLE)) != bytes {
        let [keys, values] = names_in(&bytes);
        return Err(Error::Types { keys, values });
    }
    // The file has what is allocated from here on.
    let places = header.places().filter(|places| places.table.end == len);
    let Some(places) = places else {
        return Err(damaged(HEADER, PAIRS as u64, "the file's length is not that of its pairs"));
    };
    let mut table = zeroed::<u8>((places.table.end - places.table.start) as usize)?;
    file.read_exact_at(&mut table, places.table.start).map_err(io_error("reading the file"))?;
    if crc32c(&table) != word(TABLE) {
        return Err(damaged("the table of checksums", places.table.start, "its checksum differs"));
    }
    let (mut keys, mut values) = (zeroed::<K>(pairs as usize)?, zeroed::<V>(pairs as usize)?);
    let mut checksums = table.chunks_exact(4).map(|checksum| u32::from_le_bytes([0, 1, 2, 3].map(|i| checksum[i])));
    read_section(file, "the keys", places.keys.start, bytemuck::cast_slice_mut(&mut keys), &mut checksums)?;
    if V::BYTES > 0 {
        read_section(file, "the values", places.values.start, bytemuck::cast_slice_mut(&mut values), &mut checksums)?;
    }
    if let Some(before) = keys.windows(2).position(|pair| pair[0] >= pair[1]) {
        let offset = places.keys.start + (before as u64 + 1) * header.widths[0];
        return Err(damaged("the keys", offset, "this key is not above the one before it"));
    }
    Ok((keys, values))
}

fn read_section(
    file: &File,
    section: &'static str,
    start: u64,
    out: &mut [u8],
    checksums: &mut impl Iterator<Item = u32>,
) -> Result<()> {
    for (offset, piece) in (start..).step_by(PIECE as usize).zip(out.chunks_mut(PIECE as usize)) {
        file.read_exact_at(piece, offset).map_err(io_error("reading the file"))?;
        if checksums.next() != Some(crc32c(piece)) {
            return Err(damaged(section, offset, "the checksum of a piece that begins here differs"));
        }
    }
    Ok(())
}
