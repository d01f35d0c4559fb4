//! Devices: a GPU, the emulator, or the host.

use crate::host::Host;
use crate::machine::{Machine, RawStream};
use crate::{Buffer, Error, Event, Failure, PinnedBuffer, Pool, Result, Stream};
#[cfg(feature = "emulator")]
use crate::{Card, emulated::Emulated};
use bytemuck::Pod;
use core::ffi::c_void;
use core::fmt;
use core::ptr::NonNull;
#[cfg(feature = "check")]
use lanetree_simt::LaunchReport;
use lanetree_simt::{Entry, Instance};
use std::io::Write;
use std::sync::{Arc, Once, OnceLock};

/// A machine that holds buffers and, unless it is the host, runs kernels. Cheap to clone. Equal to its clones,
/// including handles with a [`Pool`].
#[derive(Clone)]
pub struct Device {
    pub(crate) machine: Arc<dyn Machine>,
    /// The pool that memory comes from, if not directly from the driver.
    pub(crate) pool: Option<Pool>,
    /// Why [`Device::best`] has taken the host.
    pub(crate) no_gpu: Option<Arc<Error>>,
}

/// The three kinds of [`Device`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// An NVIDIA GPU.
    Cuda,
    /// The CPU, through native code; kernels cannot be launched.
    Host,
    /// The CPU, running kernels on the emulator, which checks them. Slow.
    Emulated,
}

/// Properties of a device. Only GPUs have all of them: fields that mean nothing elsewhere are 0. An emulated device has
/// the properties of its [`Card`] that decide how kernels are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// `NVIDIA H200`, `host`, `emulated`.
    pub name: &'static str,
    /// Streaming multiprocessors; on the host the threads of rayon's global pool.
    pub multiprocessors: u32,
    /// Bytes of the L2 cache; 0 but on a GPU.
    pub l2_bytes: u64,
    /// Compute capability, major and minor; (0, 0) on the host.
    pub compute_capability: (u32, u32),
    /// The most shared memory that one block can have, in bytes; 0 on the host, which runs no kernels.
    pub shared_bytes_per_block: u32,
    /// Bytes of device memory; but on a GPU of main memory, 0 if unknown.
    pub total_memory: u64,
    /// The CUDA version that the driver supports, major and minor; (0, 0) but on a GPU.
    pub driver_version: (u32, u32),
}

/// The state of a device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that could still be allocated; 0 if unknown.
    pub free: u64,
    /// Bytes in all; 0 if unknown.
    pub total: u64,
}

impl Device {
    /// The GPU with this ordinal, counted as the driver does (`CUDA_VISIBLE_DEVICES` hides some).
    ///
    /// Uses the GPU's primary context, like other CUDA libraries in the process, and keeps it as long as the process
    /// lives. Every call gives the same device, so each PTX module is loaded once. Each operation makes that context
    /// current for the calling thread, and leaves it current.
    ///
    /// # Errors
    /// [`Error::CudaNotCompiled`] without the feature `cuda`; else [`Error::NoDriver`] (where the driver's library,
    /// which is loaded here, is missing, too), [`Error::NoDevice`], [`Error::NoSuchDevice`], [`Error::DriverTooOld`] or
    /// [`Error::Cuda`]. Never another device than the one asked for.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self::of(crate::cuda::device(ordinal)?));
        #[cfg(not(feature = "cuda"))]
        {
            let _ = ordinal;
            Err(Error::CudaNotCompiled)
        }
    }

    /// As [`Device::cuda`], but with the kernels' PTX from a folder instead of the program's own (feature `ptx-folder`): from
    /// another compiler, or changed by hand, without the program being compiled again. The folder has a file for each module
    /// and `SHA256SUMS` with their hashes, as `cargo xtask ptx --out` (or `sha256sum *.ptx`) writes them. A kernel that the folder lacks is an
    /// error at its first launch.
    ///
    /// It is another device than the one that [`Device::cuda`] gives: an index of one cannot use buffers of the other.
    ///
    /// # Safety
    /// The folder's kernels do what the program's own do. The hashes only say that the files are whole, not where they are from.
    ///
    /// # Errors
    /// Those of [`Device::cuda`]; and [`Error::PtxFolder`] for a folder that lacks a module of its list, or has another text
    /// of it. [`Error::CudaNotCompiled`] without the feature.
    pub unsafe fn cuda_with_ptx(ordinal: u32, folder: &std::path::Path) -> Result<Self> {
        #[cfg(feature = "ptx-folder")]
        return Ok(Self::of(crate::cuda::device_with_ptx(ordinal, folder)?));
        #[cfg(not(feature = "ptx-folder"))]
        {
            let _ = (ordinal, folder);
            Err(Error::CudaNotCompiled)
        }
    }

    /// The CPU without kernels: for callers that have a native path, over buffers in main memory.
    pub fn host() -> Self {
        static HOST: OnceLock<Arc<Host>> = OnceLock::new();
        Self::of(HOST.get_or_init(|| Arc::new(Host)).clone())
    }

    /// A new emulated device (feature `emulator`, off by default), with seed 0, as the smallest card that is supported
    /// ([`Card::SMALLEST`]): what it runs, every card runs. Its kernels see only its own buffers; its streams run late: see
    /// [the crate `runtime`](crate). A test with several devices gives each a seed of its own
    /// ([`Device::emulated_with_seed`]), so that messages tell them apart.
    #[cfg(feature = "emulator")]
    pub fn emulated() -> Self {
        Self::emulated_with_seed(0)
    }

    /// A new emulated device (feature `emulator`), as the smallest card that is supported ([`Card::SMALLEST`]). The
    /// seed chooses the order in which the emulator lets threads and streams run: the same seed gives the same order,
    /// other seeds may find other races.
    #[cfg(feature = "emulator")]
    pub fn emulated_with_seed(seed: u64) -> Self {
        Self::of(Arc::new(Emulated::new(seed, Card::SMALLEST)))
    }

    /// As [`Device::emulated`], but as another card: it has its properties, and refuses the launches that it would refuse.
    #[cfg(feature = "emulator")]
    pub fn emulated_as(card: Card) -> Self {
        Self::of(Arc::new(Emulated::new(0, card)))
    }

    /// The first GPU if one can be used, else the host. Without feature `cuda` (off by default) it is always the host: print
    /// [`Device::why_no_gpu`]. `Display` says which it is. A caller that must have a GPU calls [`Device::cuda`].
    ///
    /// If there is a GPU or a driver that cannot be used (its memory is full, say, or the driver does not match), the first call
    /// in the process says so on stderr. A machine without them is no reason to. A caller that wants no such line takes
    /// `Device::cuda(0).unwrap_or(Device::host())`.
    pub fn best() -> Self {
        static WARNING: Once = Once::new();
        Self::cuda(0).unwrap_or_else(|error| Self::instead_of_gpu(error, &WARNING, &mut std::io::stderr()))
    }

    /// The host, because of an error of [`Device::cuda`]. Warns once.
    fn instead_of_gpu(error: Error, warning: &Once, to: &mut dyn Write) -> Self {
        if error.is_of_a_gpu() {
            warning.call_once(|| {
                // A program whose stderr is closed goes on.
                let _ = writeln!(to, "lanetree: the GPU cannot be used, so the CPU does all work: {error}");
            });
        }
        Self { no_gpu: Some(Arc::new(error)), ..Self::host() }
    }

    /// Why [`Device::best`] has given the host: the error of [`Device::cuda`]. `None` if it has given a GPU, and for devices that
    /// were asked for.
    pub fn why_no_gpu(&self) -> Option<&Error> {
        self.no_gpu.as_deref()
    }

    pub(crate) fn of(machine: Arc<dyn Machine>) -> Self {
        Self { machine, pool: None, no_gpu: None }
    }

    /// The pool that this handle's memory comes from, if it is one of [`Pool::device`]'s.
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// Which kind of device it is.
    pub fn kind(&self) -> DeviceKind {
        self.machine.kind()
    }

    /// The ordinal of a GPU ([`Device::cuda`]); `None` for the host and the emulator.
    pub fn ordinal(&self) -> Option<u32> {
        self.machine.ordinal()
    }

    /// `NVIDIA H200`, `host` or `emulated`; `Display` adds which one.
    pub fn name(&self) -> String {
        self.machine.name()
    }

    /// What the device is. Asks nobody, and allocates nothing: launches depend on it.
    ///
    /// # Errors
    /// [`Error::Cuda`] from the driver.
    pub fn properties(&self) -> Result<Properties> {
        self.machine.properties()
    }

    /// The state of the device's memory now. What pools hold is not free.
    ///
    /// # Errors
    /// [`Error::Cuda`] from the driver.
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.machine.memory()
    }

    /// Allocates `len` elements. What they hold is unspecified. May wait for work in flight.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::PoolLimit`] from a pool with a limit. An allocation from a pool may also return
    /// the error of a kernel that failed meanwhile, as [`Device::synchronize`] does.
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, len, false)
    }

    /// Allocates `len` elements of zero bytes; they are zero on return.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn alloc_zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, len, true)
    }

    /// Allocates a buffer that holds `data`; the copy is complete on return.
    ///
    /// # Errors
    /// As [`Device::alloc`], and [`Error::Cuda`] from the copy.
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(data.len())?;
        buffer.copy_from(data)?;
        Ok(buffer)
    }

    /// Memory of the caller's, or of another library, as a buffer of `len` elements from `start` on: device memory of a
    /// GPU; ordinary memory on the host and the emulator. Copies nothing and waits for nothing. Dropping the buffer
    /// waits for the streams that use it and does not free the memory; [`Buffer::into_raw`] does the same, and also
    /// returns errors. No pool is involved. If `len` is 0, the address is ignored.
    ///
    /// ```
    /// # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
    /// use lanetree::Device;
    ///
    /// let mut memory = [0_u32; 64];
    /// // SAFETY: so many elements, aligned, initialised, and used by nobody else before the buffer is gone.
    /// let mut buffer = unsafe { Device::host().buffer_from_raw(&raw mut memory[1], 63)? };
    /// buffer.copy_from(&[7; 63])?;
    /// buffer.into_raw()?;
    /// assert_eq!(memory[..3], [0, 7, 7]);
    /// # Ok::<(), lanetree::runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misaligned`] unless it is aligned for an element (sorts and scans read memory that begins at no multiple of
    /// 16 bytes one element at a time);
    /// [`Error::WrongDevice`] for device memory of another GPU or context; [`Error::Cuda`] for an address that the driver
    /// does not know; [`Error::OutOfMemory`] for more bytes than an address space has.
    ///
    /// # Safety
    /// Until the buffer is dropped or turned [into](Buffer::into_raw) its address, and if it is leaked, until all work
    /// over it is done:
    /// * the memory stays valid for reads and writes of `len` elements, which are initialised: on a GPU, memory that the
    ///   device's primary context can reach;
    /// * nobody else uses it, and work that has used it before is done or comes, in each stream, before what
    ///   Lanetree puts there.
    pub unsafe fn buffer_from_raw<T: Pod>(&self, start: *mut T, len: usize) -> Result<Buffer<T>> {
        // SAFETY: the caller's contract.
        unsafe { Buffer::foreign(self, start, len) }
    }

    /// Allocates `len` zeroed elements of host memory that the GPU copies from and to at full speed, and
    /// asynchronously: pinned (page-locked). Ordinary memory for the host and the emulator.
    ///
    /// # Errors
    /// As [`Device::alloc`]; a pool's limit does not hold for it.
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::new(self, len)
    }

    /// A new stream, which no other stream waits for implicitly (`CU_STREAM_NON_BLOCKING`).
    ///
    /// # Errors
    /// [`Error::Cuda`] from the driver.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// The caller's own stream, a `CUstream` (or `cudaStream_t`) of this device; null is the default
    /// stream. It is not destroyed on drop. The host and the emulator ignore the handle, and give a stream of their own.
    ///
    /// Lanetree's work in it is ordered with its other streams as usual. Dropping the [`Stream`] while buffers remember
    /// it records an event (or waits for the stream, if there is no memory for an event); after that the caller may
    /// destroy the handle.
    ///
    /// # Errors
    /// [`Error::Cuda`] from the driver.
    ///
    /// # Safety
    /// The handle is a stream of this device's primary context, and outlives the [`Stream`]. Whatever else the caller puts
    /// into it over memory of Lanetree's buffers, by addresses from [`Buffer::lend_on`] and [`Buffer::lend_mut_on`] with
    /// this [`Stream`], is ordered with Lanetree's work; all else the caller orders itself.
    ///
    /// `CU_STREAM_PER_THREAD` (2) is a different stream in each thread, but a [`Stream`] is one queue: no work over buffers may be put
    /// into it. Use a [`Device::stream`] in its place. Let that wait for an [`Event`](crate::Event) that the calling thread records in
    /// the per-thread stream, and the per-thread stream for an event of that.
    pub unsafe fn stream_from_raw(&self, raw: *mut c_void) -> Result<Stream> {
        Stream::foreign(self, RawStream(raw), None)
    }

    /// A new event, not yet recorded.
    ///
    /// # Errors
    /// [`Error::Cuda`] from the driver.
    pub fn event(&self) -> Result<Event> {
        Event::new(self)
    }

    /// Whether kernels of this device can use the memory of `other`: on the same device, on two GPUs with peer access (by NVLink, or
    /// over PCIe where the board allows it), and on emulated devices. The first call for two GPUs enables peer access.
    pub fn reaches(&self, other: &Self) -> bool {
        self == other || self.kind() == other.kind() && self.machine.reach(&other.machine)
    }

    /// Waits for all work on the device, in every stream. If the handle has a pool, the pool can lend the blocks that
    /// have come back to it again without another wait.
    ///
    /// # Errors
    /// [`Error::Cuda`], including the error of a kernel that failed meanwhile.
    pub fn synchronize(&self) -> Result<()> {
        match &self.pool {
            Some(pool) => pool.synchronize(),
            None => self.machine.synchronize(),
        }
    }

    /// Loads a kernel; otherwise its first launch does so. On a GPU the driver compiles the kernel's PTX, which takes
    /// 0.01 to 0.4 seconds, unless its cache on disk has the result. Several threads that load kernels do so at the same time, with
    /// drivers from CUDA 12 on.
    ///
    /// # Errors
    /// [`Error::NoKernels`] on the host. On a GPU [`Error::UnknownKernel`],
    /// [`Error::PtxTooNew`], [`Error::UnsupportedGpu`], [`Error::InvalidPtx`], [`Error::Cuda`].
    pub fn load_kernel<I: Instance>(&self) -> Result<()> {
        self.machine.load(I::ENTRY)
    }

    /// Loads kernels that are soon to be launched: on a GPU, by up to eight threads, which begin them in this order and compile at the
    /// same time. Kernels of which loading has begun are left out, so a later call costs a few look-ups. Errors are left to the
    /// launches. Does nothing where loading takes no time, where the process has one core, and with drivers before CUDA 12, which
    /// compile one kernel at a time.
    pub fn load_ahead(&self, kernels: &[&'static Entry]) {
        self.machine.load_ahead(kernels);
    }

    /// Runs `work`, and counts what the kernels do that any thread launches on this device meanwhile. Memory
    /// transactions are counted for loads from `addresses` (`0..usize::MAX`: all); see
    /// [`Options::count_transactions`](lanetree_simt::emulator::Options::count_transactions). Not to be nested. `None`
    /// except on the emulator. With feature `check` only.
    #[cfg(feature = "check")]
    pub fn count_launches<R>(
        &self,
        addresses: core::ops::Range<usize>,
        work: impl FnOnce() -> R,
    ) -> (R, Option<LaunchReport>) {
        self.machine.start_counting(addresses);
        let result = work();
        (result, self.machine.stop_counting())
    }

    /// Injects a failure, for tests of error handling; it replaces an earlier one. `None` injects nothing, and also
    /// repairs a device that [`Failure::Kernel`] has left unusable. Returns the earlier failure if it has not occurred
    /// yet, with its remaining count. Only on the emulator: elsewhere it does nothing and returns `None`.
    pub fn inject(&self, failure: Option<Failure>) -> Option<Failure> {
        self.machine.inject(failure)
    }

    /// [`Machine::alloc`], from the pool if there is one.
    pub(crate) fn alloc_bytes(&self, bytes: usize, zeroed: bool) -> Result<NonNull<u8>> {
        match &self.pool {
            Some(pool) => pool.alloc(bytes, zeroed),
            None => self.machine.alloc(bytes, zeroed),
        }
    }

    /// Frees memory, or gives it back to the pool.
    ///
    /// # Safety
    /// `at` comes from [`Device::alloc_bytes`] of the same handle or a clone, with the same `bytes`, and is not reused
    /// by the caller.
    pub(crate) unsafe fn free_bytes(&self, at: NonNull<u8>, bytes: usize) {
        match &self.pool {
            Some(pool) => pool.free(at),
            // SAFETY: the caller's contract.
            None => unsafe { self.machine.free(at, bytes) },
        }
    }

    /// [`Machine::alloc_pinned`], from the pool if there is one.
    pub(crate) fn alloc_pinned_bytes(&self, bytes: usize) -> Result<NonNull<u8>> {
        match &self.pool {
            Some(pool) => pool.alloc_pinned(bytes),
            None => self.machine.alloc_pinned(bytes),
        }
    }

    /// # Safety
    /// As [`Device::free_bytes`], for [`Device::alloc_pinned_bytes`].
    pub(crate) unsafe fn free_pinned_bytes(&self, at: NonNull<u8>, bytes: usize) {
        match &self.pool {
            Some(pool) => pool.free_pinned(at),
            // SAFETY: the caller's contract.
            None => unsafe { self.machine.free_pinned(at, bytes) },
        }
    }

    /// An error unless `other` is this device.
    pub(crate) fn check_same(&self, other: &Device, action: &'static str) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(Error::WrongDevice { action, expected: self.to_string(), actual: other.to_string() })
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.machine, &other.machine)
    }
}
impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.machine.description())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why_no_gpu() {
            Some(error) => write!(f, "Device[{self}, as there is no GPU: {error}]"),
            None => write!(f, "Device[{self}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_used_is_a_warning_and_a_machine_without_one_is_none() {
        let driver = |is_installed| Error::NoDriver { reason: "803".into(), is_installed };
        let full = || Error::OutOfMemory { requested: 9, free: 1, total: 8, device: "X (cuda:0)".into() };
        let refused = |code| Error::Cuda { action: "a".into(), code, name: "b".into(), message: "c".into() };
        let old = Error::DriverTooOld { driver_version: (9, 0), needed: (12, 0) };
        let hidden = Error::NoDevice { visible: Some("-1".into()) };
        let none = [Error::CudaNotCompiled, Error::NoDevice { visible: None }, hidden, driver(false)];
        let some = [full(), refused(2), refused(46), refused(999), old, driver(true)];
        let is_warned = none.into_iter().map(|error| (error, false)).chain(some.into_iter().map(|error| (error, true)));
        for (error, is_warned) in is_warned {
            let (text, mut written) = (error.to_string(), Vec::new());
            let device = Device::instead_of_gpu(error, &Once::new(), &mut written);
            assert_eq!(device, Device::host());
            assert_eq!(device.why_no_gpu().unwrap().to_string(), text);
            let line = format!("lanetree: the GPU cannot be used, so the CPU does all work: {text}\n");
            assert_eq!(String::from_utf8(written).unwrap(), if is_warned { line } else { String::new() });
        }
        let (once, mut written) = (Once::new(), Vec::new());
        for _ in 0..3 {
            Device::instead_of_gpu(full(), &once, &mut written);
        }
        assert_eq!(written.iter().filter(|&&byte| byte == b'\n').count(), 1, "once");
    }
}
