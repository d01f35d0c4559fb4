//! The paper's figure 15: what a build takes, which is what an update of the implicit tree takes.

use crate::bench::data::BenchWord;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::Measured;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use core::time::Duration;
use lanetree::hbtree::{BuildTimes, Builder, HbTree, Implicit, Structure};
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-build", Run::Alone(measure));

/// Builds end early once they have taken so long.
const LONG: Duration = Duration::from_secs(10);

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_tree(session, size, &HbTree::<u64, u64>::builder())?;
        of_tree(session, size, &HbTree::<u32, u32>::builder())?;
        of_tree(session, size, &HbTree::<u64, u64>::builder().regular())
    })
}

fn of_tree<W: BenchWord, L: Structure>(session: &mut Session, size: u32, builder: &Builder<W, W, L>) -> Result<()> {
    let device = session.device.clone();
    let (start, mut builds): (_, Vec<BuildTimes>) = (Instant::now(), Vec::new());
    let subject = loop {
        let Some(subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
        builds.push(subject.stats.build);
        if builds.len() >= session.plan.runs || start.elapsed() > LONG {
            break subject;
        }
    };
    let side = if session.runs_kernels() { Side::Hybrid } else { Side::Cpu };
    // Its checksum is that of the tree.
    let looked_up = subject.look_up(session, FIGURE.name, side, "look-ups after the build")?;
    let ms = |part: fn(&BuildTimes) -> Duration| {
        Timing::of(builds.iter().map(|times| part(times).as_secs_f64() * 1e3).collect())
    };
    let timing = ms(|times| times.leaves + times.inner + times.transfer);
    let measured = Measured { count: subject.keys.len(), checksum: looked_up.checksum, timing };
    let transfer = ms(|times| times.transfer).median_ms;
    let is_sent = side == Side::Hybrid;
    let mut row = subject.row(session, FIGURE.name, side, "build in pieces", measured);
    row.set("builds", builds.len());
    row.set("build.leaves_ms", ms(|times| times.leaves).median_ms);
    row.set("build.inner_ms", ms(|times| times.inner).median_ms);
    row.set("build.transfer_ms", is_sent.then_some(transfer));
    row.set("build.transfer_share", is_sent.then_some(transfer / row.timing.median_ms));
    row.set("paper", (is_sent && L::NAME == Implicit::NAME).then_some("3 to 7 %"));
    session.push(row);
    Ok(())
}
