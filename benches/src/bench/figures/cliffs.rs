//! What a library may be slow at without anybody noticing: whole indexes in and out of main memory, one long range,
//! holes, small batches, copies brought in sync. Each is compared with what the bus or the card can do, or with another
//! index.

use crate::bench::batches::{keys, values};
use crate::bench::bus::bus;
use crate::bench::cuart::data::keys as byte_keys;
use crate::bench::data::{Data, Order, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::lane_tree::adversaries::Adversary;
use crate::bench::queries::lower_bounds;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{
    Cuart, Cubpt, Device, DeviceRanges, Harmonia, HbTree, LaneTree, Mirrored, Op, OrderedIndex, RangeScratch, Ranges,
    SortedArray,
};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("cliffs", Run::Alone(measure));

/// Bytes of a pair.
const PAIR: usize = 16;

/// The exponent of the number of short ranges in a batch with a long one, and of the number of queries in a hole.
const SHORT: u32 = 16;
const IN_HOLE: u32 = 20;
/// Pairs of a short range.
const LENGTH: usize = 8;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    for &size in &request.sizes {
        let mut keys = keys(session.seed_of(size), 1 << size);
        sort_unstable_by(&mut keys, Ord::cmp);
        let values = values(&keys);
        let make =
            |device: &Device, keys: &[u64], values: &[u64]| LaneTree::builder().build_sorted(device, keys, values);
        let tree = build(session, "lanetree", (&keys, &values), make, |tree, keys| tree.get_many(keys))?;
        copies_out(session, &tree, &keys)?;
        one_range(session, &tree, &keys)?;
        long_among_short(session, &tree, &keys)?;
        let make =
            |device: &Device, keys: &[u64], values: &[u64]| Harmonia::builder().build_sorted(device, keys, values);
        let harmonia = build(session, "harmonia", (&keys, &values), make, |index, keys| index.get_many(keys))?;
        let of_harmonia = few_at_a_time(session, &harmonia, &keys, None)?;
        few_at_a_time(session, &tree, &keys, Some(of_harmonia))?;
        drop((tree, harmonia));
        other_builds(session, (&keys, &values))?;
        in_sync(session, &keys, &values)?;
        hole(session, &keys, &values)?;
        for adversary in [Adversary::TwoEnds, Adversary::PowersOfTwo] {
            ranks_among(session, &adversary.keys(1 << size, session.seed_of(size)))?;
        }
    }
    Ok(())
}

/// A row with its rate, and the rate at which the same would take `ceiling` milliseconds.
fn push(
    session: &mut Session,
    index: &'static str,
    (operation, batch, len): (&str, usize, usize),
    (timing, checksum): (Timing, Checksum),
    (bytes, ceiling): (usize, Option<f64>),
    without: Option<f64>,
) {
    let row = Row::new(FIGURE.name, index, operation, batch, timing, checksum).on(session.device_name());
    let mut row = row.over(len, "u64", "u64", "uniform").with("bytes_moved", bytes as u64);
    row.set("ceiling_giga_per_second", ceiling.map(|ms| batch as f64 / ms / 1e6));
    row.set("x_without", without);
    session.push(row);
}

/// A build from slices by `make`, whose look-ups are `get`.
fn build<I>(
    session: &mut Session,
    index: &'static str,
    (keys, values): (&[u64], &[u64]),
    make: impl Fn(&Device, &[u64], &[u64]) -> lanetree::Result<I>,
    get: impl Fn(&I, &[u64]) -> lanetree::Result<Vec<Option<u64>>>,
) -> Result<I> {
    session.doing("build_sorted from slices");
    let device = session.device.clone();
    let (timing, built) = session.time_making(|| make(&device, keys, values))?;
    let found = get(&built, keys)?;
    let checksum = session.check_found(&"build_sorted", &found, keys.len(), u64::MAX, |i| values[i])?;
    let bytes = PAIR * keys.len();
    let ceiling = bus::<u8, u8>(session, bytes, 0)?;
    push(session, index, ("build_sorted", keys.len(), keys.len()), (timing, checksum), (bytes, ceiling), None);
    Ok(built)
}

/// The builds of the other indexes. CuART's keys are strings, made before; the HB+-tree's leaves stay where the CPU is.
fn other_builds(session: &mut Session, pairs: (&[u64], &[u64])) -> Result<()> {
    let make = |device: &Device, keys: &[u64], values: &[u64]| Cubpt::builder().build_sorted(device, keys, values);
    build(session, "cubpt", pairs, make, |index, keys| index.get_many(keys)).map(drop)?;
    let make =
        |device: &Device, keys: &[u64], values: &[u64]| SortedArray::builder().build_sorted(device, keys, values);
    build(session, "sorted", pairs, make, |index, keys| index.get_many(keys)).map(drop)?;
    let make = |device: &Device, keys: &[u64], values: &[u64]| HbTree::builder().build_sorted(device, keys, values);
    build(session, "hbtree", pairs, make, |index, keys| index.get_many(keys)).map(drop)?;
    let mut bytes = vec![0; 8 * pairs.0.len()];
    bytes.par_chunks_exact_mut(8).zip(pairs.0).for_each(|(bytes, key)| bytes.copy_from_slice(&key.to_be_bytes()));
    let strings = byte_keys(8, &bytes);
    let make = |device: &Device, _: &[u64], values: &[u64]| Cuart::build(device, strings, values);
    build(session, "cuart", pairs, make, |index, _| index.get_many(strings)).map(drop)
}

/// Keys of a small batch, and calls that are timed together.
const FEW: usize = 64;
const CALLS: usize = 256;

/// Ranks of a few keys, call after call; `other` is another index's time, in milliseconds. Returns the median.
fn few_at_a_time<I: OrderedIndex<Domain = u64, Value = u64>>(
    session: &mut Session,
    index: &I,
    keys: &[u64],
    other: Option<f64>,
) -> Result<f64> {
    session.doing("few ranks at a time");
    let calls = CALLS.min(keys.len() / FEW);
    let rank = |i: usize| i * 61 % keys.len();
    let queries: Vec<u64> = (0..calls * FEW).map(|i| keys[rank(i)]).collect();
    let mut ranks = Vec::new();
    let timing = session.time_on_cpu(&mut ranks, Vec::clear, |ranks| {
        for queries in queries.chunks(FEW) {
            ranks.extend(index.lower_bound_many(queries)?);
        }
        Ok(())
    })?;
    let what = "lower_bound, 64 at a time";
    let checksum = session.check_slice(&what, "ranks", &ranks, 0..queries.len(), u64::MAX, |i| rank(i) as u64)?;
    let (bytes, median) = (PAIR * queries.len(), timing.median_ms);
    let without = other.map(|other| median / other);
    push(session, I::NAME, (what, queries.len(), keys.len()), (timing, checksum), (bytes, None), without);
    Ok(median)
}

/// Queries of a batch among adversarial keys at most, as an exponent.
const AMONG: u32 = 24;

/// Ranks of a large batch, half of whose queries are absent, among keys that are made to defeat LaneTree.
fn ranks_among(session: &mut Session, data: &Data<u64>) -> Result<()> {
    let what = format!("lower_bound, {}", data.source);
    session.doing(&what);
    let count = 1 << session.plan.queries.min(AMONG);
    let Some(sorted) = data.sorted_batch(count, true, session.seed) else {
        session.skip(format_args!("{what}: there are no keys between the keys"));
        return Ok(());
    };
    let batch = sorted.ordered(Order::Random, session.seed);
    let queries = session.device.upload(&batch.queries)?;
    let harmonia = Harmonia::builder().build_sorted(&session.device, &data.keys, &data.values)?;
    let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &data.values)?;
    let of_harmonia =
        lower_bounds(session, &what, &batch, |out| harmonia.on(&session.stream).lower_bound(&queries, out))?;
    let of_tree = lower_bounds(session, &what, &batch, |out| tree.on(&session.stream).lower_bound(&queries, out))?;
    let without = of_tree.0.median_ms / of_harmonia.0.median_ms;
    let (bytes, sizes) = ((PAIR * count, None), (&*what, count, data.len()));
    push(session, "harmonia", sizes, of_harmonia, bytes, None);
    push(session, "lanetree", sizes, of_tree, bytes, Some(without));
    Ok(())
}

/// Updates of a batch that a mirrored index is brought in sync by, as an exponent.
const UPDATES: u32 = 14;

/// A batch of updates of keys all over an index on the host, whose copy is brought in sync.
fn in_sync(session: &mut Session, keys: &[u64], values: &[u64]) -> Result<()> {
    session.doing("mirrored updates");
    let count = (1_usize << UPDATES).min(keys.len() / 4);
    let step = keys.len() / count;
    let host = Harmonia::builder().build_sorted(&Device::host(), keys, values)?;
    let mut mirrored = Mirrored::new(host, &session.device)?;
    let changed: Vec<u64> = keys.iter().copied().step_by(step).take(count).collect();
    let new = |i: usize, run: u64| values[i * step].wrapping_add(run);
    let mut run = 0_u64;
    let timing = session.time_on_cpu(
        &mut (&mut mirrored, Vec::new()),
        |(_, ops)| {
            run += 1;
            *ops = (0..count).map(|i| Op::Insert(changed[i], new(i, run))).collect();
        },
        |(mirrored, ops)| {
            mirrored.apply(ops)?;
            Ok(())
        },
    )?;
    let what = "mirrored updates";
    let checksum =
        session.check_found(&what, &mirrored.device_index().get_many(&changed)?, count, u64::MAX, |i| new(i, run))?;
    let bytes = PAIR * count;
    let ceiling = bus::<u8, u8>(session, bytes, 0)?;
    push(session, "harmonia", (what, count, keys.len()), (timing, checksum), (bytes, ceiling), None);
    Ok(())
}

/// All pairs, by every call.
fn copies_out(session: &mut Session, tree: &LaneTree<u64, u64>, keys: &[u64]) -> Result<()> {
    let (len, bytes) = (keys.len(), PAIR * keys.len());
    let ceiling = bus::<u8, u8>(session, 0, bytes)?;
    let check = |session: &Session, what: &str, found_keys: &[u64], found_values: &[u64]| -> Result<Checksum> {
        let by_key = session.check_slice(&what, "keys", found_keys, 0..len, u64::MAX, |i| keys[i])?;
        let of = |i: usize| value_of(keys[i]);
        Ok(by_key.and(session.check_slice(&what, "values", found_values, 0..len, u64::MAX, of)?))
    };

    session.doing("pairs()");
    let (timing, pairs) = session.time_making(|| tree.pairs())?;
    let (found_keys, found_values): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
    let checksum = check(session, "pairs", &found_keys, &found_values)?;
    push(session, "lanetree", ("pairs", len, len), (timing, checksum), (bytes, ceiling), None);

    session.doing("iter()");
    let mut sums = [0_u64; 2];
    let timing = session.time_on_cpu(
        &mut sums,
        |sums| *sums = [0; 2],
        |sums| {
            for pair in tree.iter() {
                let (key, value) = pair?;
                *sums = [sums[0].rotate_left(1).wrapping_add(key), sums[1].rotate_left(1).wrapping_add(value)];
            }
            Ok(())
        },
    )?;
    let sum = |of: &dyn Fn(u64) -> u64| keys.iter().fold(0_u64, |sum, &key| sum.rotate_left(1).wrapping_add(of(key)));
    session.expect(&"iter", "sum of keys", sums[0], sum(&|key| key))?;
    session.expect(&"iter", "sum of values", sums[1], sum(&value_of))?;
    push(session, "lanetree", ("iter", len, len), (timing, checksum), (bytes, ceiling), None);

    session.doing("pairs, pinned");
    let device = &session.device;
    let room = (device.alloc::<u64>(len)?, device.alloc::<u64>(len)?);
    let mut out = (room, (device.pinned::<u64>(len)?, device.pinned::<u64>(len)?), device.stream()?);
    let timing = session.time_on_cpu(
        &mut out,
        |(_, (keys, values), _)| {
            keys.fill(0);
            values.fill(0);
        },
        |((keys, values), (to_keys, to_values), stream)| {
            tree.on(stream).pairs(keys, values)?;
            keys.download_async(stream, 0..len, to_keys, 0)?;
            values.download_async(stream, 0..len, to_values, 0)?;
            Ok(stream.synchronize()?)
        },
    )?;
    let checksum = check(session, "pairs, pinned", &out.1.0, &out.1.1)?;
    push(session, "lanetree", ("pairs, pinned", len, len), (timing, checksum), (bytes, ceiling), None);
    Ok(())
}

/// One range of half of all pairs in host form.
fn one_range(session: &mut Session, tree: &LaneTree<u64, u64>, keys: &[u64]) -> Result<()> {
    session.doing("one range");
    let (first, len) = (keys.len() / 4, keys.len() / 2);
    let range = keys[first]..=keys[first + len - 1];
    let mut out = Ranges::default();
    let poison = |out: &mut Ranges<u64, u64>| {
        out.keys.fill(0);
        out.values.fill(0);
    };
    let timing = session.time_on_cpu(&mut out, poison, |out| Ok(tree.range_many_into([range.clone()], out)?))?;
    let what = "range_many_into, one";
    let by_key = session.check_slice(&what, "keys", &out.keys, 0..len, u64::MAX, |i| keys[first + i])?;
    let of = |i: usize| value_of(keys[first + i]);
    let checksum = by_key.and(session.check_slice(&what, "values", &out.values, 0..len, u64::MAX, of)?);
    let bytes = PAIR * len;
    let ceiling = bus::<u8, u8>(session, 0, bytes)?;
    push(session, "lanetree", (what, len, keys.len()), (timing, checksum), (bytes, ceiling), None);
    Ok(())
}

/// One range of half of all pairs among short ones, in device form.
fn long_among_short(session: &mut Session, tree: &LaneTree<u64, u64>, keys: &[u64]) -> Result<()> {
    session.doing("one long range among short ones");
    let short = (1_usize << SHORT).min(keys.len() / (4 * LENGTH));
    let long = keys.len() / 2;
    // The long one is in the middle.
    let first = |i: usize| if i == short / 2 { keys.len() / 4 } else { i * (keys.len() - LENGTH) / short };
    let len = |i: usize| if i == short / 2 { long } else { LENGTH };
    let starts: Vec<u64> = (0..short).map(|i| keys[first(i)]).collect();
    let ends: Vec<u64> = (0..short).map(|i| keys[first(i) + len(i) - 1]).collect();
    let pairs = (short - 1) * LENGTH + long;
    let device = session.device.clone();
    let (starts, ends) = (device.upload(&starts)?, device.upload(&ends)?);
    let mut out = DeviceRanges::new(&device, short, pairs)?;
    let mut scratch = RangeScratch::new(&device, short)?;
    let on = tree.on(&session.stream);
    let timing = session.time_call(&mut out, |out| on.range(&starts, &ends, &mut scratch, out))?;
    let before = short / 2 * LENGTH;
    let rank = |i: usize| {
        let (row, at) = match i {
            i if i < before => (i / LENGTH, i % LENGTH),
            i if i < before + long => (short / 2, i - before),
            i => (short / 2 + 1 + (i - before - long) / LENGTH, (i - before - long) % LENGTH),
        };
        first(row) + at
    };
    let what = "range, one long among short";
    let by_key = session.check(&what, "keys", &out.keys, pairs, u64::MAX, |i| keys[rank(i)])?;
    let of = |i: usize| value_of(keys[rank(i)]);
    let checksum = by_key.and(session.check(&what, "values", &out.values, pairs, u64::MAX, of)?);
    let bytes = PAIR * pairs;
    let mut copies = (device.alloc_zeroed::<u64>(pairs)?, device.alloc_zeroed::<u64>(pairs)?);
    let copy = session.time_on_stream(
        &mut copies,
        |_| Ok(()),
        |(keys, values)| {
            keys.copy_from_buffer(&session.stream, 0, &out.keys, 0..pairs)?;
            Ok(values.copy_from_buffer(&session.stream, 0, &out.values, 0..pairs)?)
        },
    )?;
    push(session, "lanetree", (what, pairs, keys.len()), (timing, checksum), (bytes, Some(copy.min_ms)), None);
    Ok(())
}

/// Neighbours in a hole of a CUBPT, compared with neighbours in a tree without one.
fn hole(session: &mut Session, keys: &[u64], values: &[u64]) -> Result<()> {
    session.doing("neighbours in a hole");
    let (first, end) = (keys.len() / 4, keys.len() / 4 * 3);
    let count = (1_usize << IN_HOLE).min(keys.len() / 2);
    let mut tree = Cubpt::<u64, u64>::builder().build_sorted(&session.device, keys, values)?;
    let step = (end - first) / count;
    // In the order of a tree, so that both trees are read alike.
    let queries: Vec<u64> = (0..count).map(|i| keys[first + i * step]).collect();
    let on_device = session.device.upload(&queries)?;
    let mut without = None;
    for has_hole in [false, true] {
        if has_hole {
            let removed: Vec<Op<u64, u64>> = keys[first..end].par_iter().map(|&key| Op::Remove(key)).collect();
            tree.apply(&removed)?;
        }
        let device = &session.device;
        let mut out = (device.alloc::<u64>(count)?, device.alloc::<u64>(count)?);
        let on = || tree.on(&session.stream);
        let timing = session.time_call(&mut out, |(keys, values)| on().successor(&on_device, keys, values))?;
        let next = |i: usize| if has_hole { keys[end] } else { queries[i] };
        let what = if has_hole { "successor in a hole" } else { "successor, no hole" };
        let by_key = session.check(&what, "keys", &out.0, count, u64::MAX, next)?;
        let of = |i: usize| value_of(next(i));
        let checksum = by_key.and(session.check(&what, "values", &out.1, count, u64::MAX, of)?);
        let ratio = without.map(|ms: f64| timing.median_ms / ms);
        without = Some(timing.median_ms);
        push(session, "cubpt", (what, count, keys.len()), (timing, checksum), (3 * 8 * count, None), ratio);
    }
    Ok(())
}
