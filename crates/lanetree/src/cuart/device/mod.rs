//! Trees in a device's memory.

mod build;
mod compact;
mod engine;
mod host_batch;
mod host_change;
mod host_ranges;
mod lookup;
mod range;
mod sequence;
mod staged;
mod supply;
#[cfg(test)]
mod tests;
mod update;

pub(super) use engine::DeviceState;
pub use engine::UpdateEngine;
pub(super) use host_batch::HostBatches;
pub use lookup::{Lanes, OnStream};
pub use range::{DeviceByteRanges, GatherScratch};
pub use update::{ChangeScratch, InsertReport};

use super::leaves::LeafBuffers;
use super::nodes::NodeBuffers;
use super::region::Region;
use super::{Cuart, Link};
use crate::{Error, Result};
use bytemuck::Pod;
use lanetree_kernels_cuart::{THREADS, TreeRef};
use lanetree_launch::Launch;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, LaunchShape};

impl<V: Word> Cuart<V> {
    /// Copies the tree to a device. Leaves in main memory stay there, beside it.
    ///
    /// # Errors
    /// [`Error::Runtime`] where there is no room.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let (nodes, leaves) = (&self.nodes, &self.leaves);
        Ok(Self {
            device: device.clone(),
            options: self.options,
            root: self.root,
            len: self.len,
            first: self.first,
            ordered: self.ordered,
            nodes: NodeBuffers {
                n4: copy_region(device, &nodes.n4)?,
                n16: copy_region(device, &nodes.n16)?,
                n48: copy_region(device, &nodes.n48)?,
                n256: copy_region(device, &nodes.n256)?,
            },
            leaves: LeafBuffers {
                leaf8: copy_region(device, &leaves.leaf8)?,
                leaf16: copy_region(device, &leaves.leaf16)?,
                leaf32: copy_region(device, &leaves.leaf32)?,
                device: copy_region(device, &leaves.device)?,
                device_count: leaves.device_count,
                device_free: leaves.device_free,
                host: leaves.host.clone(),
                ranks8: copy(device, &leaves.ranks8)?,
                order: copy(device, &leaves.order)?,
            },
            table: copy(device, &self.table)?,
            table_bytes: self.table_bytes,
            state: self.state.of_copy(),
            batches: HostBatches::default(),
        })
    }

    /// The tree's queries on a stream, for batches in buffers.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a, V> {
        OnStream::new(self, stream)
    }

    /// The tree as kernels see it.
    pub(super) fn tree_ref(&self) -> TreeRef {
        let (nodes, leaves) = (&self.nodes, &self.leaves);
        fn bytes<T: Pod>(region: &Region<T>) -> Global<u8> {
            region.buffer.global().cast()
        }
        TreeRef {
            n4: bytes(&nodes.n4),
            n16: bytes(&nodes.n16),
            n48: bytes(&nodes.n48),
            n256: bytes(&nodes.n256),
            leaf8: bytes(&leaves.leaf8),
            leaf16: bytes(&leaves.leaf16),
            leaf32: bytes(&leaves.leaf32),
            device_leaves: bytes(&leaves.device),
            table: self.table.global().cast(),
            ranks8: leaves.ranks8.global(),
            order: leaves.order.global().cast(),
            root: self.root.bits(),
            first: self.first.bits(),
            len: self.len,
            table_bytes: self.table_bytes,
            padding: 0,
        }
    }

    /// Notes that keys came or went: the leaves' places do not tell their ranks any more.
    fn forget_order(&mut self) {
        self.ordered = false;
        // Without memory there is nothing that could fail.
        if let (Ok(order), Ok(ranks8)) = (self.device.alloc(0), self.device.alloc(0)) {
            (self.leaves.order, self.leaves.ranks8) = (order, ranks8);
        }
    }

    /// The 8-byte words of the longest key that the tree has leaves for, as kernels are compiled for: 1, 2 or 4; 0
    /// where keys may have more than 32 bytes.
    pub(super) fn query_words(&self) -> usize {
        let leaves = &self.leaves;
        if leaves.device.used > 0 || !leaves.host.values.is_empty() {
            0
        } else if leaves.leaf32.used > 0 {
            4
        } else if leaves.leaf16.used > 0 {
            2
        } else {
            1
        }
    }
}

fn copy_region<T: Pod>(device: &Device, region: &Region<T>) -> Result<Region<T>> {
    Ok(Region {
        buffer: copy_first(device, &region.buffer, region.used)?,
        used: region.used,
        free: copy_first(device, &region.free, region.free_len)?,
        free_len: region.free_len,
    })
}

fn copy<T: Pod>(device: &Device, buffer: &Buffer<T>) -> Result<Buffer<T>> {
    copy_first(device, buffer, buffer.len())
}

/// The first elements of a buffer, on another device or the same.
fn copy_first<T: Pod>(device: &Device, buffer: &Buffer<T>, len: usize) -> Result<Buffer<T>> {
    Ok(match buffer.as_slice() {
        Some(elements) => device.upload(&elements[..len])?,
        None => {
            let mut elements = vec![T::zeroed(); len];
            buffer.copy_range_to(0, &mut elements)?;
            device.upload(&elements)?
        }
    })
}

/// A launch of a thread for each of `items`.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub(super) fn over(stream: &Stream, items: usize) -> Result<Launch<'_>> {
    let shape = LaunchShape::covering(items as u64, THREADS).ok_or(Error::BatchTooLarge { queries: items })?;
    // SAFETY: the callers, all in this module and its siblings, check the buffers' lengths and that they are of the
    // stream's device; the tree is valid by construction and borrowed for the call, and when it or any buffer is
    // dropped, the memory goes to nobody else before the kernel is done.
    Ok(unsafe { Launch::new(stream, shape) })
}

/// The root's link as kernels that change a tree see it, with a word for its lock.
pub(super) fn root_cell(device: &Device, root: Link) -> Result<Buffer<u64>> {
    Ok(device.upload(&[root.bits(), 0])?)
}
