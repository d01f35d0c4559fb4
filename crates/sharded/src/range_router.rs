//! Ranges on a device, of which shards on several have the pairs.
//!
//! ```text
//!  the batch's device                                       a shard's device
//!  ┌────────────────────┐ 1. all ranges, as they are ─────► ┌──────────┐
//!  │ locate             │                                   │ locate   │
//!  └──┬─────────────────┘ 2. ◄───── how many pairs of each ─┤          │
//!  ┌──▼─────────────────┐                                   │          │
//!  │ share, prefix sums │ 3. how many within the limit ───► │ gather   │
//!  └──┬─────────────────┘                                   │          │
//!  ┌──▼─────────────────┐ 4. ◄────────────── these pairs ───┤          │
//!  │ place              │                                   └──────────┘
//!  └────────────────────┘
//! ```
//!
//! Every shard is asked for every range: what begins or ends past its keys is found in its first node or its last, which are in the
//! caches. So nothing is divided, a range may be in any number of shards, and its pairs come in the order of the shards. Without
//! limits the third step is not needed. The host waits for the numbers of pairs alone, since it must know how many to copy.

use crate::back::tiles;
use crate::question::{Shard, numbered};
use crate::slots::{Column, read, reserve, with_spare, words, write};
use bytemuck::Pod;
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{Query, bits, first_pairs_of};
use lanetree_frame::join_steps::{DeviceValidity, Settled, settle};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::pointers::optional;
use lanetree_frame::{AnyKey, Buffer, Device, KeyWord, PinnedBuffer, Result, Stream, Word};
use lanetree_kernels_sharded::{PlaceArgs, ShareArgs, calls};
use lanetree_primitives::{ScanScratch, exclusive_scan};
use lanetree_runtime::PeerPart;
use lanetree_simt::{GatherBatch, Global, GlobalMut, LocateBatch};
use std::sync::{Mutex, PoisonError};

/// Ranges, both of whose bounds are in them.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a, K> {
    /// How many ranges there are: the first of the buffers.
    pub(crate) count: usize,
    pub(crate) starts: &'a Buffer<K>,
    /// None: up to the largest key.
    pub(crate) ends: Option<&'a Buffer<K>>,
    pub(crate) limits: Option<&'a Buffer<u64>>,
    pub(crate) limit: u64,
}

/// What is asked of ranges, and where it goes: buffers of the stream's device, which were checked to be long enough.
pub(crate) enum Wanted<'a, K, V> {
    Counts(&'a mut Buffer<u64>),
    /// Range after range. Pairs past the room of the keys or, if there is none, that of the values, are not written.
    Rows {
        offsets: &'a mut Buffer<u64>,
        keys: Option<&'a mut Buffer<K>>,
        values: Option<&'a mut Buffer<V>>,
        room: usize,
        probes: Option<Probes<'a>>,
    },
    /// Each range's pairs from a multiple of `stride` on.
    Strided {
        counts: &'a mut Buffer<u32>,
        keys: &'a mut Buffer<K>,
        values: Option<&'a mut Buffer<V>>,
        stride: usize,
    },
}

/// The probes of a join by ranges, whose rows are to be written. Null ones have no pairs, which the limits say.
pub(crate) struct Probes<'a> {
    pub(crate) valid: Option<DeviceValidity<'a>>,
    /// Whether one without a pair has a row, which is not written.
    pub(crate) is_left: bool,
    /// Out: whether each one has a pair.
    pub(crate) hits: &'a mut Buffer<u32>,
}

/// Memory and streams of batches of ranges, kept for the next ones.
pub(crate) struct RangeRouter<K>(Mutex<Vec<DeviceScratch<K>>>);

impl<K> Default for RangeRouter<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// What batches on one device use.
struct DeviceScratch<K> {
    home: Device,
    /// A stream of the batch's device, for copies to others.
    feed: Stream,
    /// Each device's, by their numbers; on the batch's own, the caller's stream does the work.
    there: Vec<There<K>>,
    rows: Vec<Rows>,
    sums: Buffer<u64>,
}

/// What all shards on one device use.
struct There<K> {
    device: Device,
    stream: Stream,
    /// A stream of the batch's device, for copies from this one.
    back: Stream,
    starts: Buffer<K>,
    ends: Buffer<K>,
    limits: Buffer<u64>,
    /// The largest key, as often as it was needed.
    most: Buffer<K>,
    scan: ScanScratch,
    /// Ranges that the scratch memory is for.
    scanned: usize,
}

/// A shard's.
struct Rows {
    on_shard: Pairs,
    /// The same on the batch's device, if that is another one.
    at_home: Pairs,
    cursors: Buffer<u64>,
    /// On the batch's device: the pairs of each range in the shards before.
    before: Buffer<u64>,
    staged_total: PinnedBuffer<u64>,
}

/// The pairs of ranges in a shard.
struct Pairs {
    counts: Buffer<u64>,
    offsets: Buffer<u64>,
    keys: Column,
    values: Column,
}

impl Pairs {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            counts: device.alloc(0)?,
            offsets: device.alloc(0)?,
            keys: device.alloc(0)?,
            values: device.alloc(0)?,
        })
    }

    fn reserve_ranges(&mut self, count: usize, has_offsets: bool) -> Result<()> {
        reserve(&mut self.counts, count)?;
        reserve(&mut self.offsets, if has_offsets { count + 1 } else { 0 })
    }

    fn reserve_pairs(&mut self, pairs: usize, [key, value]: [usize; 2]) -> Result<()> {
        reserve(&mut self.keys, words(pairs, key))?;
        reserve(&mut self.values, words(pairs, value))
    }
}

impl<K: AnyKey> There<K> {
    fn new(device: &Device, home: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            stream: device.stream()?,
            back: home.stream()?,
            starts: device.alloc(0)?,
            ends: device.alloc(0)?,
            limits: device.alloc(0)?,
            most: device.alloc(0)?,
            scan: ScanScratch::new(device, 0)?,
            scanned: 0,
        })
    }

    fn reserve_scan(&mut self, count: usize) -> Result<()> {
        if self.scanned < count {
            self.scanned = 0;
            self.scan = ScanScratch::new(&self.device, with_spare(count))?;
            self.scanned = with_spare(count);
        }
        Ok(())
    }
}

impl<K: AnyKey> RangeRouter<K> {
    /// Answers a batch. Waits for the numbers of pairs of the shards, unless nothing else is wanted; the rest may go on after the
    /// return, and later work in `stream` comes after it.
    ///
    /// # Errors
    /// [`Error::Runtime`] from a device, or if one has no room; [`Error::Lost`].
    pub(crate) fn run<V: Word>(
        &self,
        shards: &[Shard<'_, K, V>],
        stream: &Stream,
        bounds: Bounds<'_, K>,
        wanted: Wanted<'_, K, V>,
    ) -> Result<()> {
        let home = stream.device();
        if bounds.count == 0 {
            return match wanted {
                Wanted::Rows { offsets, .. } => Ok(offsets.fill_zero_range(stream, 0..1)?),
                _ => Ok(()),
            };
        }
        let (devices, numbers) = numbered(home, shards);
        let mut scratch = match self.take(home) {
            Some(scratch) => scratch,
            None => DeviceScratch::new(home, &devices, shards)?,
        };
        let done = scratch.run(shards, &numbers, stream, bounds, wanted);
        if done.is_err() {
            scratch.quiesce();
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        done
    }

    fn take(&self, home: &Device) -> Option<DeviceScratch<K>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|scratch| scratch.home == *home)?;
        Some(kept.swap_remove(at))
    }
}

impl<K: AnyKey> DeviceScratch<K> {
    fn new<V: Word>(home: &Device, devices: &[Device], shards: &[Shard<'_, K, V>]) -> Result<Self> {
        let rows = |shard: &Shard<'_, K, V>| {
            Ok(Rows {
                on_shard: Pairs::new(shard.device)?,
                at_home: Pairs::new(home)?,
                cursors: shard.device.alloc(0)?,
                before: home.alloc(0)?,
                staged_total: shard.device.pinned(1)?,
            })
        };
        Ok(Self {
            home: home.clone(),
            feed: home.stream()?,
            there: devices.iter().map(|device| There::new(device, home)).collect::<Result<_>>()?,
            rows: shards.iter().map(rows).collect::<Result<_>>()?,
            sums: home.alloc(0)?,
        })
    }

    /// Waits for all that it was given but in the caller's stream; errors are the next call's.
    fn quiesce(&self) {
        for stream in self.there.iter().flat_map(|there| [&there.stream, &there.back]).chain([&self.feed]) {
            let _ = stream.synchronize();
        }
    }

    fn run<V: Word>(
        &mut self,
        shards: &[Shard<'_, K, V>],
        numbers: &[usize],
        stream: &Stream,
        bounds: Bounds<'_, K>,
        wanted: Wanted<'_, K, V>,
    ) -> Result<()> {
        let count = bounds.count;
        let has_rows = !matches!(wanted, Wanted::Counts(_));
        self.send_bounds(stream, &bounds)?;
        self.locate(shards, numbers, stream, &bounds, has_rows)?;
        let mut of_probes = None;
        let (sums, narrow, target) = match wanted {
            Wanted::Counts(counts) => (counts, None, None),
            Wanted::Rows { offsets, keys, values, room, probes } => {
                of_probes = probes;
                reserve(&mut self.sums, count)?;
                (&mut self.sums, None, Some(Target { starts: Some(offsets), stride: 0, room, keys, values }))
            }
            Wanted::Strided { counts, keys, values, stride } => {
                reserve(&mut self.sums, count)?;
                let target = Target { starts: None, stride, room: count * stride, keys: Some(keys), values };
                (&mut self.sums, Some(counts), Some(target))
            }
        };
        let limits = (optional(bounds.limits, stream)?, bounds.limit);
        let mut narrow = narrow.map_or(Ok(GlobalMut::null()), |counts| counts.write_on(stream))?;
        for (shard, rows) in self.rows.iter_mut().enumerate() {
            let own = if numbers[shard] == 0 { &mut rows.on_shard } else { &mut rows.at_home };
            let args = ShareArgs {
                counts: own.counts.write_on(stream)?,
                before: if has_rows { rows.before.write_on(stream)? } else { GlobalMut::null() },
                sums: sums.write_on(stream)?,
                narrow: if shard + 1 == shards.len() {
                    core::mem::replace(&mut narrow, GlobalMut::null())
                } else {
                    GlobalMut::null()
                },
                limits: limits.0,
                limit: limits.1,
                count: count as u64,
                is_first: u32::from(shard == 0),
                padding: 0,
            };
            // SAFETY: every array has an element for each range, and is for this stream.
            unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::share(&args))? };
            if has_rows {
                exclusive_scan(stream, &own.counts, count, &mut own.offsets, &mut self.there[0].scan)?;
            }
        }
        let Some(mut target) = target else { return Ok(()) };
        if let Some(Probes { valid, is_left, hits }) = of_probes {
            let settled = Settled { counts: &mut *sums, is_left, cursors: None, hits: Some(hits) };
            settle(stream, valid, count, settled)?;
        }
        if let Some(offsets) = &mut target.starts {
            exclusive_scan(stream, &*sums, count, offsets, &mut self.there[0].scan)?;
        }
        let is_limited = bounds.limits.is_some() || bounds.limit != u64::MAX;
        self.total(numbers, stream, count, is_limited)?;
        // Other devices first: they have nothing to do yet.
        let mut pairs = vec![0; shards.len()];
        for number in (0..self.there.len()).rev() {
            self.gather((shards, numbers), (number, stream), count, &target, &mut pairs)?;
        }
        for (shard, &pairs) in pairs.iter().enumerate().filter(|(_, pairs)| **pairs > 0) {
            let rows = &self.rows[shard];
            let own = if numbers[shard] == 0 { &rows.on_shard } else { &rows.at_home };
            let place = Place {
                stream,
                offsets: own.offsets.read_on(stream)?,
                before: rows.before.read_on(stream)?,
                starts: target.starts.as_deref().map_or(Ok(Global::null()), |starts| starts.read_on(stream))?,
                stride: target.stride,
                count,
                pairs,
                room: target.room,
            };
            // SAFETY: the columns have these pairs, and the outputs as much room as is said.
            unsafe {
                if let Some(keys) = &mut target.keys {
                    place.column::<K::Bits>(&own.keys, keys.write_on(stream)?.cast())?;
                }
                if let Some(values) = &mut target.values {
                    place.column::<V>(&own.values, values.write_on(stream)?)?;
                }
            }
        }
        Ok(())
    }

    /// Sends the bounds to all other devices.
    fn send_bounds(&mut self, stream: &Stream, bounds: &Bounds<'_, K>) -> Result<()> {
        let submitted = self.home.event()?;
        submitted.record(stream)?;
        self.feed.wait(&submitted)?;
        let count = bounds.count;
        for (number, there) in self.there.iter_mut().enumerate() {
            if bounds.ends.is_none() && there.most.len() < count {
                there.most = there.device.upload(&vec![K::MAX; with_spare(count)])?;
            }
            if number == 0 {
                continue;
            }
            let There { stream, starts, ends, limits, .. } = there;
            copy_there(stream, starts, bounds.starts, count, &self.feed)?;
            if let Some(from) = bounds.ends {
                copy_there(stream, ends, from, count, &self.feed)?;
            }
            if let Some(from) = bounds.limits {
                copy_there(stream, limits, from, count, &self.feed)?;
            }
        }
        Ok(())
    }

    /// How many pairs of each range each shard has, at most its limit: on the batch's device.
    fn locate<V: Word>(
        &mut self,
        shards: &[Shard<'_, K, V>],
        numbers: &[usize],
        stream: &Stream,
        bounds: &Bounds<'_, K>,
        has_rows: bool,
    ) -> Result<()> {
        let count = bounds.count;
        self.there[0].reserve_scan(count)?;
        for (shard, rows) in self.rows.iter_mut().enumerate() {
            let there = &mut self.there[numbers[shard]];
            there.reserve_scan(count)?;
            rows.on_shard.reserve_ranges(count, has_rows)?;
            if has_rows {
                reserve(&mut rows.cursors, count)?;
                reserve(&mut rows.before, count)?;
            }
            let is_home = numbers[shard] == 0;
            let on = if is_home { stream } else { &there.stream };
            let ends = if bounds.ends.is_none() { &there.most } else { &there.ends };
            let (starts, ends, limits) = match is_home {
                true => (bounds.starts, bounds.ends.unwrap_or(ends), bounds.limits),
                false => (&there.starts, ends, bounds.limits.map(|_| &there.limits)),
            };
            let cursors = if has_rows { rows.cursors.write_on(on)? } else { GlobalMut::null() };
            let batch = LocateBatch {
                starts: bits::<K>(on, starts)?,
                ends: bits::<K>(on, ends)?,
                limits: optional(limits, on)?,
                count: count as u64,
                limit: bounds.limit,
                cursors,
                counts: rows.on_shard.counts.write_on(on)?,
            };
            // SAFETY: all of them have an element for each range, and are for the stream.
            unsafe { shards[shard].launches.launch(on, false, &Query::Locate(batch))? };
            if !is_home {
                rows.at_home.reserve_ranges(count, has_rows)?;
                let part = PeerPart { from: &rows.on_shard.counts, range: 0..count, stream: on, at: 0 };
                rows.at_home.counts.copy_from_peers(&there.back, &[part])?;
            }
        }
        Ok(())
    }

    /// Where each range's pairs begin among those of its shard, and on its way to the host how many there are.
    fn total(&mut self, numbers: &[usize], stream: &Stream, count: usize, is_limited: bool) -> Result<()> {
        for (rows, &number) in self.rows.iter_mut().zip(numbers) {
            let Rows { on_shard, at_home, staged_total, .. } = rows;
            let There { stream: other, scan, .. } = &mut self.there[number];
            let on = if number == 0 { stream } else { other };
            if number != 0 {
                if is_limited {
                    let part = PeerPart { from: &at_home.counts, range: 0..count, stream: &self.feed, at: 0 };
                    on_shard.counts.copy_from_peers(on, &[part])?;
                }
                exclusive_scan(on, &on_shard.counts, count, &mut on_shard.offsets, scan)?;
            }
            on_shard.offsets.download_async(on, count..count + 1, staged_total, 0)?;
        }
        Ok(())
    }

    /// Waits for the numbers of pairs of a device's shards, and has the pairs gathered and sent to the batch's device.
    fn gather<V: Word>(
        &mut self,
        (shards, numbers): (&[Shard<'_, K, V>], &[usize]),
        (number, stream): (usize, &Stream),
        count: usize,
        target: &Target<'_, K, V>,
        pairs: &mut [usize],
    ) -> Result<()> {
        let there = &self.there[number];
        let on = if number == 0 { stream } else { &there.stream };
        on.synchronize()?;
        let bytes =
            [target.keys.as_ref().map_or(0, |_| K::Bits::BYTES), target.values.as_ref().map_or(0, |_| V::BYTES)];
        for shard in (0..shards.len()).filter(|&shard| numbers[shard] == number) {
            let Rows { on_shard, at_home, cursors, staged_total, .. } = &mut self.rows[shard];
            // What comes later in the shard comes later in the output, too.
            let len = usize::try_from(staged_total[0]).unwrap_or(usize::MAX).min(target.room);
            pairs[shard] = len;
            if len == 0 {
                continue;
            }
            on_shard.reserve_pairs(len, bytes)?;
            let keys = if bytes[0] > 0 { write(&mut on_shard.keys, on, 0)? } else { GlobalMut::null() };
            let values = if bytes[1] > 0 { write(&mut on_shard.values, on, 0)? } else { GlobalMut::null() };
            let rows = first_pairs_of((cursors.read_on(on)?, on_shard.offsets.read_on(on)?), count, len);
            let query = Query::gather(GatherBatch { rows, keys, values }, len);
            // SAFETY: cursors and offsets are of this shard, which is borrowed, and there is room for so many pairs.
            unsafe { shards[shard].launches.launch(on, false, &query)? };
            if number != 0 {
                at_home.reserve_pairs(len, bytes)?;
                let columns = [(&on_shard.keys, &mut at_home.keys), (&on_shard.values, &mut at_home.values)];
                for ((from, to), bytes) in columns.into_iter().zip(bytes) {
                    let range: Range<usize> = 0..words(len, bytes);
                    to.copy_from_peers(&there.back, &[PeerPart { from, range, stream: on, at: 0 }])?;
                }
            }
        }
        Ok(())
    }
}

/// Where pairs go.
struct Target<'a, K, V> {
    /// Where each range begins; None: every `stride` pairs.
    starts: Option<&'a mut Buffer<u64>>,
    stride: usize,
    room: usize,
    keys: Option<&'a mut Buffer<K>>,
    values: Option<&'a mut Buffer<V>>,
}

/// A shard's pairs on their way to their places.
struct Place<'a> {
    stream: &'a Stream,
    offsets: Global<u64>,
    before: Global<u64>,
    starts: Global<u64>,
    stride: usize,
    count: usize,
    pairs: usize,
    room: usize,
}

impl Place<'_> {
    /// # Safety
    /// The column has the pairs; all pointers are for the stream, and what they point to is as long as is said.
    unsafe fn column<W: KeyWord>(&self, column: &Column, out: GlobalMut<W>) -> Result<()> {
        let args = PlaceArgs {
            from: read(column, self.stream, 0)?,
            offsets: self.offsets,
            before: self.before,
            starts: self.starts,
            stride: self.stride as u64,
            count: self.count as u64,
            pairs: self.pairs as u64,
            room: self.room as u64,
            out,
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(self.stream, self.pairs)?.run(calls::place(&args)) }?)
    }
}

/// Copies the first elements of a buffer of another device.
fn copy_there<T: Pod>(stream: &Stream, to: &mut Buffer<T>, from: &Buffer<T>, len: usize, feed: &Stream) -> Result<()> {
    reserve(to, len)?;
    Ok(to.copy_from_peers(stream, &[PeerPart { from, range: 0..len, stream: feed, at: 0 }])?)
}
