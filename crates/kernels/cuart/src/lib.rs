//! CuART's kernels (Koppehel et al., ICPP 2021, sections 3.2 to 3.4) over the layout of
//! [`lanetree_layout::cuart`].
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

pub mod build;
mod get;
mod query;
mod tree;

pub use get::{Get, GetArgs};
pub use tree::{THREADS, TreeRef};
