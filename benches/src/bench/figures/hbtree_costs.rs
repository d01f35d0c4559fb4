//! The paper's cost model (section 5.4): the stages of a bucket, what follows from them, and what is measured.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::{at_each, at_most, buckets};
use crate::bench::hbtree::subject::{Side, Subject, strategy};
use crate::bench::session::Session;
use core::time::Duration;
use lanetree::hbtree::{Builder, HbTree, Pipeline, StageTimes, Strategy, Structure};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-costs", Run::Alone(measure));

/// Queries by which the latency of a bucket is judged, as a power of two: sixteen of the largest buckets.
const QUERIES: u32 = 24;

/// Times that each stage is measured.
const TIMES: usize = 15;

/// A strategy, and what the model says of it.
type Predicted = (Strategy, fn(&StageTimes) -> Duration);

const STRATEGIES: [Predicted; 3] = [
    (Strategy::Sequential, StageTimes::sequential),
    (Strategy::Pipelined, StageTimes::pipelined),
    (Strategy::DoubleBuffered, StageTimes::double_buffered),
];

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_tree(session, size, &HbTree::builder())?;
        of_tree(session, size, &HbTree::builder().regular())
    })
}

fn of_tree<L: Structure>(session: &mut Session, size: u32, builder: &Builder<u64, u64, L>) -> Result<()> {
    let device = session.device.clone();
    let Some(mut subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
    let most = 1 << session.plan.queries;
    let queries = pool(session, &subject.keys, at_most(session, QUERIES));
    for bucket in buckets(session).into_iter().filter(|&bucket| bucket <= most) {
        let what = format!("buckets of {bucket}");
        if !session.has_time(&what) {
            continue;
        }
        let Some(stages) = stages(session, &subject, bucket)? else { continue };
        for (way, predicted) in STRATEGIES {
            let mut pipeline = Pipeline::default();
            (pipeline.bucket, pipeline.strategy, pipeline.pipelines) = (bucket, way, 1);
            subject.tree.set_pipeline(pipeline)?;
            let what = format!("{what}, {}", strategy(way));
            let mut row = subject.look_up(session, FIGURE.name, Side::Hybrid, &what)?;
            let (predicted, measured) =
                (micros(predicted(&stages)), row.timing.median_ms * 1e3 * bucket as f64 / row.batch as f64);
            row.set("stages.staging_us", micros(stages.staging));
            row.set("stages.upload_us", micros(stages.upload));
            row.set("stages.descent_us", micros(stages.descent));
            row.set("stages.download_us", micros(stages.download));
            row.set("stages.leaves_us", micros(stages.leaves));
            row.set("predicted_us", predicted);
            row.set("measured_us", measured);
            row.set("measured_to_predicted", measured / predicted);
            subject.set_bucket_latency(session, &queries, &mut row)?;
            session.push(row);
        }
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The median of each stage, over other queries each time.
fn stages<L: Structure>(session: &Session, subject: &Subject<u64, L>, bucket: usize) -> Result<Option<StageTimes>> {
    let queries = pool(session, &subject.keys, bucket * TIMES);
    let times: Option<Vec<StageTimes>> =
        queries.chunks(bucket).map(|bucket| subject.tree.stage_times(bucket)).collect::<lanetree::Result<_>>()?;
    let Some(times) = times else { return Ok(None) };
    let median = |stage: fn(&StageTimes) -> Duration| {
        let mut times: Vec<Duration> = times.iter().map(stage).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let mut medians = StageTimes::default();
    medians.staging = median(|times| times.staging);
    medians.upload = median(|times| times.upload);
    medians.descent = median(|times| times.descent);
    medians.download = median(|times| times.download);
    medians.leaves = median(|times| times.leaves);
    Ok(Some(medians))
}
