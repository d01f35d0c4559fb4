//! The multi-map, by the number of values of a key: builds, queries, changes and bytes.

use crate::bench::data::{Data, Order, Permutation, miss, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::map_pairs::{MapPairs, Values, value};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::multimap::{DeviceRows, Scratch, ValueRows};
use lanetree::{Buffer, DeviceKind, LaneTree, MultiMap, Pool, Stream, UpdatePath};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("multimap", Run::Alone(measure));

/// Values of the key that has many.
const EQUAL: u32 = 20;

/// Values that a batch of queries finds at most, as a power of two; a batch has as many keys at most.
const FOUND: u32 = 25;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let equal = 1 << EQUAL.min(size - 1);
    let uniform = Data::<u64>::uniform(1 << size, session.seed_of(size));
    let tree = LaneTree::builder().build_sorted(&session.device, &uniform.keys, &uniform.values)?;
    let lanetree = tree.bytes() as f64 / uniform.len() as f64;
    drop((tree, uniform));
    for values in [Values::Each(1), Values::Each(4), Values::Each(64), Values::OfOne(equal)] {
        let pairs = MapPairs::new(1 << size, values, session.seed_of(size));
        if session.has_time(format_args!("{}, n = 2^{size}", pairs.name())) {
            Subject::new(session, pairs, lanetree)?.measure(session)?;
        }
    }
    Ok(())
}

type Map = MultiMap<u64, u64>;

/// Pairs, and a map of them.
struct Subject {
    pairs: MapPairs,
    /// All in order, on the device.
    sorted: (Buffer<u64>, Buffer<u64>),
    stream: Stream,
    map: Map,
    /// Bytes of a pair in a LaneTree.
    lanetree: f64,
}

impl Subject {
    fn new(session: &Session, pairs: MapPairs, lanetree: f64) -> Result<Self> {
        let sorted = (session.device.upload(&pairs.keys())?, session.device.upload(&pairs.values())?);
        // Its memory, and that of all maps made in it, comes from a pool.
        let stream = Pool::new(&session.device).device().stream()?;
        let map = MultiMap::build_on(&stream, &sorted.0, &sorted.1, pairs.len())?;
        Ok(Self { pairs, sorted, stream, map, lanetree })
    }

    fn row(&self, session: &Session, operation: &str, batch: usize, timing: Timing, checksum: Checksum) -> Row {
        let row = Row::new(FIGURE.name, "multimap", operation, batch, timing, checksum).on(session.device_name());
        let row = row.over(self.pairs.len(), "u64", "u64", self.pairs.name());
        let bytes = self.map.stats().bytes() as f64 / self.pairs.len() as f64;
        row.with("bytes_per_key", bytes).with("bytes_x_lanetree", bytes / self.lanetree)
    }

    fn measure(&self, session: &mut Session) -> Result<()> {
        self.build(session)?;
        let most = self.pairs.len() / self.pairs.distinct.len();
        let most = (1_usize << FOUND.min(session.plan.queries)) / most;
        self.queries(session, most)?;
        self.host_form(session, most.min(1 << 22))?;
        let quick = session.plan.scale.quick || session.plan.scale.kind != DeviceKind::Cuda;
        self.changes(session, if quick { 1 << 6 } else { 1 << 20 })?;
        for batch in if quick { [1 << 4, 1 << 6] } else { [1 << 16, 1 << 20] } {
            for before in [0, 9] {
                self.in_place(session, batch, before)?;
            }
        }
        Ok(())
    }

    /// From unsorted pairs on the device.
    fn build(&self, session: &mut Session) -> Result<()> {
        let len = self.pairs.len();
        let permutation = Permutation::new(len, session.seed);
        let (keys, values) = (self.pairs.keys(), self.pairs.values());
        let turned = |of: &[u64]| (0..len).into_par_iter().map(|i| of[permutation.image(i)]).collect();
        let unsorted = (session.device.upload(&turned(&keys))?, session.device.upload(&turned(&values))?);
        drop((keys, values));
        let build = || MultiMap::build_on(&self.stream, &unsorted.0, &unsorted.1, len);
        let (timing, made): (_, Map) = session.time_making(build)?;
        let asked = self.some_ranks(session, 1 << 10);
        let mut rows = made.get_all_many(&self.keys_of(&asked))?;
        // They are in the order in which the unsorted pairs came.
        for range in rows.offsets.windows(2) {
            rows.values[range[0] as usize..range[1] as usize].sort_unstable();
        }
        let checksum = self.check_rows(session, "build_on", &asked, &rows, true)?;
        let row = self.row(session, "build_on", len, timing, checksum);
        session.push(row);
        Ok(())
    }

    /// Ranks of distinct keys, at most `most`, in random order; never that of the key with many values, if it is one.
    fn some_ranks(&self, session: &Session, most: usize) -> Vec<usize> {
        let distinct = &self.pairs.distinct;
        let least = self.pairs.places(0).len();
        let step = (distinct.len() / most).max(1);
        let mut ranks: Vec<usize> = (0..distinct.len()).step_by(step).take(most).collect();
        ranks.retain(|&rank| self.pairs.places(rank).len() == least);
        sort_by_word(&mut ranks, |&rank| value_of(rank as u64 ^ session.seed << 32)).expect("memory for a batch");
        ranks
    }

    fn keys_of(&self, ranks: &[usize]) -> Vec<u64> {
        ranks.par_iter().map(|&rank| self.pairs.distinct.keys[rank]).collect()
    }

    /// Compares the values of keys with their pairs' values, in the order of the pairs or of the values.
    fn check_rows(
        &self,
        session: &Session,
        what: &str,
        ranks: &[usize],
        rows: &ValueRows<u64>,
        is_by_value: bool,
    ) -> Result<Checksum> {
        let mut expected: Vec<u64> = Vec::with_capacity(rows.values.len());
        let mut offsets = vec![0_u64];
        for &rank in ranks {
            let start = expected.len();
            expected.extend(self.pairs.places(rank).map(value));
            if is_by_value {
                expected[start..].sort_unstable();
            }
            offsets.push(expected.len() as u64);
        }
        let by_offset =
            session.check_slice(&what, "offsets", &rows.offsets, 0..offsets.len(), u64::MAX, |i| offsets[i])?;
        let by_value =
            session.check_slice(&what, "values", &rows.values, 0..expected.len(), miss(), |i| expected[i])?;
        Ok(by_offset.and(by_value))
    }

    /// On the device.
    fn queries(&self, session: &mut Session, most: usize) -> Result<()> {
        let Some(sorted) = self.pairs.distinct.sorted_batch(most.next_power_of_two(), false, session.seed) else {
            return Ok(());
        };
        let batch = sorted.ordered(Order::Random, session.seed);
        // Work by output would do the key with many values as fast, but its values would be most of all.
        let plain = if self.pairs.heavy() == 0 { 0 } else { self.pairs.heavy() - 1 };
        let least = self.pairs.places(0).len();
        let ranks: Vec<usize> = batch.origins.iter().map(|origin| origin.rank()).collect();
        let ranks: Vec<usize> =
            ranks.into_iter().map(|rank| if self.pairs.places(rank).len() == least { rank } else { plain }).collect();
        let (count, found) = (ranks.len(), ranks.len() * least);
        let queries = session.device.upload(&self.keys_of(&ranks))?;

        let mut scratch = Scratch::new(&session.device, count)?;
        let mut rows = DeviceRows::new(&session.device, count, found)?;
        let timing =
            session.time_call(&mut rows, |rows| self.map.on(&session.stream).get_all(&queries, &mut scratch, rows))?;
        let what = "get_all";
        let place = |i: usize| self.pairs.places(ranks[i / least]).start + i % least;
        let by_value = session.check(&what, "values", &rows.values, found, miss(), |i| value(place(i)))?;
        let offset = |i: usize| (i * least) as u64;
        let checksum = by_value.and(session.check(&what, "offsets", &rows.offsets, count + 1, u64::MAX, offset)?);
        drop(rows);
        let row = self.row(session, what, count, timing, checksum).with("found", found as u64);
        session.push(row.with("bytes_moved", 16 * found as u64));

        let mut out = session.device.alloc::<u64>(count)?;
        let timing =
            session.time_call(&mut out, |counts| self.map.on(&session.stream).count(&queries, counts, &mut scratch))?;
        let checksum = session.check(&"count", "counts", &out, count, u64::MAX, |_| least as u64)?;
        let row = self.row(session, "count", count, timing, checksum);
        session.push(row);
        let call =
            |values: &mut Buffer<u64>| self.map.on(&session.stream).miss(miss()).first(&queries, values, &mut scratch);
        let first = |i: usize| value(self.pairs.places(ranks[i]).start);
        let timing = session.time_call(&mut out, call)?;
        let checksum = session.check(&"first", "values", &out, count, miss(), first)?;
        let row = self.row(session, "first", count, timing, checksum);
        session.push(row);
        Ok(())
    }

    /// From and to host memory.
    fn host_form(&self, session: &mut Session, most: usize) -> Result<()> {
        let ranks = self.some_ranks(session, most);
        let keys = self.keys_of(&ranks);
        let (timing, rows) = session.time_making(|| self.map.get_all_many(&keys))?;
        let checksum = self.check_rows(session, "get_all_many", &ranks, &rows, false)?;
        let row = self.row(session, "get_all_many", keys.len(), timing, checksum);
        session.push(row.with("found", rows.values.len() as u64).with("bytes_moved", 16 * rows.values.len() as u64));
        Ok(())
    }

    /// A batch of each kind of change, into a map of its own.
    fn changes(&self, session: &mut Session, most: usize) -> Result<()> {
        let ranks = self.some_ranks(session, most);
        let (keys, count) = (self.keys_of(&ranks), ranks.len());
        let least = self.pairs.places(0).len() as u64;
        let added: Vec<u64> = keys.par_iter().map(|&key| value_of(!key)).collect();
        let removed: Vec<(u64, u64)> =
            ranks.par_iter().zip(&keys).map(|(&rank, &key)| (key, value(self.pairs.places(rank).start))).collect();
        type Change<'a> = &'a dyn Fn(&mut Map) -> lanetree::Result<lanetree::UpdateReport>;
        let cases: [(&str, Change<'_>, u64, u64); 3] = [
            ("insert_many", &|map| map.insert_many(&keys, &added), count as u64, least + 1),
            ("remove_pairs_many", &|map| map.remove_pairs_many(&removed), count as u64, least - 1),
            ("remove_all_many", &|map| map.remove_all_many(&keys), count as u64 * least, 0),
        ];
        for (operation, change, pairs, left) in cases {
            let what = format!("{operation}, {}", self.pairs.name());
            if !session.has_time(&what) {
                continue;
            }
            let (sorted, len) = (&self.sorted, self.pairs.len());
            let build = || MultiMap::build_on(&self.stream, &sorted.0, &sorted.1, len);
            let (timing, map, report) = session.time_on_fresh(build, |map| Ok(change(map)?))?;
            session.expect(&what, "pairs that were changed", report.inserted + report.removed, pairs)?;
            let len = self.pairs.len() as u64;
            let after = if operation == "insert_many" { len + pairs } else { len - pairs };
            session.expect(&what, "pairs", map.len(), after)?;
            let counts = map.count_many(&keys)?;
            let mut checksum = session.check_slice(&what, "counts", &counts, 0..count, u64::MAX, |_| left)?;
            // What was inserted is last; what was removed was first.
            let asked = 1024.min(count);
            let rows = map.get_all_many(&keys[..asked])?;
            let place = |i: usize, at: usize| self.pairs.places(ranks[i]).start + at;
            let expected = |i: usize| {
                let (row, at) = (i / left as usize, i % left as usize);
                match operation {
                    "insert_many" if at as u64 == least => added[row],
                    "insert_many" => value(place(row, at)),
                    _ => value(place(row, at + 1)),
                }
            };
            let found = 0..asked * left as usize;
            checksum = checksum.and(session.check_slice(&what, "values", &rows.values, found, miss(), expected)?);
            let row = self.row(session, operation, count, timing, checksum);
            session.push(row.with("found", pairs));
        }
        Ok(())
    }

    /// A batch of new pairs on the device, half of them with new keys, into a map with room that has had `before` such
    /// batches; where these all find room.
    fn in_place(&self, session: &mut Session, count: usize, before: usize) -> Result<()> {
        let ranks = self.some_ranks(session, (before + 1) * count / 2);
        let least = self.pairs.places(0).len() as u64;
        let has_heavy = self.pairs.places(self.pairs.heavy()).len() as u64 > least;
        if least > 4 || has_heavy || ranks.len() < (before + 1) * count / 2 {
            return Ok(());
        }
        let operation = format!("insert_on, in place, after {before}");
        let what = format!("{operation}, {}", self.pairs.name());
        if !session.has_time(&what) {
            return Ok(());
        }
        // An old key and a new one next to it, in turn.
        let is_new = |key: u64| self.pairs.distinct.keys.binary_search(&key).is_err();
        let mut keys: Vec<u64> = self.keys_of(&ranks).into_iter().flat_map(|key| [key, key ^ 1]).collect();
        keys.iter_mut().skip(1).step_by(2).for_each(|key| *key ^= u64::from(!is_new(*key)));
        let values: Vec<u64> = keys.iter().map(|&key| value_of(!key)).collect();
        let batches = keys.chunks(count).zip(values.chunks(count));
        let upload =
            |(keys, values): (&[u64], &[u64])| Ok((session.device.upload(keys)?, session.device.upload(values)?));
        let batches = batches.map(upload).collect::<Result<Vec<(Buffer<u64>, Buffer<u64>)>>>()?;
        let build = || -> lanetree::Result<Map> {
            let (keys, values) = &self.sorted;
            let mut map = MultiMap::builder().room(1.0).fill(0.7).build_sorted_on(
                &self.stream,
                keys,
                values,
                self.pairs.len(),
            )?;
            for (keys, values) in &batches[..before] {
                map.insert_on(&self.stream, keys, values)?;
            }
            Ok(map)
        };
        let (keys_on, values_on) = &batches[before];
        let insert = |map: &mut Map| Ok(map.insert_on(&self.stream, keys_on, values_on)?.path);
        let (timing, map, path) = session.time_on_fresh(build, insert)?;
        session.expect(&what, "batches in place", u64::from(path == UpdatePath::InPlace), 1)?;
        session.expect(&what, "pairs", map.len(), (self.pairs.len() + keys.len()) as u64)?;
        let last = &keys[before * count..];
        let counts = map.count_many(last)?;
        let of = |i: usize| match i % 2 {
            0 => least + u64::from(last[i + 1] == last[i]) + 1,
            _ if is_new(last[i]) => 1,
            _ => least + 2,
        };
        let mut checksum = session.check_slice(&what, "counts", &counts, 0..count, u64::MAX, of)?;
        let found = map.last_many(last)?;
        checksum = checksum.and(session.check_found(&what, &found, count, miss(), |i| value_of(!last[i]))?);
        let bytes = map.stats().bytes() as f64 / map.len() as f64;
        let row = self.row(session, &operation, count, timing, checksum).with("bytes_per_key", bytes);
        session.push(row.with("bytes_x_lanetree", bytes / self.lanetree));
        Ok(())
    }
}
