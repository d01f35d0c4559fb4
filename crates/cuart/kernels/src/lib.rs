//! CuART's kernels (Koppehel et al., ICPP 2021, sections 3.2 to 3.4) over the layout of
//! [`crate::layout`].
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

pub mod build;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
pub mod compact;
mod get;
mod get_tiled;
pub mod layout;
pub mod modules;
mod order;
mod query;
mod range;
mod rank;
mod tree;
pub mod update;

pub use get::{Get, GetArgs};
pub use get_tiled::GetTiled;
pub use range::{CopyKeys, CopyKeysArgs, Expand, ExpandArgs, Measure, MeasureArgs};
pub use rank::{Rank, RankArgs, Side};
pub use tree::{THREADS, TreeRef};
