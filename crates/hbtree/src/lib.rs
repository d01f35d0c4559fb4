//! The HB+-tree (Shahvarani and Jacobsen, SIGMOD 2016): a B+-tree whose inner levels a GPU descends and whose leaves, in
//! host memory, the CPU searches. So it can hold more pairs than the GPU's memory. Without a GPU it is a tree for CPUs. Feature `hbtree` of the crate `lanetree`.
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
//! (`lanetree_kernels_hbtree::layout` draws them). There are three structures, and every query is the same over all:
//!
//! * the paper's *implicit* tree ([`Implicit`]): its nodes are full, in breadth-first order, and
//!   without references. A look-up reads a line per level and one for the leaf. A batch of changes that only replaces values
//!   writes these in place. Any other builds the tree again, in new memory, and replaces the old one when the new one is
//!   complete: there must be room for both.
//! * the paper's *regular* tree ([`Regular`], by [`Builder::regular`]): its nodes have several lines and hold references, and
//!   its leaves lie in big leaves of 64 or 256 lines. A look-up reads three lines per level and one for the leaf. A batch of
//!   changes rewrites the big leaves that it touches, in parallel. The few that overflow are split, and those that become
//!   too small are merged;
//! * any index above leaves in host memory ([`Over`], by [`Builder::over`]), which are changed as the implicit tree's.
//!
//! # With a device
//! A batch is split into buckets, and each thread of the rayon pool has a [`Pipeline`]: the device descends a bucket while
//! the thread searches the leaves of the one before. Queries and results are in host memory.
//!
//! * If the device is slow, let the CPU descend some levels: [`Pipeline::split`], or [`Balance::Live`], which finds out how
//!   many.
//! * If the leaves are pinned ([`Builder::pinning`]), the device also answers large buckets of look-ups alone, reading
//!   their leaves across the bus in ascending order.
//!
//! There is no device form: a look-up takes the CPU, so it cannot be queued in a stream.
//!
//! # Changes
//! A batch that fails leaves the tree as it was: it is never [lost](lanetree_frame::Error::Lost). If the device fails while
//! it is sent inner levels, and not for want of memory, its copy of them is dropped, and the CPU answers all queries until the next
//! change has sent them again. If that fails, too, the change takes place without the device: [`Stats::on_device`] says so.
//!
//! ```
//! use lanetree::hbtree::HbTree;
//! use lanetree::Device;
//!
//! # fn main() -> lanetree::Result<()> {
//! let keys: Vec<u64> = (0..10_000).map(|i| 2 * i).collect();
//! // Half of each big leaf is left for inserts.
//! let builder = HbTree::builder().regular().fill(0.5);
//! let mut tree = builder.build_sorted(&Device::host(), &keys, &keys)?;
//! tree.insert_many(&[7], &[70])?;
//! assert_eq!(tree.get_many(&[6, 7, 9])?, [Some(6), Some(70), None]);
//! # Ok(())
//! # }
//! ```

mod assembly;
mod build;
mod device;
mod hybrid;
mod implicit;
mod line;
mod mixed;
mod native;
mod node_search;
mod options;
mod ordered;
mod over;
mod pinned;
mod queries;
mod ranges;
mod regular;
mod request;
mod sorting;
mod stats;
mod structure;
mod tuning;

pub use build::{Builder, Pieces};
#[cfg(feature = "papers")]
pub use hybrid::StageTimes;
pub use hybrid::{Discovery, Sample};
pub use implicit::Implicit;
#[doc(hidden)]
pub use lanetree_kernels_hbtree::modules::MODULES;
pub use lanetree_runtime::{GrantedPages, Pages};
pub use mixed::{Interrupted, Mixed};
pub use node_search::NodeSearch;
#[cfg(feature = "papers")]
pub use options::Throttle;
pub use options::{
    Balance, BuildTimes, DeviceSearch, Fanout, MOST_IN_FLIGHT, Pinning, Pipeline, Split, Strategy, Transfers,
    UpdateMethod, UpdateTimes,
};
#[cfg(feature = "harmonia")]
pub use over::HarmoniaAbove;
pub use over::{Over, Upper};
pub use queries::Neighbors;
pub use regular::Regular;
pub use request::Request;
pub use stats::Stats;
pub use structure::Structure;

#[cfg(feature = "papers")]
use build::check;
use core::fmt;
use hybrid::{DescentSlot, Pace, Slots, WideSlot};
use lanetree_frame::{Device, Result};
use lanetree_layout::{Key, Word};
#[cfg(feature = "papers")]
use options::Options;
use std::sync::{Mutex, PoisonError};
use structure::{CopyOf, Inner, Leaves, Parts};

/// A B+-tree of keys `K` with values `V`: inner levels on a device, leaves in host memory. `L` is its structure. Feature `hbtree`.
pub struct HbTree<K: Key, V: Word, L: Structure = Implicit> {
    parts: Parts<K, V, L>,
    /// The memory of batches.
    slots: Slots<DescentSlot<K, CopyOf<K, L>>>,
    /// That of queries which the device answers alone.
    wide_slots: Slots<WideSlot<K, V, CopyOf<K, L>>>,
    pace: Pace,
    discovery: Mutex<Discovery>,
    /// The memory of ranges.
    spare: assembly::Spare<K, V>,
}

// Not for every structure: the compiler would have to be told which one, in every call (as with the hashers of std's maps).
impl<K: Key, V: Word> HbTree<K, V> {
    /// The builder, which has the options. [`Builder::regular`] makes it that of a regular tree.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Builds an implicit tree over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }
}

impl<K: Key, V: Word, L: Structure> From<Parts<K, V, L>> for HbTree<K, V, L> {
    fn from(parts: Parts<K, V, L>) -> Self {
        let discovery = Mutex::new(Discovery::new(parts.inner.height()));
        Self {
            parts,
            slots: Slots::default(),
            wide_slots: Slots::default(),
            pace: Pace::default(),
            discovery,
            spare: assembly::Spare::default(),
        }
    }
}

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// How a device and the CPU share the work.
    pub fn pipeline(&self) -> Pipeline {
        self.parts.options.pipeline
    }

    /// Shares the work in another way from now on. What [`Balance::Live`] has found out about the way before is forgotten.
    ///
    /// # Errors
    /// [`OptionValue`](lanetree_frame::Error::OptionValue) for one that is not possible; nothing has changed.
    #[cfg(feature = "papers")]
    pub fn set_pipeline(&mut self, pipeline: Pipeline) -> Result<()> {
        let before = self.parts.options.pipeline;
        self.set_options(Options { pipeline, ..self.parts.options })?;
        if pipeline != before {
            let discovery = self.discovery.get_mut().unwrap_or_else(PoisonError::into_inner);
            *discovery = Discovery::new(self.parts.inner.height());
        }
        Ok(())
    }

    /// Lets the CPU search nodes in another way from now on, with that many queries in flight per thread.
    ///
    /// # Errors
    /// As [`HbTree::set_pipeline`].
    #[cfg(feature = "papers")]
    pub fn set_node_search(&mut self, node_search: NodeSearch, in_flight: usize) -> Result<()> {
        self.set_options(Options { node_search, in_flight, ..self.parts.options })
    }

    /// What is known of the best split of the descent, with [`Balance::Live`].
    pub fn discovery(&self) -> Discovery {
        self.discovery.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gets batches of changes of a regular tree to the device in another way from now on.
    #[cfg(feature = "papers")]
    pub fn set_update_method(&mut self, method: UpdateMethod) {
        self.parts.options.update_method = method;
    }

    /// Whether the device sorts batches of changes from now on: [`Builder::device_updates`].
    #[cfg(feature = "papers")]
    pub fn set_device_updates(&mut self, device_updates: bool) {
        self.parts.options.device_updates = device_updates;
    }

    /// What the last batch of changes of a regular tree has taken.
    pub fn update_times(&self) -> UpdateTimes {
        self.parts.update_times
    }

    #[cfg(feature = "papers")]
    fn set_options(&mut self, options: Options) -> Result<()> {
        check::<L>(&options, &self.parts.device)?;
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
