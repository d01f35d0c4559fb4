//! The primitives but for sorting.

use lanetree_kernels_primitives::merge::{Merge, MergeArgs, Splits};
use lanetree_kernels_primitives::runs::{self, Last, Lengths, Reduction, RunArgs, Runs, Sums, Unique};
use lanetree_kernels_primitives::scan::{ExclusiveSum, InclusiveMax, Scan, ScanArgs};
use lanetree_kernels_primitives::select::{self, CountFlags, Select, SelectArgs};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

/// The choosers of the kernels for two words, without type parameters.
macro_rules! choosers {
    ($module:ident, $key:ty, $value:ty, $values:literal) => {
        mod $module {
            use super::*;

            const BYTES: usize = <$key as Word>::BYTES + if $values { <$value as Word>::BYTES } else { 0 };

            #[inline(never)]
            pub(super) fn select(partition: bool, args: &SelectArgs<$key, $value>) -> Call<'_> {
                match partition {
                    true => Call::of::<Select<$key, $value, $values, true, { select::steps(BYTES, true) }>>(args),
                    false => Call::of::<Select<$key, $value, $values, false, { select::steps(BYTES, false) }>>(args),
                }
            }
            #[inline(never)]
            pub(super) fn splits(_: bool, args: &MergeArgs<$key, $value>) -> Call<'_> {
                Call::of::<Splits<$key, $value, $values>>(args)
            }
            #[inline(never)]
            pub(super) fn merge(replace: bool, args: &MergeArgs<$key, $value>) -> Call<'_> {
                match replace {
                    true => Call::of::<Merge<$key, $value, $values, true>>(args),
                    false => Call::of::<Merge<$key, $value, $values, false>>(args),
                }
            }
        }
    };
}
choosers!(u32_keys, u32, u32, false);
choosers!(u64_keys, u64, u32, false);
choosers!(u32_u32, u32, u32, true);
choosers!(u32_u64, u32, u64, true);
choosers!(u64_u32, u64, u32, true);
choosers!(u64_u64, u64, u64, true);

/// A function over two words that calls the chooser for these very words; `values` says whether there are
/// values, and without them `V` is `u32`.
macro_rules! by_words {
    ($(#[$doc:meta])* $function:ident($choice:ident), $args:ident) => {
        $(#[$doc])*
        pub fn $function<K: Word, V: Word>(
            values: bool,
            $choice: bool,
            args: &$args<K, V>) -> Call<'_> {
            match (K::BITS, V::BITS, values) {
                (32, _, false) => u32_keys::$function($choice, same_args(args)),
                (_, _, false) => u64_keys::$function($choice, same_args(args)),
                (32, 32, true) => u32_u32::$function($choice, same_args(args)),
                (32, _, true) => u32_u64::$function($choice, same_args(args)),
                (_, 32, true) => u64_u32::$function($choice, same_args(args)),
                (_, _, true) => u64_u64::$function($choice, same_args(args)),
            }
        }
    };
}
by_words!(
    /// The call of the compaction.
    select(partition), SelectArgs
);
by_words!(
    /// The call of the search for the tiles of a merge.
    splits(_replace), MergeArgs
);
by_words!(
    /// The call of a merge.
    merge(replace), MergeArgs
);

/// The choosers of a reduction of runs, and the function that calls the one for its words.
macro_rules! reductions {
    ($(#[$doc:meta])* $function:ident<$k:ident $(, $w:ident)?>, $in:ty, $out:ty, {$($chooser:ident: $pattern:pat => $key:ty, $reduction:ty;)*}) => {
        $(
            #[inline(never)]
            fn $chooser(
                args: &RunArgs<$key, <$reduction as Reduction>::In, <$reduction as Reduction>::Out>) -> Call<'_> {
                Call::of::<Runs<$key, $reduction, { runs::steps(<$reduction as Reduction>::HAS_VALUES) }>>(args)
            }
        )*
        $(#[$doc])*
        pub fn $function<$k: Word $(, $w: Word)?>(args: &RunArgs<$k, $in, $out>) -> Call<'_> {
            match ($k::BITS, [$($w::BITS,)? 0][0]) {
                $($pattern => $chooser(same_args(args)),)*
            }
        }
    };
}
reductions!(
    /// The call of the reduction of runs to their keys.
    unique<K>, u32, u32, {
        unique_u32: (32, _) => u32, Unique;
        unique_u64: (_, _) => u64, Unique;
    }
);
reductions!(
    /// The call of the reduction of runs to their last values.
    last<K, V>, V, V, {
        last_u32_u32: (32, 32) => u32, Last<u32>;
        last_u32_u64: (32, _) => u32, Last<u64>;
        last_u64_u32: (_, 32) => u64, Last<u32>;
        last_u64_u64: (_, _) => u64, Last<u64>;
    }
);
reductions!(
    /// The call of the reduction of runs to their lengths.
    lengths<K, L>, u32, L, {
        lengths_u32_u32: (32, 32) => u32, Lengths<u32>;
        lengths_u32_u64: (32, _) => u32, Lengths<u64>;
        lengths_u64_u32: (_, 32) => u64, Lengths<u32>;
        lengths_u64_u64: (_, _) => u64, Lengths<u64>;
    }
);
reductions!(
    /// The call of the reduction of runs to the sums of their values.
    sums<K, V>, V, u64, {
        sums_u32_u32: (32, 32) => u32, Sums<u32>;
        sums_u32_u64: (32, _) => u32, Sums<u64>;
        sums_u64_u32: (_, 32) => u64, Sums<u32>;
        sums_u64_u64: (_, _) => u64, Sums<u64>;
    }
);

macro_rules! scans {
    ($($(#[$doc:meta])* $chooser:ident: $operator:ty, $in:ty => $out:ty;)*) => {$(
        $(#[$doc])*
        #[inline(never)]
        pub fn $chooser(args: &ScanArgs<$in, $out>) -> Call<'_> {
            Call::of::<Scan<$operator>>(args)
        }
    )*};
}
scans! {
    /// The call of the scan of 32-bit counts.
    exclusive_sum_u32: ExclusiveSum<u32>, u32 => u64;
    /// The call of the scan of 64-bit counts.
    exclusive_sum_u64: ExclusiveSum<u64>, u64 => u64;
    /// The call of the running maxima of 32-bit words.
    inclusive_max_u32: InclusiveMax<u32>, u32 => u32;
    /// The call of the running maxima of 64-bit words.
    inclusive_max_u64: InclusiveMax<u64>, u64 => u64;
}

/// The call of the count of set flags.
#[inline(never)]
pub fn count_flags(args: &SelectArgs<u32, u32>) -> Call<'_> {
    Call::of::<CountFlags>(args)
}
