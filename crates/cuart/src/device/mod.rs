//! Trees in a device's memory.

mod batch;
mod build;
mod change_scratch;
mod compact;
mod engine;
mod host_batch;
mod host_change;
mod host_ranges;
mod lookup;
mod missing;
mod range;
mod sequence;
mod staged;
mod supply;
#[cfg(test)]
mod tests;
mod tuning;
mod update;

pub use change_scratch::ChangeScratch;
pub use engine::UpdateEngine;
pub(super) use host_batch::HostBatches;
#[cfg(feature = "papers")]
pub use lookup::Lanes;
pub use lookup::OnStream;
pub use range::{DeviceByteRanges, GatherScratch};

use super::leaves::LeafBuffers;
use super::nodes::NodeBuffers;
use super::parts::Parts;
use super::region::{FreeList, LongLeaves, Region};
use super::{Cuart, Link};
use bytemuck::Pod;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::room::zeroed;
use lanetree_frame::{Result, launch};
use lanetree_kernels_cuart::THREADS;
use lanetree_layout::Word;
use lanetree_runtime::Launch;
use lanetree_runtime::{Buffer, Device, Stream};

impl<V: Word> Cuart<V> {
    /// Copies the tree to a device. Leaves in main memory stay there.
    ///
    /// # Errors
    /// [`Error::Lost`]; [`Error::Runtime`] if there is no room.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        Ok(Self::of_parts(device, self.options, self.parts()?.to_device(device)?))
    }

    /// The tree's queries on a stream, for batches in buffers.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a, V> {
        OnStream::new(self, stream)
    }
}

impl Parts {
    /// A copy on a device.
    pub(super) fn to_device(&self, device: &Device) -> Result<Self> {
        let (nodes, leaves) = (&self.nodes, &self.leaves);
        Ok(Self {
            device: device.clone(),
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
                long: LongLeaves {
                    units: copy_first(device, &leaves.long.units, leaves.long.used)?,
                    used: leaves.long.used,
                    count: leaves.long.count,
                    free: copy_free(device, &leaves.long.free)?,
                    free_units: leaves.long.free_units,
                },
                host: leaves.host.clone(),
                ranks8: copy(device, &leaves.ranks8)?,
                order: copy(device, &leaves.order)?,
            },
            table: copy(device, &self.table)?,
            table_bytes: self.table_bytes,
            updates: self.updates.of_copy(),
        })
    }
}

fn copy_region<T: Pod>(device: &Device, region: &Region<T>) -> Result<Region<T>> {
    let buffer = copy_first(device, &region.buffer, region.used)?;
    Ok(Region { buffer, used: region.used, free: copy_free(device, &region.free)? })
}

fn copy_free(device: &Device, free: &FreeList) -> Result<FreeList> {
    Ok(FreeList { indexes: copy_first(device, &free.indexes, free.len)?, len: free.len })
}

fn copy<T: Pod>(device: &Device, buffer: &Buffer<T>) -> Result<Buffer<T>> {
    copy_first(device, buffer, buffer.len())
}

/// The first elements of a buffer, on another device or the same.
fn copy_first<T: Pod>(device: &Device, buffer: &Buffer<T>, len: usize) -> Result<Buffer<T>> {
    Ok(match buffer.as_slice() {
        Some(elements) => device.upload(&elements[..len])?,
        None => {
            let mut elements = zeroed::<T>(len)?;
            buffer.copy_range_to(0, &mut elements)?;
            device.upload(&elements)?
        }
    })
}

/// A launch of one thread for each of `items`, for kernels that run in blocks of any size.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub(super) fn over(stream: &Stream, items: usize) -> Result<Launch<'_>> {
    launch::over(stream, items as u64, 1, THREADS)
}

/// The root's link as kernels that change a tree see it, with a word for its lock.
pub(super) fn root_cell(device: &Device, root: Link) -> Result<Buffer<u64>> {
    Ok(device.upload(&[root.bits(), 0])?)
}
