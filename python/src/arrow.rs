//! Arrow's C data interface: columns of pyarrow, polars, pandas, DuckDB and others in host memory, and arrays on a device in and out,
//! without a copy.

use crate::device::{Device, Stream};
use crate::errors::{check_not_forked, value_error};
use crate::memory::Memory;
use crate::types::{gather, room};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, BinaryViewArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use numpy::prelude::*;
use numpy::{PyArray1, PyUntypedArray};
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

/// `ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    buffer_count: i64,
    child_count: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private: *mut c_void,
}

/// `ArrowDeviceArray`: an array whose buffers are on a device.
#[repr(C)]
struct DeviceArray {
    array: Array,
    device_id: i64,
    device_kind: i32,
    /// An event after which they are ready; null if they are.
    event: *mut c_void,
    reserved: [i64; 3],
}

const DEVICE_ARRAY: &CStr = c"arrow_device_array";
/// Kinds of devices, which have DLPack's numbers.
const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;

/// Releases an array that was taken out of a capsule.
struct Taken(Array);

// SAFETY: an array may be released by any thread, as Arrow demands.
unsafe impl Send for Taken {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // Producers may want the GIL: after the interpreter's end the array is leaked.
            // SAFETY: an array that was not released, and is not used again.
            Python::try_attach(|_| unsafe { release(&raw mut self.0) });
        }
    }
}

/// The type of a column by NumPy's name, to which a time zone may be added (`<M8[s]@UTC`). Arrow packs booleans as bits; bytes of hits
/// become integers of 8 bits.
fn type_of(kind: &str) -> PyResult<DataType> {
    let (kind, zone) = kind.split_once('@').map_or((kind, None), |(kind, zone)| (kind, Some(zone.into())));
    let unit = |unit: &str| {
        Ok(match unit {
            "s" => TimeUnit::Second,
            "ms" => TimeUnit::Millisecond,
            "us" => TimeUnit::Microsecond,
            "ns" => TimeUnit::Nanosecond,
            _ => return Err(PyTypeError::new_err(format!("Arrow has no times in units of {unit}"))),
        })
    };
    let in_brackets = |kind: &str| kind[4..].trim_end_matches(']').to_owned();
    Ok(match kind {
        "|b1" | "|u1" => DataType::UInt8,
        "<u4" => DataType::UInt32,
        "<u8" => DataType::UInt64,
        "<i4" => DataType::Int32,
        "<i8" => DataType::Int64,
        "<f4" => DataType::Float32,
        "<f8" => DataType::Float64,
        // In integers of 32 bits, as Arrow has dates.
        "date32" => DataType::Date32,
        "|V16" | "uuid" => DataType::FixedSizeBinary(16),
        _ if kind.starts_with("decimal128,") => decimal_of(kind)?,
        _ if kind.starts_with("<M8[") => DataType::Timestamp(unit(&in_brackets(kind))?, zone),
        _ if kind.starts_with("<m8[") => DataType::Duration(unit(&in_brackets(kind))?),
        _ => return Err(PyTypeError::new_err(format!("Arrow has no type for {kind}"))),
    })
}

/// The type of "decimal128,38,2", say.
fn decimal_of(kind: &str) -> PyResult<DataType> {
    let mut numbers = kind.split(',').skip(1).map(str::parse::<i8>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(digits @ 1..)), Some(Ok(scale))) => Ok(DataType::Decimal128(digits.unsigned_abs(), scale)),
        _ => Err(PyTypeError::new_err(format!("Arrow has no type for {kind}"))),
    }
}

/// What an exported array holds on to.
struct Exported {
    _owners: Vec<Py<PyAny>>,
    buffers: [*const c_void; 2],
}

impl Array {
    /// A column of elements at `buffers[1]`, of which those are there whose bit is set at `buffers[0]`, unless that is null.
    fn new(len: usize, null_count: usize, buffers: [*const c_void; 2], owners: Vec<Py<PyAny>>) -> PyResult<Self> {
        let too_many = |_| value_error("too many elements");
        let (length, null_count) =
            (i64::try_from(len).map_err(too_many)?, i64::try_from(null_count).map_err(too_many)?);
        let held = Box::into_raw(Box::new(Exported { _owners: owners, buffers }));
        Ok(Self {
            length,
            null_count,
            offset: 0,
            buffer_count: 2,
            child_count: 0,
            // SAFETY: leaked above.
            buffers: unsafe { (&raw mut (*held).buffers).cast() },
            children: null_mut(),
            dictionary: null_mut(),
            release: Some(release_array),
            private: held.cast(),
        })
    }
}

/// The capsule of a type by NumPy's name.
fn schema_of<'py>(py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyCapsule>> {
    let mut schema = FFI_ArrowSchema::try_from(&type_of(kind)?).map_err(|error| value_error(error.to_string()))?;
    if kind == "uuid" {
        let extension = [("ARROW:extension:name", "arrow.uuid"), ("ARROW:extension:metadata", "")];
        schema = schema.with_metadata(extension).map_err(|error| value_error(error.to_string()))?;
    }
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// # Safety
/// Of `Array::new`, and not released.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: a live array of the consumer's, which is released once.
    let held = unsafe {
        (*array).release = None;
        (*array).private.cast::<Exported>()
    };
    // After the interpreter's end it is leaked.
    // SAFETY: the box was leaked in `Array::new`, and is freed once, here.
    Python::try_attach(|_| unsafe { drop(Box::from_raw(held)) });
}

const HOST_ARRAY: &CStr = c"arrow_array";

unsafe extern "C" fn delete_array(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: a capsule of `arrow_export`; whoever takes the array marks it as released.
    unsafe {
        let at = pyo3::ffi::PyCapsule_GetPointer(capsule, HOST_ARRAY.as_ptr()).cast::<Array>();
        let mut made = Box::from_raw(at);
        if let Some(release) = made.release {
            release(&raw mut *made);
        }
    }
}

/// The capsules of `__arrow_c_array__` for an array of NumPy, without a copy: of its elements those are there whose bit is set in
/// `validity`, the lowest bit of a byte first. `kind` is NumPy's name of their type.
#[pyfunction]
pub(crate) fn arrow_export<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyUntypedArray>,
    kind: &str,
    validity: &Bound<'py, PyArray1<u8>>,
    null_count: usize,
) -> PyResult<(Bound<'py, PyCapsule>, Py<PyAny>)> {
    let len = array.len();
    if array.ndim() != 1 || !array.is_c_contiguous() || validity.len() < len.div_ceil(8) {
        return Err(value_error(
            "an array for Arrow must be contiguous, of one dimension, and have a bit for each element",
        ));
    }
    let schema = schema_of(py, kind)?;
    // SAFETY: a live array.
    let start = unsafe { (*array.as_array_ptr()).fields.data }.cast_const().cast::<c_void>();
    let owners = vec![array.clone().into_any().unbind(), validity.clone().into_any().unbind()];
    let made = Box::new(Array::new(len, null_count, [validity.data().cast_const().cast(), start], owners)?);
    // SAFETY: a pointer that is not null, a static name, and a destructor; a new reference or an error.
    let capsule = unsafe {
        let capsule = pyo3::ffi::PyCapsule_New(Box::into_raw(made).cast(), HOST_ARRAY.as_ptr(), Some(delete_array));
        Bound::from_owned_ptr_or_err(py, capsule)?.unbind()
    };
    Ok((schema, capsule))
}

unsafe extern "C" fn delete_device_array(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: a capsule of `arrow_device_export`; whoever takes the array marks it as released.
    unsafe {
        let at = pyo3::ffi::PyCapsule_GetPointer(capsule, DEVICE_ARRAY.as_ptr()).cast::<DeviceArray>();
        let mut made = Box::from_raw(at);
        if let Some(release) = made.array.release {
            release(&raw mut made.array);
        }
    }
}

/// The capsules of `__arrow_c_device_array__` for the first `len` elements of an array on a device, which are ready. `kind` is NumPy's
/// name of their type.
#[pyfunction]
pub(crate) fn arrow_device_export<'py>(
    py: Python<'py>,
    memory: &Bound<'py, Memory>,
    len: usize,
    kind: &str,
    device: (i32, i64),
) -> PyResult<(Bound<'py, PyCapsule>, Py<PyAny>)> {
    check_not_forked()?;
    let schema = schema_of(py, kind)?;
    let start = core::ptr::with_exposed_provenance(memory.get().address());
    let array = Array::new(len, 0, [core::ptr::null(), start], vec![memory.clone().into_any().unbind()])?;
    let (device_kind, device_id) = device;
    let made = Box::new(DeviceArray { array, device_id, device_kind, event: null_mut(), reserved: [0; 3] });
    // SAFETY: a pointer that is not null, a static name, and a destructor; a new reference or an error.
    let capsule = unsafe {
        let capsule =
            pyo3::ffi::PyCapsule_New(Box::into_raw(made).cast(), DEVICE_ARRAY.as_ptr(), Some(delete_device_array));
        Bound::from_owned_ptr_or_err(py, capsule)?.unbind()
    };
    Ok((schema, capsule))
}

/// An array on a device, in the capsules of `__arrow_c_device_array__`: its memory, for work in the stream's order, and NumPy's name of
/// the type of its elements. The array's event is given to `wait`, which lets the stream wait for it.
#[pyfunction]
pub(crate) fn arrow_device_import(
    py: Python<'_>,
    schema: &Bound<'_, PyCapsule>,
    array: &Bound<'_, PyCapsule>,
    device: &Device,
    stream: &Stream,
    wait: &Bound<'_, PyAny>,
) -> PyResult<(Memory, String)> {
    check_not_forked()?;
    let schema = taken(schema, c"arrow_schema", FFI_ArrowSchema::from_raw)?;
    let of = DataType::try_from(&schema).map_err(|error| value_error(error.to_string()))?;
    let kind = kind_of(&of)?;
    if !kind.starts_with('<') {
        return Err(PyTypeError::new_err(
            "strings and keys of 16 bytes on a device are not supported: copy them to host memory",
        ));
    }
    let at = array.pointer_checked(Some(DEVICE_ARRAY))?.cast::<DeviceArray>();
    // SAFETY: what a capsule of this name has. What is taken is marked as released, so that its destructor leaves it.
    let (it, device_id, device_kind, event) = unsafe {
        let at = &mut *at.as_ptr();
        let release = at.array.release.take();
        let mut array = core::ptr::read(&raw const at.array);
        array.release = release;
        (Taken(array), at.device_id, at.device_kind, at.event)
    };
    if it.0.release.is_none() {
        return Err(value_error("an Arrow array that was taken already"));
    }
    let (is_gpu, ordinal) = device.number();
    let is_here = match is_gpu {
        true => matches!(device_kind, CUDA | CUDA_MANAGED) && device_id == i64::from(ordinal),
        false => device_kind == CPU,
    };
    if !is_here {
        return Err(value_error(format!(
            "an Arrow array on device {device_id} of kind {device_kind}, which is not the index's: use one device for both"
        )));
    }
    if it.0.buffer_count != 2 || it.0.length < 0 || it.0.offset < 0 {
        return Err(value_error("an Arrow array that is no column of numbers"));
    }
    // SAFETY: two buffers, as was checked.
    let [validity, start] = unsafe { it.0.buffers.cast::<[*const c_void; 2]>().read() };
    if it.0.null_count > 0 || it.0.null_count < 0 && !validity.is_null() {
        return Err(value_error("an Arrow array on a device with nulls, or whose nulls were not counted: drop them"));
    }
    if !event.is_null() {
        wait.call1((event.expose_provenance(),))?;
    }
    let width = if kind.as_bytes()[2] == b'4' { 4 } else { 8 };
    let layout = (start.expose_provenance() + it.0.offset as usize * width, it.0.length as usize, width);
    // SAFETY: the producer says that these are that many elements of a device, ready in the order of the stream, until they are
    // released, which the memory keeps.
    let memory = py.detach(|| unsafe { Memory::foreign(stream, layout, (false, true), Box::new(it)) })?;
    Ok((memory, kind))
}

fn unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// NumPy's name of a type; of decimals "decimal128" with their digits and their scale; "text" and "bytes" for strings.
fn kind_of(of: &DataType) -> PyResult<String> {
    Ok(match of {
        DataType::UInt32 => "<u4".to_owned(),
        DataType::UInt64 => "<u8".to_owned(),
        DataType::Int32 => "<i4".to_owned(),
        DataType::Int64 => "<i8".to_owned(),
        DataType::Float32 => "<f4".to_owned(),
        DataType::Float64 => "<f8".to_owned(),
        DataType::Timestamp(of, None) => format!("<M8[{}]", unit(*of)),
        DataType::Duration(of) => format!("<m8[{}]", unit(*of)),
        DataType::FixedSizeBinary(16) => "|V16".to_owned(),
        DataType::Decimal128(digits, scale) => format!("decimal128,{digits},{scale}"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytes".to_owned(),
        other => {
            return Err(PyTypeError::new_err(format!("columns of Arrow's type {other} are not supported: cast them")));
        }
    })
}

/// Offsets and bytes of views of strings, in which a null has none.
fn gathered<'py>(py: Python<'py>, views: &BinaryViewArray) -> PyResult<Strings<'py>> {
    let (mut offsets, mut bytes) = (room(views.len() + 1)?, room(views.total_bytes_len())?);
    offsets.push(0);
    for string in views {
        bytes.extend_from_slice(string.unwrap_or_default());
        offsets.push(bytes.len() as u64);
    }
    Ok((PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, bytes)))
}

impl Column {
    pub(crate) fn data(&self) -> &ArrayData {
        &self.data
    }
}

#[pymethods]
impl Column {
    /// NumPy's name of the type of the elements, as for decimals "decimal128" with their digits and their scale; "text" and "bytes" for strings.
    #[getter]
    fn kind(&self) -> PyResult<String> {
        kind_of(self.data.data_type())
    }

    fn __len__(&self) -> usize {
        self.data.len()
    }

    #[getter]
    fn null_count(&self) -> usize {
        self.data.null_count()
    }

    /// Which elements are there; None if all are.
    fn validity<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<bool>>>> {
        let Some(nulls) = self.data.nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(None) };
        Ok(Some(PyArray1::from_vec(py, gather(nulls.len(), nulls.iter())?)))
    }

    /// The elements of numbers and of 16 bytes, for `numpy.asarray`: the array holds this object.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kind = self.kind()?;
        let (kind, width) = match &*kind {
            "text" | "bytes" => return Err(PyTypeError::new_err("strings are no numbers")),
            number if number.starts_with('<') => (number, if number.as_bytes()[2] == b'4' { 4 } else { 8 }),
            _ => ("|V16", 16),
        };
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
        let mut offsets: Vec<u64> = match self.data.data_type() {
            _ if len == 0 => vec![0],
            DataType::Utf8View => {
                return gathered(py, &make_array(self.data.clone()).as_string_view().clone().to_binary_view());
            }
            DataType::BinaryView => return gathered(py, make_array(self.data.clone()).as_binary_view()),
            DataType::Utf8 | DataType::Binary => {
                gather(len + 1, self.data.buffer::<i32>(0).iter().map(|&offset| offset as u64))?
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                gather(len + 1, self.data.buffer::<i64>(0).iter().map(|&offset| offset as u64))?
            }
            _ => return Err(PyTypeError::new_err("numbers are no strings")),
        };
        // (`buffer` has begun at the array's own offset.)
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let bytes = if len == 0 { &[] } else { &self.data.buffers()[1][first as usize..last as usize] };
        offsets.iter_mut().for_each(|offset| *offset -= first);
        Ok((PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, gather(bytes.len(), bytes.iter().copied())?)))
    }
}
