//! CUBPT's kernels: a B+tree with explicit references, built and changed in bulk, a thread per key or slot.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

mod batch;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod instances;
pub mod layout;
mod merge;
pub mod modules;
mod order;
mod range;
mod search;
mod write;

pub use batch::{
    ChangeArgs, Expand, ExpandArgs, Finish, INSERT, LayerChanges, Put, REMOVE, Search, SearchArgs, Shift, Touch,
    TouchArgs, TouchedNodes, UPDATE,
};
pub use merge::{
    CHANGED, Free, FreeArgs, GatherChildren, GatherChildrenArgs, GatherPairs, GatherPairsArgs, Group, GroupArgs,
    GroupsMut, Mark, MarkArgs, MemberCounts, MemberCountsArgs, Members, MembersArgs, Numbers, NumbersArgs,
    PlannedGroups, PutPieces, PutPiecesArgs, SHRUNK, Start, StartArgs,
};
pub use order::{
    First, FirstArgs, Grow, GrowArgs, Lens, LensArgs, Link, LinkArgs, Pieces, PiecesArgs, Reorder, ReorderArgs, Vanish,
    VanishArgs,
};
pub use range::{Aggregate, AggregateArgs, GATHER_WIDTHS, Gather, GatherArgs, Locate, LocateArgs};
pub use search::{Get, GetArgs, Neighbor, NeighborArgs, Rank, RankArgs, TreeRef};
pub use write::{Bounds, BoundsArgs, Groups, Parents, WriteNodes, WriteNodesArgs};
