//! Random gathers from tables of the trees' sizes: any figure can measure them for comparison.

use super::ceilings::table_bytes;
use super::data::mix;
use super::error::Result;
use super::row::Row;
use super::session::Session;
use lanetree_baselines::Checksum;
use lanetree_baselines::device::ceiling::{Chunk, Gathers, Table as Gathered};
use lanetree_record::Timing;

/// The figure to which the rows belong.
pub(super) const PART: &str = "ceilings";

/// Measures gathers from a table of a tree's size, rounded up to a power of two, unless that has been done.
pub(crate) fn gathers(session: &mut Session, tree_bytes: u64) -> Result<()> {
    let footprint = table_bytes(tree_bytes);
    let done = session.ceilings.gathers.iter().any(|&(_, bytes, _)| bytes == footprint);
    if done || !session.wants_ceilings || !session.runs_kernels() {
        return Ok(());
    }
    if !session.has_time(format_args!("gather ceilings over {} MiB", footprint >> 20)) {
        return Ok(());
    }
    let mut table = Gathered::new(&session.stream, footprint)?;
    for chunk in Chunk::ALL {
        let count = (1_u64 << session.plan.queries).next_multiple_of(8);
        let gathers = Gathers { chunk, footprint, count, seed: mix(session.seed) };
        let mut out = session.device.alloc::<u64>(gathers.threads())?;
        let mut run = 0;
        let timing = session.time_call(&mut out, |out| {
            run += 1;
            table.gather(&session.stream, &seeded(gathers, run), out)
        })?;
        let operation = format!("gather {} B", chunk.bytes());
        let last = seeded(gathers, run);
        let checksum =
            session.check(&operation, "words", &out, gathers.threads(), u64::MAX, |thread| last.expected(thread))?;
        let mut row = row(session, operation, count as usize, timing, checksum);
        row.set("footprint_bytes", footprint);
        row.set("bytes_moved", count * u64::from(chunk.bytes()));
        session.ceilings.gathers.push((chunk, footprint, row.giga_per_second));
        session.push(row);
    }
    Ok(())
}

/// Every run gathers other chunks.
fn seeded(gathers: Gathers, run: u64) -> Gathers {
    Gathers { seed: gathers.seed.wrapping_add(run << 40), ..gathers }
}

pub(super) fn row(session: &Session, operation: String, batch: usize, timing: Timing, checksum: Checksum) -> Row {
    Row::new(PART, "ceiling", operation, batch, timing, checksum).on(session.device_name())
}
