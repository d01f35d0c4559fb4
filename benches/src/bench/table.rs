//! Tables: what is said of a figure's rows, and how they are printed.

use super::columns::Column;
use super::row::Row;
use lanetree::DeviceKind;
use lanetree_console::output;
use serde::Deserialize;
use std::io::{self, Write};

/// The table of a figure: what stands above it, what it has of a row, and what stands below.
pub(crate) struct Table {
    /// What its rows are called in the JSON: the figure's name, or that of several figures with one table.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) columns: &'static [Column],
    /// What the times are.
    pub(crate) clock: Clock,
    /// Lines below the table.
    pub(crate) notes: &'static [&'static str],
    /// What follows from all rows together.
    pub(crate) summary: Option<Summary>,
}

/// Writes lines below a table, from its rows.
pub(crate) type Summary = fn(&[&Row], &mut dyn Write) -> io::Result<()>;

/// What measures the times of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Clock {
    /// The device's events, around kernels only; a line below the table says so.
    Device,
    /// The CPU's clock, around calls; the table's notes say so.
    Calls,
    /// The CPU's clock, around work that no device has a part in.
    Cpu,
}

impl Table {
    /// Writes the table with these rows, if there are any.
    pub(crate) fn print(&self, rows: &[&Row], kind: DeviceKind, out: &mut dyn Write) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", self.title_on(kind))?;
        let head = self.columns.iter().map(|column| column.head);
        let cells = rows.iter().map(|row| self.columns.iter().map(|column| column.cell(row)));
        writeln!(out, "{}", output::table(head, cells, |i| self.columns[i].is_words))?;
        if self.clock == Clock::Device {
            writeln!(out, "  {}", of_events(kind))?;
        }
        for line in self.notes {
            writeln!(out, "  {line}")?;
        }
        self.summary.map_or(Ok(()), |summary| summary(rows, out))
    }

    fn title_on(&self, kind: DeviceKind) -> String {
        let title = self.title;
        match (kind, self.clock) {
            (DeviceKind::Cuda, _) | (_, Clock::Cpu) => title.into(),
            (DeviceKind::Host, _) => format!("{title} [CPU: the device is the host]"),
            (DeviceKind::Emulated, _) => {
                format!("{title} [EMULATED: times are the emulator's, and say nothing of a GPU]")
            }
        }
    }
}

/// What the times of rows on the device are.
fn of_events(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cuda => "Kernels only, by the device's events: median of the runs.",
        DeviceKind::Host => "Native code, no kernels, by the CPU's clock: median of the runs.",
        DeviceKind::Emulated => "Emulated kernels, by the CPU's clock: these times and ratios say nothing of a GPU.",
    }
}
