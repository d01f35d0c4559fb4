//! The driver functions that this crate calls, loaded when the first GPU is opened.
//!
//! Nothing links the driver: a program with the feature `cuda` builds and starts on any machine, and is told by
//! [`Driver::get`] if there is none. Results are plain integers: a driver newer than this crate may return codes that
//! no enum of ours would list. Handles are pointers to types of their own, so that none is taken for another.

use crate::driver_error::{Action, classify};
use crate::{Error, Result};
use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use core::ptr::null;
use libloading::Library;
use std::sync::OnceLock;

/// The driver's library, which NVIDIA's driver installs; the CUDA toolkit has no part in it.
#[cfg(windows)]
const LIBRARY: &str = "nvcuda.dll";
/// The driver's library, which NVIDIA's driver installs; the CUDA toolkit has no part in it.
#[cfg(not(windows))]
const LIBRARY: &str = "libcuda.so.1";

/// The oldest CUDA whose driver reads the kernels' PTX, which is version 7.4. It has all functions of [`Driver`]
/// (`cuDevicePrimaryCtxRelease_v2`, of CUDA 11.0, is the latest), and those that cust calls.
pub(super) const OLDEST_DRIVER: (u32, u32) = (11, 4);

/// A GPU, by the driver's number.
pub(super) type CUdevice = c_int;
/// An address of device memory.
pub(super) type CUdeviceptr = u64;

/// What the driver's handles point to.
pub(super) mod opaque {
    pub(crate) enum Context {}
    pub(crate) enum Module {}
    pub(crate) enum Function {}
    pub(crate) enum Library {}
    pub(crate) enum Kernel {}
    pub(crate) enum Stream {}
    pub(crate) enum Event {}
}
pub(super) type CUcontext = *mut opaque::Context;
pub(super) type CUmodule = *mut opaque::Module;
pub(super) type CUfunction = *mut opaque::Function;
pub(super) type CUlibrary = *mut opaque::Library;
pub(super) type CUkernel = *mut opaque::Kernel;
pub(super) type CUstream = *mut opaque::Stream;
pub(super) type CUevent = *mut opaque::Event;

// Constants of cuda.h, by its names.
pub(super) const CU_MEMHOSTALLOC_PORTABLE: c_uint = 1;
pub(super) const CU_MEMHOSTREGISTER_PORTABLE: c_uint = 1;
pub(super) const CU_MEMHOSTREGISTER_DEVICEMAP: c_uint = 2;
pub(super) const CU_STREAM_NON_BLOCKING: c_uint = 1;
pub(super) const CU_EVENT_DEFAULT: c_uint = 0;
pub(super) const CU_EVENT_DISABLE_TIMING: c_uint = 2;
pub(super) const CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
pub(super) const CU_JIT_ERROR_LOG_BUFFER: c_int = 5;
pub(super) const CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
pub(super) const CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: c_int = 16;
pub(super) const CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: c_int = 38;
pub(super) const CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: c_int = 75;
pub(super) const CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: c_int = 76;
pub(super) const CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
pub(super) const CU_POINTER_ATTRIBUTE_CONTEXT: c_int = 1;
pub(super) const CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;
pub(super) const CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: c_int = 10;
pub(super) const CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: c_int = 16;
pub(super) const CU_MEM_ACCESS_FLAGS_PROT_READWRITE: u64 = 3;
pub(super) const CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: c_int = 704;

/// A struct with a pointer for each function, and a method of the same name that calls it.
macro_rules! functions {
    (
        $(#[$struct_attribute:meta])*
        struct $struct:ident;
        $($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*
    ) => {
        $(#[$struct_attribute])*
        #[expect(non_snake_case, reason = "the driver's names")]
        pub(super) struct $struct {
            $($(#[$attribute])* $name: unsafe extern "system" fn($($type),*) -> c_int,)*
            /// What the pointers point into.
            _library: Library,
        }

        #[expect(non_snake_case, reason = "the driver's names")]
        impl $struct {
            /// The functions of a library; `Err` of the first that it lacks.
            ///
            /// # Safety
            /// The library is the CUDA driver: what it has under these names has these signatures.
            unsafe fn of(library: Library) -> Result<Self, Lacking> {
                Ok(Self {
                    $($(#[$attribute])* $name: {
                        // SAFETY: the caller vouches for the signature. The library is part of the value, so that the
                        // pointer is valid for as long as the value is.
                        match unsafe { library.get(concat!(stringify!($name), "\0")) } {
                            Ok(symbol) => *symbol,
                            Err(_) => return Err(Lacking { function: stringify!($name), library }),
                        }
                    },)*
                    _library: library,
                })
            }

            $(
                $(#[$attribute])*
                /// # Safety
                /// As the driver's reference says of the function.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "one function of the driver's has so many")]
                pub(super) unsafe fn $name(&self, $($argument: $type),*) -> c_int {
                    // SAFETY: the caller's contract; the pointer is of this function, by that of `of`.
                    unsafe { (self.$name)($($argument),*) }
                }
            )*
        }
    };
}

functions! {
    /// The driver's functions, by their names in the library. A call is the load of a pointer and an indirect call.
    struct Driver;

    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuGetErrorName(error: c_int, text: *mut *const c_char);
    fn cuGetErrorString(error: c_int, text: *mut *const c_char);

    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxSynchronize();
    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice);
    #[cfg(feature = "cust")]
    fn cuCtxGetDevice(device: *mut CUdevice);

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(at: *mut CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(at: CUdeviceptr);
    fn cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemFreeHost(at: *mut c_void);
    fn cuMemHostRegister_v2(at: *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemHostUnregister(at: *mut c_void);
    fn cuMemHostGetDevicePointer_v2(device_at: *mut CUdeviceptr, at: *mut c_void, flags: c_uint);
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    );
    fn cuMemsetD8Async(at: CUdeviceptr, byte: c_uchar, bytes: usize, stream: CUstream);
    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_int, at: CUdeviceptr);

    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamQuery(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    #[cfg(feature = "cust")]
    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventQuery(event: CUevent);
    fn cuEventSynchronize(event: CUevent);
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);

    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        options: c_uint,
        names: *mut c_int,
        values: *mut *mut c_void,
    );
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int);
    fn cuLaunchKernel(
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
    );
}

functions! {
    /// Functions of CUDA 12.0 and later, which load kernels: several threads at once, unlike `cuModuleLoadDataEx`.
    struct Libraries;

    fn cuLibraryLoadData(
        library: *mut CUlibrary,
        image: *const c_void,
        options: *mut c_int,
        values: *mut *mut c_void,
        option_count: c_uint,
        library_options: *mut c_int,
        library_values: *mut *mut c_void,
        library_option_count: c_uint,
    );
    fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
    fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel);
    fn cuLibraryUnload(library: CUlibrary);
}

impl Libraries {
    /// The functions, if the driver has them.
    pub(super) fn get() -> Option<&'static Self> {
        static LIBRARIES: OnceLock<Option<Libraries>> = OnceLock::new();
        // SAFETY: the name is that of NVIDIA's driver, which is loaded already, and whose functions these are.
        LIBRARIES.get_or_init(|| unsafe { Self::of(Library::new(LIBRARY).ok()?).ok() }).as_ref()
    }
}

/// A function that a library lacks.
struct Lacking {
    function: &'static str,
    library: Library,
}

impl Driver {
    /// The driver, loaded at the first call and never unloaded. A failure is not kept: the next call tries again.
    ///
    /// # Errors
    /// [`Error::NoDriver`] without the library, [`Error::DriverTooOld`] where it lacks a function.
    pub(super) fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        // SAFETY: the name is that of NVIDIA's driver.
        let new = unsafe { Self::load(LIBRARY)? };
        // Another thread may have been first; both are the same.
        Ok(DRIVER.get_or_init(|| new))
    }

    /// Loads the driver from a library.
    ///
    /// # Safety
    /// A library of this name, where there is one, is the CUDA driver: it may be loaded at any time, on any thread, and
    /// what it has under the driver's names has their signatures.
    unsafe fn load(name: &str) -> Result<Self> {
        // SAFETY: the caller's contract.
        let library = unsafe { Library::new(name) };
        let library = library.map_err(|error| Error::NoDriver { reason: reason(name, &error), is_installed: false })?;
        // SAFETY: the caller's contract.
        unsafe { Self::of(library) }.map_err(|Lacking { function, library }| {
            // SAFETY: the signature of this function, by the caller's contract.
            let get_version = unsafe { library.get(b"cuDriverGetVersion\0") };
            let version = get_version.ok().map(|get_version| {
                let get_version: libloading::Symbol<'_, unsafe extern "system" fn(*mut c_int) -> c_int> = get_version;
                let mut version = 0;
                // SAFETY: the pointer is valid for the call, which needs no `cuInit`.
                unsafe { get_version(&raw mut version) };
                version_of(version)
            });
            match version {
                Some(driver_version) if driver_version < OLDEST_DRIVER => {
                    Error::DriverTooOld { driver_version, needed: OLDEST_DRIVER }
                }
                _ => Error::NoDriver { reason: format!("{name} has no function {function}"), is_installed: true },
            }
        })
    }

    /// `Ok` for 0, else the error; `action` is called for errors only.
    #[inline]
    pub(super) fn check(&self, code: c_int, action: impl FnOnce() -> Action) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(code, action())) }
    }

    /// The error for a code.
    #[cold]
    pub(super) fn error(&self, code: c_int, action: Action) -> Error {
        let text = |get: &dyn Fn(*mut *const c_char) -> c_int, otherwise: &str| {
            let mut text = null();
            if get(&raw mut text) != 0 || text.is_null() {
                return otherwise.to_owned();
            }
            // SAFETY: not null, so one of the driver's static, terminated strings.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        // SAFETY: the pointer is valid for the call; the driver stores a static string there, or null.
        let name = text(&|text| unsafe { self.cuGetErrorName(code, text) }, "an error that the driver does not name");
        // SAFETY: as above.
        let message = text(&|text| unsafe { self.cuGetErrorString(code, text) }, "without a description");
        classify(code, name, message, action)
    }
}

/// Major and minor, of the driver's number for both.
pub(super) fn version_of(number: c_int) -> (u32, u32) {
    (number as u32 / 1000, number as u32 % 1000 / 10)
}

/// What the loader says, with the library's name, which not every system's does.
fn reason(name: &str, error: &libloading::Error) -> String {
    let words = core::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    if words.contains(name) { words } else { format!("{name}: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        // SAFETY: there is no such library.
        let Err(error) = (unsafe { Driver::load("liblanetree-no-such-driver.so.1") }) else { panic!("loaded") };
        let Error::NoDriver { reason, .. } = &error else { panic!("{error}") };
        assert!(reason.contains("liblanetree-no-such-driver.so.1"), "{error}");
        assert!(error.to_string().contains("install the NVIDIA driver"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_drivers_functions_is_refused() {
        // SAFETY: the C library is loaded already, and has none of the functions: nothing is called.
        let Err(error) = (unsafe { Driver::load("libc.so.6") }) else { panic!("loaded") };
        let Error::NoDriver { reason, .. } = &error else { panic!("{error}") };
        assert_eq!(reason, "libc.so.6 has no function cuInit");
    }

    /// Else a GPU is taken whose first launch fails.
    #[test]
    fn the_oldest_driver_reads_every_module_of_the_workspace() {
        use std::io::Read;
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folders = std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("kernels/ptx"));
        let (mut modules, mut newest) = (0, (0, 0));
        for path in folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().map(|e| e.unwrap().path()) {
            if path.extension().is_none_or(|extension| extension != "ptx") {
                continue;
            }
            let mut start = [0; 256];
            let len = std::fs::File::open(&path).unwrap().read(&mut start).unwrap();
            let start = String::from_utf8_lossy(&start[..len]);
            let version = start.split_once(".version ").unwrap().1.split_whitespace().next().unwrap();
            let (major, minor) = version.split_once('.').unwrap();
            newest = newest.max((major.parse::<u32>().unwrap(), minor.parse::<u32>().unwrap()));
            modules += 1;
        }
        assert!(modules > 50, "{modules}");
        // CUDA 11.x is the first to read PTX 7.x, and 12.x to read 8.x.
        let needed = (newest.0 + 4, newest.1);
        assert!(needed <= OLDEST_DRIVER, "PTX {newest:?} needs CUDA {needed:?}, not {OLDEST_DRIVER:?}");
    }

    #[test]
    fn versions_are_major_and_minor() {
        assert_eq!((version_of(11_040), version_of(12_000), version_of(13_010)), ((11, 4), (12, 0), (13, 1)));
    }
}
