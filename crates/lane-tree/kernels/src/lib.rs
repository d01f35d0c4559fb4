//! LaneTree's kernels: an ordered index whose nodes quantise keys, so that a look-up reads one bucket of its leaves and few
//! others.
//!
//! Kernels of other crates search a tree by its [`Handle`]. Such a crate depends on this one without its default features:
//! `entries` are this crate's own kernels, which another crate's PTX is not to have.
#![no_std]
#![cfg_attr(all(target_os = "cuda", feature = "entries", not(feature = "cuda_std")), feature(abi_ptx))]

mod build;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod handle;
// For the device only if the PTX is to have them; for the host they are how the kernels are launched.
#[cfg(any(not(target_os = "cuda"), feature = "entries"))]
mod instances;
pub mod layout;
pub mod modules;
mod node;
mod parts;
mod plan_memory;
mod quads;
mod queries;
mod range;
mod scan;
mod scan_wide;
mod search;
mod sorted;
mod stretch;
mod update;
mod upper;
mod values;
mod walk;
mod windows;

pub use build::{
    BUILD_WARPS, Count, CountOthers, Cut, CutArgs, FOUND_WORDS, MOST_REACH, NodesArgs, Write, WriteOthers,
};
pub use handle::{Cursor, CursorKey, Handle, Probe};
pub use node::plan_words;
pub use parts::{BUCKET_BITS, SPLIT_WORDS, SplitNodes, TARGET_WORDS};
pub use queries::{
    Get, GetArgs, Neighbor, NeighborArgs, Rank, RankArgs, found_bytes, found_pair_bytes, ordered_threads, query_shared,
    query_threads,
};
pub use range::{
    Aggregate, AggregateArgs, CopyPairs, CopyPairsArgs, GATHER_WIDTHS, Gather, GatherArgs, Locate, LocateArgs,
};
pub use scan::{Scan, ScanArgs, is_short_scan};
pub use scan_wide::{ScanWide, scan_wide_threads};
pub use search::{TABLE_BYTES, TreeRef};
pub use sorted::{GetSorted, SORTED_BYTES, SORTED_OWN, SORTED_THREADS, sorted_tile};
pub use update::{
    AssignOthers, AssignOthersArgs, AssignParts, AssignPartsArgs, BUCKET_THREADS, BucketChangesArgs, CHANGE_WARPS,
    Changes, EVEN, Ends, EndsArgs, ListNodes, ListNodesArgs, ListSplit, ListSplitArgs, MORE, MOST_NODE_PLAN_WORDS,
    MOVE_WARPS, MovePairs, MovePairsArgs, NodeChangesArgs, OtherParts, PlanBuckets, PlanNodes, PlanShifts,
    REBUILD_WARPS, REBUILT_WORDS, Ranks, RanksArgs, Rebuild, RebuildArgs, Relocate, RelocateArgs, SEARCH_THREADS,
    Search, SearchArgs, SizeOthers, SizeOthersArgs, SizeSplit, SizeSplitArgs, Spans, Starts, StartsArgs, WriteBuckets,
    WriteNodes, WriteShifts, move_warps, rebuild_pairs,
};
pub use upper::{
    CROWDED_SAMPLES, CountUpper, SUMMARY_WORDS, Table, TableArgs, UPPER_WARPS, UpperArgs, WriteUpper, crowded_samples,
};
pub use windows::{
    Asked, BesideWindows, GatherBesideWindows, GatherSorted, GatherSortedArgs, InWindows, InWindowsArgs,
    LocateBesideWindows, LocateSorted, LocateSortedArgs, MOST_HALF, NeighborBesideWindows, NeighborSorted,
    NeighborSortedArgs, RankBesideWindows, RankSorted, RankSortedArgs, ScanBesideWindows, ScanSorted, ScanSortedArgs,
    SortedGatherBatch, WINDOW_ROWS, WINDOW_THREADS, Window, Windowed, beside_threads, window_blocks, window_pairs,
    window_shared, window_tile,
};
