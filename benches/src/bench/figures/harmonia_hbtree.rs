//! Harmonia compared with the HB+-tree, as in its paper: the hybrid tree of this library, and not the plain B+tree with
//! child references of the ladder.

use crate::bench::data::{miss, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::lookups::{Measured, measure_count, pool};
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::psa::psa_sort;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::BatchOrder;
use lanetree::Harmonia;
use lanetree::harmonia::{GetBySorting, PsaScratch, QuerySort};
use lanetree::hbtree::{Builder, HbTree, Structure};
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("harmonia-hbtree", Run::Alone(measure));

/// What a row's time is of.
const HOST: &str = "host to host";
const RANDOM: &str = "look-up, random";
const SORTED: &str = "sort + look-up";
const WHOLE: &str = "order to order";

/// Queries that begin and end in host memory, at most, as a power of two.
const FROM_HOST: u32 = 24;

/// Queries of a descent alone, at most, as a power of two; and how often it is measured.
const DESCENDING: u32 = 22;
const DESCENTS: usize = 5;

/// The implicit tree's rates, which others are compared with.
#[derive(Clone, Copy, Default)]
struct Rates {
    hybrid: Option<f64>,
    descent: Option<f64>,
}

impl Rates {
    fn compare(&self, mut row: Row) -> Row {
        let rate = row.giga_per_second;
        row.set("x_hybrid", self.hybrid.map(|hybrid| rate / hybrid));
        // What begins and ends in host memory is no match for a kernel.
        row.set("x_descent", self.descent.filter(|_| row.text("way") != Some(HOST)).map(|descent| rate / descent));
        row
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let mut rates = Rates::default();
        of_hbtree(session, size, &HbTree::builder(), &mut rates)?;
        of_hbtree(session, size, &HbTree::builder().regular(), &mut rates)?;
        of_harmonia(session, size, &rates)
    })
}

fn count(session: &Session, most: u32) -> usize {
    1 << session.plan.queries.min(most)
}

/// The hybrid tree, and its kernel alone. The first tree's rates are kept.
fn of_hbtree<L: Structure>(
    session: &mut Session,
    size: u32,
    builder: &Builder<u64, u64, L>,
    rates: &mut Rates,
) -> Result<()> {
    let device = session.device.clone();
    let Some(subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
    let queries = count(session, FROM_HOST);
    let mut row = subject.look_up_count(session, FIGURE.name, Side::Hybrid, HOST, queries)?.with("way", HOST);
    let queries = count(session, DESCENDING);
    let buckets = pool(session, &subject.keys, queries * DESCENTS);
    let stages = buckets.chunks(queries).map(|bucket| subject.tree.stage_times(bucket));
    if let Some(stages) = stages.collect::<lanetree::Result<Option<Vec<_>>>>()? {
        let descents = stages.iter().map(|stages| stages.descent.as_secs_f64() * 1e3);
        let rate = giga_per_second(queries, Timing::of(descents.collect()).median_ms);
        row.set("descent_giga_per_second", rate);
        rates.descent.get_or_insert(rate);
    }
    rates.hybrid.get_or_insert(row.giga_per_second);
    session.push(rates.compare(row));
    Ok(())
}

fn giga_per_second(count: usize, ms: f64) -> f64 {
    count as f64 / ms.max(1e-9) / 1e6
}

/// Harmonia of the default fanout over the same keys.
fn of_harmonia(session: &mut Session, size: u32, rates: &Rates) -> Result<()> {
    let keys = Keys::<u64>::new(size, session.seed_of(size));
    session.doing(format_args!("building Harmonia, {}", keys.describe()));
    let (mut all, mut values) = (Vec::new(), Vec::new());
    keys.pairs_into(0..keys.len(), &mut all, &mut values);
    let tree = Harmonia::<u64, u64>::builder().build_sorted(&session.device, &all, &values)?;
    drop((all, values));
    let stats = tree.stats();
    let push = |session: &mut Session, way: &'static str, measured: Measured, bits: Option<u32>| {
        let Measured { count, timing, checksum } = measured;
        let operation = if way == HOST { "get_many_or" } else { "get" };
        let row = Row::new(FIGURE.name, "harmonia", operation, count, timing, checksum)
            .on(session.device_name())
            .over(keys.len(), keys.name(), keys.name(), "uniform")
            .with("fanout", stats.fanout)
            .with("hit_rate", 1.0)
            .with("footprint_bytes", stats.bytes())
            .with("bytes_per_key", stats.bytes_per_key)
            .with("sorted_bits", bits)
            .with("way", way);
        session.push(rates.compare(row));
    };

    let what = format!("Harmonia, {}", keys.describe());
    let get = |queries: &[u64], out: &mut [u64]| Ok(tree.get_many_or(queries, miss(), out)?);
    let measured = measure_count(session, &what, &keys, count(session, FROM_HOST), get, |value| value)?;
    push(session, HOST, measured, None);

    let asked = pool(session, &keys, 1 << session.plan.queries);
    let queries = session.device.upload(&asked)?;
    let mut out = session.device.alloc::<u64>(asked.len())?;
    let on = || tree.on(&session.stream);
    let timing = session.time_call(&mut out, |out| on().miss(miss()).get(&queries, out))?;
    let checksum = session.check(&what, "values", &out, asked.len(), miss(), |i| value_of(asked[i]))?;
    push(session, RANDOM, Measured { count: asked.len(), timing, checksum }, None);

    let bits = tree.psa_bits().max(1);
    let sorted = psa_sort(session, &queries, bits)?;
    let on = || tree.on(&session.stream).order(BatchOrder::TopBits(bits));
    let value = |i: usize| value_of(asked[sorted.positions[i] as usize]);
    let look_up = session.time_call(&mut out, |out| on().miss(miss()).get(&sorted.queries, out))?;
    let checksum = session.check(&what, "values of sorted queries", &out, asked.len(), miss(), value)?;
    if let Some(sort) = &sorted.sort {
        // Of medians, for want of runs that have both.
        let timing = Timing::of(vec![look_up.median_ms + sort.median_ms]);
        push(session, SORTED, Measured { count: asked.len(), timing, checksum }, Some(bits));
    }
    drop(sorted);

    let mut scratch = PsaScratch::new(&session.device, asked.len())?;
    let on = || tree.on(&session.stream);
    let timing = session.time_call(&mut out, |out| {
        on().miss(miss()).get_by_sorting(QuerySort::TopBits(bits), &queries, out, &mut scratch)
    })?;
    let checksum = session.check(&what, "values", &out, asked.len(), miss(), |i| value_of(asked[i]))?;
    push(session, WHOLE, Measured { count: asked.len(), timing, checksum }, Some(bits));
    Ok(())
}
