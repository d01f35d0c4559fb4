//! The hardware's ceilings for the indexes' work: copying, and random gathers from tables of the trees' sizes.

use crate::bench::columns::{BATCH, BYTES_RATE, Column, Format, MS, OPERATION, RATE};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Part, Run, either};
use crate::bench::gathers::{self, gathers};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree_baselines::device::ceiling::Table as Gathered;

pub(crate) const FIGURE: Figure = Figure {
    name: gathers::PART,
    about: "Copy bandwidth, and random gathers from tables of the trees' sizes",
    table: Some(&TABLE),
    with_ceilings: true,
    run: Run::Part(Part::Ceilings {
        first: copy,
        of_tree: |session, tree| either!(tree, subject => gathers(session, subject.stats.bytes())),
    }),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: gathers::PART,
    title: "Ceilings of the hardware",
    columns: &[
        OPERATION,
        Column::extra("footprint MiB", "footprint_bytes", Format::Mebibytes),
        BATCH,
        MS,
        RATE,
        BYTES_RATE,
    ],
    clock: Clock::Device,
    notes: &[
        "GB/s: copy counts bytes read and written; gather counts the bytes asked for. Gathers are of random aligned",
        "chunks, 8 in flight per thread, from a table of the tree's size rounded up to a power of two.",
    ],
    summary: None,
};

/// Measures copying. On the host there is nothing to measure.
pub(crate) fn copy(session: &mut Session) -> Result<()> {
    if !session.wants_ceilings || !session.runs_kernels() || !session.has_time("copy ceiling") {
        return Ok(());
    }
    let bytes = 1 << session.plan.copy_bytes;
    let table = Gathered::new(&session.stream, bytes)?;
    let mut out = session.device.alloc::<u64>(bytes as usize / 8)?;
    let timing =
        session.time_on_stream(&mut out, |out| session.poison(out), |out| Ok(table.copy(&session.stream, out)?))?;
    let words = out.len();
    let checksum = session.check(&"copy", "words", &out, words, u64::MAX, |i| i as u64)?;
    let mut row = gathers::row(session, "copy".into(), words, timing, checksum);
    row.set("footprint_bytes", bytes);
    row.set("bytes_moved", 2 * bytes);
    session.ceilings.copy = Some(row.giga_per_second_of(2.0 * bytes as f64));
    session.push(row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::session::tests::session;
    use lanetree::Device;

    #[test]
    fn ceilings_are_measured_once_per_footprint() {
        let mut session = session(Device::emulated());
        session.wants_ceilings = true;
        copy(&mut session).unwrap();
        gathers(&mut session, 1000).unwrap();
        gathers(&mut session, 700).unwrap();
        let operations: Vec<&str> = session.report.record.rows.iter().map(|row| &*row.operation).collect();
        assert_eq!(operations, ["copy", "gather 32 B", "gather 64 B", "gather 128 B"]);
        assert!(session.report.record.rows.iter().all(|row| row.checksum.sum != 0));
    }
}
