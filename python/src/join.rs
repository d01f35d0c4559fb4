//! Joins of a device's arrays: what look-ups of probes have found, as columns.

use crate::errors::{raise, raise_runtime};
use crate::memory::{Cache, Memory, Words};
use core::ops::Range;
use lanetree::primitives::{Keys, KeysMut, SelectScratch, partition, select};
use lanetree::{Buffer, Stream};
use lanetree_frame::unpack_bits;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Which rows a join has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Matches.
    Inner,
    /// Matches, and probes without one.
    Left,
    /// Probes with a match.
    Semi,
    /// Probes without one.
    Anti,
}

impl How {
    pub(crate) fn of(name: &str) -> PyResult<Self> {
        match name {
            "inner" => Ok(Self::Inner),
            "left" => Ok(Self::Left),
            "semi" => Ok(Self::Semi),
            "anti" => Ok(Self::Anti),
            _ => Err(PyValueError::new_err(format!(
                "how is '{name}', where 'inner', 'left', 'semi' or 'anti' is needed"
            ))),
        }
    }
}

/// The numbers of probes, the values of their matches, and whether there is one.
pub(crate) type Joined = (Memory, Option<Memory>, Option<Memory>);

/// A part of a buffer as one of its own, in the stream's order; the buffer itself if the part is all of it.
pub(crate) fn part<T: bytemuck::Pod>(stream: &Stream, buffer: Buffer<T>, range: Range<usize>) -> PyResult<Buffer<T>> {
    if range == (0..buffer.len()) {
        return Ok(buffer);
    }
    copy(stream, &buffer, range)
}

/// A copy of a part of a buffer, in the stream's order.
pub(crate) fn copy<T: bytemuck::Pod>(stream: &Stream, from: &Buffer<T>, range: Range<usize>) -> PyResult<Buffer<T>> {
    let mut made = stream.device().alloc(range.len()).map_err(raise_runtime)?;
    made.copy_from_buffer(stream, 0, from, range).map_err(raise_runtime)?;
    Ok(made)
}

/// A number that the stream's work writes. Waits for it.
pub(crate) fn read(count: &Buffer<u64>) -> PyResult<usize> {
    let mut read = [0];
    count.copy_range_to(0, &mut read).map_err(raise_runtime)?;
    Ok(read[0] as usize)
}

/// The numbers of the probes whose bit is set, or is not, in ascending order. Waits, to learn how many there are.
pub(crate) fn numbers_of(
    stream: &Stream,
    cache: &Cache,
    (hits, count): (&Buffer<u32>, usize),
    is_set: bool,
) -> PyResult<Buffer<u64>> {
    let device = stream.device();
    if count == 0 {
        return device.alloc(0).map_err(raise_runtime);
    }
    let numbers = cache.numbers(device, count)?;
    let mut found = device.alloc(count).map_err(raise_runtime)?;
    let mut total = device.alloc(1).map_err(raise_runtime)?;
    let mut scratch = SelectScratch::new(device, count).map_err(raise)?;
    let (input, output) =
        (Keys { keys: &numbers, count: count.into() }, KeysMut { keys: &mut found, count: &mut total });
    match is_set {
        true => select(stream, input, hits, output, &mut scratch),
        // Those whose bit is not set come last.
        false => partition(stream, input, hits, output, &mut scratch),
    }
    .map_err(raise)?;
    let total = read(&total)?;
    part(stream, found, if is_set { 0..total } else { total..count })
}

/// A byte per bit of a hit mask, with room for the words that kernels write.
pub(crate) fn bytes_of(stream: &Stream, hits: &Buffer<u32>, count: usize) -> PyResult<Memory> {
    let mut bytes = stream.device().alloc(count.next_multiple_of(4)).map_err(raise_runtime)?;
    unpack_bits(stream, hits, count, &mut bytes).map_err(raise)?;
    Ok(Memory::new(Words::from(bytes)))
}

/// One buffer after another.
pub(crate) fn concatenate<T: bytemuck::Pod>(
    stream: &Stream,
    first: &Buffer<T>,
    second: &Buffer<T>,
) -> PyResult<Buffer<T>> {
    let mut all = stream.device().alloc(first.len() + second.len()).map_err(raise_runtime)?;
    all.copy_from_buffer(stream, 0, first, 0..first.len()).map_err(raise_runtime)?;
    all.copy_from_buffer(stream, first.len(), second, 0..second.len()).map_err(raise_runtime)?;
    Ok(all)
}

/// A hit mask of `count` bits, of which the first `set` are set.
pub(crate) fn mask(stream: &Stream, set: usize, count: usize) -> PyResult<Buffer<u32>> {
    let word = |at: usize| match set.saturating_sub(at * 32) {
        left @ 0..32 => (1_u32 << left) - 1,
        _ => u32::MAX,
    };
    let words: Vec<u32> = (0..count.div_ceil(32)).map(word).collect();
    stream.device().upload(&words).map_err(raise_runtime)
}
