//! What can go wrong with a file.

use core::fmt;
use lanetree_frame::FileError;
use lanetree_frame::runtime::ErrorKind;
use std::io;
use std::path::{Path, PathBuf};

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// A part of a file of pairs, or of a log.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The header.
    Header,
    /// Where each key ends, in a file of byte strings, and the zeros up to the next section.
    KeyEnds,
    /// The keys, and the zeros up to the next section.
    Keys,
    /// The values, and the zeros up to the next section.
    Values,
    /// The table of checksums.
    Table,
    /// The header of a log's file of batches.
    LogHeader,
    /// A batch of a log, by its sequence number.
    Batch(u64),
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("the header"),
            Self::KeyEnds => f.write_str("the ends of keys"),
            Self::Keys => f.write_str("the keys"),
            Self::Values => f.write_str("the values"),
            Self::Table => f.write_str("the table of checksums"),
            Self::LogHeader => f.write_str("the log's header"),
            Self::Batch(sequence) => write!(f, "the log's batch {sequence}"),
        }
    }
}

/// Why an index could not be saved or loaded.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system could not read or write.
    #[error("{action}{}: {source}", named(.path))]
    Io {
        /// What was being done.
        action: &'static str,
        /// With which file or folder; `None` for a source of bytes that has no path.
        path: Option<PathBuf>,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not what was saved.
    #[error(
        "{section}, at byte {offset} of the file{}: {what} should be {expected}, but is {found}; restore the file from a copy",
        named(.path)
    )]
    Damaged {
        /// The file; `None` for a source of bytes that has no path.
        path: Option<PathBuf>,
        /// The section.
        section: Section,
        /// Where in the file.
        offset: u64,
        /// What is wrong: a checksum, a length, and so on.
        what: &'static str,
        /// What a whole file has there.
        expected: String,
        /// What this one has.
        found: String,
    },
    /// The file is of a newer version, or has flags that this program doesn't know.
    #[error(
        "the file{} has version {version} and flags {flags:#x}, but this program reads version 1 and not these flags: update it",
        named(.path)
    )]
    Unsupported {
        /// The file; `None` for a source of bytes that has no path.
        path: Option<PathBuf>,
        /// The file's version.
        version: u32,
        /// Its flags.
        flags: u32,
    },
    /// The file is of other types.
    #[error("the file{} has keys of type {keys} and values of type {values}: load it as an index over these", named(.path))]
    Types {
        /// The file; `None` for a source of bytes that has no path.
        path: Option<PathBuf>,
        /// The name of the file's keys.
        keys: String,
        /// That of its values.
        values: String,
    },
    /// The file is of a multi-map, and is loaded as an index.
    #[error("the file{} is of a multi-map, whose keys may have several values: load it as a multi-map", named(.path))]
    Several {
        /// The file; `None` for a source of bytes that has no path.
        path: Option<PathBuf>,
    },
    /// A note that has no room in the header.
    #[error("a note of {bytes} bytes: files have room for 64")]
    NoteTooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// A log whose last write or sync failed.
    #[error("an earlier write of the log {folder:?} failed, so what is on disk is not known: open the log again")]
    LogFailed {
        /// Its folder, as it was opened.
        folder: PathBuf,
    },
    /// A log in a process that was forked from the one which opened it: both would write to the same places.
    #[error(
        "the log {folder:?} was opened by process {process}, from which this one was forked: open it here, once that one has dropped it"
    )]
    Forked {
        /// Its folder, as it was opened.
        folder: PathBuf,
        /// The process that has it open.
        process: u32,
    },
    /// A compaction of a log, before another one has ended.
    #[error("a compaction of the log {folder:?} has been begun: finish it, or drop it")]
    CompactionBegun {
        /// Its folder, as it was opened.
        folder: PathBuf,
    },
    /// A compaction of another log.
    #[error("the compaction is of another log, {folder:?}: finish it with that one")]
    OtherLog {
        /// The other one's folder, as it was opened.
        folder: PathBuf,
    },
    /// Composite keys.
    #[error("files do not take composite keys: save an index over one of the two, or over integers that hold both")]
    Composite,
    /// The index, or its device.
    #[error(transparent)]
    Index(lanetree_frame::Error),
}

impl From<lanetree_frame::Error> for Error {
    fn from(error: lanetree_frame::Error) -> Self {
        match error {
            lanetree_frame::Error::File(error) => {
                error.downcast().unwrap_or_else(|other| Self::Index(lanetree_frame::Error::File(other)))
            }
            error => Self::Index(error),
        }
    }
}

/// For a function of both: `?` makes one error of the other, and back.
impl From<Error> for lanetree_frame::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Index(error) => error,
            error => Self::File(FileError::new(error.kind(), error)),
        }
    }
}

impl Error {
    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Index(error) => error.kind(),
            Self::NoteTooLong { .. } => ErrorKind::InvalidInput,
            Self::Composite => ErrorKind::Unsupported,
            Self::CompactionBegun { .. } | Self::OtherLog { .. } | Self::Forked { .. } => ErrorKind::WrongState,
            _ => ErrorKind::File,
        }
    }

    /// Names the file or folder of an error that names none: for sources of bytes ([`ReadAt`](crate::ReadAt)) that have a
    /// path. Errors that are not of a file stay as they are.
    #[must_use]
    pub fn in_file(mut self, file: impl AsRef<Path>) -> Self {
        if let Self::Io { path, .. }
        | Self::Damaged { path, .. }
        | Self::Unsupported { path, .. }
        | Self::Types { path, .. }
        | Self::Several { path } = &mut self
        {
            path.get_or_insert_with(|| file.as_ref().to_owned());
        }
        self
    }
}

/// A path after a word, if there is one.
fn named(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!(" {path:?}")).unwrap_or_default()
}

/// The error of an action that the system could not do with a file or a folder.
pub(crate) fn io_error(action: &'static str, path: impl AsRef<Path>) -> impl Fn(io::Error) -> Error {
    let failed = not_read(action);
    move |source| failed(source).in_file(&path)
}

/// The error of a read whose caller names the file, if it has one.
pub(crate) fn not_read(action: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { action, path: None, source }
}

/// [`Error::Damaged`].
pub(crate) fn damaged(
    section: Section,
    offset: u64,
    what: &'static str,
    (expected, found): (impl fmt::Display, impl fmt::Display),
) -> Error {
    Error::Damaged { path: None, section, offset, what, expected: expected.to_string(), found: found.to_string() }
}

/// # Errors
/// [`Error::Damaged`] unless the checksum that is stored is that of the bytes.
pub(crate) fn check_checksum(section: Section, offset: u64, stored: u32, bytes: &[u8]) -> Result<()> {
    let computed = crc32c::crc32c(bytes);
    if stored == computed {
        return Ok(());
    }
    Err(damaged(section, offset, "the checksum", (format!("{stored:#010x}"), format!("{computed:#010x}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_and_its_message_on_the_way_there_and_back() {
        let missing = || io_error("opening", "pairs.lanetree")(io::ErrorKind::NotFound.into());
        let message = missing().to_string();
        assert!(message.contains("pairs.lanetree"), "{message}");
        let error = lanetree_frame::Error::from(missing());
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::File, message.clone()));
        assert!(core::error::Error::source(&error).is_some_and(|source| source.is::<io::Error>()));
        let lanetree_frame::Error::File(file) = &error else { panic!("{error:?}") };
        assert!(matches!(file.downcast_ref(), Some(Error::Io { action: "opening", .. })));
        let error = Error::from(error);
        assert!(matches!(error, Error::Io { .. }) && error.to_string() == message, "{error:?}");

        let lost = || lanetree_frame::Error::Lost { reason: "a test".into() };
        assert_eq!(Error::from(lost()).kind(), ErrorKind::Lost);
        assert!(matches!(lanetree_frame::Error::from(Error::from(lost())), lanetree_frame::Error::Lost { .. }));
        assert_eq!(lanetree_frame::Error::from(Error::Composite).kind(), ErrorKind::Unsupported);
    }
}
