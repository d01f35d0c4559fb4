//! Changes of a tree on a device, in device form.

use super::super::Cuart;
use super::engine::{self, UpdateEngine};
use super::supply;
use super::{over, root_cell};
use crate::byte_keys::DeviceKeys;
use crate::error::same_device;
use crate::primitives::{Keys, KeysMut, SelectScratch, partition_keys};
use crate::{Error, Result};
use lanetree_kernels_cuart::update::{CountLeavesArgs, LocateArgs, RemoveArgs, TreeMut};
use lanetree_launch::cuart::update as launch;
use lanetree_layout::Word;
use lanetree_layout::cuart::Link;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, GlobalMut};

/// Scratch memory of changes in device form, for batches of so many operations, to be used again by the next.
#[derive(Debug)]
pub struct ChangeScratch {
    pub(super) operations: usize,
    pub(super) engine: engine::Memory,
    inserting: Option<Inserting>,
}

/// What inserts need beyond updates.
#[derive(Debug)]
struct Inserting {
    found: Buffer<u32>,
    positions: Buffer<u32>,
    parted: Buffer<u32>,
    counts: Buffer<u64>,
    select: SelectScratch,
}

impl ChangeScratch {
    /// For updates by an engine, and removals: what each takes is said there.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room; [`Error::TooManyOperations`] from 2^31 operations on.
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

    /// For tests: batches of `from` operations are as large as those that [`UpdateEngine::Auto`] works off in the
    /// order of their keys' first bytes.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room for 16 bytes more for each operation.
    #[doc(hidden)]
    pub fn order_from(mut self, from: usize) -> Result<Self> {
        self.engine.order_from(self.operations, from)?;
        Ok(self)
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
    /// Replaces the values of keys that are there; of several operations on a key, the last one's value stays.
    /// `found` as in [`OnStream::get`](super::OnStream::get).
    ///
    /// In the stream's order; may return before it is done. Allocates nothing, but the first time with
    /// [`UpdateEngine::Stamps`] and after inserts. Nothing else may read the tree meanwhile.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a buffer or scratch memory that is too small; [`Error::UpdateEngine`] for an
    /// engine that is not for such a tree; [`Error::NotOnDevice`], [`Error::LeavesInMainMemory`]; [`Error::Lost`];
    /// [`Error::Runtime`].
    pub fn update_on(
        &mut self,
        stream: &Stream,
        keys: &DeviceKeys,
        values: &Buffer<V>,
        found: Option<&mut Buffer<u32>>,
        scratch: &mut ChangeScratch,
    ) -> Result<()> {
        self.check_change("Cuart::update_on", stream, keys, Some(values), scratch)?;
        if let Some(found) = &found {
            self.on(stream).check("the found bits' buffer", keys.len().div_ceil(32), found)?;
        }
        if keys.is_empty() {
            return Ok(());
        }
        let found = found.map_or(GlobalMut::null(), Buffer::global_mut);
        engine::update(self, stream, keys, values, found, &mut scratch.engine, GlobalMut::null())
    }

    /// Inserts pairs; where a key is there, its value is replaced. Of several operations on a key, the last one's
    /// value stays. Nothing else may read the tree meanwhile.
    ///
    /// Missing keys get leaves first, all at the same time, in nodes that grow and paths that are split (the
    /// paper's future work, section 5.1); then all values are written, as by [`Cuart::update_on`]. Allocates
    /// where buffers have to grow, by an eighth at least, and waits for the stream. Ranks are no longer those of
    /// the leaves' places: see [`Cuart::compact`]. Where keys come back to a node under which all were removed, by a
    /// path of more than 12 bytes that no other keys share, the CPU builds the tree anew: that takes its time, and
    /// memory for both trees.
    ///
    /// # Errors
    /// As [`Cuart::update_on`]; [`Error::Runtime`] where there is no room, and then nothing was changed.
    pub fn insert_on(
        &mut self,
        stream: &Stream,
        keys: &DeviceKeys,
        values: &Buffer<V>,
        scratch: &mut ChangeScratch,
    ) -> Result<InsertReport> {
        self.check_change("Cuart::insert_on", stream, keys, Some(values), scratch)?;
        if keys.is_empty() {
            return Ok(InsertReport::default());
        }
        let Some(inserting) = &mut scratch.inserting else {
            return Err(Error::OutputLength { what: "the scratch memory", expected: keys.len(), found: 0 });
        };
        let mut report = InsertReport::default();
        loop {
            let missing = find_missing(self, stream, keys, inserting)?;
            if missing.count == 0 {
                break;
            }
            scratch.engine.check(self, missing.leaves[3] > 0)?;
            let (engine, leaves) = (&scratch.engine, missing.leaves);
            let prepare = |tree: &mut Self| engine::prepare(tree, engine, leaves[3] > 0);
            let (made, put_off) = supply::insert(self, stream, keys, missing.picks, missing.count, leaves, prepare)?;
            report.inserted += made.inserted;
            report.grown += made.grown;
            if put_off == 0 {
                break;
            }
            // Only a leaf tells a path longer than its node holds, and removals have left none below it. Without
            // such nodes every key has its place.
            self.compact().map_err(|error| self.lose(error))?;
        }
        engine::update(self, stream, keys, values, GlobalMut::null(), &mut scratch.engine, GlobalMut::null())
            .map_err(|error| self.lose(error))?;
        Ok(report)
    }

    /// Removes keys, and tells how many were there. Leaves are cleared and used again by inserts; nodes stay
    /// (section 3.3 of the paper) until [`Cuart::compact`]. Waits for the stream. Nothing else may read the
    /// tree meanwhile.
    ///
    /// # Errors
    /// As [`Cuart::update_on`]; [`Error::Runtime`] where there is no room for the list of free leaves, and then
    /// nothing was changed.
    pub fn remove_on(&mut self, stream: &Stream, keys: &DeviceKeys) -> Result<u64> {
        self.check_place("Cuart::remove_on", stream, keys)?;
        if keys.is_empty() || self.is_empty() {
            return Ok(0);
        }
        let count = keys.len();
        let device = self.device.clone();
        let leaves = &mut self.leaves;
        // No more can be removed than there are.
        supply::reserve_free(&device, stream, &mut leaves.leaf8, count)?;
        supply::reserve_free(&device, stream, &mut leaves.leaf16, count)?;
        supply::reserve_free(&device, stream, &mut leaves.leaf32, count)?;
        let mut root = root_cell(&device, self.root)?;
        let mut removed = device.alloc_zeroed::<u64>(4)?;
        let leaves = &mut self.leaves;
        let free_len = [leaves.leaf8.free_len, leaves.leaf16.free_len, leaves.leaf32.free_len].map(|len| len as u64);
        let free = [&mut leaves.leaf8.free, &mut leaves.leaf16.free, &mut leaves.leaf32.free].map(Buffer::global_mut);
        let args = RemoveArgs {
            tree: TreeMut::new(self.tree_ref()),
            root: root.global_mut(),
            queries: keys.keys_ref(),
            count: count as u64,
            free,
            free_len,
            removed: removed.global_mut(),
        };
        let mut counts = [0; 4];
        let mut after = [0; 2];
        let done = launch::remove(&args, over(stream, count)?)
            .and_then(|()| stream.synchronize())
            .and_then(|()| removed.copy_to(&mut counts))
            .and_then(|()| root.copy_to(&mut after));
        done.map_err(|error| self.lose(error.into()))?;
        self.root = Link::from_bits(after[0]);
        let leaves = &mut self.leaves;
        for (region, &count) in [&mut leaves.leaf8.free_len, &mut leaves.leaf16.free_len, &mut leaves.leaf32.free_len]
            .into_iter()
            .zip(&counts)
        {
            *region += count as usize;
        }
        leaves.device_count -= counts[3];
        let removed = counts.iter().sum();
        self.len -= removed;
        if removed > 0 {
            self.forget_order();
        }
        Ok(removed)
    }

    fn check_change(
        &self,
        call: &'static str,
        stream: &Stream,
        keys: &DeviceKeys,
        values: Option<&Buffer<V>>,
        scratch: &ChangeScratch,
    ) -> Result<()> {
        self.check_place(call, stream, keys)?;
        if let Some(values) = values {
            self.on(stream).check("the values' buffer", keys.len(), values)?;
        }
        if scratch.operations < keys.len() {
            let (expected, found) = (keys.len(), scratch.operations);
            return Err(Error::OutputLength { what: "the scratch memory", expected, found });
        }
        same_device(&self.device, scratch.engine.device(), "the scratch memory")?;
        scratch.engine.check(self, false)
    }

    fn check_place(&self, call: &'static str, stream: &Stream, keys: &DeviceKeys) -> Result<()> {
        self.check_not_lost()?;
        self.on(stream).check_keys(keys)?;
        self.check_on_device(call)
    }

    /// Notes that the device failed while it changed the tree.
    pub(super) fn lose(&mut self, error: Error) -> Error {
        let reason = error.to_string();
        self.state.lost = Some(reason.clone());
        Error::Lost { reason }
    }

    pub(in crate::cuart) fn check_not_lost(&self) -> Result<()> {
        self.state.lost.as_ref().map_or(Ok(()), |reason| Err(Error::Lost { reason: reason.clone() }))
    }
}

/// Keys of a batch that are not in the tree.
struct Missing {
    picks: Global<u32>,
    count: usize,
    /// The leaves of each size that they need at most, and units of dynamically sized ones.
    leaves: [u64; 4],
}

/// Finds the keys of a batch that are not in the tree; waits for the stream.
fn find_missing<V: Word>(
    tree: &Cuart<V>,
    stream: &Stream,
    keys: &DeviceKeys,
    scratch: &mut Inserting,
) -> Result<Missing> {
    let count = keys.len();
    let args = LocateArgs {
        tree: tree.tree_ref(),
        queries: keys.keys_ref(),
        picks: Global::null(),
        count: count as u64,
        links: GlobalMut::null(),
        found: scratch.found.global_mut(),
    };
    launch::locate(tree.query_words(), &args, over(stream, count)?)?;
    let input = Keys { keys: &scratch.positions, count: count.into() };
    let output = KeysMut { keys: &mut scratch.parted, count: &mut scratch.counts };
    // Those that were found come first.
    partition_keys(stream, input, &scratch.found, output, &mut scratch.select)?;
    stream.synchronize()?;
    let mut found = [0];
    scratch.counts.copy_range_to(0, &mut found)?;
    let found = found[0] as usize;
    let picks = scratch.parted.global().byte_add(4 * found as u64);
    let missing = count - found;
    let mut leaves = [0; 4];
    match keys.width() {
        _ if missing == 0 => {}
        Some(width) if width <= 32 => leaves[supply::leaf_number(width)] = missing as u64,
        _ => {
            scratch.counts.fill_zero(stream)?;
            let counts = scratch.counts.global_mut();
            let args = CountLeavesArgs { queries: keys.keys_ref(), picks, count: missing as u64, counts };
            launch::count_leaves(&args, over(stream, missing)?)?;
            stream.synchronize()?;
            scratch.counts.copy_to(&mut leaves)?;
        }
    }
    Ok(Missing { picks, count: missing, leaves })
}
