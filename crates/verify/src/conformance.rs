//! The conformance suite on the device that is verified.

use super::answer::Answer;
use super::compare::Difference;
use lanetree::{Device, Result};
use lanetree_suite::Size;
use lanetree_suite::indexes::Conforms;
use std::time::Instant;

/// Puts an index, built in one way, through a part of the suite: one of its directed cases, or its contract.
pub(super) fn run(family: &dyn Conforms, device: &Device, way: u8, part: &str) -> Result<Answer> {
    let start = Instant::now();
    Ok(answer(start, family.conformance_on(device, way, part)))
}

/// Builds an index of a size in one way, and puts it through all questions and changes.
pub(super) fn at_size(family: &dyn Conforms, device: &Device, way: u8, size: &Size) -> Result<Answer> {
    let start = Instant::now();
    Ok(answer(start, family.at_size(device, way, size)?))
}

/// The answer: the number of batches, or what differs.
fn answer(start: Instant, outcome: core::result::Result<u64, String>) -> Answer {
    let (queries, difference) = match outcome {
        Ok(batches) => (batches as usize, None),
        Err(query) => {
            let (expected, actual) = ("the case passes".to_owned(), "it fails".to_owned());
            (0, Some(Difference { what: "conformance", index: 0, query, expected, actual }))
        }
    };
    Answer { queries, time: start.elapsed(), difference }
}
