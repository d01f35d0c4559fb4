//! What a tree consists of: its buffers, and what is known of them.

use super::leaves::LeafBuffers;
use super::native::View;
use super::nodes::NodeBuffers;
use super::region::Region;
use super::update_state::UpdateState;
use super::{Link, Regions};
use bytemuck::Pod;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::TreeRef;
use lanetree_kernels_cuart::layout::HostLeaves;
use lanetree_kernels_cuart::update::TreeMut;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};
use lanetree_simt::Global;

/// The contents of a tree. All calls on a tree use these, and only a [`Guarded`] gives access to them, so that a lost
/// tree answers nothing.
///
/// [`Guarded`]: lanetree_frame::Guarded
pub(super) struct Parts {
    pub(super) device: Device,
    pub(super) root: Link,
    pub(super) len: u64,
    pub(super) first: Link,
    /// Whether leaves are in the order of their keys and ranks are right, as they are built.
    pub(super) ordered: bool,
    pub(super) nodes: NodeBuffers,
    pub(super) leaves: LeafBuffers,
    pub(super) table: Buffer<Link>,
    pub(super) table_bytes: u32,
    /// State that updates on a device keep for the next ones.
    pub(super) updates: UpdateState,
}

impl Parts {
    /// The buffers; `None` where the memory is a GPU's.
    pub(super) fn regions(&self) -> Option<Regions<'_>> {
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
            device_leaves: leaves.long.as_slice()?,
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

    /// The tree for the CPU.
    ///
    /// # Panics
    /// If its memory is a GPU's: the host builds no tree there.
    pub(super) fn view(&self) -> View<'_> {
        View::new(self.regions().expect("trees are built on the host only"))
    }

    /// The tree as kernels see it that are launched next on `stream` and only read it.
    ///
    /// # Errors
    /// [`Error::Runtime`] for a stream of another device.
    pub(super) fn tree_ref(&self, stream: &Stream) -> Result<TreeRef> {
        fn bytes<T: Pod>(region: &Region<T>, stream: &Stream) -> Result<Global<u8>> {
            Ok(region.buffer.read_on(stream)?.cast())
        }
        let (nodes, leaves) = (&self.nodes, &self.leaves);
        Ok(TreeRef {
            n4: bytes(&nodes.n4, stream)?,
            n16: bytes(&nodes.n16, stream)?,
            n48: bytes(&nodes.n48, stream)?,
            n256: bytes(&nodes.n256, stream)?,
            leaf8: bytes(&leaves.leaf8, stream)?,
            leaf16: bytes(&leaves.leaf16, stream)?,
            leaf32: bytes(&leaves.leaf32, stream)?,
            device_leaves: leaves.long.units.read_on(stream)?.cast(),
            table: self.table.read_on(stream)?.cast(),
            ranks8: leaves.ranks8.read_on(stream)?,
            order: leaves.order.read_on(stream)?.cast(),
            root: self.root.bits(),
            first: self.first.bits(),
            len: self.len,
            table_bytes: self.table_bytes,
            padding: 0,
        })
    }

    /// The tree as kernels see it that are launched next on `stream` and write it. All buffers count as written, since
    /// a kernel's arguments name the tree as a whole.
    ///
    /// # Errors
    /// As [`Parts::tree_ref`].
    pub(super) fn tree_mut(&mut self, stream: &Stream) -> Result<TreeMut> {
        fn bytes<T: Pod>(region: &mut Region<T>, stream: &Stream) -> Result<Global<u8>> {
            Ok(region.buffer.write_on(stream)?.as_const().cast())
        }
        let (nodes, leaves) = (&mut self.nodes, &mut self.leaves);
        Ok(TreeMut::new(TreeRef {
            n4: bytes(&mut nodes.n4, stream)?,
            n16: bytes(&mut nodes.n16, stream)?,
            n48: bytes(&mut nodes.n48, stream)?,
            n256: bytes(&mut nodes.n256, stream)?,
            leaf8: bytes(&mut leaves.leaf8, stream)?,
            leaf16: bytes(&mut leaves.leaf16, stream)?,
            leaf32: bytes(&mut leaves.leaf32, stream)?,
            device_leaves: leaves.long.units.write_on(stream)?.as_const().cast(),
            table: self.table.write_on(stream)?.as_const().cast(),
            ranks8: leaves.ranks8.write_on(stream)?.as_const(),
            order: leaves.order.write_on(stream)?.as_const().cast(),
            root: self.root.bits(),
            first: self.first.bits(),
            len: self.len,
            table_bytes: self.table_bytes,
            padding: 0,
        }))
    }

    /// The number of 8-byte words of the longest key that the tree has leaves for, rounded up to one that kernels are
    /// compiled for: 1, 2 or 4; 0 if keys may have more than 32 bytes.
    pub(super) fn query_words(&self) -> usize {
        let leaves = &self.leaves;
        if leaves.long.used > 0 || !leaves.host.values.is_empty() {
            0
        } else if leaves.leaf32.used > 0 {
            4
        } else if leaves.leaf16.used > 0 {
            2
        } else {
            1
        }
    }

    /// Checks that the tree is where kernels run, and has no leaves in main memory.
    pub(super) fn check_on_device(&self, call: &'static str) -> Result<()> {
        if self.device.kind() == DeviceKind::Host {
            return Err(Error::NotOnDevice { call });
        }
        match self.leaves.host.values.len() {
            0 => Ok(()),
            leaves => Err(Error::LeavesInMainMemory { call, leaves }),
        }
    }

    /// Checks that leaves have ranks.
    pub(super) fn needs_ranks(&self, query: &'static str) -> Result<()> {
        if self.ordered { Ok(()) } else { Err(Error::NotCompact { query, restore: "compact" }) }
    }

    /// Checks that the device can find ranks.
    pub(super) fn check_ranks(&self, call: &'static str) -> Result<()> {
        self.check_on_device(call)?;
        self.needs_ranks(call)
    }

    /// The length of every key, if all have the same length of at most 32 bytes and the tree is compact.
    pub(super) fn key_width(&self) -> Option<usize> {
        (self.ordered && !self.first.is_none()).then(|| self.first.span() as usize)
    }

    /// Notes that keys were inserted or removed: leaves no longer have ranks.
    pub(super) fn forget_order(&mut self) {
        self.ordered = false;
        // Nothing is allocated, so nothing can fail.
        if let (Ok(order), Ok(ranks8)) = (self.device.alloc(0), self.device.alloc(0)) {
            (self.leaves.order, self.leaves.ranks8) = (order, ranks8);
        }
    }

    /// The key and value of a leaf in main memory, by its index; `None` past the last.
    pub(super) fn host_leaf<V: Word>(&self, index: u64) -> Option<(&[u8], V)> {
        let host = &self.leaves.host;
        let index = usize::try_from(index).ok().filter(|&index| index < host.values.len())?;
        let key = &host.bytes[host.offsets[index] as usize..host.offsets[index + 1] as usize];
        Some((key, V::truncate(host.values[index])))
    }
}
