//! What host memory can do at most: random gathers of lines by all threads.

use crate::bench::data::mix;
use crate::bench::error::Result;
use crate::bench::hbtree::room::has_room;
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::ops::Range;
use lanetree_base::parallel::*;
use lanetree_runtime::{HostArray, Pages};

/// A line of 64 bytes. The array's start is a multiple of them.
type Line = [u64; 8];

/// Lines that a thread has in flight.
const AHEAD: [usize; 5] = [4, 8, 16, 24, 32];

/// Gathers of one task.
const TASK: usize = 1 << 12;

/// Measures gathers from a table of `bytes` bytes, rounded up to a power of two, in transparent huge pages: rows of a
/// section, and the highest rate, in 10^9 per second. `None` where host memory has no room.
///
/// # Errors
/// The library's; [`Wrong`](crate::bench::error::Error::Wrong) if a gather read something else.
pub(crate) fn gathers(session: &mut Session, section: &'static str, bytes: u64) -> Result<Option<f64>> {
    let bytes = bytes.next_power_of_two().max(1 << 10);
    let what = format!("gathers of 64 bytes from {} MiB of host memory", bytes >> 20);
    if !session.has_time(&what) || !has_room(session, &what, bytes) {
        return Ok(None);
    }
    let mut lines = HostArray::<Line>::zeroed(bytes as usize / size_of::<Line>(), Pages::Transparent)?;
    lines.par_iter_mut().with_min_len(TASK).enumerate().for_each(|(i, line)| *line = [mix(i as u64); 8]);
    let (count, mask) = (1_usize << session.plan.queries, lines.len() as u64 - 1);
    let mut best: Option<f64> = None;
    for ahead in AHEAD {
        let mut sums = vec![0; count.div_ceil(TASK)];
        let mut run = 0;
        let seed = |run: u64| mix(session.seed ^ run << 40);
        let task = |task: usize| (task * TASK) as u64..(task * TASK + TASK).min(count) as u64;
        let timing = session.time_on_cpu(
            &mut sums,
            |sums| sums.fill(0),
            |sums| {
                run += 1;
                let seed = seed(run);
                sums.par_iter_mut().enumerate().for_each(|(i, sum)| *sum = gather(&lines, seed, task(i), ahead as u64));
                Ok(())
            },
        )?;
        let seed = seed(run);
        let expected = |i: usize| task(i).map(|at| mix(place(seed, at) & mask)).fold(0, u64::wrapping_add);
        let checksum = session.check_slice(&what, "sums", &sums, 0..sums.len(), u64::MAX, expected)?;
        let mut row = Row::new(section, "ceiling", "gather 64 B", count, timing, checksum).on("cpu").over(
            lines.len(),
            "line",
            "64 B",
            "uniform",
        );
        row.set("in_flight", ahead);
        row.set("threads", rayon::current_num_threads());
        row.set("footprint_bytes", bytes);
        row.set("pages.leaves", lines.pages().granted.to_string());
        best = Some(best.unwrap_or_default().max(row.giga_per_second));
        session.push(row);
    }
    Ok(best)
}

/// Where a gather reads, but for the table's size.
#[inline(always)]
fn place(seed: u64, at: u64) -> u64 {
    mix(seed ^ at)
}

/// The sum of words from random lines, of which that many are on their way.
fn gather(lines: &[Line], seed: u64, gathers: Range<u64>, ahead: u64) -> u64 {
    let mask = lines.len() as u64 - 1;
    let line = |at: u64| &lines[(place(seed, at) & mask) as usize];
    let (start, end) = (gathers.start, gathers.end);
    (start..end.min(start + ahead)).for_each(|at| prefetch(line(at)));
    let mut sum = 0_u64;
    for at in gathers {
        prefetch(line(at + ahead));
        sum = sum.wrapping_add(line(at)[at as usize % 8]);
    }
    sum
}

/// Brings a line into the caches.
#[inline(always)]
fn prefetch(line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of an address that is valid.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>((&raw const *line).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    core::hint::black_box(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::session::tests::session;
    use lanetree::Device;

    #[test]
    fn gathers_are_checked() {
        let mut session = session(Device::host());
        let best = gathers(&mut session, "hbtree-cpu", 3000).unwrap();
        let rows = &session.report.record.rows;
        assert_eq!(rows.len(), AHEAD.len());
        assert!(rows.iter().all(|row| row.integer("footprint_bytes") == Some(4096) && row.checksum.sum != 0));
        assert_eq!(best, rows.iter().map(|row| row.giga_per_second).reduce(f64::max));
    }
}
