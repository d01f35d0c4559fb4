//! Kernels of the multi-map: keys are in an index of their own, with a *place* for each ([`layout`]), and the values of all
//! keys in one array.
//!
//! Where the work is by output, a warp takes as many outputs in a row as any other and searches for their rows, so
//! 2^20 values of one key take as long as one value each of 2^20 keys.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod gather;
mod in_place;
mod instances;
pub mod layout;
pub mod modules;
mod places;
mod removal;
mod rows;
mod scan;

pub use gather::{GatherPairs, GatherPairsArgs};
pub use in_place::{CopyRuns, CopyRunsArgs, PlaceRuns, PlaceRunsArgs, PlanRuns, PlanRunsArgs};
pub use places::{CountArgs, CountValues, First, FirstArgs, Pack, PackArgs, SpanArgs, Spans};
pub use removal::{
    Compact, CompactArgs, CountKept, CountKeptArgs, Keep, KeepArgs, MarkKeys, MarkKeysArgs, Match, MatchArgs,
    RemovePairs, RemovePairsArgs,
};
pub use rows::OUTPUTS;
pub use scan::{Scan, ScanArgs};
