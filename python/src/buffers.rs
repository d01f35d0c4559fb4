//! Buffers on a device.

use crate::errors::raise_runtime;
use bytemuck::Pod;
use core::ops::Range;
use lanetree::{Buffer, Device, Stream};
use pyo3::PyResult;

pub(crate) fn alloc<T: Pod>(device: &Device, len: usize) -> PyResult<Buffer<T>> {
    device.alloc(len).map_err(raise_runtime)
}

/// A part of a buffer as one of its own, in the stream's order; the buffer itself if the part is all of it.
pub(crate) fn part<T: Pod>(stream: &Stream, buffer: Buffer<T>, range: Range<usize>) -> PyResult<Buffer<T>> {
    if range == (0..buffer.len()) {
        return Ok(buffer);
    }
    copy(stream, &buffer, range)
}

/// A copy of a part of a buffer, in the stream's order.
pub(crate) fn copy<T: Pod>(stream: &Stream, from: &Buffer<T>, range: Range<usize>) -> PyResult<Buffer<T>> {
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
