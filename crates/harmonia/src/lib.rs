//! Harmonia: a B+tree split into a key region and a prefix-sum child region (Yan et al., PPoPP 2019). Feature `harmonia` of the crate `lanetree`.
//!
//! The layout is drawn in [`lanetree_kernels_harmonia::layout`], the kernels are in `lanetree-kernels-harmonia`. A tree
//! is built in bulk ([`Builder`]) and then read in batches, from any number of threads and streams. Updates also come
//! in batches ([`Harmonia::apply`]). [`Mirrored`](lanetree_frame::Mirrored) is a tree that the CPU updates while its
//! copy on a device answers queries.
//!
//! ```
//! use lanetree::{Device, Harmonia};
//!
//! # fn main() -> lanetree::Result<()> {
//! let mut index = Harmonia::build(&Device::host(), &[30_u32, 10, 20], &[3_u64, 1, 2])?;
//! assert_eq!(index.get_many(&[10, 15])?, [Some(1), None]);
//! assert_eq!(index.predecessor_many(&[15])?, [Some((10, 1))]);
//! assert_eq!(index.range_many([10..=20])?.get(0), (&[10, 20][..], &[1, 2][..]));
//!
//! let report = index.insert_many(&[15, 30], &[7, 8])?;
//! assert_eq!((report.inserted, report.replaced), (1, 1));
//! assert_eq!(index.lower_bound_many(&[20])?, [2]);
//! # Ok(())
//! # }
//! ```
//!
//! [`Harmonia::on`] has the device form: queries and results in buffers, on a stream of the caller's.

mod build;
#[cfg(any(test, feature = "check"))]
mod check;
#[cfg(feature = "papers")]
mod constant;
mod device;
mod launch;
mod native;
#[cfg(feature = "papers")]
mod profile;
mod psa;
#[cfg(feature = "papers")]
mod psa_model;
#[cfg(test)]
mod ranges_tests;
#[cfg(test)]
mod staging_tests;
mod stats;
mod tuning;
mod update;

pub use build::Builder;
#[cfg(feature = "papers")]
pub use constant::ConstantTop;
#[cfg(feature = "papers")]
pub use device::NodeReading;
pub use device::{LookUp, LookUpTuning, OnStream};
use lanetree_frame::BatchOrder;
#[cfg(feature = "papers")]
pub use lanetree_kernels_harmonia::layout::ChildRegion;
#[cfg(not(feature = "papers"))]
use lanetree_kernels_harmonia::layout::ChildRegion;
pub use lanetree_kernels_harmonia::layout::FANOUTS;
#[doc(hidden)]
pub use lanetree_kernels_harmonia::modules::MODULES;
pub use lanetree_primitives::BuildScratch;
#[cfg(feature = "papers")]
pub use profile::{GroupProfile, WidthProfile};
pub use psa::{GetBySorting, PsaScratch, QuerySort, psa_bits};
#[cfg(feature = "papers")]
pub use psa_model::{PsaModel, PsaPlan};
pub use stats::Stats;
pub use tuning::GroupWidth;
pub use update::UpdateScratch;

use core::fmt;
use core::marker::PhantomData;
use lanetree_frame::Guarded;
use lanetree_frame::Result;
use lanetree_frame::fixed;
use lanetree_frame::pointers::optional;
use lanetree_kernels_harmonia::TreeRef;
use lanetree_kernels_harmonia::layout::Shape;
use lanetree_layout::{Key, Word};
use lanetree_primitives::ChangeStaging;
use lanetree_runtime::{Buffer, Device, Stream};

/// A Harmonia tree over keys `K` with values `V`, on a device. Feature `harmonia`.
pub struct Harmonia<K: Key, V: Word> {
    device: Device,
    shape: Shape,
    /// Inner nodes, `fanout` words each. The memory of this and the other regions may be larger than the shape says.
    inner: Buffer<K::Bits>,
    /// One first child per inner node.
    prefix_sum: Buffer<u32>,
    /// Leaves: bytes, in words of 8.
    leaves: Buffer<u64>,
    /// The number of pairs before each leaf, and past the last one, once an update has made them differ from what the
    /// shape says.
    ranks: Option<Buffer<u64>>,
    /// The number of pairs in each leaf of a tree that was updated in place on a device; the ranks are their sums.
    lens: Option<Buffer<u32>>,
    /// The memory of host batches.
    staging: fixed::Staging<K, V>,
    /// The memory of host batches of changes.
    changes: ChangeStaging<K, V, UpdateScratch<K, V>>,
    /// Whether the regions' contents are known: they are not after a batch of updates that failed half-way.
    whole: Guarded<()>,
    words: PhantomData<V>,
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Options for building other than the default tree.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Builds a tree over pairs in any order, with the default fanout, full nodes. Of equal keys, the last one's value
    /// is kept.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// The slots of a node.
    pub fn fanout(&self) -> u32 {
        self.shape.fanout
    }

    /// What a kernel in a stream needs to know of the tree, which must not be lost. This and [`Harmonia::view`] are the
    /// only ways to the tree's memory.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Runtime`](lanetree_frame::Error::Runtime) for a stream of another device.
    fn tree_ref(&self, stream: &Stream) -> Result<TreeRef<K::Bits>> {
        self.whole.check()?;
        Ok(TreeRef {
            inner: self.inner.read_on(stream)?,
            prefix_sum: self.prefix_sum.read_on(stream)?,
            leaves: self.leaves.read_on(stream)?.cast(),
            ranks: optional(self.ranks.as_ref(), stream)?,
            len: self.shape.len,
            height: self.shape.height,
            first_leaf: self.shape.inner,
            per_leaf: self.shape.per_leaf,
            leaf_count: self.shape.leaves,
            flip: K::FLIP,
        })
    }
}

impl<K: Key, V: Word> fmt::Debug for Harmonia<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Harmonia<{}, {}>[{} pairs, fanout {}, on {}]",
            K::NAME,
            V::NAME,
            self.shape.len,
            self.shape.fanout,
            self.device
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_lie_one_behind_another() {
        let keys: Vec<u64> = (0..4096).collect();
        let tree = Harmonia::builder().fanout(8).build_sorted(&Device::host(), &keys, &keys).unwrap();
        let bytes = [0, 1, 2, 3, 4].map(|level| tree.level_addresses(level).len() as u64);
        assert_eq!(bytes, [64, 8 * 64, 64 * 64, 512 * 128, 0]);
        assert_eq!(tree.level_addresses(1).end, tree.level_addresses(2).start);
        assert_eq!(bytes.iter().sum::<u64>() + tree.stats().child_bytes, tree.stats().bytes());
    }
}
