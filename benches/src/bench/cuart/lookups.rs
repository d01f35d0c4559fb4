//! Point look-ups compared with GRT's, and their table, which several figures have.

use crate::bench::columns::Column;
use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::grt;
use crate::bench::cuart::measure::upload;
use crate::bench::cuart::subject::Subject;
use crate::bench::error::Result;
use crate::bench::session::Session;
use lanetree::cuart::RootTable;
use lanetree::{Cuart, Word};

/// Relative to what the look-ups' gathers would take, made by themselves. No ceiling: gathers of different regions may
/// overlap, and of queries that have much in common most are of cached lines.
pub(crate) const GATHERS: Column = Column::of("x its gathers", |row| {
    row.number("gathers_giga_per_second").map(|gathers| format!("{:.2}", row.giga_per_second / gathers))
});

/// Look-ups of batches of these sizes, of values of 64 and 32 bits, with the root table and without, and GRT's.
pub(crate) fn of_data(session: &mut Session, data: Data, batches: &[usize]) -> Result<()> {
    let what = format!("CuART, n = {}, {} bytes", data.len, data.width);
    if !session.has_time(&what) {
        return Ok(());
    }
    of_words::<u64>(session, data, batches, true)?;
    let rates = of_words::<u32>(session, data, batches, false)?;
    if session.runs_kernels() {
        grt::beside_look_ups(session, &data, &batches.iter().copied().zip(rates).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Look-ups of values of some bits: the rates of those through the tree as built, by batch.
fn of_words<V: Word>(session: &mut Session, data: Data, batches: &[usize], without_table: bool) -> Result<Vec<f64>> {
    let subject = Subject::<V>::build(session, data)?;
    let rates = batches.iter().map(|&count| get(session, &subject, count, "get")).collect::<Result<_>>()?;
    if without_table && subject.stats.table_key_bytes > 0 && session.has_time("without the root table") {
        let bytes = data.all();
        let builder = Cuart::builder().root_table(RootTable::None);
        let tree = builder.build(&session.device, keys(data.width, &bytes), &data.values::<V>())?;
        let subject = Subject { stats: tree.stats(), tree, of_gathers: None, ..subject };
        batches.iter().try_for_each(|&count| get(session, &subject, count, "get, without root table").map(drop))?;
    }
    Ok(rates)
}

fn get<V: Word>(session: &mut Session, subject: &Subject<V>, count: usize, operation: &str) -> Result<f64> {
    let data = &subject.data;
    let batch = upload(session, data, count)?;
    let mut out = session.device.alloc::<V>(count)?;
    let on = || subject.tree.on(&session.stream);
    let expected = |query: usize| V::truncate(data.query(1, query) + 1);
    let timing = session.time_call(&mut out, |out| on().miss(V::MIN).get(&batch, out))?;
    let checksum = session.check(&operation, "values", &out, out.len(), V::MIN, expected)?;
    let mut row = subject.row(session, grt::LOOKUPS, operation, out.len(), timing, checksum);
    row.set("gathers_giga_per_second", subject.of_gathers);
    let rate = row.giga_per_second;
    session.push(row);
    Ok(rate)
}
