//! The paper's figure 8: ways to search a node, and what software pipelining gains.

use crate::bench::columns::{BATCH, DEVICE, MEGA, MS, N, THREADS, WORDS};
use crate::bench::data::BenchWord;
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::hbtree::columns::{CHILDREN, IN_FLIGHT, NODE_SEARCH, PAPER, RATIO};
use crate::bench::hbtree::plan::{MOST, at_each, at_most, several};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::Device;
use lanetree::hbtree::{HbTree, NodeSearch};

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-node-search",
    about: "HB+-tree's paper, figure 8: every node search that the CPU has, with and without software pipelining; needs no GPU",
    table: Some(&TABLE),
    needs: Needs::Nothing,
    takes: Takes::SIZES,
    sizes: several,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-node-search",
    title: "HB+-tree on the CPU alone, by node search and software pipelining (the paper's figure 8)",
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
        RATIO.headed("x sequential, 1 in flight"),
        PAPER,
    ],
    clock: Clock::Cpu,
    notes: &[
        "get_many_or, ordinary host memory, random hits, other ones in each run; medians. in flight: queries per thread. A",
        "search that this CPU has not got has no row. paper: software pipelining alone, over 2^23 to 2^30 pairs; its",
        "hierarchical search is slightly faster than its linear one, and both lose their lead in large trees.",
    ],
    summary: None,
};

/// Queries of a batch, as a power of two: enough for tenths of a second of all processors.
const MOST_QUERIES: u32 = 24;

/// Queries in flight, but in the first row: the paper's number.
const PIPELINED: usize = 16;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_width::<u64>(session, size)?;
        of_width::<u32>(session, size)
    })
}

fn of_width<W: BenchWord>(session: &mut Session, size: u32) -> Result<()> {
    let Some(mut subject) = Subject::<W>::build(session, &Device::host(), size, &HbTree::builder())? else {
        return Ok(());
    };
    let ways = NodeSearch::ALL.into_iter().filter(|way| way.is_available()).map(|way| (way, PIPELINED));
    let mut baseline = None;
    for (way, in_flight) in [(NodeSearch::Sequential, 1)].into_iter().chain(ways) {
        let what = format!("{way} search, {in_flight} in flight, n = 2^{size}");
        if !session.has_time(&what) {
            return Ok(());
        }
        subject.tree.set_node_search(way, in_flight)?;
        let mut row = subject.look_up_count(session, TABLE.name, Side::Cpu, &what, at_most(session, MOST_QUERIES))?;
        let rate = *baseline.get_or_insert(row.giga_per_second);
        row.set("node_search", way.to_string());
        row.set("in_flight", in_flight);
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        row.set("paper", (way == NodeSearch::Sequential && in_flight > 1).then_some("2.08 to 2.52"));
        session.push(row);
    }
    Ok(())
}
