//! One index, and the same pairs in several shards: on its device, and on all GPUs of the host.

use crate::bench::data::{Batch, Data, Order, miss, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::link::link;
use crate::bench::output::Output;
use crate::bench::plan::main_of;
use crate::bench::queries::{batch_order, hit_rate};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{
    Buffer, Device, DeviceKind, DeviceRanges, KeyRange, LaneTree, OnDevices, OrderedIndex, PinnedBuffer, RangeScratch,
    Sharded, ShardedUpdateScratch, Stream, lane_tree,
};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::collections::HashMap;

pub(crate) const FIGURE: Measurement = Measurement::new("sharded", Run::Alone(measure));

/// Pairs of a range.
const LENGTH: usize = 8;

/// Inserts, as an exponent of two, unless the index or the batch of queries is smaller.
const INSERTS: u32 = 22;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    let tree = LaneTree::<u64, u64>::builder();
    let inserts = 1 << INSERTS.min(size).min(session.plan.queries);
    let mut bounds = Bounds::default();
    if session.has_time("one index") {
        let index = tree.build(&session.device, &data.keys, &data.values)?;
        let bounds = &mut bounds;
        Subject { data: &data, name: ONE, shards: 1, devices: 1, index, bounds }.measure(session, inserts)?;
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
            bounds.link = if count > 1 { link(session, &devices)? } else { None };
            let (shards, devices, bounds) = (devices.len() as u64, count as u64, &mut bounds);
            Subject { data: &data, name: "sharded", shards, devices, index, bounds }.measure(session, inserts)?;
        }
    }
    Ok(())
}

/// The device, and all other GPUs of the host if it is one; another emulated one if it is emulated.
pub(crate) fn devices(first: &Device) -> Vec<Device> {
    let mut all = vec![first.clone()];
    if first.kind() == DeviceKind::Emulated {
        all.push(Device::emulated_with_seed(11));
    }
    if first.kind() == DeviceKind::Cuda {
        let gpus = (0..64).map_while(|ordinal| Device::cuda(ordinal).ok());
        all.extend(gpus.filter(|gpu| gpu != first));
    }
    all
}

/// What calls are compared with.
#[derive(Default)]
struct Bounds {
    /// The one index's milliseconds, by operation and order.
    one: HashMap<(String, &'static str), f64>,
    /// Bytes that the links take from the first device in a millisecond, and as many to it.
    link: Option<f64>,
}

/// What rows call the one index.
const ONE: &str = "lanetree";

/// The end of the names of operations whose batch is divided among the devices.
const IN_PARTS: &str = ", in parts";

/// Bytes of a query of another device that cross the links: of those there and those back the more. None where main memory or the CPU
/// decide, too.
fn crossing(operation: &str) -> Option<usize> {
    match operation {
        "get" => Some(8),
        "predecessor" | "apply_on" => Some(16),
        "range of 8" => Some(16 * LENGTH),
        "get_many_pinned" => Some(0),
        _ => None,
    }
}

impl Bounds {
    /// Adds to a row how many times as fast as the one index the shards are, and the least time that its search, if divided evenly, and
    /// the links allow. The one index's rows are remembered.
    fn compare(&mut self, row: &mut Row, devices: u64, order: Order) {
        let operation = row.operation.strip_suffix(IN_PARTS).unwrap_or(&row.operation).to_owned();
        let (ms, in_parts) = (row.timing.median_ms, operation.len() < row.operation.len());
        let key = (operation, order.name());
        if row.index == ONE {
            self.one.insert(key, ms);
            return;
        }
        let Some(&one) = self.one.get(&key) else { return };
        row.set("x_one", one / ms);
        let Some((link, bytes)) = self.link.zip(crossing(&key.0)) else { return };
        let devices = devices as f64;
        let sent = row.batch as f64 * (devices - 1.0) / devices * bytes as f64;
        // In parts each device sends queries to the others, and results of theirs.
        let crossing = if in_parts { 2.0 * sent / devices } else { sent };
        let bound = (one / devices).max(crossing / link);
        row.set("bound_ms", bound);
        row.set("of_bound", bound / ms);
    }
}

struct Subject<'a, I> {
    data: &'a Data<u64>,
    name: &'static str,
    shards: u64,
    devices: u64,
    index: I,
    bounds: &'a mut Bounds,
}

/// What one index and several shards have in common beside [`OrderedIndex`].
trait Forms: OrderedIndex<Domain = u64, Value = u64> {
    /// Scratch memory of inserts.
    type Scratch;
    fn scratch(&self, inserts: usize) -> Result<Self::Scratch>;
    /// Has the CPU divide batches in ordinary memory, or not; false if none are divided.
    fn set_divided_by_cpu(&mut self, _: bool) -> bool {
        false
    }
    /// At most [`LENGTH`] pairs from each start on.
    fn range_on(
        &self,
        stream: &Stream,
        order: Order,
        bounds: [&Buffer<u64>; 2],
        out: &mut DeviceRanges<u64, u64>,
    ) -> Result<()>;
    fn insert_on(
        &mut self,
        stream: &Stream,
        inserts: lanetree::Batch<'_, u64, &Buffer<u64>>,
        scratch: &mut Self::Scratch,
    ) -> Result<u64>;
    /// Each once.
    fn devices(&self) -> Vec<Device>;
    fn get_on(&self, stream: &Stream, order: Order, queries: &Buffer<u64>, out: &mut Buffer<u64>) -> Result<()>;
    fn predecessor_on(
        &self,
        stream: &Stream,
        order: Order,
        queries: &Buffer<u64>,
        out: [&mut Buffer<u64>; 2],
    ) -> Result<()>;
    fn get_pinned(&self, queries: &PinnedBuffer<u64>, out: &mut PinnedBuffer<u64>) -> Result<()>;
}

impl Forms for LaneTree<u64, u64> {
    type Scratch = lane_tree::UpdateScratch<u64>;
    fn scratch(&self, inserts: usize) -> Result<Self::Scratch> {
        Ok(lane_tree::UpdateScratch::new(self.device(), inserts)?)
    }
    fn devices(&self) -> Vec<Device> {
        vec![self.device().clone()]
    }
    fn get_on(&self, stream: &Stream, order: Order, queries: &Buffer<u64>, out: &mut Buffer<u64>) -> Result<()> {
        Ok(self.on(stream).order(batch_order(order)).miss(miss()).get(queries, out)?)
    }
    fn predecessor_on(
        &self,
        stream: &Stream,
        order: Order,
        queries: &Buffer<u64>,
        [keys, out]: [&mut Buffer<u64>; 2],
    ) -> Result<()> {
        Ok(self.on(stream).order(batch_order(order)).miss(miss()).predecessor(queries, keys, out)?)
    }
    fn get_pinned(&self, queries: &PinnedBuffer<u64>, out: &mut PinnedBuffer<u64>) -> Result<()> {
        Ok(self.get_many_pinned(queries, miss(), out, None)?)
    }
    fn range_on(
        &self,
        stream: &Stream,
        order: Order,
        bounds: [&Buffer<u64>; 2],
        out: &mut DeviceRanges<u64, u64>,
    ) -> Result<()> {
        let mut scratch = RangeScratch::new(self.device(), bounds[0].len())?;
        Ok(self.on(stream).order(batch_order(order)).limit(LENGTH as u64).range(
            bounds[0],
            bounds[1],
            &mut scratch,
            out,
        )?)
    }
    fn insert_on(
        &mut self,
        stream: &Stream,
        inserts: lanetree::Batch<'_, u64, &Buffer<u64>>,
        scratch: &mut Self::Scratch,
    ) -> Result<u64> {
        Ok(self.apply_on(stream, inserts, scratch)?.inserted)
    }
}

impl Forms for Sharded<LaneTree<u64, u64>> {
    type Scratch = ShardedUpdateScratch<u64, u64>;
    fn scratch(&self, _: usize) -> Result<Self::Scratch> {
        Ok(ShardedUpdateScratch::default())
    }
    fn set_divided_by_cpu(&mut self, by_cpu: bool) -> bool {
        *self.min_staged_mut() = if by_cpu { usize::MAX } else { 1 << 17 };
        true
    }
    fn range_on(
        &self,
        stream: &Stream,
        order: Order,
        bounds: [&Buffer<u64>; 2],
        out: &mut DeviceRanges<u64, u64>,
    ) -> Result<()> {
        Ok(hinted(self, stream, order).limit(LENGTH as u64).range(bounds[0], bounds[1], out)?)
    }
    fn insert_on(
        &mut self,
        stream: &Stream,
        inserts: lanetree::Batch<'_, u64, &Buffer<u64>>,
        scratch: &mut Self::Scratch,
    ) -> Result<u64> {
        Ok(self.apply_on(stream, inserts, scratch)?.inserted)
    }
    fn devices(&self) -> Vec<Device> {
        let mut devices: Vec<Device> = Vec::new();
        for shard in self.stats() {
            if !devices.contains(&shard.device) {
                devices.push(shard.device);
            }
        }
        devices
    }
    fn get_on(&self, stream: &Stream, order: Order, queries: &Buffer<u64>, out: &mut Buffer<u64>) -> Result<()> {
        Ok(hinted(self, stream, order).miss(miss()).get(queries, out)?)
    }
    fn predecessor_on(
        &self,
        stream: &Stream,
        order: Order,
        queries: &Buffer<u64>,
        [keys, out]: [&mut Buffer<u64>; 2],
    ) -> Result<()> {
        Ok(hinted(self, stream, order).miss(miss()).predecessor(queries, keys, out)?)
    }
    fn get_pinned(&self, queries: &PinnedBuffer<u64>, out: &mut PinnedBuffer<u64>) -> Result<()> {
        Ok(self.get_many_pinned(queries, miss(), out, None)?)
    }
}

/// Shards' queries, with the hint of their order.
fn hinted<'a>(
    index: &'a Sharded<LaneTree<u64, u64>>,
    stream: &'a Stream,
    order: Order,
) -> OnDevices<'a, LaneTree<u64, u64>> {
    let on = index.on(stream);
    if order == Order::Sorted { on.sorted() } else { on }
}

/// A part of a batch, on a device.
struct Part {
    stream: Stream,
    /// The number of its first query.
    first: usize,
    queries: Buffer<u64>,
    keys: Buffer<u64>,
    values: Buffer<u64>,
}

impl Part {
    /// Makes the outputs unlike any answer.
    fn clear(&mut self) -> Result<()> {
        self.keys.fill_zero(&self.stream)?;
        self.values.fill_zero(&self.stream)?;
        Ok(self.stream.synchronize()?)
    }
}

impl<I: Forms> Subject<'_, I> {
    /// Batches on the devices.
    fn on_devices(&mut self, session: &mut Session, batch: &Batch<u64>, order: Order) -> Result<()> {
        let devices = self.index.devices();
        self.in_parts(session, "get", &devices[..1], batch, order, |index, part| {
            index.get_on(&part.stream, order, &part.queries, &mut part.values)
        })?;
        self.in_parts(session, "predecessor", &devices[..1], batch, order, |index, part| {
            index.predecessor_on(&part.stream, order, &part.queries, [&mut part.keys, &mut part.values])
        })?;
        if devices.len() > 1 {
            self.in_parts(session, "get, in parts", &devices, batch, order, |index, part| {
                index.get_on(&part.stream, order, &part.queries, &mut part.values)
            })?;
        }
        let count = batch.queries.len();
        let (mut queries, mut out) = (session.device.pinned(count)?, session.device.pinned(count)?);
        queries.copy_from_slice(&batch.queries);
        let timing = session.time_into(&mut out, |out| self.index.get_pinned(&queries, out))?;
        self.push_values(session, "get_many_pinned", order, timing, batch, [(0, &out[..])].into_iter())
    }

    fn in_parts(
        &mut self,
        session: &mut Session,
        operation: &str,
        devices: &[Device],
        batch: &Batch<u64>,
        order: Order,
        call: impl Fn(&I, &mut Part) -> Result<()> + Sync,
    ) -> Result<()> {
        let length = batch.queries.len().div_ceil(devices.len()).max(1);
        let part = |(number, device): (usize, &Device)| {
            let first = (number * length).min(batch.queries.len());
            let queries = &batch.queries[first..(first + length).min(batch.queries.len())];
            let (keys, values) = (device.alloc(queries.len())?, device.alloc(queries.len())?);
            Ok(Part { stream: device.stream()?, first, queries: device.upload(queries)?, keys, values })
        };
        let mut parts = devices.iter().enumerate().map(part).collect::<Result<Vec<_>>>()?;
        let ask = |part: &mut Part| {
            call(&self.index, part)?;
            Ok(part.stream.synchronize()?)
        };
        let timing = session.time_parts(&mut parts, Part::clear, ask)?;
        let values = parts.iter().map(|part| Ok((part.first, part.values.to_vec()?))).collect::<Result<Vec<_>>>()?;
        let values = values.iter().map(|(first, values)| (*first, &values[..]));
        self.push_values(session, operation, order, timing, batch, values)
    }

    /// Checks the parts of the values of a batch, each from an element on.
    fn push_values<'v>(
        &mut self,
        session: &mut Session,
        operation: &str,
        order: Order,
        timing: Timing,
        batch: &Batch<u64>,
        parts: impl Iterator<Item = (usize, &'v [u64])>,
    ) -> Result<()> {
        let mut checksum = Checksum::default();
        for (first, values) in parts {
            let range = first..first + values.len();
            checksum =
                checksum.and(session.check_slice(&operation, "values", values, range, miss(), |i| batch.value(i))?);
        }
        let row = self.row(session, (operation, order), batch.queries.len(), timing, checksum);
        session.push(row.with("hit_rate", hit_rate(false)));
        Ok(())
    }

    fn row(
        &mut self,
        session: &Session,
        (operation, order): (&str, Order),
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let row = Row::new(FIGURE.name, self.name, operation, batch, timing, checksum).on(session.device_name());
        let row = self.data.label(row).with("shards", self.shards).with("devices", self.devices);
        let mut row = row.with("order", order.name());
        self.bounds.compare(&mut row, self.devices, order);
        row
    }

    fn measure(mut self, session: &mut Session, inserts: usize) -> Result<()> {
        for order in [Order::Random, Order::Sorted] {
            let Some(sorted) = self.data.sorted_batch(1 << session.plan.queries, false, session.seed) else {
                return Ok(());
            };
            let batch = sorted.ordered(order, session.seed);
            self.on_devices(session, &batch, order)?;
            self.queries(session, &batch, order)?;
            if order == Order::Random {
                self.divided_by_cpu(session, &batch, order)?;
            }
        }
        self.inserts(session, inserts)
    }

    /// The same look-ups, of which the CPU finds the shards: of several devices only.
    fn divided_by_cpu(&mut self, session: &mut Session, batch: &Batch<u64>, order: Order) -> Result<()> {
        if self.index.devices().len() > 1 && self.index.set_divided_by_cpu(true) {
            self.get_many(session, "get_many: divided by the CPU", batch, order)?;
            self.index.set_divided_by_cpu(false);
        }
        Ok(())
    }

    fn get_many(&mut self, session: &mut Session, operation: &str, batch: &Batch<u64>, order: Order) -> Result<()> {
        let (timing, found) = session.time_making(|| self.index.get_many(&batch.queries))?;
        let values: Vec<u64> = found.into_par_iter().map(|value| value.unwrap_or(miss())).collect();
        self.push_values(session, operation, order, timing, batch, [(0, &values[..])].into_iter())
    }

    /// Ranges whose bounds are on the first device, and whose pairs stay there.
    fn ranges_on_device(&mut self, session: &mut Session, ranks: &[usize], order: Order) -> Result<()> {
        let device = &session.device;
        let stream = device.stream()?;
        let starts: Vec<u64> = ranks.iter().map(|&rank| self.data.keys[rank]).collect();
        let (starts, ends) = (device.upload(&starts)?, device.upload(&vec![u64::MAX; ranks.len()])?);
        let mut out = DeviceRanges::new(device, ranks.len(), ranks.len() * LENGTH)?;
        let timing = session.time_prepared(
            &mut out,
            |out| {
                out.clear(&stream)?;
                Ok(stream.synchronize()?)
            },
            |out| {
                self.index.range_on(&stream, order, [&starts, &ends], out)?;
                Ok(stream.synchronize()?)
            },
        )?;
        let value = |i: usize| self.data.values[ranks[i / LENGTH] + i % LENGTH];
        let (values, all) = (out.values.to_vec()?, 0..ranks.len() * LENGTH);
        let checksum = session.check_slice(&"range", "values", &values, all, miss(), value)?;
        let row = self.row(session, (&format!("range of {LENGTH}"), order), ranks.len(), timing, checksum);
        session.push(row.with("hit_rate", hit_rate(false)));
        Ok(())
    }

    /// All hits.
    fn queries(&mut self, session: &mut Session, batch: &Batch<u64>, order: Order) -> Result<()> {
        let (keys, count) = (&batch.queries, batch.queries.len());

        self.get_many(session, "get_many", batch, order)?;

        let (timing, found) = session.time_making(|| self.index.predecessor_many(keys))?;
        let values: Vec<u64> = found.into_par_iter().map(|pair| pair.map_or(miss(), |pair| pair.1)).collect();
        let checksum =
            session.check_slice(&"predecessor_many", "values", &values, 0..count, miss(), |i| batch.value(i))?;
        let row = self.row(session, ("predecessor_many", order), count, timing, checksum);
        session.push(row.with("hit_rate", hit_rate(false)));

        if self.data.len() < LENGTH {
            return Ok(());
        }
        let count = (count / LENGTH).max(1);
        let ranks: Vec<usize> = batch.first_ranks(self.data.len() - LENGTH).into_iter().take(count).collect();
        self.ranges_on_device(session, &ranks, order)?;
        let range = |&rank: &usize| KeyRange::new(self.data.keys[rank]..).limit(LENGTH as u64);
        let ranges: Vec<KeyRange<u64>> = ranks.iter().map(range).collect();
        let (timing, found) = session.time_making(|| self.index.range_many(&ranges))?;
        let value = |i: usize| self.data.values[ranks[i / LENGTH] + i % LENGTH];
        let all = 0..count * LENGTH;
        let checksum = session.check_slice(&"range_many", "values", &found.values, all, miss(), value)?;
        let row = self.row(session, (&format!("range_many of {LENGTH}"), order), count, timing, checksum);
        session.push(row.with("hit_rate", hit_rate(false)));
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
        let on_device = (session.device.upload(&keys)?, session.device.upload(&values)?);
        let (stream, mut scratch) = (session.device.stream()?, self.index.scratch(count)?);
        for operation in ["insert_many", "apply_on"] {
            let mut state = (&mut self.index, 0);
            let timing = session.time_prepared(
                &mut state,
                |(index, _)| Ok(index.remove_many(&keys).map(drop)?),
                |(index, inserted)| {
                    *inserted = match operation {
                        "insert_many" => index.insert_many(&keys, &values)?.inserted,
                        _ => {
                            let inserts = lanetree::Batch::inserts(&on_device.0, &on_device.1);
                            index.insert_on(&stream, inserts, &mut scratch)?
                        }
                    };
                    Ok(())
                },
            )?;
            session.expect(&operation, "inserted", state.1, count as u64)?;
            let checksum =
                session.check_found(&operation, &self.index.get_many(&keys)?, count, miss(), |i| values[i])?;
            let row = self.row(session, (operation, Order::Random), count, timing, checksum);
            session.push(row);
        }
        Ok(())
    }
}
