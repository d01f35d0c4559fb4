//! Indexes in files: the order of the rows, from which an index is made again without sorting.

use core::fmt;
use datafusion::arrow::array::UInt64Array;
use datafusion::common::{plan_err, resources_err};
use datafusion::error::{DataFusionError, Result};
use lanetree::files::{Contents, Error, Summary};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// By which a file is known as one of these.
const NOTE: &str = "the order of the rows of an SQL index";
/// What each file of Lanetree's begins with.
const MAGIC: &[u8; 8] = b"LANETREE";
/// Bytes of its header.
const HEADER: u64 = 4096;
/// Why a file that is whole was not believed.
pub(crate) const OTHER_ROWS: &str = "the file was of other rows";

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

/// The order of rows that a file has, or why it has none for a table of so many rows. Of a file that has more pairs, the header alone is
/// read.
///
/// # Errors
/// The system's; a plan error for a file that is no index's, or is damaged so that this can't be told, which is not to be written over.
pub(crate) fn read(path: &Path, rows: usize) -> Result<Result<UInt64Array, String>> {
    let is_foreign = || plan_err!("{} is another program's file: name one for the index alone", path.display());
    match Summary::read(path) {
        Ok(found) if found.note != NOTE || found.types != ["u64", "u64"] => return is_foreign(),
        Ok(found) if found.pairs > rows as u64 => return Ok(Err(OTHER_ROWS.to_owned())),
        Ok(_) => {}
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(Err("there was no file".to_owned()));
        }
        Err(damaged @ Error::Damaged { .. }) if was_ours(path)? => return Ok(Err(damaged.to_string())),
        Err(Error::Damaged { .. } | Error::Unsupported { .. }) => return is_foreign(),
        Err(error) => return Err(external(error)),
    }
    match Contents::<u64, u64>::read(path) {
        Ok(contents) => Ok(Ok(contents.values.into_owned().into())),
        Err(damaged @ Error::Damaged { .. }) => Ok(Err(damaged.to_string())),
        Err(error) => Err(external(error)),
    }
}

/// Whether a file whose header is damaged is empty, or still has the note of an index's.
fn was_ours(path: &Path) -> Result<bool> {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEADER).read_to_end(&mut begin));
    read.map_err(|error| DataFusionError::External(format!("cannot read {}: {error}", path.display()).into()))?;
    let has_note = || begin.windows(NOTE.len()).any(|bytes| bytes == NOTE.as_bytes());
    Ok(begin.is_empty() || begin.starts_with(MAGIC) && has_note())
}

/// Writes the order of rows to a file, which has the old one or the new one whenever this ends.
///
/// # Errors
/// The system's; [`DataFusionError::ResourcesExhausted`] if there is no memory.
pub(crate) fn write(path: &Path, rows: &[u64]) -> Result<()> {
    let mut places: Vec<u64> = Vec::new();
    if places.try_reserve_exact(rows.len()).is_err() {
        return resources_err!("no memory for the places of {} rows, to write {}", rows.len(), path.display());
    }
    places.extend(0..rows.len() as u64);
    let (keys, values) = (places.into(), rows.into());
    Contents { keys, values, has_several: false, note: NOTE.to_owned() }.write(path).map_err(external)
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
