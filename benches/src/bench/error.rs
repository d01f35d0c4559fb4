//! What ends a run, and with which exit code.

use crate::keys;
use lanetree::runtime;
use std::io;
use std::path::PathBuf;

pub(super) type Result<T, E = Error> = core::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Exit code 1: says something of the indexes, as the next one does.
    #[error(
        "wrong answer: {row}: {what}[{index}] is {found}, and {expected} is right (seed {seed}); no figure is given"
    )]
    Wrong { row: String, what: &'static str, index: usize, expected: String, found: String, seed: u64 },
    /// Exit code 1 too.
    #[error("wrong answer: {row}: {found} {what}, and {expected} are right; no figure is given")]
    Length { row: String, what: &'static str, expected: usize, found: usize },
    #[error(transparent)]
    Lanetree(#[from] lanetree::Error),
    #[error(transparent)]
    Keys(#[from] keys::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Usage(String),
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Self {
        Self::Lanetree(error.into())
    }
}

impl Error {
    pub(super) fn exit_code(&self) -> u8 {
        if matches!(self, Self::Wrong { .. } | Self::Length { .. }) { 1 } else { 2 }
    }

    /// Whether something smaller might work.
    pub(super) fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Lanetree(lanetree::Error::Runtime(runtime::Error::OutOfMemory { .. })))
    }
}
