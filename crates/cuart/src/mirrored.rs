//! The paper's pair (section 3.3): a tree that the CPU changes, and its copy that a device queries.

use super::parts::Parts;
use super::region::{FreeList, Region};
use super::update::{WrittenElements, of_ops, paired};
use super::{Cuart, Op, UpdatePath, UpdateReport};
use bytemuck::Pod;
use core::fmt;
use core::ops::Range;
use lanetree_frame::NetChange;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_frame::mirror::{GAP, MirrorReport};
use lanetree_frame::{Error, Result};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, DeviceKind};

/// A tree on the host, which is changed, and its copy on a device, which answers queries.
///
/// Between batches both hold the same pairs. A batch waits for the device's work in flight, and then sends what has
/// changed: nodes and leaves that were written, entries of the root table, and the lists of free nodes and leaves. So
/// the device's tree is complete, and can be changed itself once the pair is separated ([`Mirrored::into_trees`]).
///
/// ```
/// use lanetree::cuart::{Mirrored, Op};
/// use lanetree::{ByteKeysBuf, Cuart, Device};
///
/// # fn main() -> lanetree::Result<()> {
/// let words: ByteKeysBuf = ["car", "cart", "dog"].into_iter().collect();
/// let tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3])?;
/// let mut mirrored = Mirrored::new(tree, &Device::emulated())?;
/// let report = mirrored.apply(&[Op::Remove("car"), Op::Insert("cargo", 4)])?;
/// assert_eq!((report.update.inserted, report.update.removed), (1, 1));
/// assert_eq!(mirrored.device_tree().map(Cuart::len), Some(3));
/// # Ok(())
/// # }
/// ```
pub struct Mirrored<V: Word> {
    host: Cuart<V>,
    copy: Cuart<V>,
    in_sync: bool,
}

impl<V: Word> Mirrored<V> {
    /// Copies a tree of the host's to a device.
    ///
    /// # Errors
    /// [`Error::NotOnHost`] for a tree that is not on the host; [`Error::Runtime`] if the device has no room.
    pub fn new(host: Cuart<V>, device: &Device) -> Result<Self> {
        if host.device.kind() != DeviceKind::Host {
            return Err(Error::NotOnHost { device: host.device.to_string() });
        }
        let copy = host.to_device(device)?;
        Ok(Self { host, copy, in_sync: true })
    }

    /// The tree on the host.
    pub fn host_tree(&self) -> &Cuart<V> {
        &self.host
    }

    /// The tree on the device; `None` after an error of the device, until the next [`Mirrored::synchronize`] or batch.
    pub fn device_tree(&self) -> Option<&Cuart<V>> {
        self.in_sync.then_some(&self.copy)
    }

    /// Applies a batch to the host's tree, as [`Cuart::apply`] does, and sends the device what has changed.
    /// Returns when the device has it.
    ///
    /// # Errors
    /// As [`Cuart::apply`]; neither tree has changed then. [`Error::Runtime`] from the device: the host's tree has
    /// the batch then, and the device's is out of step. [`Mirrored::synchronize`] or the next batch sends it anew.
    pub fn apply<K: AsRef<[u8]>>(&mut self, ops: &[Op<K, V>]) -> Result<MirrorReport> {
        let (keys, change) = of_ops(ops);
        self.change(|host, changes| host.apply_each((&keys).into(), change, Some(changes)))
    }

    /// [`Cuart::insert_many`] on both trees.
    ///
    /// # Errors
    /// As [`Mirrored::apply`], and [`Error::LengthMismatch`].
    pub fn insert_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<MirrorReport> {
        let keys = paired(keys.into(), values)?;
        self.change(|host, changes| host.apply_each(keys, |i| NetChange::Put(values[i]), Some(changes)))
    }

    /// [`Cuart::update_many`] on both trees.
    ///
    /// # Errors
    /// As [`Mirrored::apply`], and [`Error::LengthMismatch`].
    pub fn update_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<MirrorReport> {
        let keys = paired(keys.into(), values)?;
        self.change(|host, changes| host.update_each(keys, values, Some(changes)))
    }

    /// [`Cuart::remove_many`] on both trees.
    ///
    /// # Errors
    /// As [`Mirrored::apply`].
    pub fn remove_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>) -> Result<MirrorReport> {
        let keys = keys.into();
        self.change(|host, changes| host.apply_each(keys, |_| NetChange::Remove, Some(changes)))
    }

    /// [`Cuart::compact`] of the host's tree, which is then sent whole; returns the bytes sent.
    ///
    /// # Errors
    /// As [`Mirrored::apply`].
    pub fn compact(&mut self) -> Result<u64> {
        if !self.host.is_compact() {
            self.host.compact()?;
            self.in_sync = false;
        }
        self.synchronize()
    }

    /// Sends the whole tree to the device if it is out of sync; returns the bytes sent.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the device.
    pub fn synchronize(&mut self) -> Result<u64> {
        if self.in_sync {
            return Ok(0);
        }
        self.copy.parts.replace(self.host.parts()?.to_device(&self.copy.device)?);
        self.in_sync = true;
        Ok(self.copy.stats().bytes())
    }

    /// Both trees; none on the device while it is out of sync.
    pub fn into_trees(self) -> (Cuart<V>, Option<Cuart<V>>) {
        (self.host, self.in_sync.then_some(self.copy))
    }

    fn change(
        &mut self,
        batch: impl FnOnce(&mut Cuart<V>, &mut WrittenElements) -> Result<UpdateReport>,
    ) -> Result<MirrorReport> {
        let mut changes = WrittenElements::default();
        let update = batch(&mut self.host, &mut changes)?;
        let in_sync = core::mem::replace(&mut self.in_sync, false);
        let bytes_sent = match update.path {
            UpdatePath::Unchanged if in_sync => 0,
            UpdatePath::InPlace if in_sync => self.send(changes)?,
            _ => self.synchronize()?,
        };
        self.in_sync = true;
        Ok(MirrorReport { update, bytes_sent })
    }

    fn send(&mut self, changes: WrittenElements) -> Result<u64> {
        let Self { host, copy, .. } = self;
        copy.device.synchronize()?;
        let host = host.parts()?;
        copy.parts.change_copy(|copy| send(host, copy, changes))
    }
}

/// Updates a copy of the tree from before some changes to the tree's current state. Returns the bytes sent.
fn send(host: &Parts, copy: &mut Parts, changes: WrittenElements) -> Result<u64> {
    let [n4, n16, n48, n256, leaf8, leaf16, leaf32, long] = changes.free.0;
    let (nodes, copies) = (&host.nodes, &mut copy.nodes);
    let mut sent = send_region(&nodes.n4, &mut copies.n4, changes.n4, n4)?;
    sent += send_region(&nodes.n16, &mut copies.n16, changes.n16, n16)?;
    sent += send_region(&nodes.n48, &mut copies.n48, changes.n48, n48)?;
    sent += send_region(&nodes.n256, &mut copies.n256, changes.n256, n256)?;
    let (leaves, copies) = (&host.leaves, &mut copy.leaves);
    sent += send_region(&leaves.leaf8, &mut copies.leaf8, changes.leaf8, leaf8)?;
    sent += send_region(&leaves.leaf16, &mut copies.leaf16, changes.leaf16, leaf16)?;
    sent += send_region(&leaves.leaf32, &mut copies.leaf32, changes.leaf32, leaf32)?;
    let to = &mut copies.long;
    sent += send_elements(&leaves.long.units, leaves.long.used, &mut to.units, changes.units)?;
    sent += send_free(&leaves.long.free, &mut to.free, long)?;
    (to.used, to.count, to.free_units) = (leaves.long.used, leaves.long.count, leaves.long.free_units);
    sent += send_spans(in_memory(&host.table), &mut copy.table, changes.table)?;
    if changes.host_leaves {
        copies.host = leaves.host.clone();
    }
    if copy.ordered && !host.ordered {
        copy.forget_order();
    }
    (copy.root, copy.len) = (host.root, host.len);
    Ok(sent)
}

/// Sends the elements that were changed, and the entries of the free list from one on.
fn send_region<T: Pod>(from: &Region<T>, to: &mut Region<T>, changed: Vec<u64>, free_from: usize) -> Result<u64> {
    let sent = send_elements(&from.buffer, from.used, &mut to.buffer, changed)?;
    to.used = from.used;
    Ok(sent + send_free(&from.free, &mut to.free, free_from)?)
}

/// Sends the used elements that were changed, or all used elements if there are more than the copy has room for.
fn send_elements<T: Pod>(from: &Buffer<T>, used: usize, to: &mut Buffer<T>, changed: Vec<u64>) -> Result<u64> {
    let elements = &in_memory(from)[..used];
    if used > to.len() {
        *to = to.device().alloc(from.len())?;
        to.copy_range_from(0, elements)?;
        return Ok(size_of_val(elements) as u64);
    }
    send_spans(elements, to, changed)
}

/// Sends the entries of a free list from a given one on, or all of them if there are more than the copy has room for.
fn send_free(from: &FreeList, to: &mut FreeList, changed_from: usize) -> Result<u64> {
    let entries = &in_memory(&from.indexes)[..from.len];
    let mut first = changed_from.min(from.len);
    if from.len > to.indexes.len() {
        to.indexes = to.indexes.device().alloc(from.indexes.len())?;
        first = 0;
    }
    to.indexes.copy_range_from(first, &entries[first..])?;
    to.len = from.len;
    Ok(size_of_val(&entries[first..]) as u64)
}

fn send_spans<T: Pod>(elements: &[T], to: &mut Buffer<T>, mut changed: Vec<u64>) -> Result<u64> {
    changed.sort_unstable();
    let mut sent = 0;
    for span in spans(&changed, GAP / size_of::<T>() as u64) {
        let part = &elements[span.clone()];
        to.copy_range_from(span.start, part)?;
        sent += size_of_val(part) as u64;
    }
    Ok(sent)
}

/// Ascending indexes as spans; indexes with at most `gap` others between them share a span.
fn spans(indexes: &[u64], gap: u64) -> impl Iterator<Item = Range<usize>> {
    let near = move |&a: &u64, &b: &u64| b - a <= gap.saturating_add(1);
    indexes.chunk_by(near).map(|span| span[0] as usize..span[span.len() - 1] as usize + 1)
}

fn in_memory<T: Pod>(buffer: &Buffer<T>) -> &[T] {
    buffer.as_slice().expect("a tree on the host is in main memory")
}

impl<V: Word> fmt::Debug for Mirrored<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mirrored[{:?}, {:?}{}]", self.host, self.copy, if self.in_sync { "" } else { ", out of step" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LongKeys, RootTable};
    use lanetree_frame::ByteKeysBuf;
    use lanetree_runtime::Failure;

    fn key(i: u32) -> Vec<u8> {
        let word = i.wrapping_mul(0x9e37_79b9).to_be_bytes();
        word.repeat(1 + (i % 11) as usize)
    }

    fn mirrored(count: u32, long_keys: LongKeys) -> Mirrored<u64> {
        let keys: ByteKeysBuf = (0..count).map(key).collect();
        let values: Vec<u64> = (0..u64::from(count)).collect();
        let builder = Cuart::builder().root_table(RootTable::TwoBytes).long_keys(long_keys);
        Mirrored::new(builder.build(&Device::host(), &keys, &values).unwrap(), &Device::emulated()).unwrap()
    }

    /// The used parts of both trees are the same, byte for byte.
    fn check(mirrored: &Mirrored<u64>) {
        let (host, copy) = (mirrored.host_tree(), mirrored.device_tree().unwrap());
        assert!(host.regions().unwrap() == copy.regions().unwrap());
        host.validate();
    }

    #[test]
    fn the_copy_follows() {
        for long_keys in [LongKeys::DeviceLeaves, LongKeys::HostLeaves] {
            let mut mirrored = mirrored(5000, long_keys);
            check(&mirrored);
            let all = mirrored.device_tree().unwrap().stats().bytes();
            let some = |range: Range<u32>| range.map(key).collect::<ByteKeysBuf>();

            // The only 8-byte-key leaf among these takes 16 bytes.
            let report = mirrored.update_many(&some(0..1), &[7]).unwrap();
            assert_eq!((report.update.replaced, report.bytes_sent), (1, 16));
            check(&mirrored);
            let report = mirrored.update_many(&some(0..50), &[8; 50]).unwrap();
            assert!(report.bytes_sent > 16 && report.bytes_sent < all, "{report:?} of {all}");
            check(&mirrored);
            assert!(mirrored.device_tree().unwrap().is_compact());

            let report = mirrored.remove_many(&some(100..101)).unwrap();
            assert!(report.bytes_sent > 0 && report.bytes_sent < 3000, "{report:?}");
            check(&mirrored);
            mirrored.insert_many(&some(4990..9000), &[9; 4010]).unwrap();
            check(&mirrored);
            mirrored.remove_many(&some(0..8990)).unwrap();
            check(&mirrored);
            assert_eq!(mirrored.apply::<&[u8]>(&[]).unwrap(), MirrorReport::default());
            mirrored.apply(&[Op::Insert(key(1), 1), Op::Remove(key(8999))]).unwrap();
            check(&mirrored);
            let report = mirrored.insert_many(&some(10_000..20_000), &[1; 10_000]).unwrap();
            assert_eq!(report.update.path, UpdatePath::Rebuilt);
            check(&mirrored);
            mirrored.remove_many(&some(10_000..20_000)).unwrap();
            check(&mirrored);

            assert_eq!(mirrored.compact().unwrap(), mirrored.device_tree().unwrap().stats().bytes());
            check(&mirrored);
            assert_eq!((mirrored.compact().unwrap(), mirrored.host_tree().len()), (0, 10));
        }
    }

    #[test]
    fn a_copy_out_of_step_is_sent_again() {
        let mut mirrored = mirrored(100, LongKeys::DeviceLeaves);
        // As after an error of the device.
        mirrored.host.remove_many(&[key(3)].into_iter().collect::<ByteKeysBuf>()).unwrap();
        mirrored.in_sync = false;
        assert!(mirrored.device_tree().is_none());
        let sent = mirrored.apply(&[Op::Insert(key(3), 3)]).unwrap().bytes_sent;
        assert_eq!(sent, mirrored.device_tree().unwrap().stats().bytes());
        check(&mirrored);
        assert_eq!(mirrored.synchronize().unwrap(), 0);
    }

    #[test]
    fn a_device_that_fails_is_out_of_step_until_it_is_sent_all() {
        for point in 0..100 {
            let mut mirrored = mirrored(300, LongKeys::DeviceLeaves);
            let keys: ByteKeysBuf = (200..500).map(key).collect();
            let kind = if point % 2 == 0 { Failure::Transfer } else { Failure::Allocation };
            mirrored.copy.device.inject(Some(kind(point / 2)));
            let result = mirrored.insert_many(&keys, &[5; 300]);
            let came = mirrored.copy.device.inject(None).is_none();
            assert_eq!(result.is_err(), came, "{result:?}");
            // The pair is not lost.
            assert!(!matches!(result, Err(Error::Lost { .. })), "{result:?}");
            assert_eq!(mirrored.device_tree().is_none(), came);
            assert_eq!(mirrored.host_tree().get_many(&keys).unwrap(), [Some(5); 300]);
            assert_eq!(mirrored.synchronize().unwrap() > 0, came);
            check(&mirrored);
            if point > 1 && !came {
                return;
            }
        }
        panic!("more than fifty copies");
    }

    #[test]
    fn elements_far_apart_are_sent_apart() {
        let all = |indexes: &[u64], gap| spans(indexes, gap).map(|span| (span.start, span.end)).collect::<Vec<_>>();
        assert_eq!(all(&[], 3), []);
        assert_eq!(all(&[0, 1, 1, 5, 10, 11], 3), [(0, 6), (10, 12)]);
        assert_eq!(all(&[4, 4], 0), [(4, 5)]);
    }
}
