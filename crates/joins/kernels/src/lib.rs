//! Kernels of a user's own, as an example: joins of rows on the device with an index there. Each looks its keys up where it
//! has them, and writes only what the join gives.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

mod band_sums;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod instances;
pub mod modules;
mod semi_join;
mod star_join;
mod warp;

pub use band_sums::{BandSums, BandSumsArgs};
pub use semi_join::{SemiJoin, SemiJoinArgs};
pub use star_join::{StarJoin, StarJoinArgs};
pub use warp::MOST_THREADS;
