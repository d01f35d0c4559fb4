//! Batches of inserts, updates and removals (the paper's section 3.2.2).

mod device;
mod host;
mod mirror;
#[cfg(test)]
mod model;

pub use device::UpdateScratch;
use lanetree_frame::{Op, UpdatePath, UpdateReport};

use super::Harmonia;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::{Result, fold};
use lanetree_layout::{Key, Word};
use lanetree_runtime::DeviceKind;

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Applies a batch of operations, as if one after another in the batch's order.
    ///
    /// On a device that runs kernels the batch is sent to the device and applied there. [`Harmonia::apply_on`] does the
    /// same with batches that are already on the device, and with reusable scratch memory.
    ///
    /// On the host all of rayon's threads apply it by the paper's Algorithm 1. Changes that fit are made in the leaves,
    /// in place. A leaf that overflows or underflows is split or merged in the batch's own memory, and the key region
    /// moves once, at the end of the batch. Such a batch temporarily takes as much memory again as the tree.
    ///
    /// ```
    /// use lanetree::{Device, Harmonia, Op};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let mut tree = Harmonia::build(&Device::host(), &[1_u64, 2, 3], &[10_u32, 20, 30])?;
    /// let report = tree.apply(&[Op::Remove(2), Op::Insert(4, 40), Op::Update(4, 41), Op::Update(9, 90)])?;
    /// assert_eq!((report.inserted, report.removed, report.unmatched), (1, 1, 1));
    /// assert_eq!(tree.get_many(&[1, 2, 3, 4, 9])?, [Some(10), None, Some(30), Some(41), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TooManyOperations`](lanetree_frame::Error::TooManyOperations);
    /// [`TooManyPairs`](lanetree_frame::Error::TooManyPairs) and [`Runtime`](lanetree_frame::Error::Runtime) where the
    /// tree would grow beyond what node numbers or memory allow, or from the device: the tree is unchanged.
    /// [`Lost`](lanetree_frame::Error::Lost) where the device failed while leaves were written, or in an earlier batch;
    /// never on the host.
    pub fn apply(&mut self, ops: &[Op<K, V>]) -> Result<UpdateReport> {
        self.change(ops.len(), |i| ops[i])
    }

    /// Inserts pairs; if a key is present, its value is replaced. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Harmonia::apply`], and [`LengthMismatch`](lanetree_frame::Error::LengthMismatch).
    pub fn insert_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        check_lengths(keys, values)?;
        self.change(keys.len(), |i| Op::Insert(keys[i], values[i]))
    }

    /// Replaces the values of the keys that are present. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Harmonia::apply`], and [`LengthMismatch`](lanetree_frame::Error::LengthMismatch).
    pub fn update_many(&mut self, keys: &[K], values: &[V]) -> Result<UpdateReport> {
        check_lengths(keys, values)?;
        self.change(keys.len(), |i| Op::Update(keys[i], values[i]))
    }

    /// Removes the keys that are present.
    ///
    /// # Errors
    /// As [`Harmonia::apply`].
    pub fn remove_many(&mut self, keys: &[K]) -> Result<UpdateReport> {
        self.change(keys.len(), |i| Op::Remove(keys[i]))
    }

    /// Applies operations: see [`Harmonia::apply`].
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        match self.device.kind() {
            DeviceKind::Host => Ok(host::apply(self, &fold(count, op)?)?.report),
            DeviceKind::Cuda | DeviceKind::Emulated => self.apply_from_host(count, op),
        }
    }
}
