//! What comes of a case.

use super::compare::Difference;
use core::time::Duration;

/// What came of a check.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) queries: usize,
    /// What the calls took, comparison and transfers of the device form apart.
    pub(crate) time: Duration,
    pub(crate) difference: Option<Difference>,
}
