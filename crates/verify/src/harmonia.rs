//! One tree and its oracle, side by side.

use super::answer::Answer;
use super::bounds::{Bounds, bound_pair};
use super::cases::{Check, Miss, Tree};
use super::compare::{Difference, Output, Sabotage, Written, bits_differ, items_differ};
use super::data::{self, Batch, RangeBatch};
use lanetree::BatchOrder;
use lanetree::harmonia::{ChildRegion, GroupWidth, NodeReading, OnStream, PsaScratch, QuerySort};
use lanetree::{Buffer, Device, Harmonia, Key, KeyRange, RangeScratch, Result, Stream, Word};
use lanetree_base::parallel::sort_unstable_by;
use lanetree_baselines::oracle::Oracle;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// A batch of queries, here and on the device.
struct Queries<K> {
    keys: Vec<K>,
    buffer: Buffer<K>,
}

/// A tree on a device, and what it should answer.
pub(crate) struct Subject<K: Key, V: Word> {
    spec: Tree,
    seed: u64,
    sabotage: Option<Sabotage>,
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) tree: Harmonia<K, V>,
    pub(crate) oracle: Oracle<K, V>,
    pub(crate) scratch: RangeScratch,
    queries: HashMap<Batch, Arc<Queries<K>>>,
    bounds: HashMap<RangeBatch, Arc<Bounds<K>>>,
}

impl<K: Key, V: Word> Subject<K, V> {
    pub(crate) fn build(spec: Tree, seed: u64, sabotage: Option<Sabotage>, device: &Device) -> Result<Self> {
        let mut rng = data::rng(seed, &spec.name());
        let mut keys: Vec<K> = spec.distribution.keys(spec.len, &mut rng);
        let mut values: Vec<V> = data::values(spec.len, &mut rng);
        if spec.sorted() {
            sort_unstable_by(&mut keys, Ord::cmp);
        }
        let oracle = Oracle::new(&keys, &values);
        if sabotage == Some(Sabotage::Tree) && !keys.is_empty() {
            let smallest = oracle.pairs()[0].0;
            (keys, values) = keys.iter().zip(&values).filter(|pair| *pair.0 != smallest).unzip();
        }
        let builder = Harmonia::<K, V>::builder().fanout(spec.fanout).fill(spec.fill);
        let tree = if spec.sorted() {
            builder.build_sorted(device, &keys, &values)?
        } else {
            builder.build(device, &keys, &values)?
        };
        Ok(Self {
            spec,
            seed,
            sabotage,
            device: device.clone(),
            stream: device.stream()?,
            tree,
            oracle,
            // One for all batches: what the one before left in it must not matter.
            scratch: RangeScratch::new(device, spec.ranges + 3)?,
            queries: HashMap::new(),
            bounds: HashMap::new(),
        })
    }

    pub(crate) fn run(&mut self, check: Check) -> Result<Answer> {
        match check {
            Check::Get { batch, lanes, child, reading, hits, miss } => {
                self.get(batch, lanes, (child, reading), hits, miss)
            }
            Check::GetSorted { batch, sort, hits } => self.get_sorted(batch, sort, hits),
            Check::GetBySorting { batch, bits, hits } => self.get_by_sorting(batch, bits, hits),
            Check::Rank { batch, upper } => self.rank(batch, upper),
            Check::Neighbor { batch, predecessor, hits, miss } => self.neighbor(batch, predecessor, hits, miss),
            Check::Range { batch, limit, room } => self.range(batch, limit, room),
            Check::Count { batch, limit } => self.count(batch, limit),
            Check::GetMany { batch } => self.get_many(batch),
            Check::RankMany { batch, upper } => self.rank_many(batch, upper),
            Check::NeighborMany { batch, predecessor } => self.neighbor_many(batch, predecessor),
            Check::RangeMany { batch } => self.range_many(batch, false),
            Check::CountMany { batch } => self.range_many(batch, true),
            Check::Iterate => self.iterate(),
        }
    }

    fn load(&mut self, batch: Batch) -> Result<Arc<Queries<K>>> {
        if let Some(queries) = self.queries.get(&batch) {
            return Ok(queries.clone());
        }
        let mut rng = data::rng(self.seed, &format!("{}/{}", self.spec.name(), batch.name()));
        // One more or less for each batch: whole tiles, and tiles of which a part is missing.
        let len = (self.spec.batch + self.queries.len()).saturating_sub(3).max(1);
        let keys = batch.queries(&self.oracle, len, &mut rng);
        let queries = Arc::new(Queries { buffer: self.device.upload(&keys)?, keys });
        self.queries.insert(batch, queries.clone());
        Ok(queries)
    }

    pub(crate) fn load_bounds(&mut self, batch: RangeBatch) -> Result<Arc<Bounds<K>>> {
        if let Some(bounds) = self.bounds.get(&batch) {
            return Ok(bounds.clone());
        }
        let mut rng = data::rng(self.seed, &format!("{}/ranges-{}", self.spec.name(), batch.name()));
        let (starts, ends) = batch.bounds(&self.oracle, self.spec.ranges, self.spec.longest, &mut rng);
        let bounds = Arc::new(Bounds::new(&self.device, starts, ends)?);
        self.bounds.insert(batch, bounds.clone());
        Ok(bounds)
    }

    pub(crate) fn sabotage(&self) -> Option<Sabotage> {
        self.sabotage
    }

    fn miss_value(&self, miss: Miss) -> V {
        let pairs = self.oracle.pairs();
        match miss {
            Miss::Zero => V::MIN,
            Miss::Stored if !pairs.is_empty() => pairs[pairs.len() / 2].1,
            Miss::Max | Miss::Stored => V::MAX,
        }
    }

    fn get(
        &mut self,
        batch: Batch,
        lanes: Option<u32>,
        (child, reading): (ChildRegion, NodeReading),
        hits: bool,
        miss: Miss,
    ) -> Result<Answer> {
        let queries = self.load(batch)?;
        let order = if queries.keys.is_sorted() { BatchOrder::Sorted } else { BatchOrder::Clustered };
        let width = lanes.map_or(GroupWidth::Auto, GroupWidth::Lanes);
        let on = self.tree.on(&self.stream).child_region(child).reading(reading).group(width).order(order);
        self.get_on(on, &queries, hits, self.miss_value(miss))
    }

    fn get_sorted(&mut self, batch: Batch, sort: bool, hits: bool) -> Result<Answer> {
        let mut queries = self.load(batch)?;
        if sort {
            let mut keys = queries.keys.clone();
            keys.sort_unstable();
            queries = Arc::new(Queries { buffer: self.device.upload(&keys)?, keys });
        }
        let on = self.tree.on(&self.stream).order(BatchOrder::Sorted);
        self.get_on(on, &queries, hits, self.miss_value(Miss::Stored))
    }

    fn get_by_sorting(&mut self, batch: Batch, bits: Option<u32>, hits: bool) -> Result<Answer> {
        let queries = self.load(batch)?;
        let (keys, miss) = (&queries.keys, self.miss_value(Miss::Max));
        let mut scratch = PsaScratch::<K, V>::new(&self.device, keys.len())?;
        let sort = bits.map_or(QuerySort::Full, QuerySort::TopBits);
        self.compare_get(&queries, hits, miss, |values, bits| {
            self.tree.on(&self.stream).hits(bits).miss(miss).get_by_sorting(sort, &queries.buffer, values, &mut scratch)
        })
    }

    fn get_on(&self, on: OnStream<'_, K, V>, queries: &Queries<K>, hits: bool, miss: V) -> Result<Answer> {
        self.compare_get(queries, hits, miss, |values, bits| on.hits(bits).miss(miss).get(&queries.buffer, values))
    }

    /// Compares what a look-up writes with what is right.
    fn compare_get(
        &self,
        queries: &Queries<K>,
        hits: bool,
        miss: V,
        get: impl FnOnce(&mut Buffer<V>, Option<&mut Buffer<u32>>) -> Result<()>,
    ) -> Result<Answer> {
        let keys = &queries.keys;
        let mut values = Output::<V>::new(&self.device, "values", keys.len())?;
        let mut bits = self.hit_mask(hits, keys.len())?;
        let start = Instant::now();
        get(&mut values.buffer, bits.as_mut().map(|bits| &mut bits.buffer))?;
        self.stream.synchronize()?;
        let time = start.elapsed();
        let query = |i: usize| keys[i].to_string();
        let values = values.read(self.sabotage)?;
        let mut difference = values.differs(&|i| Some(self.oracle.get(keys[i]).unwrap_or(miss)), &query);
        if let (Some(bits), None) = (bits, &difference) {
            let bits = bits.read(self.sabotage)?;
            difference = bits_differ(&bits, keys.len(), &|i| self.oracle.get(keys[i]).is_some(), &query);
        }
        Ok(Answer { queries: keys.len(), time, difference })
    }

    fn hit_mask(&self, wanted: bool, queries: usize) -> Result<Option<Output<u32>>> {
        wanted.then(|| Output::new(&self.device, "hit mask", queries.div_ceil(32))).transpose()
    }

    fn rank(&mut self, batch: Batch, upper: bool) -> Result<Answer> {
        let queries = self.load(batch)?;
        let keys = &queries.keys;
        let mut ranks = Output::<u64>::new(&self.device, "ranks", keys.len())?;
        let on = self.tree.on(&self.stream);
        let start = Instant::now();
        if upper {
            on.upper_bound(&queries.buffer, &mut ranks.buffer)?;
        } else {
            on.lower_bound(&queries.buffer, &mut ranks.buffer)?;
        }
        self.stream.synchronize()?;
        let time = start.elapsed();
        let difference =
            ranks.read(self.sabotage)?.differs(&|i| Some(self.true_rank(keys[i], upper)), &|i| keys[i].to_string());
        Ok(Answer { queries: keys.len(), time, difference })
    }

    fn true_rank(&self, key: K, upper: bool) -> u64 {
        let rank = if upper { self.oracle.upper_bound(key) } else { self.oracle.lower_bound(key) };
        rank as u64
    }

    fn true_neighbor(&self, key: K, predecessor: bool) -> Option<(K, V)> {
        if predecessor { self.oracle.predecessor(key) } else { self.oracle.successor(key) }
    }

    fn neighbor(&mut self, batch: Batch, predecessor: bool, hits: bool, miss: Miss) -> Result<Answer> {
        let queries = self.load(batch)?;
        let (keys, miss) = (&queries.keys, self.miss_value(miss));
        let mut found_keys = Output::<K>::new(&self.device, "keys", keys.len())?;
        let mut values = Output::<V>::new(&self.device, "values", keys.len())?;
        let mut bits = self.hit_mask(hits, keys.len())?;
        let on = self.tree.on(&self.stream).hits(bits.as_mut().map(|bits| &mut bits.buffer)).miss(miss);
        let start = Instant::now();
        if predecessor {
            on.predecessor(&queries.buffer, &mut found_keys.buffer, &mut values.buffer)?;
        } else {
            on.successor(&queries.buffer, &mut found_keys.buffer, &mut values.buffer)?;
        }
        self.stream.synchronize()?;
        let time = start.elapsed();
        let expected = |i: usize| self.true_neighbor(keys[i], predecessor);
        let query = |i: usize| keys[i].to_string();
        let values = values.read(self.sabotage)?;
        let mut difference = values.differs(&|i| Some(expected(i).map_or(miss, |pair| pair.1)), &query);
        if difference.is_none() {
            // Anything may stand where there is no neighbour.
            difference = found_keys.read(self.sabotage)?.differs(&|i| expected(i).map(|pair| pair.0), &query);
        }
        if let (Some(bits), None) = (bits, &difference) {
            difference = bits_differ(&bits.read(self.sabotage)?, keys.len(), &|i| expected(i).is_some(), &query);
        }
        Ok(Answer { queries: keys.len(), time, difference })
    }

    fn get_many(&mut self, batch: Batch) -> Result<Answer> {
        let queries = self.load(batch)?;
        let keys = &queries.keys;
        let start = Instant::now();
        let values = self.tree.get_many(keys)?;
        let time = start.elapsed();
        let difference =
            items_differ("results", &values, keys.len(), &|i| self.oracle.get(keys[i]), &|i| keys[i].to_string());
        Ok(Answer { queries: keys.len(), time, difference })
    }

    fn rank_many(&mut self, batch: Batch, upper: bool) -> Result<Answer> {
        let queries = self.load(batch)?;
        let keys = &queries.keys;
        let start = Instant::now();
        let ranks = if upper { self.tree.upper_bound_many(keys)? } else { self.tree.lower_bound_many(keys)? };
        let time = start.elapsed();
        let difference =
            items_differ("ranks", &ranks, keys.len(), &|i| self.true_rank(keys[i], upper), &|i| keys[i].to_string());
        Ok(Answer { queries: keys.len(), time, difference })
    }

    fn neighbor_many(&mut self, batch: Batch, predecessor: bool) -> Result<Answer> {
        let queries = self.load(batch)?;
        let keys = &queries.keys;
        let start = Instant::now();
        let pairs = if predecessor { self.tree.predecessor_many(keys)? } else { self.tree.successor_many(keys)? };
        let time = start.elapsed();
        let expected = |i: usize| self.true_neighbor(keys[i], predecessor);
        let difference = items_differ("neighbours", &pairs, keys.len(), &expected, &|i| keys[i].to_string());
        Ok(Answer { queries: keys.len(), time, difference })
    }

    fn range_many(&mut self, batch: RangeBatch, count_only: bool) -> Result<Answer> {
        let bounds = self.load_bounds(batch)?;
        let count = bounds.starts.len();
        // The host form takes every kind of bound, and refuses reversed ones.
        let limit = |i: usize| [u64::MAX, 50, 3, 0][i % 4].min(if count_only { u64::MAX } else { 300 });
        let pairs: Vec<_> = (0..count).map(|i| bound_pair(i, bounds.starts[i], bounds.ends[i])).collect();
        let ranges = || pairs.iter().enumerate().map(|(i, &pair)| KeyRange::new(pair).limit(limit(i)));
        let expected = |i: usize| self.oracle.range(pairs[i], limit(i));
        let query = |i: usize| format!("{:?}, limit {}", pairs[i], limit(i));
        let start = Instant::now();
        if count_only {
            let counts = self.tree.count_range_many(ranges())?;
            let time = start.elapsed();
            let difference = items_differ("counts", &counts, count, &|i| expected(i).len() as u64, &query);
            return Ok(Answer { queries: count, time, difference });
        }
        let found = self.tree.range_many(ranges())?;
        let time = start.elapsed();
        let rows: Vec<Vec<(K, V)>> =
            found.iter().map(|(keys, values)| keys.iter().copied().zip(values.iter().copied()).collect()).collect();
        let difference = items_differ("pairs", &rows, count, &|i| expected(i).to_vec(), &query);
        Ok(Answer { queries: count, time, difference })
    }

    fn iterate(&mut self) -> Result<Answer> {
        let start = Instant::now();
        let pairs = self.tree.iter().collect::<Result<Vec<_>>>()?;
        let time = start.elapsed();
        let expected = self.oracle.pairs();
        let mut difference = items_differ("pairs", &pairs, expected.len(), &|i| expected[i], &|i| i.to_string());
        let (stats, len) = (self.tree.stats(), expected.len() as u64);
        let fits = stats.leaves * u64::from(stats.fanout) >= len && stats.fanout == self.spec.fanout;
        if difference.is_none() && !((self.tree.len(), stats.len, self.tree.is_empty()) == (len, len, len == 0) && fits)
        {
            let (query, expected) = ("all".into(), format!("{len} pairs"));
            difference = Some(Difference { what: "stats", index: 0, query, expected, actual: format!("{stats:?}") });
        }
        Ok(Answer { queries: pairs.len(), time, difference })
    }

    /// Reads an output that was filled as far as `promised`.
    pub(crate) fn written<T: bytemuck::Pod + PartialEq + core::fmt::Debug + Send + Sync>(
        &self,
        buffer: &Buffer<T>,
        what: &'static str,
        promised: usize,
    ) -> Result<Written<T>> {
        Written::read(buffer, what, promised, self.sabotage)
    }
}
