//! Arrow's C data interface: columns of pyarrow, polars, pandas, DuckDB and others in host memory, without a copy.

use crate::errors::value_error;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use core::ffi::{CStr, c_int};
use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// An array, or a chunk of one.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Column {
    data: ArrayData,
}

/// Offsets and bytes.
type Strings<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u8>>);

/// Takes what is in a producer's capsule.
fn taken<T>(capsule: &Bound<'_, PyCapsule>, name: &CStr, take: unsafe fn(*mut T) -> T) -> PyResult<T> {
    let at = capsule.pointer_checked(Some(name))?.cast::<T>();
    // SAFETY: what a capsule of this name has; what is taken, its destructor finds released.
    Ok(unsafe { take(at.as_ptr()) })
}

fn column(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> PyResult<Column> {
    // SAFETY: the producer says that the array is of this schema.
    let mut data = unsafe { from_ffi(array, schema) }.map_err(|error| value_error(error.to_string()))?;
    data.align_buffers();
    Ok(Column { data })
}

/// The array of `__arrow_c_array__`.
#[pyfunction]
pub(crate) fn arrow_import(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<Column> {
    let schema = taken(schema, c"arrow_schema", FFI_ArrowSchema::from_raw)?;
    column(taken(array, c"arrow_array", FFI_ArrowArray::from_raw)?, &schema)
}

/// The chunks of `__arrow_c_stream__`.
#[pyfunction]
pub(crate) fn arrow_stream(stream: &Bound<'_, PyCapsule>) -> PyResult<Vec<Column>> {
    fn check(code: c_int) -> PyResult<()> {
        if code == 0 {
            Ok(())
        } else {
            Err(PyRuntimeError::new_err(format!("the producer of an Arrow stream failed: {code}")))
        }
    }
    let mut stream = taken(stream, c"arrow_array_stream", FFI_ArrowArrayStream::from_raw)?;
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(value_error("an Arrow stream that was released already"));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: a live stream's own function, with room for its result.
    check(unsafe { get_schema(&raw mut stream, &raw mut schema) })?;
    let mut chunks = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above.
        check(unsafe { get_next(&raw mut stream, &raw mut array) })?;
        if array.is_released() {
            return Ok(chunks);
        }
        chunks.push(column(array, &schema)?);
    }
}

fn unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

#[pymethods]
impl Column {
    /// NumPy's name of the type of the elements; "text" and "bytes" for strings.
    #[getter]
    fn kind(&self) -> PyResult<String> {
        Ok(match self.data.data_type() {
            DataType::UInt32 => "<u4".to_owned(),
            DataType::UInt64 => "<u8".to_owned(),
            DataType::Int32 => "<i4".to_owned(),
            DataType::Int64 => "<i8".to_owned(),
            DataType::Float32 => "<f4".to_owned(),
            DataType::Float64 => "<f8".to_owned(),
            DataType::Timestamp(of, None) => format!("<M8[{}]", unit(*of)),
            DataType::Duration(of) => format!("<m8[{}]", unit(*of)),
            DataType::Utf8 | DataType::LargeUtf8 => "text".to_owned(),
            DataType::Binary | DataType::LargeBinary => "bytes".to_owned(),
            other => {
                return Err(PyTypeError::new_err(format!(
                    "columns of Arrow's type {other} are not supported: cast them"
                )));
            }
        })
    }

    fn __len__(&self) -> usize {
        self.data.len()
    }

    #[getter]
    fn null_count(&self) -> usize {
        self.data.null_count()
    }

    /// Which elements are there; None if all are.
    fn validity<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<bool>>> {
        let nulls = self.data.nulls().filter(|nulls| nulls.null_count() > 0)?;
        Some(PyArray1::from_iter(py, nulls.iter()))
    }

    /// The elements of numbers, for `numpy.asarray`: the array holds this object.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kind = self.kind()?;
        let width = if kind.as_bytes()[2] == b'4' { 4 } else { 8 };
        if !kind.starts_with('<') {
            return Err(PyTypeError::new_err("strings are no numbers"));
        }
        let start = self.data.buffers()[0].as_ptr().wrapping_add(self.data.offset() * width);
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.data.len(),))?;
        interface.set_item("typestr", kind)?;
        interface.set_item("data", (start.expose_provenance(), true))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    /// Offsets and bytes of strings, copied.
    fn strings<'py>(&self, py: Python<'py>) -> PyResult<Strings<'py>> {
        let len = self.data.len();
        let offsets: Vec<u64> = match self.data.data_type() {
            _ if len == 0 => vec![0],
            DataType::Utf8 | DataType::Binary => {
                self.data.buffer::<i32>(0)[..=len].iter().map(|&offset| offset as u64).collect()
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.data.buffer::<i64>(0)[..=len].iter().map(|&offset| offset as u64).collect()
            }
            _ => return Err(PyTypeError::new_err("numbers are no strings")),
        };
        // (`buffer` has begun at the array's own offset.)
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let bytes = if len == 0 { &[] } else { &self.data.buffers()[1][first as usize..last as usize] };
        let offsets = PyArray1::from_iter(py, offsets.iter().map(|offset| offset - first));
        Ok((offsets, PyArray1::from_slice(py, bytes)))
    }
}
