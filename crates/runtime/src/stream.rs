//! Queues of work on a device.

use crate::machine::{Machine, RawEvent, RawStream};
#[cfg(feature = "check")]
use crate::recorded;
use crate::{Device, DeviceKind, Event, Result};
use core::ffi::c_void;
use core::fmt;
use core::ptr::null_mut;
use lanetree_simt::{Call, Global, GlobalMut, Instance, LaunchShape};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A queue of work: what is put into it runs in that order, each after the one before is done, and at the
/// same time as the work of other streams. On the host everything runs at once; on the emulator, in an order
/// that the device's seed chooses, when somebody waits for it.
///
/// Work of several streams over the same buffers needs no care of the caller's: see [`Buffer`](crate::Buffer).
pub struct Stream {
    device: Device,
    queue: Arc<Queue>,
    /// What keeps a stream of another library alive, if anything does. Dropped after the queue is closed.
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// Queues of which a queue remembers that it comes after them.
const MOST_REMEMBERED: usize = 128;

/// What a buffer remembers of a stream that uses it. Outlives the [`Stream`], for as long as a buffer remembers it.
pub(crate) struct Queue {
    machine: Arc<dyn Machine>,
    raw: RawStream,
    owned: bool,
    /// Never 0, and never the same for two queues of the process.
    id: u64,
    fence: Mutex<Fence>,
    /// Pieces of work that it was given. A buffer's next user, who has the buffer to itself, sees all that were given
    /// over the buffer.
    given: AtomicU64,
    /// Whether another library is given buffers' addresses for work in this stream, which `given` does not count.
    lent: AtomicBool,
    /// Other queues that this one has been put after, by their numbers, and how much they had been given then.
    after: Mutex<HashMap<u64, u64>>,
    /// Whether the [`Stream`] is gone, so that no more work comes.
    ended: AtomicBool,
}

/// How other streams wait for a queue.
#[derive(Default)]
struct Fence {
    /// Made when it is first needed; recorded again for each wait.
    event: Option<RawEvent>,
    /// Whether the queue takes no more work, and its handle may be gone: a caller's stream whose [`Stream`] was
    /// dropped. What it was given until then comes before the event, if there is one; else it is done.
    closed: bool,
}

impl Queue {
    fn new(device: &Device, raw: RawStream, owned: bool) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (machine, id) = (device.machine.clone(), NEXT.fetch_add(1, Ordering::Relaxed));
        Arc::new(Self {
            machine,
            raw,
            owned,
            id,
            fence: Mutex::default(),
            given: AtomicU64::new(0),
            lent: AtomicBool::new(false),
            after: Mutex::default(),
            ended: AtomicBool::new(false),
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether its stream is one of this machine.
    pub(crate) fn is_of(&self, machine: &Arc<dyn Machine>) -> bool {
        Arc::ptr_eq(&self.machine, machine)
    }

    fn fence(&self) -> MutexGuard<'_, Fence> {
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fence's event, recorded after all work so far; `None` if there is none to wait for.
    fn mark(&self, fence: &mut Fence) -> Result<Option<RawEvent>> {
        if fence.closed {
            return Ok(fence.event);
        }
        let event = match fence.event {
            Some(event) => event,
            None => *fence.event.insert(self.machine.create_event(false)?),
        };
        // SAFETY: both are of this machine; the queue is not closed, so its handle lives.
        unsafe { self.machine.record_event(event, self.raw)? };
        Ok(Some(event))
    }

    /// Counts a piece of work, once the queue has it.
    #[inline]
    pub(crate) fn count_work(&self) {
        self.given.fetch_add(1, Ordering::Release);
    }

    /// Tells that another library will put work into the stream, over a buffer that remembers it.
    pub(crate) fn lend(&self) {
        self.lent.store(true, Ordering::Release);
    }

    fn after(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets later work of `self` wait for all that `other` has been given so far. Once is enough: an index has many buffers, and
    /// all of them were used by the same streams. (Not where another library puts work into `other`: nobody counts it.) `other`
    /// is of the same device, or of another one of the same kind.
    pub(crate) fn run_after(&self, other: &Self) -> Result<()> {
        let given = other.given.load(Ordering::Acquire);
        if !other.lent.load(Ordering::Acquire) && self.after().get(&other.id) == Some(&given) {
            return Ok(());
        }
        {
            let mut fence = other.fence();
            if let Some(event) = other.mark(&mut fence)? {
                // SAFETY: both are live ones of this machine. The event may be recorded again later, for another wait;
                // this one is for the point recorded last.
                unsafe {
                    if Arc::ptr_eq(&self.machine, &other.machine) {
                        self.machine.wait_event(self.raw, event)?;
                    } else {
                        self.machine.wait_for_peer(self.raw, &other.machine, event)?;
                    }
                }
            }
        }
        let mut after = self.after();
        if after.len() == MOST_REMEMBERED {
            // Most of them are gone.
            after.clear();
        }
        after.insert(other.id, given);
        Ok(())
    }

    /// Waits for all work that the queue has been given so far.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let fence = self.fence();
        match (fence.closed, fence.event) {
            (false, _) => {
                // Others may launch meanwhile. The handle lives: `Stream`s that are being waited for are borrowed,
                // and a queue of our own lives as long as `self`; a caller's is closed under the lock.
                if self.owned {
                    drop(fence);
                }
                // SAFETY: a live stream of this machine, as said.
                unsafe { self.machine.synchronize_stream(self.raw) }
            }
            // SAFETY: the event lives as long as the queue.
            (true, Some(event)) => unsafe { self.machine.synchronize_event(event) },
            (true, None) => Ok(()),
        }
    }

    /// [`Queue::synchronize`], where nobody can be told of an error: the next call that returns one is told.
    pub(crate) fn quiesce(&self) {
        let fence = self.fence();
        // SAFETY: as in `synchronize`.
        unsafe {
            match (fence.closed, fence.event) {
                (false, _) => self.machine.quiesce_stream(self.raw),
                // The driver gives the error of a failed kernel to every later call.
                (true, Some(event)) => drop(self.machine.synchronize_event(event)),
                (true, None) => {}
            }
        }
    }

    /// Whether all work that the queue will ever be given is done. Waits for nothing; `false` also where an error hides it.
    pub(crate) fn is_over(&self) -> bool {
        // Acquire: whatever the stream was given came before it was dropped.
        if !self.ended.load(Ordering::Acquire) {
            return false;
        }
        let fence = self.fence();
        // SAFETY: as in `synchronize`.
        unsafe {
            match (fence.closed, fence.event) {
                (false, _) => self.owned && self.machine.is_stream_idle(self.raw),
                (true, Some(event)) => self.machine.is_event_reached(event),
                (true, None) => true,
            }
        }
    }

    /// The handle, for a copy in the queue's order, unless the queue is closed. A caller's stream has none: only
    /// under the lock is its handle known to live.
    pub(crate) fn open(&self) -> Option<RawStream> {
        self.owned.then_some(self.raw)
    }

    /// Ends the use of a caller's stream, whose handle may be destroyed after this.
    fn close(&self) {
        let mut fence = self.fence();
        if self.mark(&mut fence).is_err() {
            // Without an event to wait for, the work is waited for here. An error is that of earlier work, which
            // the caller's next call reports.
            // SAFETY: the caller of `Device::stream_from_raw` keeps the handle alive until now.
            let _ = unsafe { self.machine.synchronize_stream(self.raw) };
        }
        fence.closed = true;
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let fence = self.fence.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the stream, if it is our own, and the event were made by this machine, and go with the queue. The
        // driver lets work in flight finish.
        unsafe {
            if let Some(event) = fence.event {
                self.machine.destroy_event(event);
            }
            if self.owned {
                self.machine.destroy_stream(self.raw);
            }
        }
    }
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let queue = Queue::new(device, device.machine.create_stream()?, true);
        Ok(Self { device: device.clone(), queue, _keep: None })
    }

    pub(crate) fn foreign(device: &Device, raw: RawStream, keep: Option<Arc<dyn Any + Send + Sync>>) -> Result<Self> {
        // Only a GPU has streams of others.
        if device.kind() != DeviceKind::Cuda {
            return Self::new(device);
        }
        Ok(Self { device: device.clone(), queue: Queue::new(device, raw, false), _keep: keep })
    }

    /// The device on which the work runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The `CUstream`, for other libraries; null on the emulator and the host. It is valid for as long as the
    /// [`Stream`] is. What another library puts into it over a buffer's memory, Lanetree knows of if the address is
    /// taken by [`Buffer::lend_on`](crate::Buffer::lend_on) or [`Buffer::lend_mut_on`](crate::Buffer::lend_mut_on), and
    /// not otherwise.
    pub fn as_raw(&self) -> *mut c_void {
        if self.device.kind() == DeviceKind::Cuda { self.queue.raw.0 } else { null_mut() }
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.queue.raw
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Waits for all work put into the stream so far.
    ///
    /// # Errors
    /// [`Error::Cuda`](crate::Error::Cuda), among others the error of a kernel that failed meanwhile;
    /// [`Error::Emulator`](crate::Error::Emulator) for a rule that a kernel has broken, in whichever stream.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is one of this device, and lives.
        unsafe { self.device.machine.synchronize_stream(self.raw()) }
    }

    /// Lets later work in this stream wait for what `event` recorded last, in any stream of the same
    /// device. Returns at once. No wait for an event that has not been recorded.
    ///
    /// # Errors
    /// [`Error::WrongDevice`](crate::Error::WrongDevice).
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.check_same(event.device(), "letting a stream wait for an event")?;
        // SAFETY: both are of this device, and live.
        unsafe { self.device.machine.wait_event(self.raw(), event.raw()) }
    }

    /// As [`Stream::wait`], for a `CUevent` (or `cudaEvent_t`) of another library's. The event may be recorded again, or destroyed, once
    /// this has returned. The host and the emulator have none, and ignore it.
    ///
    /// # Errors
    /// [`Error::Cuda`](crate::Error::Cuda) from the driver.
    ///
    /// # Safety
    /// The handle is an event of the primary context of a GPU.
    pub unsafe fn wait_raw(&self, event: *mut c_void) -> Result<()> {
        if self.device.kind() != DeviceKind::Cuda {
            return Ok(());
        }
        // SAFETY: a live stream of this device; the caller vouches for the event.
        unsafe { self.device.machine.wait_event(self.raw(), RawEvent(event)) }?;
        self.queue.count_work();
        Ok(())
    }

    /// Lets later work in this stream come after all that `other` has been given, a stream of this device or of another one of the same
    /// kind. Returns at once.
    ///
    /// # Errors
    /// [`Error::WrongDevice`](crate::Error::WrongDevice) between devices of different kinds;
    /// [`Error::Cuda`](crate::Error::Cuda) from the driver.
    pub fn run_after(&self, other: &Self) -> Result<()> {
        if self.device.kind() != other.device.kind() {
            self.device.check_same(&other.device, "letting a stream wait for another")?;
        }
        self.queue.run_after(other.queue())?;
        // What it waits for now is new to the streams that come after it.
        self.queue.count_work();
        Ok(())
    }

    /// Lets later work in this stream come after all copies that `from`, a stream of another device of the same kind or of the same
    /// device, has been given by [`Buffer::copy_to_address`](crate::Buffer::copy_to_address), to memory of this stream's device
    /// around `to`. Returns at once.
    ///
    /// # Errors
    /// [`Error::Cuda`](crate::Error::Cuda) from the driver.
    ///
    /// # Safety
    /// `to` is in memory of this stream's device, which the stream may write.
    pub unsafe fn wait_for_copies<T>(&self, from: &Self, to: GlobalMut<T>) -> Result<()> {
        self.queue.run_after(from.queue())?;
        if self.device != from.device {
            // SAFETY: a live stream of this device.
            unsafe { self.device.machine.arrive(self.raw(), to.cast::<u8>().as_ptr())? };
        }
        self.queue.count_work();
        Ok(())
    }

    /// Copies bytes of this stream's device to memory of another of the same kind, or of the same one, in this stream's order.
    ///
    /// # Safety
    /// Both ranges are valid and disjoint, and nobody else uses them in a way that conflicts until the copy is done.
    pub(crate) unsafe fn copy_to_device(&self, to: &Device, from: Global<u8>, at: *mut u8, bytes: usize) -> Result<()> {
        let (own, peer) = (&self.device.machine, &to.machine);
        if to.kind() != self.device.kind() {
            let (expected, actual) = (self.device.to_string(), to.to_string());
            return Err(crate::Error::WrongDevice { action: "copying between devices", expected, actual });
        }
        // SAFETY: the caller's contract.
        unsafe {
            if *to == self.device {
                own.copy(crate::machine::Direction::Within, at, from.as_ptr(), bytes, Some(self.raw()))?;
            } else {
                own.copy_to_peer(&**peer, at, from.as_ptr(), bytes, self.raw())?;
            }
        }
        self.queue.count_work();
        Ok(())
    }

    /// Launches a kernel with `shape.blocks` blocks of `shape.threads` threads, and its static shared
    /// memory plus `shape.dynamic_shared` bytes for each block. Returns at once; an error inside the kernel
    /// comes out of a later call, at the latest of one that waits for the stream.
    ///
    /// # Errors
    /// [`Error::NoKernels`](crate::Error::NoKernels) on the host; [`Error::Launch`](crate::Error::Launch)
    /// for an impossible shape; [`Error::Unordered`](crate::Error::Unordered) on the emulator, over a buffer that
    /// another stream uses; the errors of [`Device::load_kernel`]; [`Error::Cuda`](crate::Error::Cuda).
    ///
    /// # Safety
    /// The kernel's own contract holds for these arguments and this shape. Its pointers come from
    /// [`Buffer::read_on`](crate::Buffer::read_on) and [`Buffer::write_on`](crate::Buffer::write_on), or from the same
    /// methods of [`HostArray`](crate::HostArray) and [`PinnedBuffer`](crate::PinnedBuffer), with this stream:
    /// `write_on` where the kernel writes. The memory has been borrowed since: so it is of this device, and nobody else
    /// uses it in a way that conflicts with the kernel. (When such a buffer is dropped after the launch, its memory
    /// outlives the kernel.)
    pub unsafe fn launch<I: Instance>(&self, shape: LaunchShape, args: &I::Args) -> Result<()> {
        // SAFETY: the same contract.
        unsafe { self.call(shape, Call::of::<I>(args)) }
    }

    /// [`Stream::launch`], of a kernel that was chosen before.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub unsafe fn call(&self, shape: LaunchShape, call: Call<'_>) -> Result<()> {
        // SAFETY: the stream is one of this device, and lives; the caller keeps the kernel's contract.
        unsafe { self.device.machine.launch(self.raw(), call, shape)? };
        self.queue.count_work();
        #[cfg(feature = "check")]
        recorded::record(call.entry().symbol());
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // If only this handle knows of the queue, no buffer will wait for it.
        if !self.queue.owned && Arc::strong_count(&self.queue) > 1 {
            self.queue.close();
        }
        self.queue.ended.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream[{}]", self.device)
    }
}

/// Blocks and threads in a stream, for a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    stream: &'a Stream,
    shape: LaunchShape,
}

impl<'a> Launch<'a> {
    /// A launch of blocks and threads of this shape, in this stream. Nothing runs before a call is given to it.
    pub const fn new(stream: &'a Stream, shape: LaunchShape) -> Self {
        Self { stream, shape }
    }

    /// The stream.
    pub const fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// Blocks and threads.
    pub const fn shape(&self) -> LaunchShape {
        self.shape
    }

    /// Launches a kernel. May return before it is done.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub unsafe fn run(self, call: Call<'_>) -> Result<()> {
        // SAFETY: the same contract.
        unsafe { self.stream.call(self.shape, call) }
    }
}
