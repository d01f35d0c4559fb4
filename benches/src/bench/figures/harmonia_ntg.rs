//! What narrowed thread groups and the place of the child region are worth, at every fanout, and what the paper's
//! profile would choose.

use crate::bench::columns::{figure, plain};
use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Run, either};
use crate::bench::queries::{batch, batch_order};
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use lanetree::harmonia::{ChildRegion, FANOUTS, GroupWidth, LookUpTuning, NodeReading};
use lanetree::{Buffer, KeyWord};
use lanetree_baselines::device::BinarySearch;
use lanetree_kernels_harmonia::group_widths;
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new(
    "harmonia-ntg",
    Run::OverKeys(At::MainSize, |session, keys| either!(keys, data => measure(session, data))),
)
.summary(profiles);

/// Child regions, and how nodes are read.
const WAYS: [(ChildRegion, NodeReading, &str); 3] = [
    (ChildRegion::NodeSlot, NodeReading::Tuned, "slot"),
    (ChildRegion::PrefixSum, NodeReading::Tuned, "prefix sum"),
    (ChildRegion::PrefixSum, NodeReading::Stopping, STOPPING),
];

const STOPPING: &str = "prefix sum, stopping";

/// All of it over the same keys. Takes the data from tree to tree.
fn measure<W: BenchWord>(session: &mut Session, mut data: Data<W>) -> Result<()> {
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
    for order in Order::ALL {
        let batch = sorted.ordered(order, session.seed);
        let queries = session.device.upload(&batch.queries)?;
        let baseline = baseline(session, search, &batch, &queries, &mut out)?;
        let profile = subject.tree.profile_group_width(&batch.queries)?.chosen;
        for (child, reading, child_name) in WAYS {
            let is_compiled = reading == NodeReading::Tuned || <W as KeyWord>::BITS == 64;
            // The paper's region is enough between random and sorted.
            let is_wanted = order != Order::Top16 || child == ChildRegion::PrefixSum;
            if !is_compiled || !is_wanted {
                continue;
            }
            for &lanes in group_widths(fanout) {
                let what = format!(
                    "look-ups, {}, fanout {fanout}, {lanes} lanes, {child_name}, {}",
                    subject.describe(),
                    order.name()
                );
                if !session.has_time(&what) {
                    continue;
                }
                let on = || subject.tree.on(&session.stream).order(batch_order(order));
                let on = || on().group(GroupWidth::Lanes(lanes)).child_region(child).reading(reading);
                let timing = session.time_call(&mut out, |out| on().miss(miss()).get(&queries, out))?;
                let checksum = session.check(&what, "values", &out, out.len(), miss(), |i| batch.value(i))?;
                let mut row = subject.row(session, FIGURE.name, "get", out.len(), timing, checksum);
                row.set("group", lanes);
                row.set("child_region", child_name);
                row.set("order", order.name());
                row.set("hit_rate", 1.0);
                row.set("profile_group", profile);
                row.set("ratio_to_baseline", baseline / row.timing.median_ms);
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
    let timing = session.time_call(out, |out| search.get(&session.stream, queries, out, miss()))?;
    session.check(&"binary search", "values", out, out.len(), miss(), |i| batch.value(i))?;
    Ok(timing.median_ms)
}

/// For each fanout and order, the width that the paper's profile chooses and the one that is fastest: of the kernel that
/// stops early, of which the profile is a model, and of all.
fn profiles(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    let mut seen = Vec::new();
    for row in rows {
        let key = |row: &Row| (row.n, row.integer("fanout"), row.text("order").map(str::to_owned));
        let of = key(row);
        if seen.contains(&of) {
            continue;
        }
        let same = rows.iter().filter(|other| key(other) == of);
        let fastest = |rows: &mut dyn Iterator<Item = &&Row>| -> Option<Row> {
            rows.max_by(|a, b| a.giga_per_second.total_cmp(&b.giga_per_second)).map(|&row| row.clone())
        };
        let Some(best) = fastest(&mut same.clone()) else { continue };
        let stopping = || same.clone().filter(|row| row.text("child_region") == Some(STOPPING));
        let at_profile = stopping().find(|row| row.integer("group") == row.integer("profile_group"));
        write!(
            out,
            "  fanout {}, {}: the paper's profile chooses {} lanes",
            plain(row, "fanout"),
            plain(row, "order"),
            plain(row, "profile_group")
        )?;
        if let (Some(chosen), Some(best)) = (at_profile, fastest(&mut stopping())) {
            let (rate, of_best, lanes) =
                (figure(chosen.giga_per_second), figure(best.giga_per_second), plain(&best, "group"));
            write!(out, ", {rate} G/s stopping early, where the best is {lanes}, {of_best} G/s")?;
        }
        writeln!(
            out,
            "; best of all: {} ({}), {} G/s",
            plain(&best, "group"),
            plain(&best, "child_region"),
            figure(best.giga_per_second)
        )?;
        seen.push(of);
    }
    Ok(())
}
