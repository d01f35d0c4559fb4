//! Sets: LaneTree without values, compared with the tree with values over the same keys, all on the device.

use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::queries::{self, RangeBatch, batch_order, hit_rate};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{AnyKey, Buffer, DeviceRanges, LaneSet, LaneTree, RangeScratch};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("lanetree-sets", Run::Alone(measure));

/// Pairs of a range.
const LENGTH: usize = 8;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    for &size in &request.sizes {
        of_data(session, &Data::<u64>::uniform(1 << size, session.seed_of(size)))?;
    }
    let size = main_of(&request.sizes);
    of_data(session, &Data::<u32>::uniform(1 << size, session.seed_of(size)))
}

/// A set, a tree with values to compare it with, and their keys.
struct Subject<'a, W: BenchWord> {
    data: &'a Data<W>,
    set: LaneSet<W>,
    tree: LaneTree<W, W>,
}

impl<W: BenchWord> Subject<'_, W> {
    /// Adds a row of the set's time for a batch, with the tree's.
    fn push(&self, session: &mut Session, call: Call, (timing, checksum): (Timing, Checksum), tree: &Timing) {
        let Call { operation, order, misses, count } = call;
        let row = Row::new(FIGURE.name, "lanetree", operation, count, timing, checksum).on(session.device_name());
        let mut row = row.over(self.data.len(), <W as AnyKey>::NAME, "none", &*self.data.source);
        row.set("bytes_per_key", self.set.bytes() as f64 / self.data.len() as f64);
        row.set("x_tree", tree.median_ms / row.timing.median_ms);
        row.set("order", order.name());
        row.set("hit_rate", hit_rate(misses));
        session.push(row);
    }
}

/// What is timed.
#[derive(Clone, Copy)]
struct Call {
    operation: &'static str,
    order: Order,
    misses: bool,
    count: usize,
}

fn of_data<W: BenchWord>(session: &mut Session, data: &Data<W>) -> Result<()> {
    let what = format!("{}, n = {}", data.source, data.len());
    if !session.has_time(&what) {
        return Ok(());
    }
    session.doing(format_args!("building, {what}"));
    let set = LaneSet::builder().build_sorted(&session.device, &data.keys)?;
    let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &data.values)?;
    let subject = Subject { data, set, tree };
    let count = 1 << session.plan.queries;
    for misses in [false, true] {
        let Some(sorted) = data.sorted_batch(count, misses, session.seed ^ u64::from(misses)) else { continue };
        for order in [Order::Random, Order::Sorted] {
            if !session.has_time(format_args!("{what}, {}", order.name())) {
                continue;
            }
            let batch = sorted.ordered(order, session.seed);
            let queries = session.device.upload(&batch.queries)?;
            contains(session, &subject, (&batch, &queries), order, misses)?;
            if misses {
                ordered(session, &subject, (&batch, &queries), order)?;
            }
        }
    }
    for order in [Order::Random, Order::Sorted] {
        ranges(session, &subject, order)?;
    }
    Ok(())
}

fn contains<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<'_, W>,
    (batch, queries): (&Batch<W>, &Buffer<W>),
    order: Order,
    misses: bool,
) -> Result<()> {
    let what = format!("look-ups, {}, {}", subject.data.source, order.name());
    let (known, count) = (batch_order(order), queries.len());
    let words = count.div_ceil(32);
    let mut hits = session.device.alloc::<u32>(words)?;
    let on = || subject.set.on(&session.stream).order(known);
    let timing = session.time_call(&mut hits, |hits| on().contains(queries, hits))?;
    let expected = |word: usize| {
        let own = word * 32..count.min(word * 32 + 32);
        own.fold(0, |bits, i| bits | u32::from(!batch.origins[i].is_miss()) << (i % 32))
    };
    let checksum = session.check(&what, "the hit mask", &hits, words, 0, expected)?;
    let on = || subject.tree.on(&session.stream).order(known);
    let (tree, _) = queries::look_ups(session, &what, batch, |out| on().miss(miss()).get(queries, out))?;
    subject.push(session, Call { operation: "contains", order, misses, count }, (timing, checksum), &tree);
    Ok(())
}

/// Ranks and predecessors.
fn ordered<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<'_, W>,
    (batch, queries): (&Batch<W>, &Buffer<W>),
    order: Order,
) -> Result<()> {
    let what = format!("ordered queries, {}, {}", subject.data.source, order.name());
    let count = queries.len();
    let Subject { set, tree: of_values, data } = subject;
    let known = batch_order(order);
    let on = set.on(&session.stream).order(known);
    let timed = queries::lower_bounds(session, &what, batch, |ranks| on.lower_bound(queries, ranks))?;
    let on = of_values.on(&session.stream).order(known);
    let (tree, _) = queries::lower_bounds(session, &what, batch, |ranks| on.lower_bound(queries, ranks))?;
    subject.push(session, Call { operation: "lower_bound", order, misses: true, count }, timed, &tree);
    let mut keys = session.device.alloc::<W>(count)?;
    let expected = |i: usize| data.keys[batch.origins[i].rank()];
    let timing =
        session.time_call(&mut keys, |keys| set.on(&session.stream).order(known).predecessor(queries, keys))?;
    let checksum = session.check(&what, "keys", &keys, count, miss(), expected)?;
    let mut out = (keys, session.device.alloc::<W>(count)?);
    let tree = session.time_call(&mut out, |(keys, values)| {
        of_values.on(&session.stream).order(known).miss(miss()).predecessor(queries, keys, values)
    })?;
    subject.push(session, Call { operation: "predecessor", order, misses: true, count }, (timing, checksum), &tree);
    Ok(())
}

fn ranges<W: BenchWord>(session: &mut Session, subject: &Subject<'_, W>, order: Order) -> Result<()> {
    let what = format!("ranges, {}, {}", subject.data.source, order.name());
    let count = ((1_usize << session.plan.range_pairs) / LENGTH).clamp(1, 1 << session.plan.queries);
    let sorted = subject.data.sorted_batch(count, false, session.seed ^ LENGTH as u64);
    let Some(sorted) = sorted.filter(|_| subject.data.len() >= LENGTH && session.has_time(&what)) else {
        return Ok(());
    };
    let first = sorted.ordered(order, session.seed).first_ranks(subject.data.len() - LENGTH);
    let data = subject.data;
    let asked = RangeBatch::new(session, data, first, LENGTH)?;
    let RangeBatch { starts, ends, .. } = &asked;
    let (set, tree) = (subject.set.on(&session.stream), subject.tree.on(&session.stream));
    let mut scratch = RangeScratch::new(&session.device, count)?;
    let mut out = DeviceRanges::<W, ()>::new(&session.device, count, count * LENGTH)?;
    let timing = session.time_call(&mut out, |out| set.range(starts, ends, &mut scratch, out))?;
    session.check(&what, "offsets", &out.offsets, count + 1, u64::MAX, |i| (i * LENGTH) as u64)?;
    let expected = |i: usize| data.keys[asked.rank(i)];
    let checksum = session.check(&what, "keys", &out.keys, count * LENGTH, miss(), expected)?;
    drop((out, scratch));
    let (tree, _) = asked.copied(session, &what, data, |scratch, out| tree.range(starts, ends, scratch, out))?;
    let call = Call { operation: "range of 8", order, misses: false, count };
    subject.push(session, call, (timing, checksum), &tree);
    Ok(())
}
