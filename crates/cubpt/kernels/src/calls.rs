//! The choice of a kernel by its words.

use crate::{
    Bounds, BoundsArgs, Children, ChildrenArgs, Counts, CountsArgs, Gather, GatherArgs, Get, GetArgs, Link, LinkArgs,
    Locate, LocateArgs, Neighbor, NeighborArgs, Rank, RankArgs, WriteNodes, WriteNodesArgs,
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
    /// The kernel that locates ranges.
    locate(LocateArgs) => Locate<K>;
    /// The rank kernel.
    rank(RankArgs) => Rank<K>;
}

/// The children of nodes.
pub fn children(args: &ChildrenArgs) -> Call<'_> {
    Call::of::<Children>(args)
}

/// The number of keys of nodes.
pub fn counts(args: &CountsArgs) -> Call<'_> {
    Call::of::<Counts>(args)
}

/// The neighbours and ranks of leaves.
pub fn link(args: &LinkArgs) -> Call<'_> {
    Call::of::<Link>(args)
}
