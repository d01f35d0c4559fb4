//! Updates beside look-ups of as many keys (the paper's figures 15 to 17), inserts and removals.

use super::data::{Data, keys};
use super::{Subject, len, lookups};
use crate::bench::error::Result;
use crate::bench::report::{Row, Section};
use crate::bench::session::Session;
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Buffer, Cuart, DeviceKeys, Stream, Word};
use rayon::prelude::*;

/// Sizes of the batches, as powers of two.
const BATCHES: [u32; 6] = [14, 16, 18, 20, 22, 24];

/// The engines, each with its name.
const ENGINES: [(UpdateEngine, &str); 5] = [
    (UpdateEngine::Auto, "update"),
    (UpdateEngine::HashTable, "update, hash table (the paper's)"),
    (UpdateEngine::Stamps, "update, stamps"),
    (UpdateEngine::Sequence, "update, sequence"),
    (UpdateEngine::Sort, "update, sort"),
];

/// By batch and engine, of keys of 8 and 32 bytes.
pub(in crate::bench) fn updates(session: &mut Session) -> Result<()> {
    if !session.runs_kernels() {
        session.skip("figure cuart-updates: skipped: no GPU (--device emulated runs its kernels, slowly)");
        return Ok(());
    }
    let len = len(session);
    for width in [8, 32] {
        let data = Data::new(width, len, session.seed);
        of_words::<u32>(session, data)?;
        of_words::<u64>(session, data)?;
        lookups::with_grt(session, data)?;
    }
    Ok(())
}

fn of_words<V: Word>(session: &mut Session, data: Data) -> Result<()> {
    let mut subject = Subject::<V>::build(session, data)?;
    let most = session.plan.queries;
    for batch in BATCHES.into_iter().filter(|&batch| batch <= most) {
        let what = format!("updates, {} keys of {} bytes, batch 2^{batch}", data.len, data.width);
        if session.has_time(&what) {
            of_batch(session, &mut subject, 1 << batch)?;
        }
    }
    Ok(())
}

/// Keys that are looked up after an engine's runs, beside those of the batch.
const OTHERS: usize = 1 << 20;

fn of_batch<V: Word>(session: &mut Session, subject: &mut Subject<V>, count: usize) -> Result<()> {
    measured(session, subject, count, |_, tree, stream, (batch, values), scratch| {
        Ok(tree.update_on(stream, batch, values, None, scratch)?)
    })
}

/// The engines' rows; each of them as `update` calls it, given its number.
///
/// No run writes what another one wrote. After an engine's runs the values of the batch's keys are those of its last
/// run, and those of other keys what they were.
fn measured<V: Word>(
    session: &mut Session,
    subject: &mut Subject<V>,
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
    // The look-ups come behind an update, for what is to be found; they are what the others are compared with.
    let mut get: Option<f64> = None;
    for (number, (engine, name)) in ENGINES.into_iter().enumerate() {
        let of_32_bits_only = engine == UpdateEngine::Sequence;
        if of_32_bits_only && V::BITS != 32 {
            continue;
        }
        let mut state = (&mut subject.tree, ChangeScratch::for_updates(&session.device, count, engine)?, &mut values);
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
            get = Some(get_row(session, subject, &batch, &mut out, &expected)?);
        } else {
            session.poison(&mut out)?;
            subject.tree.on(&session.stream).get(&batch, &mut out, None, V::MAX)?;
            session.stream.synchronize()?;
        }
        let checksum = session.check(&name, "values", &out, count, V::MAX, expected)?;
        session.poison(&mut out)?;
        subject.tree.on(&session.stream).get(&other_keys, &mut out, None, V::MAX)?;
        session.stream.synchronize()?;
        session.check(&name, "values of other keys", &out, others, V::MAX, |query| of_key(data.query(2, query)))?;
        let mut row = subject.row(session, Section::CuartUpdates, ("cuart", name.into()), count, timing, checksum);
        row.ratio_to_baseline = get.map(|get| row.giga_per_second / get);
        session.push(row);
    }
    Ok(())
}

/// What a run, from 1 on, writes for an operation of its batch: in both halves of a wide value.
pub(super) fn written<V: Word>(run: u64, query: u64) -> V {
    V::truncate((run << 24 | query).wrapping_mul(1 << 32 | 1))
}

fn get_row<V: Word>(
    session: &mut Session,
    subject: &Subject<V>,
    batch: &DeviceKeys,
    out: &mut Buffer<V>,
    expected: &(impl Fn(usize) -> V + Sync),
) -> Result<f64> {
    let on = subject.tree.on(&session.stream);
    let timing = session.time_on_stream(out, |out| session.poison(out), |out| Ok(on.get(batch, out, None, V::MAX)?))?;
    let checksum = session.check(&"get", "values", out, batch.len(), V::MAX, expected)?;
    let parts = ("cuart", "get".to_owned());
    let mut row = subject.row(session, Section::CuartUpdates, parts, batch.len(), timing, checksum);
    row.ratio_to_baseline = Some(1.0);
    let rate = row.giga_per_second;
    session.push(row);
    Ok(rate)
}

/// For each key of a tree, the last query of a batch that is of it.
pub(super) struct LastWriters(Vec<u32>);

impl LastWriters {
    /// Of fewer than 2^32 queries.
    pub(super) fn new(data: &Data, batch: u64, count: usize) -> Self {
        let mut last = vec![u32::MAX; data.len];
        for query in 0..count {
            last[data.query(batch, query) as usize] = query as u32;
        }
        Self(last)
    }

    /// The number of the query, if there is one.
    pub(super) fn of(&self, key: u64) -> Option<u64> {
        let query = self.0[key as usize];
        (query != u32::MAX).then_some(u64::from(query))
    }
}

/// Inserts of keys that are not there, and their removal.
pub(in crate::bench) fn inserts(session: &mut Session) -> Result<()> {
    if !session.runs_kernels() {
        session.skip("figure cuart-inserts: skipped: no GPU (--device emulated runs its kernels, slowly)");
        return Ok(());
    }
    let n = 1 << session.plan.main_size();
    for width in [8, 32] {
        let data = Data::new(width, n, session.seed);
        let mut subject = Subject::<u32>::build(session, data)?;
        let most = session.plan.queries.min(22);
        for batch in [14, 16, 18, 20, 22].into_iter().filter(|&batch| batch <= most) {
            if session.has_time(format_args!("inserts, {width} bytes, batch 2^{batch}")) {
                of_new_keys(session, &mut subject, 1 << batch)?;
            }
        }
    }
    Ok(())
}

/// What inserts and removals work with.
struct State<'a> {
    tree: &'a mut Cuart<u32>,
    scratch: ChangeScratch,
    batch: DeviceKeys,
    values: Buffer<u32>,
}

impl State<'_> {
    fn insert(&mut self, session: &Session) -> Result<()> {
        self.tree.insert_on(&session.stream, &self.batch, &self.values, &mut self.scratch)?;
        // The values are written after it returns.
        Ok(session.stream.synchronize()?)
    }

    fn remove(&mut self, session: &Session) -> Result<()> {
        self.tree.remove_on(&session.stream, &self.batch)?;
        Ok(())
    }
}

fn of_new_keys(session: &mut Session, subject: &mut Subject<u32>, count: usize) -> Result<()> {
    let data = subject.data;
    let bytes = data.bytes(count, |i| (data.len + i) as u64);
    let values: Vec<u32> = (0..count as u32).map(|i| i + 1).collect();
    let mut state = State {
        batch: DeviceKeys::upload(&session.device, keys(data.width, &bytes))?,
        values: session.device.upload(&values)?,
        scratch: ChangeScratch::for_inserts(&session.device, count, UpdateEngine::Auto)?,
        tree: &mut subject.tree,
    };
    let mut failed = Ok(());
    let prepare = |state: &mut State<'_>, failed: &mut Result<()>, remove: bool| {
        let done = if remove { state.remove(session) } else { state.insert(session) };
        if let (Ok(()), Err(error)) = (&failed, done) {
            *failed = Err(error);
        }
    };
    let inserting =
        session.time_on_cpu(&mut state, |state| prepare(state, &mut failed, true), |it| it.insert(session))?;
    let mut out = session.device.alloc::<u32>(count)?;
    state.tree.on(&session.stream).get(&state.batch, &mut out, None, 0)?;
    session.stream.synchronize()?;
    let (len, all) = (state.tree.len(), (data.len + count) as u64);
    session.expect(&"insert", "len", len, all)?;
    let inserted = session.check(&"insert", "values", &out, count, 0, |i| i as u32 + 1)?;
    let removing =
        session.time_on_cpu(&mut state, |state| prepare(state, &mut failed, false), |it| it.remove(session))?;
    state.tree.on(&session.stream).get(&state.batch, &mut out, None, 7)?;
    session.stream.synchronize()?;
    session.expect(&"remove", "len", state.tree.len(), data.len as u64)?;
    let removed = session.check(&"remove", "values", &out, count, 7, |_| 7)?;
    failed?;
    let rows = [("insert", inserting, inserted), ("remove", removing, removed)].map(|(operation, timing, checksum)| {
        let parts = ("cuart", operation.to_owned());
        let mut row: Row = subject.row(session, Section::CuartInserts, parts, count, timing, checksum);
        row.hit_rate = None;
        row
    });
    rows.into_iter().for_each(|row| session.push(row));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::error::Error;
    use crate::bench::session::tests::session;
    use lanetree::Device;

    /// What comes of measuring with an engine that does its work in `update`, the third one.
    fn with_third<V: Word>(
        update: impl Fn(&mut Cuart<V>, &Stream, (&DeviceKeys, &Buffer<V>), &mut ChangeScratch) -> Result<()>,
    ) -> Result<()> {
        let mut session = session(Device::emulated(), &[Section::CuartUpdates]);
        let data = Data::new(8, 300, session.seed);
        let mut subject = Subject::<V>::build(&mut session, data)?;
        measured(&mut session, &mut subject, 1 << 8, |number, tree, stream, (batch, values), scratch| match number {
            2 => update(tree, stream, (batch, values), scratch),
            _ => Ok(tree.update_on(stream, batch, values, None, scratch)?),
        })
    }

    fn is_found(outcome: Result<()>, what: &str) {
        match outcome {
            Err(Error::Wrong { row, what: found, .. }) => assert_eq!((&*row, found), ("update, stamps", what)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_engine_is_checked_by_what_it_alone_writes() {
        with_third::<u64>(|tree, stream, (batch, values), scratch| {
            Ok(tree.update_on(stream, batch, values, None, scratch)?)
        })
        .unwrap();
        is_found(with_third::<u32>(|_, _, _, _| Ok(())), "values");
        is_found(with_third::<u64>(|_, _, _, _| Ok(())), "values");
    }

    #[test]
    fn an_engine_that_changes_other_keys_is_found() {
        let outcome = with_third::<u32>(|tree, stream, (batch, values), scratch| {
            tree.update_on(stream, batch, values, None, scratch)?;
            // Every key of the tree, those of the batch but the first few among them, and then the batch again.
            let data = Data::new(8, 300, 1);
            let all = DeviceKeys::upload(tree.device(), keys(8, &data.all()))?;
            let sevens = tree.device().upload(&[7_u32; 300])?;
            let mut more = ChangeScratch::for_updates(tree.device(), 300, UpdateEngine::Auto)?;
            tree.update_on(stream, &all, &sevens, None, &mut more)?;
            Ok(tree.update_on(stream, batch, values, None, scratch)?)
        });
        is_found(outcome, "values of other keys");
    }

    #[test]
    fn no_two_runs_write_the_same() {
        let both = |run, query| (written::<u32>(run, query), written::<u64>(run, query));
        for (run, query) in [(1, 0), (1, 1), (2, 0), (30, (1 << 24) - 1)] {
            let (narrow, wide) = both(run, query);
            assert_eq!((wide as u32, (wide >> 32) as u32), (narrow, narrow));
            assert!(narrow != 0 && narrow != u32::MAX);
        }
        assert_ne!(both(1, 5).0, both(2, 5).0);
    }
}
