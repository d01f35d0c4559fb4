//! WrittenElements of a tree on a device, in device form.

use super::batch::UpdateBatch;
use super::change_scratch::ChangeScratch;
use super::engine;
use super::supply::{Inserts, Removals};
use crate::{Cuart, LongKeys};
use lanetree_frame::byte_keys::DeviceKeys;
use lanetree_frame::error::same_device;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::layout::MAX_FIXED;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Stream};

impl<V: Word> Cuart<V> {
    /// Replaces the values of keys that are present; of several operations on a key, the last one wins. `hits` as in
    /// [`OnStream::get`](super::OnStream::get).
    ///
    /// Runs in the stream's order and may return before it is done. Look-ups in other streams see the tree as before
    /// the batch or after it. Allocates nothing, except with [`UpdateEngine::Stamps`](crate::UpdateEngine::Stamps) the first time and after inserts.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a buffer or scratch memory that is too small; [`Error::UpdateEngine`] for an engine
    /// that cannot serve this tree; [`Error::NotOnDevice`], [`Error::LeavesInMainMemory`]; [`Error::Runtime`]: the tree
    /// is unchanged. [`Error::Lost`] if the device failed while values were written, or before this call. If a kernel
    /// fails after the call has returned, the next call that waits reports it, as for any kernel: nothing on the device
    /// can be used then.
    pub fn update_on(
        &mut self,
        stream: &Stream,
        keys: &DeviceKeys,
        values: &Buffer<V>,
        hits: Option<&mut Buffer<u32>>,
        scratch: &mut ChangeScratch,
    ) -> Result<()> {
        self.check_change("Cuart::update_on", stream, keys, values, scratch)?;
        if let Some(hits) = &hits {
            self.on(stream).check("the hit mask's buffer", keys.len().div_ceil(32), hits)?;
        }
        if keys.is_empty() {
            return Ok(());
        }
        let memory = &mut scratch.engine;
        let mut batch = UpdateBatch::new(stream, keys, values, hits)?;
        let begun = engine::begin(self.parts.get_mut()?, stream, &mut batch, memory)?;
        self.parts.change(|tree| engine::finish(tree, stream, &batch, begun, memory))
    }

    /// Inserts pairs, and returns how many keys were not there before; if a key is present, its value is replaced. Of several
    /// operations on a key, the last one wins.
    ///
    /// Missing keys get leaves first, all at the same time, in nodes that grow and paths that are split (the
    /// paper's future work, section 5.1); then all values are written, as by [`Cuart::update_on`]. Allocates if buffers
    /// have to grow, by at least an eighth, and returns when it is done. Look-ups in other streams see the tree as
    /// before the batch or after it. Afterwards the tree has no ranks: see [`Cuart::compact`].
    ///
    /// If keys are inserted under a node whose keys were all removed, along a path of more than 12 bytes that no other
    /// keys share, the tree is rebuilt. That takes time, and memory for both trees.
    ///
    /// # Errors
    /// As [`Cuart::update_on`]; [`Error::KeyTooLong`] for a key of more than 32 bytes with [`LongKeys::Refuse`];
    /// [`Error::Runtime`] if there is no room: the tree is unchanged. [`Error::Lost`] where the device failed when the
    /// tree was written; among others, if there is no room to rebuild it.
    pub fn insert_on(
        &mut self,
        stream: &Stream,
        keys: &DeviceKeys,
        values: &Buffer<V>,
        scratch: &mut ChangeScratch,
    ) -> Result<u64> {
        self.check_change("Cuart::insert_on", stream, keys, values, scratch)?;
        self.check_long(keys)?;
        if keys.is_empty() {
            return Ok(0);
        }
        let inserts = Inserts::plan(self.parts.get_mut()?, &self.options, stream, keys, scratch)?;
        let mut batch = UpdateBatch::new(stream, keys, values, None)?;
        self.parts.change(|tree| {
            let inserted = inserts.carry_out(tree, stream, &mut batch, scratch)?;
            stream.synchronize()?;
            Ok(inserted)
        })
    }

    /// Removes keys, and returns how many were present. Leaves of keys of at most 32 bytes are cleared and reused by
    /// inserts; nodes and other leaves stay (section 3.3 of the paper) until [`Cuart::compact`]. Returns when it is
    /// done. Look-ups in other streams see the tree as before the batch or after it.
    ///
    /// # Errors
    /// [`Error::NotOnDevice`], [`Error::LeavesInMainMemory`]; [`Error::Runtime`] if there is no room for the list of
    /// free leaves: the tree is unchanged. [`Error::Lost`] if the device failed while the tree was written, or before.
    pub fn remove_on(&mut self, stream: &Stream, keys: &DeviceKeys) -> Result<u64> {
        self.check_place("Cuart::remove_on", stream, keys)?;
        if keys.is_empty() || self.is_empty() {
            return Ok(0);
        }
        let removals = Removals::plan(self.parts.get_mut()?, stream, keys.len())?;
        self.parts.change(|tree| removals.carry_out(tree, stream, keys))
    }

    /// Replaces the values of keys that are present, and removes those whose value is `nil`: updates and removals in one
    /// batch, by the paper's engine for both (its section 3.4). Of several operations on a key, the last one wins, and
    /// only keys that were present before the batch count: a removal that an update follows removes nothing. Returns how
    /// many keys were removed, and when it is done. What was removed is as after [`Cuart::remove_on`].
    ///
    /// ```
    /// use lanetree::cuart::{ChangeScratch, UpdateEngine};
    /// use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let stream = device.stream()?;
    /// let mut tree = Cuart::build(&device, &ByteKeysBuf::encode(&[3_u32, 5]), &[30_u32, 50])?;
    /// let batch = DeviceKeys::upload(&device, &ByteKeysBuf::encode(&[3_u32, 5, 3]))?;
    /// let mut scratch = ChangeScratch::for_updates(&device, 3, UpdateEngine::HashTable)?;
    /// let nil = u32::MAX;
    /// let values = device.upload(&[31, 51, nil])?;
    /// assert_eq!(tree.update_or_remove_on(&stream, &batch, &values, nil, &mut scratch)?, 1);
    /// assert_eq!(tree.get_many(&ByteKeysBuf::encode(&[3_u32, 5]))?, [None, Some(51)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Cuart::update_on`] and [`Cuart::remove_on`]; [`Error::UpdateEngine`] unless the engine is
    /// [`UpdateEngine::HashTable`](crate::UpdateEngine::HashTable), and for a batch that is longer than a piece of it,
    /// which [`ChangeScratch::one_table`] makes as long as the batch.
    pub fn update_or_remove_on(
        &mut self,
        stream: &Stream,
        keys: &DeviceKeys,
        values: &Buffer<V>,
        nil: V,
        scratch: &mut ChangeScratch,
    ) -> Result<u64> {
        self.check_change("Cuart::update_or_remove_on", stream, keys, values, scratch)?;
        let memory = &mut scratch.engine;
        engine::check_removals(memory, keys.len())?;
        if keys.is_empty() || self.is_empty() {
            return Ok(0);
        }
        let removals = Removals::plan(self.parts.get_mut()?, stream, keys.len())?;
        let mut batch = UpdateBatch::new(stream, keys, values, None)?;
        engine::begin(self.parts.get_mut()?, stream, &mut batch, memory)?;
        self.parts.change(|tree| {
            removals.carry_out_by(tree, stream, keys, |launch, remove| {
                engine::conquer_or_remove(stream, &batch, nil, memory, (launch, remove))
            })
        })
    }

    fn check_change(
        &self,
        call: &'static str,
        stream: &Stream,
        keys: &DeviceKeys,
        values: &Buffer<V>,
        scratch: &ChangeScratch,
    ) -> Result<()> {
        self.check_place(call, stream, keys)?;
        self.on(stream).check("the values' buffer", keys.len(), values)?;
        if scratch.operations < keys.len() {
            let (expected, actual) = (keys.len(), scratch.operations);
            return Err(Error::OutputLength { what: "the scratch memory", expected, actual });
        }
        same_device(&self.device, scratch.engine.device(), "the scratch memory")?;
        scratch.engine.check::<V>(self.parts()?, false)
    }

    fn check_place(&self, call: &'static str, stream: &Stream, keys: &DeviceKeys) -> Result<()> {
        let tree = self.parts()?;
        self.on(stream).check_keys(keys)?;
        tree.check_on_device(call)
    }

    /// Checks that the width of the keys is one that the tree may hold. Keys of different lengths are counted when
    /// their inserts are planned.
    fn check_long(&self, keys: &DeviceKeys) -> Result<()> {
        match keys.width() {
            Some(len) if len > MAX_FIXED && !keys.is_empty() && self.options.long() == LongKeys::Refuse => {
                Err(Error::KeyTooLong { index: 0, len, max: MAX_FIXED })
            }
            _ => Ok(()),
        }
    }
}
