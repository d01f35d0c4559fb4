//! The HB+-tree (Shahvarani and Jacobsen, SIGMOD 2016): a B+-tree whose inner levels a GPU descends and whose leaves, in
//! host memory, the CPU searches. So it can hold more pairs than the GPU's memory. Without a GPU it is a tree for CPUs.
//!
//! ```
//! use lanetree::hbtree::HbTree;
//! use lanetree::Device;
//!
//! # fn main() -> lanetree::Result<()> {
//! // Device::cuda(0)? for a GPU, Device::host() for the CPU alone.
//! let mut tree = HbTree::build(&Device::emulated(), &[30_i32, -10, 20], &[3_u64, 1, 2])?;
//! assert_eq!(tree.get_many(&[-10, 15])?, [Some(1), None]);
//! assert_eq!(tree.predecessor_many(&[15])?, [Some((-10, 1))]);
//! assert_eq!(tree.range_many([-10..=20])?.get(0), (&[-10, 20][..], &[1, 2][..]));
//!
//! let report = tree.insert_many(&[15, 30], &[7, 8])?;
//! assert_eq!((report.inserted, report.replaced), (1, 1));
//! assert_eq!(tree.lower_bound_many(&[20])?, [2]);
//! # Ok(())
//! # }
//! ```
//!
//! Everything is made of cache lines: an inner node is a line of separators, a leaf a line of pairs
//! (`lanetree_kernels_hbtree::layout` draws them). This is the paper's *implicit* tree: its nodes are full, in
//! breadth-first order, and without references. A look-up reads a line per level and one for the leaf.
//!
//! A batch of changes that only replaces values writes these in place. Any other builds the tree again, in new memory, and
//! replaces the old one when the new one is complete: there must be room for both, and a batch that fails leaves the tree
//! as it was. It is never [lost](lanetree_frame::Error::Lost).

mod build;
mod device;
mod hybrid;
mod implicit;
mod line;
mod native;
mod node_search;
mod ordered;
mod over;
mod queries;
mod stats;
mod structure;

pub use build::{BuildTimes, Builder, Pieces, Pinning};
pub use device::DeviceSearch;
pub use hybrid::{Balance, Discovery, Pipeline, Sample, Split, Strategy};
pub use implicit::{Fanout, Implicit};
#[doc(hidden)]
pub use lanetree_kernels_hbtree::modules::MODULES;
pub use lanetree_runtime::{GrantedPages, Pages};
pub use node_search::NodeSearch;
#[cfg(feature = "harmonia")]
pub use over::HarmoniaAbove;
pub use over::{Over, Upper};
pub use queries::Neighbors;
pub use stats::Stats;
pub use structure::Structure;

use build::Options;
use core::fmt;
use hybrid::Pace;
use lanetree_frame::{Device, Result};
use lanetree_layout::{Key, Word};
use std::sync::{Mutex, PoisonError};
use structure::{Leaves, Parts, SlotsOf, WideSlotsOf};

/// Most queries that a thread has in flight.
pub const MOST_IN_FLIGHT: usize = 256;

/// A B+-tree of keys `K` with values `V`: inner levels on a device, leaves in host memory. `L` is its structure.
pub struct HbTree<K: Key, V: Word, L: Structure = Implicit> {
    parts: Parts<K, V, L>,
    /// The memory of batches.
    slots: SlotsOf<K, L>,
    /// That of queries which the device answers alone.
    wide_slots: WideSlotsOf<K, V, L>,
    pace: Pace,
    discovery: Mutex<Discovery>,
}

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// The builder, which has the options.
    pub fn builder() -> Builder<K, V, L> {
        Builder::default()
    }

    /// Builds an index over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// How a device and the CPU share the work.
    pub fn pipeline(&self) -> Pipeline {
        self.parts.options.pipeline
    }

    /// Shares the work in another way from now on.
    ///
    /// # Errors
    /// [`OptionValue`](lanetree_frame::Error::OptionValue) for one that is not possible; nothing has changed.
    pub fn set_pipeline(&mut self, pipeline: Pipeline) -> Result<()> {
        self.set_options(Options { pipeline, ..self.parts.options })
    }

    /// Lets the CPU search nodes in another way from now on, with that many queries in flight per thread.
    ///
    /// # Errors
    /// As [`HbTree::set_pipeline`].
    pub fn set_node_search(&mut self, node_search: NodeSearch, in_flight: usize) -> Result<()> {
        self.set_options(Options { node_search, in_flight, ..self.parts.options })
    }

    /// What is known of the best split of the descent, with [`Balance::Live`].
    pub fn discovery(&self) -> Discovery {
        self.discovery.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_options(&mut self, options: Options) -> Result<()> {
        options.check(&self.parts.device)?;
        self.parts.options = options;
        Ok(())
    }
}

impl<K: Key, V: Word, L: Structure> fmt::Debug for HbTree<K, V, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { leaves, device, .. } = &self.parts;
        write!(f, "HbTree<{}, {}, {}>[{} pairs, on {device}]", K::NAME, V::NAME, L::NAME, leaves.len())
    }
}
