//! The CPU alone (the paper's figure 7): CuART's layout, the classical tree with pointers, and two crates.
//!
//! A ratio is worth most if the competitors take turns: each round looks the same fresh queries up in every tree,
//! with all threads. On a machine that others use too, the CPU time that the process took says more than the time
//! that went by: both are there.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::row::Row;
use crate::bench::session::Session;
use blart::TreeMap;
use congee::U64Congee;
use lanetree::cuart::RootTable;
use lanetree::{ByteKeys, Cuart, Device, FixedKey};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::art::{Art, task};
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-cpu", Run::Alone(on_cpu));

/// Queries of the paper's batches, as a power of two.
const PAPERS_BATCH: u32 = 15;

/// Rounds of such a batch, for one round of a large one.
const ROUNDS: usize = 8;

/// No key has this value.
const MISS: u64 = u64::MAX;

/// By the tree's size, of keys of 8 and 32 bytes.
fn on_cpu(session: &mut Session, request: &Request) -> Result<()> {
    for &size in &request.sizes {
        of_width::<8>(session, size)?;
        of_width::<32>(session, size)?;
    }
    Ok(())
}

/// What looks up a batch.
trait Tree<K> {
    /// As for [`Cuart::get_many_into`]; `packed` are the queries too.
    fn get(&self, queries: &[K], packed: ByteKeys<'_>, out: &mut [Option<u64>]) -> Result<()>;

    /// Bytes, where the tree tells.
    fn bytes(&self) -> Option<u64>;
}

impl<K> Tree<K> for Cuart<u64> {
    fn get(&self, _: &[K], packed: ByteKeys<'_>, out: &mut [Option<u64>]) -> Result<()> {
        Ok(self.get_many_into(packed, out)?)
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.stats().bytes())
    }
}

impl<K: AsRef<[u8]> + Sync> Tree<K> for Art {
    fn get(&self, queries: &[K], _: ByteKeys<'_>, out: &mut [Option<u64>]) -> Result<()> {
        self.get_into(|i| queries[i].as_ref(), out);
        Ok(())
    }

    fn bytes(&self) -> Option<u64> {
        Some(Art::bytes(self) as u64)
    }
}

impl<const N: usize> Tree<[u8; N]> for TreeMap<[u8; N], u64> {
    fn get(&self, queries: &[[u8; N]], _: ByteKeys<'_>, out: &mut [Option<u64>]) -> Result<()> {
        let len = task(queries.len());
        queries.par_chunks(len).zip(out.par_chunks_mut(len)).for_each(|(queries, out)| {
            for (query, out) in queries.iter().zip(out) {
                *out = TreeMap::get(self, query).copied();
            }
        });
        Ok(())
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

impl<const N: usize> Tree<[u8; N]> for U64Congee<usize> {
    fn get(&self, queries: &[[u8; N]], _: ByteKeys<'_>, out: &mut [Option<u64>]) -> Result<()> {
        let len = task(queries.len());
        queries.par_chunks(len).zip(out.par_chunks_mut(len)).for_each(|(queries, out)| {
            let guard = congee::epoch::pin();
            for (query, out) in queries.iter().zip(out) {
                *out = U64Congee::get(self, u64::read(&query[..8]), &guard).map(|value| value as u64);
            }
        });
        Ok(())
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// A tree, what it is called, and how long it took to build.
struct Competitor<K> {
    index: &'static str,
    operation: &'static str,
    tree: Box<dyn Tree<K>>,
    build_ms: f64,
}

impl<K> Competitor<K> {
    fn build<T: Tree<K> + 'static>(
        session: &Session,
        (index, operation): (&'static str, &'static str),
        build: impl FnOnce() -> Result<T>,
    ) -> Result<Self> {
        session.doing(format_args!("building {index}"));
        let start = Instant::now();
        let tree = Box::new(build()?);
        Ok(Self { index, operation, tree, build_ms: start.elapsed().as_secs_f64() * 1e3 })
    }
}

/// The trees over the same ascending keys; the one that the others are compared with is the first.
fn competitors<const N: usize>(session: &Session, data: &Data) -> Result<Vec<Competitor<[u8; N]>>> {
    let bytes = data.all();
    let mut pairs: Vec<([u8; N], u64)> =
        bytemuck::cast_slice::<u8, [u8; N]>(&bytes).iter().copied().zip(data.values::<u64>()).collect();
    drop(bytes);
    sort_unstable_by(&mut pairs, Ord::cmp);
    let mut all = vec![
        Competitor::build(session, ("ART", "get"), || Ok(Art::new(pairs.iter().copied())))?,
        Competitor::build(session, ("blart", "get"), || {
            let mut map: TreeMap<[u8; N], u64> = TreeMap::new();
            for &(key, value) in &pairs {
                map.insert(key, value);
            }
            Ok(map)
        })?,
    ];
    if N == 8 {
        all.push(Competitor::build(session, ("congee", "get"), || {
            let tree = U64Congee::<usize>::default();
            let guard = congee::epoch::pin();
            for &(key, value) in &pairs {
                tree.insert(u64::read(&key[..8]), value as usize, &guard).expect("there is memory");
            }
            drop(guard);
            Ok(tree)
        })?);
    }
    let (sorted, values): (Vec<[u8; N]>, Vec<u64>) = pairs.into_iter().unzip();
    let packed = keys(N, bytemuck::cast_slice(&sorted));
    let tables = [
        (RootTable::None, "get, no root table"),
        (RootTable::TwoBytes, "get, root table of 2 bytes"),
        (RootTable::ThreeBytes, "get, root table of 3 bytes"),
    ];
    for (table, operation) in tables {
        all.push(Competitor::build(session, ("cuart", operation), || {
            Ok(Cuart::<u64>::builder().root_table(table).build_sorted(&Device::host(), packed, &values)?)
        })?);
    }
    Ok(all)
}

fn of_width<const N: usize>(session: &mut Session, size: u32) -> Result<()> {
    let what = format!("CPU, n = 2^{size}, {N} bytes");
    if !session.has_time(&what) {
        return Ok(());
    }
    let data = Data::new(N, 1 << size, session.seed);
    let competitors = competitors::<N>(session, &data)?;
    let large = session.plan.cpu_queries;
    let runs = session.plan.runs;
    let batches =
        if large > PAPERS_BATCH { vec![(PAPERS_BATCH, ROUNDS * runs), (large, runs)] } else { vec![(large, runs)] };
    for (batch, rounds) in batches {
        if session.has_time(format_args!("{what}, batches of 2^{batch}")) {
            of_batch(session, &data, &competitors, 1 << batch, rounds)?;
        }
    }
    Ok(())
}

/// What a competitor took so far.
#[derive(Clone, Default)]
struct Times {
    wall_ms: Vec<f64>,
    cpu_ms: Vec<f64>,
    last: Checksum,
}

/// All competitors in turns, a batch of its own in each round.
fn of_batch<const N: usize>(
    session: &mut Session,
    data: &Data,
    competitors: &[Competitor<[u8; N]>],
    count: usize,
    rounds: usize,
) -> Result<()> {
    let mut times = vec![Times::default(); competitors.len()];
    // Round 0 is not counted.
    for round in 0..=rounds as u64 {
        let bytes = data.bytes(count, |query| data.query(round, query));
        let queries: &[[u8; N]] = bytemuck::cast_slice(&bytes);
        for (competitor, times) in competitors.iter().zip(&mut times) {
            let mut out = vec![Some(0); count];
            let (start, cpu) = (Instant::now(), cpu_ms());
            competitor.tree.get(queries, keys(N, &bytes), &mut out)?;
            let taken = (start.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu);
            let expected = |query: usize| data.query(round, query) + 1;
            times.last = session.check_found(&competitor.index, &out, count, MISS, expected)?;
            if round > 0 {
                times.wall_ms.push(taken.0);
                times.cpu_ms.push(taken.1);
            }
        }
    }
    let mut baseline = None;
    for (competitor, times) in competitors.iter().zip(times) {
        let timing = Timing::of(times.wall_ms);
        let cpu_ns = Timing::of(times.cpu_ms).median_ms * 1e6 / count as f64;
        let row = Row::new(FIGURE.name, competitor.index, competitor.operation, count, timing, times.last).on("cpu");
        let (rate, cpu) = *baseline.get_or_insert((row.giga_per_second, cpu_ns));
        let ratio = row.giga_per_second / rate;
        // A system that does not tell has zeros.
        let is_told = cpu_ns > 0.0 && cpu > 0.0;
        let bytes = competitor.tree.bytes();
        let row = data
            .label::<u64>(row)
            .with("ratio_to_baseline", ratio)
            .with("cpu.cpu_ns", is_told.then_some(cpu_ns))
            .with("cpu.cpu_ratio", is_told.then_some(cpu / cpu_ns))
            .with("cpu.build_ms", competitor.build_ms)
            .with("threads", rayon::current_num_threads())
            .with("footprint_bytes", bytes)
            .with("bytes_per_key", bytes.map(|bytes| bytes as f64 / data.len as f64));
        session.push(row);
    }
    Ok(())
}

/// Milliseconds of CPU time that the process has had so far, of all its threads; 0 where the system does not tell.
fn cpu_ms() -> f64 {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to a local variable of the type that it wants.
        let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        if status == 0 {
            return time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 * 1e-6;
        }
    }
    0.0
}
