//! The choice of a kernel by its words.

use crate::{
    Advance, AdvanceArgs, Count, CountUpper, Cut, CutArgs, Gather, GatherArgs, Get, GetArgs, GetSorted, Locate,
    LocateArgs, MoveArgs, MoveInserts, MovePairs, Neighbor, NeighborArgs, NodeChangesArgs, NodesArgs, PlanNodes, Rank,
    RankArgs, Ranks, RanksArgs, Search, SearchArgs, Table, TableArgs, UpperArgs, Write, WriteNodes, WriteUpper,
};
use lanetree_simt::{Call, Word, entry_by_words};

macro_rules! by_words {
    ($($(#[$doc:meta])* $function:ident($($args:tt)*) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: Word, V: Word>(args: &$($args)*) -> Call<'_> {
            Call::new(entry_by_words!(K, V => $kernel), args)
        }
    )*};
}
by_words! {
    /// The kernel that moves a cursor.
    advance(AdvanceArgs<K>) => Advance<K, V>;
    /// The kernel that counts nodes and lines.
    count(NodesArgs<K, V>) => Count<K, V>;
    /// The look-up.
    get(GetArgs<K, V>) => Get<K, V>;
    /// The kernel that copies ranges, with 8 lanes per range.
    gather_narrow(GatherArgs<K, V>) => Gather<K, V, 8>;
    /// The kernel that copies ranges, with a warp per range.
    gather_wide(GatherArgs<K, V>) => Gather<K, V, 32>;
    /// The look-up of sorted queries.
    get_sorted(GetArgs<K, V>) => GetSorted<K, V>;
    /// The kernel that locates ranges.
    locate(LocateArgs<K>) => Locate<K, V>;
    /// The kernel that copies the pairs that a batch inserts.
    move_inserts(MoveArgs<K, V>) => MoveInserts<K, V>;
    /// The kernel that copies the pairs that stay.
    move_pairs(MoveArgs<K, V>) => MovePairs<K, V>;
    /// The neighbour kernel.
    neighbor(NeighborArgs<K, V>) => Neighbor<K, V>;
    /// The kernel that plans the nodes that a batch touches.
    plan_nodes(NodeChangesArgs<K, V>) => PlanNodes<K, V>;
    /// The rank kernel.
    rank(RankArgs<K>) => Rank<K, V>;
    /// The kernel that gives nodes their ranks.
    ranks(RanksArgs<K, V>) => Ranks<K, V>;
    /// The kernel that searches operations.
    search(SearchArgs<K>) => Search<K, V>;
    /// The kernel that writes the nodes that a batch touches.
    write_nodes(NodeChangesArgs<K, V>) => WriteNodes<K, V>;
    /// The kernel that writes nodes and lines.
    write(NodesArgs<K, V>) => Write<K, V>;
}

macro_rules! by_key {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: Word>(args: &$args<K>) -> Call<'_> {
            Call::new(entry_by_words!(K => $kernel), args)
        }
    )*};
}
by_key! {
    /// The kernel that counts the nodes of a level above the lowest.
    count_upper(UpperArgs) => CountUpper<K>;
    /// The kernel that chooses where parts begin.
    cut(CutArgs) => Cut<K>;
    /// The kernel that makes the table.
    table(TableArgs) => Table<K>;
    /// The kernel that writes a level above the lowest.
    write_upper(UpperArgs) => WriteUpper<K>;
}
