//! The instances that are compiled, by key word and value word, and of sets; `calls` chooses among them.

use crate::{
    CopyPairs, Count, CountUpper, Cut, Ends, Fits, Gather, Get, GetSorted, ListDivided, ListNodes, Locate, MoveInserts,
    MovePairs, Neighbor, PlaceParts, PlanLines, PlanNodes, PlanRuns, PlanShifts, Rank, Ranks, Relocate, Scan, ScanWide,
    Search, Table, Write, WriteLines, WriteNodes, WriteOthers, WriteShifts, WriteUpper,
};
use lanetree_simt::instance;

instance!(lane_tree__fits, lane_tree, Fits);
instance!(lane_tree__list_divided, lane_tree, ListDivided);

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
            instance!([<lane_tree_ $k _ $name __count>], [<lane_tree_ $k _ $name>], Count<$k, $v>);
            instance!([<lane_tree_ $k _ $name __ends>], [<lane_tree_ $k _ $name>], Ends<$k, $v>);
            instance!([<lane_tree_ $k _ $name __get>], [<lane_tree_ $k _ $name>], Get<$k, $v>);
            instance!([<lane_tree_ $k _ $name __gather_g8>], [<lane_tree_ $k _ $name>], Gather<$k, $v, 8>);
            instance!([<lane_tree_ $k _ $name __gather_g32>], [<lane_tree_ $k _ $name>], Gather<$k, $v, 32>);
            instance!([<lane_tree_ $k _ $name __get_sorted_1>], [<lane_tree_ $k _ $name>], GetSorted<$k, $v, 1>);
            instance!([<lane_tree_ $k _ $name __get_sorted_2>], [<lane_tree_ $k _ $name>], GetSorted<$k, $v, 2>);
            instance!([<lane_tree_ $k _ $name __list_nodes>], [<lane_tree_ $k _ $name>], ListNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $name __locate>], [<lane_tree_ $k _ $name>], Locate<$k, $v>);
            instance!([<lane_tree_ $k _ $name __move_inserts>], [<lane_tree_ $k _ $name>], MoveInserts<$k, $v>);
            instance!([<lane_tree_ $k _ $name __move_pairs>], [<lane_tree_ $k _ $name>], MovePairs<$k, $v>);
            instance!([<lane_tree_ $k _ $name __neighbor>], [<lane_tree_ $k _ $name>], Neighbor<$k, $v>);
            instance!([<lane_tree_ $k _ $name __place_parts>], [<lane_tree_ $k _ $name>], PlaceParts<$k, $v>);
            instance!([<lane_tree_ $k _ $name __plan_lines>], [<lane_tree_ $k _ $name>], PlanLines<$k, $v>);
            instance!([<lane_tree_ $k _ $name __plan_nodes>], [<lane_tree_ $k _ $name>], PlanNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $name __plan_runs>], [<lane_tree_ $k _ $name>], PlanRuns<$k, $v>);
            instance!([<lane_tree_ $k _ $name __plan_shifts>], [<lane_tree_ $k _ $name>], PlanShifts<$k, $v>);
            instance!([<lane_tree_ $k _ $name __rank>], [<lane_tree_ $k _ $name>], Rank<$k, $v>);
            instance!([<lane_tree_ $k _ $name __ranks>], [<lane_tree_ $k _ $name>], Ranks<$k, $v>);
            instance!([<lane_tree_ $k _ $name __relocate>], [<lane_tree_ $k _ $name>], Relocate<$k, $v>);
            instance!([<lane_tree_ $k _ $name __scan>], [<lane_tree_ $k _ $name>], Scan<$k, $v>);
            instance!([<lane_tree_ $k _ $name __scan_wide>], [<lane_tree_ $k _ $name>], ScanWide<$k, $v>);
            instance!([<lane_tree_ $k _ $name __search>], [<lane_tree_ $k _ $name>], Search<$k, $v>);
            instance!([<lane_tree_ $k _ $name __write>], [<lane_tree_ $k _ $name>], Write<$k, $v>);
            instance!([<lane_tree_ $k _ $name __write_lines>], [<lane_tree_ $k _ $name>], WriteLines<$k, $v>);
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
