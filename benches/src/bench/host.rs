//! Look-ups that begin and end in host memory.

use super::data::{BenchWord, Order, miss};
use super::error::Result;
use super::report::Section;
use super::session::Session;
use super::subject::Subject;

/// `get_many_into` of random hits, transfers and all.
pub(super) fn end_to_end<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let what = format!("host end-to-end, {}", subject.describe());
    if !session.wants(Section::EndToEnd) || !session.has_time(&what) {
        return Ok(());
    }
    let count = 1 << session.plan.host_queries;
    let sorted = subject.data.sorted_batch(count, false, session.seed ^ 0xe2e).expect("hits are always to be had");
    let batch = sorted.ordered(Order::Random, session.seed);
    let mut out = vec![None; count];
    let timing = session.time_on_cpu(
        &mut out,
        |out| out.fill(None),
        |out| Ok(subject.tree.get_many_into(&batch.queries, out)?),
    )?;
    let out: Vec<W> = out.into_iter().map(|value| value.unwrap_or(miss())).collect();
    let checksum = session.check_slice(&what, "values", &out, 0, miss(), |i| batch.value(i))?;
    let mut row = subject.row(session, Section::EndToEnd, "get_many_into", count, timing, checksum);
    row.order = Some(Order::Random.name());
    row.hit_rate = Some(1.0);
    row.threads = Some(rayon::current_num_threads());
    session.push(row);
    Ok(())
}
