//! Where things lie in memory.

pub mod grt;
pub mod pointer_btree;
