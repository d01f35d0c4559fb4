//! As-of look-ups of LaneTree by composite keys, compared with predecessors of the same keys; from pinned memory, with the bus.

use crate::bench::bus::bus;
use crate::bench::data::{Data, Order, mix};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{AnyKey, AsOf, BatchOrder, Composite, LaneTree};
use lanetree_base::parallel::*;

pub(crate) const FIGURE: Measurement = Measurement::new("asof", Run::Alone(measure));

pub(crate) const PINNED: Measurement = Measurement::new("asof-pinned", Run::Alone(measure_pinned));

/// Bits of a group.
const GROUP_BITS: u32 = 13;

/// The group and the time of a random word.
fn located(word: u64) -> (u32, u64) {
    ((word >> (64 - GROUP_BITS)) as u32, word << GROUP_BITS >> GROUP_BITS)
}

/// [`located`], with 19 bits fewer of time, in which few keys meet.
fn narrow(word: u64) -> Composite<u32, u32> {
    let (group, time) = located(word);
    Composite::new(group, (time >> 19) as u32)
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    by(session, &data, "u64", narrow, |key| (key.first(), u64::from(key.second())))?;
    let wide = |word: u64| Composite::<u32, u64>::from(located(word));
    by(session, &data, "u128", wide, |key| (key.first(), key.second()))
}

fn measure_pinned(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    pinned_by(session, &data, "u64", narrow, |key| key.first())?;
    pinned_by(session, &data, "u128", |word| Composite::<u32, u64>::from(located(word)), |key| key.first())
}

/// The keys of quotes, and a tree of their row numbers.
fn quotes<K: AnyKey>(
    session: &Session,
    data: &Data<u64>,
    key: &(impl Fn(u64) -> K + Sync),
) -> Result<(Vec<K>, LaneTree<K, u32>)> {
    let mut keys: Vec<K> = data.keys.par_iter().map(|&word| key(word)).collect();
    keys.dedup();
    let rows: Vec<u32> = (0..keys.len() as u32).collect();
    let tree = LaneTree::builder().build_sorted(&session.device, &keys, &rows)?;
    Ok((keys, tree))
}

/// The last quote of a probe's group at or before it.
fn pinned_by<K: AnyKey>(
    session: &mut Session,
    data: &Data<u64>,
    bits: &'static str,
    key: impl Fn(u64) -> K + Sync,
    group: impl Fn(K) -> u32 + Sync,
) -> Result<()> {
    let (keys, tree) = quotes(session, data, &key)?;
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
        let timing = session
            .time_into(&mut out, |out| tree.asof_many_pinned(&probes, &AsOf::backward(), u32::MAX, out, None))?;
        let what = format!("as-of from pinned memory, {bits}, {}", order.name());
        let wanted = |i: usize| before(i).map_or(u32::MAX, |at| at as u32);
        let checksum = session.check_slice(&what, "rows", &out, 0..count, u32::MAX, wanted)?;
        let present = (0..count).into_par_iter().count_if(|&i| before(i).is_some());
        let row = Row::new(PINNED.name, "lanetree", "backward", count, timing, checksum);
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
    let (keys, tree) = quotes(session, data, &key)?;
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
            let on = || tree.on(&session.stream).order(known);
            let timing = session.time_call(&mut out, |(keys, rows, hits)| match &how {
                None => on().hits(hits).predecessor(&queries, keys, rows),
                Some(how) => on().asof(&queries, how, keys, rows, hits),
            })?;
            let (_, found, hits) = out;
            let what = format!("as-of, {bits}, {operation}, {}", order.name());
            let wanted = |i: usize| expected(i).map_or(u32::MAX, |at| at as u32);
            let checksum = session.check(&what, "rows", &found, count, u32::MAX, wanted)?;
            let hits: u64 = hits.to_vec()?.iter().map(|word| u64::from(word.count_ones())).sum();
            let present = (0..count).into_par_iter().count_if(|&i| expected(i).is_some());
            session.expect(&what, "hits", hits, present as u64)?;
            let row = Row::new(FIGURE.name, "lanetree", operation, count, timing, checksum);
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
