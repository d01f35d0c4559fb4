//! CuART: an adaptive radix tree in typed buffers (Koppehel et al., ICPP 2021), over byte strings.
//!
//! The layout is drawn in [`lanetree_kernels_cuart::layout`]. Keys are byte strings of any length, prefixes of each
//! other and zero bytes included; numbers and arrays of bytes become strings of the same order by
//! [`ByteKeysBuf::encode`](lanetree_frame::ByteKeysBuf::encode). A tree is built in bulk ([`Builder`]) and read, in
//! batches, from any number of threads. Changes come in batches too ([`Cuart::apply`]); [`Mirrored`] is a
//! tree that the CPU changes while its copy on a device answers queries, and [`Hybrid`] one whose short keys are on a
//! device while the CPU has the long ones.

mod build;
mod compact;
mod cursor;
mod device;
mod explain;
mod hybrid;
mod leaves;
mod lookup;
mod mirrored;
mod native;
mod nodes;
mod parts;
mod range;
mod region;
mod table;
mod update;
#[cfg(test)]
mod validate;

pub use build::{Builder, LongKeys, RootTable};
pub use device::{ChangeScratch, DeviceByteRanges, GatherScratch, InsertReport, Lanes, OnStream, UpdateEngine};
pub use explain::{Explanation, Step};
pub use hybrid::{Hybrid, HybridBuilder, HybridStats};
pub use lanetree_frame::{MirrorReport, Op, UpdatePath, UpdateReport};
pub use lanetree_kernels_cuart::layout::{Kind, Link, Regions};
pub use lookup::Neighbor;
pub use mirrored::Mirrored;

use core::fmt;
use lanetree_frame::Guarded;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_layout::Word;
use lanetree_runtime::Device;
use parts::Parts;

/// A CuART tree over byte strings with values `V`.
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
/// assert_eq!(tree.count_many(["cart".."dog"])?, [1]);
/// # Ok(())
/// # }
/// ```
pub struct Cuart<V: Word> {
    device: Device,
    /// As it was built, for keys that come later and for building it again.
    options: Builder<V>,
    parts: Guarded<Parts>,
    /// The memory of host batches.
    batches: device::HostBatches<V>,
}

/// The size and shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Nodes with up to 4, 16, 48 and 256 children.
    pub nodes: [u64; 4],
    /// Leaves with keys of up to 8, 16 and 32 bytes.
    pub leaves: [u64; 3],
    /// Dynamically sized leaves.
    pub device_leaves: u64,
    /// Leaves in main memory beside the tree.
    pub host_leaves: u64,
    /// By how many bytes of a key the root table is indexed; 0 where there is none.
    pub table_key_bytes: u32,
    /// Bytes of the nodes, with what is free and spare.
    pub node_bytes: u64,
    /// Bytes of the leaves of all types but those in main memory, with what is free and spare.
    pub leaf_bytes: u64,
    /// Bytes of the root table.
    pub table_bytes: u64,
    /// Bytes that say which leaf has which rank, and the other way about.
    pub order_bytes: u64,
    /// Bytes of the leaves in main memory.
    pub host_bytes: u64,
    /// Bytes of nodes and leaves that were given back and will be used again.
    pub free_bytes: u64,
    /// Bytes behind the used nodes and leaves, for new ones.
    pub spare_bytes: u64,
    /// Bytes of all of it, per pair; 0 for an empty tree.
    pub bytes_per_key: f64,
}

impl Stats {
    /// Bytes of device memory that the tree takes.
    pub fn bytes(&self) -> u64 {
        self.node_bytes + self.leaf_bytes + self.table_bytes + self.order_bytes
    }
}

impl<V: Word> Cuart<V> {
    /// How to build a tree other than the default one.
    pub fn builder() -> Builder<V> {
        Builder::default()
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value stays.
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

    /// Pairs in the tree. Of a lost tree, those before the change that failed.
    pub fn len(&self) -> u64 {
        self.parts.known().len
    }

    /// Whether the tree has no pairs. Of a lost tree, whether it had none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that holds the tree.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether a change failed half-way on the device: then the tree answers nothing and takes no changes, but with
    /// [`Error::Lost`](lanetree_frame::Error::Lost). Build it anew.
    pub fn is_lost(&self) -> bool {
        self.parts.get().is_err()
    }

    /// Whether leaves lie in the order of their keys, as they are built, and have ranks: until keys are inserted or
    /// removed. [`Cuart::compact`] makes it so again. A lost tree is not compact.
    pub fn is_compact(&self) -> bool {
        self.parts.get().is_ok_and(|parts| parts.ordered)
    }

    /// The tree's buffers; `None` where its memory is a GPU's, and of a [lost](Cuart::is_lost) tree. Of a tree that is
    /// not [compact](Cuart::is_compact), `first` is none and `order` empty, and what leaves say of their ranks means
    /// nothing.
    pub fn regions(&self) -> Option<Regions<'_>> {
        self.parts.get().ok()?.regions()
    }

    /// The size and shape of the tree. Of a lost tree, before the change that failed, but for the memory that it takes,
    /// which is that of now.
    pub fn stats(&self) -> Stats {
        self.parts.known().stats()
    }
}

impl<V: Word> fmt::Debug for Cuart<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuart<{}>[{} pairs, on {}]", V::NAME, self.len(), self.device)
    }
}
