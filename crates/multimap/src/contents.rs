//! What a map consists of, how it is made of sorted pairs, and the list of its keys.

use crate::options::Options;
use crate::places::{is_host, pack};
use lanetree_frame::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_multimap::layout::MOST_VALUES;
use lanetree_lane_tree::{BuildScratch, LaneTree};
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{Keys, PairsMut, RunScratch, ScanScratch, SpanValues, exclusive_scan, run_lengths};

/// A map's memory.
#[derive(Debug)]
pub(crate) struct Contents<K: AnyKey, V: Word> {
    /// The distinct keys and their places.
    pub(crate) keys: LaneTree<K, u64>,
    /// The values of all keys, and room for others.
    pub(crate) values: Buffer<V>,
    /// On the host, memory for runs that batches in place have moved: at the positions past those of `values`.
    pub(crate) more: Option<Buffer<V>>,
    /// Pairs.
    pub(crate) len: u64,
    /// Positions that a build has filled: runs that begin there have no room after their values.
    pub(crate) dense: u64,
    /// Positions that were given to runs; no run is past them.
    pub(crate) used: u64,
}

/// Distinct keys and a number for each, in buffers that may be longer.
pub(crate) struct Counted<K> {
    pub(crate) keys: Buffer<K>,
    pub(crate) counts: Buffer<u64>,
    pub(crate) len: usize,
}

impl<K: AnyKey> Counted<K> {
    /// The distinct ones of the first `len` of sorted keys, and how often each is among them. Waits for the stream.
    pub(crate) fn runs(stream: &Stream, keys: &Buffer<K>, len: usize) -> Result<Self> {
        let device = stream.device();
        let mut found = Found::new(device, len)?;
        let mut scratch = RunScratch::new(device, len)?;
        run_lengths(stream, Keys { keys, count: len.into() }, found.output(), &mut scratch)?;
        found.read()
    }

    /// The places of as many values as the counts say, from position `base` on. Waits for the stream.
    ///
    /// # Errors
    /// [`Error::TooManyValues`] for a key with more than `most`.
    pub(crate) fn places(&self, stream: &Stream, base: u64, most: u64) -> Result<Buffer<u64>> {
        let device = stream.device();
        let offsets = offsets_of(stream, &self.counts, self.len)?;
        let (mut places, mut too_many) = (device.alloc(self.len)?, device.upload(&[u64::MAX])?);
        pack(stream, &offsets, self.len, (base, most), &mut places, &mut too_many)?;
        let first = read(&too_many, 0)?;
        if first < self.len as u64 {
            let values = read(&self.counts, first as usize)?;
            return Err(self.too_many(first as usize, values, most)?);
        }
        Ok(places)
    }

    /// [`Error::TooManyValues`] of a key.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the key cannot be read.
    pub(crate) fn too_many(&self, index: usize, values: u64, most: u64) -> Result<Error> {
        let mut key = [K::MIN];
        self.keys.copy_range_to(index, &mut key)?;
        Ok(Error::TooManyValues { key: key[0].to_string(), values, most })
    }
}

/// Keys and numbers that an operation finds, and how many.
pub(crate) struct Found<K> {
    keys: Buffer<K>,
    numbers: Buffer<u64>,
    count: Buffer<u64>,
}

impl<K: AnyKey> Found<K> {
    /// Room for `most` values.
    pub(crate) fn new(device: &Device, most: usize) -> Result<Self> {
        Ok(Self { keys: device.alloc(most)?, numbers: device.alloc(most)?, count: device.alloc(1)? })
    }

    pub(crate) fn output(&mut self) -> PairsMut<'_, K, u64> {
        PairsMut { keys: &mut self.keys, values: &mut self.numbers, count: &mut self.count }
    }

    /// Waits for the operation.
    pub(crate) fn read(self) -> Result<Counted<K>> {
        let len = read(&self.count, 0)? as usize;
        Ok(Counted { keys: self.keys, counts: self.numbers, len })
    }
}

/// One element of a buffer. Waits for the stream that writes it.
pub(crate) fn read(buffer: &Buffer<u64>, index: usize) -> Result<u64> {
    let mut element = [0];
    buffer.copy_range_to(index, &mut element)?;
    Ok(element[0])
}

/// The exclusive prefix sums of the first `count` counts, and their total.
pub(crate) fn offsets_of<T: Word>(stream: &Stream, counts: &Buffer<T>, count: usize) -> Result<Buffer<u64>> {
    let device = stream.device();
    let mut offsets = device.alloc(count + 1)?;
    exclusive_scan(stream, counts, count, &mut offsets, &mut ScanScratch::new(device, count)?)?;
    Ok(offsets)
}

impl<K: AnyKey, V: Word> Contents<K, V> {
    /// Of distinct keys in ascending order, with the number of values of each, and these values, `len` in all, in a buffer that
    /// may be longer. Complete on return.
    ///
    /// # Errors
    /// [`Error::TooManyValues`]; the errors of the tree's build.
    pub(crate) fn of(
        stream: &Stream,
        counted: &Counted<K>,
        (values, len): (Buffer<V>, u64),
        options: &Options<K>,
    ) -> Result<Self> {
        let places = counted.places(stream, 0, options.most)?;
        let mut scratch = BuildScratch::for_sorted(stream.device())?;
        let mut keys = options.tree.build_sorted_on(stream, &counted.keys, &places, counted.len, &mut scratch)?;
        if is_host(stream) {
            // A place's number of values.
            keys.weigh(MOST_VALUES)?;
        }
        stream.synchronize()?;
        Ok(Self { keys, values, more: None, len, dense: len, used: len })
    }

    /// Whether keys and values are in the same order, and every value is a key's.
    pub(crate) fn is_ordered(&self) -> bool {
        self.used == self.dense && self.len == self.dense
    }

    /// # Errors
    /// [`Error::NotCompact`] where keys and values are in different orders, but for the host, whose queries then go by ranks.
    pub(crate) fn check_order(&self, query: &'static str) -> Result<()> {
        if self.is_ordered() || self.is_by_rank() {
            Ok(())
        } else {
            Err(Error::NotCompact { query, restore: "restore_order" })
        }
    }

    /// Positions for values.
    pub(crate) fn positions(&self) -> u64 {
        (self.values.len() + self.more.as_ref().map_or(0, Buffer::len)) as u64
    }

    /// The values as those of spans; `miss` is the value at a position past them.
    pub(crate) fn spanned(&self, miss: V) -> SpanValues<'_, V> {
        SpanValues { values: &self.values, more: self.more.as_ref(), miss }
    }

    /// All keys in ascending order, and the place of each: in the stream's order.
    pub(crate) fn list(&self, stream: &Stream) -> Result<(Buffer<K>, Buffer<u64>)> {
        let (device, len) = (stream.device(), self.keys.len() as usize);
        let (mut keys, mut places) = (device.alloc(len)?, device.alloc(len)?);
        self.keys.on(stream).pairs(&mut keys, &mut places)?;
        Ok((keys, places))
    }
}
