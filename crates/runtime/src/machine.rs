//! What every kind of device can do: the seam between the public types and the three machines.
//!
//! Memory is addresses and bytes here; types, lengths and ownership belong to the public types above. The default
//! methods are for memory that the CPU can reach, and are used by the host and the emulator; CUDA replaces them all.

use crate::host_memory;
use crate::{DeviceKind, Error, Failure, MemoryInfo, Properties, Result};
use core::any::Any;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
#[cfg(any(feature = "cuda", feature = "emulator"))]
use lanetree_simt::LaunchBounds;
#[cfg(feature = "check")]
use lanetree_simt::LaunchReport;
use lanetree_simt::{Call, Entry, LaunchShape};
use std::sync::Arc;

/// A queue of work: a `CUstream`, a number on the emulator, null on the host, which does everything at once.
#[derive(Clone, Copy)]
pub(crate) struct RawStream(pub(crate) *mut c_void);

// SAFETY: a handle, only a number outside the driver; the driver's streams may be used from any thread.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

/// A point in a queue of work: a `CUevent`, or as for [`RawStream`].
#[derive(Clone, Copy)]
pub(crate) struct RawEvent(pub(crate) *mut c_void);

// SAFETY: a handle, only a number outside the driver; the driver's events may be used from any thread.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

/// Which side of a copy is device memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    /// From host memory.
    ToDevice,
    /// To host memory.
    ToHost,
    /// Both.
    Within,
}

#[cfg(any(feature = "cuda", feature = "emulator"))]
/// Checks the shape of a launch of a kernel on a machine, on which a block can have so much shared memory; gives the bytes of a block.
pub(crate) fn check_shape(
    (machine, shared_bytes_per_block): (&dyn Machine, u32),
    entry: &Entry,
    shape: LaunchShape,
) -> Result<u32> {
    let refuse = |reason: String| Err(Error::Launch { kernel: entry.symbol(), shape, reason });
    if shape.blocks == 0 || shape.blocks > i32::MAX as u32 {
        return refuse(format!("a grid has 1 to {} blocks", i32::MAX));
    }
    if shape.threads == 0 || shape.threads > 1024 {
        return refuse("a block has 1 to 1024 threads".into());
    }
    if let Some(LaunchBounds { threads, .. }) = entry.launch_bounds()
        && shape.threads > threads
    {
        return refuse(format!("its launch bounds are blocks of at most {threads} threads"));
    }
    match entry.static_shared().checked_add(shape.dynamic_shared) {
        Some(bytes) if bytes <= shared_bytes_per_block => Ok(bytes),
        _ => refuse(format!(
            "its blocks need {} bytes of shared memory of their own and {} from the launch, and a block on {} can have {}",
            entry.static_shared(),
            shape.dynamic_shared,
            machine.description(),
            shared_bytes_per_block
        )),
    }
}

/// A machine; with [`Any`], so that the code for one kind of machine can find out whether it has that kind.
pub(crate) trait Machine: Any + Send + Sync {
    fn kind(&self) -> DeviceKind;
    /// What it is: `NVIDIA H200`, `host`, `emulated`.
    fn name(&self) -> String;
    /// The driver's number of a GPU.
    fn ordinal(&self) -> Option<u32> {
        None
    }
    /// Which it is, for messages: `cuda:0`, `2 threads`, `seed 0`.
    fn label(&self) -> String;
    fn properties(&self) -> Result<Properties>;

    fn memory(&self) -> Result<MemoryInfo> {
        Ok(host_memory::memory())
    }
    fn synchronize(&self) -> Result<()> {
        self.working()
    }
    /// The error of a device that has failed for good, where that is known without asking it.
    fn working(&self) -> Result<()> {
        Ok(())
    }

    /// The error of a copy or a zeroing that is to fail.
    fn transfer(&self) -> Result<()> {
        Ok(())
    }

    /// Allocates `bytes` > 0 bytes on a 256-byte boundary.
    fn alloc(&self, bytes: usize, _zeroed: bool) -> Result<NonNull<u8>> {
        host_memory::alloc(bytes).ok_or_else(|| self.out_of_memory(bytes as u128))
    }
    /// # Safety
    /// `at` comes from [`Machine::alloc`] of the same machine with the same `bytes`, and is not reused by the caller.
    unsafe fn free(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract is that of `host_memory::free`.
        unsafe { host_memory::free(at, bytes) }
    }
    /// Allocates `bytes` > 0 bytes of host memory, zeroed, pinned where that means something.
    fn alloc_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        host_memory::alloc(bytes).ok_or_else(|| self.out_of_memory(bytes as u128))
    }
    /// # Safety
    /// As [`Machine::free`], for [`Machine::alloc_pinned`].
    unsafe fn free_pinned(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's contract is that of `host_memory::free`.
        unsafe { host_memory::free(at, bytes) }
    }
    /// Says that the first `bytes` of an allocation, which a pool holds, are a buffer now.
    ///
    /// # Safety
    /// `at` comes from [`Machine::alloc`] of the same machine with at least as many bytes, and nobody uses them.
    unsafe fn lend(&self, _at: NonNull<u8>, _bytes: usize) {}
    /// Says that no part of an allocation, which a pool holds, is a buffer any more.
    fn take_back(&self, _at: NonNull<u8>) {}
    /// Takes memory that is not of this machine's allocations as a buffer: an error if the machine cannot reach it.
    ///
    /// # Safety
    /// The range is `bytes` > 0 bytes of device memory, and stays so until [`Machine::disown`].
    unsafe fn adopt(&self, _at: NonNull<u8>, _bytes: usize) -> Result<()> {
        Ok(())
    }
    /// Tells that memory which was adopted is no buffer any more. No work uses it.
    fn disown(&self, _at: NonNull<u8>) {}
    /// Page-locks host memory that is not of this machine's allocations, where that means something, and lets kernels read
    /// it. Gives the address that they read it at: a GPU's may differ from the CPU's.
    ///
    /// # Safety
    /// The range is `bytes` > 0 initialised bytes of host memory, which is not pinned for any machine. Until
    /// [`Machine::unpin`] it stays mapped, and nobody writes it while work reads it.
    unsafe fn pin(&self, at: NonNull<u8>, _bytes: usize) -> Result<NonNull<u8>> {
        self.working()?;
        Ok(at)
    }
    /// Ends what [`Machine::pin`] began.
    ///
    /// # Safety
    /// [`Machine::pin`] of the same machine has taken the same range, by the CPU's address, and no work uses it any more.
    unsafe fn unpin(&self, _at: NonNull<u8>, _bytes: usize) {}
    /// The error for `requested` bytes that are not to be had.
    fn out_of_memory(&self, requested: u128) -> Error {
        let MemoryInfo { free, total } = self.memory().unwrap_or_default();
        Error::OutOfMemory { requested, free, total, device: self.description() }
    }
    /// Name and label.
    fn description(&self) -> String {
        format!("{} ({})", self.name(), self.label())
    }

    /// Copies `bytes` > 0 bytes; complete on return without a stream, in its order with one.
    ///
    /// # Safety
    /// Both ranges are valid on the sides that `direction` names until the copy is done, do not
    /// overlap, and nobody else accesses them meanwhile. The stream is one of this machine.
    unsafe fn copy(
        &self,
        _direction: Direction,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        _stream: Option<RawStream>,
    ) -> Result<()> {
        self.transfer()?;
        // SAFETY: all memory of this machine is host memory; the ranges are valid and disjoint.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }
    /// Copies `bytes` > 0 bytes of this machine's memory to that of a peer, another machine of the same kind, in the order of a
    /// stream of this one.
    ///
    /// # Safety
    /// As [`Machine::copy`]. A stream of the peer's is told of it by [`Machine::arrive`].
    unsafe fn copy_to_peer(
        &self,
        _peer: &dyn Machine,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        _stream: RawStream,
    ) -> Result<()> {
        self.transfer()?;
        // SAFETY: the memory of machines without a driver is host memory; the ranges are valid and disjoint.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }
    /// Lets kernels of this machine use the memory of a peer, another machine of the same kind, from now on. Whether they can.
    fn reach(&self, _peer: &Arc<dyn Machine>) -> bool {
        false
    }
    /// Whether kernels of this machine can use the memory at an address of a peer, of another allocator than the peer's.
    fn reaches_address(&self, _at: *const u8) -> bool {
        false
    }
    /// Tells that memory of this machine is written by a copy of a peer's, for which the stream waits.
    ///
    /// # Safety
    /// The stream is a live one of this machine.
    unsafe fn arrive(&self, _stream: RawStream, _to: *mut u8) -> Result<()> {
        self.working()
    }
    /// [`Machine::wait_event`], for an event of a peer's.
    ///
    /// # Safety
    /// The stream is a live one of this machine, the event one of the peer's.
    unsafe fn wait_for_peer(&self, _stream: RawStream, _peer: &Arc<dyn Machine>, _event: RawEvent) -> Result<()> {
        self.working()
    }
    /// Zeroes `bytes` > 0 bytes of device memory, in the stream's order.
    ///
    /// # Safety
    /// As [`Machine::copy`].
    unsafe fn zero(&self, at: *mut u8, bytes: usize, _stream: RawStream) -> Result<()> {
        // SAFETY: the same contract.
        unsafe { self.zero_now(at, bytes) }
    }
    /// Zeroes `bytes` > 0 bytes of device memory; complete on return.
    ///
    /// # Safety
    /// As [`Machine::copy`].
    unsafe fn zero_now(&self, at: *mut u8, bytes: usize) -> Result<()> {
        self.transfer()?;
        // SAFETY: all memory of this machine is host memory, and the range is valid.
        unsafe { core::ptr::write_bytes(at, 0, bytes) };
        Ok(())
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.working()?;
        Ok(RawStream(null_mut()))
    }
    /// # Safety
    /// The stream comes from [`Machine::create_stream`] and is not reused.
    unsafe fn destroy_stream(&self, _stream: RawStream) {}
    /// # Safety
    /// The stream is a live one of this machine.
    unsafe fn synchronize_stream(&self, _stream: RawStream) -> Result<()> {
        self.working()
    }
    /// # Safety
    /// Both are live ones of this machine.
    unsafe fn wait_event(&self, _stream: RawStream, _event: RawEvent) -> Result<()> {
        self.working()
    }

    /// [`Machine::synchronize_stream`], whose error the next call reports that can.
    ///
    /// # Safety
    /// The stream is a live one of this machine.
    unsafe fn quiesce_stream(&self, stream: RawStream) {
        // A device that has failed gives its error to every later call.
        // SAFETY: the caller's contract.
        let _ = unsafe { self.synchronize_stream(stream) };
    }

    /// Whether the stream has no work left. Does not wait.
    ///
    /// # Safety
    /// The stream is a live one of this machine.
    unsafe fn is_stream_idle(&self, _stream: RawStream) -> bool {
        true
    }
    /// Whether the work before the event's last recording is done. Does not wait.
    ///
    /// # Safety
    /// The event is a live one of this machine.
    unsafe fn is_event_reached(&self, _event: RawEvent) -> bool {
        true
    }

    /// An event; `timed` if the time between it and another will be asked for.
    fn create_event(&self, _timed: bool) -> Result<RawEvent> {
        self.working()?;
        Ok(RawEvent(null_mut()))
    }
    /// # Safety
    /// The event comes from [`Machine::create_event`] and is not reused.
    unsafe fn destroy_event(&self, _event: RawEvent) {}
    /// # Safety
    /// Both are live ones of this machine.
    unsafe fn record_event(&self, _event: RawEvent, _stream: RawStream) -> Result<()> {
        self.working()
    }
    /// # Safety
    /// The event is a live one of this machine.
    unsafe fn synchronize_event(&self, _event: RawEvent) -> Result<()> {
        self.working()
    }
    /// Milliseconds between two recorded events by the machine's own clock, having waited for both;
    /// `None` where the CPU's clock at the time of recording says it as well.
    ///
    /// # Safety
    /// Both are live ones of this machine.
    unsafe fn elapsed_ms(&self, _start: RawEvent, _end: RawEvent) -> Result<Option<f32>> {
        Ok(None)
    }

    /// Counts what launches do from now on, where that can be counted.
    #[cfg(feature = "check")]
    fn start_counting(&self, _addresses: core::ops::Range<usize>) {}
    /// Ends it; what there was.
    #[cfg(feature = "check")]
    fn stop_counting(&self) -> Option<LaunchReport> {
        None
    }

    /// Lets something go wrong, where that can be had; gives what was to go wrong before and has not yet.
    fn inject(&self, _failure: Option<Failure>) -> Option<Failure> {
        None
    }

    /// Makes the kernel ready to launch.
    fn load(&self, entry: &'static Entry) -> Result<()>;
    /// [`Machine::load`] of kernels that are soon to be launched, where several at a time are faster.
    fn load_ahead(&self, _entries: &[&'static Entry]) {}
    /// # Safety
    /// The stream is a live one of this machine, and the kernel's own contract holds.
    unsafe fn launch(&self, stream: RawStream, call: Call<'_>, shape: LaunchShape) -> Result<()>;
}
