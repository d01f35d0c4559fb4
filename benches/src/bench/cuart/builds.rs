//! Bulk builds of pairs that are on the device, and compaction there, beside a build by the CPU.

use super::data::{Data, keys};
use super::{Subject, len};
use crate::bench::error::Result;
use crate::bench::report::{Section, Timing};
use crate::bench::session::Session;
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Cuart, DeviceKeys};
use rayon::prelude::*;

/// Queries that a tree is checked with.
const CHECKED: usize = 1 << 20;

/// Of keys of 8 and 32 bytes; the ratio is to the CPU's build, with the copy of the tree to the device.
pub(in crate::bench) fn builds(session: &mut Session) -> Result<()> {
    if !session.runs_kernels() {
        session.skip("figure cuart-builds: skipped: no GPU (--device emulated runs its kernels, slowly)");
        return Ok(());
    }
    for width in [8, 32] {
        let data = Data::new(width, len(session), session.seed);
        if session.has_time(format_args!("builds, keys of {width} bytes")) {
            of_width(session, data)?;
        }
    }
    Ok(())
}

fn of_width(session: &mut Session, data: Data) -> Result<()> {
    let mut order: Vec<u64> = (0..data.len as u64).collect();
    {
        let bytes = data.all();
        order.par_sort_unstable_by_key(|&i| &bytes[i as usize * data.width..][..data.width]);
    }
    let bytes = data.bytes(data.len, |rank| order[rank]);
    let values: Vec<u32> = order.par_iter().map(|&i| i as u32 + 1).collect();
    drop(order);
    let sorted = keys(data.width, &bytes);
    let (timing, tree) = built(session, || Ok(Cuart::builder().build_sorted(&session.device, sorted, &values)?))?;
    let stats = tree.stats();
    let mut subject = Subject { data, stats, ceiling: None, tree };
    let baseline = push(session, &subject, "build_sorted on the CPU", timing, None)?;

    let pairs = (DeviceKeys::upload(&session.device, sorted)?, session.device.upload(&values)?);
    on_device(session, &mut subject, &pairs, "build_on, sorted", baseline)?;
    drop((pairs, bytes, values));
    // Longer ones must ascend.
    if data.width <= 8 {
        let (bytes, values) = (data.all(), data.values());
        let pairs = (DeviceKeys::upload(&session.device, keys(data.width, &bytes))?, session.device.upload(&values)?);
        drop((bytes, values));
        on_device(session, &mut subject, &pairs, "build_on, random order", baseline)?;
    }
    compaction(session, &mut subject, baseline)
}

fn on_device(
    session: &mut Session,
    subject: &mut Subject<u32>,
    pairs: &(DeviceKeys, lanetree::Buffer<u32>),
    operation: &str,
    baseline: f64,
) -> Result<()> {
    let timing;
    (timing, subject.tree) = built(session, || Ok(Cuart::builder().build_on(&session.stream, &pairs.0, &pairs.1)?))?;
    push(session, subject, operation, timing, Some(baseline)).map(drop)
}

/// Times a build; each run's tree is gone before the next.
fn built(session: &Session, build: impl Fn() -> Result<Cuart<u32>>) -> Result<(Timing, Cuart<u32>)> {
    let mut tree = None;
    let timing = session.time_on_cpu(
        &mut tree,
        |tree| *tree = None,
        |tree| {
            *tree = Some(build()?);
            Ok(())
        },
    )?;
    Ok((timing, tree.expect("built at least once")))
}

/// Of a tree from which an eighth of the keys was taken away and put back.
fn compaction(session: &mut Session, subject: &mut Subject<u32>, baseline: f64) -> Result<()> {
    let data = subject.data;
    let count = data.len / 8;
    let bytes = data.bytes(count, |i| 8 * i as u64);
    let values: Vec<u32> = (0..count as u32).map(|i| 8 * i + 1).collect();
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let values = session.device.upload(&values)?;
    let mut scratch = ChangeScratch::for_inserts(&session.device, count, UpdateEngine::Auto)?;
    let mut failed = Ok(());
    let mut change = |tree: &mut Cuart<u32>| -> Result<()> {
        tree.remove_on(&session.stream, &batch)?;
        tree.insert_on(&session.stream, &batch, &values, &mut scratch)?;
        Ok(session.stream.synchronize()?)
    };
    let timing = session.time_on_cpu(
        &mut subject.tree,
        |tree| {
            if failed.is_ok() {
                failed = change(tree);
            }
        },
        |tree| Ok(tree.compact()?),
    )?;
    failed?;
    push(session, subject, "compact", timing, Some(baseline)).map(drop)
}

/// A row, once look-ups in the tree gave what is right; its rate.
fn push(
    session: &mut Session,
    subject: &Subject<u32>,
    operation: &str,
    timing: Timing,
    baseline: Option<f64>,
) -> Result<f64> {
    let data = subject.data;
    let bytes = data.bytes(CHECKED.min(data.len), |query| data.query(1, query));
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let mut out = session.device.alloc::<u32>(batch.len())?;
    subject.tree.on(&session.stream).get(&batch, &mut out, None, 0)?;
    session.stream.synchronize()?;
    let expected = |query: usize| data.query(1, query) as u32 + 1;
    let checksum = session.check(&operation, "values", &out, out.len(), 0, expected)?;
    let parts = ("cuart", operation.to_owned());
    let mut row = subject.row(session, Section::CuartBuilds, parts, data.len, timing, checksum);
    (row.order, row.hit_rate) = (None, None);
    row.footprint_bytes = subject.tree.stats().bytes();
    let rate = row.giga_per_second;
    row.ratio_to_baseline = Some(rate / baseline.unwrap_or(rate));
    session.push(row);
    Ok(rate)
}
