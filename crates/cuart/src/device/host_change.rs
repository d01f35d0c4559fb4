//! Host batches of changes on a device.

use super::batch::UpdateBatch;
use super::change_scratch::ChangeScratch;
use super::engine::{self, UpdateEngine};
use super::supply::{Inserts, Removals};
use crate::Cuart;
use crate::update::NetBatch;
use lanetree_frame::NetChange;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::{ByteKeysBuf, DeviceKeys};
use lanetree_frame::room::{push, zeroed};
use lanetree_frame::{UpdatePath, UpdateReport};
use lanetree_kernels_cuart::layout::MAX_KEY;
use lanetree_layout::Word;

impl<V: Word> Cuart<V> {
    /// Applies a batch that was reduced to one change per key. Everything that may fail for lack of memory is done
    /// before anything is changed; a failure of the device after that loses the tree.
    pub(crate) fn change_across(&mut self, batch: &NetBatch<'_, V>) -> Result<UpdateReport> {
        let tree = self.parts.get_mut()?;
        let (mut puts, mut updates, mut removals) = (Vec::new(), Vec::new(), Vec::new());
        let (mut put_values, mut update_values) = (Vec::new(), Vec::new());
        let mut report = UpdateReport::default();
        for (at, change) in batch.changes().iter().enumerate() {
            match *change {
                NetChange::Put(value) => {
                    push(&mut puts, at)?;
                    push(&mut put_values, value)?;
                }
                // No tree has such a key, and no kernel knows its length.
                _ if batch.keys().at(at).len() > MAX_KEY => report.unmatched += 1,
                NetChange::PutIfPresent(value) => {
                    push(&mut updates, at)?;
                    push(&mut update_values, value)?;
                }
                NetChange::Remove => push(&mut removals, at)?,
            }
        }
        if puts.len() + updates.len() + removals.len() == 0 {
            return Ok(report);
        }
        tree.check_on_device("a batch of changes on a device")?;
        let (device, stream) = (&self.device, &self.device.stream()?);
        let upload = |places: &[usize]| DeviceKeys::upload(device, &ByteKeysBuf::pick(batch.keys(), places)?);
        let (put_keys, update_keys, removal_keys) = (upload(&puts)?, upload(&updates)?, upload(&removals)?);
        let (put_values, update_values) = (device.upload(&put_values)?, device.upload(&update_values)?);
        let most = puts.len().max(updates.len());
        // Keys are distinct, so it does not matter which engine writes.
        let mut scratch = ChangeScratch::for_inserts(device, most, UpdateEngine::Auto)?;
        let mut found = device.alloc::<u32>(updates.len().div_ceil(32))?;
        let mut found_here = zeroed::<u32>(found.len())?;
        let inserts = match puts.len() {
            0 => None,
            _ => Some(Inserts::plan(tree, &self.options, stream, &put_keys, &mut scratch)?),
        };
        let removal = match removals.len() {
            0 => None,
            count => Some(Removals::plan(tree, stream, count)?),
        };
        if inserts.is_none() {
            engine::reserve::<V>(tree, &scratch.engine, false)?;
        }
        self.parts.change(|tree| {
            if let Some(inserts) = inserts {
                let mut batch = UpdateBatch::new(stream, &put_keys, &put_values, None)?;
                report.inserted = inserts.carry_out(tree, stream, &mut batch, &mut scratch)?;
                report.replaced = puts.len() as u64 - report.inserted;
            }
            if !updates.is_empty() {
                let mut batch = UpdateBatch::new(stream, &update_keys, &update_values, Some(&mut found))?;
                let begun = engine::begin(tree, stream, &mut batch, &mut scratch.engine)?;
                engine::finish(tree, stream, &batch, begun, &mut scratch.engine)?;
            }
            if let Some(removal) = removal {
                report.removed = removal.carry_out(tree, stream, &removal_keys)?;
            }
            stream.synchronize()?;
            found.copy_to(&mut found_here)?;
            let updated: u64 = found_here.iter().map(|word| u64::from(word.count_ones())).sum();
            report.replaced += updated;
            report.unmatched += (updates.len() + removals.len()) as u64 - updated - report.removed;
            Ok(())
        })?;
        if report.inserted + report.replaced + report.removed > 0 {
            report.path = UpdatePath::InPlace;
        }
        Ok(report)
    }
}
