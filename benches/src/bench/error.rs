//! What ends a run, and with which exit code.

use crate::keys;
use lanetree::runtime;
use lanetree_console::output;

pub(crate) type Result<T, E = Error> = core::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
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
    #[error(transparent)]
    Output(#[from] output::Error),
    #[error("{0}")]
    Usage(String),
    /// Of `--figure all`: what is missing at its end, and the exit code.
    #[error("{what}")]
    All { what: String, code: u8 },
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Self {
        Self::Lanetree(error.into())
    }
}

impl Error {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Wrong { .. } | Self::Length { .. } => 1,
            Self::All { code, .. } => *code,
            _ => 2,
        }
    }

    /// Whether something smaller might work.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Lanetree(lanetree::Error::Runtime(runtime::Error::OutOfMemory { .. })))
    }
}
