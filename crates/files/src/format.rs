//! The format of a file of pairs, and its checks: `docs/format.md` draws it.

use crate::Summary;
use crate::disk::Replacement;
use crate::error::{Error, Result, Section, check_checksum, damaged, not_read};
use bytemuck::Pod;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crc32c::{crc32c, crc32c_append};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{make_room, with_room, zeroed};
use lanetree_frame::{AnyKey, ByteKeys, ByteKeysBuf, Value};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the bytes of a file are: on a disk, in an object store, and so on. They must not change while it is read, or the reader's
/// error says that they are damaged.
pub trait ReadAt: Sync {
    /// How many bytes there are.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Reads the bytes from an offset on, as many as there is room for. Several threads may do it at a time.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] if there are fewer bytes.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;

    /// Whether a section is better read at once, however large it is, than each MiB by whichever thread checks it. A source does
    /// that if reads take long to begin, and it makes several of one itself.
    fn reads_at_once(&self) -> bool {
        false
    }
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, out, offset)
    }
}

/// What a file of pairs begins with.
pub(crate) const MAGIC: [u8; 8] = *b"LANETREE";
const VERSION: u32 = 1;
/// Sections begin at multiples of this, and headers have this length.
pub(crate) const ALIGNMENT: u64 = 4096;
/// Bytes of a checksum.
pub(crate) const PIECE: usize = 1 << 20;
/// Bytes that are written at a time: whole pieces that caches hold.
const WRITTEN: usize = 4 * PIECE;
/// Pairs of a window: whole pieces, whatever the types are.
#[cfg(feature = "hbtree")]
pub(crate) const WINDOW: usize = PIECE;
/// Keys that a thread compares at a time.
const KEYS_AT_ONCE: usize = 1 << 16;
/// A flag: a key may occur several times.
pub(crate) const SEVERAL: u32 = 1;
/// A flag: keys are byte strings.
const STRINGS: u32 = 2;
/// The name of their type.
const STRINGS_NAME: &str = "bytes";
/// Where the header's parts are.
const FLAGS: usize = 12;
const KEYS: Range<usize> = 16..48;
const VALUES: Range<usize> = 48..80;
pub(crate) const NUMBER: usize = 80;
const TABLE: usize = 88;
/// In files of pairs: text of the program that wrote the file.
const NOTE: Range<usize> = 92..156;
/// In files of byte strings: how many bytes these have together.
const STRING_BYTES: Range<usize> = 156..164;
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
    string_bytes: u64,
}

/// Where sections are, and where the file ends.
struct Places {
    sections: Vec<(Section, Range<u64>)>,
    table: Range<u64>,
}

impl Places {
    /// Where what follows a section begins.
    fn after(&self, section: usize) -> u64 {
        self.sections.get(section + 1).map_or(self.table.start, |(_, next)| next.start)
    }
}

/// How many checksums the bytes of a section have.
fn pieces(section: &Range<u64>) -> u64 {
    (section.end - section.start).div_ceil(PIECE as u64)
}

impl Header {
    /// # Errors
    /// [`Error::Composite`].
    pub(crate) fn of<K: AnyKey, V: Value>(magic: [u8; 8], flags: u32, number: u64) -> Result<Self> {
        if K::NAME == "composite" {
            return Err(Error::Composite);
        }
        let widths = [size_of::<K>() as u64, V::BYTES as u64];
        let (names, note) = ([K::NAME, V::NAME], [0; NOTE.end - NOTE.start]);
        Ok(Self { magic, flags, names, widths, number, note, string_bytes: 0 })
    }

    /// Of byte strings, which have `string_bytes` bytes together.
    fn of_strings<V: Value>(pairs: u64, string_bytes: u64) -> Self {
        let (names, widths) = ([STRINGS_NAME, V::NAME], [size_of::<u64>() as u64, V::BYTES as u64]);
        let note = [0; NOTE.end - NOTE.start];
        Self { magic: MAGIC, flags: STRINGS, names, widths, number: pairs, note, string_bytes }
    }

    fn has_strings(&self) -> bool {
        self.flags & STRINGS != 0
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
        let [first, values] = [self.widths[0].checked_mul(self.number)?, self.widths[1].checked_mul(self.number)?];
        let lens = match self.has_strings() {
            true => vec![(Section::KeyEnds, first), (Section::Keys, self.string_bytes), (Section::Values, values)],
            false => vec![(Section::Keys, first), (Section::Values, values)],
        };
        let mut start = ALIGNMENT;
        let mut place = |(section, len): (Section, u64)| {
            let place = start..start.checked_add(len)?;
            start = place.end.checked_next_multiple_of(ALIGNMENT)?;
            Some((section, place))
        };
        let sections = lens.into_iter().map(&mut place).collect::<Option<Vec<_>>>()?;
        let checksums: u64 = sections.iter().map(|(_, place)| pieces(place)).sum();
        let table = start..start.checked_add(4 * checksums)?;
        Some(Places { sections, table })
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
        header[STRING_BYTES].copy_from_slice(&self.string_bytes.to_le_bytes());
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

/// A file of sorted pairs that is being written, its sections piece by piece.
pub(crate) struct Writer {
    file: Replacement,
    header: Header,
    sections: Vec<SectionWriter>,
    places: Places,
}

/// A section that is being written.
#[derive(Clone, Default)]
struct SectionWriter {
    len: u64,
    /// The checksums of whole pieces, and that of the piece that has been begun.
    table: Vec<u8>,
    begun: u32,
}

impl Writer {
    /// Begins to write it to a temporary file in the folder of the path.
    pub(crate) fn begin(path: &Path, header: Header) -> Result<Self> {
        Ok(Self::new(Replacement::begin(path)?, header))
    }

    fn new(file: Replacement, header: Header) -> Self {
        let places = header.places().expect("pairs in memory are fewer than a file can have");
        Self { file, header, sections: vec![SectionWriter::default(); places.sections.len()], places }
    }

    /// Appends to the first sections, in their order. Checksums are computed while the caches have the bytes.
    pub(crate) fn push<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<()> {
        for ((section, (_, place)), part) in self.sections.iter_mut().zip(&self.places.sections).zip(parts) {
            section.push(&mut self.file, place.start, part)?;
        }
        Ok(())
    }

    /// Puts it in place of the file at the path. Returns when it is on disk.
    pub(crate) fn finish(self) -> Result<()> {
        self.complete()?.commit().map(drop)
    }

    /// Writes what is missing, so that it can be put in place.
    pub(crate) fn complete(mut self) -> Result<Replacement> {
        let mut table = Vec::new();
        for (number, section) in self.sections.iter_mut().enumerate() {
            let (name, Range { start, end }) = &self.places.sections[number];
            assert_eq!(start + section.len, *end, "all of {name}");
            let next = self.places.after(number);
            if *end < next {
                self.file.write(*end, &[0; ALIGNMENT as usize][..(next - end) as usize])?;
            }
            table.extend(section.finish());
        }
        if !table.is_empty() {
            self.file.write(self.places.table.start, &table)?;
        }
        self.file.write(0, &self.header.encode(crc32c(&table)))?;
        Ok(self.file)
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

/// Writes a file of sorted pairs, given its sections. It is to be put in place.
pub(crate) fn write<const N: usize>(file: Replacement, header: Header, sections: [&[u8]; N]) -> Result<Replacement> {
    let mut file = Writer::new(file, header);
    for (number, section) in sections.into_iter().enumerate() {
        for part in section.chunks(WRITTEN) {
            let mut parts = [&[][..]; N];
            parts[number] = part;
            file.push(parts)?;
        }
    }
    file.complete()
}

/// Puts a file of byte strings, in strictly ascending order, in place of the one at the path.
pub(crate) fn write_strings<V: Value>(path: &Path, keys: ByteKeys<'_>, values: &[V]) -> Result<()> {
    let mut ends = with_room(keys.len())?;
    let mut end = 0;
    ends.extend(keys.iter().map(|key| {
        end += key.len() as u64;
        end
    }));
    let header = Header::of_strings::<V>(keys.len() as u64, end);
    let mut file = Writer::begin(path, header)?;
    for part in bytes_of(&ends).chunks(WRITTEN) {
        file.push([part])?;
    }
    // They need not lie side by side, but mostly do.
    let mut first = 0;
    let mut bytes = Vec::new();
    while first < keys.len() {
        let before = if first == 0 { 0 } else { ends[first - 1] };
        let count = ends[first..].partition_point(|end| end - before <= WRITTEN as u64).max(1);
        bytes.clear();
        make_room(&mut bytes, (ends[first + count - 1] - before) as usize)?;
        (first..first + count).for_each(|at| bytes.extend_from_slice(keys.at(at)));
        file.push([&[], &bytes])?;
        first += count;
    }
    for part in bytes_of(values).chunks(WRITTEN) {
        file.push([&[], &[], part])?;
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
pub(crate) fn len_of(file: &dyn ReadAt) -> Result<u64> {
    file.size().map_err(not_read("reading the file"))
}

/// Reads a file's header, and checks all but what it says of types and numbers.
fn read_header(file: &dyn ReadAt, len: u64, (magic, section, known): ([u8; 8], Section, u32)) -> Result<HeaderBytes> {
    if len < ALIGNMENT {
        return Err(damaged(section, len, "the file's length", (format!("{ALIGNMENT} at least"), len)));
    }
    let mut bytes = [0; ALIGNMENT as usize];
    file.read_exact_at(&mut bytes, 0).map_err(not_read("reading the file"))?;
    let word = |at| word_at(&bytes, at);
    if bytes[..8] != magic {
        let [expected, found] = [&magic, &bytes[..8]].map(|magic| magic.escape_ascii().to_string());
        return Err(damaged(section, 0, "what a file of an index begins with", (expected, found)));
    }
    // Before the rest, which another version may have in other places.
    if word(8) != VERSION {
        return Err(Error::Unsupported { path: None, version: word(8), flags: word(FLAGS) });
    }
    check_checksum(section, CHECKSUM as u64, word(CHECKSUM), &bytes[..CHECKSUM])?;
    if word(FLAGS) & !known != 0 {
        return Err(Error::Unsupported { path: None, version: VERSION, flags: word(FLAGS) });
    }
    Ok(bytes)
}

/// Reads and checks a header that has been written for keys and values of these types.
pub(crate) fn read_header_of<K: AnyKey, V: Value>(
    file: &dyn ReadAt,
    len: u64,
    about: ([u8; 8], Section, u32),
) -> Result<(Header, HeaderBytes)> {
    read_header_like(file, len, about, Header::of::<K, V>(about.0, 0, 0)?)
}

/// Reads and checks a header that has the names and the kind of keys of another one.
fn read_header_like(
    file: &dyn ReadAt,
    len: u64,
    about: ([u8; 8], Section, u32),
    mut header: Header,
) -> Result<(Header, HeaderBytes)> {
    let bytes = read_header(file, len, about)?;
    let (flags, number) = (word_at(&bytes, FLAGS), wide_at(&bytes, NUMBER));
    let has_strings = header.has_strings();
    (header.flags, header.number) = (flags, number);
    let expected = header.encode(word_at(&bytes, TABLE));
    if expected[..NUMBER] != bytes[..NUMBER] {
        let [keys, values] = names_in(&bytes);
        return Err(Error::Types { path: None, keys, values });
    }
    // No writer has set these for such types.
    if header.has_strings() != has_strings || has_strings && flags != STRINGS {
        return Err(Error::Unsupported { path: None, version: VERSION, flags });
    }
    let mut zeros = NOTE.start;
    if about.0 == MAGIC {
        header.note.copy_from_slice(&bytes[NOTE]);
        zeros = NOTE.end;
    }
    if has_strings {
        header.string_bytes = wide_at(&bytes, STRING_BYTES.start);
        zeros = STRING_BYTES.end;
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

/// What a file's header says, whatever its types are.
pub(crate) fn read_summary(file: &dyn ReadAt) -> Result<Summary> {
    let header = read_header(file, len_of(file)?, (MAGIC, Section::Header, SEVERAL | STRINGS))?;
    Ok(Summary { types: names_in(&header), pairs: wide_at(&header, NUMBER), note: text(&header[NOTE]) })
}

/// A piece that is to be read.
struct Piece<'a> {
    section: usize,
    number: usize,
    out: &'a mut [u8],
    /// What is done with its bytes when they are known to be right.
    then: &'a (dyn Fn(&[u8]) + Sync),
}

/// A file of pairs whose header and length have been checked.
pub(crate) struct Reader<'a> {
    file: &'a dyn ReadAt,
    header: Header,
    places: Places,
    /// The table of checksums.
    table: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// For keys and values of these types.
    pub(crate) fn new<K: AnyKey, V: Value>(file: &'a dyn ReadAt) -> Result<Self> {
        Self::like(file, Header::of::<K, V>(MAGIC, 0, 0)?)
    }

    /// For byte strings, and values of this type.
    pub(crate) fn of_strings<V: Value>(file: &'a dyn ReadAt) -> Result<Self> {
        Self::like(file, Header::of_strings::<V>(0, 0))
    }

    fn like(file: &'a dyn ReadAt, header: Header) -> Result<Self> {
        let len = len_of(file)?;
        let about = (MAGIC, Section::Header, SEVERAL | STRINGS);
        let (header, bytes) = read_header_like(file, len, about, header)?;
        // The file has what is allocated from here on.
        let Some(places) = header.places().filter(|places| places.table.end == len) else {
            let expected = header.places().map_or("more than 2^64".to_owned(), |places| places.table.end.to_string());
            let what = "the file's length, by the number of pairs here,";
            return Err(damaged(Section::Header, NUMBER as u64, what, (expected, len)));
        };
        let mut table = zeroed::<u8>((places.table.end - places.table.start) as usize)?;
        file.read_exact_at(&mut table, places.table.start).map_err(not_read("reading the file"))?;
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
        self.read_window(0, (keys, values), None)?;
        self.check_windows()
    }

    /// [`Reader::read`], in main memory.
    pub(crate) fn to_vecs<K: AnyKey, V: Value>(&self) -> Result<(Vec<K>, Vec<V>)> {
        let (mut keys, mut values) = (zeroed::<K>(self.pairs())?, zeroed::<V>(self.pairs())?);
        self.read(&mut keys, &mut values)?;
        Ok((keys, values))
    }

    /// [`Reader::read`], window by window: calls `f` with the keys and values of each.
    #[cfg(feature = "hbtree")]
    pub(crate) fn each_window<K: AnyKey, V: Value>(&self, mut f: impl FnMut(&[K], &[V]) -> Result<()>) -> Result<()> {
        let most = WINDOW.min(self.pairs());
        let (mut keys, mut values) = (zeroed::<K>(most)?, zeroed::<V>(most)?);
        let mut last = None;
        for first in (0..self.pairs()).step_by(WINDOW) {
            let count = most.min(self.pairs() - first);
            let (keys, values) = (&mut keys[..count], &mut values[..count]);
            last = self.read_window(first, (keys, values), last)?;
            f(keys, values)?;
        }
        self.check_windows()
    }

    /// Reads and checks pairs from `first` on, which is a multiple of `WINDOW`, as their number is unless they are the last ones.
    /// Takes the key before them, and returns their last one. After all windows comes [`Reader::check_windows`].
    pub(crate) fn read_window<K: AnyKey, V: Value>(
        &self,
        first: usize,
        (keys, values): (&mut [K], &mut [V]),
        before: Option<K>,
    ) -> Result<Option<K>> {
        const { assert!(PIECE.is_multiple_of(size_of::<K>())) };
        let ascend = |keys: &[K]| keys.windows(2).all(|pair| self.ascend(pair));
        // The CPU's caches still have what a thread has read.
        let pieces_ascend = AtomicBool::new(true);
        let of_keys = |bytes: &[u8]| {
            if !ascend(bytemuck::cast_slice(bytes)) {
                pieces_ascend.store(false, Relaxed);
            }
        };
        let of_values = |_: &[u8]| {};
        let parts = [first * size_of::<K>(), first * V::BYTES];
        let mut pieces = self.pieces(0, parts[0], bytes_of_mut(keys), &of_keys)?;
        pieces.extend(self.pieces(1, parts[1], bytes_of_mut(values), &of_values)?);
        self.read_pieces(pieces)?;
        let per_piece = PIECE / size_of::<K>();
        let mut borders = (per_piece..keys.len()).step_by(per_piece);
        if !pieces_ascend.into_inner() || !borders.all(|at| ascend(&keys[at - 1..=at])) {
            self.check_order(keys, first)?;
        }
        match (before, keys.first()) {
            (Some(before), Some(&key)) if !self.ascend(&[before, key]) => Err(out_of_order(first, before, key)),
            _ => Ok(keys.last().copied()),
        }
    }

    /// Checks what is between sections.
    pub(crate) fn check_windows(&self) -> Result<()> {
        self.check_padding(0)?;
        self.check_padding(1)
    }

    /// Whether a section is better read at once.
    pub(crate) fn reads_at_once(&self) -> bool {
        self.file.reads_at_once()
    }

    /// Reads and checks all byte strings, which ascend strictly, and their values.
    pub(crate) fn read_strings<V: Value>(&self) -> Result<(ByteKeysBuf, Vec<V>)> {
        let mut offsets = zeroed::<u64>(self.pairs() + 1)?;
        self.read_section(0, bytes_of_mut(&mut offsets[1..]))?;
        let mut bytes = zeroed::<u8>(self.header.string_bytes as usize)?;
        self.read_section(1, &mut bytes)?;
        let mut values = zeroed::<V>(self.pairs())?;
        self.read_section(2, bytes_of_mut(&mut values))?;
        let end_at = |key: usize| ALIGNMENT + (key * size_of::<u64>()) as u64;
        if let Some(at) = offsets.windows(2).position(|ends| ends[0] > ends[1]) {
            let expected = format!("{} at least", offsets[at]);
            return Err(damaged(Section::KeyEnds, end_at(at), "where a key ends", (expected, offsets[at + 1])));
        }
        if offsets[self.pairs()] != bytes.len() as u64 {
            let (last, found) = (self.pairs().saturating_sub(1), offsets[self.pairs()]);
            return Err(damaged(Section::KeyEnds, end_at(last), "where the last key ends", (bytes.len(), found)));
        }
        let keys = ByteKeys::new(&offsets[..], &bytes)?;
        let is_wrong = |&at: &usize| keys.at(at) <= keys.at(at - 1);
        if let Some(at) = (1..self.pairs()).into_par_iter().with_min_len(KEYS_AT_ONCE).find_first(|at| is_wrong(at)) {
            let offset = self.places.sections[1].1.start + offsets[at];
            let [before, found] = [at - 1, at].map(|at| lanetree_frame::byte_keys::show(keys.at(at)));
            return Err(damaged(Section::Keys, offset, "a key", (format!("above the one before it, {before}"), found)));
        }
        Ok((ByteKeysBuf::from_parts(bytes, offsets), values))
    }

    /// Reads and checks a section, for which there is room.
    fn read_section(&self, section: usize, out: &mut [u8]) -> Result<()> {
        self.read_pieces(self.pieces(section, 0, out, &|_| {})?)?;
        self.check_padding(section)
    }

    /// Whether two keys may follow each other.
    pub(crate) fn ascend<K: AnyKey>(&self, pair: &[K]) -> bool {
        pair[0] < pair[1] || self.has_several() && pair[0] == pair[1]
    }

    /// # Errors
    /// [`Error::Damaged`] unless keys ascend, strictly or not. The first one is the file's key `first`.
    fn check_order<K: AnyKey>(&self, keys: &[K], first: usize) -> Result<()> {
        match keys.par_windows(2).with_min_len(KEYS_AT_ONCE).position_first(|pair| !self.ascend(pair)) {
            Some(at) => Err(out_of_order(first + at + 1, keys[at], keys[at + 1])),
            None => Ok(()),
        }
    }

    /// The pieces of a part of a section, which begins with a whole one.
    fn pieces<'b>(
        &self,
        section: usize,
        from: usize,
        out: &'b mut [u8],
        then: &'b (dyn Fn(&[u8]) + Sync),
    ) -> Result<Vec<Piece<'b>>> {
        debug_assert!(from.is_multiple_of(PIECE));
        if self.file.reads_at_once() {
            let offset = self.places.sections[section].1.start + from as u64;
            self.file.read_exact_at(out, offset).map_err(not_read("reading the file"))?;
        }
        let mut all = with_room(out.len().div_ceil(PIECE))?;
        let pieces = out.chunks_mut(PIECE).zip(from / PIECE..);
        all.extend(pieces.map(|(out, number)| Piece { section, number, out, then }));
        Ok(all)
    }

    /// Each thread reads a piece, computes its checksum and does what is to be done then, while it has the piece in its cache.
    fn read_pieces(&self, pieces: Vec<Piece<'_>>) -> Result<()> {
        let read = |piece: Piece<'_>| {
            if self.file.reads_at_once() {
                self.check_piece(piece.section, piece.number, piece.out)?;
            } else {
                self.read_piece(piece.section, piece.number, piece.out)?;
            }
            (piece.then)(piece.out);
            Ok(())
        };
        pieces.into_par_iter().map(read).try_collect()?.into_iter().collect()
    }

    /// How many bytes a section has.
    pub(crate) fn section_len(&self, section: usize) -> usize {
        let place = &self.places.sections[section].1;
        (place.end - place.start) as usize
    }

    /// Reads and checks a section's piece.
    pub(crate) fn read_piece(&self, section: usize, number: usize, out: &mut [u8]) -> Result<()> {
        let offset = self.places.sections[section].1.start + (number * PIECE) as u64;
        self.file.read_exact_at(out, offset).map_err(not_read("reading the file"))?;
        self.check_piece(section, number, out)
    }

    fn check_piece(&self, section: usize, number: usize, bytes: &[u8]) -> Result<()> {
        let (name, place) = &self.places.sections[section];
        let before: u64 = self.places.sections[..section].iter().map(|(_, place)| pieces(place)).sum();
        let checksum = word_at(&self.table, 4 * (before as usize + number));
        check_checksum(*name, place.start + (number * PIECE) as u64, checksum, bytes)
    }

    fn check_padding(&self, section: usize) -> Result<()> {
        let (name, place) = &self.places.sections[section];
        let mut padding = [0; ALIGNMENT as usize];
        let padding = &mut padding[..(self.places.after(section) - place.end) as usize];
        self.file.read_exact_at(padding, place.end).map_err(not_read("reading the file"))?;
        check_zeros(*name, place.end, padding)
    }
}

/// The error of the file's key `at`.
pub(crate) fn out_of_order<K: AnyKey>(at: usize, before: K, key: K) -> Error {
    let offset = ALIGNMENT + (at * size_of::<K>()) as u64;
    damaged(Section::Keys, offset, "a key", (format!("above the one before it, {before}"), key))
}
