//! The figure `harmonia-psa-widths`: which width of thread groups serves queries that are sorted by few or by many
//! of their top bits, and which one the library takes.

use super::data::{Batch, BenchWord, Data, Order, miss};
use super::error::Result;
use super::psa::{PartlySorted, psa_sort};
use super::report::{Row, Section};
use super::session::Session;
use super::subject::{Subject, power};
use super::table::figure;
use lanetree::harmonia::{BatchOrder, FANOUTS, GroupWidth, psa_bits};
use lanetree::{Buffer, Harmonia, Word};
use lanetree_kernels_harmonia::group_widths;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Bits, relative to those of equation 2.
const BITS: [i32; 7] = [-14, -10, -6, -4, -2, 0, 2];

/// All of it over the same keys and queries.
pub(super) fn measure<W: BenchWord>(session: &mut Session, data: Data<W>) -> Result<()> {
    if !session.runs_kernels() {
        session.skip("figure harmonia-psa-widths: skipped: no GPU (--device emulated runs its kernels, slowly)");
        return Ok(());
    }
    let mut trees = Vec::new();
    for fanout in FANOUTS {
        session.doing(format_args!("building at fanout {fanout}"));
        trees.push(Harmonia::builder().fanout(fanout).build_sorted(&session.device, &data.keys, &data.values)?);
    }
    let count = 1 << session.plan.queries;
    let sorted = data.sorted_batch(count, false, session.seed).expect("hits are always to be had");
    let batch = sorted.ordered(Order::Random, session.seed);
    drop(sorted);
    let random = session.device.upload(&batch.queries)?;
    let mut out = session.device.alloc::<W>(count)?;
    let (least, width) = (psa_bits::<W>(data.len() as u64) as i32, <W as Word>::BITS);
    let bits = BITS.into_iter().map(|more| (least + more).clamp(0, width as i32) as u32).chain([0, width]);
    for bits in bits.collect::<BTreeSet<u32>>() {
        if !session.has_time(format_args!("widths, sorted by the top {bits} bits")) {
            continue;
        }
        let sorted = psa_sort(session, &random, bits)?;
        for tree in &trees {
            of_tree(session, &data, tree, &batch, bits, &sorted, &mut out)?;
        }
    }
    Ok(())
}

fn of_tree<W: BenchWord>(
    session: &mut Session,
    data: &Data<W>,
    tree: &Harmonia<W, W>,
    batch: &Batch<W>,
    bits: u32,
    sorted: &PartlySorted<W>,
    out: &mut Buffer<W>,
) -> Result<()> {
    let fanout = tree.fanout();
    let PartlySorted { queries, positions, .. } = sorted;
    let on = tree.on(&session.stream);
    let auto = on.order(BatchOrder::TopBits(bits)).group_width()?;
    let whole_leaves = (None, on.order(BatchOrder::Sorted));
    let widths = group_widths(fanout).iter().map(|&lanes| (Some(lanes), on.group(GroupWidth::Lanes(lanes))));
    let mut rows = Vec::new();
    for (lanes, on) in widths.chain([whole_leaves]) {
        let what = format!("widths, fanout {fanout}, {lanes:?} lanes, sorted by the top {bits} bits");
        let timing =
            session.time_on_stream(out, |out| session.poison(out), |out| Ok(on.get(queries, out, None, miss())?))?;
        let value = |i: usize| batch.value(positions[i] as usize);
        let checksum = session.check(&what, "values", out, out.len(), miss(), value)?;
        let operation = if lanes.is_some() { "queries" } else { "leaves" };
        let section = Section::HarmoniaPsaWidths;
        let mut row = Subject::row_without_tree(session, data, section, operation, out.len(), timing, checksum);
        row.fanout = Some(fanout);
        row.group = lanes;
        row.auto_group = Some(auto);
        row.sorted_bits = Some(bits);
        row.order = Some("partly sorted");
        row.hit_rate = Some(1.0);
        rows.push(row);
    }
    rows.into_iter().for_each(|row| session.push(row));
    Ok(())
}

/// For each fanout and number of bits, the width taken, and the one that is fastest.
pub(super) fn print(rows: &[&Row], out: &mut impl Write) -> io::Result<()> {
    let of = |row: &Row| (row.n, row.fanout, row.sorted_bits);
    for (n, fanout, bits) in rows.iter().map(|row| of(row)).collect::<BTreeSet<_>>() {
        let same = || rows.iter().filter(|row| of(row) == (n, fanout, bits) && row.group.is_some());
        let best = same().max_by(|a, b| a.giga_per_second.total_cmp(&b.giga_per_second));
        let taken = same().find(|row| row.group == row.auto_group);
        let (Some(best), Some(taken)) = (best, taken) else { continue };
        writeln!(
            out,
            "  n = {}, fanout {}, top {} bits: the library takes {} lanes, {} G/s; measured best: {}, {} G/s",
            power(n),
            fanout.unwrap_or(0),
            bits.unwrap_or(0),
            taken.group.unwrap_or(0),
            figure(taken.giga_per_second),
            best.group.unwrap_or(0),
            figure(best.giga_per_second),
        )?;
    }
    Ok(())
}
