//! Range queries on the device, with all memory allocated beforehand.

use super::data::{Batch, BenchWord, Order, miss};
use super::error::Result;
use super::lookups::batch_order;
use super::report::Section;
use super::session::Session;
use super::subject::Subject;
use lanetree::harmonia::{DeviceRanges, RangeScratch};
use rayon::prelude::*;

/// Pairs of a range.
const LENGTHS: [usize; 3] = [8, 32, 1024];

/// Ranges of each length, as many as return the planned number of pairs.
pub(super) fn measure<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    if !session.wants(Section::Ranges) {
        return Ok(());
    }
    for length in LENGTHS {
        if subject.data.len() < length {
            session.skip(format_args!("ranges of {length}, {}: fewer keys than that", subject.describe()));
            continue;
        }
        let count = ((1_usize << session.plan.range_pairs) / length).clamp(1, 1 << session.plan.queries);
        match of_length(session, subject, length, count) {
            // Their output is the largest of all: a smaller card may do the other lengths.
            Err(error) if error.is_out_of_memory() => {
                session.skip(format_args!("ranges of {length}, {}: {error}", subject.describe()));
            }
            result => result?,
        }
    }
    Ok(())
}

fn of_length<W: BenchWord>(session: &mut Session, subject: &Subject<W>, length: usize, count: usize) -> Result<()> {
    // `count` is a power of two, being one divided by another.
    let Some(sorted) = subject.data.sorted_batch(count, false, session.seed ^ length as u64) else { return Ok(()) };
    let pairs = count * length;
    for order in [Order::Random, Order::Sorted] {
        let what = format!("ranges of {length}, {}, {}", subject.describe(), order.name());
        if !session.has_time(&what) {
            continue;
        }
        let first = first_ranks(&sorted.ordered(order, session.seed), subject.data.len() - length);
        let keys = &subject.data.keys;
        let starts: Vec<W> = first.par_iter().map(|&rank| keys[rank]).collect();
        let ends: Vec<W> = first.par_iter().map(|&rank| keys[rank + length - 1]).collect();
        let (starts, ends) = (session.device.upload(&starts)?, session.device.upload(&ends)?);
        let scratch = RangeScratch::new(&session.device, count)?;
        let mut out = (DeviceRanges::<W, W>::new(&session.device, count, pairs)?, scratch);
        let on = subject.tree.on(&session.stream).order(batch_order(order));
        let timing = session.time_on_stream(
            &mut out,
            |(out, _)| {
                session.poison(&mut out.offsets)?;
                session.poison(&mut out.keys)?;
                session.poison(&mut out.values)
            },
            |(out, scratch)| Ok(on.range(&starts, &ends, None, u64::MAX, scratch, out)?),
        )?;
        let (out, _) = out;
        let rank = |i: usize| first[i / length] + i % length;
        session.check(&what, "offsets", &out.offsets, count + 1, u64::MAX, |i| (i * length) as u64)?;
        let by_key = session.check(&what, "keys", &out.keys, pairs, miss(), |i| keys[rank(i)])?;
        let by_value = session.check(&what, "values", &out.values, pairs, miss(), |i| subject.data.values[rank(i)])?;
        let operation = format!("range of {length}");
        let mut row = subject.row(session, Section::Ranges, operation, count, timing, by_key.and(by_value));
        let pair_bytes = 2 * size_of::<W>() as u64;
        let ceiling = session.ceilings.of_ranges(count as u64, pairs as u64, subject.data.len() as u64, pair_bytes);
        row.order = Some(order.name());
        row.pairs = Some(pairs as u64);
        // Each pair is read from its leaf, and written.
        row.bytes_moved = Some(2 * pairs as u64 * pair_bytes);
        row.ceiling_giga_per_second = ceiling;
        session.push(row);
    }
    Ok(())
}

/// The ranks at which ranges start, such that each has all its pairs.
pub(super) fn first_ranks<W: BenchWord>(batch: &Batch<W>, last: usize) -> Vec<usize> {
    batch.origins.par_iter().map(|origin| origin.rank().min(last)).collect()
}
