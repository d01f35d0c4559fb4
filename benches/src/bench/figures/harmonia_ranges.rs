//! Section 3.2.1: a range as one descent and a scan, as in the paper, or as two descents, as in this library: what could
//! a scan save?

use crate::bench::data::{BenchWord, Data, Order};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Run, either};
use crate::bench::queries::{RangeBatch, batch_order};
use crate::bench::session::Session;
use crate::bench::subject::Subject;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "harmonia-ranges",
    Run::OverKeys(At::MainSize, |session, keys| either!(keys, data => measure(session, data))),
);

/// Pairs of a range.
const LENGTHS: [usize; 5] = [1, 8, 32, 128, 1024];

/// Pairs of all ranges together, and ranges, at most, as powers of two.
const MOST: u32 = 27;
const MOST_RANGES: u32 = 24;

fn measure<W: BenchWord>(session: &mut Session, data: Data<W>) -> Result<()> {
    let subject = Subject::build(session, data)?;
    for length in LENGTHS {
        for order in [Order::Random, Order::Sorted] {
            let what = format!("ranges of {length}, {}, {}", subject.describe(), order.name());
            if subject.data.len() >= length && session.has_time(&what) {
                of_length(session, &subject, length, order, &what)?;
            }
        }
    }
    Ok(())
}

fn of_length<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    length: usize,
    order: Order,
    what: &str,
) -> Result<()> {
    let pairs = 1_usize << session.plan.range_pairs.min(MOST);
    let count = (pairs / length).clamp(1, 1 << session.plan.queries.min(MOST_RANGES));
    let data = &subject.data;
    let sorted = data.sorted_batch(count, false, session.seed ^ length as u64).expect("hits are always to be had");
    let first = sorted.ordered(order, session.seed).first_ranks(data.len() - length);
    let asked = RangeBatch::new(session, data, first, length)?;
    let RangeBatch { first, starts, ends, .. } = &asked;
    let on = subject.tree.on(&session.stream).order(batch_order(order));
    let mut ranks = session.device.alloc::<u64>(count)?;
    let one = session.time_call(&mut ranks, |ranks| on.lower_bound(starts, ranks))?;
    session.check(&what, "ranks", &ranks, count, u64::MAX, |i| first[i] as u64)?;
    let two = session.time_call(&mut ranks, |counts| on.count_range(starts, ends, counts))?;
    session.check(&what, "counts", &ranks, count, u64::MAX, |_| length as u64)?;
    let (whole, checksum) = asked.copied(session, &what, data, |scratch, out| on.range(starts, ends, scratch, out))?;
    let saved = (two.median_ms - one.median_ms) / whole.median_ms;
    let row = subject.row(session, FIGURE.name, "range", count, whole, checksum);
    let row = row.with("order", order.name()).with("length", length).with("pairs", (count * length) as u64);
    session.push(row.with("one_ms", one.median_ms).with("two_ms", two.median_ms).with("saved", saved));
    Ok(())
}
