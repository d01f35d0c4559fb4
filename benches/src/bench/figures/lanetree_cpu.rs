//! LaneTree on the CPU, by the instructions that it has, compared with other indexes.
//!
//! Competitors take turns: each round looks the same fresh queries up in every index, so what else a machine does slows all of
//! them.

use crate::bench::data::{BenchWord, miss, value_of};
use crate::bench::error::{Error, Result};
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::room::has_room;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::hbtree::HbTree;
use lanetree::lane_tree::Simd;
use lanetree::{Device, Harmonia, KeyWord, LaneTree};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::cpu::BTree;
use lanetree_record::Timing;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("lanetree-cpu", Run::Alone(measure));

/// One thread gets a part of the queries.
const FEWER_FOR_ONE_THREAD: usize = 4;

/// Decides the ranks that the figure asks for.
const RANKS: u64 = 0x1a7;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_width::<u64>(session, size)?;
        of_width::<u32>(session, size)
    })
}

/// Who looks up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    BTreeMap,
    Harmonia,
    HbTree,
    LaneTree(Simd),
}

impl Who {
    /// All that this CPU can run; the first is the one that others are compared with.
    fn all() -> Vec<Self> {
        let by_simd = Simd::ALL.into_iter().filter(|simd| simd.is_available()).map(Self::LaneTree);
        [Self::BTreeMap, Self::Harmonia, Self::HbTree].into_iter().chain(by_simd).collect()
    }

    fn index(self) -> &'static str {
        match self {
            Self::BTreeMap => "BTreeMap",
            Self::Harmonia => "harmonia",
            Self::HbTree => "hbtree",
            Self::LaneTree(_) => "lanetree",
        }
    }

    fn simd(self) -> Option<&'static str> {
        match self {
            Self::LaneTree(Simd::Portable) => Some("portable"),
            Self::LaneTree(Simd::Avx2) => Some("AVX2"),
            Self::LaneTree(Simd::Avx512) => Some("AVX-512"),
            _ => None,
        }
    }
}

/// The indexes over the same pairs.
struct Indexes<W: BenchWord> {
    map: BTree<W, W>,
    harmonia: Harmonia<W, W>,
    hbtree: HbTree<W, W>,
    lanetree: LaneTree<W, W>,
}

impl<W: BenchWord> Indexes<W> {
    fn build(keys: &Keys<W>) -> Result<Self> {
        let (mut all, mut values) = (Vec::new(), Vec::new());
        keys.pairs_into(0..keys.len(), &mut all, &mut values);
        let host = Device::host();
        Ok(Self {
            harmonia: Harmonia::builder().build_sorted(&host, &all, &values)?,
            hbtree: HbTree::builder().build_sorted(&host, &all, &values)?,
            lanetree: LaneTree::builder().build_sorted(&host, &all, &values)?,
            map: BTree::new(all.into_iter().zip(values)),
        })
    }

    fn get_into(&mut self, who: Who, pool: &ThreadPool, queries: &[W], out: &mut [Option<W>]) -> Result<f64> {
        if let Who::LaneTree(simd) = who {
            self.lanetree.set_simd(simd);
        }
        let start = Instant::now();
        pool.install(|| -> Result<()> {
            match who {
                Who::BTreeMap => self.map.get_into(queries, out),
                Who::Harmonia => self.harmonia.get_many_into(queries, out)?,
                Who::HbTree => self.hbtree.get_many_into(queries, out)?,
                Who::LaneTree(_) => self.lanetree.get_many_into(queries, out)?,
            }
            Ok(())
        })?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// The standard library does not say what its map takes.
    fn bytes(&self, who: Who) -> Option<u64> {
        match who {
            Who::BTreeMap => None,
            Who::Harmonia => Some(self.harmonia.stats().bytes()),
            Who::HbTree => Some(self.hbtree.bytes()),
            Who::LaneTree(_) => Some(self.lanetree.stats().bytes()),
        }
    }
}

fn of_width<W: BenchWord>(session: &mut Session, size: u32) -> Result<()> {
    let keys = Keys::<W>::new(size, session.seed_of(size));
    let what = format!("LaneTree on the CPU, {}", keys.describe());
    // Five copies of the pairs, and what is above them.
    let needed = 16 * <W as KeyWord>::BYTES as u64 * keys.len() as u64;
    if !session.has_time(&what) || !has_room(session, &what, needed) {
        return Ok(());
    }
    session.doing(format_args!("{what}, building"));
    let mut indexes = Indexes::build(&keys)?;
    let all = rayon::current_num_threads();
    let count = 1_usize << session.plan.cpu_queries;
    for threads in if all > 1 { vec![1, all] } else { vec![1] } {
        let what = format!("{what}, {threads} threads");
        if session.has_time(&what) {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.map_err(|error| Error::Usage(format!("cannot start {threads} threads: {error}")))?;
            let count = if threads == 1 { (count / FEWER_FOR_ONE_THREAD).max(1) } else { count };
            in_turns(session, &mut indexes, &keys, &pool, count, &what)?;
        }
    }
    Ok(())
}

/// What an index took so far.
struct Times {
    who: Who,
    ms: Vec<f64>,
    last: Checksum,
}

fn in_turns<W: BenchWord>(
    session: &mut Session,
    indexes: &mut Indexes<W>,
    keys: &Keys<W>,
    pool: &ThreadPool,
    count: usize,
    what: &str,
) -> Result<()> {
    session.doing(what);
    let rank = keys.shuffled(session.seed ^ RANKS);
    let mut times: Vec<Times> =
        Who::all().into_iter().map(|who| Times { who, ms: Vec::new(), last: Checksum::default() }).collect();
    // Round 0 is not counted.
    for round in 0..=session.plan.runs as u64 {
        let queries: Vec<W> = (0..count).into_par_iter().map(|i| keys.key(rank(round, count, i))).collect();
        for Times { who, ms, last } in &mut times {
            let mut out = vec![Some(miss()); count];
            let taken = indexes.get_into(*who, pool, &queries, &mut out)?;
            *last = session.check_found(&who.index(), &out, count, miss(), |i| value_of(queries[i]))?;
            if round > 0 {
                ms.push(taken);
            }
        }
    }
    let name = keys.name();
    let mut rows: Vec<(Who, Row)> = Vec::new();
    for Times { who, ms, last } in times {
        let row = Row::new(FIGURE.name, who.index(), "get_many_into", count, Timing::of(ms), last)
            .on("cpu")
            .over(keys.len(), name, name, "uniform")
            .with("threads", pool.current_num_threads());
        let bytes = indexes.bytes(who);
        let mut row = row
            .with("footprint_bytes", bytes)
            .with("bytes_per_key", bytes.map(|bytes| bytes as f64 / keys.len() as f64));
        row.set("simd", who.simd());
        rows.push((who, row));
    }
    let rate_of = |of: Who| rows.iter().find(|(who, _)| *who == of).map(|(_, row)| row.giga_per_second);
    let (of_map, of_harmonia) = (rate_of(Who::BTreeMap), rate_of(Who::Harmonia));
    for (_, mut row) in rows {
        row.set("ratio_to_baseline", of_map.map(|rate| row.giga_per_second / rate));
        row.set("x_harmonia", of_harmonia.map(|rate| row.giga_per_second / rate));
        session.push(row);
    }
    Ok(())
}
