//! The paper's pair: a tree that the CPU updates, and its copy, which a device queries.

use super::host::{self, Applied};
use super::{Op, UpdateReport};
use crate::Harmonia;
use crate::tuning::check_fanout;
use core::ops::Range;
use lanetree_frame::fixed::Staging;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::parcel::Sender;
use lanetree_frame::{Guarded, HostBatch, Mirror, Result, fold};
use lanetree_kernels_harmonia::layout::leaf_bytes;
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, Device, Stream};

impl<K: Key, V: Word> Harmonia<K, V> {
    /// A copy of the tree on a device, complete on return. From one device to another it goes through main memory.
    ///
    /// # Errors
    /// [`Error::Lost`](lanetree_frame::Error::Lost); [`Error::Feature`](lanetree_frame::Error::Feature) for a fanout without
    /// kernels in this build; [`Error::Runtime`](lanetree_frame::Error::Runtime) from the devices.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        fn copy<T: Word>(from: &Buffer<T>, device: &Device) -> Result<Buffer<T>> {
            Ok(match from.as_slice() {
                Some(elements) => device.upload(elements)?,
                None => device.upload(&from.to_vec()?)?,
            })
        }
        self.whole.check()?;
        check_fanout(device, self.shape.fanout)?;
        Ok(Self {
            lens: None,
            staging: Staging::default(),
            changes: Default::default(),
            whole: Guarded::default(),
            device: device.clone(),
            shape: self.shape,
            inner: copy(&self.inner, device)?,
            prefix_sum: copy(&self.prefix_sum, device)?,
            leaves: copy(&self.leaves, device)?,
            ranks: self.ranks.as_ref().map(|ranks| copy(ranks, device)).transpose()?,
            words: self.words,
        })
    }
}

/// What is sent are the leaves changed in place, and, if lengths have changed, the ranks after the first of them.
impl<K: Key, V: Word> Mirror for Harmonia<K, V> {
    type Written = Applied<K::Bits, V>;

    fn to_device(&self, device: &Device) -> Result<Self> {
        self.to_device(device)
    }

    fn change(&mut self, batch: HostBatch<'_, Self>) -> Result<(UpdateReport, Self::Written)> {
        let changes = match batch {
            HostBatch::Apply(ops) => fold(ops.len(), |i| ops[i]),
            HostBatch::Insert(keys, values) => {
                check_lengths(keys, values)?;
                fold(keys.len(), |i| Op::Insert(keys[i], values[i]))
            }
            HostBatch::Update(keys, values) => {
                check_lengths(keys, values)?;
                fold(keys.len(), |i| Op::Update(keys[i], values[i]))
            }
            HostBatch::Remove(keys) => fold(keys.len(), |i| Op::Remove(keys[i])),
        };
        let applied = host::apply(self, &changes?)?;
        Ok((applied.report, applied))
    }

    fn send(&self, copy: &mut Self, written: Self::Written, sender: &mut Sender) -> Result<u64> {
        let leaves = written.leaves()?;
        let moves = written.report.inserted + written.report.removed > 0;
        // Allocate all memory before the first change.
        let new_ranks = match (&self.ranks, &copy.ranks) {
            (Some(ranks), None) if moves => Some(copy.device.alloc(ranks.len())?),
            _ => None,
        };
        let bytes = leaf_bytes::<K::Bits, V>(self.shape.fanout);
        let Self { leaves: copied, ranks: copied_ranks, shape, whole, .. } = copy;
        // If sending fails, nobody may read a state between two batches.
        whole.change_copy(|()| {
            let in_memory = self.leaves.as_slice().expect("the tree is on the host");
            let mut sent = sender.send(in_memory, (bytes / 8) as usize, &leaves, copied)?;
            if moves {
                let ranks = self.ranks.as_ref().expect("leaves of changed lengths have ranks");
                // A leaf's own rank does not depend on its length.
                let from = if copied_ranks.is_some() { leaves[0] as usize + 1 } else { 0 };
                *copied_ranks = copied_ranks.take().or(new_ranks);
                let to = copied_ranks.as_mut().expect("made above, where there were none");
                sent += send(ranks, from..ranks.len(), to)?;
            }
            *shape = self.shape;
            Ok(sent)
        })
    }

    fn send_all(&self, copy: &mut Self) -> Result<()> {
        let staging = core::mem::take(&mut copy.staging);
        *copy = Self { staging, ..self.to_device(&copy.device)? };
        Ok(())
    }

    fn duplicate(&self) -> Result<Option<Self>> {
        fn buffer<T: Word>(from: &Buffer<T>, stream: &Stream) -> Result<Buffer<T>> {
            let mut to = from.device().alloc(from.len())?;
            to.copy_from_buffer(stream, 0, from, 0..from.len())?;
            Ok(to)
        }
        self.whole.check()?;
        let stream = self.device.stream()?;
        let copy = Self {
            lens: None,
            staging: Staging::default(),
            changes: Default::default(),
            whole: Guarded::default(),
            device: self.device.clone(),
            shape: self.shape,
            inner: buffer(&self.inner, &stream)?,
            prefix_sum: buffer(&self.prefix_sum, &stream)?,
            leaves: buffer(&self.leaves, &stream)?,
            ranks: self.ranks.as_ref().map(|ranks| buffer(ranks, &stream)).transpose()?,
            words: self.words,
        };
        stream.synchronize()?;
        Ok(Some(copy))
    }
}

fn send<T: Word>(from: &Buffer<T>, range: Range<usize>, to: &mut Buffer<T>) -> Result<u64> {
    let from = &in_memory(from)[range.clone()];
    to.copy_range_from(range.start, from)?;
    Ok(size_of_val(from) as u64)
}

fn in_memory<T: Word>(buffer: &Buffer<T>) -> &[T] {
    buffer.as_slice().expect("a tree on the host is in main memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_frame::{Error, MirrorReport, Mirrored, UpdatePath};
    use lanetree_runtime::Failure;

    fn mirrored(count: u64, fill: f64, device: &Device) -> Mirrored<Harmonia<u64, u32>> {
        let keys: Vec<u64> = (0..count).map(|i| i * 10).collect();
        let values: Vec<u32> = (0..count as u32).collect();
        let host = Harmonia::builder().fanout(8).fill(fill).build_sorted(&Device::host(), &keys, &values).unwrap();
        Mirrored::new(host, device).unwrap()
    }

    /// Both trees are the same, byte for byte, and valid.
    fn check(mirrored: &Mirrored<Harmonia<u64, u32>>) {
        let (host, copy) = (mirrored.host_index(), mirrored.device_index());
        assert!(mirrored.is_in_sync());
        assert_eq!(host.shape, copy.shape);
        assert_eq!(host.leaves.to_vec().unwrap(), copy.leaves.to_vec().unwrap());
        assert_eq!(host.inner.to_vec().unwrap(), copy.inner.to_vec().unwrap());
        let ranks = |tree: &Harmonia<u64, u32>| tree.ranks.as_ref().map(|ranks| ranks.to_vec().unwrap());
        assert_eq!(ranks(host), ranks(copy));
        copy.check_structure();
    }

    #[test]
    fn the_copy_follows_whichever_way_a_batch_takes() {
        let mut mirrored = mirrored(3000, 0.6, &Device::emulated());
        check(&mirrored);
        let all = mirrored.device_index().stats().bytes();

        let report = mirrored.update_many(&[50, 5010, 7], &[1, 2, 3]).unwrap();
        assert_eq!((report.update.path, report.update.replaced), (UpdatePath::InPlace, 2));
        assert!(report.bytes_sent > 0 && report.bytes_sent < all / 2, "{report:?}, all {all}");
        check(&mirrored);
        assert_eq!(mirrored.device_index().get_many(&[50, 5010, 7]).unwrap(), [Some(1), Some(2), None]);

        // Lengths change: the ranks are new, and sent whole; the next time, from the first leaf on.
        let report = mirrored.insert_many(&[29_001], &[4]).unwrap();
        assert_eq!(report.update.path, UpdatePath::InPlace);
        check(&mirrored);
        let report = mirrored.insert_many(&[29_981], &[5]).unwrap();
        assert!(report.bytes_sent < 200, "{report:?}");
        check(&mirrored);
        assert_eq!(mirrored.device_index().lower_bound_many(&[29_001, 29_002, 29_982]).unwrap(), [2901, 2902, 3001]);

        // The key region moves.
        let keys: Vec<u64> = (0..200).map(|i| i * 3 + 1).collect();
        let report = mirrored.insert_many(&keys, &[6; 200]).unwrap();
        assert_eq!(report.update.path, UpdatePath::Moved);
        assert_eq!(report.bytes_sent, mirrored.device_index().stats().bytes());
        check(&mirrored);

        assert_eq!(mirrored.apply(&[]).unwrap(), MirrorReport::default());
        let all: Vec<u64> = mirrored.host_index().iter().map(|pair| pair.unwrap().0).collect();
        assert_eq!(mirrored.remove_many(&all).unwrap().bytes_sent, 0);
        check(&mirrored);
        assert_eq!(mirrored.device_index().get_many(&[50]).unwrap(), [None]);
        assert_eq!(mirrored.apply(&[Op::Insert(9, 9)]).unwrap().update.path, UpdatePath::Rebuilt);
        check(&mirrored);
        assert_eq!(mirrored.device_index().get_many(&[9]).unwrap(), [Some(9)]);
    }

    #[test]
    fn who_keeps_a_version_keeps_its_pairs() {
        for device in [Device::emulated(), Device::host()] {
            let mut mirrored = mirrored(500, 0.6, &device);
            let first = mirrored.device_index().clone();
            let sent = mirrored.update_many(&[0], &[77]).unwrap().bytes_sent;
            assert_eq!(sent, 8 * 12, "the second buffers are filled on the device");
            check(&mirrored);
            let second = mirrored.device_index().clone();
            mirrored.insert_many(&(0..400).map(|i| i * 5 + 1).collect::<Vec<_>>(), &[1; 400]).unwrap();
            check(&mirrored);
            assert_eq!((first.len(), second.len(), mirrored.device_index().len()), (500, 500, 900));
            assert_eq!(first.get_many(&[0, 1]).unwrap(), [Some(0), None]);
            assert_eq!(second.get_many(&[0, 1]).unwrap(), [Some(77), None]);
            assert_eq!(mirrored.device_index().get_many(&[0, 1]).unwrap(), [Some(77), Some(1)]);
        }
    }

    #[test]
    fn a_copy_out_of_sync_is_sent_again() {
        for ops in [&[][..], &[Op::Update(10, 5)], &[Op::Update(1, 5)]] {
            let mut mirrored = mirrored(100, 1.0, &Device::emulated());
            mirrored.device_index().device.inject(Some(Failure::Transfer(0)));
            mirrored.update_many(&[30], &[33]).unwrap_err();
            assert!(!mirrored.is_in_sync());
            let all = mirrored.device_index().stats().bytes();
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
    fn a_tree_that_is_not_on_the_host_is_refused() {
        let tree = Harmonia::build(&Device::emulated(), &[1_u64], &[1_u32]).unwrap();
        let error = Mirrored::new(tree, &Device::emulated()).unwrap_err();
        assert!(matches!(error, Error::NotOnHost { .. }), "{error}");
    }
}
