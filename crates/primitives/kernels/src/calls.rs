//! The choice of a kernel, by the words, which are known when the code is compiled, and by whether there are values.
//! Without values `V` is `u32`, and does not matter. Next to a call whose kernel indexes load ahead is a function that
//! returns its entry.

use crate::expand::{Expand, ExpandArgs, PART};
use crate::instances::{runs, select};
use crate::local_sort::{LocalSort, LocalSortArgs};
use crate::merge::{KEEP, Merge, MergeArgs, REPLACE, SUBTRACT, Splits};
use crate::operations::{CheckOrder, CheckOrderArgs, FoldKinds, FoldKindsArgs, MarkBases, MarkBasesArgs};
use crate::radix_sort::{
    HistogramArgs, HistogramU32, HistogramU64, HistogramU128, Offsets, OffsetsArgs, OnesweepArgs, OnesweepU32,
    OnesweepU32U32, OnesweepU32U64, OnesweepU64, OnesweepU64U32, OnesweepU64U64, OnesweepU128, OnesweepU128U32,
    OnesweepU128U64, RestoreArgs, RestoreU32U32, RestoreU32U64, RestoreU64U32, RestoreU64U64, RestoreU128U32,
    RestoreU128U64, SmallSort, SmallSortArgs,
};
use crate::runs::{Last, Lengths, Reduction, RunArgs, Runs, Sums, Unique};
use crate::scan::{ExclusiveSum, InclusiveMax, Scan, ScanArgs};
use crate::select::{CountFlags, Select, SelectArgs};
use lanetree_simt::{Call, Entry, Instance, KeyWord, Word, entry_by_words};

/// Compaction: elements whose flag is set, in front of the others if `partition`, or without them.
pub fn select<K: KeyWord, V: Word>(values: bool, partition: bool, args: &SelectArgs<K, V>) -> Call<'_> {
    Call::new(
        match (values, partition) {
            (false, false) => entry_by_words!(K: KeyWord => select!(K, u32, false, false)),
            (false, true) => entry_by_words!(K: KeyWord => select!(K, u32, false, true)),
            (true, false) => entry_by_words!(K: KeyWord, V => select!(K, V, true, false)),
            (true, true) => entry_by_words!(K: KeyWord, V => select!(K, V, true, true)),
        },
        args,
    )
}

/// The search for the tiles of a merge.
pub fn splits<K: KeyWord, V: Word>(values: bool, args: &MergeArgs<K, V>) -> Call<'_> {
    Call::new(
        if values {
            entry_by_words!(K: KeyWord, V => Splits<K, V, true>)
        } else {
            entry_by_words!(K: KeyWord => Splits<K, u32, false>)
        },
        args,
    )
}

/// A merge, in which, if `replace`, a pair of the second sequence replaces the pair of the first with the same key.
pub fn merge<K: KeyWord, V: Word>(values: bool, replace: bool, args: &MergeArgs<K, V>) -> Call<'_> {
    Call::new(
        match (values, replace) {
            (false, false) => entry_by_words!(K: KeyWord => Merge<K, u32, false, { KEEP }>),
            (false, true) => entry_by_words!(K: KeyWord => Merge<K, u32, false, { REPLACE }>),
            (true, false) => entry_by_words!(K: KeyWord, V => Merge<K, V, true, { KEEP }>),
            (true, true) => entry_by_words!(K: KeyWord, V => Merge<K, V, true, { REPLACE }>),
        },
        args,
    )
}

/// A merge that drops all elements of the second sequence, and the elements of the first whose keys are in the second.
pub fn subtract<K: KeyWord, V: Word>(values: bool, args: &MergeArgs<K, V>) -> Call<'_> {
    Call::new(
        if values {
            entry_by_words!(K: KeyWord, V => Merge<K, V, true, { SUBTRACT }>)
        } else {
            entry_by_words!(K: KeyWord => Merge<K, u32, false, { SUBTRACT }>)
        },
        args,
    )
}

/// The kernel that looks for keys out of order.
pub const fn check_order_entry<K: KeyWord>() -> &'static Entry {
    entry_by_words!(K: KeyWord => CheckOrder<K>)
}

/// The kernel that looks for keys out of order.
pub fn check_order<K: KeyWord>(args: &CheckOrderArgs<K>) -> Call<'_> {
    Call::new(check_order_entry::<K>(), args)
}

/// The kernel that folds the operations of each key.
pub fn fold_kinds<K: KeyWord>(args: &FoldKindsArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord => FoldKinds<K>), args)
}

/// The kernel that marks what updates build on.
pub fn mark_bases(args: &MarkBasesArgs) -> Call<'_> {
    Call::of::<MarkBases>(args)
}

/// Runs to their keys.
pub fn unique<K: KeyWord>(args: &RunArgs<K, u32, u32>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord => runs!(K, Unique)), args)
}

/// Runs to their last values.
pub fn last<K: KeyWord, V: Word>(args: &RunArgs<K, V, V>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => runs!(K, Last<V>)), args)
}

/// Runs to their lengths.
pub fn lengths<K: KeyWord, L: Word>(args: &RunArgs<K, u32, L>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, L => runs!(K, Lengths<L>)), args)
}

/// Runs to the sums of their values.
pub fn sums<K: KeyWord, V: Word>(args: &RunArgs<K, V, u64>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => runs!(K, Sums<V>)), args)
}

/// Exclusive prefix sums of counts.
pub const fn exclusive_sum_entry<T: Word>() -> &'static Entry {
    entry_by_words!(T => Scan<ExclusiveSum<T>>)
}

/// Exclusive prefix sums of counts.
pub fn exclusive_sum<T: Word>(args: &ScanArgs<T, u64>) -> Call<'_> {
    Call::new(exclusive_sum_entry::<T>(), args)
}

/// Spans of values, one after the other.
pub fn expand<V: Word>(args: &ExpandArgs<V>) -> Call<'_> {
    Call::new(entry_by_words!(V => Expand<V, { PART }>), args)
}

/// Running maxima.
pub fn inclusive_max<T: Word>(args: &ScanArgs<T, T>) -> Call<'_> {
    Call::new(entry_by_words!(T => Scan<InclusiveMax<T>>), args)
}

/// The count of set flags.
pub fn count_flags(args: &SelectArgs<u32, u32>) -> Call<'_> {
    Call::of::<CountFlags>(args)
}

/// The histogram of all digits of a sort.
pub const fn histogram_entry<K: KeyWord>() -> &'static Entry {
    match K::BITS {
        32 => HistogramU32::ENTRY,
        64 => HistogramU64::ENTRY,
        _ => HistogramU128::ENTRY,
    }
}

/// The histogram of all digits of a sort.
pub fn histogram<K: KeyWord>(args: &HistogramArgs<K>) -> Call<'_> {
    Call::new(const { histogram_entry::<K>() }, args)
}

/// The prefix sums of the histograms.
pub const fn offsets_entry() -> &'static Entry {
    Offsets::ENTRY
}

/// The prefix sums of the histograms.
pub fn offsets(args: &OffsetsArgs) -> Call<'_> {
    Call::of::<Offsets>(args)
}

/// The kernel of a pass, with the elements and the threads of a block.
const fn pass<K: KeyWord, V: Word>(values: bool) -> (&'static Entry, u32, u32) {
    match (K::BITS, values, V::BITS) {
        (32, false, _) => (OnesweepU32::ENTRY, OnesweepU32::TILE, OnesweepU32::THREADS),
        (64, false, _) => (OnesweepU64::ENTRY, OnesweepU64::TILE, OnesweepU64::THREADS),
        (_, false, _) => (OnesweepU128::ENTRY, OnesweepU128::TILE, OnesweepU128::THREADS),
        (32, true, 32) => (OnesweepU32U32::ENTRY, OnesweepU32U32::TILE, OnesweepU32U32::THREADS),
        (32, true, _) => (OnesweepU32U64::ENTRY, OnesweepU32U64::TILE, OnesweepU32U64::THREADS),
        (64, true, 32) => (OnesweepU64U32::ENTRY, OnesweepU64U32::TILE, OnesweepU64U32::THREADS),
        (64, true, _) => (OnesweepU64U64::ENTRY, OnesweepU64U64::TILE, OnesweepU64U64::THREADS),
        (_, true, 32) => (OnesweepU128U32::ENTRY, OnesweepU128U32::TILE, OnesweepU128U32::THREADS),
        (_, true, _) => (OnesweepU128U64::ENTRY, OnesweepU128U64::TILE, OnesweepU128U64::THREADS),
    }
}

/// A pass of a sort, or a portion of it, in blocks of [`threads`].
pub const fn onesweep_entry<K: KeyWord, V: Word>(values: bool) -> &'static Entry {
    if values { const { pass::<K, V>(true).0 } } else { const { pass::<K, V>(false).0 } }
}

/// A pass of a sort, or a portion of it, in blocks of [`threads`].
pub fn onesweep<K: KeyWord, V: Word>(values: bool, args: &OnesweepArgs<K, V>) -> Call<'_> {
    Call::new(onesweep_entry::<K, V>(values), args)
}

/// Elements of a block of [`onesweep`].
pub fn tile<K: KeyWord, V: Word>(values: bool) -> u64 {
    pass::<K, V>(values).1.into()
}

/// Threads of a block of [`onesweep`].
pub fn threads<K: KeyWord, V: Word>(values: bool) -> u32 {
    pass::<K, V>(values).2
}

/// The way back from a pass over keys alone, in blocks of its [`threads`] and tiles of its [`tile`].
pub fn restore<K: KeyWord, V: Word>(args: &RestoreArgs<K, V>) -> Call<'_> {
    let entry = match (K::BITS, V::BITS) {
        (32, 32) => RestoreU32U32::ENTRY,
        (32, _) => RestoreU32U64::ENTRY,
        (64, 32) => RestoreU64U32::ENTRY,
        (64, _) => RestoreU64U64::ENTRY,
        (_, 32) => RestoreU128U32::ENTRY,
        (_, _) => RestoreU128U64::ENTRY,
    };
    Call::new(entry, args)
}

/// The sort of few elements.
pub const fn small_sort_entry<K: KeyWord, V: Word>(values: bool) -> &'static Entry {
    if values {
        entry_by_words!(K: KeyWord, V => SmallSort<K, V, true>)
    } else {
        entry_by_words!(K: KeyWord => SmallSort<K, u32, false>)
    }
}

/// The sort of few elements.
pub fn small_sort<K: KeyWord, V: Word>(values: bool, args: &SmallSortArgs<K, V>) -> Call<'_> {
    Call::new(small_sort_entry::<K, V>(values), args)
}

/// The local sort.
pub const fn local_sort_entry<K: KeyWord, V: Word>() -> &'static Entry {
    entry_by_words!(K: KeyWord, V => LocalSort<K, V>)
}

/// The local sort.
pub fn local_sort<K: KeyWord, V: Word>(args: &LocalSortArgs<K, V>) -> Call<'_> {
    Call::new(local_sort_entry::<K, V>(), args)
}
