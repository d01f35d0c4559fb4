//! Look-ups and ranges that begin and end in host memory.

use crate::bench::bus::bus;
use crate::bench::calls::{Calls, SMALL};
use crate::bench::columns::power;
use crate::bench::data::{Batch, BenchWord, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Part, Run, either};
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use core::ops::{Range, RangeInclusive};
use lanetree::Ranges;
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "end-to-end",
    Run::Part(Part::OfTree(At::MainSize, |session, tree| either!(tree, subject => measure(session, subject)))),
);

fn measure<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    look_ups(session, subject)?;
    ranges(session, subject)
}

/// Random hits, transfers and all: large batches from ordinary and from page-locked memory, and small ones.
fn look_ups<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let what = format!("host end-to-end, {}", subject.describe());
    if !session.has_time(&what) {
        return Ok(());
    }
    let count = 1 << session.plan.host_queries;
    let sorted = subject.data.sorted_batch(count, false, session.seed ^ 0xe2e).expect("hits are always to be had");
    let batch = sorted.ordered(Order::Random, session.seed);
    let bus = bus::<W, W>(session, count, count)?;

    let mut out = vec![None; count];
    let timing = session.time_into(&mut out, |out| subject.tree.get_many_into(&batch.queries, out))?;
    let found: Vec<W> = out.into_iter().map(|value| value.unwrap_or(miss())).collect();
    push_found(session, subject, "get_many_into", &batch, &found, timing, bus)?;

    let mut out = vec![W::default(); count];
    let timing = session.time_into(&mut out, |out| subject.tree.get_many_or(&batch.queries, miss(), out))?;
    push_found(session, subject, "get_many_or", &batch, &out, timing, bus)?;

    let mut queries = session.device.pinned::<W>(count)?;
    queries.copy_from_slice(&batch.queries);
    let mut out = session.device.pinned::<W>(count)?;
    let timing = session.time_into(&mut out, |out| subject.tree.get_many_pinned(&queries, miss(), out, None))?;
    push_found(session, subject, "get_many_pinned", &batch, &out, timing, bus)?;
    SMALL.into_iter().filter(|&count| count <= batch.queries.len()).try_for_each(|n| small(session, subject, &batch, n))
}

/// A row, once its output was compared with what is right.
fn push_found<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    operation: &str,
    batch: &Batch<W>,
    out: &[W],
    timing: Timing,
    bus: Option<f64>,
) -> Result<()> {
    let what = format!("{operation}, {} queries, {}", power(out.len() as u64), subject.describe());
    let checksum = session.check_slice(&what, "values", out, 0..batch.queries.len(), miss(), |i| batch.value(i))?;
    let mut row = row(session, subject, operation, out.len(), timing, checksum);
    row.set("ceiling_giga_per_second", bus.map(|ms| out.len() as f64 / ms / 1e6));
    session.push(row);
    Ok(())
}

fn row<W: BenchWord>(
    session: &Session,
    subject: &Subject<W>,
    operation: &str,
    count: usize,
    timing: Timing,
    checksum: Checksum,
) -> Row {
    let mut row = subject.row(session, FIGURE.name, operation, count, timing, checksum);
    row.set("order", Order::Random.name());
    row.set("hit_rate", 1.0);
    row.set("threads", rayon::current_num_threads());
    row
}

/// The latency of one small batch after another.
fn small<W: BenchWord>(session: &mut Session, subject: &Subject<W>, batch: &Batch<W>, count: usize) -> Result<()> {
    let what = format!("get_many_or, {count} queries, {}", subject.describe());
    let call =
        |queries: Range<usize>, out: &mut [W]| Ok(subject.tree.get_many_or(&batch.queries[queries], miss(), out)?);
    let pool = batch.queries.len();
    let calls = Calls::measure(session, &what, (count, pool), call, (|value| value, miss()), |i| batch.value(i))?;
    let row = calls.row(|timing, checksum| row(session, subject, "get_many_or", count, timing, checksum));
    session.push(row);
    Ok(())
}

/// Pairs of a range.
const LENGTH: usize = 8;

/// What is asked for, and which ranks it has.
struct Wanted<W> {
    first: Vec<usize>,
    starts: Vec<W>,
    ends: Vec<W>,
    ranges: Vec<RangeInclusive<W>>,
}

/// Random ranges of 8 pairs, transfers and all: results in new vectors, in old ones, and bounds from slices.
fn ranges<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let what = format!("host end-to-end, ranges of {LENGTH}, {}", subject.describe());
    if subject.data.len() < LENGTH || !session.has_time(&what) {
        return Ok(());
    }
    let wanted = draw(session, subject);
    let [there, back] = bytes::<W>(wanted.first.len());
    let bus = bus::<u8, u8>(session, there, back)?;
    let tree = &subject.tree;

    let (timing, mut out) = session.time_making(|| tree.range_many(wanted.ranges.iter().cloned()))?;
    push_ranges(session, subject, "range_many", &wanted, &out, timing, bus)?;

    let poison = |out: &mut Ranges<W, W>| {
        out.offsets.fill(0);
        out.keys.par_iter_mut().for_each(|key| *key = W::default());
        out.values.par_iter_mut().for_each(|value| *value = W::default());
    };
    let timing =
        session.time_on_cpu(&mut out, poison, |out| Ok(tree.range_many_into(wanted.ranges.iter().cloned(), out)?))?;
    push_ranges(session, subject, "range_many_into", &wanted, &out, timing, bus)?;

    let timing = session
        .time_on_cpu(&mut out, poison, |out| Ok(tree.range_between_many_into(&wanted.starts, &wanted.ends, out)?))?;
    push_ranges(session, subject, "range_between_many_into", &wanted, &out, timing, bus)
}

fn draw<W: BenchWord>(session: &Session, subject: &Subject<W>) -> Wanted<W> {
    let (count, keys) = (1 << session.plan.host_ranges, &subject.data.keys);
    let sorted = subject.data.sorted_batch(count, false, session.seed ^ 0xe2e8).expect("hits are always to be had");
    let first = sorted.ordered(Order::Random, session.seed).first_ranks(keys.len() - LENGTH);
    let starts: Vec<W> = first.par_iter().map(|&rank| keys[rank]).collect();
    let ends: Vec<W> = first.par_iter().map(|&rank| keys[rank + LENGTH - 1]).collect();
    let ranges = starts.par_iter().zip(&ends).map(|(&start, &end)| start..=end).collect();
    Wanted { first, starts, ends, ranges }
}

/// A row, once its output was compared with what is right.
fn push_ranges<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    operation: &str,
    wanted: &Wanted<W>,
    out: &Ranges<W, W>,
    timing: Timing,
    bus: Option<f64>,
) -> Result<()> {
    let count = wanted.first.len();
    let what = format!("{operation}, {count} ranges of {LENGTH}, {}", subject.describe());
    let pairs = count * LENGTH;
    session.check_slice(&what, "offsets", &out.offsets, 0..count + 1, u64::MAX, |i| (i * LENGTH) as u64)?;
    let rank = |i: usize| wanted.first[i / LENGTH] + i % LENGTH;
    let by_key = session.check_slice(&what, "keys", &out.keys, 0..pairs, miss(), |i| subject.data.keys[rank(i)])?;
    let by_value =
        session.check_slice(&what, "values", &out.values, 0..pairs, miss(), |i| subject.data.values[rank(i)])?;
    let operation = format!("{operation}, of {LENGTH}");
    let mut row = subject.row(session, FIGURE.name, operation, count, timing, by_key.and(by_value));
    row.set("order", Order::Random.name());
    row.set("threads", rayon::current_num_threads());
    row.set("pairs", (count * LENGTH) as u64);
    let [there, back] = bytes::<W>(count);
    row.set("bytes_moved", (there + back) as u64);
    row.set("ceiling_giga_per_second", bus.map(|ms| count as f64 / ms / 1e6));
    session.push(row);
    Ok(())
}

/// Bytes of bounds to the device; of offsets, keys and values back.
fn bytes<W>(ranges: usize) -> [usize; 2] {
    [2 * ranges * size_of::<W>(), (ranges + 1) * 8 + 2 * ranges * LENGTH * size_of::<W>()]
}
