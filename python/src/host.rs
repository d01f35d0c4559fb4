//! Arrays of NumPy.

use crate::errors::value_error;
use bytemuck::Pod;
use core::ops::Range;
use numpy::prelude::*;
use numpy::{PyArray1, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// An array in host memory, of NumPy, whose object the caller of the call holds. What its elements are, the front end knows.
#[derive(Clone, Copy)]
pub(crate) struct HostSlice {
    start: *mut u8,
    pub(crate) len: usize,
    pub(crate) width: usize,
}

// SAFETY: an address. NumPy's arrays may be read by any thread; nobody changes them while a call reads them, which the
// documentation demands, as NumPy does for its own calls that release the GIL.
unsafe impl Send for HostSlice {}
// SAFETY: as above.
unsafe impl Sync for HostSlice {}

impl HostSlice {
    pub(crate) fn new(array: &Bound<'_, PyUntypedArray>) -> PyResult<Self> {
        if !array.is_c_contiguous() || array.ndim() != 1 {
            return Err(value_error("an array for the native code must be contiguous and of one dimension"));
        }
        // SAFETY: a live array.
        let start: *mut u8 = unsafe { (*array.as_array_ptr()).fields.data }.cast();
        let width = array.dtype().itemsize();
        if !start.addr().is_multiple_of(width.max(1)) {
            return Err(value_error("an array for the native code must be aligned"));
        }
        Ok(Self { start, len: array.len(), width })
    }

    fn start_of<T: Pod>(self) -> PyResult<*mut T> {
        match size_of::<T>() {
            0 => Ok(core::ptr::dangling_mut()),
            width if width != self.width => Err(wrong_width(width, self.width)),
            _ if self.len == 0 => Ok(core::ptr::dangling_mut()),
            _ => Ok(self.start.cast()),
        }
    }

    /// The elements as words of their size, or, without a size, as units.
    pub(crate) fn read<'a, T: Pod>(self) -> PyResult<&'a [T]> {
        // SAFETY: that many elements of this size, aligned; the array is held by the caller of the call.
        Ok(unsafe { core::slice::from_raw_parts(self.start_of()?, self.len) })
    }

    /// The elements of a range, none of which is past the end.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len);
        Self { start: self.start.wrapping_add(range.start * self.width), len: range.len(), width: self.width }
    }

    /// The elements, to write.
    pub(crate) fn write<'a, T: Pod>(self) -> PyResult<&'a mut [T]> {
        // SAFETY: as in `read`. The front end passes arrays that it has made itself, or the caller's `out`, which it has
        // found to be writable and to share no memory with the inputs or with each other (`_outputs`).
        Ok(unsafe { core::slice::from_raw_parts_mut(self.start_of()?, self.len) })
    }
}

pub(crate) fn wrong_width(expected: usize, actual: usize) -> PyErr {
    PyTypeError::new_err(format!("elements of {actual} bytes, where {expected} are needed"))
}

/// A vector as an array of NumPy, without a copy.
pub(crate) fn numpy<T: numpy::Element>(py: Python<'_>, elements: Vec<T>) -> Py<PyAny> {
    PyArray1::from_vec(py, elements).into_any().unbind()
}
