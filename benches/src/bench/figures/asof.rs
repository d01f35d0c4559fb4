//! As-of look-ups of LaneTree by composite keys, compared with predecessors of the same keys; from pinned memory, with the bus.

use crate::bench::bus::bus;
use crate::bench::columns::{
    BATCH, CEILING, Column, DEVICE, Format, HITS, INDEX, MS, N, OPERATION, ORDER, RATE, WORDS,
};
use crate::bench::data::{Data, Order, mix};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::{AnyKey, AsOf, BatchOrder, Composite, LaneTree};
use lanetree_base::parallel::*;

pub(crate) const FIGURE: Figure = Figure {
    name: "asof",
    about: "LaneTree: as-of look-ups within groups, compared with predecessors",
    table: Some(&TABLE),
    needs: Needs::Kernels,
    takes: Takes::SIZES,
    run: Run::Alone(measure),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "asof",
    title: "LaneTree, as-of look-ups: keys of a group (one of 2^13) and a time, values of row numbers",
    columns: &[
        INDEX,
        DEVICE,
        WORDS,
        N,
        OPERATION,
        ORDER,
        HITS,
        BATCH,
        MS,
        RATE,
        Column::extra("x predecessor", "x_predecessor", Format::Figure),
    ],
    clock: Clock::Device,
    notes: &[
        "Kernels, probes and results on the device: a row number, a key and a bit of the hit mask for each probe. u64: group and",
        "time of 32 bits each; u128: a group of 32 bits and a time of 64. predecessor does not look at groups. backward: the last",
        "time at or before the probe's, of the same group; tolerance: about half of these are near enough. nearest: two",
        "searches, one of a sorted batch.",
    ],
    summary: None,
};

pub(crate) const PINNED: Figure = Figure {
    name: "asof-pinned",
    about: "LaneTree: as-of look-ups from pinned memory to pinned memory, compared with the bus",
    table: Some(&PINNED_TABLE),
    needs: Needs::Kernels,
    takes: Takes::SIZES,
    run: Run::Alone(measure_pinned),
    ..Figure::BASE
};

static PINNED_TABLE: Table = Table {
    name: "asof-pinned",
    title: "LaneTree, as-of look-ups with probes and row numbers in pinned memory: keys of a group (one of 2^13) and a time",
    columns: &[INDEX, DEVICE, WORDS, N, OPERATION, ORDER, HITS, BATCH, MS, RATE, CEILING.headed("of the bus")],
    clock: Clock::Calls,
    notes: &[
        "By the CPU's clock, transfers included, without a hit mask. Bus: as many keys to the device and row numbers back, both at",
        "once, and nothing else.",
    ],
    summary: None,
};

/// Bits of a group.
const GROUP_BITS: u32 = 13;

/// The group and the time of a random word.
fn located(word: u64) -> (u32, u64) {
    ((word >> (64 - GROUP_BITS)) as u32, word << GROUP_BITS >> GROUP_BITS)
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    // 19 bits fewer of time, in which few keys meet.
    let narrow = |word: u64| {
        let (group, time) = located(word);
        Composite::<u32, u32>::new(group, (time >> 19) as u32)
    };
    by(session, &data, "u64", narrow, |key| (key.first(), u64::from(key.second())))?;
    let wide = |word: u64| Composite::<u32, u64>::from(located(word));
    by(session, &data, "u128", wide, |key| (key.first(), key.second()))
}

fn measure_pinned(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    let narrow = |word: u64| {
        let (group, time) = located(word);
        Composite::<u32, u32>::new(group, (time >> 19) as u32)
    };
    pinned_by(session, &data, "u64", narrow, |key| key.first())?;
    pinned_by(session, &data, "u128", |word| Composite::<u32, u64>::from(located(word)), |key| key.first())
}

/// The last quote of a probe's group at or before it.
fn pinned_by<K: AnyKey>(
    session: &mut Session,
    data: &Data<u64>,
    bits: &'static str,
    key: impl Fn(u64) -> K + Sync,
    group: impl Fn(K) -> u32 + Sync,
) -> Result<()> {
    let mut keys: Vec<K> = data.keys.par_iter().map(|&word| key(word)).collect();
    keys.dedup();
    let rows: Vec<u32> = (0..keys.len() as u32).collect();
    let tree = LaneTree::builder().build_sorted(&session.device, &keys, &rows)?;
    drop(rows);
    let count = 1_usize << session.plan.queries;
    let bus = bus::<K, u32>(session, count, count)?;
    let mut probes = session.device.pinned::<K>(count)?;
    probes.par_iter_mut().enumerate().for_each(|(i, probe)| *probe = key(mix(i as u64 ^ session.seed << 32)));
    for order in [Order::Random, Order::Sorted] {
        if order == Order::Sorted {
            sort_unstable_by(&mut probes, Ord::cmp);
        }
        if !session.has_time(format_args!("as-of look-ups from pinned memory, {bits}, {}", order.name())) {
            continue;
        }
        let below: Vec<usize> = probes.par_iter().map(|probe| keys.partition_point(|key| key <= probe)).collect();
        let before = |i: usize| below[i].checked_sub(1).filter(|&at| group(keys[at]) == group(probes[i]));
        let mut out = session.device.pinned::<u32>(count)?;
        let timing = session.time_on_cpu(
            &mut out,
            |out| out.fill(0),
            |out| Ok(tree.asof_many_pinned(&probes, &AsOf::backward(), u32::MAX, out, None)?),
        )?;
        let what = format!("as-of from pinned memory, {bits}, {}", order.name());
        let wanted = |i: usize| before(i).map_or(u32::MAX, |at| at as u32);
        let checksum = session.check_slice(&what, "rows", &out, 0..count, u32::MAX, wanted)?;
        let present = (0..count).into_par_iter().count_if(|&i| before(i).is_some());
        let row = Row::new(PINNED_TABLE.name, "lanetree", "backward", count, timing, checksum);
        let mut row = row.on(session.device_name()).over(keys.len(), bits, "u32", "uniform");
        row.set("ceiling_giga_per_second", bus.map(|ms| count as f64 / ms / 1e6));
        session.push(row.with("order", order.name()).with("hit_rate", present as f64 / count as f64));
    }
    Ok(())
}

fn by<K: AnyKey>(
    session: &mut Session,
    data: &Data<u64>,
    bits: &'static str,
    key: impl Fn(u64) -> K + Sync,
    parts: impl Fn(K) -> (u32, u64) + Sync,
) -> Result<()> {
    let mut keys: Vec<K> = data.keys.par_iter().map(|&word| key(word)).collect();
    keys.dedup();
    let rows: Vec<u32> = (0..keys.len() as u32).collect();
    let tree = LaneTree::builder().build_sorted(&session.device, &keys, &rows)?;
    drop(rows);
    let count = 1_usize << session.plan.queries;
    let mut probes: Vec<K> = (0..count as u64).into_par_iter().map(|i| key(mix(i ^ session.seed << 32))).collect();
    // The mean distance of two times of a group.
    let span = parts(key(u64::MAX)).1;
    let gap = span / (keys.len() as u64 >> GROUP_BITS).max(1);
    for order in [Order::Random, Order::Sorted] {
        if order == Order::Sorted {
            sort_unstable_by(&mut probes, Ord::cmp);
        }
        if !session.has_time(format_args!("as-of look-ups, {bits}, {}", order.name())) {
            continue;
        }
        let queries = session.device.upload(&probes)?;
        let known = if order == Order::Sorted { BatchOrder::Sorted } else { BatchOrder::Random };
        let row = |above: usize| if above > 0 { Some(above - 1) } else { None };
        let below: Vec<usize> = probes.par_iter().map(|probe| keys.partition_point(|key| key <= probe)).collect();
        let distance = |at: usize, i: usize| {
            let ((group, time), (own, probed)) = (parts(keys[at]), parts(probes[i]));
            (group == own).then(|| time.abs_diff(probed))
        };
        let before = |i: usize| row(below[i]).filter(|&at| distance(at, i).is_some());
        let after = |i: usize| {
            let equal = row(below[i]).filter(|&at| keys[at] == probes[i]);
            equal.or((below[i] < keys.len()).then_some(below[i])).filter(|&at| distance(at, i).is_some())
        };
        let reach = gap * 7 / 10;
        let near = |i: usize| before(i).filter(|&at| distance(at, i).is_some_and(|far| far <= reach));
        let nearest = |i: usize| match (before(i), after(i)) {
            (Some(first), Some(second)) => Some(if distance(second, i) < distance(first, i) { second } else { first }),
            (first, second) => first.or(second),
        };
        type Expected<'a> = &'a (dyn Fn(usize) -> Option<usize> + Sync);
        let ways: [(&str, Option<AsOf>, Expected<'_>); 4] = [
            ("predecessor", None, &|i| row(below[i])),
            ("backward", Some(AsOf::backward()), &before),
            ("backward, tolerance", Some(AsOf::backward().tolerance(reach)), &near),
            ("nearest", Some(AsOf::nearest()), &nearest),
        ];
        let mut predecessor = 0.0;
        for (operation, how, expected) in ways {
            let device = &session.device;
            let mut out = (device.alloc(count)?, device.alloc(count)?, device.alloc(count.div_ceil(32))?);
            let timing = session.time_on_stream(
                &mut out,
                |(keys, rows, _)| session.poison(keys).and_then(|()| session.poison(rows)),
                |(keys, rows, hits)| {
                    let on = || tree.on(&session.stream).order(known);
                    match &how {
                        None => on().hits(hits).predecessor(&queries, keys, rows)?,
                        Some(how) => on().asof(&queries, how, keys, rows, hits)?,
                    }
                    Ok(())
                },
            )?;
            let (_, found, hits) = out;
            let what = format!("as-of, {bits}, {operation}, {}", order.name());
            let wanted = |i: usize| expected(i).map_or(u32::MAX, |at| at as u32);
            let checksum = session.check(&what, "rows", &found, count, u32::MAX, wanted)?;
            let hits: u64 = hits.to_vec()?.iter().map(|word| u64::from(word.count_ones())).sum();
            let present = (0..count).into_par_iter().count_if(|&i| expected(i).is_some());
            session.expect(&what, "hits", hits, present as u64)?;
            let row = Row::new(TABLE.name, "lanetree", operation, count, timing, checksum);
            if how.is_none() {
                predecessor = row.giga_per_second;
            }
            let ratio = row.giga_per_second / predecessor;
            let row = row.on(session.device_name()).over(keys.len(), bits, "u32", "uniform");
            let row = row.with("order", order.name()).with("hit_rate", present as f64 / count as f64);
            session.push(row.with("x_predecessor", ratio));
        }
    }
    Ok(())
}
