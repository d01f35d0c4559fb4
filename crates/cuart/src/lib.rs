//! CuART: an adaptive radix tree in typed buffers (Koppehel et al., ICPP 2021), over byte strings. Feature `cuart` of the crate `lanetree`.
//!
//! The layout is drawn in [`lanetree_kernels_cuart::layout`]. Keys are byte strings of any length; they may contain any byte
//! and be prefixes of each other. [`ByteKeysBuf::encode`](lanetree_frame::ByteKeysBuf::encode) turns numbers and byte arrays
//! into strings of the same order. A tree is built in bulk ([`Builder`]) and read in batches, from any number of
//! threads. Changes also come in batches ([`Cuart::apply`]). [`Mirrored`](lanetree_frame::Mirrored) is a tree that the
//! CPU changes while its copy on a device answers queries; [`Hybrid`] keeps short keys on a device and long ones on the
//! CPU.
//!
//! ```
//! use lanetree::{ByteKeysBuf, Cuart, Device};
//!
//! # fn main() -> lanetree::Result<()> {
//! let keys: ByteKeysBuf = ["de", "deu", "fr"].into_iter().collect();
//! let mut tree = Cuart::build(&Device::host(), &keys, &[1_u32, 2, 3])?;
//! assert_eq!(tree.get_many(&keys)?, [Some(1), Some(2), Some(3)]);
//!
//! // Inserts and removals cost a tree its ranks; `compact` rebuilds it with ranks.
//! let more: ByteKeysBuf = ["en"].into_iter().collect();
//! tree.insert_many(&more, &[4])?;
//! assert!(!tree.is_compact());
//! tree.compact()?;
//! assert_eq!(tree.lower_bound_many(&keys)?, [0, 1, 3]);
//! # Ok(())
//! # }
//! ```
//!
//! [`Cuart::on`] has the device form: queries and results in buffers, on a stream of the caller's.

mod build;
#[cfg(any(test, feature = "check"))]
mod check;
mod compact;
mod cursor;
mod device;
mod explain;
mod hybrid;
mod leaves;
mod lookup;
mod mirror;
mod native;
mod nodes;
mod ordered;
mod parts;
mod range;
mod region;
mod stats;
mod table;
mod update;
mod update_state;

pub use build::{Builder, LongKeys, RootTable};
#[cfg(feature = "papers")]
pub use device::Lanes;
pub use device::{ChangeScratch, DeviceByteRanges, GatherScratch, OnStream, UpdateEngine};
pub use explain::{Explanation, Step};
pub use hybrid::{Hybrid, HybridBuilder, HybridStats};
pub use lanetree_kernels_cuart::layout::{Link, LinkType, Regions};
#[doc(hidden)]
pub use lanetree_kernels_cuart::modules::MODULES;
pub use lookup::Neighbor;
pub use stats::Stats;

use core::fmt;
use lanetree_frame::Guarded;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_layout::Word;
use lanetree_runtime::Device;
use parts::Parts;

/// A CuART tree over byte strings with values `V`. Feature `cuart`.
///
/// ```
/// use lanetree::{ByteKeysBuf, Cuart, Device};
///
/// # fn main() -> lanetree::Result<()> {
/// let words: ByteKeysBuf = ["car", "cargo", "cart", "dog", ""].into_iter().collect();
/// let tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3, 4, 5])?;
///
/// let queries: ByteKeysBuf = ["car", "ca", ""].into_iter().collect();
/// assert_eq!(tree.get_many(&queries)?, [Some(1), None, Some(5)]);
///
/// let prefixes: ByteKeysBuf = ["car"].into_iter().collect();
/// let hits = tree.prefix_many(&prefixes)?;
/// let (keys, values) = hits.get(0);
/// assert!(keys.iter().eq([&b"car"[..], b"cargo", b"cart"]));
/// assert_eq!(values, [1, 2, 3]);
/// assert_eq!(tree.count_range_many(["cart".."dog"])?, [1]);
/// # Ok(())
/// # }
/// ```
pub struct Cuart<V: Word> {
    device: Device,
    /// The options of its build, for later keys and for rebuilding it.
    options: Builder<V>,
    parts: Guarded<Parts>,
    /// The memory of host batches.
    batches: device::HostBatches<V>,
}

impl<V: Word> Cuart<V> {
    /// Options for building other than the default tree.
    pub fn builder() -> Builder<V> {
        Builder::default()
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build<'k>(device: &Device, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// Of these parts.
    fn of_parts(device: &Device, options: Builder<V>, parts: Parts) -> Self {
        let (device, parts) = (device.clone(), Guarded::new(parts));
        Self { device, options, parts, batches: device::HostBatches::default() }
    }

    /// What the tree consists of.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost).
    fn parts(&self) -> Result<&Parts> {
        self.parts.get()
    }

    /// Pairs in the tree. For a lost tree, the number before the change that failed.
    pub fn len(&self) -> u64 {
        self.parts.known().len
    }

    /// Whether the tree has no pairs. For a lost tree, whether it had none before.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that holds the tree.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of the device's memory that the tree takes.
    pub fn bytes(&self) -> u64 {
        self.stats().bytes()
    }

    /// Bytes of main memory that the tree takes, in addition to its device memory: its leaves there
    /// ([`LongKeys::HostLeaves`]).
    pub fn host_bytes(&self) -> u64 {
        self.stats().host_bytes
    }

    /// Whether a change failed half-way on the device. Then every query and change returns
    /// [`Error::Lost`](lanetree_frame::Error::Lost); build the tree again.
    pub fn is_lost(&self) -> bool {
        self.parts.get().is_err()
    }

    /// Whether leaves are in the order of their keys and have ranks. A built tree is compact until keys are inserted or
    /// removed; [`Cuart::compact`] makes it compact again. A lost tree is not compact.
    pub fn is_compact(&self) -> bool {
        self.parts.get().is_ok_and(|parts| parts.ordered)
    }

    /// The tree's buffers; `None` if its memory is a GPU's, and for a [lost](Cuart::is_lost) tree. If the tree is not
    /// [compact](Cuart::is_compact), `first` is none, `order` is empty, and the ranks stored in leaves are meaningless.
    pub fn regions(&self) -> Option<Regions<'_>> {
        self.parts.get().ok()?.regions()
    }

    /// The size and shape of the tree. For a lost tree, those before the change that failed, except for the memory that
    /// it takes now.
    pub fn stats(&self) -> Stats {
        self.parts.known().stats()
    }
}

impl<V: Word> fmt::Debug for Cuart<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuart<{}>[{} pairs, on {}]", V::NAME, self.len(), self.device)
    }
}
