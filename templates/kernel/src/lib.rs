//! Sums rows by the group of their key, which an index knows: `SELECT groups.id, SUM(amount) … JOIN … USING (key) GROUP BY groups.id`
//! as one kernel. It looks each row's key up in a [`LaneTree`](lanetree::LaneTree) where it has it, and writes only the sums.
//!
//! The crate is compiled twice: for the host, and by `lanetree-ptx` for the GPU, where `host.rs` is not part of it.
#![cfg_attr(target_os = "cuda", no_std, feature(abi_ptx))]

#[cfg(not(target_os = "cuda"))]
mod host;
mod instances;
mod kernel;
pub mod modules;

#[cfg(not(target_os = "cuda"))]
pub use host::{Rows, sum_by_group};
pub use kernel::{MOST_THREADS, SumByGroup, SumByGroupArgs};
