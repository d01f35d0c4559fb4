//! Harmonia's kernels (Yan et al., PPoPP 2019, sections 3.2.1 and 4.2): look-ups, ranks, neighbours and
//! ranges over the layout of [`crate::layout`].
//!
//! All of them share one shape. A warp takes a *tile* of 32 queries, one per lane, loaded and stored
//! in one coalesced access. Inside, a *thread group* of `G` lanes descends for one query at a time,
//! `32 / G` groups side by side (the paper's narrowed thread groups), `Q` queries in flight per group;
//! shuffles hand queries to groups and results back to the lanes that own them.
//!
//! Const parameters: `F`, the fanout; `G`, lanes of a thread group; `Q`, queries in flight per group;
//! `SLOT`, whether first children are read from the nodes' spare slots
//! ([`ChildRegion::NodeSlot`](crate::layout::ChildRegion)) or from the prefix-sum array; `STOP`, whether every node is
//! read in steps, which end once the warp's queries have their slots.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]
#![cfg_attr(target_os = "cuda", feature(asm_experimental_arch))]

pub mod build;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
#[cfg(any(target_os = "cuda", feature = "papers"))]
mod constant;
mod get;
mod instances;
pub mod layout;
pub mod modules;
mod neighbor;
mod range;
mod rank;
mod scatter;
mod sorted;
mod tree;
pub mod update;

#[cfg(any(target_os = "cuda", feature = "papers"))]
pub use constant::{GetConstant, GetConstantArgs, TOP};
pub use get::{Get, GetArgs};
pub use instances::{GATHER_WIDTHS, group_widths, is_compiled, leaf_lanes, queries_in_flight};
pub use neighbor::{Neighbor, NeighborArgs};
pub use range::{Aggregate, AggregateArgs, Gather, GatherArgs, Range, RangeArgs};
pub use rank::{Rank, RankArgs};
pub use scatter::{SCATTERED, Scatter, ScatterArgs};
pub use sorted::{GetSorted, SORTED_TILE};
pub use tree::{Side, THREADS, TreeRef, slots_at_once};
