//! Host batches of which a device looks up only the short keys.

use crate::Cuart;
use crate::device::staged::Strings;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_frame::staging::{Queries, Results, Route};
use lanetree_frame::uninit::replace;
use lanetree_layout::Word;
use lanetree_simt::{Global, KeysRef};

/// Byte strings; strings of more than `max` bytes are staged as empty strings. So results keep the batch's order, and
/// for a long string the bus carries only four bytes. Offsets come first, since their number is known, and then the
/// bytes.
#[derive(Clone, Copy)]
struct Short<'k> {
    keys: ByteKeys<'k>,
    max: usize,
}

impl Short<'_> {
    fn offset_bytes(&self) -> usize {
        (4 * (self.keys.len() + 1)).next_multiple_of(8)
    }

    fn with_offsets(&self, bytes: usize) -> usize {
        // Without a byte there would be no memory for kernels to point at.
        self.offset_bytes() + bytes.next_multiple_of(8).max(8)
    }

    fn keys_ref(&self, at: Global<u64>) -> KeysRef {
        KeysRef { bytes: at.byte_add(self.offset_bytes() as u64), offsets: at, width: 0, offset_bytes: 4 }
    }
}

impl Queries for Short<'_> {
    fn count(&self) -> usize {
        self.keys.len()
    }

    fn bytes(&self) -> usize {
        self.with_offsets(Strings(self.keys).bytes().len())
    }

    fn staged_bytes(&self) -> usize {
        let short = self.keys.iter().map(<[u8]>::len).filter(|&len| len <= self.max);
        self.with_offsets(short.sum())
    }

    fn split(&self, at: usize) -> (Self, Self) {
        let part = |range| Self { keys: self.keys.slice(range), ..*self };
        (part(0..at), part(at..self.keys.len()))
    }

    fn write(&self, to: &mut [u8]) {
        let (offsets, to) = to.split_at_mut(self.offset_bytes());
        let offsets: &mut [u32] = bytemuck::cast_slice_mut(offsets);
        // Adjacent short strings are copied together.
        let (mut copied, mut end, mut first) = (0, 0, 0);
        let mut copy = |first: usize, after: usize, end: usize| {
            to[copied..end].copy_from_slice(Strings(self.keys.slice(first..after)).bytes());
            copied = end;
        };
        for (index, key) in self.keys.iter().enumerate() {
            offsets[index] = end as u32;
            if key.len() > self.max {
                copy(first, index, end);
                first = index + 1;
            } else {
                end += key.len();
            }
        }
        copy(first, self.keys.len(), end);
        offsets[self.keys.len()] = end as u32;
    }
}

impl<V: Word> Cuart<V> {
    /// Looks up the keys of up to `max` bytes in a batch in main memory; the results for the others are meaningless.
    /// For trees without leaves in main memory.
    pub(crate) fn get_short_across(&self, keys: ByteKeys<'_>, max: usize, out: &mut [Option<V>]) -> Result<()> {
        let tree = self.parts()?;
        let route = Route {
            device: &self.device,
            results: Results::new([V::BYTES, 0], 1),
            reads_once: tree.query_words() > 0,
            launch: &|stream, keys: Short<'_>, input, out| {
                let (queries, outputs) = (keys.keys_ref(input), (out.arrays[0].cast(), out.hits, out.pending));
                // SAFETY: staged queries, and room for their results.
                unsafe { tree.launch_get(stream, None, queries, keys.count(), outputs, V::MIN) }
            },
            collect: &|piece, out| piece.found(out, |value: V| value),
        };
        replace(out, |out| self.batches.staging.send(Short { keys, max }, out, &route))
    }
}
