//! Changes of a tree on a device, in device form.

use super::engine::{self, Batch, UpdateEngine};
use super::supply::{Inserts, Removals};
use super::{over, supply};
use crate::parts::Parts;
use crate::{Builder, Cuart, LongKeys};
use lanetree_frame::byte_keys::DeviceKeys;
use lanetree_frame::error::same_device;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::MAX_FIXED;
use lanetree_kernels_cuart::update::{CountLeavesArgs, LocateArgs};
use lanetree_layout::Word;
use lanetree_primitives::{Keys, KeysMut, SelectScratch, partition_keys};
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, GlobalMut};

/// Scratch memory of changes in device form, for batches of up to a number of operations, reusable for the next batch.
#[derive(Debug)]
pub struct ChangeScratch {
    pub(super) operations: usize,
    pub(super) engine: engine::Memory,
    pub(super) inserting: Option<Inserting>,
}

/// What inserts need beyond updates.
#[derive(Debug)]
pub(super) struct Inserting {
    found: Buffer<u32>,
    positions: Buffer<u32>,
    parted: Buffer<u32>,
    counts: Buffer<u64>,
    select: SelectScratch,
}

impl ChangeScratch {
    /// For updates by an engine, and removals: [`UpdateEngine`] says what each engine takes.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room; [`Error::TooManyOperations`] from 2^31 operations on.
    pub fn for_updates(device: &Device, operations: usize, engine: UpdateEngine) -> Result<Self> {
        if operations >= 1 << 31 {
            return Err(Error::TooManyOperations { operations });
        }
        Ok(Self { operations, engine: engine::Memory::new(device, operations, engine)?, inserting: None })
    }

    /// For inserts too: 8 bytes more for each operation.
    ///
    /// # Errors
    /// As [`ChangeScratch::for_updates`].
    pub fn for_inserts(device: &Device, operations: usize, engine: UpdateEngine) -> Result<Self> {
        let scratch = Self::for_updates(device, operations, engine)?;
        let positions: Vec<u32> = (0..operations as u32).collect();
        let inserting = Inserting {
            found: device.alloc(operations.div_ceil(32))?,
            positions: device.upload(&positions)?,
            parted: device.alloc(operations)?,
            counts: device.alloc(4)?,
            select: SelectScratch::new(device, operations)?,
        };
        Ok(Self { inserting: Some(inserting), ..scratch })
    }

    /// For tests: [`UpdateEngine::Auto`] processes batches of at least `from` operations in the order of their keys'
    /// first bytes.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room for 16 bytes more for each operation.
    #[doc(hidden)]
    pub fn order_from(mut self, from: usize) -> Result<Self> {
        self.engine.order_from(self.operations, from)?;
        Ok(self)
    }

    /// For tests: [`UpdateEngine::HashTable`] uses pieces of at most this many operations.
    #[doc(hidden)]
    #[must_use]
    pub fn pieces_of(mut self, operations: usize) -> Self {
        self.engine.pieces_of(operations);
        self
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let inserting = self.inserting.as_ref().map_or(0, |it| {
            it.found.bytes() + it.positions.bytes() + it.parted.bytes() + it.counts.bytes() + it.select.bytes()
        });
        self.engine.bytes() + inserting
    }
}

/// What a batch of inserts did to a tree on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertReport {
    /// Keys that were not there, and are.
    pub inserted: u64,
    /// Nodes that were copied into larger ones.
    pub grown: u64,
}

impl<V: Word> Cuart<V> {
    /// Replaces the values of keys that are present; of several operations on a key, the last one wins. `found` as in
    /// [`OnStream::get`](super::OnStream::get).
    ///
    /// Runs in the stream's order and may return before it is done. Look-ups in other streams see the tree as before
    /// the batch or after it. Allocates nothing, except with [`UpdateEngine::Stamps`] the first time and after inserts.
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
        found: Option<&mut Buffer<u32>>,
        scratch: &mut ChangeScratch,
    ) -> Result<()> {
        self.check_change("Cuart::update_on", stream, keys, values, scratch)?;
        if let Some(found) = &found {
            self.on(stream).check("the hit mask's buffer", keys.len().div_ceil(32), found)?;
        }
        if keys.is_empty() {
            return Ok(());
        }
        let memory = &mut scratch.engine;
        let mut batch = Batch::new(stream, keys, values, found)?;
        let begun = engine::begin(self.parts.get_mut()?, stream, &mut batch, memory)?;
        self.parts.change(|tree| engine::finish(tree, stream, &batch, begun, memory))
    }

    /// Inserts pairs; if a key is present, its value is replaced. Of several operations on a key, the last one wins.
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
    /// tree was written; among others, if there is no room to build it anew.
    pub fn insert_on(
        &mut self,
        stream: &Stream,
        keys: &DeviceKeys,
        values: &Buffer<V>,
        scratch: &mut ChangeScratch,
    ) -> Result<InsertReport> {
        self.check_change("Cuart::insert_on", stream, keys, values, scratch)?;
        self.check_long(keys)?;
        if keys.is_empty() {
            return Ok(InsertReport::default());
        }
        let inserts = Inserts::plan(self.parts.get_mut()?, &self.options, stream, keys, scratch)?;
        let mut batch = Batch::new(stream, keys, values, None)?;
        self.parts.change(|tree| {
            let report = inserts.carry_out(tree, stream, &mut batch, scratch)?;
            stream.synchronize()?;
            Ok(report)
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
            let (expected, found) = (keys.len(), scratch.operations);
            return Err(Error::OutputLength { what: "the scratch memory", expected, found });
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

/// Keys of a batch that are not in the tree.
pub(super) struct Missing {
    /// The index of the first of them among the scratch memory's picks.
    first: usize,
    pub(super) count: usize,
    /// The most leaves of each size that they need, and units of dynamically sized leaves.
    pub(super) leaves: [u64; 4],
}

impl Missing {
    /// Which keys of the batch they are, for kernels launched next on the stream.
    pub(super) fn picks(&self, stream: &Stream, scratch: &Inserting) -> Result<Global<u32>> {
        Ok(scratch.parted.read_on(stream)?.byte_add(4 * self.first as u64))
    }
}

/// Finds the keys of a batch that are not in the tree; waits for the stream.
///
/// # Errors
/// [`Error::KeyTooLong`] for one that the tree may not hold.
pub(super) fn find_missing<V: Word>(
    tree: &Parts,
    options: &Builder<V>,
    stream: &Stream,
    keys: &DeviceKeys,
    scratch: &mut Inserting,
) -> Result<Missing> {
    let count = keys.len();
    let args = LocateArgs {
        tree: tree.tree_ref(stream)?,
        queries: keys.keys_ref(stream)?,
        picks: Global::null(),
        count: count as u64,
        links: GlobalMut::null(),
        found: scratch.found.write_on(stream)?,
    };
    // SAFETY: the tree is valid and without leaves in main memory; there are that many queries, and a hit mask for
    // them.
    unsafe { over(stream, count)?.run(calls::locate(tree.query_words(), &args))? };
    let input = Keys { keys: &scratch.positions, count: count.into() };
    let output = KeysMut { keys: &mut scratch.parted, count: &mut scratch.counts };
    // Those that were found come first.
    partition_keys(stream, input, &scratch.found, output, &mut scratch.select)?;
    let mut found = [0];
    stream.synchronize()?;
    scratch.counts.copy_range_to(0, &mut found)?;
    let first = found[0] as usize;
    let mut missing = Missing { first, count: count - first, leaves: [0; 4] };
    match keys.width() {
        _ if missing.count == 0 => {}
        Some(width) if width <= MAX_FIXED => missing.leaves[supply::leaf_number(width)] = missing.count as u64,
        _ => {
            scratch.counts.fill_zero(stream)?;
            let picks = missing.picks(stream, scratch)?;
            let (queries, counts) = (keys.keys_ref(stream)?, scratch.counts.write_on(stream)?);
            let args = CountLeavesArgs { queries, picks, count: missing.count as u64, counts };
            // SAFETY: that many picks of the batch's queries, and a counter for each kind of leaves.
            unsafe { over(stream, missing.count)?.run(calls::count_leaves(&args))? };
            stream.synchronize()?;
            scratch.counts.copy_to(&mut missing.leaves)?;
        }
    }
    if missing.leaves[3] > 0 && options.long() == LongKeys::Refuse {
        let (index, len) = keys.first_longer(MAX_FIXED)?.unwrap_or_default();
        return Err(Error::KeyTooLong { index, len, max: MAX_FIXED });
    }
    Ok(missing)
}
