//! The paper's figures 13 and 14: batches of inserts into the regular tree, by both methods, ours and the paper's.

use crate::bench::data::value_of;
use crate::bench::error::{Error, Result};
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::regular::{RegularSubject, fresh};
use crate::bench::hbtree::room::has_room;
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::time::Duration;
use lanetree::DeviceKind;
use lanetree::hbtree::{self, UpdateMethod, UpdateTimes};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::cpu::ConcurrentTree;
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-updates", Run::Alone(measure));

/// The largest `scc::TreeIndex`, as a power of two: it takes inserts one by one.
const MOST_SCC: u32 = 24;

/// The largest tree that grows to twice its size, as a power of two; and that of the batches: the paper's groups.
const MOST_GROWING: u32 = 22;
const GROUP: u32 = 14;

/// Operations of the batches, as powers of two.
fn batches(session: &Session) -> Vec<u32> {
    match session.device.kind() {
        DeviceKind::Cuda => vec![10, 12, 14, 16, 17, 18, 20],
        DeviceKind::Host => vec![6, 10, 12, 14, 16, 18, 20],
        DeviceKind::Emulated => vec![4, 7],
    }
}

/// The methods that there are on the session's device, their names, and whether the device sorts.
fn ways(session: &Session) -> &'static [(UpdateMethod, Option<&'static str>, bool)] {
    match session.runs_kernels() {
        true => &[
            (UpdateMethod::Asynchronous, Some("asynchronous"), false),
            (UpdateMethod::Synchronized, Some("synchronized"), false),
            (UpdateMethod::Asynchronous, Some("asynchronous"), true),
            (UpdateMethod::Synchronized, Some("synchronized"), true),
            (UpdateMethod::Queue, Some("queue"), false),
            (UpdateMethod::Whole, Some("whole"), false),
        ],
        // Nothing is sent.
        false => &[(UpdateMethod::Auto, None, false)],
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let all = rayon::current_num_threads();
    let threads = if all > 1 { vec![1, all] } else { vec![1] };
    growing(session, main_of(&request.sizes).min(MOST_GROWING))?;
    at_each(session, request, |session, size| {
        let Some(mut subject) = RegularSubject::build(session, size)? else { return Ok(()) };
        let batches: Vec<u32> = batches(session).into_iter().filter(|&batch| batch + 2 <= size).collect();
        for &batch in &batches {
            for &(method, name, by_device) in ways(session) {
                subject.tree.set_update_method(method);
                subject.tree.set_device_updates(by_device);
                for &threads in &threads {
                    let what = format!("2^{batch} inserts, {}", subject.keys.describe());
                    if session.has_time(&what) {
                        let row = inserts(session, &mut subject, method, (batch, threads), &what)?;
                        session.push(row.with("method", name).with("sorted_by", by_device.then_some("device")));
                    }
                }
            }
        }
        drop(subject);
        concurrent(session, size, &batches)
    })
}

/// A tree, the keys of a batch, and what the batches took.
struct State<'a, T> {
    tree: &'a mut T,
    keys: Vec<u64>,
    values: Vec<u64>,
    /// The same inserts, if they are done in groups.
    requests: Vec<hbtree::Request<u64, u64>>,
    round: u64,
    times: Vec<UpdateTimes>,
}

impl<'a, T> State<'a, T> {
    fn new(tree: &'a mut T, count: usize) -> Self {
        let (times, requests) = (Vec::new(), Vec::new());
        Self { tree, keys: vec![0; count], values: vec![0; count], requests, round: 0, times }
    }

    /// Out with the last batch, in with new keys: every batch meets a tree of n pairs.
    fn next(&mut self, seed: u64, remove: impl FnOnce(&mut T, &[u64]) -> Result<()>) -> Result<()> {
        if self.round > 0 {
            remove(self.tree, &self.keys)?;
        }
        self.round += 1;
        fresh(seed, self.round, &mut self.keys);
        self.keys.par_iter().map(|&key| value_of(key)).collect_into_vec(&mut self.values);
        Ok(())
    }
}

fn inserts(
    session: &mut Session,
    subject: &mut RegularSubject,
    method: UpdateMethod,
    (batch, threads): (u32, usize),
    what: &str,
) -> Result<Row> {
    session.doing(what);
    let (count, seed) = (1 << batch, session.seed ^ u64::from(batch));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads are there");
    let mut state = State::new(&mut subject.tree, count);
    let mut nodes = 0;
    let timing = session.time_prepared(
        &mut state,
        |state| {
            state.next(seed, |tree, keys| Ok(tree.remove_many(keys).map(drop)?))?;
            nodes = state.tree.stats().inner_nodes;
            if method == UpdateMethod::Whole {
                let pairs = state.keys.iter().zip(&state.values);
                state.requests = pairs.map(|(&key, &value)| hbtree::Request::Insert(key, value)).collect();
            }
            Ok(())
        },
        |state| {
            if method == UpdateMethod::Whole {
                pool.install(|| state.tree.mixed(&state.requests)).map_err(lanetree::Error::from)?;
            } else {
                pool.install(|| state.tree.insert_many(&state.keys, &state.values))?;
            }
            state.times.push(state.tree.update_times());
            Ok(())
        },
    )?;
    let State { keys, times, .. } = state;
    let new_nodes = subject.tree.stats().inner_nodes - nodes;
    let checksum = subject.are_there(session, what, &keys)?;
    // The next row begins with the same tree.
    subject.tree.remove_many(&keys)?;
    let mut row = subject.row(session, FIGURE.name, "insert_many", (count, timing, checksum)).with("threads", threads);
    let skipped = usize::from(times.len() > 1);
    let mut part = |name, part: fn(&UpdateTimes) -> Duration| {
        let times = times.iter().skip(skipped).map(|times| part(times).as_secs_f64() * 1e3).collect();
        row.set(name, Timing::of(times).median_ms);
    };
    part("update.fold_ms", |times| times.fold);
    part("update.find_ms", |times| times.find);
    part("update.plan_ms", |times| times.plan);
    part("update.room_ms", |times| times.room);
    part("update.host_ms", |times| times.host);
    if session.runs_kernels() {
        part("update.device_ms", |times| times.device);
    }
    Ok(with_new_nodes(row, new_nodes, count))
}

fn with_new_nodes(row: Row, new_nodes: u64, inserts: usize) -> Row {
    row.with("new_nodes", new_nodes).with("new_nodes_share", new_nodes as f64 / inserts as f64)
}

/// How many inserts split nodes until a tree has twice its pairs (section 5.6).
fn growing(session: &mut Session, size: u32) -> Result<()> {
    let what = format!("a tree that grows from 2^{size} pairs to twice as many");
    if !session.has_time(&what) {
        return Ok(());
    }
    let Some(mut subject) = RegularSubject::build(session, size)? else { return Ok(()) };
    let (count, nodes) = (1 << GROUP.min(size), subject.tree.stats().inner_nodes);
    let (mut keys, mut values, mut runs) = (vec![0; count], Vec::new(), Vec::new());
    let rounds = 0..subject.keys.len() as u64 / count as u64;
    for round in rounds.clone() {
        fresh(session.seed, round, &mut keys);
        keys.par_iter().map(|&key| value_of(key)).collect_into_vec(&mut values);
        let start = Instant::now();
        subject.tree.insert_many(&keys, &values)?;
        runs.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let mut checksum = Checksum::default();
    for round in rounds {
        fresh(session.seed, round, &mut keys);
        checksum = checksum.and(subject.are_there(session, &what, &keys)?);
    }
    let (new_nodes, inserts) = (subject.tree.stats().inner_nodes - nodes, runs.len() * count);
    let row = subject.row(session, FIGURE.name, "insert_many, growing", (count, Timing::of(runs), checksum));
    session.push(with_new_nodes(row.with("threads", rayon::current_num_threads()), new_nodes, inserts));
    Ok(())
}

/// The same batches into `scc::TreeIndex`.
fn concurrent(session: &mut Session, size: u32, batches: &[u32]) -> Result<()> {
    let what = format!("scc::TreeIndex, n = 2^{size}");
    if size > MOST_SCC {
        session.skip(format_args!("{what}: measured up to 2^{MOST_SCC}"));
        return Ok(());
    }
    if !session.has_time(&what) || !has_room(session, &what, 64 << size) {
        return Ok(());
    }
    session.doing(format_args!("building {what}"));
    let mut tree = ConcurrentTree::<u64, u64>::default();
    let keys = crate::bench::hbtree::keys::Keys::<u64>::new(size, session.seed_of(size));
    let (mut pairs, mut values) = (Vec::new(), Vec::new());
    keys.pairs_into(0..keys.len(), &mut pairs, &mut values);
    tree.insert_many(&pairs, &values);
    for &batch in batches {
        let (count, seed) = (1 << batch, session.seed ^ u64::from(batch));
        let mut state = State::new(&mut tree, count);
        let timing = session.time_prepared(
            &mut state,
            |state| {
                state.next(seed, |tree, keys| {
                    tree.remove_many(keys);
                    Ok(())
                })
            },
            |state| {
                state.tree.insert_many(&state.keys, &state.values);
                Ok(())
            },
        )?;
        let checksum = found(session, &what, state.tree, &state.keys)?;
        state.tree.remove_many(&state.keys);
        let row = Row::new(FIGURE.name, "scc::TreeIndex", "insert", count, timing, checksum).on("cpu").over(
            keys.len(),
            keys.name(),
            keys.name(),
            "uniform",
        );
        session.push(row.with("threads", rayon::current_num_threads()));
    }
    Ok(())
}

fn found(session: &Session, what: &str, tree: &ConcurrentTree<u64, u64>, keys: &[u64]) -> Result<Checksum, Error> {
    let mut out = vec![None; keys.len()];
    tree.get_into(keys, &mut out);
    session.check_found(&what, &out, keys.len(), crate::bench::data::miss(), |i| value_of(keys[i]))
}
