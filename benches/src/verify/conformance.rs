//! The conformance suite on the device that is verified.

use super::answer::Answer;
use super::compare::Difference;
use lanetree::{Device, Result};
use lanetree_suite::{Family, conformance_on};
use std::time::Instant;

/// Puts an index, built in one way, through the suite's directed cases and contract.
pub(super) fn run<F: Family>(family: &F, device: &Device, way: u8) -> Result<Answer> {
    let start = Instant::now();
    let (queries, difference) = match conformance_on(family, device, way) {
        Ok(batches) => (batches as usize, None),
        Err(query) => {
            let (expected, actual) = ("the case passes".to_owned(), "it fails".to_owned());
            (0, Some(Difference { what: "conformance", index: 0, query, expected, actual }))
        }
    };
    Ok(Answer { queries, time: start.elapsed(), difference })
}
