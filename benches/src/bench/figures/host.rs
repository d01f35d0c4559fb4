//! Every kind of call that begins and ends in host memory, beside what the bus takes for its bytes.

use crate::bench::bus::bus;
use crate::bench::data::{Batch, Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{AsOf, Closed, Join, LaneTree, Matches, MultiMap, Ranges};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("host", Run::Alone(measure));

/// Pairs of a range.
const LENGTH: usize = 8;

/// Values of a key of the multi-map.
const EACH: usize = 2;

type Tree = LaneTree<u64, u64>;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    let count = 1 << session.plan.host_queries;
    let sorted = data.sorted_batch(count, false, session.seed ^ 0xe2e).expect("hits are always to be had");
    for order in [Order::Random, Order::Sorted] {
        let batch = sorted.ordered(order, session.seed);
        let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &data.values)?;
        let asked = Asked { n: data.len(), index: "lane_tree", order };
        look_ups(session, asked, &tree, &batch)?;
        neighbors(session, asked, &tree, &batch)?;
        ranges(session, asked, &tree, &data)?;
        drop(tree);
        values(session, asked, &data, &batch)?;
    }
    Ok(())
}

/// What rows have in common.
#[derive(Clone, Copy)]
struct Asked {
    n: usize,
    index: &'static str,
    order: Order,
}

impl Asked {
    /// Times a call that makes new results, checks them, and adds its row. `bytes`: to the device, and back.
    fn row<T>(
        self,
        session: &mut Session,
        (operation, count): (&str, usize),
        bytes: [usize; 2],
        call: impl FnMut() -> lanetree::Result<T>,
        check: impl FnOnce(&Session, &str, T) -> Result<Checksum>,
    ) -> Result<()> {
        if !session.has_time(format_args!("host, {operation}, {}", self.order.name())) {
            return Ok(());
        }
        let (timing, made) = session.time_making(call)?;
        let checksum = check(session, operation, made)?;
        self.push(session, (operation, count), bytes, timing, checksum)
    }

    fn push(
        self,
        session: &mut Session,
        (operation, count): (&str, usize),
        [there, back]: [usize; 2],
        timing: Timing,
        checksum: Checksum,
    ) -> Result<()> {
        let bus = bus::<u8, u8>(session, there, back)?;
        let mut row = Row::new(FIGURE.name, self.index, operation, count, timing, checksum)
            .on(session.device_name())
            .over(self.n, "u64", "u64", "uniform")
            .with("bytes_moved", (there + back) as u64);
        row.set("order", self.order.name());
        row.set("threads", rayon::current_num_threads());
        if let Some(ms) = bus {
            row.set("bus_ms", ms);
            row.set("ceiling_giga_per_second", count as f64 / ms / 1e6);
        }
        session.push(row);
        Ok(())
    }
}

/// Values, hits and ranks: in new vectors, in existing memory, and in pinned memory.
fn look_ups(session: &mut Session, asked: Asked, tree: &Tree, batch: &Batch<u64>) -> Result<()> {
    let (keys, count) = (&batch.queries, batch.queries.len());
    let (there, back, bits) = (8 * count, 8 * count, count.div_ceil(8));
    let values = |session: &Session, what: &str, out: &[u64]| {
        session.check_slice(&what, "values", out, 0..count, miss(), |i| batch.value(i))
    };
    asked.row(
        session,
        ("get_many", count),
        [there, back + bits],
        || tree.get_many(keys),
        |session, what, out| session.check_found(&what, &out, count, miss(), |i| batch.value(i)),
    )?;

    let mut out = vec![None; count];
    let timing = session.time_into(&mut out, |out| tree.get_many_into(keys, out))?;
    let checksum = session.check_found(&"get_many_into", &out, count, miss(), |i| batch.value(i))?;
    asked.push(session, ("get_many_into", count), [there, back + bits], timing, checksum)?;

    let mut out = vec![0; count];
    let timing = session.time_into(&mut out, |out| tree.get_many_or(keys, miss(), out))?;
    let checksum = values(session, "get_many_or", &out)?;
    asked.push(session, ("get_many_or", count), [there, back], timing, checksum)?;

    let mut queries = session.device.pinned::<u64>(count)?;
    queries.copy_from_slice(keys);
    let mut out = session.device.pinned::<u64>(count)?;
    let timing = session.time_into(&mut out, |out| tree.get_many_pinned(&queries, miss(), out, None))?;
    let checksum = values(session, "get_many_pinned", &out)?;
    drop((queries, out));
    asked.push(session, ("get_many_pinned", count), [there, back], timing, checksum)?;

    asked.row(
        session,
        ("contains_many", count),
        [there, bits],
        || tree.contains_many(keys),
        |session, what, out| {
            let found: Vec<u64> = out.into_iter().map(u64::from).collect();
            session.check_slice(&what, "hits", &found, 0..count, 0, |_| 1)
        },
    )?;
    let rank = |i: usize| batch.origins[i].rank() as u64;
    asked.row(
        session,
        ("lower_bound_many", count),
        [there, back],
        || tree.lower_bound_many(keys),
        |session, what, out| session.check_slice(&what, "ranks", &out, 0..count, miss(), rank),
    )?;
    asked.row(
        session,
        ("join_many", count),
        [there, back + bits],
        || tree.join_many(keys),
        |session, what, out: Matches| {
            session.check_slice(&what, "probes", &out.probes, 0..count, miss(), |i| i as u64)?;
            session.check_slice(&what, "rows", &out.rows, 0..count, miss(), rank)
        },
    )
}

/// As-of look-ups and joins: every query has its own key as its neighbour.
fn neighbors(session: &mut Session, asked: Asked, tree: &Tree, batch: &Batch<u64>) -> Result<()> {
    let (keys, count) = (&batch.queries, batch.queries.len());
    let (there, back, bits) = (8 * count, 8 * count, count.div_ceil(8));
    let how = AsOf::backward();
    asked.row(
        session,
        ("asof_many", count),
        [there, 2 * back + bits],
        || tree.asof_many(keys, &how),
        |session, what, out| {
            let found: Vec<u64> = out.into_iter().map(|pair| pair.map_or(miss(), |(_, value)| value)).collect();
            session.check_slice(&what, "values", &found, 0..count, miss(), |i| batch.value(i))
        },
    )?;
    let join = Join::inner();
    asked.row(
        session,
        ("asof_join_many", count),
        [there, back + bits],
        || tree.asof_join_many(keys, &how, &join),
        |session, what, out| {
            session.check_slice(&what, "offsets", &out.offsets, 0..count + 1, miss(), |i| i as u64)?;
            session.check_slice(&what, "rows", &out.rows, 0..count, miss(), |i| batch.value(i))
        },
    )
}

/// Ranges of 8 pairs: pairs, values, and counts.
fn ranges(session: &mut Session, asked: Asked, tree: &Tree, data: &Data<u64>) -> Result<()> {
    let (count, keys) = (1 << session.plan.host_ranges, &data.keys);
    let sorted = data.sorted_batch(count, false, session.seed ^ 0xe2e8).expect("hits are always to be had");
    let first = sorted.ordered(asked.order, session.seed).first_ranks(keys.len() - LENGTH);
    let starts: Vec<u64> = first.par_iter().map(|&rank| keys[rank]).collect();
    let ends: Vec<u64> = first.par_iter().map(|&rank| keys[rank + LENGTH - 1]).collect();
    let wanted: Vec<_> = starts.par_iter().zip(&ends).map(|(&start, &end)| start..=end).collect();
    let (there, offsets, pairs) = (16 * count, 8 * count, count * LENGTH);
    let rank = |i: usize| first[i / LENGTH] + i % LENGTH;
    let check = |session: &Session, what: &str, offsets: &[u64], values: &[u64]| {
        session.check_slice(&what, "offsets", offsets, 0..count + 1, miss(), |i| (i * LENGTH) as u64)?;
        session.check_slice(&what, "values", values, 0..pairs, miss(), |i| data.values[rank(i)])
    };
    let bytes = [there, offsets + 16 * pairs];
    asked.row(
        session,
        ("range_many, of 8", count),
        bytes,
        || tree.range_many(wanted.iter().cloned()),
        |session, what, out| {
            session.check_slice(&what, "keys", &out.keys, 0..pairs, miss(), |i| keys[rank(i)])?;
            check(session, what, &out.offsets, &out.values)
        },
    )?;
    let mut out = Ranges::default();
    let timing = session.time_on_cpu(
        &mut out,
        |out| out.values.par_iter_mut().for_each(|value| *value = 0),
        |out| Ok(tree.range_between_many_into(&starts, &ends, out)?),
    )?;
    let checksum = check(session, "range_between_many_into", &out.offsets, &out.values)?;
    drop(out);
    asked.push(session, ("range_between_many_into, of 8", count), bytes, timing, checksum)?;
    let bytes = [there, offsets + 8 * pairs];
    asked.row(
        session,
        ("range_join_many, of 8", count),
        bytes,
        || tree.range_join_many(&starts, &ends, Closed::Both),
        |session, what, out| check(session, what, &out.offsets, &out.rows),
    )?;
    asked.row(
        session,
        ("count_between_many, of 8", count),
        [there, offsets],
        || tree.count_between_many(&starts, &ends),
        |session, what, out| session.check_slice(&what, "counts", &out, 0..count, miss(), |_| LENGTH as u64),
    )
}

/// All values of each key of a multi-map, two of each.
fn values(session: &mut Session, asked: Asked, data: &Data<u64>, batch: &Batch<u64>) -> Result<()> {
    let (keys, count) = (&batch.queries, batch.queries.len());
    let twice: Vec<u64> = (0..data.len() * EACH).into_par_iter().map(|i| data.keys[i / EACH]).collect();
    let numbers: Vec<u64> = (0..twice.len() as u64).collect();
    let map = MultiMap::<u64, u64>::build(&session.device, &twice, &numbers)?;
    drop((twice, numbers));
    let asked = Asked { index: "multi_map", ..asked };
    let rows = count * EACH;
    let bytes = [8 * count, 8 * count + 8 * rows];
    let join = Join::inner();
    asked.row(
        session,
        ("join_as_many, of 2", count),
        bytes,
        || map.join_as_many(keys, &join),
        |session, what, out| {
            session.check_slice(&what, "offsets", &out.offsets, 0..count + 1, miss(), |i| (i * EACH) as u64)?;
            let row = |i: usize| (batch.origins[i / EACH].rank() * EACH + i % EACH) as u64;
            session.check_slice(&what, "rows", &out.rows, 0..rows, miss(), row)
        },
    )
}
