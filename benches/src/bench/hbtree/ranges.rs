//! Ranges that begin and end in ordinary host memory, by the CPU's clock.

use crate::bench::data::{miss, value_of};
use crate::bench::error::Result;
use crate::bench::hbtree::lookups::Measured;
use crate::bench::hbtree::room::has_room;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::Ranges;
use lanetree::hbtree::Structure;
use lanetree_base::parallel::*;

/// The most pairs that a batch returns, as a power of two.
const MOST_PAIRS: u32 = 27;

/// Measures random ranges of `length` pairs, by the CPU alone and with the device: a row each, none where host memory
/// has no room.
///
/// # Errors
/// The library's; [`Wrong`](crate::bench::error::Error::Wrong) with the first difference.
pub(crate) fn measure<L: Structure>(
    session: &mut Session,
    subject: &mut Subject<u64, L>,
    section: &'static str,
    length: usize,
) -> Result<Vec<(Side, Row)>> {
    let what = format!("ranges of {length}, {}", subject.keys.describe());
    let pairs = 1 << session.plan.range_pairs.min(MOST_PAIRS);
    let count = (pairs / length).clamp(1, 1 << session.plan.host_ranges);
    // Ranges; results, and the parts that they are joined of, both at once.
    if !has_room(session, &what, (count * 40 + 32 * count * length) as u64) {
        return Ok(Vec::new());
    }
    let (keys, rank) = (subject.keys, subject.keys.shuffled(session.seed ^ length as u64));
    let first = |i: usize| rank(0, count, i).min(keys.len() - length);
    let starts: Vec<u64> = (0..count).into_par_iter().map(|i| keys.key(first(i))).collect();
    let ends: Vec<u64> = (0..count).into_par_iter().map(|i| keys.key(first(i) + length - 1)).collect();
    let (mut rows, mut baseline) = (Vec::new(), None);
    for &side in Side::all(session) {
        subject.set_side(side)?;
        let mut out = Ranges::default();
        let timing = session.time_on_cpu(
            &mut out,
            |_| (),
            |out| Ok(subject.tree.range_between_many_into(&starts, &ends, out)?),
        )?;
        let pairs = count * length;
        session.check_slice(&what, "offsets", &out.offsets, 0..count + 1, u64::MAX, |i| (i * length) as u64)?;
        let key = |i: usize| keys.key(first(i / length) + i % length);
        let by_key = session.check_slice(&what, "keys", &out.keys, 0..pairs, miss(), key)?;
        let by_value = session.check_slice(&what, "values", &out.values, 0..pairs, miss(), |i| value_of(key(i)))?;
        let measured = Measured { count, timing, checksum: by_key.and(by_value) };
        let mut row: Row = subject.row(session, section, side, "range_between_many_into", measured);
        let rate = *baseline.get_or_insert(row.giga_per_second);
        row.set("range_pairs", length);
        row.set("pairs", pairs as u64);
        row.set("ratio_to_baseline", row.giga_per_second / rate);
        rows.push((side, row));
    }
    Ok(rows)
}
