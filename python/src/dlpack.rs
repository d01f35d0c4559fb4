//! DLPack: arrays of other libraries in, and a device's arrays out, without a copy.

use crate::device::{Device, Stream};
use crate::errors::{check_not_forked, value_error};
use crate::memory::Memory;
use core::ffi::{CStr, c_int, c_void};
use core::ptr::{NonNull, null_mut};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    dimensions: i32,
    element: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

const MAJOR: u32 = 1;
const READ_ONLY: u64 = 1;

const MANAGED: [&CStr; 2] = [c"dltensor", c"used_dltensor"];
const VERSIONED: [&CStr; 2] = [c"dltensor_versioned", c"used_dltensor_versioned"];

/// A tensor of a producer's. Its deleter runs when this is dropped.
enum Taken {
    Managed(NonNull<Managed>),
    Versioned(NonNull<Versioned>),
}

// SAFETY: the producer's deleter may be called from any thread, as DLPack demands.
unsafe impl Send for Taken {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: taken out of its capsule, which does not delete it any more; deleted once, here. Producers may want the GIL: after the
        // interpreter's end the tensor is leaked.
        Python::try_attach(|_| unsafe {
            match *self {
                Self::Managed(it) => it.as_ref().deleter.into_iter().for_each(|delete| delete(it.as_ptr())),
                Self::Versioned(it) => it.as_ref().deleter.into_iter().for_each(|delete| delete(it.as_ptr())),
            }
        });
    }
}

/// An array in the capsule of a producer, which has made its data ready in the stream's order: its memory, and the number of its
/// elements' type.
#[pyfunction]
pub(crate) fn dlpack_import(
    py: Python<'_>,
    capsule: &Bound<'_, PyCapsule>,
    stream: &Stream,
    in_order: bool,
) -> PyResult<(Memory, u16)> {
    check_not_forked()?;
    let (taken, tensor, flags) = if capsule.is_valid_checked(Some(VERSIONED[0])) {
        let at = capsule.pointer_checked(Some(VERSIONED[0]))?.cast::<Versioned>();
        // SAFETY: what a capsule of this name has; read before anything else of it is used.
        let version = unsafe { at.as_ref().version };
        if version[0] != MAJOR {
            return Err(PyBufferError::new_err(format!("DLPack {}.{} is not supported: 1 is", version[0], version[1])));
        }
        rename(capsule, VERSIONED[1])?;
        // SAFETY: a tensor of this version, alive until its deleter runs.
        let (tensor, flags) = unsafe { (&raw const at.as_ref().tensor, at.as_ref().flags) };
        (Taken::Versioned(at), tensor, flags)
    } else if capsule.is_valid_checked(Some(MANAGED[0])) {
        let at = capsule.pointer_checked(Some(MANAGED[0]))?.cast::<Managed>();
        rename(capsule, MANAGED[1])?;
        // SAFETY: as above.
        (Taken::Managed(at), unsafe { &raw const at.as_ref().tensor }, 0)
    } else {
        return Err(PyBufferError::new_err("a capsule that is no DLPack tensor, or was taken already"));
    };
    // SAFETY: as above.
    let tensor = unsafe { &*tensor };
    if tensor.dimensions != 1 {
        return Err(value_error(format!("an array of {} dimensions, where one is needed", tensor.dimensions)));
    }
    let DlType { bits, lanes, .. } = tensor.element;
    if lanes != 1 || !matches!(bits, 8 | 32 | 64) {
        return Err(PyTypeError::new_err(format!("elements of {lanes} x {bits} bits are not supported")));
    }
    let Some(len) = contiguous(tensor)? else {
        return Err(value_error("the array is strided: make it contiguous"));
    };
    // SAFETY: the producer says that these are that many elements of a device that can be read in the order of the stream,
    // as long as its deleter has not run, which the memory keeps. The front end has compared the devices.
    let memory = unsafe { memory_of(py, (taken, tensor, len), stream, (in_order, flags & READ_ONLY != 0))? };
    Ok((memory, type_number(tensor.element)))
}

/// The length of a tensor of one dimension, if its elements are one after another.
fn contiguous(tensor: &DlTensor) -> PyResult<Option<usize>> {
    // SAFETY: shape has an element for the one dimension; so have strides, unless they are null.
    let (len, stride) = unsafe { (*tensor.shape, tensor.strides.as_ref().map_or(1, |stride| *stride)) };
    let len = usize::try_from(len).map_err(|_| value_error("a negative length"))?;
    Ok((stride == 1 || len <= 1).then_some(len))
}

/// A type of elements as one number, which the front end looks up.
fn type_number(element: DlType) -> u16 {
    u16::from(element.code) << 8 | u16::from(element.bits)
}

/// # Safety
/// As [`Memory::foreign`]. The tensor is the taken one's, and has `len` elements one after another.
unsafe fn memory_of(
    py: Python<'_>,
    (taken, tensor, len): (Taken, &DlTensor, usize),
    stream: &Stream,
    (in_order, readonly): (bool, bool),
) -> PyResult<Memory> {
    let address = tensor.data.expose_provenance() + tensor.byte_offset as usize;
    let layout = (address, len, usize::from(tensor.element.bits / 8));
    let owner = Box::new(taken);
    // SAFETY: the caller's contract.
    let make = || unsafe { Memory::foreign(stream, layout, (in_order, readonly), owner) };
    // Without a copy it waits for nothing, and others need not be let in.
    if in_order && Memory::is_aligned(address) { make() } else { py.detach(make) }
}

/// DLPack's table of a producer's functions, in which an array is taken without a call of Python's.
#[repr(C)]
struct Table {
    version: [u32; 2],
    /// The table of an earlier version, if there is one.
    earlier: *const Self,
    allocate: *const c_void,
    take: Option<unsafe extern "C" fn(*mut pyo3::ffi::PyObject, *mut *mut Versioned) -> c_int>,
    give: *const c_void,
    view: *const c_void,
    current_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

const TABLE: &CStr = c"dlpack_exchange_api";
const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;

/// How arrays of a type are taken without a call of Python's: DLPack's C exchange API, which torch has from 2.10 on.
#[pyclass(frozen, module = "lanetree._native")]
pub(crate) struct Exchange {
    table: &'static Table,
    /// Whether the producer's streams live as long as the process.
    keeps_streams: bool,
}

// SAFETY: the functions may be called by whoever holds the GIL; the rest is not used.
unsafe impl Send for Exchange {}
// SAFETY: as above.
unsafe impl Sync for Exchange {}

impl Exchange {
    /// [`Exchange::take`] of an array whose elements are of the type of this number, for work in its producer's stream.
    pub(crate) fn take_of(
        &self,
        array: &Bound<'_, PyAny>,
        device: &Device,
        number: u16,
    ) -> PyResult<Option<(Memory, Py<Stream>)>> {
        let taken = self.take(array, device, None)?;
        Ok(taken.filter(|taken| taken.1 == number).map(|(memory, _, stream)| (memory, stream)))
    }
}

#[pymethods]
impl Exchange {
    /// Of a type of arrays; `None` if it has none of a version that is known here.
    #[staticmethod]
    fn of(kind: &Bound<'_, PyType>, keeps_streams: bool) -> PyResult<Option<Self>> {
        let Some(capsule) = kind.getattr_opt("__dlpack_c_exchange_api__")? else { return Ok(None) };
        let Ok(capsule) = capsule.cast_into::<PyCapsule>() else { return Ok(None) };
        if !capsule.is_valid_checked(Some(TABLE)) {
            return Ok(None);
        }
        let mut table = capsule.pointer_checked(Some(TABLE))?.as_ptr().cast_const().cast::<Table>();
        // SAFETY: what a capsule of this name has, and what tables name as earlier ones: their first two fields are the same in all
        // versions, and they live as long as the process, as DLPack demands.
        unsafe {
            while let Some(it) = table.as_ref().filter(|it| it.version[0] > MAJOR) {
                table = it.earlier;
            }
            let table = table.as_ref().filter(|it| it.version[0] == MAJOR);
            Ok(table
                .filter(|it| it.take.is_some() && it.current_stream.is_some())
                .map(|table| Self { table, keeps_streams }))
        }
    }

    /// An array of one dimension on the device, whose elements are one after another: its memory, the number of their type, and the
    /// stream in whose order the producer works. `None` for any other array, and where that stream is not the one given.
    ///
    /// The memory is for work in that stream, in whose order its owner frees it.
    #[pyo3(signature = (array, device, stream=None))]
    fn take<'py>(
        &self,
        array: &Bound<'py, PyAny>,
        device: &Device,
        stream: Option<&Bound<'py, Stream>>,
    ) -> PyResult<Option<(Memory, u16, Py<Stream>)>> {
        check_not_forked()?;
        let (Some(take), Some(current_stream)) = (self.table.take, self.table.current_stream) else { return Ok(None) };
        let (py, (is_gpu, ordinal)) = (array.py(), device.number());
        let mut handle = null_mut();
        // SAFETY: the table's contract; the GIL is held.
        if unsafe { current_stream(if is_gpu { CUDA } else { CPU }, ordinal, &mut handle) } != 0 {
            // The general way has a message for it.
            drop(PyErr::take(py));
            return Ok(None);
        }
        let stream = match stream {
            Some(stream) if stream.get().has(handle.addr()) => stream.clone().unbind(),
            Some(_) => return Ok(None),
            None => device.stream(py, handle.addr(), self.keeps_streams)?,
        };
        let mut taken = null_mut();
        // SAFETY: as above; the array has the type whose table it is.
        let code = unsafe { take(array.as_ptr(), &mut taken) };
        let (0, Some(at)) = (code, NonNull::new(taken)) else {
            drop(PyErr::take(py));
            return Ok(None);
        };
        let taken = Taken::Versioned(at);
        // SAFETY: a tensor that was taken, alive until its deleter runs.
        let (tensor, flags) = unsafe { (&at.as_ref().tensor, at.as_ref().flags) };
        let DlDevice { kind, id } = tensor.device;
        let is_here = if is_gpu { matches!(kind, CUDA | CUDA_MANAGED) && id == ordinal } else { kind == CPU };
        let DlType { code, bits, lanes } = tensor.element;
        // Integers, floats, and bytes of bool.
        let is_known = lanes == 1 && matches!((code, bits), (0 | 1, 8 | 32 | 64) | (2, 32 | 64) | (6, 8));
        if !is_here || tensor.dimensions != 1 || !is_known {
            return Ok(None);
        }
        let Some(len) = contiguous(tensor)? else { return Ok(None) };
        // SAFETY: as in `dlpack_import`; the device was compared here.
        let memory = unsafe { memory_of(py, (taken, tensor, len), stream.get(), (true, flags & READ_ONLY != 0))? };
        Ok(Some((memory, type_number(tensor.element), stream)))
    }
}

fn rename(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: a live capsule; the name is static.
    match unsafe { pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// What an exported tensor holds on to.
struct Exported {
    _memory: Py<Memory>,
    shape: [i64; 1],
    strides: [i64; 1],
}

fn exported(
    memory: &Bound<'_, Memory>,
    len: usize,
    element: DlType,
    device: (i32, i32),
) -> PyResult<(Box<Exported>, DlTensor)> {
    let shape = i64::try_from(len).map_err(|_| value_error("too many elements"))?;
    let mut held = Box::new(Exported { _memory: memory.clone().unbind(), shape: [shape], strides: [1] });
    let tensor = DlTensor {
        data: core::ptr::with_exposed_provenance_mut(memory.get().address()),
        device: DlDevice { kind: device.0, id: device.1 },
        dimensions: 1,
        element,
        shape: held.shape.as_mut_ptr(),
        strides: held.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    Ok((held, tensor))
}

/// # Safety
/// Of `dlpack_export`, and not used again.
unsafe extern "C" fn delete_managed(it: *mut Managed) {
    // SAFETY: the tensor was made there, and this is the last use of it.
    unsafe { delete(it, (*it).context) }
}

/// # Safety
/// Of `dlpack_export`, and not used again.
unsafe extern "C" fn delete_versioned(it: *mut Versioned) {
    // SAFETY: the tensor was made there, and this is the last use of it.
    unsafe { delete(it, (*it).context) }
}

/// Frees a tensor, and what it holds on to. A consumer may call this after the interpreter's end: then both are leaked.
///
/// # Safety
/// Both are of `dlpack_export`, and not used again.
unsafe fn delete<T>(tensor: *mut T, context: *mut c_void) {
    // SAFETY: both were made by `Box::into_raw`, and are freed once, here.
    Python::try_attach(|_| unsafe { drop((Box::from_raw(tensor), Box::from_raw(context.cast::<Exported>()))) });
}

/// Deletes a tensor that nobody has taken: a consumer renames the capsule.
unsafe extern "C" fn delete_capsule(capsule: *mut pyo3::ffi::PyObject) {
    use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_IsValid};
    // SAFETY: a capsule of `dlpack_export`, which has one of these names or, once it was consumed, a name of a used
    // capsule.
    unsafe {
        if PyCapsule_IsValid(capsule, MANAGED[0].as_ptr()) == 1 {
            delete_managed(PyCapsule_GetPointer(capsule, MANAGED[0].as_ptr()).cast());
        } else if PyCapsule_IsValid(capsule, VERSIONED[0].as_ptr()) == 1 {
            delete_versioned(PyCapsule_GetPointer(capsule, VERSIONED[0].as_ptr()).cast());
        }
    }
}

/// A capsule of the first `len` elements of a device's array, for a consumer that was given a stream in which they are ready.
#[pyfunction]
pub(crate) fn dlpack_export(
    py: Python<'_>,
    memory: &Bound<'_, Memory>,
    len: usize,
    code: u8,
    device: (i32, i32),
    versioned: bool,
) -> PyResult<Py<PyAny>> {
    check_not_forked()?;
    let is_readonly = memory.get().is_readonly();
    if is_readonly && !versioned {
        return Err(PyBufferError::new_err(
            "the array is read-only, which DLPack before version 1.0 cannot tell: ask for max_version=(1, 0), or copy the array",
        ));
    }
    let bits = (memory.get().width() * 8) as u8;
    let (held, tensor) = exported(memory, len, DlType { code, bits, lanes: 1 }, device)?;
    let context = Box::into_raw(held).cast();
    let (at, name): (*mut c_void, _) = if versioned {
        let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
        let flags = if is_readonly { READ_ONLY } else { 0 };
        let it = Box::new(Versioned { version: [MAJOR, 0], context, deleter, flags, tensor });
        (Box::into_raw(it).cast(), VERSIONED[0])
    } else {
        let deleter = Some(delete_managed as unsafe extern "C" fn(_));
        (Box::into_raw(Box::new(Managed { tensor, context, deleter })).cast(), MANAGED[0])
    };
    // SAFETY: a pointer that is not null, a static name, and a destructor for both kinds; a new reference or an error.
    unsafe {
        let capsule = pyo3::ffi::PyCapsule_New(at, name.as_ptr(), Some(delete_capsule));
        Bound::from_owned_ptr_or_err(py, capsule).map(Bound::unbind)
    }
}
