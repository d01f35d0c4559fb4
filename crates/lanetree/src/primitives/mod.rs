//! Device-wide operations that the indexes are built from, for callers who need them too.

mod radix_sort;
mod scan;

pub use radix_sort::{
    RadixSortScratch, radix_argsort, radix_sort_keys, radix_sort_keys_in_place, radix_sort_pairs,
    radix_sort_pairs_in_place,
};
pub use scan::{ScanScratch, exclusive_scan};
