//! NVIDIA GPUs, through the driver.
//!
//! Every call goes to the driver directly ([`sys`]), which is loaded at run time. With the feature `cust` a GPU and its
//! primary context are opened by cust, and [`cust`] shares streams and memory with it. The calls do not go through cust
//! even then: it drops the flag of non-blocking streams and cannot take a caller's, a wait for one of its events
//! consumes the event, its modules do not ask for the compiler's log, and it has no call for more than 48 KiB of shared
//! memory.

#[cfg(feature = "cust")]
pub mod cust;
mod launch;
mod memory;
mod module;
mod primary;
#[cfg(feature = "ptx-folder")]
mod ptx_folder;
mod sys;
#[cfg(test)]
mod tests;

use crate::driver_error::Action;
use crate::machine::{Direction, Machine, RawEvent, RawStream};
use crate::{DeviceKind, Error, MemoryInfo, Properties, Result};
use core::any::Any;
use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};
use lanetree_simt::{Call, Entry, LaunchShape};
use module::Modules;
use primary::Primary;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use sys::{Driver, OLDEST_DRIVER};

/// A GPU and what this process has on it.
pub(crate) struct Cuda {
    driver: &'static Driver,
    /// Never dropped, since [`device`] keeps every GPU it has given out.
    primary: Primary,
    label: String,
    properties: Properties,
    /// For the copies that are complete on return. A copy from pageable memory returns once the driver
    /// has staged it, and a stream that is non-blocking does not wait for the default stream: so they
    /// go through a stream of their own, which is then waited for.
    copies: RawStream,
    modules: Modules,
    /// The ordinals of GPUs to which peer access was asked for, and whether kernels of each of the two reach the other's memory.
    peers: Mutex<BTreeMap<c_int, bool>>,
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

/// The GPU of this ordinal, with the kernels' PTX of a folder; made at the first call for both.
#[cfg(feature = "ptx-folder")]
pub(crate) fn device_with_ptx(ordinal: u32, folder: &std::path::Path) -> Result<Arc<dyn Machine>> {
    type Devices = BTreeMap<(u32, std::path::PathBuf), Arc<Cuda>>;
    static DEVICES: Mutex<Devices> = Mutex::new(BTreeMap::new());
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = devices.get(&(ordinal, folder.into())) {
        return Ok(known.clone());
    }
    let ptx = ptx_folder::PtxFolder::read(folder)?;
    let mut new = Cuda::new(ordinal)?;
    new.modules.ptx = Some(ptx);
    let new = Arc::new(new);
    devices.insert((ordinal, folder.into()), new.clone());
    Ok(new)
}

impl Cuda {
    fn new(ordinal: u32) -> Result<Self> {
        let driver = Driver::get()?;
        let label = format!("cuda:{ordinal}");
        let start = || Action::Start { visible: std::env::var("CUDA_VISIBLE_DEVICES").ok() };
        // SAFETY: may be called any number of times.
        driver.check(unsafe { driver.cuInit(0) }, start)?;
        let (mut version, mut count) = (0, 0);
        // SAFETY: the pointer is valid for the call.
        driver.check(unsafe { driver.cuDriverGetVersion(&raw mut version) }, start)?;
        let driver_version = sys::version_of(version);
        if driver_version < OLDEST_DRIVER {
            return Err(Error::DriverTooOld { driver_version, needed: OLDEST_DRIVER });
        }
        // SAFETY: the pointer is valid for the call.
        driver.check(unsafe { driver.cuDeviceGetCount(&raw mut count) }, start)?;
        if count == 0 {
            return Err(driver.error(100, start()));
        }
        if ordinal >= count as u32 {
            return Err(Error::NoSuchDevice { ordinal, count: count as u32 });
        }

        let opening = || Action::Other(format!("opening {label}"));
        let primary = Primary::open(driver, ordinal, opening)?;
        let raw = primary.device();
        let attribute = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: the pointer is valid for the call, and the device one that the driver gave.
            driver.check(unsafe { driver.cuDeviceGetAttribute(&raw mut value, attribute, raw) }, opening)?;
            Ok::<_, Error>(value as u32)
        };
        let properties = Properties {
            // A GPU is kept as long as the process lives.
            name: primary.name(opening)?.leak(),
            multiprocessors: attribute(sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: attribute(sys::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
            compute_capability: (
                attribute(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            shared_bytes_per_block: attribute(sys::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            total_memory: primary.total_memory(opening)?,
            driver_version,
        };
        let copies = RawStream(null_mut());
        let mut new =
            Self { driver, primary, label, properties, copies, modules: Modules::new(), peers: Mutex::default() };
        new.copies = new.create_stream()?;
        Ok(new)
    }

    /// Makes the context current on the calling thread. Always the call, never a note that it is: other
    /// libraries change it behind our back, and it costs tens of nanoseconds.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained for as long as `self` lives.
        let code = unsafe { self.driver.cuCtxSetCurrent(self.primary.context()) };
        self.check(code, || self.doing("using"))
    }

    #[inline]
    fn check(&self, code: c_int, action: impl FnOnce() -> Action) -> Result<()> {
        self.driver.check(code, action)
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
    fn ordinal(&self) -> Option<u32> {
        u32::try_from(self.primary.device()).ok()
    }
    fn name(&self) -> String {
        self.properties.name.into()
    }
    fn label(&self) -> String {
        self.label.clone()
    }
    fn properties(&self) -> Result<Properties> {
        Ok(self.properties)
    }
    fn memory(&self) -> Result<MemoryInfo> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are valid for the call.
        let code = unsafe { self.driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        self.check(code, || self.doing("asking for the free memory of"))?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }
    fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the context is current.
        self.check(unsafe { self.driver.cuCtxSynchronize() }, || self.doing("waiting for"))
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
    unsafe fn adopt(&self, at: NonNull<u8>, _bytes: usize) -> Result<()> {
        self.check_reach(at)
    }
    unsafe fn pin(&self, at: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>> {
        // SAFETY: the caller's contract.
        unsafe { self.page_lock(at, bytes) }
    }
    unsafe fn unpin(&self, at: NonNull<u8>, _bytes: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.page_unlock(at) }
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
    unsafe fn copy_to_peer(
        &self,
        peer: &dyn Machine,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        stream: RawStream,
    ) -> Result<()> {
        let peer = (peer as &dyn Any).downcast_ref::<Self>().expect("peers are of the same kind");
        // SAFETY: the caller's contract.
        unsafe { self.copy_bytes_to(peer, to, from, bytes, stream) }
    }
    fn reach(&self, peer: &Arc<dyn Machine>) -> bool {
        let peer = (&**peer as &dyn Any).downcast_ref::<Self>().expect("peers are of the same kind");
        self.open_way_to(peer)
    }
    fn reaches_address(&self, at: *const u8) -> bool {
        self.has_access(at)
    }
    unsafe fn wait_for_peer(&self, stream: RawStream, _peer: &Arc<dyn Machine>, event: RawEvent) -> Result<()> {
        // The driver takes events of any GPU.
        // SAFETY: the caller's contract.
        unsafe { self.wait_event(stream, event) }
    }
    unsafe fn zero(&self, at: *mut u8, bytes: usize, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for the range and the stream.
        let code = unsafe { self.driver.cuMemsetD8Async(at.addr() as u64, 0, bytes, stream.0.cast()) };
        self.check(code, || self.doing(&format!("zeroing {bytes} bytes on")))
    }
    unsafe fn zero_now(&self, at: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's contract; the stream is our own.
        unsafe { self.zero(at, bytes, self.copies).and_then(|()| self.synchronize_stream(self.copies)) }
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.enter()?;
        let mut stream = null_mut();
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { self.driver.cuStreamCreate(&raw mut stream, sys::CU_STREAM_NON_BLOCKING) };
        self.check(code, || self.doing("creating a stream on"))?;
        Ok(RawStream(stream.cast()))
    }
    unsafe fn destroy_stream(&self, stream: RawStream) {
        // Errors come from earlier work, and the caller's next call reports them; a drop cannot.
        let _ = self.enter();
        // SAFETY: the caller owns the stream.
        let _ = unsafe { self.driver.cuStreamDestroy_v2(stream.0.cast()) };
    }
    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for the stream.
        self.check(unsafe { self.driver.cuStreamSynchronize(stream.0.cast()) }, || {
            self.doing("waiting for a stream of")
        })
    }
    unsafe fn is_stream_idle(&self, stream: RawStream) -> bool {
        // SAFETY: the caller vouches for the stream.
        self.enter().is_ok() && unsafe { self.driver.cuStreamQuery(stream.0.cast()) } == 0
    }
    unsafe fn is_event_reached(&self, event: RawEvent) -> bool {
        // SAFETY: the caller vouches for the event.
        self.enter().is_ok() && unsafe { self.driver.cuEventQuery(event.0.cast()) } == 0
    }
    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for both.
        let code = unsafe { self.driver.cuStreamWaitEvent(stream.0.cast(), event.0.cast(), 0) };
        self.check(code, || self.doing("letting a stream wait for an event on"))
    }

    fn create_event(&self, timed: bool) -> Result<RawEvent> {
        self.enter()?;
        let mut event = null_mut();
        let flags = if timed { sys::CU_EVENT_DEFAULT } else { sys::CU_EVENT_DISABLE_TIMING };
        // SAFETY: the pointer is valid for the call.
        self.check(unsafe { self.driver.cuEventCreate(&raw mut event, flags) }, || self.doing("creating an event on"))?;
        Ok(RawEvent(event.cast()))
    }
    unsafe fn destroy_event(&self, event: RawEvent) {
        let _ = self.enter();
        // SAFETY: the caller owns the event.
        let _ = unsafe { self.driver.cuEventDestroy_v2(event.0.cast()) };
    }
    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for both.
        let code = unsafe { self.driver.cuEventRecord(event.0.cast(), stream.0.cast()) };
        self.check(code, || self.doing("recording an event on"))
    }
    unsafe fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller vouches for the event.
        self.check(unsafe { self.driver.cuEventSynchronize(event.0.cast()) }, || self.doing("waiting for an event on"))
    }
    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<Option<f32>> {
        // SAFETY: the caller vouches for both.
        unsafe {
            self.synchronize_event(start)?;
            self.synchronize_event(end)?;
        }
        let mut milliseconds = 0.0;
        // SAFETY: the pointer is valid for the call, and the caller vouches for both.
        let code = unsafe { self.driver.cuEventElapsedTime(&raw mut milliseconds, start.0.cast(), end.0.cast()) };
        self.check(code, || self.doing("measuring between two events on"))?;
        Ok(Some(milliseconds))
    }

    fn load(&self, entry: &'static Entry) -> Result<()> {
        self.enter()?;
        self.function(entry).map(drop)
    }
    fn load_ahead(&self, entries: &[&'static Entry]) {
        self.load_together(entries);
    }
    unsafe fn launch(&self, stream: RawStream, call: Call<'_>, shape: LaunchShape) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.launch_kernel(stream, call, shape) }
    }
}
