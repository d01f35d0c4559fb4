//! What comes before and after the aggregation of ranges by an index, in device form. All run in the stream's order, may return
//! before they are done, and allocate nothing.

use crate::Result;
use crate::error::check_buffer;
use crate::launch::{THREADS, over};
use lanetree_kernels_base::aggregate::{DivideRangesArgs, FinishArgs};
use lanetree_kernels_base::calls;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::{AggregateBatch, Fold};

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

/// Results of ranges.
#[derive(Debug)]
pub struct AggregateOutputs<'a, T> {
    /// A result for each range.
    pub values: &'a mut Buffer<T>,
    /// A bit for each: whether the range has pairs.
    pub hits: &'a mut Buffer<u32>,
    /// A bit for each: whether its sum does not fit.
    pub overflowed: &'a mut Buffer<u32>,
}

/// Counts the parts of the first `count` ranges with these numbers of pairs, of which the memory has the prefix sums.
///
/// # Errors
/// [`Error::OutputLength`](crate::Error::OutputLength) for buffers of fewer ranges;
/// [`Error::BatchTooLarge`](crate::Error::BatchTooLarge); [`Error::Runtime`](crate::Error::Runtime) for buffers of another device
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
    out: AggregateOutputs<'_, T>,
) -> Result<()> {
    const { assert!(size_of::<T>() == 8) };
    let device = stream.device();
    check_buffer(device, "the counts' buffer", count, lens)?;
    check_buffer(device, "the parts' buffer", count.saturating_add(1), &memory.parts)?;
    check_buffer(device, "the results' buffer", count, out.values)?;
    check_buffer(device, "the hit mask's buffer", count.div_ceil(32), out.hits)?;
    check_buffer(device, "the mask of overflows", count.div_ceil(32), out.overflowed)?;
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
