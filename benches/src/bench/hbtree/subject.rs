//! A tree under test, and what all rows about it have in common.

use crate::bench::calls::Calls;
use crate::bench::data::{BenchWord, miss, value_of};
use crate::bench::error::Result;
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::lookups::{Measured, measure_count};
use crate::bench::hbtree::room::has_room;
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::ops::Range;
use core::time::Duration;
use lanetree::hbtree::{Builder, DeviceSearch, HbTree, Implicit, Pipeline, Split, Stats, Strategy, Structure};
use lanetree::{Device, KeyWord};
use lanetree_base::parallel::*;
use std::time::Instant;

/// Pairs of a piece of a build.
const PIECE: usize = 1 << 20;

/// `L` is the tree's structure.
pub(crate) struct Subject<W: BenchWord, L: Structure = Implicit> {
    pub(crate) keys: Keys<W>,
    pub(crate) tree: HbTree<W, W, L>,
    pub(crate) stats: Stats,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The CPU alone.
    Cpu,
    /// The device and the CPU.
    Hybrid,
}

impl Side {
    /// Those that there are on the session's device.
    pub(crate) fn all(session: &Session) -> &'static [Self] {
        if session.runs_kernels() { &[Self::Cpu, Self::Hybrid] } else { &[Self::Cpu] }
    }
}

impl<W: BenchWord, L: Structure> Subject<W, L> {
    /// Builds a tree from pairs in pieces, without a copy of them; `None` where host memory has no room for it and for a
    /// batch of queries, which the report says.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn build(
        session: &mut Session,
        device: &Device,
        size: u32,
        builder: &Builder<W, W, L>,
    ) -> Result<Option<Self>> {
        let keys = Keys::<W>::new(size, session.seed_of(size));
        let (what, word) = (keys.describe(), <W as KeyWord>::BYTES as u64);
        let leaves = 2 * word * keys.len() as u64;
        // Inner levels; queries, their answers and a copy of these.
        let needed = leaves + leaves / 7 + 4 * word * (1 << session.plan.queries);
        if !has_room(session, &what, needed) {
            return Ok(None);
        }
        session.doing(format_args!("building over {what}"));
        let mut pieces = builder.in_pieces(device, keys.len() as u64)?;
        let (mut piece, mut values) = (Vec::new(), Vec::new());
        for first in (0..keys.len()).step_by(PIECE) {
            keys.pairs_into(first..keys.len().min(first + PIECE), &mut piece, &mut values);
            pieces.push(&piece, &values)?;
        }
        let tree = pieces.finish()?;
        Ok(Some(Self { keys, stats: tree.stats(), tree }))
    }

    /// Has the CPU alone or both answer from now on, with the default pipeline.
    ///
    /// # Errors
    /// None that the default pipeline has.
    pub(crate) fn set_side(&mut self, side: Side) -> Result<()> {
        let mut pipeline = Pipeline::default();
        if side == Side::Cpu {
            // All levels are the CPU's.
            pipeline.split = Split { depth: u32::MAX, share: 0.0 };
        }
        Ok(self.tree.set_pipeline(pipeline)?)
    }

    /// A row of look-ups, of a table, with the tree as it is set.
    ///
    /// # Errors
    /// As [`measure_count`].
    pub(crate) fn look_up(&self, session: &Session, section: &'static str, side: Side, what: &str) -> Result<Row> {
        self.look_up_count(session, section, side, what, 1 << session.plan.queries)
    }

    /// [`Subject::look_up`], of batches of `count` queries.
    ///
    /// # Errors
    /// As [`measure_count`].
    pub(crate) fn look_up_count(
        &self,
        session: &Session,
        section: &'static str,
        side: Side,
        what: &str,
        count: usize,
    ) -> Result<Row> {
        let what = format!("{what}, {}", self.keys.describe());
        let get = |queries: &[W], out: &mut [W]| Ok(self.tree.get_many_or(queries, miss(), out)?);
        let measured = measure_count(session, &what, &self.keys, count, get, |value| value)?;
        Ok(self.row(session, section, side, "get_many_or", measured))
    }

    /// A row of small batches, one call after another, of a table, with the tree as it is set.
    ///
    /// # Errors
    /// As [`Calls::measure`].
    pub(crate) fn latency(
        &self,
        session: &Session,
        section: &'static str,
        side: Side,
        pool: &[W],
        count: usize,
    ) -> Result<Row> {
        let what = format!("calls of {count} queries, {}", self.keys.describe());
        session.doing(&what);
        let get = |queries: Range<usize>, out: &mut [W]| Ok(self.tree.get_many_or(&pool[queries], miss(), out)?);
        let (word, value) = ((|value| value, miss()), |i: usize| value_of(pool[i]));
        let calls = Calls::measure(session, &what, (count, pool.len()), get, word, value)?;
        let threads = rayon::current_num_threads();
        let row = calls.row(|timing, checksum| {
            self.row(session, section, side, "get_many_or", Measured { count, timing, checksum })
        });
        // One thread calls, and all may answer.
        Ok(row.with("threads", threads))
    }

    /// Nanoseconds of calls of `length` queries, by all threads at once: the median and the 99th percentile.
    ///
    /// # Errors
    /// The library's; [`Wrong`](crate::bench::error::Error::Wrong) with the first difference.
    pub(crate) fn latency_by_all(&self, session: &Session, queries: &[W], length: usize) -> Result<(f64, f64)> {
        // Whole calls.
        let queries = &queries[..queries.len() / length * length];
        let mut out = vec![W::default(); queries.len()];
        // A part for each thread.
        let part = queries.len().div_ceil(rayon::current_num_threads()).next_multiple_of(length);
        let calls: Vec<Result<Vec<f64>>> = queries
            .par_chunks(part)
            .zip(out.par_chunks_mut(part))
            .map(|(queries, out)| {
                let calls = queries.chunks_exact(length).zip(out.chunks_exact_mut(length));
                let timed = calls.map(|(queries, out)| {
                    let start = Instant::now();
                    self.tree.get_many_or(queries, miss(), out)?;
                    Ok(start.elapsed().as_secs_f64() * 1e9)
                });
                timed.collect()
            })
            .collect();
        let what = format!("calls of {length} queries, {}", self.keys.describe());
        session.check_slice(&what, "values", &out, 0..queries.len(), miss(), |i| value_of(queries[i]))?;
        let mut calls = calls.into_iter().collect::<Result<Vec<_>>>()?.concat();
        calls.sort_by(f64::total_cmp);
        Ok((calls[calls.len() / 2], calls[(calls.len() * 99).div_ceil(100) - 1]))
    }

    /// Says in a row how long a bucket is under way while buckets follow one another, with the tree as it is set: the median
    /// and the mean.
    ///
    /// # Errors
    /// As [`Subject::latency_by_all`].
    pub(crate) fn set_bucket_latency(&self, session: &Session, queries: &[W], row: &mut Row) -> Result<()> {
        let mut out = vec![W::default(); queries.len()];
        let Some(mut latencies) = self.tree.bucket_latencies(queries, &mut out)? else { return Ok(()) };
        let what = format!("buckets that follow one another, {}", self.keys.describe());
        session.check_slice(&what, "values", &out, 0..queries.len(), miss(), |i| value_of(queries[i]))?;
        latencies.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        row.set("bucket_latency_us", micros(latencies[latencies.len() / 2]));
        row.set("bucket_latency_mean_us", micros(latencies.iter().sum()) / latencies.len() as f64);
        Ok(())
    }

    /// A row about look-ups in the tree, of a table.
    pub(crate) fn row(
        &self,
        session: &Session,
        section: &'static str,
        side: Side,
        operation: &str,
        measured: Measured,
    ) -> Row {
        let Measured { count, timing, checksum } = measured;
        let device = if side == Side::Cpu { "cpu" } else { session.device_name() };
        let name = self.keys.name();
        let bytes = self.stats.inner_bytes + self.stats.leaf_bytes + self.stats.device_bytes;
        let mut row = Row::new(section, L::NAME, operation, count, timing, checksum)
            .on(device)
            .over(self.keys.len(), name, name, "uniform")
            .with("fanout", self.stats.fanout)
            .with("height", self.stats.height)
            .with("hit_rate", 1.0)
            .with("threads", rayon::current_num_threads())
            .with("footprint_bytes", bytes)
            .with("bytes_per_key", bytes as f64 / self.keys.len() as f64);
        if side == Side::Hybrid {
            let pipeline = self.tree.pipeline();
            row.set("bucket", pipeline.bucket);
            row.set("strategy", strategy(pipeline.strategy));
            row.set("pipelines", pipelines(pipeline.pipelines));
            row.set("device_search", device_search(pipeline.device_search));
            // Only of pinned leaves.
            let is_pinned = matches!(self.stats.pinned, Some(Ok(())));
            row.set("device_bucket", is_pinned.then_some(pipeline.device_bucket));
        }
        row
    }
}

/// A strategy's name.
pub(crate) fn strategy(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Sequential => "sequentially",
        Strategy::Pipelined => "pipelined",
        Strategy::DoubleBuffered => "double-buffered",
        Strategy::TripleBuffered => "triple-buffered",
        _ => "otherwise",
    }
}

/// The number of pipelines that a number in the options stands for.
pub(crate) fn pipelines(asked: usize) -> usize {
    if asked > 0 { asked } else { rayon::current_num_threads() }
}

/// The name of a way to search on the device.
pub(crate) fn device_search(search: DeviceSearch) -> &'static str {
    match search {
        DeviceSearch::Ballot => "ballot",
        DeviceSearch::Shared => "shared memory",
        _ => "other",
    }
}
