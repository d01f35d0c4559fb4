//! All that a run has to say.

use super::columns::power;
use super::machine::Machine;
use super::row::Row;
use super::table::Table;
use lanetree::DeviceKind;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) command: &'static str,
    pub(crate) version: &'static str,
    pub(crate) machine: Machine,
    pub(crate) seed: u64,
    pub(crate) rows: Vec<Row>,
    /// What was counted, and not timed.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// What was not measured, and why.
    pub(crate) skipped: Vec<String>,
    /// What ended the run before its end.
    pub(crate) failure: Option<String>,
}

/// Counts, each by its name in the JSON.
#[derive(Debug, Default)]
pub(crate) struct Counts(Vec<Count>);

#[derive(Debug)]
struct Count {
    name: &'static str,
    json: serde_json::Value,
    text: String,
}

impl Counts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what was counted: as JSON, and as it is printed.
    pub(crate) fn push(&mut self, name: &'static str, json: serde_json::Value, text: String) {
        self.0.push(Count { name, json, text });
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for Count { name, json, .. } in &self.0 {
            map.serialize_entry(name, json)?;
        }
        map.end()
    }
}

impl Report {
    /// A run that has not measured anything yet.
    pub(crate) fn new(machine: Machine, seed: u64) -> Self {
        Self {
            command: "bench",
            version: env!("CARGO_PKG_VERSION"),
            machine,
            seed,
            rows: Vec::new(),
            counts: Counts::default(),
            skipped: Vec::new(),
            failure: None,
        }
    }

    /// Whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.counts.is_empty()
    }

    /// Writes all tables, each with its rows, in this order; then what was skipped, and what went wrong.
    pub(crate) fn print<'a>(&self, tables: impl Iterator<Item = &'a Table>, out: &mut dyn Write) -> io::Result<()> {
        let mut printed = Vec::new();
        for table in tables {
            // Several figures may have one table.
            if !printed.contains(&table.name) {
                printed.push(table.name);
                let rows: Vec<&Row> = self.rows.iter().filter(|row| row.section == table.name).collect();
                table.print(&rows, self.machine.kind, out)?;
            }
        }
        for row in self.rows.iter().filter(|_| self.machine.kind == DeviceKind::Cuda) {
            if let Some(part) = row.above_ceiling() {
                let (operation, order) = (&row.operation, row.text("order").unwrap_or("-"));
                writeln!(out, "above its ceiling: {operation}, {order}, n = {}: {part:.2} of it", power(row.n))?;
            }
        }
        for count in &self.counts.0 {
            write!(out, "{}", count.text)?;
        }
        writeln!(out)?;
        for line in &self.skipped {
            writeln!(out, "skipped: {line}")?;
        }
        match &self.failure {
            None if !self.counts.is_empty() => {
                writeln!(out, "bench: counted, every output compared with what is right")
            }
            None => writeln!(out, "bench: {} rows, every output compared with what is right", self.rows.len()),
            Some(failure) => writeln!(out, "bench: {} rows before it ended: {failure}", self.rows.len()),
        }
    }
}
