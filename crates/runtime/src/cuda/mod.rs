//! NVIDIA GPUs, through cust.
//!
//! cust gives the devices and their primary contexts. Buffers, streams, events and launches go to the
//! driver directly ([`sys`]): cust drops the flag of non-blocking streams and cannot take a caller's, a
//! wait for one of its events consumes the event, its modules do not ask for the compiler's log, and it
//! has no call for more than 48 KiB of shared memory.

mod launch;
mod memory;
mod module;
mod sys;
#[cfg(test)]
mod tests;

use crate::driver_error::Action;
use crate::machine::{Direction, Machine, RawEvent, RawStream};
use crate::{DeviceKind, Error, MemoryInfo, Properties, Result};
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};
use cust::context::Context;
use cust_raw::{CUdevice_attribute, CUevent_flags, CUstream_flags};
use lanetree_simt::LaunchShape;
use module::Modules;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use sys::check;

/// The oldest CUDA whose driver has all functions of [`sys`] and those that cust calls.
const OLDEST_DRIVER: (u32, u32) = (11, 0);

/// A GPU and what this process has on it.
struct Cuda {
    /// Keeps the primary context; never dropped, since [`device`] keeps every GPU it has given out.
    context: Context,
    label: String,
    properties: Properties,
    /// For the copies that are complete on return. A copy from pageable memory returns once the driver
    /// has staged it, and a stream that is non-blocking does not wait for the default stream: so they
    /// go through a stream of their own, which is then waited for.
    copies: RawStream,
    modules: Modules,
}

/// The GPU of this ordinal, made at the first call.
pub(crate) fn device(ordinal: u32) -> Result<Arc<dyn Machine>> {
    static DEVICES: Mutex<BTreeMap<u32, Arc<Cuda>>> = Mutex::new(BTreeMap::new());
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = devices.get(&ordinal) {
        return Ok(known.clone());
    }
    let new = Arc::new(Cuda::new(ordinal)?);
    devices.insert(ordinal, new.clone());
    Ok(new)
}

impl Cuda {
    fn new(ordinal: u32) -> Result<Self> {
        let label = format!("cuda:{ordinal}");
        let start = || Action::Start { visible: std::env::var("CUDA_VISIBLE_DEVICES").ok() };
        // SAFETY: may be called any number of times.
        check(unsafe { sys::cuInit(0) }, start)?;
        let (mut version, mut count) = (0, 0);
        // SAFETY: the pointer is valid for the call.
        check(unsafe { sys::cuDriverGetVersion(&raw mut version) }, start)?;
        let driver_version = (version as u32 / 1000, version as u32 % 1000 / 10);
        if driver_version < OLDEST_DRIVER {
            return Err(Error::DriverTooOld { driver_version, needed: OLDEST_DRIVER });
        }
        // SAFETY: the pointer is valid for the call.
        check(unsafe { sys::cuDeviceGetCount(&raw mut count) }, start)?;
        if count == 0 {
            return Err(sys::error(100, start()));
        }
        if ordinal >= count as u32 {
            return Err(Error::NoSuchDevice { ordinal, count: count as u32 });
        }

        let opening = || Action::Other(format!("opening {label}"));
        let by_cust = |error: cust::error::CudaError| sys::error(error as c_int, opening());
        let device = cust::device::Device::get_device(ordinal).map_err(by_cust)?;
        let raw = device.as_raw();
        // Retained here first: this is where a newer driver has codes that cust must not see (`sys`).
        let mut primary = null_mut();
        // SAFETY: the pointer is valid for the call, and the device one that the driver gave.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut primary, raw) }, opening)?;
        let context = Context::new(device).map_err(by_cust);
        // SAFETY: retained above; cust's context, if there is one, holds on to it from here on.
        check(unsafe { sys::cuDevicePrimaryCtxRelease_v2(raw) }, opening)?;
        let context = context?;

        let attribute = |attribute: CUdevice_attribute| {
            let mut value = 0;
            // SAFETY: the pointer is valid for the call, and the device one that the driver gave.
            check(unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute as c_int, raw) }, opening)?;
            Ok::<_, Error>(value as u32)
        };
        use CUdevice_attribute as Attribute;
        let properties = Properties {
            name: device.name().map_err(by_cust)?,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
            compute_capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            shared_bytes_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            total_memory: device.total_memory().map_err(by_cust)? as u64,
            driver_version,
        };
        let copies = RawStream(null_mut());
        let mut new = Self { context, label, properties, copies, modules: Modules::default() };
        new.copies = new.create_stream()?;
        Ok(new)
    }

    /// Makes the context current on the calling thread. Always the call, never a note that it is: other
    /// libraries change it behind our back, and it costs tens of nanoseconds.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained for as long as `self` lives.
        check(unsafe { sys::cuCtxSetCurrent(self.context.as_raw()) }, || self.doing("using"))
    }

    /// An action on this device, for messages: the words before its label.
    fn doing(&self, words: &str) -> Action {
        Action::Other(format!("{words} {}", self.label))
    }
}

impl Machine for Cuda {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cuda
    }
    fn name(&self) -> String {
        self.properties.name.clone()
    }
    fn label(&self) -> String {
        self.label.clone()
    }
    fn properties(&self) -> Result<Properties> {
        Ok(self.properties.clone())
    }
    fn memory(&self) -> Result<MemoryInfo> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid for the call.
        let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check(code, || self.doing("asking for the free memory of"))?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }
    fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the context is current.
        check(unsafe { sys::cuCtxSynchronize() }, || self.doing("waiting for"))
    }

    fn alloc(&self, bytes: usize, zeroed: bool) -> Result<NonNull<u8>> {
        self.allocate(bytes, zeroed)
    }
    unsafe fn free(&self, at: NonNull<u8>, _bytes: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.release(at) }
    }
    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.allocate_pinned(bytes)
    }
    unsafe fn free_pinned(&self, at: NonNull<u8>, _bytes: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.release_pinned(at) }
    }
    unsafe fn copy(
        &self,
        direction: Direction,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        stream: Option<RawStream>,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.copy_bytes(direction, to, from, bytes, stream) }
    }
    unsafe fn zero(&self, at: *mut u8, bytes: usize, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for the range and the stream.
        let code = unsafe { sys::cuMemsetD8Async(at.addr() as u64, 0, bytes, stream.0.cast()) };
        check(code, || self.doing(&format!("zeroing {bytes} bytes on")))
    }
    unsafe fn zero_now(&self, at: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's contract; the stream is our own.
        unsafe { self.zero(at, bytes, self.copies).and_then(|()| self.synchronize_stream(self.copies)) }
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.enter()?;
        let mut stream = null_mut();
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { sys::cuStreamCreate(&raw mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) };
        check(code, || self.doing("creating a stream on"))?;
        Ok(RawStream(stream.cast()))
    }
    unsafe fn destroy_stream(&self, stream: RawStream) {
        // Errors are those of earlier work, which the caller's next call reports; a drop cannot.
        let _ = self.enter();
        // SAFETY: the caller owns the stream.
        let _ = unsafe { sys::cuStreamDestroy_v2(stream.0.cast()) };
    }
    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for the stream.
        check(unsafe { sys::cuStreamSynchronize(stream.0.cast()) }, || self.doing("waiting for a stream of"))
    }
    unsafe fn is_stream_idle(&self, stream: RawStream) -> bool {
        // SAFETY: the caller vouches for the stream.
        self.enter().is_ok() && unsafe { sys::cuStreamQuery(stream.0.cast()) } == 0
    }
    unsafe fn is_event_reached(&self, event: RawEvent) -> bool {
        // SAFETY: the caller vouches for the event.
        self.enter().is_ok() && unsafe { sys::cuEventQuery(event.0.cast()) } == 0
    }
    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for both.
        let code = unsafe { sys::cuStreamWaitEvent(stream.0.cast(), event.0.cast(), 0) };
        check(code, || self.doing("letting a stream wait for an event on"))
    }

    fn create_event(&self, timed: bool) -> Result<RawEvent> {
        self.enter()?;
        let mut event = null_mut();
        let flags = if timed { CUevent_flags::CU_EVENT_DEFAULT } else { CUevent_flags::CU_EVENT_DISABLE_TIMING };
        // SAFETY: the pointer is valid for the call.
        check(unsafe { sys::cuEventCreate(&raw mut event, flags as u32) }, || self.doing("creating an event on"))?;
        Ok(RawEvent(event.cast()))
    }
    unsafe fn destroy_event(&self, event: RawEvent) {
        let _ = self.enter();
        // SAFETY: the caller owns the event.
        let _ = unsafe { sys::cuEventDestroy_v2(event.0.cast()) };
    }
    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for both.
        let code = unsafe { sys::cuEventRecord(event.0.cast(), stream.0.cast()) };
        check(code, || self.doing("recording an event on"))
    }
    unsafe fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for the event.
        check(unsafe { sys::cuEventSynchronize(event.0.cast()) }, || self.doing("waiting for an event on"))
    }
    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<Option<f32>> {
        // SAFETY: the caller vouches for both.
        unsafe {
            self.synchronize_event(start)?;
            self.synchronize_event(end)?;
        }
        let mut milliseconds = 0.0;
        // SAFETY: the pointer is valid for the call, and the caller vouches for both.
        let code = unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, start.0.cast(), end.0.cast()) };
        check(code, || self.doing("measuring between two events on"))?;
        Ok(Some(milliseconds))
    }

    fn load(&self, entry: &'static Entry) -> Result<()> {
        self.enter()?;
        self.function(entry).map(drop)
    }
    unsafe fn launch(&self, stream: RawStream, call: Call<'_>, shape: LaunchShape) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.launch_kernel(stream, call, shape) }
    }
}
