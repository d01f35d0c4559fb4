//! The instances that are compiled, by key word and value word; `calls` chooses among them.

use crate::{
    Advance, CopyPairs, Count, CountUpper, Cut, Ends, Fits, FlagNodes, Gather, Get, GetSorted, ListDivided, ListNodes,
    Locate, MoveInserts, MovePairs, Neighbor, PlaceParts, PlanLines, PlanNodes, PlanRuns, PlanShifts, Rank, Ranks,
    Relocate, Search, Table, Write, WriteLines, WriteNodes, WriteOthers, WriteShifts, WriteUpper,
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
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            instance!([<lane_tree_ $k _ $v __advance>], [<lane_tree_ $k _ $v>], Advance<$k, $v>);
            instance!([<lane_tree_ $k _ $v __copy_pairs>], [<lane_tree_ $k _ $v>], CopyPairs<$k, $v>);
            instance!([<lane_tree_ $k _ $v __count>], [<lane_tree_ $k _ $v>], Count<$k, $v>);
            instance!([<lane_tree_ $k _ $v __ends>], [<lane_tree_ $k _ $v>], Ends<$k, $v>);
            instance!([<lane_tree_ $k _ $v __flag_nodes>], [<lane_tree_ $k _ $v>], FlagNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $v __get>], [<lane_tree_ $k _ $v>], Get<$k, $v>);
            instance!([<lane_tree_ $k _ $v __gather_g8>], [<lane_tree_ $k _ $v>], Gather<$k, $v, 8>);
            instance!([<lane_tree_ $k _ $v __gather_g32>], [<lane_tree_ $k _ $v>], Gather<$k, $v, 32>);
            instance!([<lane_tree_ $k _ $v __get_sorted_1>], [<lane_tree_ $k _ $v>], GetSorted<$k, $v, 1>);
            instance!([<lane_tree_ $k _ $v __get_sorted_2>], [<lane_tree_ $k _ $v>], GetSorted<$k, $v, 2>);
            instance!([<lane_tree_ $k _ $v __list_nodes>], [<lane_tree_ $k _ $v>], ListNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $v __locate>], [<lane_tree_ $k _ $v>], Locate<$k, $v>);
            instance!([<lane_tree_ $k _ $v __move_inserts>], [<lane_tree_ $k _ $v>], MoveInserts<$k, $v>);
            instance!([<lane_tree_ $k _ $v __move_pairs>], [<lane_tree_ $k _ $v>], MovePairs<$k, $v>);
            instance!([<lane_tree_ $k _ $v __neighbor>], [<lane_tree_ $k _ $v>], Neighbor<$k, $v>);
            instance!([<lane_tree_ $k _ $v __place_parts>], [<lane_tree_ $k _ $v>], PlaceParts<$k, $v>);
            instance!([<lane_tree_ $k _ $v __plan_lines>], [<lane_tree_ $k _ $v>], PlanLines<$k, $v>);
            instance!([<lane_tree_ $k _ $v __plan_nodes>], [<lane_tree_ $k _ $v>], PlanNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $v __plan_runs>], [<lane_tree_ $k _ $v>], PlanRuns<$k, $v>);
            instance!([<lane_tree_ $k _ $v __plan_shifts>], [<lane_tree_ $k _ $v>], PlanShifts<$k, $v>);
            instance!([<lane_tree_ $k _ $v __rank>], [<lane_tree_ $k _ $v>], Rank<$k, $v>);
            instance!([<lane_tree_ $k _ $v __ranks>], [<lane_tree_ $k _ $v>], Ranks<$k, $v>);
            instance!([<lane_tree_ $k _ $v __relocate>], [<lane_tree_ $k _ $v>], Relocate<$k, $v>);
            instance!([<lane_tree_ $k _ $v __search>], [<lane_tree_ $k _ $v>], Search<$k, $v>);
            instance!([<lane_tree_ $k _ $v __write>], [<lane_tree_ $k _ $v>], Write<$k, $v>);
            instance!([<lane_tree_ $k _ $v __write_lines>], [<lane_tree_ $k _ $v>], WriteLines<$k, $v>);
            instance!([<lane_tree_ $k _ $v __write_nodes>], [<lane_tree_ $k _ $v>], WriteNodes<$k, $v>);
            instance!([<lane_tree_ $k _ $v __write_others>], [<lane_tree_ $k _ $v>], WriteOthers<$k, $v>);
            instance!([<lane_tree_ $k _ $v __write_shifts>], [<lane_tree_ $k _ $v>], WriteShifts<$k, $v>);
        )*}
    };
}
pairs! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
    u128, u32;
    u128, u64;
}
