//! The choice of a kernel by its words.

use crate::{
    Aggregate, AggregateArgs, Bounds, BoundsArgs, ChangeArgs, Expand, ExpandArgs, Finish, First, FirstArgs, Free,
    FreeArgs, Gather, GatherArgs, GatherChildren, GatherChildrenArgs, GatherPairs, GatherPairsArgs, Get, GetArgs,
    Group, GroupArgs, Grow, GrowArgs, Lens, LensArgs, Link, LinkArgs, Locate, LocateArgs, Mark, MarkArgs, MemberCounts,
    MemberCountsArgs, Members, MembersArgs, Neighbor, NeighborArgs, Numbers, NumbersArgs, Pieces, PiecesArgs, Put,
    PutPieces, PutPiecesArgs, Rank, RankArgs, Reorder, ReorderArgs, Search, SearchArgs, Shift, Start, StartArgs, Touch,
    TouchArgs, Vanish, VanishArgs, WriteNodes, WriteNodesArgs,
};
use lanetree_simt::{Call, Word, entry_by_words};

macro_rules! by_words {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: Word, V: Word>(args: &$args<K, V>) -> Call<'_> {
            Call::new(entry_by_words!(K, V => $kernel), args)
        }
    )*};
}
by_words! {
    /// The look-up.
    get(GetArgs) => Get<K, V>;
    /// The neighbour kernel.
    neighbor(NeighborArgs) => Neighbor<K, V>;
    /// The kernel that copies ranges, with 8 lanes per range.
    gather_narrow(GatherArgs) => Gather<K, V, 8>;
    /// The kernel that copies ranges, with a warp per range.
    gather_wide(GatherArgs) => Gather<K, V, 32>;
    /// The pairs of leaves.
    gather_pairs(GatherPairsArgs) => GatherPairs<K, V>;
    /// Moves what nodes have, with values or with children of 32 bits.
    shift(ChangeArgs) => Shift<K, V>;
    /// What changes bring.
    put(ChangeArgs) => Put<K, V>;
    /// New nodes.
    finish(ChangeArgs) => Finish<K, V>;
    /// Writes nodes, with values or with children of 32 bits.
    write_nodes(WriteNodesArgs) => WriteNodes<K, V>;
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
    /// The bounds of pieces.
    bounds(BoundsArgs) => Bounds<K>;
    /// The children that stay as they are.
    gather_children(GatherChildrenArgs) => GatherChildren<K>;
    /// The members of groups.
    members(MembersArgs) => Members<K>;
    /// The pieces of the layer below.
    put_pieces(PutPiecesArgs) => PutPieces<K>;
    /// New nodes as changes of the layer above.
    expand(ExpandArgs) => Expand<K>;
    /// The places of changes.
    search(SearchArgs) => Search<K>;
    /// The kernel that locates ranges.
    locate(LocateArgs) => Locate<K>;
    /// The rank kernel.
    rank(RankArgs) => Rank<K>;
}

macro_rules! without_words {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        pub fn $function(args: &$args) -> Call<'_> {
            Call::of::<$kernel>(args)
        }
    )*};
}
without_words! {
    /// The order of the leaves of a build.
    first(FirstArgs) => First;
    /// Members that are not needed.
    free(FreeArgs) => Free;
    /// The groups of a layer.
    group(GroupArgs) => Group;
    /// New leaves behind others.
    grow(GrowArgs) => Grow;
    /// The pairs of leaves.
    lens(LensArgs) => Lens;
    /// The next leaf of each.
    link(LinkArgs) => Link;
    /// The places of nodes in a list.
    mark(MarkArgs) => Mark;
    /// The elements of members.
    member_counts(MemberCountsArgs) => MemberCounts;
    /// The numbers of pieces.
    numbers(NumbersArgs) => Numbers;
    /// The places of changed leaves.
    pieces(PiecesArgs) => Pieces;
    /// The new positions of leaves.
    reorder(ReorderArgs) => Reorder;
    /// Leaves that are too small.
    start(StartArgs) => Start;
    /// What becomes of nodes.
    touch(TouchArgs) => Touch;
    /// Leaves that are gone.
    vanish(VanishArgs) => Vanish;
}

/// The kernel that aggregates ranges, with 8 lanes per range.
pub fn aggregate_narrow<K: Word, V: Word>(args: &AggregateArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K, V => Aggregate<K, V, 8>), args)
}

/// The kernel that aggregates parts of ranges, with a warp per part.
pub fn aggregate_wide<K: Word, V: Word>(args: &AggregateArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K, V => Aggregate<K, V, 32>), args)
}
