//! What can go wrong with a file.

use std::io;

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why an index could not be saved or loaded.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system could not read or write.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not what was saved.
    #[error("{section}, at byte {offset} of the file: {reason}; restore the file from a copy")]
    Damaged {
        /// The section: the header, the keys, the values, or the table of checksums.
        section: &'static str,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// The file is of a newer version, or has flags that this program doesn't know.
    #[error(
        "the file has version {version} and flags {flags:#x}, but this program reads version 1 without flags: update it"
    )]
    Unsupported {
        /// The file's version.
        version: u32,
        /// Its flags.
        flags: u32,
    },
    /// The file is of other types.
    #[error("the file has keys of type {keys} and values of type {values}: load it as an index over these")]
    Types {
        /// The name of the file's keys.
        keys: String,
        /// That of its values.
        values: String,
    },
    /// Composite keys.
    #[error("files do not take composite keys: save an index over one of the two, or over integers that hold both")]
    Composite,
    /// The index, or its device.
    #[error(transparent)]
    Index(#[from] lanetree_frame::Error),
}
