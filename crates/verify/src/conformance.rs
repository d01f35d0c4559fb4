//! The conformance suite on the device that is verified.

use super::answer::Answer;
use super::compare::Difference;
use lanetree::{Device, Result};
use lanetree_suite::indexes::Conforms;
use std::time::Instant;

/// Puts an index, built in one way, through a part of the suite: one of its directed cases, or its contract.
pub(super) fn run(family: &dyn Conforms, device: &Device, way: u8, part: &str) -> Result<Answer> {
    let start = Instant::now();
    let (queries, difference) = match family.conformance_on(device, way, part) {
        Ok(batches) => (batches as usize, None),
        Err(query) => {
            let (expected, actual) = ("the case passes".to_owned(), "it fails".to_owned());
            (0, Some(Difference { what: "conformance", index: 0, query, expected, actual }))
        }
    };
    Ok(Answer { queries, time: start.elapsed(), difference })
}
