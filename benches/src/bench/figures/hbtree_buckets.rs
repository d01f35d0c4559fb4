//! The paper's figure 11: the size of buckets, by throughput and latency.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::{at_each, at_most, buckets};
use crate::bench::hbtree::relative::{Relative, papers_latency, regular, to_usual_bucket};
use crate::bench::hbtree::subject::{Side, Subject, device_search};
use crate::bench::session::Session;
use lanetree::hbtree::{Builder, DeviceSearch, Fanout, HbTree, Pipeline, Structure};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-buckets", Run::Alone(measure)).summary(regular);

/// Queries that batches of a bucket are taken from, as a power of two.
const POOL: u32 = 24;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let (builder, mut relative) = (HbTree::builder().fanout(Fanout::Words), Relative::default());
        of_tree(session, size, &builder, &mut relative)?;
        of_tree(session, size, &builder.regular(), &mut relative)
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
    let queries = pool(session, &subject.keys, at_most(session, POOL));
    for search in [DeviceSearch::Ballot, DeviceSearch::Shared] {
        let mut of_search = Vec::new();
        for bucket in buckets(session) {
            let mut pipeline = Pipeline::default();
            (pipeline.bucket, pipeline.device_search) = (bucket, search);
            subject.tree.set_pipeline(pipeline)?;
            let what = format!("buckets of {bucket}, {}", device_search(search));
            if !session.has_time(&what) {
                continue;
            }
            let mut row = subject.look_up(session, FIGURE.name, Side::Hybrid, &what)?;
            // All threads finish the bucket.
            pipeline.pipelines = 1;
            subject.tree.set_pipeline(pipeline)?;
            let calls = subject.latency(session, FIGURE.name, Side::Hybrid, &queries, bucket)?;
            row.set("latency_us", calls.timing.median_ms * 1e3);
            row.set("latency_p99_us", calls.number("p99_ms").map(|ms| ms * 1e3));
            row.set("latency_calls", calls.integer("calls"));
            row.set("paper", papers_latency(bucket));
            of_search.push(row);
        }
        to_usual_bucket(session, &mut of_search);
        for mut row in of_search {
            relative.compare(format_args!("{} {:?}", device_search(search), row.integer("bucket")), &mut row);
            session.push(row);
        }
    }
    Ok(())
}
