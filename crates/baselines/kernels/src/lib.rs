//! Kernels that the indexes are measured against: binary search over a sorted array, a B+tree with child
//! references, a radix tree in one untyped buffer, and the hardware's ceilings.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

pub mod binary_search;
pub mod ceiling;
pub mod grt;
pub mod layout;
pub mod modules;
pub mod pointer_btree;
