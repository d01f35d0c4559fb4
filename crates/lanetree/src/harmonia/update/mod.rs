//! Batches of inserts, updates and removals (the paper's section 3.2.2).

mod ops;

pub use ops::{Op, UpdatePath, UpdateReport};
