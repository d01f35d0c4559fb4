//! The latency of small batches (compare the paper's figure 16c).

use crate::bench::columns::{BATCH, Column, DEVICE, Format, N, OPERATION, THREADS, WORDS};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::hbtree::columns::{BUCKET, CHILDREN, MEDIAN_MICROS, P99_MICROS, PAPER, RATIO};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::{MOST, at_each, at_most, one};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::hbtree::HbTree;

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-latency",
    about: "HB+-tree: the latency of small batches, on the CPU alone and with the device: medians and 99th percentiles",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    sizes: one,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-latency",
    title: "HB+-tree: latency of small batches, queries and results in host memory, one call after another",
    columns: &[
        DEVICE,
        OPERATION,
        WORDS,
        N,
        CHILDREN,
        BUCKET,
        BATCH,
        THREADS,
        Column::extra("calls", "calls", Format::Plain),
        MEDIAN_MICROS,
        P99_MICROS,
        RATIO.headed("x CPU's median"),
        PAPER.headed("paper µs"),
    ],
    clock: Clock::Calls,
    notes: &[
        "By the CPU's clock, from the call to its return; ordinary host memory, random hits, other queries in every call.",
        "paper: a batch of a bucket of 2^14; it compares that with 2^8 queries on the CPU, which take 1/67 of the time.",
    ],
    summary: None,
};

/// Queries of the batches.
const BATCHES: [usize; 4] = [1, 1 << 10, 1 << 14, 1 << 16];

/// Queries that batches are taken from, as a power of two.
const POOL: u32 = 24;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let device = session.device.clone();
        let Some(mut subject) = Subject::<u64>::build(session, &device, size, &HbTree::builder())? else {
            return Ok(());
        };
        let queries = pool(session, &subject.keys, at_most(session, POOL));
        for count in BATCHES.into_iter().filter(|&count| count <= queries.len()) {
            let mut baseline = None;
            for &side in Side::all(session) {
                subject.set_side(side)?;
                let mut row = subject.latency(session, TABLE.name, side, &queries, count)?;
                let alone = *baseline.get_or_insert(row.timing.median_ms);
                row.set("ratio_to_baseline", row.timing.median_ms / alone);
                row.set("paper", (count == 1 << 14 && side == Side::Hybrid).then_some("< 180"));
                session.push(row);
            }
        }
        Ok(())
    })
}
