//! Queries in device form.

use crate::on_shards::{OnShards, Outputs, device_methods};
use crate::range_router::{Bounds, Probes, Rows, Starts, Wanted};
use crate::sharded::Sharded;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{DeviceRanges, FixedIndex, Side, Uses, check_ranges};
use lanetree_frame::{AnyKey, Buffer, OrderedIndex, Result, Stream, Word};

impl<I: FixedIndex<Value: Word>> Sharded<I> {
    /// The index's queries on a stream of one of its devices: buffers of that device go in and out, and the shards of all devices
    /// answer.
    ///
    /// A batch is cut into pieces. The batch's device partitions each piece by shard and sends each device its shards' queries; then
    /// it puts the results into the batch's order. A sorted batch is cut at the shards' borders instead: its parts are
    /// copied as they are, and their results straight to their places. The host waits until each piece is partitioned, to know how many queries to copy. (It also
    /// waits for earlier batches if this one needs more memory, and for the check that a sorted batch ascends.) The rest may go on
    /// after the return, in the stream's order. Dropping results waits for them. The index keeps the memory of a batch for the next
    /// one, on each device: about 70 bytes for each of up to 2^24 queries.
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
pub struct OnDevices<'a, I: OrderedIndex<Domain: AnyKey>>(pub(crate) OnShards<'a, Sharded<I>>);

lanetree_frame::query_options! {
    impl['a, I: OrderedIndex<Domain: AnyKey>] OnDevices<'a, I>, |view| view.0.options =>
        hits, miss(I::Value), limit, limits, joins
}

device_methods!(impl[K: AnyKey, I: OrderedIndex<Domain = K>] OnDevices<'_, I>, K);

impl<'a, K: AnyKey, I: OrderedIndex<Domain = K>> OnDevices<'a, I> {
    pub(crate) fn new(index: &'a Sharded<I>, stream: &'a Stream) -> Self {
        Self(OnShards::new(index, stream))
    }

    /// Looks up `queries`: `values[i]` becomes the value of key `queries[i]`, or [`miss`](Self::miss) if there is no such key.
    /// `values` must have at least one element per query; elements past these are not touched. Uses [`hits`](Self::hits).
    ///
    /// # Errors
    /// As [`OnDevices::contains`].
    pub fn get(mut self, queries: &Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.0.options.check("get", Uses::Hits)?;
        let (hits, miss) = (self.0.options.hits.take(), self.0.options.miss());
        self.0.look_up(queries.len(), queries, None, Outputs { keys: None, values: Some(values), hits, miss })
    }

    /// Finds the last pair whose key is at or below each query: its key goes to `keys[i]` and its value to `values[i]`; if there is
    /// none, `values[i]` becomes [`miss`](Self::miss) and `keys[i]` is unspecified. Uses [`hits`](Self::hits).
    ///
    /// The first such call after a change asks every shard for its first and its last pair, and waits for them.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn predecessor(self, queries: &Buffer<K>, keys: &mut Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.0.neighbor(Side::Upper, queries, keys, Some(values))
    }

    /// Finds the first pair whose key is at or above each query; otherwise like [`OnDevices::predecessor`].
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn successor(self, queries: &Buffer<K>, keys: &mut Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.0.neighbor(Side::Lower, queries, keys, Some(values))
    }

    /// Finds the pairs of the ranges from `starts[i]` to `ends[i]`, both inclusive, in ascending order of their keys, from all shards.
    /// A range whose end is below its start is empty. Uses [`limit`](Self::limit) and [`limits`](Self::limits). The capacity is that of
    /// `out`, as with one index. There is no scratch memory to pass: the index keeps about 32 bytes per range and shard on each device,
    /// and memory for the pairs, there and on the batch's device.
    ///
    /// All shards get all ranges at the same time, and the batch's device puts their pairs together. The host waits for the number of
    /// pairs in each shard, to copy them; the rest may go on after the return, in the stream's order.
    ///
    /// # Errors
    /// As [`OnDevices::get`]; [`Error::OutputLength`] not for too small a capacity: that shows in the last offset;
    /// [`Error::BoundLengths`] unless there are as many ends as starts.
    pub fn range(&self, starts: &Buffer<K>, ends: &Buffer<K>, out: &mut DeviceRanges<K, I::Value>) -> Result<()> {
        self.0.options.check("range", Uses::Limits)?;
        self.rows(self.0.bounds(starts, ends)?, None, out)
    }

    /// Copies the first pairs whose keys are at or above each of `starts`, at most `limit` of each and in ascending order, from all
    /// shards: those of `starts[i]` go to `keys[i * limit..]` and `values[i * limit..]`, and `counts[i]` becomes their number.
    /// Elements past them are not touched. It waits as [`range`](Self::range) does.
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
        self.0.scan(starts, limit, keys, Some(values), counts)
    }

    /// Copies all pairs, in ascending order of their keys. Elements past them are not changed. It waits as [`range`](Self::range)
    /// does.
    ///
    /// # Errors
    /// As [`OnDevices::get`].
    pub fn pairs(&self, keys: &mut Buffer<K>, values: &mut Buffer<I::Value>) -> Result<()> {
        self.0.options.check("pairs", Uses::Nothing)?;
        let (device, len) = (self.0.stream.device(), self.0.index.len() as usize);
        let (starts, ends, mut offsets) = (device.upload(&[K::MIN])?, device.upload(&[K::MAX])?, device.alloc(2)?);
        let bounds = self.0.bounds(&starts, &ends)?;
        self.0.check("the keys' buffer", len, keys)?;
        self.0.check("the values' buffer", len, values)?;
        let starts = Starts::Packed { offsets: &mut offsets, probes: None };
        let rows = Rows { starts, keys: Some(keys), values: Some(values), capacity: len };
        self.0.ranges(bounds, Wanted::Rows(rows))
    }

    /// The pairs of ranges or, in a join, of its probes.
    pub(crate) fn rows(
        &self,
        bounds: Bounds<'_, K>,
        probes: Option<Probes<'_>>,
        out: &mut DeviceRanges<K, I::Value>,
    ) -> Result<()> {
        check_ranges(self, bounds.count, out)?;
        let (capacity, starts) = (out.capacity(), Starts::Packed { offsets: &mut out.offsets, probes });
        let (keys, values) = ((!out.keys.is_empty()).then_some(&mut out.keys), Some(&mut out.values));
        self.0.ranges(bounds, Wanted::Rows(Rows { starts, keys, values, capacity }))
    }
}

impl<I: OrderedIndex<Domain: AnyKey>> core::fmt::Debug for OnDevices<'_, I> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}
