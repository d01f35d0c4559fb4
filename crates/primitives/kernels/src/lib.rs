//! Kernels that the indexes share: prefix sums, compaction, runs of equal keys, merging.
//!
//! * [`scan`]: exclusive prefix sums and inclusive maxima;
//! * [`select`]: elements whose bit is set, in front of the others or without them;
//! * [`runs`]: what a run of equal neighbouring keys comes to;
//! * [`merge`]: two sorted sequences into one;
//! * [`radix_sort`]: a least-significant-digit radix sort;
//! * [`local_sort`]: what remains to do after a sort by only the upper bits.
//!
//! A block takes a tile of the input. Where it must know what all tiles before its own come to, it learns
//! that from their blocks, in the same pass ([`lookback`]).
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod count;
pub mod instances;
pub mod local_sort;
pub mod lookback;
pub mod merge;
pub mod modules;
pub mod radix_sort;
pub mod runs;
pub mod scan;
pub mod select;
mod tile;

pub use count::Count;
pub use tile::THREADS;
