//! One index, and the same pairs in several shards: on its device, and on all GPUs of the host.

use crate::bench::columns::{BATCH, Column, DEVICE, Format, HITS, INDEX, MS, N, OPERATION, ORDER, RATE};
use crate::bench::data::{Batch, Data, Order, miss, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::plan::main_of;
use crate::bench::queries::hit_rate;
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::{Device, DeviceKind, KeyRange, LaneTree, OrderedIndex, Sharded};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) static FIGURE: Figure = Figure {
    name: "sharded",
    about: "LaneTree in shards: on one device, and on all GPUs of the host",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "sharded",
    title: "One index over several devices",
    columns: &[
        INDEX,
        DEVICE,
        Column::extra("shards", "shards", Format::Plain),
        Column::extra("devices", "devices", Format::Plain),
        N,
        OPERATION,
        ORDER,
        HITS,
        BATCH,
        MS,
        RATE,
    ],
    clock: Clock::Calls,
    notes: &[
        "Batches in ordinary host memory, new vectors of results there, by the CPU's clock from the call to its return.",
        "lanetree: one index, without shards. Ranges begin at present keys. Inserts: of new keys only, which are removed again",
        "before the next run.",
    ],
    summary: None,
};

/// Pairs of a range.
const LENGTH: usize = 8;

/// Inserts, as an exponent of two, unless the index or the batch of queries is smaller.
const INSERTS: u32 = 22;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    let tree = LaneTree::<u64, u64>::builder();
    let inserts = 1 << INSERTS.min(size).min(session.plan.queries);
    if session.has_time("one index") {
        let index = tree.build(&session.device, &data.keys, &data.values)?;
        Subject { data: &data, name: "lanetree", shards: 1, devices: 1, index }.measure(session, inserts)?;
    }
    let one = session.device.clone();
    let mut on = vec![vec![one.clone(); 2], vec![one.clone(); 4]];
    let all = devices(&one);
    // Two at first, and then all.
    on.extend((all.len() >= 2).then(|| all[..2].to_vec()));
    on.extend((all.len() > 2).then(|| all.clone()));
    if all.len() < 2 {
        session.skip("shards on several devices: there is one");
    }
    for devices in on {
        let count = if devices[0] == devices[1] { 1 } else { devices.len() };
        if session.has_time(format_args!("{} shards on {count} devices", devices.len())) {
            let index = Sharded::build(&devices, tree, &data.keys, &data.values)?;
            let (shards, devices) = (devices.len() as u64, count as u64);
            Subject { data: &data, name: "sharded", shards, devices, index }.measure(session, inserts)?;
        }
    }
    Ok(())
}

/// The device, and all other GPUs of the host if it is one.
fn devices(first: &Device) -> Vec<Device> {
    let mut all = vec![first.clone()];
    if first.kind() == DeviceKind::Cuda {
        let gpus = (0..64).map_while(|ordinal| Device::cuda(ordinal).ok());
        all.extend(gpus.filter(|gpu| gpu != first));
    }
    all
}

struct Subject<'a, I> {
    data: &'a Data<u64>,
    name: &'static str,
    shards: u64,
    devices: u64,
    index: I,
}

impl<I: OrderedIndex<Domain = u64, Value = u64>> Subject<'_, I> {
    fn row(&self, session: &Session, operation: &str, batch: usize, timing: Timing, checksum: Checksum) -> Row {
        let row = Row::new(TABLE.name, self.name, operation, batch, timing, checksum).on(session.device_name());
        self.data.label(row).with("shards", self.shards).with("devices", self.devices)
    }

    fn measure(mut self, session: &mut Session, inserts: usize) -> Result<()> {
        for order in [Order::Random, Order::Sorted] {
            let Some(sorted) = self.data.sorted_batch(1 << session.plan.queries, false, session.seed) else {
                return Ok(());
            };
            self.queries(session, &sorted.ordered(order, session.seed), order)?;
        }
        self.inserts(session, inserts)
    }

    /// All hits.
    fn queries(&self, session: &mut Session, batch: &Batch<u64>, order: Order) -> Result<()> {
        let (keys, count) = (&batch.queries, batch.queries.len());
        let with_order = |row: Row| row.with("order", order.name()).with("hit_rate", hit_rate(false));

        let (timing, found) = timed(session, || Ok(self.index.get_many(keys)?))?;
        let values: Vec<u64> = found.into_par_iter().map(|value| value.unwrap_or(miss())).collect();
        let checksum = session.check_slice(&"get_many", "values", &values, 0..count, miss(), |i| batch.value(i))?;
        let row = with_order(self.row(session, "get_many", count, timing, checksum));
        session.push(row);

        let (timing, found) = timed(session, || Ok(self.index.predecessor_many(keys)?))?;
        let values: Vec<u64> = found.into_par_iter().map(|pair| pair.map_or(miss(), |pair| pair.1)).collect();
        let checksum =
            session.check_slice(&"predecessor_many", "values", &values, 0..count, miss(), |i| batch.value(i))?;
        let row = with_order(self.row(session, "predecessor_many", count, timing, checksum));
        session.push(row);

        if self.data.len() < LENGTH {
            return Ok(());
        }
        let count = (count / LENGTH).max(1);
        let ranks: Vec<usize> = batch.first_ranks(self.data.len() - LENGTH).into_iter().take(count).collect();
        let range = |&rank: &usize| KeyRange::new(self.data.keys[rank]..).limit(LENGTH as u64);
        let ranges: Vec<KeyRange<u64>> = ranks.iter().map(range).collect();
        let (timing, found) = timed(session, || Ok(self.index.range_many(&ranges)?))?;
        let value = |i: usize| self.data.values[ranks[i / LENGTH] + i % LENGTH];
        let all = 0..count * LENGTH;
        let checksum = session.check_slice(&"range_many", "values", &found.values, all, miss(), value)?;
        let row = with_order(self.row(session, &format!("range_many of {LENGTH}"), count, timing, checksum));
        session.push(row);
        Ok(())
    }

    /// New keys, in random order.
    fn inserts(&mut self, session: &mut Session, inserts: usize) -> Result<()> {
        let Some(batch) = self.data.sorted_batch(2 * inserts, true, session.seed ^ 1) else { return Ok(()) };
        let batch = batch.ordered(Order::Random, session.seed);
        let mut keys: Vec<u64> = (batch.queries.iter().zip(&batch.origins))
            .filter_map(|(&key, origin)| origin.is_miss().then_some(key))
            .take(inserts)
            .collect();
        // Few are drawn twice, and those make the last ones fewer.
        let mut seen = std::collections::HashSet::with_capacity(keys.len());
        keys.retain(|&key| seen.insert(key));
        let (count, values) = (keys.len(), keys.iter().map(|&key| value_of(key)).collect::<Vec<u64>>());
        let mut inserted = 0;
        let index = core::cell::RefCell::new(&mut self.index);
        let mut prepared = Ok(());
        let timing = session.time_on_cpu(
            &mut inserted,
            |_| prepared = index.borrow_mut().remove_many(&keys).map(drop),
            |inserted| {
                *inserted = index.borrow_mut().insert_many(&keys, &values)?.inserted;
                Ok(())
            },
        )?;
        prepared?;
        session.expect(&"insert_many", "inserted", inserted, count as u64)?;
        let found = self.index.get_many(&keys)?.into_iter().map(|value| value.unwrap_or(miss()));
        let found: Vec<u64> = found.collect();
        let checksum = session.check_slice(&"insert_many", "values", &found, 0..count, miss(), |i| values[i])?;
        let row = self.row(session, "insert_many", count, timing, checksum).with("order", Order::Random.name());
        session.push(row);
        Ok(())
    }
}

/// Times a call that makes its result anew, by the CPU's clock; the last result. Each is freed, untimed, before the next call.
fn timed<T: Default>(session: &mut Session, call: impl Fn() -> Result<T>) -> Result<(Timing, T)> {
    let mut result = T::default();
    let timing = session.time_on_cpu(
        &mut result,
        |result| *result = T::default(),
        |result| {
            *result = call()?;
            Ok(())
        },
    )?;
    Ok((timing, result))
}
