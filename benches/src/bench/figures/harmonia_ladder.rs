//! The paper's optimisations one after another, from a B+tree with child references to Harmonia with partially sorted
//! queries (PSA) and narrowed thread groups (NTG).

use crate::bench::columns::{Column, figure, plain, power};
use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Run, either};
use crate::bench::psa::{PartlySorted, psa_sort};
use crate::bench::queries::batch;
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use lanetree::BatchOrder;
use lanetree::harmonia::{
    ChildRegion, FANOUTS, GetBySorting, GroupWidth, LookUpTuning, NodeReading, OnStream, PsaScratch, QuerySort,
};
use lanetree::{Buffer, DeviceKind, KeyWord};
use lanetree_base::parallel::*;
use lanetree_baselines::device::{Fanout, InFlight, PointerBTree};
use lanetree_kernels_harmonia::{group_widths, queries_in_flight};
use std::collections::BTreeSet;
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new(
    "harmonia-ladder",
    Run::OverKeys(At::EverySize, |session, keys| either!(keys, data => measure(session, data))),
)
.columns(&[("rung", RUNG), ("G/s with sort", Column::of("G/s with sort", |row| with_sort(row).map(figure)))])
.summary(tops);

const RUNG: Column = Column::words_of("rung", |row| Rung::of(row).map(|rung| rung.name().into()));

/// The largest of the paper's sizes.
const LARGEST: u32 = 26;

/// A rung of the ladder of optimisations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    /// A B+tree with child references, one query per thread group.
    Baseline,
    /// The same with the queries in flight of Harmonia's kernel of that width.
    BaselineInFlight,
    /// Harmonia's key and child regions, thread groups as wide as nodes.
    Structure,
    /// The same over partially sorted queries.
    Psa,
    /// With thread groups as the paper's profile chooses them.
    Ntg,
    /// With those, and the paper's kernel: nodes are read in steps, which end early.
    NtgStopping,
    /// With those that were measured best on one card.
    NtgTuned,
}

/// The rungs, with their ids in the JSON and their names.
const RUNGS: [(Rung, &str, &str); 7] = [
    (Rung::Baseline, "baseline", "HB+-style tree"),
    (Rung::BaselineInFlight, "baseline-in-flight", "HB+-style, Q in flight"),
    (Rung::Structure, "structure", "Harmonia structure"),
    (Rung::Psa, "psa", "+ PSA"),
    (Rung::Ntg, "ntg", "+ NTG, by profile"),
    (Rung::NtgStopping, "ntg-stopping", "+ NTG, stopping early"),
    (Rung::NtgTuned, "ntg-tuned", "+ NTG, as tuned"),
];

impl Rung {
    fn name(self) -> &'static str {
        RUNGS[self as usize].2
    }

    fn id(self) -> &'static str {
        RUNGS[self as usize].1
    }

    /// That of a row.
    fn of(row: &Row) -> Option<Self> {
        RUNGS.into_iter().find(|(_, id, _)| row.text("rung") == Some(id)).map(|(rung, ..)| rung)
    }
}

/// The child regions: the paper's first.
const CHILDREN: [(ChildRegion, &str); 2] = [(ChildRegion::PrefixSum, "prefix sum"), (ChildRegion::NodeSlot, "slot")];

/// Random queries, and the same ones partially sorted.
struct Queries<W> {
    batch: Batch<W>,
    random: Buffer<W>,
    sorted: PartlySorted<W>,
    bits: u32,
}

impl<W: BenchWord> Queries<W> {
    /// Sorts them by the bits that a tree wants, unless they are.
    fn sort_for(&mut self, session: &Session, subject: &Subject<W>) -> Result<()> {
        let bits = subject.tree.psa_bits();
        if bits != self.bits {
            (self.sorted, self.bits) = (psa_sort(session, &self.random, bits)?, bits);
        }
        Ok(())
    }
}

/// One rung: the tree, what searches it, and in which order its queries are.
#[derive(Clone, Copy)]
struct Step {
    rung: Rung,
    search: Search,
    is_sorted: bool,
}

#[derive(Clone, Copy)]
enum Search {
    References(InFlight),
    Harmonia(ChildRegion, &'static str, u32),
}

/// All rungs at every fanout, over the same keys and queries. Takes the data from tree to tree.
fn measure<W: BenchWord>(session: &mut Session, mut data: Data<W>) -> Result<()> {
    let mut queries = None;
    for fanout in fanouts(session, data.len()) {
        let subject = Subject::build_with(session, data, fanout)?;
        if queries.is_none() {
            queries = draw(session, &subject)?;
        }
        if let Some(queries) = &mut queries {
            queries.sort_for(session, &subject)?;
            of_fanout(session, &subject, queries)?;
        }
        data = subject.into_data();
    }
    Ok(())
}

/// On a GPU the smaller of the default sizes have two fanouts, so that the figure takes less than a minute.
fn fanouts(session: &Session, len: usize) -> Vec<u32> {
    let is_small = session.plan.is_default() && session.device.kind() == DeviceKind::Cuda && len < 1 << LARGEST;
    FANOUTS.into_iter().filter(|fanout| !is_small || [8, 32].contains(fanout)).collect()
}

fn draw<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<Option<Queries<W>>> {
    let Some(sorted) = batch(session, subject, false) else { return Ok(None) };
    let batch = sorted.ordered(Order::Random, session.seed);
    let random = session.device.upload(&batch.queries)?;
    let bits = subject.tree.psa_bits();
    let sorted = psa_sort(session, &random, bits)?;
    Ok(Some(Queries { batch, random, sorted, bits }))
}

fn of_fanout<W: BenchWord>(session: &mut Session, subject: &Subject<W>, queries: &Queries<W>) -> Result<()> {
    let fanout = Fanout::of(subject.stats.fanout).expect("both trees have kernels for the same fanouts");
    session.doing(format_args!("building a B+tree with references, {}", subject.describe()));
    let references = PointerBTree::new(&session.device, &subject.data.keys, &subject.data.values, fanout)?;
    let count = queries.batch.queries.len();
    let mut buffers = (session.device.alloc::<W>(count)?, PsaScratch::new(&session.device, count)?);
    let mut first = None;
    for step in steps(session, subject, queries, fanout)? {
        let rate = of_step(session, subject, &references, queries, step, first, &mut buffers)?;
        if step.rung == Rung::Baseline {
            first = rate;
        }
    }
    Ok(())
}

/// The rungs of a fanout, in their order.
fn steps<W: BenchWord>(
    session: &Session,
    subject: &Subject<W>,
    queries: &Queries<W>,
    fanout: Fanout,
) -> Result<Vec<Step>> {
    let available = group_widths(fanout.slots());
    let widest = available[available.len() - 1];
    let Queries { batch, sorted, .. } = queries;
    let in_order: Vec<W> = sorted.positions.par_iter().map(|&position| batch.queries[position as usize]).collect();
    let profiled = subject.tree.profile_group_width(&in_order)?.chosen;
    let reference = |rung, in_flight| Step { rung, search: Search::References(in_flight), is_sorted: false };
    let mut steps = vec![reference(Rung::Baseline, InFlight::One)];
    steps.push(reference(Rung::BaselineInFlight, InFlight::LikeHarmonia));
    for (child, name) in CHILDREN {
        let step = |rung, lanes, is_sorted| Step { rung, search: Search::Harmonia(child, name, lanes), is_sorted };
        steps.push(step(Rung::Structure, widest, false));
        steps.push(step(Rung::Psa, widest, true));
        // The paper's choice may be not to narrow: the row is the same rung then, and says so.
        steps.push(step(Rung::Ntg, profiled, true));
        if child == ChildRegion::PrefixSum && <W as KeyWord>::BITS == 64 {
            steps.push(step(Rung::NtgStopping, profiled, true));
        }
        let tuned = subject.tree.on(&session.stream).order(BatchOrder::TopBits(queries.bits)).group_width()?;
        if tuned != profiled {
            steps.push(step(Rung::NtgTuned, tuned, true));
        }
    }
    Ok(steps)
}

/// Measures a rung; its rate, if there was time for it.
fn of_step<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    references: &PointerBTree<W>,
    queries: &Queries<W>,
    step: Step,
    first: Option<f64>,
    (out, scratch): &mut (Buffer<W>, PsaScratch<W, W>),
) -> Result<Option<f64>> {
    let Step { rung, search, is_sorted } = step;
    let what = format!("ladder, fanout {}, {}, {}", subject.stats.fanout, rung.name(), subject.describe());
    if !session.has_time(&what) {
        return Ok(None);
    }
    let PartlySorted { queries: sorted, positions, sort } = &queries.sorted;
    let batch = if is_sorted { sorted } else { &queries.random };
    let call = |out: &mut Buffer<W>| match search {
        Search::References(in_flight) => Ok(references.get(&session.stream, batch, out, miss(), in_flight)?),
        Search::Harmonia(child, _, lanes) => tuned(session, subject, rung, child, lanes).miss(miss()).get(batch, out),
    };
    let value = |i: usize| queries.batch.value(if is_sorted { positions[i] as usize } else { i });
    let timing = session.time_call(out, call)?;
    let checksum = session.check(&what, "values", out, out.len(), miss(), value)?;
    let mut row = subject.row(session, FIGURE.name, "get", out.len(), timing, checksum);
    row.set("rung", rung.id());
    row.set("order", Order::Random.name());
    row.set("hit_rate", 1.0);
    match search {
        Search::References(in_flight) => {
            row.index = "B+tree with references";
            row.set("group", references.fanout().lanes());
            row.set("in_flight", in_flight.queries(references.fanout()));
            row.set("child_region", "references");
            row.set("footprint_bytes", references.bytes());
            row.set("bytes_per_key", references.bytes() as f64 / references.len().max(1) as f64);
        }
        Search::Harmonia(_, name, lanes) => {
            row.set("group", lanes);
            row.set("in_flight", queries_in_flight(subject.stats.fanout, lanes));
            row.set("child_region", name);
        }
    }
    let rate = row.giga_per_second;
    let first = first.or((rung == Rung::Baseline).then_some(rate));
    row.set("ratio_to_baseline", first.map(|first| rate / first));
    if let (true, Search::Harmonia(child, _, lanes)) = (is_sorted, search) {
        let ratio = |rate: Option<f64>| Some(rate? / first?);
        row.set("order", "partly sorted");
        row.set("sorted_bits", queries.bits);
        row.set("sort_ms", sort.as_ref().map(|sort| sort.median_ms));
        row.set("ratio_with_sort", ratio(with_sort(&row)));
        if child == ChildRegion::PrefixSum {
            let on = || tuned(session, subject, rung, child, lanes);
            let all = whole(session, on, queries, &what, (out, scratch))?;
            row.set("ratio_of_all", ratio(Some(giga_per_second(row.batch, all))));
            row.set("all_ms", all);
        }
    }
    session.push(row);
    Ok(Some(rate))
}

/// The tree's look-ups as a rung has them.
fn tuned<'a, W: BenchWord>(
    session: &'a Session,
    subject: &'a Subject<W>,
    rung: Rung,
    child: ChildRegion,
    lanes: u32,
) -> OnStream<'a, W, W> {
    let reading = if rung == Rung::NtgStopping { NodeReading::Stopping } else { NodeReading::Tuned };
    subject.tree.on(&session.stream).group(GroupWidth::Lanes(lanes)).child_region(child).reading(reading)
}

/// Milliseconds of a rung over unsorted queries: the sort, the look-up, and the results back in the queries' order.
fn whole<'a, W: BenchWord>(
    session: &Session,
    on: impl Fn() -> OnStream<'a, W, W>,
    queries: &Queries<W>,
    what: &str,
    (out, scratch): (&mut Buffer<W>, &mut PsaScratch<W, W>),
) -> Result<f64> {
    let sort = QuerySort::TopBits(queries.bits);
    let timing = session.time_call(out, |out| on().miss(miss()).get_by_sorting(sort, &queries.random, out, scratch))?;
    let what = format!("{what}, from order to order");
    session.check(&what, "values", out, out.len(), miss(), |i| queries.batch.value(i))?;
    Ok(timing.median_ms)
}

fn giga_per_second(count: u64, ms: f64) -> f64 {
    count as f64 / ms.max(1e-9) / 1e6
}

/// Operations of a row in 10^9 per second, the sort of its queries included; if that was timed.
fn with_sort(row: &Row) -> Option<f64> {
    row.number("sort_ms").map(|sort| giga_per_second(row.batch, row.timing.median_ms + sort))
}

/// For each size, the fastest rung and the paper's: without the sort, with it, and with the way back.
fn tops(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    let sizes: BTreeSet<u64> = rows.iter().map(|row| row.n).collect();
    for n in sizes {
        let same = rows.iter().filter(|row| row.n == n);
        let Some(top) = same.max_by(|a, b| a.giga_per_second.total_cmp(&b.giga_per_second)) else { continue };
        let times = |ratio: &str| top.number(ratio).map_or("-".into(), figure);
        writeln!(
            out,
            "  n = {}: the fastest is {}, {}, fanout {}: {} G/s, {} x the HB+-style tree of the same fanout; {} x with the sort, {} x with the way back",
            power(n),
            RUNG.cell(top),
            plain(top, "child_region"),
            plain(top, "fanout"),
            figure(top.giga_per_second),
            top.number("ratio_to_baseline").map_or("-".into(), figure),
            times("ratio_with_sort"),
            times("ratio_of_all"),
        )?;
    }
    writeln!(out, "  The paper, on a TITAN V, 64-bit keys, n = 2^23 to 2^26: up to 3.6 G/s, about 3.4 x HB+-tree.")
}
