//! The hardware's ceilings for the same work: copying, and random gathers over the trees' footprints.

use super::data::{Order, mix};
use super::error::Result;
use super::report::{Row, Section};
use super::session::{Ceilings, Session};
use lanetree_baselines::Checksum;
use lanetree_baselines::device::ceiling::{Chunk, Gathers, Table};

/// Measures copying. On the host there is nothing to measure.
pub(super) fn copy(session: &mut Session) -> Result<()> {
    if !session.wants(Section::Ceilings) || !session.runs_kernels() || !session.has_time("copy ceiling") {
        return Ok(());
    }
    let bytes = 1 << session.plan.copy_bytes;
    let table = Table::new(&session.stream, bytes)?;
    let mut out = session.device.alloc::<u64>(bytes as usize / 8)?;
    let timing =
        session.time_on_stream(&mut out, |out| session.poison(out), |out| Ok(table.copy(&session.stream, out)?))?;
    let words = out.len();
    let checksum = session.check(&"copy", "words", &out, words, u64::MAX, |i| i as u64)?;
    let mut row = row(session, "copy".into(), words, timing, checksum);
    row.footprint_bytes = bytes;
    row.bytes_moved = Some(2 * bytes);
    session.ceilings.copy = Some(row.giga_per_second_of(2 * bytes));
    session.push(row);
    Ok(())
}

/// Measures gathers from a table of a tree's size, rounded up to a power of two, unless that has been done.
pub(super) fn gathers(session: &mut Session, tree_bytes: u64) -> Result<()> {
    let footprint = table_bytes(tree_bytes);
    let done = session.ceilings.gathers.iter().any(|&(_, bytes, _)| bytes == footprint);
    if done || !session.wants(Section::Ceilings) || !session.runs_kernels() {
        return Ok(());
    }
    if !session.has_time(format_args!("gather ceilings over {} MiB", footprint >> 20)) {
        return Ok(());
    }
    let mut table = Table::new(&session.stream, footprint)?;
    for chunk in Chunk::ALL {
        let count = (1_u64 << session.plan.queries).next_multiple_of(8);
        let gathers = Gathers { chunk, footprint, count, seed: mix(session.seed) };
        let mut out = session.device.alloc::<u64>(gathers.threads())?;
        let mut run = 0;
        let timing = session.time_on_stream(
            &mut out,
            |out| session.poison(out),
            |out| {
                run += 1;
                Ok(table.gather(&session.stream, &seeded(gathers, run), out)?)
            },
        )?;
        let operation = format!("gather {} B", chunk.bytes());
        let last = seeded(gathers, run);
        let checksum =
            session.check(&operation, "words", &out, gathers.threads(), u64::MAX, |thread| last.expected(thread))?;
        let mut row = row(session, operation, count as usize, timing, checksum);
        row.footprint_bytes = footprint;
        row.bytes_moved = Some(count * u64::from(chunk.bytes()));
        session.ceilings.gathers.push((chunk, footprint, row.giga_per_second));
        session.push(row);
    }
    Ok(())
}

/// Every run gathers other chunks.
fn seeded(gathers: Gathers, run: u64) -> Gathers {
    Gathers { seed: gathers.seed.wrapping_add(run << 40), ..gathers }
}

fn row(session: &Session, operation: String, batch: usize, timing: super::report::Timing, checksum: Checksum) -> Row {
    let mut row = Row::new(Section::Ceilings, "ceiling", operation, batch, timing, checksum);
    row.device = session.device_name().into();
    row
}

fn table_bytes(tree_bytes: u64) -> u64 {
    tree_bytes.next_power_of_two().max(1 << 10)
}

/// A batch of look-ups, as far as its ceiling goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookups {
    pub(super) order: Order,
    pub(super) count: u64,
    /// Bytes of a query and its answer.
    pub(super) query_bytes: u64,
    pub(super) tree_bytes: u64,
    pub(super) leaves: u64,
    pub(super) leaf_bytes: u64,
}

/// Of so many things, those that at least one of `count` uniform draws is.
fn touched(count: f64, of: f64) -> f64 {
    of * -(-count / of.max(1.0)).exp_m1()
}

impl Ceilings {
    /// Gathers of chunks from a table of so many bytes, rounded up to a power of two, if they were measured.
    pub(super) fn of_gathers(&self, chunk: Chunk, bytes: u64) -> Option<f64> {
        let footprint = table_bytes(bytes);
        let measured = self.gathers.iter().find(|&&(own, table, _)| own == chunk && table == footprint);
        measured.map(|&(_, _, rate)| rate)
    }

    /// The most look-ups, in 10^9 per second, that the hardware could do; defined in the table's footnote.
    pub(super) fn of_lookups(&self, lookups: &Lookups) -> Option<f64> {
        if lookups.order == Order::Random {
            return self.of_gathers(Chunk::B128, lookups.tree_bytes);
        }
        let count = lookups.count as f64;
        let leaves = touched(count, lookups.leaves as f64);
        let bytes = count * lookups.query_bytes as f64 + leaves * lookups.leaf_bytes as f64;
        self.copy.map(|copy| count * copy / bytes)
    }

    /// The most ranges, in 10^9 per second, that the hardware could do: so many of so many pairs in all, anywhere in
    /// a tree of `n` pairs. Both bounds are read and an offset is written, each pair is written, and those that lie
    /// in any of the ranges are read once: however many ranges share one, it may come from a cache.
    pub(super) fn of_ranges(&self, count: u64, pairs: u64, n: u64, pair_bytes: u64) -> Option<f64> {
        let read = touched(pairs as f64, n as f64);
        let bytes = (count * (pair_bytes + size_of::<u64>() as u64)) as f64 + (pairs as f64 + read) * pair_bytes as f64;
        self.copy.map(|copy| count as f64 * copy / bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::tests::session;
    use super::*;
    use lanetree::Device;

    #[test]
    fn ceilings_are_measured_once_per_footprint() {
        let mut session = session(Device::emulated(), &[Section::Ceilings]);
        copy(&mut session).unwrap();
        gathers(&mut session, 1000).unwrap();
        gathers(&mut session, 700).unwrap();
        let operations: Vec<&str> = session.report.rows.iter().map(|row| &*row.operation).collect();
        assert_eq!(operations, ["copy", "gather 32 B", "gather 64 B", "gather 128 B"]);
        assert!(session.report.rows.iter().all(|row| row.checksum.sum != 0));
    }

    #[test]
    fn a_ceiling_is_that_of_the_order() {
        let ceilings = Ceilings { copy: Some(4000.0), gathers: vec![(Chunk::B128, 1 << 20, 36.0)] };
        let lookups = Lookups {
            order: Order::Random,
            count: 1 << 20,
            query_bytes: 16,
            tree_bytes: (1 << 20) - 5,
            leaves: 1,
            leaf_bytes: 128,
        };
        assert_eq!(ceilings.of_lookups(&lookups), Some(36.0));
        assert_eq!(ceilings.of_lookups(&Lookups { tree_bytes: 1 << 30, ..lookups }), None);
        let sorted = ceilings.of_lookups(&Lookups { order: Order::Sorted, ..lookups }).unwrap();
        assert!((249.0..=250.0).contains(&sorted), "{sorted}");
    }

    #[test]
    fn ranges_that_overlap_share_what_they_read() {
        let ceilings = Ceilings { copy: Some(4000.0), gathers: Vec::new() };
        // Eight times as many pairs come back as there are: nearly all is writing.
        let overlapping = ceilings.of_ranges(1 << 19, 1 << 29, 1 << 26, 16).unwrap();
        let written_alone = 4000.0 / (1024.0 * 16.0);
        assert!((0.87..=0.90).contains(&(overlapping / written_alone)), "{overlapping}");
        // Few ranges share nothing: each pair is read and written.
        let apart = ceilings.of_ranges(1 << 10, 1 << 20, 1 << 30, 16).unwrap();
        assert!((0.49..=0.51).contains(&(apart / written_alone)), "{apart}");
    }
}
