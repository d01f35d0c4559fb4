//! The instances that are compiled: one PTX module for places, one per word, one per key word and value word; `calls`
//! chooses among them.

use crate::{
    Compact, CopyRuns, CountKept, CountValues, First, GatherPairs, Keep, MarkKeys, Match, Pack, PlaceRuns, PlanRuns,
    RemovePairs, Scan, Spans,
};
use lanetree_simt::instance;

instance!(multimap__pack, multimap, Pack);
instance!(multimap__count_values, multimap, CountValues);
instance!(multimap__spans, multimap, Spans);
instance!(multimap__plan_runs, multimap, PlanRuns);
instance!(multimap__place_runs, multimap, PlaceRuns);
instance!(multimap__mark_keys, multimap, MarkKeys);
instance!(multimap__keep, multimap, Keep);
instance!(multimap__remove_pairs, multimap, RemovePairs);
instance!(multimap__count_kept, multimap, CountKept);

macro_rules! words {
    ($($word:ident)*) => {
        pastey::paste! {$(
            instance!([<multimap_ $word __first>], [<multimap_ $word>], First<$word>);
            instance!([<multimap_ $word __copy_runs>], [<multimap_ $word>], CopyRuns<$word>);
            instance!([<multimap_ $word __match>], [<multimap_ $word>], Match<$word>);
            instance!([<multimap_ $word __compact>], [<multimap_ $word>], Compact<$word>);
        )*}
    };
}
words!(u32 u64);

macro_rules! pairs {
    ($($k:ident, $v:ident;)*) => {
        pastey::paste! {$(
            instance!([<multimap_ $k _ $v __gather_pairs>], [<multimap_ $k _ $v>], GatherPairs<$k, $v>);
            instance!([<multimap_ $k _ $v __scan>], [<multimap_ $k _ $v>], Scan<$k, $v>);
        )*}
    };
}
pairs! {
    u32, u32;
    u32, u64;
    u64, u32;
    u64, u64;
    u128, u32;
    u128, u64;
}
