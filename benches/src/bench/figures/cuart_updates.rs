//! Updates beside look-ups of the same batches (the paper's figures 15 to 17).

use crate::bench::columns::{BATCH, INDEX, MS, N, OPERATION, RATE, RATIO, SIZE, WORDS};
use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::grt;
use crate::bench::cuart::subject::{Subject, len, queries};
use crate::bench::cuart::writers::{LastWriters, written};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Buffer, Cuart, DeviceKeys, Stream, Word};
use rayon::prelude::*;

pub(crate) static FIGURE: Figure = Figure {
    name: "cuart-updates",
    about: "CuART's paper, figures 15 to 17: updates by batch and engine, beside look-ups and GRT's updates",
    table: Some(&TABLE),
    needs: Needs::Kernels,
    takes: Takes::SIZES,
    run: Run::Alone(updates),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "cuart-updates",
    title: "CuART: updates, batches on the device; n = 26 Mi in the paper's figures",
    columns: &[INDEX, OPERATION, WORDS, N, BATCH, MS, RATE, RATIO.headed("x look-ups"), SIZE],
    clock: Clock::Device,
    notes: &[
        "Of uniform keys with repetitions; the last one in the batch's order stays, which is checked. x look-ups: relative",
        "to look-ups of the same batch. The paper (section 4.5, end to end, RTX 3090): 120 M updates/s, 0.8 x its look-ups;",
        "GRT 13 M/s; the CPU 2.5 M/s.",
    ],
    summary: None,
};

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
fn updates(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    for width in [8, 32] {
        let data = Data::new(width, len, session.seed);
        of_words::<u32>(session, data)?;
        of_words::<u64>(session, data)?;
        grt::beside_updates(session, &data, queries(session), TABLE.name)?;
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
    // Look-ups follow the first update, so that there is something to find; the updates are compared with them.
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
        let mut row = subject.row(session, TABLE.name, ("cuart", name.into()), count, timing, checksum);
        row.set("ratio_to_baseline", get.map(|get| row.giga_per_second / get));
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
    let mut row = subject.row(session, TABLE.name, parts, batch.len(), timing, checksum);
    row.set("ratio_to_baseline", 1.0);
    let rate = row.giga_per_second;
    session.push(row);
    Ok(rate)
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
        let mut session = session(Device::emulated());
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
}
