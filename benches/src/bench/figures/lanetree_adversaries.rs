//! LaneTree over keys that are made to defeat it, and batches of new keys that are: sizes and rates compared with
//! uniform keys, and with Harmonia.

use crate::bench::batches::{Sent, Spread, batch, keys};
use crate::bench::data::{Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::lane_tree::adversaries::Adversary;
use crate::bench::lane_tree::inserts::{Inserted, Origin, SERIES, inserts};
use crate::bench::map_pairs::{MapPairs, Values, value};
use crate::bench::plan::main_of;
use crate::bench::queries::{hit_rate, look_ups, lower_bounds};
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::fmt;
use lanetree::lane_tree::BuildScratch;
use lanetree::multimap::{DeviceRows, Scratch};
use lanetree::{DeviceKind, Harmonia, LaneTree, MultiMap};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use std::collections::BTreeMap;
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new("lanetree-adversaries", Run::Alone(measure)).summary(summary);

/// Queries of a batch at most: more would not change the rates.
const MOST_QUERIES: u32 = 24;

/// Values of the key that has many.
const EQUAL: u32 = 20;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let mut uniform = Uniform::default();
    let data = Data::uniform(1 << size, session.seed_of(size));
    of_keys(session, &data, &mut uniform)?;
    for adversary in Adversary::ALL {
        if session.has_time(format_args!("{}, n = 2^{size}", adversary.name())) {
            let data = adversary.keys(1 << size, session.seed_of(size));
            of_keys(session, &data, &mut uniform)?;
        }
    }
    if session.has_time(format_args!("equal keys in a multi-map, n = 2^{size}")) {
        equal_keys(session, size)?;
    }
    batches(session, size)
}

/// What uniform keys take.
#[derive(Default)]
struct Uniform {
    /// Bytes per key, by the number of keys.
    bytes: BTreeMap<usize, f64>,
    /// Rates of the main size, by the call and whether half of its queries miss.
    rates: BTreeMap<(&'static str, bool), f64>,
}

impl Uniform {
    fn bytes_per_key(&mut self, session: &Session, len: usize) -> Result<f64> {
        if let Some(&bytes) = self.bytes.get(&len) {
            return Ok(bytes);
        }
        let data = Data::<u64>::uniform(len, session.seed);
        let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &data.values)?;
        let bytes = tree.bytes() as f64 / len as f64;
        self.bytes.insert(len, bytes);
        Ok(bytes)
    }
}

/// Look-ups, all present and half of them, and ranks of the latter; the first keys that come are uniform ones.
fn of_keys(session: &mut Session, data: &Data<u64>, uniform: &mut Uniform) -> Result<()> {
    let what = format!("{}, n = {}", data.source, data.len());
    session.doing(format_args!("building, {what}"));
    let pairs = (session.device.upload(&data.keys)?, session.device.upload(&data.values)?);
    let (pairs, len, scratch) = ((&pairs.0, &pairs.1), data.len(), &mut BuildScratch::for_sorted(&session.device)?);
    let tree = LaneTree::builder().build_sorted_on(&session.stream, pairs.0, pairs.1, len, scratch)?;
    let harmonia = Harmonia::builder().build_sorted_on(&session.stream, pairs.0, pairs.1, len, scratch)?;
    let bytes = tree.bytes() as f64 / data.len() as f64;
    let bytes_x_uniform = bytes / uniform.bytes_per_key(session, data.len())?;
    let count = 1 << session.plan.queries.min(MOST_QUERIES);
    for misses in [false, true] {
        let Some(sorted) = data.sorted_batch(count, misses, session.seed ^ u64::from(misses)) else {
            session.skip(format_args!("misses, {what}: there are no keys between the keys"));
            continue;
        };
        let batch = sorted.ordered(Order::Random, session.seed);
        let queries = session.device.upload(&batch.queries)?;
        let mut measured = Vec::new();
        let (own, other) = (|| tree.on(&session.stream), || harmonia.on(&session.stream));
        measured.push((
            "get",
            look_ups(session, &what, &batch, |out| own().miss(miss()).get(&queries, out))?,
            look_ups(session, &what, &batch, |out| other().miss(miss()).get(&queries, out))?,
        ));
        if misses {
            measured.push((
                "lower_bound",
                lower_bounds(session, &what, &batch, |out| own().lower_bound(&queries, out))?,
                lower_bounds(session, &what, &batch, |out| other().lower_bound(&queries, out))?,
            ));
        }
        for (operation, (timing, checksum), (of_harmonia, _)) in measured {
            let x_harmonia = of_harmonia.median_ms / timing.median_ms;
            let row = Row::new(FIGURE.name, "lanetree", operation, count, timing, checksum).on(session.device_name());
            let rate = *uniform.rates.entry((operation, misses)).or_insert(row.giga_per_second);
            let x_uniform = row.giga_per_second / rate;
            let row = data.label(row).with("hit_rate", hit_rate(misses)).with("x_harmonia", x_harmonia);
            let row = row.with("x_uniform", x_uniform).with("bytes_per_key", bytes);
            session.push(row.with("bytes_x_uniform", bytes_x_uniform));
        }
    }
    Ok(())
}

/// A multi-map in which one key has 2^20 values, and each other one.
fn equal_keys(session: &mut Session, size: u32) -> Result<()> {
    let len = 1_usize << size;
    let equal = 1_usize << EQUAL.min(size - 1);
    let pairs = MapPairs::new(len, Values::OfOne(equal), session.seed_of(size));
    let (data, heavy) = (&pairs.distinct, pairs.heavy());
    let first_of = |rank: usize| value(pairs.places(rank).start);
    let what = "equal keys in a multi-map";
    session.doing(what);
    let uniform = Data::<u64>::uniform(len, session.seed_of(size));
    let even = MultiMap::build_sorted(&session.device, &uniform.keys, &uniform.values)?.stats().bytes();
    let map = MultiMap::build_sorted(&session.device, &pairs.keys(), &pairs.values())?;
    let firsts: Vec<u64> = (0..data.len()).into_par_iter().map(first_of).collect();
    let harmonia = Harmonia::builder().build_sorted(&session.device, &data.keys, &firsts)?;
    let bytes = map.stats().bytes();
    let label = |row: Row, session: &Session| {
        let row = row.on(session.device_name()).over(len, "u64", "u64", format!("{}, multi-map", pairs.name()));
        let row = row.with("bytes_per_key", bytes as f64 / len as f64);
        row.with("bytes_x_uniform", bytes as f64 / even as f64)
    };

    // Every second query asks for the key with many values.
    let count = 1_usize << session.plan.queries.min(MOST_QUERIES);
    let Some(sorted) = data.sorted_batch(count, false, session.seed) else { return Ok(()) };
    let ranks = sorted.ordered(Order::Random, session.seed).first_ranks(data.len() - 1);
    let ranks = ranks.into_iter().enumerate().map(|(i, rank)| if i % 2 == 0 { heavy } else { rank });
    let batch = data.batch_of_ranks(ranks);
    let queries = session.device.upload(&batch.queries)?;
    let mut out = session.device.alloc::<u64>(count)?;
    let mut scratch = Scratch::new(&session.device, count)?;
    let on = || map.on(&session.stream);
    let right = |i: usize| first_of(batch.origins[i].rank());
    let first = session.time_call(&mut out, |out| on().miss(miss()).first(&queries, out, &mut scratch))?;
    let firsts = session.check(&what, "first values", &out, count, miss(), right)?;
    let of_harmonia =
        session.time_call(&mut out, |out| harmonia.on(&session.stream).miss(miss()).get(&queries, out))?;
    session.check(&what, "values", &out, count, miss(), right)?;
    let right = |i: usize| pairs.places(batch.origins[i].rank()).len() as u64;
    let counting = session.time_call(&mut out, |out| on().count(&queries, out, &mut scratch))?;
    let counts = session.check(&what, "counts", &out, count, u64::MAX, right)?;
    let x_harmonia = of_harmonia.median_ms / first.median_ms;
    let row = label(Row::new(FIGURE.name, "multimap", "first", count, first, firsts), session);
    session.push(row.with("x_harmonia", x_harmonia));
    let row = label(Row::new(FIGURE.name, "multimap", "count", count, counting, counts), session);
    session.push(row);

    // All values of that key, by a few queries.
    let few = (count / equal).clamp(1, 16);
    let queries = session.device.upload(&vec![data.keys[heavy]; few])?;
    let mut rows = DeviceRows::new(&session.device, few, few * equal)?;
    let mut scratch = Scratch::new(&session.device, few)?;
    let timing = session.time_call(&mut rows, |rows| map.on(&session.stream).get_all(&queries, &mut scratch, rows))?;
    let of_key = |i: usize| value(pairs.places(heavy).start + i % equal);
    let checksum = session.check(&what, "values", &rows.values, few * equal, miss(), of_key)?;
    let offsets: Checksum =
        session.check(&what, "offsets", &rows.offsets, few + 1, u64::MAX, |i| (i * equal) as u64)?;
    // By values, as the rates of others are by look-ups.
    let row = Row::new(FIGURE.name, "multimap", "get_all, values", few * equal, timing, checksum.and(offsets));
    let row = label(row, session);
    session.push(row);
    Ok(())
}

/// Batches of new keys that all come to the same places.
fn batches(session: &mut Session, size: u32) -> Result<()> {
    const FILL: f64 = 0.7;
    let quick = session.plan.scale.quick || session.plan.scale.kind != DeviceKind::Cuda;
    let (len, count) = (1_usize << size, 1_usize << if quick { 8 } else { 20 });
    let mut sorted = keys(session.seed, len);
    sort_unstable_by(&mut sorted, Ord::cmp);
    let pairs = Sent::new(session, &sorted)?;
    session.stream.synchronize()?;
    let builder = LaneTree::<u64, u64>::builder().fill(FILL);
    let mut uniform = BTreeMap::new();
    for spread in [Spread::Uniform, Spread::OneNode, Spread::Appended, Spread::Descending, Spread::Alternating] {
        let what = format!("batches, {}", spread.name());
        if !session.has_time(&what) {
            continue;
        }
        let all = batch(session.seed, &sorted, SERIES * count, spread);
        let inserted = inserts(session, &builder, &pairs, &all, Origin::Device, &what)?.into_iter();
        let first_and_last = inserted.filter(|batch| [0, SERIES - 1].contains(&batch.before));
        for Inserted { before, timing, checksum, path, bytes_per_key } in first_and_last {
            let row = Row::new(FIGURE.name, "lanetree", "insert", count, timing, checksum).on(session.device_name());
            let (rate, bytes) = *uniform.entry(before).or_insert((row.giga_per_second, bytes_per_key));
            let x_uniform = row.giga_per_second / rate;
            let row = row.over(len, "u64", "u64", "uniform").with("fill", FILL).with("spread", spread.name());
            let row = row.with("batches_before", before as u64).with("path", path);
            let row = row.with("x_uniform", x_uniform).with("bytes_per_key", bytes_per_key);
            session.push(row.with("bytes_x_uniform", bytes_per_key / bytes));
        }
    }
    Ok(())
}

/// The worst of each.
fn summary(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    let mut worst = |what: &str, field: &str, of: &dyn Fn(&Row) -> bool, is_worse: fn(f64, f64) -> bool| {
        let of_rows = rows.iter().filter(|row| of(row)).filter_map(|row| Some((row.number(field)?, row)));
        let found = of_rows.reduce(|a, b| if is_worse(b.0, a.0) { b } else { a });
        found.map_or(Ok(()), |(number, row)| writeln!(out, "  {what}: {number:.2} ({})", Named(row)))
    };
    let any = |_: &Row| true;
    let is_insert = |row: &Row| row.operation == "insert";
    worst("most bytes, over the bytes of uniform keys; at most 2 is wanted", "bytes_x_uniform", &any, |a, b| a > b)?;
    worst("slowest look-ups, over Harmonia's; at least 0.5 is wanted", "x_harmonia", &any, |a, b| a < b)?;
    worst("slowest batches, over uniform ones; at least 0.33 is wanted", "x_uniform", &is_insert, |a, b| a < b)
}

/// A row in words.
struct Named<'a>(&'a Row);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(row) = self;
        match row.text("spread") {
            Some(spread) => write!(f, "{}, {spread}", row.operation),
            None => write!(f, "{}, {}", row.operation, row.keys),
        }
    }
}
