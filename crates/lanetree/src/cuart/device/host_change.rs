//! Host batches of changes on a device.

use super::engine::UpdateEngine;
use super::update::ChangeScratch;
use crate::Result;
use crate::byte_keys::{ByteKeysBuf, DeviceKeys};
use crate::cuart::update::Batch;
use crate::cuart::{Cuart, UpdatePath, UpdateReport};
use crate::harmonia::Change;
use lanetree_layout::Word;

impl<V: Word> Cuart<V> {
    /// Carries out a batch that was brought to one change for each key. What may fail for want of memory comes
    /// first, before anything is changed.
    pub(in crate::cuart) fn change_across(&mut self, batch: &Batch<'_, V>) -> Result<UpdateReport> {
        let (mut puts, mut updates, mut removals) = (Vec::new(), Vec::new(), Vec::new());
        let (mut put_values, mut update_values) = (Vec::new(), Vec::new());
        for (at, change) in batch.changes().iter().enumerate() {
            match *change {
                Change::Put(value) => {
                    puts.push(at);
                    put_values.push(value);
                }
                Change::PutIfPresent(value) => {
                    updates.push(at);
                    update_values.push(value);
                }
                Change::Remove => removals.push(at),
            }
        }
        let (device, stream) = (self.device.clone(), self.device.stream()?);
        let upload = |places: &[usize]| DeviceKeys::upload(&device, &ByteKeysBuf::pick(batch.keys(), places));
        let (put_keys, update_keys, removal_keys) = (upload(&puts)?, upload(&updates)?, upload(&removals)?);
        let (put_values, update_values) = (device.upload(&put_values)?, device.upload(&update_values)?);
        let most = puts.len().max(updates.len());
        // Keys are different: which engine writes does not matter.
        let mut scratch = ChangeScratch::for_inserts(&device, most, UpdateEngine::Auto)?;
        let mut found = device.alloc::<u32>(updates.len().div_ceil(32))?;
        let mut report = UpdateReport::default();
        let inserted = self.insert_on(&stream, &put_keys, &put_values, &mut scratch)?.inserted;
        (report.inserted, report.replaced) = (inserted, puts.len() as u64 - inserted);
        let mut changed = |tree: &mut Self| -> Result<_> {
            tree.update_on(&stream, &update_keys, &update_values, Some(&mut found), &mut scratch)?;
            let removed = tree.remove_on(&stream, &removal_keys)?;
            stream.synchronize()?;
            let updated: u64 = found.to_vec()?.iter().map(|word| u64::from(word.count_ones())).sum();
            Ok((updated, removed))
        };
        let (updated, removed) =
            changed(self).map_err(|error| if puts.is_empty() { error } else { self.lose(error) })?;
        report.replaced += updated;
        report.removed = removed;
        report.unmatched = updates.len() as u64 - updated + removals.len() as u64 - removed;
        if report.inserted + report.replaced + report.removed > 0 {
            report.path = UpdatePath::InPlace;
        }
        Ok(report)
    }
}
