//! The kernels of changes.

use super::{by_query_words, by_word, kernels};

use lanetree_kernels_cuart::update::{
    Claim, ClaimArgs, ClearSequence, ClearSequenceArgs, Conquer, ConquerArgs, CountLeaves, CountLeavesArgs, Insert,
    InsertArgs, Latest, LatestArgs, Locate, LocateArgs, Overwrite, OverwriteArgs, Remove, RemoveArgs, Retire,
    RetireArgs, Stamp, StampArgs, Tidy, TidyArgs, WriteStamped, WriteStampedArgs,
};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

by_query_words! {
    /// The call of the first stage of updates by the hash table.
    claim(ClaimArgs) => Claim[0, 1, 2, 4];
    /// The call of updates in one stage, for trees without keys of more than 32 bytes.
    latest(LatestArgs) => Latest[1, 2, 4];
    /// The call of the search for leaves.
    locate(LocateArgs) => Locate[0, 1, 2, 4];
    /// The call of the first stage of updates by a stamp for each leaf.
    stamp(StampArgs) => Stamp[0, 1, 2, 4];
}

by_word! {
    /// The call of the second stage of updates by the hash table.
    conquer(ConquerArgs) => Conquer;
    /// The call of the second stage of updates by a stamp for each leaf.
    write_stamped(WriteStampedArgs) => WriteStamped;
    /// The call of the last stage of updates by sorting.
    overwrite(OverwriteArgs) => Overwrite;
}

kernels! {
    /// The call of the kernel that clears the numbers of operations above values of 32 bits.
    clear_sequence(ClearSequenceArgs) => ClearSequence;
    /// The call of the count of leaves that keys need.
    count_leaves(CountLeavesArgs) => CountLeaves;
    /// The call of the kernel that puts replaced nodes on the free lists.
    retire(RetireArgs) => Retire;
    /// The call of removals.
    remove(RemoveArgs) => Remove;
    /// The call of inserts.
    insert(InsertArgs) => Insert;
    /// The call of the kernel that sorts the children of nodes after inserts.
    tidy(TidyArgs) => Tidy;
}
