//! CUBPT's kernels: a B+tree with explicit references, built and changed in bulk, a thread per key or slot.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

mod apply;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod instances;
pub mod layout;
pub mod modules;
mod order;
mod plan;
mod range;
mod search;
mod write;

pub use apply::{
    Drop, DropArgs, Free, FreeArgs, GatherChildren, GatherChildrenArgs, GatherPairs, GatherPairsArgs, Mark, MarkArgs,
    MemberCounts, MemberCountsArgs, Members, MembersArgs, Numbers, NumbersArgs, PlannedGroups, PutPieces,
    PutPiecesArgs, Replace, ReplaceArgs, ReplaceGathered, ReplaceGatheredArgs,
};
pub use order::{Children, ChildrenArgs, Counts, CountsArgs, Link, LinkArgs};
pub use plan::{
    CHANGED, Group, GroupArgs, GroupsMut, PUT, PUT_IF_PRESENT, REMOVE, SHRUNK, Search, SearchArgs, Touch, TouchArgs,
};
pub use range::{GATHER_WIDTHS, Gather, GatherArgs, Locate, LocateArgs};
pub use search::{Get, GetArgs, IN_FLIGHT, Neighbor, NeighborArgs, Rank, RankArgs, TreeRef};
pub use write::{Bounds, BoundsArgs, Groups, WriteNodes, WriteNodesArgs};
