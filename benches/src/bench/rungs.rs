//! The figure `harmonia-ladder`: the paper's optimisations one after another, from a B+tree with child
//! references to Harmonia with partially sorted queries (PSA) and narrowed thread groups (NTG).

use super::data::{Batch, BenchWord, Data, Order, miss};
use super::error::Result;
use super::lookups::batch;
use super::psa::{PartlySorted, psa_sort};
use super::report::{Rung, Section};
use super::session::Session;
use super::subject::Subject;
use lanetree::Buffer;
use lanetree::harmonia::{BatchOrder, ChildRegion, FANOUTS, GroupWidth, psa_bits};
use lanetree_baselines::device::{Fanout, InFlight, PointerBTree};
use lanetree_kernels_harmonia::{group_widths, queries_in_flight};

/// Queries of the profile's sample: about a thousand, as in the paper, in whole warps.
const SAMPLE_WARPS: usize = 31;

/// The child regions: the paper's first.
const CHILDREN: [(ChildRegion, &str); 2] = [(ChildRegion::PrefixSum, "prefix sum"), (ChildRegion::NodeSlot, "slot")];

/// Random queries, and the same ones partially sorted.
struct Queries<W> {
    batch: Batch<W>,
    random: Buffer<W>,
    sorted: PartlySorted<W>,
    bits: u32,
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
pub(super) fn measure<W: BenchWord>(session: &mut Session, mut data: Data<W>) -> Result<()> {
    if !session.runs_kernels() {
        session.skip("figure harmonia-ladder: skipped: no GPU (--device emulated runs its kernels, slowly)");
        return Ok(());
    }
    let mut queries = None;
    for fanout in FANOUTS {
        let subject = Subject::build_with(session, data, fanout)?;
        if queries.is_none() {
            queries = draw(session, &subject)?;
        }
        if let Some(queries) = &queries {
            of_fanout(session, &subject, queries)?;
        }
        data = subject.into_data();
    }
    Ok(())
}

fn draw<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<Option<Queries<W>>> {
    let Some(sorted) = batch(session, subject, false) else { return Ok(None) };
    let batch = sorted.ordered(Order::Random, session.seed);
    let random = session.device.upload(&batch.queries)?;
    let bits = psa_bits::<W>(subject.data.len() as u64);
    let sorted = psa_sort(session, &random, bits)?;
    Ok(Some(Queries { batch, random, sorted, bits }))
}

fn of_fanout<W: BenchWord>(session: &mut Session, subject: &Subject<W>, queries: &Queries<W>) -> Result<()> {
    let fanout = Fanout::of(subject.stats.fanout).expect("both trees have kernels for the same fanouts");
    session.doing(format_args!("building a B+tree with references, {}", subject.describe()));
    let references = PointerBTree::new(&session.device, &subject.data.keys, &subject.data.values, fanout)?;
    let mut out = session.device.alloc::<W>(queries.batch.queries.len())?;
    let mut first = None;
    for step in steps(session, subject, queries, fanout)? {
        let rate = of_step(session, subject, &references, queries, step, first, &mut out)?;
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
    let profiled = subject.tree.profile_group_width(&sample(queries))?.chosen;
    let reference = |rung, in_flight| Step { rung, search: Search::References(in_flight), is_sorted: false };
    let mut steps = vec![reference(Rung::Baseline, InFlight::One)];
    steps.push(reference(Rung::BaselineInFlight, InFlight::LikeHarmonia));
    for (child, name) in CHILDREN {
        let step = |rung, lanes, is_sorted| Step { rung, search: Search::Harmonia(child, name, lanes), is_sorted };
        steps.push(step(Rung::Structure, widest, false));
        steps.push(step(Rung::Psa, widest, true));
        // The paper's choice may be not to narrow: the row is the same rung then, and says so.
        steps.push(step(Rung::Ntg, profiled, true));
        let tuned = subject.tree.on(&session.stream).order(BatchOrder::TopBits(queries.bits)).group_width()?;
        if tuned != profiled {
            steps.push(step(Rung::NtgTuned, tuned, true));
        }
    }
    Ok(steps)
}

/// Warps of the partially sorted batch, from all over it: what a narrowed group is narrowed for.
fn sample<W: BenchWord>(queries: &Queries<W>) -> Vec<W> {
    let warps = queries.sorted.positions.chunks(32);
    let step = warps.len().div_ceil(SAMPLE_WARPS).max(1);
    let positions = warps.step_by(step).flatten();
    positions.map(|&position| queries.batch.queries[position as usize]).collect()
}

/// Measures a rung; its rate, if there was time for it.
fn of_step<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    references: &PointerBTree<W>,
    queries: &Queries<W>,
    step: Step,
    first: Option<f64>,
    out: &mut Buffer<W>,
) -> Result<Option<f64>> {
    let Step { rung, search, is_sorted } = step;
    let what = format!("ladder, fanout {}, {}, {}", subject.stats.fanout, rung.name(), subject.describe());
    if !session.has_time(&what) {
        return Ok(None);
    }
    let PartlySorted { queries: sorted, positions, sort } = &queries.sorted;
    let batch = if is_sorted { sorted } else { &queries.random };
    let timing = session.time_on_stream(
        out,
        |out| session.poison(out),
        |out| match search {
            Search::References(in_flight) => Ok(references.get(&session.stream, batch, out, miss(), in_flight)?),
            Search::Harmonia(child, _, lanes) => {
                let on = subject.tree.on(&session.stream).group(GroupWidth::Lanes(lanes)).child_region(child);
                Ok(on.get(batch, out, None, miss())?)
            }
        },
    )?;
    let value = |i: usize| queries.batch.value(if is_sorted { positions[i] as usize } else { i });
    let checksum = session.check(&what, "values", out, out.len(), miss(), value)?;
    let mut row = subject.row(session, Section::HarmoniaLadder, "get", out.len(), timing, checksum);
    row.rung = Some(rung);
    row.order = Some(Order::Random.name());
    row.hit_rate = Some(1.0);
    match search {
        Search::References(in_flight) => {
            row.index = "B+tree with references";
            row.group = Some(references.fanout().lanes());
            row.in_flight = Some(in_flight.queries(references.fanout()));
            row.child_region = Some("references");
            row.footprint_bytes = references.bytes();
            row.bytes_per_key = Some(references.bytes() as f64 / references.len().max(1) as f64);
        }
        Search::Harmonia(_, name, lanes) => {
            row.group = Some(lanes);
            row.in_flight = Some(queries_in_flight(subject.stats.fanout, lanes));
            row.child_region = Some(name);
        }
    }
    if is_sorted {
        row.order = Some("partly sorted");
        row.sorted_bits = Some(queries.bits);
        row.sort_ms = sort.as_ref().map(|sort| sort.median_ms);
    }
    let rate = row.giga_per_second;
    row.ratio_to_baseline = first.or((rung == Rung::Baseline).then_some(rate)).map(|first| rate / first);
    session.push(row);
    Ok(Some(rate))
}
