//! Joins with many rows, by their kind, compared with writing those rows at the rate at which memory is copied:
//! equi-joins with a multi-map whose keys have four values each, and joins of ranges with a LaneTree.

use crate::bench::data::{Batch, Data, Order};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::figures::ceilings;
use crate::bench::map_pairs::{MapPairs, Values};
use crate::bench::plan::main_of;
use crate::bench::queries::{RangeBatch, batch_order};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::multimap::{DeviceJoin, JoinScratch};
use lanetree::{
    AnyKey, Buffer, Closed, DeviceRangeMatches, JoinKind, KeyWord, LaneTree, MultiMap, RangeJoinScratch, Word,
};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const EQUI: Measurement = Measurement::new("joins-equi", Run::Alone(equi));

pub(crate) const RANGE: Measurement = Measurement::new("joins-range", Run::Alone(range));

/// Values of a key.
const VALUES: usize = 4;

/// Pairs of a range.
const PAIRS: usize = 64;

/// Ranges for each probe of an equi-join, as a power of two: both have about as many rows.
const RANGES: u32 = 4;

/// A row with the ceiling of writing `bytes` bytes.
fn push(
    session: &mut Session,
    (figure, index): (&'static str, &'static str),
    (operation, order): (&str, Order),
    (n, batch, rows): (usize, usize, usize),
    bytes: usize,
    (timing, checksum): (Timing, Checksum),
) {
    let row = Row::new(figure, index, operation, batch, timing, checksum).on(session.device_name());
    let row = row.over(n, "u64", "u32", "uniform").with("order", order.name()).with("found", rows as u64);
    let ceiling = session.ceilings.copy.map(|copy| batch as f64 * copy / bytes as f64);
    session.push(row.with("bytes_moved", bytes as u64).with("ceiling_giga_per_second", ceiling));
}

fn equi(session: &mut Session, request: &Request) -> Result<()> {
    ceilings::copy(session)?;
    let size = main_of(&request.sizes);
    let pairs = MapPairs::new(1 << size, Values::Each(VALUES), session.seed_of(size));
    let rows: Vec<u32> = (0..pairs.len() as u32).collect();
    let map = MultiMap::build(&session.device, &pairs.keys(), &rows)?;
    drop(rows);
    for order in [Order::Random, Order::Sorted] {
        let Some(sorted) = pairs.distinct.sorted_batch(1 << session.plan.queries, true, session.seed) else {
            return Ok(());
        };
        let batch = sorted.ordered(order, session.seed);
        if session.has_time(format_args!("equi-joins, {}", order.name())) {
            equi_joins(session, &map, &batch, (pairs.len(), order))?;
        }
    }
    Ok(())
}

fn equi_joins(
    session: &mut Session,
    map: &MultiMap<u64, u32>,
    batch: &Batch<u64>,
    (n, order): (usize, Order),
) -> Result<()> {
    let count = batch.queries.len();
    let probes = session.device.upload(&batch.queries)?;
    for (operation, kind) in
        [("inner", JoinKind::Inner), ("left", JoinKind::Left), ("semi", JoinKind::Semi), ("anti", JoinKind::Anti)]
    {
        let hits = batch.origins.iter().filter(|origin| !origin.is_miss()).count() as u64;
        let rows = hits * kind.rows(VALUES as u64) + (count as u64 - hits) * kind.rows(0);
        let (device, room) = (&session.device, if kind.has_rows() { rows as usize } else { 0 });
        let join = EquiJoin { map, batch, probes: &probes, kind, operation, order, n };
        let wide =
            if kind.has_rows() { DeviceJoin::new(device, count, room)? } else { DeviceJoin::of_probes(device, count)? };
        join.measure(session, wide)?;
        let (device, operation) = (&session.device, format!("{operation}, numbers of 4 bytes"));
        let narrow = match kind.has_rows() {
            true => DeviceJoin::narrow(device, count, room)?,
            false => DeviceJoin::narrow_of_probes(device, count)?,
        };
        EquiJoin { operation: &operation, ..join }.measure(session, narrow)?;
    }
    Ok(())
}

/// A join of a batch with a map of `n` pairs.
struct EquiJoin<'a> {
    map: &'a MultiMap<u64, u32>,
    batch: &'a Batch<u64>,
    probes: &'a Buffer<u64>,
    kind: JoinKind,
    operation: &'a str,
    order: Order,
    n: usize,
}

impl EquiJoin<'_> {
    /// Times it, with numbers of probes of a type, and checks all rows.
    fn measure<N: AnyKey<Bits = N> + Word>(&self, session: &mut Session, mut out: DeviceJoin<u32, N>) -> Result<()> {
        let Self { map, batch, probes, kind, operation, order, n } = *self;
        let (count, origins) = (batch.queries.len(), &batch.origins);
        // The probe of each row, and which of its rows it is.
        let mut rows = Vec::new();
        for (probe, origin) in (0_u32..).zip(origins) {
            let own = kind.rows(if origin.is_miss() { 0 } else { VALUES as u64 });
            rows.extend((0..own as u8).map(|at| (probe, at)));
        }
        let total = rows.len();
        let mut scratch = JoinScratch::new(&session.device, count)?;
        let on = || map.on(&session.stream).order(batch_order(order)).kind(kind);
        let timing = session.time_call(&mut out, |out| on().join(probes, &mut scratch, out))?;
        drop(scratch);
        session.expect(&operation, "rows", out.count.to_vec()?[0], total as u64)?;
        let number = |at: usize| N::truncate(rows[at].0.into());
        let mut checksum = session.check(&operation, "probes", &out.probes, total, <N as KeyWord>::MAX, number)?;
        let mut bytes = size_of::<N>() * total;
        if kind.has_rows() {
            let row = |at: usize| {
                let (probe, own) = rows[at];
                let origin = origins[probe as usize];
                if origin.is_miss() { u32::MAX } else { (origin.rank() * VALUES) as u32 + u32::from(own) }
            };
            checksum = checksum.and(session.check(&operation, "rows", &out.rows, total, u32::MAX, row)?);
            bytes += 4 * total + 8 * count;
        }
        push(session, ("joins-equi", "multimap"), (operation, order), (n, count, total), bytes, (timing, checksum));
        Ok(())
    }
}

fn range(session: &mut Session, request: &Request) -> Result<()> {
    ceilings::copy(session)?;
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    if data.len() <= PAIRS {
        return Ok(());
    }
    let rows: Vec<u32> = (0..data.len() as u32).collect();
    let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &rows)?;
    drop(rows);
    for order in [Order::Random, Order::Sorted] {
        let queries = session.plan.queries.saturating_sub(RANGES).max(4);
        let Some(sorted) = data.sorted_batch(1 << queries, false, session.seed) else { return Ok(()) };
        let batch = sorted.ordered(order, session.seed);
        if session.has_time(format_args!("joins of ranges, {}", order.name())) {
            range_joins(session, &tree, (&data, &batch), order)?;
        }
    }
    Ok(())
}

fn range_joins(
    session: &mut Session,
    tree: &LaneTree<u64, u32>,
    (data, batch): (&Data<u64>, &Batch<u64>),
    order: Order,
) -> Result<()> {
    let asked = RangeBatch::new(session, data, batch.first_ranks(data.len() - PAIRS), PAIRS)?;
    let (firsts, count) = (&asked.first, asked.first.len());
    for (operation, kind) in [("inner", JoinKind::Inner), ("left", JoinKind::Left), ("semi", JoinKind::Semi)] {
        let pairs = if kind.has_rows() { PAIRS } else { 1 };
        let total = count * pairs;
        let mut out = DeviceRangeMatches::without_keys(&session.device, count, total)?;
        let mut scratch = RangeJoinScratch::new(&session.device, count)?;
        let on = || tree.on(&session.stream).order(batch_order(order)).kind(kind);
        let timing = session
            .time_call(&mut out, |out| on().range_join(&asked.starts, &asked.ends, Closed::Both, &mut scratch, out))?;
        drop(scratch);
        let last = if kind.has_rows() { count } else { 0 };
        session.expect(&operation, "rows", out.pairs.offsets.to_vec()?[last], total as u64)?;
        let mut checksum =
            session.check(&operation, "probes", &out.probes, total, u64::MAX, |at| (at / pairs) as u64)?;
        let mut bytes = 8 * total;
        if kind.has_rows() {
            let row = |at: usize| (firsts[at / PAIRS] + at % PAIRS) as u32;
            checksum = checksum.and(session.check(&operation, "rows", &out.pairs.values, total, u32::MAX, row)?);
            bytes += 4 * total + 8 * count;
        }
        let sizes = (data.len(), count, total);
        push(session, ("joins-range", "lanetree"), (operation, order), sizes, bytes, (timing, checksum));
    }
    Ok(())
}
