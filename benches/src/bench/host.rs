//! Look-ups that begin and end in host memory.

use super::data::{Batch, BenchWord, Order, miss};
use super::error::Result;
use super::latency::{Latency, SMALL};
use super::report::{Row, Section, Timing};
use super::session::Session;
use super::subject::{Subject, power};
use bytemuck::Pod;
use core::ops::Range;
use lanetree::DeviceKind;
use lanetree_baselines::Checksum;

/// Random hits, transfers and all: large batches from ordinary and from page-locked memory, and small ones.
pub(super) fn end_to_end<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let what = format!("host end-to-end, {}", subject.describe());
    if !session.wants(Section::EndToEnd) || !session.has_time(&what) {
        return Ok(());
    }
    let count = 1 << session.plan.host_queries;
    let sorted = subject.data.sorted_batch(count, false, session.seed ^ 0xe2e).expect("hits are always to be had");
    let batch = sorted.ordered(Order::Random, session.seed);
    let bus = bus::<W, W>(session, count, count)?;

    let mut out = vec![None; count];
    let timing = session.time_on_cpu(
        &mut out,
        |out| out.fill(None),
        |out| Ok(subject.tree.get_many_into(&batch.queries, out)?),
    )?;
    let found: Vec<W> = out.into_iter().map(|value| value.unwrap_or(miss())).collect();
    push(session, subject, "get_many_into", &batch, &found, timing, bus)?;

    let mut out = vec![W::default(); count];
    let timing = session.time_on_cpu(
        &mut out,
        |out| out.fill(W::default()),
        |out| Ok(subject.tree.get_many_or(&batch.queries, miss(), out)?),
    )?;
    push(session, subject, "get_many_or", &batch, &out, timing, bus)?;

    let mut queries = session.device.pinned::<W>(count)?;
    queries.copy_from_slice(&batch.queries);
    let mut out = session.device.pinned::<W>(count)?;
    let timing = session.time_on_cpu(
        &mut out,
        |out| out.fill(W::default()),
        |out| Ok(subject.tree.get_many_pinned(&queries, out, None, miss())?),
    )?;
    push(session, subject, "get_many_pinned", &batch, &out, timing, bus)?;
    SMALL.into_iter().filter(|&count| count <= batch.queries.len()).try_for_each(|n| small(session, subject, &batch, n))
}

/// A row, once its output was compared with what is right.
fn push<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    operation: &str,
    batch: &Batch<W>,
    out: &[W],
    timing: Timing,
    bus: Option<f64>,
) -> Result<()> {
    let what = format!("{operation}, {} queries, {}", power(out.len() as u64), subject.describe());
    let checksum = session.check_slice(&what, "values", out, 0..batch.queries.len(), miss(), |i| batch.value(i))?;
    let mut row = row(session, subject, operation, out.len(), timing, checksum);
    row.ceiling_giga_per_second = bus.map(|ms| out.len() as f64 / ms / 1e6);
    session.push(row);
    Ok(())
}

fn row<W: BenchWord>(
    session: &Session,
    subject: &Subject<W>,
    operation: &str,
    count: usize,
    timing: Timing,
    checksum: Checksum,
) -> Row {
    let mut row = subject.row(session, Section::EndToEnd, operation, count, timing, checksum);
    row.order = Some(Order::Random.name());
    row.hit_rate = Some(1.0);
    row.threads = Some(rayon::current_num_threads());
    row
}

/// The latency of one small batch after another.
fn small<W: BenchWord>(session: &mut Session, subject: &Subject<W>, batch: &Batch<W>, count: usize) -> Result<()> {
    let what = format!("get_many_or, {count} queries, {}", subject.describe());
    let call =
        |queries: Range<usize>, out: &mut [W]| Ok(subject.tree.get_many_or(&batch.queries[queries], miss(), out)?);
    let pool = batch.queries.len();
    let latency = Latency::of_calls(session, &what, (count, pool), call, (|value| value, miss()), |i| batch.value(i))?;
    let row = latency.row(|timing, checksum| row(session, subject, "get_many_or", count, timing, checksum));
    session.push(row);
    Ok(())
}

/// Milliseconds that the bus takes for so many elements to the device and so many back, both at once, from
/// page-locked memory: the fastest of a few. `None` without a bus.
pub(super) fn bus<A: Pod, B: Pod>(session: &Session, there: usize, back: usize) -> Result<Option<f64>> {
    if session.device.kind() != DeviceKind::Cuda {
        return Ok(None);
    }
    let device = &session.device;
    let (input, output) = (device.pinned::<A>(there)?, device.pinned::<B>(back)?);
    let buffers = (device.alloc::<A>(there)?, device.alloc_zeroed::<B>(back)?);
    let mut state = (buffers, output, device.stream()?);
    let timing = session.time_on_cpu(
        &mut state,
        |_| (),
        |((to, from), output, second)| {
            to.upload_async(&session.stream, 0, &input, 0..there)?;
            from.download_async(second, 0..back, output, 0)?;
            session.stream.synchronize()?;
            Ok(second.synchronize()?)
        },
    )?;
    Ok(Some(timing.min_ms))
}
