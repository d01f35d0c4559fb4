//! The figure `harmonia-ntg`: what narrowed thread groups and the place of the child region are worth,
//! at every fanout, and what the paper's profile would choose.

use super::data::{Batch, BenchWord, Data, Order, miss};
use super::error::Result;
use super::lookups::{batch, batch_order};
use super::report::Section;
use super::session::Session;
use super::subject::Subject;
use lanetree::Buffer;
use lanetree::harmonia::{ChildRegion, FANOUTS, GroupWidth};
use lanetree_baselines::device::BinarySearch;
use lanetree_kernels_harmonia::group_widths;

/// Queries of the profile's sample, as in the paper.
const SAMPLE: usize = 1000;

const ORDERS: [Order; 2] = [Order::Random, Order::Sorted];

/// All of it over the same keys. Takes the data from tree to tree.
pub(super) fn measure<W: BenchWord>(session: &mut Session, mut data: Data<W>) -> Result<()> {
    if !session.runs_kernels() {
        session.skip("figure harmonia-ntg: skipped: no GPU (--device emulated runs its kernels, slowly)");
        return Ok(());
    }
    let search = BinarySearch::new(&session.device, &data.keys, &data.values)?;
    for fanout in FANOUTS {
        let subject = Subject::build_with(session, data, fanout)?;
        of_fanout(session, &subject, fanout, &search)?;
        data = subject.into_data();
    }
    Ok(())
}

fn of_fanout<W: BenchWord>(
    session: &mut Session,
    subject: &Subject<W>,
    fanout: u32,
    search: &BinarySearch<W, W>,
) -> Result<()> {
    let Some(sorted) = batch(session, subject, false) else { return Ok(()) };
    let mut out = session.device.alloc::<W>(sorted.queries.len())?;
    for order in ORDERS {
        let batch = sorted.ordered(order, session.seed);
        let queries = session.device.upload(&batch.queries)?;
        let baseline = baseline(session, search, &batch, &queries, &mut out)?;
        let sample = &batch.queries[..SAMPLE.min(batch.queries.len())];
        let profile = subject.tree.profile_group_width(sample)?.chosen;
        for (child, child_name) in [(ChildRegion::NodeSlot, "slot"), (ChildRegion::PrefixSum, "prefix sum")] {
            for &lanes in group_widths(fanout) {
                let what = format!(
                    "look-ups, {}, fanout {fanout}, {lanes} lanes, {child_name}, {}",
                    subject.describe(),
                    order.name()
                );
                if !session.has_time(&what) {
                    continue;
                }
                let on = subject.tree.on(&session.stream).order(batch_order(order));
                let on = on.group(GroupWidth::Lanes(lanes)).child_region(child);
                let timing = session.time_on_stream(
                    &mut out,
                    |out| session.poison(out),
                    |out| Ok(on.get(&queries, out, None, miss())?),
                )?;
                let checksum = session.check(&what, "values", &out, out.len(), miss(), |i| batch.value(i))?;
                let mut row = subject.row(session, Section::HarmoniaNtg, "get", out.len(), timing, checksum);
                row.group = Some(lanes);
                row.child_region = Some(child_name);
                row.order = Some(order.name());
                row.hit_rate = Some(1.0);
                row.profile_group = Some(profile);
                row.ratio_to_baseline = Some(baseline / row.timing.median_ms);
                session.push(row);
            }
        }
    }
    Ok(())
}

/// Milliseconds of the binary search of the same queries.
fn baseline<W: BenchWord>(
    session: &Session,
    search: &BinarySearch<W, W>,
    batch: &Batch<W>,
    queries: &Buffer<W>,
    out: &mut Buffer<W>,
) -> Result<f64> {
    let timing = session.time_on_stream(
        out,
        |out| session.poison(out),
        |out| Ok(search.get(&session.stream, queries, out, miss())?),
    )?;
    session.check(&"binary search", "values", out, out.len(), miss(), |i| batch.value(i))?;
    Ok(timing.median_ms)
}
