//! The latency of small batches that begin and end in host memory, of Harmonia and CuART.

use crate::bench::calls::{Calls, SMALL, pool};
use crate::bench::columns::Column;
use crate::bench::cuart::data::{Data as Strings, keys};
use crate::bench::cuart::subject::{Subject as Cuart, len};
use crate::bench::data::{BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use core::ops::Range;

pub(crate) const FIGURE: Measurement = Measurement::new("latency", Run::Alone(measure))
    .columns(&[("fewest µs", Column::of("fewest µs", |row| Some(micros(row.timing.min_ms))))]);

fn micros(ms: f64) -> String {
    format!("{:.2}", ms * 1e3)
}

/// At the main size.
fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let main = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << main, session.seed_of(main));
    let subject = Subject::build(session, data)?;
    of_harmonia(session, &subject)?;
    drop(subject);
    of_cuart(session, len(session, &request.sizes))
}

fn of_harmonia<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let pool = pool(session);
    let sorted = subject.data.sorted_batch(pool, false, session.seed ^ 0x1a7).expect("hits are always to be had");
    let batch = sorted.ordered(Order::Random, session.seed);
    for count in SMALL.into_iter().filter(|&count| count <= pool) {
        let what = format!("latency of {count} queries, {}", subject.describe());
        if session.has_time(&what) {
            let call = |queries: Range<usize>, out: &mut [W]| {
                Ok(subject.tree.get_many_or(&batch.queries[queries], miss(), out)?)
            };
            let calls =
                Calls::measure(session, &what, (count, pool), call, (|value| value, miss()), |i| batch.value(i))?;
            let row =
                calls.row(|timing, checksum| subject.row(session, FIGURE.name, "get_many_or", count, timing, checksum));
            session.push(row);
        }
    }
    Ok(())
}

/// The latency of small batches, of keys of 8 and 32 bytes.
fn of_cuart(session: &mut Session, len: usize) -> Result<()> {
    let pool = pool(session);
    for width in [8, 32] {
        let data = Strings::new(width, len, session.seed);
        let subject = Cuart::<u32>::build(session, data)?;
        let bytes = data.bytes(pool, |query| data.query(1, query));
        for count in SMALL.into_iter().filter(|&count| count <= pool) {
            let what = format!("latency of {count} queries, n = {}, {width} bytes", data.len);
            if session.has_time(&what) {
                let call = |queries: Range<usize>, out: &mut [Option<u32>]| {
                    let bytes = &bytes[width * queries.start..width * queries.end];
                    Ok(subject.tree.get_many_into(keys(width, bytes), out)?)
                };
                let (word, value) = (|found: Option<u32>| found.unwrap_or(0), |i| data.query(1, i) as u32 + 1);
                let calls = Calls::measure(session, &what, (count, pool), call, (word, 0), value)?;
                let row =
                    calls.row(|timing, sum| subject.row(session, FIGURE.name, "get_many_into", count, timing, sum));
                session.push(row);
            }
        }
    }
    Ok(())
}
