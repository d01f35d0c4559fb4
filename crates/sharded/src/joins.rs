//! Joins, as-of look-ups and the nearest pairs in device form. Joins and the nearest pairs are the [`Steps`] of any index.

use crate::on_devices::OnDevices;
use crate::on_shards::{InShards, OnShards, Outputs};
use crate::range_router::{Bounds, Probes, Wanted};
use crate::ranges::first;
use crate::scratch::Scratch;
use crate::sharded::Sharded;
use crate::slots::reserve;
use bytemuck::Pod;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{
    self, AsOf, DeviceMatches, DeviceRangeMatches, DeviceRanges, JoinScratch, NearestScratch, Neighbors, QueryOptions,
    RangeJoinScratch, RangeScratch, RowsOfProbes, Side, Steps, Uses, asof_on_host, asof_searches, bits,
};
use lanetree_frame::join_steps::{Settled, settle};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{AnyKey, Buffer, Closed, KeyWord, OrderedIndex, Result, Stream, Word};
use lanetree_kernels_sharded::{JudgeArgs, SoughtArgs, calls};
use lanetree_simt::Near;

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// The pair that an as-of look-up finds for each of `keys`, from all shards.
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
        asof_on_host(how, keys, |side, keys| self.neighbor_many(side, keys))
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> OnDevices<'_, I> {
    /// Finds the pair of an as-of look-up for each query, from all shards; otherwise like
    /// [`predecessor`](Self::predecessor), with the hit mask. One more launch per side on the batch's device drops neighbours that
    /// don't count; a [strict](AsOf::strict) look-up takes a launch before the search, too.
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
        self.0.options.check("asof", Uses::Miss)?;
        let (miss, stream, count) = (self.0.options.miss(), self.0.stream, queries.len());
        let searches = asof_searches::<K>(how)?;
        self.0.check_queries(count, queries)?;
        let out = Outputs { keys: Some(&mut *keys), values: Some(&mut *values), hits: Some(&mut *hits), miss };
        out.check(&self.0, count)?;
        if self.0.is_on_host() {
            out.fill(&self.0.index.asof_many(first(queries, count), how)?, |(key, value)| (Some(key), value));
            return Ok(());
        }
        if count == 0 {
            return Ok(());
        }
        let device = stream.device();
        let new = || Scratch::new(device);
        self.0.index.routers().scratch.with(device, new, |scratch| {
            if searches.len() > 1 {
                scratch.reserve_results(count)?;
            }
            for (number, &(side, near)) in searches.iter().enumerate() {
                let mut sought = queries;
                if near.is_on() && near.flags & Near::<K::Bits>::STRICT != 0 {
                    seek(stream, queries, side, near, &mut scratch.sought)?;
                    sought = &scratch.sought;
                }
                // The second search finds its neighbours in scratch memory.
                let (found_keys, found_values, found_hits) = match number {
                    0 => (&mut *keys, &mut *values, &mut *hits),
                    _ => (&mut scratch.keys, &mut scratch.values, &mut scratch.hits),
                };
                let out = Outputs { keys: Some(found_keys), values: Some(found_values), hits: Some(found_hits), miss };
                self.0.look_up(count, sought, Some(side), out)?;
                if number == 0 && !near.is_on() {
                    continue;
                }
                let (found_keys, found_values, found_hits) = match number {
                    0 => (&*keys, &*values, &*hits),
                    _ => (&scratch.keys, &scratch.values, &scratch.hits),
                };
                let args = JudgeArgs {
                    queries: bits::<K>(stream, queries)?,
                    count: count as u64,
                    found_keys: bits::<K>(stream, found_keys)?,
                    found_values: found_values.read_on(stream)?,
                    found_hits: found_hits.read_on(stream)?,
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

    /// Joins `probes` with the index: for each probe whose key is present, in the order of the probes, its number and the
    /// rank of its key over all shards. Otherwise like one index's
    /// [`OnStream::join`](lanetree_frame::fixed::OnStream::join), with scratch memory on the batch's device. Uses [`kind`](Self::kind)
    /// and [`valid`](Self::valid).
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn join<N: AnyKey<Bits = N> + Word>(
        &self,
        probes: &Buffer<K>,
        scratch: &mut JoinScratch,
        out: &mut DeviceMatches<N>,
    ) -> Result<()> {
        fixed::join(self, probes, scratch, out)
    }

    /// Joins ranges with the index: finds the pairs whose keys are between `lows[i]` and `highs[i]`, from all shards, and the
    /// number of each match's probe. Otherwise like one index's
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

    /// Finds for each query the pairs that are nearest to it, at most `k`, the nearest first, from all shards. Otherwise
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

    /// Finds the last `k` pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, in descending order of their keys, from
    /// all shards. Otherwise like [`OnDevices::k_nearest`].
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

    /// The bounds of the first `count` ranges, without limits.
    fn first_bounds<'b>(
        &self,
        count: usize,
        starts: &'b Buffer<K>,
        ends: &'b Buffer<K>,
        limit: u64,
    ) -> Result<Bounds<'b, K>> {
        Steps::check(self, "the starts' buffer", count, starts)?;
        self.0.check("the ends' buffer", count, ends)?;
        Ok(Bounds { count, starts, ends: Some(ends), limits: None, limit, is_sorted: self.0.is_sorted })
    }
}

/// Computes the keys to search for on one side, instead of the queries.
fn seek<K: AnyKey>(
    stream: &Stream,
    queries: &Buffer<K>,
    side: Side,
    near: Near<K::Bits>,
    sought: &mut Buffer<K>,
) -> Result<()> {
    let count = queries.len();
    reserve(sought, count)?;
    let args = SoughtArgs {
        queries: bits::<K>(stream, queries)?,
        count: count as u64,
        sought: sought.write_on(stream)?.cast(),
        near,
        flip: K::FLIP,
        is_below: u32::from(side == Side::Upper),
        padding: 0,
    };
    // SAFETY: both have `count` elements, and are for this stream.
    Ok(unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::sought(&args)) }?)
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Steps for OnDevices<'_, I> {
    type Key = K;
    type Value = I::Value;

    fn stream(&self) -> &Stream {
        self.0.stream
    }
    fn options(&self) -> &QueryOptions<'_, I::Value> {
        &self.0.options
    }
    fn len(&self) -> u64 {
        self.0.index.len()
    }
    fn check<T: Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        self.0.index.check_stream(self.0.stream)?;
        self.0.check(what, expected, buffer)
    }
    fn find_first(
        &self,
        count: usize,
        queries: &Buffer<K>,
        hits: &mut Buffer<u32>,
        ranks: &mut Buffer<u64>,
        has_ranks: bool,
    ) -> Result<()> {
        self.0.check_queries(count, queries)?;
        self.0.check("the scratch memory", count, ranks)?;
        self.0.look_up(count, queries, None, Outputs::hits(hits))?;
        if has_ranks { self.0.rank_first(count, Side::Lower, queries, ranks) } else { Ok(()) }
    }
    fn count_first(
        &self,
        count: usize,
        bounds: (&Buffer<K>, &Buffer<K>),
        limit: u64,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        let bounds = self.first_bounds(count, bounds.0, bounds.1, limit)?;
        self.0.check("the counts' buffer", count, counts)?;
        self.0.ranges(bounds, Wanted::Counts(counts))
    }
    fn neighbors_first(
        &self,
        count: usize,
        side: Side,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<I::Value>,
    ) -> Result<()> {
        // The queries of later rounds do not ascend, whatever the caller's do.
        let (view, miss) = (OnShards::new(self.0.index, self.0.stream), I::Value::MIN);
        view.look_up(count, queries, Some(side), Outputs { keys: Some(keys), values: Some(values), hits: None, miss })
    }
    fn range_first(
        &self,
        count: usize,
        bounds: (&Buffer<K>, &Buffer<K>),
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        let bounds = self.first_bounds(count, bounds.0, bounds.1, u64::MAX)?;
        self.0.check("the scratch memory", count, scratch.parts_mut().1)?;
        self.rows(bounds, None, out)
    }
    fn rows_first(
        &self,
        count: usize,
        bounds: (&Buffer<K>, &Buffer<K>),
        rows: RowsOfProbes<'_, K>,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        let (RowsOfProbes { valid, is_left, hits, ranges, .. }, stream) = (rows, self.0.stream);
        let mut bounds = self.first_bounds(count, bounds.0, bounds.1, u64::MAX)?;
        let (limits, ..) = ranges.parts_mut();
        self.0.check("the scratch memory", count, limits)?;
        if valid.is_some() && count > 0 {
            // Null probes get a limit of no pairs.
            let device = stream.device();
            self.0.index.routers().scratch.with(
                device,
                || Scratch::new(device),
                |scratch| {
                    limits.copy_from_buffer(stream, 0, scratch.no_limits(count)?, 0..count)?;
                    settle(stream, valid, count, Settled { counts: limits, is_left: false, cursors: None, hits: None })
                },
            )?;
            bounds.limits = Some(limits);
        }
        self.rows(bounds, Some(Probes { valid, is_left, hits }), out)
    }
}
