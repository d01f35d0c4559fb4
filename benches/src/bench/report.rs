//! All that a run has to say.

use super::columns::power;
use super::row::Row;
use super::table::Table;
use lanetree::DeviceKind;
use lanetree_record::{Machine, Record};
use std::io::{self, Write};
use std::time::SystemTime;

/// The day, in UTC, such as 2026-11-23.
fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// A record, and what is printed of it but not kept.
#[derive(Debug)]
pub(crate) struct Report {
    /// What is written as JSON.
    pub(crate) record: Record<Row>,
    kind: DeviceKind,
    /// What was counted, as it is printed.
    counted: Vec<String>,
}

impl Report {
    /// A run that has not measured anything yet.
    pub(crate) fn new(machine: Machine, kind: DeviceKind, seed: u64) -> Self {
        let record = Record {
            command: "bench".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            machine,
            date: Some(today()),
            seed,
            made: Vec::new(),
            rows: Vec::new(),
            counts: serde_json::Map::new(),
            skipped: Vec::new(),
            failure: None,
        };
        Self { record, kind, counted: Vec::new() }
    }

    /// Adds what was counted, and not timed: its name in the JSON, and how it is printed.
    pub(crate) fn count(&mut self, name: &'static str, json: serde_json::Value, text: String) {
        self.record.counts.insert(name.into(), json);
        self.counted.push(text);
    }

    /// Whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.record.rows.is_empty() && self.counted.is_empty()
    }

    /// Writes all tables, each with its rows, in this order; then what was skipped, and what went wrong.
    pub(crate) fn print<'a>(&self, tables: impl Iterator<Item = &'a Table>, out: &mut dyn Write) -> io::Result<()> {
        let mut printed = Vec::new();
        for table in tables {
            // Several figures may have one table.
            if !printed.contains(&table.name) {
                printed.push(table.name);
                let rows: Vec<&Row> = self.record.rows.iter().filter(|row| row.section == table.name).collect();
                table.print(&rows, self.kind, out)?;
            }
        }
        for row in self.record.rows.iter().filter(|_| self.kind == DeviceKind::Cuda) {
            if let Some(part) = row.above_ceiling() {
                let (operation, order) = (&row.operation, row.text("order").unwrap_or("-"));
                writeln!(out, "above its ceiling: {operation}, {order}, n = {}: {part:.2} of it", power(row.n))?;
            }
        }
        for text in &self.counted {
            write!(out, "{text}")?;
        }
        writeln!(out)?;
        for line in &self.record.skipped {
            writeln!(out, "skipped: {line}")?;
        }
        match &self.record.failure {
            None if !self.counted.is_empty() => {
                writeln!(out, "bench: counted, every output compared with what is right")
            }
            None => writeln!(out, "bench: {} rows, every output compared with what is right", self.record.rows.len()),
            Some(failure) => writeln!(out, "bench: {} rows before it ended: {failure}", self.record.rows.len()),
        }
    }
}
