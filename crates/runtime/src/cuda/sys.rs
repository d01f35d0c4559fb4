//! The driver functions that this crate calls, with their results as plain integers.
//!
//! cust_raw declares the same functions with a Rust enum of CUDA 11.4's results for a result: to receive
//! a newer one (46, `CUDA_ERROR_DEVICE_UNAVAILABLE`, say, of a GPU that another process has to itself)
//! would be undefined behaviour, and cust maps all that it does not list to 999. So the calls that can
//! return anything are declared here; types and constants are cust_raw's, and so is the linking.

use crate::driver_error::{Action, classify};
use crate::{Error, Result};
use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use core::ptr::null;
pub(super) use cust_raw::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUjit_option, CUmodule, CUstream};

unsafe extern "C" {
    pub(super) fn cuInit(flags: c_uint) -> c_int;
    pub(super) fn cuDriverGetVersion(version: *mut c_int) -> c_int;
    fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> c_int;
    fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int;

    pub(super) fn cuDeviceGetCount(count: *mut c_int) -> c_int;
    pub(super) fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice) -> c_int;
    pub(super) fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> c_int;
    pub(super) fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> c_int;
    pub(super) fn cuCtxSetCurrent(context: CUcontext) -> c_int;
    pub(super) fn cuCtxSynchronize() -> c_int;

    pub(super) fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int;
    pub(super) fn cuMemAlloc_v2(at: *mut CUdeviceptr, bytes: usize) -> c_int;
    pub(super) fn cuMemFree_v2(at: CUdeviceptr) -> c_int;
    pub(super) fn cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, flags: c_uint) -> c_int;
    pub(super) fn cuMemFreeHost(at: *mut c_void) -> c_int;
    pub(super) fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> c_int;
    pub(super) fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> c_int;
    pub(super) fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) -> c_int;
    pub(super) fn cuMemsetD8Async(at: CUdeviceptr, byte: c_uchar, bytes: usize, stream: CUstream) -> c_int;

    pub(super) fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> c_int;
    pub(super) fn cuStreamDestroy_v2(stream: CUstream) -> c_int;
    pub(super) fn cuStreamSynchronize(stream: CUstream) -> c_int;
    pub(super) fn cuStreamQuery(stream: CUstream) -> c_int;
    pub(super) fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> c_int;
    pub(super) fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> c_int;
    pub(super) fn cuEventDestroy_v2(event: CUevent) -> c_int;
    pub(super) fn cuEventRecord(event: CUevent, stream: CUstream) -> c_int;
    pub(super) fn cuEventQuery(event: CUevent) -> c_int;
    pub(super) fn cuEventSynchronize(event: CUevent) -> c_int;
    pub(super) fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> c_int;

    pub(super) fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        options: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> c_int;
    pub(super) fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> c_int;
    pub(super) fn cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int) -> c_int;
    pub(super) fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
}

/// `Ok` for 0, else the error; `action` is called for errors only.
pub(super) fn check(code: c_int, action: impl FnOnce() -> Action) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(error(code, action())) }
}

/// The error for a code.
pub(super) fn error(code: c_int, action: Action) -> Error {
    let text = |get: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int, otherwise: &str| {
        let mut text = null();
        // SAFETY: the pointer is valid; the driver stores a static string there, or null.
        if unsafe { get(code, &raw mut text) } != 0 || text.is_null() {
            return otherwise.to_owned();
        }
        // SAFETY: not null, so one of the driver's static, terminated strings.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    let name = text(cuGetErrorName, "an error that the driver does not name");
    let message = text(cuGetErrorString, "without a description");
    classify(code, name, message, action)
}
