//! Ranges in buffers of one device, answered by shards on several.
//!
//! ```text
//!  the batch's device                                       a shard's device
//!  ┌────────────────────┐ 1. all ranges, as they are ─────► ┌──────────┐
//!  │ locate             │                                   │ locate   │
//!  └──┬─────────────────┘ 2. ◄─ number of pairs of each ────┤          │
//!  ┌──▼─────────────────┐                                   │          │
//!  │ share, prefix sums │ 3. numbers within the limits ──► │ gather   │
//!  └──┬─────────────────┘                                   │          │
//!  ┌──▼─────────────────┐ 4. ◄────────────── these pairs ───┤          │
//!  │ put pairs          │                                   └──────────┘
//!  └────────────────────┘
//! ```
//!
//! Every shard gets every range: a bound past its keys leads to its first node or its last, which are in the caches. So nothing is
//! partitioned, a range may span any number of shards, and its pairs come in the order of the shards. Without limits the third step
//! is not needed. The host waits for the numbers of pairs alone, to know how many to copy.

use crate::back::tiles;
use crate::query::Shards;
use crate::scratch_pool::ScratchPool;
use crate::slots::{Column, read, reserve, with_spare, words, write};
use bytemuck::Pod;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{Query, bits, first_pairs_of};
use lanetree_frame::join_steps::{DeviceValidity, Settled, settle};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::pointers::{optional, optional_mut};
use lanetree_frame::{AnyKey, Buffer, Device, KeyWord, Result, Stream, Word};
use lanetree_kernels_sharded::{PutPairsArgs, ShareArgs, calls};
use lanetree_primitives::exclusive_scan;
use lanetree_runtime::PeerPart;
use lanetree_simt::{GatherBatch, Global, GlobalMut, LocateBatch};
use memory::{Accumulators, OfDevice, OfShard};

mod aggregate;
mod memory;

/// Ranges, both of whose bounds are inclusive.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a, K> {
    /// The number of ranges: the first of the buffers.
    pub(crate) count: usize,
    pub(crate) starts: &'a Buffer<K>,
    /// None: up to the largest key.
    pub(crate) ends: Option<&'a Buffer<K>>,
    pub(crate) limits: Option<&'a Buffer<u64>>,
    pub(crate) limit: u64,
    /// Whether they ascend: a hint.
    pub(crate) is_sorted: bool,
}

/// The results of ranges, in buffers of the stream's device, which were checked to be long enough.
pub(crate) enum Wanted<'a, K, V> {
    Counts(&'a mut Buffer<u64>),
    Rows(Rows<'a, K, V>),
}

/// Where the pairs of ranges go.
pub(crate) struct Rows<'a, K, V> {
    pub(crate) starts: Starts<'a>,
    pub(crate) keys: Option<&'a mut Buffer<K>>,
    pub(crate) values: Option<&'a mut Buffer<V>>,
    /// Pairs past it are not written.
    pub(crate) capacity: usize,
}

/// Where each range's pairs begin.
pub(crate) enum Starts<'a> {
    /// One range after another.
    Packed { offsets: &'a mut Buffer<u64>, probes: Option<Probes<'a>> },
    /// At each multiple of `stride`.
    Strided { counts: &'a mut Buffer<u32>, stride: usize },
}

/// The probes of a join by ranges, whose rows are to be written. Limits exclude the pairs of null probes.
pub(crate) struct Probes<'a> {
    pub(crate) valid: Option<DeviceValidity<'a>>,
    /// Whether a probe without a pair has a row, which is not written.
    pub(crate) is_left: bool,
    /// Out: whether each probe has a pair.
    pub(crate) hits: &'a mut Buffer<u32>,
}

/// Answers batches of ranges.
pub(crate) struct RangeRouter<K>(ScratchPool<DeviceScratch<K>>);

impl<K> Default for RangeRouter<K> {
    fn default() -> Self {
        Self(ScratchPool::default())
    }
}

/// Memory and streams of a batch on one device.
struct DeviceScratch<K> {
    home: Device,
    /// A stream of the batch's device, for copies to others.
    sends: Stream,
    /// For each device, by its number. On the batch's own, the caller's stream does the work.
    devices: Vec<OfDevice<K>>,
    shards: Vec<OfShard>,
    sums: Buffer<u64>,
    /// Accumulators of all shards.
    merged: Accumulators,
}

impl<K: AnyKey> RangeRouter<K> {
    /// Answers a batch. Waits for the numbers of pairs of the shards, unless counts alone are wanted; the rest may go on after the
    /// return, and later work in `stream` comes after it.
    ///
    /// # Errors
    /// [`Error::Runtime`] from a device, or if one has no room; [`Error::Lost`].
    pub(crate) fn run<V: Word>(
        &self,
        shards: &Shards<'_, K, V>,
        stream: &Stream,
        bounds: Bounds<'_, K>,
        wanted: Wanted<'_, K, V>,
    ) -> Result<()> {
        if bounds.count == 0 {
            return match wanted {
                Wanted::Rows(Rows { starts: Starts::Packed { offsets, .. }, .. }) => {
                    Ok(offsets.fill_zero_range(stream, 0..1)?)
                }
                _ => Ok(()),
            };
        }
        self.with_scratch(shards, stream, bounds, |scratch, batch| scratch.run(batch, wanted))
    }

    fn with_scratch<V: Word>(
        &self,
        shards: &Shards<'_, K, V>,
        stream: &Stream,
        bounds: Bounds<'_, K>,
        run: impl FnOnce(&mut DeviceScratch<K>, &InFlight<'_, K, V>) -> Result<()>,
    ) -> Result<()> {
        let home = stream.device();
        let (devices, numbers) = shards.devices(home);
        let new = || {
            Ok(DeviceScratch {
                home: home.clone(),
                sends: home.stream()?,
                devices: devices.iter().map(|device| OfDevice::new(device, home)).collect::<Result<_>>()?,
                shards: shards.all.iter().map(|shard| OfShard::new(shard.device, home)).collect::<Result<_>>()?,
                sums: home.alloc(0)?,
                merged: Accumulators::new(home)?,
            })
        };
        self.0.with(home, new, |scratch| {
            let done = run(scratch, &InFlight { shards, numbers: &numbers, stream, bounds });
            if done.is_err() {
                scratch.synchronize();
            }
            done
        })
    }
}

/// A batch in flight.
struct InFlight<'a, K: AnyKey, V: Word> {
    shards: &'a Shards<'a, K, V>,
    /// The number of each shard's device; the batch's is 0.
    numbers: &'a [usize],
    stream: &'a Stream,
    bounds: Bounds<'a, K>,
}

impl<K: AnyKey> DeviceScratch<K> {
    /// Waits for all streams but the caller's; errors are the next call's.
    fn synchronize(&self) {
        let streams = self.devices.iter().flat_map(|of_device| [&of_device.stream, &of_device.receives]);
        streams.chain([&self.sends]).for_each(|stream| _ = stream.synchronize());
    }

    fn run<V: Word>(&mut self, batch: &InFlight<'_, K, V>, wanted: Wanted<'_, K, V>) -> Result<()> {
        let InFlight { stream, ref bounds, .. } = *batch;
        let count = bounds.count;
        self.send_bounds(stream, bounds)?;
        self.locate(batch, matches!(wanted, Wanted::Rows(_)))?;
        let mut rows = match wanted {
            Wanted::Counts(counts) => return self.share(batch, Some(counts), None),
            Wanted::Rows(rows) => rows,
        };
        reserve(&mut self.sums, count)?;
        let (starts, stride) = match rows.starts {
            Starts::Packed { ref mut offsets, ref mut probes } => {
                self.share(batch, None, None)?;
                if let Some(Probes { valid, is_left, hits }) = probes {
                    let settled =
                        Settled { counts: &mut self.sums, is_left: *is_left, cursors: None, hits: Some(hits) };
                    settle(stream, *valid, count, settled)?;
                }
                exclusive_scan(stream, &self.sums, count, offsets, &mut self.devices[0].scan)?;
                (offsets.read_on(stream)?, 0)
            }
            Starts::Strided { ref mut counts, stride } => {
                self.share(batch, None, Some(counts))?;
                (Global::null(), stride)
            }
        };
        self.total(batch)?;
        // Other devices first: they have nothing to do yet.
        let mut pairs = vec![0; batch.numbers.len()];
        for number in (0..self.devices.len()).rev() {
            self.gather(batch, number, &rows, &mut pairs)?;
        }
        for (shard, &pairs) in pairs.iter().enumerate().filter(|(_, pairs)| **pairs > 0) {
            let before = self.shards[shard].before.read_on(stream)?;
            let found = self.shards[shard].at_home(batch.numbers[shard] == 0);
            let (offsets, capacity) = (found.offsets.read_on(stream)?, rows.capacity);
            let output = Output { stream, offsets, before, starts, stride, count, pairs, capacity };
            // SAFETY: the columns have these pairs, and the outputs were checked.
            unsafe {
                if let Some(keys) = &mut rows.keys {
                    output.copy::<K::Bits>(&found.keys, keys.write_on(stream)?.cast())?;
                }
                if let Some(values) = &mut rows.values {
                    output.copy::<V>(&found.values, values.write_on(stream)?)?;
                }
            }
        }
        Ok(())
    }

    /// Sends the bounds to all other devices.
    fn send_bounds(&mut self, stream: &Stream, bounds: &Bounds<'_, K>) -> Result<()> {
        let submitted = self.home.event()?;
        submitted.record(stream)?;
        self.sends.wait(&submitted)?;
        let count = bounds.count;
        for (number, to) in self.devices.iter_mut().enumerate() {
            if bounds.ends.is_none() && to.max_keys.len() < count {
                to.max_keys = to.device.upload(&vec![K::MAX; with_spare(count)])?;
            }
            if number == 0 {
                continue;
            }
            let OfDevice { stream, starts, ends, limits, .. } = to;
            copy_first(stream, starts, bounds.starts, count, &self.sends)?;
            if let Some(from) = bounds.ends {
                copy_first(stream, ends, from, count, &self.sends)?;
            }
            if let Some(from) = bounds.limits {
                copy_first(stream, limits, from, count, &self.sends)?;
            }
        }
        Ok(())
    }

    /// Counts the pairs of each range in each shard, up to its limit; the counts arrive on the batch's device.
    fn locate<V: Word>(&mut self, batch: &InFlight<'_, K, V>, has_rows: bool) -> Result<()> {
        let bounds = &batch.bounds;
        let count = bounds.count;
        self.devices[0].reserve_scan(count)?;
        for (shard, OfShard { on_shard, copied, cursors, before, .. }) in self.shards.iter_mut().enumerate() {
            let of_device = &mut self.devices[batch.numbers[shard]];
            of_device.reserve_scan(count)?;
            on_shard.reserve_ranges(count, has_rows)?;
            if has_rows {
                reserve(cursors, count)?;
                reserve(before, count)?;
            }
            let is_home = batch.numbers[shard] == 0;
            let stream = if is_home { batch.stream } else { &of_device.stream };
            let (starts, ends, limits) = match is_home {
                true => (bounds.starts, bounds.ends, bounds.limits),
                false => {
                    (&of_device.starts, bounds.ends.map(|_| &of_device.ends), bounds.limits.map(|_| &of_device.limits))
                }
            };
            let query = LocateBatch {
                starts: bits::<K>(stream, starts)?,
                ends: bits::<K>(stream, ends.unwrap_or(&of_device.max_keys))?,
                limits: optional(limits, stream)?,
                count: count as u64,
                limit: bounds.limit,
                cursors: optional_mut(has_rows.then_some(cursors), stream)?,
                counts: on_shard.counts.write_on(stream)?,
            };
            // SAFETY: all of them have an element for each range, and are for the stream.
            unsafe { batch.shards.all[shard].launches.launch(stream, bounds.is_sorted, &Query::Locate(query))? };
            if !is_home {
                copied.reserve_ranges(count, has_rows)?;
                let part = PeerPart { from: &on_shard.counts, range: 0..count, stream, at: 0 };
                copied.counts.copy_from_peers(&of_device.receives, &[part])?;
            }
        }
        Ok(())
    }

    /// Shares each range's limit among the shards, in their order, and sums up the numbers of pairs, into `sums` and `narrow`. If
    /// there are no `sums`, rows are wanted: then the sums are this memory's, and it computes where each shard's rows begin.
    fn share<V: Word>(
        &mut self,
        batch: &InFlight<'_, K, V>,
        sums: Option<&mut Buffer<u64>>,
        narrow: Option<&mut Buffer<u32>>,
    ) -> Result<()> {
        let has_rows = sums.is_none();
        let (stream, count) = (batch.stream, batch.bounds.count);
        let (sums, last) = (sums.unwrap_or(&mut self.sums), batch.numbers.len() - 1);
        let (limits, narrow) = (optional(batch.bounds.limits, stream)?, optional_mut(narrow, stream)?);
        for (shard, of_shard) in self.shards.iter_mut().enumerate() {
            let before = has_rows.then_some(&mut of_shard.before);
            let before = optional_mut(before, stream)?;
            let found = of_shard.at_home(batch.numbers[shard] == 0);
            let args = ShareArgs {
                counts: found.counts.write_on(stream)?,
                before,
                sums: sums.write_on(stream)?,
                narrow: if shard == last { narrow } else { GlobalMut::null() },
                limits,
                limit: batch.bounds.limit,
                count: count as u64,
                is_first: u32::from(shard == 0),
                padding: 0,
            };
            // SAFETY: every array has an element for each range, and is for this stream.
            unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::share(&args))? };
            if has_rows {
                exclusive_scan(stream, &found.counts, count, &mut found.offsets, &mut self.devices[0].scan)?;
            }
        }
        Ok(())
    }

    /// If there are limits, copies the numbers of pairs within them back to the shards' devices.
    fn return_counts<V: Word>(&mut self, batch: &InFlight<'_, K, V>) -> Result<()> {
        if batch.bounds.limits.is_none() && batch.bounds.limit == u64::MAX {
            return Ok(());
        }
        for (OfShard { on_shard, copied, .. }, &number) in self.shards.iter_mut().zip(batch.numbers) {
            if number != 0 {
                let part = PeerPart { from: &copied.counts, range: 0..batch.bounds.count, stream: &self.sends, at: 0 };
                on_shard.counts.copy_from_peers(&self.devices[number].stream, &[part])?;
            }
        }
        Ok(())
    }

    /// Computes the start of each range's pairs among those of its shard, and sends the shard's total to the host.
    fn total<V: Word>(&mut self, batch: &InFlight<'_, K, V>) -> Result<()> {
        let count = batch.bounds.count;
        self.return_counts(batch)?;
        for (OfShard { on_shard, staged_total, .. }, &number) in self.shards.iter_mut().zip(batch.numbers) {
            let OfDevice { stream, scan, .. } = &mut self.devices[number];
            let stream = if number == 0 { batch.stream } else { stream };
            if number != 0 {
                exclusive_scan(stream, &on_shard.counts, count, &mut on_shard.offsets, scan)?;
            }
            on_shard.offsets.download_async(stream, count..count + 1, staged_total, 0)?;
        }
        Ok(())
    }

    /// Waits for the numbers of pairs of a device's shards, gathers the pairs and sends them to the batch's device.
    fn gather<V: Word>(
        &mut self,
        batch: &InFlight<'_, K, V>,
        number: usize,
        rows: &Rows<'_, K, V>,
        pairs: &mut [usize],
    ) -> Result<()> {
        let OfDevice { stream, receives, .. } = &self.devices[number];
        let stream = if number == 0 { batch.stream } else { stream };
        stream.synchronize()?;
        let bytes = [rows.keys.as_ref().map_or(0, |_| K::Bits::BYTES), rows.values.as_ref().map_or(0, |_| V::BYTES)];
        for (shard, pairs) in pairs.iter_mut().enumerate().filter(|&(shard, _)| batch.numbers[shard] == number) {
            let OfShard { on_shard, copied, cursors, staged_total, .. } = &mut self.shards[shard];
            // Pairs past the capacity are past it in the output, too.
            let len = usize::try_from(staged_total[0]).unwrap_or(usize::MAX).min(rows.capacity);
            *pairs = len;
            if len == 0 {
                continue;
            }
            on_shard.reserve_pairs(len, bytes)?;
            let keys = if bytes[0] > 0 { write(&mut on_shard.keys, stream, 0)? } else { GlobalMut::null() };
            let values = if bytes[1] > 0 { write(&mut on_shard.values, stream, 0)? } else { GlobalMut::null() };
            let (cursors, offsets) = (cursors.read_on(stream)?, on_shard.offsets.read_on(stream)?);
            let rows = first_pairs_of((cursors, offsets), batch.bounds.count, len);
            let query = Query::gather(GatherBatch { rows, keys, values }, len);
            // SAFETY: cursors and offsets are of this shard, which is borrowed, and the columns hold `len` pairs.
            unsafe { batch.shards.all[shard].launches.launch(stream, false, &query)? };
            if number != 0 {
                copied.reserve_pairs(len, bytes)?;
                let columns = [(&on_shard.keys, &mut copied.keys), (&on_shard.values, &mut copied.values)];
                for ((from, to), bytes) in columns.into_iter().zip(bytes) {
                    to.copy_from_peers(receives, &[PeerPart { from, range: 0..words(len, bytes), stream, at: 0 }])?;
                }
            }
        }
        Ok(())
    }
}

/// Where one shard's pairs go.
struct Output<'a> {
    stream: &'a Stream,
    offsets: Global<u64>,
    before: Global<u64>,
    starts: Global<u64>,
    stride: usize,
    count: usize,
    pairs: usize,
    capacity: usize,
}

impl Output<'_> {
    /// # Safety
    /// The column has the pairs; the arrays have the lengths of these fields, and all pointers are for the stream.
    unsafe fn copy<W: KeyWord>(&self, column: &Column, out: GlobalMut<W>) -> Result<()> {
        let args = PutPairsArgs {
            from: read(column, self.stream, 0)?,
            offsets: self.offsets,
            before: self.before,
            starts: self.starts,
            stride: self.stride as u64,
            count: self.count as u64,
            pairs: self.pairs as u64,
            room: self.capacity as u64,
            out,
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(self.stream, self.pairs)?.run(calls::put_pairs(&args)) }?)
    }
}

/// Copies the first elements of a buffer of another device.
fn copy_first<T: Pod>(stream: &Stream, to: &mut Buffer<T>, from: &Buffer<T>, len: usize, sends: &Stream) -> Result<()> {
    reserve(to, len)?;
    Ok(to.copy_from_peers(stream, &[PeerPart { from, range: 0..len, stream: sends, at: 0 }])?)
}
