//! Beyond the paper: buckets ordered by leaf, and leaves that the device reads across the bus.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, MEGA, MS, N, OPERATION, THREADS, WORDS};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::hbtree::columns::{
    BUCKET, CHILDREN, DEVICE_LEAVES, IN_FLIGHT, LEAF_ORDER, PIPELINES, RATIO, STRATEGY,
};
use crate::bench::hbtree::gathers::gathers;
use crate::bench::hbtree::plan::{MOST, at_each, one, wide_buckets};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::hbtree::{HbTree, LeafOrder, Pinning, Pipeline, Strategy};

pub(crate) static FIGURE: Figure = Figure {
    name: "hbtree-leaf-order",
    about: "HB+-tree: buckets ordered by leaf, by the share of leaves that the device reads across the bus",
    table: Some(&TABLE),
    needs: Needs::Kernels,
    takes: Takes::SIZES,
    sizes: one,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-leaf-order",
    title: "HB+-tree, buckets in the order of the queries and ordered by leaf",
    columns: &[
        DEVICE,
        OPERATION,
        WORDS,
        N,
        CHILDREN,
        IN_FLIGHT,
        LEAF_ORDER,
        DEVICE_LEAVES,
        BUCKET,
        PIPELINES,
        STRATEGY,
        BATCH,
        THREADS,
        MS,
        MEGA,
        RATIO.headed("x default"),
        Column::extra("of gathers", "gathers_ratio", Format::Percent),
    ],
    clock: Clock::Calls,
    notes: &[
        "get_many_or, ordinary host memory, random hits, other ones in each run; by the CPU's clock, medians. x default: the",
        "default pipeline, the first row. of gathers: relative to the most random 64-byte lines per second that all threads",
        "get from host memory in the same run; what the CPU reads in ascending order, or the device reads, may go beyond.",
    ],
    summary: None,
};

/// Leaves of a bucket that the device reads.
const SHARES: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let gathers = gathers(session, TABLE.name, 16 << size)?;
        let device = session.device.clone();
        let builder = HbTree::<u64, u64>::builder().pinning(Pinning::IfPossible);
        let Some(mut subject) = Subject::build(session, &device, size, &builder)? else { return Ok(()) };
        let mut shares = &SHARES[..];
        if let Some(Err(why)) = &subject.stats.pinned {
            session.skip(format_args!("leaves that the device reads, {}: {why}", subject.keys.describe()));
            shares = &SHARES[..1];
        }
        let mut pipelines = vec![Pipeline::default()];
        for bucket in wide_buckets(session) {
            for &share in shares {
                let mut pipeline = Pipeline::default();
                (pipeline.bucket, pipeline.strategy) = (bucket, Strategy::TripleBuffered);
                (pipeline.leaf_order, pipeline.device_leaves) = (LeafOrder::Ascending, share);
                pipelines.push(pipeline);
            }
        }
        let mut baseline = None;
        for pipeline in pipelines {
            subject.tree.set_pipeline(pipeline)?;
            let what = format!("buckets of {}, device {}", pipeline.bucket, pipeline.device_leaves);
            if !session.has_time(&what) {
                continue;
            }
            let mut row = subject.look_up(session, TABLE.name, Side::Hybrid, &what)?;
            let rate = *baseline.get_or_insert(row.giga_per_second);
            row.set("ratio_to_baseline", row.giga_per_second / rate);
            row.set("gathers_ratio", gathers.map(|most| row.giga_per_second / most));
            session.push(row);
        }
        Ok(())
    })
}
