//! A tree that a device has built, for verification: until [`Cuart`] has such trees itself.

use super::{BuiltNodes, FixedKeys, leaves, no_tree, nodes};
use crate::cuart::{Cuart, RootTable};
use crate::{Error, Result};
use lanetree_kernels_cuart::TreeRef;
use lanetree_layout::Word;
use lanetree_layout::cuart::{Leaf8, Leaf16, Leaf32, Link, N4, N16, N48, N256, Regions};
use lanetree_runtime::{Buffer, Stream};

/// A tree that a device has built.
#[doc(hidden)]
pub struct DeviceTree {
    leaf8: Buffer<Leaf8>,
    leaf16: Buffer<Leaf16>,
    leaf32: Buffer<Leaf32>,
    device_leaves: Buffer<[u64; 2]>,
    order: Buffer<Link>,
    first: Link,
    len: u64,
    nodes: BuiltNodes,
}

/// Its buffers, copied to main memory.
#[doc(hidden)]
#[derive(Default)]
pub struct Fetched {
    root: Link,
    len: u64,
    first: Link,
    n4: Vec<N4>,
    n16: Vec<N16>,
    n48: Vec<N48>,
    n256: Vec<N256>,
    leaf8: Vec<Leaf8>,
    leaf16: Vec<Leaf16>,
    leaf32: Vec<Leaf32>,
    device_leaves: Vec<[u64; 2]>,
    order: Vec<Link>,
    table: Vec<Link>,
    table_bytes: u32,
}

impl DeviceTree {
    /// Builds all of it from the first `len` keys, which must ascend.
    ///
    /// # Errors
    /// Those of `leaves` and `nodes` beside this module.
    pub fn build<V: Word>(
        stream: &Stream,
        keys: &FixedKeys<'_>,
        values: &Buffer<V>,
        len: usize,
        table: RootTable,
    ) -> Result<Self> {
        let device = stream.device();
        let leaves = leaves(stream, keys, values, len)?;
        let order = device.alloc(0)?;
        // SAFETY: leaves of one kind, which follow the first one.
        let nodes = unsafe { nodes(stream, &leaves.tree(len), &order, table)? };
        Ok(Self {
            leaf8: leaves.leaf8,
            leaf16: leaves.leaf16,
            leaf32: leaves.leaf32,
            device_leaves: device.alloc(0)?,
            order,
            first: leaves.first,
            len: len as u64,
            nodes,
        })
    }

    /// Builds the nodes above the leaves of a tree of the host's, which has none in main memory.
    ///
    /// # Errors
    /// Those of `nodes` beside this module; [`Error::HostOnly`] for a tree with leaves in main memory.
    ///
    /// # Panics
    /// If the tree is not the host's.
    pub fn above<V: Word>(stream: &Stream, tree: &Cuart<V>, table: RootTable) -> Result<Self> {
        let (device, host) = (stream.device(), tree.regions().expect("a tree of the host's"));
        if !host.host_leaves.values.is_empty() {
            return Err(Error::HostOnly { index: "a tree with leaves in main memory", device: device.to_string() });
        }
        let (leaf8, leaf16) = (device.upload(host.leaf8)?, device.upload(host.leaf16)?);
        let (leaf32, device_leaves) = (device.upload(host.leaf32)?, device.upload(host.device_leaves)?);
        let order = device.upload(host.order)?;
        let tree = TreeRef {
            leaf8: leaf8.global().cast(),
            leaf16: leaf16.global().cast(),
            leaf32: leaf32.global().cast(),
            device_leaves: device_leaves.global().cast(),
            order: order.global().cast(),
            first: host.first.bits(),
            len: host.len,
            ..no_tree()
        };
        // SAFETY: the leaves of a tree, all on the device.
        let nodes = unsafe { nodes(stream, &tree, &order, table)? };
        Ok(Self { leaf8, leaf16, leaf32, device_leaves, order, first: host.first, len: host.len, nodes })
    }

    /// Copies it to main memory.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the copies.
    pub fn fetch(&self) -> Result<Fetched> {
        Ok(Fetched {
            root: self.nodes.root,
            len: self.len,
            first: if self.len > 0 { self.first } else { Link::NONE },
            n4: self.nodes.n4.to_vec()?,
            n16: self.nodes.n16.to_vec()?,
            n48: self.nodes.n48.to_vec()?,
            n256: self.nodes.n256.to_vec()?,
            leaf8: self.leaf8.to_vec()?,
            leaf16: self.leaf16.to_vec()?,
            leaf32: self.leaf32.to_vec()?,
            device_leaves: self.device_leaves.to_vec()?,
            order: self.order.to_vec()?,
            table: self.nodes.table.to_vec()?,
            table_bytes: self.nodes.table_bytes,
        })
    }
}

impl Fetched {
    /// The buffers.
    pub fn regions(&self) -> Regions<'_> {
        Regions {
            root: self.root,
            len: self.len,
            first: self.first,
            n4: &self.n4,
            n16: &self.n16,
            n48: &self.n48,
            n256: &self.n256,
            leaf8: &self.leaf8,
            leaf16: &self.leaf16,
            leaf32: &self.leaf32,
            device_leaves: &self.device_leaves,
            order: &self.order,
            table: &self.table,
            table_bytes: self.table_bytes,
            ..Regions::default()
        }
    }
}
