//! The choice of a kernel by its words.

use crate::{
    Advance, AdvanceArgs, Gather, GatherArgs, Get, GetArgs, Locate, LocateArgs, Neighbor, NeighborArgs, Rank, RankArgs,
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
    /// The look-up.
    get(GetArgs<K, V>) => Get<K, V>;
    /// The kernel that copies ranges, with 8 lanes per range.
    gather_narrow(GatherArgs<K, V>) => Gather<K, V, 8>;
    /// The kernel that copies ranges, with a warp per range.
    gather_wide(GatherArgs<K, V>) => Gather<K, V, 32>;
    /// The kernel that locates ranges.
    locate(LocateArgs<K>) => Locate<K, V>;
    /// The neighbour kernel.
    neighbor(NeighborArgs<K, V>) => Neighbor<K, V>;
    /// The rank kernel.
    rank(RankArgs<K>) => Rank<K, V>;
}
