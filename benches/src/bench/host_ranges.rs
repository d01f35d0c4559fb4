//! Ranges whose bounds and results are in host memory.

use super::data::{BenchWord, Order, miss};
use super::error::Result;
use super::ranges::first_ranks;
use super::report::{Section, Timing};
use super::session::Session;
use super::subject::Subject;
use core::ops::RangeInclusive;
use lanetree::{DeviceKind, Ranges};
use rayon::prelude::*;

/// Pairs of a range.
const LENGTH: usize = 8;

/// What is asked for, and which ranks it has.
struct Wanted<W> {
    first: Vec<usize>,
    starts: Vec<W>,
    ends: Vec<W>,
    ranges: Vec<RangeInclusive<W>>,
}

/// Random ranges of 8 pairs, transfers and all: results in new vectors, in old ones, and bounds from slices.
pub(super) fn end_to_end<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let what = format!("host end-to-end, ranges of {LENGTH}, {}", subject.describe());
    if !session.wants(Section::EndToEnd) || subject.data.len() < LENGTH || !session.has_time(&what) {
        return Ok(());
    }
    let wanted = draw(session, subject);
    let bus = bus::<W>(session, wanted.first.len())?;
    let tree = &subject.tree;

    let mut out = Ranges::default();
    let timing = session.time_on_cpu(
        &mut out,
        |out| *out = Ranges::default(),
        |out| {
            *out = tree.range_many(wanted.ranges.iter().cloned())?;
            Ok(())
        },
    )?;
    push(session, subject, "range_many", &wanted, &out, timing, bus)?;

    let poison = |out: &mut Ranges<W, W>| {
        out.offsets.fill(0);
        out.keys.par_iter_mut().for_each(|key| *key = W::default());
        out.values.par_iter_mut().for_each(|value| *value = W::default());
    };
    let timing =
        session.time_on_cpu(&mut out, poison, |out| Ok(tree.range_many_into(wanted.ranges.iter().cloned(), out)?))?;
    push(session, subject, "range_many_into", &wanted, &out, timing, bus)?;

    let timing = session
        .time_on_cpu(&mut out, poison, |out| Ok(tree.range_between_many_into(&wanted.starts, &wanted.ends, out)?))?;
    push(session, subject, "range_between_many_into", &wanted, &out, timing, bus)
}

fn draw<W: BenchWord>(session: &Session, subject: &Subject<W>) -> Wanted<W> {
    let (count, keys) = (1 << session.plan.host_ranges, &subject.data.keys);
    let sorted = subject.data.sorted_batch(count, false, session.seed ^ 0xe2e8).expect("hits are always to be had");
    let first = first_ranks(&sorted.ordered(Order::Random, session.seed), keys.len() - LENGTH);
    let starts: Vec<W> = first.par_iter().map(|&rank| keys[rank]).collect();
    let ends: Vec<W> = first.par_iter().map(|&rank| keys[rank + LENGTH - 1]).collect();
    let ranges = starts.par_iter().zip(&ends).map(|(&start, &end)| start..=end).collect();
    Wanted { first, starts, ends, ranges }
}

/// A row, once its output was compared with what is right.
fn push<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    operation: &str,
    wanted: &Wanted<W>,
    out: &Ranges<W, W>,
    timing: Timing,
    bus: Option<f64>,
) -> Result<()> {
    let count = wanted.first.len();
    let what = format!("{operation}, {count} ranges of {LENGTH}, {}", subject.describe());
    let pairs = count * LENGTH;
    session.check_slice(&what, "offsets", &out.offsets, 0..count + 1, u64::MAX, |i| (i * LENGTH) as u64)?;
    let rank = |i: usize| wanted.first[i / LENGTH] + i % LENGTH;
    let by_key = session.check_slice(&what, "keys", &out.keys, 0..pairs, miss(), |i| subject.data.keys[rank(i)])?;
    let by_value =
        session.check_slice(&what, "values", &out.values, 0..pairs, miss(), |i| subject.data.values[rank(i)])?;
    let operation = format!("{operation}, of {LENGTH}");
    let mut row = subject.row(session, Section::EndToEnd, operation, count, timing, by_key.and(by_value));
    row.order = Some(Order::Random.name());
    row.threads = Some(rayon::current_num_threads());
    row.pairs = Some((count * LENGTH) as u64);
    let [there, back] = bytes::<W>(count);
    row.bytes_moved = Some((there + back) as u64);
    row.ceiling_giga_per_second = bus.map(|ms| count as f64 / ms / 1e6);
    session.push(row);
    Ok(())
}

/// Bytes of bounds to the device; of offsets, keys and values back.
fn bytes<W>(ranges: usize) -> [usize; 2] {
    [2 * ranges * size_of::<W>(), (ranges + 1) * 8 + 2 * ranges * LENGTH * size_of::<W>()]
}

/// Milliseconds that the bus takes for as many bytes, both ways at once, from and to page-locked memory: the
/// fastest of a few. `None` without a bus.
fn bus<W: BenchWord>(session: &Session, ranges: usize) -> Result<Option<f64>> {
    if session.device.kind() != DeviceKind::Cuda {
        return Ok(None);
    }
    let (device, [there, back]) = (&session.device, bytes::<W>(ranges));
    let (from_host, to_host) = (device.pinned::<u8>(there)?, device.pinned::<u8>(back)?);
    let buffers = (device.alloc::<u8>(there)?, device.alloc_zeroed::<u8>(back)?);
    let mut state = (buffers, to_host, device.stream()?);
    let timing = session.time_on_cpu(
        &mut state,
        |_| (),
        |((to, from), to_host, second)| {
            to.upload_async(&session.stream, 0, &from_host, 0..there)?;
            from.download_async(second, 0..back, to_host, 0)?;
            session.stream.synchronize()?;
            Ok(second.synchronize()?)
        },
    )?;
    Ok(Some(timing.min_ms))
}
