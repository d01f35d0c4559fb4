//! The largest tree: its build in pieces, its memory, look-ups and short ranges.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, INDEX, MEGA, MS, N, OPERATION, THREADS, WORDS};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::hbtree::columns::{CHILDREN, RATIO};
use crate::bench::hbtree::lookups::Measured;
use crate::bench::hbtree::plan::{MOST, at_each};
use crate::bench::hbtree::ranges::measure as ranges;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::plan::Scale;
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::DeviceKind;
use lanetree::hbtree::{Builder, HbTree, Structure};
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-large",
    about: "HB+-tree: the largest tree, 2^31 pairs in 32 GiB of leaves: its build in pieces, its memory, look-ups and ranges of 8",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    sizes,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-large",
    title: "HB+-tree: a large tree in host memory, built in pieces",
    columns: &[
        INDEX,
        DEVICE,
        OPERATION,
        WORDS,
        N,
        CHILDREN,
        Column::extra("levels", "height", Format::Plain),
        Column::extra("leaves MiB", "leaf_bytes", Format::Mebibytes),
        Column::extra("inner MiB", "inner_bytes", Format::Mebibytes),
        Column::extra("device MiB", "device_bytes", Format::Mebibytes),
        Column::extra("leaves ms", "build.leaves_ms", Format::Digits(0)),
        Column::extra("inner ms", "build.inner_ms", Format::Digits(0)),
        Column::extra("transfer ms", "build.transfer_ms", Format::Digits(0)),
        Column::extra("with its keys s", "build.wall_s", Format::Digits(1)),
        BATCH,
        THREADS,
        MS,
        MEGA,
        RATIO.headed("x CPU"),
    ],
    clock: Clock::Calls,
    notes: &[
        "By the CPU's clock. build: once, from ascending pieces of 2^20 pairs; ms is the library's part, and with its keys the",
        "time with the making of these. device MiB: what the device holds, which is the inner levels. Look-ups: random hits,",
        "other ones in each run, medians. Ranges: of 8 pairs, into new vectors.",
    ],
    summary: None,
};

/// Pairs of a range.
const LENGTH: usize = 8;

/// The most that fits into 64 GiB of host memory; small elsewhere.
fn sizes(scale: Scale) -> Vec<u32> {
    match (scale.kind, scale.quick) {
        (DeviceKind::Cuda, false) => vec![MOST],
        (DeviceKind::Cuda, true) => vec![26],
        (DeviceKind::Host, false) => vec![24],
        (DeviceKind::Host, true) => vec![18],
        (DeviceKind::Emulated, _) => vec![10],
    }
}

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
        let mut row = subject.look_up(session, TABLE.name, side, "look-ups")?;
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
    let mut build = subject.row(session, TABLE.name, side, "build in pieces", measured);
    build.set("leaf_bytes", subject.stats.leaf_bytes);
    build.set("inner_bytes", subject.stats.inner_bytes);
    build.set("device_bytes", is_sent.then_some(subject.stats.device_bytes));
    build.set("build.leaves_ms", leaves);
    build.set("build.inner_ms", inner);
    build.set("build.transfer_ms", is_sent.then_some(transfer));
    build.set("build.wall_s", wall.as_secs_f64());
    session.push(build);
    rows.into_iter().for_each(|row| session.push(row));
    for (_, row) in ranges(session, &mut subject, TABLE.name, LENGTH)? {
        session.push(row);
    }
    Ok(())
}
