//! What a map consists of, how it is made of sorted pairs, and the list of its keys.

use crate::places::{pack, sample, samples};
use lanetree_frame::fixed::{DeviceRanges, RangeScratch};
use lanetree_frame::{Buffer, Device, Error, Result, Stream};
use lanetree_lane_tree::{BuildScratch, LaneTree};
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::{Keys, PairsMut, RunScratch, ScanScratch, exclusive_scan, run_lengths};

/// A map's memory.
#[derive(Debug)]
pub(crate) struct Contents<K: AnyKey, V: Word> {
    /// The distinct keys and their places.
    pub(crate) keys: LaneTree<K, u64>,
    /// The values of all keys.
    pub(crate) values: Buffer<V>,
    /// The first key of each sample.
    pub(crate) firsts: Buffer<K>,
    /// The last key of each sample.
    pub(crate) lasts: Buffer<K>,
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
            let mut key = [K::MIN];
            self.keys.copy_range_to(first as usize, &mut key)?;
            let values = read(&self.counts, first as usize)?;
            return Err(Error::TooManyValues { key: key[0].to_string(), values, most });
        }
        Ok(places)
    }
}

/// Keys and numbers that an operation finds, and how many.
pub(crate) struct Found<K> {
    keys: Buffer<K>,
    numbers: Buffer<u64>,
    count: Buffer<u64>,
}

impl<K: AnyKey> Found<K> {
    /// Room for so many.
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
    /// Of the first `len` of sorted keys, with a value for each. Complete on return.
    ///
    /// # Errors
    /// [`Error::TooManyValues`]; [`Error::Runtime`] if the device has no room.
    pub(crate) fn of_sorted(
        stream: &Stream,
        keys: Buffer<K>,
        len: usize,
        values: Buffer<V>,
        most: u64,
    ) -> Result<Self> {
        let counted = Counted::runs(stream, &keys, len)?;
        drop(keys);
        Self::of(stream, &counted, values, most)
    }

    /// Of distinct keys in ascending order, with the number of values of each. Complete on return.
    ///
    /// # Errors
    /// As [`Contents::of_sorted`].
    pub(crate) fn of(stream: &Stream, counted: &Counted<K>, values: Buffer<V>, most: u64) -> Result<Self> {
        let device = stream.device();
        let Counted { keys, len, .. } = counted;
        let places = counted.places(stream, 0, most)?;
        let (mut firsts, mut lasts) = (device.alloc(samples(*len))?, device.alloc(samples(*len))?);
        sample(stream, keys, *len, &mut firsts, &mut lasts)?;
        let mut scratch = BuildScratch::for_sorted(device)?;
        let keys = LaneTree::builder().build_sorted_on(stream, keys, &places, *len, &mut scratch)?;
        stream.synchronize()?;
        Ok(Self { keys, values, firsts, lasts })
    }

    /// All keys in ascending order, and the place of each: in the stream's order.
    pub(crate) fn list(&self, stream: &Stream) -> Result<(Buffer<K>, Buffer<u64>)> {
        let (device, ranges) = (stream.device(), self.firsts.len());
        let mut list = DeviceRanges::new(device, ranges, self.keys.len() as usize)?;
        let mut scratch = RangeScratch::new(device, ranges)?;
        self.keys.on(stream).range(&self.firsts, &self.lasts, &mut scratch, &mut list)?;
        Ok((list.keys, list.values))
    }
}
