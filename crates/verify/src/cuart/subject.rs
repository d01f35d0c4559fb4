//! A tree on a device, and a sorted map that goes through the same operations.

use super::strings::{Packing, Strings, upload};
use crate::answer::Answer;
use crate::compare::{Difference, Output, Sabotage, bits_differ, items_differ};
use core::time::Duration;
use lanetree::cuart::{ChangeScratch, Lanes, Link, LongKeys, RootTable};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys, Result, Stream, Word};
use std::collections::BTreeMap;
use std::time::Instant;

pub(crate) type Model<V> = BTreeMap<Vec<u8>, V>;

/// The tree, what it should answer, and what was asked.
pub(crate) struct Subject<V: Word> {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) tree: Cuart<V>,
    pub(crate) model: Model<V>,
    pub(crate) sabotage: Option<Sabotage>,
    /// Calls.
    turn: usize,
    pub(crate) queries: usize,
    pub(crate) time: Duration,
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
        let (time, stream) = (start.elapsed(), device.stream()?);
        Ok(Self { device: device.clone(), stream, tree, model, sabotage, turn: 0, queries: 0, time })
    }

    /// What came of the case.
    pub(crate) fn answer(self, difference: Option<Difference>) -> Answer {
        Answer { queries: self.queries, time: self.time, difference }
    }

    /// Uploads a batch, each time in another packing.
    pub(crate) fn keys(&mut self, batch: &[Vec<u8>]) -> Result<DeviceKeys> {
        self.turn += 1;
        upload(&self.device, batch, Packing::ALL[self.turn % Packing::ALL.len()])
    }

    fn took(&mut self, start: Instant, queries: usize) {
        self.took_time(start.elapsed(), queries);
    }

    pub(crate) fn took_time(&mut self, time: Duration, queries: usize) {
        self.time += time;
        self.queries += queries;
    }

    /// How many lanes compare a key, in turns.
    fn lanes(&self) -> Lanes {
        use Lanes::{Auto, Eight, Four, One, Two};
        [Auto, Two, One, Four, Eight][self.turn % 5]
    }

    pub(crate) fn get(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys = self.keys(queries)?;
        self.get_keys(&keys, queries)
    }

    /// Looks up `queries`, which are `keys` on the device.
    pub(crate) fn get_keys(&mut self, keys: &DeviceKeys, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let (count, device) = (queries.len(), &self.device);
        let mut values = Output::<V>::new(device, "values", count)?;
        let mut hits = Output::<u32>::new(device, "hits", count.div_ceil(32))?;
        let start = Instant::now();
        let on = self.tree.on(&self.stream).with_lanes(self.lanes());
        on.hits(&mut hits.buffer).get(keys, &mut values.buffer)?;
        self.stream.synchronize()?;
        self.took(start, count);
        let expected = |i: usize| Some(self.model.get(&queries[i]).copied().unwrap_or(V::MAX));
        let values = values.read(self.sabotage)?.differs(&expected, &|i| described(&queries[i]));
        Ok(values.or(self.hits_differ(hits, queries)?))
    }

    /// Looks up `queries` in a tree with leaves in main memory, and does the CPU's part.
    pub(crate) fn get_pending(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys = self.keys(queries)?;
        let (count, device) = (queries.len(), &self.device);
        let mut values = Output::<V>::new(device, "values", count)?;
        let mut hits = Output::<u32>::new(device, "hits", count.div_ceil(32))?;
        let mut pending = Output::<u32>::new(device, "pending", count.div_ceil(32))?;
        let start = Instant::now();
        let buffers = (&mut values.buffer, &mut hits.buffer, &mut pending.buffer);
        let on = self.tree.on(&self.stream).with_lanes(self.lanes());
        on.get_pending(&keys, buffers.0, buffers.1, buffers.2)?;
        self.stream.synchronize()?;
        self.took(start, count);
        let (values, hits, pending) =
            (values.read(self.sabotage)?, hits.read(self.sabotage)?, pending.read(self.sabotage)?);
        let bit = |words: &[u32], i: usize| words[i / 32] >> (i % 32) & 1 == 1;
        let answer = |i: usize| match (bit(&hits.elements, i), bit(&pending.elements, i)) {
            (true, false) => Ok(Some(values.elements[i])),
            (false, true) => match self.tree.host_leaf(values.elements[i].widen()) {
                Some((key, value)) => Ok((key == queries[i]).then_some(value)),
                None => Err("pending, and no such leaf"),
            },
            (false, false) if values.elements[i] != V::MAX => Err("another value than that of a miss"),
            (false, false) => Ok(None),
            (true, true) => Err("a hit, and pending"),
        };
        let answers: Vec<_> = (0..count).map(answer).collect();
        let expected = |i: usize| Ok(self.model.get(&queries[i]).copied());
        let wrong = items_differ("values", &answers, count, &expected, &|i| described(&queries[i]));
        Ok(wrong.or(values.touched()).or(hits.touched()).or(pending.touched()))
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
        let links = links.read(self.sabotage)?;
        let found: Vec<bool> = links.elements[..queries.len()].iter().map(|link| !link.is_none()).collect();
        let expected = |i: usize| self.model.contains_key(&queries[i]);
        let wrong = items_differ("links", &found, found.len(), &expected, &|i| described(&queries[i]));
        Ok(wrong.or(links.touched()))
    }

    /// A batch of updates; with the hit mask or without.
    pub(crate) fn update(
        &mut self,
        batch: &[Vec<u8>],
        values: &[V],
        scratch: &mut ChangeScratch,
        with_hits: bool,
    ) -> Result<Option<Difference>> {
        // What is ordered has no offsets and no hit mask.
        let keys = if with_hits { self.keys(batch)? } else { upload(&self.device, batch, Packing::Fixed)? };
        let new = self.device.upload(values)?;
        let mut hits = Output::<u32>::new(&self.device, "hits of updates", batch.len().div_ceil(32))?;
        let start = Instant::now();
        self.tree.update_on(&self.stream, &keys, &new, with_hits.then_some(&mut hits.buffer), scratch)?;
        self.stream.synchronize()?;
        self.took(start, batch.len());
        for (key, &value) in batch.iter().zip(values) {
            if let Some(old) = self.model.get_mut(key) {
                *old = value;
            }
        }
        if with_hits { self.hits_differ(hits, batch) } else { Ok(None) }
    }

    pub(crate) fn insert(
        &mut self,
        batch: &[Vec<u8>],
        values: &[V],
        scratch: &mut ChangeScratch,
    ) -> Result<Option<Difference>> {
        let keys = self.keys(batch)?;
        let new = self.device.upload(values)?;
        let start = Instant::now();
        let made = self.tree.insert_on(&self.stream, &keys, &new, scratch)?;
        self.took(start, batch.len());
        let before = self.model.len();
        self.model.extend(batch.iter().cloned().zip(values.iter().copied()));
        let inserted = (self.model.len() - before) as u64;
        let report = differ("keys that were inserted", inserted, made);
        Ok(report.or(self.len_differs()))
    }

    pub(crate) fn remove(&mut self, batch: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys = self.keys(batch)?;
        let start = Instant::now();
        let removed = self.tree.remove_on(&self.stream, &keys)?;
        self.took(start, batch.len());
        let expected = batch.iter().filter(|&key| self.model.remove(key).is_some()).count() as u64;
        Ok(differ("keys that were removed", expected, removed).or(self.len_differs()))
    }

    /// Updates and, of the keys whose value is the largest, removals.
    pub(crate) fn update_or_remove(
        &mut self,
        batch: &[Vec<u8>],
        values: &[V],
        scratch: &mut ChangeScratch,
    ) -> Result<Option<Difference>> {
        let keys = self.keys(batch)?;
        let new = self.device.upload(values)?;
        let start = Instant::now();
        let removed = self.tree.update_or_remove_on(&self.stream, &keys, &new, V::MAX, scratch)?;
        self.took(start, batch.len());
        let before = self.model.len();
        let last: BTreeMap<&Vec<u8>, V> = batch.iter().zip(values.iter().copied()).collect();
        self.model.retain(|key, value| {
            *value = last.get(key).copied().unwrap_or(*value);
            last.get(key) != Some(&V::MAX)
        });
        let expected = (before - self.model.len()) as u64;
        Ok(differ("keys that were removed among updates", expected, removed).or(self.len_differs()))
    }

    fn len_differs(&self) -> Option<Difference> {
        differ("the tree's length", self.model.len() as u64, self.tree.len())
    }

    fn hits_differ(&self, hits: Output<u32>, keys: &[Vec<u8>]) -> Result<Option<Difference>> {
        let expected = |i: usize| self.model.contains_key(&keys[i]);
        Ok(bits_differ(&hits.read(self.sabotage)?, keys.len(), &expected, &|i| described(&keys[i])))
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
