//! The latency of small batches that begin and end in host memory, of Harmonia and CuART.

use crate::bench::calls::{Calls, SMALL, pool};
use crate::bench::columns::{BATCH, Column, Format, INDEX, N, OPERATION, WORDS};
use crate::bench::cuart::data::{Data as Strings, keys};
use crate::bench::cuart::subject::{Subject as Cuart, len};
use crate::bench::data::{BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::plan::main_of;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use crate::bench::table::{Clock, Table};
use core::ops::Range;

pub(crate) const FIGURE: Figure = Figure {
    name: "latency",
    about: "The latency of small batches in host memory, of Harmonia and CuART: medians and 99th percentiles",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "latency",
    title: "Latency of small batches, queries and results in host memory, one call after another",
    columns: &[
        INDEX,
        OPERATION,
        WORDS,
        N,
        BATCH,
        Column::extra("calls", "calls", Format::Plain),
        Column::of("median µs", |row| Some(micros(row.timing.median_ms))),
        Column::of("p99 µs", |row| row.number("p99_ms").map(micros)),
        Column::of("fewest µs", |row| Some(micros(row.timing.min_ms))),
    ],
    clock: Clock::Calls,
    notes: &["By the CPU's clock, from the call to its return; all hits, other queries in every call."],
    summary: None,
};

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
                calls.row(|timing, checksum| subject.row(session, TABLE.name, "get_many_or", count, timing, checksum));
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
                let parts = ("cuart", "get_many_into".to_owned());
                let row = calls.row(|timing, sum| subject.row(session, TABLE.name, parts, count, timing, sum));
                session.push(row);
            }
        }
    }
    Ok(())
}
