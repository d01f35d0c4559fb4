//! The paper's figure 8: what it costs to sort queries before they are looked up, and what it gains; and whether the
//! library's planner chooses what is fastest.

use crate::bench::columns::{Column, figure, plain, power};
use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::{Error, Result};
use crate::bench::figure::{At, Measurement, Run, either};
use crate::bench::psa::{PartlySorted, psa_sort};
use crate::bench::queries::batch;
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use core::fmt::Display;
use lanetree::BatchOrder;
use lanetree::harmonia::{FANOUTS, GetBySorting, LookUpTuning, PsaScratch, QuerySort};
use lanetree::{Buffer, KeyWord};
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new(
    "harmonia-psa",
    Run::OverKeys(At::EverySize, |session, keys| either!(keys, data => measure(session, data))),
)
.columns(&[
    ("queries", Column::words_of("queries", |row| row.text("psa.sort").map(|sort| sort.replace("none", "random")))),
    (
        "/ measured",
        Column::of("/ measured", |row| {
            row.number("psa.predicted_ms").map(|predicted| format!("{:.2}", predicted / row.timing.median_ms))
        }),
    ),
    ("plan", Column::words_of("plan", |row| Some(verdict(row).into()))),
])
.summary(plans);

/// The paper's figures: the kernel's gain, and that of the whole, for partial and for complete sorting.
const PAPER_PARTIAL: [Option<f64>; 2] = [None, Some(1.10)];
const PAPER_FULL: [Option<f64>; 2] = [Some(1.22), Some(0.93)];

/// One way of sorting, and the queries in the order that it brings about.
pub(super) struct Way<W: BenchWord> {
    name: &'static str,
    sort: QuerySort,
    order: BatchOrder,
    /// `None` for the order in which they were given.
    sorted: Option<PartlySorted<W>>,
    paper: [Option<f64>; 2],
}

/// All ways at every fanout, over the same keys and queries. Takes the data from tree to tree.
fn measure<W: BenchWord>(session: &mut Session, mut data: Data<W>) -> Result<()> {
    let mut queries = None;
    for fanout in FANOUTS {
        let subject = Subject::build_with(session, data, fanout)?;
        if queries.is_none() {
            queries = draw(session, &subject)?;
        }
        if let Some((batch, random, ways)) = &mut queries {
            let bits = subject.tree.psa_bits().max(1);
            if ways[1].sort != QuerySort::TopBits(bits) {
                ways[1] = partial(session, random, bits)?;
            }
            let rows = compare(session, FIGURE.name, &subject, (batch, random), ways)?;
            rows.into_iter().for_each(|row| session.push(row));
        }
        data = subject.into_data();
    }
    Ok(())
}

type Queries<W> = (Batch<W>, Buffer<W>, [Way<W>; 3]);

fn draw<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<Option<Queries<W>>> {
    let Some(sorted) = batch(session, subject, false) else { return Ok(None) };
    let batch = sorted.ordered(Order::Random, session.seed);
    let random = session.device.upload(&batch.queries)?;
    let ways = ways(session, subject, &random)?;
    Ok(Some((batch, random, ways)))
}

/// All ways of sorting some queries of a tree.
///
/// # Errors
/// The library's.
pub(super) fn ways<W: BenchWord>(session: &Session, subject: &Subject<W>, random: &Buffer<W>) -> Result<[Way<W>; 3]> {
    let fully = Some(psa_sort(session, random, <W as KeyWord>::BITS)?);
    Ok([
        Way { name: "none", sort: QuerySort::None, order: BatchOrder::Random, sorted: None, paper: [None, None] },
        partial(session, random, subject.tree.psa_bits().max(1))?,
        Way { name: "full", sort: QuerySort::Full, order: BatchOrder::Sorted, sorted: fully, paper: PAPER_FULL },
    ])
}

/// The queries sorted by a tree's bits.
fn partial<W: BenchWord>(session: &Session, random: &Buffer<W>, bits: u32) -> Result<Way<W>> {
    let (sort, order) = (QuerySort::TopBits(bits), BatchOrder::TopBits(bits));
    Ok(Way { name: "partial", sort, order, sorted: Some(psa_sort(session, random, bits)?), paper: PAPER_PARTIAL })
}

/// Rows of a table, one for each way; none if there was no time.
///
/// # Errors
/// The library's; [`Error::Wrong`] with the first difference.
pub(super) fn compare<W: BenchWord>(
    session: &mut Session,
    section: &'static str,
    subject: &Subject<W>,
    (batch, random): (&Batch<W>, &Buffer<W>),
    ways: &[Way<W>; 3],
) -> Result<Vec<Row>> {
    let fanout = subject.stats.fanout;
    let what = |part: &dyn Display| format!("PSA, fanout {fanout}, {part}, {}", subject.describe());
    if !session.has_time(what(&"all")) {
        return Ok(Vec::new());
    }
    let count = random.len();
    let model = subject.tree.measure_psa(&session.stream, random)?;
    let model = model.ok_or_else(|| Error::Usage("there is nothing to sort".into()))?;
    let plan = model.plan();
    let millis = |nanoseconds: f64| nanoseconds * count as f64 / 1e6;
    let mut scratch = PsaScratch::new(&session.device, count)?;
    let mut out = session.device.alloc::<W>(count)?;
    let mut rows: Vec<Row> = Vec::with_capacity(ways.len());
    for (way, predicted) in ways.iter().zip(plan.predicted) {
        session.doing(what(&way.sort));
        let on = || subject.tree.on(&session.stream).order(way.order);
        let queries = way.sorted.as_ref().map_or(random, |sorted| &sorted.queries);
        let source = |i: usize| way.sorted.as_ref().map_or(i, |sorted| sorted.positions[i] as usize);
        let lookup = session.time_call(&mut out, |out| on().miss(miss()).get(queries, out))?;
        session.check(&what(&"the look-up alone"), "values", &out, count, miss(), |i| batch.value(source(i)))?;
        let all = || subject.tree.on(&session.stream);
        let timing = session
            .time_call(&mut out, |out| all().miss(miss()).get_by_sorting(way.sort, random, out, &mut scratch))?;
        let checksum = session.check(&what(&way.sort), "values", &out, count, miss(), |i| batch.value(i))?;
        let mut row = subject.row(session, section, "get_by_sorting", count, timing, checksum);
        let first = rows.first();
        let first_lookup = first.and_then(|row| row.number("psa.lookup_ms")).unwrap_or(lookup.median_ms);
        row.set("order", Order::Random.name());
        row.set("hit_rate", 1.0);
        row.set("group", on().group_width()?);
        row.set(
            "sorted_bits",
            match way.sort {
                QuerySort::None => None,
                QuerySort::TopBits(bits) => Some(bits),
                QuerySort::Full => Some(<W as KeyWord>::BITS),
            },
        );
        row.set("sort_ms", way.sorted.as_ref().and_then(|sorted| sorted.sort.as_ref()).map(|sort| sort.median_ms));
        row.set("ratio_to_baseline", first.unwrap_or(&row).timing.median_ms / row.timing.median_ms);
        let [paper_lookup_ratio, paper_ratio] = way.paper;
        let row = row
            .with("psa.sort", way.name)
            // The look-up of queries that are sorted already, and how much faster it is than that of unsorted ones.
            .with("psa.lookup_ms", lookup.median_ms)
            .with("psa.lookup_ratio", first_lookup / lookup.median_ms)
            .with("psa.paper_lookup_ratio", paper_lookup_ratio)
            // Writing the results in the queries' order.
            .with("psa.scatter_ms", way.sorted.as_ref().map(|_| millis(model.scatter)))
            .with("psa.paper_ratio", paper_ratio)
            // What the planner's model predicts of all of it together.
            .with("psa.predicted_ms", millis(predicted))
            .with("psa.is_chosen", way.sort == plan.choice)
            .with("psa.is_fastest", false);
        rows.push(row);
    }
    let fastest = rows.iter_mut().min_by(|a, b| a.timing.median_ms.total_cmp(&b.timing.median_ms));
    if let Some(row) = fastest {
        row.set("psa.is_fastest", true);
    }
    Ok(rows)
}

fn verdict(row: &Row) -> &'static str {
    match (row.is("psa.is_chosen"), row.is("psa.is_fastest")) {
        (true, true) => "chosen, fastest",
        (true, false) => "chosen",
        (false, true) => "fastest",
        (false, false) => "",
    }
}

/// For each size and fanout, whether the planner was right.
fn plans(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    for row in rows.iter().filter(|row| row.is("psa.is_chosen")) {
        let same = |other: &&&Row| (other.n, other.integer("fanout")) == (row.n, row.integer("fanout"));
        let Some(fastest) = rows.iter().filter(same).find(|row| row.is("psa.is_fastest")) else { continue };
        let sort = |row: &Row| row.text("psa.sort").unwrap_or("-").to_owned();
        let predicted = row.number("psa.predicted_ms").unwrap_or(f64::NAN);
        writeln!(
            out,
            "  n = {}, fanout {}: planned {} (predicted {predicted:.3} ms, measured {:.3}: {:.2}); fastest {}, {:.3} ms; the plan takes {}",
            power(row.n),
            plain(row, "fanout"),
            sort(row),
            row.timing.median_ms,
            predicted / row.timing.median_ms,
            sort(fastest),
            fastest.timing.median_ms,
            figure(row.timing.median_ms / fastest.timing.median_ms),
        )?;
    }
    Ok(())
}
