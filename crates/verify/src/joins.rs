//! The example kernels that probe LaneTree by its handle, against a sorted map.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Output, Sabotage, Written, bits_differ, items_differ};
use super::data::{self, Distribution};
use super::types::with_types;
use core::ops::Range;
use core::time::Duration;
use lanetree::{Device, DeviceKind, Error, Key, KeyWord, LaneSet, LaneTree, Result, Word};
use lanetree_joins::{Bands, Kept, Rows, Sums, band_sums, semi_join, star_join};
use rand::Rng;
use std::collections::BTreeMap;
use std::time::Instant;

/// Most pairs of a row's band.
const LIMIT: u64 = 50;

/// A case: two trees, and rows that are joined with them in every way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    key: &'static str,
    value: &'static str,
    distribution: Distribution,
    /// Pairs of a tree, about, and rows.
    len: usize,
}

/// The cases for a device.
pub(crate) fn cases(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Case> {
    let lens: &[usize] = match (mode, kind) {
        // There are no kernels.
        (_, DeviceKind::Host) => &[],
        (_, DeviceKind::Emulated) => &[0, 1, 2000],
        (Mode::Quick, DeviceKind::Cuda) => &[0, 1, 2000, 1 << 16],
        (Mode::Full, DeviceKind::Cuda) => &[0, 1, 2000, 1 << 16, 1 << 22],
    };
    let types = [("u32", "u32"), ("i32", "u64"), ("i64", "u32"), ("u64", "u64")];
    let mut cases = Vec::new();
    for (order, (key, value)) in types.into_iter().enumerate() {
        for (i, &len) in lens.iter().enumerate().filter(|(_, len)| **len <= max_len) {
            let distribution = [Distribution::Uniform, Distribution::Clustered][(order + i) % 2];
            cases.push(Case { key, value, distribution, len });
        }
    }
    cases
}

/// Some keys of a tree that follow one another, more than a node takes if there are enough.
fn run_of(len: usize) -> Range<usize> {
    len / 3..len / 3 + (len / 4).min(1200)
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let Self { key, value, distribution, len } = self;
        format!("lanetree/joins/{key}-{value}/{}/n{len}", distribution.name())
    }

    pub(crate) fn keys(&self) -> &'static str {
        self.key
    }

    pub(crate) fn run(&self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        with_types!(self.key, self.value, |K, V| self.run_of::<K, V>(device, seed, sabotage))
    }

    fn run_of<K: Key, V: Word>(&self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        let mut rng = data::rng(seed, &self.name());
        let keys: Vec<K> = self.distribution.keys(2 * self.len, &mut rng);
        let (odd, even): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(i, _)| i % 2 == 1);
        let mut map = |part: Vec<(usize, &K)>| -> BTreeMap<K, V> {
            part.into_iter().map(|(_, key)| *key).zip(data::values(self.len, &mut rng)).collect()
        };
        // The keys of one tree are also some of the other's.
        let maps = [map(even), map(odd.into_iter().chain(keys.iter().enumerate().step_by(6)).collect())];
        let lacking = usize::from(sabotage == Some(Sabotage::Tree));
        let tree = |map: &BTreeMap<K, V>, fill| {
            let (mut keys, mut values): (Vec<K>, Vec<V>) = map.iter().skip(lacking).unzip();
            // A run of them comes later, and splits nodes, so that buckets lie in another order than keys.
            let later = run_of(keys.len());
            let (of_run, values_of_run): (Vec<K>, Vec<V>) =
                (keys.drain(later.clone()).collect(), values.drain(later).collect());
            let mut tree = LaneTree::builder().fill(fill).build_sorted(device, &keys, &values)?;
            tree.insert_many(&of_run, &values_of_run)?;
            Ok::<_, Error>(tree)
        };
        let trees = [tree(&maps[0], 1.0)?, tree(&maps[1], 0.7)?];
        let mut of_set: Vec<K> = maps[1].keys().skip(lacking).copied().collect();
        let of_run: Vec<K> = of_set.drain(run_of(of_set.len())).collect();
        let mut set = LaneSet::builder().fill(0.9).build_sorted(device, &of_set)?;
        set.insert_many(&of_run)?;
        let mut row = |i: usize| {
            let key = match rng.next_u32() % 4 {
                0 => K::decode(K::Bits::truncate(rng.next_u64())),
                _ if keys.is_empty() => K::MAX,
                1 => K::decode(keys[i % keys.len()].encode().wrapping_add(K::Bits::truncate(1))),
                _ => keys[i % keys.len()],
            };
            (key, u64::from(rng.next_u32() % 100))
        };
        // The first row's key is the smallest.
        let smallest = maps[0].keys().next().map(|&key| (key, 99));
        let rows: Vec<(K, u64)> = smallest.into_iter().chain((0..self.len).map(&mut row)).collect();
        // As second keys, and as ends of bands: some are after a few pairs, most in another order.
        let ends: Vec<K> = (0..rows.len()).map(|i| row(i + i % 3 * 7).0).collect();
        Joins { device, maps: &maps, trees: &trees, set: &set, rows: &rows, ends: &ends, sabotage }.run()
    }
}

struct Joins<'a, K: Key, V: Word> {
    device: &'a Device,
    maps: &'a [BTreeMap<K, V>; 2],
    trees: &'a [LaneTree<K, V>; 2],
    /// The keys of the second tree.
    set: &'a LaneSet<K>,
    rows: &'a [(K, u64)],
    ends: &'a [K],
    sabotage: Option<Sabotage>,
}

impl<K: Key, V: Word> Joins<'_, K, V> {
    fn run(&self) -> Result<Answer> {
        let (device, rows, sabotage) = (self.device, self.rows, self.sabotage);
        let stream = device.stream()?;
        let (keys, amounts): (Vec<K>, Vec<u64>) = rows.iter().copied().unzip();
        let (keys, amounts, ends) = (device.upload(&keys)?, device.upload(&amounts)?, device.upload(self.ends)?);
        let described = |i: usize| format!("row {i}: {:?}, {:?}", rows.get(i), self.ends.get(i));
        let mut differences = Vec::new();
        let mut time = Duration::ZERO;
        let [map, second] = self.maps;

        for threshold in [0, 80] {
            let mut expected = rows.to_vec();
            expected.retain(|row| row.1 > threshold && map.contains_key(&row.0));
            let sum = expected.iter().fold(0_u64, |sum, row| sum.wrapping_add(map[&row.0].widen()));
            let mut kept = Kept {
                keys: Output::new(device, "keys", rows.len())?.buffer,
                amounts: Output::new(device, "amounts", rows.len())?.buffer,
                totals: Output::new(device, "totals", 2)?.buffer,
            };
            let start = Instant::now();
            semi_join(&stream, &self.trees[0], Rows { keys: &keys, amounts: &amounts }, threshold, &mut kept)?;
            stream.synchronize()?;
            time += start.elapsed();
            let totals = Written::read(&kept.totals, "totals of the semi-join", 2, sabotage)?;
            differences.push(totals.differs(&|i| Some([expected.len() as u64, sum][i]), &|i| i.to_string()));
            let keys = Written::read(&kept.keys, "keys that are kept", expected.len(), sabotage)?;
            let amounts = Written::read(&kept.amounts, "amounts that are kept", expected.len(), sabotage)?;
            let pairs = keys.elements.iter().copied().zip(amounts.elements.iter().copied());
            let mut found: Vec<(K, u64)> = pairs.take(expected.len()).collect();
            found.sort_unstable();
            expected.sort_unstable();
            differences.push(items_differ("rows that are kept", &found, expected.len(), &|i| expected[i], &described));
            differences.extend([keys.touched(), amounts.touched()]);
        }

        let mut hits = Output::<u32>::new(device, "hits of both", rows.len().div_ceil(32))?;
        let start = Instant::now();
        star_join(&stream, [&self.trees[0], &self.trees[1]], [&keys, &ends], &mut hits.buffer)?;
        stream.synchronize()?;
        time += start.elapsed();
        let joins = |i: usize| map.contains_key(&rows[i].0) && second.contains_key(&self.ends[i]);
        differences.push(bits_differ(&hits.read(sabotage)?, rows.len(), &joins, &described));

        let mut sums = Output::<u64>::new(device, "sums", rows.len())?;
        let mut last_keys = Output::<K>::new(device, "last keys", rows.len())?;
        let start = Instant::now();
        let out = Sums { sums: &mut sums.buffer, last_keys: &mut last_keys.buffer };
        band_sums(&stream, &self.trees[1], Bands { lows: &keys, ends: &ends }, LIMIT, out)?;
        stream.synchronize()?;
        time += start.elapsed();
        let band = |i: usize| {
            let low = rows[i].0;
            second.range(low..self.ends[i].max(low)).take(LIMIT as usize)
        };
        let sum = |i: usize| band(i).fold(0_u64, |sum, pair| sum.wrapping_add(pair.1.widen()));
        differences.push(sums.read(sabotage)?.differs(&|i| Some(sum(i)), &described));
        let last = |i: usize| band(i).last().map(|pair| *pair.0);
        differences.push(last_keys.read(sabotage)?.differs(&last, &described));

        // The same without values.
        let mut counts = Output::<u64>::new(device, "counts", rows.len())?;
        let mut last_keys = Output::<K>::new(device, "last keys of the set", rows.len())?;
        let mut kept = Kept::new(device, rows.len())?;
        let start = Instant::now();
        let out = Sums { sums: &mut counts.buffer, last_keys: &mut last_keys.buffer };
        band_sums(&stream, self.set.as_tree(), Bands { lows: &keys, ends: &ends }, LIMIT, out)?;
        semi_join(&stream, self.set.as_tree(), Rows { keys: &keys, amounts: &amounts }, 80, &mut kept)?;
        stream.synchronize()?;
        time += start.elapsed();
        differences.push(counts.read(sabotage)?.differs(&|i| Some(band(i).count() as u64), &described));
        differences.push(last_keys.read(sabotage)?.differs(&last, &described));
        let totals = Written::read(&kept.totals, "totals of the semi-join with the set", 2, sabotage)?;
        let is_kept = |row: &&(K, u64)| row.1 > 80 && second.contains_key(&row.0);
        let expected = [rows.iter().filter(is_kept).count() as u64, 0];
        differences.push(totals.differs(&|i| Some(expected[i]), &|i| i.to_string()));

        let difference = differences.into_iter().flatten().next();
        Ok(Answer { queries: 6 * rows.len(), time, difference })
    }
}
