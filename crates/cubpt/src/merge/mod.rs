//! Leaves that removals have made too small, and the nodes above them, merged with their neighbours.

mod apply;
mod plan;
mod sums;

pub(crate) use apply::Work;
