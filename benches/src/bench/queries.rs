//! Batches of queries as figures want them, and what is said of them.

use crate::bench::data::{Batch, BenchWord, Order};
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use lanetree::harmonia::BatchOrder;

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
