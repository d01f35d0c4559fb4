//! The paper's figure 16: the CPU alone and with the device, by the tree's size.

use crate::bench::data::BenchWord;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::relative::{Relative, regular};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::hbtree::{Builder, HarmoniaAbove, HbTree, Implicit, Structure};
use std::io::{self, Write};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-sizes", Run::Alone(measure)).summary(means);

/// The paper's mean, for keys of 64 and of 32 bits.
const PAPER_MEANS: [(&str, &str); 2] = [("u64", "2.4"), ("u32", "2.1")];

/// The implicit tree's mean over all sizes, as the paper gives it; and the regular tree.
fn means(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    for (key, paper) in PAPER_MEANS {
        let of_key = rows.iter().filter(|row| row.index == Implicit::NAME && row.key == key && row.device != "cpu");
        let ratios: Vec<f64> = of_key.filter_map(|row| row.number("ratio_to_baseline")).collect();
        if !ratios.is_empty() {
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            writeln!(out, "  {key} keys: {mean:.2} x CPU, the mean over the sizes; paper: {paper}")?;
        }
    }
    regular(rows, out)
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_width::<u64>(session, size)?;
        of_width::<u32>(session, size)
    })
}

fn of_width<W: BenchWord>(session: &mut Session, size: u32) -> Result<()> {
    let (builder, mut relative) = (HbTree::<W, W>::builder(), Relative::default());
    of_tree(session, size, &builder, &mut relative)?;
    of_tree(session, size, &builder.regular(), &mut relative)?;
    of_tree(session, size, &builder.over::<HarmoniaAbove>(), &mut relative)
}

fn of_tree<W: BenchWord, L: Structure>(
    session: &mut Session,
    size: u32,
    builder: &Builder<W, W, L>,
    relative: &mut Relative,
) -> Result<()> {
    let device = session.device.clone();
    let Some(mut subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
    let mut baseline = None;
    for &side in Side::all(session) {
        subject.set_side(side)?;
        let mut row = subject.look_up(session, FIGURE.name, side, "look-ups")?;
        let rate = *baseline.get_or_insert(row.giga_per_second);
        row.set("device_bytes", (side == Side::Hybrid).then_some(subject.stats.device_bytes));
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        relative.compare("", &mut row);
        session.push(row);
    }
    Ok(())
}
