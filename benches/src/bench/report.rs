//! What was measured: rows, and their JSON.

use super::machine::Machine;
use super::memory::MemoryFigure;
use lanetree_baselines::Checksum;
use serde::{Serialize, Serializer};

/// A part of the bench, and a table of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Section {
    /// Copy bandwidth, and random gathers from as many bytes as the trees have
    Ceilings,
    /// Look-ups, all on the device
    Lookups,
    /// Ranks and predecessors, all on the device
    Neighbors,
    /// Range queries, all on the device
    Ranges,
    /// Building, from sorted pairs in host memory
    Build,
    /// Building from pairs on the device, and batches of updates there
    Updates,
    /// Sorting, merging and prefix sums, all on the device
    Primitives,
    /// Look-ups with queries and results in host memory
    EndToEnd,
    /// The latency of small batches in host memory
    #[value(skip)]
    Latency,
    /// The CPU: Harmonia on it, the standard library's B-tree, binary search
    Cpu,
    /// Every fanout, width of thread groups and child region
    #[value(skip)]
    HarmoniaNtg,
    /// The paper's optimisations, one after another
    #[value(skip)]
    HarmoniaLadder,
    /// Partially-sorted aggregation, the paper's figure 8
    #[value(skip)]
    HarmoniaPsa,
    /// Widths of thread groups for queries sorted by few or many bits
    #[value(skip)]
    HarmoniaPsaWidths,
    /// CuART's look-ups, by the keys' width or the tree's size
    #[value(skip)]
    CuartLookups,
    /// CuART's look-ups by the lanes that compare a key
    #[value(skip)]
    CuartLanes,
    /// CuART's look-ups of batches in host memory
    #[value(skip)]
    CuartBatches,
    /// CuART's ways with long keys
    #[value(skip)]
    CuartLong,
    /// CuART's updates, by batch and engine
    #[value(skip)]
    CuartUpdates,
    /// CuART's bulk builds and compaction on the device
    #[value(skip)]
    CuartBuilds,
    /// CuART's inserts and removals
    #[value(skip)]
    CuartInserts,
    /// CuART and other radix trees on the CPU
    #[value(skip)]
    CuartCpu,
    /// CuART over addresses, words and file paths
    #[value(skip)]
    CuartReal,
}

/// What sorted look-ups consist of, and what was predicted of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PsaParts {
    /// `none`, `partial` or `full`.
    pub(super) sort: &'static str,
    /// The look-up of queries that are sorted already, and how much faster it is than that of unsorted ones;
    /// the paper's figure for this.
    pub(super) lookup_ms: f64,
    pub(super) lookup_ratio: f64,
    pub(super) paper_lookup_ratio: Option<f64>,
    /// Putting the results into the queries' order.
    pub(super) scatter_ms: Option<f64>,
    /// The paper's figure for all of it together.
    pub(super) paper_ratio: Option<f64>,
    /// What the planner's model predicts of all of it together.
    pub(super) predicted_ms: f64,
    /// Whether the planner chooses it, and whether it is the fastest.
    pub(super) is_chosen: bool,
    pub(super) is_fastest: bool,
}

/// What competitors on the CPU are compared by, besides the clock.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CpuParts {
    /// CPU time of an operation, all threads together, and how much less that is than the first one's; absent where
    /// the system does not tell.
    pub(super) cpu_ns: Option<f64>,
    pub(super) cpu_ratio: Option<f64>,
    /// Building the index, by the clock.
    pub(super) build_ms: f64,
}

/// A rung of the ladder of optimisations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rung {
    /// A B+tree with child references, a query per thread group.
    Baseline,
    /// The same with as many queries in flight as Harmonia's kernel of that width has.
    BaselineInFlight,
    /// Harmonia's key and child regions, thread groups as wide as nodes.
    Structure,
    /// The same over partially sorted queries.
    Psa,
    /// With thread groups as the paper's profile chooses them.
    Ntg,
    /// With those that were measured best on one card.
    NtgTuned,
}

impl Rung {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "HB+-style tree",
            Self::BaselineInFlight => "HB+-style, Q in flight",
            Self::Structure => "Harmonia structure",
            Self::Psa => "+ PSA",
            Self::Ntg => "+ NTG, by profile",
            Self::NtgTuned => "+ NTG, as tuned",
        }
    }
}

/// Times of a row's runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Timing {
    pub(super) median_ms: f64,
    pub(super) min_ms: f64,
    pub(super) max_ms: f64,
    /// In the order of the runs, after one that is not counted; empty where they are many thousands.
    pub(super) runs_ms: Vec<f64>,
}

impl Timing {
    /// Of at least one run.
    pub(super) fn of(runs_ms: Vec<f64>) -> Self {
        let mut sorted = runs_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median_ms =
            if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] };
        Self { median_ms, min_ms: sorted[0], max_ms: sorted[sorted.len() - 1], runs_ms }
    }
}

/// One figure, the conditions under which it was measured, and what it is compared with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) section: Section,
    /// `harmonia`, or a competitor, or `ceiling`.
    pub(super) index: &'static str,
    pub(super) operation: String,
    /// Where it ran: `cuda`, `host`, `emulated`, or `cpu` with its number of threads.
    pub(super) device: String,
    pub(super) threads: Option<usize>,
    /// Where the keys come from.
    pub(super) keys: String,
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    pub(super) n: u64,
    pub(super) fanout: Option<u32>,
    /// Lanes per query.
    pub(super) group: Option<u32>,
    pub(super) child_region: Option<&'static str>,
    pub(super) order: Option<&'static str>,
    /// The part of the queries whose keys are there.
    pub(super) hit_rate: Option<f64>,
    /// Operations of a run.
    pub(super) batch: u64,
    /// Bytes of the index, or of the table gathered from.
    pub(super) footprint_bytes: u64,
    pub(super) bytes_per_key: Option<f64>,
    /// Pairs that a batch of ranges returned.
    pub(super) pairs: Option<u64>,
    /// Bytes moved, where that is the point.
    pub(super) bytes_moved: Option<u64>,
    #[serde(flatten)]
    pub(super) timing: Timing,
    /// Operations, in 10^9 per second.
    pub(super) giga_per_second: f64,
    /// Relative to the binary search of the same queries; of a ladder's rungs, to the first; of CuART's changes and
    /// of GRT, to CuART's look-ups of the same batch; of its ways with long keys, to that with all keys on the device;
    /// of radix trees on the CPU and over real input, to the tree with pointers on the CPU, or the binary search there.
    pub(super) ratio_to_baseline: Option<f64>,
    /// The ceiling of these operations, in 10^9 per second.
    pub(super) ceiling_giga_per_second: Option<f64>,
    /// Look-ups in a radix tree, in 10^9 per second, if each took the reciprocal rates of its gathers. No ceiling:
    /// gathers of different regions may overlap, and of queries that have much in common most are of cached lines.
    pub(super) gathers_giga_per_second: Option<f64>,
    /// Of the outputs of the last run: they were compared with what is right, one by one.
    #[serde(serialize_with = "checksum")]
    pub(super) checksum: Checksum,
    /// The width that the paper's profile of a sample chooses for this fanout.
    pub(super) profile_group: Option<u32>,
    pub(super) rung: Option<Rung>,
    /// Queries that a group of lanes looks up side by side.
    pub(super) in_flight: Option<u32>,
    /// The top bits by which the queries were sorted beforehand, and the milliseconds of that sort, which
    /// the row's own times are without; absent where the sort was not timed.
    pub(super) sorted_bits: Option<u32>,
    pub(super) sort_ms: Option<f64>,
    /// Of look-ups that sort their queries.
    pub(super) psa: Option<PsaParts>,
    /// Of radix trees on the CPU.
    pub(super) cpu: Option<CpuParts>,
    /// The width that the library chooses by itself.
    pub(super) auto_group: Option<u32>,
    /// What 99 of 100 runs take at most, and how many there were, where latency is the point.
    pub(super) p99_ms: Option<f64>,
    pub(super) calls: Option<usize>,
}

impl Row {
    /// A row that says only what was measured, and how long it took.
    pub(super) fn new(
        section: Section,
        index: &'static str,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Self {
        Self {
            section,
            index,
            operation: operation.into(),
            device: String::new(),
            threads: None,
            keys: String::new(),
            key: "",
            value: "",
            n: 0,
            fanout: None,
            group: None,
            child_region: None,
            order: None,
            hit_rate: None,
            batch: batch as u64,
            footprint_bytes: 0,
            bytes_per_key: None,
            pairs: None,
            bytes_moved: None,
            giga_per_second: batch as f64 / timing.median_ms.max(1e-9) / 1e6,
            timing,
            ratio_to_baseline: None,
            ceiling_giga_per_second: None,
            gathers_giga_per_second: None,
            checksum,
            profile_group: None,
            rung: None,
            in_flight: None,
            sorted_bits: None,
            sort_ms: None,
            psa: None,
            cpu: None,
            auto_group: None,
            p99_ms: None,
            calls: None,
        }
    }

    /// The part of its ceiling that was reached, where that is more than clocks can be off by: what it was taken for
    /// is none.
    pub(super) fn above_ceiling(&self) -> Option<f64> {
        let part = self.giga_per_second / self.ceiling_giga_per_second?;
        (part > 1.03).then_some(part)
    }

    /// So many of something per operation, in 10^9 per second.
    pub(super) fn giga_per_second_of(&self, count: u64) -> f64 {
        count as f64 / self.timing.median_ms.max(1e-9) / 1e6
    }
}

fn checksum<S: Serializer>(checksum: &Checksum, serializer: S) -> Result<S::Ok, S::Error> {
    let Checksum { sum, weighted, misses } = checksum;
    // As text: readers of JSON round large numbers.
    serializer.collect_str(&format_args!("{sum:016x}-{weighted:016x}-{misses}"))
}

/// All that a run has to say.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) command: &'static str,
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    pub(super) seed: u64,
    pub(super) rows: Vec<Row>,
    /// What the emulator counted, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryFigure>,
    /// What was not measured, and why.
    pub(super) skipped: Vec<String>,
    /// What ended the run before its end.
    pub(super) failure: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(Timing::of(vec![3.0, 1.0, 2.0]).median_ms, 2.0);
        let timing = Timing::of(vec![4.0, 1.0]);
        assert_eq!((timing.median_ms, timing.min_ms, timing.max_ms), (2.5, 1.0, 4.0));
        assert_eq!(timing.runs_ms, [4.0, 1.0]);
    }

    #[test]
    fn what_is_above_its_ceiling_is_told() {
        let mut row = Row::new(Section::Ranges, "harmonia", "range", 1000, Timing::of(vec![1.0]), Checksum::default());
        assert_eq!(row.above_ceiling(), None);
        row.ceiling_giga_per_second = Some(row.giga_per_second / 1.02);
        assert_eq!(row.above_ceiling(), None);
        row.ceiling_giga_per_second = Some(row.giga_per_second / 1.5);
        assert!(row.above_ceiling().is_some_and(|part| (part - 1.5).abs() < 1e-9));
    }

    #[test]
    fn a_row_says_what_it_is_in_json() {
        let checksum = Checksum { sum: 1, weighted: u64::MAX, misses: 3 };
        let row = Row::new(Section::EndToEnd, "harmonia", "get", 2_000_000, Timing::of(vec![2.0]), checksum);
        assert_eq!(row.giga_per_second, 1.0);
        let json = serde_json::to_value(row).unwrap();
        assert_eq!(json["section"], "end-to-end");
        assert_eq!(json["median_ms"], 2.0);
        assert_eq!(json["checksum"], "0000000000000001-ffffffffffffffff-3");
    }
}
