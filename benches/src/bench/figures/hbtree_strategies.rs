//! The paper's figure 10: how buckets follow one another.

use crate::bench::columns::{BATCH, DEVICE, INDEX, MEGA, MS, N, THREADS, WORDS};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::hbtree::columns::{BUCKET, CHILDREN, DEVICE_SEARCH, PAPER, PIPELINES, RATIO, STRATEGY};
use crate::bench::hbtree::plan::{MOST, at_each, one, usual_bucket};
use crate::bench::hbtree::relative::{OF_IMPLICIT, Relative, regular};
use crate::bench::hbtree::subject::{Side, Subject, pipelines, strategy};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::hbtree::{Builder, HbTree, Implicit, Pipeline, Strategy, Structure};

pub(crate) const FIGURE: Figure = Figure {
    name: "hbtree-strategies",
    about: "HB+-tree's paper, figure 10: how buckets of queries follow one another, by one pipeline and by several",
    table: Some(&TABLE),
    needs: Needs::Kernels,
    takes: Takes::SIZES,
    sizes: one,
    most: MOST,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "hbtree-strategies",
    title: "HB+-tree, by how buckets follow one another (the paper's figure 10)",
    columns: &[
        INDEX,
        DEVICE,
        WORDS,
        N,
        CHILDREN,
        DEVICE_SEARCH,
        BUCKET,
        PIPELINES,
        STRATEGY,
        BATCH,
        THREADS,
        MS,
        MEGA,
        RATIO.headed("x sequential"),
        OF_IMPLICIT,
        PAPER,
    ],
    clock: Clock::Calls,
    notes: &[
        "get_many_or, ordinary host memory, random hits, other ones in each run; by the CPU's clock, medians. One pipeline:",
        "all threads search the leaves of a bucket together, as in the paper. x sequential: with the same number of",
        "pipelines. paper: of its implicit tree, pipelined; and of both trees, double-buffered.",
    ],
    summary: Some(regular),
};

const STRATEGIES: [(Strategy, Option<&str>); 4] = [
    (Strategy::Sequential, None),
    (Strategy::Pipelined, Some("1.56")),
    (Strategy::DoubleBuffered, Some("2.10")),
    (Strategy::TripleBuffered, None),
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
    for side_by_side in [1, 0] {
        let mut baseline = None;
        for (way, paper) in STRATEGIES {
            let mut pipeline = Pipeline::default();
            (pipeline.bucket, pipeline.strategy, pipeline.pipelines) = (usual_bucket(session), way, side_by_side);
            subject.tree.set_pipeline(pipeline)?;
            let what = format!("{}, {} pipelines", strategy(way), pipelines(side_by_side));
            let mut row = subject.look_up(session, TABLE.name, Side::Hybrid, &what)?;
            let rate = *baseline.get_or_insert(row.giga_per_second);
            row.set("ratio_to_baseline", row.giga_per_second / rate);
            row.set("paper", paper.filter(|_| side_by_side == 1 && L::NAME == Implicit::NAME));
            relative.compare(what, &mut row);
            session.push(row);
        }
    }
    Ok(())
}
