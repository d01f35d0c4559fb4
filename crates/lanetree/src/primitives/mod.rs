//! Device-wide operations that the indexes are built from, for callers who need them too.

mod scan;

pub use scan::{ScanScratch, exclusive_scan};
