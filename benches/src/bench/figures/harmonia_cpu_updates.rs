//! The paper's figure 14: batches of updates on the CPU by Algorithm 1, compared with B+trees that all threads update,
//! and with GPU B+trees.

use crate::bench::batches::Change;
use crate::bench::columns::power;
use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::regular::fresh;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{Cubpt, Device, Harmonia};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::cpu::ConcurrentTree;
use lanetree_baselines::palm::{Operation, Options, Tree};
use lanetree_record::Timing;
use std::sync::Arc;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("harmonia-cpu-updates", Run::Alone(measure));

/// Operations of a batch, as a power of two below the number of keys.
const BELOW: u32 = 4;

/// In the order of a round: what is inserted is removed.
const ROUND: [Change; 3] = [Change::Update, Change::Insert, Change::Remove];

enum Index {
    Harmonia(Box<Harmonia<u64, u64>>),
    Cubpt(Box<Cubpt<u64, u64>>),
    /// One tree, with sorted batches and without: what is inserted is removed before the other has its turn.
    Concurrent(Arc<ConcurrentTree<u64, u64>>),
    Palm(Box<Tree<u64, u64>>),
}

impl Index {
    /// Applies a batch; whether it could.
    fn apply(&mut self, change: Change, keys: &[u64], values: &[u64]) -> lanetree::Result<bool> {
        match (self, change) {
            (Self::Harmonia(tree), Change::Update) => tree.update_many(keys, values).map(drop)?,
            (Self::Harmonia(tree), Change::Insert) => tree.insert_many(keys, values).map(drop)?,
            (Self::Harmonia(tree), Change::Remove) => tree.remove_many(keys).map(drop)?,
            (Self::Cubpt(tree), Change::Update) => tree.update_many(keys, values).map(drop)?,
            (Self::Cubpt(tree), Change::Insert) => tree.insert_many(keys, values).map(drop)?,
            (Self::Cubpt(tree), Change::Remove) => tree.remove_many(keys).map(drop)?,
            (Self::Concurrent(_), Change::Update) => return Ok(false),
            (Self::Concurrent(tree), Change::Insert) => drop(tree.insert_many(keys, values)),
            (Self::Concurrent(tree), Change::Remove) => drop(tree.remove_many(keys)),
            (Self::Palm(tree), Change::Update | Change::Insert) => drop(tree.insert_palm(keys, values)),
            (Self::Palm(tree), Change::Remove) => {
                let operations: Vec<_> = keys.par_iter().map(|&key| Operation::Remove(key)).collect();
                tree.apply_palm(&operations, &mut vec![None; operations.len()]);
            }
        }
        Ok(true)
    }

    fn get(&self, keys: &[u64]) -> lanetree::Result<Vec<Option<u64>>> {
        let mut out = vec![None; keys.len()];
        match self {
            Self::Harmonia(tree) => tree.get_many_into(keys, &mut out)?,
            Self::Cubpt(tree) => out = tree.get_many(keys)?,
            Self::Concurrent(tree) => tree.get_into(keys, &mut out),
            Self::Palm(tree) => tree.get_into(keys, &mut out),
        }
        Ok(out)
    }
}

/// A tree in the competition, and what its batches took, by the kind of change.
struct Competitor {
    name: &'static str,
    index: Index,
    /// Whether it is given sorted batches; the sort is part of the time.
    is_sorting: bool,
    fanout: Option<u32>,
    fill: Option<f64>,
    device: Option<&'static str>,
    runs: [Vec<f64>; 3],
}

impl Competitor {
    fn new(name: &'static str, index: Index) -> Self {
        let runs = [const { Vec::new() }; 3];
        Self { name, index, is_sorting: false, fanout: None, fill: None, device: None, runs }
    }

    /// Applies a batch and notes the time.
    fn run(&mut self, change: Change, (keys, values): (&[u64], &[u64])) -> Result<bool> {
        let start = Instant::now();
        let is_done = if self.is_sorting {
            let mut pairs: Vec<(u64, u64)> = keys.par_iter().copied().zip(values.par_iter().copied()).collect();
            sort_unstable_by(&mut pairs, Ord::cmp);
            let (keys, values) = pairs.into_par_iter().try_unzip().expect("memory for a batch");
            self.index.apply(change, &keys, &values)?
        } else {
            self.index.apply(change, keys, values)?
        };
        if is_done {
            self.runs[change as usize].push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(is_done)
    }
}

/// Filled to this part where a tree can be.
const FILL: f64 = 0.7;

fn competitors(session: &Session, keys: &[u64], values: &[u64]) -> Result<Vec<Competitor>> {
    let host = Device::host();
    let harmonia = |device: &Device, fanout, fill, name| -> Result<Competitor> {
        let tree = Harmonia::builder().fanout(fanout).fill(fill).build_sorted(device, keys, values)?;
        let competitor = Competitor::new("harmonia", Index::Harmonia(Box::new(tree)));
        Ok(Competitor { fanout: Some(fanout), fill: Some(fill), device: name, ..competitor })
    };
    let concurrent = Arc::new(ConcurrentTree::default());
    concurrent.insert_many(keys, values);
    let options = Options { fill: FILL, threads: rayon::current_num_threads().min(1024), ..Options::default() };
    let (palm, _) = Tree::build_parallel(keys, values, options);
    let mut all = vec![
        Competitor::new("scc", Index::Concurrent(concurrent.clone())),
        Competitor { is_sorting: true, ..Competitor::new("scc, sorted", Index::Concurrent(concurrent)) },
        Competitor { fill: Some(FILL), ..Competitor::new("PALM", Index::Palm(Box::new(palm))) },
        harmonia(&host, 8, 1.0, None)?,
        harmonia(&host, 8, FILL, None)?,
        harmonia(&host, 32, FILL, None)?,
    ];
    if session.runs_kernels() {
        let name = Some(session.device_name());
        all.push(harmonia(&session.device, 8, FILL, name)?);
        let tree = Cubpt::builder().fill(FILL).build(&session.device, keys, values)?;
        let cubpt = Competitor::new("cubpt", Index::Cubpt(Box::new(tree)));
        all.push(Competitor { fill: Some(FILL), device: name, ..cubpt });
    }
    Ok(all)
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let keys = Keys::<u64>::new(size, session.seed_of(size));
        let (mut all, mut values) = (Vec::new(), Vec::new());
        keys.pairs_into(0..keys.len(), &mut all, &mut values);
        session.doing(format_args!("building trees, {}", keys.describe()));
        let competitors = competitors(session, &all, &values)?;
        drop((all, values));
        rounds(session, keys, competitors, 1 << size.saturating_sub(BELOW))
    })
}

/// The keys of a kind of change, and their values.
type Batch = (Vec<u64>, Vec<u64>);

fn rounds(session: &mut Session, keys: Keys<u64>, mut competitors: Vec<Competitor>, count: usize) -> Result<()> {
    let rank = keys.shuffled(session.seed);
    let mut checksums = [Checksum::default(); 3];
    for round in 1..=session.plan.runs as u64 {
        if !session.has_time(format_args!("round {round}, {}", keys.describe())) {
            break;
        }
        let updated: Vec<u64> = (0..count).into_par_iter().map(|i| keys.key(rank(round, count, i))).collect();
        let mut inserted = vec![0; count];
        fresh(session.seed, round, &mut inserted);
        let written: Vec<u64> = updated.par_iter().map(|&key| mix(key ^ round)).collect();
        let values: Vec<u64> = inserted.par_iter().map(|&key| value_of(key)).collect();
        let batches: [Batch; 3] = [(updated, written), (inserted.clone(), values.clone()), (inserted, values)];
        for competitor in &mut competitors {
            for (change, (keys, values)) in ROUND.into_iter().zip(&batches) {
                if competitor.run(change, (keys, values))? {
                    let found = competitor.index.get(keys)?;
                    let what = format!("{}, {} of {}", competitor.name, change.name(), power(count as u64));
                    let expected = |i: usize| if change == Change::Remove { miss() } else { values[i] };
                    let checksum = session.check_found(&what, &found, count, miss(), expected)?;
                    checksums[change as usize] = checksum;
                }
            }
        }
    }
    for change in ROUND {
        let median = |name: &str| {
            let competitor = competitors.iter().find(|competitor| competitor.name == name)?;
            Some(competitor.runs[change as usize].clone())
                .filter(|runs| !runs.is_empty())
                .map(|runs| Timing::of(runs).median_ms)
        };
        let (scc, palm) = (median("scc, sorted"), median("PALM"));
        for competitor in &competitors {
            let runs = competitor.runs[change as usize].clone();
            if runs.is_empty() {
                continue;
            }
            let timing = Timing::of(runs);
            let ratio = |other: Option<f64>| other.map(|other| other / timing.median_ms);
            let (x_scc, x_palm) = (ratio(scc), ratio(palm));
            let row = Row::new(FIGURE.name, competitor.name, change.name(), count, timing, checksums[change as usize]);
            let row = row
                .on(competitor.device.unwrap_or("cpu"))
                .over(keys.len(), keys.name(), keys.name(), "uniform")
                .with("threads", rayon::current_num_threads())
                .with("fanout", competitor.fanout)
                .with("fill", competitor.fill)
                .with("x_scc", x_scc)
                .with("x_palm", x_palm);
            session.push(row);
        }
    }
    Ok(())
}
