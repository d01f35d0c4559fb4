//! Device memory, pinned host memory, and copies.

use super::sys::{
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP,
    CU_MEMHOSTREGISTER_PORTABLE, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CU_POINTER_ATTRIBUTE_CONTEXT,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, CUcontext,
};
use super::{Cuda, MemoryInfo};
use crate::driver_error::Action;
use crate::machine::{Direction, Machine, RawStream};
use crate::{Error, Result};
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};
use std::sync::PoisonError;

impl Cuda {
    pub(super) fn allocate(&self, bytes: usize, zeroed: bool) -> Result<NonNull<u8>> {
        self.enter()?;
        let mut at = 0;
        // SAFETY: the pointer is valid for the call.
        self.check(unsafe { self.driver.cuMemAlloc_v2(&raw mut at, bytes) }, || self.allocating(bytes))?;
        let start = NonNull::new(at as *mut u8).expect("the driver gives no null pointer");
        if !zeroed {
            return Ok(start);
        }
        // SAFETY: the memory is new, and so used by nobody else.
        let done = unsafe { self.zero_now(start.as_ptr(), bytes) };
        if done.is_err() {
            // SAFETY: allocated above, and given to nobody.
            unsafe { self.release(start) };
        }
        done.map(|()| start)
    }

    /// # Safety
    /// `at` comes from [`Cuda::allocate`] and is not reused by the caller.
    pub(super) unsafe fn release(&self, at: NonNull<u8>) {
        // Errors come from earlier work, and the caller's next call reports them; a drop cannot.
        let _ = self.enter();
        // SAFETY: the caller owns the memory; the call waits for work that still uses it.
        let _ = unsafe { self.driver.cuMemFree_v2(at.as_ptr().addr() as u64) };
    }

    pub(super) fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.enter()?;
        let mut at = null_mut();
        // SAFETY: the pointer is valid for the call. Portable: pinned for every GPU.
        self.check(unsafe { self.driver.cuMemHostAlloc(&raw mut at, bytes, CU_MEMHOSTALLOC_PORTABLE) }, || {
            let MemoryInfo { free, total } = crate::host_memory::memory();
            let device = format!("the host, page-locked for {},", self.label);
            Action::Allocate { requested: bytes as u128, free, total, device }
        })?;
        let start = NonNull::new(at.cast::<u8>()).expect("the driver gives no null pointer");
        // The driver says nothing of what is in it, and the owner lends it out as a slice.
        // SAFETY: `bytes` bytes of new memory.
        unsafe { start.write_bytes(0, bytes) };
        Ok(start)
    }

    /// # Safety
    /// `at` comes from [`Cuda::allocate_pinned`] and is not reused by the caller.
    pub(super) unsafe fn release_pinned(&self, at: NonNull<u8>) {
        let _ = self.enter();
        // SAFETY: the caller owns the memory.
        let _ = unsafe { self.driver.cuMemFreeHost(at.as_ptr().cast()) };
    }

    /// Page-locks host memory; gives the address that kernels read it at.
    ///
    /// # Safety
    /// As [`Machine::pin`].
    pub(super) unsafe fn page_lock(&self, at: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>> {
        self.enter()?;
        let pinning = || Action::Pin { bytes, device: self.description() };
        // Portable: page-locked for every GPU, as pinned buffers are. Not `CU_MEMHOSTREGISTER_READ_ONLY`: the CPU writes the
        // memory, so the flag gains nothing, and GPUs that do not support it refuse.
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the caller vouches for the range.
        self.check(unsafe { self.driver.cuMemHostRegister_v2(at.as_ptr().cast(), bytes, flags) }, pinning)?;
        let mut device_at = 0;
        // Some GPUs reach such memory by an address of their own only.
        // SAFETY: the pointer is valid for the call; the memory was registered above.
        let code = unsafe { self.driver.cuMemHostGetDevicePointer_v2(&raw mut device_at, at.as_ptr().cast(), 0) };
        if let Err(error) = self.check(code, pinning) {
            // SAFETY: registered above, and no work knows of it.
            unsafe { self.page_unlock(at) };
            return Err(error);
        }
        Ok(NonNull::new(device_at as *mut u8).expect("the driver gives no null pointer"))
    }

    /// # Safety
    /// `at` was given to [`Cuda::page_lock`], and no work uses the memory any more.
    pub(super) unsafe fn page_unlock(&self, at: NonNull<u8>) {
        // Errors come from earlier work, and the caller's next call reports them; a drop cannot.
        let _ = self.enter();
        // SAFETY: the caller's contract.
        let _ = unsafe { self.driver.cuMemHostUnregister(at.as_ptr().cast()) };
    }

    /// # Safety
    /// As [`Machine::copy`].
    pub(super) unsafe fn copy_bytes(
        &self,
        direction: Direction,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        stream: Option<RawStream>,
    ) -> Result<()> {
        self.enter()?;
        let queue = stream.unwrap_or(self.copies);
        let raw = queue.0.cast();
        let (device_to, device_from) = (to.addr() as u64, from.addr() as u64);
        // SAFETY: the caller vouches for both ranges and the stream; device addresses are numbers.
        let code = unsafe {
            match direction {
                Direction::ToDevice => self.driver.cuMemcpyHtoDAsync_v2(device_to, from.cast(), bytes, raw),
                Direction::ToHost => self.driver.cuMemcpyDtoHAsync_v2(to.cast(), device_from, bytes, raw),
                Direction::Within => self.driver.cuMemcpyDtoDAsync_v2(device_to, device_from, bytes, raw),
            }
        };
        self.check(code, || {
            self.doing(&match direction {
                Direction::ToDevice => format!("copying {bytes} bytes to"),
                Direction::ToHost => format!("copying {bytes} bytes from"),
                Direction::Within => format!("copying {bytes} bytes within"),
            })
        })?;
        match stream {
            Some(_) => Ok(()),
            // SAFETY: our own stream.
            None => unsafe { self.synchronize_stream(queue) },
        }
    }

    /// Copies to another GPU's memory, in the order of a stream of this one.
    ///
    /// # Safety
    /// As [`Machine::copy_to_peer`].
    pub(super) unsafe fn copy_bytes_to(
        &self,
        peer: &Self,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        stream: RawStream,
    ) -> Result<()> {
        self.open_way_to(peer);
        self.enter()?;
        let (to_context, from_context) = (peer.primary.context(), self.primary.context());
        let (to, from) = (to.addr() as u64, from.addr() as u64);
        // SAFETY: the caller vouches for both ranges and the stream; device addresses are numbers.
        let code = unsafe { self.driver.cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream.0.cast()) };
        self.check(code, || self.doing(&format!("copying {bytes} bytes to {} from", peer.description())))
    }

    /// Enables peer access to a GPU and back, once. Whether both have it: without, the driver takes copies through host memory.
    pub(super) fn open_way_to(&self, peer: &Self) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&has_access) = peers.get(&peer.primary.device()) {
            return has_access;
        }
        let mut has_access = true;
        for (one, other) in [(self, peer), (peer, self)] {
            let mut can = 0;
            // SAFETY: the pointer is valid for the call; both are GPUs that the driver gave. Enabling asks that this context is
            // current. Its errors do no harm: it may be enabled already, or the driver has no more room for peers.
            unsafe {
                let code =
                    self.driver.cuDeviceCanAccessPeer(&raw mut can, one.primary.device(), other.primary.device());
                has_access &= code == 0 && can != 0 && one.enter().is_ok() && {
                    let code = self.driver.cuCtxEnablePeerAccess(other.primary.context(), 0);
                    code == 0 || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                };
            }
        }
        peers.insert(peer.primary.device(), has_access);
        has_access
    }

    /// Whether kernels of this GPU can use the memory at an address of its own, or of a GPU to which it has peer access. That access
    /// is to memory of `cuMemAlloc`; a pool of the driver's and mapped memory are for the GPUs that their owner has named.
    pub(super) fn has_access(&self, at: *const u8) -> bool {
        let (mut is_plain, mut flags) = (0_u64, 0_u64);
        let get = |value: *mut c_void, attribute| {
            // SAFETY: the value is no narrower than the attribute, and valid for the call; the address is only a number.
            unsafe { self.driver.cuPointerGetAttribute(value, attribute, at.addr() as u64) == 0 }
        };
        self.enter().is_ok()
            && (get((&raw mut is_plain).cast(), CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) && is_plain != 0
                || get((&raw mut flags).cast(), CU_POINTER_ATTRIBUTE_ACCESS_FLAGS)
                    && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    }

    /// An error unless the driver knows the address as one of this GPU, and of its primary context. (Memory of a pool of
    /// the driver's, `cuMemAllocAsync`, has no context.)
    pub(super) fn check_reach(&self, at: NonNull<u8>) -> Result<()> {
        self.enter()?;
        let address = at.addr().get();
        let looking = || self.doing(&format!("looking for the memory at {address:#x} on"));
        let (mut ordinal, mut context): (c_int, CUcontext) = (-1, null_mut());
        let get = |value: *mut c_void, attribute| {
            // SAFETY: the value is of the attribute's type, and valid for the call; the address is only a number.
            let code = unsafe { self.driver.cuPointerGetAttribute(value, attribute, address as u64) };
            self.check(code, looking)
        };
        get((&raw mut ordinal).cast(), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)?;
        get((&raw mut context).cast(), CU_POINTER_ATTRIBUTE_CONTEXT)?;
        let actual = if ordinal != self.primary.device() {
            format!("cuda:{ordinal}")
        } else if !context.is_null() && context != self.primary.context() {
            format!("another context of {}", self.label)
        } else {
            return Ok(());
        };
        Err(Error::WrongDevice { action: "making memory a buffer", expected: self.description(), actual })
    }

    fn allocating(&self, bytes: usize) -> Action {
        let MemoryInfo { free, total } = self.memory().unwrap_or_default();
        Action::Allocate { requested: bytes as u128, free, total, device: self.description() }
    }
}
