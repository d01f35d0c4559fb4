//! Inserts of new keys, and their removal.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::subject::Subject;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::session::Session;
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Buffer, Cuart, DeviceKeys};

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-inserts", Run::Alone(inserts));

/// Inserts of keys that are not there, and their removal.
fn inserts(session: &mut Session, request: &Request) -> Result<()> {
    let n = 1 << main_of(&request.sizes);
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
    let inserting = session.time_prepared(&mut state, |it| it.remove(session), |it| it.insert(session))?;
    let mut out = session.device.alloc::<u32>(count)?;
    state.tree.on(&session.stream).miss(0).get(&state.batch, &mut out)?;
    session.stream.synchronize()?;
    let (len, all) = (state.tree.len(), (data.len + count) as u64);
    session.expect(&"insert", "len", len, all)?;
    let inserted = session.check(&"insert", "values", &out, count, 0, |i| i as u32 + 1)?;
    let removing = session.time_prepared(&mut state, |it| it.insert(session), |it| it.remove(session))?;
    state.tree.on(&session.stream).miss(7).get(&state.batch, &mut out)?;
    session.stream.synchronize()?;
    session.expect(&"remove", "len", state.tree.len(), data.len as u64)?;
    let removed = session.check(&"remove", "values", &out, count, 7, |_| 7)?;
    let rows = [("insert", inserting, inserted), ("remove", removing, removed)].map(|(operation, timing, checksum)| {
        let mut row = subject.row(session, FIGURE.name, operation, count, timing, checksum);
        row.set("hit_rate", None::<f64>);
        row
    });
    rows.into_iter().for_each(|row| session.push(row));
    Ok(())
}
