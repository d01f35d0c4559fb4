//! Look-ups, ranks and predecessors on the device.

use super::data::{Batch, BenchWord, Order, miss};
use super::error::Result;
use super::report::Section;
use super::session::Session;
use super::subject::Subject;
use lanetree::harmonia::{BatchOrder, OnStream};
use lanetree::{Buffer, Key};
use lanetree_baselines::device::BinarySearch;

/// Every order, all hits and half misses; Harmonia and the binary search of the same queries.
pub(super) fn lookups<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    if !session.wants(Section::Lookups) {
        return Ok(());
    }
    let search = match session.runs_kernels() {
        true => Some(BinarySearch::new(&session.device, &subject.data.keys, &subject.data.values)?),
        false => None,
    };
    let mut out = session.device.alloc::<W>(1 << session.plan.queries)?;
    for misses in [false, true] {
        let Some(sorted) = batch(session, subject, misses) else { continue };
        for order in Order::ALL {
            let what = format!("look-ups, {}, {}, {}", subject.describe(), order.name(), hits(misses));
            if !session.has_time(&what) {
                continue;
            }
            let batch = sorted.ordered(order, session.seed);
            let queries = session.device.upload(&batch.queries)?;
            let baseline = match &search {
                Some(search) => {
                    Some(binary_search(session, subject, search, &batch, &queries, order, misses, &mut out)?)
                }
                None => None,
            };
            let on = subject.tree.on(&session.stream).order(batch_order(order));
            let timing = session.time_on_stream(
                &mut out,
                |out| session.poison(out),
                |out| Ok(on.get(&queries, out, None, miss())?),
            )?;
            let checksum = session.check(&what, "values", &out, out.len(), miss(), |i| batch.value(i))?;
            let mut row = subject.row(session, Section::Lookups, "get", out.len(), timing, checksum);
            row.group = lanes(session, &on)?;
            row.child_region = row.group.map(|_| "slot");
            row.order = Some(order.name());
            row.hit_rate = Some(hit_rate(misses));
            row.ratio_to_baseline = baseline.map(|baseline| row.giga_per_second / baseline);
            row.ceiling_giga_per_second = subject.ceiling(session, order, out.len());
            session.push(row);
        }
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "one row of a table, whose loops are the caller's")]
fn binary_search<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    search: &BinarySearch<W, W>,
    batch: &Batch<W>,
    queries: &Buffer<W>,
    order: Order,
    misses: bool,
    out: &mut Buffer<W>,
) -> Result<f64> {
    let timing = session.time_on_stream(
        out,
        |out| session.poison(out),
        |out| Ok(search.get(&session.stream, queries, out, miss())?),
    )?;
    let what = format!("binary search, {}, {}, {}", subject.describe(), order.name(), hits(misses));
    let checksum = session.check(&what, "values", out, out.len(), miss(), |i| batch.value(i))?;
    let mut row = subject.row_of(session, Section::Lookups, "binary search", "get", out.len(), timing, checksum);
    row.order = Some(order.name());
    row.hit_rate = Some(hit_rate(misses));
    row.footprint_bytes = search.bytes();
    row.bytes_per_key = Some(2.0 * size_of::<W>() as f64);
    row.ratio_to_baseline = Some(1.0);
    row.ceiling_giga_per_second = subject.ceiling(session, order, out.len());
    let rate = row.giga_per_second;
    session.push(row);
    Ok(rate)
}

/// Ranks and predecessors, half of the queries keys that are there.
pub(super) fn neighbors<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    if !session.wants(Section::Neighbors) {
        return Ok(());
    }
    let Some(sorted) = batch(session, subject, true).or_else(|| batch(session, subject, false)) else {
        return Ok(());
    };
    let misses = sorted.origins.iter().any(|origin| origin.is_miss());
    let count = sorted.queries.len();
    for order in [Order::Random, Order::Sorted] {
        let what = format!("lower_bound and predecessor, {}, {}", subject.describe(), order.name());
        if !session.has_time(&what) {
            continue;
        }
        let batch = sorted.ordered(order, session.seed);
        let queries = session.device.upload(&batch.queries)?;
        let on = subject.tree.on(&session.stream).order(batch_order(order));

        let mut ranks = session.device.alloc::<u64>(count)?;
        let timing = session.time_on_stream(
            &mut ranks,
            |ranks| session.poison(ranks),
            |ranks| Ok(on.lower_bound(&queries, ranks)?),
        )?;
        let rank = |i: usize| batch.origins[i].lower_bound();
        let checksum = session.check(&what, "ranks", &ranks, count, u64::MAX, rank)?;
        let ranked = subject.row(session, Section::Neighbors, "lower_bound", count, timing, checksum);
        drop(ranks);

        let mut out = (session.device.alloc::<W>(count)?, session.device.alloc::<W>(count)?);
        let timing = session.time_on_stream(
            &mut out,
            |out| session.poison(&mut out.0).and_then(|()| session.poison(&mut out.1)),
            |out| Ok(on.predecessor(&queries, &mut out.0, &mut out.1, None, miss())?),
        )?;
        let rank = |i: usize| batch.origins[i].rank();
        let by_key = session.check(&what, "keys", &out.0, count, miss(), |i| subject.data.keys[rank(i)])?;
        let by_value = session.check(&what, "values", &out.1, count, miss(), |i| subject.data.values[rank(i)])?;
        let preceded = subject.row(session, Section::Neighbors, "predecessor", count, timing, by_key.and(by_value));
        for mut row in [ranked, preceded] {
            row.order = Some(order.name());
            row.hit_rate = Some(hit_rate(misses));
            row.ceiling_giga_per_second =
                if order == Order::Random { subject.ceiling(session, order, count) } else { None };
            session.push(row);
        }
    }
    Ok(())
}

/// A sorted batch of the planned size; where there are no keys to miss, says so.
pub(super) fn batch<W: BenchWord>(session: &mut Session, subject: &Subject<W>, misses: bool) -> Option<Batch<W>> {
    session.doing(format_args!("drawing queries for {}", subject.describe()));
    let batch = subject.data.sorted_batch(1 << session.plan.queries, misses, session.seed ^ u64::from(misses));
    if batch.is_none() {
        session.skip(format_args!("misses, {}: there are no keys between the keys", subject.describe()));
    }
    batch
}

/// The lanes that served each query; the host has none.
fn lanes<K: Key, V: lanetree::Word>(session: &Session, on: &OnStream<'_, K, V>) -> Result<Option<u32>> {
    Ok(if session.runs_kernels() { Some(on.group_width()?) } else { None })
}

/// What the index is told of the order.
pub(super) fn batch_order(order: Order) -> BatchOrder {
    match order {
        Order::Random => BatchOrder::Random,
        Order::Top16 => BatchOrder::TopBits(16),
        Order::Sorted => BatchOrder::Sorted,
    }
}

fn hit_rate(misses: bool) -> f64 {
    if misses { 0.5 } else { 1.0 }
}

fn hits(misses: bool) -> &'static str {
    if misses { "half misses" } else { "all hits" }
}
