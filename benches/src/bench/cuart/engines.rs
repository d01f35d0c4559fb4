//! Engines of updates, measured together with look-ups of the same batch: kernels alone.

use crate::bench::cuart::data::keys;
use crate::bench::cuart::subject::Subject;
use crate::bench::cuart::writers::{LastWriters, written};
use crate::bench::error::Result;
use crate::bench::session::Session;
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Buffer, Cuart, Device, DeviceKeys, Stream, Word};
use lanetree_base::parallel::*;

/// An engine as it is measured.
pub(crate) struct Engine {
    engine: UpdateEngine,
    slots: Slots,
    /// What rows call it.
    pub(crate) name: &'static str,
}

/// Slots of the hash table, for the engine that has one.
#[derive(Clone, Copy)]
enum Slots {
    /// A table for each piece of a batch.
    Pieces,
    /// One of this number.
    Fixed(usize),
    /// One of twice the batch's operations.
    TwiceTheBatch,
}

impl Engine {
    /// As users get it.
    pub(crate) const fn new(engine: UpdateEngine, name: &'static str) -> Self {
        Self { engine, slots: Slots::Pieces, name }
    }

    /// The paper's, with one hash table of `slots` slots.
    pub(crate) const fn one_table(slots: usize, name: &'static str) -> Self {
        Self { engine: UpdateEngine::HashTable, slots: Slots::Fixed(slots), name }
    }

    /// The paper's, with one hash table that is at most half full.
    pub(crate) const fn large_table(name: &'static str) -> Self {
        Self { engine: UpdateEngine::HashTable, slots: Slots::TwiceTheBatch, name }
    }

    /// Whether it can process a batch.
    pub(crate) fn takes<V: Word>(&self, count: usize) -> bool {
        let fits = !matches!(self.slots, Slots::Fixed(slots) if slots < count);
        fits && (self.engine != UpdateEngine::Sequence || V::BITS == 32)
    }

    /// Its memory for such a batch.
    pub(crate) fn scratch(&self, device: &Device, count: usize) -> Result<ChangeScratch> {
        let scratch = ChangeScratch::for_updates(device, count, self.engine)?;
        Ok(match self.slots {
            Slots::Pieces => scratch,
            Slots::Fixed(slots) => scratch.one_table(slots)?,
            Slots::TwiceTheBatch => scratch.one_table(2 * count)?,
        })
    }
}

/// Keys that are looked up after an engine's runs, in addition to the batch's keys.
const OTHERS: usize = 1 << 20;

/// The rows of the engines that can take such a batch, and of look-ups, in a table of that name; each engine as `update`
/// calls it, given its number. The ratio is to the look-ups.
///
/// No run writes what another one wrote. After an engine's runs the batch's keys have the values of its last run, and
/// other keys the values that they had.
pub(crate) fn measured<V: Word>(
    session: &mut Session,
    subject: &mut Subject<V>,
    (table, engines): (&'static str, &[Engine]),
    count: usize,
    update: impl Fn(usize, &mut Cuart<V>, &Stream, (&DeviceKeys, &Buffer<V>), &mut ChangeScratch) -> Result<()>,
) -> Result<()> {
    let data = subject.data;
    let bytes = data.bytes(count, |query| data.query(1, query));
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let last = LastWriters::new(&data, 1, count);
    let others = OTHERS.min(data.len);
    let bytes = data.bytes(others, |query| data.query(2, query));
    let other_keys = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let mut values = session.device.alloc::<V>(count)?;
    let mut host = vec![V::zeroed(); count];
    let mut out = session.device.alloc::<V>(count.max(others))?;
    let mut run = 0;
    // Look-ups follow the first update, so that there is something to find; the updates are compared with them.
    let mut get: Option<f64> = None;
    for (number, engine) in engines.iter().enumerate().filter(|(_, engine)| engine.takes::<V>(count)) {
        let name = engine.name;
        let mut state = (&mut subject.tree, engine.scratch(&session.device, count)?, &mut values);
        let timing = session.time_on_stream(
            &mut state,
            |(_, _, values)| {
                run += 1;
                host.par_iter_mut().enumerate().for_each(|(query, value)| *value = written(run, query as u64));
                Ok(values.copy_from(&host)?)
            },
            |(tree, scratch, values)| update(number, tree, &session.stream, (&batch, values), scratch),
        )?;
        drop(state);
        let of_key = |key: u64| last.of(key).map_or(V::truncate(key + 1), |query| written(run, query));
        let expected = |query: usize| of_key(data.query(1, query));
        if get.is_none() {
            get = Some(get_row(session, subject, table, &batch, &mut out, &expected)?);
        } else {
            session.poison(&mut out)?;
            subject.tree.on(&session.stream).get(&batch, &mut out)?;
            session.stream.synchronize()?;
        }
        let checksum = session.check(&name, "values", &out, count, V::MAX, expected)?;
        session.poison(&mut out)?;
        subject.tree.on(&session.stream).get(&other_keys, &mut out)?;
        session.stream.synchronize()?;
        session.check(&name, "values of other keys", &out, others, V::MAX, |query| of_key(data.query(2, query)))?;
        let mut row = subject.row(session, table, name, count, timing, checksum);
        row.set("ratio_to_baseline", get.map(|get| row.giga_per_second / get));
        session.push(row);
    }
    Ok(())
}

fn get_row<V: Word>(
    session: &mut Session,
    subject: &Subject<V>,
    table: &'static str,
    batch: &DeviceKeys,
    out: &mut Buffer<V>,
    expected: &(impl Fn(usize) -> V + Sync),
) -> Result<f64> {
    let on = || subject.tree.on(&session.stream);
    let timing = session.time_call(out, |out| on().get(batch, out))?;
    let checksum = session.check(&"get", "values", out, batch.len(), V::MAX, expected)?;
    let mut row = subject.row(session, table, "get", batch.len(), timing, checksum);
    row.set("ratio_to_baseline", 1.0);
    let rate = row.giga_per_second;
    session.push(row);
    Ok(rate)
}
