//! The paper's pair: a tree that the CPU updates, and its copy, which a device queries.

use super::{Op, UpdatePath, UpdateReport, host};
use crate::Harmonia;
use crate::build::check_lengths;
use core::fmt;
use core::ops::Range;
use lanetree_frame::Guarded;
use lanetree_frame::fixed::Staging;
use lanetree_frame::fold;
use lanetree_frame::mirror::{GAP, MirrorReport};
use lanetree_frame::{Error, Result};
use lanetree_kernels_harmonia::layout::leaf_bytes;
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};
use std::sync::Arc;

/// A tree on the host, which is updated, and its copy on a device, which answers queries.
///
/// Between batches both hold the same pairs. Readers of the device's tree see it as it was before a batch or after it.
/// A reader that keeps a clone of [`Mirrored::device_tree`] keeps that version, and the next batch goes into a second
/// set of buffers. If there is no clone, the batch waits for the device's work in flight and overwrites what has
/// changed.
///
/// ```
/// use lanetree::harmonia::{Mirrored, Op};
/// use lanetree::{Device, Harmonia};
///
/// # fn main() -> lanetree::Result<()> {
/// let tree = Harmonia::build(&Device::host(), &[1_u64, 2, 3], &[10_u32, 20, 30])?;
/// let mut mirrored = Mirrored::new(tree, &Device::emulated())?;
/// let before = mirrored.device_tree().clone();
/// mirrored.apply(&[Op::Remove(2), Op::Insert(4, 40)])?;
/// assert_eq!(mirrored.device_tree().get_many(&[2, 4])?, [None, Some(40)]);
/// assert_eq!(before.get_many(&[2, 4])?, [Some(20), None]);
/// # Ok(())
/// # }
/// ```
pub struct Mirrored<K: Key, V: Word> {
    host: Harmonia<K, V>,
    copy: Arc<Harmonia<K, V>>,
    /// For copies within the device.
    stream: Stream,
    in_sync: bool,
}

impl<K: Key, V: Word> Mirrored<K, V> {
    /// Copies a tree of the host's to a device.
    ///
    /// # Errors
    /// [`Error::NotOnHost`] for a tree that is not on the host; [`Error::Runtime`] if the device has no room.
    pub fn new(host: Harmonia<K, V>, device: &Device) -> Result<Self> {
        if host.device.kind() != DeviceKind::Host {
            return Err(Error::NotOnHost { device: host.device.to_string() });
        }
        let (copy, _) = upload(&host, device)?;
        Ok(Self { host, copy: Arc::new(copy), stream: device.stream()?, in_sync: true })
    }

    /// The tree on the host.
    pub fn host_tree(&self) -> &Harmonia<K, V> {
        &self.host
    }

    /// The tree on the device. A clone of it stays as it is, whatever batches come.
    pub fn device_tree(&self) -> &Arc<Harmonia<K, V>> {
        &self.copy
    }

    /// Whether the device's tree equals the host's: always, except after an error of the device until the next
    /// [`Mirrored::synchronize`] or batch.
    pub fn is_in_sync(&self) -> bool {
        self.in_sync
    }

    /// Applies a batch to the host's tree, as [`Harmonia::apply`] does, and sends what has changed to the device: the
    /// leaves changed in place, and, if lengths have changed, the ranks after the first of them; all regions if the key
    /// region has moved. Returns when the device has everything.
    ///
    /// If everything is sent, or a clone keeps the device's old tree, the device holds both for a while.
    ///
    /// # Errors
    /// As [`Harmonia::apply`]; neither tree has changed then. [`Error::Runtime`] from the device: the host's
    /// tree has the batch then, and the device's is out of step: as it was before the batch, or
    /// [`Lost`](Error::Lost), as its calls say then. [`Mirrored::synchronize`] or the next batch sends it anew.
    pub fn apply(&mut self, ops: &[Op<K, V>]) -> Result<MirrorReport> {
        self.apply_each(ops.len(), |i| ops[i])
    }

    /// [`Harmonia::insert_many`] on both trees.
    ///
    /// # Errors
    /// As [`Mirrored::apply`], and [`Error::LengthMismatch`].
    pub fn insert_many(&mut self, keys: &[K], values: &[V]) -> Result<MirrorReport> {
        check_lengths(keys, values)?;
        self.apply_each(keys.len(), |i| Op::Insert(keys[i], values[i]))
    }

    /// [`Harmonia::update_many`] on both trees.
    ///
    /// # Errors
    /// As [`Mirrored::apply`], and [`Error::LengthMismatch`].
    pub fn update_many(&mut self, keys: &[K], values: &[V]) -> Result<MirrorReport> {
        check_lengths(keys, values)?;
        self.apply_each(keys.len(), |i| Op::Update(keys[i], values[i]))
    }

    /// [`Harmonia::remove_many`] on both trees.
    ///
    /// # Errors
    /// As [`Mirrored::apply`].
    pub fn remove_many(&mut self, keys: &[K]) -> Result<MirrorReport> {
        self.apply_each(keys.len(), |i| Op::Remove(keys[i]))
    }

    /// Sends the whole tree to the device if it is out of sync; returns the bytes sent.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the device.
    pub fn synchronize(&mut self) -> Result<u64> {
        if self.in_sync { Ok(0) } else { self.send_all() }
    }

    /// Both trees.
    pub fn into_trees(self) -> (Harmonia<K, V>, Arc<Harmonia<K, V>>) {
        (self.host, self.copy)
    }

    fn apply_each(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<MirrorReport> {
        let applied = host::apply(&mut self.host, &fold(count, op))?;
        let in_sync = core::mem::replace(&mut self.in_sync, false);
        let bytes_sent = match applied.report.path {
            UpdatePath::Unchanged if in_sync => {
                self.in_sync = true;
                0
            }
            UpdatePath::InPlace if in_sync => self.send_leaves(&applied.leaves(), &applied.report)?,
            _ => self.send_all()?,
        };
        Ok(MirrorReport { update: applied.report, bytes_sent })
    }

    fn send_all(&mut self) -> Result<u64> {
        let (copy, bytes) = upload(&self.host, self.copy.device())?;
        // The old buffers' memory is not reused before the work that reads them is done.
        self.copy = Arc::new(copy);
        self.in_sync = true;
        Ok(bytes)
    }

    /// Sends leaves that were changed in place, and the ranks that follow from them.
    fn send_leaves(&mut self, leaves: &[u32], report: &UpdateReport) -> Result<u64> {
        let host = &self.host;
        let mut second = None;
        let copy = match Arc::get_mut(&mut self.copy) {
            Some(copy) => {
                copy.device.synchronize()?;
                copy
            }
            None => second.insert(duplicate(&self.copy, &self.stream)?),
        };
        let moves = report.inserted + report.removed > 0;
        // Allocate all memory before the first change.
        let new_ranks = match (&host.ranks, &copy.ranks) {
            (Some(ranks), None) if moves => Some(copy.device.alloc(ranks.len())?),
            _ => None,
        };
        let bytes = leaf_bytes::<K::Bits, V>(host.shape.fanout);
        let Harmonia { leaves: copied, ranks: copied_ranks, shape, whole, .. } = copy;
        // If sending fails, nobody may read a state between two batches.
        let sent = whole.change_copy(|()| {
            let mut sent = 0;
            for span in spans(leaves, (GAP / bytes) as u32) {
                let words = (span.start as u64 * bytes / 8) as usize..(span.end as u64 * bytes / 8) as usize;
                sent += send(&host.leaves, words, copied)?;
            }
            if moves {
                let ranks = host.ranks.as_ref().expect("leaves of changed lengths have ranks");
                // A leaf's own rank does not depend on its length.
                let from = if copied_ranks.is_some() { leaves[0] as usize + 1 } else { 0 };
                *copied_ranks = copied_ranks.take().or(new_ranks);
                let to = copied_ranks.as_mut().expect("made above, where there were none");
                sent += send(ranks, from..ranks.len(), to)?;
            }
            *shape = host.shape;
            Ok(sent)
        })?;
        if let Some(second) = second {
            self.copy = Arc::new(second);
        }
        self.in_sync = true;
        Ok(sent)
    }
}

/// The leaves as spans; leaves with at most `gap` leaves between them share a span.
fn spans(leaves: &[u32], gap: u32) -> impl Iterator<Item = Range<u32>> {
    leaves.chunk_by(move |&a, &b| b - a <= gap.saturating_add(1)).map(|span| span[0]..span[span.len() - 1] + 1)
}

fn send<T: Word>(from: &Buffer<T>, range: Range<usize>, to: &mut Buffer<T>) -> Result<u64> {
    let from = &in_memory(from)[range.clone()];
    to.copy_range_from(range.start, from)?;
    Ok(size_of_val(from) as u64)
}

fn upload<K: Key, V: Word>(host: &Harmonia<K, V>, device: &Device) -> Result<(Harmonia<K, V>, u64)> {
    let ranks = match &host.ranks {
        Some(ranks) => Some(device.upload(in_memory(ranks))?),
        None => None,
    };
    let copy = Harmonia {
        lens: None,
        staging: Staging::default(),
        whole: Guarded::default(),
        device: device.clone(),
        shape: host.shape,
        inner: device.upload(in_memory(&host.inner))?,
        prefix_sum: device.upload(in_memory(&host.prefix_sum))?,
        leaves: device.upload(in_memory(&host.leaves))?,
        ranks,
        words: host.words,
    };
    let bytes = copy.stats().bytes();
    Ok((copy, bytes))
}

/// A copy of a tree in other buffers of its device, complete on return.
fn duplicate<K: Key, V: Word>(tree: &Harmonia<K, V>, stream: &Stream) -> Result<Harmonia<K, V>> {
    fn buffer<T: Word>(from: &Buffer<T>, stream: &Stream) -> Result<Buffer<T>> {
        let mut to = from.device().alloc(from.len())?;
        to.copy_from_buffer(stream, 0, from, 0..from.len())?;
        Ok(to)
    }
    let ranks = match &tree.ranks {
        Some(ranks) => Some(buffer(ranks, stream)?),
        None => None,
    };
    let copy = Harmonia {
        lens: None,
        staging: Staging::default(),
        whole: Guarded::default(),
        device: tree.device.clone(),
        shape: tree.shape,
        inner: buffer(&tree.inner, stream)?,
        prefix_sum: buffer(&tree.prefix_sum, stream)?,
        leaves: buffer(&tree.leaves, stream)?,
        ranks,
        words: tree.words,
    };
    stream.synchronize()?;
    Ok(copy)
}

fn in_memory<T: Word>(buffer: &Buffer<T>) -> &[T] {
    buffer.as_slice().expect("a tree on the host is in main memory")
}

impl<K: Key, V: Word> fmt::Debug for Mirrored<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mirrored[{:?}, {:?}{}]", self.host, self.copy, if self.in_sync { "" } else { ", out of step" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrored(count: u64, fill: f64, device: &Device) -> Mirrored<u64, u32> {
        let keys: Vec<u64> = (0..count).map(|i| i * 10).collect();
        let values: Vec<u32> = (0..count as u32).collect();
        let host = Harmonia::builder().fanout(8).fill(fill).build_sorted(&Device::host(), &keys, &values).unwrap();
        Mirrored::new(host, device).unwrap()
    }

    /// Both trees are the same, byte for byte, and valid.
    fn check(mirrored: &Mirrored<u64, u32>) {
        let (host, copy) = (&mirrored.host, &mirrored.copy);
        assert!(mirrored.is_in_sync());
        assert_eq!(host.shape, copy.shape);
        assert_eq!(host.leaves.to_vec().unwrap(), copy.leaves.to_vec().unwrap());
        assert_eq!(host.inner.to_vec().unwrap(), copy.inner.to_vec().unwrap());
        let ranks = |tree: &Harmonia<u64, u32>| tree.ranks.as_ref().map(|ranks| ranks.to_vec().unwrap());
        assert_eq!(ranks(host), ranks(copy));
        copy.validate();
    }

    #[test]
    fn the_copy_follows_whichever_way_a_batch_takes() {
        let mut mirrored = mirrored(3000, 0.6, &Device::emulated());
        check(&mirrored);
        let all = mirrored.device_tree().stats().bytes();

        let report = mirrored.update_many(&[50, 5010, 7], &[1, 2, 3]).unwrap();
        assert_eq!((report.update.path, report.update.replaced), (UpdatePath::InPlace, 2));
        assert!(report.bytes_sent > 0 && report.bytes_sent < all / 2, "{report:?}, all {all}");
        check(&mirrored);
        assert_eq!(mirrored.device_tree().get_many(&[50, 5010, 7]).unwrap(), [Some(1), Some(2), None]);

        // Lengths change: the ranks are new, and sent whole; the next time, from the first leaf on.
        let report = mirrored.insert_many(&[29_001], &[4]).unwrap();
        assert_eq!(report.update.path, UpdatePath::InPlace);
        check(&mirrored);
        let report = mirrored.insert_many(&[29_981], &[5]).unwrap();
        assert!(report.bytes_sent < 200, "{report:?}");
        check(&mirrored);
        assert_eq!(mirrored.device_tree().lower_bound_many(&[29_001, 29_002, 29_982]).unwrap(), [2901, 2902, 3001]);

        // The key region moves.
        let keys: Vec<u64> = (0..200).map(|i| i * 3 + 1).collect();
        let report = mirrored.insert_many(&keys, &[6; 200]).unwrap();
        assert_eq!(report.update.path, UpdatePath::Moved);
        assert_eq!(report.bytes_sent, mirrored.device_tree().stats().bytes());
        check(&mirrored);

        assert_eq!(mirrored.apply(&[]).unwrap(), MirrorReport::default());
        let all: Vec<u64> = mirrored.host_tree().iter().map(|pair| pair.unwrap().0).collect();
        assert_eq!(mirrored.remove_many(&all).unwrap().bytes_sent, 0);
        check(&mirrored);
        assert_eq!(mirrored.device_tree().get_many(&[50]).unwrap(), [None]);
        assert_eq!(mirrored.apply(&[Op::Insert(9, 9)]).unwrap().update.path, UpdatePath::Rebuilt);
        check(&mirrored);
        assert_eq!(mirrored.device_tree().get_many(&[9]).unwrap(), [Some(9)]);
    }

    #[test]
    fn who_keeps_a_version_keeps_its_pairs() {
        for device in [Device::emulated(), Device::host()] {
            let mut mirrored = mirrored(500, 0.6, &device);
            let first = mirrored.device_tree().clone();
            let sent = mirrored.update_many(&[0], &[77]).unwrap().bytes_sent;
            assert_eq!(sent, 8 * 12, "the second buffers are filled on the device");
            check(&mirrored);
            let second = mirrored.device_tree().clone();
            mirrored.insert_many(&(0..400).map(|i| i * 5 + 1).collect::<Vec<_>>(), &[1; 400]).unwrap();
            check(&mirrored);
            assert_eq!((first.len(), second.len(), mirrored.device_tree().len()), (500, 500, 900));
            assert_eq!(first.get_many(&[0, 1]).unwrap(), [Some(0), None]);
            assert_eq!(second.get_many(&[0, 1]).unwrap(), [Some(77), None]);
            assert_eq!(mirrored.device_tree().get_many(&[0, 1]).unwrap(), [Some(77), Some(1)]);
        }
    }

    #[test]
    fn a_copy_out_of_step_is_sent_again() {
        for ops in [&[][..], &[Op::Update(10, 5)], &[Op::Update(1, 5)]] {
            let mut mirrored = mirrored(100, 1.0, &Device::emulated());
            // As after an error of the device.
            mirrored.host.update_many(&[30], &[33]).unwrap();
            mirrored.in_sync = false;
            let all = mirrored.device_tree().stats().bytes();
            if ops.is_empty() {
                assert_eq!(mirrored.synchronize().unwrap(), all);
                assert_eq!(mirrored.synchronize().unwrap(), 0);
            } else {
                assert_eq!(mirrored.apply(ops).unwrap().bytes_sent, all);
            }
            check(&mirrored);
        }
    }

    #[test]
    fn leaves_far_apart_are_sent_apart() {
        let all = |leaves: &[u32], gap| spans(leaves, gap).map(|span| (span.start, span.end)).collect::<Vec<_>>();
        assert_eq!(all(&[], 3), []);
        assert_eq!(all(&[4], 3), [(4, 5)]);
        assert_eq!(all(&[0, 1, 5, 10, 11], 3), [(0, 6), (10, 12)]);
        assert_eq!(all(&[0, 1, 5, 10, 11], 0), [(0, 2), (5, 6), (10, 12)]);
        assert_eq!(all(&[0, u32::MAX - 1], u32::MAX), [(0, u32::MAX)]);
    }

    #[test]
    fn a_tree_that_is_not_on_the_host_is_refused() {
        let tree = Harmonia::build(&Device::emulated(), &[1_u64], &[1_u32]).unwrap();
        let error = Mirrored::new(tree, &Device::emulated()).unwrap_err();
        assert!(matches!(error, Error::NotOnHost { .. }), "{error}");
    }
}
