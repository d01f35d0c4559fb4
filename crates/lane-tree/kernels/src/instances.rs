//! The instances that are compiled, by key word and value word, and of sets; `calls` chooses among them. Kernels that move no
//! values have one for all values with which buckets are alike.

use crate::{
    Aggregate, AssignOthers, AssignParts, CopyPairs, Count, CountOthers, CountUpper, Counted, Cut, Ends, Gather,
    GatherBesideWindows, GatherSorted, Get, GetSorted, ListNodes, ListSplit, Locate, LocateBesideWindows, LocateSorted,
    MovePairs, Neighbor, NeighborBesideWindows, NeighborSorted, PlanBuckets, PlanNodes, PlanShifts, Rank,
    RankBesideWindows, RankSorted, Ranks, Rebuild, Relocate, Scan, ScanBesideWindows, ScanSorted, ScanWide, Search,
    SizeOthers, SizeSplit, Spans, Starts, Table, Write, WriteBuckets, WriteNodes, WriteOthers, WriteShifts, WriteUpper,
};
use lanetree_simt::instance;

instance!(lane_tree__list_split, lane_tree, ListSplit);
instance!(lane_tree__assign_others, lane_tree, AssignOthers);
instance!(lane_tree__size_others, lane_tree, SizeOthers);

macro_rules! keys {
    ($($k:ident;)*) => {
        pastey::paste! {$(
            instance!([<lane_tree_ $k __count_upper>], [<lane_tree_ $k>], CountUpper<$k>);
            instance!([<lane_tree_ $k __cut>], [<lane_tree_ $k>], Cut<$k>);
            instance!([<lane_tree_ $k __table>], [<lane_tree_ $k>], Table<$k>);
            instance!([<lane_tree_ $k __write_upper>], [<lane_tree_ $k>], WriteUpper<$k>);
        )*}
    };
}
keys! {
    u32;
    u64;
    u128;
}

macro_rules! pairs {
    ($($k:ident, $v:ty, $name:ident;)*) => {
        pastey::paste! {$(
            instance!([<lane_tree_ $k _ $name __copy_pairs>], [<lane_tree_ $k _ $name>], CopyPairs<$k, $v>);
            instance!([<lane_tree_ $k _ $name __get>], [<lane_tree_ $k _ $name>], Get<$k, $v>);
            instance!([<lane_tree_ $k _ $name __get_counted>], [<lane_tree_ $k _ $name>], Counted<Get<$k, $v>>);
            instance!([<lane_tree_ $k _ $name __gather_g8>], [<lane_tree_ $k _ $name>], Gather<$k, $v, 8>);
            instance!([<lane_tree_ $k _ $name __gather_g32>], [<lane_tree_ $k _ $name>], Gather<$k, $v, 32>);
            instance!([<lane_tree_ $k _ $name __gather_beside_windows>], [<lane_tree_ $k _ $name>], GatherBesideWindows<$k, $v>);
            instance!([<lane_tree_ $k _ $name __gather_sorted>], [<lane_tree_ $k _ $name>], GatherSorted<$k, $v>);
            instance!([<lane_tree_ $k _ $name __get_sorted_1>], [<lane_tree_ $k _ $name>], GetSorted<$k, $v, 1>);
            instance!([<lane_tree_ $k _ $name __get_sorted_2>], [<lane_tree_ $k _ $name>], GetSorted<$k, $v, 2>);
            instance!([<lane_tree_ $k _ $name __move_pairs>], [<lane_tree_ $k _ $name>], MovePairs<$k, $v>);
            instance!([<lane_tree_ $k _ $name __neighbor>], [<lane_tree_ $k _ $name>], Neighbor<$k, $v>);
            instance!([<lane_tree_ $k _ $name __neighbor_counted>], [<lane_tree_ $k _ $name>], Counted<Neighbor<$k, $v>>);
            instance!([<lane_tree_ $k _ $name __neighbor_beside_windows>], [<lane_tree_ $k _ $name>], NeighborBesideWindows<$k, $v>);
            instance!([<lane_tree_ $k _ $name __neighbor_sorted>], [<lane_tree_ $k _ $name>], NeighborSorted<$k, $v>);
            instance!([<lane_tree_ $k _ $name __plan_nodes>], [<lane_tree_ $k _ $name>], PlanNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $name __rebuild>], [<lane_tree_ $k _ $name>], Rebuild<$k, $v>);
            instance!([<lane_tree_ $k _ $name __scan>], [<lane_tree_ $k _ $name>], Scan<$k, $v>);
            instance!([<lane_tree_ $k _ $name __scan_beside_windows>], [<lane_tree_ $k _ $name>], ScanBesideWindows<$k, $v>);
            instance!([<lane_tree_ $k _ $name __scan_sorted>], [<lane_tree_ $k _ $name>], ScanSorted<$k, $v>);
            instance!([<lane_tree_ $k _ $name __scan_wide>], [<lane_tree_ $k _ $name>], ScanWide<$k, $v>);
            instance!([<lane_tree_ $k _ $name __write>], [<lane_tree_ $k _ $name>], Write<$k, $v>);
            instance!([<lane_tree_ $k _ $name __write_buckets>], [<lane_tree_ $k _ $name>], WriteBuckets<$k, $v>);
            instance!([<lane_tree_ $k _ $name __write_nodes>], [<lane_tree_ $k _ $name>], WriteNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $name __write_others>], [<lane_tree_ $k _ $name>], WriteOthers<$k, $v>);
            instance!([<lane_tree_ $k _ $name __write_shifts>], [<lane_tree_ $k _ $name>], WriteShifts<$k, $v>);
        )*}
    };
}
pairs! {
    u32, u32, u32;
    u32, u64, u64;
    u32, (), set;
    u64, u32, u32;
    u64, u64, u64;
    u64, (), set;
    u128, u32, u32;
    u128, u64, u64;
    u128, (), set;
}

// Of keys of 64 bits, buckets with values are alike.
macro_rules! buckets {
    ($($k:ident, $v:ty, $module:ident;)*) => {
        pastey::paste! {$(
            instance!([<$module __ends>], $module, Ends<$k, $v>);
            instance!([<$module __locate>], $module, Locate<$k, $v>);
            instance!([<$module __locate_beside_windows>], $module, LocateBesideWindows<$k, $v>);
            instance!([<$module __locate_sorted>], $module, LocateSorted<$k, $v>);
            instance!([<$module __plan_shifts>], $module, PlanShifts<$k, $v>);
            instance!([<$module __rank>], $module, Rank<$k, $v>);
            instance!([<$module __rank_counted>], $module, Counted<Rank<$k, $v>>);
            instance!([<$module __rank_beside_windows>], $module, RankBesideWindows<$k, $v>);
            instance!([<$module __rank_sorted>], $module, RankSorted<$k, $v>);
            instance!([<$module __relocate>], $module, Relocate<$k, $v>);
            instance!([<$module __search>], $module, Search<$k, $v>);
        )*}
    };
}
buckets! {
    u32, u32, lane_tree_u32_u32;
    u32, u64, lane_tree_u32_u64;
    u32, (), lane_tree_u32_set;
    u64, u64, lane_tree_u64_pairs;
    u64, (), lane_tree_u64_set;
    u128, u32, lane_tree_u128_u32;
    u128, u64, lane_tree_u128_u64;
    u128, (), lane_tree_u128_set;
}

// These know of buckets only how many slots they have: with keys of 128 bits, always four.
macro_rules! slots {
    ($($k:ident, $v:ty, $module:ident;)*) => {
        pastey::paste! {$(
            instance!([<$module __count>], $module, Count<$k, $v>);
            instance!([<$module __count_others>], $module, CountOthers<$k, $v>);
            instance!([<$module __list_nodes>], $module, ListNodes<$k, $v>);
            instance!([<$module __assign_parts>], $module, AssignParts<$k, $v>);
            instance!([<$module __plan_buckets>], $module, PlanBuckets<$k, $v>);
            instance!([<$module __ranks>], $module, Ranks<$k, $v>);
            instance!([<$module __size_split>], $module, SizeSplit<$k, $v>);
            instance!([<$module __spans>], $module, Spans<$k, $v>);
            instance!([<$module __starts>], $module, Starts<$k, $v>);
        )*}
    };
}
slots! {
    u32, u32, lane_tree_u32_u32;
    u32, u64, lane_tree_u32_u64;
    u32, (), lane_tree_u32_set;
    u64, u64, lane_tree_u64_pairs;
    u64, (), lane_tree_u64_set;
    u128, u64, lane_tree_u128;
}

macro_rules! of_values {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            instance!([<lane_tree_ $k _ $v __aggregate_g8>], [<lane_tree_ $k _ $v>], Aggregate<$k, $v, 8>);
            instance!([<lane_tree_ $k _ $v __aggregate_g32>], [<lane_tree_ $k _ $v>], Aggregate<$k, $v, 32>);
        )*}
    };
}
of_values! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
    u128, u32;
    u128, u64;
}
