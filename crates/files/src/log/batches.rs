//! Batches of operations as they are in a file.

use super::{LOG_MAGIC, NUMBERS, Torn};
use crate::error::{Error, Result, Section, check_checksum, damaged, not_read};
use crate::format::{ALIGNMENT, NUMBER, bytes_of, bytes_of_mut, read_header_of, wide_at, word_at};
use crc32c::crc32c;
use lanetree_frame::room::{make_room, with_room, zeroed};
use lanetree_frame::{AnyKey, NetChange, Op, Value, fold};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// What a batch begins with.
const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"LOPS");
/// Bytes of a batch's header. Batches begin at multiples of [`BATCH_ALIGNMENT`].
const BATCH_HEADER: usize = 32;
const BATCH_ALIGNMENT: u64 = 8;
/// Bytes that are searched at a time.
const SEARCHED: u64 = 1 << 20;

/// Bytes of `count` operations, padded.
fn body_len<K: AnyKey, V: Value>(count: u64) -> u64 {
    (count * (1 + size_of::<K>() + V::BYTES) as u64).next_multiple_of(BATCH_ALIGNMENT)
}

/// A batch as it is in the file.
pub(super) fn encode<K: AnyKey, V: Value>(ops: &[Op<K, V>], number: u64, synced: u64) -> Result<Vec<u8>> {
    let count = u32::try_from(ops.len())
        .map_err(|_| Error::Index(lanetree_frame::Error::TooManyElements { elements: ops.len() }))?;
    let len = BATCH_HEADER + body_len::<K, V>(ops.len() as u64) as usize;
    let mut bytes = with_room(len)?;
    bytes.resize(BATCH_HEADER, 0);
    bytes.extend(ops.iter().map(|op| match op {
        Op::Insert(..) => 0,
        Op::Update(..) => 1,
        Op::Remove(_) => 2,
    }));
    for op in ops {
        bytes.extend_from_slice(bytemuck::bytes_of(op.key()));
    }
    for op in ops {
        match op {
            Op::Insert(_, value) | Op::Update(_, value) => bytes.extend_from_slice(bytes_of(&[*value])),
            Op::Remove(_) => bytes.extend_from_slice(bytes_of(&[V::default()])),
        }
    }
    bytes.resize(len, 0);
    let header = BatchHeader { count, number, synced, checksum: crc32c(&bytes[BATCH_HEADER..]) };
    bytes[..BATCH_HEADER].copy_from_slice(&header.encode());
    Ok(bytes)
}

/// What a batch begins with.
struct BatchHeader {
    count: u32,
    number: u64,
    /// Batches below this number were on disk when the batch was written.
    synced: u64,
    /// That of the operations.
    checksum: u32,
}

impl BatchHeader {
    fn encode(&self) -> [u8; BATCH_HEADER] {
        let mut bytes = [0; BATCH_HEADER];
        bytes[..4].copy_from_slice(&BATCH_MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.synced.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` unless it is whole.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let is_whole = word_at(bytes, 0) == BATCH_MAGIC && crc32c(&bytes[..28]) == word_at(bytes, 28);
        is_whole.then(|| Self {
            count: word_at(bytes, 4),
            number: wide_at(bytes, 8),
            synced: wide_at(bytes, 16),
            checksum: word_at(bytes, 24),
        })
    }
}

/// The batches of a file.
pub(super) struct Batches<K, V> {
    pub(super) ops: Vec<Op<K, V>>,
    pub(super) count: u64,
    /// Where the last one ends.
    pub(super) end: u64,
    /// The number of the one to follow.
    pub(super) next: u64,
    pub(super) torn: Option<Torn>,
}

impl<K: AnyKey, V: Value> Batches<K, V> {
    /// Those in the first `len` bytes.
    pub(super) fn read(file: &File, len: u64) -> Result<Self> {
        let (header, _) = read_header_of::<K, V>(file, len, (LOG_MAGIC, Section::LogHeader, 0))?;
        let first = header.number();
        if first >= NUMBERS {
            let what = "the number of the first batch";
            return Err(damaged(Section::LogHeader, NUMBER as u64, what, (format!("below {NUMBERS}"), first)));
        }
        let mut all = Self { ops: Vec::new(), count: 0, end: ALIGNMENT, next: first, torn: None };
        while all.end < len {
            match all.read_batch(file, len) {
                Ok(()) => {}
                Err(damage @ Error::Damaged { .. }) => {
                    if was_synced(file, all.end, len, all.next)? {
                        return Err(damage);
                    }
                    let (offset, bytes) = (all.end, len - all.end);
                    all.torn = Some(Torn { batch: all.next, offset, bytes, reason: reason(&damage) });
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        all.count = all.next - first;
        Ok(all)
    }

    fn read_batch(&mut self, file: &File, len: u64) -> Result<()> {
        let (section, start) = (Section::Batch(self.next), self.end);
        let header_end = start + BATCH_HEADER as u64;
        if header_end > len {
            return Err(damaged(section, start, "the file's length", (format!("{header_end} at least"), len)));
        }
        let mut header = [0; BATCH_HEADER];
        file.read_exact_at(&mut header, start).map_err(not_read("reading a batch of the file"))?;
        if word_at(&header, 0) != BATCH_MAGIC {
            let [expected, found] = [BATCH_MAGIC, word_at(&header, 0)].map(|word| format!("{word:#010x}"));
            return Err(damaged(section, start, "what a batch begins with", (expected, found)));
        }
        check_checksum(section, start + 28, word_at(&header, 28), &header[..28])?;
        let BatchHeader { count, number, checksum, .. } = BatchHeader::decode(&header).expect("it is whole");
        if number != self.next {
            return Err(damaged(section, start + 8, "the batch's number", (self.next, number)));
        }
        // The file has what is allocated from here on.
        let end = header_end + body_len::<K, V>(count.into());
        if end > len {
            return Err(damaged(
                section,
                start + 4,
                "the file's length, by the number of operations here,",
                (end, len),
            ));
        }
        let mut body = zeroed::<u8>((end - header_end) as usize)?;
        file.read_exact_at(&mut body, header_end).map_err(not_read("reading a batch of the file"))?;
        check_checksum(section, header_end, checksum, &body)?;
        let count = count as usize;
        let (mut keys, mut values) = (zeroed::<K>(count)?, zeroed::<V>(count)?);
        let (kinds, rest) = body.split_at(count);
        let (key_bytes, rest) = rest.split_at(count * size_of::<K>());
        bytes_of_mut(&mut keys).copy_from_slice(key_bytes);
        bytes_of_mut(&mut values).copy_from_slice(&rest[..count * V::BYTES]);
        if let Some(at) = kinds.iter().position(|&kind| kind > 2) {
            return Err(damaged(section, header_end + at as u64, "an operation's kind", ("2 at most", kinds[at])));
        }
        make_room(&mut self.ops, count)?;
        let pairs = keys.into_iter().zip(values);
        self.ops.extend(kinds.iter().zip(pairs).map(|(&kind, (key, value))| match kind {
            0 => Op::Insert(key, value),
            1 => Op::Update(key, value),
            _ => Op::Remove(key),
        }));
        (self.end, self.next) = (end, self.next + 1);
        Ok(())
    }

    /// The pairs of a base after all batches.
    pub(super) fn applied_to(&self, (keys, values): (Vec<K>, Vec<V>)) -> Result<(Vec<K>, Vec<V>)> {
        if self.ops.is_empty() {
            return Ok((keys, values));
        }
        let changes = fold(self.ops.len(), |i| self.ops[i])?;
        let most = keys.len() + changes.len();
        let (mut all_keys, mut all_values) = (with_room(most)?, with_room(most)?);
        let mut push = |key, value| {
            all_keys.push(key);
            all_values.push(value);
        };
        let mut pairs = keys.into_iter().zip(values).peekable();
        for (word, change) in changes {
            let changed = K::decode(word);
            while let Some((key, value)) = pairs.next_if(|pair| pair.0 < changed) {
                push(key, value);
            }
            let was_there = pairs.next_if(|pair| pair.0 == changed).is_some();
            match change {
                NetChange::Put(value) => push(changed, value),
                NetChange::PutIfPresent(value) if was_there => push(changed, value),
                NetChange::PutIfPresent(_) | NetChange::Remove => {}
            }
        }
        pairs.for_each(|(key, value)| push(key, value));
        Ok((all_keys, all_values))
    }
}

/// What is wrong, without the advice to restore the file.
fn reason(damage: &Error) -> String {
    match damage {
        Error::Damaged { what, expected, found, .. } => format!("{what} should be {expected}, but is {found}"),
        other => other.to_string(),
    }
}

/// Whether a batch, which begins at `start` and is not whole, was on disk once: by the word of a later one.
fn was_synced(file: &File, start: u64, len: u64, number: u64) -> Result<bool> {
    let mut at = start + BATCH_ALIGNMENT;
    let header = BATCH_HEADER as u64;
    let mut bytes = zeroed::<u8>((SEARCHED + header).min(len - start) as usize)?;
    while at + header <= len {
        let part = &mut bytes[..(len - at).min(SEARCHED + header) as usize];
        file.read_exact_at(part, at).map_err(not_read("reading a batch of the file"))?;
        for bytes in part.windows(BATCH_HEADER).step_by(BATCH_ALIGNMENT as usize) {
            if BatchHeader::decode(bytes).is_some_and(|later| later.number > number && later.synced > number) {
                return Ok(true);
            }
        }
        at += SEARCHED;
    }
    Ok(false)
}
