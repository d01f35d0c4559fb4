//! Equation 2: the time of sorting and looking up over the number of bits that queries are sorted by. Is the equation's
//! number the best one?

use crate::bench::columns::{Column, figure, plain, power};
use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Run, either};
use crate::bench::psa::{PartlySorted, at_every_fanout, psa_sort};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::BatchOrder;
use lanetree::harmonia::{GetBySorting, LookUpTuning, PsaScratch, QuerySort, psa_bits};
use lanetree::{Buffer, Harmonia, KeyWord};
use std::collections::BTreeSet;
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new(
    "harmonia-psa-bits",
    Run::OverKeys(At::EverySize, |session, keys| either!(keys, data => measure(session, data))),
)
.columns(&[("is", Column::words_of("is", |row| Some(marks(row))))])
.summary(best);

/// Numbers of bits: relative to the number of equation 2, and, below, absolute.
const AROUND: core::ops::RangeInclusive<i32> = -4..=4;
const ABSOLUTE: [u32; 5] = [0, 8, 12, 16, 32];

/// What marks a number of bits.
const MARKS: [(&str, &str); 3] = [("is_equation", "equation 2"), ("is_layout", "layout"), ("is_rounded", "rounded")];

fn marks(row: &Row) -> String {
    let marks: Vec<&str> = MARKS.iter().filter(|(name, _)| row.is(name)).map(|&(_, mark)| mark).collect();
    if marks.is_empty() { "-".into() } else { marks.join(", ") }
}

/// All of it over the same keys and queries: every tree for each number of bits.
fn measure<W: BenchWord>(session: &mut Session, data: Data<W>) -> Result<()> {
    let (trees, batch, random) = at_every_fanout(session, &data)?;
    let count = batch.queries.len();
    let mut buffers = (session.device.alloc::<W>(count)?, PsaScratch::new(&session.device, count)?);
    let (equation, width) = (psa_bits::<W>(data.len() as u64), <W as KeyWord>::BITS);
    let around = AROUND.map(|more| (equation as i32 + more).clamp(0, width as i32) as u32);
    let of_trees = trees.iter().flat_map(|tree| [layout_bits(tree), tree.psa_bits()]);
    let bits: BTreeSet<u32> =
        around.chain(of_trees).chain(ABSOLUTE).chain([width]).filter(|&bits| bits <= width).collect();
    let mut rows = Vec::new();
    for bits in bits {
        if !session.has_time(format_args!("equation 2, {bits} bits")) {
            break;
        }
        let sorted = psa_sort(session, &random, bits)?;
        for tree in &trees {
            rows.push(of_tree(session, &data, tree, (&batch, &random), (bits, &sorted), &mut buffers)?);
        }
    }
    for mut row in rows.clone() {
        let same = rows.iter().filter(|other| other.integer("fanout") == row.integer("fanout"));
        let least = same.filter_map(|row| row.number("both_ms")).fold(f64::INFINITY, f64::min);
        row.set("x_best", row.number("both_ms").map(|both| least / both));
        session.push(row);
    }
    Ok(())
}

/// Equation 2 with the tree's own lines, not rounded.
fn layout_bits<W: BenchWord>(tree: &Harmonia<W, W>) -> u32 {
    tree.key_lines().max(1).ilog2()
}

fn of_tree<W: BenchWord>(
    session: &Session,
    data: &Data<W>,
    tree: &Harmonia<W, W>,
    (batch, random): (&Batch<W>, &Buffer<W>),
    (bits, sorted): (u32, &PartlySorted<W>),
    (out, scratch): &mut (Buffer<W>, PsaScratch<W, W>),
) -> Result<Row> {
    let PartlySorted { queries, positions, sort } = sorted;
    let what = format!("equation 2, fanout {}, {bits} bits", tree.fanout());
    let order = match bits {
        bits if bits == <W as KeyWord>::BITS => BatchOrder::Sorted,
        bits => BatchOrder::TopBits(bits),
    };
    let on = || tree.on(&session.stream).order(order);
    let value = |i: usize| batch.value(positions[i] as usize);
    let lookup = session.time_call(out, |out| on().miss(miss()).get(queries, out))?;
    session.check(&what, "values", out, out.len(), miss(), value)?;
    let on = || tree.on(&session.stream);
    let way = if bits == <W as KeyWord>::BITS { QuerySort::Full } else { QuerySort::TopBits(bits) };
    let whole = session.time_call(out, |out| on().miss(miss()).get_by_sorting(way, random, out, scratch))?;
    let checksum = session.check(&what, "values", out, out.len(), miss(), |i| batch.value(i))?;
    // Nothing is sorted by no bits, though the sort that was timed copies.
    let sort_ms = sort.as_ref().map_or(0.0, |sort| if bits == 0 { 0.0 } else { sort.median_ms });
    let lanes = tree.on(&session.stream).order(order).group_width()?;
    let row = Row::new(FIGURE.name, "harmonia", "get_by_sorting", out.len(), whole, checksum).on(session.device_name());
    let row = data
        .label(row)
        .with("fanout", tree.fanout())
        .with("group", lanes)
        .with("sorted_bits", bits)
        .with("passes", bits.div_ceil(8))
        .with("order", Order::Random.name())
        .with("hit_rate", 1.0)
        .with("sort_ms", sort_ms)
        .with("lookup_ms", lookup.median_ms)
        .with("both_ms", sort_ms + lookup.median_ms);
    let of_marks = [psa_bits::<W>(data.len() as u64), layout_bits(tree), tree.psa_bits()];
    Ok(MARKS.iter().zip(of_marks).fold(row, |row, ((name, _), marked)| row.with(name, marked == bits)))
}

/// For each size and fanout, the best number of bits, and what the equation's and the library's take of its rate.
fn best(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    let of = |row: &Row| (row.n, row.integer("fanout"));
    for key in rows.iter().map(|row| of(row)).collect::<BTreeSet<_>>() {
        let same = || rows.iter().filter(|row| of(row) == key);
        let Some(best) = same().find(|row| row.number("x_best") == Some(1.0)) else { continue };
        let rate = |mark: &str| {
            let row = same().find(|row| row.is(mark));
            row.and_then(|row| row.number("x_best")).map_or("-".into(), figure)
        };
        let [equation, layout, rounded] = MARKS.map(|(mark, _)| rate(mark));
        writeln!(
            out,
            "  n = {}, fanout {}: best {} bits; x best: {equation} by equation 2, {layout} with this layout's K, {rounded} rounded",
            power(best.n),
            plain(best, "fanout"),
            plain(best, "sorted_bits"),
        )?;
    }
    Ok(())
}
