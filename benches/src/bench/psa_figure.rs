//! The figure `harmonia-psa`, the paper's figure 8: what it costs to sort queries before they are looked up, and
//! what it gains; and whether the library's planner chooses what is fastest.

use super::data::{Batch, BenchWord, Data, Order, miss};
use super::error::{Error, Result};
use super::lookups::batch;
use super::psa::{PartlySorted, psa_sort};
use super::report::{PsaParts, Row, Section};
use super::session::Session;
use super::subject::{Subject, power};
use super::table::{BATCH, Column, FANOUT, LANES, MS, N, RATE, TOP_BITS, figure, optional};
use core::fmt::Display;
use lanetree::harmonia::{BatchOrder, FANOUTS, PsaScratch, QuerySort, psa_bits};
use lanetree::{Buffer, Word};
use std::io::{self, Write};

/// The paper's figures: the kernel's gain, and that of the whole, for partial and for complete sorting.
const PAPER_PARTIAL: [Option<f64>; 2] = [None, Some(1.10)];
const PAPER_FULL: [Option<f64>; 2] = [Some(1.22), Some(0.93)];

/// One way of sorting, and the queries in the order that it brings about.
struct Way<W: BenchWord> {
    name: &'static str,
    sort: QuerySort,
    order: BatchOrder,
    /// `None` for the order in which they were given.
    sorted: Option<PartlySorted<W>>,
    paper: [Option<f64>; 2],
}

/// All ways at every fanout, over the same keys and queries. Takes the data from tree to tree.
pub(super) fn measure<W: BenchWord>(session: &mut Session, mut data: Data<W>) -> Result<()> {
    if !session.runs_kernels() {
        session.skip("figure harmonia-psa: skipped: no GPU (--device emulated runs its kernels, slowly)");
        return Ok(());
    }
    let mut queries = None;
    for fanout in FANOUTS {
        let subject = Subject::build_with(session, data, fanout)?;
        if queries.is_none() {
            queries = draw(session, &subject)?;
        }
        if let Some((batch, random, ways)) = &queries {
            of_fanout(session, &subject, batch, random, ways)?;
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
    let (bits, width) = (psa_bits::<W>(subject.data.len() as u64).max(1), <W as Word>::BITS);
    let partly = psa_sort(session, &random, bits)?;
    let fully = psa_sort(session, &random, width)?;
    let (partial, full) = (QuerySort::TopBits(bits), QuerySort::Full);
    let ways = [
        Way { name: "none", sort: QuerySort::None, order: BatchOrder::Random, sorted: None, paper: [None, None] },
        Way {
            name: "partial",
            sort: partial,
            order: BatchOrder::TopBits(bits),
            sorted: Some(partly),
            paper: PAPER_PARTIAL,
        },
        Way { name: "full", sort: full, order: BatchOrder::Sorted, sorted: Some(fully), paper: PAPER_FULL },
    ];
    Ok(Some((batch, random, ways)))
}

fn of_fanout<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    batch: &Batch<W>,
    random: &Buffer<W>,
    ways: &[Way<W>; 3],
) -> Result<()> {
    let fanout = subject.stats.fanout;
    let what = |part: &dyn Display| format!("PSA, fanout {fanout}, {part}, {}", subject.describe());
    if !session.has_time(what(&"all")) {
        return Ok(());
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
        let on = subject.tree.on(&session.stream).order(way.order);
        let queries = way.sorted.as_ref().map_or(random, |sorted| &sorted.queries);
        let lookup = session.time_on_stream(
            &mut out,
            |out| session.poison(out),
            |out| Ok(on.get(queries, out, None, miss())?),
        )?;
        let source = |i: usize| way.sorted.as_ref().map_or(i, |sorted| sorted.positions[i] as usize);
        session.check(&what(&"the look-up alone"), "values", &out, count, miss(), |i| batch.value(source(i)))?;
        let all = subject.tree.on(&session.stream);
        let timing = session.time_on_stream(
            &mut out,
            |out| session.poison(out),
            |out| Ok(all.get_by_sorting(way.sort, random, out, None, miss(), &mut scratch)?),
        )?;
        let checksum = session.check(&what(&way.sort), "values", &out, count, miss(), |i| batch.value(i))?;
        let mut row = subject.row(session, Section::HarmoniaPsa, "get_by_sorting", count, timing, checksum);
        let first = rows.first();
        let first_lookup = first.and_then(|row| row.psa.as_ref()).map_or(lookup.median_ms, |parts| parts.lookup_ms);
        row.order = Some(Order::Random.name());
        row.hit_rate = Some(1.0);
        row.group = Some(on.group_width()?);
        row.sorted_bits = match way.sort {
            QuerySort::None => None,
            QuerySort::TopBits(bits) => Some(bits),
            QuerySort::Full => Some(<W as Word>::BITS),
        };
        row.sort_ms = way.sorted.as_ref().and_then(|sorted| sorted.sort.as_ref()).map(|sort| sort.median_ms);
        row.ratio_to_baseline = Some(first.unwrap_or(&row).timing.median_ms / row.timing.median_ms);
        let [paper_lookup_ratio, paper_ratio] = way.paper;
        row.psa = Some(PsaParts {
            sort: way.name,
            lookup_ms: lookup.median_ms,
            lookup_ratio: first_lookup / lookup.median_ms,
            paper_lookup_ratio,
            scatter_ms: way.sorted.as_ref().map(|_| millis(model.scatter)),
            paper_ratio,
            predicted_ms: millis(predicted),
            is_chosen: way.sort == plan.choice,
            is_fastest: false,
        });
        rows.push(row);
    }
    let fastest = rows.iter_mut().min_by(|a, b| a.timing.median_ms.total_cmp(&b.timing.median_ms));
    if let Some(parts) = fastest.and_then(|row| row.psa.as_mut()) {
        parts.is_fastest = true;
    }
    rows.into_iter().for_each(|row| session.push(row));
    Ok(())
}

/// A cell of the parts.
fn part<T>(row: &Row, part: impl Fn(&PsaParts) -> Option<T>, text: impl FnOnce(T) -> String) -> String {
    optional(row.psa.as_ref().and_then(part), text)
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:.3}")
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// The columns of its table.
pub(super) const COLUMNS: &[Column] = &[
    N,
    FANOUT,
    ("queries", |row| part(row, |parts| Some(parts.sort), |sort| sort.replace("none", "random"))),
    TOP_BITS,
    LANES,
    BATCH,
    ("sort ms", |row| optional(row.sort_ms, milliseconds)),
    ("look-up ms", |row| part(row, |parts| Some(parts.lookup_ms), milliseconds)),
    ("x random", |row| part(row, |parts| Some(parts.lookup_ratio), ratio)),
    ("paper", |row| part(row, |parts| parts.paper_lookup_ratio, ratio)),
    ("back ms", |row| part(row, |parts| parts.scatter_ms, milliseconds)),
    ("all: ms", |row| MS.1(row)),
    ("all: G/s", |row| RATE.1(row)),
    ("all: x random", |row| optional(row.ratio_to_baseline, ratio)),
    ("all: paper", |row| part(row, |parts| parts.paper_ratio, ratio)),
    ("predicted ms", |row| part(row, |parts| Some(parts.predicted_ms), milliseconds)),
    ("/ measured", |row| part(row, |parts| Some(parts.predicted_ms / row.timing.median_ms), ratio)),
    ("plan", |row| part(row, |parts| Some(verdict(parts)), Into::into)),
];

fn verdict(parts: &PsaParts) -> &'static str {
    match (parts.is_chosen, parts.is_fastest) {
        (true, true) => "chosen, fastest",
        (true, false) => "chosen",
        (false, true) => "fastest",
        (false, false) => "",
    }
}

/// What is to be known of its table.
pub(super) const FOOTNOTES: &[&str] = &[
    "partial: by the top bits of equation 2. sort, look-up, back: each alone; back is writing the results in the order of",
    "the queries (the fastest of three, by the planner). all: get_by_sorting, in one piece. G: lanes per query; at full,",
    "where there are two queries a leaf or more, whole leaves are brought to shared memory instead. predicted: what the",
    "planner (measure_psa) makes of its own measurements, in the same run.",
    "paper: complete sorting, +22 % for the kernel and -7 % in all; partial sorting, +10 % in all. Its text names no fanout,",
    "size or batch for these, and no writing back.",
];

/// For each size and fanout, whether the planner was right.
pub(super) fn print(rows: &[&Row], out: &mut impl Write) -> io::Result<()> {
    for row in rows {
        let Some(chosen) = row.psa.as_ref().filter(|parts| parts.is_chosen) else { continue };
        let same = |other: &&&Row| (other.n, other.fanout) == (row.n, row.fanout);
        let fastest = rows.iter().filter(same).find(|row| row.psa.as_ref().is_some_and(|parts| parts.is_fastest));
        let Some(fastest) = fastest else { continue };
        let of = |row: &Row| part(row, |parts| Some(parts.sort), Into::into);
        writeln!(
            out,
            "  n = {}, fanout {}: planned {} (predicted {:.3} ms, measured {:.3}: {:.2}); fastest {}, {:.3} ms; the plan takes {}",
            power(row.n),
            row.fanout.unwrap_or(0),
            of(row),
            chosen.predicted_ms,
            row.timing.median_ms,
            chosen.predicted_ms / row.timing.median_ms,
            of(fastest),
            fastest.timing.median_ms,
            figure(row.timing.median_ms / fastest.timing.median_ms),
        )?;
    }
    Ok(())
}
