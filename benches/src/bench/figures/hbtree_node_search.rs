//! The paper's figure 8: ways to search a node, and what software pipelining gains.

use crate::bench::data::BenchWord;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::plan::{at_each, at_most};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::Device;
use lanetree::hbtree::{HbTree, NodeSearch};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-node-search", Run::Alone(measure));

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
        let mut row = subject.look_up_count(session, FIGURE.name, Side::Cpu, &what, at_most(session, MOST_QUERIES))?;
        let rate = *baseline.get_or_insert(row.giga_per_second);
        row.set("node_search", way.to_string());
        row.set("in_flight", in_flight);
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        row.set("paper", (way == NodeSearch::Sequential && in_flight > 1).then_some("2.08 to 2.52"));
        session.push(row);
    }
    Ok(())
}
