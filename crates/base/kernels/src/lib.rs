//! Kernels over batches of keys, whichever index they are for: byte strings made from numbers, their offsets checked; columns;
//! the bounds and the matches of joins; queries of other integer types; the pairs nearest to a key.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

#[cfg(not(target_os = "cuda"))]
pub mod calls;
pub mod clamp;
pub mod columns;
pub mod elements;
pub mod joins;
pub mod keys;
pub mod modules;
pub mod nearest;
