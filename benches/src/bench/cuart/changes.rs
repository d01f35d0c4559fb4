//! Updates beside look-ups of as many keys (the paper's figures 15 to 17), inserts and removals.

use super::data::{Data, keys};
use super::{Subject, len, lookups};
use crate::bench::error::Result;
use crate::bench::report::{Row, Section};
use crate::bench::session::Session;
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Buffer, Cuart, DeviceKeys, Word};

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

fn of_batch<V: Word>(session: &mut Session, subject: &mut Subject<V>, count: usize) -> Result<()> {
    let data = subject.data;
    let bytes = data.bytes(count, |query| data.query(1, query));
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let last = last_writers(&data, 1, count);
    let expected = |query: usize| V::truncate(last(query));
    let values: Vec<V> = (0..count as u64).map(V::truncate).collect();
    let values = session.device.upload(&values)?;
    let mut out = session.device.alloc::<V>(count)?;
    // The look-ups come behind an update, for what is to be found; they are what the others are compared with.
    let mut get: Option<f64> = None;
    for (engine, name) in ENGINES {
        let of_32_bits_only = engine == UpdateEngine::Sequence;
        if of_32_bits_only && V::BITS != 32 {
            continue;
        }
        let mut state = (&mut subject.tree, ChangeScratch::for_updates(&session.device, count, engine)?);
        let timing = session.time_on_stream(
            &mut state,
            |_| Ok(()),
            |(tree, scratch)| Ok(tree.update_on(&session.stream, &batch, &values, None, scratch)?),
        )?;
        drop(state);
        if get.is_none() {
            get = Some(get_row(session, subject, &batch, &mut out, &expected)?);
        } else {
            session.poison(&mut out)?;
            subject.tree.on(&session.stream).get(&batch, &mut out, None, V::MAX)?;
            session.stream.synchronize()?;
        }
        let checksum = session.check(&name, "values", &out, count, V::MAX, expected)?;
        let mut row = subject.row(session, Section::CuartUpdates, ("cuart", name.into()), count, timing, checksum);
        row.ratio_to_baseline = get.map(|get| row.giga_per_second / get);
        session.push(row);
    }
    Ok(())
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

/// For each query of a batch, the last one of the same key.
pub(super) fn last_writers(data: &Data, batch: u64, count: usize) -> impl Fn(usize) -> u64 + Sync + use<> {
    let mut last = vec![0_u32; data.len];
    for query in 0..count {
        last[data.query(batch, query) as usize] = query as u32;
    }
    let data = *data;
    move |query| u64::from(last[data.query(batch, query) as usize])
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
    let inserted = session.check(&"insert", "values", &out, count, 0, |i| i as u32 + 1)?;
    let removing =
        session.time_on_cpu(&mut state, |state| prepare(state, &mut failed, false), |it| it.remove(session))?;
    state.tree.on(&session.stream).get(&state.batch, &mut out, None, 7)?;
    session.stream.synchronize()?;
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
