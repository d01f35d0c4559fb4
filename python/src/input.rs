//! Arrays that calls take: of NumPy in host memory, or of a device.

use crate::host::HostSlice;
use crate::memory::{Memory, Reading, Writing};
use bytemuck::Pod;
use core::ops::Range;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// An input of a call: an array of NumPy, or of a device.
pub(crate) enum Input {
    Host(HostSlice),
    Device(Py<Memory>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Input {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(memory) = object.cast::<Memory>() {
            return Ok(Self::Device(memory.to_owned().unbind()));
        }
        Ok(Self::Host(HostSlice::new(&*object.cast::<PyUntypedArray>()?)?))
    }
}

/// An input, for a thread that does not hold the GIL.
#[derive(Clone, Copy)]
pub(crate) enum In<'a> {
    Host(HostSlice),
    Device(&'a Memory),
}

impl Input {
    pub(crate) fn get(&self) -> In<'_> {
        match self {
            Self::Host(slice) => In::Host(*slice),
            Self::Device(memory) => In::Device(memory.get()),
        }
    }
}

impl<'a> In<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Host(slice) => slice.len,
            Self::Device(memory) => memory.len(),
        }
    }

    /// The elements of a range, none of which is past the end, in host memory; all elements of a device.
    pub(crate) fn within(self, range: Range<usize>) -> Self {
        match self {
            Self::Host(slice) => Self::Host(slice.part(range)),
            Self::Device(_) => self,
        }
    }

    /// The elements in host memory.
    pub(crate) fn host<T: Pod>(self) -> PyResult<&'a [T]> {
        match self {
            Self::Host(slice) => slice.read(),
            Self::Device(_) => Err(mixed()),
        }
    }

    pub(crate) fn host_mut<T: Pod>(self) -> PyResult<&'a mut [T]> {
        match self {
            Self::Host(slice) => slice.write(),
            Self::Device(_) => Err(mixed()),
        }
    }

    /// A device's elements, to read.
    pub(crate) fn read<T: Pod>(self) -> PyResult<Reading<'a, T>> {
        match self {
            Self::Host(_) => Err(mixed()),
            Self::Device(memory) => memory.read(),
        }
    }

    /// A device's elements, to write.
    pub(crate) fn write<T: Pod>(self) -> PyResult<Writing<'a, T>> {
        match self {
            Self::Host(_) => Err(mixed()),
            Self::Device(memory) => memory.write(),
        }
    }

    pub(crate) fn is_device(self) -> bool {
        matches!(self, Self::Device(_))
    }
}

fn mixed() -> PyErr {
    PyTypeError::new_err("arrays of NumPy and arrays of a device in one call: use one kind for all")
}
