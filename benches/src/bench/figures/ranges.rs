//! Range queries on the device, with all memory allocated beforehand.

use crate::bench::data::{BenchWord, Order};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Part, Run, either};
use crate::bench::queries::{RangeBatch, batch_order};
use crate::bench::session::Session;
use crate::bench::subject::Subject;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "ranges",
    Run::Part(Part::OfTree(At::MainSize, |session, tree| either!(tree, subject => measure(session, subject)))),
);

/// Pairs of a range.
const LENGTHS: [usize; 3] = [8, 32, 1024];

/// Ranges of each length: together they return the planned number of pairs.
fn measure<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    for length in LENGTHS {
        if subject.data.len() < length {
            session.skip(format_args!("ranges of {length}, {}: fewer keys than that", subject.describe()));
            continue;
        }
        let count = ((1_usize << session.plan.range_pairs) / length).clamp(1, 1 << session.plan.queries);
        match of_length(session, subject, length, count) {
            // Their output is the largest of all: a smaller card may do the other lengths.
            Err(error) if error.is_out_of_memory() => {
                session.skip(format_args!("ranges of {length}, {}: {error}", subject.describe()));
            }
            result => result?,
        }
    }
    Ok(())
}

fn of_length<W: BenchWord>(session: &mut Session, subject: &Subject<W>, length: usize, count: usize) -> Result<()> {
    // `count` is a power of two, being one divided by another.
    let Some(sorted) = subject.data.sorted_batch(count, false, session.seed ^ length as u64) else { return Ok(()) };
    let pairs = count * length;
    for order in [Order::Random, Order::Sorted] {
        let what = format!("ranges of {length}, {}, {}", subject.describe(), order.name());
        if !session.has_time(&what) {
            continue;
        }
        let first = sorted.ordered(order, session.seed).first_ranks(subject.data.len() - length);
        let asked = RangeBatch::new(session, &subject.data, first, length)?;
        let on = subject.tree.on(&session.stream).order(batch_order(order));
        let (timing, checksum) = asked
            .copied(session, &what, &subject.data, |scratch, out| on.range(&asked.starts, &asked.ends, scratch, out))?;
        let operation = format!("range of {length}");
        let mut row = subject.row(session, FIGURE.name, operation, count, timing, checksum);
        let pair_bytes = 2 * size_of::<W>() as u64;
        let ceiling = session.ceilings.of_ranges(count as u64, pairs as u64, subject.data.len() as u64, pair_bytes);
        row.set("order", order.name());
        row.set("pairs", pairs as u64);
        // Each pair is read from its leaf, and written.
        row.set("bytes_moved", 2 * pairs as u64 * pair_bytes);
        row.set("ceiling_giga_per_second", ceiling);
        session.push(row);
    }
    Ok(())
}
