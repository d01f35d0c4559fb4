//! Queries in device form.

use crate::question::{Queries, Question};
use crate::range_router::{Bounds, Wanted};
use crate::ranges;
use crate::sharded::Sharded;
use bytemuck::Pod;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::error::{check_bounds, check_buffer, same_device};
use lanetree_frame::fixed::{DeviceRanges, FixedIndex, QueryOptions, Uses};
use lanetree_frame::{AnyKey, Buffer, DeviceKind, KeyRange, KeyWord, NeighborsOf, OrderedIndex, Result, Stream, Word};
use lanetree_simt::GlobalMut;

impl<I: FixedIndex<Value: Word>> Sharded<I> {
    /// The index's queries on a stream of one of its devices: buffers of that device go in and out, and the shards of all devices
    /// answer.
    ///
    /// A batch goes in pieces, the first and the last of them shorter. Each is divided by shard on the batch's device; each device
    /// is sent its shards' queries, and results are brought into the batch's order. A sorted batch of which only values are wanted
    /// is cut instead, and its parts are copied as they are. The host waits until each piece is divided (or the batch is cut),
    /// since it must know how many queries each shard has to copy them. (A batch that needs more memory than those before it waits
    /// for them, too; of a sorted batch it also waits until it is known that the queries ascend.) The rest may go on after the
    /// return, in the stream's order. Dropping results waits for them. What memory a batch takes is kept for the next one, on each
    /// device: about 70 bytes for each of up to 2^24 queries.
    ///
    /// ```
    /// use lanetree::{Device, LaneTree, Sharded};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// // On a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
    /// let devices = [Device::emulated(), Device::emulated()];
    /// let (keys, values): (Vec<u64>, Vec<u64>) = (0..1000).map(|i| (i * 7, i)).unzip();
    /// let index = Sharded::build(&devices, LaneTree::builder(), &keys, &values)?;
    ///
    /// let stream = devices[1].stream()?;
    /// let queries = devices[1].upload(&[6993_u64, 14, 15])?;
    /// let mut found = devices[1].alloc(3)?;
    /// index.on(&stream).get(&queries, &mut found)?;
    /// assert_eq!(found.to_vec()?, [999, 2, u64::MAX]); // the copy to the host waits for the look-up
    /// # Ok(())
    /// # }
    /// ```
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnDevices<'a, I> {
        OnDevices::new(self, stream)
    }
}

/// Queries of a [`Sharded`] in device form: see [`Sharded::on`].
///
/// ```
/// use lanetree::{Device, DeviceRanges, LaneTree, Sharded};
///
/// # fn main() -> lanetree::Result<()> {
/// let devices = [Device::emulated_with_seed(0), Device::emulated_with_seed(1)];
/// let index = Sharded::build(&devices, LaneTree::builder(), &[10_u64, 20, 30, 60], &[1_u32, 2, 3, 6])?;
/// let (here, stream) = (&devices[0], devices[0].stream()?);
/// // Look-ups with a hit mask: a bit for each query.
/// let (queries, mut values, mut hits) = (here.upload(&[60, 61])?, here.alloc(2)?, here.alloc(1)?);
/// index.on(&stream).hits(&mut hits).miss(0).get(&queries, &mut values)?;
/// assert_eq!((values.to_vec()?, hits.to_vec()?), (vec![6, 0], vec![0b01]));
/// // A range over both shards; there is no scratch memory to pass.
/// let (starts, ends, mut out) = (here.upload(&[15])?, here.upload(&[60])?, DeviceRanges::new(here, 1, 8)?);
/// index.on(&stream).range(&starts, &ends, &mut out)?;
/// assert_eq!((out.offsets.to_vec()?, &out.keys.to_vec()?[..3]), (vec![0, 3], &[20, 30, 60][..]));
/// # Ok(())
/// # }
/// ```
pub struct OnDevices<'a, I: OrderedIndex<Domain: AnyKey>> {
    pub(crate) index: &'a Sharded<I>,
    pub(crate) stream: &'a Stream,
    is_sorted: bool,
    pub(crate) options: QueryOptions<'a, I::Value>,
}

lanetree_frame::query_options! {
    impl['a, I: OrderedIndex<Domain: AnyKey>] OnDevices<'a, I>, |view| view.options =>
        hits, miss(I::Value), limit, limits, joins
}

impl<'a, K: AnyKey, I: OrderedIndex<Domain = K>> OnDevices<'a, I> {
    pub(crate) fn new(index: &'a Sharded<I>, stream: &'a Stream) -> Self {
        Self { index, stream, is_sorted: false, options: QueryOptions::default() }
    }

    /// Declares that the queries ascend: such a batch is cut at the shards' borders by binary search, and each shard's look-ups are
    /// tuned for sorted queries. It is a hint: a batch whose queries don't ascend is found out, and answered a second time.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self { is_sorted: true, ..self }
    }

    /// Looks up `queries`: `values[i]` becomes the value of key `queries[i]`, or [`miss`](Self::miss) if there is no such key.
    /// `values` must have at least one element per query; elements past these are not touched. Uses [`hits`](Self::hits).
    ///
    /// # Errors
    /// [`Error::OutputLength`]; [`Error::UnusedOption`]; [`Error::OptionValue`] if the shards' devices are of several kinds, or their index has no launches;
    /// [`Error::Lost`]; [`Error::Runtime`] for a stream of a device that has no shard, for buffers of another device than the
    /// stream's, if a device has no room, and from the devices. After an error the outputs are unspecified.
    pub fn get(mut self, queries: &Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.options.check("get", Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        let count = self.begin(queries)?;
        self.check("the values' buffer", count, values)?;
        self.check_hits(count, hits.as_deref())?;
        if let Some(queries) = self.on_host(queries) {
            let found = self.index.get_many(queries)?;
            let values = slice(values);
            found.iter().zip(values).for_each(|(found, value)| *value = found.unwrap_or(miss));
            return put_hits(hits, &found);
        }
        let (values, hits) = (values.write_on_from_peers(self.stream)?, self.mask(hits)?);
        self.run(count, queries, &Question::Get { values, hits, miss })
    }

    /// Which of `queries` are present: `hits` becomes the hit mask, as of [`hits`](Self::hits).
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn contains(&self, queries: &Buffer<K>, hits: &mut Buffer<u32>) -> Result<()> {
        self.options.check("contains", Uses::Nothing)?;
        let count = self.begin(queries)?;
        self.check_hits(count, Some(hits))?;
        if let Some(queries) = self.on_host(queries) {
            return put_hits(Some(hits), &self.index.get_many(queries)?);
        }
        let hits = hits.write_on_from_peers(self.stream)?;
        self.run(count, queries, &Question::Get { values: GlobalMut::null(), hits, miss: I::Value::MIN })
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`, of all shards.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn lower_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.rank(queries, ranks, false)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys at or below `queries[i]`, of all shards.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn upper_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.rank(queries, ranks, true)
    }

    fn rank(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>, upper: bool) -> Result<()> {
        self.options.check(if upper { "upper_bound" } else { "lower_bound" }, Uses::Nothing)?;
        let count = self.begin(queries)?;
        self.check("the ranks' buffer", count, ranks)?;
        if let Some(queries) = self.on_host(queries) {
            let found = match upper {
                true => self.index.upper_bound_many(queries)?,
                false => self.index.lower_bound_many(queries)?,
            };
            slice(ranks)[..count].copy_from_slice(&found);
            return Ok(());
        }
        let before = self.index.before();
        let ranks = ranks.write_on_from_peers(self.stream)?;
        self.run(count, queries, &Question::Rank { ranks, upper, before: &before[..before.len() - 1] })
    }

    /// Finds the last pair whose key is at or below each query: its key goes to `keys[i]` and its value to `values[i]`; if there is
    /// none, `values[i]` becomes [`miss`](Self::miss) and `keys[i]` is unspecified. Uses [`hits`](Self::hits).
    ///
    /// The first such call after a change asks every shard for its first and its last pair, and waits for them.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn predecessor(self, queries: &Buffer<K>, keys: &mut Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.neighbor(queries, keys, values, true)
    }

    /// Finds the first pair whose key is at or above each query; otherwise like [`OnDevices::predecessor`].
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn successor(self, queries: &Buffer<K>, keys: &mut Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.neighbor(queries, keys, values, false)
    }

    fn neighbor(
        mut self,
        queries: &Buffer<K>,
        keys: &mut Buffer<K>,
        values: &mut Buffer<I::Value>,
        upper: bool,
    ) -> Result<()> {
        self.options.check(if upper { "predecessor" } else { "successor" }, Uses::Hits)?;
        let (hits, miss) = (self.options.hits.take(), self.options.miss());
        let count = self.begin(queries)?;
        self.check("the keys' buffer", count, keys)?;
        self.check("the values' buffer", count, values)?;
        self.check_hits(count, hits.as_deref())?;
        if let Some(queries) = self.on_host(queries) {
            let found: NeighborsOf<Sharded<I>> = match upper {
                true => self.index.predecessor_many(queries)?,
                false => self.index.successor_many(queries)?,
            };
            let (keys, values) = (slice(keys), slice(values));
            for (i, found) in found.iter().enumerate() {
                values[i] = miss;
                if let Some(pair) = *found {
                    (keys[i], values[i]) = pair;
                }
            }
            return put_hits(hits, &found);
        }
        let fallbacks = self.index.fallbacks(upper)?;
        let keys = keys.write_on_from_peers(self.stream)?.cast();
        let (values, hits) = (values.write_on_from_peers(self.stream)?, self.mask(hits)?);
        self.run(count, queries, &Question::Neighbor { keys, values, hits, miss, upper, fallbacks: &fallbacks })
    }

    /// Finds the pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, in ascending order of their keys, whatever shards
    /// they are in. A range whose end is below its start is empty. Uses [`limit`](Self::limit) and [`limits`](Self::limits); `out`
    /// says how many pairs it has room for, as for one index. No scratch memory is passed: it is the index's, for each device about 32
    /// bytes for each range and shard, and for its pairs, there and on the batch's device.
    ///
    /// All shards are asked for all ranges at the same time, and their pairs put together on the batch's device. The host waits until
    /// it knows how many pairs each shard has, to copy them; the rest may go on after the return, in the stream's order.
    ///
    /// # Errors
    /// As [`OnDevices::get`]; [`Error::OutputLength`] not for too small a capacity: that shows in the last offset;
    /// [`Error::BoundLengths`] unless there are as many ends as starts.
    pub fn range(&self, starts: &Buffer<K>, ends: &Buffer<K>, out: &mut DeviceRanges<K, I::Value>) -> Result<()> {
        self.options.check("range", Uses::Limits)?;
        let count = self.begin_ranges(starts, ends)?;
        self.check("the offsets' buffer", count.saturating_add(1), &out.offsets)?;
        out.check_pairs(self.stream.device())?;
        let room = out.capacity();
        if self.stream.device().kind() == DeviceKind::Host {
            let found = self.index.range_many(&self.ranges_on_host(starts, Some(ends), None)?)?;
            slice(&mut out.offsets)[..=count].copy_from_slice(&found.offsets);
            let pairs = found.keys.len().min(room);
            if !out.keys.is_empty() {
                slice(&mut out.keys)[..pairs].copy_from_slice(&found.keys[..pairs]);
            }
            slice(&mut out.values)[..pairs].copy_from_slice(&found.values[..pairs]);
            return Ok(());
        }
        let keys = (!out.keys.is_empty()).then_some(&mut out.keys);
        let values = Some(&mut out.values);
        let wanted = Wanted::Rows { offsets: &mut out.offsets, keys, values, room, probes: None };
        self.run_ranges(self.bounds(starts, Some(ends)), wanted)
    }

    /// Counts the pairs of ranges, as [`range`](Self::range) would find them, into `counts[i]`.
    ///
    /// The host waits for nothing.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn count_range(&self, starts: &Buffer<K>, ends: &Buffer<K>, counts: &mut Buffer<u64>) -> Result<()> {
        self.options.check("count_range", Uses::Limits)?;
        let count = self.begin_ranges(starts, ends)?;
        self.check("the counts' buffer", count, counts)?;
        if self.stream.device().kind() == DeviceKind::Host {
            let found = self.index.count_range_many(&self.ranges_on_host(starts, Some(ends), None)?)?;
            slice(counts)[..count].copy_from_slice(&found);
            return Ok(());
        }
        self.run_ranges(self.bounds(starts, Some(ends)), Wanted::Counts(counts))
    }

    /// Copies the first pairs whose keys are at or above each of `starts`, at most `limit` of each and in ascending order, whatever
    /// shards they are in: those of `starts[i]` go to `keys[i * limit..]` and `values[i * limit..]`, and `counts[i]` becomes how many
    /// they are. Elements past these are not touched. It waits as [`range`](Self::range) does.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn scan(
        &self,
        starts: &Buffer<K>,
        limit: u32,
        keys: &mut Buffer<K>,
        values: &mut Buffer<I::Value>,
        counts: &mut Buffer<u32>,
    ) -> Result<()> {
        self.options.check("scan", Uses::Nothing)?;
        let count = self.begin(starts)?;
        let stride = limit as usize;
        let pairs = count.saturating_mul(stride);
        self.check("the keys' buffer", pairs, keys)?;
        self.check("the values' buffer", pairs, values)?;
        self.check("the counts' buffer", count, counts)?;
        if self.stream.device().kind() == DeviceKind::Host {
            let found = self.index.range_many(&self.ranges_on_host(starts, None, Some(u64::from(limit)))?)?;
            let (keys, values, counts) = (slice(keys), slice(values), slice(counts));
            for (i, (from_keys, from_values)) in found.iter().enumerate() {
                let at = i * stride..i * stride + from_keys.len();
                keys[at.clone()].copy_from_slice(from_keys);
                values[at].copy_from_slice(from_values);
                counts[i] = from_keys.len() as u32;
            }
            return Ok(());
        }
        let wanted = Wanted::Strided { counts, keys, values: Some(values), stride };
        self.run_ranges(Bounds { limit: u64::from(limit), ..self.bounds(starts, None) }, wanted)
    }

    /// Copies all pairs, in ascending order of their keys. Elements past them are not changed. It waits as [`range`](Self::range)
    /// does.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn pairs(&self, keys: &mut Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.options.check("pairs", Uses::Nothing)?;
        let device = self.stream.device();
        let (starts, ends) = (device.upload(&[K::MIN])?, device.upload(&[K::MAX])?);
        self.begin_ranges(&starts, &ends)?;
        let len = self.index.len() as usize;
        self.check("the keys' buffer", len, keys)?;
        self.check("the values' buffer", len, values)?;
        if device.kind() == DeviceKind::Host {
            for ((key, value), pair) in slice(keys).iter_mut().zip(slice(values)).zip(self.index.pairs()?) {
                (*key, *value) = pair;
            }
            return Ok(());
        }
        let mut offsets = device.alloc(2)?;
        let (keys, values) = (Some(keys), Some(values));
        let wanted = Wanted::Rows { offsets: &mut offsets, keys, values, room: len, probes: None };
        self.run_ranges(self.bounds(&starts, Some(&ends)), wanted)
    }

    /// Checks what ranges need; how many there are.
    fn begin_ranges(&self, starts: &Buffer<K>, ends: &Buffer<K>) -> Result<usize> {
        let count = self.begin(starts)?;
        check_bounds(count, ends.len())?;
        self.check("the ends' buffer", count, ends)?;
        self.options.limits.map_or(Ok(()), |limits| self.check("the limits' buffer", count, limits))?;
        Ok(count)
    }

    /// The ranges, on the host; `limit` instead of the option's.
    fn ranges_on_host(
        &self,
        starts: &Buffer<K>,
        ends: Option<&Buffer<K>>,
        limit: Option<u64>,
    ) -> Result<Vec<KeyRange<K>>> {
        ranges::on_host(starts.len(), starts, ends, self.options.limits, limit.unwrap_or(self.options.limit))
    }

    fn bounds<'b>(&'b self, starts: &'b Buffer<K>, ends: Option<&'b Buffer<K>>) -> Bounds<'b, K> {
        Bounds { count: starts.len(), starts, ends, limits: self.options.limits, limit: self.options.limit }
    }

    pub(crate) fn run_ranges(&self, bounds: Bounds<'_, K>, wanted: Wanted<'_, K, I::Value>) -> Result<()> {
        // `begin` has asked for them.
        let Some(shards) = self.index.routed()? else { return Ok(()) };
        self.index.ranges().run(&shards, self.stream, bounds, wanted)
    }

    /// Checks what all calls need; how many queries there are.
    pub(crate) fn begin(&self, queries: &Buffer<K>) -> Result<usize> {
        self.check_shards()?;
        self.check("the queries' buffer", queries.len(), queries)?;
        Ok(queries.len())
    }

    /// Checks that the shards can answer a batch on the stream's device.
    pub(crate) fn check_shards(&self) -> Result<()> {
        let shards = self.index.shards()?;
        let device = self.stream.device();
        if shards.iter().all(|shard| shard.device() != device) {
            same_device(shards[0].device(), device, "the stream")?;
        }
        if device.kind() != DeviceKind::Host && self.index.routed()?.is_none() {
            return Err(self.index.not_routed()?);
        }
        Ok(())
    }

    pub(crate) fn check<T: Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        check_buffer(self.stream.device(), what, expected, buffer)
    }

    pub(crate) fn check_hits(&self, count: usize, hits: Option<&Buffer<u32>>) -> Result<()> {
        hits.map_or(Ok(()), |hits| self.check("the hit mask's buffer", count.div_ceil(32), hits))
    }

    /// For the hit mask, if it is wanted.
    pub(crate) fn mask(&self, hits: Option<&mut Buffer<u32>>) -> Result<GlobalMut<u32>> {
        hits.map_or(Ok(GlobalMut::null()), |hits| Ok(hits.write_on_from_peers(self.stream)?))
    }

    /// The queries, if the host itself looks them up.
    fn on_host<'q>(&self, queries: &'q Buffer<K>) -> Option<&'q [K]> {
        (self.stream.device().kind() == DeviceKind::Host).then(|| queries.as_slice()).flatten()
    }

    /// Asks the shards of the first `count` queries.
    pub(crate) fn run(&self, count: usize, queries: &Buffer<K>, question: &Question<'_, K, I::Value>) -> Result<()> {
        // `begin` has asked for them.
        let Some(shards) = self.index.routed()? else { return Ok(()) };
        let at = queries.read_on(self.stream)?.cast();
        let (index, queries) = (self.index, Queries { at, count, is_sorted: self.is_sorted, is_spread: true });
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream, and for other devices' copies.
        unsafe { index.router().run(&shards, index.splitters(), self.stream, queries, question) }
    }
}

impl<I: OrderedIndex<Domain: AnyKey>> core::fmt::Debug for OnDevices<'_, I> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} on {:?}", self.index, self.stream)
    }
}

/// The elements of a buffer of the host.
pub(crate) fn slice<T: Pod>(buffer: &mut Buffer<T>) -> &mut [T] {
    buffer.as_mut_slice().unwrap_or(&mut [])
}

/// Writes the hit mask of results, on the host.
pub(crate) fn put_hits<T>(hits: Option<&mut Buffer<u32>>, found: &[Option<T>]) -> Result<()> {
    if let Some(hits) = hits {
        for (word, found) in slice(hits).iter_mut().zip(found.chunks(32)) {
            *word = found.iter().enumerate().fold(0, |word, (i, found)| word | u32::from(found.is_some()) << i);
        }
    }
    Ok(())
}
