//! Host batches on their way through a device.
//!
//! A large batch is worked off by several threads, each piece by piece through lanes of its own:
//! page-locked memory, a stream, device memory. While the bus carries some pieces to the device it carries
//! others back, and the threads copy more into page-locked memory or out of it; no thread waits for another.
//! A small batch is one piece, and so small a one that its transfer is mostly latency is read and written by
//! the kernel across the bus.

use super::Harmonia;
use super::range_batch::RangeStaging;
use crate::{Error, Result};
use core::fmt;
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, Device, DeviceKind, PinnedBuffer, Stream};
use lanetree_simt::{Global, GlobalMut};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Most queries of a piece, a multiple of 32. Large enough for the bus to be busy and for the calls to the
/// driver to be few; small enough for the staged memory to stay in the CPU's caches.
const PIECE: usize = 1 << 18;

/// Fewest queries of a piece, but for the last: the first pieces are short, so that the bus begins early,
/// and so are the last, so that no thread ends long after the others.
const SHORT_PIECE: usize = 1 << 15;

/// Pieces on their way at a time: of each thread, and between page-locked buffers.
const LANES: usize = 2;
const PINNED_LANES: usize = 4;

/// Queries of a piece between page-locked buffers, where no thread copies anything.
const PINNED_PIECE: usize = 1 << 20;

/// Most queries that a kernel reads across the bus itself.
pub(super) const ACROSS_THE_BUS: usize = 1 << 14;

/// Of a query's results, the bytes in each of their arrays; found bits come behind those.
#[derive(Clone, Copy, Debug)]
pub(super) struct Results {
    pub(super) arrays: [usize; 2],
    pub(super) found: bool,
}

impl Results {
    /// Where each array begins, in bytes, for `count` queries; the last element is the end. Whole lines.
    fn offsets(&self, count: usize) -> [usize; 4] {
        let line = |bytes: usize| bytes.next_multiple_of(128);
        let first = line(count * self.arrays[0]);
        let second = first + line(count * self.arrays[1]);
        [0, first, second, second + if self.found { line(count.div_ceil(32) * 4) } else { 0 }]
    }
}

/// Addresses of the arrays of a piece's results.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) arrays: [GlobalMut<u8>; 2],
    pub(super) found: GlobalMut<u32>,
}

/// Launches a piece: in a stream, over queries at an address, so many of them, with addresses for their results.
type LaunchPiece<'a, K> = dyn Fn(&Stream, Global<<K as Key>::Bits>, usize, Addresses) -> Result<()> + Sync + 'a;

/// A piece's results, in main memory.
pub(super) struct Piece<'a> {
    bytes: &'a [u8],
    offsets: [usize; 4],
    count: usize,
}

impl Piece<'_> {
    /// The elements of an array.
    pub(super) fn array<T: Word>(&self, array: usize) -> &[T] {
        let start = self.offsets[array];
        bytemuck::cast_slice(&self.bytes[start..start + self.count * T::BYTES])
    }

    /// Fills a slice: with a query's result, if it was found.
    pub(super) fn place<T>(&self, out: &mut [Option<T>], result: impl Fn(usize) -> T) {
        let words: &[u32] = bytemuck::cast_slice(&self.bytes[self.offsets[2]..self.offsets[3]]);
        for ((out, &word), first) in out.chunks_mut(32).zip(words).zip((0..).step_by(32)) {
            for (lane, out) in out.iter_mut().enumerate() {
                *out = (word >> lane & 1 == 1).then(|| result(first + lane));
            }
        }
    }
}

/// The way of one piece.
struct Lane {
    stream: Stream,
    /// In words of 8 bytes, as the others.
    input: Buffer<u64>,
    output: Buffer<u64>,
    staged_input: PinnedBuffer<u64>,
    staged_output: PinnedBuffer<u64>,
}

impl Lane {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            input: device.alloc(0)?,
            output: device.alloc(0)?,
            staged_input: device.pinned(0)?,
            staged_output: device.pinned(0)?,
        })
    }

    /// Makes room for a piece. Memory grows in powers of two up to a piece's, and never shrinks.
    fn reserve(&mut self, device: &Device, input_bytes: usize, output_bytes: usize) -> Result<()> {
        let words = |bytes: usize| bytes.div_ceil(8).next_power_of_two();
        // Both of a pair or none: the next batch asks one for its size.
        if self.input.bytes() < input_bytes {
            let words = words(input_bytes);
            (self.input, self.staged_input) = (device.alloc(words)?, device.pinned(words)?);
        }
        if self.output.bytes() < output_bytes {
            let words = words(output_bytes);
            (self.output, self.staged_output) = (device.alloc(words)?, device.pinned(words)?);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        2 * (self.input.bytes() + self.output.bytes())
    }
}

/// The way of a piece between page-locked buffers of the caller's.
struct PinnedLane<K, V> {
    stream: Stream,
    queries: Buffer<K>,
    values: Buffer<V>,
    found: Buffer<u32>,
}

impl<K: Key, V: Word> PinnedLane<K, V> {
    fn new(device: &Device, queries: usize) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            queries: device.alloc(queries)?,
            values: device.alloc(queries)?,
            found: device.alloc(queries.div_ceil(32))?,
        })
    }

    fn bytes(&self) -> usize {
        self.queries.bytes() + self.values.bytes() + self.found.bytes()
    }
}

/// Lengths of pieces: as the constants, but in tests.
#[derive(Clone, Copy)]
struct Lengths {
    short: usize,
    long: usize,
    pinned: usize,
}

/// The lanes of threads and of batches, kept for the next ones.
pub(super) struct Staging<K, V> {
    idle: Mutex<Vec<Vec<Lane>>>,
    idle_pinned: Mutex<Vec<Vec<PinnedLane<K, V>>>>,
    /// Those of batches of ranges.
    pub(super) ranges: RangeStaging<K, V>,
    lengths: Lengths,
}

impl<K, V> Default for Staging<K, V> {
    fn default() -> Self {
        let lengths = Lengths { short: SHORT_PIECE, long: PIECE, pinned: PINNED_PIECE };
        Self { idle: Mutex::default(), idle_pinned: Mutex::default(), ranges: RangeStaging::default(), lengths }
    }
}

impl<K: Key, V: Word> Staging<K, V> {
    /// Bytes of device and of page-locked memory, of batches that are through.
    pub(super) fn bytes(&self) -> usize {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let pinned = self.idle_pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = idle.iter().flatten().map(Lane::bytes).sum();
        bytes + pinned.iter().flatten().map(PinnedLane::bytes).sum::<usize>() + self.ranges.bytes()
    }

    fn take(&self) -> Vec<Lane> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn put_back(&self, lanes: Vec<Lane>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lanes);
    }
}

impl<K: Key, V: Word> fmt::Debug for Staging<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staging[{} bytes]", self.bytes())
    }
}

/// What is left of a batch, for threads to take pieces from the front of.
struct Rest<'a, K, T> {
    keys: &'a [K],
    out: &'a mut [T],
    /// Short pieces to hand out first.
    short: usize,
}

/// A piece's queries, and where its results go.
type Taken<'a, K, T> = (&'a [K], &'a mut [T]);

impl<'a, K, T> Rest<'a, K, T> {
    /// The next piece, for one of so many threads.
    fn take(&mut self, threads: usize, lengths: Lengths) -> Option<Taken<'a, K, T>> {
        if self.keys.is_empty() {
            return None;
        }
        let even = (self.keys.len() / (2 * threads)).next_multiple_of(32);
        let length = if self.short > 0 { lengths.short } else { even.clamp(lengths.short, lengths.long) };
        self.short = self.short.saturating_sub(1);
        let (keys, more_keys) = self.keys.split_at(length.min(self.keys.len()));
        let (out, more_out) = core::mem::take(&mut self.out).split_at_mut(keys.len());
        (self.keys, self.out) = (more_keys, more_out);
        Some((keys, out))
    }
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Sends keys through the device: `launch` is called for each piece, with its stream, the address and
    /// number of its queries and the addresses for their results, and `collect` when these are there, to put
    /// them into the piece's part of `out`. Both are called from several threads.
    pub(super) fn stage<T: Send>(
        &self,
        keys: &[K],
        out: &mut [T],
        results: Results,
        launch: impl Fn(&Stream, Global<K::Bits>, usize, Addresses) -> Result<()> + Sync,
        collect: impl Fn(&Piece<'_>, &mut [T]) + Sync,
    ) -> Result<()> {
        self.check_not_lost()?;
        let lengths = self.staging.lengths;
        // A quarter of the CPUs is left to the driver's and the caller's threads.
        let cpus = rayon::current_num_threads();
        let threads = (cpus - cpus / 4).min(keys.len().div_ceil(lengths.short)).max(1);
        let rest = Mutex::new(Rest { keys, out, short: if threads > 1 { threads } else { 0 } });
        let take = || rest.lock().unwrap_or_else(PoisonError::into_inner).take(threads, lengths);
        let work = || {
            let mut lanes = self.staging.take();
            let outcome = self.work_off(&mut lanes, take, results, &launch, &collect);
            if outcome.is_err() {
                // The other threads need not go on.
                rest.lock().unwrap_or_else(PoisonError::into_inner).keys = &[];
                // There may be work in flight, over memory that the next batch uses.
                lanes.iter().for_each(|lane| drop(lane.stream.synchronize()));
            }
            self.staging.put_back(lanes);
            outcome
        };
        if threads == 1 {
            work()
        } else {
            (0..threads).into_par_iter().with_max_len(1).map(|_| work()).reduce(|| Ok(()), Result::and)
        }
    }

    /// What one thread does: takes pieces as long as there are any, and keeps its lanes busy with them.
    fn work_off<'a, T: 'a>(
        &self,
        lanes: &mut Vec<Lane>,
        take: impl Fn() -> Option<Taken<'a, K, T>>,
        results: Results,
        launch: &LaunchPiece<'_, K>,
        collect: &dyn Fn(&Piece<'_>, &mut [T]),
    ) -> Result<()> {
        let mut on_their_way = VecDeque::with_capacity(LANES);
        let mut next = 0;
        while let Some((keys, out)) = take() {
            if next == lanes.len() {
                lanes.push(Lane::new(&self.device)?);
            }
            if on_their_way.len() == LANES
                && let Some((lane, out)) = on_their_way.pop_front()
            {
                finish(&lanes[lane], out, results, collect)?;
            }
            self.begin(&mut lanes[next], keys, results, launch)?;
            on_their_way.push_back((next, out));
            next = (next + 1) % LANES;
        }
        on_their_way.into_iter().try_for_each(|(lane, out)| finish(&lanes[lane], out, results, collect))
    }

    /// Puts a piece on its way.
    fn begin(&self, lane: &mut Lane, keys: &[K], results: Results, launch: &LaunchPiece<'_, K>) -> Result<()> {
        let (bytes, offsets) = (bytemuck::cast_slice::<K, u8>(keys), results.offsets(keys.len()));
        lane.reserve(&self.device, bytes.len(), offsets[3])?;
        bytemuck::cast_slice_mut(&mut lane.staged_input)[..bytes.len()].copy_from_slice(bytes);
        let direct = self.device.kind() == DeviceKind::Cuda && keys.len() <= ACROSS_THE_BUS;
        // Page-locked memory has the same address on a GPU.
        let (input, output) = match direct {
            true => (Global::new(lane.staged_input.as_ptr()), GlobalMut::new(lane.staged_output.as_mut_ptr())),
            false => (lane.input.global(), lane.output.global_mut()),
        };
        let output = output.cast::<u8>();
        let addresses = Addresses {
            arrays: [output, output.byte_add(offsets[1] as u64)],
            found: if results.found { output.byte_add(offsets[2] as u64).cast() } else { GlobalMut::null() },
        };
        if direct {
            return launch(&lane.stream, input.cast(), keys.len(), addresses);
        }
        let words = |bytes: usize| 0..bytes.div_ceil(8);
        // SAFETY: the lane's memory lives until the piece is through, and belongs to it until then.
        unsafe { lane.input.upload_async(&lane.stream, 0, &lane.staged_input, words(bytes.len()))? };
        launch(&lane.stream, input.cast(), keys.len(), addresses)?;
        // SAFETY: as above.
        unsafe { lane.output.download_async(&lane.stream, words(offsets[3]), &mut lane.staged_output, 0)? };
        Ok(())
    }
}

/// Waits for a lane's piece and hands over its results.
fn finish<T>(lane: &Lane, out: &mut [T], results: Results, collect: &dyn Fn(&Piece<'_>, &mut [T])) -> Result<()> {
    lane.stream.synchronize()?;
    let (offsets, count) = (results.offsets(out.len()), out.len());
    collect(&Piece { bytes: bytemuck::cast_slice(&lane.staged_output), offsets, count }, out);
    Ok(())
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// The value of each key, or `miss`, from page-locked memory to page-locked memory: the bus carries the
    /// keys and the values, both ways at once, and the CPU copies nothing. Bit `i % 32` of `found[i / 32]`
    /// tells whether key `i` is there. Returns when the results are there.
    ///
    /// # Errors
    /// As [`Harmonia::get_many_into`].
    pub fn get_many_pinned(
        &self,
        keys: &PinnedBuffer<K>,
        values: &mut PinnedBuffer<V>,
        found: Option<&mut PinnedBuffer<u32>>,
        miss: V,
    ) -> Result<()> {
        let count = keys.len();
        let found_words = found.as_ref().map_or(count.div_ceil(32), |found| found.len());
        for (what, expected, len) in
            [("the values", count, values.len()), ("the found bits", count.div_ceil(32), found_words)]
        {
            if len < expected {
                return Err(Error::OutputLength { what, expected, found: len });
            }
        }
        let device = &self.device;
        if device.kind() == DeviceKind::Host {
            let mut bits = found.map(|found| &mut found[..count.div_ceil(32)]);
            let mut out = vec![None; count];
            self.get_many_into(keys, &mut out)?;
            for (i, value) in out.into_iter().enumerate() {
                values[i] = value.unwrap_or(miss);
                if let Some(bits) = &mut bits {
                    let word = &mut bits[i / 32];
                    *word = (*word & !(1 << (i % 32))) | u32::from(value.is_some()) << (i % 32);
                }
            }
            return Ok(());
        }
        self.check_not_lost()?;
        let idle = || self.staging.idle_pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lanes = idle().pop().unwrap_or_default();
        let sent = self.send_pinned(&mut lanes, keys, values, found, miss);
        // Whatever was sent is through before the caller's buffers are the caller's again.
        let done = lanes.iter().map(|lane| lane.stream.synchronize()).fold(Ok(()), lanetree_runtime::Result::and);
        idle().push(lanes);
        sent.and(done.map_err(Error::from))
    }

    /// Puts all pieces on their way. The streams must be waited for.
    fn send_pinned(
        &self,
        lanes: &mut Vec<PinnedLane<K, V>>,
        keys: &PinnedBuffer<K>,
        values: &mut PinnedBuffer<V>,
        mut found: Option<&mut PinnedBuffer<u32>>,
        miss: V,
    ) -> Result<()> {
        let piece = self.staging.lengths.pinned;
        for (i, start) in (0..keys.len()).step_by(piece).enumerate() {
            let range = start..keys.len().min(start + piece);
            let next = i % PINNED_LANES;
            if next == lanes.len() {
                lanes.push(PinnedLane::new(&self.device, range.len())?);
            }
            let lane = &mut lanes[next];
            if lane.queries.len() < range.len() {
                // For a piece of any length. The old lane does nothing any more: every batch waits for all lanes.
                *lane = PinnedLane::new(&self.device, piece)?;
            }
            let PinnedLane { stream, queries, values: answers, found: bits } = lane;
            // SAFETY: all of it lives, and is left alone, until the streams have been waited for: the caller's
            // buffers are borrowed by the caller of this, and a lane's are used in its stream's order.
            unsafe { queries.upload_async(stream, 0, keys, range.clone())? };
            let wanted = if found.is_some() { bits.global_mut() } else { GlobalMut::null() };
            let on = self.on(stream);
            on.launch_get(queries.global().cast(), range.len(), answers.global_mut(), wanted, miss)?;
            // SAFETY: as above.
            unsafe {
                answers.download_async(stream, 0..range.len(), values, start)?;
                if let Some(found) = &mut found {
                    bits.download_async(stream, 0..range.len().div_ceil(32), found, start / 32)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, Harmonia};

    #[test]
    fn batches_of_many_pieces_answer_as_the_host_does() {
        let keys: Vec<i64> = (-300..300).map(|i| i * 5).collect();
        let values: Vec<u32> = (0..600).collect();
        let host = Harmonia::build(&Device::host(), &keys, &values).unwrap();
        let device = Device::emulated();
        let mut tree = Harmonia::build(&device, &keys, &values).unwrap();
        tree.staging.lengths = super::Lengths { short: 32, long: 64, pinned: 64 };
        // Lanes of 64 queries of 8 bytes and up to 2048 bytes of results, on the device and page-locked; and
        // those of page-locked batches.
        let most = rayon::current_num_threads() * super::LANES * 2 * (512 + 2048) + super::PINNED_LANES * 1024;
        for round in 0..60_i64 {
            let count = [0, 1, 63, 64, 65, 500, 257][round as usize % 7];
            let queries: Vec<i64> = (0..count).map(|i| (i * 37 + round) % 1600 - 800).collect();
            assert_eq!(tree.get_many(&queries).unwrap(), host.get_many(&queries).unwrap());
            let (mut found, mut expected) = (vec![7; queries.len()], vec![9; queries.len()]);
            tree.get_many_or(&queries, 77, &mut found).unwrap();
            host.get_many_or(&queries, 77, &mut expected).unwrap();
            assert_eq!(found, expected);
            assert_eq!(tree.upper_bound_many(&queries).unwrap(), host.upper_bound_many(&queries).unwrap());
            assert_eq!(tree.predecessor_many(&queries).unwrap(), host.predecessor_many(&queries).unwrap());
            for tree in [&tree, &host] {
                let mut pinned = tree.device().pinned(queries.len()).unwrap();
                pinned.copy_from_slice(&queries);
                let mut values = tree.device().pinned(queries.len()).unwrap();
                let mut bits = tree.device().pinned(queries.len().div_ceil(32)).unwrap();
                tree.get_many_pinned(&pinned, &mut values, Some(&mut bits), 77).unwrap();
                assert_eq!(values[..], expected);
                let hits = host.get_many(&queries).unwrap();
                assert!(hits.iter().enumerate().all(|(i, hit)| hit.is_some() == (bits[i / 32] >> (i % 32) & 1 == 1)));
            }
            assert!(tree.staging_bytes() <= most, "memory grows from batch to batch");
        }
        assert!(tree.staging_bytes() > 0);
    }

    #[test]
    fn outputs_of_another_length_are_refused() {
        for device in [Device::host(), Device::emulated()] {
            let tree = Harmonia::build(&device, &[1_u32], &[1_u32]).unwrap();
            let error = tree.get_many_or(&[1, 2], 0, &mut [0]).unwrap_err();
            assert_eq!(error.to_string(), "the output has room for 1 elements, and 2 are needed");
            let (keys, mut values) = (device.pinned(3).unwrap(), device.pinned(2).unwrap());
            let error = tree.get_many_pinned(&keys, &mut values, None, 0).unwrap_err();
            assert_eq!(error.to_string(), "the values has room for 2 elements, and 3 are needed");
        }
    }
}
