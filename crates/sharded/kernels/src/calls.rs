//! The choice of a kernel by its word.

use crate::{
    Back, BackArgs, Cut, CutArgs, Judge, JudgeArgs, Merge, MergeArgs, Owners, OwnersArgs, Permute, PermuteArgs,
    PutPairs, PutPairsArgs, Scatter, ScatterArgs, Settle, SettleArgs, Share, ShareArgs, Sought, SoughtArgs,
};
use lanetree_simt::{Call, Instance, KeyWord, Word, entry_by_words};

macro_rules! by_word {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ident;)*) => {$(
        $(#[$doc])*
        pub fn $function<K: KeyWord>(args: &$args<K>) -> Call<'_> {
            Call::new(entry_by_words!(K: KeyWord => $kernel<K>), args)
        }
    )*};
}
by_word! {
    /// The kernel that puts queries into buckets.
    scatter(ScatterArgs) => Scatter;
    /// The kernel that cuts sorted batches.
    cut(CutArgs) => Cut;
    /// The kernel that makes results of sorted batches those of the whole index.
    settle(SettleArgs) => Settle;
    /// The kernel that puts results into the batch's order.
    back(BackArgs) => Back;
    /// The kernel that puts a shard's pairs where they belong.
    put_pairs(PutPairsArgs) => PutPairs;
    /// The kernel that finds the shards of operations.
    owners(OwnersArgs) => Owners;
    /// The kernel that makes the words to search for.
    sought(SoughtArgs) => Sought;
    /// The kernel that puts elements into an order.
    permute(PermuteArgs) => Permute;
}

/// The kernel that adds a shard to ranges.
pub fn share(args: &ShareArgs) -> Call<'_> {
    Call::new(Share::ENTRY, args)
}

/// The kernel that merges a shard's aggregates.
pub fn merge(args: &MergeArgs) -> Call<'_> {
    Call::new(Merge::ENTRY, args)
}

/// The kernel that keeps the neighbours that count.
pub fn judge<K: KeyWord, V: Word>(args: &JudgeArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => Judge<K, V>), args)
}
