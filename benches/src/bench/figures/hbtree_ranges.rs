//! The paper's figure 17: ranges.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, INDEX, MS, N, PAIRS_RATE, THREADS, WORDS, figure};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::hbtree::columns::{BUCKET, CHILDREN, PAPER, RATIO};
use crate::bench::hbtree::plan::{MOST, at_each, one};
use crate::bench::hbtree::ranges::measure as of_length;
use crate::bench::hbtree::relative::{OF_IMPLICIT, Relative, regular};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::hbtree::{Builder, HbTree, Implicit, Structure};

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-ranges",
    about: "HB+-tree's paper, figure 17: ranges of 1 to 1024 pairs, on the CPU alone and with the device",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    sizes: one,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-ranges",
    title: "HB+-tree: ranges, on the CPU alone and with the device (the paper's figure 17)",
    columns: &[
        INDEX,
        DEVICE,
        WORDS,
        N,
        CHILDREN,
        BUCKET,
        Column::extra("pairs of a range", "range_pairs", Format::Plain),
        BATCH,
        THREADS,
        MS,
        Column::of("M ranges/s", |row| Some(figure(row.giga_per_second * 1e3))),
        PAIRS_RATE,
        RATIO.headed("x CPU"),
        OF_IMPLICIT,
        PAPER,
    ],
    clock: Clock::Calls,
    notes: &[
        "range_between_many_into, from slices of bounds into vectors that are used again; random ranges, by the CPU's clock,",
        "medians. batch: ranges. paper: over 2^27 pairs; above 1.8 up to 8 pairs, 1.22 at 32.",
    ],
    summary: Some(regular),
};

/// Pairs of a range, and the paper's ratio.
const LENGTHS: [(usize, Option<&str>); 7] = [
    (1, Some("> 1.8")),
    (2, Some("> 1.8")),
    (4, Some("> 1.8")),
    (8, Some("> 1.8")),
    (16, None),
    (32, Some("1.22")),
    (1024, None),
];

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let mut relative = Relative::default();
        of_tree(session, size, &HbTree::builder(), &mut relative)?;
        of_tree(session, size, &HbTree::builder().regular(), &mut relative)
    })
}

fn of_tree<L: Structure>(
    session: &mut Session,
    size: u32,
    builder: &Builder<u64, u64, L>,
    relative: &mut Relative,
) -> Result<()> {
    let device = session.device.clone();
    let Some(mut subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
    for (length, paper) in LENGTHS {
        let what = format!("ranges of {length}, {}", subject.keys.describe());
        if length > subject.keys.len() {
            session.skip(format_args!("{what}: fewer keys than that"));
        } else if session.has_time(&what) {
            for (side, mut row) in of_length(session, &mut subject, TABLE.name, length)? {
                relative.compare(length, &mut row);
                row.set("paper", paper.filter(|_| side == Side::Hybrid && L::NAME == Implicit::NAME));
                session.push(row);
            }
        }
    }
    Ok(())
}
