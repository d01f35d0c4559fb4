//! Ranks and predecessors on the device.

use crate::bench::data::{BenchWord, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Part, Run, either};
use crate::bench::queries::{batch, batch_order, hit_rate};
use crate::bench::session::Session;
use crate::bench::subject::Subject;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "neighbors",
    Run::Part(Part::OfTree(At::MainSize, |session, tree| either!(tree, subject => measure(session, subject)))),
);

/// Ranks and predecessors, half of the queries keys that are there.
fn measure<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
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
        let on = || subject.tree.on(&session.stream).order(batch_order(order));

        let mut ranks = session.device.alloc::<u64>(count)?;
        let rank = |i: usize| batch.origins[i].lower_bound();
        let timing = session.time_call(&mut ranks, |ranks| on().lower_bound(&queries, ranks))?;
        let checksum = session.check(&what, "ranks", &ranks, count, u64::MAX, rank)?;
        let ranked = subject.row(session, FIGURE.name, "lower_bound", count, timing, checksum);
        drop(ranks);

        let mut out = (session.device.alloc::<W>(count)?, session.device.alloc::<W>(count)?);
        let timing =
            session.time_call(&mut out, |out| on().miss(miss()).predecessor(&queries, &mut out.0, &mut out.1))?;
        let rank = |i: usize| batch.origins[i].rank();
        let by_key = session.check(&what, "keys", &out.0, count, miss(), |i| subject.data.keys[rank(i)])?;
        let by_value = session.check(&what, "values", &out.1, count, miss(), |i| subject.data.values[rank(i)])?;
        let preceded = subject.row(session, FIGURE.name, "predecessor", count, timing, by_key.and(by_value));
        for mut row in [ranked, preceded] {
            row.set("order", order.name());
            row.set("hit_rate", hit_rate(misses));
            row.set(
                "ceiling_giga_per_second",
                if order == Order::Random { subject.ceiling(session, order, count) } else { None },
            );
            session.push(row);
        }
    }
    Ok(())
}
