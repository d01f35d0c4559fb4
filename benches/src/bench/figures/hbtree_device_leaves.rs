//! Beyond the paper: buckets that the device answers alone, reading leaves across the bus.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, MEGA, MS, N, OPERATION, THREADS, WORDS, power};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::hbtree::columns::{BUCKET, CHILDREN, IN_FLIGHT, PIPELINES, RATIO, STRATEGY};
use crate::bench::hbtree::gathers::gathers;
use crate::bench::hbtree::plan::{MOST, at_each, device_buckets, one};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::hbtree::{HbTree, Pinning, Pipeline};

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-device-leaves",
    about: "HB+-tree: buckets that the device answers alone, reading pinned leaves across the bus, by their size",
    table: Some(&TABLE),
    needs: Needs::Kernels,
    takes: Takes::SIZES,
    sizes: one,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-device-leaves",
    title: "HB+-tree, by the buckets that the device answers alone, without the pipelines",
    columns: &[
        DEVICE,
        OPERATION,
        WORDS,
        N,
        CHILDREN,
        IN_FLIGHT,
        Column::of("alone", |row| row.integer("device_bucket").map(power)),
        BUCKET,
        PIPELINES,
        STRATEGY,
        BATCH,
        THREADS,
        MS,
        MEGA,
        RATIO.headed("x none alone"),
        Column::extra("of gathers", "gathers_ratio", Format::Percent),
    ],
    clock: Clock::Calls,
    notes: &[
        "get_many_or, ordinary host memory, random hits, other ones in each run; by the CPU's clock, medians. alone: most",
        "queries that the device answers alone at a time, while pipelines answer others; 0: none. of gathers: relative to",
        "the most random 64-byte lines per second that all threads get from host memory in the same run; what the device",
        "reads in ascending order may go beyond.",
    ],
    summary: None,
};

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let gathers = gathers(session, TABLE.name, 16 << size)?;
        let device = session.device.clone();
        let builder = HbTree::<u64, u64>::builder().pinning(Pinning::IfPossible);
        let Some(mut subject) = Subject::build(session, &device, size, &builder)? else { return Ok(()) };
        if let Some(Err(why)) = &subject.stats.pinned {
            session.skip(format_args!("{}: {why}", subject.keys.describe()));
            return Ok(());
        }
        let mut baseline = None;
        for bucket in device_buckets(session) {
            let what = format!("buckets of {bucket} by the device alone");
            if !session.has_time(&what) {
                continue;
            }
            let mut pipeline = Pipeline::default();
            pipeline.device_bucket = bucket;
            subject.tree.set_pipeline(pipeline)?;
            let mut row = subject.look_up(session, TABLE.name, Side::Hybrid, &what)?;
            let rate = *baseline.get_or_insert(row.giga_per_second);
            row.set("ratio_to_baseline", row.giga_per_second / rate);
            row.set("gathers_ratio", gathers.map(|most| row.giga_per_second / most));
            session.push(row);
        }
        Ok(())
    })
}
