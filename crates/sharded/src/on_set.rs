//! Queries of sets in device form.

use crate::on_shards::{OnShards, device_methods};
use crate::range_router::{Rows, Starts, Wanted};
use crate::set::ShardedSet;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::fixed::{DeviceRanges, Side, Uses};
use lanetree_frame::{AnyKey, Buffer, Result, Stream};

impl<K: AnyKey> ShardedSet<K> {
    /// The set's queries on a stream of one of its devices, as [`Sharded::on`](crate::Sharded::on): buffers of that device go in and
    /// out, and the shards of all devices answer. The host waits as it does there.
    ///
    /// ```
    /// use lanetree::{Device, LaneSet, ShardedSet};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let devices = [Device::emulated(), Device::emulated()];
    /// let keys: Vec<u64> = (0..1000).map(|i| i * 7).collect();
    /// let set = ShardedSet::build(&devices, LaneSet::builder(), &keys)?;
    /// let stream = devices[1].stream()?;
    /// let (queries, mut hits) = (devices[1].upload(&[6993_u64, 15, 14])?, devices[1].alloc(1)?);
    /// set.on(&stream).contains(&queries, &mut hits)?;
    /// assert_eq!(hits.to_vec()?, [0b101]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on<'a>(&'a self, stream: &'a Stream) -> SetOnDevices<'a, K> {
        SetOnDevices(OnShards::new(self, stream))
    }
}

/// Queries of a [`ShardedSet`] in device form: see [`ShardedSet::on`].
#[derive(Debug)]
pub struct SetOnDevices<'a, K: AnyKey>(OnShards<'a, ShardedSet<K>>);

lanetree_frame::query_options! {
    impl['a, K: AnyKey] SetOnDevices<'a, K>, |view| view.0.options => hits, limit, limits
}

device_methods!(impl[K: AnyKey] SetOnDevices<'_, K>, K);

impl<K: AnyKey> SetOnDevices<'_, K> {
    /// Finds the last key at or below each query, which goes to `keys[i]`; if there is none, `keys[i]` is unspecified. Uses
    /// [`hits`](Self::hits). The first such call after a change asks every shard for its first and its last key.
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn predecessor(self, queries: &Buffer<K>, keys: &mut Buffer<K>) -> Result<()> {
        self.0.neighbor(Side::Upper, queries, keys, None)
    }

    /// Finds the first key at or above each query; otherwise like [`SetOnDevices::predecessor`].
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn successor(self, queries: &Buffer<K>, keys: &mut Buffer<K>) -> Result<()> {
        self.0.neighbor(Side::Lower, queries, keys, None)
    }

    /// The keys of each range from `starts[i]` to `ends[i]`, both inclusive, from all shards; the values of the output take no memory.
    /// Uses [`limit`](Self::limit) and [`limits`](Self::limits). Otherwise as [`OnDevices::range`](crate::OnDevices::range).
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`]; [`Error::OutputLength`] not for too small a capacity: that shows in the last offset;
    /// [`Error::BoundLengths`] unless there are as many ends as starts.
    pub fn range(&self, starts: &Buffer<K>, ends: &Buffer<K>, out: &mut DeviceRanges<K, ()>) -> Result<()> {
        self.0.options.check("range", Uses::Limits)?;
        let (bounds, capacity) = (self.0.bounds(starts, ends)?, out.keys.len());
        self.0.check("the offsets' buffer", bounds.count.saturating_add(1), &out.offsets)?;
        self.0.check("the keys' buffer", 0, &out.keys)?;
        let (starts, keys) = (Starts::Packed { offsets: &mut out.offsets, probes: None }, Some(&mut out.keys));
        self.0.ranges(bounds, Wanted::Rows(Rows { starts, keys, values: None, capacity }))
    }

    /// Copies the first `limit` keys at or above each of `starts`: those of query `i` go to `keys[i * limit..]`, and their number
    /// to `counts[i]`. It waits as [`range`](Self::range) does.
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn scan(&self, starts: &Buffer<K>, limit: u32, keys: &mut Buffer<K>, counts: &mut Buffer<u32>) -> Result<()> {
        self.0.scan(starts, limit, keys, None, counts)
    }
}
