//! The hardware's ceilings for the indexes' work: copying, and random gathers from tables of the trees' sizes.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Part, Run, either};
use crate::bench::gathers::{self, gathers};
use crate::bench::session::Session;
use lanetree_baselines::device::ceiling::Table as Gathered;

pub(crate) const FIGURE: Measurement = Measurement::new(
    gathers::PART,
    Run::Part(Part::Ceilings {
        first: copy,
        of_tree: |session, tree| either!(tree, subject => gathers(session, subject.stats.bytes())),
    }),
);

/// Measures copying. On the host there is nothing to measure.
pub(crate) fn copy(session: &mut Session) -> Result<()> {
    if !session.wants_ceilings || !session.runs_kernels() || !session.has_time("copy ceiling") {
        return Ok(());
    }
    let bytes = 1 << session.plan.copy_bytes;
    let table = Gathered::new(&session.stream, bytes)?;
    let mut out = session.device.alloc::<u64>(bytes as usize / 8)?;
    let timing = session.time_call(&mut out, |out| table.copy(&session.stream, out))?;
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
