//! Sizes.

use crate::HbTree;
use crate::options::BuildTimes;
use crate::structure::{Inner, InnerOnDevice, Leaves, Parts, Structure};
use lanetree_frame::DeviceKind;
use lanetree_layout::{Key, Word};
use lanetree_runtime::GrantedPages;

/// The size and the shape of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub len: u64,
    /// Leaves: lines of 64 bytes; of the regular tree's big leaves, all lines, whether in use or not.
    pub leaves: u64,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Inner levels: the paper's H.
    pub height: u32,
    /// Children of a full inner node.
    pub fanout: u32,
    /// Bytes of host memory that the inner levels take (the paper's I-segment).
    pub inner_bytes: u64,
    /// Bytes of host memory that the leaves take (the paper's L-segment).
    pub leaf_bytes: u64,
    /// Bytes of device memory; 0 on the host.
    pub device_bytes: u64,
    /// The pages of the inner levels.
    pub inner_pages: GrantedPages,
    /// The pages of the leaves.
    pub leaf_pages: GrantedPages,
    /// Whether the device has the inner levels; if not, why: a batch of changes could not send them, and the CPU answers. `None` on
    /// the host.
    pub on_device: Option<Result<(), String>>,
    /// Whether the device can read the leaves; if not, though it was asked for, why. `None` if it was not asked for.
    pub pinned: Option<Result<(), String>>,
    /// What the last build has taken, by its parts.
    pub build: BuildTimes,
}

impl<K: Key, V: Word, L: Structure> HbTree<K, V, L> {
    /// The size and the shape of the tree. Asks the system for its pages, which takes a while.
    pub fn stats(&self) -> Stats {
        let Parts { device, inner, leaves, copy, no_copy, pinned, times, .. } = &self.parts;
        Stats {
            len: leaves.len(),
            leaves: leaves.count(),
            inner_nodes: inner.nodes(),
            height: inner.height(),
            fanout: inner.fanout(),
            inner_bytes: inner.bytes(),
            leaf_bytes: leaves.bytes(),
            device_bytes: copy.as_ref().map_or(0, InnerOnDevice::bytes),
            inner_pages: inner.pages(),
            leaf_pages: leaves.pages(),
            on_device: (device.kind() != DeviceKind::Host).then(|| no_copy.clone().map_or(Ok(()), Err)),
            pinned: pinned.clone(),
            build: *times,
        }
    }

    /// Bytes of the memory of the tree's device, and bytes of main memory. On the host all bytes are the device's.
    pub(crate) fn bytes_on_both(&self) -> (u64, u64) {
        let Parts { device, inner, leaves, copy, .. } = &self.parts;
        let host = inner.bytes() + leaves.bytes();
        match device.kind() {
            DeviceKind::Host => (host, 0),
            _ => (copy.as_ref().map_or(0, InnerOnDevice::bytes), host),
        }
    }
}
