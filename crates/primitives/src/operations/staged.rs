//! Operations from host memory.

use super::MOST_OPERATIONS;
use core::sync::atomic::{AtomicBool, Ordering};
use lanetree_base::staging::Staging;
use lanetree_base::{AnyKey, Batch, Buffer, Device, Op, OpKind, Result, Stream, Value};

/// Operations on a device, as batches in device form take them.
#[derive(Debug)]
pub struct UploadedOperations<K: AnyKey, V: Value> {
    /// Their keys.
    pub keys: Buffer<K>,
    /// Their values; unspecified for removals.
    pub values: Buffer<V>,
    /// What each does; `None` if all are inserts.
    pub kinds: Option<Buffer<OpKind>>,
}

impl<K: AnyKey, V: Value> UploadedOperations<K, V> {
    /// Uploads a batch of `count` operations. The function is called on several threads, two or three times for each number.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) if the device or main memory has no room.
    pub fn new(device: &Device, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<Self> {
        Self::with(None, device, &Staging::default(), count, &op)
    }

    /// Uploads a batch, into the buffers of another one if it had as many operations.
    fn with(
        kept: Option<Self>,
        device: &Device,
        staging: &Staging,
        count: usize,
        op: &(impl Fn(usize) -> Op<K, V> + Sync),
    ) -> Result<Self> {
        let mut operations = match kept.filter(|kept| kept.keys.len() == count) {
            Some(kept) => kept,
            None => Self { keys: device.alloc(count)?, values: device.alloc(count)?, kinds: None },
        };
        // A flag alone: the threads end before it is read.
        let all_insert = AtomicBool::new(true);
        staging.upload_made(count, 1, &mut operations.keys, &|first, part| {
            let mut insert = true;
            for (i, to) in (first..).zip(part) {
                let op = op(i);
                insert &= matches!(op, Op::Insert(..));
                *to = *op.key();
            }
            if !insert {
                all_insert.store(false, Ordering::Relaxed);
            }
        })?;
        staging.upload_made(count, 1, &mut operations.values, &|first, part| {
            for (i, to) in (first..).zip(part) {
                *to = match op(i) {
                    Op::Insert(_, value) | Op::Update(_, value) => value,
                    Op::Remove(_) => V::default(),
                };
            }
        })?;
        operations.kinds = match (all_insert.into_inner(), operations.kinds.take()) {
            (true, _) => None,
            (false, kept) => {
                let mut kinds = kept.map_or_else(|| device.alloc(count), Ok)?;
                let write = |first, part: &mut [OpKind]| (first..).zip(part).for_each(|(i, to)| *to = op(i).kind());
                staging.upload_made(count, 1, &mut kinds, &write)?;
                Some(kinds)
            }
        };
        Ok(operations)
    }

    /// The operations as a batch.
    pub fn batch(&self) -> Batch<'_, K, &Buffer<V>> {
        Batch { kinds: self.kinds.as_ref(), ..Batch::inserts(&self.keys, &self.values) }
    }

    fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes() + self.kinds.as_ref().map_or(0, Buffer::bytes)
    }
}

/// A batch of changes from host memory, on the device, with all that it needs there.
#[derive(Debug)]
pub struct StagedChanges<K: AnyKey, V: Value, S> {
    /// The stream of such batches.
    pub stream: Stream,
    /// The batch.
    pub operations: UploadedOperations<K, V>,
    /// What it is applied with.
    pub scratch: S,
    /// The most operations of a batch for which that is.
    most: usize,
}

/// What the last batch of changes from host memory needed on the device, kept for the next one: to allocate this memory takes longer than
/// many a batch.
#[derive(Debug)]
pub struct ChangeStaging<K: AnyKey, V: Value, S>(Option<Box<StagedChanges<K, V, S>>>);

impl<K: AnyKey, V: Value, S> Default for ChangeStaging<K, V, S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<K: AnyKey, V: Value, S> ChangeStaging<K, V, S> {
    /// Uploads a batch of `count` operations through the staging memory of an index, and hands it out with what was kept, which is gone
    /// after an error. `op` is called as by [`UploadedOperations::new`]; `scratch_of` makes scratch memory for so many operations.
    ///
    /// # Errors
    /// As [`UploadedOperations::new`], and those of the function.
    pub fn stage(
        &mut self,
        device: &Device,
        staging: &Staging,
        count: usize,
        op: impl Fn(usize) -> Op<K, V> + Sync,
        scratch_of: impl FnOnce(&Device, usize) -> Result<S>,
    ) -> Result<StagedChanges<K, V, S>> {
        let (stream, operations, scratch) = match self.0.take().map(|kept| *kept) {
            Some(StagedChanges { stream, operations, scratch, most }) => {
                (stream, Some(operations), Some((scratch, most)))
            }
            None => (device.stream()?, None, None),
        };
        // Batches that grow do not each allocate all of it anew.
        let spare = if scratch.is_some() { count / 4 } else { 0 };
        let (scratch, most) = match scratch.filter(|&(_, most)| most >= count) {
            Some(kept) => kept,
            None => {
                let most = (count + spare).min(count.max(MOST_OPERATIONS));
                (scratch_of(device, most)?, most)
            }
        };
        let operations = UploadedOperations::with(operations, device, staging, count, &op)?;
        Ok(StagedChanges { stream, operations, scratch, most })
    }

    /// Keeps what a batch needed.
    pub fn keep(&mut self, staged: StagedChanges<K, V, S>) {
        self.0 = Some(Box::new(staged));
    }

    /// Its bytes on the device, by those of the scratch memory.
    pub fn bytes(&self, of_scratch: impl FnOnce(&S) -> usize) -> usize {
        self.0.as_ref().map_or(0, |kept| kept.operations.bytes() + of_scratch(&kept.scratch))
    }
}
