//! A tree on a device beside a sorted map that goes through the same.

use super::strings::{Packing, Strings, upload};
use crate::verify::compare::{Difference, Output, Sabotage, bits_differ, items_differ};
use core::time::Duration;
use lanetree::cuart::{ChangeScratch, Lanes, Link, LongKeys, RootTable, UpdateEngine};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceKind, Result, Stream, Word};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

pub(crate) type Model<V> = BTreeMap<Vec<u8>, V>;

/// The tree, what it should answer, and what was asked.
pub(crate) struct Subject<V: Word> {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) tree: Cuart<V>,
    pub(crate) model: Model<V>,
    pub(crate) sabotage: Option<Sabotage>,
    /// The longest key that the tree ever had.
    longest: usize,
    /// Calls.
    turn: usize,
    pub(crate) queries: usize,
    pub(crate) time: Duration,
    pub(crate) kernels: BTreeSet<String>,
}

/// A call with a batch of updates.
pub(crate) struct Updating<'a> {
    pub(crate) engine: UpdateEngine,
    pub(crate) scratch: &'a mut ChangeScratch,
    /// Operations of a batch from which on it is ordered.
    pub(crate) ordered_from: usize,
    /// Whether found bits are asked for.
    pub(crate) with_found: bool,
}

impl<V: Word> Subject<V> {
    /// Builds the tree.
    pub(crate) fn new(
        (strings, table): (Strings, RootTable),
        model: Model<V>,
        device: &Device,
        sabotage: Option<Sabotage>,
    ) -> Result<Self> {
        // The smallest key is the first.
        let lacking = usize::from(sabotage == Some(Sabotage::Tree));
        let keys: ByteKeysBuf = model.keys().skip(lacking).collect();
        let values: Vec<V> = model.values().skip(lacking).copied().collect();
        let long_keys = match strings {
            Strings::InMainMemory => LongKeys::HostLeaves,
            _ => LongKeys::DeviceLeaves,
        };
        let start = Instant::now();
        let tree = Cuart::builder().root_table(table).long_keys(long_keys).build(device, &keys, &values)?;
        let (longest, stream) = (model.keys().map(Vec::len).max().unwrap_or(0), device.stream()?);
        let (device, time) = (device.clone(), start.elapsed());
        let (turn, queries, kernels) = (0, 0, BTreeSet::new());
        Ok(Self { device, stream, tree, model, sabotage, longest, turn, queries, time, kernels })
    }

    /// Uploads a batch, each time in another packing.
    pub(crate) fn keys(&mut self, batch: &[Vec<u8>]) -> Result<DeviceKeys> {
        self.turn += 1;
        upload(&self.device, batch, Packing::ALL[self.turn % Packing::ALL.len()])
    }

    /// 8-byte words of the longest key, as kernels are compiled for.
    fn words(&self) -> usize {
        match self.longest {
            0..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            _ => 0,
        }
    }

    fn took(&mut self, start: Instant, queries: usize) {
        self.took_time(start.elapsed(), queries);
    }

    pub(crate) fn took_time(&mut self, time: Duration, queries: usize) {
        self.time += time;
        self.queries += queries;
    }

    pub(crate) fn ran(&mut self, kernel: String) {
        if self.device.kind() != DeviceKind::Host {
            self.kernels.insert(kernel);
        }
    }

    /// How many lanes compare a key, in turns.
    fn lanes(&self) -> Lanes {
        use Lanes::{Auto, Eight, Four, One, Two};
        [Auto, Two, One, Four, Eight][self.turn % 5]
    }

    fn ran_get(&mut self, lanes: Lanes) {
        let by = match lanes {
            // The library's choice is its own; each kernel has its turn besides.
            Lanes::Auto => return,
            Lanes::One => format!("w{}", self.words()),
            Lanes::Two => "tiled_2".into(),
            Lanes::Four => "tiled_4".into(),
            Lanes::Eight => "tiled_8".into(),
        };
        self.ran(format!("cuart__get_{by}_{}", V::NAME));
    }

    fn ran_update(&mut self, name: &str) {
        self.ran(format!("cuart_update__{name}"));
    }

    pub(crate) fn get(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys = self.keys(queries)?;
        self.get_keys(&keys, queries)
    }

    /// Looks up `queries`, which are `keys` on the device.
    pub(crate) fn get_keys(&mut self, keys: &DeviceKeys, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let (count, device) = (queries.len(), &self.device);
        let mut values = Output::<V>::new(device, "values", count)?;
        let mut found = Output::<u32>::new(device, "found", count.div_ceil(32))?;
        let start = Instant::now();
        let lanes = self.lanes();
        let on = self.tree.on(&self.stream).with_lanes(lanes);
        on.get(keys, &mut values.buffer, Some(&mut found.buffer), V::MAX)?;
        self.stream.synchronize()?;
        self.took(start, count);
        if count > 0 {
            self.ran_get(lanes);
        }
        let expected = |i: usize| Some(self.model.get(&queries[i]).copied().unwrap_or(V::MAX));
        let values = values.read(self.sabotage)?.differs(&expected, &|i| described(&queries[i]));
        Ok(values.or(self.found_differs(found, queries)?))
    }

    /// Looks up `queries` in a tree with leaves in main memory, and does the CPU's part.
    pub(crate) fn get_pending(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys = self.keys(queries)?;
        let (count, device) = (queries.len(), &self.device);
        let mut values = Output::<V>::new(device, "values", count)?;
        let mut found = Output::<u32>::new(device, "found", count.div_ceil(32))?;
        let mut pending = Output::<u32>::new(device, "pending", count.div_ceil(32))?;
        let start = Instant::now();
        let buffers = (&mut values.buffer, &mut found.buffer, &mut pending.buffer);
        let lanes = self.lanes();
        let on = self.tree.on(&self.stream).with_lanes(lanes);
        on.get_pending(&keys, buffers.0, buffers.1, buffers.2, V::MAX)?;
        self.stream.synchronize()?;
        self.took(start, count);
        if count > 0 {
            self.ran_get(lanes);
        }
        let (values, found, pending) =
            (values.read(self.sabotage)?, found.read(self.sabotage)?, pending.read(self.sabotage)?);
        let bit = |words: &[u32], i: usize| words[i / 32] >> (i % 32) & 1 == 1;
        let answer = |i: usize| match (bit(&found.elements, i), bit(&pending.elements, i)) {
            (true, false) => Ok(Some(values.elements[i])),
            (false, true) => match self.tree.host_leaf(values.elements[i].widen()) {
                Some((key, value)) => Ok((key == queries[i]).then_some(value)),
                None => Err("pending, and no such leaf"),
            },
            (false, false) if values.elements[i] != V::MAX => Err("another value than that of a miss"),
            (false, false) => Ok(None),
            (true, true) => Err("found and pending"),
        };
        let answers: Vec<_> = (0..count).map(answer).collect();
        let expected = |i: usize| Ok(self.model.get(&queries[i]).copied());
        let wrong = items_differ("values", &answers, count, &expected, &|i| described(&queries[i]));
        Ok(wrong.or(values.touched()).or(found.touched()).or(pending.touched()))
    }

    /// The host call.
    pub(crate) fn get_many(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let packed: ByteKeysBuf = queries.iter().collect();
        let start = Instant::now();
        let found = self.tree.get_many(&packed)?;
        self.took(start, queries.len());
        let expected = |i: usize| self.model.get(&queries[i]).copied();
        Ok(items_differ("results", &found, queries.len(), &expected, &|i| described(&queries[i])))
    }

    /// Finds the leaves' links.
    pub(crate) fn locate(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys = self.keys(queries)?;
        let mut links = Output::<Link>::new(&self.device, "links", queries.len())?;
        let start = Instant::now();
        self.tree.on(&self.stream).locate(&keys, &mut links.buffer)?;
        self.stream.synchronize()?;
        self.took(start, queries.len());
        if !queries.is_empty() {
            self.ran_update(&format!("locate_w{}", self.words()));
        }
        let links = links.read(self.sabotage)?;
        let found: Vec<bool> = links.elements[..queries.len()].iter().map(|link| !link.is_none()).collect();
        let expected = |i: usize| self.model.contains_key(&queries[i]);
        let wrong = items_differ("links", &found, found.len(), &expected, &|i| described(&queries[i]));
        Ok(wrong.or(links.touched()))
    }

    pub(crate) fn update(
        &mut self,
        batch: &[Vec<u8>],
        values: &[V],
        updating: Updating<'_>,
    ) -> Result<Option<Difference>> {
        let Updating { engine, scratch, ordered_from, with_found } = updating;
        // What is ordered has no offsets and no found bits.
        let keys = if with_found { self.keys(batch)? } else { upload(&self.device, batch, Packing::Fixed)? };
        let new = self.device.upload(values)?;
        let mut found = Output::<u32>::new(&self.device, "found by updates", batch.len().div_ceil(32))?;
        let start = Instant::now();
        self.tree.update_on(&self.stream, &keys, &new, with_found.then_some(&mut found.buffer), scratch)?;
        self.stream.synchronize()?;
        self.took(start, batch.len());
        if !batch.is_empty() {
            let ordered = keys.width().is_some_and(|width| width >= 4) && !with_found && batch.len() >= ordered_from;
            self.ran_engine(engine, ordered);
        }
        for (key, &value) in batch.iter().zip(values) {
            if let Some(old) = self.model.get_mut(key) {
                *old = value;
            }
        }
        if with_found { self.found_differs(found, batch) } else { Ok(None) }
    }

    /// Takes the numbers of operations away, so that they begin anew with the next batch.
    pub(crate) fn skip_sequence(&mut self, engine: UpdateEngine) {
        self.tree.skip_sequence(u32::MAX);
        let by_sequence = engine == UpdateEngine::Sequence || engine == UpdateEngine::Auto && self.has_sequence();
        if by_sequence && self.longest > 0 {
            self.ran_update("clear_sequence");
        }
    }

    fn has_sequence(&self) -> bool {
        V::BITS == 32 && self.words() > 0
    }

    fn ran_engine(&mut self, engine: UpdateEngine, ordered: bool) {
        let (words, value) = (self.words(), V::NAME);
        if ordered && engine == UpdateEngine::Auto {
            self.ran("cuart_keys__heads".into());
        }
        let by_sequence = self.has_sequence();
        let (first, second) = match engine {
            UpdateEngine::HashTable => (format!("claim_w{words}"), format!("conquer_{value}")),
            UpdateEngine::Sort => (format!("locate_w{words}"), format!("overwrite_{value}")),
            UpdateEngine::Auto | UpdateEngine::Sequence if by_sequence => (format!("latest_w{words}"), String::new()),
            _ => (format!("stamp_w{words}"), format!("write_stamped_{value}")),
        };
        self.ran_update(&first);
        if !second.is_empty() {
            self.ran_update(&second);
        }
    }

    pub(crate) fn insert(
        &mut self,
        batch: &[Vec<u8>],
        values: &[V],
        engine: UpdateEngine,
        scratch: &mut ChangeScratch,
    ) -> Result<Option<Difference>> {
        let keys = self.keys(batch)?;
        let new = self.device.upload(values)?;
        let words = self.words();
        let start = Instant::now();
        let report = self.tree.insert_on(&self.stream, &keys, &new, scratch)?;
        self.took(start, batch.len());
        let before = self.model.len();
        self.model.extend(batch.iter().cloned().zip(values.iter().copied()));
        let inserted = (self.model.len() - before) as u64;
        self.longest = batch.iter().map(Vec::len).max().unwrap_or(0).max(self.longest);
        if !batch.is_empty() {
            self.ran_update(&format!("locate_w{words}"));
            self.ran_engine(engine, false);
        }
        if inserted > 0 {
            self.ran_update("insert");
            self.ran_update("tidy");
            if keys.width().is_none_or(|width| width > 32) {
                self.ran_update("count_leaves");
            }
        }
        if report.grown > 0 {
            self.ran_update("retire");
        }
        let report = differ("keys that were inserted", inserted, report.inserted);
        Ok(report.or(self.len_differs()))
    }

    pub(crate) fn remove(&mut self, batch: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys = self.keys(batch)?;
        if !batch.is_empty() && !self.tree.is_empty() {
            self.ran_update("remove");
        }
        let start = Instant::now();
        let removed = self.tree.remove_on(&self.stream, &keys)?;
        self.took(start, batch.len());
        let expected = batch.iter().filter(|&key| self.model.remove(key).is_some()).count() as u64;
        Ok(differ("keys that were removed", expected, removed).or(self.len_differs()))
    }

    fn len_differs(&self) -> Option<Difference> {
        differ("the tree's length", self.model.len() as u64, self.tree.len())
    }

    fn found_differs(&self, found: Output<u32>, keys: &[Vec<u8>]) -> Result<Option<Difference>> {
        let expected = |i: usize| self.model.contains_key(&keys[i]);
        Ok(bits_differ(&found.read(self.sabotage)?, keys.len(), &expected, &|i| described(&keys[i])))
    }
}

/// Compares a number that is not a query's.
pub(crate) fn differ<T: PartialEq + ToString>(what: &'static str, expected: T, actual: T) -> Option<Difference> {
    let (query, index) = ("the whole batch".into(), 0);
    let wrong = expected != actual;
    wrong.then(|| Difference { what, index, query, expected: expected.to_string(), actual: actual.to_string() })
}

pub(crate) fn described(key: &[u8]) -> String {
    format!("{key:02x?}")
}
