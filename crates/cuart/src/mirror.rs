//! The paper's pair (section 3.3): a tree that the CPU changes, and its copy that a device queries.

use super::Cuart;
use super::parts::Parts;
use super::region::{FreeList, Region};
use super::update::{WrittenElements, of_ops, paired};
use bytemuck::Pod;
use lanetree_frame::parcel::Sender;
use lanetree_frame::{HostBatch, Mirror, NetChange, Result, UpdateReport};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device};

/// What is sent are the nodes and leaves that were written, entries of the root table, and the lists of free nodes and
/// leaves. So the copy is complete, and can be changed itself once the pair is separated.
impl<V: Word> Mirror for Cuart<V> {
    type Written = WrittenElements;

    fn to_device(&self, device: &Device) -> Result<Self> {
        self.to_device(device)
    }

    fn change(&mut self, batch: HostBatch<'_, Self>) -> Result<(UpdateReport, WrittenElements)> {
        let mut written = WrittenElements::default();
        let report = match batch {
            HostBatch::Apply(ops) => {
                let (keys, change) = of_ops(ops)?;
                self.apply_each((&keys).into(), change, Some(&mut written))
            }
            HostBatch::Insert(keys, values) => {
                self.apply_each(paired(keys, values)?, |i| NetChange::Put(values[i]), Some(&mut written))
            }
            HostBatch::Update(keys, values) => self.update_each(paired(keys, values)?, values, Some(&mut written)),
            HostBatch::Remove(keys) => self.apply_each(keys, |_| NetChange::Remove, Some(&mut written)),
        };
        Ok((report?, written))
    }

    fn send(&self, copy: &mut Self, written: WrittenElements, sender: &mut Sender) -> Result<u64> {
        let host = self.parts()?;
        copy.parts.change_copy(|copy| send(host, copy, written, sender))
    }

    fn send_all(&self, copy: &mut Self) -> Result<()> {
        copy.parts.replace(self.parts()?.to_device(&copy.device)?);
        Ok(())
    }
}

/// Updates a copy of the tree from before some changes to the tree's current state. Returns the bytes sent.
fn send(host: &Parts, copy: &mut Parts, changes: WrittenElements, sender: &mut Sender) -> Result<u64> {
    let [n4, n16, n48, n256, leaf8, leaf16, leaf32, long] = changes.free.0;
    let (nodes, copies) = (&host.nodes, &mut copy.nodes);
    let mut sent = send_region(&nodes.n4, &mut copies.n4, changes.n4, n4, sender)?;
    sent += send_region(&nodes.n16, &mut copies.n16, changes.n16, n16, sender)?;
    sent += send_region(&nodes.n48, &mut copies.n48, changes.n48, n48, sender)?;
    sent += send_region(&nodes.n256, &mut copies.n256, changes.n256, n256, sender)?;
    let (leaves, copies) = (&host.leaves, &mut copy.leaves);
    sent += send_region(&leaves.leaf8, &mut copies.leaf8, changes.leaf8, leaf8, sender)?;
    sent += send_region(&leaves.leaf16, &mut copies.leaf16, changes.leaf16, leaf16, sender)?;
    sent += send_region(&leaves.leaf32, &mut copies.leaf32, changes.leaf32, leaf32, sender)?;
    let to = &mut copies.long;
    sent += send_elements(&leaves.long.units, leaves.long.used, &mut to.units, changes.units, sender)?;
    sent += send_free(&leaves.long.free, &mut to.free, long)?;
    (to.used, to.count, to.free_units) = (leaves.long.used, leaves.long.count, leaves.long.free_units);
    sent += send_changed(in_memory(&host.table), &mut copy.table, changes.table, sender)?;
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
fn send_region<T: Pod + Sync>(
    from: &Region<T>,
    to: &mut Region<T>,
    changed: Vec<u64>,
    free_from: usize,
    sender: &mut Sender,
) -> Result<u64> {
    let sent = send_elements(&from.buffer, from.used, &mut to.buffer, changed, sender)?;
    to.used = from.used;
    Ok(sent + send_free(&from.free, &mut to.free, free_from)?)
}

/// Sends the used elements that were changed, or all used elements if there are more than the copy has room for.
fn send_elements<T: Pod + Sync>(
    from: &Buffer<T>,
    used: usize,
    to: &mut Buffer<T>,
    changed: Vec<u64>,
    sender: &mut Sender,
) -> Result<u64> {
    let elements = &in_memory(from)[..used];
    if used > to.len() {
        *to = to.device().alloc(from.len())?;
        to.copy_range_from(0, elements)?;
        return Ok(size_of_val(elements) as u64);
    }
    send_changed(elements, to, changed, sender)
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

fn send_changed<T: Pod + Sync>(
    elements: &[T],
    to: &mut Buffer<T>,
    mut changed: Vec<u64>,
    sender: &mut Sender,
) -> Result<u64> {
    changed.sort_unstable();
    sender.send(elements, 1, &changed, to)
}

fn in_memory<T: Pod>(buffer: &Buffer<T>) -> &[T] {
    buffer.as_slice().expect("a tree on the host is in main memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LongKeys, RootTable};
    use core::ops::Range;
    use lanetree_frame::{ByteKeysBuf, Error, MirrorReport, Mirrored, Op, UpdatePath};
    use lanetree_runtime::Failure;

    fn key(i: u32) -> Vec<u8> {
        let word = i.wrapping_mul(0x9e37_79b9).to_be_bytes();
        word.repeat(1 + (i % 11) as usize)
    }

    fn mirrored(count: u32, long_keys: LongKeys) -> Mirrored<Cuart<u64>> {
        let keys: ByteKeysBuf = (0..count).map(key).collect();
        let values: Vec<u64> = (0..u64::from(count)).collect();
        let builder = Cuart::builder().root_table(RootTable::TwoBytes).long_keys(long_keys);
        Mirrored::new(builder.build(&Device::host(), &keys, &values).unwrap(), &Device::emulated()).unwrap()
    }

    /// The used parts of both trees are the same, byte for byte.
    fn check(mirrored: &Mirrored<Cuart<u64>>) {
        let (host, copy) = (mirrored.host_index(), mirrored.device_index());
        assert!(host.regions().unwrap() == copy.regions().unwrap());
        host.validate();
    }

    #[test]
    fn the_copy_follows() {
        for long_keys in [LongKeys::DeviceLeaves, LongKeys::HostLeaves] {
            let mut mirrored = mirrored(5000, long_keys);
            check(&mirrored);
            let all = mirrored.device_index().stats().bytes();
            let some = |range: Range<u32>| range.map(key).collect::<ByteKeysBuf>();

            // The only 8-byte-key leaf among these takes 16 bytes.
            let report = mirrored.update_many((&some(0..1)).into(), &[7]).unwrap();
            assert_eq!((report.update.replaced, report.bytes_sent), (1, 16));
            check(&mirrored);
            let report = mirrored.update_many((&some(0..50)).into(), &[8; 50]).unwrap();
            assert!(report.bytes_sent > 16 && report.bytes_sent < all, "{report:?} of {all}");
            check(&mirrored);
            assert!(mirrored.device_index().is_compact());

            let report = mirrored.remove_many((&some(100..101)).into()).unwrap();
            assert!(report.bytes_sent > 0 && report.bytes_sent < 3000, "{report:?}");
            check(&mirrored);
            mirrored.insert_many((&some(4990..9000)).into(), &[9; 4010]).unwrap();
            check(&mirrored);
            mirrored.remove_many((&some(0..8990)).into()).unwrap();
            check(&mirrored);
            assert_eq!(mirrored.apply(&[]).unwrap(), MirrorReport::default());
            mirrored.apply(&[Op::Insert(key(1), 1), Op::Remove(key(8999))]).unwrap();
            check(&mirrored);
            let report = mirrored.insert_many((&some(10_000..20_000)).into(), &[1; 10_000]).unwrap();
            assert_eq!(report.update.path, UpdatePath::Rebuilt);
            check(&mirrored);
            mirrored.remove_many((&some(10_000..20_000)).into()).unwrap();
            check(&mirrored);

            assert_eq!(mirrored.restore_order().unwrap(), mirrored.device_index().stats().bytes());
            check(&mirrored);
            assert_eq!((mirrored.restore_order().unwrap(), mirrored.host_index().len()), (0, 10));
        }
    }

    #[test]
    fn a_copy_out_of_sync_is_sent_again() {
        let mut mirrored = mirrored(100, LongKeys::DeviceLeaves);
        mirrored.device_index().device.inject(Some(Failure::Transfer(0)));
        mirrored.remove_many((&[key(3)].into_iter().collect::<ByteKeysBuf>()).into()).unwrap_err();
        assert!(!mirrored.is_in_sync());
        let sent = mirrored.apply(&[Op::Insert(key(3), 3)]).unwrap().bytes_sent;
        assert_eq!(sent, mirrored.device_index().stats().bytes());
        check(&mirrored);
        assert_eq!(mirrored.synchronize().unwrap(), 0);
    }

    #[test]
    fn a_device_that_fails_is_out_of_sync_until_it_is_sent_all() {
        for point in 0..100 {
            let mut mirrored = mirrored(300, LongKeys::DeviceLeaves);
            let keys: ByteKeysBuf = (200..500).map(key).collect();
            let kind = if point % 2 == 0 { Failure::Transfer } else { Failure::Allocation };
            mirrored.device_index().device.inject(Some(kind(point / 2)));
            let result = mirrored.insert_many((&keys).into(), &[5; 300]);
            let came = mirrored.device_index().device.inject(None).is_none();
            assert_eq!(result.is_err(), came, "{result:?}");
            // The pair is not lost.
            assert!(!matches!(result, Err(Error::Lost { .. })), "{result:?}");
            assert_eq!(!mirrored.is_in_sync(), came);
            assert_eq!(mirrored.host_index().get_many(&keys).unwrap(), [Some(5); 300]);
            assert_eq!(mirrored.synchronize().unwrap() > 0, came);
            check(&mirrored);
            if point > 1 && !came {
                return;
            }
        }
        panic!("more than fifty copies");
    }
}
