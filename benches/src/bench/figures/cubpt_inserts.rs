//! CUBPT's figures 9 to 16: batches of inserts into trees, uniform and skewed, against PBI and PALM.

use crate::bench::batches::{MAPPINGS, Sent, Spread, all_are_there, batch, keys, of_paper, values};
use crate::bench::data::miss;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cubpt::{BuildScratch, Mapping, UpdateScratch};
use lanetree::{Batch, Cubpt, DeviceKind, Pool};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::palm::{Options, Report, Tree};
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("cubpt-inserts", Run::Alone(measure));

fn batches(kind: DeviceKind) -> &'static [usize] {
    match kind {
        DeviceKind::Emulated => &[300],
        DeviceKind::Host => &[1 << 18],
        DeviceKind::Cuda => &[10_000_000, 8_000_000, 6_000_000, 4_000_000, 2_000_000],
    }
}

/// The order of the paper's trees, and one for modern caches.
const ORDERS: [u32; 2] = [512, 32];

/// Milliseconds of the insertion, and of all.
#[derive(Clone, Copy)]
struct Times {
    insertion: f64,
    all: f64,
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let kind = session.device.kind();
    let batches = batches(kind);
    for len in request.sizes.iter().map(|&size| of_paper(kind, size)) {
        let keys = keys(session.seed, len);
        let mut sorted = keys.clone();
        sort_unstable_by(&mut sorted, Ord::cmp);
        for spread in [Spread::Uniform, Spread::Skewed] {
            for &count in batches {
                let batch = batch(session.seed, &sorted, count, spread);
                for order in ORDERS {
                    let what = format!("{count} {} inserts into {len}, order {order}", spread.name());
                    if session.has_time(&what) {
                        compare(session, &sorted, &batch, (order, spread), &what)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// All ways of one batch.
fn compare(
    session: &mut Session,
    sorted: &[u64],
    batch: &[u64],
    (order, spread): (u32, Spread),
    what: &str,
) -> Result<()> {
    let of_tree = values(sorted);
    let of_batch = values(batch);
    let none = Times { insertion: f64::NAN, all: f64::NAN };
    let (mut pbi, mut palm) = (none, none);
    let mut rows = Vec::new();
    for (index, threads) in [("pbi", 1), ("palm", 2), ("palm", 4), ("palm", rayon::current_num_threads())] {
        // Built by all threads; then the row's number of threads.
        let options = Options { order: order as usize, fill: 1.0, threads };
        // Into a new tree each time, whose memory is prepared.
        let reports: Vec<Report> = session.repeat_self_timed(|| {
            let (mut tree, _) = Tree::build_parallel(sorted, &of_tree, options);
            tree.reserve(batch.len());
            let report = match index {
                "pbi" => tree.insert_pbi(batch, &of_batch),
                _ => tree.insert_palm(batch, &of_batch),
            };
            let mut found = vec![None; batch.len()];
            tree.get_into(batch, &mut found);
            all_are_there(session, &what, batch, &found)?;
            Ok(report)
        })?;
        let of = |part: fn(&Report) -> f64| Timing::of(reports.iter().map(part).collect());
        let insertion = of(|report| (report.total.saturating_sub(report.sort + report.search)).as_secs_f64() * 1e3);
        let all = of(|report| report.total.as_secs_f64() * 1e3);
        let times = Times { insertion: insertion.median_ms, all: all.median_ms };
        match (index, threads) {
            ("pbi", _) => pbi = times,
            ("palm", 4) => palm = times,
            _ => {}
        }
        rows.push((index, Some(threads), "insertion", insertion));
        rows.push((index, Some(threads), "all", all));
    }
    for (index, mapping) in MAPPINGS {
        let (resident, all) = on_device(session, sorted, batch, (order, mapping), what)?;
        rows.push((index, None, "insertion", resident));
        rows.push((index, None, "all", all));
    }
    for (index, threads, timed, timing) in rows {
        let over = |times: Times| (if timed == "all" { times.all } else { times.insertion }) / timing.median_ms;
        let (over_pbi, over_palm) = (over(pbi), over(palm));
        let checksum = Checksum::of(&of_batch, miss(), 0);
        let row = Row::new(FIGURE.name, index, "insert", batch.len(), timing, checksum);
        let row = row.on(if threads.is_some() { "host" } else { session.device_name() });
        let row = row.over(sorted.len(), "u64", "u64", "uniform").with("order", order).with("spread", spread.name());
        let row = row.with("threads", threads).with("timed", timed);
        session.push(row.with("over_pbi", over_pbi).with("over_palm", over_palm));
    }
    Ok(())
}

/// The same batch on the device: one that is there, and one in main memory.
fn on_device(
    session: &Session,
    sorted: &[u64],
    batch: &[u64],
    (order, mapping): (u32, Mapping),
    what: &str,
) -> Result<(Timing, Timing)> {
    let pairs = Sent::new(session, sorted)?;
    let pool = Pool::new(&session.device);
    let mut build = BuildScratch::for_sorted(&session.device)?;
    let mut fresh = || {
        let builder = Cubpt::<u64, u64>::builder().fanout(order).mapping(mapping);
        builder.build_sorted_on(&session.stream, &pairs.device.0, &pairs.device.1, sorted.len(), &mut build)
    };
    let mut timings = Vec::new();
    let mut sent = Sent::new(session, batch)?;
    let mut scratch = UpdateScratch::new(&pool.device(), batch.len())?;
    for is_sent in [false, true] {
        let (timing, tree, _) = session.time_on_fresh(&mut fresh, |tree| {
            if is_sent {
                sent.send(session)?;
            }
            Ok(tree.apply_on(&session.stream, Batch::inserts(&sent.device.0, &sent.device.1), &mut scratch)?)
        })?;
        timings.push(timing);
        all_are_there(session, &what, batch, &tree.get_many(batch)?)?;
        all_are_there(session, &what, sorted, &tree.get_many(sorted)?)?;
    }
    let all = timings.pop().expect("two");
    Ok((timings.pop().expect("two"), all))
}
