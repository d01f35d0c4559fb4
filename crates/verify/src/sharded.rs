//! Batches over several devices, divided by one of them: against a search of the sorted pairs.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::Sabotage;
use super::data::{self, Distribution};
use super::multimap::Checked;
use core::ops::Range;
use lanetree::{
    AnyKey, AsOf, Batch, Closed, Device, DeviceKind, DeviceMatches, DeviceRangeMatches, DeviceRanges, JoinKind,
    JoinScratch, KeyWord, LaneSet, LaneTree, NearestScratch, Op, OpKind, OrderedIndex, RangeJoinScratch, Result,
    Sharded, ShardedSet, ShardedUpdateScratch, UpdateReport, Word, apply_to_map,
};
use lanetree_base::parallel::*;
use rand::{Rng, RngExt};
use std::collections::BTreeMap;

/// Ranges of a batch, at most.
const MOST_RANGES: usize = 5000;

/// A case: one index, and batches of queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    distribution: Distribution,
    pub(crate) key: &'static str,
    len: usize,
    queries: usize,
    shards: usize,
}

/// The cases for a device: none without kernels.
pub(crate) fn cases(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Case> {
    let (lens, queries): (&[usize], usize) = match (mode, kind) {
        (_, DeviceKind::Host) => (&[], 0),
        (_, DeviceKind::Emulated) => (&[1, 300], 1200),
        (Mode::Quick, _) => (&[1, 20_000], 100_000),
        // More than one piece.
        (Mode::Full, _) => (&[1, 20_000, 1 << 22], (1 << 22) + 12_345),
    };
    let mut cases = Vec::new();
    for (distribution, shards) in
        // The last is too many for the devices to go straight to each shard's memory.
        [(Distribution::Uniform, 3), (Distribution::Clustered, 4), (Distribution::Extremes, 64)]
    {
        for key in ["u32", "i64", "u128"] {
            let lens = lens.iter().filter(|len| **len <= max_len);
            cases.extend(lens.map(|&len| Case { distribution, key, len, queries, shards }));
        }
    }
    cases
}

impl Case {
    /// What is done.
    pub(crate) const OPERATION: &str = "batches over several devices";

    /// Its name.
    pub(crate) fn name(self) -> String {
        let Self { distribution, key, len, shards, .. } = self;
        format!("sharded/{key}/{}/{shards}-shards/n{len}", distribution.name())
    }

    pub(crate) fn run(self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        // Values of both widths with each width of keys.
        match (self.key, self.shards.is_multiple_of(2)) {
            ("u128", false) => self.run_with::<u128, u64>(device, seed, sabotage),
            ("u128", true) => self.run_with::<u128, u32>(device, seed, sabotage),
            ("i64", false) => self.run_with::<i64, u32>(device, seed, sabotage),
            ("i64", true) => self.run_with::<i64, u64>(device, seed, sabotage),
            (_, false) => self.run_with::<u32, u64>(device, seed, sabotage),
            (_, true) => self.run_with::<u32, u32>(device, seed, sabotage),
        }
    }

    fn run_with<K: AnyKey, V: Word>(self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        let rng = &mut data::rng(seed, "sharded");
        let devices = devices(device);
        let mut keys: Vec<K> = self.distribution.keys(self.len, rng);
        keys.sort_unstable();
        keys.dedup();
        let values: Vec<V> = (0..keys.len() as u64).map(|i| V::truncate(i ^ 0x5555)).collect();
        let queries = queries(&keys, self.queries, rng);
        let lacking = usize::from(sabotage.is_some());
        let on: Vec<Device> = devices.iter().cycle().take(self.shards).cloned().collect();
        let mut checked = Checked::default();
        let mut index =
            checked.time(|| Sharded::build(&on, LaneTree::<K, V>::builder(), &keys[lacking..], &values[lacking..]))?;
        let mut sorted = queries.clone();
        sorted.sort_unstable();
        let at = &devices[rng.random_range(0..devices.len())];
        // Straight to the shards' memory, if the devices can, and by copies; also with a hint that is wrong.
        for (queries, is_sorted) in [(&queries, false), (&queries, true), (&sorted, true)] {
            for by_copies in [true, false] {
                *index.by_copies_mut() = by_copies;
                ask(&mut checked, (&index, at), (&keys, &values), queries, is_sorted)?;
            }
            // In host form, too.
            let found = checked.time(|| index.get_many(queries))?;
            let present = |key: &K| keys.binary_search(key).ok().map(|at| values[at]);
            checked.expect("values in host form", &found, &queries.par_iter().map(present).collect());
        }
        let set = checked.time(|| ShardedSet::build(&on, LaneSet::builder(), &keys[lacking..]))?;
        ask_set(&mut checked, (&set, at), &keys, &queries)?;
        ranges(&mut checked, (&index, at), (&keys, &values), &queries)?;
        joins(&mut checked, (&index, at), (&keys, &values), &queries)?;
        // The keys that it lacks are those that are inserted below.
        if sabotage.is_none() {
            change(&mut checked, (&mut index, at), (&keys, &values), &queries)?;
        }
        Ok(checked.answer())
    }
}

/// Three devices, of which a GPU's are one where the host has no others.
fn devices(device: &Device) -> [Device; 3] {
    let other = |number: u32| match device.kind() {
        DeviceKind::Emulated => Device::emulated_with_seed(u64::from(number) + 11),
        _ => Device::cuda(number).unwrap_or_else(|_| device.clone()),
    };
    [device.clone(), other(0), other(1)]
}

/// Keys, what is next to them, and others.
fn queries<K: AnyKey>(keys: &[K], count: usize, rng: &mut data::Random) -> Vec<K> {
    let query = |i: usize| {
        let any = K::Bits::from_parts([rng.next_u64(), rng.next_u64()]);
        let near = keys[rng.random_range(0..keys.len())].encode();
        match i % 4 {
            0 => K::decode(any),
            1 => K::decode(near.wrapping_add(K::Bits::truncate(1))),
            _ => K::decode(near),
        }
    };
    [K::MIN, K::MAX].into_iter().chain((2..count).map(query)).collect()
}

fn ask<K: AnyKey, V: Word>(
    checked: &mut Checked,
    (index, device): (&Sharded<LaneTree<K, V>>, &Device),
    (keys, values): (&[K], &[V]),
    asked: &[K],
    is_sorted: bool,
) -> Result<()> {
    let (stream, queries, count) = (device.stream()?, device.upload(asked)?, asked.len());
    let on = || if is_sorted { index.on(&stream).sorted() } else { index.on(&stream) };
    let miss = V::MAX;
    let (mut found, mut hits) = (device.alloc::<V>(count)?, device.alloc::<u32>(count.div_ceil(32))?);
    let (mut ranks, mut beside) = (device.alloc::<u64>(count)?, device.alloc::<K>(count)?);
    let mask = |is_hit: &(dyn Fn(&K) -> bool + Sync)| {
        let word = |keys: &[K]| keys.iter().enumerate().fold(0, |word, (i, key)| word | u32::from(is_hit(key)) << i);
        asked.par_chunks(32).map(word).collect()
    };
    let place = |key: &K| keys.binary_search(key);

    checked.time(|| on().hits(&mut hits).miss(miss).get(&queries, &mut found))?;
    let value = |key: &K| place(key).map_or(miss, |at| values[at]);
    checked.expect("values", &found.to_vec()?, &asked.par_iter().map(value).collect());
    checked.expect("hits", &hits.to_vec()?, &mask(&|key| place(key).is_ok()));
    checked.time(|| on().contains(&queries, &mut hits))?;
    checked.expect("presence", &hits.to_vec()?, &mask(&|key| place(key).is_ok()));

    checked.time(|| on().lower_bound(&queries, &mut ranks))?;
    let rank = |key: &K| place(key).unwrap_or_else(|at| at) as u64;
    checked.expect("lower bounds", &ranks.to_vec()?, &asked.par_iter().map(rank).collect());
    checked.time(|| on().upper_bound(&queries, &mut ranks))?;
    let rank = |key: &K| place(key).map_or_else(|at| at, |at| at + 1) as u64;
    checked.expect("upper bounds", &ranks.to_vec()?, &asked.par_iter().map(rank).collect());

    for is_before in [true, false] {
        let neighbor = |key: &K| match place(key) {
            Ok(at) => Some(at),
            Err(at) if is_before => at.checked_sub(1),
            Err(at) => (at < keys.len()).then_some(at),
        };
        checked.time(|| match is_before {
            true => on().hits(&mut hits).miss(miss).predecessor(&queries, &mut beside, &mut found),
            false => on().hits(&mut hits).miss(miss).successor(&queries, &mut beside, &mut found),
        })?;
        let value = |key: &K| neighbor(key).map_or(miss, |at| values[at]);
        checked.expect("neighbours' values", &found.to_vec()?, &asked.par_iter().map(value).collect());
        checked.expect("neighbours there are", &hits.to_vec()?, &mask(&|key| neighbor(key).is_some()));
        // The keys of those that have none are unspecified.
        let bits = |pair: (&K, K)| neighbor(pair.0).map(|_| pair.1.encode());
        let actual: Vec<_> = asked.iter().zip(beside.to_vec()?).map(bits).collect();
        let expected = |key: &K| neighbor(key).map(|at| keys[at].encode());
        checked.expect("neighbours' keys", &actual, &asked.par_iter().map(expected).collect());
    }
    Ok(())
}

/// Ranges, their counts, and scans. Neighbours among the queries are their bounds, so some are reversed and some have nearly all keys.
fn ranges<K: AnyKey, V: Word>(
    checked: &mut Checked,
    (index, device): (&Sharded<LaneTree<K, V>>, &Device),
    (keys, values): (&[K], &[V]),
    asked: &[K],
) -> Result<()> {
    let asked = &asked[..asked.len().min(MOST_RANGES + 1)];
    let (starts, ends) = (&asked[1..], &asked[..asked.len() - 1]);
    let count = starts.len();
    let (stream, limit) = (device.stream()?, 5);
    let limits: Vec<u64> = (0..count as u64).map(|i| i % 9).collect();
    let bounds = (device.upload(starts)?, device.upload(ends)?, device.upload(&limits)?);
    let below = |key: &K| keys.partition_point(|other| other < key);
    let row = |range: usize| {
        let (first, past) = (below(&starts[range]), keys.partition_point(|key| *key <= ends[range]));
        first..past.max(first).min(first + limits[range] as usize)
    };
    let rows: Vec<_> = (0..count).map(row).collect();
    let total = rows.iter().map(Range::len).sum();
    let mut out = DeviceRanges::new(device, count, total)?;
    checked.time(|| index.on(&stream).limits(&bounds.2).range(&bounds.0, &bounds.1, &mut out))?;
    let offsets: Vec<u64> = core::iter::once(0)
        .chain(rows.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        }))
        .collect();
    checked.expect("offsets of ranges", &out.offsets.to_vec()?, &offsets);
    let expected_keys: Vec<_> = rows.iter().flat_map(|row| keys[row.clone()].iter().map(|key| key.encode())).collect();
    let found: Vec<_> = out.keys.to_vec()?.iter().map(|key| key.encode()).collect();
    checked.expect("keys of ranges", &found, &expected_keys);
    let expected_values: Vec<V> = rows.iter().flat_map(|row| values[row.clone()].iter().copied()).collect();
    checked.expect("values of ranges", &out.values.to_vec()?, &expected_values);
    let mut counts = device.alloc::<u64>(count)?;
    checked.time(|| index.on(&stream).limits(&bounds.2).count_range(&bounds.0, &bounds.1, &mut counts))?;
    checked.expect("counts of ranges", &counts.to_vec()?, &rows.iter().map(|row| row.len() as u64).collect::<Vec<_>>());

    let (mut scanned, mut lens) = (device.alloc::<K>(count * limit)?, device.alloc::<u32>(count)?);
    let mut scanned_values = device.alloc::<V>(count * limit)?;
    checked.time(|| index.on(&stream).scan(&bounds.0, limit as u32, &mut scanned, &mut scanned_values, &mut lens))?;
    let rows: Vec<_> = starts.iter().map(|key| below(key)..keys.len().min(below(key) + limit)).collect();
    let lens = lens.to_vec()?;
    checked.expect("lengths of scans", &lens, &rows.iter().map(|row| row.len() as u32).collect::<Vec<_>>());
    let expected: Vec<V> = rows.iter().flat_map(|row| values[row.clone()].iter().copied()).collect();
    let found = scanned_values.to_vec()?;
    let found: Vec<V> =
        lens.iter().enumerate().flat_map(|(i, &len)| &found[i * limit..][..len as usize]).copied().collect();
    checked.expect("values of scans", &found, &expected);
    Ok(())
}

/// A set of the keys.
fn ask_set<K: AnyKey>(
    checked: &mut Checked,
    (set, device): (&ShardedSet<K>, &Device),
    keys: &[K],
    asked: &[K],
) -> Result<()> {
    let (stream, queries, count) = (device.stream()?, device.upload(asked)?, asked.len());
    let mut hits = device.alloc::<u32>(count.div_ceil(32))?;
    let (mut ranks, mut beside) = (device.alloc::<u64>(count)?, device.alloc::<K>(count)?);
    let place = |key: &K| keys.binary_search(key);
    checked.time(|| set.on(&stream).contains(&queries, &mut hits))?;
    let word = |keys: &[K]| keys.iter().enumerate().fold(0, |word, (i, key)| word | u32::from(place(key).is_ok()) << i);
    checked.expect("presence in a set", &hits.to_vec()?, &asked.par_chunks(32).map(word).collect());
    checked.time(|| set.on(&stream).lower_bound(&queries, &mut ranks))?;
    let rank = |key: &K| place(key).unwrap_or_else(|at| at) as u64;
    checked.expect("lower bounds in a set", &ranks.to_vec()?, &asked.par_iter().map(rank).collect());
    checked.time(|| set.on(&stream).predecessor(&queries, &mut beside))?;
    let before = |key: &K| place(key).map_or_else(|at| at, |at| at + 1).checked_sub(1);
    // The keys of those that have none are unspecified.
    let found: Vec<_> =
        asked.iter().zip(beside.to_vec()?).map(|(key, found)| before(key).map(|_| found.encode())).collect();
    let expected = asked.par_iter().map(|key| before(key).map(|at| keys[at].encode())).collect();
    checked.expect("predecessors in a set", &found, &expected);
    Ok(())
}

/// As-of look-ups on both sides, joins by key and by ranges, and the nearest pairs.
fn joins<K: AnyKey, V: Word>(
    checked: &mut Checked,
    (index, device): (&Sharded<LaneTree<K, V>>, &Device),
    (keys, values): (&[K], &[V]),
    asked: &[K],
) -> Result<()> {
    let (stream, miss) = (device.stream()?, V::MAX);
    // A hint, which is wrong for most of these.
    let on = || index.on(&stream).sorted();
    let asked = &asked[..asked.len().min(MOST_RANGES)];
    let (queries, count) = (device.upload(asked)?, asked.len());
    let below = |key: &K| keys.partition_point(|other| other < key);
    let past = |key: &K| keys.partition_point(|other| other <= key);
    let (mut found, mut near) = (device.alloc::<V>(count)?, device.alloc::<K>(count)?);
    let mut hits = device.alloc::<u32>(count.div_ceil(32))?;
    let distance = |a: &K, b: &K| {
        let (a, b) = (a.encode().max(b.encode()), a.encode().min(b.encode()));
        let parts = a.wrapping_sub(b).parts();
        u128::from(parts[0]) | u128::from(parts[1]) << 64
    };
    for (how, is_strict) in [(AsOf::nearest(), false), (AsOf::nearest().strict(true).tolerance(1000), true)] {
        let expected = |key: &K| {
            let before = if is_strict { below(key) } else { past(key) }.checked_sub(1);
            let after = Some(if is_strict { past(key) } else { below(key) }).filter(|at| *at < keys.len());
            let of = |at: usize| distance(&keys[at], key);
            let nearest = [before, after].into_iter().flatten().min_by_key(|at| of(*at));
            nearest.filter(|at| !is_strict || of(*at) <= 1000).map_or(miss, |at| values[at])
        };
        checked.time(|| on().miss(miss).asof(&queries, &how, &mut near, &mut found, &mut hits))?;
        checked.expect("as-of values", &found.to_vec()?, &asked.par_iter().map(expected).collect());
    }

    let (mut scratch, mut out) = (JoinScratch::new(device, count)?, DeviceMatches::new(device, count)?);
    checked.time(|| on().join(&queries, &mut scratch, &mut out))?;
    let rows: Vec<(u64, u64)> =
        (0_u64..).zip(asked).filter_map(|(i, key)| Some((i, keys.binary_search(key).ok()? as u64))).collect();
    let len = (out.count.to_vec()?[0] as usize).min(count);
    let joined: Vec<_> = out.probes.to_vec()?.into_iter().zip(out.rows.to_vec()?).take(len).collect();
    checked.expect("rows of a join", &joined, &rows);

    // From a query up to 40 pairs further on, so that many go past borders; some are reversed.
    let high = |(i, key): (usize, &K)| keys[(below(key) + i % 40).saturating_sub(3).min(keys.len() - 1)];
    let highs: Vec<K> = asked.iter().enumerate().map(high).collect();
    let of_row = |(low, high): (&K, &K)| below(low)..past(high).max(below(low));
    let rows: Vec<Range<usize>> = asked.iter().zip(&highs).map(of_row).collect();
    let total = rows.iter().map(|row| row.len().max(1)).sum();
    let (mut scratch, highs) = (RangeJoinScratch::new(device, count)?, device.upload(&highs)?);
    let mut out = DeviceRangeMatches::new(device, count, total)?;
    let left = || on().kind(JoinKind::Left).miss(miss);
    checked.time(|| left().range_join(&queries, &highs, Closed::Both, &mut scratch, &mut out))?;
    let expected = rows.iter().flat_map(|row| match row.is_empty() {
        true => vec![miss],
        false => values[row.clone()].to_vec(),
    });
    checked.expect("values of a left join by ranges", &out.pairs.values.to_vec()?, &expected.collect::<Vec<V>>());

    let (k, mut scratch) = (3, NearestScratch::new(device, count)?);
    let rows: Vec<Range<usize>> = rows.into_iter().map(|row| row.end - row.len().min(k)..row.end).collect();
    let mut out = DeviceRanges::new(device, count, rows.iter().map(Range::len).sum())?;
    checked.time(|| on().range_last(&queries, &highs, k as u64, &mut scratch, &mut out))?;
    let expected = rows.into_iter().flat_map(|row| row.rev().map(|at| values[at]));
    checked.expect("the last values of ranges", &out.values.to_vec()?, &expected.collect::<Vec<V>>());
    Ok(())
}

/// Inserts, updates and removals from buffers of a device; keys come more than once.
fn change<K: AnyKey, V: Word>(
    checked: &mut Checked,
    (index, device): (&mut Sharded<LaneTree<K, V>>, &Device),
    (keys, values): (&[K], &[V]),
    asked: &[K],
) -> Result<()> {
    let mut map: BTreeMap<K, V> = keys.iter().copied().zip(values.iter().copied()).collect();
    let op = |(i, &key): (usize, &K)| match i % 3 {
        0 => Op::Insert(key, V::truncate(i as u64)),
        1 => Op::Remove(key),
        _ => Op::Update(key, V::truncate(!i as u64)),
    };
    let ops: Vec<Op<K, V>> = asked.iter().chain(asked.iter().rev().take(asked.len() / 3)).enumerate().map(op).collect();
    let value = |op: &Op<K, V>| match *op {
        Op::Insert(_, value) | Op::Update(_, value) => value,
        Op::Remove(_) => V::MAX,
    };
    let column = (
        device.upload(&ops.iter().map(|op| *op.key()).collect::<Vec<K>>())?,
        device.upload(&ops.iter().map(value).collect::<Vec<V>>())?,
        device.upload(&ops.iter().map(Op::kind).collect::<Vec<OpKind>>())?,
    );
    let (stream, mut scratch) = (device.stream()?, ShardedUpdateScratch::default());
    let batch = Batch::of_kinds(&column.0, &column.1, &column.2);
    let report = checked.time(|| index.apply_on(&stream, batch, &mut scratch))?;
    let expected = apply_to_map(&mut map, &ops);
    let counts = |report: &UpdateReport| vec![report.inserted, report.replaced, report.removed, report.unmatched];
    checked.expect("reports of changes", &counts(&report), &counts(&expected));
    let pairs: (Vec<_>, Vec<V>) = index.pairs()?.into_iter().map(|(key, value)| (key.encode(), value)).unzip();
    checked.expect("keys after changes", &pairs.0, &map.keys().map(|key| key.encode()).collect::<Vec<_>>());
    checked.expect("values after changes", &pairs.1, &map.values().copied().collect::<Vec<_>>());
    Ok(())
}
