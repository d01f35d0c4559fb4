//! What the order of a CUBPT tree costs: look-ups, batches of inserts and of removals.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, INDEX, MEGA, MS, N, OPERATION, SIZE, WORDS};
use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::{Cubpt, DeviceKind};
use rayon::prelude::*;
use std::time::Instant;

pub(crate) static FIGURE: Figure = Figure {
    name: "cubpt-orders",
    about: "CUBPT: look-ups, inserts and removals by the order of the tree",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "cubpt-orders",
    title: "CUBPT by the order of its nodes",
    columns: &[
        INDEX,
        DEVICE,
        WORDS,
        N,
        Column::extra("order", "order", Format::Plain),
        OPERATION,
        BATCH,
        MS,
        MEGA,
        SIZE,
        Column::extra("build ms", "build_ms", Format::Digits(1)),
    ],
    clock: Clock::Calls,
    notes: &[
        "get: in device form, random hits, by the device's clock. insert_many, remove_many: of random keys in host memory, by the",
        "CPU's clock, everything included; medians. What a batch inserts is removed before the next one, and the other way",
        "round, untimed. Nodes are full after the build, which is from unsorted pairs in host memory, one run.",
    ],
    summary: None,
};

/// The orders, and the sizes of batches as powers of two, that are measured on a device.
fn plan(kind: DeviceKind) -> (&'static [u32], &'static [u32]) {
    match kind {
        DeviceKind::Emulated => (&[8, 40], &[4]),
        _ => (&[8, 16, 32, 64, 128, 256, 512], &[16, 22]),
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = 1_usize << main_of(&request.sizes);
    let (orders, batches) = plan(session.device.kind());
    for &order in orders {
        let what = format!("order {order}, n = {len}");
        if !session.has_time(&what) {
            continue;
        }
        let seed = session.seed;
        // All different, since `mix` maps no two words to one.
        let key = move |place: usize| mix(seed ^ place as u64);
        let keys: Vec<u64> = (0..len).into_par_iter().map(key).collect();
        let values: Vec<u64> = keys.par_iter().map(|&key| value_of(key)).collect();
        let start = Instant::now();
        let mut index = Cubpt::builder().order(order).build(&session.device, &keys, &values)?;
        let build_ms = start.elapsed().as_secs_f64() * 1e3;
        drop((keys, values));
        let bytes = index.bytes() as f64 / len as f64;
        let label = |row: Row| {
            let row = row.over(len, ("u64", "u64"), "uniform").with("order", u64::from(order));
            row.with("bytes_per_key", bytes).with("build_ms", build_ms)
        };
        look_ups(session, &index, &what, &label, |query| key(mix(seed ^ 1 ^ query as u64) as usize % len))?;
        for count in batches.iter().map(|&batch| 1_usize << batch).filter(|&count| count <= len) {
            batches_of(session, &mut index, &what, &label, count, |place| key(len + place))?;
        }
    }
    Ok(())
}

fn look_ups(
    session: &mut Session,
    index: &Cubpt<u64, u64>,
    what: &str,
    label: &impl Fn(Row) -> Row,
    query: impl Fn(usize) -> u64 + Sync,
) -> Result<()> {
    let count = 1 << session.plan.queries;
    let queries: Vec<u64> = (0..count).into_par_iter().map(&query).collect();
    let (queries, mut out) = (session.device.upload(&queries)?, session.device.alloc(count)?);
    let timing = session.time_on_stream(
        &mut out,
        |out| session.poison(out),
        |out| Ok(index.on(&session.stream).get(&queries, out, None, miss())?),
    )?;
    let checksum = session.check(&what, "values", &out, count, miss(), |i| value_of(query(i)))?;
    let row = Row::new(TABLE.name, "cubpt", "get", count, timing, checksum).on(session.device_name());
    session.push(label(row));
    Ok(())
}

/// A tree, a batch of new keys, and whether the tree has them.
struct State<'a> {
    index: &'a mut Cubpt<u64, u64>,
    keys: Vec<u64>,
    values: Vec<u64>,
    outcome: lanetree::Result<()>,
}

impl State<'_> {
    fn insert(&mut self) -> lanetree::Result<()> {
        self.index.insert_many(&self.keys, &self.values).map(drop)
    }

    fn remove(&mut self) -> lanetree::Result<()> {
        self.index.remove_many(&self.keys).map(drop)
    }
}

fn batches_of(
    session: &mut Session,
    index: &mut Cubpt<u64, u64>,
    what: &str,
    label: &impl Fn(Row) -> Row,
    count: usize,
    key: impl Fn(usize) -> u64 + Sync,
) -> Result<()> {
    let keys: Vec<u64> = (0..count).into_par_iter().map(&key).collect();
    let values = keys.iter().map(|&key| value_of(key)).collect();
    let mut state = State { index, keys, values, outcome: Ok(()) };
    for is_insert in [true, false] {
        let timing = session.time_on_cpu(
            &mut state,
            |state| {
                let done = if is_insert { state.remove() } else { state.insert() };
                state.outcome = core::mem::replace(&mut state.outcome, Ok(())).and(done);
            },
            |state| Ok(if is_insert { state.insert() } else { state.remove() }?),
        )?;
        core::mem::replace(&mut state.outcome, Ok(()))?;
        let found = state.index.get_many(&state.keys)?;
        let found: Vec<u64> = found.into_iter().map(|value| value.unwrap_or(miss())).collect();
        let expected = |i: usize| if is_insert { value_of(state.keys[i]) } else { miss() };
        let checksum = session.check_slice(&what, "values", &found, 0..count, miss(), expected)?;
        let operation = if is_insert { "insert_many" } else { "remove_many" };
        let row = Row::new(TABLE.name, "cubpt", operation, count, timing, checksum).on(session.device_name());
        session.push(label(row));
    }
    Ok(())
}
