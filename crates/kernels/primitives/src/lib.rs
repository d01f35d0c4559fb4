//! Kernels that the indexes share.
//!
//! [`scan`]: exclusive prefix sums.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

pub mod scan;
