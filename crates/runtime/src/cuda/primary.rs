//! A GPU and its primary context: opened by cust, where the program is on cust, else by the driver's own calls.

use super::sys::{CUcontext, CUdevice, Driver};
use crate::Result;
use crate::driver_error::Action;
use core::ffi::{CStr, c_int};
use core::ptr::null_mut;

/// A GPU whose primary context is retained.
pub(super) struct Primary {
    device: CUdevice,
    context: CUcontext,
    driver: &'static Driver,
    /// Holds on to the context.
    #[cfg(feature = "cust")]
    _by_cust: ::cust::context::Context,
    #[cfg(feature = "cust")]
    cust: ::cust::device::Device,
}

// SAFETY: the context is a handle, only a number outside the driver, which may be called from any thread.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl Primary {
    /// Opens the GPU of an ordinal that the driver has, and retains its primary context.
    pub(super) fn open(driver: &'static Driver, ordinal: u32, action: impl Fn() -> Action) -> Result<Self> {
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: the pointer is valid for the call.
        driver.check(unsafe { driver.cuDeviceGet(&raw mut device, ordinal as i32) }, &action)?;
        // By our own call also where cust comes next: here a newer driver has codes that its enum lacks (46,
        // `CUDA_ERROR_DEVICE_UNAVAILABLE`, of a GPU that another process has to itself), which it must not see.
        // SAFETY: the pointer is valid for the call, and the device one that the driver gave.
        driver.check(unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, device) }, &action)?;
        Self::retained(driver, ordinal, device, context, action)
    }

    /// The context that is retained already, as it is.
    #[cfg(not(feature = "cust"))]
    fn retained(
        driver: &'static Driver,
        _: u32,
        device: CUdevice,
        context: CUcontext,
        _: impl Fn() -> Action,
    ) -> Result<Self> {
        Ok(Self { device, context, driver })
    }

    /// The context that is retained already, through cust.
    #[cfg(feature = "cust")]
    fn retained(
        driver: &'static Driver,
        ordinal: u32,
        device: CUdevice,
        context: CUcontext,
        action: impl Fn() -> Action,
    ) -> Result<Self> {
        let by_cust = ::cust::device::Device::get_device(ordinal)
            .and_then(|cust| Ok((::cust::context::Context::new(cust)?, cust)))
            .map_err(|error| driver.error(error as i32, action()));
        // SAFETY: retained by the caller; cust's context, if there is one, holds on to it from here on.
        driver.check(unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) }, action)?;
        let (by_cust, cust) = by_cust?;
        Ok(Self { device, context, driver, _by_cust: by_cust, cust })
    }

    pub(super) fn device(&self) -> CUdevice {
        self.device
    }

    pub(super) fn context(&self) -> CUcontext {
        self.context
    }

    /// The GPU, as cust has it.
    #[cfg(feature = "cust")]
    pub(super) fn cust(&self) -> ::cust::device::Device {
        self.cust
    }

    /// `NVIDIA H200`, say.
    pub(super) fn name(&self, action: impl FnOnce() -> Action) -> Result<String> {
        let mut name = [0; 256];
        // SAFETY: the name has room for what is said, and the device is one that the driver gave.
        let code = unsafe { self.driver.cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, self.device) };
        self.driver.check(code, action)?;
        Ok(CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned())
    }

    /// Bytes of device memory.
    pub(super) fn total_memory(&self, action: impl FnOnce() -> Action) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: the pointer is valid for the call, and the device one that the driver gave.
        self.driver.check(unsafe { self.driver.cuDeviceTotalMem_v2(&raw mut bytes, self.device) }, action)?;
        Ok(bytes as u64)
    }
}

#[cfg(not(feature = "cust"))]
impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained in `open`, and not reused.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
