//! What the order of a CUBPT tree costs: look-ups, batches of inserts and of removals.

use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::{Scale, main_of};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cubpt::{BuildScratch, Builder, UpdateScratch};
use lanetree::{Batch, Buffer, Cubpt, DeviceKind, OpKind, Pool, Stream};
use lanetree_base::parallel::*;

pub(crate) const FIGURE: Measurement = Measurement::new("cubpt-orders", Run::Alone(measure));

/// The orders, fills, and sizes of batches as powers of two, that are measured on a device.
fn plan(Scale { kind, quick, .. }: Scale) -> (&'static [u32], &'static [f64], &'static [u32]) {
    match (kind, quick) {
        (DeviceKind::Emulated, _) => (&[8, 40], &[1.0], &[4]),
        (_, true) => (&[32], &[0.7], &[22]),
        (_, false) => (&[8, 16, 24, 32, 64, 128, 256, 512], &[1.0, 0.7], &[16, 20, 22]),
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = 1_usize << main_of(&request.sizes);
    let (orders, fills, batches) = plan(session.plan.scale);
    let seed = session.seed;
    // All different, since `mix` maps no two words to one.
    let key = move |place: usize| mix(seed ^ place as u64);
    let mut keys: Vec<u64> = (0..len).into_par_iter().map(key).collect();
    let upload = |session: &Session, keys: &[u64]| -> Result<Pairs> {
        let values: Vec<u64> = keys.par_iter().map(|&key| value_of(key)).collect();
        Ok((session.device.upload(keys)?, session.device.upload(&values)?))
    };
    let unsorted = upload(session, &keys)?;
    sort_unstable_by(&mut keys, Ord::cmp);
    let sorted = upload(session, &keys)?;
    for &order in orders {
        for &fill in fills {
            let what = format!("order {order}, fill {fill}, n = {len}");
            if !session.has_time(&what) {
                continue;
            }
            let builder = Cubpt::<u64, u64>::builder().fanout(order).fill(fill);
            let label = move |row: Row, index: &Cubpt<u64, u64>| {
                let row = row.over(len, "u64", "u64", "uniform").with("order", u64::from(order)).with("fill", fill);
                row.with("bytes_per_key", index.bytes() as f64 / len as f64)
            };
            if fill == fills[0] {
                build(session, &builder, &unsorted, &keys, &what, &label, false)?;
            }
            let mut index = build(session, &builder, &sorted, &keys, &what, &label, true)?;
            if fill == fills[0] {
                let query = |query| key(mix(seed ^ 1 ^ query as u64) as usize % len);
                look_ups(session, &index, &what, &label, query)?;
            }
            for count in batches.iter().map(|&batch| 1_usize << batch).filter(|&count| count <= len) {
                batches_of(session, &mut index, &what, &label, count, |place| key(len + place))?;
            }
        }
    }
    Ok(())
}

/// Keys and values on the device.
type Pairs = (Buffer<u64>, Buffer<u64>);

/// What is said of every row about a tree.
type Label<'a> = &'a dyn Fn(Row, &Cubpt<u64, u64>) -> Row;

/// A build from pairs on the device, and the tree.
fn build(
    session: &mut Session,
    builder: &Builder<u64, u64>,
    pairs: &Pairs,
    keys: &[u64],
    what: &str,
    label: Label<'_>,
    is_sorted: bool,
) -> Result<Cubpt<u64, u64>> {
    let mut scratch = match is_sorted {
        true => BuildScratch::for_sorted(&session.device)?,
        false => BuildScratch::for_unsorted(&session.device, keys.len())?,
    };
    let (timing, tree) = session.time_making(|| match is_sorted {
        true => builder.build_sorted_on(&session.stream, &pairs.0, &pairs.1, keys.len(), &mut scratch),
        false => builder.build_on(&session.stream, &pairs.0, &pairs.1, keys.len(), &mut scratch),
    })?;
    drop(scratch);
    let found = tree.get_many(keys)?;
    let checksum = session.check_found(&what, &found, keys.len(), miss(), |i| value_of(keys[i]))?;
    let operation = if is_sorted { "build_sorted_on" } else { "build_on" };
    let row = Row::new(FIGURE.name, "cubpt", operation, keys.len(), timing, checksum).on(session.device_name());
    session.push(label(row, &tree));
    Ok(tree)
}

fn look_ups(
    session: &mut Session,
    index: &Cubpt<u64, u64>,
    what: &str,
    label: Label<'_>,
    query: impl Fn(usize) -> u64 + Sync,
) -> Result<()> {
    let count: usize = 1 << session.plan.queries;
    let queries: Vec<u64> = (0..count).into_par_iter().map(&query).collect();
    let (queries, mut out) = (session.device.upload(&queries)?, session.device.alloc(count)?);
    let timing = session.time_call(&mut out, |out| index.on(&session.stream).miss(miss()).get(&queries, out))?;
    let checksum = session.check(&what, "values", &out, count, miss(), |i| value_of(query(i)))?;
    let row = Row::new(FIGURE.name, "cubpt", "get", count, timing, checksum).on(session.device_name());
    session.push(label(row, index));
    Ok(())
}

/// A tree, and a batch of new keys on the device.
struct State<'a> {
    index: &'a mut Cubpt<u64, u64>,
    stream: &'a Stream,
    keys: Buffer<u64>,
    values: Buffer<u64>,
    /// Kinds of operations: to remove the keys.
    removals: Buffer<OpKind>,
    scratch: UpdateScratch<u64>,
}

impl State<'_> {
    fn apply(&mut self, is_insert: bool) -> lanetree::Result<()> {
        let kinds = Some(&self.removals).filter(|_| !is_insert);
        self.index.apply_on(
            self.stream,
            Batch { kinds, ..Batch::inserts(&self.keys, &self.values) },
            &mut self.scratch,
        )?;
        self.index.merge_small(self.stream, &mut self.scratch)
    }
}

fn batches_of(
    session: &mut Session,
    index: &mut Cubpt<u64, u64>,
    what: &str,
    label: Label<'_>,
    count: usize,
    key: impl Fn(usize) -> u64 + Sync,
) -> Result<()> {
    let keys: Vec<u64> = (0..count).into_par_iter().map(&key).collect();
    let values: Vec<u64> = keys.par_iter().map(|&key| value_of(key)).collect();
    let stream = session.device.stream()?;
    let pool = Pool::new(&session.device);
    let mut state = State {
        index,
        stream: &stream,
        keys: session.device.upload(&keys)?,
        values: session.device.upload(&values)?,
        removals: session.device.upload(&vec![OpKind::REMOVE; count])?,
        scratch: UpdateScratch::new(&pool.device(), count)?,
    };
    for is_insert in [true, false] {
        let timing =
            session.time_prepared(&mut state, |it| Ok(it.apply(!is_insert)?), |it| Ok(it.apply(is_insert)?))?;
        let found = state.index.get_many(&keys)?;
        let expected = |i: usize| if is_insert { value_of(keys[i]) } else { miss() };
        let checksum = session.check_found(&what, &found, count, miss(), expected)?;
        let operation = if is_insert { "insert" } else { "remove" };
        let row = Row::new(FIGURE.name, "cubpt", operation, count, timing, checksum).on(session.device_name());
        session.push(label(row, state.index));
    }
    Ok(())
}
