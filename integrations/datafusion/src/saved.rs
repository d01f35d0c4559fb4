//! Indexes in files: the order of the rows, from which an index is made again without sorting.

use core::fmt;
use datafusion::arrow::array::UInt64Array;
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use lanetree::files::{Contents, Error};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// By which a file is known as one of these.
const NOTE: &str = "the order of the rows of an SQL index";
/// What each file of Lanetree's begins with.
const MAGIC: &[u8; 8] = b"LANETREE";

/// What was done with the file of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexFile {
    /// The file has the order of the table's rows by the indexed columns, and the index was made by it.
    Loaded,
    /// The index was built and saved, for a reason: there was no file, it was damaged, or it is of other rows.
    Built(String),
}

impl fmt::Display for IndexFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loaded => f.write_str("loaded"),
            Self::Built(reason) => write!(f, "built and saved: {reason}"),
        }
    }
}

/// The order of rows that a file has, or why it has none.
///
/// # Errors
/// The system's; a plan error for a file that is no index's, which is not to be written over.
pub(crate) fn read(path: &Path) -> Result<Result<UInt64Array, String>> {
    let is_foreign = || plan_err!("{} is another program's file: name one for the index alone", path.display());
    match Contents::<u64, u64>::read(path) {
        Ok(contents) if contents.note == NOTE => Ok(Ok(contents.values.into_owned().into())),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(Err("there was no file".to_owned()))
        }
        Err(damaged @ Error::Damaged { .. }) if begins_as_ours(path) => Ok(Err(damaged.to_string())),
        Ok(_)
        | Err(Error::Damaged { .. } | Error::Types { .. } | Error::Several { .. } | Error::Unsupported { .. }) => {
            is_foreign()
        }
        Err(error) => Err(external(error)),
    }
}

/// Whether a file is empty, or may have been one of these before it was damaged.
fn begins_as_ours(path: &Path) -> bool {
    let mut begin = Vec::new();
    let is_read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut begin));
    is_read.is_ok() && MAGIC.starts_with(&begin)
}

/// Writes the order of rows to a file, which has the old one or the new one whenever this ends.
///
/// # Errors
/// The system's.
pub(crate) fn write(path: &Path, rows: &[u64]) -> Result<()> {
    let places: Vec<u64> = (0..rows.len() as u64).collect();
    let (keys, values) = (places.into(), rows.into());
    Contents { keys, values, has_several: false, note: NOTE.to_owned() }.write(path).map_err(external)
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
