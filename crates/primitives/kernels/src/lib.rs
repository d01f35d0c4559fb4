//! Kernels that the indexes share: prefix sums, compaction, runs of equal keys, merging.
//!
//! * [`scan`]: exclusive prefix sums and inclusive maxima;
//! * [`select`]: elements whose bit is set, followed by the others or alone;
//! * [`runs`]: reduces each run of equal neighbouring keys to one element;
//! * [`merge`]: two sorted sequences into one;
//! * [`expand`]: spans of values, copied one after the other;
//! * [`radix_sort`]: a least-significant-digit radix sort;
//! * [`local_sort`]: the rest of a sort that used only the upper bits;
//! * [`operations`]: operations of a batch of updates, folded by key; whether keys ascend.
//!
//! A block takes a tile of the input. If it needs the total of all tiles before its own, it gets this from their
//! blocks, in the same pass ([`lookback`]).
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod count;
pub mod expand;
pub mod instances;
pub mod local_sort;
pub mod lookback;
pub mod merge;
pub mod modules;
pub mod operations;
pub mod radix_sort;
pub mod runs;
pub mod scan;
pub mod select;
mod tile;

pub use count::Count;
pub use tile::THREADS;
