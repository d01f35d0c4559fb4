//! What the package for Python and the crates of `integrations` need besides what users do: inner parts of queries, which change without
//! notice.

pub use lanetree_frame::fixed::{Neighbors, Searches, Side, TASK, View, compact, each_window};
pub use lanetree_frame::join_steps::{put_misses, settle_hits};
pub use lanetree_frame::{JoinBounds, parallel, unpack_bits};
