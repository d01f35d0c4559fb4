//! The choice of a kernel by its words.

use crate::{Gather, GatherArgs, Get, GetArgs, Locate, LocateArgs, Neighbor, NeighborArgs, Rank, RankArgs};
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
    /// The rank kernel.
    rank(RankArgs) => Rank<K, V>;
    /// The neighbour kernel.
    neighbor(NeighborArgs) => Neighbor<K, V>;
    /// The kernel that locates ranges.
    locate(LocateArgs) => Locate<K, V>;
    /// The kernel that copies ranges, with 8 lanes per range.
    gather_narrow(GatherArgs) => Gather<K, V, 8>;
    /// The kernel that copies ranges, with a warp per range.
    gather_wide(GatherArgs) => Gather<K, V, 32>;
}
