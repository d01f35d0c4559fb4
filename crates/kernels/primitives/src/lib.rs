//! Kernels that the indexes share.
//!
//! [`scan`]: exclusive prefix sums. [`radix_sort`]: a least-significant-digit radix sort.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

#[macro_use]
mod unroll;

pub mod radix_sort;
pub mod scan;
