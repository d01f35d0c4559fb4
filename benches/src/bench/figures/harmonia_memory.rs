//! The paper's figures 2 and 3, counted by the emulator instead of a profiler, so on any machine.
//!
//! Figure 2: the memory transactions that a warp takes to load the nodes of one level for four queries.
//! Figure 3: the comparisons that a query takes at each level.

use crate::bench::data::{self, Batch, Data, mix};
use crate::bench::error::{Error, Result};
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::psa;
use crate::bench::session::Session;
use core::fmt::{self, Write};
use core::ops::Range;
use lanetree::harmonia::{ChildRegion, GroupWidth, LookUpTuning, psa_bits};
use lanetree::{Buffer, Device, Harmonia, Stream};
use lanetree_baselines::device::{Fanout, InFlight, PointerBTree};
use lanetree_console::output;
use lanetree_runtime::LaunchReport;
use serde::Serialize;

pub(crate) const FIGURE: Measurement = Measurement::new("harmonia-memory", Run::Alone(count_all));

/// The paper's setting: "a height-4 and fanout-8 B+tree, each warp processes 4 queries concurrently".
const FANOUT: u32 = 8;
const LEVELS: usize = 4;
const PER_WARP: usize = 4;
/// Full nodes.
const KEYS: usize = (FANOUT as usize).pow(LEVELS as u32);

/// Queries of a launch; and of figure 3, as in the paper.
const QUERIES: usize = 1 << 13;
const COMPARED: usize = 100;

/// What the figure shows.
#[derive(Clone, Debug, Serialize)]
struct Counted {
    fanout: u32,
    levels: usize,
    n: usize,
    queries: usize,
    queries_per_warp: usize,
    /// Figure 2.
    transactions: Vec<Transactions>,
    /// Figure 3, by level, the root's first.
    comparisons: Vec<Comparisons>,
}

/// What one kernel takes for one batch.
#[derive(Clone, Debug, Serialize)]
struct Transactions {
    tree: &'static str,
    order: Order,
    /// Lines of 128 bytes per warp-wide load of nodes, by level.
    lines: [f64; LEVELS],
    /// Their average over the levels: what the paper's figure shows.
    average_lines: f64,
    /// The same of sectors of 32 bytes.
    average_sectors: f64,
    /// Of everything that is loaded, for four queries.
    all: PerWarp,
    /// The average of a tree whose nodes are a line each, by calculation.
    calculated: Option<f64>,
    paper: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct PerWarp {
    loads: f64,
    sectors: f64,
    lines: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Comparisons {
    average: f64,
    smallest: u32,
    largest: u32,
}

/// How the queries of a warp lie to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    /// Every four under four children of the root: a node each from the second level on.
    Worst,
    /// Uniform.
    Random,
    /// The same ones in the order of the bits of equation 2.
    Psa,
    /// Every four alike.
    Best,
}

impl Order {
    /// With their names, and what the paper's figure 2 has.
    const ALL: [(Self, &str, Option<f64>); 4] = [
        (Self::Worst, "worst", Some(3.25)),
        (Self::Random, "random", Some(3.16)),
        (Self::Psa, "random + PSA", None),
        (Self::Best, "best", Some(1.0)),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn batch(self, data: &Data<u64>, seed: u64) -> Batch<u64> {
        let drawn = |i: usize, range: Range<usize>| {
            range.start + (mix(seed ^ (i as u64 + 1) << 32) % range.len() as u64) as usize
        };
        // Under one of the root's children.
        let subtree = KEYS / FANOUT as usize;
        let rank = |i: usize| match self {
            Self::Worst => {
                let pair = i % PER_WARP * (FANOUT as usize / PER_WARP) * subtree;
                drawn(i, pair..pair + FANOUT as usize / PER_WARP * subtree)
            }
            Self::Random | Self::Psa => drawn(i, 0..KEYS),
            Self::Best => drawn(i / PER_WARP, 0..KEYS),
        };
        let ranks: Vec<usize> = (0..QUERIES).map(rank).collect();
        let batch = data.batch_of_ranks(ranks.iter().copied());
        if self != Self::Psa {
            return batch;
        }
        let order = psa::order(&batch.queries, psa_bits::<u64>(KEYS as u64));
        data.batch_of_ranks(order.into_iter().map(|position| ranks[position as usize]))
    }

    /// The distinct nodes of a level of `nodes` nodes that four queries need, on average.
    fn nodes(self, nodes: f64) -> Option<f64> {
        let queries = PER_WARP as i32;
        match self {
            Self::Worst => Some(nodes.min(f64::from(queries))),
            Self::Random => Some(nodes * (1.0 - (1.0 - 1.0 / nodes).powi(queries))),
            Self::Psa => None,
            Self::Best => Some(1.0),
        }
    }

    fn calculated(self) -> Option<f64> {
        let levels = (0..LEVELS as i32).map(|level| self.nodes(f64::from(FANOUT).powi(level)));
        levels.sum::<Option<f64>>().map(|sum| sum / LEVELS as f64)
    }

    fn paper(self) -> Option<f64> {
        Self::ALL[self as usize].2
    }
}

/// A tree and the kernel that searches it, four queries per warp.
#[derive(Clone, Copy)]
enum Subject<'a> {
    References(&'a PointerBTree<u64>),
    Harmonia(&'a Harmonia<u64, u64>, ChildRegion),
}

impl Subject<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::References(_) => "HB+-style",
            Self::Harmonia(_, ChildRegion::PrefixSum) => "Harmonia, prefix sum",
            Self::Harmonia(_, ChildRegion::NodeSlot) => "Harmonia, slot",
        }
    }

    fn level(self, level: usize) -> Range<usize> {
        match self {
            Self::References(tree) => tree.level_addresses(level as u32),
            Self::Harmonia(tree, _) => tree.level_addresses(level as u32),
        }
    }

    fn get(self, stream: &Stream, queries: &Buffer<u64>, out: &mut Buffer<u64>) -> Result<()> {
        match self {
            Self::References(tree) => Ok(tree.get(stream, queries, out, data::miss(), InFlight::One)?),
            Self::Harmonia(tree, child) => {
                let on = tree.on(stream).group(GroupWidth::Lanes(FANOUT)).child_region(child);
                Ok(on.miss(data::miss()).get(queries, out)?)
            }
        }
    }
}

/// Counts both figures, and reports them.
fn count_all(session: &mut Session, _: &Request) -> Result<()> {
    let counted = measure(session)?;
    let json = serde_json::to_value(&counted).expect("a tree of numbers and words");
    session.report.count("memory", json, text(&counted).expect("a string takes all"));
    Ok(())
}

/// Counts both figures, on an emulator of its own.
fn measure(session: &Session) -> Result<Counted> {
    let device = Device::emulated();
    let stream = device.stream()?;
    let data = Data::<u64>::uniform(KEYS, session.seed);
    let fanout = Fanout::of(FANOUT).expect("a fanout with kernels");
    let references = PointerBTree::new(&device, &data.keys, &data.values, fanout)?;
    let harmonia = Harmonia::builder().fanout(FANOUT).build_sorted(&device, &data.keys, &data.values)?;
    let subjects = [
        Subject::References(&references),
        Subject::Harmonia(&harmonia, ChildRegion::PrefixSum),
        Subject::Harmonia(&harmonia, ChildRegion::NodeSlot),
    ];
    let mut transactions = Vec::new();
    for subject in subjects {
        for (order, ..) in Order::ALL {
            session.doing(format_args!("counting transactions, {}, {}", subject.name(), order.name()));
            let batch = order.batch(&data, session.seed);
            transactions.push(count(session, &device, &stream, subject, order, &batch)?);
        }
    }
    let sample = Order::Random.batch(&data, session.seed ^ 0xf3).queries;
    let comparisons = references.comparisons(&sample[..COMPARED])?;
    let comparisons = comparisons.iter().map(|level| Comparisons::of(level)).collect();
    Ok(Counted {
        fanout: FANOUT,
        levels: LEVELS,
        n: KEYS,
        queries: QUERIES,
        queries_per_warp: PER_WARP,
        transactions,
        comparisons,
    })
}

fn count(
    session: &Session,
    device: &Device,
    stream: &Stream,
    subject: Subject<'_>,
    order: Order,
    batch: &Batch<u64>,
) -> Result<Transactions> {
    let queries = device.upload(&batch.queries)?;
    let mut out = device.alloc::<u64>(QUERIES)?;
    // A launch for each level, and one for all loads: an address says to which level a node belongs.
    let mut counted = |addresses: Range<usize>| -> Result<LaunchReport> {
        out.fill_zero(stream)?;
        let (result, report) = device.count_launches(addresses, || subject.get(stream, &queries, &mut out));
        result?;
        let what = format!("{}, {}", subject.name(), order.name());
        session.check(&what, "values", &out, QUERIES, data::miss(), |i| batch.value(i))?;
        report.ok_or_else(|| Error::Usage("the emulator has counted nothing".into()))
    };
    let levels: Vec<LaunchReport> = (0..LEVELS).map(|level| counted(subject.level(level))).collect::<Result<_>>()?;
    let per_load = |level: usize, transactions: fn(&LaunchReport) -> u64| {
        transactions(&levels[level]) as f64 / levels[level].warp_loads as f64
    };
    let lines = core::array::from_fn(|level| per_load(level, |report| report.lines));
    let sectors: [f64; LEVELS] = core::array::from_fn(|level| per_load(level, |report| report.sectors));
    let all = counted(0..usize::MAX)?;
    let per_warp = |count: u64| count as f64 / (QUERIES / PER_WARP) as f64;
    let is_paper = matches!(subject, Subject::References(_));
    Ok(Transactions {
        tree: subject.name(),
        order,
        lines,
        average_lines: average(&lines),
        average_sectors: average(&sectors),
        all: PerWarp { loads: per_warp(all.warp_loads), sectors: per_warp(all.sectors), lines: per_warp(all.lines) },
        calculated: order.calculated().filter(|_| is_paper),
        paper: order.paper().filter(|_| is_paper),
    })
}

fn average(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

impl Comparisons {
    /// Of a level.
    fn of(level: &[u32]) -> Self {
        let counts = level.iter().map(|&count| f64::from(count));
        Self {
            average: counts.sum::<f64>() / level.len() as f64,
            smallest: level.iter().min().copied().unwrap_or(0),
            largest: level.iter().max().copied().unwrap_or(0),
        }
    }
}

/// The tables, with the paper's figures and ours.
fn text(figure: &Counted) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let Counted { fanout, levels, n, queries, queries_per_warp, .. } = figure;
    let or_dash = |number: Option<f64>| number.map_or("-".into(), |number| format!("{number:.2}"));
    writeln!(
        out,
        "\nMemory transactions (the paper's figure 2): {levels} levels, fanout {fanout}, n = {n}, u64/u64, full nodes, \
         {queries_per_warp} queries per warp, {queries} queries [COUNTED ON THE EMULATOR]"
    )?;
    let mut head: Vec<String> = vec!["tree".into(), "queries".into()];
    head.extend((0..*levels).map(|level| format!("level {level}")));
    let ends = ["average", "calculated", "paper", "sectors", "all loads", "all sectors", "all lines"];
    head.extend(ends.map(Into::into));
    let rows = figure.transactions.iter().map(|row| {
        let mut cells = vec![row.tree.to_owned(), row.order.name().to_owned()];
        cells.extend(row.lines.iter().map(|lines| format!("{lines:.2}")));
        cells.extend([format!("{:.2}", row.average_lines), or_dash(row.calculated), or_dash(row.paper)]);
        let PerWarp { loads, sectors, lines } = row.all;
        cells.extend([row.average_sectors, loads, sectors, lines].map(|count| format!("{count:.2}")));
        cells
    });
    writeln!(out, "{}", output::table(head, rows, |i| i < 2))?;
    for line in [
        "Level 0 is the root's, the last the leaves'. Levels and average: 128-byte lines per warp-wide load of nodes; sectors:",
        "the average in units of 32 bytes. All: every load of a launch, queries, references and child region included, for",
        "each 4 queries; every load counts its lines anew, found in a cache or not. HB+-style nodes are one line each, as the",
        "figure supposes: their lines are distinct nodes. Two of Harmonia's inner nodes share a line.",
        "Worst, best: chosen so. PSA: the random queries sorted by their top 8 bits (equation 2); there are two per key.",
        "Calculated: m (1 - (1 - 1/m)^4) distinct nodes of the m at a level. So four uniform queries cannot come to the",
        "paper's 3.16 where the root has 8 children: (1 + 3.31 + 4 + 4) / 4 = 3.08 is the most, however wide the levels",
        "below. The paper's best follows from its words; its text has no number.",
    ] {
        writeln!(out, "  {line}")?;
    }
    writeln!(out, "\nComparisons of a query (the paper's figure 3): the same tree, {COMPARED} random queries")?;
    let head = ["level", "average", "smallest", "largest"];
    let rows = figure.comparisons.iter().enumerate().map(|(level, row)| {
        vec![level.to_string(), format!("{:.2}", row.average), row.smallest.to_string(), row.largest.to_string()]
    });
    writeln!(out, "{}", output::table(head, rows, |_| false))?;
    for line in [
        "Sequential comparisons that end at the first key not below the query: 1 to 7 at an inner node, 1 to 8 at a leaf.",
        "Counted by the CPU over the tree's own nodes: the kernels compare all of a node's keys at once.",
        "The paper: averages close to 4, with a large fluctuation; its text has no other numbers.",
    ] {
        writeln!(out, "  {line}")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::session::tests::session;

    fn counted() -> Counted {
        measure(&session(Device::host())).unwrap()
    }

    #[test]
    fn the_extremes_are_the_papers_and_the_rest_is_what_chance_gives() {
        let figure = counted();
        assert_eq!(figure.transactions.len(), 3 * Order::ALL.len());
        for row in figure.transactions.iter().filter(|row| row.tree == "HB+-style") {
            if let Some(calculated) = row.calculated {
                assert!((row.average_lines - calculated).abs() < 0.03, "{row:?}");
            }
            if row.order != Order::Random {
                assert!(row.paper.is_none_or(|paper| row.average_lines == paper), "{row:?}");
            }
            assert_eq!(row.lines[0], 1.0, "all queries need the root: {row:?}");
        }
        let of = |tree, order| {
            let row = figure.transactions.iter().find(|row| row.tree == tree && row.order == order);
            row.unwrap().clone()
        };
        let trees = ["HB+-style", "Harmonia, prefix sum", "Harmonia, slot"];
        for tree in trees {
            let lines = Order::ALL.map(|(order, ..)| of(tree, order).average_lines);
            assert!(lines[0] > lines[1] && lines[1] > lines[2] && lines[2] >= lines[3], "{tree}: {lines:?}");
        }
        // A reference is a load more at each inner level, and so is an entry of the prefix-sum array.
        let all = trees.map(|tree| of(tree, Order::Random).all.lines);
        assert!(all[0] > all[1] && all[1] > all[2], "{all:?}");
    }

    #[test]
    fn comparisons_fluctuate_about_the_middle_of_a_node() {
        let comparisons = counted().comparisons;
        assert_eq!(comparisons.len(), LEVELS);
        for level in comparisons {
            assert!((3.0..6.0).contains(&level.average) && level.smallest == 1 && level.largest >= 7, "{level:?}");
        }
    }

    #[test]
    fn the_tables_name_both() {
        let text = text(&counted()).unwrap();
        assert!(text.contains("3.25") && text.contains("3.16") && text.contains("close to 4"), "{text}");
    }
}
