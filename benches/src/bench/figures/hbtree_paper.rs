//! HB+-tree's figures 10, 11, 16 and 18 by the paper's way: nodes with as many children as a line has words, one pipeline
//! whose buckets all threads finish, and buckets that cross the bus as copies. The other figures have the library's way.

use crate::bench::data::{BenchWord, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::{at_each, at_most, buckets, usual_bucket};
use crate::bench::hbtree::relative::{papers_latency, to_usual_bucket};
use crate::bench::hbtree::subject::{Side, Subject, device_search, strategy};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::hbtree::{
    Balance, Builder, DeviceSearch, Fanout, HbTree, Implicit, Pipeline, Split, Strategy, Structure, Throttle, Transfers,
};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-paper", Run::Alone(measure));

/// What each strategy gains over sequential buckets in the paper, for its implicit and its regular tree.
const STRATEGIES: [(Strategy, Option<(&str, &str)>); 4] = [
    (Strategy::Sequential, None),
    (Strategy::Pipelined, Some(("1.56", "1.20"))),
    (Strategy::DoubleBuffered, Some(("2.10", "2.10"))),
    (Strategy::TripleBuffered, None),
];

/// How often the device's work is done, which stands for a weaker one; and queries of a batch then, as a power of two.
const THROTTLES: [(u32, u32); 3] = [(1, 24), (4, 22), (100, 20)];

/// Queries that batches of a bucket are taken from, as a power of two.
const POOL: u32 = 24;

/// Queries under way on the CPU alone in figure 16 c; and those by which its latencies are judged, as a power of two.
const UNDER_WAY: usize = 1 << 8;
const QUERIES: u32 = 22;

/// Batches within which a split should be found.
const MOST_BATCHES: usize = 64;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let main = main_of(&request.sizes);
    at_each(session, request, |session, size| {
        let alone = cpu_alone::<u64>(session, size)?;
        of_tree(session, (size, size == main), &HbTree::<u64, u64>::builder().fanout(Fanout::Words), alone)?;
        of_tree(session, (size, size == main), &HbTree::<u64, u64>::builder().regular(), alone)?;
        let alone = cpu_alone::<u32>(session, size)?;
        of_tree(session, (size, false), &HbTree::<u32, u32>::builder().fanout(Fanout::Words), alone)
    })
}

/// Rates of the trees on the CPU alone, of which the fastest counts.
fn cpu_alone<W: BenchWord>(session: &mut Session, size: u32) -> Result<f64> {
    let builder = HbTree::<W, W>::builder();
    let rates = [
        alone_of(session, size, &builder)?,
        alone_of(session, size, &builder.fanout(Fanout::Words))?,
        alone_of(session, size, &builder.regular())?,
    ];
    Ok(rates.into_iter().fold(f64::NAN, f64::max))
}

fn alone_of<W: BenchWord, L: Structure>(session: &mut Session, size: u32, builder: &Builder<W, W, L>) -> Result<f64> {
    let device = session.device.clone();
    let what = format!("2^{size} {}, the CPU alone", L::NAME);
    if !session.has_time(&what) {
        return Ok(f64::NAN);
    }
    let Some(mut subject) = Subject::build(session, &device, size, builder)? else { return Ok(f64::NAN) };
    subject.set_side(Side::Cpu)?;
    let row = subject.look_up(session, FIGURE.name, Side::Cpu, "the CPU alone")?;
    let rate = row.giga_per_second;
    let threads = rayon::current_num_threads();
    let queries = pool(session, &subject.keys, at_most(session, QUERIES));
    let length = (UNDER_WAY / threads).clamp(1, queries.len());
    let (latency, _) = subject.latency_by_all(session, &queries, length)?;
    let row = row.with("latency_us", latency / 1e3).with("under_way", length * threads);
    session.push(row.with("of", "CPU alone"));
    Ok(rate)
}

/// The paper's pipeline.
fn papers(session: &Session) -> Pipeline {
    let mut pipeline = Pipeline::default();
    (pipeline.bucket, pipeline.pipelines, pipeline.transfers) = (usual_bucket(session), 1, Transfers::Copied);
    pipeline.strategy = Strategy::DoubleBuffered;
    // The device answers nothing alone.
    pipeline.device_bucket = 0;
    pipeline
}

fn of_tree<W: BenchWord, L: Structure>(
    session: &mut Session,
    (size, is_main): (u32, bool),
    builder: &Builder<W, W, L>,
    alone: f64,
) -> Result<()> {
    let device = session.device.clone();
    let Some(mut subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
    strategies(session, &mut subject, alone)?;
    if is_main {
        by_bucket(session, &mut subject, alone)?;
        balanced(session, &mut subject)?;
    }
    Ok(())
}

/// A row with what all have.
fn row_of(row: Row, of: &'static str, alone: f64) -> Row {
    let x_cpu = row.giga_per_second / alone;
    row.with("of", of).with("transfers", "copied").with("x_cpu", x_cpu.is_finite().then_some(x_cpu))
}

/// Figures 10 and 16.
fn strategies<W: BenchWord, L: Structure>(
    session: &mut Session,
    subject: &mut Subject<W, L>,
    alone: f64,
) -> Result<()> {
    let mut sequential = None;
    let queries = pool(session, &subject.keys, at_most(session, QUERIES));
    for (way, paper) in STRATEGIES {
        let what = format!("{}, {}, one pipeline", strategy(way), subject.keys.describe());
        if !session.has_time(&what) {
            continue;
        }
        let mut pipeline = papers(session);
        pipeline.strategy = way;
        subject.tree.set_pipeline(pipeline)?;
        let mut row = row_of(subject.look_up(session, FIGURE.name, Side::Hybrid, &what)?, "strategies", alone);
        let rate = *sequential.get_or_insert(row.giga_per_second);
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        row.set("paper", paper.map(|(implicit, regular)| if L::NAME == Implicit::NAME { implicit } else { regular }));
        subject.set_bucket_latency(session, &queries, &mut row)?;
        session.push(row);
    }
    Ok(())
}

/// Figure 11.
fn by_bucket<W: BenchWord, L: Structure>(session: &mut Session, subject: &mut Subject<W, L>, alone: f64) -> Result<()> {
    let queries = pool(session, &subject.keys, at_most(session, POOL));
    for search in [DeviceSearch::Shared, DeviceSearch::Ballot] {
        let mut rows = Vec::new();
        for bucket in buckets(session) {
            let what = format!("buckets of {bucket}, {}, one pipeline", device_search(search));
            if !session.has_time(&what) {
                continue;
            }
            let mut pipeline = papers(session);
            (pipeline.bucket, pipeline.device_search) = (bucket, search);
            subject.tree.set_pipeline(pipeline)?;
            let mut row = row_of(subject.look_up(session, FIGURE.name, Side::Hybrid, &what)?, "buckets", alone);
            let calls = subject.latency(session, FIGURE.name, Side::Hybrid, &queries, bucket)?;
            row.set("latency_us", calls.timing.median_ms * 1e3);
            subject.set_bucket_latency(session, &queries, &mut row)?;
            row.set("paper", (L::NAME == Implicit::NAME).then(|| papers_latency(bucket)).flatten());
            rows.push(row);
        }
        to_usual_bucket(session, &mut rows);
        rows.into_iter().for_each(|row| session.push(row));
    }
    Ok(())
}

/// Figure 18: by a device that does everything several times, with all levels on it, and as found live.
fn balanced<W: BenchWord, L: Structure>(session: &mut Session, subject: &mut Subject<W, L>) -> Result<()> {
    for (device, size) in THROTTLES {
        let what = format!("device's work x {device}, {}, one pipeline", subject.keys.describe());
        if !session.has_time(&what) {
            continue;
        }
        let count = at_most(session, size);
        let mut pipeline = papers(session);
        pipeline.strategy = Strategy::TripleBuffered;
        pipeline.throttle = Throttle { cpu: 1, device };
        pipeline.sample = pipeline.sample.min((count / 16).max(1));
        let height = subject.stats.height;
        let all = Split { depth: height, share: 0.0 };
        let mut alone = f64::NAN;
        for (name, side, split) in [
            ("CPU alone", Side::Cpu, Some(all)),
            ("fixed", Side::Hybrid, Some(Split::default())),
            ("live", Side::Hybrid, None),
        ] {
            match split {
                Some(split) => (pipeline.balance, pipeline.split) = (Balance::Fixed, split),
                None => (pipeline.balance, pipeline.split) = (Balance::Live, Split::default()),
            }
            subject.tree.set_pipeline(pipeline)?;
            if split.is_none() {
                discover(session, subject, count)?;
            }
            let found = split.unwrap_or_else(|| subject.tree.discovery().best());
            let row = subject.look_up_count(session, FIGURE.name, side, &format!("{what}, {name}"), count)?;
            if side == Side::Cpu {
                alone = row.giga_per_second;
            }
            let levels = (f64::from(found.depth) + found.share).min(f64::from(height));
            let row = row_of(row, "balance", alone).with("throttle_device", device).with("split", name);
            session.push(row.with("cpu_levels", levels));
        }
    }
    Ok(())
}

/// Sends batches until the split is found.
fn discover<W: BenchWord, L: Structure>(session: &Session, subject: &Subject<W, L>, count: usize) -> Result<()> {
    let queries = pool(session, &subject.keys, count);
    let mut out = vec![W::default(); count];
    for _ in 0..MOST_BATCHES {
        subject.tree.get_many_or(&queries, miss(), &mut out)?;
        if subject.tree.discovery().wanted().is_none() {
            break;
        }
    }
    Ok(())
}
