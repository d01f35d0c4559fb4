//! Joins, as-of look-ups and the nearest pairs in device form: of the steps that they are made of for every index.

use crate::on_devices::{OnDevices, put_hits, slice};
use crate::question::Question;
use crate::range_router::{Bounds, Probes, Wanted};
use crate::ranges;
use crate::sharded::Sharded;
use bytemuck::Pod;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{
    self, AsOf, DeviceMatches, DeviceRangeMatches, DeviceRanges, JoinScratch, NearestScratch, Neighbors, QueryOptions,
    RangeJoinScratch, RangeScratch, RowsOfProbes, Side, Steps, Uses, asof_on_host, asof_searches, check_ranges,
};
use lanetree_frame::join_steps::{Settled, settle};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{AnyKey, Buffer, Closed, DeviceKind, KeyWord, OrderedIndex, Result, Stream};
use lanetree_kernels_sharded::{JudgeArgs, SoughtArgs, calls};
use lanetree_primitives::exclusive_scan;
use lanetree_simt::{GlobalMut, Near};

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// The pair that an as-of look-up of each of `keys` finds, in whichever shard it is.
    ///
    /// ```
    /// use lanetree::{AsOf, Composite, Device, LaneTree, Sharded};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// // On a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
    /// let devices = [Device::host(), Device::host()];
    /// // Quotes of two stocks, by stock and time.
    /// let quotes = [(1_u32, 100_u32), (1, 200), (2, 150)].map(Composite::from);
    /// let index = Sharded::build(&devices, LaneTree::builder(), &quotes, &[10_u32, 11, 20])?;
    /// let trades = [(1, 199), (1, 250), (2, 100)].map(Composite::from);
    /// let rows = index.asof_many(&trades, &AsOf::backward().tolerance(60))?;
    /// assert_eq!(rows, [None, Some((quotes[1], 11)), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OrderedIndex::get_many`]; [`Error::OptionValue`] for a distance between floats, and for `Ties::Both`.
    pub fn asof_many(&self, keys: &[K], how: &AsOf) -> Result<Neighbors<K, I::Value>> {
        asof_on_host(how, keys, |side, keys| match side {
            Side::Upper => self.predecessor_many(keys),
            Side::Lower => self.successor_many(keys),
        })
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> OnDevices<'_, I> {
    /// Finds the pair that an as-of look-up of each query asks for, in whichever shard it is; otherwise like
    /// [`predecessor`](Self::predecessor), with the hit mask. The batch's device finds out which neighbours count, in a launch more for
    /// each side; a [strict](AsOf::strict) look-up takes another one before.
    ///
    /// ```
    /// use lanetree::{AsOf, Composite, Device, LaneTree, Sharded};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// // On a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
    /// let devices = [Device::emulated(), Device::emulated()];
    /// // Quotes of two stocks, by stock and time.
    /// let quotes = [(1_u32, 100_u32), (1, 200), (2, 150)].map(Composite::from);
    /// let index = Sharded::build(&devices, LaneTree::builder(), &quotes, &[10_u32, 11, 20])?;
    /// let stream = devices[0].stream()?;
    /// let trades = devices[0].upload(&[(1, 199), (1, 250), (2, 100)].map(Composite::from))?;
    /// let (mut keys, mut values, mut hits) = (devices[0].alloc(3)?, devices[0].alloc(3)?, devices[0].alloc(1)?);
    /// let how = AsOf::backward().tolerance(60);
    /// index.on(&stream).miss(0).asof(&trades, &how, &mut keys, &mut values, &mut hits)?;
    /// assert_eq!((values.to_vec()?, hits.to_vec()?), (vec![0, 11, 0], vec![0b010]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnDevices::get`]; [`Error::OptionValue`] for a distance between floats, and for `Ties::Both`.
    pub fn asof(
        self,
        queries: &Buffer<K>,
        how: &AsOf,
        keys: &mut Buffer<K>,
        values: &mut Buffer<I::Value>,
        hits: &mut Buffer<u32>,
    ) -> Result<()> {
        self.options.check("asof", Uses::Miss)?;
        let (miss, stream) = (self.options.miss(), self.stream);
        let searches = asof_searches::<K>(how)?;
        let count = self.begin(queries)?;
        self.check("the keys' buffer", count, keys)?;
        self.check("the values' buffer", count, values)?;
        self.check_hits(count, Some(hits))?;
        if stream.device().kind() == DeviceKind::Host {
            let found = self.index.asof_many(queries.as_slice().unwrap_or(&[]), how)?;
            let (keys, values) = (slice(keys), slice(values));
            for (i, found) in found.iter().enumerate() {
                values[i] = miss;
                if let Some(pair) = *found {
                    (keys[i], values[i]) = pair;
                }
            }
            return put_hits(Some(hits), &found);
        }
        if count == 0 {
            return Ok(());
        }
        self.index.scratch().lend(stream, |scratch| {
            if searches.len() > 1 {
                scratch.reserve_found(count)?;
            }
            for (number, &(side, near)) in searches.iter().enumerate() {
                let sought = if near.is_on() && near.flags & Near::<K::Bits>::STRICT != 0 {
                    scratch.reserve_sought(count)?;
                    let args = SoughtArgs {
                        queries: queries.read_on(stream)?.cast::<K::Bits>(),
                        count: count as u64,
                        sought: scratch.sought.write_on(stream)?.cast(),
                        near,
                        flip: K::FLIP,
                        is_below: u32::from(side == Side::Upper),
                        padding: 0,
                    };
                    // SAFETY: there are as many of both, and they are for this stream.
                    unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::sought(&args))? };
                    &scratch.sought
                } else {
                    queries
                };
                if number == 0 {
                    self.neighbors((count, sought), side, miss, (&mut *keys, &mut *values, Some(&mut *hits)))?;
                    if !near.is_on() {
                        continue;
                    }
                } else {
                    let found = (&mut scratch.keys, &mut scratch.values, Some(&mut scratch.hits));
                    self.neighbors((count, sought), side, miss, found)?;
                }
                let is_first = number == 0;
                let args = JudgeArgs {
                    queries: queries.read_on(stream)?.cast::<K::Bits>(),
                    count: count as u64,
                    found_keys: if is_first { keys.read_on(stream)? } else { scratch.keys.read_on(stream)? }.cast(),
                    found_values: if is_first { values.read_on(stream)? } else { scratch.values.read_on(stream)? },
                    found_hits: if is_first { hits.read_on(stream)? } else { scratch.hits.read_on(stream)? },
                    keys: keys.write_on(stream)?.cast(),
                    values: values.write_on(stream)?,
                    hits: hits.write_on(stream)?,
                    near,
                    flip: K::FLIP,
                    miss,
                };
                // SAFETY: all of them have an element, or a bit, for each query, and are for this stream.
                unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::judge(&args))? };
            }
            Ok(())
        })
    }

    /// Joins `probes` with the index: for each probe whose key is present, in the order of the probes, its number and that
    /// of its pair among those of all shards. Otherwise like one index's
    /// [`OnStream::join`](lanetree_frame::fixed::OnStream::join), with scratch memory on the batch's device. Uses [`kind`](Self::kind)
    /// and [`valid`](Self::valid).
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn join(&self, probes: &Buffer<K>, scratch: &mut JoinScratch, out: &mut DeviceMatches) -> Result<()> {
        fixed::join(self, probes, scratch, out)
    }

    /// Joins ranges with the index: finds the pairs whose keys are between `lows[i]` and `highs[i]`, in whichever shards they are, and
    /// the number of each match's probe. Otherwise like one index's
    /// [`OnStream::range_join`](lanetree_frame::fixed::OnStream::range_join), with scratch memory on the batch's device. Uses
    /// [`kind`](Self::kind), [`valid`](Self::valid) and, in a left join, [`miss`](Self::miss). It waits as [`range`](Self::range) does.
    ///
    /// ```
    /// use lanetree::{Closed, Device, DeviceRangeMatches, LaneTree, RangeJoinScratch, Sharded};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// // On a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
    /// let devices = [Device::emulated(), Device::emulated()];
    /// let index = Sharded::build(&devices, LaneTree::builder(), &[10_u64, 20, 30], &[0_u32, 1, 2])?;
    /// let stream = devices[0].stream()?;
    /// let (lows, highs) = (devices[0].upload(&[10_u64, 30, 15])?, devices[0].upload(&[30_u64, 10, 20])?);
    /// let mut scratch = RangeJoinScratch::new(&devices[0], 3)?;
    /// let mut out = DeviceRangeMatches::new(&devices[0], 3, 3)?;
    /// index.on(&stream).range_join(&lows, &highs, Closed::Left, &mut scratch, &mut out)?;
    /// assert_eq!(out.pairs.offsets.to_vec()?, [0, 2, 2, 2]);
    /// assert_eq!(out.pairs.values.to_vec()?[..2], [0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnDevices::range`]; [`Error::BoundLengths`] unless there are as many highs as lows.
    pub fn range_join(
        &self,
        lows: &Buffer<K>,
        highs: &Buffer<K>,
        closed: Closed,
        scratch: &mut RangeJoinScratch<K>,
        out: &mut DeviceRangeMatches<K, I::Value>,
    ) -> Result<()> {
        fixed::range_join(self, (lows, highs), closed, scratch, out)
    }

    /// Joins probes with all pairs whose keys are at most `distance` away and of the probe's group; otherwise like
    /// [`OnDevices::range_join`].
    ///
    /// # Errors
    /// As [`OnDevices::range_join`]; [`Error::OptionValue`] for keys that are floats.
    pub fn band_join(
        &self,
        probes: &Buffer<K>,
        distance: u64,
        scratch: &mut RangeJoinScratch<K>,
        out: &mut DeviceRangeMatches<K, I::Value>,
    ) -> Result<()> {
        fixed::band_join(self, probes, distance, scratch, out)
    }

    /// Finds for each query the pairs that are nearest to it, at most `k`, the nearest first, in whichever shards they are. Otherwise
    /// like one index's [`OnStream::k_nearest`](lanetree_frame::fixed::OnStream::k_nearest), with scratch memory on the batch's
    /// device: `k` rounds of [`predecessor`](Self::predecessor) or [`successor`](Self::successor), or of both.
    ///
    /// # Errors
    /// As [`OnDevices::range`]; [`Error::OptionValue`] for a distance between floats.
    pub fn k_nearest(
        &self,
        queries: &Buffer<K>,
        k: u64,
        how: &AsOf,
        scratch: &mut NearestScratch<K, I::Value>,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        fixed::k_nearest(self, queries, k, how, scratch, out)
    }

    /// Finds the last `k` pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, in descending order of their keys, in
    /// whichever shards they are. Otherwise like [`OnDevices::k_nearest`].
    ///
    /// # Errors
    /// As [`OnDevices::range`]; [`Error::BoundLengths`] unless there are as many ends as starts.
    pub fn range_last(
        &self,
        starts: &Buffer<K>,
        ends: &Buffer<K>,
        k: u64,
        scratch: &mut NearestScratch<K, I::Value>,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        fixed::range_last(self, (starts, ends), k, scratch, out)
    }

    /// The neighbours of the first queries, on devices.
    fn neighbors(
        &self,
        (count, queries): (usize, &Buffer<K>),
        side: Side,
        miss: I::Value,
        (keys, values, hits): (&mut Buffer<K>, &mut Buffer<I::Value>, Option<&mut Buffer<u32>>),
    ) -> Result<()> {
        let upper = side == Side::Upper;
        let fallbacks = self.index.fallbacks(upper)?;
        let keys = keys.write_on_from_peers(self.stream)?.cast();
        let (values, hits) = (values.write_on_from_peers(self.stream)?, self.mask(hits)?);
        let question = Question::Neighbor { keys, values, hits, miss, upper, fallbacks: &fallbacks };
        self.run(count, queries, &question)
    }

    fn is_on_host(&self) -> bool {
        self.stream.device().kind() == DeviceKind::Host
    }
}

/// The first elements of a buffer of the host.
fn first<T: Pod>(buffer: &Buffer<T>, count: usize) -> &[T] {
    buffer.as_slice().map_or(&[], |elements| &elements[..count])
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Steps for OnDevices<'_, I> {
    type Key = K;
    type Value = I::Value;

    fn stream(&self) -> &Stream {
        self.stream
    }
    fn options(&self) -> &QueryOptions<'_, I::Value> {
        &self.options
    }
    fn len(&self) -> u64 {
        self.index.len()
    }
    fn check<T: Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        self.check_shards()?;
        OnDevices::check(self, what, expected, buffer)
    }
    fn find_first(
        &self,
        count: usize,
        queries: &Buffer<K>,
        hits: &mut Buffer<u32>,
        ranks: &mut Buffer<u64>,
        has_ranks: bool,
    ) -> Result<()> {
        Steps::check(self, "the queries' buffer", count, queries)?;
        self.check_hits(count, Some(hits))?;
        OnDevices::check(self, "the scratch memory", count, ranks)?;
        if count == 0 {
            return Ok(());
        }
        if self.is_on_host() {
            let queries = first(queries, count);
            if has_ranks {
                slice(ranks)[..count].copy_from_slice(&self.index.lower_bound_many(queries)?);
            }
            return put_hits(Some(hits), &self.index.get_many(queries)?);
        }
        let hits = hits.write_on_from_peers(self.stream)?;
        self.run(count, queries, &Question::Get { values: GlobalMut::null(), hits, miss: I::Value::MIN })?;
        if !has_ranks {
            return Ok(());
        }
        let (before, ranks) = (self.index.before(), ranks.write_on_from_peers(self.stream)?);
        self.run(count, queries, &Question::Rank { ranks, upper: false, before: &before[..before.len() - 1] })
    }
    fn count_first(
        &self,
        count: usize,
        (starts, ends): (&Buffer<K>, &Buffer<K>),
        limit: u64,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        self.check_bounds(count, (starts, ends))?;
        OnDevices::check(self, "the counts' buffer", count, counts)?;
        if self.is_on_host() {
            let ranges = ranges::on_host(count, starts, Some(ends), None, limit)?;
            slice(counts)[..count].copy_from_slice(&self.index.count_range_many(&ranges)?);
            return Ok(());
        }
        self.run_ranges(Bounds { count, starts, ends: Some(ends), limits: None, limit }, Wanted::Counts(counts))
    }
    fn neighbors_first(
        &self,
        count: usize,
        side: Side,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<I::Value>,
    ) -> Result<()> {
        Steps::check(self, "the queries' buffer", count, queries)?;
        OnDevices::check(self, "the keys' buffer", count, keys)?;
        OnDevices::check(self, "the values' buffer", count, values)?;
        if !self.is_on_host() {
            // What is looked for in rounds does not ascend, whatever the caller's queries do.
            let on = OnDevices::new(self.index, self.stream);
            return on.neighbors((count, queries), side, I::Value::MIN, (keys, values, None));
        }
        let queries = first(queries, count);
        let found = match side {
            Side::Upper => self.index.predecessor_many(queries)?,
            Side::Lower => self.index.successor_many(queries)?,
        };
        for ((key, value), found) in slice(keys).iter_mut().zip(slice(values)).zip(found) {
            (*key, *value) = found.unwrap_or((*key, *value));
        }
        Ok(())
    }
    fn range_first(
        &self,
        count: usize,
        bounds: (&Buffer<K>, &Buffer<K>),
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        self.rows(count, bounds, false, None, scratch, out)
    }
    fn rows_first(
        &self,
        count: usize,
        bounds: (&Buffer<K>, &Buffer<K>),
        rows: RowsOfProbes<'_, K>,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        let (RowsOfProbes { valid, is_left, hits, ranges, .. }, stream) = (rows, self.stream);
        let probes = Some(Probes { valid, is_left, hits });
        if valid.is_none() || count == 0 {
            return self.rows(count, bounds, false, probes, ranges, out);
        }
        // Null probes get a limit of no pairs.
        self.index.scratch().lend(stream, |scratch| {
            let (limits, ..) = ranges.parts_mut();
            limits.copy_from_buffer(stream, 0, scratch.unlimited(count)?, 0..count)?;
            settle(stream, valid, count, Settled { counts: limits, is_left: false, cursors: None, hits: None })
        })?;
        self.rows(count, bounds, true, probes, ranges, out)
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> OnDevices<'_, I> {
    fn check_bounds(&self, count: usize, (starts, ends): (&Buffer<K>, &Buffer<K>)) -> Result<()> {
        Steps::check(self, "the starts' buffer", count, starts)?;
        OnDevices::check(self, "the ends' buffer", count, ends)
    }

    /// The pairs of ranges or, of a join, of its probes, within the limits that the scratch memory may have.
    fn rows(
        &self,
        count: usize,
        (starts, ends): (&Buffer<K>, &Buffer<K>),
        has_limits: bool,
        probes: Option<Probes<'_>>,
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        self.check_bounds(count, (starts, ends))?;
        check_ranges(self, count, out)?;
        let (stream, room) = (self.stream, out.capacity());
        let (limits, counts, scan) = scratch.parts_mut();
        OnDevices::check(self, "the scratch memory", count, counts)?;
        let limits = has_limits.then_some(&*limits);
        if !self.is_on_host() {
            let keys = (!out.keys.is_empty()).then_some(&mut out.keys);
            let wanted = Wanted::Rows { offsets: &mut out.offsets, keys, values: Some(&mut out.values), room, probes };
            return self.run_ranges(Bounds { count, starts, ends: Some(ends), limits, limit: u64::MAX }, wanted);
        }
        let found = self.index.range_many(&ranges::on_host(count, starts, Some(ends), limits, u64::MAX)?)?;
        for (count, row) in slice(counts).iter_mut().zip(found.offsets.windows(2)) {
            *count = row[1] - row[0];
        }
        if let Some(Probes { valid, is_left, hits }) = probes {
            settle(stream, valid, count, Settled { counts, is_left, cursors: None, hits: Some(hits) })?;
        }
        exclusive_scan(stream, counts, count, &mut out.offsets, scan)?;
        let offsets = first(&out.offsets, count);
        let (keys, values) = (slice(&mut out.keys), slice(&mut out.values));
        for (&offset, (from_keys, from_values)) in offsets.iter().zip(found.iter()) {
            let at = (offset as usize).min(room);
            let len = from_keys.len().min(room - at);
            if !keys.is_empty() {
                keys[at..at + len].copy_from_slice(&from_keys[..len]);
            }
            values[at..at + len].copy_from_slice(&from_values[..len]);
        }
        Ok(())
    }
}
