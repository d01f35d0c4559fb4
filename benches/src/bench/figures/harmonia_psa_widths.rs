//! Which width of thread groups serves queries that are sorted by few or by many of their top bits, and which one the
//! library takes.

use crate::bench::columns::{figure, plain, power};
use crate::bench::data::{Batch, BenchWord, Data, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Run, either};
use crate::bench::psa::{PartlySorted, at_every_fanout, psa_sort};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::BatchOrder;
use lanetree::harmonia::{GroupWidth, LookUpTuning, psa_bits};
use lanetree::{Buffer, Harmonia, KeyWord};
use lanetree_kernels_harmonia::group_widths;
use std::collections::BTreeSet;
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new(
    "harmonia-psa-widths",
    Run::OverKeys(At::MainSize, |session, keys| either!(keys, data => measure(session, data))),
)
.summary(best);

/// Numbers of bits, relative to the number of equation 2.
const BITS: [i32; 7] = [-14, -10, -6, -4, -2, 0, 2];

/// All of it over the same keys and queries.
fn measure<W: BenchWord>(session: &mut Session, data: Data<W>) -> Result<()> {
    let (trees, batch, random) = at_every_fanout(session, &data)?;
    let count = batch.queries.len();
    let mut out = session.device.alloc::<W>(count)?;
    let (least, width) = (psa_bits::<W>(data.len() as u64) as i32, <W as KeyWord>::BITS);
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
    let on = || tree.on(&session.stream);
    let auto = on().order(BatchOrder::TopBits(bits)).group_width()?;
    // Without a width: by whole leaves.
    let on = |lanes: Option<u32>| match lanes {
        Some(lanes) => on().group(GroupWidth::Lanes(lanes)),
        None => on().order(BatchOrder::Sorted),
    };
    let widths = group_widths(fanout).iter().copied().map(Some);
    let mut rows = Vec::new();
    for lanes in widths.chain([None]) {
        let what = format!("widths, fanout {fanout}, {lanes:?} lanes, sorted by the top {bits} bits");
        let value = |i: usize| batch.value(positions[i] as usize);
        let timing = session.time_call(out, |out| on(lanes).miss(miss()).get(queries, out))?;
        let checksum = session.check(&what, "values", out, out.len(), miss(), value)?;
        let operation = if lanes.is_some() { "queries" } else { "leaves" };
        let row = Row::new(FIGURE.name, "harmonia", operation, out.len(), timing, checksum).on(session.device_name());
        let row = data
            .label(row)
            .with("fanout", fanout)
            .with("group", lanes)
            .with("auto_group", auto)
            .with("sorted_bits", bits)
            .with("order", "partly sorted")
            .with("hit_rate", 1.0);
        rows.push(row);
    }
    rows.into_iter().for_each(|row| session.push(row));
    Ok(())
}

/// For each fanout and number of bits, the width taken, and the one that is fastest.
fn best(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    let of = |row: &Row| (row.n, row.integer("fanout"), row.integer("sorted_bits"));
    for key in rows.iter().map(|row| of(row)).collect::<BTreeSet<_>>() {
        let same = || rows.iter().filter(|row| of(row) == key && row.integer("group").is_some());
        let best = same().max_by(|a, b| a.giga_per_second.total_cmp(&b.giga_per_second));
        let taken = same().find(|row| row.integer("group") == row.integer("auto_group"));
        let (Some(best), Some(taken)) = (best, taken) else { continue };
        writeln!(
            out,
            "  n = {}, fanout {}, top {} bits: the library takes {} lanes, {} G/s; measured best: {}, {} G/s",
            power(best.n),
            plain(best, "fanout"),
            plain(best, "sorted_bits"),
            plain(taken, "group"),
            figure(taken.giga_per_second),
            plain(best, "group"),
            figure(best.giga_per_second),
        )?;
    }
    Ok(())
}
