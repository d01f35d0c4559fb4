//! The paper's figure 20: how many queries a thread has in flight.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::{at_each, at_most};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::Device;
use lanetree::hbtree::{HbTree, NodeSearch};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-pipelining", Run::Alone(measure));

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
            let mut row = subject.look_up(session, FIGURE.name, Side::Cpu, &what)?;
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
