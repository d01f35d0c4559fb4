//! The choice of a kernel by its words.

use crate::{
    Compact, CompactArgs, CopyRuns, CopyRunsArgs, CountArgs, CountKept, CountKeptArgs, CountValues, First, FirstArgs,
    GatherPairs, GatherPairsArgs, Keep, KeepArgs, MarkKeys, MarkKeysArgs, Match, MatchArgs, Pack, PackArgs, PlaceRuns,
    PlaceRunsArgs, PlanRuns, PlanRunsArgs, RemovePairs, RemovePairsArgs, Scan, ScanArgs, SpanArgs, Spans,
};
use lanetree_simt::{Call, KeyWord, Word, entry_by_words};

macro_rules! without_words {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        pub fn $function(args: &$args) -> Call<'_> {
            Call::of::<$kernel>(args)
        }
    )*};
}
without_words! {
    /// The kernel that makes places.
    pack(PackArgs) => Pack;
    /// The kernel that reads numbers of values.
    count_values(CountArgs) => CountValues;
    /// The kernel that finds the values of ranges.
    spans(SpanArgs) => Spans;
    /// The kernel that finds out which runs have room.
    plan_runs(PlanRunsArgs) => PlanRuns;
    /// The kernel that gives runs their new places.
    place_runs(PlaceRunsArgs) => PlaceRuns;
    /// The kernel that takes all values from keys.
    mark_keys(MarkKeysArgs) => MarkKeys;
    /// The kernel that flags what still has values.
    keep(KeepArgs) => Keep;
    /// The kernel that removes matches.
    remove_pairs(RemovePairsArgs) => RemovePairs;
    /// The kernel that counts the values that stay.
    count_kept(CountKeptArgs) => CountKept;
}

/// The kernel that reads first values.
pub fn first<V: Word>(args: &FirstArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => First<V>), args)
}

/// The kernel that copies the pairs of rows.
pub fn gather_pairs<K: KeyWord, V: Word>(args: &GatherPairsArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => GatherPairs<K, V>), args)
}

/// The kernel that copies runs.
pub fn copy_runs<V: Word>(args: &CopyRunsArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => CopyRuns<V>), args)
}

/// The kernel that compares values with wanted ones.
pub fn match_values<V: Word>(args: &MatchArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => Match<V>), args)
}

/// The kernel that copies the values that stay.
pub fn compact<V: Word>(args: &CompactArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => Compact<V>), args)
}

/// The kernel that copies the pairs of scans.
pub fn scan<K: KeyWord, V: Word>(args: &ScanArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => Scan<K, V>), args)
}
