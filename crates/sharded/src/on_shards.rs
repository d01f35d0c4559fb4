//! Queries in device form, whether maps or sets answer them.

use crate::query::Shards;
use crate::range_router::{Bounds, Probes, RangeRouter, Rows, Starts, Wanted};
use crate::ranges::{self, first};
use crate::router::{Hints, Router};
use crate::scratch::Scratch;
use crate::scratch_pool::ScratchPool;
use bytemuck::Pod;
use core::fmt::{self, Debug};
use lanetree_frame::error::{check_bounds, check_buffer};
use lanetree_frame::fixed::{Neighbors, Query, QueryOptions, Side, Uses, bits};
use lanetree_frame::join_steps::{Settled, settle};
use lanetree_frame::room::collected;
use lanetree_frame::{AnyKey, Buffer, DeviceKind, KeyRange, Ranges, Result, Stream, Word};
use lanetree_simt::{GetBatch, GlobalMut, Near, NeighborBatch, RankBatch};

/// The memory of an index's queries in device form.
pub(crate) struct Routers<K: AnyKey, V> {
    pub(crate) router: Router<K, V>,
    pub(crate) ranges: RangeRouter<K>,
    pub(crate) scratch: ScratchPool<Scratch<K, V>>,
}

impl<K: AnyKey, V> Default for Routers<K, V> {
    fn default() -> Self {
        Self { router: Router::default(), ranges: RangeRouter::default(), scratch: ScratchPool::default() }
    }
}

/// An index in shards that has a device form: a map, or a set, whose values are words that no kernel reads or writes.
pub(crate) trait InShards: Debug {
    type Key: AnyKey;
    type Value: Word;

    fn routers(&self) -> &Routers<Self::Key, Self::Value>;

    /// Checks that a shard is on the stream's device, and that kernels can answer if that is no host.
    fn check_stream(&self, stream: &Stream) -> Result<()>;

    /// The shards, if kernels can answer: all on devices of one kind that runs kernels.
    fn shards(&self) -> Result<Option<Shards<'_, Self::Key, Self::Value>>>;

    /// For each shard the pair that a query finds if the shard has none: the last one of the nearest shard before it that has any
    /// ([`Side::Upper`]), or the first one of the nearest after it.
    fn fallbacks(&self, side: Side) -> Result<Neighbors<Self::Key, Self::Value>>;

    fn get_on_host(&self, keys: &[Self::Key]) -> Result<Vec<Option<Self::Value>>>;
    fn rank_on_host(&self, side: Side, keys: &[Self::Key]) -> Result<Vec<u64>>;
    fn neighbor_on_host(&self, side: Side, keys: &[Self::Key]) -> Result<Neighbors<Self::Key, Self::Value>>;
    fn count_on_host(&self, ranges: &[KeyRange<Self::Key>]) -> Result<Vec<u64>>;

    /// A set's have no values.
    fn range_on_host(&self, ranges: &[KeyRange<Self::Key>]) -> Result<Ranges<Self::Key, Self::Value>>;
}

/// Keys in a buffer.
type Keys<S> = Buffer<<S as InShards>::Key>;

/// Queries of an index in shards, on a stream.
pub(crate) struct OnShards<'a, S: InShards> {
    pub(crate) index: &'a S,
    pub(crate) stream: &'a Stream,
    pub(crate) is_sorted: bool,
    pub(crate) options: QueryOptions<'a, S::Value>,
}

/// Where look-ups' results go.
pub(crate) struct Outputs<'a, K, V> {
    pub(crate) keys: Option<&'a mut Buffer<K>>,
    pub(crate) values: Option<&'a mut Buffer<V>>,
    pub(crate) hits: Option<&'a mut Buffer<u32>>,
    /// The value of a query that finds nothing.
    pub(crate) miss: V,
}

impl<'a, S: InShards> OnShards<'a, S> {
    pub(crate) fn new(index: &'a S, stream: &'a Stream) -> Self {
        Self { index, stream, is_sorted: false, options: QueryOptions::default() }
    }

    pub(crate) fn is_on_host(&self) -> bool {
        self.stream.device().kind() == DeviceKind::Host
    }

    pub(crate) fn check<T: Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        check_buffer(self.stream.device(), what, expected, buffer)
    }

    /// Checks the stream and the first `count` queries.
    pub(crate) fn check_queries(&self, count: usize, queries: &Keys<S>) -> Result<()> {
        self.index.check_stream(self.stream)?;
        self.check("the queries' buffer", count, queries)
    }

    /// Checks the stream and all ranges; with the limits of the options.
    pub(crate) fn bounds<'b>(&'b self, starts: &'b Keys<S>, ends: &'b Keys<S>) -> Result<Bounds<'b, S::Key>> {
        let (count, &QueryOptions { limits, limit, .. }) = (starts.len(), &self.options);
        self.check_queries(count, starts)?;
        check_bounds(count, ends.len())?;
        self.check("the ends' buffer", count, ends)?;
        limits.map_or(Ok(()), |limits| self.check("the limits' buffer", count, limits))?;
        Ok(Bounds { count, starts, ends: Some(ends), limits, limit, is_sorted: self.is_sorted })
    }

    /// Looks up the first `count` queries' keys, or with a side their predecessors ([`Side::Upper`]) or successors.
    pub(crate) fn look_up(
        &self,
        count: usize,
        queries: &Keys<S>,
        side: Option<Side>,
        out: Outputs<'_, S::Key, S::Value>,
    ) -> Result<()> {
        self.check_queries(count, queries)?;
        out.check(self, count)?;
        if self.is_on_host() {
            let queries = first(queries, count);
            match side {
                None => out.fill(&self.index.get_on_host(queries)?, |value| (None, value)),
                Some(side) => out.fill(&self.index.neighbor_on_host(side, queries)?, |(key, value)| (Some(key), value)),
            }
            return Ok(());
        }
        let Some(mut shards) = self.index.shards()? else { return Ok(()) };
        let (Outputs { keys, values, hits, miss }, stream) = (out, self.stream);
        let (queries, count) = (bits::<S::Key>(stream, queries)?, count as u64);
        let (values, hits) = (from_peers(values, stream)?, from_peers(hits, stream)?);
        let query = match side {
            None => Query::Get(GetBatch { queries, count, values, hits, miss }),
            Some(side) => {
                shards.fallbacks = self.index.fallbacks(side)?;
                let (keys, predecessor, near) = (from_peers(keys, stream)?.cast(), side as u32, Near::ANY);
                Query::Neighbor(NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near })
            }
        };
        self.run(&shards, &query)
    }

    /// Ranks the first `count` queries.
    pub(crate) fn rank_first(
        &self,
        count: usize,
        side: Side,
        queries: &Keys<S>,
        ranks: &mut Buffer<u64>,
    ) -> Result<()> {
        self.check_queries(count, queries)?;
        self.check("the ranks' buffer", count, ranks)?;
        if self.is_on_host() {
            slice(ranks)[..count].copy_from_slice(&self.index.rank_on_host(side, first(queries, count))?);
            return Ok(());
        }
        let Some(shards) = self.index.shards()? else { return Ok(()) };
        let (queries, ranks) = (bits::<S::Key>(self.stream, queries)?, ranks.write_on_from_peers(self.stream)?);
        self.run(&shards, &Query::Rank(RankBatch { queries, count: count as u64, ranks, upper: side as u32 }))
    }

    fn run(
        &self,
        shards: &Shards<'_, S::Key, S::Value>,
        query: &Query<<S::Key as AnyKey>::Bits, S::Value>,
    ) -> Result<()> {
        let hints = Hints { is_sorted: self.is_sorted, is_staged: false };
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream, and for other devices' copies.
        unsafe { self.index.routers().router.run(shards, self.stream, hints, query) }
    }

    /// Answers ranges. All buffers were checked.
    pub(crate) fn ranges(&self, bounds: Bounds<'_, S::Key>, wanted: Wanted<'_, S::Key, S::Value>) -> Result<()> {
        if self.is_on_host() {
            return self.ranges_on_host(bounds, wanted);
        }
        let Some(shards) = self.index.shards()? else { return Ok(()) };
        self.index.routers().ranges.run(&shards, self.stream, bounds, wanted)
    }

    fn ranges_on_host(&self, bounds: Bounds<'_, S::Key>, wanted: Wanted<'_, S::Key, S::Value>) -> Result<()> {
        let (count, ranges) = (bounds.count, ranges::on_host(&bounds)?);
        let Rows { starts, keys, values, capacity } = match wanted {
            Wanted::Rows(rows) => rows,
            Wanted::Counts(counts) => {
                slice(counts)[..count].copy_from_slice(&self.index.count_on_host(&ranges)?);
                return Ok(());
            }
        };
        let found = self.index.range_on_host(&ranges)?;
        let mut lens = collected(found.offsets.windows(2).map(|row| row[1] - row[0]))?;
        let starts = match starts {
            Starts::Strided { counts, stride } => {
                slice(counts).iter_mut().zip(&lens).for_each(|(count, &len)| *count = len as u32);
                collected((0..count).map(|range| range * stride))?
            }
            Starts::Packed { offsets, probes } => {
                if let Some(Probes { valid, is_left, hits }) = probes {
                    let mut counts = self.stream.device().upload(&lens)?;
                    let settled = Settled { counts: &mut counts, is_left, cursors: None, hits: Some(hits) };
                    settle(self.stream, valid, count, settled)?;
                    lens = counts.to_vec()?;
                }
                let offsets = slice(offsets);
                offsets[0] = 0;
                lens.iter().enumerate().for_each(|(range, len)| offsets[range + 1] = offsets[range] + len);
                collected(offsets[..count].iter().map(|&offset| offset as usize))?
            }
        };
        copy_rows(&found.offsets, &found.keys, keys, capacity, &starts);
        copy_rows(&found.offsets, &found.values, values, capacity, &starts);
        Ok(())
    }

    // Bodies of the public methods that maps and sets share.

    pub(crate) fn neighbor(
        mut self,
        side: Side,
        queries: &Keys<S>,
        keys: &mut Keys<S>,
        values: Option<&mut Buffer<S::Value>>,
    ) -> Result<()> {
        self.options.check(if side == Side::Upper { "predecessor" } else { "successor" }, Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        self.look_up(queries.len(), queries, Some(side), Outputs { keys: Some(keys), values, hits, miss })
    }

    pub(crate) fn contains(&self, queries: &Keys<S>, hits: &mut Buffer<u32>) -> Result<()> {
        self.options.check("contains", Uses::Nothing)?;
        self.look_up(queries.len(), queries, None, Outputs::hits(hits))
    }

    pub(crate) fn rank(&self, side: Side, queries: &Keys<S>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.options.check(if side == Side::Upper { "upper_bound" } else { "lower_bound" }, Uses::Nothing)?;
        self.rank_first(queries.len(), side, queries, ranks)
    }

    pub(crate) fn count_range(&self, starts: &Keys<S>, ends: &Keys<S>, counts: &mut Buffer<u64>) -> Result<()> {
        self.options.check("count_range", Uses::Limits)?;
        let bounds = self.bounds(starts, ends)?;
        self.check("the counts' buffer", bounds.count, counts)?;
        self.ranges(bounds, Wanted::Counts(counts))
    }

    pub(crate) fn scan(
        &self,
        starts: &Keys<S>,
        limit: u32,
        keys: &mut Keys<S>,
        values: Option<&mut Buffer<S::Value>>,
        counts: &mut Buffer<u32>,
    ) -> Result<()> {
        self.options.check("scan", Uses::Nothing)?;
        let (count, stride) = (starts.len(), limit as usize);
        self.check_queries(count, starts)?;
        let pairs = count.saturating_mul(stride);
        self.check("the keys' buffer", pairs, keys)?;
        values.as_deref().map_or(Ok(()), |values| self.check("the values' buffer", pairs, values))?;
        self.check("the counts' buffer", count, counts)?;
        let (limit, is_sorted) = (limit.into(), self.is_sorted);
        let bounds = Bounds { count, starts, ends: None, limits: None, limit, is_sorted };
        let starts = Starts::Strided { counts, stride };
        self.ranges(bounds, Wanted::Rows(Rows { starts, keys: Some(keys), values, capacity: pairs }))
    }
}

impl<S: InShards> Debug for OnShards<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}", self.index, self.stream)
    }
}

impl<'a, K: AnyKey, V: Word> Outputs<'a, K, V> {
    /// The hit mask alone.
    pub(crate) fn hits(hits: &'a mut Buffer<u32>) -> Self {
        Self { keys: None, values: None, hits: Some(hits), miss: V::MIN }
    }

    /// Checks that the buffers are long enough.
    pub(crate) fn check<S: InShards>(&self, view: &OnShards<'_, S>, count: usize) -> Result<()> {
        let Self { keys, values, hits, .. } = self;
        keys.as_deref().map_or(Ok(()), |keys| view.check("the keys' buffer", count, keys))?;
        values.as_deref().map_or(Ok(()), |values| view.check("the values' buffer", count, values))?;
        hits.as_deref().map_or(Ok(()), |hits| view.check("the hit mask's buffer", count.div_ceil(32), hits))
    }

    /// Writes results of the host to buffers of the host.
    pub(crate) fn fill<T: Copy>(self, found: &[Option<T>], pair: impl Fn(T) -> (Option<K>, V)) {
        let (mut keys, mut values) = (self.keys.map(slice), self.values.map(slice));
        for (i, pair) in found.iter().map(|found| found.map(&pair)).enumerate() {
            if let Some(values) = &mut values {
                values[i] = pair.map_or(self.miss, |(_, value)| value);
            }
            if let (Some(keys), Some((Some(key), _))) = (&mut keys, pair) {
                keys[i] = key;
            }
        }
        for (word, found) in self.hits.into_iter().flat_map(slice).zip(found.chunks(32)) {
            *word = found.iter().enumerate().fold(0, |word, (i, found)| word | u32::from(found.is_some()) << i);
        }
    }
}

/// The pointer to a buffer that copies from other devices may write; null if there is no buffer.
fn from_peers<T: Pod>(buffer: Option<&mut Buffer<T>>, stream: &Stream) -> Result<GlobalMut<T>> {
    buffer.map_or(Ok(GlobalMut::null()), |buffer| Ok(buffer.write_on_from_peers(stream)?))
}

/// The elements of a buffer of the host.
fn slice<T: Pod>(buffer: &mut Buffer<T>) -> &mut [T] {
    buffer.as_mut_slice().unwrap_or(&mut [])
}

/// Copies a column of ranges' pairs to where each range starts, up to `capacity`.
fn copy_rows<T: Pod>(offsets: &[u64], column: &[T], out: Option<&mut Buffer<T>>, capacity: usize, starts: &[usize]) {
    let Some(out) = out.map(slice) else { return };
    for (row, &start) in offsets.windows(2).zip(starts) {
        let (row, at) = (&column[row[0] as usize..row[1] as usize], start.min(capacity));
        let len = row.len().min(capacity - at);
        out[at..at + len].copy_from_slice(&row[..len]);
    }
}

/// The methods of a view that are the same for maps and sets.
macro_rules! device_methods {
    (impl[$($generics:tt)*] $View:ty, $Key:ty) => {
        impl<$($generics)*> $View {
            /// Declares that the queries ascend: such a batch is cut at the shards' borders by binary search, and each shard's look-ups
            /// are tuned for sorted queries. It is a hint: a batch whose queries don't ascend is recognised, and answered a second time.
            #[must_use]
            pub fn sorted(mut self) -> Self {
                self.0.is_sorted = true;
                self
            }

            /// Which of `queries` are present: `hits` becomes the hit mask, as of [`hits`](Self::hits).
            ///
            /// # Errors
            /// [`Error::OutputLength`]; [`Error::UnusedOption`]; [`Error::OptionValue`] if the shards' devices are of several kinds, or
            /// their index has no launches; [`Error::Lost`]; [`Error::Runtime`] for a stream of a device that has no shard, for buffers
            /// of another device than the stream's, if a device has no room, and from the devices. After an error the outputs are
            /// unspecified.
            pub fn contains(&self, queries: &Buffer<$Key>, hits: &mut Buffer<u32>) -> Result<()> {
                self.0.contains(queries, hits)
            }

            /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`, of all shards.
            ///
            /// # Errors
            /// As [`contains`](Self::contains).
            pub fn lower_bound(&self, queries: &Buffer<$Key>, ranks: &mut Buffer<u64>) -> Result<()> {
                self.0.rank(Side::Lower, queries, ranks)
            }

            /// Ranks `queries`: `ranks[i]` becomes the number of keys at or below `queries[i]`, of all shards.
            ///
            /// # Errors
            /// As [`contains`](Self::contains).
            pub fn upper_bound(&self, queries: &Buffer<$Key>, ranks: &mut Buffer<u64>) -> Result<()> {
                self.0.rank(Side::Upper, queries, ranks)
            }

            /// Counts what [`range`](Self::range) would find of each range, into `counts[i]`. The host waits for nothing.
            ///
            /// # Errors
            /// As [`range`](Self::range).
            pub fn count_range(
                &self,
                starts: &Buffer<$Key>,
                ends: &Buffer<$Key>,
                counts: &mut Buffer<u64>,
            ) -> Result<()> {
                self.0.count_range(starts, ends, counts)
            }
        }
    };
}
pub(crate) use device_methods;
