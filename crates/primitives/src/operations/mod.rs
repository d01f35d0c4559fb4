//! Operations of a batch of updates: sorted by their keys, and the operations of each key folded into the last one.

mod range;
mod staged;

pub use staged::{ChangeStaging, StagedChanges, UploadedOperations};

use crate::check::buffer;
use crate::radix_sort::is_small;
use crate::{LOCAL_SORT_FINDINGS, RadixSortScratch, ScanScratch, inclusive_max_scan, local_sort, radix_argsort};
use core::ops::Range;
use lanetree_base::error::same_device;
use lanetree_base::launch::{self, THREADS};
use lanetree_base::{AnyKey, Batch, Buffer, Device, DeviceKind, Error, KeyWord, Result, Stream, Value};
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::operations::{FoldKindsArgs, MarkBasesArgs};
use range::SortRange;

/// The most operations of a batch: their numbers leave one of 32 bits free.
pub const MOST_OPERATIONS: usize = (1 << 31) - 1;

/// Words that [`OperationSort::sort`] writes.
pub const OPERATION_FINDINGS: usize = LOCAL_SORT_FINDINGS + 2;

/// Sorts batches of operations on a device that runs kernels. It takes about 24 bytes per operation with keys of 8 bytes,
/// and 12 more once a batch has operations of several kinds. It remembers by which bits of their keys the last batches
/// could be sorted: keys with random upper bits need only a few.
#[derive(Debug)]
pub struct OperationSort<K: AnyKey> {
    device: Device,
    operations: usize,
    scratch: RadixSortScratch<K, u32>,
    range: SortRange,
    /// The bits by which the batch is sorted once more, if few were not enough.
    again: Option<Range<u32>>,
    /// Whether the last sort was by all bits in which keys differ.
    is_complete: bool,
    sorted: Buffer<K>,
    order: Buffer<u32>,
    /// Only for batches that have kinds.
    folded: Option<Folded>,
}

/// The kinds of operations, folded.
#[derive(Debug)]
struct Folded {
    /// Marks of operations that do not build on others; then what all of a key do.
    kinds: Buffer<u32>,
    /// Running maxima of the marks.
    bases: Buffer<u32>,
    scan: ScanScratch,
}

impl<K: AnyKey> OperationSort<K> {
    /// For batches of up to that many operations. On the host it is empty.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room; [`Error::TooManyOperations`].
    pub fn new(device: &Device, operations: usize) -> Result<Self> {
        if operations > MOST_OPERATIONS {
            return Err(Error::TooManyOperations { operations });
        }
        let n = if device.kind() == DeviceKind::Host { 0 } else { operations };
        Ok(Self {
            device: device.clone(),
            operations,
            scratch: RadixSortScratch::for_pairs(device, n)?,
            range: SortRange::new(K::Bits::BITS),
            again: None,
            is_complete: false,
            sorted: device.alloc(n)?,
            order: device.alloc(n)?,
            folded: None,
        })
    }

    /// The most operations of a batch.
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let folded = |folded: &Folded| folded.kinds.bytes() + folded.bases.bytes() + folded.scan.bytes();
        self.scratch.bytes() + self.sorted.bytes() + self.order.bytes() + self.folded.as_ref().map_or(0, folded)
    }

    /// The keys, sorted.
    pub fn sorted(&self) -> &Buffer<K> {
        &self.sorted
    }

    /// The index in the batch of each sorted operation.
    pub fn order(&self) -> &Buffer<u32> {
        &self.order
    }

    /// What all operations of a key do, at the last one of it, if the last batch had kinds: 0 to insert, 1 to update, 2 to
    /// remove; 3 at the others.
    pub fn folded(&self) -> Option<&Buffer<u32>> {
        self.folded.as_ref().map(|folded| &folded.kinds)
    }

    /// Begins a batch for an index on a device, and checks it. Whatever is left of a batch before that came to no end, since the
    /// device failed, is forgotten: it says nothing of this one's keys.
    ///
    /// # Errors
    /// [`Error::NoUpdates`] on the host; [`Error::TooManyOperations`]; [`Error::OutputLength`] for buffers that are too small,
    /// or more operations than this is for; [`Error::Runtime`] for another device.
    pub fn begin_batch<V: Value>(
        &mut self,
        device: &Device,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
    ) -> Result<()> {
        let Batch { keys, values, kinds, count } = batch;
        self.again = None;
        if device.kind() == DeviceKind::Host {
            return Err(Error::NoUpdates { device: device.to_string() });
        }
        if count > MOST_OPERATIONS {
            return Err(Error::TooManyOperations { operations: count });
        }
        let kinds = kinds.map(|kinds| ("the kinds' buffer", kinds.len(), kinds.device()));
        for (what, actual, own) in [
            ("the keys' buffer", keys.len(), keys.device()),
            ("the values' buffer", values.len(), values.device()),
            ("the scratch memory of updates", self.operations, &self.device),
            ("the stream", count, stream.device()),
        ]
        .into_iter()
        .chain(kinds)
        {
            if actual < count {
                return Err(Error::OutputLength { what, expected: count, actual });
            }
            same_device(device, own, what)?;
        }
        Ok(())
    }

    /// The bits of its keys by which a batch of `count` operations is sorted next.
    pub fn bits(&self, count: usize) -> Range<u32> {
        match &self.again {
            Some(again) => again.clone(),
            // In one launch, whatever the bits.
            None if is_small(count) => 0..K::Bits::BITS,
            None => self.range.bits(count),
        }
    }

    /// Sorts a batch that was begun, stably, and folds its kinds. In the stream's order; may return before it is done. First by about as
    /// many bits as it takes to number the keys, which is likely to be enough: [`OperationSort::check`] tells from the
    /// [`OPERATION_FINDINGS`] words, zero before, that this writes from `findings[at]` on. The second of them is not 0 if
    /// the keys are not sorted, and the batch is to be sorted again, by this call.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for buffers that are too small; [`Error::Runtime`] if there is no room for kinds, and from the
    /// launches.
    pub fn sort<V>(
        &mut self,
        stream: &Stream,
        Batch { keys, kinds, count, .. }: Batch<'_, K, V>,
        findings: &mut Buffer<u64>,
        at: usize,
    ) -> Result<()> {
        buffer(stream, "the buffer of a batch's findings", at + OPERATION_FINDINGS, findings)?;
        let bits = self.bits(count);
        radix_argsort(stream, keys, count, bits.clone(), &mut self.sorted, &mut self.order, &mut self.scratch)?;
        self.is_complete = self.again.take().is_some() || is_small(count);
        if !self.is_complete {
            let found = findings.write_on(stream)?.byte_add(at as u64 * 8);
            // SAFETY: both have that many elements, and the findings' words were checked above and are for this stream.
            unsafe { local_sort(stream, &mut self.sorted, &mut self.order, count, bits.start, found)? };
        }
        let Some(kinds) = kinds else {
            self.folded = None;
            return Ok(());
        };
        buffer(stream, "the kinds' buffer", count, kinds)?;
        let folded = match &mut self.folded {
            Some(folded) => folded,
            none => {
                let (kinds, bases) = (self.device.alloc(self.operations)?, self.device.alloc(self.operations)?);
                none.insert(Folded { kinds, bases, scan: ScanScratch::new(&self.device, self.operations)? })
            }
        };
        let (order, kinds) = (self.order.read_on(stream)?, kinds.read_on(stream)?.cast());
        let unknown = findings.write_on(stream)?.byte_add((at + LOCAL_SORT_FINDINGS) as u64 * 8);
        let per_operation = || launch::over(stream, count as u64, 1, THREADS);
        let args = MarkBasesArgs { order, kinds, marks: folded.kinds.write_on(stream)?, count: count as u64, unknown };
        // SAFETY: the order was sorted from that many operations, and all else has room for as many; every pointer is for
        // this stream.
        unsafe { per_operation()?.run(calls::mark_bases(&args))? };
        inclusive_max_scan(stream, &folded.kinds, count, &mut folded.bases, &mut folded.scan)?;
        let args = FoldKindsArgs {
            keys: self.sorted.read_on(stream)?.cast::<K::Bits>(),
            order,
            kinds,
            bases: folded.bases.read_on(stream)?,
            count: count as u64,
            folded: folded.kinds.write_on(stream)?,
        };
        // SAFETY: as above; bases are positions of operations, from 1.
        Ok(unsafe { per_operation()?.run(calls::fold_kinds(&args)) }?)
    }

    /// Whether the batch is sorted, from what [`OperationSort::sort`] wrote. If not, it is to be sorted again.
    ///
    /// # Errors
    /// [`Error::UnknownKinds`].
    ///
    /// # Panics
    /// If there are fewer than [`OPERATION_FINDINGS`] words.
    pub fn check(&mut self, found: &[u64]) -> Result<bool> {
        let &[differing, unsorted, unknown, first, ..] = found else { panic!("the words of a sort") };
        if !self.is_complete {
            let again = self.range.learn(differing, unsorted == 0);
            if unsorted != 0 {
                self.again = Some(again);
                return Ok(false);
            }
        }
        if unknown > 0 {
            let (index, kind) = (u32::MAX as usize - (first >> 32) as usize, first as u32);
            return Err(Error::UnknownKinds { operations: unknown, index, kind });
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
