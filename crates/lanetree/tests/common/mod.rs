//! What several of the tests need.

pub(crate) mod cuart_lost;
pub(crate) mod cuart_models;

use lanetree::Error;
use lanetree::runtime::Failure;

/// A failure of a device, and the error that reported it.
pub(crate) type Failed = (Failure, Error);

/// How many of the failures have lost the index.
pub(crate) fn losses(failed: &[Failed]) -> usize {
    failed.iter().filter(|(_, error)| matches!(error, Error::Lost { .. })).count()
}
