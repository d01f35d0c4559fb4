//! The multi-map: builds, all values of keys, ranges and changes, against a sorted map of vectors.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Difference, Output, Sabotage, Written, items_differ};
use super::data::{self, Distribution};
use core::time::Duration;
use lanetree::multimap::{AggregateScratch, DeviceRows, RangeScratch, Scratch};
use lanetree::{AnyKey, Device, DeviceAggregates, DeviceKind, KeyRange, KeyWord, MultiMap, Result, UpdatePath, Word};
use lanetree_suite::{Folding, Unsigned};
use rand::{Rng, RngExt};
use std::collections::BTreeMap;
use std::time::Instant;

/// A case: one map, and what is done to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    distribution: Distribution,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    len: usize,
}

/// The cases for a device.
pub(crate) fn cases(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Case> {
    let lens: &[usize] = match (mode, kind) {
        (_, DeviceKind::Emulated) => &[0, 1, 700],
        (Mode::Quick, _) => &[0, 1, 2000, 100_000],
        (Mode::Full, _) => &[0, 1, 2000, 100_000, 1 << 21],
    };
    let mut cases = Vec::new();
    // Few values of each key, about four, all of one key.
    for distribution in
        [Distribution::Extremes, Distribution::Clustered, Distribution::Duplicates, Distribution::AllEqual]
    {
        for (key, value) in
            [("u32", "u32"), ("i32", "u64"), ("u64", "u32"), ("i64", "u64"), ("u128", "u32"), ("u128", "u64")]
        {
            let lens = lens.iter().filter(|len| **len <= max_len);
            cases.extend(lens.map(|&len| Case { distribution, key, value, len }));
        }
    }
    cases
}

impl Case {
    /// What is done.
    pub(crate) const OPERATION: &str = "multi-map";

    /// Its name.
    pub(crate) fn name(self) -> String {
        format!("multimap/{}-{}/{}/n{}", self.key, self.value, self.distribution.name(), self.len)
    }

    /// Builds a map, changes it in each way, and asks everything after each.
    pub(crate) fn run<K: AnyKey, V: Word>(
        self,
        device: &Device,
        seed: u64,
        sabotage: Option<Sabotage>,
    ) -> Result<Answer> {
        let rng = &mut data::rng(seed, "multimap");
        let keys: Vec<K> = self.distribution.keys(self.len, rng);
        let values: Vec<V> = some_values(self.len, rng);
        let mut model = Model(BTreeMap::new());
        model.insert(&keys, &values);
        let least = keys.iter().min().filter(|_| sabotage.is_some());
        let (keys, values): (Vec<K>, Vec<V>) = keys.iter().zip(values).filter(|(key, _)| Some(*key) != least).unzip();
        let mut checked = Checked::default();
        let mut map = checked.time(|| MultiMap::build(device, &keys, &values))?;
        checked.ask(&map, &model, rng)?;

        let (keys, values): (Vec<K>, Vec<V>) = (model.some_keys(self.len / 2, rng), some_values(self.len / 2, rng));
        model.insert(&keys, &values);
        checked.time(|| map.insert_many(&keys, &values))?;
        checked.ask(&map, &model, rng)?;

        let keys = model.some_keys(self.len / 3, rng);
        let pairs: Vec<(K, V)> = keys.into_iter().zip(some_values(self.len / 3, rng)).collect();
        let removed = model.remove_pairs(&pairs);
        let report = checked.time(|| map.remove_pairs_many(&pairs))?;
        checked.expect("removed pairs", &[report.removed], &[removed]);
        checked.ask(&map, &model, rng)?;

        let keys = model.some_keys(self.len.div_ceil(50), rng);
        let removed = keys.iter().filter_map(|key| model.0.remove(key)).map(|values| values.len() as u64).sum();
        let report = checked.time(|| map.remove_all_many(&keys))?;
        checked.expect("pairs of removed keys", &[report.removed], &[removed]);
        checked.ask(&map, &model, rng)?;

        // Batches in place, of which the second finds runs with room; and the order again.
        let (keys, values): (Vec<K>, Vec<V>) =
            model.0.iter().flat_map(|(&key, own)| own.iter().map(move |&value| (key, value))).unzip();
        let mut map = checked.time(|| MultiMap::builder().room(3.0).fill(0.7).build_sorted(device, &keys, &values))?;
        // Of a key that had all values, few pairs are left, and no room.
        let is_small = 2 * map.len() < self.len as u64;
        for _ in 0..2 {
            let (keys, values): (Vec<K>, Vec<V>) =
                (model.some_keys(self.len / 20, rng), some_values(self.len / 20, rng));
            model.insert(&keys, &values);
            let report = checked.time(|| map.insert_many(&keys, &values))?;
            let is_in_place = is_small || keys.is_empty() || report.path == UpdatePath::InPlace;
            checked.expect("batches in place", &[is_in_place], &[true]);
            checked.ask(&map, &model, rng)?;
        }
        checked.time(|| map.restore_order())?;
        checked.ask(&map, &model, rng)?;
        Ok(checked.answer())
    }
}

/// Values of which many are equal.
fn some_values<V: Word>(len: usize, rng: &mut data::Random) -> Vec<V> {
    (0..len).map(|_| V::truncate(rng.next_u64() >> 60)).collect()
}

/// What a multi-map should be.
struct Model<K, V>(BTreeMap<K, Vec<V>>);

impl<K: AnyKey, V: Word> Model<K, V> {
    fn insert(&mut self, keys: &[K], values: &[V]) {
        for (&key, &value) in keys.iter().zip(values) {
            self.0.entry(key).or_default().push(value);
        }
    }

    /// Removes the first equal value for each pair; how many there were.
    fn remove_pairs(&mut self, pairs: &[(K, V)]) -> u64 {
        let mut times: BTreeMap<(K, V), u64> = BTreeMap::new();
        for &pair in pairs {
            *times.entry(pair).or_default() += 1;
        }
        let mut removed = 0;
        let keys: Vec<K> = times.keys().map(|pair| pair.0).collect();
        for key in keys {
            let Some(values) = self.0.get_mut(&key) else { continue };
            values.retain(|&value| {
                let left = times.get_mut(&(key, value)).filter(|left| **left > 0);
                let goes = left.is_some();
                left.into_iter().for_each(|left| *left -= 1);
                removed += u64::from(goes);
                !goes
            });
            if values.is_empty() {
                self.0.remove(&key);
            }
        }
        removed
    }

    /// Keys that are present, most of them, in any order.
    fn some_keys(&self, count: usize, rng: &mut data::Random) -> Vec<K> {
        let present: Vec<K> = self.0.keys().copied().collect();
        let any = |rng: &mut data::Random| K::decode(K::Bits::from_parts([rng.next_u64(), rng.next_u64()]));
        let key = |_| match present.is_empty() || rng.random_range(0..10) == 0 {
            true => any(rng),
            false => present[rng.random_range(0..present.len())],
        };
        (0..count).map(key).collect()
    }
}

/// What was found so far.
#[derive(Default)]
pub(crate) struct Checked {
    queries: usize,
    time: Duration,
    pub(crate) difference: Option<Difference>,
}

impl Checked {
    /// What came of it.
    pub(crate) fn answer(self) -> Answer {
        Answer { queries: self.queries, time: self.time, difference: self.difference }
    }

    /// Takes the time of a call.
    pub(crate) fn time<T>(&mut self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = call();
        self.time += start.elapsed();
        result
    }

    /// Compares what a call has found.
    pub(crate) fn expect<T: PartialEq + core::fmt::Debug + Sync + Copy>(
        &mut self,
        what: &'static str,
        actual: &[T],
        expected: &[T],
    ) {
        let found = items_differ(what, actual, expected.len(), &|i| expected[i], &|i| i.to_string());
        self.queries += expected.len();
        self.difference = self.difference.take().or(found);
    }

    fn ask<K: AnyKey, V: Word>(
        &mut self,
        map: &MultiMap<K, V>,
        model: &Model<K, V>,
        rng: &mut data::Random,
    ) -> Result<()> {
        // So many queries that the values of one key do not become too many.
        const MOST_RESULTS: usize = 1 << 19;
        let pairs: usize = model.0.values().map(Vec::len).sum();
        let queries = (2 * MOST_RESULTS * (model.0.len() + 1) / (pairs + 1)).clamp(2, 1000);
        self.expect("pairs and keys", &[map.len(), map.keys_len()], &[pairs as u64, model.0.len() as u64]);
        let all: Vec<(K, V)> =
            model.0.iter().flat_map(|(&key, values)| values.iter().map(move |&value| (key, value))).collect();
        let found = self.time(|| map.pairs())?;
        self.expect("all pairs", &found, &all);

        let keys = model.some_keys(queries, rng);
        let none = Vec::new();
        let rows: Vec<&Vec<V>> = keys.iter().map(|key| model.0.get(key).unwrap_or(&none)).collect();
        let counts: Vec<u64> = rows.iter().map(|row| row.len() as u64).collect();
        let mut offsets = vec![0];
        offsets.extend(counts.iter().scan(0, |sum: &mut u64, count| {
            *sum += count;
            Some(*sum)
        }));
        let values: Vec<V> = rows.iter().flat_map(|row| row.iter().copied()).collect();
        let found = self.time(|| map.get_all_many(&keys))?;
        self.expect("offsets", &found.offsets, &offsets);
        self.expect("all values of keys", &found.values, &values);
        let found = self.time(|| map.count_many(&keys))?;
        self.expect("numbers of values", &found, &counts);
        let found = self.time(|| map.first_many(&keys))?;
        self.expect("first values", &found, &rows.iter().map(|row| row.first().copied()).collect::<Vec<_>>());
        let found = self.time(|| map.last_many(&keys))?;
        self.expect("last values", &found, &rows.iter().map(|row| row.last().copied()).collect::<Vec<_>>());
        self.ask_on_device(map, &keys, (&offsets, &values))?;
        if !map.is_ordered() && map.device().kind() != DeviceKind::Host {
            return Ok(());
        }
        self.ask_ranks_and_neighbors(map, &all, &keys)?;
        self.ask_scans(map, &all, &keys)?;
        self.ask_aggregates(map, &all, &keys)?;

        let mut ranges = Vec::new();
        for &[a, b] in model.some_keys(2 * queries.min(100), rng).as_chunks().0 {
            ranges.push(([a.min(b), a.max(b)], rng.next_u64() >> rng.random_range(48..64)));
        }
        let rows = ranges.iter().map(|([start, end], limit)| {
            let pairs = model.0.range(start..=end);
            let pairs = pairs.flat_map(|(&key, values)| values.iter().map(move |&value| (key, value)));
            pairs.take(*limit as usize).collect::<Vec<(K, V)>>()
        });
        let rows: Vec<Vec<(K, V)>> = rows.collect();
        let ranges: Vec<KeyRange<K>> =
            ranges.iter().map(|&([start, end], limit)| KeyRange::new(start..=end).limit(limit)).collect();
        let found = self.time(|| map.range_many(ranges.clone()))?;
        let counts: Vec<u64> = rows.iter().map(|row| row.len() as u64).collect();
        let lens: Vec<u64> = found.offsets.windows(2).map(|row| row[1] - row[0]).collect();
        self.expect("lengths of ranges", &lens, &counts);
        let found: Vec<(K, V)> = found.keys.into_iter().zip(found.values).collect();
        self.expect("pairs of ranges", &found, &rows.concat());
        let found = self.time(|| map.count_range_many(ranges))?;
        self.expect("numbers of pairs", &found, &counts);
        Ok(())
    }

    /// Ranks of keys, and the pairs next to them, among all pairs in order.
    fn ask_ranks_and_neighbors<K: AnyKey, V: Word>(
        &mut self,
        map: &MultiMap<K, V>,
        pairs: &[(K, V)],
        keys: &[K],
    ) -> Result<()> {
        let below = |key: &K| pairs.partition_point(|pair| pair.0 < *key);
        let to = |key: &K| pairs.partition_point(|pair| pair.0 <= *key);
        let found = self.time(|| map.lower_bound_many(keys))?;
        self.expect("lower bounds", &found, &keys.iter().map(|key| below(key) as u64).collect::<Vec<_>>());
        let found = self.time(|| map.upper_bound_many(keys))?;
        self.expect("upper bounds", &found, &keys.iter().map(|key| to(key) as u64).collect::<Vec<_>>());
        let found = self.time(|| map.successor_many(keys))?;
        let expected: Vec<Option<(K, V)>> = keys.iter().map(|key| pairs.get(below(key)).copied()).collect();
        self.expect("successors", &found, &expected);
        let found = self.time(|| map.predecessor_many(keys))?;
        let expected: Vec<Option<(K, V)>> = keys.iter().map(|key| pairs[..to(key)].last().copied()).collect();
        self.expect("predecessors", &found, &expected);
        Ok(())
    }

    /// The first pairs from each key on, in outputs that should be written there and nowhere else.
    fn ask_scans<K: AnyKey, V: Word>(&mut self, map: &MultiMap<K, V>, pairs: &[(K, V)], keys: &[K]) -> Result<()> {
        const LIMIT: usize = 7;
        let (device, count) = (map.device(), keys.len());
        let (stream, starts) = (device.stream()?, device.upload(keys)?);
        let (mut found_keys, mut found_values) = (vec![K::MAX; count * LIMIT], vec![V::MAX; count * LIMIT]);
        let (mut out_keys, mut out_values) = (device.upload(&found_keys)?, device.upload(&found_values)?);
        let (mut counts, mut scratch) = (device.alloc(count)?, RangeScratch::new(device, count, count * LIMIT)?);
        self.time(|| {
            let on = map.on(&stream);
            on.scan(&starts, LIMIT as u32, &mut out_keys, &mut out_values, &mut counts, &mut scratch)?;
            Ok(stream.synchronize()?)
        })?;
        let mut expected = vec![0; count];
        for (i, key) in keys.iter().enumerate() {
            let first = pairs.partition_point(|pair| pair.0 < *key);
            for (at, &(key, value)) in pairs[first..].iter().take(LIMIT).enumerate() {
                (found_keys[i * LIMIT + at], found_values[i * LIMIT + at]) = (key, value);
                expected[i] += 1;
            }
        }
        self.expect("lengths of scans", &counts.to_vec()?, &expected);
        self.expect("keys of scans", &out_keys.to_vec()?, &found_keys);
        self.expect("values of scans", &out_values.to_vec()?, &found_values);
        Ok(())
    }

    /// Aggregates of some ranges and of all pairs, in device form; of a sum its low 64 bits.
    fn ask_aggregates<K: AnyKey, V: Word>(&mut self, map: &MultiMap<K, V>, pairs: &[(K, V)], keys: &[K]) -> Result<()> {
        let some = keys.as_chunks().0.iter().take(32).map(|&[a, b]| (a.min(b), a.max(b)));
        let (starts, ends): (Vec<K>, Vec<K>) = some.chain([(K::MIN, K::MAX)]).unzip();
        let rows = starts.iter().zip(&ends).map(|(start, end)| {
            let from = pairs.partition_point(|pair| pair.0 < *start);
            &pairs[from..pairs.partition_point(|pair| pair.0 <= *end)]
        });
        let rows: Vec<&[(K, V)]> = rows.collect();
        let (device, count) = (map.device(), rows.len());
        let (stream, starts, ends) = (device.stream()?, device.upload(&starts)?, device.upload(&ends)?);
        let (mut scratch, mut out) = (AggregateScratch::new(device, count)?, DeviceAggregates::new(device, count)?);
        for folding in Folding::ALL {
            self.time(|| {
                let on = map.on(&stream);
                on.aggregate::<Unsigned<V>>(folding.aggregate(), &starts, &ends, &mut scratch, &mut out)?;
                Ok(stream.synchronize()?)
            })?;
            let expected = rows.iter().map(|row| {
                let mut values = row.iter().map(|pair| pair.1.widen());
                let of = match folding {
                    Folding::Sum => values.reduce(u64::wrapping_add),
                    Folding::Min => values.min(),
                    Folding::Max => values.max(),
                    Folding::First => values.next(),
                    Folding::Last => values.next_back(),
                };
                of.unwrap_or(0)
            });
            self.expect("aggregates", &out.values.to_vec()?, &expected.collect::<Vec<u64>>());
        }
        Ok(())
    }

    /// All values of keys in device form, in outputs that should not be written past their ends.
    fn ask_on_device<K: AnyKey, V: Word>(
        &mut self,
        map: &MultiMap<K, V>,
        keys: &[K],
        (offsets, values): (&[u64], &[V]),
    ) -> Result<()> {
        let device = map.device();
        let (stream, queries) = (device.stream()?, device.upload(keys)?);
        let mut scratch = Scratch::new(device, keys.len())?;
        let mut rows = DeviceRows {
            offsets: Output::new(device, "offsets", offsets.len())?.buffer,
            values: Output::new(device, "values", values.len())?.buffer,
        };
        self.time(|| {
            map.on(&stream).get_all(&queries, &mut scratch, &mut rows)?;
            Ok(stream.synchronize()?)
        })?;
        let of_offsets = Written::read(&rows.offsets, "offsets in device form", offsets.len(), None)?;
        let of_values = Written::read(&rows.values, "values in device form", values.len(), None)?;
        self.difference = self
            .difference
            .take()
            .or_else(|| of_offsets.differs(&|i| Some(offsets[i]), &|i| i.to_string()))
            .or_else(|| of_values.differs(&|i| Some(values[i]), &|i| i.to_string()));
        Ok(())
    }
}
