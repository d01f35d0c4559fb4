//! The paper's figure 20: how many queries a thread has in flight.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, MEGA, MS, N, THREADS, WORDS};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::hbtree::columns::{CHILDREN, IN_FLIGHT, NODE_SEARCH, PAPER, RATIO};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::{MOST, at_each, at_most, one};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::Device;
use lanetree::hbtree::{HbTree, NodeSearch};

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-pipelining",
    about: "HB+-tree's paper, figure 20: 1 to 32 queries in flight per thread, throughput and latency; needs no GPU",
    table: Some(&TABLE),
    needs: Needs::Nothing,
    takes: Takes::SIZES,
    sizes: one,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-pipelining",
    title: "HB+-tree on the CPU alone, by queries in flight per thread (the paper's figure 20)",
    columns: &[
        DEVICE,
        WORDS,
        N,
        CHILDREN,
        NODE_SEARCH,
        IN_FLIGHT,
        BATCH,
        THREADS,
        MS,
        MEGA,
        RATIO.headed("rate x 1 in flight"),
        PAPER,
        Column::extra("latency ns", "latency_ns", Format::Digits(0)),
        Column::extra("p99 ns", "latency_p99_ns", Format::Digits(0)),
        Column::extra("latency x 1 in flight", "latency_ratio", Format::Digits(2)),
        Column::words("paper", "paper_latency"),
    ],
    clock: Clock::Cpu,
    notes: &[
        "Throughput: get_many_or, ordinary host memory, random hits, other ones in each run; medians. Latency: what a thread",
        "takes for a call with as many queries as it has in flight, while all other threads do the same: the median.",
    ],
    summary: None,
};

/// Queries in flight.
const LENGTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Queries by which a latency is judged, as a power of two.
const QUERIES: u32 = 22;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let Some(mut subject) = Subject::<u64>::build(session, &Device::host(), size, &HbTree::builder())? else {
            return Ok(());
        };
        let queries = pool(session, &subject.keys, at_most(session, QUERIES));
        let mut baseline = None;
        for length in LENGTHS {
            subject.tree.set_node_search(NodeSearch::best(), length)?;
            let what = format!("{length} in flight");
            let mut row = subject.look_up(session, TABLE.name, Side::Cpu, &what)?;
            let (latency, p99) = subject.latency_by_all(session, &queries, length)?;
            let (rate, alone) = *baseline.get_or_insert((row.giga_per_second, latency));
            row.set("node_search", NodeSearch::best().to_string());
            row.set("in_flight", length);
            row.set("ratio_to_baseline", row.giga_per_second / rate);
            row.set("latency_ns", latency);
            row.set("latency_p99_ns", p99);
            row.set("latency_ratio", latency / alone);
            row.set("paper", (length == 16).then_some("2.5"));
            row.set("paper_latency", (length == 16).then_some("6"));
            session.push(row);
        }
        Ok(())
    })
}
