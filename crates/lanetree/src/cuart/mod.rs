//! CuART: an adaptive radix tree in typed buffers (Koppehel et al., ICPP 2021), over byte strings.
//!
//! The layout is drawn in [`lanetree_layout::cuart`]. Keys are byte strings of any length, prefixes of each
//! other and zero bytes included; numbers and arrays of bytes become strings of the same order by
//! [`ByteKeysBuf::encode`](crate::ByteKeysBuf::encode). A tree is built in bulk ([`Builder`]) and read, in
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
mod range;
mod region;
mod table;
mod update;
#[cfg(test)]
mod validate;

pub use crate::harmonia::{MirrorReport, Op, UpdatePath, UpdateReport};
pub use build::{Builder, LongKeys, RootTable};
pub use device::{ChangeScratch, DeviceByteRanges, GatherScratch, InsertReport, Lanes, OnStream, UpdateEngine};
pub use explain::{Explanation, Step};
pub use hybrid::{Hybrid, HybridBuilder, HybridStats};
pub use lanetree_layout::cuart::{Kind, Link, Regions};
pub use lookup::Neighbor;
pub use mirrored::Mirrored;

use crate::Result;
use crate::byte_keys::ByteKeys;
use core::fmt;
use lanetree_layout::Word;
use lanetree_layout::cuart::{HostLeaves, UNIT};
use lanetree_runtime::{Buffer, Device};

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
    root: Link,
    len: u64,
    first: Link,
    /// Whether leaves are in the order of their keys and ranks are right, as they are built.
    ordered: bool,
    nodes: nodes::NodeBuffers,
    leaves: leaves::LeafBuffers,
    table: Buffer<Link>,
    table_bytes: u32,
    /// What updates on a device leave behind for the next ones.
    state: device::DeviceState,
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

    /// Pairs in the tree.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the tree has no pairs.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that holds the tree.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether leaves lie in the order of their keys, as they are built, and have ranks: until keys come or
    /// go. [`Cuart::compact`] makes it so again.
    pub fn is_compact(&self) -> bool {
        self.ordered
    }

    /// The tree's buffers; `None` where its memory is a GPU's. Of a tree that is not
    /// [compact](Cuart::is_compact), `first` is none and `order` empty, and what leaves say of their ranks
    /// means nothing.
    pub fn regions(&self) -> Option<Regions<'_>> {
        let (nodes, leaves) = (&self.nodes, &self.leaves);
        Some(Regions {
            root: self.root,
            len: self.len,
            first: if self.ordered { self.first } else { Link::NONE },
            n4: nodes.n4.as_slice()?,
            n16: nodes.n16.as_slice()?,
            n48: nodes.n48.as_slice()?,
            n256: nodes.n256.as_slice()?,
            leaf8: leaves.leaf8.as_slice()?,
            leaf16: leaves.leaf16.as_slice()?,
            leaf32: leaves.leaf32.as_slice()?,
            device_leaves: leaves.device.as_slice()?,
            host_leaves: HostLeaves {
                offsets: &leaves.host.offsets,
                bytes: &leaves.host.bytes,
                values: &leaves.host.values,
                ranks: &leaves.host.ranks,
            },
            ranks8: leaves.ranks8.as_slice()?,
            order: leaves.order.as_slice()?,
            table: self.table.as_slice()?,
            table_bytes: self.table_bytes,
        })
    }

    /// The size and shape of the tree.
    pub fn stats(&self) -> Stats {
        let (nodes, leaves) = (&self.nodes, &self.leaves);
        macro_rules! of_regions {
            ($figure:ident) => {
                (
                    [nodes.n4.$figure(), nodes.n16.$figure(), nodes.n48.$figure(), nodes.n256.$figure()],
                    [leaves.leaf8.$figure(), leaves.leaf16.$figure(), leaves.leaf32.$figure()],
                )
            };
        }
        let sum = |(nodes, leaves): ([u64; 4], [u64; 3])| nodes.iter().chain(&leaves).sum::<u64>();
        let live = of_regions!(live);
        let bytes = of_regions!(bytes);
        let mut stats = Stats {
            len: self.len,
            nodes: live.0,
            leaves: live.1,
            device_leaves: leaves.device_count,
            host_leaves: (leaves.host.values.len() - leaves.host.free.len()) as u64,
            table_key_bytes: self.table_bytes,
            node_bytes: bytes.0.iter().sum(),
            leaf_bytes: bytes.1.iter().sum::<u64>() + leaves.device.bytes(),
            table_bytes: self.table.bytes() as u64,
            order_bytes: (leaves.order.bytes() + leaves.ranks8.bytes()) as u64,
            host_bytes: leaves.host.bytes_in_all(),
            free_bytes: sum(of_regions!(free_bytes)) + leaves.device_free * UNIT as u64,
            spare_bytes: sum(of_regions!(spare_bytes)) + leaves.device.spare_bytes(),
            bytes_per_key: 0.0,
        };
        if self.len > 0 {
            stats.bytes_per_key = (stats.bytes() + stats.host_bytes) as f64 / self.len as f64;
        }
        stats
    }

    /// The tree for the CPU.
    ///
    /// # Panics
    /// If its memory is a GPU's: no tree is built there.
    fn view(&self) -> native::View<'_> {
        native::View::new(self.regions().expect("trees are built on the host only"))
    }
}

impl<V: Word> fmt::Debug for Cuart<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuart<{}>[{} pairs, on {}]", V::NAME, self.len, self.device)
    }
}
