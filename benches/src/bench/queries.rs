//! Batches of queries as figures want them, and what is said of them.

use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use core::fmt::Display;
use lanetree::{BatchOrder, Buffer, DeviceRanges, RangeScratch};
use lanetree_base::parallel::*;
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
    let timing = session.time_call(&mut out, |out| look_up(out))?;
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
    let timing = session.time_call(&mut out, |out| rank(out))?;
    let checksum = session.check(what, "ranks", &out, out.len(), u64::MAX, |i| batch.origins[i].lower_bound())?;
    Ok((timing, checksum))
}

/// Ranges that begin at keys of the tree and have the same number of pairs each; their bounds are on the device.
pub(crate) struct RangeBatch<W> {
    /// The ranks of the first keys.
    pub(crate) first: Vec<usize>,
    /// Pairs of each.
    pub(crate) length: usize,
    pub(crate) starts: Buffer<W>,
    /// The last keys, which the ranges have too.
    pub(crate) ends: Buffer<W>,
}

impl<W: BenchWord> RangeBatch<W> {
    /// # Errors
    /// The device's.
    pub(crate) fn new(session: &Session, data: &Data<W>, first: Vec<usize>, length: usize) -> Result<Self> {
        let bounds = |offset: usize| -> Vec<W> { first.par_iter().map(|&rank| data.keys[rank + offset]).collect() };
        let (starts, ends) = (session.device.upload(&bounds(0))?, session.device.upload(&bounds(length - 1))?);
        Ok(Self { first, length, starts, ends })
    }

    /// All pairs of all ranges.
    pub(crate) fn pairs(&self) -> usize {
        self.first.len() * self.length
    }

    /// The rank of the pair with this number among them.
    pub(crate) fn rank(&self, pair: usize) -> usize {
        self.first[pair / self.length] + pair % self.length
    }

    /// Times a call that copies the pairs of all ranges, and compares all of them with what is right.
    ///
    /// # Errors
    /// The call's; a wrong answer.
    pub(crate) fn copied(
        &self,
        session: &Session,
        what: &dyn Display,
        data: &Data<W>,
        call: impl Fn(&mut RangeScratch, &mut DeviceRanges<W, W>) -> lanetree::Result<()>,
    ) -> Result<(Timing, Checksum)> {
        let (count, device) = (self.first.len(), &session.device);
        let mut scratch = RangeScratch::new(device, count)?;
        let mut out = DeviceRanges::new(device, count, self.pairs())?;
        let timing = session.time_call(&mut out, |out| call(&mut scratch, out))?;
        session.check(what, "offsets", &out.offsets, count + 1, u64::MAX, |i| (i * self.length) as u64)?;
        Ok((timing, self.check(session, what, data, (&out.keys, &out.values))?))
    }

    /// Compares the pairs of all ranges, one range after another, with what is right.
    ///
    /// # Errors
    /// A wrong answer.
    pub(crate) fn check(
        &self,
        session: &Session,
        what: &dyn Display,
        data: &Data<W>,
        (keys, values): (&Buffer<W>, &Buffer<W>),
    ) -> Result<Checksum> {
        let by_key = session.check(what, "keys", keys, self.pairs(), miss(), |i| data.keys[self.rank(i)])?;
        let value = |i: usize| data.values[self.rank(i)];
        Ok(by_key.and(session.check(what, "values", values, self.pairs(), miss(), value)?))
    }
}
