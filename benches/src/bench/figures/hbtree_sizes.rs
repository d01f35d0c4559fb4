//! The paper's figure 16: the CPU alone and with the device, by the tree's size.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, MEGA, MS, N, SIZE, THREADS, WORDS};
use crate::bench::data::BenchWord;
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::hbtree::columns::{BUCKET, CHILDREN, PAPER, PIPELINES, RATIO};
use crate::bench::hbtree::plan::{MOST, at_each, several};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::Word;
use lanetree::hbtree::HbTree;

pub(crate) static FIGURE: Figure = Figure {
    name: "hbtree-sizes",
    about: "HB+-tree's paper, figure 16: look-ups by the tree's size, on the CPU alone and with the device",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    sizes: several,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-sizes",
    title: "HB+-tree by its size: the CPU alone, and with the device (the paper's figure 16)",
    columns: &[
        DEVICE,
        WORDS,
        N,
        CHILDREN,
        Column::extra("levels", "height", Format::Plain),
        SIZE,
        Column::extra("device MiB", "device_bytes", Format::Mebibytes),
        BUCKET,
        PIPELINES,
        BATCH,
        THREADS,
        MS,
        MEGA,
        RATIO.headed("x CPU"),
        PAPER,
    ],
    clock: Clock::Calls,
    notes: &[
        "get_many_or, ordinary host memory, random hits, other ones in each run; by the CPU's clock, medians. cpu: the same",
        "tree, without the device. bytes/key: on both. paper: the mean of 2^23 to 2^30 pairs, between its tree for the CPU",
        "and its hybrid tree.",
    ],
    summary: None,
};

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_width::<u64>(session, size)?;
        of_width::<u32>(session, size)
    })
}

fn of_width<W: BenchWord>(session: &mut Session, size: u32) -> Result<()> {
    let device = session.device.clone();
    let Some(mut subject) = Subject::<W>::build(session, &device, size, &HbTree::builder())? else { return Ok(()) };
    let mut baseline = None;
    for &side in Side::all(session) {
        subject.set_side(side)?;
        let mut row = subject.look_up(session, TABLE.name, side, "look-ups")?;
        let rate = *baseline.get_or_insert(row.giga_per_second);
        row.set("device_bytes", (side == Side::Hybrid).then_some(subject.stats.device_bytes));
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        let paper = if <W as Word>::BITS == 64 { "2.4" } else { "2.1" };
        row.set("paper", (side == Side::Hybrid).then_some(paper));
        session.push(row);
    }
    Ok(())
}
