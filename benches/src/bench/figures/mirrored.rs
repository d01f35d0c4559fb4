//! The update phase as Harmonia's paper has it (section 3.2): the CPU applies a batch, then the device's copy is
//! brought in sync; compared with batches that the device applies itself. For Harmonia and CuART.

use crate::bench::batches::Change;
use crate::bench::columns::power;
use crate::bench::cuart::data::keys as byte_keys;
use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::regular::fresh;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{BatchOf, Cuart, Device, DeviceKind, Harmonia, Mirror, Mirrored, OrderedIndex};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("mirrored", Run::Alone(measure));

/// Changes of a batch, as powers of two below the number of keys.
const BELOW: [u32; 3] = [10, 7, 5];

/// Reads for each write (section 3.2, of TPC-H).
const READS: usize = 35;

/// The part of each leaf of Harmonia's that is filled.
const FILL: f64 = 0.7;

/// An index over keys of 64 bits.
trait Subject: Mirror + OrderedIndex<Value = u64> {
    /// Keys as its batches have them.
    type Keys: Sync;

    fn build(keys: &[u64], values: &[u64]) -> lanetree::Result<Self>;
    fn keys(words: &[u64]) -> Self::Keys;
    fn batch(keys: &Self::Keys) -> BatchOf<'_, Self>;
    fn get_into(&self, keys: &Self::Keys, out: &mut [Option<u64>]) -> lanetree::Result<()>;
}

impl Subject for Harmonia<u64, u64> {
    type Keys = Vec<u64>;

    fn build(keys: &[u64], values: &[u64]) -> lanetree::Result<Self> {
        Self::builder().fill(FILL).build_sorted(&Device::host(), keys, values)
    }
    fn keys(words: &[u64]) -> Vec<u64> {
        words.to_vec()
    }
    fn batch(keys: &Vec<u64>) -> &[u64] {
        keys
    }
    fn get_into(&self, keys: &Vec<u64>, out: &mut [Option<u64>]) -> lanetree::Result<()> {
        self.get_many_into(keys, out)
    }
}

impl Subject for Cuart<u64> {
    type Keys = Vec<u8>;

    fn build(keys: &[u64], values: &[u64]) -> lanetree::Result<Self> {
        Self::build(&Device::host(), byte_keys(8, &<Self as Subject>::keys(keys)), values)
    }
    fn keys(words: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; 8 * words.len()];
        bytes.par_chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_be_bytes()));
        bytes
    }
    fn batch(keys: &Vec<u8>) -> BatchOf<'_, Self> {
        byte_keys(8, keys)
    }
    fn get_into(&self, keys: &Vec<u8>, out: &mut [Option<u64>]) -> lanetree::Result<()> {
        self.get_many_into(byte_keys(8, keys), out)
    }
}

/// Who applies changes.
enum Way<I> {
    Mirrored(Mirrored<I>),
    /// The device or the CPU, wherever the index is.
    Alone(I),
}

impl<I: Subject> Way<I> {
    fn name(&self) -> &'static str {
        match self {
            Self::Mirrored(_) => "mirrored",
            Self::Alone(index) if index.device().kind() == DeviceKind::Host => "CPU",
            Self::Alone(_) => "device",
        }
    }

    /// Applies a batch; the bytes sent to keep a copy in sync.
    fn change(&mut self, change: Change, keys: &I::Keys, values: &[u64]) -> lanetree::Result<u64> {
        let batch = I::batch(keys);
        let report = match (self, change) {
            (Self::Mirrored(both), Change::Insert) => both.insert_many(batch, values)?,
            (Self::Mirrored(both), Change::Update) => both.update_many(batch, values)?,
            (Self::Mirrored(both), Change::Remove) => both.remove_many(batch)?,
            (Self::Alone(index), change) => {
                match change {
                    Change::Insert => OrderedIndex::insert_many(index, batch, values)?,
                    Change::Update => OrderedIndex::update_many(index, batch, values)?,
                    Change::Remove => OrderedIndex::remove_many(index, batch)?,
                };
                return Ok(0);
            }
        };
        Ok(report.bytes_sent)
    }

    /// The index that answers queries.
    fn index(&self) -> &I {
        match self {
            Self::Mirrored(both) => both.device_index(),
            Self::Alone(index) => index,
        }
    }

    /// Compares what keys have, in all copies, with what they should have.
    fn check(
        &self,
        session: &Session,
        what: &str,
        keys: &I::Keys,
        count: usize,
        value: impl Fn(usize) -> u64 + Sync,
    ) -> Result<Checksum> {
        let host = if let Self::Mirrored(both) = self { Some(both.host_index()) } else { None };
        let mut out = vec![None; count];
        let mut checksum = Checksum::default();
        for index in [Some(self.index()), host].into_iter().flatten() {
            index.get_into(keys, &mut out)?;
            checksum = check_found(session, what, &out, &value)?;
        }
        Ok(checksum)
    }
}

fn check_found(
    session: &Session,
    what: &str,
    out: &[Option<u64>],
    value: impl Fn(usize) -> u64 + Sync,
) -> Result<Checksum> {
    session.check_found(&what, out, out.len(), miss(), value)
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let keys = Keys::<u64>::new(size, session.seed_of(size));
        let (mut all, mut values) = (Vec::new(), Vec::new());
        keys.pairs_into(0..keys.len(), &mut all, &mut values);
        session.doing(format_args!("building Harmonia, {}", keys.describe()));
        let harmonia = <Harmonia<u64, u64> as Subject>::build(&all, &values)?;
        of_index(session, keys, harmonia)?;
        session.doing(format_args!("building CuART, {}", keys.describe()));
        let cuart = <Cuart<u64> as Subject>::build(&all, &values)?;
        drop((all, values));
        of_index(session, keys, cuart)
    })
}

/// All of it for one index, which is on the host.
fn of_index<I: Subject>(session: &mut Session, keys: Keys<u64>, host: I) -> Result<()> {
    let on_device = host.to_device(&session.device)?;
    // Milliseconds of the first way, which the others are compared with.
    let mut first: Vec<(String, usize, f64)> = Vec::new();
    let mirrored = of_way(session, keys, Way::Mirrored(Mirrored::new(host, &session.device)?), &mut first)?;
    of_way(session, keys, Way::Alone(on_device), &mut first)?;
    let Way::Mirrored(mirrored) = mirrored else { unreachable!("that is how it was made") };
    of_way(session, keys, Way::Alone(mirrored.into_indexes().0), &mut first)?;
    Ok(())
}

fn of_way<I: Subject>(
    session: &mut Session,
    keys: Keys<u64>,
    mut way: Way<I>,
    first: &mut Vec<(String, usize, f64)>,
) -> Result<Way<I>> {
    let counts = BELOW.map(|below| 1_usize << keys.size().saturating_sub(below));
    for change in [Change::Insert, Change::Update, Change::Remove] {
        for count in counts {
            way = batches(session, keys, way, (change, count), first)?;
        }
    }
    phases(session, keys, way, counts[1], first)
}

/// Adds a row, with how it compares with the first way's.
fn push<I: Subject>(
    session: &mut Session,
    keys: Keys<u64>,
    way: &Way<I>,
    mut row: Row,
    first: &mut Vec<(String, usize, f64)>,
) {
    let is_same =
        |(operation, batch, _): &&(String, usize, f64)| (&row.operation, row.batch) == (operation, *batch as u64);
    let ms = row.timing.median_ms;
    let baseline = first.iter().find(is_same).map(|&(_, _, ms)| ms);
    if baseline.is_none() {
        first.push((row.operation.clone(), row.batch as usize, ms));
    }
    row.set("ratio_to_baseline", baseline.unwrap_or(ms) / ms);
    let row = row
        .on(if way.name() == "CPU" { "cpu" } else { session.device_name() })
        .over(keys.len(), keys.name(), keys.name(), "uniform")
        .with("way", way.name())
        .with("threads", rayon::current_num_threads());
    session.push(row);
}

/// A way and the batch that it was changed by last.
struct State<I: Subject> {
    way: Way<I>,
    round: u64,
    words: Vec<u64>,
    keys: I::Keys,
    values: Vec<u64>,
    bytes_sent: u64,
}

impl<I: Subject> State<I> {
    /// Brings the pairs to what they were before the last batch.
    fn undo(&mut self, change: Change) -> Result<()> {
        if self.words.is_empty() {
            return Ok(());
        }
        let before: Vec<u64> = self.words.par_iter().map(|&key| value_of(key)).collect();
        let back = match change {
            Change::Insert => Change::Remove,
            Change::Update => Change::Update,
            Change::Remove => Change::Insert,
        };
        Ok(self.way.change(back, &self.keys, &before).map(drop)?)
    }
}

/// What updates write.
fn written(key: u64, round: u64) -> u64 {
    mix(key ^ round)
}

/// Batches of one kind of change.
fn batches<I: Subject>(
    session: &mut Session,
    keys: Keys<u64>,
    way: Way<I>,
    (change, count): (Change, usize),
    first: &mut Vec<(String, usize, f64)>,
) -> Result<Way<I>> {
    let what =
        format!("{}, {}, {} of {}, {}", I::NAME, way.name(), change.name(), power(count as u64), keys.describe());
    if !session.has_time(&what) {
        return Ok(way);
    }
    let (seed, rank) = (session.seed ^ count as u64, keys.shuffled(session.seed));
    let empty = I::keys(&[]);
    let mut state = State { way, round: 0, words: Vec::new(), keys: empty, values: Vec::new(), bytes_sent: 0 };
    let timing = session.time_prepared(
        &mut state,
        |state| {
            state.undo(change)?;
            state.round += 1;
            state.words.resize(count, 0);
            match change {
                Change::Insert => fresh(seed, state.round, &mut state.words),
                _ => state.words.par_iter_mut().enumerate().for_each(|(i, key)| {
                    *key = keys.key(rank(state.round, count, i));
                }),
            }
            let value = |&key: &u64| if change == Change::Update { written(key, state.round) } else { value_of(key) };
            state.values = state.words.par_iter().map(value).collect();
            state.keys = I::keys(&state.words);
            Ok(())
        },
        |state| {
            state.bytes_sent = state.way.change(change, &state.keys, &state.values)?;
            Ok(())
        },
    )?;
    let expected = |i: usize| if change == Change::Remove { miss() } else { state.values[i] };
    let checksum = state.way.check(session, &what, &state.keys, count, expected)?;
    state.undo(change)?;
    let row = Row::new(FIGURE.name, I::NAME, change.name(), count, timing, checksum);
    let row = match &state.way {
        Way::Mirrored(_) => row.with("bytes_sent", state.bytes_sent),
        Way::Alone(_) => row,
    };
    push(session, keys, &state.way, row, first);
    Ok(state.way)
}

/// Phases of reads and writes, 35 to 1.
fn phases<I: Subject>(
    session: &mut Session,
    keys: Keys<u64>,
    way: Way<I>,
    changes: usize,
    first: &mut Vec<(String, usize, f64)>,
) -> Result<Way<I>> {
    let what = format!("{}, {}, phases of {} changes, {}", I::NAME, way.name(), power(changes as u64), keys.describe());
    if !session.has_time(&what) {
        return Ok(way);
    }
    let (seed, rank) = (session.seed ^ 0x35, keys.shuffled(session.seed ^ 0x35));
    let parts = [(Change::Update, changes / 2), (Change::Insert, changes / 4), (Change::Remove, changes / 4)];
    let state = |_| (Vec::new(), I::keys(&[]), Vec::new());
    // For each kind of change its keys, as words and as the index has them, and its values.
    type Part<K> = (Vec<u64>, K, Vec<u64>);
    let mut batches: [Part<I::Keys>; 3] = parts.map(state);
    let reads = READS * changes;
    let mut asked: Vec<u64> = vec![0; reads];
    let mut asked_keys = I::keys(&[]);
    let (mut round, mut reads_ms) = (0_u64, Vec::new());
    let undo = |way: &mut Way<I>, batches: &[Part<I::Keys>; 3]| -> lanetree::Result<()> {
        let [updated, inserted, removed] = batches;
        let before = |words: &[u64]| words.par_iter().map(|&key| value_of(key)).collect();
        way.change(Change::Update, &updated.1, &before(&updated.0))?;
        way.change(Change::Remove, &inserted.1, &inserted.2)?;
        way.change(Change::Insert, &removed.1, &before(&removed.0)).map(drop)
    };
    let cell = core::cell::RefCell::new((&mut batches, &mut asked_keys));
    let mut run = (way, vec![None; reads], 0_u64);
    let timing = session.time_prepared(
        &mut run,
        |(way, out, _)| {
            let (batches, asked_keys) = &mut *cell.borrow_mut();
            if round > 0 {
                undo(way, batches)?;
            }
            round += 1;
            out.fill(None);
            asked.par_iter_mut().enumerate().for_each(|(i, key)| *key = keys.key(rank(round, reads, i)));
            **asked_keys = I::keys(&asked);
            let mut from = 0;
            for ((words, as_keys, values), (change, count)) in batches.iter_mut().zip(parts) {
                words.resize(count, 0);
                match change {
                    Change::Insert => fresh(seed, round, words),
                    _ => words.par_iter_mut().enumerate().for_each(|(i, key)| {
                        *key = keys.key(rank(round, changes, from + i));
                    }),
                }
                from += count;
                let value = |&key: &u64| if change == Change::Update { written(key, round) } else { value_of(key) };
                *values = words.par_iter().map(value).collect();
                *as_keys = I::keys(words);
            }
            Ok(())
        },
        |(way, out, sent)| {
            let (batches, asked_keys) = &*cell.borrow();
            let start = Instant::now();
            way.index().get_into(asked_keys, out)?;
            reads_ms.push(start.elapsed().as_secs_f64() * 1e3);
            *sent = 0;
            for ((_, keys, values), (change, _)) in batches.iter().zip(parts) {
                *sent += way.change(change, keys, values)?;
            }
            Ok(())
        },
    )?;
    let (mut way, out, sent) = run;
    let mut checksum = check_found(session, &what, &out, |i| value_of(asked[i]))?;
    for ((words, as_keys, values), (change, count)) in batches.iter().zip(parts) {
        let expected = |i: usize| if change == Change::Remove { miss() } else { values[i] };
        checksum = checksum.and(way.check(session, &what, as_keys, words.len().min(count), expected)?);
    }
    undo(&mut way, &batches)?;
    reads_ms.sort_by(f64::total_cmp);
    let row = Row::new(FIGURE.name, I::NAME, "35 : 1", reads + changes, timing, checksum);
    let row = row.with("reads_ms", reads_ms[reads_ms.len() / 2]).with("changes", changes);
    let row = if let Way::Mirrored(_) = way { row.with("bytes_sent", sent) } else { row };
    push(session, keys, &way, row, first);
    Ok(way)
}
