//! CUBPT: a B+tree with explicit references, built and changed in bulk on the GPU. Feature `cubpt` of the crate `lanetree`.
//!
//! Huang, Su and Xi, *CUBPT: Lock-free bulk insertions to B+ tree on GPU architecture*, Computer Modelling & New
//! Technologies 18(10), 2014. Nodes have numbers for their children and parents, and lie in segments (section 3.1). A build
//! writes them layer by layer (3.2.1). A batch of changes is searched, planned and written layer by layer; what overflows is
//! split (3.2.2). Beyond the paper, batches remove, too: what becomes too small is merged by the next batch, and numbers of
//! nodes are used again. No node is locked: each key is written by a thread that knows its place beforehand.
//!
//! It is the tree for large batches of inserts and removals, uniform or skewed, that should stay on the device.
//!
//! ```
//! use lanetree::{Cubpt, Device};
//!
//! # fn main() -> lanetree::Result<()> {
//! let mut tree = Cubpt::builder().fanout(32).build(&Device::emulated(), &[30_u64, 10, 20], &[3_u32, 1, 2])?;
//! assert_eq!(tree.get_many(&[10, 15])?, [Some(1), None]);
//! assert_eq!(tree.range_many([10..=20])?.get(0), (&[10, 20][..], &[1, 2][..]));
//!
//! let report = tree.insert_many(&[15, 30], &[7, 8])?;
//! assert_eq!((report.inserted, report.replaced), (1, 1));
//! tree.remove_many(&[10])?;
//! assert_eq!(tree.lower_bound_many(&[20])?, [1]);
//! # Ok(())
//! # }
//! ```
//!
//! # When a batch fails
//! A batch takes all memory that it needs while the tree is only read. If it finds none, or the device fails until then, the tree
//! holds what it did. If the device fails while nodes are written, the tree is [lost](lanetree_frame::Error::Lost).
//!
//! # On the host
//! A batch changes the leaves that it touches, in place, and splits those that have no room, up to the root. Then one pass over the list of
//! all leaves, without touching them, tells the leaves after the first change their new ranks; where leaves were split, the list is copied.
//! So a batch takes time for its changes, and 12 to 20 bytes for each leaf. Leaves that removals make small stay as they are; when
//! less than an eighth of all slots would be in use, the tree is rebuilt, as it is by a batch of more changes than it has pairs. A batch that finds no
//! memory changes nothing, and a tree on the host is never lost.
//!
//! [`Cubpt::on`] has the device form of the queries, [`Cubpt::apply_on`] that of batches, and [`Builder::build_on`] builds from
//! pairs that are on the device.

mod build;
#[cfg(any(test, feature = "check"))]
mod check;
mod device;
mod layer;
mod mapping;
mod merge;
mod native;
mod node;
mod order;
mod stats;
mod storage;
#[cfg(test)]
mod tests;
mod tree;
mod tuning;
mod update;

pub use build::Builder;
pub use lanetree_frame::fixed::OnStream;
#[doc(hidden)]
pub use lanetree_kernels_cubpt::modules::MODULES;
pub use lanetree_primitives::BuildScratch;
pub use mapping::Mapping;
pub use stats::Stats;
pub use update::UpdateScratch;

use core::fmt;
use core::marker::PhantomData;
use lanetree_frame::fixed::Staging;
use lanetree_frame::{Device, Guarded, Result};
use lanetree_layout::{Key, Word};
use lanetree_primitives::ChangeStaging;
use tree::Tree;

/// A B+tree of keys `K` with values `V`, on a device. Feature `cubpt`.
pub struct Cubpt<K: Key, V: Word> {
    device: Device,
    fanout: u32,
    fill: f64,
    mapping: Mapping,
    tree: Guarded<Tree>,
    /// The memory of host batches.
    staging: Staging<K, V>,
    /// The memory of host batches of changes.
    changes: ChangeStaging<K, V, UpdateScratch<K>>,
    words: PhantomData<(K, V)>,
}

impl<K: Key, V: Word> Cubpt<K, V> {
    /// A builder with the default options, to change them before a build.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// Most keys of a node.
    pub fn fanout(&self) -> u32 {
        self.fanout
    }
}

lanetree_frame::inherent! {
    impl<K: Key, V: Word> Cubpt<K, V>
}

impl<K: Key, V: Word> fmt::Debug for Cubpt<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fanout, device, .. } = self;
        write!(f, "Cubpt<{}, {}>[{} pairs, fanout {fanout}, on {device}]", K::NAME, V::NAME, self.len())
    }
}
