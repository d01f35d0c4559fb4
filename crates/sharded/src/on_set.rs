//! Queries of sets in device form.

use crate::keys_only::KeysOnly;
use crate::on_devices::{put_hits, slice};
use crate::question::{Queries, Question, Shard, Shards};
use crate::range_router::{Bounds, Wanted};
use crate::ranges;
use crate::set::ShardedSet;
use bytemuck::Pod;
use lanetree_frame::error::{check_bounds, check_buffer, same_device};
use lanetree_frame::fixed::{DeviceRanges, FixedIndex, QueryOptions, Uses};
use lanetree_frame::{AnyKey, Buffer, DeviceKind, Error, KeyRange, Result, Stream};
use lanetree_simt::GlobalMut;

impl<K: AnyKey> ShardedSet<K> {
    /// The set's queries on a stream of one of its devices, as [`Sharded::on`](crate::Sharded::on): buffers of that device go in and
    /// out, and the shards of all devices answer. The host waits until each piece of the batch is divided.
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
        SetOnDevices { set: self, stream, is_sorted: false, options: QueryOptions::default() }
    }
}

/// Queries of a [`ShardedSet`] in device form: see [`ShardedSet::on`].
#[derive(Debug)]
pub struct SetOnDevices<'a, K: AnyKey> {
    set: &'a ShardedSet<K>,
    stream: &'a Stream,
    is_sorted: bool,
    options: QueryOptions<'a, ()>,
}

lanetree_frame::query_options! {
    impl['a, K: AnyKey] SetOnDevices<'a, K>, |view| view.options => hits, limit, limits
}

impl<K: AnyKey> SetOnDevices<'_, K> {
    /// Declares that the queries ascend, as [`OnDevices::sorted`](crate::OnDevices::sorted): a hint.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self { is_sorted: true, ..self }
    }

    /// Which of `queries` are in the set: `hits` becomes the hit mask, as of [`hits`](Self::hits).
    ///
    /// # Errors
    /// [`Error::OutputLength`]; [`Error::UnusedOption`]; [`Error::OptionValue`] if the shards' devices are of several kinds;
    /// [`Error::Lost`]; [`Error::Runtime`] for a stream of a device that has no shard, for buffers of another device than the
    /// stream's, if a device has no room, and from the devices. After an error the outputs are unspecified.
    pub fn contains(&self, queries: &Buffer<K>, hits: &mut Buffer<u32>) -> Result<()> {
        self.options.check("contains", Uses::Nothing)?;
        let count = self.begin(queries)?;
        self.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        if let Some(queries) = self.on_host(queries) {
            let found: Vec<_> = self.set.contains_many(queries)?.into_iter().map(|found| found.then_some(())).collect();
            return put_hits(Some(hits), &found);
        }
        let hits = hits.write_on_from_peers(self.stream)?;
        self.run(queries, &Question::Contains { hits })
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys below `queries[i]`, of all shards.
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn lower_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.rank(queries, ranks, false)
    }

    /// Ranks `queries`: `ranks[i]` becomes the number of keys at or below `queries[i]`, of all shards.
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn upper_bound(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>) -> Result<()> {
        self.rank(queries, ranks, true)
    }

    /// Finds the last key at or below each query, which goes to `keys[i]`; if there is none, `keys[i]` is unspecified. Uses
    /// [`hits`](Self::hits). The first such call after a change asks every shard for its first and its last key.
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn predecessor(self, queries: &Buffer<K>, keys: &mut Buffer<K>) -> Result<()> {
        self.neighbor(queries, keys, true)
    }

    /// Finds the first key at or above each query; otherwise like [`SetOnDevices::predecessor`].
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn successor(self, queries: &Buffer<K>, keys: &mut Buffer<K>) -> Result<()> {
        self.neighbor(queries, keys, false)
    }

    /// The keys of each range from `starts[i]` to `ends[i]`, both inclusive, whatever shards they are in; the values of the output take
    /// no memory. Uses [`limit`](Self::limit) and [`limits`](Self::limits). Otherwise as [`OnDevices::range`](crate::OnDevices::range).
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`]; [`Error::OutputLength`] not for too small a capacity: that shows in the last offset;
    /// [`Error::BoundLengths`] unless there are as many ends as starts.
    pub fn range(&self, starts: &Buffer<K>, ends: &Buffer<K>, out: &mut DeviceRanges<K, ()>) -> Result<()> {
        self.options.check("range", Uses::Limits)?;
        let count = self.begin_ranges(starts, ends)?;
        self.check("the offsets' buffer", count.saturating_add(1), &out.offsets)?;
        self.check("the keys' buffer", 0, &out.keys)?;
        let room = out.keys.len();
        if self.stream.device().kind() == DeviceKind::Host {
            let found = self.set.range_many(self.ranges_on_host(starts, Some(ends), None)?)?;
            slice(&mut out.offsets)[..=count].copy_from_slice(&found.offsets);
            let keys = found.keys.len().min(room);
            slice(&mut out.keys)[..keys].copy_from_slice(&found.keys[..keys]);
            return Ok(());
        }
        let wanted =
            Wanted::Rows { offsets: &mut out.offsets, keys: Some(&mut out.keys), values: None, room, probes: None };
        self.run_ranges(starts, Some(ends), self.options.limit, wanted)
    }

    /// Counts the keys of ranges, as [`range`](Self::range) would find them, into `counts[i]`. The host waits for nothing.
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn count_range(&self, starts: &Buffer<K>, ends: &Buffer<K>, counts: &mut Buffer<u64>) -> Result<()> {
        self.options.check("count_range", Uses::Limits)?;
        let count = self.begin_ranges(starts, ends)?;
        self.check("the counts' buffer", count, counts)?;
        if self.stream.device().kind() == DeviceKind::Host {
            let found = self.set.count_range_many(self.ranges_on_host(starts, Some(ends), None)?)?;
            slice(counts)[..count].copy_from_slice(&found);
            return Ok(());
        }
        self.run_ranges(starts, Some(ends), self.options.limit, Wanted::Counts(counts))
    }

    /// Copies the first `limit` keys at or above each of `starts`: those of query `i` go to `keys[i * limit..]`, and how many there
    /// are to `counts[i]`. It waits as [`range`](Self::range) does.
    ///
    /// # Errors
    /// As [`SetOnDevices::contains`].
    pub fn scan(&self, starts: &Buffer<K>, limit: u32, keys: &mut Buffer<K>, counts: &mut Buffer<u32>) -> Result<()> {
        self.options.check("scan", Uses::Nothing)?;
        let (count, stride) = (self.begin(starts)?, limit as usize);
        self.check("the keys' buffer", count.saturating_mul(stride), keys)?;
        self.check("the counts' buffer", count, counts)?;
        if self.stream.device().kind() == DeviceKind::Host {
            let found = self.set.range_many(self.ranges_on_host(starts, None, Some(u64::from(limit)))?)?;
            let (keys, counts) = (slice(keys), slice(counts));
            for i in 0..count {
                let row = found.get(i);
                keys[i * stride..i * stride + row.len()].copy_from_slice(row);
                counts[i] = row.len() as u32;
            }
            return Ok(());
        }
        self.run_ranges(starts, None, u64::from(limit), Wanted::Strided { counts, keys, values: None, stride })
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
        let limit = limit.unwrap_or(self.options.limit);
        ranges::on_host(starts.len(), starts, ends, self.options.limits, limit)
    }

    fn run_ranges(
        &self,
        starts: &Buffer<K>,
        ends: Option<&Buffer<K>>,
        limit: u64,
        wanted: Wanted<'_, K, u32>,
    ) -> Result<()> {
        // `begin` has asked for them.
        let Some(trees) = self.set.routed()? else { return Ok(()) };
        let bounds = Bounds { count: starts.len(), starts, ends, limits: self.options.limits, limit };
        self.set.ranges().run(&shards_of(&trees), self.stream, bounds, wanted)
    }

    fn rank(&self, queries: &Buffer<K>, ranks: &mut Buffer<u64>, upper: bool) -> Result<()> {
        self.options.check(if upper { "upper_bound" } else { "lower_bound" }, Uses::Nothing)?;
        let count = self.begin(queries)?;
        self.check("the ranks' buffer", count, ranks)?;
        if let Some(queries) = self.on_host(queries) {
            let found = match upper {
                true => self.set.upper_bound_many(queries)?,
                false => self.set.lower_bound_many(queries)?,
            };
            slice(ranks)[..count].copy_from_slice(&found);
            return Ok(());
        }
        let before = &self.set.parts().before;
        let ranks = ranks.write_on_from_peers(self.stream)?;
        self.run(queries, &Question::Rank { ranks, upper, before: &before[..before.len() - 1] })
    }

    fn neighbor(mut self, queries: &Buffer<K>, keys: &mut Buffer<K>, upper: bool) -> Result<()> {
        self.options.check(if upper { "predecessor" } else { "successor" }, Uses::Hits)?;
        let (hits, count) = (self.options.hits.take(), self.begin(queries)?);
        self.check("the keys' buffer", count, keys)?;
        hits.as_deref().map_or(Ok(()), |hits| self.check("the hit mask's buffer", count.div_ceil(32), hits))?;
        if let Some(queries) = self.on_host(queries) {
            let found = match upper {
                true => self.set.predecessor_many(queries)?,
                false => self.set.successor_many(queries)?,
            };
            for (key, found) in slice(keys).iter_mut().zip(&found) {
                *key = found.unwrap_or(*key);
            }
            return put_hits(hits, &found);
        }
        let fallbacks = self.set.fallbacks(upper)?;
        let keys = keys.write_on_from_peers(self.stream)?.cast();
        let hits = hits.map_or(Ok(GlobalMut::null()), |hits| hits.write_on_from_peers(self.stream))?;
        self.run(
            queries,
            &Question::Neighbor { keys, values: GlobalMut::null(), hits, miss: 0, upper, fallbacks: &fallbacks },
        )
    }

    /// Checks what all calls need; how many queries there are.
    fn begin(&self, queries: &Buffer<K>) -> Result<usize> {
        let (shards, device) = (self.set.shards()?, self.stream.device());
        if shards.iter().all(|shard| shard.device() != device) {
            same_device(shards[0].device(), device, "the stream")?;
        }
        if device.kind() != DeviceKind::Host && self.set.routed()?.is_none() {
            let names: Vec<String> = shards.iter().map(|shard| shard.device().to_string()).collect();
            let (what, allowed) = ("the shards of a batch in device form", "GPUs, or emulated devices");
            return Err(Error::OptionValue { what, value: names.join(", "), allowed });
        }
        self.check("the queries' buffer", queries.len(), queries)?;
        Ok(queries.len())
    }

    fn check<T: Pod>(&self, what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
        check_buffer(self.stream.device(), what, expected, buffer)
    }

    /// The queries, if the host itself looks them up.
    fn on_host<'q>(&self, queries: &'q Buffer<K>) -> Option<&'q [K]> {
        (self.stream.device().kind() == DeviceKind::Host).then(|| queries.as_slice()).flatten()
    }

    fn run(&self, queries: &Buffer<K>, question: &Question<'_, K, u32>) -> Result<()> {
        // `begin` has asked for them.
        let Some(trees) = self.set.routed()? else { return Ok(()) };
        let shards = shards_of(&trees);
        let (at, count) = (queries.read_on(self.stream)?.cast(), queries.len());
        let (set, queries) = (self.set, Queries { at, count, is_sorted: self.is_sorted, is_spread: true });
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream, and for other devices' copies.
        unsafe { set.router().run(&shards, &set.parts().splitters, self.stream, queries, question) }
    }
}

fn shards_of<'t, K: AnyKey>(trees: &'t [KeysOnly<'_, K>]) -> Shards<'t, K, u32> {
    trees.iter().map(|tree| Shard { device: FixedIndex::device(tree.0), launches: tree }).collect()
}
