//! Steps of the aggregation of ranges in device form: before and after an index aggregates them, and of values in an array. All run in
//! the stream's order, may return before they are done, and allocate nothing.

#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use crate::Error;
use crate::Result;
use crate::error::check_buffer;
use crate::launch::{THREADS, over};
use lanetree_kernels_base::aggregate::{DivideRangesArgs, FinishArgs, FoldValuesArgs};
use lanetree_kernels_base::calls;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{AggregateBatch, Fold, Global};

/// Memory of the aggregation of ranges, in addition to what finds them.
#[derive(Debug)]
pub struct AggregateMemory {
    /// Prefix sums of the ranges' numbers of pairs: one more than there are ranges.
    pub offsets: Buffer<u64>,
    /// The parts of each long range.
    pub counts: Buffer<u64>,
    /// Their prefix sums: one more than there are ranges.
    pub parts: Buffer<u64>,
    /// Accumulators: two words for each range and each part.
    pub sums: Buffer<u64>,
}

impl AggregateMemory {
    /// Words of the accumulators of a number of ranges.
    pub fn words(ranges: usize) -> usize {
        ranges.saturating_mul(4).saturating_add(2 * AggregateBatch::PARTS as usize)
    }
}

/// Aggregates on the device.
#[derive(Debug)]
pub struct DeviceAggregates<T> {
    /// Out: one for each range; 0 for an empty one.
    pub values: Buffer<T>,
    /// Out: a bit for each range, the lowest of a word first: whether it has pairs.
    pub hits: Buffer<u32>,
    /// Out: a bit for each range: whether its sum overflows, so that its value is nothing but the sum's low 64 bits.
    pub overflowed: Buffer<u32>,
}

impl<T: bytemuck::Pod> DeviceAggregates<T> {
    /// Room for as many ranges.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, ranges: usize) -> Result<Self> {
        let words = ranges.div_ceil(32);
        Ok(Self { values: device.alloc(ranges)?, hits: device.alloc(words)?, overflowed: device.alloc(words)? })
    }

    /// Takes results of the host's.
    #[doc(hidden)]
    pub fn fill(&mut self, results: &[Option<(u64, bool)>]) {
        let values = self.values.as_mut_slice().expect("a buffer of the host");
        let hits = &mut self.hits.as_mut_slice().expect("a buffer of the host")[..results.len().div_ceil(32)];
        let overflowed = &mut self.overflowed.as_mut_slice().expect("a buffer of the host")[..hits.len()];
        hits.fill(0);
        overflowed.fill(0);
        for (i, result) in results.iter().enumerate() {
            let (value, is_over) = result.unwrap_or((0, false));
            values[i] = bytemuck::cast(value);
            hits[i / 32] |= u32::from(result.is_some()) << (i % 32);
            overflowed[i / 32] |= u32::from(is_over) << (i % 32);
        }
    }

    /// Checks that there is an element for each range.
    ///
    /// # Errors
    /// [`Error::OutputLength`]; [`Error::Runtime`] for buffers of another device.
    #[doc(hidden)]
    pub fn check(&self, device: &Device, ranges: usize) -> Result<()> {
        check_buffer(device, "the results' buffer", ranges, &self.values)?;
        check_buffer(device, "the hit mask's buffer", ranges.div_ceil(32), &self.hits)?;
        check_buffer(device, "the mask of overflows", ranges.div_ceil(32), &self.overflowed)
    }
}

/// The groups of lanes that aggregate a batch, and the lanes of each: narrow ones for ranges by themselves, wide ones for parts.
pub fn aggregate_groups(batch: &AggregateBatch, [narrow, wide]: [u32; 2]) -> (u64, u32) {
    if batch.parts.is_null() { (batch.count, narrow) } else { (AggregateBatch::PARTS, wide) }
}

/// Counts the parts of the first `count` ranges with these numbers of pairs, of which the memory has the prefix sums.
///
/// # Errors
/// [`Error::OutputLength`] for buffers of fewer ranges;
/// [`Error::BatchTooLarge`]; [`Error::Runtime`] for buffers of another device
/// than the stream's, and from the launch.
pub fn divide_ranges(
    stream: &Stream,
    count: usize,
    fold: Fold,
    lens: &Buffer<u64>,
    memory: &mut AggregateMemory,
) -> Result<()> {
    let device = stream.device();
    check_buffer(device, "the counts' buffer", count, lens)?;
    check_buffer(device, "the offsets' buffer", count.saturating_add(1), &memory.offsets)?;
    check_buffer(device, "the parts' buffer", count, &memory.counts)?;
    let args = DivideRangesArgs {
        counts: lens.read_on(stream)?,
        offsets: memory.offsets.read_on(stream)?,
        count: count as u64,
        parts: memory.counts.write_on(stream)?,
        fold,
    };
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    Ok(unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::divide_ranges(&args)) }?)
}

/// Aggregates values in an array, of whose ranges the cursors are the numbers of their first values.
///
/// # Errors
/// [`Error::BatchTooLarge`]; [`Error::Runtime`] from the launch.
///
/// # Safety
/// The ranges' values are in the array; the stream may read them and what the batch points at, and write its accumulators.
pub unsafe fn fold_values<V: Word>(stream: &Stream, values: Global<V>, batch: AggregateBatch) -> Result<()> {
    let (groups, width) = aggregate_groups(&batch, [8, 32]);
    let args = FoldValuesArgs { values, batch };
    let call = if width == 8 { calls::fold_values_narrow(&args) } else { calls::fold_values_wide(&args) };
    // SAFETY: the caller's contract.
    Ok(unsafe { over(stream, groups, width, THREADS)?.run(call) }?)
}

/// Makes results of the accumulators of the first `count` ranges with these numbers of pairs, of values of type `V`.
///
/// # Errors
/// As [`divide_ranges`].
///
/// # Safety
/// Each range that has pairs has an accumulator in the memory, or one for each of its parts.
pub unsafe fn finish<V: Word, T: bytemuck::Pod>(
    stream: &Stream,
    count: usize,
    fold: Fold,
    lens: &Buffer<u64>,
    memory: &AggregateMemory,
    out: &mut DeviceAggregates<T>,
) -> Result<()> {
    const { assert!(size_of::<T>() == 8) };
    let device = stream.device();
    check_buffer(device, "the counts' buffer", count, lens)?;
    check_buffer(device, "the parts' buffer", count.saturating_add(1), &memory.parts)?;
    out.check(device, count)?;
    let args = FinishArgs {
        counts: lens.read_on(stream)?,
        parts: memory.parts.read_on(stream)?,
        sums: memory.sums.read_on(stream)?,
        count: count as u64,
        values: out.values.write_on(stream)?.cast(),
        hits: out.hits.write_on(stream)?,
        overflowed: out.overflowed.write_on(stream)?,
        fold,
    };
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream; the caller's contract.
    Ok(unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::finish::<V>(&args)) }?)
}
