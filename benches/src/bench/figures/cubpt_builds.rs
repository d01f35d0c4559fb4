//! CUBPT's figures 7 and 8: bulk builds, by one thread, by several, and on the device.

use crate::bench::batches::{MAPPINGS, Sent, all_are_there, keys, of_paper, values};
use crate::bench::data::{miss, value_of};
use crate::bench::error::{Error, Result};
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cubpt::BuildScratch;
use lanetree::{Cubpt, DeviceKind, harmonia};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::palm::{Options, Report, Tree};
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("cubpt-builds", Run::Alone(measure));

/// Pairs of the trees of a size. The paper's are 5, 10, 15 and 20 M, 5 M times a power of two but for one: on a GPU, 22 stands
/// for 5 M, 23 for 10 M, and 24 for 15 and 20 M; elsewhere a size is a power of two.
fn pairs(kind: DeviceKind, size: u32) -> Vec<usize> {
    match (kind, size) {
        (DeviceKind::Cuda, 24) => vec![15_000_000, 20_000_000],
        _ => vec![of_paper(kind, size)],
    }
}

/// The order of the paper's trees, and one for modern caches.
const ORDERS: [u32; 2] = [512, 32];

/// The speed-ups that the paper gives for the least and the largest trees.
fn paper(index: &str, threads: usize, timed: &str) -> Option<f64> {
    Some(match (index, threads, timed) {
        ("pbi", 2, "nodes") => 1.68,
        ("pbi", 4, "nodes") => 2.16,
        ("cubpt" | "cubpt_per_key", _, "nodes") => 26.79,
        ("pbi", 2, "all") => 1.99,
        ("pbi", 4, "all") => 3.37,
        ("cubpt" | "cubpt_per_key", _, "all") => 73.34,
        _ => return None,
    })
}

/// What SingleBuild took, in milliseconds: nodes, and all.
type Single = (f64, f64);

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let kind = session.device.kind();
    for len in request.sizes.iter().flat_map(|&size| pairs(kind, size)) {
        let what = format!("{len} pairs");
        if !session.has_time(&what) {
            continue;
        }
        let keys = keys(session.seed, len);
        let values = values(&keys);
        for order in ORDERS {
            let mut single = (f64::NAN, f64::NAN);
            for (index, threads) in [("single_build", 1), ("pbi", 2), ("pbi", 4), ("pbi", rayon::current_num_threads())]
            {
                let options = Options { order: order as usize, fill: 1.0, threads };
                let build = match index {
                    "pbi" => Tree::build_parallel,
                    _ => Tree::build_single,
                };
                let mut last = None;
                // The first is not counted: its memory is new.
                let reports: Vec<Report> = session.repeat_self_timed(|| {
                    drop(last.take());
                    let (tree, report) = build(&keys, &values, options);
                    last = Some(tree);
                    Ok(report)
                })?;
                let tree: Tree<u64, u64> = last.expect("built at least once");
                let mut found = vec![None; len];
                tree.get_into(&keys, &mut found);
                let checksum = session.check_found(&what, &found, len, miss(), |i| value_of(keys[i]))?;
                let of = |part: fn(&Report) -> f64| Timing::of(reports.iter().map(part).collect());
                let nodes = of(|report| (report.total - report.sort).as_secs_f64() * 1e3);
                let all = of(|report| report.total.as_secs_f64() * 1e3);
                if index != "pbi" {
                    single = (nodes.median_ms, all.median_ms);
                }
                push(session, index, (len, order, Some(threads)), ("nodes", nodes), checksum, single);
                push(session, index, (len, order, Some(threads)), ("all", all), checksum, single);
            }
            on_device(session, &keys, order, &what, single)?;
        }
    }
    Ok(())
}

/// CUBPT, and Harmonia from the same pairs.
fn on_device(session: &mut Session, keys: &[u64], order: u32, what: &str, single: Single) -> Result<()> {
    let len = keys.len();
    let mut sorted = keys.to_vec();
    sort_unstable_by(&mut sorted, Ord::cmp);
    let (sorted, mut unsorted) = (Sent::new(session, &sorted)?, Sent::new(session, keys)?);
    let mut scratch = BuildScratch::for_unsorted(&session.device, len)?;
    for (index, mapping) in MAPPINGS {
        let builder = Cubpt::<u64, u64>::builder().fanout(order).mapping(mapping);
        let (keys_on, values_on) = &sorted.device;
        let (nodes, tree) =
            session.time_making(|| builder.build_sorted_on(&session.stream, keys_on, values_on, len, &mut scratch))?;
        drop(tree);
        let (all, tree) = session.time_making(|| {
            unsorted.send(session)?;
            let (keys, values) = &unsorted.device;
            Ok::<_, Error>(builder.build_on(&session.stream, keys, values, len, &mut scratch)?)
        })?;
        let checksum = all_are_there(session, &what, keys, &tree.get_many(keys)?)?;
        drop(tree);
        push(session, index, (len, order, None), ("nodes", nodes), checksum, single);
        push(session, index, (len, order, None), ("all", all), checksum, single);
    }
    if order != ORDERS[0] {
        return Ok(());
    }
    let (builder, (keys_on, values_on)) = (harmonia::Builder::<u64, u64>::default(), &sorted.device);
    let (nodes, tree) =
        session.time_making(|| builder.build_sorted_on(&session.stream, keys_on, values_on, len, &mut scratch))?;
    let checksum = all_are_there(session, &what, keys, &tree.get_many(keys)?)?;
    push(session, "harmonia", (len, tree.fanout(), None), ("nodes", nodes), checksum, single);
    Ok(())
}

fn push(
    session: &mut Session,
    index: &'static str,
    (len, order, threads): (usize, u32, Option<usize>),
    (timed, timing): (&'static str, Timing),
    checksum: Checksum,
    (nodes, all): Single,
) {
    let single = if timed == "nodes" { nodes } else { all };
    let over_single = single / timing.median_ms;
    let row = Row::new(FIGURE.name, index, "build", len, timing, checksum);
    let row = row.on(if threads.is_some() { "host" } else { session.device_name() }).over(len, "u64", "u64", "uniform");
    let row = row.with("order", order).with("threads", threads).with("timed", timed).with("over_single", over_single);
    let paper = paper(index, threads.unwrap_or(0), timed).filter(|_| order == ORDERS[0]);
    session.push(row.with("paper", paper));
}
