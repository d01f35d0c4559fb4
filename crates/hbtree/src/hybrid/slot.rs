//! The memory and the stream of a bucket in flight.

use crate::device::{Descending, DeviceSearch};
use crate::structure::InnerOnDevice;
use lanetree_frame::staging::ACROSS_THE_BUS;
use lanetree_frame::{Device, DeviceKind, Result, Stream};
use lanetree_layout::Key;
use lanetree_runtime::{Buffer, PinnedBuffer};
use lanetree_simt::Global;

/// A bucket's memory on both sides. It grows to the largest bucket.
pub(super) struct Slot<K: Key, C: InnerOnDevice<K>> {
    pub(super) stream: Stream,
    /// On the host.
    pub(super) queries: PinnedBuffer<K>,
    /// The nodes to which the CPU has brought the queries, if it has.
    pub(super) nodes: PinnedBuffer<u32>,
    pub(super) leaves: PinnedBuffer<u32>,
    /// On the device.
    device_queries: Buffer<K>,
    device_nodes: Buffer<u32>,
    device_leaves: Buffer<u32>,
    scratch: C::Scratch,
}

impl<K: Key, C: InnerOnDevice<K>> Slot<K, C> {
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            stream: device.stream()?,
            queries: device.pinned(0)?,
            nodes: device.pinned(0)?,
            leaves: device.pinned(0)?,
            device_queries: device.alloc(0)?,
            device_nodes: device.alloc(0)?,
            device_leaves: device.alloc(0)?,
            scratch: C::scratch(device, 0)?,
        })
    }

    /// Bytes on both sides.
    pub(super) fn bytes(&self) -> usize {
        let pinned = self.queries.len() * size_of::<K>() + (self.nodes.len() + self.leaves.len()) * size_of::<u32>();
        let device = self.device_queries.bytes() + self.device_nodes.bytes() + self.device_leaves.bytes();
        pinned + device + C::scratch_bytes(&self.scratch)
    }

    /// Makes room for a bucket; `with_nodes` if queries start below the root.
    pub(super) fn reserve(&mut self, count: usize, with_nodes: bool) -> Result<()> {
        let device = self.stream.device();
        let room = count.next_power_of_two();
        if self.leaves.len() < count {
            self.queries = device.pinned(room)?;
            self.device_queries = device.alloc(room)?;
            self.device_leaves = device.alloc(room)?;
            self.scratch = C::scratch(device, room)?;
            // Last: it says how much room there is.
            self.leaves = device.pinned(room)?;
        }
        if with_nodes && self.device_nodes.len() < count {
            self.nodes = device.pinned(room)?;
            self.device_nodes = device.alloc(room)?;
        }
        Ok(())
    }

    /// Puts the descent of the staged queries into the stream: `parts` says how many of them in turn start from which level,
    /// from their nodes unless the level is the root's.
    pub(super) fn launch(&mut self, inner: &C, search: DeviceSearch, parts: &[(u32, usize)]) -> Result<()> {
        let Self { stream, queries, nodes, leaves, device_queries, device_nodes, device_leaves, scratch } = self;
        let count = parts.iter().map(|part| part.1).sum();
        let with_nodes = parts.iter().any(|part| part.0 > 0 && part.1 > 0);
        // A few queries are mostly latency: the kernel reads and writes host memory itself.
        let across =
            stream.device().kind() == DeviceKind::Cuda && count <= ACROSS_THE_BUS && search == DeviceSearch::Ballot;
        let (from, to, start) = if across {
            let start = if with_nodes { nodes.read_on(stream)? } else { Global::null() };
            (queries.read_on(stream)?, leaves.write_on(stream)?, start)
        } else {
            device_queries.upload_async(stream, 0, queries, 0..count)?;
            let mut start = Global::null();
            if with_nodes {
                device_nodes.upload_async(stream, 0, nodes, 0..count)?;
                start = device_nodes.read_on(stream)?;
            }
            (device_queries.read_on(stream)?, device_leaves.write_on(stream)?, start)
        };
        let mut first = 0;
        for &(level, count) in parts.iter().filter(|part| part.1 > 0) {
            let part = Descending {
                queries: from.cast().byte_add((first * size_of::<K>()) as u64),
                nodes: if level > 0 { start.byte_add((first * size_of::<u32>()) as u64) } else { Global::null() },
                from: level,
                count,
                leaves: to.byte_add((first * size_of::<u32>()) as u64),
            };
            // SAFETY: the buffers have room for all parts, and the addresses are for this stream.
            unsafe { inner.launch(stream, search, scratch, part)? };
            first += count;
        }
        if !across {
            device_leaves.download_async(stream, 0..count, leaves, 0)?;
        }
        Ok(())
    }
}
