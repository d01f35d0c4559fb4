//! The run's result: a table and a verdict on stdout, wrong answers on stderr, all of it as JSON.

use super::coverage::Coverage;
use super::run::Settings;
use super::tally::{Failure, Group, Sums, Tally};
use core::fmt::Write as _;
use lanetree::runtime::Properties;
use lanetree_console::output;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Wrong answers of a row that are printed; the JSON has all.
const PRINTED: usize = 3;

/// A device that the run was on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) device: String,
    compute_capability: String,
    /// The CUDA version that the driver supports; 0.0 where there is none.
    driver: String,
    memory_bytes: u64,
}

impl Machine {
    pub(crate) fn new(device: String, properties: &Properties) -> Self {
        let dotted = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        Self {
            device,
            compute_capability: dotted(properties.compute_capability),
            driver: dotted(properties.driver_version),
            memory_bytes: properties.total_memory,
        }
    }
}

/// A run that is over.
pub(crate) struct Report<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) machines: &'a [Machine],
    pub(crate) tally: &'a Tally,
    /// Why there was no GPU, if one was looked for.
    pub(crate) no_gpu: Option<String>,
    pub(crate) coverage: Coverage,
}

/// The line that a run begins with.
pub(crate) fn header(settings: &Settings, devices: &[String]) -> String {
    let (version, mode, seed) = (env!("CARGO_PKG_VERSION"), settings.mode_name(), settings.seed);
    format!("lanetree {version} verify --{mode}, seed {seed}, on {}", devices.join(" and "))
}

impl Report<'_> {
    /// Writes the table and the verdict. The table has a row per device, index and operation, and one for each type of
    /// keys too where something failed; or with `verbose` everywhere.
    pub(crate) fn print(&self, verbose: bool, out: &mut impl Write) -> io::Result<()> {
        let folded = self.tally.folded();
        let folded = folded
            .iter()
            .map(|(&(device, index, operation), sums)| ([device, index, operation], sums))
            .filter(|_| !verbose);
        let head = ["device", "index", "operation", "cases", "queries", "time (s)", "result"];
        if verbose {
            writeln!(out, "{}", self.full_table(|_| true))?;
        } else {
            let rows =
                folded.map(|(words, sums)| words.map(str::to_owned).into_iter().chain(cells(sums)).collect::<Vec<_>>());
            writeln!(out, "{}", output::table(head, rows, |i| i < 3 || i == 6))?;
            if self.tally.failed() > 0 {
                writeln!(out, "what failed, by the keys:\n{}", self.full_table(|sums| sums.failed > 0))?;
            }
        }
        let Coverage { compiled, missing, by_index } = &self.coverage;
        if *compiled > 0 {
            writeln!(out, "kernels: {} of the {compiled} compiled ones ran", compiled - missing.len())?;
            let of_index = by_index.iter().map(|(index, (ran, all))| format!("{index} {ran} of {all}"));
            writeln!(out, "kernels by index: {}", of_index.collect::<Vec<_>>().join(", "))?;
        }
        for reason in &self.tally.skipped {
            writeln!(out, "skipped: {reason}")?;
        }
        if let Some(reason) = &self.no_gpu {
            writeln!(out, "skipped: no GPU; ran on host and emulated instead ({reason})")?;
        }
        writeln!(out, "{}", self.verdict())
    }

    /// The rows whose sums are wanted, each with its type of keys.
    fn full_table(&self, is_wanted: impl Fn(&Sums) -> bool) -> impl core::fmt::Display {
        let rows = self.tally.rows.iter().filter(|(_, sums)| is_wanted(sums)).map(|(group, sums)| {
            let Group { device, index, operation, keys } = group;
            [device, *index, *operation, *keys].map(str::to_owned).into_iter().chain(cells(sums)).collect::<Vec<_>>()
        });
        let head = ["device", "index", "operation", "keys", "cases", "queries", "time (s)", "result"];
        output::table(head, rows, |i| i < 4 || i == 7)
    }

    fn verdict(&self) -> String {
        let (cases, failed) = (self.tally.cases(), self.tally.failed());
        let devices: Vec<&str> = self.machines.iter().map(|machine| &*machine.device).collect();
        let mut verdict = format!("verify: {} cases passed, {failed} failed", cases - failed);
        if !self.tally.skipped.is_empty() {
            let _ = write!(verdict, ", {} trees skipped", self.tally.skipped.len());
        }
        verdict + " on " + &devices.join(" and ")
    }

    /// Writes the wrong answers: of each row the first few, at length.
    pub(crate) fn print_failures(&self, out: &mut impl Write) -> io::Result<()> {
        let mut by_group: BTreeMap<&Group, Vec<&Failure>> = BTreeMap::new();
        for failure in &self.tally.failures {
            by_group.entry(&failure.group).or_default().push(failure);
        }
        for (Group { device, operation, .. }, failures) in by_group {
            for failure in failures.iter().take(PRINTED) {
                writeln!(out, "wrong answer on {device}, seed {}", failure.seed)?;
                writeln!(out, "  case:      {} (its own seed: {})", failure.case, failure.case_seed)?;
                writeln!(out, "  operation: {operation}")?;
                writeln!(out, "  {}", failure.reason)?;
                writeln!(out, "  reproduce: {}", failure.reproduce)?;
            }
            if failures.len() > PRINTED {
                writeln!(out, "and {} more of this operation and these keys: see --json", failures.len() - PRINTED)?;
            }
        }
        if !self.coverage.missing.is_empty() {
            writeln!(out, "error: no case ran these kernels: {}", self.coverage.missing.join(", "))?;
        }
        Ok(())
    }

    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .tally
            .rows
            .iter()
            .map(|(group, sums)| {
                json!({
                    "device": group.device, "index": group.index, "keys": group.keys,
                    "operation": group.operation, "cases": sums.cases, "failed": sums.failed,
                    "queries": sums.queries, "seconds": sums.time.as_secs_f64(),
                })
            })
            .collect();
        json!({
            "command": "verify",
            "version": env!("CARGO_PKG_VERSION"),
            "mode": self.settings.mode_name(),
            "seed": self.settings.seed,
            "devices": self.machines,
            "no_gpu": self.no_gpu,
            "rows": rows,
            "passed": self.tally.cases() - self.tally.failed(),
            "failed": self.tally.failed(),
            "failures": self.tally.failures,
            "skipped": self.tally.skipped,
            "kernels": {
                "compiled": self.coverage.compiled,
                "missing": self.coverage.missing,
                "by_index": self.coverage.by_index,
            },
        })
    }
}

/// The cells of a row's sums.
fn cells(sums: &Sums) -> [String; 4] {
    let result = if sums.failed == 0 { "passed".into() } else { format!("{} FAILED", sums.failed) };
    [sums.cases.to_string(), sums.queries.to_string(), format!("{:.3}", sums.time.as_secs_f64()), result]
}
