//! Counts that the host waits for.

use lanetree_frame::{Device, Result, Stream};
use lanetree_primitives::{Keys, PairsMut, RunScratch, ScanScratch, exclusive_scan, run_lengths};
use lanetree_runtime::Buffer;

/// Prefix sums, and their total.
pub(super) struct Sums {
    pub(super) before: Buffer<u64>,
    pub(super) total: u64,
}

impl Sums {
    /// Waits for them.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn of(stream: &Stream, device: &Device, counts: &Buffer<u32>) -> Result<Self> {
        let count = counts.len();
        let mut before = device.alloc(count + 1)?;
        exclusive_scan(stream, counts, count, &mut before, &mut ScanScratch::new(device, count)?)?;
        let total = last(&before)?;
        Ok(Self { before, total })
    }
}

/// Runs of equal neighbours.
pub(super) struct Runs {
    pub(super) keys: Buffer<u32>,
    /// Where each begins, and the last one ends.
    pub(super) starts: Buffer<u64>,
}

impl Runs {
    /// Waits for how many there are.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn of(stream: &Stream, device: &Device, words: &Buffer<u32>) -> Result<Self> {
        let count = words.len();
        let (mut keys, mut lengths) = (device.alloc::<u32>(count)?, device.alloc::<u32>(count)?);
        let mut found = device.alloc(1)?;
        let (input, scratch) = (Keys { keys: words, count: count.into() }, &mut RunScratch::new(device, count)?);
        run_lengths(stream, input, PairsMut { keys: &mut keys, values: &mut lengths, count: &mut found }, scratch)?;
        let runs = last(&found)? as usize;
        let (keys, lengths) = (first(stream, device, &keys, runs)?, first(stream, device, &lengths, runs)?);
        Ok(Self { keys, starts: Sums::of(stream, device, &lengths)?.before })
    }
}

/// The first elements of a buffer.
///
/// # Errors
/// [`Error::Runtime`](lanetree_frame::Error::Runtime).
fn first(stream: &Stream, device: &Device, buffer: &Buffer<u32>, count: usize) -> Result<Buffer<u32>> {
    let mut first = device.alloc(count)?;
    first.copy_from_buffer(stream, 0, buffer, 0..count)?;
    Ok(first)
}

/// The last of some prefix sums.
fn last(offsets: &Buffer<u64>) -> Result<u64> {
    let mut last = [0];
    offsets.copy_range_to(offsets.len() - 1, &mut last)?;
    Ok(last[0])
}
