//! Queues of work on a device.

use crate::machine::{Entry, RawStream};
use crate::{Device, Event, Result};
use core::ffi::c_void;
use core::fmt;
use lanetree_simt::{Instance, LaunchShape};

/// A queue of work: what is put into it runs in that order, each after the one before is done, and at the
/// same time as the work of other streams. On the emulator and the host everything runs at once.
pub struct Stream {
    device: Device,
    raw: RawStream,
    owned: bool,
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self { device: device.clone(), raw: device.machine.create_stream()?, owned: true })
    }

    pub(crate) fn foreign(device: &Device, raw: RawStream) -> Self {
        Self { device: device.clone(), raw, owned: false }
    }

    /// The device on which the work runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The `CUstream`, for other libraries; null on the emulator and the host.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.0
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.raw
    }

    /// Waits for all work put into the stream so far.
    ///
    /// # Errors
    /// [`Error::Cuda`](crate::Error::Cuda), among others the error of a kernel that failed meanwhile.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is one of this device, and lives.
        unsafe { self.device.machine.synchronize_stream(self.raw) }
    }

    /// Lets later work in this stream wait for what `event` recorded last, in any stream of the same
    /// device. Returns at once. No wait for an event that has not been recorded.
    ///
    /// # Errors
    /// [`Error::WrongDevice`](crate::Error::WrongDevice).
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.check_same(event.device(), "letting a stream wait for an event")?;
        // SAFETY: both are of this device, and live.
        unsafe { self.device.machine.wait_event(self.raw, event.raw()) }
    }

    /// Launches a kernel with `shape.blocks` blocks of `shape.threads` threads, and its static shared
    /// memory plus `shape.dynamic_shared` bytes for each block. On a GPU it returns at once, and an error
    /// inside the kernel comes out of a later call; the emulator is done on return.
    ///
    /// # Errors
    /// [`Error::NoKernels`](crate::Error::NoKernels) on the host; [`Error::Launch`](crate::Error::Launch)
    /// for an impossible shape; [`Error::Emulator`](crate::Error::Emulator) for a rule broken by the
    /// kernel; the errors of [`Device::load_module`]; [`Error::Cuda`](crate::Error::Cuda).
    ///
    /// # Safety
    /// The kernel's own contract holds for these arguments and this shape: its pointers are to buffers of
    /// this stream's device, large enough, which live until the kernel is done (a dropped
    /// [`Buffer`](crate::Buffer)'s memory does), and which nobody else accesses until then in a way that
    /// conflicts with the kernel: no copies before the stream is synchronised.
    pub unsafe fn launch<I: Instance>(&self, shape: LaunchShape, args: &I::Args) -> Result<()> {
        // SAFETY: the arguments are those of `I`, the stream is one of this device, and lives; the caller
        // keeps the kernel's contract.
        unsafe { self.device.machine.launch(self.raw, &Entry::of::<I>(), shape, (&raw const *args).cast()) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: created in `new`; the stream is gone. The driver lets work in flight finish.
            unsafe { self.device.machine.destroy_stream(self.raw) };
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream[{}]", self.device)
    }
}
