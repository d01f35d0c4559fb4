//! Ranks, ranges and prefixes in device form.

use super::lookup::OnStream;
use super::over;
use crate::Cuart;
use crate::parts::Parts;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::{DeviceKeys, Side as Bound};
use lanetree_frame::error::check_bounds;
use lanetree_frame::fixed::Uses;
use lanetree_frame::pointers::optional_mut;
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::{CopyKeysArgs, ExpandArgs, MeasureArgs, RankArgs, Side};
use lanetree_layout::Word;
use lanetree_primitives::{Count, ScanScratch, exclusive_scan};
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, GlobalMut, KeysRef};

/// Scratch memory for gathering spans, reusable for the next batch: 16 bytes for each pair there is room for, and 8 for
/// each span.
#[derive(Debug)]
pub struct GatherScratch {
    lens: Buffer<u64>,
    key_lens: Buffer<u64>,
    links: Buffer<u64>,
    spans_scan: ScanScratch,
    pairs_scan: ScanScratch,
}

impl GatherScratch {
    /// Enough for `spans` spans of `pairs` pairs in all.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_frame::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, spans: usize, pairs: usize) -> Result<Self> {
        Ok(Self {
            lens: device.alloc(spans)?,
            key_lens: device.alloc(pairs)?,
            links: device.alloc(pairs)?,
            spans_scan: ScanScratch::new(device, spans)?,
            pairs_scan: ScanScratch::new(device, pairs)?,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let buffers = self.lens.bytes() + self.key_lens.bytes() + self.links.bytes();
        buffers + self.spans_scan.bytes() + self.pairs_scan.bytes()
    }
}

/// The pairs of a batch of spans on the device, as [`ByteRanges`](lanetree_frame::ByteRanges) on the host.
#[derive(Debug)]
pub struct DeviceByteRanges<V> {
    /// Out: one more than there are spans; the last one is the number of pairs found, even if that exceeds the
    /// capacity.
    pub offsets: Buffer<u64>,
    /// Out: the values. Its length is the capacity: pairs beyond it are not written.
    pub values: Buffer<V>,
    /// Out: where each pair's key begins in the bytes, and where the last one ends; one more than there is room for
    /// pairs. Empty if keys have one width, since each then begins where the previous one ends.
    pub key_offsets: Buffer<u64>,
    /// Out: the keys, one after another. Bytes past its length are not written.
    pub key_bytes: Buffer<u64>,
}

impl<V: Word> DeviceByteRanges<V> {
    /// Room for `spans` spans of a tree, of `pairs` pairs in all, with keys of `bytes` bytes in all.
    ///
    /// # Errors
    /// [`Lost`](lanetree_frame::Error::Lost); [`Runtime`](lanetree_frame::Error::Runtime) if the device has no room.
    pub fn new(tree: &Cuart<V>, spans: usize, pairs: usize, bytes: usize) -> Result<Self> {
        let (device, width) = (tree.device(), tree.parts()?.key_width());
        Ok(Self {
            offsets: device.alloc(spans.saturating_add(1))?,
            values: device.alloc(pairs)?,
            key_offsets: device.alloc(if width.is_some() { 0 } else { pairs.saturating_add(1) })?,
            key_bytes: device.alloc(bytes.div_ceil(8))?,
        })
    }
}

impl<V: Word> Cuart<V> {
    /// The length of every key, if all have the same length of at most 32 bytes and the tree is compact; `None` also
    /// for a [lost](Cuart::is_lost) tree.
    pub fn key_width(&self) -> Option<usize> {
        self.parts().ok()?.key_width()
    }
}

impl Parts {
    /// Launches the ranking of that many queries by a side, or each by its own where these are not null; into every
    /// `stride`-th word.
    ///
    /// # Safety
    /// As [`Parts::launch_get`].
    pub(super) unsafe fn launch_rank(
        &self,
        stream: &Stream,
        (queries, count): (KeysRef, usize),
        (side, sides): (Side, Global<u32>),
        (ranks, stride): (GlobalMut<u64>, u32),
    ) -> Result<()> {
        let (tree, side) = (self.tree_ref(stream)?, side as u32);
        let args = RankArgs { tree, queries, sides, count: count as u64, ranks, stride, side };
        // SAFETY: the tree is valid and has ranks; the caller's promise for the rest.
        Ok(unsafe { over(stream, count)?.run(calls::rank(&args)) }?)
    }
}

impl<V: Word> OnStream<'_, V> {
    /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`.
    ///
    /// # Errors
    /// [`OutputLength`](lanetree_frame::Error::OutputLength); [`NotCompact`](lanetree_frame::Error::NotCompact);
    /// [`NotOnDevice`](lanetree_frame::Error::NotOnDevice), [`LeavesInMainMemory`](lanetree_frame::Error::LeavesInMainMemory);
    /// [`BatchTooLarge`](lanetree_frame::Error::BatchTooLarge), [`UnusedOption`](lanetree_frame::Error::UnusedOption),
    /// [`Lost`](lanetree_frame::Error::Lost), [`Runtime`](lanetree_frame::Error::Runtime).
    pub fn lower_bound(&self, queries: &DeviceKeys, ranks: &mut Buffer<u64>) -> Result<()> {
        self.options.check("lower_bound", Uses::Nothing)?;
        self.rank_into(queries, Side::Lower, ranks, 1, 0)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys at or below `queries[i]`.
    ///
    /// # Errors
    /// As [`OnStream::lower_bound`].
    pub fn upper_bound(&self, queries: &DeviceKeys, ranks: &mut Buffer<u64>) -> Result<()> {
        self.options.check("upper_bound", Uses::Nothing)?;
        self.rank_into(queries, Side::Upper, ranks, 1, 0)
    }

    /// Finds the span of ranks of the pairs from `starts[i]` to `ends[i]`, both inclusive: `spans[2 * i]` becomes the
    /// rank of the first pair and `spans[2 * i + 1]` the rank past the last one. A range whose end is below its start is
    /// empty. Uses [`limit`](Self::limit).
    ///
    /// # Errors
    /// As [`OnStream::lower_bound`]; [`BoundLengths`](lanetree_frame::Error::BoundLengths) unless there are as many ends as starts.
    pub fn span(&self, starts: &DeviceKeys, ends: &DeviceKeys, spans: &mut Buffer<u64>) -> Result<()> {
        self.options.check("span", Uses::Limits)?;
        let count = starts.len();
        check_bounds(count, ends.len())?;
        self.rank_into(starts, Side::Lower, spans, 2, 0)?;
        self.rank_into(ends, Side::Upper, spans, 2, 1)?;
        self.measure(count, spans, self.options.limit, None)
    }

    /// Finds the span of ranks of the keys that begin with each prefix, itself among them; `spans` as in
    /// [`OnStream::span`].
    ///
    /// # Errors
    /// As [`OnStream::lower_bound`].
    pub fn prefix_span(&self, prefixes: &DeviceKeys, spans: &mut Buffer<u64>) -> Result<()> {
        self.options.check("prefix_span", Uses::Nothing)?;
        self.rank_into(prefixes, Side::Lower, spans, 2, 0)?;
        self.rank_into(prefixes, Side::Prefix, spans, 2, 1)
    }

    /// Gathers the pairs of the first `count` spans, as [`OnStream::span`] wrote them. The steps follow one another in
    /// the stream: prefix sums, leaves and values, prefix sums of the keys' lengths, keys.
    ///
    /// Spans refer to the tree's current ranks. Other spans are clipped, also in `spans`: ranks past the tree's length
    /// become its length, and an end below its start becomes the start.
    ///
    /// # Errors
    /// As [`OnStream::lower_bound`]; not for too small a capacity, which the last offsets show.
    pub fn gather(
        &self,
        spans: &mut Buffer<u64>,
        count: usize,
        scratch: &mut GatherScratch,
        out: &mut DeviceByteRanges<V>,
    ) -> Result<()> {
        self.options.check("gather", Uses::Nothing)?;
        let tree = self.tree.parts()?;
        tree.check_ranks("OnStream::gather")?;
        // No buffer has room for more than there are numbers.
        self.check("the spans' buffer", count.saturating_mul(2), spans)?;
        self.check("the scratch memory", count, &scratch.lens)?;
        self.check("the offsets' buffer", count.saturating_add(1), &out.offsets)?;
        let capacity = out.values.len();
        let width = tree.key_width();
        self.check("the values' buffer", capacity, &out.values)?;
        self.check("the keys' buffer", 0, &out.key_bytes)?;
        self.check("the scratch memory", capacity, &scratch.links)?;
        if width.is_none() {
            self.check("the key offsets' buffer", capacity.saturating_add(1), &out.key_offsets)?;
        }
        self.measure(count, spans, u64::MAX, Some(&mut scratch.lens))?;
        exclusive_scan(self.stream, &scratch.lens, count, &mut out.offsets, &mut scratch.spans_scan)?;
        if capacity == 0 || count == 0 {
            return Ok(());
        }
        let lens = optional_mut(Some(&mut scratch.key_lens).filter(|_| width.is_none()), self.stream)?;
        let args = ExpandArgs {
            tree: tree.tree_ref(self.stream)?,
            spans: spans.read_on(self.stream)?,
            offsets: out.offsets.read_on(self.stream)?,
            count: count as u64,
            capacity: capacity as u64,
            links: scratch.links.write_on(self.stream)?,
            lens,
            values: out.values.write_on(self.stream)?,
        };
        // SAFETY: the tree is valid and has ranks; that many spans, which the kernel holds against the tree, with the
        // sums of their lengths; and room for `capacity` links, lengths and values.
        unsafe { over(self.stream, capacity)?.run(calls::expand(&args))? };
        if width.is_none() {
            let pairs = Count::Host(capacity);
            exclusive_scan(self.stream, &scratch.key_lens, pairs, &mut out.key_offsets, &mut scratch.pairs_scan)?;
        }
        if out.key_bytes.is_empty() || width == Some(0) {
            return Ok(());
        }
        let offsets = match width {
            Some(_) => Global::null(),
            None => out.key_offsets.read_on(self.stream)?,
        };
        let args = CopyKeysArgs {
            tree: tree.tree_ref(self.stream)?,
            links: scratch.links.read_on(self.stream)?,
            offsets,
            pairs: out.offsets.read_on(self.stream)?.byte_add(8 * count as u64),
            capacity: capacity as u64,
            width: width.unwrap_or(0) as u64,
            bytes: out.key_bytes.write_on(self.stream)?,
            words: out.key_bytes.len() as u64,
        };
        // SAFETY: the links of that many pairs as there are, up to `capacity`, and where each one's key begins.
        Ok(unsafe { over(self.stream, out.key_bytes.len())?.run(calls::copy_keys(&args)) }?)
    }

    /// Ranks queries into every `stride`-th word from `first` on.
    pub(super) fn rank_into(
        &self,
        queries: &DeviceKeys,
        side: Side,
        ranks: &mut Buffer<u64>,
        stride: u32,
        first: u64,
    ) -> Result<()> {
        let tree = self.tree.parts()?;
        tree.check_ranks("a rank on the device")?;
        self.check_keys(queries)?;
        self.check("the ranks' buffer", queries.len().saturating_mul(stride as usize), ranks)?;
        if queries.is_empty() {
            return Ok(());
        }
        let ranks = (ranks.write_on(self.stream)?.byte_add(8 * first), stride);
        let queries = (queries.keys_ref(self.stream)?, queries.len());
        // SAFETY: that many queries, and a word for each rank.
        unsafe { tree.launch_rank(self.stream, queries, (side, Global::null()), ranks) }
    }

    /// Clips spans that reach past the tree, end before they begin or have too many pairs, and writes their lengths.
    pub(super) fn measure(
        &self,
        count: usize,
        spans: &mut Buffer<u64>,
        limit: u64,
        lens: Option<&mut Buffer<u64>>,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let (spans, lens) = (spans.write_on(self.stream)?, optional_mut(lens, self.stream)?);
        let args = MeasureArgs { spans, len: self.tree.len(), limit, count: count as u64, lens };
        // SAFETY: that many spans, and places for their lengths.
        Ok(unsafe { over(self.stream, count)?.run(calls::measure(&args)) }?)
    }
}

/// A bound as kernels know it.
pub(super) fn side(bound: Bound) -> Side {
    match bound {
        Bound::Lower => Side::Lower,
        Bound::Upper => Side::Upper,
        Bound::Prefix => Side::Prefix,
    }
}
