//! Batches of queries as figures want them, and what is said of them.

use crate::bench::data::{Batch, BenchWord, Order, miss};
use crate::bench::error::Result;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use core::fmt::Display;
use lanetree::BatchOrder;
use lanetree::Buffer;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

/// A sorted batch of the planned size; where there are no keys to miss, says so.
pub(crate) fn batch<W: BenchWord>(session: &mut Session, subject: &Subject<W>, misses: bool) -> Option<Batch<W>> {
    session.doing(format_args!("drawing queries for {}", subject.describe()));
    let batch = subject.data.sorted_batch(1 << session.plan.queries, misses, session.seed ^ u64::from(misses));
    if batch.is_none() {
        session.skip(format_args!("misses, {}: there are no keys between the keys", subject.describe()));
    }
    batch
}

/// What the index is told of the order.
pub(crate) fn batch_order(order: Order) -> BatchOrder {
    match order {
        Order::Random => BatchOrder::Random,
        Order::Top16 => BatchOrder::TopBits(16),
        Order::Sorted => BatchOrder::Sorted,
    }
}

/// The part of the queries whose keys are there.
pub(crate) fn hit_rate(misses: bool) -> f64 {
    if misses { 0.5 } else { 1.0 }
}

/// [`hit_rate`] in words.
pub(crate) fn hits(misses: bool) -> &'static str {
    if misses { "half misses" } else { "all hits" }
}

/// Times a call that writes the value of each query, and compares all of them with what is right.
///
/// # Errors
/// The call's; a wrong answer.
pub(crate) fn look_ups<W: BenchWord>(
    session: &Session,
    what: &dyn Display,
    batch: &Batch<W>,
    look_up: impl Fn(&mut Buffer<W>) -> lanetree::Result<()>,
) -> Result<(Timing, Checksum)> {
    let mut out = session.device.alloc::<W>(batch.queries.len())?;
    let timing = session.time_on_stream(&mut out, |out| session.poison(out), |out| Ok(look_up(out)?))?;
    let checksum = session.check(what, "values", &out, out.len(), miss(), |i| batch.value(i))?;
    Ok((timing, checksum))
}

/// [`look_ups`], of ranks.
///
/// # Errors
/// As there.
pub(crate) fn lower_bounds<W: BenchWord>(
    session: &Session,
    what: &dyn Display,
    batch: &Batch<W>,
    rank: impl Fn(&mut Buffer<u64>) -> lanetree::Result<()>,
) -> Result<(Timing, Checksum)> {
    let mut out = session.device.alloc::<u64>(batch.queries.len())?;
    let timing = session.time_on_stream(&mut out, |out| session.poison(out), |out| Ok(rank(out)?))?;
    let checksum = session.check(what, "ranks", &out, out.len(), u64::MAX, |i| batch.origins[i].lower_bound())?;
    Ok((timing, checksum))
}
