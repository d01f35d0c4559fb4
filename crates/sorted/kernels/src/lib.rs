//! Binary search over sorted pairs: look-ups, ranks, neighbours and ranges.
//!
//! A thread serves [`IN_FLIGHT`] queries (or both bounds of a range) at a time: their searches have the same number of
//! steps, take no branches, and wait for memory together.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod get;
mod instances;
pub mod modules;
mod neighbor;
mod range;
mod rank;
mod search;

pub use get::{Get, GetArgs};
pub use neighbor::{Neighbor, NeighborArgs};
pub use range::{GATHER_WIDTHS, Gather, GatherArgs, Locate, LocateArgs};
pub use rank::{Rank, RankArgs};
pub use search::{ArrayRef, IN_FLIGHT};
