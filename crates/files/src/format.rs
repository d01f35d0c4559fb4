//! The format of a file of pairs, and its checks: `docs/format.md` draws it.

use crate::disk::Replacement;
use crate::error::{Error, Result, Section, check_checksum, damaged, io_error};
use bytemuck::Pod;
use core::ops::Range;
use crc32c::{crc32c, crc32c_append};
use lanetree_frame::parallel::*;
use lanetree_frame::room::zeroed;
use lanetree_frame::{AnyKey, Value};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a file of pairs begins with.
pub(crate) const MAGIC: [u8; 8] = *b"LANETREE";
const VERSION: u32 = 1;
/// Sections begin at multiples of this, and headers have this length.
pub(crate) const ALIGNMENT: u64 = 4096;
/// Bytes of a checksum.
const PIECE: usize = 1 << 20;
/// Bytes that are written at a time: whole pieces that caches hold.
const WRITTEN: usize = 4 * PIECE;
/// Keys that a thread compares at a time.
const KEYS_AT_ONCE: usize = 1 << 16;
/// A flag: a key may occur several times.
pub(crate) const SEVERAL: u32 = 1;
/// Where the header's parts are.
const FLAGS: usize = 12;
const KEYS: Range<usize> = 16..48;
const VALUES: Range<usize> = 48..80;
const NUMBER: usize = 80;
const TABLE: usize = 88;
/// In files of pairs: text of the program that wrote the file.
const NOTE: Range<usize> = 92..156;
const CHECKSUM: usize = ALIGNMENT as usize - 4;

/// The bytes of a header.
pub(crate) type HeaderBytes = [u8; ALIGNMENT as usize];

/// What a header says, but for checksums.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    magic: [u8; 8],
    flags: u32,
    names: [&'static str; 2],
    widths: [u64; 2],
    /// The number of pairs; in a log, the sequence number of its first batch.
    number: u64,
    note: [u8; NOTE.end - NOTE.start],
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
    pub(crate) fn of<K: AnyKey, V: Value>(magic: [u8; 8], flags: u32, number: u64) -> Result<Self> {
        if K::NAME == "composite" {
            return Err(Error::Composite);
        }
        let widths = [size_of::<K>() as u64, V::BYTES as u64];
        Ok(Self { magic, flags, names: [K::NAME, V::NAME], widths, number, note: [0; NOTE.end - NOTE.start] })
    }

    /// With a note.
    ///
    /// # Errors
    /// [`Error::NoteTooLong`].
    pub(crate) fn with_note(mut self, note: &str) -> Result<Self> {
        let room = self.note.get_mut(..note.len()).ok_or(Error::NoteTooLong { bytes: note.len() })?;
        room.copy_from_slice(note.as_bytes());
        Ok(self)
    }

    /// The note.
    pub(crate) fn note(&self) -> String {
        text(&self.note)
    }

    /// The number of pairs; in a log, the sequence number of its first batch.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// `None` for more pairs than a file can have.
    fn places(&self) -> Option<Places> {
        let section = |start: u64, width: u64| Some(start..start.checked_add(width.checked_mul(self.number)?)?);
        let aligned = |end: u64| end.checked_next_multiple_of(ALIGNMENT);
        let keys = section(ALIGNMENT, self.widths[0])?;
        let values = section(aligned(keys.end)?, self.widths[1])?;
        let start = aligned(values.end)?;
        let pieces = |section: &Range<u64>| (section.end - section.start).div_ceil(PIECE as u64);
        let table = start..start.checked_add(4 * (pieces(&keys) + pieces(&values)))?;
        Some(Places { keys, values, table })
    }

    /// `table` is the checksum of the table of checksums.
    pub(crate) fn encode(&self, table: u32) -> HeaderBytes {
        let mut header = [0; ALIGNMENT as usize];
        header[..8].copy_from_slice(&self.magic);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[FLAGS..][..4].copy_from_slice(&self.flags.to_le_bytes());
        for (place, name) in [KEYS, VALUES].into_iter().zip(self.names) {
            header[place][..name.len()].copy_from_slice(name.as_bytes());
        }
        header[NUMBER..][..8].copy_from_slice(&self.number.to_le_bytes());
        header[TABLE..][..4].copy_from_slice(&table.to_le_bytes());
        header[NOTE].copy_from_slice(&self.note);
        let checksum = crc32c(&header[..CHECKSUM]);
        header[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        header
    }
}

/// Elements as bytes; elements of no size have none.
pub(crate) fn bytes_of<T: Pod>(all: &[T]) -> &[u8] {
    if size_of::<T>() == 0 { &[] } else { bytemuck::cast_slice(all) }
}

/// [`bytes_of`], to be written.
pub(crate) fn bytes_of_mut<T: Pod>(all: &mut [T]) -> &mut [u8] {
    if size_of::<T>() == 0 { &mut [] } else { bytemuck::cast_slice_mut(all) }
}

/// A file of sorted pairs that is being written, its keys and values piece by piece.
pub(crate) struct Writer {
    file: Replacement,
    header: Header,
    keys: SectionWriter,
    values: SectionWriter,
    places: Places,
}

/// A section that is being written.
#[derive(Default)]
struct SectionWriter {
    len: u64,
    /// The checksums of whole pieces, and that of the piece that has been begun.
    table: Vec<u8>,
    begun: u32,
}

impl Writer {
    /// Begins to write it beside the file at the path.
    pub(crate) fn begin(path: &Path, header: Header) -> Result<Self> {
        let places = header.places().expect("pairs in memory are fewer than a file can have");
        let file = Replacement::begin(path)?;
        Ok(Self { file, header, keys: SectionWriter::default(), values: SectionWriter::default(), places })
    }

    /// Appends to the keys and to the values. Checksums are computed while the caches have the bytes.
    pub(crate) fn push(&mut self, keys: &[u8], values: &[u8]) -> Result<()> {
        self.keys.push(&mut self.file, self.places.keys.start, keys)?;
        self.values.push(&mut self.file, self.places.values.start, values)
    }

    /// Puts it in place of the file at the path. Returns when it is on disk.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Places { keys, values, table } = &self.places;
        assert_eq!((keys.start + self.keys.len, values.start + self.values.len), (keys.end, values.end), "all pairs");
        for (end, next) in [(keys.end, values.start), (values.end, table.start)] {
            if end < next {
                self.file.write(end, &[0; ALIGNMENT as usize][..(next - end) as usize])?;
            }
        }
        let table = [self.keys.finish(), self.values.finish()].concat();
        if !table.is_empty() {
            self.file.write(self.places.table.start, &table)?;
        }
        self.file.write(0, &self.header.encode(crc32c(&table)))?;
        self.file.commit().map(drop)
    }
}

impl SectionWriter {
    fn push(&mut self, file: &mut Replacement, start: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let begun = (self.len % PIECE as u64) as usize;
        let (head, rest) = bytes.split_at(if begun == 0 { 0 } else { bytes.len().min(PIECE - begun) });
        self.begun = crc32c_append(self.begun, head);
        if begun + head.len() == PIECE {
            self.end_piece();
        }
        let checksums = rest.par_chunks(PIECE).map(crc32c).try_collect()?;
        for (piece, checksum) in rest.chunks(PIECE).zip(checksums) {
            self.begun = checksum;
            if piece.len() == PIECE {
                self.end_piece();
            }
        }
        file.write(start + self.len, bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn end_piece(&mut self) {
        self.table.extend(self.begun.to_le_bytes());
        self.begun = 0;
    }

    /// All checksums.
    fn finish(&mut self) -> Vec<u8> {
        if !self.len.is_multiple_of(PIECE as u64) {
            self.end_piece();
        }
        core::mem::take(&mut self.table)
    }
}

/// Puts a file of sorted pairs in place of the one at the path.
pub(crate) fn write(path: &Path, header: Header, keys: &[u8], values: &[u8]) -> Result<()> {
    let mut file = Writer::begin(path, header)?;
    for keys in keys.chunks(WRITTEN) {
        file.push(keys, &[])?;
    }
    for values in values.chunks(WRITTEN) {
        file.push(&[], values)?;
    }
    file.finish()
}

/// Four bytes as a number.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]))
}

/// Eight bytes as a number.
pub(crate) fn wide_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(word_at(bytes, at)) | u64::from(word_at(bytes, at + 4)) << 32
}

/// The length of a file.
pub(crate) fn len_of(file: &File) -> Result<u64> {
    Ok(file.metadata().map_err(io_error("reading the file"))?.len())
}

/// Reads a file's header, and checks all but what it says of types and numbers.
fn read_header(file: &File, len: u64, (magic, section, known): ([u8; 8], Section, u32)) -> Result<HeaderBytes> {
    if len < ALIGNMENT {
        return Err(damaged(section, len, "the file's length", (format!("{ALIGNMENT} at least"), len)));
    }
    let mut bytes = [0; ALIGNMENT as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io_error("reading the file"))?;
    let word = |at| word_at(&bytes, at);
    if bytes[..8] != magic {
        let [expected, found] = [&magic, &bytes[..8]].map(|magic| magic.escape_ascii().to_string());
        return Err(damaged(section, 0, "what a file of an index begins with", (expected, found)));
    }
    // Before the rest, which another version may have in other places.
    if word(8) != VERSION {
        return Err(Error::Unsupported { version: word(8), flags: word(FLAGS) });
    }
    check_checksum(section, CHECKSUM as u64, word(CHECKSUM), &bytes[..CHECKSUM])?;
    if word(FLAGS) & !known != 0 {
        return Err(Error::Unsupported { version: VERSION, flags: word(FLAGS) });
    }
    Ok(bytes)
}

/// Reads and checks a header that has been written for keys and values of these types.
pub(crate) fn read_header_of<K: AnyKey, V: Value>(
    file: &File,
    len: u64,
    about: ([u8; 8], Section, u32),
) -> Result<(Header, HeaderBytes)> {
    let bytes = read_header(file, len, about)?;
    let mut header = Header::of::<K, V>(about.0, word_at(&bytes, FLAGS), wide_at(&bytes, NUMBER))?;
    let expected = header.encode(word_at(&bytes, TABLE));
    if expected[..NUMBER] != bytes[..NUMBER] {
        let [keys, values] = names_in(&bytes);
        return Err(Error::Types { keys, values });
    }
    let mut zeros = NOTE.start;
    if about.0 == MAGIC {
        header.note.copy_from_slice(&bytes[NOTE]);
        zeros = NOTE.end;
    }
    check_zeros(about.1, zeros as u64, &bytes[zeros..CHECKSUM])?;
    Ok((header, bytes))
}

/// # Errors
/// [`Error::Damaged`] if a byte is not 0. The first is at `offset`.
pub(crate) fn check_zeros(section: Section, offset: u64, bytes: &[u8]) -> Result<()> {
    match bytes.iter().position(|&byte| byte != 0) {
        Some(at) => Err(damaged(section, offset + at as u64, "a byte that is not used", (0, bytes[at]))),
        None => Ok(()),
    }
}

/// The names of the types of keys and values in a header.
fn names_in(header: &[u8]) -> [String; 2] {
    [KEYS, VALUES].map(|place| text(&header[place]))
}

/// Text that is padded with zeros.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// The names of the types of a file's keys and values.
pub(crate) fn read_names(file: &File) -> Result<[String; 2]> {
    read_header(file, len_of(file)?, (MAGIC, Section::Header, SEVERAL)).map(|header| names_in(&header))
}

/// A file of pairs whose header and length have been checked.
pub(crate) struct Reader<'a> {
    file: &'a File,
    header: Header,
    places: Places,
    /// The table of checksums.
    table: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// For keys and values of these types.
    pub(crate) fn new<K: AnyKey, V: Value>(file: &'a File) -> Result<Self> {
        let len = len_of(file)?;
        let (header, bytes) = read_header_of::<K, V>(file, len, (MAGIC, Section::Header, SEVERAL))?;
        // The file has what is allocated from here on.
        let Some(places) = header.places().filter(|places| places.table.end == len) else {
            let expected = header.places().map_or("more than 2^64".to_owned(), |places| places.table.end.to_string());
            let what = "the file's length, by the number of pairs here,";
            return Err(damaged(Section::Header, NUMBER as u64, what, (expected, len)));
        };
        let mut table = zeroed::<u8>((places.table.end - places.table.start) as usize)?;
        file.read_exact_at(&mut table, places.table.start).map_err(io_error("reading the file"))?;
        check_checksum(Section::Table, places.table.start, word_at(&bytes, TABLE), &table)?;
        Ok(Self { file, header, places, table })
    }

    /// The number of pairs.
    pub(crate) fn pairs(&self) -> usize {
        self.header.number as usize
    }

    /// Text of the program that wrote the file.
    pub(crate) fn note(&self) -> String {
        self.header.note()
    }

    /// Whether a key may occur several times.
    pub(crate) fn has_several(&self) -> bool {
        self.header.flags & SEVERAL != 0
    }

    /// Reads and checks all pairs, for which there is room: keys ascend, strictly unless they may occur several times.
    pub(crate) fn read<K: AnyKey, V: Value>(&self, keys: &mut [K], values: &mut [V]) -> Result<()> {
        let Places { keys: of_keys, values: of_values, table } = &self.places;
        let pieces = (of_keys.end - of_keys.start).div_ceil(PIECE as u64) as usize;
        let (keys_table, values_table) = self.table.split_at(4 * pieces);
        let about = (Section::Keys, of_keys.clone(), of_values.start);
        read_section(self.file, about, bytes_of_mut(keys), keys_table)?;
        let about = (Section::Values, of_values.clone(), table.start);
        read_section(self.file, about, bytes_of_mut(values), values_table)?;
        check_order(keys, self.has_several())
    }

    /// [`Reader::read`], in main memory.
    pub(crate) fn to_vecs<K: AnyKey, V: Value>(&self) -> Result<(Vec<K>, Vec<V>)> {
        let (mut keys, mut values) = (zeroed::<K>(self.pairs())?, zeroed::<V>(self.pairs())?);
        self.read(&mut keys, &mut values)?;
        Ok((keys, values))
    }
}

/// Each thread reads a piece and computes its checksum while it has the piece in its cache.
fn read_section(
    file: &File,
    (section, place, next): (Section, Range<u64>, u64),
    out: &mut [u8],
    table: &[u8],
) -> Result<()> {
    let read_piece = |(number, piece): (usize, &mut [u8])| {
        let offset = place.start + (number * PIECE) as u64;
        file.read_exact_at(piece, offset).map_err(io_error("reading the file"))?;
        check_checksum(section, offset, word_at(table, 4 * number), piece)
    };
    let all = out.par_chunks_mut(PIECE).enumerate().map(read_piece).try_collect()?;
    all.into_iter().collect::<Result<()>>()?;
    let mut padding = [0; ALIGNMENT as usize];
    let padding = &mut padding[..(next - place.end) as usize];
    file.read_exact_at(padding, place.end).map_err(io_error("reading the file"))?;
    check_zeros(section, place.end, padding)
}

/// # Errors
/// [`Error::Damaged`] unless keys ascend, strictly or not.
fn check_order<K: AnyKey>(keys: &[K], may_be_equal: bool) -> Result<()> {
    let ascend = |pair: &[K]| pair[0] < pair[1] || may_be_equal && pair[0] == pair[1];
    if keys.par_windows(2).with_min_len(KEYS_AT_ONCE).all(ascend) {
        return Ok(());
    }
    let at = keys.windows(2).position(|pair| !ascend(pair)).expect("not all keys ascend") + 1;
    let offset = ALIGNMENT + (at * size_of::<K>()) as u64;
    Err(damaged(Section::Keys, offset, "a key", (format!("above the one before it, {}", keys[at - 1]), keys[at])))
}
