//! Where results go: stdout, tables, files of JSON.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

/// Writes to stdout. A reader who has seen enough and left is no error.
///
/// # Errors
/// Any other of stdout's.
pub fn say(write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>) -> Result<(), Error> {
    match write(&mut io::stdout().lock()) {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => Err(Error { path: "stdout".into(), source }),
        _ => Ok(()),
    }
}

/// A file for JSON, created before the work whose result it is for: a file that cannot be written costs no minutes.
pub struct JsonFile {
    path: PathBuf,
    file: File,
}

impl JsonFile {
    /// Creates it, or empties the one that is there.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|source| Error { path: path.into(), source })?;
        Ok(Self { path: path.into(), file })
    }

    /// Writes a value to it.
    ///
    /// # Errors
    /// The system's.
    pub fn write(self, value: &impl Serialize) -> Result<(), Error> {
        let mut file = BufWriter::new(self.file);
        let written = serde_json::to_writer_pretty(&mut file, value).map_err(io::Error::from);
        let written = written.and_then(|()| writeln!(file)).and_then(|()| file.flush());
        written.map_err(|source| Error { path: self.path, source })
    }
}

/// A table of cells. Columns of words are aligned to the left, columns of numbers to the right.
pub fn table<S: ToString, R: IntoIterator<Item = String>>(
    head: impl IntoIterator<Item = S>,
    rows: impl IntoIterator<Item = R>,
    is_words: impl Fn(usize) -> bool,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(head.into_iter().map(|head| head.to_string()));
    for row in rows {
        table.add_row(row);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        if !is_words(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
