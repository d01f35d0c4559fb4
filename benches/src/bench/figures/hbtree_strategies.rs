//! The paper's figure 10: how buckets follow one another.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::plan::{at_each, usual_bucket};
use crate::bench::hbtree::relative::{Relative, regular};
use crate::bench::hbtree::subject::{Side, Subject, pipelines, strategy};
use crate::bench::session::Session;
use lanetree::hbtree::{Builder, HbTree, Implicit, Pipeline, Strategy, Structure};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-strategies", Run::Alone(measure)).summary(regular);

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
            let mut row = subject.look_up(session, FIGURE.name, Side::Hybrid, &what)?;
            let rate = *baseline.get_or_insert(row.giga_per_second);
            row.set("ratio_to_baseline", row.giga_per_second / rate);
            row.set("paper", paper.filter(|_| side_by_side == 1 && L::NAME == Implicit::NAME));
            relative.compare(what, &mut row);
            session.push(row);
        }
    }
    Ok(())
}
