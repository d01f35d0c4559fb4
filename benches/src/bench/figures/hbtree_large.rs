//! The largest tree: its build in pieces, its memory, look-ups and short ranges.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::Measured;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::ranges::measure as ranges;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::hbtree::{Builder, HbTree, Structure};
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-large", Run::Alone(measure));

/// Pairs of a range.
const LENGTH: usize = 8;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_tree(session, size, &HbTree::builder())?;
        of_tree(session, size, &HbTree::builder().regular())
    })
}

fn of_tree<L: Structure>(session: &mut Session, size: u32, builder: &Builder<u64, u64, L>) -> Result<()> {
    let (device, start) = (session.device.clone(), Instant::now());
    let Some(mut subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
    let (wall, is_sent) = (start.elapsed(), session.runs_kernels());
    let (mut rows, mut baseline) = (Vec::new(), None);
    for &side in Side::all(session) {
        subject.set_side(side)?;
        let mut row = subject.look_up(session, FIGURE.name, side, "look-ups")?;
        let rate = *baseline.get_or_insert(row.giga_per_second);
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        rows.push(row);
    }
    let times = subject.stats.build;
    let [leaves, inner, transfer] = [times.leaves, times.inner, times.transfer].map(|time| time.as_secs_f64() * 1e3);
    let timing = Timing::of(vec![leaves + inner + if is_sent { transfer } else { 0.0 }]);
    // The checksum of what was found in the tree.
    let measured = Measured { count: subject.keys.len(), checksum: rows[0].checksum, timing };
    let side = if is_sent { Side::Hybrid } else { Side::Cpu };
    let mut build = subject.row(session, FIGURE.name, side, "build in pieces", measured);
    build.set("leaf_bytes", subject.stats.leaf_bytes);
    build.set("inner_bytes", subject.stats.inner_bytes);
    build.set("device_bytes", is_sent.then_some(subject.stats.device_bytes));
    build.set("build.leaves_ms", leaves);
    build.set("build.inner_ms", inner);
    build.set("build.transfer_ms", is_sent.then_some(transfer));
    build.set("build.wall_s", wall.as_secs_f64());
    session.push(build);
    rows.into_iter().for_each(|row| session.push(row));
    for (_, row) in ranges(session, &mut subject, FIGURE.name, LENGTH)? {
        session.push(row);
    }
    Ok(())
}
