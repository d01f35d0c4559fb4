//! The CPU: Harmonia's own path, the standard library's B-tree, binary search over a sorted vector.

use crate::bench::columns::power;
use crate::bench::data::{Batch, BenchWord, Data, Order, miss};
use crate::bench::error::{Error, Result};
use crate::bench::figure::{Measurement, Part, Run, either};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{Device, Harmonia};
use lanetree_baselines::cpu::{BTree, SortedVec};
use rayon::{ThreadPool, ThreadPoolBuilder};

pub(crate) const FIGURE: Measurement =
    Measurement::new("cpu", Run::Part(Part::OnCpu(|session, keys| either!(keys, data => measure(session, data)))));

/// One thread gets a part of the queries: it would take minutes otherwise.
const FEWER_FOR_ONE_THREAD: usize = 4;

/// What looks up batches on the CPU, with the threads of the current pool.
enum Competitor<W: BenchWord> {
    BTree(BTree<W, W>),
    SortedVec(SortedVec<W, W>),
    Harmonia(Box<Harmonia<W, W>>),
}

impl<W: BenchWord> Competitor<W> {
    fn name(&self) -> &'static str {
        match self {
            Self::BTree(_) => "BTreeMap",
            Self::SortedVec(_) => "sorted Vec",
            Self::Harmonia(_) => "harmonia",
        }
    }

    /// The standard library does not say what its map takes.
    fn bytes_per_key(&self) -> Option<f64> {
        match self {
            Self::BTree(_) => None,
            Self::SortedVec(_) => Some(2.0 * size_of::<W>() as f64),
            Self::Harmonia(tree) => Some(tree.stats().bytes_per_key),
        }
    }

    fn get_into(&self, queries: &[W], out: &mut [Option<W>]) -> Result<()> {
        match self {
            Self::BTree(map) => map.get_into(queries, out),
            Self::SortedVec(sorted) => sorted.get_into(queries, out),
            Self::Harmonia(tree) => tree.get_many_into(queries, out)?,
        }
        Ok(())
    }
}

/// All competitors over the same keys, with one thread and with all.
fn measure<W: BenchWord>(session: &mut Session, data: &Data<W>) -> Result<()> {
    let what = format!("CPU, n = {}", power(data.len() as u64));
    if !session.has_time(format_args!("{what}, building")) {
        return Ok(());
    }
    let tree = Harmonia::builder().build_sorted(&Device::host(), &data.keys, &data.values)?;
    let competitors = [
        Competitor::BTree(BTree::new(data.keys.iter().copied().zip(data.values.iter().copied()))),
        Competitor::SortedVec(SortedVec::new(data.keys.clone(), data.values.clone())),
        Competitor::Harmonia(Box::new(tree)),
    ];
    let count = 1 << session.plan.cpu_queries;
    for threads in [1, rayon::current_num_threads()] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Error::Usage(format!("cannot start {threads} threads: {error}")))?;
        let count = if threads == 1 { (count / FEWER_FOR_ONE_THREAD).max(1) } else { count };
        let sorted = data.sorted_batch(count, false, session.seed ^ 0xc9).expect("hits are always to be had");
        for order in [Order::Random, Order::Sorted] {
            let batch = sorted.ordered(order, session.seed);
            let mut baseline = None;
            for competitor in &competitors {
                let what = format!("{what}, {}, {threads} threads, {}", competitor.name(), order.name());
                if !session.has_time(&what) {
                    continue;
                }
                let mut row = run(session, data, competitor, &pool, &batch, &what)?;
                row.set("order", order.name());
                let baseline = *baseline.get_or_insert(row.giga_per_second);
                row.set("ratio_to_baseline", row.giga_per_second / baseline);
                session.push(row);
            }
        }
        if rayon::current_num_threads() == 1 {
            break;
        }
    }
    Ok(())
}

fn run<W: BenchWord>(
    session: &Session,
    data: &Data<W>,
    competitor: &Competitor<W>,
    pool: &ThreadPool,
    batch: &Batch<W>,
    what: &str,
) -> Result<Row> {
    let mut out = vec![None; batch.queries.len()];
    let timing = session.time_into(&mut out, |out| pool.install(|| competitor.get_into(&batch.queries, out)))?;
    let checksum = session.check_found(&what, &out, batch.queries.len(), miss(), |i| batch.value(i))?;
    let row = Row::new(FIGURE.name, competitor.name(), "get", out.len(), timing, checksum).on("cpu");
    let bytes_per_key = competitor.bytes_per_key();
    Ok(data
        .label(row)
        .with("threads", pool.current_num_threads())
        .with("hit_rate", 1.0)
        .with("bytes_per_key", bytes_per_key)
        .with("footprint_bytes", bytes_per_key.map(|bytes| (bytes * data.len() as f64) as u64)))
}
