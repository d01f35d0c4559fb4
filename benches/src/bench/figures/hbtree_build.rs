//! The paper's figure 15: what a build takes, which is what an update of the implicit tree takes.

use crate::bench::columns::{Column, DEVICE, Format, INDEX, MS, N, SIZE, THREADS, WORDS};
use crate::bench::data::BenchWord;
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::hbtree::columns::{CHILDREN, PAPER};
use crate::bench::hbtree::lookups::Measured;
use crate::bench::hbtree::plan::{MOST, at_each, several};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use core::time::Duration;
use lanetree::hbtree::{BuildTimes, Builder, HbTree, Implicit, Structure};
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-build",
    about: "HB+-tree's paper, figure 15: the build's parts: leaves, inner levels, their transfer",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    sizes: several,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-build",
    title: "HB+-tree: the build from ascending pairs in host memory (the paper's figure 15)",
    columns: &[
        INDEX,
        DEVICE,
        WORDS,
        N,
        CHILDREN,
        THREADS,
        Column::extra("builds", "builds", Format::Plain),
        Column::extra("leaves ms", "build.leaves_ms", Format::Digits(3)),
        Column::extra("inner ms", "build.inner_ms", Format::Digits(3)),
        Column::extra("transfer ms", "build.transfer_ms", Format::Digits(3)),
        MS.headed("all ms"),
        Column::of("M pairs/s", |row| Some(crate::bench::columns::figure(row.giga_per_second * 1e3))),
        Column::extra("transfer's share", "build.transfer_share", Format::Percent),
        PAPER,
        SIZE,
    ],
    clock: Clock::Calls,
    notes: &[
        "By the CPU's clock, medians of each part. Pairs come in pieces of 2^20, made between the clock's hands; leaves: their",
        "order is checked, and they are laid out. Random look-ups in the last tree were compared with what is right. The regular",
        "tree's transfer, of all its inner nodes, is the paper's figure 13 b.",
    ],
    summary: None,
};

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
    let looked_up = subject.look_up(session, TABLE.name, side, "look-ups after the build")?;
    let ms = |part: fn(&BuildTimes) -> Duration| {
        Timing::of(builds.iter().map(|times| part(times).as_secs_f64() * 1e3).collect())
    };
    let timing = ms(|times| times.leaves + times.inner + times.transfer);
    let measured = Measured { count: subject.keys.len(), checksum: looked_up.checksum, timing };
    let transfer = ms(|times| times.transfer).median_ms;
    let is_sent = side == Side::Hybrid;
    let mut row = subject.row(session, TABLE.name, side, "build in pieces", measured);
    row.set("builds", builds.len());
    row.set("build.leaves_ms", ms(|times| times.leaves).median_ms);
    row.set("build.inner_ms", ms(|times| times.inner).median_ms);
    row.set("build.transfer_ms", is_sent.then_some(transfer));
    row.set("build.transfer_share", is_sent.then_some(transfer / row.timing.median_ms));
    row.set("paper", (is_sent && L::NAME == Implicit::NAME).then_some("3 to 7 %"));
    session.push(row);
    Ok(())
}
