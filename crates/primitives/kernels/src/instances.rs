//! The instances that are compiled. Scans and spans have PTX modules of their own; everything else has one per key
//! and value word, with `primitives_u64` for keys without values.

use crate::expand::{Expand, PART};
use crate::merge::{KEEP, Merge, REPLACE, SUBTRACT, Splits};
use crate::operations::{CheckOrder, FoldKinds, MarkBases};
use crate::runs::{Last, Lengths, Reduction, Runs, Sums, Unique};
use crate::scan::{ExclusiveSum, InclusiveMax, Scan};
use crate::select::{CountFlags, Select};
use lanetree_simt::{KeyWord, instance};

instance!(primitives_scan__count_flags, primitives_scan, CountFlags);
instance!(primitives_scan__exclusive_sum_u32, primitives_scan, Scan<ExclusiveSum<u32>>);
instance!(primitives_scan__exclusive_sum_u64, primitives_scan, Scan<ExclusiveSum<u64>>);
instance!(primitives_scan__inclusive_max_u32, primitives_scan, Scan<InclusiveMax<u32>>);
instance!(primitives_scan__inclusive_max_u64, primitives_scan, Scan<InclusiveMax<u64>>);

instance!(primitives_expand__expand_u32, primitives_expand, Expand<u32, { PART }>);
instance!(primitives_expand__expand_u64, primitives_expand, Expand<u64, { PART }>);

instance!(primitives_operations__check_order_u32, primitives_operations, CheckOrder<u32>);
instance!(primitives_operations__check_order_u64, primitives_operations, CheckOrder<u64>);
instance!(primitives_operations__check_order_u128, primitives_operations, CheckOrder<u128>);
instance!(primitives_operations__fold_kinds_u32, primitives_operations, FoldKinds<u32>);
instance!(primitives_operations__fold_kinds_u64, primitives_operations, FoldKinds<u64>);
instance!(primitives_operations__fold_kinds_u128, primitives_operations, FoldKinds<u128>);
instance!(primitives_operations__mark_bases, primitives_operations, MarkBases);

/// [`Select`] with the tile of its elements.
macro_rules! select {
    ($k:ty, $v:ty, $values:literal, $partition:literal) => {
        Select<$k, $v, $values, $partition, {
            $crate::select::steps(
                <$k as KeyWord>::BYTES + if $values { <$v as KeyWord>::BYTES } else { 0 },
                $partition,
            )
        }>
    };
}
/// [`Runs`] with the tile of their inputs.
macro_rules! runs {
    ($k:ty, $reduction:ty) => {
        Runs<$k, $reduction, { $crate::runs::steps(<$reduction as Reduction>::HAS_VALUES) }>
    };
}

#[cfg(not(target_os = "cuda"))]
pub(crate) use {runs, select};

macro_rules! select_and_merge {
    ($module:ident, $k:ident, $v:ident, $values:literal) => {
        pastey::paste! {
            instance!([<$module __select>], $module, select!($k, $v, $values, false));
            instance!([<$module __partition>], $module, select!($k, $v, $values, true));
            instance!([<$module __splits>], $module, Splits<$k, $v, $values>);
            instance!([<$module __merge>], $module, Merge<$k, $v, $values, { KEEP }>);
            instance!([<$module __merge_replacing>], $module, Merge<$k, $v, $values, { REPLACE }>);
            instance!([<$module __subtract>], $module, Merge<$k, $v, $values, { SUBTRACT }>);
        }
    };
}

macro_rules! keys {
    ($k:ident) => {
        pastey::paste! {
            select_and_merge!([<primitives_ $k>], $k, u32, false);
            instance!([<primitives_ $k __unique>], [<primitives_ $k>], runs!($k, Unique));
            instance!([<primitives_ $k __lengths_u32>], [<primitives_ $k>], runs!($k, Lengths<u32>));
            instance!([<primitives_ $k __lengths_u64>], [<primitives_ $k>], runs!($k, Lengths<u64>));
        }
    };
}
keys!(u32);
keys!(u64);
keys!(u128);

macro_rules! pairs {
    ($k:ident, $v:ident) => {
        pastey::paste! {
            select_and_merge!([<primitives_ $k _ $v>], $k, $v, true);
            instance!([<primitives_ $k _ $v __last>], [<primitives_ $k _ $v>], runs!($k, Last<$v>));
            instance!([<primitives_ $k _ $v __sums>], [<primitives_ $k _ $v>], runs!($k, Sums<$v>));
        }
    };
}
pairs!(u32, u32);
pairs!(u32, u64);
pairs!(u64, u32);
pairs!(u64, u64);
pairs!(u128, u32);
pairs!(u128, u64);
