//! The latency of small batches (compare the paper's figure 16c).

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::{at_each, at_most};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::hbtree::HbTree;

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-latency", Run::Alone(measure));

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
                let mut row = subject.latency(session, FIGURE.name, side, &queries, count)?;
                let alone = *baseline.get_or_insert(row.timing.median_ms);
                row.set("ratio_to_baseline", row.timing.median_ms / alone);
                row.set("paper", (count == 1 << 14 && side == Side::Hybrid).then_some("< 180"));
                session.push(row);
            }
        }
        Ok(())
    })
}
