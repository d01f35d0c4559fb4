//! Device-wide operations that the indexes are built from, for callers who need them too.
//!
//! * [`exclusive_scan`], [`inclusive_max_scan`]: prefix sums, running maxima;
//! * [`select`], [`partition`]: elements whose bit is set, alone or followed by the others;
//! * [`unique_keys`], [`last_by_key`], [`run_lengths`], [`sum_by_key`]: runs of equal keys to one pair each;
//! * [`merge`]: two sorted sequences into one, keeping both of equal keys or replacing the first one; [`subtract`]: one
//!   without the keys of the other;
//! * [`expand`]: spans of values one after the other, with the number of each value's span;
//! * [`radix_sort`], [`radix_sort_in_place`], [`radix_argsort`]: sorting by any range of the keys' bits;
//! * [`local_sort_pairs`]: the rest of a sort that used only the upper bits;
//! * [`OperationSort`]: batches of updates, sorted, and folded by key; [`BuildScratch`], [`build_from`]: pairs for a bulk
//!   build.
//!
//! Each takes keys alone ([`Keys`]) or pairs ([`Pairs`]), and gives the same. All are in device form: they allocate nothing, synchronise nothing and may return before the work is done.
//! Scratch memory is made in advance for a number of elements. It keeps no state between calls, and may be larger than
//! needed. If the number of results is known only when the work is done, it stays on the device, and can be the
//! [`Count`] of a later call in the same stream.
//!
//! Outputs must have room for the largest possible number of results, one per input element. Elements of an output past
//! the results are not changed.
//!
//! ```
//! use lanetree::Device;
//! use lanetree::primitives::{RadixSortScratch, ScanScratch, exclusive_scan, radix_sort};
//!
//! # fn main() -> lanetree::Result<()> {
//! let device = Device::host();
//! let stream = device.stream()?;
//! let (keys, values) = (device.upload(&[30_u64, 10, 20])?, device.upload(&[3_u32, 1, 2])?);
//!
//! let (mut sorted_keys, mut sorted_values) = (device.alloc(3)?, device.alloc(3)?);
//! let mut scratch = RadixSortScratch::for_pairs(&device, 3)?;
//! let sorted = (&mut sorted_keys, &mut sorted_values);
//! radix_sort(&stream, (&keys, &values), 3, 0..64, sorted, &mut scratch)?;
//! assert_eq!(sorted_values.to_vec()?, [1, 2, 3]);
//!
//! let mut offsets = device.alloc(4)?;
//! let mut scratch = ScanScratch::new(&device, 3)?;
//! exclusive_scan(&stream, &values, 3, &mut offsets, &mut scratch)?;
//! assert_eq!(offsets.to_vec()?, [0, 3, 4, 6]);
//! # Ok(())
//! # }
//! ```

mod ahead;
mod build;
mod check;
mod expand;
mod input;
mod launch;
mod local_sort;
mod merge;
mod native;
mod operations;
mod radix_sort;
mod runs;
mod sample;
mod scan;
mod select;
#[cfg(test)]
mod slices;
#[cfg(test)]
mod test_data;

pub use ahead::{kernel_of_scans, kernels_of_builds, kernels_of_operations};
#[doc(hidden)]
pub use build::check_order;
pub use build::{BuildScratch, DevicePairs, build_from, check_pairs, sort_by_likely_bits};
pub use expand::{ExpandScratch, Expanded, SpanValues, Spans, expand};
pub use input::{Count, Elements, Keys, KeysMut, Pairs, PairsMut};
#[doc(hidden)]
pub use lanetree_kernels_primitives::modules::MODULES;
pub use local_sort::local_sort_pairs;
pub use local_sort::{LOCAL_SORT_FINDINGS, local_sort, telling_bits};
pub use merge::{MergeRule, MergeScratch, merge, subtract};
pub use operations::{
    ChangeStaging, MOST_OPERATIONS, OPERATION_FINDINGS, OperationSort, StagedChanges, UploadedOperations,
};
#[doc(hidden)]
pub use radix_sort::{Moved, Restored, can_be_moved};
pub use radix_sort::{RadixSortScratch, SortInput, SortOutput, radix_argsort, radix_sort, radix_sort_in_place};
pub use runs::{RunScratch, last_by_key, run_lengths, sum_by_key, unique_keys};
pub use scan::{ScanScratch, exclusive_scan, inclusive_max_scan};
pub use select::{SelectScratch, partition, select, select_numbered, select_numbers};

/// Elements of a task of the CPU's own path: enough to outweigh its dispatch.
const TASK: usize = 1 << 15;
