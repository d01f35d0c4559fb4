//! The kernels of changes.

use super::{by_query_words, by_word, kernels};
use crate::Launch;
use lanetree_kernels_cuart::update::{
    Claim, ClaimArgs, ClearSequence, ClearSequenceArgs, Conquer, ConquerArgs, CountLeaves, CountLeavesArgs, Insert,
    InsertArgs, Latest, LatestArgs, Locate, LocateArgs, Overwrite, OverwriteArgs, Remove, RemoveArgs, Retire,
    RetireArgs, Stamp, StampArgs, Tidy, TidyArgs, WriteStamped, WriteStampedArgs,
};
use lanetree_layout::Word;
use lanetree_runtime::Result;
use lanetree_simt::{Launcher, same_args};

by_query_words! {
    /// Launches the first stage of updates by the hash table.
    claim(ClaimArgs) => Claim[0, 1, 2, 4];
    /// Launches updates in one stage, of trees without keys of more than 32 bytes.
    latest(LatestArgs) => Latest[1, 2, 4];
    /// Launches the search for leaves.
    locate(LocateArgs) => Locate[0, 1, 2, 4];
    /// Launches the first stage of updates by a stamp for each leaf.
    stamp(StampArgs) => Stamp[0, 1, 2, 4];
}

by_word! {
    /// Launches the second stage of updates by the hash table.
    conquer(ConquerArgs) => Conquer;
    /// Launches the second stage of updates by a stamp for each leaf.
    write_stamped(WriteStampedArgs) => WriteStamped;
    /// Launches the last stage of updates by sorting.
    overwrite(OverwriteArgs) => Overwrite;
}

kernels! {
    /// Launches the kernel that clears the numbers of operations above values of 32 bits.
    clear_sequence(ClearSequenceArgs) => ClearSequence;
    /// Launches the count of leaves that keys need.
    count_leaves(CountLeavesArgs) => CountLeaves;
    /// Launches the kernel that puts nodes with those to use again.
    retire(RetireArgs) => Retire;
    /// Launches removals.
    remove(RemoveArgs) => Remove;
    /// Launches inserts.
    insert(InsertArgs) => Insert;
    /// Launches the kernel that puts nodes in order after inserts.
    tidy(TidyArgs) => Tidy;
}
