//! The run's result: a table and a verdict on stdout, wrong answers on stderr, all of it as JSON.

use super::cases::Mode;
use super::tally::{Group, Tally};
use comfy_table::{CellAlignment, Table, presets};
use core::fmt::Write as _;
use lanetree::runtime::Properties;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Wrong answers that are printed; the JSON has all.
const PRINTED: usize = 10;

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
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) machines: &'a [Machine],
    pub(crate) tally: &'a Tally,
    /// Why there was no GPU, if one was looked for.
    pub(crate) no_gpu: Option<String>,
    /// Compiled kernels, and those of them that should have run and did not.
    pub(crate) compiled: usize,
    pub(crate) missing: Vec<String>,
}

/// The line that a run begins with.
pub(crate) fn header(mode: Mode, seed: u64, devices: &[String]) -> String {
    let mode = mode_name(mode);
    format!("lanetree {} verify --{mode}, seed {seed}, on {}", env!("CARGO_PKG_VERSION"), devices.join(" and "))
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Quick => "quick",
        Mode::Full => "full",
    }
}

impl Report<'_> {
    /// Writes the table and the verdict.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.table())?;
        if self.compiled > 0 {
            let ran = self.compiled - self.missing.len();
            writeln!(out, "kernels: {ran} of the {} compiled ones ran", self.compiled)?;
        }
        for reason in &self.tally.skipped {
            writeln!(out, "skipped: {reason}")?;
        }
        if let Some(reason) = &self.no_gpu {
            writeln!(out, "skipped: no GPU; ran on host and emulated instead ({reason})")?;
        }
        writeln!(out, "{}", self.verdict())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["device", "index", "keys", "operation", "cases", "queries", "time (s)", "result"]);
        for (Group { device, subject, keys, operation }, sums) in &self.tally.rows {
            let result = if sums.failed == 0 { "passed".into() } else { format!("{} FAILED", sums.failed) };
            table.add_row([
                device.clone(),
                (*subject).into(),
                (*keys).into(),
                (*operation).into(),
                sums.cases.to_string(),
                sums.queries.to_string(),
                format!("{:.3}", sums.time.as_secs_f64()),
                result,
            ]);
        }
        for column in table.column_iter_mut().skip(4).take(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
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

    /// Writes the wrong answers, the first of them at length.
    pub(crate) fn print_failures(&self, out: &mut impl Write) -> io::Result<()> {
        let failures = &self.tally.failures;
        for failure in failures.iter().take(PRINTED) {
            writeln!(out, "wrong answer on {}, seed {}", failure.device, failure.seed)?;
            writeln!(out, "  case:      {} (its own seed: {})", failure.case, failure.case_seed)?;
            writeln!(out, "  operation: {}", failure.operation)?;
            writeln!(out, "  {}", failure.reason)?;
            writeln!(out, "  reproduce: {}", failure.reproduce)?;
        }
        if failures.len() > PRINTED {
            writeln!(out, "and {} more: --json keeps them all", failures.len() - PRINTED)?;
        }
        if !self.missing.is_empty() {
            writeln!(out, "error: no case ran these kernels: {}", self.missing.join(", "))?;
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
                    "device": group.device, "index": group.subject, "keys": group.keys,
                    "operation": group.operation, "cases": sums.cases, "failed": sums.failed,
                    "queries": sums.queries, "seconds": sums.time.as_secs_f64(),
                })
            })
            .collect();
        json!({
            "command": "verify",
            "version": env!("CARGO_PKG_VERSION"),
            "mode": mode_name(self.mode),
            "seed": self.seed,
            "devices": self.machines,
            "no_gpu": self.no_gpu,
            "rows": rows,
            "passed": self.tally.cases() - self.tally.failed(),
            "failed": self.tally.failed(),
            "failures": self.tally.failures,
            "skipped": self.tally.skipped,
            "kernels": { "compiled": self.compiled, "missing": self.missing },
        })
    }
}
