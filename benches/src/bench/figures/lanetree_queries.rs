//! Every query of LaneTree's, by size and words: random and sorted, all on the device.

use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::lane_tree::Distribution;
use crate::bench::plan::main_of;
use crate::bench::queries::{self, RangeBatch, batch_order, hit_rate};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{Buffer, FixedIndex, Harmonia, LaneTree, PieceScratch};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("lanetree-queries", Run::Alone(measure));

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let sizes = request.sizes.clone();
    for &size in &sizes {
        let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
        of_data(session, &data, true)?;
    }
    let size = main_of(&sizes);
    let data = Data::<u32>::uniform(1 << size, session.seed_of(size));
    of_data(session, &data, true)?;
    for distribution in Distribution::ALL {
        if !session.has_time(format_args!("{}, n = 2^{size}", distribution.name())) {
            continue;
        }
        let data = distribution.keys(1 << size, session.seed_of(size));
        of_data(session, &data, false)?;
    }
    Ok(())
}

/// A tree, and what is asked of it.
struct Subject<'a, W: BenchWord> {
    data: &'a Data<W>,
    tree: LaneTree<W, W>,
    harmonia: Option<Harmonia<W, W>>,
}

impl<W: BenchWord> Subject<'_, W> {
    fn row(&self, session: &Session, operation: &str, count: usize, timing: Timing, checksum: Checksum) -> Row {
        self.row_of("lanetree", session, (operation, count), timing, checksum)
    }

    fn row_of(
        &self,
        name: &'static str,
        session: &Session,
        (operation, count): (&str, usize),
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let row = Row::new(FIGURE.name, name, operation, count, timing, checksum).on(session.device_name());
        let mut row = self.data.label(row);
        row.set("bytes_per_key", self.tree.bytes() as f64 / self.data.len() as f64);
        row
    }

    /// The memory with which queries in an order are answered in pieces; none where the tree answers them directly.
    fn pieces(&self, session: &Session, count: usize, order: Order) -> Result<Option<PieceScratch<W>>> {
        let gains = FixedIndex::pieces(&self.tree, &batch_order(order), count as u64).is_some();
        Ok(if gains { Some(PieceScratch::new(&session.device, count)?) } else { None })
    }
}

/// What a row of a way of answering is called.
fn name_of<W: BenchWord>(pieces: Option<&PieceScratch<W>>) -> &'static str {
    if pieces.is_some() { "lanetree in pieces" } else { "lanetree" }
}

/// Directly, and in pieces where that is a way of its own.
fn ways<W: BenchWord>(pieces: &Option<PieceScratch<W>>) -> impl Iterator<Item = Option<&PieceScratch<W>>> {
    [None, pieces.as_ref()].into_iter().take(1 + usize::from(pieces.is_some()))
}

/// All queries, or random and sorted look-ups only.
fn of_data<W: BenchWord>(session: &mut Session, data: &Data<W>, all: bool) -> Result<()> {
    let what = format!("{}, n = {}", data.source, data.len());
    if !session.has_time(&what) {
        return Ok(());
    }
    session.doing(format_args!("building, {what}"));
    let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &data.values)?;
    let harmonia = match all {
        true => Some(Harmonia::builder().build_sorted(&session.device, &data.keys, &data.values)?),
        false => None,
    };
    let subject = Subject { data, tree, harmonia };
    let count = 1 << session.plan.queries;
    for misses in [false, true] {
        if misses && !all {
            continue;
        }
        let Some(sorted) = data.sorted_batch(count, misses, session.seed ^ u64::from(misses)) else { continue };
        for order in Order::ALL {
            if !session.has_time(format_args!("{what}, {}", order.name())) {
                continue;
            }
            let batch = sorted.ordered(order, session.seed);
            let queries = session.device.upload(&batch.queries)?;
            look_ups(session, &subject, &batch, &queries, order, hit_rate(misses))?;
            if misses && order != Order::Top16 {
                ordered(session, &subject, &batch, &queries, order)?;
            }
        }
        if misses {
            continue;
        }
        let most = session.plan.queries;
        for size in [16, 20].into_iter().filter(|&size| all && size < most) {
            let Some(sorted) = data.sorted_batch(1 << size, false, session.seed ^ size as u64) else { continue };
            let batch = sorted.ordered(Order::Random, session.seed);
            let queries = session.device.upload(&batch.queries)?;
            look_ups(session, &subject, &batch, &queries, Order::Random, 1.0)?;
        }
    }
    if let Some(sorted) = all.then(|| data.sorted_misses(count, session.seed ^ 2)).flatten() {
        let batch = sorted.ordered(Order::Random, session.seed);
        let queries = session.device.upload(&batch.queries)?;
        look_ups(session, &subject, &batch, &queries, Order::Random, 0.0)?;
    }
    if all {
        ranges(session, &subject)?;
    }
    Ok(())
}

fn look_ups<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<'_, W>,
    batch: &Batch<W>,
    queries: &Buffer<W>,
    order: Order,
    hit_rate: f64,
) -> Result<()> {
    let what = format!("look-ups, {}, {}", subject.data.source, order.name());
    let known = batch_order(order);
    let pieces = subject.pieces(session, queries.len(), order)?;
    for pieces in ways(&pieces) {
        let on = || subject.tree.on(&session.stream).order(known).in_pieces(pieces);
        let (timing, checksum) = queries::look_ups(session, &what, batch, |out| on().miss(miss()).get(queries, out))?;
        let mut row = subject.row_of(name_of(pieces), session, ("get", queries.len()), timing, checksum);
        if let (None, Some(harmonia)) = (pieces, &subject.harmonia) {
            let on = || harmonia.on(&session.stream).order(known);
            let (timing, _) = queries::look_ups(session, &what, batch, |out| on().miss(miss()).get(queries, out))?;
            row.set("x_harmonia", timing.median_ms / row.timing.median_ms);
        }
        session.push(row.with("order", order.name()).with("hit_rate", hit_rate));
    }
    Ok(())
}

/// Ranks and predecessors.
fn ordered<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<'_, W>,
    batch: &Batch<W>,
    queries: &Buffer<W>,
    order: Order,
) -> Result<()> {
    let what = format!("ordered queries, {}, {}", subject.data.source, order.name());
    let count = queries.len();
    let push = |session: &mut Session, mut row: Row| {
        row.set("order", order.name());
        row.set("hit_rate", 0.5);
        session.push(row);
    };
    let pieces = subject.pieces(session, count, order)?;
    for pieces in ways(&pieces) {
        let on = || subject.tree.on(&session.stream).order(batch_order(order)).in_pieces(pieces);
        let (timing, checksum) =
            queries::lower_bounds(session, &what, batch, |ranks| on().lower_bound(queries, ranks))?;
        let row = subject.row_of(name_of(pieces), session, ("lower_bound", count), timing, checksum);
        push(session, row);
        let on = || subject.tree.on(&session.stream).order(batch_order(order)).in_pieces(pieces);
        let mut out = (session.device.alloc::<W>(count)?, session.device.alloc::<W>(count)?);
        let timing =
            session.time_call(&mut out, |(keys, values)| on().miss(miss()).predecessor(queries, keys, values))?;
        let ((keys, values), data) = (out, subject.data);
        let by_key = session.check(&what, "keys", &keys, count, miss(), |i| data.keys[batch.origins[i].rank()])?;
        let by_value =
            session.check(&what, "values", &values, count, miss(), |i| data.values[batch.origins[i].rank()])?;
        let row = subject.row_of(name_of(pieces), session, ("predecessor", count), timing, by_key.and(by_value));
        push(session, row);
    }
    Ok(())
}

/// Ranges of 8 and of 32 pairs, and scans.
fn ranges<W: BenchWord>(session: &mut Session, subject: &Subject<'_, W>) -> Result<()> {
    for length in [8, 32] {
        let count = ((1_usize << session.plan.range_pairs) / length).clamp(1, 1 << session.plan.queries);
        let Some(sorted) = subject.data.sorted_batch(count, false, session.seed ^ length as u64) else { return Ok(()) };
        if subject.data.len() < length {
            continue;
        }
        for order in [Order::Random, Order::Sorted] {
            let what = format!("ranges of {length}, {}, {}", subject.data.source, order.name());
            if !session.has_time(&what) {
                continue;
            }
            let first = sorted.ordered(order, session.seed).first_ranks(subject.data.len() - length);
            let asked = RangeBatch::new(session, subject.data, first, length)?;
            let on = subject.tree.on(&session.stream).order(batch_order(order));
            let (timing, checksum) = asked.copied(session, &what, subject.data, |scratch, out| {
                on.range(&asked.starts, &asked.ends, scratch, out)
            })?;
            let row = subject.row(session, &format!("range of {length}"), count, timing, checksum);
            session.push(row.with("order", order.name()));
            scans(session, subject, &asked, order)?;
        }
    }
    Ok(())
}

/// The same ranges by their lengths.
fn scans<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<'_, W>,
    asked: &RangeBatch<W>,
    order: Order,
) -> Result<()> {
    let (length, count, pairs) = (asked.length, asked.first.len(), asked.pairs());
    let what = format!("scans of {length}, {}, {}", subject.data.source, order.name());
    let mut out =
        ((session.device.alloc::<W>(pairs)?, session.device.alloc::<W>(pairs)?), session.device.alloc::<u32>(count)?);
    let timing = session.time_call(&mut out, |((keys, values), counts)| {
        let on = subject.tree.on(&session.stream).order(batch_order(order));
        on.scan(&asked.starts, length as u32, keys, values, counts)
    })?;
    let ((keys, values), counts) = out;
    session.check(&what, "counts", &counts, count, u32::MAX, |_| length as u32)?;
    let checksum = asked.check(session, &what, subject.data, (&keys, &values))?;
    let mut row = subject.row(session, &format!("scan of {length}"), count, timing, checksum);
    row.set("order", order.name());
    session.push(row);
    Ok(())
}
