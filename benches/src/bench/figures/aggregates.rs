//! Aggregates of the values of ranges, compared with writing the values, and with what must be read.

use crate::bench::data::{Data, Order, mix};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::figures::ceilings;
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{Aggregate, AggregateScratch, Buffer, DeviceAggregates, DeviceRanges, LaneTree, Number, RangeScratch};
use lanetree_base::parallel::*;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("aggregates", Run::Alone(measure));

/// Pairs in a bucket of 64 bytes.
const BUCKET: u64 = 4;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    ceilings::copy(session)?;
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    // Numbers of pairs: every aggregate is known, and sums of floats are exact.
    let values: Vec<u64> = (0..data.len() as u64).collect();
    let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &values)?;
    let floats: Vec<u64> = values.par_iter().map(|&value| (value as f64).to_bits()).collect();
    let of_floats = LaneTree::builder().build_sorted(&session.device, &data.keys, &floats)?;
    drop((values, floats));
    let n = data.len() as u64;
    let many = 1_u64 << session.plan.queries.min(22);
    let seed = session.seed;
    let equal = |count: u64, length: u64| -> Vec<(u64, u64)> {
        let first = |i: u64| mix(i ^ seed << 32) % (n - length + 1);
        (0..count).into_par_iter().map(|i| (first(i), length)).collect()
    };
    let mut mixed = equal(many / 4, 8);
    mixed.push((n / 4, n / 2));
    let of_length = [("of 8", many, 8), ("of 64", many, 64), ("of 1024", many >> 5, 1024)];
    let of_length = of_length.into_iter().filter(|&(.., length)| length <= n);
    let batches = of_length.map(|(name, count, length)| (name, equal(count, length)));
    for (name, ranges) in batches.chain([("of 8, and one of half of all", mixed), ("one of all", vec![(0, n)])]) {
        let mut sorted = ranges.clone();
        sort_unstable_by(&mut sorted, Ord::cmp);
        for (order, ranges) in [(Order::Random, ranges), (Order::Sorted, sorted)] {
            if order == Order::Sorted && ranges.len() == 1 || !session.has_time(format_args!("aggregates, {name}")) {
                continue;
            }
            let batch = Batch::new(session, &data.keys, name, order, ranges)?;
            if batch.pairs < 1 << 29 {
                batch.values(session, &tree, &data)?;
            }
            let sum = |first: u64, len: u64| first * len + len * (len - 1) / 2;
            batch.measure::<u64>(session, &tree, ("sum", Aggregate::Sum), sum)?;
            batch.measure::<f64>(session, &of_floats, ("sum of f64", Aggregate::Sum), |first, len| {
                sum(first, len) as f64
            })?;
            batch.measure::<u64>(session, &tree, ("max", Aggregate::Max), |first, len| first + len - 1)?;
            batch.measure::<u64>(session, &tree, ("last", Aggregate::Last), |first, len| first + len - 1)?;
        }
    }
    Ok(())
}

struct Batch {
    name: &'static str,
    order: Order,
    /// Ranks of the first pairs, and numbers of pairs.
    ranges: Vec<(u64, u64)>,
    pairs: u64,
    starts: Buffer<u64>,
    ends: Buffer<u64>,
}

impl Batch {
    fn new(session: &Session, keys: &[u64], name: &'static str, order: Order, ranges: Vec<(u64, u64)>) -> Result<Self> {
        let bound = |rank: fn((u64, u64)) -> u64| -> Vec<u64> {
            ranges.par_iter().map(|&range| keys[rank(range) as usize]).collect()
        };
        let starts = session.device.upload(&bound(|(first, _)| first))?;
        let ends = session.device.upload(&bound(|(first, len)| first + len - 1))?;
        let pairs = ranges.iter().map(|&(_, len)| len).sum();
        Ok(Self { name, order, ranges, pairs, starts, ends })
    }

    fn row(
        &self,
        session: &Session,
        operation: &str,
        n: usize,
        timing: Timing,
        checksum: lanetree_baselines::Checksum,
    ) -> Row {
        let count = self.ranges.len();
        let row = Row::new(FIGURE.name, "lanetree", operation, count, timing, checksum);
        let buckets: u64 = self.ranges.iter().map(|&(_, len)| len / BUCKET + 1).sum();
        let is_one = operation == "last";
        let bytes = if is_one { 64 * count as u64 } else { 64 * buckets } + 24 * count as u64;
        let ceiling = session.ceilings.copy.map(|copy| count as f64 * copy / bytes as f64);
        let mut row = row.on(session.device_name()).over(n, "u64", "u64", "uniform");
        row.set("read_gigabytes_per_second", row.giga_per_second_of(bytes as f64));
        row.set("ceiling_giga_per_second", ceiling);
        row.with("ranges", self.name).with("order", self.order.name()).with("pairs", self.pairs)
    }

    fn values(&self, session: &mut Session, tree: &LaneTree<u64, u64>, data: &Data<u64>) -> Result<()> {
        let (count, pairs) = (self.ranges.len(), self.pairs as usize);
        let device = &session.device;
        let mut out = DeviceRanges::<u64, u64>::without_keys(device, count, pairs)?;
        let mut scratch = RangeScratch::new(device, count)?;
        let on = tree.on(&session.stream);
        let timing = session.time_call(&mut out, |out| on.range(&self.starts, &self.ends, &mut scratch, out))?;
        let what = format!("values of ranges {}", self.name);
        let offsets: Vec<u64> = out.offsets.to_vec()?;
        let value = |i: usize| {
            let range = offsets.partition_point(|&offset| offset <= i as u64) - 1;
            self.ranges[range].0 + i as u64 - offsets[range]
        };
        let checksum = session.check(&what, "values", &out.values, pairs, u64::MAX, value)?;
        let row = self.row(session, "values", data.len(), timing, checksum);
        session.push(row);
        Ok(())
    }

    fn measure<A: Number<Word = u64, Wide = A> + bytemuck::Pod + Into<Bits>>(
        &self,
        session: &mut Session,
        tree: &LaneTree<u64, u64>,
        (operation, aggregate): (&str, Aggregate),
        expected: impl Fn(u64, u64) -> A + Sync,
    ) -> Result<()> {
        let count = self.ranges.len();
        let device = &session.device;
        let mut out = DeviceAggregates::<A>::new(device, count)?;
        let mut scratch = AggregateScratch::new(device, count)?;
        let on = tree.on(&session.stream);
        let timing = session
            .time_call(&mut out, |out| on.aggregate::<A>(aggregate, &self.starts, &self.ends, &mut scratch, out))?;
        let what = format!("{operation} of ranges {}", self.name);
        let found: Vec<u64> = out.values.to_vec()?.into_iter().map(|value| value.into().0).collect();
        let wanted = |i: usize| expected(self.ranges[i].0, self.ranges[i].1).into().0;
        let checksum = session.check_slice(&what, "results", &found, 0..count, u64::MAX, wanted)?;
        let row = self.row(session, operation, tree.len() as usize, timing, checksum);
        session.push(row);
        Ok(())
    }
}

/// The word of a result.
struct Bits(u64);

impl From<u64> for Bits {
    fn from(value: u64) -> Self {
        Self(value)
    }
}

impl From<f64> for Bits {
    fn from(value: f64) -> Self {
        Self(value.to_bits())
    }
}
