//! Kernels over batches of keys, whichever index they are for: byte strings made from numbers, their offsets checked; columns;
//! the bounds and the matches of joins; queries of other integer types; the pairs nearest to a key.
//!
//! Kernels of other crates use [`rows`]. Such a crate depends on this one without its default features: `entries` are this crate's
//! own kernels, which another crate's PTX is not to have.
#![no_std]
#![cfg_attr(all(target_os = "cuda", feature = "entries", not(feature = "cuda_std")), feature(abi_ptx))]

pub mod aggregate;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
pub mod clamp;
pub mod columns;
pub mod elements;
// For the device only if the PTX is to have them; for the host they are how the kernels are launched.
#[cfg(any(not(target_os = "cuda"), feature = "entries"))]
mod instances;
pub mod joins;
pub mod keys;
pub mod modules;
pub mod nearest;
pub mod rows;
