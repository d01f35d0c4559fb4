//! Look-ups on the device, compared with a binary search of the same queries.

use crate::bench::data::{Batch, BenchWord, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Part, Run, either};
use crate::bench::queries::{batch, batch_order, hit_rate, hits};
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use lanetree::harmonia::{LookUpTuning, OnStream};
use lanetree::{Buffer, Key};
use lanetree_baselines::device::BinarySearch;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "lookups",
    Run::Part(Part::OfTree(At::EverySize, |session, tree| either!(tree, subject => measure(session, subject)))),
);

/// Every order, all hits and half misses; Harmonia and the binary search of the same queries.
fn measure<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
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
            let on = || subject.tree.on(&session.stream).order(batch_order(order));
            let timing = session.time_call(&mut out, |out| on().miss(miss()).get(&queries, out))?;
            let checksum = session.check(&what, "values", &out, out.len(), miss(), |i| batch.value(i))?;
            let mut row = subject.row(session, FIGURE.name, "get", out.len(), timing, checksum);
            let lanes = lanes(session, &on())?;
            row.set("group", lanes);
            row.set("child_region", lanes.map(|_| "slot"));
            row.set("order", order.name());
            row.set("hit_rate", hit_rate(misses));
            row.set("ratio_to_baseline", baseline.map(|baseline| row.giga_per_second / baseline));
            row.set("ceiling_giga_per_second", subject.ceiling(session, order, out.len()));
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
    let timing = session.time_call(out, |out| search.get(&session.stream, queries, out, miss()))?;
    let what = format!("binary search, {}, {}, {}", subject.describe(), order.name(), hits(misses));
    let checksum = session.check(&what, "values", out, out.len(), miss(), |i| batch.value(i))?;
    let row = Row::new(FIGURE.name, "binary search", "get", out.len(), timing, checksum).on(session.device_name());
    let mut row = subject.data.label(row);
    row.set("order", order.name());
    row.set("hit_rate", hit_rate(misses));
    row.set("footprint_bytes", search.bytes());
    row.set("bytes_per_key", 2.0 * size_of::<W>() as f64);
    row.set("ratio_to_baseline", 1.0);
    row.set("ceiling_giga_per_second", subject.ceiling(session, order, out.len()));
    let rate = row.giga_per_second;
    session.push(row);
    Ok(rate)
}

/// The lanes that served each query; the host has none.
fn lanes<K: Key, V: lanetree::Word>(session: &Session, on: &OnStream<'_, K, V>) -> Result<Option<u32>> {
    Ok(if session.runs_kernels() { Some(on.group_width()?) } else { None })
}
