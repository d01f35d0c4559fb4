//! When to take Harmonia, and when CUBPT: batches of inserts of every size and spread into both.

use crate::bench::batches::{Sent, Spread, all_are_there, batch, keys};
use crate::bench::columns::power;
use crate::bench::data::miss;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cubpt::BuildScratch;
use lanetree::{
    Batch, Buffer, Cubpt, DeviceKind, Harmonia, OpKind, OrderedIndex, Pool, UpdatePath, UpdateReport, cubpt, harmonia,
};
use lanetree_base::parallel::*;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("cubpt-crossover", Run::Alone(measure));

const FILL: f64 = 0.7;
const ORDER: u32 = 32;

fn batches(kind: DeviceKind) -> &'static [u32] {
    match kind {
        DeviceKind::Emulated => &[4, 6],
        _ => &[10, 12, 14, 16, 18, 20, 22, 24],
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = 1 << main_of(&request.sizes);
    let mut sorted = keys(session.seed, len);
    sort_unstable_by(&mut sorted, Ord::cmp);
    let pairs = Sent::new(session, &sorted)?;
    let mut scratch = BuildScratch::for_sorted(&session.device)?;
    let from = (&pairs.device.0, &pairs.device.1);
    for &size in batches(session.device.kind()) {
        let count = 1 << size;
        for spread in [Spread::Uniform, Spread::Skewed, Spread::Appended] {
            let what = format!("2^{size} {} inserts, n = {}", spread.name(), power(len as u64));
            if count > len || !session.has_time(&what) {
                continue;
            }
            let batch = batch(session.seed, &sorted, count, spread);
            let sent = Sent::new(session, &batch)?;
            let pool = Pool::new(&session.device);
            let removals = session.device.upload(&vec![OpKind::REMOVE; count])?;
            let builder = harmonia::Builder::<u64, u64>::default().fill(FILL);
            let tree = builder.build_sorted_on(&session.stream, from.0, from.1, len, &mut scratch)?;
            let mut changes = harmonia::UpdateScratch::new(&pool.device(), count)?;
            let apply = |tree: &mut Harmonia<u64, u64>, batch: DeviceBatch<'_>| {
                tree.apply_on(&session.stream, batch, &mut changes)
            };
            let harmonia = time(session, (&sent, &removals), &batch, &what, (tree, apply))?;
            push(session, "harmonia", (len, count, spread), &batch, (harmonia.0.clone(), harmonia.1), 1.0);
            let builder = Cubpt::<u64, u64>::builder().fanout(ORDER).fill(FILL);
            let tree = builder.build_sorted_on(&session.stream, from.0, from.1, len, &mut scratch)?;
            let mut changes = cubpt::UpdateScratch::new(&pool.device(), count)?;
            // Removals with the merging of what is too small, which the next batch would do.
            let apply = |tree: &mut Cubpt<u64, u64>, batch: DeviceBatch<'_>| {
                let report = tree.apply_on(&session.stream, batch, &mut changes)?;
                tree.merge_small(&session.stream, &mut changes)?;
                Ok(report)
            };
            let cubpt = time(session, (&sent, &removals), &batch, &what, (tree, apply))?;
            let ratio = harmonia.0.median_ms / cubpt.0.median_ms;
            push(session, "cubpt", (len, count, spread), &batch, cubpt, ratio);
        }
    }
    Ok(())
}

/// A batch on the device.
type DeviceBatch<'a> = Batch<'a, u64, &'a Buffer<u64>>;

/// Inserts a batch into a tree some times, by `apply`; the way that the last one took.
fn time<I: OrderedIndex<Domain = u64, Value = u64>>(
    session: &Session,
    (sent, removals): (&Sent, &Buffer<OpKind>),
    batch: &[u64],
    what: &str,
    (tree, apply): (I, impl FnMut(&mut I, DeviceBatch<'_>) -> lanetree::Result<UpdateReport>),
) -> Result<(Timing, UpdatePath)> {
    let (keys, values) = &sent.device;
    let mut state = (tree, apply, None);
    let timing = session.time_prepared(
        &mut state,
        |(tree, apply, path)| {
            if path.is_some() {
                apply(tree, Batch::of_kinds(keys, values, removals))?;
            }
            Ok(())
        },
        |(tree, apply, path)| {
            *path = Some(apply(tree, Batch::inserts(keys, values))?.path);
            Ok(())
        },
    )?;
    let (tree, _, path) = state;
    all_are_there(session, &what, batch, &tree.get_many(batch)?)?;
    Ok((timing, path.expect("a batch")))
}

fn push(
    session: &mut Session,
    index: &'static str,
    (len, count, spread): (usize, usize, Spread),
    batch: &[u64],
    (timing, path): (Timing, UpdatePath),
    over_harmonia: f64,
) {
    let checksum = lanetree_baselines::Checksum::of(&crate::bench::batches::values(batch), miss(), 0);
    let row = Row::new(FIGURE.name, index, "insert", count, timing, checksum).on(session.device_name());
    let row = row.over(len, "u64", "u64", "uniform").with("spread", spread.name());
    let row = row.with("share", count as f64 / len as f64 * 100.0).with("way", format!("{path:?}").to_lowercase());
    session.push(row.with("over_harmonia", over_harmonia));
}
