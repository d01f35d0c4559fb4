//! [`Steps`]: what joins, as-of look-ups and the nearest pairs are made of, whether one index on a stream answers or one over several
//! devices.

use super::options::QueryOptions;
use super::range::{DeviceRanges, RangeScratch};
use super::{AsOf, FixedIndex, Neighbors, OnStream, Query, Side, TASK, View, bits};
use bytemuck::Pod;
use lanetree_base::Result;
use lanetree_base::join_steps::{DeviceValidity, Settled, settle};
use lanetree_base::parallel::*;
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::exclusive_scan;
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::{GetBatch, Near, RankBatch};

/// What answers the look-ups that joins and the like are made of, each of the first `count` queries of buffers. Each checks its buffers'
/// lengths and devices itself.
#[doc(hidden)]
pub trait Steps {
    /// Keys of the index.
    type Key: AnyKey;
    /// Its values.
    type Value: Value;

    /// The stream of the buffers.
    fn stream(&self) -> &Stream;

    /// What was named for the next query.
    fn options(&self) -> &QueryOptions<'_, Self::Value>;

    /// The pairs of the index.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks a buffer's length and device, and that the index can answer.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_base::Error::Lost), [`Error::OutputLength`](lanetree_base::Error::OutputLength);
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) for a buffer or a stream of another device.
    fn check<T: Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()>;

    /// Which keys are present, and, if it `has_ranks`, how many are below each; otherwise the ranks become anything.
    ///
    /// # Errors
    /// Those of a look-up.
    fn find_first(
        &self,
        count: usize,
        queries: &Buffer<Self::Key>,
        hits: &mut Buffer<u32>,
        ranks: &mut Buffer<u64>,
        has_ranks: bool,
    ) -> Result<()>;

    /// How many pairs of each range there are, `limit` at most.
    ///
    /// # Errors
    /// Those of ranges.
    fn count_first(
        &self,
        count: usize,
        bounds: (&Buffer<Self::Key>, &Buffer<Self::Key>),
        limit: u64,
        counts: &mut Buffer<u64>,
    ) -> Result<()>;

    /// The predecessors ([`Side::Upper`]) or successors.
    ///
    /// # Errors
    /// Those of a look-up.
    fn neighbors_first(
        &self,
        count: usize,
        side: Side,
        queries: &Buffer<Self::Key>,
        keys: &mut Buffer<Self::Key>,
        values: &mut Buffer<Self::Value>,
    ) -> Result<()>;

    /// The pairs of each range, without limits.
    ///
    /// # Errors
    /// Those of ranges.
    fn range_first(
        &self,
        count: usize,
        bounds: (&Buffer<Self::Key>, &Buffer<Self::Key>),
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<Self::Key, Self::Value>,
    ) -> Result<()>;

    /// The pairs of each probe's range: null probes have none. In a left join each without a pair has a row, which becomes anything.
    ///
    /// # Errors
    /// Those of ranges.
    fn rows_first(
        &self,
        count: usize,
        bounds: (&Buffer<Self::Key>, &Buffer<Self::Key>),
        rows: RowsOfProbes<'_, Self::Key>,
        out: &mut DeviceRanges<Self::Key, Self::Value>,
    ) -> Result<()>;
}

/// Checks that there is room for the offsets of `count` ranges, and as many values as keys.
///
/// # Errors
/// As [`Steps::check`].
#[doc(hidden)]
pub fn check_ranges<S: Steps>(on: &S, count: usize, out: &DeviceRanges<S::Key, S::Value>) -> Result<()> {
    on.check("the offsets' buffer", count.saturating_add(1), &out.offsets)?;
    out.check_pairs(on.stream().device())
}

/// What [`Steps::rows_first`] is given, beside the ranges.
#[derive(Debug)]
#[doc(hidden)]
pub struct RowsOfProbes<'a, K> {
    /// Which probes are there.
    pub valid: Option<DeviceValidity<'a>>,
    /// Whether a probe without a pair has a row.
    pub is_left: bool,
    /// Out: whether each probe has a pair.
    pub hits: &'a mut Buffer<u32>,
    /// Scratch memory for the ranges.
    pub ranges: &'a mut RangeScratch,
    /// The range of all keys.
    pub all: (&'a Buffer<K>, &'a Buffer<K>),
    /// Scratch memory for that one.
    pub first: &'a mut RangeScratch,
}

impl<I: FixedIndex> Steps for OnStream<'_, I> {
    type Key = I::Key;
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
        OnStream::check(self, what, expected, buffer)
    }
    fn find_first(
        &self,
        count: usize,
        queries: &Buffer<I::Key>,
        hits: &mut Buffer<u32>,
        ranks: &mut Buffer<u64>,
        has_ranks: bool,
    ) -> Result<()> {
        self.check("the queries' buffer", count, queries)?;
        self.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        self.check("the scratch memory", count, ranks)?;
        self.index.check_tuning(self.tuning())?;
        if count == 0 {
            return Ok(());
        }
        let stream = self.stream;
        if stream.device().kind() == DeviceKind::Host {
            let index = self.index.view().expect("a tree on the host is in main memory");
            let queries = &queries.as_slice().expect("a buffer of the host")[..count];
            let ranks = &mut ranks.as_mut_slice().expect("a buffer of the host")[..count];
            let hits = &mut hits.as_mut_slice().expect("a buffer of the host")[..count.div_ceil(32)];
            let tasks = queries.par_chunks(TASK).zip(ranks.par_chunks_mut(TASK)).zip(hits.par_chunks_mut(TASK / 32));
            tasks.for_each(|((queries, ranks), hits)| {
                hits.fill(0);
                index.get(queries, |i, value| hits[i / 32] |= u32::from(value.is_some()) << (i % 32));
                if has_ranks {
                    index.rank(queries, false, |i, rank| ranks[i] = rank);
                }
            });
            return Ok(());
        }
        let (queries, hits) = (bits::<I::Key>(stream, queries)?, hits.write_on(stream)?);
        let ranks = ranks.write_on(stream)?;
        // SAFETY: the buffers are long enough; the pointers are for this stream. Ranks are at least as wide as values, which are not
        // wanted: ranks take their place.
        unsafe {
            let (count, miss) = (count as u64, I::Value::default());
            self.launch(&Query::Get(GetBatch { queries, count, values: ranks.cast(), hits, miss }))?;
            if has_ranks {
                self.launch(&Query::Rank(RankBatch { queries, count, ranks, upper: 0 }))?;
            }
        }
        Ok(())
    }
    fn count_first(
        &self,
        count: usize,
        bounds: (&Buffer<I::Key>, &Buffer<I::Key>),
        limit: u64,
        counts: &mut Buffer<u64>,
    ) -> Result<()> {
        self.locate_into_first(count, bounds, limit, counts)
    }
    fn neighbors_first(
        &self,
        count: usize,
        side: Side,
        queries: &Buffer<I::Key>,
        keys: &mut Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
    ) -> Result<()> {
        OnStream::new(self.index, self.stream).neighbors_of_first(count, side, queries, keys, values)
    }
    fn range_first(
        &self,
        count: usize,
        bounds: (&Buffer<I::Key>, &Buffer<I::Key>),
        scratch: &mut RangeScratch,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        self.range_without_limits(count, bounds, scratch, out)
    }
    fn rows_first(
        &self,
        count: usize,
        bounds: (&Buffer<I::Key>, &Buffer<I::Key>),
        rows: RowsOfProbes<'_, I::Key>,
        out: &mut DeviceRanges<I::Key, I::Value>,
    ) -> Result<()> {
        check_ranges(self, count, out)?;
        let RowsOfProbes { valid, is_left, hits, ranges, all, first } = rows;
        let (stream, is_empty) = (self.stream, self.index.is_empty());
        self.locate_first(count, bounds, ranges)?;
        let cursors = if is_left && !is_empty {
            self.locate_first(1, all, first)?;
            Some((&mut ranges.cursors, &first.cursors))
        } else {
            None
        };
        settle(stream, valid, count, Settled { counts: &mut ranges.counts, is_left, cursors, hits: Some(hits) })?;
        exclusive_scan(stream, &ranges.counts, count, &mut out.offsets, &mut ranges.scan)?;
        // Of an empty index there is nothing to copy.
        if is_empty { Ok(()) } else { self.gather(count, ranges, out) }
    }
}

/// The rule of as-of look-ups, for an index that finds the neighbours of all its pairs alone, on several devices.
#[doc(hidden)]
pub fn asof_on_host<K: AnyKey, V: Copy + Send + Sync>(
    how: &AsOf,
    queries: &[K],
    neighbors: impl Fn(Side, &[K]) -> Result<Neighbors<K, V>>,
) -> Result<Neighbors<K, V>> {
    let mut nearest: Option<Neighbors<K, V>> = None;
    for search in how.searches::<K>()?.iter() {
        let (near, side) = (search.near, search.side);
        let sought = |key: &K| K::decode(near.sought(key.encode(), side == Side::Upper));
        let found = match near.is_on() {
            true => neighbors(side, &queries.par_iter().map(sought).try_collect()?)?,
            false => neighbors(side, queries)?,
        };
        let first = nearest.as_ref();
        let take = |(at, pair): (usize, Option<(K, V)>)| {
            let word = queries[at].encode();
            let pair = pair.filter(|(key, _)| !near.is_on() || near.accepts(word, key.encode()));
            let Some(first) = first.and_then(|first| first[at]) else { return pair };
            pair.filter(|(key, _)| !near.keeps(word, first.0.encode(), key.encode())).or(Some(first))
        };
        let taken = found.into_par_iter().enumerate().map(take).try_collect()?;
        nearest = Some(taken);
    }
    Ok(nearest.unwrap_or_default())
}

/// The searches of an as-of look-up on a device: on which side, and which neighbours count.
///
/// # Errors
/// As [`OnStream::asof`].
#[doc(hidden)]
pub fn asof_searches<K: AnyKey>(how: &AsOf) -> Result<Vec<(Side, Near<K::Bits>)>> {
    Ok(how.searches::<K>()?.iter().map(|search| (search.side, search.near)).collect())
}
