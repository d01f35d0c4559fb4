//! Batches of inserts, updates and removals (the paper's section 3.2.2).

mod device;
mod host;
mod mirror;
#[cfg(test)]
mod model;

pub use device::UpdateScratch;
use lanetree_frame::{Op, UpdatePath, UpdateReport};

use super::Harmonia;
use lanetree_frame::{Result, fold};
use lanetree_layout::{Key, Word};
use lanetree_runtime::DeviceKind;

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Applies `count` operations. On a device that runs kernels the batch is sent to the device and applied there, as by
    /// [`Harmonia::apply_on`]. On the host all of rayon's threads apply it by the paper's Algorithm 1: changes that fit are made in
    /// the leaves, in place; a leaf that overflows or underflows is split or merged in the batch's own memory, and the key region
    /// moves once, at the end of the batch. Such a batch temporarily takes as much memory again as the tree.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        match self.device.kind() {
            DeviceKind::Host => Ok(host::apply(self, &fold(count, op)?)?.report),
            DeviceKind::Cuda | DeviceKind::Emulated => self.apply_from_host(count, op),
        }
    }
}
