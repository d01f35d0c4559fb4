//! The choice of a kernel: by the words, which are known when the code is compiled, and by a key's size, which is not.

use crate::build::NodesArgs;
use crate::build::boundaries::{Boundaries, Level, LevelArgs};
use crate::build::fill::{Fill, FillArgs};
use crate::build::intervals::Intervals;
use crate::build::leaves::{Leaves, LeavesArgs, Numbers, NumbersArgs};
use crate::build::number::{Number, Place};
use crate::build::table::{Table, TableArgs};
use crate::compact::{Move, MoveArgs, Sift, Spread, SpreadArgs};
use crate::layout::LinkType;
use crate::update::{
    Claim, ClaimArgs, ClearSequence, ClearSequenceArgs, Conquer, ConquerArgs, ConquerOrRemove, ConquerOrRemoveArgs,
    CountLeaves, CountLeavesArgs, Insert, InsertArgs, Latest, LatestArgs, Locate, LocateArgs, Overwrite, OverwriteArgs,
    Remove, RemoveArgs, Retire, RetireArgs, Stamp, StampArgs, Tidy, TidyArgs, WriteStamped, WriteStampedArgs,
};
use crate::{CopyKeys, CopyKeysArgs, Expand, ExpandArgs, Get, GetArgs, GetTiled, Measure, MeasureArgs, Rank, RankArgs};
use lanetree_simt::{Call, Word, entry_by_words};

/// The look-up in a tree whose longest key has that many words of 8 bytes, 1, 2 or 4; 0 where it has keys of more than
/// 32 bytes.
///
/// # Panics
/// For another number of words.
pub fn get<V: Word>(words: usize, args: &GetArgs<V>) -> Call<'_> {
    Call::new(
        match words {
            0 => entry_by_words!(V => Get<V, 0>),
            1 => entry_by_words!(V => Get<V, 1>),
            2 => entry_by_words!(V => Get<V, 2>),
            4 => entry_by_words!(V => Get<V, 4>),
            _ => unreachable!("no kernel for keys of {words} words"),
        },
        args,
    )
}

/// The look-up in which 2, 4 or 8 lanes compare a key, in a tree of any keys.
///
/// # Panics
/// For another number of lanes.
pub fn get_tiled<V: Word>(lanes: u32, args: &GetArgs<V>) -> Call<'_> {
    Call::new(
        match lanes {
            2 => entry_by_words!(V => GetTiled<V, 2>),
            4 => entry_by_words!(V => GetTiled<V, 4>),
            8 => entry_by_words!(V => GetTiled<V, 8>),
            _ => unreachable!("no kernel in which {lanes} lanes compare a key"),
        },
        args,
    )
}

/// Leaves of keys of one width, at most 32.
pub fn leaves<V: Word>(args: &LeavesArgs<V>) -> Call<'_> {
    Call::new(
        match args.keys.width {
            0..=8 => entry_by_words!(V => Leaves<V, 1>),
            9..=16 => entry_by_words!(V => Leaves<V, 2>),
            _ => entry_by_words!(V => Leaves<V, 4>),
        },
        args,
    )
}

/// The nodes of a kind.
pub fn fill(kind: LinkType, args: &FillArgs) -> Call<'_> {
    match kind {
        LinkType::N4 => Call::of::<Fill<1>>(args),
        LinkType::N16 => Call::of::<Fill<2>>(args),
        LinkType::N48 => Call::of::<Fill<3>>(args),
        _ => Call::of::<Fill<4>>(args),
    }
}

/// Numbers of nodes if `list`, or their counts.
pub fn number(args: &NodesArgs, list: bool) -> Call<'_> {
    if list { Call::of::<Number<true>>(args) } else { Call::of::<Number<false>>(args) }
}

/// Places of nodes if `list`, or their counts.
pub fn place(args: &NodesArgs, list: bool) -> Call<'_> {
    if list { Call::of::<Place<true>>(args) } else { Call::of::<Place<false>>(args) }
}

macro_rules! by_query_words {
    ($($(#[$doc:meta])* $function:ident($args:ty) => $kernel:ident[$($words:literal),*];)*) => {$(
        $(#[$doc])*
        /// `words` are the 8-byte words of the tree's longest key, 1, 2 or 4; 0 where it has keys of more than 32 bytes.
        ///
        /// # Panics
        /// For another number of words.
        pub fn $function(words: usize, args: &$args) -> Call<'_> {
            match words {
                $($words => Call::of::<$kernel<$words>>(args),)*
                _ => unreachable!("no kernel for keys of {words} words"),
            }
        }
    )*};
}
by_query_words! {
    /// The first stage of updates by the hash table.
    claim(ClaimArgs) => Claim[0, 1, 2, 4];
    /// Updates in one stage, of trees without keys of more than 32 bytes.
    latest(LatestArgs) => Latest[1, 2, 4];
    /// The search for leaves.
    locate(LocateArgs) => Locate[0, 1, 2, 4];
    /// The first stage of updates by a stamp for each leaf.
    stamp(StampArgs) => Stamp[0, 1, 2, 4];
}

macro_rules! by_words {
    ($($(#[$doc:meta])* $function:ident<$($word:ident),*>($args:ty) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        pub fn $function<$($word: Word),*>(args: &$args) -> Call<'_> {
            Call::new(entry_by_words!($($word),* => $kernel), args)
        }
    )*};
}
by_words! {
    /// The second stage of updates by the hash table.
    conquer<V>(ConquerArgs<V>) => Conquer<V>;
    /// The second stage of updates and removals by the hash table.
    conquer_or_remove<V>(ConquerOrRemoveArgs<V>) => ConquerOrRemove<V>;
    /// The second stage of updates by a stamp for each leaf.
    write_stamped<V>(WriteStampedArgs<V>) => WriteStamped<V>;
    /// The last stage of updates by sorting.
    overwrite<V>(OverwriteArgs<V>) => Overwrite<V>;
    /// The search for the leaves of spans.
    expand<V>(ExpandArgs<V>) => Expand<V>;
    /// The ranking of keys.
    rank<>(RankArgs) => Rank;
    /// The measurement of spans.
    measure<>(MeasureArgs) => Measure;
    /// The copying of keys.
    copy_keys<>(CopyKeysArgs) => CopyKeys;
    /// The kernel that clears the numbers of operations above values of 32 bits.
    clear_sequence<>(ClearSequenceArgs) => ClearSequence;
    /// The count of leaves that keys need.
    count_leaves<>(CountLeavesArgs) => CountLeaves;
    /// The kernel that puts nodes with those to use again.
    retire<>(RetireArgs) => Retire;
    /// Removals.
    remove<>(RemoveArgs) => Remove;
    /// Inserts.
    insert<>(InsertArgs) => Insert;
    /// The kernel that puts nodes in order after inserts.
    tidy<>(TidyArgs) => Tidy;
    /// Depths of boundaries.
    boundaries<>(NodesArgs) => Boundaries;
    /// A level of minima.
    level<>(LevelArgs) => Level;
    /// Leaders of nodes.
    intervals<>(NodesArgs) => Intervals;
    /// Numbers of strings.
    numbers<>(NumbersArgs) => Numbers;
    /// The root table.
    table<>(TableArgs) => Table;
    /// The count of what nodes in a front are replaced by.
    count<>(SpreadArgs) => Spread<false>;
    /// The kernel that replaces them.
    spread<>(SpreadArgs) => Spread<true>;
    /// The count of leaves by kind.
    sift<>(MoveArgs) => Sift;
    /// The kernel that copies leaves.
    move_leaves<>(MoveArgs) => Move;
}
