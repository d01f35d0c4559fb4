//! The paper's figure 17: ranges.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, MS, N, PAIRS_RATE, THREADS, WORDS, figure};
use crate::bench::data::{miss, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::hbtree::columns::{BUCKET, CHILDREN, PAPER, RATIO};
use crate::bench::hbtree::lookups::Measured;
use crate::bench::hbtree::plan::{MOST, at_each, one};
use crate::bench::hbtree::room::has_room;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use core::ops::RangeInclusive;
use lanetree::Ranges;
use lanetree::hbtree::HbTree;
use rayon::prelude::*;

pub(crate) static FIGURE: Figure = Figure {
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
        PAPER,
    ],
    clock: Clock::Calls,
    notes: &[
        "range_many, from a vector of ranges into new vectors, their allocation included; random ranges, by the CPU's clock,",
        "medians. batch: ranges. paper: over 2^27 pairs; above 1.8 up to 8 pairs, 1.22 at 32.",
    ],
    summary: None,
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

/// The most pairs that a batch returns, as a power of two.
const MOST_PAIRS: u32 = 27;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let device = session.device.clone();
        let Some(mut subject) = Subject::<u64>::build(session, &device, size, &HbTree::builder())? else {
            return Ok(());
        };
        for (length, paper) in LENGTHS {
            let what = format!("ranges of {length}, {}", subject.keys.describe());
            if length > subject.keys.len() {
                session.skip(format_args!("{what}: fewer keys than that"));
            } else if session.has_time(&what) {
                of_length(session, &mut subject, length, paper, &what)?;
            }
        }
        Ok(())
    })
}

fn of_length(
    session: &mut Session,
    subject: &mut Subject<u64>,
    length: usize,
    paper: Option<&str>,
    what: &str,
) -> Result<()> {
    let pairs = 1 << session.plan.range_pairs.min(MOST_PAIRS);
    let count = (pairs / length).clamp(1, 1 << session.plan.host_ranges);
    // Ranges; results, and the parts that they are joined of, both at once.
    if !has_room(session, what, (count * 40 + 32 * count * length) as u64) {
        return Ok(());
    }
    let (keys, rank) = (subject.keys, subject.keys.shuffled(session.seed ^ length as u64));
    let first = |i: usize| rank(0, count, i).min(keys.len() - length);
    let range = |i: usize| keys.key(first(i))..=keys.key(first(i) + length - 1);
    let ranges: Vec<RangeInclusive<u64>> = (0..count).into_par_iter().map(range).collect();
    let mut baseline = None;
    for &side in Side::all(session) {
        subject.set_side(side)?;
        let mut out = Ranges::default();
        let timing = session.time_on_cpu(
            &mut out,
            |out| *out = Ranges::default(),
            |out| {
                *out = subject.tree.range_many(ranges.iter().cloned())?;
                Ok(())
            },
        )?;
        let pairs = count * length;
        session.check_slice(&what, "offsets", &out.offsets, 0..count + 1, u64::MAX, |i| (i * length) as u64)?;
        let key = |i: usize| keys.key(first(i / length) + i % length);
        let by_key = session.check_slice(&what, "keys", &out.keys, 0..pairs, miss(), key)?;
        let by_value = session.check_slice(&what, "values", &out.values, 0..pairs, miss(), |i| value_of(key(i)))?;
        let measured = Measured { count, timing, checksum: by_key.and(by_value) };
        let mut row: Row = subject.row(session, TABLE.name, side, "range_many", measured);
        let rate = *baseline.get_or_insert(row.giga_per_second);
        row.set("range_pairs", length);
        row.set("pairs", pairs as u64);
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        row.set("paper", paper.filter(|_| side == Side::Hybrid));
        session.push(row);
    }
    Ok(())
}
