//! The CPU alone (the paper's figures 9 and 19), compared with other trees, and with the most that host memory can do.

use crate::bench::data::{BenchWord, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::gathers::gathers;
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::lookups::measure as look_up;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::relative::{Relative, regular};
use crate::bench::hbtree::room::has_room;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::hbtree::{Builder, Fanout, HbTree, Implicit, NodeSearch, Structure};
use lanetree::{Device, Harmonia, KeyWord};
use lanetree_baselines::cpu::SortedVec;
use lanetree_baselines::fast::Fast;
use lanetree_baselines::splus::SPlusTree;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-cpu", Run::Alone(measure)).summary(regular);

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        of_width::<u64>(session, size)?;
        of_width::<u32>(session, size)
    })
}

/// Queries that a thread has in flight: the default, and what other trees are best at.
const IN_FLIGHT_HBTREE: [usize; 3] = [16, 32, 128];
const IN_FLIGHT_RIVALS: [usize; 2] = [16, 128];

/// What is looked up in, and the trees' rows so far.
struct Comparison<W> {
    keys: Keys<W>,
    rows: Vec<Row>,
}

fn of_width<W: BenchWord>(session: &mut Session, size: u32) -> Result<()> {
    let keys = Keys::<W>::new(size, session.seed_of(size));
    let leaf_bytes = (2 * <W as KeyWord>::BYTES * keys.len()) as u64;
    let ceiling = gathers(session, FIGURE.name, leaf_bytes)?;
    let mut all = Comparison { keys, rows: Vec::new() };
    let (builder, mut relative) = (HbTree::<W, W>::builder(), Relative::default());
    let is_measured = own(session, &mut all, &builder.fanout(Fanout::Words), &mut relative)?
        && own(session, &mut all, &builder, &mut relative)?
        && own(session, &mut all, &builder.regular(), &mut relative)?;
    if !is_measured {
        return Ok(());
    }
    // The pairs, and a tree over them with some room for its build.
    if has_room(session, &format!("competitors, {}", keys.describe()), 4 * leaf_bytes) {
        competitors(session, &mut all)?;
    }
    // At its best.
    let of_fast = all.rows.iter().filter(|row| row.index == "FAST").map(|row| row.giga_per_second);
    let baseline = of_fast.reduce(f64::max);
    for mut row in all.rows {
        row.set("ratio_to_baseline", baseline.map(|rate| row.giga_per_second / rate));
        row.set("ceiling_giga_per_second", ceiling);
        session.push(row);
    }
    Ok(())
}

/// A tree of ours; whether host memory has room for it.
fn own<W: BenchWord, L: Structure>(
    session: &mut Session,
    all: &mut Comparison<W>,
    builder: &Builder<W, W, L>,
    relative: &mut Relative,
) -> Result<bool> {
    let (keys, host) = (all.keys, Device::host());
    let Some(mut subject) = Subject::build(session, &host, keys.size(), builder)? else { return Ok(false) };
    // Nine children.
    let is_papers = L::NAME == Implicit::NAME && subject.stats.fanout == 9;
    let build_ms = (subject.stats.build.leaves + subject.stats.build.inner).as_secs_f64() * 1e3;
    for in_flight in IN_FLIGHT_HBTREE {
        subject.tree.set_node_search(NodeSearch::best(), in_flight)?;
        let what =
            format!("{}, {} children, {in_flight} in flight, {}", L::NAME, subject.stats.fanout, keys.describe());
        let get = |queries: &[W], out: &mut [Option<W>]| Ok(subject.tree.get_many_into(queries, out)?);
        let measured = look_up(session, &what, &keys, get, |value| value.unwrap_or(miss()))?;
        let row = subject.row(session, FIGURE.name, Side::Cpu, "get_many_into", measured);
        let mut row = row.with("in_flight", in_flight).with("build_ms", build_ms);
        row.set("paper", is_papers.then_some("1.3"));
        relative.compare(in_flight, &mut row);
        all.rows.push(row);
    }
    Ok(true)
}

/// The other trees, one after another.
fn competitors<W: BenchWord>(session: &Session, all: &mut Comparison<W>) -> Result<()> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    all.keys.pairs_into(0..all.keys.len(), &mut keys, &mut values);

    let start = Instant::now();
    let mut fast = Fast::new(&keys, &values);
    let build_ms = ms_since(start);
    for in_flight in IN_FLIGHT_RIVALS {
        fast.set_in_flight(in_flight);
        let get = |queries: &[W], out: &mut [Option<W>]| {
            fast.get_into(queries, out);
            Ok(())
        };
        let row = all.row(session, "FAST", "get_into", fast.bytes() as u64, get)?;
        all.rows.push(row.with("in_flight", in_flight).with("build_ms", build_ms));
    }
    drop(fast);

    let start = Instant::now();
    let mut splus = SPlusTree::new(&keys, &values);
    let build_ms = ms_since(start);
    for in_flight in IN_FLIGHT_RIVALS {
        splus.set_in_flight(in_flight);
        let get = |queries: &[W], out: &mut [Option<W>]| {
            splus.get_into(queries, out);
            Ok(())
        };
        let row = all.row(session, "S+ tree", "get_into", splus.bytes() as u64, get)?;
        all.rows.push(row.with("in_flight", in_flight).with("build_ms", build_ms));
    }
    drop(splus);

    let start = Instant::now();
    let tree = Harmonia::builder().build_sorted(&Device::host(), &keys, &values)?;
    let build_ms = ms_since(start);
    let bytes = tree.stats().bytes();
    let row =
        all.row(session, "harmonia", "get_many_into", bytes, |queries, out| Ok(tree.get_many_into(queries, out)?))?;
    all.rows.push(row.with("build_ms", build_ms).with("fanout", tree.stats().fanout));
    drop(tree);

    // Takes the pairs.
    let sorted = SortedVec::new(keys, values);
    let bytes = (2 * <W as KeyWord>::BYTES * all.keys.len()) as u64;
    let row = all.row(session, "sorted Vec", "get_into", bytes, |queries, out| {
        sorted.get_into(queries, out);
        Ok(())
    })?;
    all.rows.push(row);
    Ok(())
}

fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

impl<W: BenchWord> Comparison<W> {
    /// A row of look-ups in another tree of `bytes` bytes.
    fn row(
        &self,
        session: &Session,
        index: &'static str,
        operation: &str,
        bytes: u64,
        get: impl Fn(&[W], &mut [Option<W>]) -> Result<()>,
    ) -> Result<Row> {
        let what = format!("{index}, {}", self.keys.describe());
        let measured = look_up(session, &what, &self.keys, get, |value| value.unwrap_or(miss()))?;
        let name = self.keys.name();
        let row = Row::new(FIGURE.name, index, operation, measured.count, measured.timing, measured.checksum)
            .on("cpu")
            .over(self.keys.len(), name, name, "uniform");
        let row = row.with("threads", rayon::current_num_threads()).with("footprint_bytes", bytes);
        Ok(row.with("bytes_per_key", bytes as f64 / self.keys.len() as f64))
    }
}
