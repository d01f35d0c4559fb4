//! Device-wide operations that the indexes are built from, for callers who need them too.
//!
//! * [`exclusive_scan`], [`inclusive_max_scan`]: prefix sums, running maxima;
//! * [`select_pairs`], [`partition_pairs`]: pairs whose bit is set, without the others or before them;
//! * [`unique_keys`], [`last_by_key`], [`run_lengths`], [`sum_by_key`]: runs of equal keys to one pair each;
//! * [`merge_pairs`]: two sorted sequences into one, keeping both of equal keys or replacing the first's;
//! * [`radix_sort_pairs`], [`radix_argsort`]: sorting by any range of the keys' bits;
//! * [`local_sort_pairs`]: what remains to do after a sort by only the upper bits.
//!
//! All are in device form: they allocate nothing, synchronise nothing and may return before the work is done.
//! Scratch memory is made beforehand for a number of elements; a call leaves nothing in it that matters to
//! the next, and may use one that was made for more. Where the number of results is only known when
//! the work is done it is left on the device, and may be the [`Count`] of a later call in the same stream.
//!
//! Outputs have room for the most results that there can be, one per input element; how many they are decides
//! nothing that the caller sees before. Elements of an output behind the results keep what was there.

mod check;
mod input;
mod launch;
mod local_sort;
mod merge;
mod native;
mod radix_sort;
mod runs;
mod scan;
mod select;
#[cfg(test)]
mod test_data;

pub use input::{Count, Keys, KeysMut, Pairs, PairsMut};
pub use local_sort::local_sort_pairs;
pub use local_sort::{LOCAL_SORT_FINDINGS, local_sort, telling_bits};
pub use merge::{MergeRule, MergeScratch, merge_keys, merge_pairs};
pub use radix_sort::{
    RadixSortScratch, radix_argsort, radix_sort_keys, radix_sort_keys_in_place, radix_sort_pairs,
    radix_sort_pairs_in_place,
};
pub use runs::{RunScratch, last_by_key, run_lengths, sum_by_key, unique_keys};
pub use scan::{ScanScratch, exclusive_scan, inclusive_max_scan};
pub use select::{SelectScratch, partition_keys, partition_pairs, select_keys, select_pairs};

/// Elements of a task of the CPU's own path: enough to outweigh its dispatch.
const TASK: usize = 1 << 15;
