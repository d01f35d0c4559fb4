//! DLPack: arrays of other libraries in, and a device's arrays out, without a copy.

use crate::device::Stream;
use crate::errors::{check_not_forked, value_error};
use crate::memory::Memory;
use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

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
        // SAFETY: taken out of its capsule, which does not delete it any more; deleted once, here. Producers may want the GIL.
        Python::attach(|_| unsafe {
            match *self {
                Self::Managed(it) => it.as_ref().deleter.into_iter().for_each(|delete| delete(it.as_ptr())),
                Self::Versioned(it) => it.as_ref().deleter.into_iter().for_each(|delete| delete(it.as_ptr())),
            }
        });
    }
}

/// An array in the capsule of a producer, which has made its data ready in the stream's order: its memory, and the code and bits of its
/// elements.
#[pyfunction]
pub(crate) fn dlpack_import(
    py: Python<'_>,
    capsule: &Bound<'_, PyCapsule>,
    stream: &Stream,
    in_order: bool,
) -> PyResult<(Memory, u8, u8)> {
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
    let element = tensor.element;
    if tensor.dimensions != 1 {
        return Err(value_error(format!("an array of {} dimensions, where one is needed", tensor.dimensions)));
    }
    if element.lanes != 1 || !matches!(element.bits, 8 | 32 | 64) {
        let (bits, lanes) = (element.bits, element.lanes);
        return Err(PyTypeError::new_err(format!("elements of {lanes} x {bits} bits are not supported")));
    }
    // SAFETY: shape has an element for the one dimension; so have strides, unless they are null.
    let (len, stride) = unsafe { (*tensor.shape, tensor.strides.as_ref().map_or(1, |stride| *stride)) };
    let len = usize::try_from(len).map_err(|_| value_error("a negative length"))?;
    if stride != 1 && len > 1 {
        return Err(value_error("the array is strided: make it contiguous"));
    }
    let address = tensor.data.expose_provenance() + tensor.byte_offset as usize;
    let layout = (address, len, usize::from(element.bits / 8));
    let owner = Box::new(taken);
    // SAFETY: the producer says that these are that many elements of a device that can be read in the order of the stream,
    // as long as its deleter has not run; `owner` runs it. The front end has compared the devices.
    let memory = py.detach(|| unsafe { Memory::foreign(stream, layout, (in_order, flags & READ_ONLY != 0), owner) })?;
    Ok((memory, element.code, element.bits))
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
    // SAFETY: both boxes were leaked there.
    let (tensor, held) = unsafe { (Box::from_raw(it), Box::from_raw((*it).context.cast::<Exported>())) };
    Python::attach(|_| drop((tensor, held)));
}

/// # Safety
/// Of `dlpack_export`, and not used again.
unsafe extern "C" fn delete_versioned(it: *mut Versioned) {
    // SAFETY: both boxes were leaked there.
    let (tensor, held) = unsafe { (Box::from_raw(it), Box::from_raw((*it).context.cast::<Exported>())) };
    Python::attach(|_| drop((tensor, held)));
}

/// Deletes a tensor that nobody has taken: a consumer renames the capsule.
unsafe extern "C" fn delete_capsule(capsule: *mut pyo3::ffi::PyObject) {
    use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_IsValid};
    // SAFETY: a capsule of `dlpack_export`, which has these names or those of taken ones.
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
    let bits = (memory.get().width() * 8) as u8;
    let (held, tensor) = exported(memory, len, DlType { code, bits, lanes: 1 }, device)?;
    let context = Box::into_raw(held).cast();
    let (at, name): (*mut c_void, _) = if versioned {
        let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
        let it = Box::new(Versioned { version: [MAJOR, 0], context, deleter, flags: 0, tensor });
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
