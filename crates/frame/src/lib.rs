//! What Lanetree's indexes have in common.
//!
//! An index over keys of a fixed size supplies [`FixedIndex`](fixed::FixedIndex): a search on the CPU, and the launches
//! of its queries' kernels. It is given every query in host form and in device form, staged through the device if need be.

// What macros write for other crates and for this one names it.
extern crate self as lanetree_frame;

mod build_rules;
mod domain;
pub mod fixed;
mod index;
mod mirrored;

pub use build_rules::BuildRules;
pub use domain::{ByteString, Domain, Rows};
#[doc(hidden)]
pub use index::Launches;
pub use index::{
    BatchOf, DeviceBuilder, DeviceForm, IndexBuilder, KeyOf, NeighborsOf, OrderedIndex, RangeOf, RangesOf,
};
pub use lanetree_base::*;
pub use mirrored::{HostBatch, Mirror, MirrorReport, Mirrored};
