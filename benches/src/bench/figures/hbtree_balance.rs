//! The paper's figure 18: how the descent is split between the CPU and the device, if one of them is slow.

use crate::bench::data::miss;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::pool;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::subject::{Side, Subject, pipelines};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::hbtree::{Balance, Fanout, HbTree, Pipeline, Split, Throttle};
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-balance", Run::Alone(measure)).summary(summary);

/// How often the work of the CPU and of the device is done.
const THROTTLES: [(u32, u32); 5] = [(1, 1), (4, 1), (100, 1), (1, 4), (1, 100)];

/// The least that a split found live should reach of the best fixed one, and the most samples that it should take.
const TARGET: (f64, u64) = (0.95, 20);

/// Batches within which a split should be found.
const MOST_BATCHES: usize = 64;

/// What follows for each throttle.
fn summary(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    for row in rows.iter().filter(|row| row.text("split") == Some("live")) {
        let [fanout, pipelines, cpu, device, samples] =
            ["fanout", "pipelines", "throttle_cpu", "throttle_device", "samples"]
                .map(|name| row.integer(name).unwrap_or_default());
        let [fixed, alone, levels] =
            ["x_best_fixed", "x_cpu", "cpu_levels"].map(|name| row.number(name).unwrap_or_default());
        let verdict = if fixed >= TARGET.0 && samples <= TARGET.1 { "" } else { "; MISSED" };
        writeln!(
            out,
            "  F = {fanout}, {pipelines} pipelines, CPU's work x {cpu}, device's x {device}: live is {fixed:.2} x the best fixed \
             split (target: {:.2}) and {alone:.2} x CPU, by {samples} samples (target: {}): {levels:.3} levels{verdict}",
            TARGET.0, TARGET.1,
        )?;
    }
    Ok(())
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        for fanout in [Fanout::Words, Fanout::Full] {
            let (device, builder) = (session.device.clone(), HbTree::builder().fanout(fanout));
            let Some(mut subject) = Subject::<u64>::build(session, &device, size, &builder)? else { return Ok(()) };
            for (cpu, device) in THROTTLES {
                for side_by_side in [0, 1] {
                    let mut pipeline = Pipeline::default();
                    (pipeline.throttle, pipeline.pipelines) = (Throttle { cpu, device }, side_by_side);
                    of_throttle(session, &mut subject, pipeline)?;
                }
            }
        }
        Ok(())
    })
}

/// Queries of a batch, fewer if they take longer.
fn queries(session: &Session, throttle: Throttle) -> usize {
    let size = match throttle.cpu.max(throttle.device) {
        1 => 24,
        2..=10 => 22,
        _ => 20,
    };
    1 << session.plan.queries.min(size)
}

/// The CPU alone, every fixed split, and the one that is found.
fn of_throttle(session: &mut Session, subject: &mut Subject<u64>, mut pipeline: Pipeline) -> Result<()> {
    let throttle = pipeline.throttle;
    let (count, height) = (queries(session, throttle), subject.stats.height);
    let what = format!("CPU's work x {}, device's x {}", throttle.cpu, throttle.device);
    if !session.has_time(&what) {
        return Ok(());
    }
    // A batch has room for several samples.
    pipeline.sample = pipeline.sample.min((count / 16).max(1));
    let row = |session: &Session, subject: &Subject<u64>, side: Side, split: Split, name: &str| -> Result<Row> {
        let levels = (f64::from(split.depth) + split.share).min(f64::from(height));
        let what = format!("{what}, {name}: {levels} levels on the CPU");
        let mut row = subject.look_up_count(session, FIGURE.name, side, &what, count)?;
        row.set("pipelines", pipelines(pipeline.pipelines));
        row.set("throttle_cpu", throttle.cpu);
        row.set("throttle_device", throttle.device);
        row.set("split", name);
        row.set("split_depth", split.depth.min(height));
        row.set("split_share", split.share);
        row.set("cpu_levels", levels);
        Ok(row)
    };
    let mut rows = Vec::new();
    // The last one, of all levels, is the CPU alone.
    for depth in 0..=height {
        for share in if depth < height { &[0.0, 0.5][..] } else { &[0.0] } {
            pipeline.split = Split { depth, share: *share };
            subject.tree.set_pipeline(pipeline)?;
            let (side, name) = if depth < height { (Side::Hybrid, "fixed") } else { (Side::Cpu, "CPU alone") };
            rows.push(row(session, subject, side, pipeline.split, name)?);
        }
    }
    (pipeline.balance, pipeline.split) = (Balance::Live, Split::default());
    subject.tree.set_pipeline(pipeline)?;
    discover(session, subject, count)?;
    // Whoever finds another split while it is measured has taken samples again.
    let mut live = row(session, subject, Side::Hybrid, subject.tree.discovery().best(), "live")?;
    live.set("samples", subject.tree.discovery().samples());
    let alone = rows[rows.len() - 1].giga_per_second;
    // The largest of many figures is larger than what it stands for: what live is compared with is measured once more.
    let best = rows.iter().max_by(|a, b| a.giga_per_second.total_cmp(&b.giga_per_second)).expect("there is a row");
    let number = |name| best.number(name).unwrap_or_default();
    let split = Split { depth: number("split_depth") as u32, share: number("split_share") };
    (pipeline.balance, pipeline.split) = (Balance::Fixed, split);
    subject.tree.set_pipeline(pipeline)?;
    let side = if split.depth < height { Side::Hybrid } else { Side::Cpu };
    let again = row(session, subject, side, split, "best fixed, again")?;
    let best = again.giga_per_second;
    rows.extend([live, again]);
    for mut row in rows {
        row.set("x_cpu", row.giga_per_second / alone);
        row.set("x_best_fixed", row.giga_per_second / best);
        session.push(row);
    }
    Ok(())
}

/// Sends batches until the split is found.
fn discover(session: &Session, subject: &Subject<u64>, count: usize) -> Result<()> {
    let queries = pool(session, &subject.keys, count);
    let mut out = vec![0; count];
    for _ in 0..MOST_BATCHES {
        subject.tree.get_many_or(&queries, miss(), &mut out)?;
        if subject.tree.discovery().wanted().is_none() {
            break;
        }
    }
    Ok(())
}
